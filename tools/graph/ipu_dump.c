/* `ipu dump`: reads a graph or model in text form, optionally checks it, and prints it canonically or in
 * summary. */
#include <stdio.h>
#include <stdlib.h>

#include "graph/dump_model.h"
#include "ipu/engine.h"
#include "graph/kernels.h"
#include "output.h"

typedef struct summary {
    const char *chip;
    int64_t     n_ipus, replication, n_tiles, n_variables, n_compute_sets, n_vertices, n_programs;
    int64_t bytes, bytes_per_tile, n_tiles_used, fullest_tile, fullest_bytes; /* of one replica's variables */
} summary;

/* Adds the bytes of `t` to the tiles it is mapped to. */
static tool_exit add_tensor(ipu_graph *g, ipu_tensor t, int64_t *bytes_on)
{
    ipu_tile_interval *map;
    size_t             n;
    if (ipu_graph_tile_mapping(g, t, &map, &n) != IPU_OK) return tool_fail("%s", ipu_message());
    int64_t bytes = (int64_t)ipu_type_size(ipu_tensor_type(t));
    for (size_t i = 0; i < n; i++)
        if (map[i].tile >= 0) bytes_on[map[i].tile] += (map[i].end - map[i].begin) * bytes;
    ipu_free(map);
    return TOOL_OK;
}

/* Memory of the variables, in all and on the fullest tile. */
static tool_exit summarise_memory(ipu_graph *g, summary *s)
{
    int64_t *bytes_on = calloc((size_t)s->n_tiles, sizeof *bytes_on);
    if (!bytes_on) return tool_fail("out of memory");
    tool_exit code = TOOL_OK;
    for (int64_t i = 0; i < s->n_variables && code == TOOL_OK; i++) {
        ipu_tensor t = ipu_graph_variable_at(g, i);
        s->bytes += ipu_tensor_n_elements(t) * (int64_t)ipu_type_size(ipu_tensor_type(t));
        code = add_tensor(g, t, bytes_on);
    }
    for (int64_t tile = 0; tile < s->n_tiles && code == TOOL_OK; tile++) {
        if (bytes_on[tile] > 0) s->n_tiles_used++;
        if (bytes_on[tile] <= s->fullest_bytes) continue;
        s->fullest_tile  = tile;
        s->fullest_bytes = bytes_on[tile];
    }
    free(bytes_on);
    return code;
}

static tool_exit summarise(const ipu_parsed *p, summary *out)
{
    const ipu_graph  *g = p->graph;
    const ipu_target *t = ipu_graph_target(g);
    *out                = (summary){
                       .bytes_per_tile = ipu_target_bytes_per_tile(t),
                       .chip           = ipu_target_chip_name(t),
                       .n_ipus         = t->n_ipus,
                       .replication    = ipu_graph_replication(g),
                       .n_tiles        = ipu_graph_n_tiles(g),
                       .n_variables    = ipu_graph_n_variables(g),
                       .n_compute_sets = ipu_graph_n_compute_sets(g),
                       .n_vertices     = ipu_graph_n_vertices(g),
                       .n_programs     = (int64_t)p->n_programs,
    };
    return summarise_memory(p->graph, out);
}

static void print_summary(FILE *out, const summary *s)
{
    fprintf(out, "target        %s, %lld IPU%s\n", s->chip, (long long)s->n_ipus, s->n_ipus == 1 ? "" : "s");
    fprintf(out, "replicas      %lld, of %lld tiles each\n", (long long)s->replication,
            (long long)s->n_tiles);
    char bytes[32], fullest[32], room[32];
    tool_format((double)s->bytes, "B", bytes, sizeof bytes);
    tool_format((double)s->fullest_bytes, "B", fullest, sizeof fullest);
    tool_format((double)s->bytes_per_tile, "B", room, sizeof room);
    fprintf(out, "variables     %lld: %s, on %lld tiles\n", (long long)s->n_variables, bytes,
            (long long)s->n_tiles_used);
    fprintf(out, "fullest tile  %lld: %s of %s\n", (long long)s->fullest_tile, fullest, room);
    fprintf(out, "compute sets  %lld\n", (long long)s->n_compute_sets);
    fprintf(out, "vertices      %lld\n", (long long)s->n_vertices);
    fprintf(out, "programs      %lld\n", (long long)s->n_programs);
}

static json_t *json_summary(const summary *s)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "target", s->chip,
                     "ipus", (json_int_t)s->n_ipus, "replication", (json_int_t)s->replication, "tiles",
                     (json_int_t)s->n_tiles, "variables", (json_int_t)s->n_variables, "compute_sets",
                     (json_int_t)s->n_compute_sets, "vertices", (json_int_t)s->n_vertices, "programs",
                     (json_int_t)s->n_programs, "bytes", (json_int_t)s->bytes, "bytes_per_tile",
                     (json_int_t)s->bytes_per_tile, "tiles_used", (json_int_t)s->n_tiles_used, "fullest_tile",
                     (json_int_t)s->fullest_tile, "fullest_tile_bytes", (json_int_t)s->fullest_bytes);
}

static tool_exit write_result(const tool_arguments *args, const ipu_parsed *p, FILE *out)
{
    const char *const *values = args->values;
    if (values[DUMP_JSON] || values[DUMP_SUMMARY]) {
        summary   s;
        tool_exit code = summarise(p, &s);
        if (code != TOOL_OK) return code;
        if (values[DUMP_JSON]) return tool_print_json(out, json_summary(&s));
        print_summary(out, &s);
        return TOOL_OK;
    }
    unsigned flags = values[DUMP_LOCATIONS] ? IPU_PRINT_LOCATIONS : 0;
    char    *text;
    if (ipu_graph_print(p->graph, p->programs, p->n_programs, flags, values[DUMP_SIDE_OUT], &text) != IPU_OK)
        return tool_fail("%s", ipu_message());
    fputs(text, out);
    ipu_free(text);
    return TOOL_OK;
}

static tool_exit dump(const tool_arguments *args, const ipu_parsed *p)
{
    if (args->values[DUMP_CHECK] && ipu_graph_check(p->graph, p->programs, p->n_programs) != IPU_OK)
        return tool_fail("%s", ipu_message());
    tool_output out;
    tool_exit   code = tool_open(&out, args->values[DUMP_OUTPUT]);
    if (code != TOOL_OK) return code;
    return tool_close(&out, write_result(args, p, out.file));
}

/* For a model as compilation leaves it: layouts apply to what actually runs. */
static tool_exit dump_layouts(const tool_arguments *args, tool_source *source)
{
    tool_exit code = source->model ? tool_source_lower(source, "gc200", IPU_PASS_ALL) : TOOL_OK;
    if (code != TOOL_OK) return code;
    return kernels_write(&source->parsed, args->values[DUMP_OUTPUT], args->values[DUMP_JSON] != NULL);
}

tool_exit run_dump(const tool_arguments *args)
{
    const char *path = args->operands[0];
    bool        sums = args->values[DUMP_SUMMARY] || args->values[DUMP_JSON];
    if (sums && (args->values[DUMP_LOCATIONS] || args->values[DUMP_SIDE_OUT]))
        return tool_usage("dump", "--locations and --side-out need the text printed, not its summary");
    if (args->values[DUMP_LAYOUTS]
        && (args->values[DUMP_SUMMARY] || args->values[DUMP_LOCATIONS] || args->values[DUMP_SIDE_OUT]))
        return tool_usage("dump", "--layouts stands in place of the text and of its summary");
    tool_source source;
    tool_exit   code = tool_source_read(&source, path, args->values[DUMP_SIDE]);
    if (code != TOOL_OK) return code;
    if (!source.model && args->values[DUMP_OPTIMISE])
        code = tool_fail("%s holds a graph: --optimise is for models", path);
    else if (args->values[DUMP_LAYOUTS])
        code = dump_layouts(args, &source);
    else if (source.model)
        code = dump_model(args, source.model);
    else
        code = dump(args, &source.parsed);
    tool_source_free(&source);
    return code;
}

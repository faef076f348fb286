/* `ipu profile`: what the programs of a graph, or one run of a model, would cost on its target. */
#include "ipu/profile.h"
#include "graph/kernels.h"
#include "output.h"
#include "graph/source.h"

static tool_exit write_cost(const tool_arguments *args, const ipu_cost *cost)
{
    unsigned flags = (args->values[PROFILE_STEPS] ? IPU_PROFILE_STEPS : 0)
                   | (args->values[PROFILE_TILES] ? IPU_PROFILE_TILES : 0);
    char      *text;
    ipu_status status = args->values[PROFILE_JSON] ? ipu_cost_json(cost, flags, &text)
                                                   : ipu_cost_print(cost, flags, &text);
    if (status != IPU_OK) return tool_fail("%s", ipu_message());
    tool_output out;
    tool_exit   code = tool_open(&out, args->values[PROFILE_OUTPUT]);
    if (code == TOOL_OK) {
        fputs(text, out.file);
        if (args->values[PROFILE_JSON]) fputc('\n', out.file);
        code = tool_close(&out, TOOL_OK);
    }
    ipu_free(text);
    return code;
}

/* A report is written even if a tile is over-full. */
static tool_exit profile(const tool_arguments *args, const ipu_parsed *p, const ipu_cost_options *options)
{
    ipu_cost  *cost;
    ipu_status status = ipu_cost_estimate(p->graph, p->programs, p->n_programs, options, &cost);
    tool_exit  code   = status == IPU_OK ? TOOL_OK : tool_fail("%s", ipu_message());
    if (!cost) return code;
    tool_exit written = write_cost(args, cost);
    ipu_cost_destroy(cost);
    return written == TOOL_OK ? code : written;
}

/* ---- how this host would run it ---- */

tool_exit run_profile(const tool_arguments *args)
{
    const char      *path = args->operands[0], *count = args->values[PROFILE_WHILE_COUNT];
    ipu_cost_options options = {.strict = args->values[PROFILE_STRICT] != NULL};
    const char      *target  = args->values[PROFILE_TARGET];
    if (count && !tool_integer("while-count", count, 1, INT64_MAX, &options.while_count)) return TOOL_USAGE;
    if (args->values[PROFILE_HOST]
        && (args->values[PROFILE_TILES] || args->values[PROFILE_STEPS] || args->values[PROFILE_STRICT]
            || count))
        return tool_usage("profile",
                          "--host prices nothing: without --steps, --tiles, --strict and --while-count");
    if (args->values[PROFILE_TILES] && !args->values[PROFILE_JSON])
        return tool_usage("profile", "--tiles needs --json");
    tool_source source;
    tool_exit   code = tool_source_read(&source, path, args->values[PROFILE_SIDE]);
    if (code != TOOL_OK) return code;
    if (source.model)
        code = tool_source_lower(&source, target ? target : "gc200",
                                 args->values[PROFILE_HOST] ? IPU_PASS_ALL : IPU_PASS_CHIP);
    else if (target)
        code = tool_fail("%s holds a graph, which names its target: --target is for models", path);
    if (code == TOOL_OK && args->values[PROFILE_HOST])
        code = kernels_write(&source.parsed, args->values[PROFILE_OUTPUT],
                             args->values[PROFILE_JSON] != NULL);
    else if (code == TOOL_OK)
        code = profile(args, &source.parsed, &options);
    tool_source_free(&source);
    return code;
}

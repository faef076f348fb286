/* `ipu profile`: what the programs of a graph in text form would cost on its target. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "ipu/profile.h"
#include "ipu/text.h"
#include "output.h"

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

/* A report is written for a tile that is over-full, too. */
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

tool_exit run_profile(const tool_arguments *args)
{
    const char      *path = args->operands[0], *count = args->values[PROFILE_WHILE_COUNT];
    ipu_cost_options options = {.strict = args->values[PROFILE_STRICT] != NULL};
    size_t           bytes;
    if (count && !tool_integer("while-count", count, 1, INT64_MAX, &options.while_count)) return TOOL_USAGE;
    if (args->values[PROFILE_TILES] && !args->values[PROFILE_JSON])
        return tool_usage("profile", "--tiles needs --json");
    char *text = tool_read(path, &bytes);
    if (!text) return TOOL_FAILED;
    ipu_parsed parsed;
    ipu_status status = ipu_graph_parse(text, bytes, strcmp(path, "-") ? path : "standard input", NULL, 0,
                                        args->values[PROFILE_SIDE], &parsed);
    free(text);
    if (status != IPU_OK) return tool_fail("%s", ipu_message());
    tool_exit code = profile(args, &parsed, &options);
    ipu_graph_destroy(parsed.graph);
    return code;
}

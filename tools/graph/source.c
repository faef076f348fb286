/* Reads text that is a graph or a model, and lowers models to graphs. */
#include "graph/source.h"

#include <stdlib.h>
#include <string.h>

#include "output.h"

/* Whether the first word, ignoring comments, is "model". */
static bool is_model(const char *text)
{
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (*text != '#') break;
        text += strcspn(text, "\n");
    }
    return strncmp(text, "model", 5) == 0 && strcspn(text, " \t\r\n{#") == 5;
}

tool_exit tool_source_read(tool_source *s, const char *path, const char *side)
{
    size_t bytes;
    *s         = (tool_source){0};
    char *text = tool_read(path, &bytes);
    if (!text) return TOOL_FAILED;
    const char *name   = strcmp(path, "-") ? path : "standard input";
    ipu_status  status = is_model(text) ? ipu_model_parse(text, bytes, name, side, &s->model)
                                        : ipu_graph_parse(text, bytes, name, NULL, 0, side, &s->parsed);
    free(text);
    return status == IPU_OK ? TOOL_OK : tool_fail("%s", ipu_message());
}

tool_exit tool_source_lower(tool_source *s, const char *target, unsigned passes)
{
    ipu_target found;
    ipu_graph *g;
    if (ipu_target_find(target, 0, &found) != IPU_OK || ipu_model_optimise(s->model, passes) != IPU_OK
        || ipu_graph_create(&found, 1, &g) != IPU_OK)
        return tool_fail("%s", ipu_message());
    s->parsed = (ipu_parsed){.graph = g};
    if (ipu_model_lower(s->model, g, &s->run) != IPU_OK) return tool_fail("%s", ipu_message());
    s->parsed.programs   = &s->run;
    s->parsed.n_programs = 1;
    return TOOL_OK;
}

void tool_source_free(tool_source *s)
{
    ipu_graph_destroy(s->parsed.graph);
    ipu_model_destroy(s->model);
}

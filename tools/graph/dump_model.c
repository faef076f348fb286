/* `ipu dump` of a model: printed as is or after the passes, summarised, or checked. */
#include "graph/dump_model.h"

#include <stdio.h>

#include "output.h"

typedef struct summary {
    int64_t n_inputs, n_parameters, n_elements, bytes, n_ops, n_outputs;
} summary;

static summary summarise(ipu_model *m)
{
    summary s = {.n_inputs     = (int64_t)ipu_model_n_inputs(m),
                 .n_parameters = (int64_t)ipu_model_n_parameters(m),
                 .n_ops        = (int64_t)ipu_model_n_ops(m),
                 .n_outputs    = (int64_t)ipu_model_n_outputs(m)};
    for (size_t i = 0; i < ipu_model_n_parameters(m); i++) {
        ipu_value v = ipu_model_parameter_at(m, i);
        int64_t   n = ipu_value_n_elements(v);
        s.n_elements += n;
        s.bytes += n * (int64_t)ipu_type_size(ipu_value_type(v));
    }
    return s;
}

static void print_summary(FILE *out, const summary *s)
{
    char bytes[32];
    tool_format((double)s->bytes, "B", bytes, sizeof bytes);
    fprintf(out, "inputs      %lld\n", (long long)s->n_inputs);
    fprintf(out, "parameters  %lld: %lld elements, %s\n", (long long)s->n_parameters,
            (long long)s->n_elements, bytes);
    fprintf(out, "ops         %lld\n", (long long)s->n_ops);
    fprintf(out, "outputs     %lld\n", (long long)s->n_outputs);
}

static json_t *json_summary(const summary *s)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "inputs", (json_int_t)s->n_inputs, "parameters",
                     (json_int_t)s->n_parameters, "elements", (json_int_t)s->n_elements, "bytes",
                     (json_int_t)s->bytes, "ops", (json_int_t)s->n_ops, "outputs", (json_int_t)s->n_outputs);
}

static tool_exit write_model(const tool_arguments *args, ipu_model *m, FILE *out)
{
    const char *const *values = args->values;
    if (values[DUMP_JSON] || values[DUMP_SUMMARY]) {
        summary s = summarise(m);
        if (values[DUMP_JSON]) return tool_print_json(out, json_summary(&s));
        print_summary(out, &s);
        return TOOL_OK;
    }
    char *text;
    if (ipu_model_print(m, values[DUMP_LOCATIONS] ? IPU_PRINT_LOCATIONS : 0, values[DUMP_SIDE_OUT], &text)
        != IPU_OK)
        return tool_fail("%s", ipu_message());
    fputs(text, out);
    ipu_free(text);
    return TOOL_OK;
}

/* Lowers for some chip; which one does not matter to the errors it finds. */
static tool_exit check(ipu_model *m)
{
    ipu_target  target;
    ipu_graph  *g;
    ipu_program run;
    if (ipu_target_find("gc200", 1, &target) != IPU_OK || ipu_graph_create(&target, 1, &g) != IPU_OK)
        return tool_fail("%s", ipu_message());
    ipu_status status = ipu_model_lower(m, g, &run);
    if (status == IPU_OK) status = ipu_graph_check(g, &run, 1);
    tool_exit code = status == IPU_OK ? TOOL_OK : tool_fail("%s", ipu_message());
    ipu_graph_destroy(g);
    return code;
}

tool_exit dump_model(const tool_arguments *args, ipu_model *m)
{
    tool_exit code = args->values[DUMP_CHECK] ? check(m) : TOOL_OK;
    if (code != TOOL_OK) return code;
    if (args->values[DUMP_OPTIMISE] && ipu_model_optimise(m, IPU_PASS_ALL) != IPU_OK)
        return tool_fail("%s", ipu_message());
    tool_output out;
    code = tool_open(&out, args->values[DUMP_OUTPUT]);
    if (code != TOOL_OK) return code;
    return tool_close(&out, write_model(args, m, out.file));
}

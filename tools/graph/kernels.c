/* An engine's kernels, one per line, and totals. */
#include "graph/kernels.h"

#include "output.h"

/* ---- text ---- */

/* "x:plain w:plain out:lanes" */
static void print_operands(FILE *out, const ipu_engine *e, size_t i, const ipu_engine_kernel *kernel)
{
    ipu_engine_operand o;
    for (int k = 0; k < kernel->n_operands && ipu_engine_operand_at(e, i, k, &o); k++)
        if (!o.is_absent) fprintf(out, " %s:%s", o.name, o.layout);
    fputc('\n', out);
}

void kernels_print(FILE *out, const ipu_engine *e)
{
    ipu_engine_kernel kernel;
    double            turned = 0;
    size_t            n      = 0;
    char              bytes[32];
    fprintf(out, "%-22s %-14s %7s %7s %12s %10s  %s\n", "kernel", "implementation", "threads", "chunks",
            "operations", "turned", "operands");
    for (; ipu_engine_kernel_at(e, n, &kernel); n++) {
        tool_format(kernel.turned_bytes, "B", bytes, sizeof bytes);
        fprintf(out, "%-22s %-14s %7d %7lld %12.0f %10s ", kernel.name, kernel.implementation, kernel.n_parts,
                (long long)kernel.n_chunks, kernel.operations, bytes);
        print_operands(out, e, n, &kernel);
        turned += kernel.turned_bytes;
    }
    tool_format(turned, "B", bytes, sizeof bytes);
    fprintf(out, "%zu kernels, %s turned\n", n, bytes);
}

/* ---- JSON ---- */

static json_t *json_operands(const ipu_engine *e, size_t i, int n)
{
    ipu_engine_operand o;
    json_t            *list   = json_array();
    bool               failed = !list;
    for (int k = 0; k < n && ipu_engine_operand_at(e, i, k, &o); k++)
        if (!o.is_absent)
            failed |= json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:s, s:b}", "name", o.name,
                                                            "type", ipu_type_name(o.type), "shape",
                                                            tool_json_shape(&o.shape), "layout", o.layout,
                                                            "output", (int)o.is_output))
                   != 0;
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

json_t *kernels_json(const ipu_engine *e)
{
    ipu_engine_kernel kernel;
    json_t           *list   = json_array();
    bool              failed = !list;
    double            turned = 0;
    for (size_t i = 0; ipu_engine_kernel_at(e, i, &kernel); i++) {
        json_t *one = json_pack("{s:s, s:s, s:i, s:I, s:o, s:o, s:o}", "name", kernel.name, "implementation",
                                kernel.implementation, "threads", kernel.n_parts, "chunks",
                                (json_int_t)kernel.n_chunks, "operations",
                                tool_json_number(kernel.operations), "turned_bytes",
                                tool_json_number(kernel.turned_bytes), "operands",
                                json_operands(e, i, kernel.n_operands));
        failed |= json_array_append_new(list, one) != 0;
        turned += kernel.turned_bytes;
    }
    if (!failed) return json_pack("{s:o, s:o}", "kernels", list, "turned_bytes", tool_json_number(turned));
    json_decref(list);
    return NULL;
}

/* ---- of programs ---- */

static ipu_status make_engine(const ipu_parsed *p, ipu_engine **out)
{
    ipu_options    *options = NULL;
    ipu_executable *exe     = NULL;
    ipu_status      status  = ipu_options_create(&options);
    if (status == IPU_OK) status = ipu_options_set(options, "device.attach", "never");
    if (status == IPU_OK)
        status = ipu_executable_compile(p->graph, p->programs, p->n_programs, options, &exe);
    if (status == IPU_OK) status = ipu_engine_create(exe, options, out);
    if (exe) ipu_executable_release(exe);
    ipu_options_destroy(options);
    return status;
}

tool_exit kernels_write(const ipu_parsed *p, const char *output, bool json)
{
    ipu_engine *e = NULL;
    tool_output out;
    if (make_engine(p, &e) != IPU_OK) return tool_fail("%s", ipu_message());
    tool_exit code = tool_open(&out, output);
    if (code == TOOL_OK) {
        if (json)
            code = tool_print_json(out.file, kernels_json(e));
        else
            kernels_print(out.file, e);
        code = tool_close(&out, code);
    }
    ipu_engine_destroy(e);
    return code;
}

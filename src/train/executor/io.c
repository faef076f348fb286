/* Arrays of an executor's runs: its inputs as its module names them, and what is told of outputs and times. */
#include <inttypes.h>
#include <string.h>

#include "graph/graph.h"
#include "op/op.h"
#include "train/executor/executor.h"

ipu_output_mode ipu__executor_output_mode(const ipu_executor *x)
{
    if (x->options.output_mode != IPU_OUTPUT_DEFAULT) return x->options.output_mode;
    return x->training ? IPU_OUTPUT_FINAL : IPU_OUTPUT_ALL;
}

/* ---- inputs ---- */

/* Whether input `i` of `n` has a batch for each replica, also where groups of them share the others. */
static bool is_own(const ipu_executor *x, size_t i, size_t n)
{
    return i + (size_t)x->options.n_own_inputs >= n;
}

static ipu_status port_of(const ipu_executor *x, const ipu_array *in, size_t i, size_t n, ipu__port *out)
{
    char         buffer[32];
    ipu__batches batches = x->batches;
    if (is_own(x, i, n)) batches.group_size = 1;
    return ipu__batches_port(&batches, &in[i], ipu__module_input_name(x->module, i, buffer), out);
}

ipu_status ipu__executor_ask(ipu_executor *x, const ipu_array *in, size_t n)
{
    ipu__port port;
    x->asked.list.n = 0;
    if (!ipu__reserve(&x->asked.list, n)) return ipu__fail_memory();
    for (size_t i = 0; i < n; i++) {
        IPU_TRY(port_of(x, in, i, n, &port));
        x->asked.list.at[x->asked.list.n++] = (ipu__argument){.type = port.type, .shape = port.shape};
    }
    return IPU_OK;
}

ipu_status ipu__executor_make_inputs(ipu__executor_program *p, const ipu_array *in, size_t n)
{
    ipu__streams *s = &p->streams;
    for (size_t i = 0; i < n; i++) {
        char      buffer[32];
        ipu__port port;
        IPU_TRY(port_of(p->x, in, i, n, &port));
        IPU_TRY(ipu__streams_add_input(s, ipu__module_input_name(p->x->module, i, buffer), &port, in[i].type,
                                       is_own(p->x, i, n)));
        if (!ipu__push(&p->over.inputs, (ipu__parallel_input){s->inputs.at[i].stream}))
            return ipu__fail_memory();
    }
    return IPU_OK;
}

ipu_status ipu__executor_fail_other_inputs(const ipu__executor_program *p, const ipu_array *in, size_t n)
{
    if (n != p->streams.inputs.n)
        return ipu__fail(IPU_INVALID,
                         "Number of positional arguments mismatch: it was compiled for %zu arrays, found %zu",
                         p->streams.inputs.n, n);
    for (size_t i = 0; i < n; i++) {
        const ipu__stream_in *own = &p->streams.inputs.at[i];
        ipu__port             port;
        IPU_TRY(port_of(p->x, in, i, n, &port));
        if (port.type != own->port.type)
            return ipu__fail(IPU_INVALID, "Data type mismatch for %s: it was compiled for %s, found %s",
                             own->name, ipu_type_name(own->port.type), ipu_type_name(in[i].type));
        if (!ipu__shape_equal(&port.shape, &own->port.shape))
            return ipu__fail(IPU_INVALID,
                             "Shape mismatch for %s: it was compiled for batches of %s, found %s", own->name,
                             ipu__shape_str(&own->port.shape), ipu__shape_str(&port.shape));
    }
    return IPU_OK;
}

/* ---- outputs ---- */

ipu_status ipu__executor_make_outputs(ipu__executor_program *p, const ipu__parallel_models *models)
{
    ipu__streams *s = &p->streams;
    for (size_t i = 0; i < ipu_model_n_outputs(models->net); i++) {
        const char     *name;
        ipu_value       v    = ipu_model_output_at(models->net, i, &name);
        const ipu__port port = {ipu_value_type(v), ipu_value_shape(v)};
        IPU_TRY(ipu__streams_add_output(s, name, &port, ipu__parallel_free_name(models, "sum:", name)));
        const ipu__stream_out *out = &s->outputs.at[i];
        if (!ipu__push(&p->over.outputs, (ipu__parallel_output){out->name, out->stream, out->sum}))
            return ipu__fail_memory();
    }
    return IPU_OK;
}

ipu_status ipu_executor_place_output(ipu_executor *x, size_t i, void *data)
{
    size_t n = ipu_executor_n_outputs(x);
    if (i >= n)
        return ipu__fail(IPU_INVALID, "executor: output %zu is placed, but there are %zu%s", i, n,
                         n ? "" : ": compile first");
    ipu__stream_out *out = &x->p->streams.outputs.at[i];
    out->array.data      = data ? data : out->own;
    return IPU_OK;
}

/* ---- times ---- */

void ipu_executor_keep_times(ipu_executor *x, bool keep) { x->keeps_times = keep; }

const ipu_executor_time *ipu_executor_input_times(const ipu_executor *x, size_t i, size_t *n)
{
    const ipu__streams *s = x->p ? &x->p->streams : NULL;
    *n = s && i < s->inputs.n && s->inputs.at[i].times ? (size_t)ipu__streams_n_in(s, i) : 0;
    return *n ? s->inputs.at[i].times : NULL;
}

const ipu_executor_time *ipu_executor_output_times(const ipu_executor *x, size_t i, size_t *n)
{
    const ipu__streams *s = x->p ? &x->p->streams : NULL;
    *n = s && i < s->outputs.n && s->outputs.at[i].times ? (size_t)ipu__batches_out(&x->batches) : 0;
    return *n ? s->outputs.at[i].times : NULL;
}

/* What goes into a run and comes out of it: arrays of the caller's cut into batches, streams put together again.
 *
 * Batch i of an array goes to the replicas of group i modulo their number; outputs come in the same order, replicas
 * innermost.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "data/array.h"
#include "graph/graph.h"
#include "train/executor.h"

static char *text_of(const char *prefix, const char *name)
{
    ipu__text t = {0};
    ipu__text_add(&t, "%s%s", prefix, name);
    return ipu__text_take(&t);
}

/* ---- times ---- */

static double begin_of(const ipu_executor_time *times) { return times ? ipu__clock_seconds() : 0; }

/* Of batch `batch`, which began at `begin`. */
static void note(ipu_executor_time *times, int64_t batch, double begin)
{
    if (times) times[batch] = (ipu_executor_time){begin, ipu__clock_seconds()};
}

static ipu_status make_times(const ipu__executor_program *p, ipu_executor_time **times, int64_t n)
{
    if (p->x->keeps_times && !*times) {
        *times = ipu__alloc((size_t)n * sizeof **times);
        if (!*times) return ipu__fail_memory();
    }
    if (p->x->keeps_times) memset(*times, 0, (size_t)n * sizeof **times);
    if (p->x->keeps_times) return IPU_OK;
    ipu__free(*times);
    *times = NULL;
    return IPU_OK;
}

ipu_status ipu__executor_begin_times(ipu__executor_program *p)
{
    for (size_t i = 0; i < p->inputs.n; i++) IPU_TRY(make_times(p, &p->inputs.at[i].times, p->x->n_batches));
    for (size_t i = 0; i < p->outputs.n; i++)
        IPU_TRY(make_times(p, &p->outputs.at[i].times, ipu__executor_outputs_per_run(p->x)));
    return IPU_OK;
}

void ipu_executor_keep_times(ipu_executor *x, bool keep) { x->keeps_times = keep; }

const ipu_executor_time *ipu_executor_input_times(const ipu_executor *x, size_t i, size_t *n)
{
    const ipu__executor_program *p = x->p;
    *n                             = p && i < p->inputs.n && p->inputs.at[i].times ? (size_t)x->n_batches : 0;
    return *n ? p->inputs.at[i].times : NULL;
}

const ipu_executor_time *ipu_executor_output_times(const ipu_executor *x, size_t i, size_t *n)
{
    const ipu__executor_program *p = x->p;
    *n = p && i < p->outputs.n && p->outputs.at[i].times ? (size_t)ipu__executor_outputs_per_run(x) : 0;
    return *n ? p->outputs.at[i].times : NULL;
}

/* ---- inputs ---- */

/* What a device has no type for is taken for the nearest that it has, as in PopTorch. */
static ipu_type device_type(ipu_type type)
{
    if (type == IPU_INT64) return IPU_INT32;
    return type == IPU_DOUBLE || type == IPU_BFLOAT16 ? IPU_FLOAT : type;
}

static ipu_status port_of(const ipu_executor *x, const ipu_array *a, size_t i, ipu__port *out)
{
    *out = (ipu__port){device_type(a->type), a->shape};
    if (a->shape.rank == 0 && x->n_batches == 1) return IPU_OK;
    char        buffer[32];
    const char *name = ipu__module_input_name(x->module, i, buffer);
    int64_t     n    = a->shape.rank == 0 ? 1 : a->shape.dim[0];
    if (a->shape.rank == 0 || n % x->n_batches != 0)
        return ipu__fail(
            IPU_INVALID,
            "Invalid batch dimension: input \"%s\" holds %" PRId64 " samples, which do not divide into the "
            "%" PRId64 " batches of a run (device iterations x replicas x gradient accumulation)",
            name, n, x->n_batches);
    out->shape.dim[0] = n / x->n_batches;
    return IPU_OK;
}

ipu_status ipu__executor_ask(ipu_executor *x, const ipu_array *in, size_t n)
{
    ipu__port port;
    x->asked.list.n = 0;
    if (!ipu__reserve(&x->asked.list, n)) return ipu__fail_memory();
    for (size_t i = 0; i < n; i++) {
        IPU_TRY(port_of(x, &in[i], i, &port));
        x->asked.list.at[x->asked.list.n++] = (ipu__argument){.type = port.type, .shape = port.shape};
    }
    return IPU_OK;
}

ipu_status ipu__executor_make_inputs(ipu__executor_program *p, const ipu_array *in, size_t n)
{
    if (!ipu__reserve(&p->inputs, n)) return ipu__fail_memory();
    for (size_t i = 0; i < n; i++) {
        char                 buffer[32];
        const char          *name = ipu__module_input_name(p->x->module, i, buffer);
        ipu__executor_input *own  = &p->inputs.at[i];
        *own                      = (ipu__executor_input){.given = in[i].type};
        IPU_TRY(port_of(p->x, &in[i], i, &own->port));
        IPU_TRY(ipu__array_size(own->port.type, &own->port.shape, &own->bytes));
        own->name   = text_of("", name);
        own->stream = text_of("in:", name);
        p->inputs.n = i + 1;
        if (!own->name || !own->stream || !ipu__push(&p->over.inputs, (ipu__parallel_input){own->stream}))
            return ipu__fail_memory();
    }
    return IPU_OK;
}

static bool is_same_port(const ipu__port *a, const ipu__port *b)
{
    if (a->type != b->type || a->shape.rank != b->shape.rank) return false;
    return memcmp(a->shape.dim, b->shape.dim, (size_t)a->shape.rank * sizeof *a->shape.dim) == 0;
}

/* `n` elements of `from` as `to`, one of the pairs of device_type. */
static void convert(void *to, const void *from, ipu_type type, int64_t n)
{
    const ipu_array a = {.type = type, .shape = IPU_SHAPE(n), .data = (void *)(uintptr_t)from};
    if (type == IPU_INT64)
        for (int64_t i = 0; i < n; i++) ((int32_t *)to)[i] = (int32_t)((const int64_t *)from)[i];
    else
        for (int64_t i = 0; i < n; i++) ((float *)to)[i] = (float)ipu_array_value(&a, i);
}

/* Batches from number `batch` on. */
static void give_batches(const ipu__executor_input *in, int64_t batch, void *data, size_t bytes)
{
    int64_t n = (int64_t)(in->bytes / ipu_type_size(in->port.type));
    if (in->given == in->port.type)
        memcpy(data, in->data + (size_t)batch * in->bytes, bytes);
    else
        convert(data, in->data + (size_t)(batch * n) * ipu_type_size(in->given), in->given,
                (int64_t)(bytes / ipu_type_size(in->port.type)));
}

/* The next batch of one input for one replica, or for all that are folded. */
static ipu_status send(void *user, void *data, size_t bytes)
{
    ipu__executor_wire          *w     = user;
    const ipu__executor_program *p     = w->p;
    const ipu__executor_input   *in    = &p->inputs.at[w->number];
    int64_t                      each  = p->x->options.input_group_size;
    int64_t                      first = w->n_done++ * (p->x->options.replicas / each);
    double                       begin = begin_of(in->times);
    if (each == 1) give_batches(in, first + w->replica, data, bytes);
    for (int64_t i = 0; i < p->n_folded; i++) {
        int64_t batch = first + (w->replica + i) / each;
        if (each > 1) give_batches(in, batch, (char *)data + (size_t)i * in->bytes, in->bytes);
        note(in->times, batch, begin);
    }
    return IPU_OK;
}

/* Where that batch lies: for inputs that are of the device's type. */
static const void *lend(void *user, size_t bytes)
{
    ipu__executor_wire        *w     = user;
    const ipu__executor_input *in    = &w->p->inputs.at[w->number];
    int64_t                    first = w->n_done++ * w->p->x->options.replicas;
    double                     begin = begin_of(in->times);
    (void)bytes;
    for (int64_t i = 0; i < w->p->n_folded; i++) note(in->times, first + w->replica + i, begin);
    return in->data + (size_t)(first + w->replica) * in->bytes;
}

/* Anew whenever the type of what is given changes. */
static ipu_status connect_input(ipu__executor_program *p, size_t i)
{
    const ipu__executor_input *in       = &p->inputs.at[i];
    int64_t                    replicas = ipu__executor_n_graphs(p);
    bool                       can_lend = in->given == in->port.type && p->x->options.input_group_size == 1;
    for (int64_t r = 0; r < replicas; r++) {
        ipu__executor_wire *w = &p->in_wires.at[i * (size_t)replicas + (size_t)r];
        *w                    = (ipu__executor_wire){.p = p, .number = i, .replica = r};
        if (can_lend)
            IPU_TRY(ipu_engine_connect_lender_replica(p->base.engine, in->stream, r, lend, w));
        else
            IPU_TRY(ipu_engine_connect_callback_replica(p->base.engine, in->stream, r, send, w));
    }
    return IPU_OK;
}

ipu_status ipu__executor_fail_other_inputs(const ipu__executor_program *p, const ipu_array *in, size_t n)
{
    if (n != p->inputs.n)
        return ipu__fail(IPU_INVALID,
                         "Number of positional arguments mismatch: it was compiled for %zu arrays, found %zu",
                         p->inputs.n, n);
    for (size_t i = 0; i < n; i++) {
        const ipu__executor_input *own = &p->inputs.at[i];
        ipu__port                  port;
        IPU_TRY(port_of(p->x, &in[i], i, &port));
        if (port.type != own->port.type)
            return ipu__fail(IPU_INVALID, "Data type mismatch for %s: it was compiled for %s, found %s",
                             own->name, ipu_type_name(own->port.type), ipu_type_name(in[i].type));
        if (!is_same_port(&port, &own->port))
            return ipu__fail(IPU_INVALID,
                             "Shape mismatch for %s: it was compiled for batches of %s, found %s", own->name,
                             ipu__shape_str(&own->port.shape), ipu__shape_str(&port.shape));
    }
    return IPU_OK;
}

ipu_status ipu__executor_take_inputs(ipu__executor_program *p, const ipu_array *in)
{
    for (size_t i = 0; i < p->inputs.n; i++) {
        ipu__executor_input *own = &p->inputs.at[i];
        if (own->bytes > 0 && !in[i].data)
            return ipu__fail(IPU_INVALID, "input \"%s\": the array has no data", own->name);
        bool is_other = own->given != in[i].type;
        own->given    = in[i].type;
        own->data     = in[i].data;
        if (is_other && p->in_wires.n > 0) IPU_TRY(connect_input(p, i));
    }
    return IPU_OK;
}

/* ---- outputs ---- */

ipu_output_mode ipu__executor_output_mode(const ipu_executor *x)
{
    if (x->options.output_mode != IPU_OUTPUT_DEFAULT) return x->options.output_mode;
    return x->training ? IPU_OUTPUT_FINAL : IPU_OUTPUT_ALL;
}

int64_t ipu__executor_outputs_per_run(const ipu_executor *x)
{
    const ipu_executor_options *o   = &x->options;
    int64_t                     all = o->device_iterations * o->gradient_accumulation * o->replicas;
    switch (ipu__executor_output_mode(x)) {
    case IPU_OUTPUT_ALL: return all;
    case IPU_OUTPUT_EVERY_N: return all / o->output_period;
    default: return o->replicas;
    }
}

static ipu_status make_output(ipu__executor_program *p, const ipu__parallel_models *models, ipu_value v,
                              const char *name)
{
    int64_t              n   = ipu__executor_outputs_per_run(p->x);
    ipu__executor_output own = {.type = ipu_value_type(v), .shape = ipu_value_shape(v)};
    ipu_shape            all = own.shape;
    if (all.rank > 0)
        all.dim[0] *= n;
    else if (n > 1)
        all = IPU_SHAPE(n);
    own.name          = text_of("", name);
    own.stream        = text_of("out:", name);
    own.sum           = ipu__parallel_free_name(models, "sum:", name);
    ipu_status status = own.name && own.stream && own.sum ? IPU_OK : ipu__fail_memory();
    if (status == IPU_OK) status = ipu__array_size(own.type, &own.shape, &own.bytes);
    if (status == IPU_OK) status = ipu_array_create(own.type, all, &own.array);
    own.own = own.array.data;
    if (status == IPU_OK
        && (!ipu__reserve(&p->outputs, 1)
            || !ipu__push(&p->over.outputs, (ipu__parallel_output){own.name, own.stream, own.sum})))
        status = ipu__fail_memory();
    if (status == IPU_OK) p->outputs.at[p->outputs.n++] = own;
    if (status == IPU_OK) return IPU_OK;
    ipu__free(own.name);
    ipu__free(own.stream);
    ipu__free(own.sum);
    ipu_array_free(&own.array);
    return status;
}

ipu_status ipu__executor_make_outputs(ipu__executor_program *p, const ipu__parallel_models *models)
{
    for (size_t i = 0; i < ipu_model_n_outputs(models->net); i++) {
        const char *name;
        ipu_value   v = ipu_model_output_at(models->net, i, &name);
        IPU_TRY(make_output(p, models, v, name));
    }
    return IPU_OK;
}

ipu_status ipu_executor_place_output(ipu_executor *x, size_t i, void *data)
{
    size_t n = ipu_executor_n_outputs(x);
    if (i >= n)
        return ipu__fail(IPU_INVALID, "executor: output %zu is placed, but there are %zu%s", i, n,
                         n ? "" : ": compile first");
    ipu__executor_output *out = &x->p->outputs.at[i];
    out->array.data           = data ? data : out->own;
    return IPU_OK;
}

/* Takes, or passes over, the outputs of one batch of one replica, or of all that are folded. */
static ipu_status take(void *user, void *data, size_t bytes)
{
    ipu__executor_wire    *w     = user;
    ipu__executor_program *p     = w->p;
    ipu__executor_output  *out   = &p->outputs.at[w->number];
    int64_t                batch = w->n_done++ * p->x->options.replicas + w->replica;
    int64_t     period = p->x->options.output_mode == IPU_OUTPUT_EVERY_N ? p->x->options.output_period : 1;
    const char *from   = data;
    double      begin  = begin_of(out->times);
    for (const char *end = from + bytes; from < end; from += out->bytes, batch++) {
        int64_t given = (batch + 1) / period - 1;
        if ((batch + 1) % period != 0) continue;
        memcpy((char *)out->array.data + (size_t)given * out->bytes, from, out->bytes);
        note(out->times, given, begin);
    }
    return IPU_OK;
}

/* The same where every batch is taken: what a transfer brings lies together. */
static void *place(void *user, size_t bytes)
{
    ipu__executor_wire   *w     = user;
    ipu__executor_output *out   = &w->p->outputs.at[w->number];
    int64_t               batch = w->n_done++ * w->p->x->options.replicas + w->replica;
    double                begin = begin_of(out->times);
    for (size_t i = 0; i * out->bytes < bytes; i++) note(out->times, batch + (int64_t)i, begin);
    return (char *)out->array.data + (size_t)batch * out->bytes;
}

/* `n` elements of `type` by `by`, in place. */
static void divide(void *data, ipu_type type, size_t n, int64_t by)
{
    switch (type) {
#define FLOAT_BY(T) \
    for (size_t i = 0; i < n; i++) ((T *)data)[i] /= (T)by
#define WHOLE_BY(T) \
    for (size_t i = 0; i < n; i++) ((T *)data)[i] = (T)(((T *)data)[i] / by)
    case IPU_FLOAT: FLOAT_BY(float); break;
    case IPU_DOUBLE: FLOAT_BY(double); break;
    case IPU_INT8: WHOLE_BY(int8_t); break;
    case IPU_INT16: WHOLE_BY(int16_t); break;
    case IPU_INT32: WHOLE_BY(int32_t); break;
    case IPU_INT64: WHOLE_BY(int64_t); break;
    case IPU_UINT8: WHOLE_BY(uint8_t); break;
    case IPU_UINT16: WHOLE_BY(uint16_t); break;
    case IPU_UINT32: WHOLE_BY(uint32_t); break;
    case IPU_UINT64:
        for (size_t i = 0; i < n; i++) ((uint64_t *)data)[i] /= (uint64_t)by;
        break;
    default: break; /* there are no sums of others */
#undef FLOAT_BY
#undef WHOLE_BY
    }
}

static ipu_status read_mean(ipu__executor_program *p, const ipu__executor_output *out, int64_t r, void *data,
                            size_t bytes)
{
    const ipu_executor_options *o       = &p->x->options;
    bool                        is_half = out->type == IPU_HALF; /* whose sum is a float */
    size_t                      n       = bytes / ipu_type_size(out->type);
    float                      *sum     = is_half ? ipu__alloc(n * sizeof *sum) : data;
    if (!sum) return ipu__fail_memory();
    ipu_status status = ipu_engine_read_replica(p->base.engine, out->sum, r, sum,
                                                is_half ? n * sizeof *sum : bytes);
    if (status == IPU_OK)
        divide(sum, is_half ? IPU_FLOAT : out->type, n, o->device_iterations * o->gradient_accumulation);
    if (status == IPU_OK && is_half) ipu_half_from_floats(sum, data, n);
    if (is_half) ipu__free(sum);
    return status;
}

static ipu_status read_output(ipu__executor_program *p, ipu_output_mode mode, const ipu__executor_output *out,
                              int64_t r, void *data, size_t bytes)
{
    if (mode == IPU_OUTPUT_MEAN) return read_mean(p, out, r, data, bytes);
    return ipu_engine_read_replica(p->base.engine, mode == IPU_OUTPUT_SUM ? out->sum : out->name, r, data,
                                   bytes);
}

ipu_status ipu__executor_read_outputs(ipu__executor_program *p)
{
    ipu_output_mode mode = ipu__executor_output_mode(p->x);
    if (mode == IPU_OUTPUT_ALL || mode == IPU_OUTPUT_EVERY_N) return IPU_OK;
    for (size_t i = 0; i < p->outputs.n; i++) {
        ipu__executor_output *out   = &p->outputs.at[i];
        size_t                bytes = out->bytes * (size_t)p->n_folded;
        for (int64_t r = 0; r < ipu__executor_n_graphs(p) && bytes > 0; r++) {
            double begin = begin_of(out->times);
            IPU_TRY(read_output(p, mode, out, r, (char *)out->array.data + (size_t)r * bytes, bytes));
            for (int64_t k = 0; k < p->n_folded; k++) note(out->times, r * p->n_folded + k, begin);
        }
    }
    return IPU_OK;
}

/* ---- streams ---- */

static ipu_status connect_inputs(ipu__executor_program *p)
{
    for (size_t i = 0; i < p->inputs.n; i++) IPU_TRY(connect_input(p, i));
    return IPU_OK;
}

static ipu_status connect_outputs(ipu__executor_program *p)
{
    int64_t         replicas = ipu__executor_n_graphs(p);
    ipu_output_mode mode     = ipu__executor_output_mode(p->x);
    if (mode != IPU_OUTPUT_ALL && mode != IPU_OUTPUT_EVERY_N) return IPU_OK;
    for (size_t i = 0, k = 0; i < p->outputs.n; i++)
        for (int64_t r = 0; r < replicas; r++, k++) {
            p->out_wires.at[k]         = (ipu__executor_wire){.p = p, .number = i, .replica = r};
            const char         *stream = p->outputs.at[i].stream;
            ipu__executor_wire *wire   = &p->out_wires.at[k];
            IPU_TRY(mode == IPU_OUTPUT_ALL
                        ? ipu_engine_connect_place_replica(p->base.engine, stream, r, place, wire)
                        : ipu_engine_connect_callback_replica(p->base.engine, stream, r, take, wire));
        }
    return IPU_OK;
}

ipu_status ipu__executor_connect(ipu__executor_program *p)
{
    size_t replicas = (size_t)ipu__executor_n_graphs(p);
    p->in_wires.n = p->out_wires.n = 0;
    if (!ipu__reserve(&p->in_wires, p->inputs.n * replicas + 1)
        || !ipu__reserve(&p->out_wires, p->outputs.n * replicas + 1))
        return ipu__fail_memory();
    p->in_wires.n  = p->inputs.n * replicas;
    p->out_wires.n = p->outputs.n * replicas;
    IPU_TRY(connect_inputs(p));
    return connect_outputs(p);
}

void ipu__executor_io_fini(ipu__executor_program *p)
{
    for (size_t i = 0; i < p->inputs.n; i++) {
        ipu__free(p->inputs.at[i].name);
        ipu__free(p->inputs.at[i].stream);
        ipu__free(p->inputs.at[i].times);
    }
    for (size_t i = 0; i < p->outputs.n; i++) {
        ipu__free(p->outputs.at[i].name);
        ipu__free(p->outputs.at[i].stream);
        ipu__free(p->outputs.at[i].sum);
        p->outputs.at[i].array.data = p->outputs.at[i].own;
        ipu_array_free(&p->outputs.at[i].array);
        ipu__free(p->outputs.at[i].times);
    }
    ipu__array_fini(&p->inputs);
    ipu__array_fini(&p->outputs);
    p->over.inputs.n = p->over.outputs.n = 0;
    ipu__array_fini(&p->in_wires);
    ipu__array_fini(&p->out_wires);
}

/* Batches of inputs to streams, and outputs by their mode. */
#include "session/streams.h"

#include <inttypes.h>
#include <string.h>

#include "base/host/clock.h"
#include "base/text.h"
#include "data/array.h"

static int64_t n_graphs(const ipu__streams *s) { return s->batches.replicas / s->n_folded; }

int64_t ipu__batches_out(const ipu__batches *b)
{
    int64_t all = b->each * b->replicas;
    switch (b->mode) {
    case IPU_OUTPUT_ALL: return all;
    case IPU_OUTPUT_EVERY_N: return all / b->period;
    default: return b->replicas;
    }
}

static int64_t group_of(ipu_grouping kind, int64_t size, int64_t n, int64_t replica)
{
    switch (kind) {
    case IPU_GROUPING_CONSECUTIVE: return replica / size;
    case IPU_GROUPING_ORTHOGONAL: return replica % (n / size);
    case IPU_GROUPING_NONE: return replica;
    default: return 0;
    }
}

ipu_status ipu_replica_groups(ipu_grouping kind, int64_t size, int64_t n, int64_t *groups)
{
    if (kind < IPU_GROUPING_ALL || kind > IPU_GROUPING_NONE)
        return ipu__fail(IPU_INVALID, "groups of replicas: there is no kind %d", (int)kind);
    bool has_size = kind == IPU_GROUPING_CONSECUTIVE || kind == IPU_GROUPING_ORTHOGONAL;
    if (has_size && (size < 1 || n % size != 0))
        return ipu__fail(IPU_INVALID,
                         "groups of replicas: expected a size that divides the %" PRId64
                         " replicas, found %" PRId64,
                         n, size);
    for (int64_t r = 0; r < n; r++) groups[r] = group_of(kind, size, n, r);
    return IPU_OK;
}

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

static ipu_status make_times(const ipu__streams *s, ipu_executor_time **times, int64_t n)
{
    if (s->keeps_times && !*times) {
        *times = ipu__alloc((size_t)n * sizeof **times);
        if (!*times) return ipu__fail_memory();
    }
    if (s->keeps_times) memset(*times, 0, (size_t)n * sizeof **times);
    if (s->keeps_times) return IPU_OK;
    ipu__free(*times);
    *times = NULL;
    return IPU_OK;
}

static ipu_status begin_times(ipu__streams *s)
{
    for (size_t i = 0; i < s->inputs.n; i++)
        IPU_TRY(make_times(s, &s->inputs.at[i].times, ipu__streams_n_in(s, i)));
    for (size_t i = 0; i < s->outputs.n; i++)
        IPU_TRY(make_times(s, &s->outputs.at[i].times, ipu__batches_out(&s->batches)));
    return IPU_OK;
}

/* ---- inputs ---- */

/* What a device has no type for is taken for the nearest that it has, as in PopTorch. */
static ipu_type device_type(ipu_type type)
{
    if (type == IPU_INT64) return IPU_INT32;
    return type == IPU_DOUBLE || type == IPU_BFLOAT16 ? IPU_FLOAT : type;
}

ipu_status ipu__batches_port(const ipu__batches *b, const ipu_array *a, const char *name, ipu__port *out)
{
    int64_t n_batches = ipu__batches_in(b);
    *out              = (ipu__port){device_type(a->type), a->shape};
    if (a->shape.rank == 0 && n_batches == 1) return IPU_OK;
    int64_t n = a->shape.rank == 0 ? 1 : a->shape.dim[0];
    if (a->shape.rank == 0 || n % n_batches != 0)
        return ipu__fail(
            IPU_INVALID,
            "Invalid batch dimension: input \"%s\" holds %" PRId64 " samples, which do not divide into the "
            "%" PRId64 " batches of a run (device iterations x replicas x gradient accumulation)",
            name, n, n_batches);
    out->shape.dim[0] = n / n_batches;
    return IPU_OK;
}

int64_t ipu__streams_n_in(const ipu__streams *s, size_t i)
{
    return s->batches.each * (s->batches.replicas / s->inputs.at[i].group_size);
}

ipu_status ipu__streams_add_input(ipu__streams *s, const char *name, const ipu__port *port, ipu_type given,
                                  bool is_own)
{
    ipu__stream_in own    = {.name       = text_of("", name),
                             .stream     = text_of("in:", name),
                             .port       = *port,
                             .given      = given,
                             .group_size = is_own ? 1 : s->batches.group_size};
    ipu_status     status = own.name && own.stream ? IPU_OK : ipu__fail_memory();
    if (status == IPU_OK) status = ipu__array_size(port->type, &port->shape, &own.bytes);
    if (status == IPU_OK && !ipu__push(&s->inputs, own)) status = ipu__fail_memory();
    if (status == IPU_OK) return IPU_OK;
    ipu__free(own.name);
    ipu__free(own.stream);
    return status;
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
static void give_batches(const ipu__stream_in *in, int64_t batch, void *data, size_t bytes)
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
    ipu__wire            *w    = user;
    const ipu__streams   *s    = w->s;
    const ipu__stream_in *in   = &s->inputs.at[w->number];
    ipu_grouping          kind = s->batches.orthogonal ? IPU_GROUPING_ORTHOGONAL : IPU_GROUPING_CONSECUTIVE;
    int64_t               n = s->batches.replicas, each = in->group_size;
    int64_t               first = w->n_done++ * (n / each);
    double                begin = begin_of(in->times);
    if (each == 1) give_batches(in, first + w->replica, data, bytes);
    for (int64_t i = 0; i < s->n_folded; i++) {
        int64_t batch = first + group_of(kind, each, n, w->replica + i);
        if (each > 1) give_batches(in, batch, (char *)data + (size_t)i * in->bytes, in->bytes);
        note(in->times, batch, begin);
    }
    return IPU_OK;
}

/* Where that batch lies: for inputs that are of the device's type. */
static const void *lend(void *user, size_t bytes)
{
    ipu__wire            *w     = user;
    const ipu__stream_in *in    = &w->s->inputs.at[w->number];
    int64_t               first = w->n_done++ * w->s->batches.replicas;
    double                begin = begin_of(in->times);
    (void)bytes;
    for (int64_t i = 0; i < w->s->n_folded; i++) note(in->times, first + w->replica + i, begin);
    return in->data + (size_t)(first + w->replica) * in->bytes;
}

/* Anew whenever the type of what is given changes. */
static ipu_status connect_input(ipu__streams *s, size_t i)
{
    const ipu__stream_in *in       = &s->inputs.at[i];
    int64_t               replicas = n_graphs(s);
    bool                  can_lend = in->given == in->port.type && in->group_size == 1;
    for (int64_t r = 0; r < replicas; r++) {
        ipu__wire *w = &s->in_wires.at[i * (size_t)replicas + (size_t)r];
        *w           = (ipu__wire){.s = s, .number = i, .replica = r};
        if (can_lend)
            IPU_TRY(ipu_engine_connect_lender_replica(s->engine, in->stream, r, lend, w));
        else
            IPU_TRY(ipu_engine_connect_callback_replica(s->engine, in->stream, r, send, w));
    }
    return IPU_OK;
}

static ipu_status take(ipu__streams *s, const ipu_array *in)
{
    for (size_t i = 0; i < s->inputs.n; i++) {
        ipu__stream_in *own = &s->inputs.at[i];
        if (own->bytes > 0 && !in[i].data)
            return ipu__fail(IPU_INVALID, "input \"%s\": the array has no data", own->name);
        bool is_other = own->given != in[i].type;
        own->given    = in[i].type;
        own->data     = in[i].data;
        if (is_other && s->in_wires.n > 0) IPU_TRY(connect_input(s, i));
    }
    return IPU_OK;
}

/* ---- outputs ---- */

ipu_status ipu__streams_add_output(ipu__streams *s, const char *name, const ipu__port *port, char *sum)
{
    int64_t         n   = ipu__batches_out(&s->batches);
    ipu__stream_out own = {
        .name = text_of("", name), .stream = text_of("out:", name), .type = port->type, .shape = port->shape};
    ipu_shape all = own.shape;
    own.sum       = sum;
    if (all.rank > 0)
        all.dim[0] *= n;
    else if (n > 1)
        all = IPU_SHAPE(n);
    ipu_status status = own.name && own.stream && own.sum ? IPU_OK : ipu__fail_memory();
    if (status == IPU_OK) status = ipu__array_size(own.type, &own.shape, &own.bytes);
    if (status == IPU_OK) status = ipu_array_create(own.type, all, &own.array);
    own.own = own.array.data;
    if (status == IPU_OK && !ipu__push(&s->outputs, own)) status = ipu__fail_memory();
    if (status == IPU_OK) return IPU_OK;
    ipu__free(own.name);
    ipu__free(own.stream);
    ipu__free(own.sum);
    ipu_array_free(&own.array);
    return status;
}

/* Takes, or passes over, the outputs of one batch of one replica, or of all that are folded. */
static ipu_status take_batch(void *user, void *data, size_t bytes)
{
    ipu__wire       *w      = user;
    ipu__streams    *s      = w->s;
    ipu__stream_out *out    = &s->outputs.at[w->number];
    int64_t          batch  = w->n_done++ * s->batches.replicas + w->replica;
    int64_t          period = s->batches.mode == IPU_OUTPUT_EVERY_N ? s->batches.period : 1;
    const char      *from   = data;
    double           begin  = begin_of(out->times);
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
    ipu__wire       *w     = user;
    ipu__stream_out *out   = &w->s->outputs.at[w->number];
    int64_t          batch = w->n_done++ * w->s->batches.replicas + w->replica;
    double           begin = begin_of(out->times);
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

static void narrow(const float *from, ipu_type to, void *data, size_t n)
{
    ipu_bfloat16 *rounded = data;
    if (to == IPU_HALF)
        ipu_half_from_floats(from, data, n);
    else
        for (size_t i = 0; i < n; i++) rounded[i] = ipu_bfloat16_from_float(from[i]);
}

static ipu_status read_mean(ipu__streams *s, const ipu__stream_out *out, int64_t r, void *data, size_t bytes)
{
    bool   is_narrow = out->type == IPU_HALF || out->type == IPU_BFLOAT16; /* whose sum is a float */
    size_t n         = bytes / ipu_type_size(out->type);
    float *sum       = is_narrow ? ipu__alloc(n * sizeof *sum) : data;
    if (!sum) return ipu__fail_memory();
    ipu_status status = ipu_engine_read_replica(s->engine, out->sum, r, sum,
                                                is_narrow ? n * sizeof *sum : bytes);
    if (status == IPU_OK) divide(sum, is_narrow ? IPU_FLOAT : out->type, n, s->batches.each);
    if (status == IPU_OK && is_narrow) narrow(sum, out->type, data, n);
    if (is_narrow) ipu__free(sum);
    return status;
}

static ipu_status read_output(ipu__streams *s, ipu_output_mode mode, const ipu__stream_out *out, int64_t r,
                              void *data, size_t bytes)
{
    if (mode == IPU_OUTPUT_MEAN) return read_mean(s, out, r, data, bytes);
    return ipu_engine_read_replica(s->engine, mode == IPU_OUTPUT_SUM ? out->sum : out->name, r, data, bytes);
}

ipu_status ipu__streams_read(ipu__streams *s)
{
    ipu_output_mode mode = s->batches.mode;
    if (mode == IPU_OUTPUT_ALL || mode == IPU_OUTPUT_EVERY_N) return IPU_OK;
    for (size_t i = 0; i < s->outputs.n; i++) {
        ipu__stream_out *out   = &s->outputs.at[i];
        size_t           bytes = out->bytes * (size_t)s->n_folded;
        for (int64_t r = 0; r < n_graphs(s) && bytes > 0; r++) {
            double begin = begin_of(out->times);
            IPU_TRY(read_output(s, mode, out, r, (char *)out->array.data + (size_t)r * bytes, bytes));
            for (int64_t k = 0; k < s->n_folded; k++) note(out->times, r * s->n_folded + k, begin);
        }
    }
    return IPU_OK;
}

/* ---- streams ---- */

static ipu_status connect_inputs(ipu__streams *s)
{
    for (size_t i = 0; i < s->inputs.n; i++) IPU_TRY(connect_input(s, i));
    return IPU_OK;
}

static ipu_status connect_outputs(ipu__streams *s)
{
    int64_t         replicas = n_graphs(s);
    ipu_output_mode mode     = s->batches.mode;
    if (mode != IPU_OUTPUT_ALL && mode != IPU_OUTPUT_EVERY_N) return IPU_OK;
    for (size_t i = 0, k = 0; i < s->outputs.n; i++)
        for (int64_t r = 0; r < replicas; r++, k++) {
            s->out_wires.at[k] = (ipu__wire){.s = s, .number = i, .replica = r};
            const char *stream = s->outputs.at[i].stream;
            ipu__wire  *wire   = &s->out_wires.at[k];
            IPU_TRY(mode == IPU_OUTPUT_ALL
                        ? ipu_engine_connect_place_replica(s->engine, stream, r, place, wire)
                        : ipu_engine_connect_callback_replica(s->engine, stream, r, take_batch, wire));
        }
    return IPU_OK;
}

static ipu_status connect(ipu__streams *s)
{
    size_t n      = (size_t)n_graphs(s);
    s->in_wires.n = s->out_wires.n = 0;
    if (!ipu__reserve(&s->in_wires, s->inputs.n * n + 1)
        || !ipu__reserve(&s->out_wires, s->outputs.n * n + 1))
        return ipu__fail_memory();
    s->in_wires.n  = s->inputs.n * n;
    s->out_wires.n = s->outputs.n * n;
    IPU_TRY(connect_inputs(s));
    return connect_outputs(s);
}

ipu_status ipu__streams_connect(ipu__streams *s, ipu_engine *engine)
{
    s->engine         = engine;
    ipu_status status = connect(s);
    if (status != IPU_OK) s->engine = NULL;
    return status;
}

/* Where the array of the run before was given away. */
static ipu_status need_arrays(ipu__streams *s)
{
    for (size_t i = 0; i < s->outputs.n; i++) {
        ipu__stream_out *out = &s->outputs.at[i];
        ipu_array        a;
        if (out->array.data) continue;
        IPU_TRY(ipu__array_create_unset(out->type, &out->array.shape, &a));
        out->array.data = out->own = a.data;
    }
    return IPU_OK;
}

ipu_status ipu__streams_begin(ipu__streams *s, const ipu_array *in)
{
    IPU_TRY(take(s, in));
    IPU_TRY(need_arrays(s));
    IPU_TRY(begin_times(s));
    for (size_t i = 0; i < s->in_wires.n; i++) s->in_wires.at[i].n_done = 0;
    for (size_t i = 0; i < s->out_wires.n; i++) s->out_wires.at[i].n_done = 0;
    return IPU_OK;
}

void ipu__streams_give(ipu__streams *s, size_t i, ipu_array *out)
{
    ipu__stream_out *from = &s->outputs.at[i];
    *out                  = from->array;
    from->array.data = from->own = NULL;
}

void ipu__streams_fini(ipu__streams *s)
{
    for (size_t i = 0; i < s->inputs.n; i++) {
        ipu__free(s->inputs.at[i].name);
        ipu__free(s->inputs.at[i].stream);
        ipu__free(s->inputs.at[i].times);
    }
    for (size_t i = 0; i < s->outputs.n; i++) {
        ipu__free(s->outputs.at[i].name);
        ipu__free(s->outputs.at[i].stream);
        ipu__free(s->outputs.at[i].sum);
        s->outputs.at[i].array.data = s->outputs.at[i].own;
        ipu_array_free(&s->outputs.at[i].array);
        ipu__free(s->outputs.at[i].times);
    }
    ipu__array_fini(&s->inputs);
    ipu__array_fini(&s->outputs);
    ipu__array_fini(&s->in_wires);
    ipu__array_fini(&s->out_wires);
}

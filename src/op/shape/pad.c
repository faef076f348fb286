/* Pad: inserts elements before, after and between those of x (negative: cuts off), and other modes of
 * padding.
 *
 * The kernel moves bits, so it works for every type. Modes that repeat x are views of it (pad_around).
 */
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/shape.h"
#include "op/builder.h"
#include "op/replicas.h"

enum { X, OUT };

/* ---- constant: the kernel ---- */

/* Of one dimension. Element i of x goes to before + i * step, if that is within the output. */
typedef struct margin {
    int64_t before, after, step;
} margin;

static ipu_status get_margins(const ipu__kernel_call *call, margin margins[IPU_MAX_RANK])
{
    const ipu_shape *shape = &call->operand[X].shape;
    size_t           n, n_after, n_inside, rank = (size_t)shape->rank;
    const int64_t *before = ipu__op_ints(call, "before", &n), *after = ipu__op_ints(call, "after", &n_after),
                  *inside = ipu__op_ints(call, "inside", &n_inside); /* pad_around has none */
    if (n != rank || n_after != rank || (n_inside && n_inside != rank))
        return ipu__fail(IPU_INVALID,
                         "%s: %zu numbers before, %zu after, %zu inside: expected %zu of each, one "
                         "per dimension of %s",
                         call->def->name, n, n_after, n_inside, rank, ipu__shape_str(shape));
    for (size_t d = 0; d < rank; d++) {
        margins[d] = (margin){before[d], after[d], n_inside ? inside[d] + 1 : 1};
        if (margins[d].step < 1)
            return ipu__fail(IPU_INVALID, "pad: inside[%zu] = %lld: expected 0 or more", d,
                             (long long)inside[d]);
    }
    return IPU_OK;
}

static ipu_status padded_shape(const ipu__kernel_call *call, const margin *margins, ipu_shape *out)
{
    const ipu_shape *shape = &call->operand[X].shape;
    *out                   = *shape;
    for (int d = 0; d < shape->rank; d++) {
        int64_t spread = 0, limit = (int64_t)1 << 60;
        bool    ok = margins[d].before > -limit && margins[d].before < limit && margins[d].after > -limit
               && margins[d].after < limit;
        if (shape->dim[d] > 0)
            ok = ok && !__builtin_mul_overflow(shape->dim[d] - 1, margins[d].step, &spread)
              && spread++ < limit;
        if (ok) out->dim[d] = spread + margins[d].before + margins[d].after;
        if (!ok || out->dim[d] < 0)
            return ipu__fail(
                IPU_INVALID,
                "%s: %lld before and %lld after dimension %d of %s: expected what leaves 0 elements or "
                "more, and fewer than 2^60",
                call->def->name, (long long)margins[d].before, (long long)margins[d].after, d,
                ipu__shape_str(shape));
    }
    return IPU_OK;
}

static bool get_bits(const ipu__kernel_call *call, uint64_t *bits)
{
    *bits = 0;
    return ipu__value_from_double(call->operand[X].type, ipu__op_float(call, "value"), bits);
}

static ipu_status pad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    margin   margins[IPU_MAX_RANK];
    uint64_t bits;
    IPU_TRY(get_margins(call, margins));
    if (!get_bits(call, &bits))
        return ipu__fail(IPU_INVALID, "pad: %s cannot hold the value %.17g",
                         ipu_type_name(call->operand[X].type), ipu__op_float(call, "value"));
    out->type = call->operand[X].type;
    return padded_shape(call, margins, &out->shape);
}

/* Element of x that lies at `i` of the output in one dimension; -1: none. */
static int64_t source(const margin *m, int64_t n, int64_t i)
{
    int64_t at = i - m->before;
    return at >= 0 && at % m->step == 0 && at / m->step < n ? at / m->step : -1;
}

static void pad_ref(const ipu__kernel_call *call, void *const *operand)
{
    const ipu_shape *from = &call->operand[X].shape, *to = &call->operand[OUT].shape;
    size_t           bytes                 = ipu_type_size(call->operand[X].type);
    int64_t          n                     = ipu__op_n_elements(to);
    margin           margins[IPU_MAX_RANK] = {{0}};
    uint64_t         bits;
    get_margins(call, margins);
    get_bits(call, &bits);
    for (int64_t i = 0; i < n; i++) {
        int64_t left = i, at = 0, stride = 1;
        for (int d = to->rank - 1; d >= 0 && at >= 0; d--) {
            int64_t k = source(&margins[d], from->dim[d], left % to->dim[d]);
            left /= to->dim[d];
            at = k < 0 ? -1 : at + k * stride;
            stride *= from->dim[d];
        }
        const void *element = at < 0 ? (const void *)&bits : (const char *)operand[X] + (size_t)at * bytes;
        memcpy((char *)operand[OUT] + (size_t)i * bytes, element, bytes);
    }
}

/* What `run` needs: dimensions that are not padded are joined to the one before. */
typedef struct pad_state {
    int      rank;
    int64_t  from[IPU_MAX_RANK + 1], to[IPU_MAX_RANK + 1];
    margin   margins[IPU_MAX_RANK + 1];
    int64_t  row_begin, row_count; /* elements of x that a row shows, from row_begin */
    uint64_t bits;
    size_t   bytes;
} pad_state;

static void join_dimensions(const ipu__kernel_call *call, pad_state *s)
{
    margin margins[IPU_MAX_RANK] = {{0}};
    get_margins(call, margins);
    s->rank    = 1;
    s->from[0] = s->to[0] = 1;
    s->margins[0].step    = 1;
    for (int d = 0; d < call->operand[X].shape.rank; d++) {
        int64_t from = call->operand[X].shape.dim[d], to = call->operand[OUT].shape.dim[d];
        bool    plain = margins[d].before == 0 && margins[d].after == 0 && margins[d].step == 1;
        int     last  = s->rank - 1;
        if (plain
            && s->margins[last].step == 1) { /* an element of the one before becomes a run of elements */
            s->from[last] *= from;
            s->to[last] *= to;
            s->margins[last].before *= from;
            s->margins[last].after *= from;
        } else {
            s->rank++;
            last             = s->rank - 1;
            s->from[last]    = from;
            s->to[last]      = to;
            s->margins[last] = margins[d];
        }
    }
}

static ipu_status pad_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    pad_state *s = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    *out = s;
    get_bits(call, &s->bits);
    s->bytes = ipu_type_size(call->operand[X].type);
    join_dimensions(call, s);
    const margin *m = &s->margins[s->rank - 1];
    int64_t       n = s->from[s->rank - 1], to = s->to[s->rank - 1];
    s->row_begin = m->before < 0 ? ipu__op_ceil_div(-m->before, m->step) : 0;
    int64_t end  = to > m->before ? (to - m->before - 1) / m->step + 1 : 0;
    if (end > n) end = n;
    s->row_count = end > s->row_begin ? end - s->row_begin : 0;
    return IPU_OK;
}

static void fill_bits(char *to, int64_t n, size_t bytes, uint64_t bits)
{
    if (bits == 0) {
        memset(to, 0, (size_t)n * bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * bytes, &bits, bytes);
}

/* `from`: the first element of x that the row shows. */
static void pad_row(const pad_state *s, const char *from, char *to)
{
    const margin *m     = &s->margins[s->rank - 1];
    int64_t       n     = s->to[s->rank - 1];
    int64_t       first = m->before + s->row_begin * m->step;
    if (s->row_count == 0) {
        fill_bits(to, n, s->bytes, s->bits);
    } else if (m->step == 1) {
        fill_bits(to, first, s->bytes, s->bits);
        memcpy(to + (size_t)first * s->bytes, from, (size_t)s->row_count * s->bytes);
        int64_t end = first + s->row_count;
        fill_bits(to + (size_t)end * s->bytes, n - end, s->bytes, s->bits);
    } else {
        fill_bits(to, n, s->bytes, s->bits);
        for (int64_t i = 0; i < s->row_count; i++)
            memcpy(to + (size_t)(first + i * m->step) * s->bytes, from + (size_t)i * s->bytes, s->bytes);
    }
}

static ipu_status pad_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                          int part, int n_parts)
{
    (void)call, (void)scratch;
    const pad_state *s      = state;
    int              last   = s->rank - 1;
    int64_t          n_rows = 1;
    for (int d = 0; d < last; d++) n_rows *= s->to[d];
    ipu_interval rows = ipu__op_part(n_rows, 1, part, n_parts);
    for (int64_t row = rows.begin; row < rows.end; row++) {
        int64_t left = row, at = 0, stride = 1;
        for (int d = last - 1; d >= 0 && at >= 0; d--) {
            int64_t k = source(&s->margins[d], s->from[d], left % s->to[d]);
            left /= s->to[d];
            at = k < 0 ? -1 : at + k * stride;
            stride *= s->from[d];
        }
        char *to = (char *)operand[OUT] + (size_t)(row * s->to[last]) * s->bytes;
        if (at < 0)
            fill_bits(to, s->to[last], s->bytes, s->bits);
        else
            pad_row(s, (const char *)operand[X] + (size_t)(at * s->from[last] + s->row_begin) * s->bytes, to);
    }
    return IPU_OK;
}

static double pad_work(const ipu__kernel_call *call)
{
    return (double)ipu__op_n_elements(&call->operand[OUT].shape);
}

static ipu_status pad_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    int64_t      bytes = (int64_t)ipu_type_size(call->operand[OUT].type), step = 8 / bytes;
    int64_t      n    = ipu__op_n_elements(&call->operand[OUT].shape);
    ipu__op_loop loop = {26, (double)step, 2}; /* a load and a store of 64 bits */
    IPU_TRY(ipu__op_plan_loop(&loop, n, step, target, out));
    if (out->n_tiles > 0) out->bytes_received = out->bytes_sent = ipu__op_ceil_div(n, out->n_tiles) * bytes;
    out->basis = "our estimate: every element exchanged once, then a loop of 64-bit loads and stores";
    return IPU_OK;
}

/* The part of dy where x is. Elements of x that were cut off have gradient 0. */
static void pad_grad(ipu__gradient *g)
{
    const ipu_shape *shape                 = &g->call->operand[X].shape;
    margin           margins[IPU_MAX_RANK] = {{0}};
    int64_t          before[IPU_MAX_RANK], after[IPU_MAX_RANK], begin[IPU_MAX_RANK], end[IPU_MAX_RANK],
        step[IPU_MAX_RANK];
    bool is_cut = false;
    get_margins(g->call, margins);
    for (int d = 0; d < shape->rank; d++) {
        const margin *m = &margins[d];
        before[d]       = m->before < 0 ? -m->before : 0;
        after[d]        = m->after < 0 ? -m->after : 0;
        is_cut |= before[d] > 0 || after[d] > 0;
        begin[d] = m->before > 0 ? m->before : 0;
        end[d]   = begin[d] + (shape->dim[d] > 0 ? (shape->dim[d] - 1) * m->step + 1 : 0);
        step[d]  = m->step;
    }
    ipu_value dy = g->d_out[0];
    if (is_cut)
        dy = ipu__emit1(g->b, "pad",
                        IPU__WITH(IPU__INTS("before", before, shape->rank),
                                  IPU__INTS("after", after, shape->rank)),
                        IPU__IN(dy));
    g->d_in[X] = ipu__emit1(g->b, "slice",
                            IPU__WITH(IPU__INTS("begin", begin, shape->rank),
                                      IPU__INTS("end", end, shape->rank),
                                      IPU__INTS("step", step, shape->rank)),
                            IPU__IN(dy));
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OUTPUT("out")};

static const ipu__cpu_impl implementations[] = {
    {.head = {"rows", ipu__op_fits_always}, .prepare = pad_prepare, .release = ipu__free, .run = pad_run},
};

static const ipu_op_attribute pad_attributes[] = {
    {.name = "before", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "in front of each dimension"},
    {.name = "after", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "behind each dimension"},
    {.name = "inside", .kind = IPU_ATTRIBUTE_INTS, .meaning = "between two elements; left out: 0"},
    {.name = "value", .kind = IPU_ATTRIBUTE_FLOAT, .meaning = "what is put there"},
};

static const char *const pad_samples[] = {
    "float[3,4]; before=[1,2] after=[0,3]",
    "float[3,4]; before=[-1,2] after=[2,-1] value=0.5",
    "float[5,3]; before=[0,1] after=[1,0] inside=[2,1]",
    "float[5,6]; before=[-1,-3] after=[-2,0] inside=[1,2] value=-1",
    "float[2,3,4]; before=[0,1,0] after=[0,1,0]",
    "float[0,4]; before=[2,0] after=[1,0] value=2",
    "float[]; before=[] after=[]",
    "int32[4]; before=[1] after=[1] value=7",
    "float[33,70,61]; before=[0,1,3] after=[1,0,2]",
    NULL,
};

const ipu__op_def ipu__op_pad = {
    .kernel       = {.name            = "pad",
                     .operands        = operands,
                     .n_operands      = 2,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = pad_ref,
                     .work            = pad_work,
                     .plan            = pad_plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = 1,
    .family       = "shape",
    .summary      = "a value put before, behind and between the elements of x",
    .flags        = IPU__OP_EXACT_IN_HALF,
    .attributes   = pad_attributes,
    .n_attributes = IPU__COUNT(pad_attributes),
    .infer        = pad_infer,
    .grad         = pad_grad,
    .fold         = ipu__fold_pad,
    .samples      = pad_samples,
};

/* ---- the other modes: x among views of itself ---- */

static const char *const mode_names[] = {"constant", "reflect", "edge", "wrap"};

static ipu_status get_mode(const ipu__kernel_call *call, ipu_pad_mode *out)
{
    const char *name = ipu__op_text(call, "mode");
    for (int mode = IPU_PAD_REFLECT; mode <= IPU_PAD_WRAP; mode++) {
        *out = (ipu_pad_mode)mode;
        if (strcmp(name, mode_names[mode]) == 0) return IPU_OK;
    }
    return ipu__fail(IPU_INVALID, "pad_around: mode \"%s\": expected reflect, edge or wrap", name);
}

static ipu_status around_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    margin       margins[IPU_MAX_RANK];
    ipu_pad_mode mode;
    IPU_TRY(get_mode(call, &mode));
    IPU_TRY(get_margins(call, margins));
    out->type = call->operand[X].type;
    IPU_TRY(padded_shape(call, margins, &out->shape));
    for (int d = 0; d < out->shape.rank; d++) {
        int64_t n = call->operand[X].shape.dim[d], most = mode == IPU_PAD_REFLECT ? n - 1 : n;
        if (mode == IPU_PAD_EDGE && n > 0) continue;
        if ((margins[d].before > 0 && margins[d].before > most)
            || (margins[d].after > 0 && margins[d].after > most))
            return ipu__fail(IPU_INVALID,
                             "pad_around: %lld before and %lld after dimension %d of %s: mode %s can "
                             "add at most %lld",
                             (long long)margins[d].before, (long long)margins[d].after, d,
                             ipu__shape_str(&call->operand[X].shape), mode_names[mode],
                             (long long)(most > 0 ? most : 0));
    }
    return IPU_OK;
}

/* `n` elements that continue dimension `d` of x, which has `extent`, in front of it or behind it. */
static ipu_value margin_of(ipu_builder *b, ipu_value x, ipu_pad_mode mode, int64_t n, int d, bool in_front)
{
    int64_t   extent = ipu_value_dim(x, d);
    ipu_shape shape  = ipu_value_shape(x);
    if (mode == IPU_PAD_REFLECT)
        return ipu_reverse(
            b, in_front ? ipu_slice(b, x, 1, n + 1, d) : ipu_slice(b, x, extent - 1 - n, extent - 1, d), d);
    if (mode == IPU_PAD_WRAP)
        return in_front ? ipu_slice(b, x, extent - n, extent, d) : ipu_slice(b, x, 0, n, d);
    shape.dim[d] = n;
    return ipu_expand(b, in_front ? ipu_slice(b, x, 0, 1, d) : ipu_slice(b, x, extent - 1, extent, d), shape);
}

static void around_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    margin       margins[IPU_MAX_RANK] = {{0}};
    ipu_pad_mode mode                  = IPU_PAD_EDGE;
    get_margins(call, margins);
    get_mode(call, &mode);
    ipu_value x = in[X];
    for (int d = 0; d < call->operand[X].shape.rank; d++) {
        const margin *m = &margins[d];
        ipu_value     parts[3];
        size_t        n = 0;
        if (m->before > 0) parts[n++] = margin_of(b, x, mode, m->before, d, true);
        parts[n++] = x;
        if (m->after > 0) parts[n++] = margin_of(b, x, mode, m->after, d, false);
        if (n > 1) x = ipu_concat(b, parts, n, d);
        if (m->before < 0 || m->after < 0)
            x = ipu_slice(b, x, m->before < 0 ? -m->before : 0,
                          ipu_value_dim(x, d) + (m->after < 0 ? m->after : 0), d);
    }
    out[0] = x;
}

static const ipu_op_attribute around_attributes[] = {
    {.name = "before", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "in front of each dimension"},
    {.name = "after", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "behind each dimension"},
    {.name = "mode", .kind = IPU_ATTRIBUTE_TEXT, .required = true, .meaning = "reflect, edge or wrap"},
};

static const char *const around_samples[] = {"float[3,4]; before=[1,2] after=[0,3] mode=reflect",
                                             "float[3,4]; before=[1,2] after=[0,3] mode=edge",
                                             "float[3,4]; before=[1,2] after=[0,3] mode=wrap",
                                             "float[5,4]; before=[-1,2] after=[2,-1] mode=reflect", NULL};

const ipu__op_def ipu__op_pad_around = {
    .kernel       = {.name = "pad_around", .operands = operands, .n_operands = 2, .check = ipu__op_check},
    .n_in         = 1,
    .family       = "shape",
    .summary      = "x continued at its sides by itself: reflect, edge, wrap",
    .attributes   = around_attributes,
    .n_attributes = IPU__COUNT(around_attributes),
    .infer        = around_infer,
    .compose      = around_compose,
    .samples      = around_samples,
};

ipu_value ipu_pad(ipu_builder *b, ipu_value x, const int64_t *before, const int64_t *after, ipu_pad_mode mode,
                  double value)
{
    int rank = ipu_value_rank(x);
    if (mode == IPU_PAD_CONSTANT)
        return ipu__emit1(b, "pad",
                          IPU__WITH(IPU__INTS("before", before, rank), IPU__INTS("after", after, rank),
                                    IPU_FLOAT_ATTRIBUTE("value", value)),
                          IPU__IN(x));
    if ((unsigned)mode > IPU_PAD_WRAP) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_pad: there is no mode %d", (int)mode);
        return (ipu_value){b, 0};
    }
    return ipu__emit1(b, "pad_around",
                      IPU__WITH(IPU__INTS("before", before, rank), IPU__INTS("after", after, rank),
                                IPU_TEXT_ATTRIBUTE("mode", mode_names[mode])),
                      IPU__IN(x));
}

/* Fast resizing: the first dimension that changes by whole slabs, the others within each slab in turn.
 *
 * The gradient is the same with transposed tables. Each position of the first dimension belongs to one part,
 * so results do not depend on the number of parts.
 */
#include <string.h>

#include "base/alloc.h"
#include "op/vector/floats.h"
#include "op/vision/resize.h"

typedef struct state {
    const ipu__resize_loops *loops;
    ipu_type                 type;
    int                      rank, first; /* dimension that is done by slabs */
    int64_t                  planes;      /* of dimensions before it */
    int64_t                  slab_in, slab_out, slab_most;
    float                    extrapolation;
    ipu__resize_table        table[IPU_MAX_RANK];
} state;

bool ipu__resize_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    ipu_type type = call->operand[0].type;
    for (int i = 0; i < 2; i++)
        for (int d = 0; d < call->operand[i].shape.rank; d++)
            if (call->operand[i].shape.dim[d] > INT32_MAX) return false;
    return type == IPU_FLOAT || type == IPU_HALF || type == IPU_BFLOAT16;
}

/* ---- tables ---- */

static bool is_identity(const ipu__resize_axis *axis)
{
    if (axis->in != axis->out) return false;
    for (int64_t o = 0; o < axis->out; o++) {
        int64_t index[IPU__RESIZE_TAPS];
        double  weight[IPU__RESIZE_TAPS];
        if (ipu__resize_taps(axis, o, index, weight) != 1 || index[0] != o) return false;
    }
    return true;
}

/* How many outputs the busiest input is part of. */
static ipu_status count_uses(const ipu__resize_axis *axis, int64_t *out)
{
    int64_t *uses = ipu__alloc_zeroed((size_t)(axis->in + 1) * sizeof *uses);
    if (!uses) return ipu__fail_memory();
    *out = 1;
    for (int64_t o = 0; o < axis->out; o++) {
        int64_t index[IPU__RESIZE_TAPS];
        double  weight[IPU__RESIZE_TAPS];
        int     n = ipu__resize_taps(axis, o, index, weight);
        for (int k = 0; k < n; k++)
            if (++uses[index[k]] > *out) *out = uses[index[k]];
    }
    ipu__free(uses);
    return IPU_OK;
}

static void put(ipu__resize_table *t, int64_t tap, int64_t place, int64_t index, double weight)
{
    t->index[tap * t->to + place]  = (int32_t)index;
    t->weight[tap * t->to + place] = (float)weight;
}

static ipu_status fill_table(const ipu__resize_axis *axis, bool is_grad, ipu__resize_table *t)
{
    int64_t *used = is_grad ? ipu__alloc_zeroed((size_t)(axis->in + 1) * sizeof *used) : NULL;
    if (is_grad && !used) return ipu__fail_memory();
    for (int64_t o = 0; o < axis->out; o++) {
        int64_t index[IPU__RESIZE_TAPS];
        double  weight[IPU__RESIZE_TAPS];
        int     n = ipu__resize_taps(axis, o, index, weight);
        if (n == 0 && t->is_outside) t->is_outside[o] = true;
        for (int k = 0; k < n && is_grad; k++) {
            int64_t tap = used[index[k]]++;
            put(t, tap, index[k], o, weight[k]);
            if (tap == 0) /* what is left over weighs 0: it points to something that counts anyway */
                for (int64_t rest = 1; rest < t->taps; rest++) put(t, rest, index[k], o, 0);
        }
        for (int64_t k = 0; k < t->taps && !is_grad && n > 0; k++)
            put(t, k, o, index[k < n ? k : 0], k < n ? weight[k] : 0);
    }
    ipu__free(used);
    return IPU_OK;
}

static ipu_status make_table(const ipu__resize_axis *axis, bool is_grad, ipu__resize_table *t)
{
    *t = (ipu__resize_table){.from = is_grad ? axis->out : axis->in, .to = is_grad ? axis->in : axis->out};
    if (axis->in == 0 || axis->out == 0) return IPU_OK;
    t->is_identity = is_identity(axis);
    if (t->is_identity) return IPU_OK;
    t->taps = axis->mode == IPU_RESIZE_CUBIC ? 4 : axis->mode == IPU_RESIZE_LINEAR ? 2 : 1;
    if (is_grad) IPU_TRY(count_uses(axis, &t->taps));
    size_t n  = (size_t)(t->taps * t->to);
    t->index  = ipu__alloc_zeroed(n * sizeof *t->index);
    t->weight = ipu__alloc_zeroed(n * sizeof *t->weight);
    if (!t->index || !t->weight) return ipu__fail_memory();
    if (!is_grad && axis->coordinates == IPU_RESIZE_TF_CROP_AND_RESIZE) {
        t->is_outside = ipu__alloc_zeroed((size_t)t->to * sizeof *t->is_outside);
        if (!t->is_outside) return ipu__fail_memory();
    }
    return fill_table(axis, is_grad, t);
}

void ipu__resize_release(void *prepared)
{
    state *s = prepared;
    for (int d = 0; s && d < IPU_MAX_RANK; d++) {
        ipu__free(s->table[d].index);
        ipu__free(s->table[d].weight);
        ipu__free(s->table[d].is_outside);
    }
    ipu__free(s);
}

static bool is_grad_call(const ipu__kernel_call *call) { return call->def == &ipu__op_resize_grad.kernel; }

/* Elements of a slab, with dimensions up to d done and those from d on to do. */
static int64_t slab_elements(const ipu__kernel_call *call, int first, int d)
{
    int64_t n = 1;
    for (int k = first + 1; k < call->operand[0].shape.rank; k++)
        n *= call->operand[k < d ? 1 : 0].shape.dim[k];
    return n;
}

static int find_first(const ipu__resize_axis *axes, int rank)
{
    int first = 0;
    while (first < rank - 1 && is_identity(&axes[first])) first++;
    return first;
}

static int64_t largest_slab(const ipu__kernel_call *call, int first)
{
    int64_t most = 0;
    for (int d = 0; d <= call->operand[0].shape.rank; d++) {
        int64_t n = slab_elements(call, first, d);
        most      = n > most ? n : most;
    }
    return most;
}

static ipu_status make_tables(const ipu__kernel_call *call, state *s)
{
    ipu__resize_axis axes[IPU_MAX_RANK];
    bool             is_grad = is_grad_call(call);
    IPU_TRY(ipu__resize_axes(call, &call->operand[is_grad ? 1 : 0].shape, axes));
    for (int d = 0; d < s->rank; d++) IPU_TRY(make_table(&axes[d], is_grad, &s->table[d]));
    s->first  = find_first(axes, s->rank);
    s->planes = 1;
    for (int d = 0; d < s->first; d++) s->planes *= call->operand[0].shape.dim[d];
    s->slab_in   = slab_elements(call, s->first, 0);
    s->slab_out  = slab_elements(call, s->first, s->rank);
    s->slab_most = largest_slab(call, s->first);
    return IPU_OK;
}

ipu_status ipu__resize_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    state *s = ipu__alloc_zeroed(sizeof *s);
    *out     = NULL;
    if (!s) return ipu__fail_memory();
    s->loops          = &IPU__SIMD_PICK(ipu__resize_loops_of);
    s->type           = call->operand[0].type;
    s->rank           = call->operand[0].shape.rank;
    s->extrapolation  = is_grad_call(call) ? 0 : (float)ipu__op_float(call, "extrapolation");
    ipu_status status = make_tables(call, s);
    if (status == IPU_OK)
        *out = s;
    else
        ipu__resize_release(s);
    return status;
}

/* Two slabs to go back and forth between, and one that is read. */
size_t ipu__resize_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__resize_axis axes[IPU_MAX_RANK];
    if (ipu__resize_axes(call, &call->operand[is_grad_call(call) ? 1 : 0].shape, axes) != IPU_OK) return 0;
    return 3 * (size_t)largest_slab(call, find_first(axes, call->operand[0].shape.rank)) * sizeof(float);
}

/* ---- running ---- */

static void fill(float *y, float value, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = value;
}

/* Place `o` of the first dimension, as a slab: itself where nothing is to be done, else in `to`. */
static const float *combine(const state *s, const void *x, int64_t plane, int64_t o, float *to, float *buffer)
{
    const ipu__resize_table *t     = &s->table[s->first];
    int64_t                  start = plane * t->from, n = s->slab_in;
    if (s->rank == 0 || t->is_identity) return ipu__floats_get(s->type, x, (start + o) * n, n, buffer);
    if (t->taps == 1 && t->weight[o] == 1)
        return ipu__floats_get(s->type, x, (start + t->index[o]) * n, n, buffer);
    for (int64_t k = 0; k < t->taps; k++) {
        int64_t      at  = k * t->to + o;
        const float *row = ipu__floats_get(s->type, x, (start + t->index[at]) * n, n, buffer);
        if (k == 0 && t->weight[at] == 0)
            fill(to, 0, n);
        else if (k == 0)
            s->loops->scale(row, t->weight[at], to, n);
        else if (t->weight[at] != 0)
            s->loops->add(row, t->weight[at], to, n);
    }
    return to;
}

/* Dimension d of a slab [outer, from, inner]. */
static void resize_dimension(const state *s, int d, int64_t outer, int64_t inner, const float *x, float *y)
{
    const ipu__resize_table *t = &s->table[d];
    for (int64_t k = 0; k < outer; k++) {
        const float *from = x + k * t->from * inner;
        float       *to   = y + k * t->to * inner;
        if (inner == 1) s->loops->row(t, from, to);
        for (int64_t o = 0; o < t->to && inner > 1; o++)
            for (int64_t tap = 0; tap < t->taps; tap++) {
                int64_t at = tap * t->to + o;
                (tap == 0 ? s->loops->scale : s->loops->add)(from + t->index[at] * inner, t->weight[at],
                                                             to + o * inner, inner);
            }
        for (int64_t o = 0; o < t->to && t->is_outside; o++)
            if (t->is_outside[o]) fill(to + o * inner, s->extrapolation, inner);
    }
}

static const float *resize_slab(const state *s, const float *x, float *buffers[2], float *last)
{
    int64_t outer = 1, inner = s->slab_in;
    int     left = 0, turn = 0;
    for (int d = s->first + 1; d < s->rank; d++) left += !s->table[d].is_identity;
    for (int d = s->first + 1; d < s->rank; d++) {
        const ipu__resize_table *t = &s->table[d];
        inner /= t->from;
        if (!t->is_identity) {
            float *to = --left == 0 && last ? last : buffers[turn ^= 1];
            resize_dimension(s, d, outer, inner, x, to);
            x = to;
        }
        outer *= t->to;
    }
    return x;
}

ipu_status ipu__resize_run(const ipu__kernel_call *call, void *prepared, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    const state *s      = prepared;
    int64_t      places = s->rank ? s->table[s->first].to : 1;
    if (ipu__op_n_elements(&call->operand[1].shape) == 0) return IPU_OK;
    if (ipu__op_n_elements(&call->operand[0].shape) == 0) {
        if (part == 0)
            memset(operand[1], 0,
                   (size_t)ipu__op_n_elements(&call->operand[1].shape) * ipu_type_size(s->type));
        return IPU_OK;
    }
    ipu_interval mine    = ipu__op_part(s->planes * places, 1, part, n_parts);
    float       *pair[2] = {scratch, (float *)scratch + s->slab_most}, *reading = pair[1] + s->slab_most;
    for (int64_t i = mine.begin; i < mine.end; i++) {
        int64_t      o = i % places, at = i * s->slab_out;
        float       *last = s->type == IPU_FLOAT ? (float *)operand[1] + at : NULL;
        const bool  *out  = s->rank ? s->table[s->first].is_outside : NULL;
        const float *y    = pair[0];
        if (out && out[o])
            fill(pair[0], s->extrapolation, s->slab_out);
        else
            y = resize_slab(s, combine(s, operand[0], i / places, o, pair[0], reading), pair, last);
        if (y != last) ipu__floats_store(s->type, y, operand[1], at, s->slab_out);
    }
    return IPU_OK;
}

/* conv_max_pool and the gradient of its weights by the implementations of their constituent ops, a few images
 * at a time: intermediate values stay in the second-level cache.
 *
 * A part gets images. Within it, intermediate values have the convolution's preferred layout; the pool's
 * results are converted if wanted in another one. Weight gradients are sums over all images: the last part to
 * finish adds up those of all parts.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "op/conv/pool.h"
#include "op/vector/lanes.h"

enum {
    ROOM       = 384 << 10, /* bytes of what is between, of the images at a time; */
    LANES_ROOM = 2 << 20    /* or of sixteen, which implementations need that have images in lanes */
};

typedef struct piece {
    ipu_interval         image;   /* all of its images */
    int64_t              at_once; /* a divisor of their number */
    ipu__conv_pool_calls calls;   /* for so many */
    const ipu__cpu_impl *conv, *pool;
    void                *conv_state, *pool_state;
    size_t               between; /* bytes */
    ipu__memory_layout   layout;  /* of what is between */
} piece;

typedef struct state {
    int        n_parts;
    int64_t    n_weights, n_channels;
    float     *sums;   /* gradients of weights and biases: those of each part */
    atomic_int n_left; /* parts that have not finished */
    piece      parts[];
} state;

static size_t up_to_line(size_t bytes) { return (bytes + 63) / 64 * 64; }

static size_t bytes_of(const ipu__kernel_value *value)
{
    return (size_t)ipu__op_n_elements(&value->shape) * ipu_type_size(value->type);
}

/* ---- what fits ---- */

static const ipu__kernel_value *between(const ipu__conv_pool_calls *c)
{
    return &c->pool.operand[c->pool.def == &ipu__op_max_pool.kernel ? 0 : 2];
}

/* The greatest divisor of `n` with which the images have room, or sixteen. */
static int64_t choose_at_once(int64_t n, int64_t image_bytes)
{
    int64_t most = image_bytes < ROOM ? ROOM / image_bytes : 1;
    if (n % IPU__LANES == 0 && most < IPU__LANES && IPU__LANES * image_bytes <= LANES_ROOM) return IPU__LANES;
    if (most > n) most = n;
    while (most > 1 && n % most != 0) most--;
    return most;
}

/* How what is between lies: as the convolution writes it without turning, if the pool has loops for it. */
static ipu__memory_layout choose_layout(const piece *p)
{
    static const ipu__memory_layout order[] = {IPU__LAYOUT_BLOCKED, IPU__LAYOUT_LANES};
    const ipu__kernel_call         *conv = &p->calls.conv, *pool = &p->calls.pool;
    if (conv->def != &ipu__op_conv.kernel || !p->conv->layouts || !p->pool->layouts) return IPU__LAYOUT_PLAIN;
    unsigned native = p->conv->layouts(conv, 1, IPU__CONV_OUT).native;
    unsigned takes  = p->pool->layouts(pool, 1, 0).takes;
    for (int i = 0; i < 2; i++) {
        bool fits = ipu__layout_fits(order[i], &pool->operand[0].shape)
                 && ipu__layout_fits(order[i], &pool->operand[1].shape);
        if (fits && (native & takes & IPU__LAYOUT_BIT(order[i]))) return order[i];
    }
    return IPU__LAYOUT_PLAIN;
}

/* The share of a part; false: there is no implementation. Those stay NULL where there is nothing to do. */
static bool describe(piece *p, const ipu__kernel_call *call, const void *machine, int part, int n_parts)
{
    int64_t n = call->operand[0].shape.dim[0];
    memset(p, 0, sizeof *p);
    p->image = ipu__op_part(n, n % IPU__LANES == 0 && n >= IPU__LANES * n_parts ? IPU__LANES : 1, part,
                            n_parts);
    if (p->image.end <= p->image.begin) return true;
    ipu__conv_pool_split(call, 1, &p->calls);
    if (bytes_of(between(&p->calls)) == 0) return false;
    p->at_once = choose_at_once(p->image.end - p->image.begin, (int64_t)bytes_of(between(&p->calls)));
    ipu__conv_pool_split(call, p->at_once, &p->calls);
    p->conv = ipu__cpu_find_impl(&p->calls.conv, machine, 1);
    p->pool = ipu__cpu_find_impl(&p->calls.pool, machine, 1);
    if (!p->conv || !p->pool) return false;
    p->layout  = choose_layout(p);
    p->between = up_to_line(bytes_of(between(&p->calls)));
    if (!ipu__conv_pool_is_grad(call)) p->calls.conv.layout[IPU__CONV_X] = call->layout[IPU__CONV_POOL_X];
    if (p->layout == IPU__LAYOUT_PLAIN) return true;
    p->calls.conv.layout[IPU__CONV_OUT] = (uint8_t)p->layout;
    for (int i = 0; i < p->calls.pool.n_operands; i++) p->calls.pool.layout[i] = (uint8_t)p->layout;
    return true;
}

bool ipu__conv_pool_pieces_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    bool any = false;
    if (call->operand[0].type != IPU_FLOAT || call->operand[0].shape.dim[0] < 1) return false;
    for (int i = 0; i < n_parts; i++) {
        piece p;
        if (!describe(&p, call, machine, i, n_parts)) return false;
        any |= p.conv != NULL;
    }
    return any;
}

/* What the convolution takes x as, and results in the layout of what is between, if all parts agree. */
ipu__kernel_layouts ipu__conv_pool_pieces_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    const unsigned      plain = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    ipu__kernel_layouts found = {plain, plain, false};
    piece               p, other;
    if (ipu__conv_pool_is_grad(call) || !describe(&p, call, ipu__cpu_machine_here(), 0, n_parts) || !p.conv)
        return found;
    for (int i = 1; i < n_parts; i++) {
        if (!describe(&other, call, ipu__cpu_machine_here(), i, n_parts)) return found;
        if (other.conv && (other.conv != p.conv || other.layout != p.layout)) return found;
    }
    if (operand == IPU__CONV_POOL_X && p.conv->layouts) {
        memset(p.calls.conv.layout, 0, sizeof p.calls.conv.layout);
        ipu__kernel_layouts x = p.conv->layouts(&p.calls.conv, 1, IPU__CONV_X);
        return x.tied ? found : x;
    }
    unsigned own = IPU__LAYOUT_BIT(p.layout);
    if (operand >= IPU__CONV_POOL_Y) found = (ipu__kernel_layouts){plain | own, own, false};
    return found;
}

/* ---- at load ---- */

static size_t inner_scratch(const ipu__cpu_impl *impl, const ipu__kernel_call *call)
{
    size_t bytes = impl->scratch_bytes ? impl->scratch_bytes(call, 1) : 0;
    return bytes == SIZE_MAX ? bytes : up_to_line(bytes);
}

/* Of results of the pool, if they are turned: they may be, whatever layouts were chosen. */
static size_t result_bytes(const piece *p)
{
    const ipu__kernel_call *pool = &p->calls.pool;
    if (p->layout == IPU__LAYOUT_PLAIN || pool->def != &ipu__op_max_pool.kernel) return 0;
    return up_to_line(bytes_of(&pool->operand[1])) + up_to_line(bytes_of(&pool->operand[2]));
}

static size_t weight_bytes(const piece *p)
{
    const ipu__kernel_call *conv = &p->calls.conv;
    return conv->def == &ipu__op_conv.kernel
             ? 0
             : up_to_line(bytes_of(&conv->operand[IPU__CONV_WEIGHT_GRAD_OUT]));
}

size_t ipu__conv_pool_pieces_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    size_t most = 0;
    for (int i = 0; i < n_parts; i++) {
        piece p;
        if (!describe(&p, call, ipu__cpu_machine_here(), i, n_parts) || !p.conv) continue;
        size_t conv = inner_scratch(p.conv, &p.calls.conv), pool = inner_scratch(p.pool, &p.calls.pool);
        if (conv == SIZE_MAX || pool == SIZE_MAX) return SIZE_MAX;
        size_t bytes = p.between + result_bytes(&p) + weight_bytes(&p) + (conv > pool ? conv : pool);
        if (bytes > most) most = bytes;
    }
    return most;
}

static ipu_status prepare_part(piece *p)
{
    ipu_status status = IPU_OK;
    if (p->conv && p->conv->prepare) status = p->conv->prepare(&p->calls.conv, 1, &p->conv_state);
    if (status != IPU_OK) p->conv_state = NULL;
    if (status == IPU_OK && p->pool && p->pool->prepare)
        status = p->pool->prepare(&p->calls.pool, 1, &p->pool_state);
    return status;
}

ipu_status ipu__conv_pool_pieces_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    *out     = NULL;
    if (!s) return ipu__fail_memory();
    ipu_status status = IPU_OK;
    s->n_parts        = n_parts;
    atomic_init(&s->n_left, n_parts);
    if (ipu__conv_pool_is_grad(call)) {
        s->n_weights  = ipu__op_n_elements(&call->operand[IPU__CONV_POOL_GRAD_DW].shape);
        s->n_channels = call->operand[IPU__CONV_POOL_GRAD_DY].shape.dim[1];
        s->sums       = ipu__alloc((size_t)(n_parts * (s->n_weights + s->n_channels) + 1) * sizeof *s->sums);
        if (!s->sums) status = ipu__fail_memory();
    }
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        if (!describe(&s->parts[i], call, ipu__cpu_machine_here(), i, n_parts))
            status = ipu__fail(IPU_UNSUPPORTED, "%s: nothing fits its parts", call->def->name);
        else
            status = prepare_part(&s->parts[i]);
    }
    if (status == IPU_OK)
        *out = s;
    else
        ipu__conv_pool_pieces_release(s);
    return status;
}

void ipu__conv_pool_pieces_release(void *prepared)
{
    state *s = prepared;
    if (!s) return;
    for (int i = 0; i < s->n_parts; i++) {
        piece *p = &s->parts[i];
        if (p->conv_state && p->conv->release) p->conv->release(p->conv_state);
        if (p->pool_state && p->pool->release) p->pool->release(p->pool_state);
    }
    ipu__free(s->sums);
    ipu__free(s);
}

/* ---- running ---- */

static ipu_status run_conv(const piece *p, void *const *operand, void *scratch)
{
    return p->conv->run(&p->calls.conv, p->conv_state, operand, scratch, 0, 1);
}

static ipu_status run_pool(const piece *p, void *const *operand, void *scratch)
{
    return p->pool->run(&p->calls.pool, p->pool_state, operand, scratch, 0, 1);
}

static void mask(const float *y, int32_t *indices, int64_t n)
{
    for (int64_t i = 0; i < n; i++) indices[i] = y[i] > 0 ? indices[i] : -1;
}

/* What lies in the piece's layout, to rows. Both types have four bytes. */
static void turn_back(const piece *p, const ipu_shape *shape, const void *from, void *to)
{
    int64_t n = shape->dim[0], channels = shape->dim[1], plane = 1;
    for (int d = 2; d < shape->rank; d++) plane *= shape->dim[d];
    bool    lanes = p->layout == IPU__LAYOUT_LANES;
    int64_t row = lanes ? channels * plane : plane, n_groups = (lanes ? n : n * channels) / IPU__LANES;
    for (int64_t i = 0; i < n_groups; i++)
        IPU__SIMD_PICK(ipu__lane_turns_at)
            .turn_back((const float *)from + i * row * IPU__LANES, row, (float *)to + i * row * IPU__LANES,
                       row);
}

static float *image_at(void *operand, const ipu__kernel_value *some, int64_t n_some, int64_t image)
{
    return (float *)operand + ipu__op_n_elements(&some->shape) / n_some * image;
}

static ipu_status forward(const ipu__kernel_call *call, const piece *p, void *const *operand, char *scratch)
{
    const ipu__kernel_value *y = &p->calls.pool.operand[1], *x = &call->operand[IPU__CONV_POOL_X];
    bool                     wants    = ipu__kernel_has(call, IPU__CONV_POOL_INDICES);
    bool                     turns    = call->layout[IPU__CONV_POOL_Y] != p->layout;
    bool                     turns_at = !wants || call->layout[IPU__CONV_POOL_INDICES] != p->layout;
    char                    *results = scratch + p->between, *rest = results + result_bytes(p);
    void                    *places = results + up_to_line(bytes_of(y));
    for (int64_t i = p->image.begin; i < p->image.end; i += p->at_once) {
        float *to    = image_at(operand[IPU__CONV_POOL_Y], y, p->at_once, i);
        float *to_at = wants ? image_at(operand[IPU__CONV_POOL_INDICES], y, p->at_once, i) : NULL;
        void *conv[IPU__MAX_OPERANDS] = {image_at(operand[0], x, x->shape.dim[0], i), operand[1], operand[2]};
        void *pool[]        = {scratch, turns ? results : (void *)to, turns_at ? places : (void *)to_at};
        conv[IPU__CONV_OUT] = scratch;
        IPU_TRY(run_conv(p, conv, rest));
        IPU_TRY(run_pool(p, pool, rest));
        if (wants && ipu__op_int(call, "mask")) mask(pool[1], pool[2], ipu__op_n_elements(&y->shape));
        if (turns) turn_back(p, &y->shape, results, to);
        if (turns_at && wants) turn_back(p, &y->shape, places, to_at);
    }
    return IPU_OK;
}

/* Sums for biases of the part's images. */
static void add_biases(const piece *p, const float *dy, const int32_t *at, int64_t n_channels, float *sums)
{
    const ipu_shape *shape = &p->calls.pool.operand[0].shape;
    int64_t          plane = ipu__op_n_elements(shape) / shape->dim[0] / n_channels;
    for (int64_t i = 0; i < shape->dim[0] * n_channels; i++)
        for (int64_t k = i * plane; k < (i + 1) * plane; k++)
            if (at[k] >= 0) sums[i % n_channels] += dy[k];
}

static ipu_status grad(const ipu__kernel_call *call, const state *s, const piece *p, void *const *operand,
                       char *scratch, float *sums)
{
    const ipu__kernel_value *dy = &p->calls.pool.operand[0], *x = &call->operand[IPU__CONV_POOL_GRAD_X];
    float                   *dw   = (float *)(void *)(scratch + p->between);
    char                    *rest = scratch + p->between + weight_bytes(p);
    for (int64_t i = p->image.begin; i < p->image.end; i += p->at_once) {
        float *from   = image_at(operand[IPU__CONV_POOL_GRAD_DY], dy, p->at_once, i);
        void  *at     = image_at(operand[IPU__CONV_POOL_GRAD_INDICES], dy, p->at_once, i);
        void  *pool[] = {from, at, scratch};
        void  *conv[] = {image_at(operand[0], x, x->shape.dim[0], i), scratch, dw};
        IPU_TRY(run_pool(p, pool, rest));
        IPU_TRY(run_conv(p, conv, rest));
        for (int64_t k = 0; k < s->n_weights; k++) sums[k] += dw[k];
        add_biases(p, from, at, s->n_channels, sums + s->n_weights);
    }
    return IPU_OK;
}

static void add_up(const ipu__kernel_call *call, const state *s, void *const *operand)
{
    int64_t n  = s->n_weights + s->n_channels;
    float  *dw = operand[IPU__CONV_POOL_GRAD_DW], *db = operand[IPU__CONV_POOL_GRAD_DB];
    for (int k = 1; k < s->n_parts; k++)
        for (int64_t i = 0; i < n; i++) s->sums[i] += s->sums[k * n + i];
    memcpy(dw, s->sums, (size_t)s->n_weights * sizeof *dw);
    if (ipu__kernel_has(call, IPU__CONV_POOL_GRAD_DB))
        memcpy(db, s->sums + s->n_weights, (size_t)s->n_channels * sizeof *db);
}

ipu_status ipu__conv_pool_pieces_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                     void *scratch, int part, int n_parts)
{
    state       *s      = prepared;
    const piece *p      = &s->parts[part];
    ipu_status   status = IPU_OK;
    if (!ipu__conv_pool_is_grad(call)) return p->conv ? forward(call, p, operand, scratch) : IPU_OK;
    int64_t n    = s->n_weights + s->n_channels;
    float  *sums = s->sums + part * n;
    memset(sums, 0, (size_t)n * sizeof *sums);
    if (p->conv) status = grad(call, s, p, operand, scratch, sums);
    if (atomic_fetch_sub_explicit(&s->n_left, 1, memory_order_acq_rel) != 1) return status;
    atomic_store_explicit(&s->n_left, n_parts, memory_order_relaxed);
    add_up(call, s, operand);
    return status;
}

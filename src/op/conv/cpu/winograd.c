/* Winograd's convolution: when it fits, what it costs, and what each part does.
 *
 * * Parts get rows of tiles, or channels of the result if transforming the weights costs more than
 * transforming the images: each part does the transforms it needs. Weight gradients, which are sums over all
 * tiles, are divided by channels only.
 */
#include "op/conv/cpu/winograd.h"

#include "base/alloc.h"

typedef ipu__wino_shape shape;
typedef ipu__wino_part  part;

enum {
    WIDTH          = IPU__WINO_WIDTH,
    STRIDED_VALUES = 81,        /* at all points of a tile */
    BLOCK          = 64,        /* channels of the result at a time: what libxsmm keeps in registers */
    LEAST          = 16,        /* tiles at a time */
    MOST           = 32,        /* more gain nothing */
    INPUT_ROOM     = 384 << 10, /* bytes of inputs at a time, so that they stay in the second-level cache */
    STRIDED_ROOM   = 3 << 20,   /* bytes of weights at a time where they are used for several rows */
    WEIGHT_ROOM    = 320 << 10, /* so of weights that are used once */
};

/* Cycles for sixteen channels: transforms of a tile and of one input's weights, measured on Zen 4; products
 * are one multiplication and addition of sixteen floats a cycle. */
#define TILE_CYCLES 140.0
#define WEIGHT_CYCLES 130.0
/* What direct convolution reaches of that. */
#define DIRECT_SHARE 0.8
/* It has to be this much better, as it is less precise. */
#define LEAST_GAIN 1.2
/* With strides of 2, where values at points take more room than caches have. */
#define LEAST_STRIDED_GAIN 1.45

/* ---- the call ---- */

static shape shape_of(const ipu__conv *c)
{
    shape s = {.kind = c->kind, .is_strided = c->stride[1] == 2, .n = c->n, .in = c->in, .out = c->out};
    for (int d = 0; d < 2; d++) {
        s.x[d]   = c->x[1 + d];
        s.y[d]   = c->y[1 + d];
        s.pad[d] = c->pad[1 + d];
    }
    for (int d = 0; d < 2; d++) s.tiles[d] = ipu__op_ceil_div(s.y[d], IPU__WINO_TILE);
    if (c->kind != IPU__CONV_INPUT_GRAD) return s;
    shape t = s;
    t.in = s.out, t.out = s.in;
    for (int d = 0; d < 2; d++) {
        t.x[d]     = s.y[d];
        t.y[d]     = s.x[d];
        t.pad[d]   = 2 - s.pad[d];
        t.tiles[d] = ipu__op_ceil_div(t.y[d], IPU__WINO_TILE);
    }
    int64_t spread = s.tiles[0] * s.tiles[1], gathered = t.tiles[0] * t.tiles[1];
    t.is_spread = spread < gathered && spread <= MOST;
    for (int d = 0; d < 2 && t.is_spread; d++) {
        t.tiles[d] = s.tiles[d];
        t.pad[d]   = s.pad[d];
    }
    return t;
}

static bool is_3x3(const ipu__conv *c)
{
    if (c->groups != 1 || c->k[0] != 1 || c->x[0] != 1 || c->y[0] != 1 || c->pad[0] != 0) return false;
    for (int d = 1; d < 3; d++)
        if (c->k[d] != 3 || c->dilation[d] != 1) return false;
    bool by_2 = c->stride[1] == 2 && c->stride[2] == 2 && c->kind == IPU__CONV_FORWARD;
    return by_2 || (c->stride[1] == 1 && c->stride[2] == 1);
}

/* ---- costs ---- */

static double work_of(const shape *s, double n_tiles, double in, double out)
{
    double values = s->is_strided ? STRIDED_VALUES : IPU__WINO_POINTS, more = values / IPU__WINO_POINTS;
    double products = values * n_tiles * in * out / WIDTH;
    return products + ((more * in + out) * n_tiles * TILE_CYCLES + more * in * out * WEIGHT_CYCLES) / WIDTH;
}

/* Of the part that has most, if parts have channels of y, channels of x, or rows. */
typedef enum share { BY_ROWS, BY_OUT, BY_IN } share;

/* Parts have whole images if tiles overlap. */
static int64_t row_grain(const shape *s) { return s->is_spread ? s->tiles[0] : 1; }

static double most(int64_t n, int64_t grain, int n_parts)
{
    ipu_interval i = ipu__op_part(n, grain, 0, n_parts);
    return (double)(i.end - i.begin);
}

static double cost_of(const shape *s, share by, int n_parts)
{
    int64_t all  = s->n * s->tiles[0];
    double  rows = by == BY_ROWS ? most(all, row_grain(s), n_parts) : (double)all;
    double  in   = by == BY_IN ? most(s->in, WIDTH, n_parts) : (double)s->in;
    double  out  = by == BY_OUT ? most(s->out, WIDTH, n_parts) : (double)s->out;
    return work_of(s, rows * (double)s->tiles[1], in, out);
}

static share share_of(const shape *s, int n_parts)
{
    share other = s->kind == IPU__CONV_WEIGHT_GRAD ? BY_IN : BY_ROWS;
    return cost_of(s, BY_OUT, n_parts) < cost_of(s, other, n_parts) ? BY_OUT : other;
}

bool ipu__conv_winograd_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    ipu__conv c = ipu__conv_get(call);
    if (call->operand[0].type != IPU_FLOAT || !is_3x3(&c) || !ipu__xsmm_works(ipu__cpu_features_of(machine)))
        return false;
    if ((ipu__cpu_features_of(machine) & IPU__SIMD_AVX2) != IPU__SIMD_AVX2
        || !IPU__SIMD_PICK(ipu__wino_loops_at).input)
        return false;
    if (c.n < 1 || c.in < 1 || c.out < 1 || c.in % WIDTH != 0 || c.out % WIDTH != 0) return false;
    if (ipu__conv_volume(c.x) < 1 || ipu__conv_volume(c.y) < 1) return false;
    shape  s      = shape_of(&c);
    double direct = 9.0 * (double)c.n * (double)(c.y[1] * c.y[2]) * (double)c.in * (double)c.out / WIDTH;
    double least  = s.is_strided ? LEAST_STRIDED_GAIN : LEAST_GAIN;
    return cost_of(&s, share_of(&s, n_parts), n_parts) * least < direct / DIRECT_SHARE / n_parts;
}

/* ---- shares ---- */

static int64_t length(ipu_interval i) { return i.end - i.begin; }

/* Of values at one point. */
static int64_t n_kept(const shape *s, const part *p)
{
    return (p->is_kept ? length(p->row) : p->rows_at_once) * s->tiles[1];
}

/* Channels of x, which they divide, so that weights of as many fit the cache. */
static int64_t depth_of(int64_t in, int64_t block)
{
    int64_t most = WEIGHT_ROOM / (int64_t)sizeof(float) / IPU__WINO_POINTS / block / WIDTH * WIDTH;
    for (int64_t depth = most; depth > WIDTH; depth -= WIDTH)
        if (in % depth == 0) return depth;
    return WIDTH;
}

/* Channels of y at a time with strides of 2, whose weights are larger. */
static int64_t strided_block(int64_t in, int64_t out)
{
    int64_t most = STRIDED_ROOM / (int64_t)sizeof(float) / STRIDED_VALUES / in / WIDTH * WIDTH;
    return ipu__xsmm_block(out, most < WIDTH ? WIDTH : most > BLOCK ? BLOCK : most, WIDTH);
}

static part describe(const shape *s, int index, int n_parts)
{
    part p = {.row = {0, s->n * s->tiles[0]}, .in = {0, s->in}, .out = {0, s->out}};
    switch (share_of(s, n_parts)) {
    case BY_ROWS: p.row = ipu__op_part(p.row.end, row_grain(s), index, n_parts); break;
    case BY_OUT: p.out = ipu__op_part(s->out, WIDTH, index, n_parts); break;
    case BY_IN: p.in = ipu__op_part(s->in, WIDTH, index, n_parts); break;
    }
    int64_t rows = length(p.row), in = length(p.in), out = length(p.out);
    if (rows == 0 || in == 0 || out == 0) return (part){.block = 0};
    int64_t tiles = INPUT_ROOM / (int64_t)sizeof(float) / ipu__wino_n_points(s) / ipu__wino_wide(s, in);
    tiles         = tiles < LEAST ? LEAST : tiles > MOST ? MOST : tiles;
    int64_t grain = row_grain(s), at_once = tiles / s->tiles[1] / grain * grain;
    p.rows_at_once = ipu__xsmm_block(rows, at_once < grain ? grain : at_once, grain);
    p.block        = ipu__xsmm_block(out, BLOCK, WIDTH);
    int64_t some = p.rows_at_once * s->tiles[1], all = rows * s->tiles[1];
    /* What is kept of values at points beside what both ways have. */
    if (s->kind == IPU__CONV_WEIGHT_GRAD) {
        p.is_kept = all * in + (some + in) * p.block < some * in + (some + in) * out;
        if (!p.is_kept) p.block = out;
    } else {
        p.is_kept = all + p.block < some + out;
    }
    p.depth = in;
    if (!p.is_kept || s->kind == IPU__CONV_WEIGHT_GRAD) return p;
    at_once        = MOST / s->tiles[1] / grain * grain;
    p.rows_at_once = ipu__xsmm_block(rows, at_once < grain ? grain : at_once, grain);
    if (s->is_strided)
        p.block = strided_block(in, out);
    else if (p.rows_at_once == rows)
        p.depth = depth_of(in, p.block);
    return p;
}

ipu__wino_room ipu__wino_make_room(const shape *s, const part *p)
{
    ipu__wino_room r = {0};
    if (p->block == 0) return r;
    int64_t pitch = ipu__wino_pitch(s, length(p->in)), deep = ipu__wino_wide(s, p->depth);
    int64_t rows = p->rows_at_once, blocks = 1, buffer = ipu__wino_n_points(s);
    if (!p->is_kept) blocks = ipu__op_ceil_div(length(p->out), p->block);
    /* One line more, so that points do not all lie in the same set of the cache. */
    r.input_step   = n_kept(s, p) * pitch + WIDTH;
    r.weights_step = deep * p->block + WIDTH;
    r.output_step  = rows * s->tiles[1] * p->block + WIDTH;
    r.weights      = buffer * r.input_step;
    r.output       = r.weights + buffer * r.weights_step * blocks;
    r.turned       = r.output + buffer * r.output_step;
    int64_t x_rows = rows * IPU__WINO_TILE * (s->is_strided ? 2 : 1) + 2;
    if (x_rows > s->x[0]) x_rows = s->x[0];
    int64_t turned = x_rows * s->x[1],
            y      = 2 * IPU__WINO_TILE * s->y[1]; /* of the result, and what is added */
    if (s->is_spread && s->y[0] * s->y[1] > y) y = s->y[0] * s->y[1];
    r.small  = r.turned + (turned > y ? turned : y) * WIDTH;
    r.affine = r.small + 9 * WIDTH * WIDTH;
    r.n      = r.affine + (s->kind == IPU__CONV_FORWARD ? 2 * length(p->out) : 0);
    return r;
}

/* ---- layouts ---- */

ipu__kernel_layouts ipu__conv_winograd_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    const unsigned            plain   = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    const unsigned            blocked = IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED);
    const ipu__kernel_layouts only    = {.takes = plain, .native = plain};
    const ipu__kernel_layouts either  = {.takes = plain | blocked, .native = blocked};
    (void)n_parts;
    ipu__conv_kind kind = ipu__conv_get(call).kind;
    if (operand == 0) return either;
    if (kind == IPU__CONV_WEIGHT_GRAD) return operand == IPU__CONV_WEIGHT_GRAD_DY ? either : only;
    if (kind == IPU__CONV_INPUT_GRAD) return operand == IPU__CONV_INPUT_GRAD_OUT ? either : only;
    if (operand <= IPU__CONV_BIAS) return only;
    ipu__affine         unused;
    bool                may_block = ipu__affine_of(call, &unused) || ipu__epilogue_is_flat(call);
    ipu__kernel_layouts tied      = ipu__affine_layouts(call, operand, may_block ? blocked : 0);
    if (may_block && tied.tied) tied.native = blocked;
    return tied;
}

/* ---- at load ---- */

size_t ipu__conv_winograd_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    ipu__conv c    = ipu__conv_get(call);
    shape     s    = shape_of(&c);
    int64_t   n    = 0;
    size_t    more = c.kind == IPU__CONV_FORWARD ? ipu__epilogue_scratch_bytes(call) : 0;
    for (int i = 0; i < n_parts; i++) {
        part           p = describe(&s, i, n_parts);
        ipu__wino_room r = ipu__wino_make_room(&s, &p);
        if (r.n > n) n = r.n;
    }
    return more == SIZE_MAX ? more : (size_t)n * sizeof(float) + more;
}

/* The product of `rows` rows of tiles and `channels` of the result. */
static ipu__xsmm_fn get_product(const shape *s, const part *p, int64_t rows, int64_t channels, bool add)
{
    int64_t tiles = rows * s->tiles[1], in = length(p->in), pitch = ipu__wino_pitch(s, in);
    if (s->kind == IPU__CONV_WEIGHT_GRAD)
        return ipu__xsmm_get(in, channels, tiles, pitch, p->block, p->block, true, add);
    return ipu__xsmm_get(tiles, channels, p->depth, pitch, p->block, p->block, false, add);
}

static bool make_strided(const shape *s, const part *p, int64_t rows, int64_t channels, ipu__xsmm_fn out[3])
{
    bool    is_made = true;
    int64_t wide = ipu__wino_wide(s, s->in), pitch = ipu__wino_pitch(s, s->in);
    for (int i = 0; i < 3; i++) {
        out[i] = ipu__xsmm_get(rows * s->tiles[1], channels, wide >> i, pitch, p->block, p->block, false,
                               false);
        is_made &= out[i] != NULL;
    }
    return is_made;
}

static ipu_status make_part(const shape *s, part *p)
{
    if (p->block == 0) return IPU_OK;
    const int64_t rows[]     = {p->rows_at_once, length(p->row) % p->rows_at_once};
    const int64_t channels[] = {p->block, length(p->out) % p->block};
    for (int bits = 0; bits < 8; bits++) {
        int  i = bits & 1, j = bits >> 1 & 1, add = bits >> 2;
        bool adds    = s->kind == IPU__CONV_WEIGHT_GRAD || p->depth < length(p->in);
        bool is_used = rows[i] > 0 && channels[j] > 0 && (!add || adds);
        if (!is_used) continue;
        bool is_made = s->is_strided
                         ? make_strided(s, p, rows[i], channels[j], p->strided[i][j])
                         : (p->product[i][j][add] = get_product(s, p, rows[i], channels[j], add)) != NULL;
        if (!is_made)
            return ipu__fail(IPU_UNSUPPORTED, "libxsmm has no kernel for %lld x %lld x %lld",
                             (long long)(rows[i] * s->tiles[1]), (long long)channels[j],
                             (long long)length(p->in));
    }
    return IPU_OK;
}

ipu_status ipu__conv_winograd_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    ipu__conv  c = ipu__conv_get(call);
    ipu__wino *w = *out = ipu__alloc_zeroed(sizeof *w + (size_t)n_parts * sizeof *w->parts);
    ipu_status status   = IPU_OK;
    if (!w) return ipu__fail_memory();
    w->s = shape_of(&c);
    if (c.kind == IPU__CONV_FORWARD && !ipu__affine_of(call, &w->affine)) {
        w->affine = (ipu__affine){0};
        status    = ipu__epilogue_init(&w->epilogue, call);
    }
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        w->parts[i] = describe(&w->s, i, n_parts);
        status      = make_part(&w->s, &w->parts[i]);
    }
    if (status == IPU_OK) return IPU_OK;
    ipu__conv_winograd_release(w);
    *out = NULL;
    return status;
}

void ipu__conv_winograd_release(void *prepared)
{
    ipu__wino *w = prepared;
    ipu__epilogue_fini(&w->epilogue);
    ipu__free(w);
}

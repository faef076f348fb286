/* Convolutions of few channels with sixteen images at a time in the lanes of vectors.
 *
 * Parts have whole groups of sixteen images, or, if these do not divide evenly, rows or channels of each group. Gradients
 * of weights are sums over all images: parts of them are added up by whoever comes last, or, of one group, parts have
 * weights of their own.
 */
#include "op/conv_lanes.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "op/lanes.h"

typedef struct state {
    ipu__conv     c;
    ipu__epilogue epilogue; /* empty but for conv, and for a relu alone */
    bool          relu;
    float        *sums;   /* gradients of weights: those of each part */
    atomic_int    n_left; /* parts that have not finished */
} state;

enum {
    MOST_IN    = 16, /* channels above which products of matrices are as fast */
    MOST_OUT   = 32,
    MOST_BYTES = 512 << 10, /* of what is turned: it is to stay in the second-level cache */
    MANY_TASKS = 8,         /* of a part, so that they are even */
};

/* ---- what fits ---- */

static bool is_plain(const ipu__conv *c)
{
    for (int d = 0; d < 3; d++)
        if (c->stride[d] != 1 || c->dilation[d] != 1 || c->pad[d] != 0 || c->pad_end[d] != 0) return false;
    return c->k[0] == 1 && c->x[0] == 1 && c->y[0] == 1 && c->groups == 1;
}

static int64_t x_floats(const ipu__conv *c) { return c->in * ipu__conv_volume(c->x) * IPU__LANES; }
static int64_t y_floats(const ipu__conv *c) { return c->out * ipu__conv_volume(c->y) * IPU__LANES; }

bool ipu__conv_lanes_fits(const ipu_kernel_call *call, unsigned cpu_features, int n_parts)
{
    (void)n_parts;
    ipu__conv c = ipu__conv_get(call);
    if (call->operand[0].type != IPU_FLOAT || !is_plain(&c) || c.n == 0 || c.n % IPU__LANES != 0)
        return false;
    if ((cpu_features & IPU__SIMD_AVX512) != IPU__SIMD_AVX512 || !IPU__SIMD_PICK(ipu__lanes_loops_at).forward)
        return false;
    if (c.kind != IPU__CONV_FORWARD && c.k[2] != 3 && c.k[2] != 5) return false;
    if (ipu__conv_volume(c.y) < 1 || c.in < 1 || c.out < 1 || c.in > MOST_IN || c.out > MOST_OUT)
        return false;
    return x_floats(&c) + y_floats(&c) <= MOST_BYTES / (int64_t)sizeof(float);
}

/* Operands that are x and y of the convolution; the last one is what comes out. */
static int operand_of_x(ipu__conv_kind kind)
{
    return kind == IPU__CONV_INPUT_GRAD ? IPU__CONV_INPUT_GRAD_OUT : IPU__CONV_X;
}

static int operand_of_y(ipu__conv_kind kind)
{
    return kind == IPU__CONV_FORWARD     ? (int)IPU__CONV_OUT
         : kind == IPU__CONV_WEIGHT_GRAD ? (int)IPU__CONV_WEIGHT_GRAD_DY
                                         : (int)IPU__CONV_INPUT_GRAD_DY;
}

ipu_kernel_layouts ipu__conv_lanes_layouts(const ipu_kernel_call *call, int n_parts, int operand)
{
    (void)n_parts;
    const unsigned plain = IPU_LAYOUT_BIT(IPU_LAYOUT_PLAIN), lanes = IPU_LAYOUT_BIT(IPU_LAYOUT_LANES);
    ipu__conv_kind kind = ipu__conv_get(call).kind;
    if (operand == operand_of_x(kind)) return (ipu_kernel_layouts){plain | lanes, lanes, false};
    bool is_y = operand == operand_of_y(kind);
    if (kind != IPU__CONV_FORWARD || operand == IPU__CONV_W || operand == IPU__CONV_BIAS)
        return (ipu_kernel_layouts){is_y ? plain | lanes : plain, is_y ? lanes : plain, false};
    ipu_kernel_layouts found = ipu__epilogue_layouts(call, operand, ipu__epilogue_is_flat(call) ? lanes : 0);
    if (is_y && (found.takes & lanes)) found.native = lanes;
    return found;
}

static bool is_turned(const ipu_kernel_call *call, int operand)
{
    return call->layout[operand] == IPU_LAYOUT_LANES;
}

/* Of one group, what is not in lanes. */
size_t ipu__conv_lanes_scratch_bytes(const ipu_kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__conv c    = ipu__conv_get(call);
    int64_t   n    = is_turned(call, operand_of_x(c.kind)) ? 0 : x_floats(&c);
    size_t    more = c.kind == IPU__CONV_FORWARD ? ipu__epilogue_scratch_bytes(call) : 0;
    if (!is_turned(call, operand_of_y(c.kind))) n += y_floats(&c);
    return more == SIZE_MAX ? more : (size_t)n * sizeof(float) + more;
}

static int64_t n_weights(const ipu__conv *c) { return c->out * c->in * ipu__conv_volume(c->k); }

ipu_status ipu__conv_lanes_prepare(const ipu_kernel_call *call, int n_parts, void **out)
{
    ipu_status status = IPU_OK;
    state     *s = *out = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    s->c = ipu__conv_get(call);
    atomic_init(&s->n_left, n_parts);
    if (s->c.kind == IPU__CONV_FORWARD) {
        s->relu = ipu__epilogue_kind_of(call) == IPU__EPILOGUE_RELU;
        if (!s->relu) status = ipu__epilogue_init(&s->epilogue, call);
    } else if (s->c.kind == IPU__CONV_WEIGHT_GRAD) {
        s->sums = ipu__alloc((size_t)(n_parts * n_weights(&s->c)) * sizeof *s->sums);
        if (!s->sums) status = ipu__fail_memory();
    }
    if (status == IPU_OK) return IPU_OK;
    ipu__conv_lanes_release(s);
    *out = NULL;
    return status;
}

void ipu__conv_lanes_release(void *prepared)
{
    state *s = prepared;
    ipu__epilogue_fini(&s->epilogue);
    ipu__free(s->sums);
    ipu__free(s);
}

/* ---- rows of sixteen images ---- */

/* Rows [begin, begin + n) of all channels of a group of images, in an operand or in scratch. */
typedef struct rows {
    int64_t n_channels, height, width, begin, n;
    bool    in_lanes;
    float  *scratch; /* the rows, if the operand is not in lanes */
} rows;

static int64_t image_floats(const rows *r) { return r->n_channels * r->height * r->width; }

/* Vectors from channel to channel of what `lanes_of` gives. */
static int64_t plane_of(const rows *r) { return (r->in_lanes ? r->height : r->n) * r->width; }

/* Group `group` in lanes: in place, or where it is to be turned to. */
static float *lanes_of(const rows *r, void *operand, int64_t group)
{
    if (!r->in_lanes) return r->scratch;
    return (float *)operand + (group * image_floats(r) + r->begin * r->width) * IPU__LANES;
}

static void turn(const rows *r, const void *operand, int64_t group)
{
    const float *images = (const float *)operand + group * IPU__LANES * image_floats(r);
    bool         all    = r->n == r->height;
    int64_t      n      = r->n * r->width * (all ? r->n_channels : 1);
    for (int64_t c = 0; c < (all ? 1 : r->n_channels) && !r->in_lanes; c++)
        IPU__SIMD_PICK(ipu__lane_turns_at)
            .turn(images + (c * r->height + r->begin) * r->width, image_floats(r), n,
                  r->scratch + c * n * IPU__LANES);
}

/* Channels [first, first + n_channels), which are all of `r->scratch`. */
static void turn_back(const rows *r, int64_t first, int64_t n_channels, void *operand, int64_t group)
{
    float  *images = (float *)operand + group * IPU__LANES * image_floats(r);
    bool    all    = r->n == r->height;
    int64_t n      = r->n * r->width * (all ? n_channels : 1);
    for (int64_t c = 0; c < (all ? 1 : n_channels) && !r->in_lanes; c++)
        IPU__SIMD_PICK(ipu__lane_turns_at)
            .turn_back(r->scratch + c * n * IPU__LANES, n,
                       images + ((first + c) * r->height + r->begin) * r->width, image_floats(r));
}

/* What a part has: of these, all but one are whole. */
typedef struct share {
    ipu_interval group, row, channel;
} share;

enum { CHANNELS = 3, ROWS = 2 }; /* of a tile; of a window of pooling, which mostly comes next */

/* The most that a part has, in shares of `n` that are even. */
static double unevenness(int64_t n, int64_t grain, int n_parts)
{
    ipu_interval first = ipu__op_part(n, grain, 0, n_parts);
    return (double)(first.end - first.begin) * n_parts / (double)n;
}

/* `n_channels` 0: channels are not shared out. */
static share share_of(const ipu__conv *c, int64_t n_rows, int64_t grain, int64_t n_channels, int part,
                      int n_parts)
{
    int64_t n_groups = c->n / IPU__LANES;
    share   s        = {{0, n_groups}, {0, n_rows}, {0, n_channels}};
    if (n_groups % n_parts == 0)
        s.group = ipu__op_part(n_groups, 1, part, n_parts);
    else if (n_channels > 0 && unevenness(n_channels, CHANNELS, n_parts) < unevenness(n_rows, grain, n_parts))
        s.channel = ipu__op_part(n_channels, CHANNELS, part, n_parts);
    else
        s.row = ipu__op_part(n_rows, grain, part, n_parts);
    return s;
}

static rows rows_of_x(const ipu_kernel_call *call, const ipu__conv *c, int64_t begin, int64_t end)
{
    return (rows){c->in, c->x[1], c->x[2], begin, end - begin, is_turned(call, operand_of_x(c->kind)), NULL};
}

static rows rows_of_y(const ipu_kernel_call *call, const ipu__conv *c, int64_t begin, int64_t end)
{
    return (rows){c->out, c->y[1], c->y[2], begin, end - begin, is_turned(call, operand_of_y(c->kind)), NULL};
}

/* Gives both their place in scratch; what comes after them. */
static float *set_scratch(rows *x, rows *y, float *scratch)
{
    x->scratch = scratch;
    if (!x->in_lanes) scratch += image_floats(x) * IPU__LANES;
    y->scratch = scratch;
    return y->in_lanes ? scratch : scratch + image_floats(y) * IPU__LANES;
}

static ipu__lanes_shape shape_of(const ipu__conv *c, const rows *x, const rows *y)
{
    return (ipu__lanes_shape){c->in,       c->out,      x->n,    c->x[2], y->n, c->y[2],
                              plane_of(x), plane_of(y), c->k[1], c->k[2], false};
}

/* ---- the three ops ---- */

/* Of channels [first, first + n), rows `y` of group g. */
static void run_epilogue(const state *s, void *const *operand, const rows *y, int64_t first, int64_t n,
                         int64_t g, void *scratch)
{
    const ipu__epilogue *e     = &s->epilogue;
    int64_t              plane = y->height * y->width, begin = first * plane + y->begin * y->width;
    if (y->in_lanes)
        ipu__epilogue_run(e, operand, (g * image_floats(y) + begin) * IPU__LANES,
                          y->n * y->width * IPU__LANES, plane * IPU__LANES, n, scratch);
    for (int64_t i = 0; i < IPU__LANES && !y->in_lanes && e->chain; i++)
        ipu__epilogue_run(e, operand, (g * IPU__LANES + i) * image_floats(y) + begin, y->n * y->width, plane,
                          n, scratch);
}

static void forward(const ipu_kernel_call *call, const state *s, void *const *operand, float *scratch,
                    share part)
{
    const ipu__conv *c     = &s->c;
    rows             x     = rows_of_x(call, c, part.row.begin, part.row.end + c->k[1] - 1),
         y                 = rows_of_y(call, c, part.row.begin, part.row.end);
    float           *after = set_scratch(&x, &y, scratch);
    ipu__lanes_shape shape = shape_of(c, &x, &y);
    int64_t          first = part.channel.begin;
    const float *w = (const float *)operand[IPU__CONV_W] + first * c->in * c->k[1] * c->k[2], *bias = NULL;
    if (ipu__kernel_has(call, IPU__CONV_BIAS)) bias = (const float *)operand[IPU__CONV_BIAS] + first;
    shape.relu = s->relu;
    shape.out  = part.channel.end - first;
    if (shape.out <= 0 || y.n <= 0) return;
    for (int64_t g = part.group.begin; g < part.group.end; g++) {
        float *to = lanes_of(&y, operand[IPU__CONV_OUT], g);
        if (y.in_lanes) to += first * plane_of(&y) * IPU__LANES;
        turn(&x, operand[IPU__CONV_X], g);
        IPU__SIMD_PICK(ipu__lanes_loops_at)
            .forward(&shape, lanes_of(&x, operand[IPU__CONV_X], g), w, bias, to);
        turn_back(&y, first, shape.out, operand[IPU__CONV_OUT], g);
        run_epilogue(s, operand, &y, first, shape.out, g, after);
    }
}

static void input_grad(const ipu_kernel_call *call, const state *s, void *const *operand, float *scratch,
                       share part)
{
    const ipu__conv *c     = &s->c;
    int64_t          begin = part.row.begin - c->k[1] + 1;
    rows             x     = rows_of_x(call, c, part.row.begin, part.row.end),
         y = rows_of_y(call, c, begin > 0 ? begin : 0, part.row.end < c->y[1] ? part.row.end : c->y[1]);
    set_scratch(&x, &y, scratch);
    ipu__lanes_shape shape = shape_of(c, &x, &y);
    for (int64_t g = part.group.begin; g < part.group.end && x.n > 0; g++) {
        turn(&y, operand[IPU__CONV_INPUT_GRAD_DY], g);
        IPU__SIMD_PICK(ipu__lanes_loops_at)
            .input_grad(&shape, lanes_of(&y, operand[IPU__CONV_INPUT_GRAD_DY], g),
                        operand[IPU__CONV_INPUT_GRAD_W], x.begin, y.begin, c->y[1],
                        lanes_of(&x, operand[IPU__CONV_INPUT_GRAD_OUT], g));
        turn_back(&x, 0, c->in, operand[IPU__CONV_INPUT_GRAD_OUT], g);
    }
}

static void zero_tasks(const ipu__lanes_shape *s, ipu_interval tasks, float *dw)
{
    int64_t block = ipu__lanes_block(s->out), n = s->in * s->k_rows;
    for (int64_t task = tasks.begin; task < tasks.end; task++)
        for (int64_t c = task / n * block; c < (task / n + 1) * block && c < s->out; c++)
            memset(dw + (c * n + task % n) * s->k_columns, 0, (size_t)s->k_columns * sizeof *dw);
}

static void add_tasks(const ipu_kernel_call *call, const state *s, void *const *operand, float *scratch,
                      share part, ipu_interval tasks, float *dw)
{
    const ipu__conv *c = &s->c;
    rows             x = rows_of_x(call, c, part.row.begin, part.row.end + c->k[1] - 1),
         y             = rows_of_y(call, c, part.row.begin, part.row.end);
    set_scratch(&x, &y, scratch);
    ipu__lanes_shape shape = shape_of(c, &x, &y);
    zero_tasks(&shape, tasks, dw);
    for (int64_t g = part.group.begin; g < part.group.end && tasks.begin < tasks.end && y.n > 0; g++) {
        turn(&x, operand[IPU__CONV_WEIGHT_GRAD_X], g);
        turn(&y, operand[IPU__CONV_WEIGHT_GRAD_DY], g);
        IPU__SIMD_PICK(ipu__lanes_loops_at)
            .weight_grad(&shape, lanes_of(&x, operand[IPU__CONV_WEIGHT_GRAD_X], g),
                         lanes_of(&y, operand[IPU__CONV_WEIGHT_GRAD_DY], g), tasks.begin, tasks.end, dw);
    }
}

static void weight_grad(const ipu_kernel_call *call, state *s, void *const *operand, float *scratch, int part,
                        int n_parts)
{
    const ipu__conv *c       = &s->c;
    int64_t          n_tasks = (c->out + 4) / 5 * c->in * c->k[1], n_groups = c->n / IPU__LANES;
    float           *dw = operand[IPU__CONV_WEIGHT_GRAD_OUT];
    if (n_parts == 1 || (n_groups % n_parts != 0 && n_tasks >= MANY_TASKS * n_parts)) {
        const share all = {{0, n_groups}, {0, c->y[1]}, {0, 0}};
        add_tasks(call, s, operand, scratch, all, ipu__op_part(n_tasks, 1, part, n_parts), dw);
        return;
    }
    int64_t n = n_weights(c);
    add_tasks(call, s, operand, scratch, share_of(c, c->y[1], ROWS, 0, part, n_parts),
              (ipu_interval){0, n_tasks}, s->sums + part * n);
    if (atomic_fetch_sub_explicit(&s->n_left, 1, memory_order_acq_rel) != 1) return;
    atomic_store_explicit(&s->n_left, n_parts, memory_order_relaxed);
    memcpy(dw, s->sums, (size_t)n * sizeof *dw);
    for (int64_t i = n; i < n_parts * n; i++) dw[i % n] += s->sums[i];
}

ipu_status ipu__conv_lanes_run(const ipu_kernel_call *call, void *prepared, void *const *operand,
                               void *scratch, int part, int n_parts)
{
    state           *s = prepared;
    const ipu__conv *c = &s->c;
    switch (c->kind) {
    case IPU__CONV_FORWARD:
        forward(call, s, operand, scratch, share_of(c, c->y[1], ROWS, c->out, part, n_parts));
        break;
    case IPU__CONV_INPUT_GRAD:
        input_grad(call, s, operand, scratch, share_of(c, c->x[1], 1, 0, part, n_parts));
        break;
    case IPU__CONV_WEIGHT_GRAD: weight_grad(call, s, operand, scratch, part, n_parts); break;
    }
    return IPU_OK;
}

/* Convolutions of few channels with sixteen images at a time in the lanes of vectors.
 *
 * Parts have stretches of memory of whole rows (lanes.h): of what is written, or, for gradients of weights, of
 * d_y. These gradients are sums over all images: those of parts are added up by whoever comes last, unless parts
 * have weights of their own.
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

/* An operand, of images [channels, height, width]. */
typedef struct images {
    float  *data;
    int64_t n_channels, height, width;
    bool    in_lanes;
    float  *scratch; /* one group in lanes, if the operand is not */
} images;

static int64_t image_floats(const images *m) { return m->n_channels * m->height * m->width; }

/* x and y, with their place in scratch; what comes after them. */
static float *get_images(const ipu_kernel_call *call, const ipu__conv *c, void *const *operand,
                         float *scratch, images *x, images *y)
{
    int at_x = operand_of_x(c->kind), at_y = operand_of_y(c->kind);
    *x = (images){operand[at_x], c->in, c->x[1], c->x[2], is_turned(call, at_x), scratch};
    if (!x->in_lanes) scratch += x_floats(c);
    *y = (images){operand[at_y], c->out, c->y[1], c->y[2], is_turned(call, at_y), scratch};
    return y->in_lanes ? scratch : scratch + y_floats(c);
}

/* A group in lanes: in place, or where it is turned to. */
static float *lanes_of(const images *m, int64_t group)
{
    return m->in_lanes ? m->data + group * image_floats(m) * IPU__LANES : m->scratch;
}

static float *row_of(const images *m, int64_t group, int64_t channel, int64_t row)
{
    return lanes_of(m, group) + (channel * m->height + row) * m->width * IPU__LANES;
}

static void turn(const images *m, int64_t group)
{
    if (!m->in_lanes)
        IPU__SIMD_PICK(ipu__lane_turns_at)
            .turn(m->data + group * IPU__LANES * image_floats(m), image_floats(m), image_floats(m),
                  m->scratch);
}

static void turn_back(const images *m, const ipu__lanes_piece *piece)
{
    int64_t channel = piece->channel.begin, row = piece->row.begin;
    int64_t at = (channel * m->height + row) * m->width;
    int64_t n  = (piece->channel.end - channel) * (piece->row.end - row) * m->width;
    if (!m->in_lanes)
        IPU__SIMD_PICK(ipu__lane_turns_at)
            .turn_back(row_of(m, piece->group, channel, row), n,
                       m->data + piece->group * IPU__LANES * image_floats(m) + at, image_floats(m));
}

static ipu__lanes_shape shape_of(const ipu__conv *c)
{
    return (ipu__lanes_shape){.in        = c->in,
                              .out       = c->out,
                              .x_rows    = c->x[1],
                              .x_columns = c->x[2],
                              .y_rows    = c->y[1],
                              .y_columns = c->y[2],
                              .x_plane   = c->x[1] * c->x[2],
                              .y_plane   = c->y[1] * c->y[2],
                              .k_rows    = c->k[1],
                              .k_columns = c->k[2]};
}

static ipu_interval rows_of(const images *m, const ipu__conv *c, int part, int n_parts)
{
    return ipu__op_part(c->n / IPU__LANES * m->n_channels * m->height, 1, part, n_parts);
}

/* ---- the three ops ---- */

static void run_epilogue(const state *s, void *const *operand, const images *y, const ipu__lanes_piece *piece,
                         void *scratch)
{
    const ipu__epilogue *e     = &s->epilogue;
    int64_t              begin = (piece->channel.begin * y->height + piece->row.begin) * y->width;
    int64_t n = (piece->channel.end - piece->channel.begin) * (piece->row.end - piece->row.begin) * y->width;
    int64_t first = piece->group * IPU__LANES * image_floats(y);
    if (y->in_lanes)
        ipu__epilogue_run(e, operand, first + begin * IPU__LANES, n * IPU__LANES, n * IPU__LANES, 1, scratch);
    else
        ipu__epilogue_run(e, operand, first + begin, n, image_floats(y), IPU__LANES, scratch);
}

static void forward(const ipu_kernel_call *call, const state *s, void *const *operand, float *scratch,
                    int part, int n_parts)
{
    const ipu__conv *c = &s->c;
    images           x, y;
    void            *after = get_images(call, c, operand, scratch, &x, &y);
    ipu__lanes_shape shape = shape_of(c);
    ipu__lanes_piece piece;
    ipu_interval     left = rows_of(&y, c, part, n_parts);
    const float     *w = operand[IPU__CONV_W], *bias = operand[IPU__CONV_BIAS];
    bool             has_bias = ipu__kernel_has(call, IPU__CONV_BIAS);
    int64_t          turned = -1, per_channel = c->in * c->k[1] * c->k[2];
    shape.relu = s->relu;
    while (ipu__lanes_next(&left, c->out, c->y[1], &piece)) {
        int64_t channel = piece.channel.begin;
        if (piece.group != turned) turn(&x, piece.group);
        turned       = piece.group;
        shape.out    = piece.channel.end - channel;
        shape.y_rows = piece.row.end - piece.row.begin;
        IPU__SIMD_PICK(ipu__lanes_loops_at)
            .forward(&shape, row_of(&x, piece.group, 0, piece.row.begin), w + channel * per_channel,
                     has_bias ? bias + channel : NULL, row_of(&y, piece.group, channel, piece.row.begin));
        turn_back(&y, &piece);
        run_epilogue(s, operand, &y, &piece, after);
    }
}

static void input_grad(const ipu_kernel_call *call, const state *s, void *const *operand, float *scratch,
                       int part, int n_parts)
{
    const ipu__conv *c = &s->c;
    images           x, y;
    get_images(call, c, operand, scratch, &x, &y);
    ipu__lanes_shape shape = shape_of(c);
    ipu__lanes_piece piece;
    ipu_interval     left   = rows_of(&x, c, part, n_parts);
    int64_t          turned = -1;
    while (ipu__lanes_next(&left, c->in, c->x[1], &piece)) {
        if (piece.group != turned) turn(&y, piece.group);
        turned       = piece.group;
        shape.x_rows = piece.row.end - piece.row.begin;
        IPU__SIMD_PICK(ipu__lanes_loops_at)
            .input_grad(&shape, lanes_of(&y, piece.group), operand[IPU__CONV_INPUT_GRAD_W],
                        piece.channel.begin, piece.channel.end, piece.row.begin,
                        row_of(&x, piece.group, 0, piece.row.begin));
        turn_back(&x, &piece);
    }
}

static void weight_grad(const ipu_kernel_call *call, state *s, void *const *operand, float *scratch, int part,
                        int n_parts)
{
    const ipu__conv *c = &s->c;
    images           x, y;
    get_images(call, c, operand, scratch, &x, &y);
    ipu__lanes_shape shape = shape_of(c);
    ipu__lanes_piece piece;
    ipu_interval     left = rows_of(&y, c, part, n_parts), own = {0, n_weights(c)};
    int64_t          turned = -1, n = n_weights(c), per_channel = n / c->out;
    /* Parts have channels of their own: those of each part are all it adds to. */
    bool   is_own = n_parts == 1 || (c->n == IPU__LANES && c->out % n_parts == 0);
    float *dw     = is_own ? operand[IPU__CONV_WEIGHT_GRAD_OUT] : s->sums + part * n;
    if (is_own) own = ipu__op_part(n, per_channel, part, n_parts);
    memset(dw + own.begin, 0, (size_t)(own.end - own.begin) * sizeof *dw);
    while (ipu__lanes_next(&left, c->out, c->y[1], &piece)) {
        int64_t channel = piece.channel.begin, row = piece.row.begin;
        if (piece.group != turned) {
            turn(&x, piece.group);
            turn(&y, piece.group);
        }
        turned       = piece.group;
        shape.out    = piece.channel.end - channel;
        shape.y_rows = piece.row.end - row;
        IPU__SIMD_PICK(ipu__lanes_loops_at)
            .weight_grad(&shape, row_of(&x, piece.group, 0, row), row_of(&y, piece.group, channel, row),
                         dw + channel * per_channel);
    }
    if (is_own || atomic_fetch_sub_explicit(&s->n_left, 1, memory_order_acq_rel) != 1) return;
    atomic_store_explicit(&s->n_left, n_parts, memory_order_relaxed);
    dw = operand[IPU__CONV_WEIGHT_GRAD_OUT];
    memcpy(dw, s->sums, (size_t)n * sizeof *dw);
    for (int k = 1; k < n_parts; k++)
        for (int64_t i = 0; i < n; i++) dw[i] += s->sums[k * n + i];
}

ipu_status ipu__conv_lanes_run(const ipu_kernel_call *call, void *prepared, void *const *operand,
                               void *scratch, int part, int n_parts)
{
    state *s = prepared;
    switch (s->c.kind) {
    case IPU__CONV_FORWARD: forward(call, s, operand, scratch, part, n_parts); break;
    case IPU__CONV_INPUT_GRAD: input_grad(call, s, operand, scratch, part, n_parts); break;
    case IPU__CONV_WEIGHT_GRAD: weight_grad(call, s, operand, scratch, part, n_parts); break;
    }
    return IPU_OK;
}

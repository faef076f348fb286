/* Convolutions of few channels with sixteen images at a time in the lanes of vectors.
 *
 * Parts get stretches of memory of whole rows (lanes.h): of the output, or for weight gradients, of d_y.
 * Weight gradients are sums over all images: the last part to finish adds up those of all parts, unless each
 * has its own weights.
 */
#include "op/conv/cpu/lanes.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "op/conv/cpu/lanes_toom.h"
#include "op/vector/lanes.h"

typedef struct state {
    ipu__conv     c;
    ipu__epilogue epilogue; /* empty but for conv, and for a relu alone */
    bool          relu;
    bool          toom;
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

static bool fits(const ipu__kernel_call *call, const void *machine, bool by_toom)
{
    ipu__conv c = ipu__conv_get(call);
    if (call->operand[0].type != IPU_FLOAT || !is_plain(&c) || c.n == 0 || c.n % IPU__LANES != 0)
        return false;
    if ((ipu__cpu_features_of(machine) & IPU__SIMD_AVX512) != IPU__SIMD_AVX512
        || !IPU__SIMD_PICK(ipu__lanes_loops_at).forward)
        return false;
    if (c.kind != IPU__CONV_FORWARD && c.k[2] != 3 && c.k[2] != 5) return false;
    if (ipu__conv_volume(c.y) < 1 || c.in < 1 || c.out < 1 || c.in > MOST_IN || c.out > MOST_OUT)
        return false;
    return x_floats(&c) + y_floats(&c) <= MOST_BYTES / (int64_t)sizeof(float)
        && ipu__toom_pays(&c) == by_toom;
}

bool ipu__conv_lanes_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)n_parts;
    return fits(call, machine, false);
}

bool ipu__conv_lanes_toom_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)n_parts;
    return fits(call, machine, true);
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

ipu__kernel_layouts ipu__conv_lanes_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    (void)n_parts;
    const unsigned plain = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN), lanes = IPU__LAYOUT_BIT(IPU__LAYOUT_LANES);
    ipu__conv_kind kind = ipu__conv_get(call).kind;
    if (operand == operand_of_x(kind)) return (ipu__kernel_layouts){plain | lanes, lanes, false};
    bool is_y = operand == operand_of_y(kind);
    if (kind != IPU__CONV_FORWARD || operand == IPU__CONV_W || operand == IPU__CONV_BIAS)
        return (ipu__kernel_layouts){is_y ? plain | lanes : plain, is_y ? lanes : plain, false};
    ipu__kernel_layouts found = ipu__epilogue_layouts(call, operand, ipu__epilogue_is_flat(call) ? lanes : 0);
    if (is_y && (found.takes & lanes)) found.native = lanes;
    return found;
}

static bool is_turned(const ipu__kernel_call *call, int operand)
{
    return call->layout[operand] == IPU__LAYOUT_LANES;
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

/* Of one group, what is not in lanes. */
size_t ipu__conv_lanes_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__conv c    = ipu__conv_get(call);
    int64_t   n    = is_turned(call, operand_of_x(c.kind)) ? 0 : x_floats(&c);
    size_t    more = c.kind == IPU__CONV_FORWARD ? ipu__epilogue_scratch_bytes(call) : 0;
    if (!is_turned(call, operand_of_y(c.kind))) n += y_floats(&c);
    ipu__lanes_shape shape = shape_of(&c);
    if (ipu__toom_pays(&c)) n += ipu__toom_scratch(&c, &shape);
    return more == SIZE_MAX ? more : (size_t)n * sizeof(float) + more;
}

static int64_t n_weights(const ipu__conv *c) { return c->out * c->in * ipu__conv_volume(c->k); }

ipu_status ipu__conv_lanes_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    ipu_status status = IPU_OK;
    state     *s = *out = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    s->c    = ipu__conv_get(call);
    s->toom = ipu__toom_pays(&s->c);
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
static float *get_images(const ipu__kernel_call *call, const ipu__conv *c, void *const *operand,
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

static ipu_interval rows_of(const images *m, const ipu__conv *c, int part, int n_parts)
{
    return ipu__op_part(c->n / IPU__LANES * m->n_channels * m->height, 1, part, n_parts);
}

ipu_interval ipu__conv_lanes_writes(const ipu__kernel_call *call, int operand, int part, int n_parts)
{
    (void)operand;
    ipu__conv    c    = ipu__conv_get(call);
    bool         is_x = c.kind == IPU__CONV_INPUT_GRAD;
    images       m    = is_x ? (images){.n_channels = c.in, .height = c.x[1], .width = c.x[2]}
                             : (images){.n_channels = c.out, .height = c.y[1], .width = c.y[2]};
    ipu_interval rows = rows_of(&m, &c, part, n_parts);
    return (ipu_interval){rows.begin * m.width * IPU__LANES, rows.end * m.width * IPU__LANES};
}

/* ---- the three ops: group by group, each by the loops of its own or by those of lanes_toom.h ---- */

/* A part's stretch of rows in one group, counted through the channels of what is divided. */
typedef struct stretch {
    int64_t      group;
    ipu_interval rows;
} stretch;

static bool next_group(ipu_interval *left, const images *m, stretch *out)
{
    const int64_t n = m->n_channels * m->height;
    if (left->begin >= left->end) return false;
    out->group      = left->begin / n;
    out->rows.begin = left->begin - out->group * n;
    out->rows.end   = left->end - out->group * n;
    if (out->rows.end > n) out->rows.end = n;
    left->begin += out->rows.end - out->rows.begin;
    return true;
}

static bool next_piece(stretch *left, const images *m, ipu__lanes_piece *out)
{
    bool found = ipu__lanes_next(&left->rows, m->n_channels, m->height, out);
    out->group = left->group;
    return found;
}

/* What a part of a call works on. */
typedef struct job {
    const state     *s;
    images           x, y;
    ipu__lanes_shape shape;
    const float     *w, *bias;
    float           *at_points, *scratch; /* of lanes_toom.h */
    void            *after;
} job;

static job get_job(const ipu__kernel_call *call, const state *s, void *const *operand, float *scratch)
{
    job    j     = {.s = s, .shape = shape_of(&s->c)};
    float *after = get_images(call, &s->c, operand, scratch, &j.x, &j.y);
    j.at_points  = after;
    j.scratch    = after + ipu__toom_weights(&s->c);
    j.after      = s->toom ? after + ipu__toom_scratch(&s->c, &j.shape) : after;
    j.shape.relu = s->relu;
    return j;
}

static int64_t kernel_rows(const ipu__conv *c) { return c->out * c->in * c->k[1]; }

static void turn_weights(const job *j)
{
    int64_t n = kernel_rows(&j->s->c);
    IPU__SIMD_PICK(ipu__toom_loops_at).weights(j->w, n, (ipu_interval){0, n}, j->at_points);
}

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

static void forward_piece(const job *j, const ipu__lanes_piece *piece)
{
    int64_t          channel = piece->channel.begin, per_channel = n_weights(&j->s->c) / j->s->c.out;
    ipu__lanes_shape shape = j->shape;
    shape.out              = piece->channel.end - channel;
    shape.y_rows           = piece->row.end - piece->row.begin;
    IPU__SIMD_PICK(ipu__lanes_loops_at)
        .forward(&shape, row_of(&j->x, piece->group, 0, piece->row.begin), j->w + channel * per_channel,
                 j->bias ? j->bias + channel : NULL, row_of(&j->y, piece->group, channel, piece->row.begin));
}

static void forward(const ipu__kernel_call *call, const state *s, void *const *operand, float *scratch,
                    int part, int n_parts)
{
    job              j = get_job(call, s, operand, scratch);
    stretch          at;
    ipu__lanes_piece piece;
    ipu_interval     left = rows_of(&j.y, &s->c, part, n_parts);
    j.w                   = operand[IPU__CONV_W];
    j.bias                = ipu__kernel_has(call, IPU__CONV_BIAS) ? operand[IPU__CONV_BIAS] : NULL;
    if (s->toom) turn_weights(&j);
    while (next_group(&left, &j.y, &at)) {
        turn(&j.x, at.group);
        if (s->toom)
            IPU__SIMD_PICK(ipu__toom_loops_at)
                .forward(&j.shape, lanes_of(&j.x, at.group), j.at_points, j.bias, at.rows,
                         lanes_of(&j.y, at.group), j.scratch);
        while (next_piece(&at, &j.y, &piece)) {
            if (!s->toom) forward_piece(&j, &piece);
            turn_back(&j.y, &piece);
            run_epilogue(s, operand, &j.y, &piece, j.after);
        }
    }
}

static void input_grad_piece(const job *j, const ipu__lanes_piece *piece)
{
    ipu__lanes_shape shape = j->shape;
    shape.x_rows           = piece->row.end - piece->row.begin;
    IPU__SIMD_PICK(ipu__lanes_loops_at)
        .input_grad(&shape, lanes_of(&j->y, piece->group), j->w, piece->channel.begin, piece->channel.end,
                    piece->row.begin, row_of(&j->x, piece->group, 0, piece->row.begin));
}

static void input_grad(const ipu__kernel_call *call, const state *s, void *const *operand, float *scratch,
                       int part, int n_parts)
{
    job              j = get_job(call, s, operand, scratch);
    stretch          at;
    ipu__lanes_piece piece;
    ipu_interval     left = rows_of(&j.x, &s->c, part, n_parts);
    j.w                   = operand[IPU__CONV_INPUT_GRAD_W];
    if (s->toom) turn_weights(&j);
    while (next_group(&left, &j.x, &at)) {
        turn(&j.y, at.group);
        if (s->toom)
            IPU__SIMD_PICK(ipu__toom_loops_at)
                .input_grad(&j.shape, lanes_of(&j.y, at.group), j.at_points, at.rows,
                            lanes_of(&j.x, at.group), j.scratch);
        while (next_piece(&at, &j.x, &piece)) {
            if (!s->toom) input_grad_piece(&j, &piece);
            turn_back(&j.x, &piece);
        }
    }
}

static void weight_grad_piece(const job *j, const ipu__lanes_piece *piece, float *dw)
{
    int64_t          channel = piece->channel.begin, row = piece->row.begin;
    ipu__lanes_shape shape = j->shape;
    shape.out              = piece->channel.end - channel;
    shape.y_rows           = piece->row.end - row;
    IPU__SIMD_PICK(ipu__lanes_loops_at)
        .weight_grad(&shape, row_of(&j->x, piece->group, 0, row), row_of(&j->y, piece->group, channel, row),
                     dw + channel * (n_weights(&j->s->c) / j->s->c.out));
}

/* Adds the part's share to dw, of which rows [own.begin, own.end) of kernels are its. */
static void weight_grad_part(const job *j, ipu_interval left, ipu_interval own, float *dw)
{
    const int64_t    n = kernel_rows(&j->s->c), width = j->s->c.k[2];
    const bool       toom = j->s->toom;
    stretch          at;
    ipu__lanes_piece piece;
    if (toom)
        memset(j->at_points, 0, (size_t)ipu__toom_weights(&j->s->c) * sizeof *dw);
    else
        memset(dw + own.begin * width, 0, (size_t)((own.end - own.begin) * width) * sizeof *dw);
    while (next_group(&left, &j->y, &at)) {
        turn(&j->x, at.group);
        turn(&j->y, at.group);
        if (toom)
            IPU__SIMD_PICK(ipu__toom_loops_at)
                .weight_grad(&j->shape, lanes_of(&j->x, at.group), lanes_of(&j->y, at.group), at.rows,
                             j->at_points, j->scratch);
        while (!toom && next_piece(&at, &j->y, &piece)) weight_grad_piece(j, &piece, dw);
    }
    if (toom) IPU__SIMD_PICK(ipu__toom_loops_at).weights_back(j->at_points, n, own, dw);
}

static void weight_grad(const ipu__kernel_call *call, state *s, void *const *operand, float *scratch,
                        int part, int n_parts)
{
    const ipu__conv *c   = &s->c;
    job              j   = get_job(call, s, operand, scratch);
    ipu_interval     own = {0, kernel_rows(c)};
    int64_t          n   = n_weights(c);
    /* Parts have channels of their own: those of each part are all it adds to. */
    bool   is_own = n_parts == 1 || (c->n == IPU__LANES && c->out % n_parts == 0);
    float *dw     = is_own ? operand[IPU__CONV_WEIGHT_GRAD_OUT] : s->sums + part * n;
    if (is_own) own = ipu__op_part(kernel_rows(c), kernel_rows(c) / c->out, part, n_parts);
    weight_grad_part(&j, rows_of(&j.y, c, part, n_parts), own, dw);
    if (is_own || atomic_fetch_sub_explicit(&s->n_left, 1, memory_order_acq_rel) != 1) return;
    atomic_store_explicit(&s->n_left, n_parts, memory_order_relaxed);
    dw = operand[IPU__CONV_WEIGHT_GRAD_OUT];
    memcpy(dw, s->sums, (size_t)n * sizeof *dw);
    for (int k = 1; k < n_parts; k++)
        for (int64_t i = 0; i < n; i++) dw[i] += s->sums[k * n + i];
}

ipu_status ipu__conv_lanes_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
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

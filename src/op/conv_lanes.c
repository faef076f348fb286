/* Convolutions of few channels with sixteen images at a time in the lanes of vectors.
 *
 * Parts have whole groups of sixteen images, or, if these do not divide evenly, rows of each group. Gradients of
 * weights are shared out by weights, as they are sums over all images. What an element is does not depend on
 * the parts.
 */
#include "op/conv_lanes.h"

#include <string.h>

#include "base/alloc.h"

typedef struct state {
    ipu__conv     c;
    ipu__epilogue epilogue; /* empty but for conv */
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

static int64_t n_floats(const ipu__conv *c)
{
    return (c->in * ipu__conv_volume(c->x) + c->out * ipu__conv_volume(c->y)) * IPU__LANES;
}

bool ipu__conv_lanes_fits(const ipu_kernel_call *call, unsigned cpu_features, int n_parts)
{
    (void)n_parts;
    ipu__conv c = ipu__conv_get(call);
    if (call->operand[0].type != IPU_FLOAT || !is_plain(&c) || c.n == 0 || c.n % IPU__LANES != 0)
        return false;
    if ((cpu_features & IPU__SIMD_AVX512) != IPU__SIMD_AVX512 || !IPU__SIMD_PICK(ipu__lanes_loops_at).forward)
        return false;
    if (c.kind != IPU__CONV_FORWARD && c.k[2] != 3 && c.k[2] != 5) return false;
    if (c.kind == IPU__CONV_WEIGHT_GRAD && c.in == 1) return false; /* too little work for what is turned */
    if (ipu__conv_volume(c.y) < 1 || c.in < 1 || c.out < 1 || c.in > MOST_IN || c.out > MOST_OUT)
        return false;
    return n_floats(&c) <= MOST_BYTES / (int64_t)sizeof(float);
}

size_t ipu__conv_lanes_scratch_bytes(const ipu_kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__conv c     = ipu__conv_get(call);
    size_t    bytes = (size_t)n_floats(&c) * sizeof(float);
    size_t    more  = c.kind == IPU__CONV_FORWARD ? ipu__epilogue_scratch_bytes(call) : 0;
    return more == SIZE_MAX ? more : bytes + more;
}

ipu_status ipu__conv_lanes_prepare(const ipu_kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    state *s = *out = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    s->c              = ipu__conv_get(call);
    ipu_status status = s->c.kind == IPU__CONV_FORWARD ? ipu__epilogue_init(&s->epilogue, call) : IPU_OK;
    if (status == IPU_OK) return IPU_OK;
    ipu__conv_lanes_release(s);
    *out = NULL;
    return status;
}

void ipu__conv_lanes_release(void *prepared)
{
    state *s = prepared;
    ipu__epilogue_fini(&s->epilogue);
    ipu__free(s);
}

/* ---- rows of sixteen images ---- */

/* Rows [begin, begin + n) of all channels of a group of images. */
typedef struct rows {
    int64_t n_channels, height, width, begin, n;
} rows;

static int64_t image_floats(const rows *r) { return r->n_channels * r->height * r->width; }

static void turn(const rows *r, const float *images, float *lanes)
{
    const ipu__lanes_loops *loops = &IPU__SIMD_PICK(ipu__lanes_loops_at);
    bool                    all   = r->n == r->height;
    int64_t                 n     = r->n * r->width * (all ? r->n_channels : 1);
    for (int64_t c = 0; c < (all ? 1 : r->n_channels); c++)
        loops->turn(images + (c * r->height + r->begin) * r->width, image_floats(r), n,
                    lanes + c * n * IPU__LANES);
}

static void turn_back(const rows *r, const float *lanes, float *images)
{
    const ipu__lanes_loops *loops = &IPU__SIMD_PICK(ipu__lanes_loops_at);
    bool                    all   = r->n == r->height;
    int64_t                 n     = r->n * r->width * (all ? r->n_channels : 1);
    for (int64_t c = 0; c < (all ? 1 : r->n_channels); c++)
        loops->turn_back(lanes + c * n * IPU__LANES, n, images + (c * r->height + r->begin) * r->width,
                         image_floats(r));
}

/* What a part has. */
typedef struct share {
    ipu_interval group, row;
} share;

static share share_of(const ipu__conv *c, int64_t n_rows, int part, int n_parts)
{
    int64_t n_groups = c->n / IPU__LANES;
    if (n_groups % n_parts == 0) return (share){ipu__op_part(n_groups, 1, part, n_parts), {0, n_rows}};
    return (share){{0, n_groups}, ipu__op_part(n_rows, 1, part, n_parts)};
}

static rows rows_of_x(const ipu__conv *c, int64_t begin, int64_t end)
{
    return (rows){c->in, c->x[1], c->x[2], begin, end - begin};
}

static rows rows_of_y(const ipu__conv *c, int64_t begin, int64_t end)
{
    return (rows){c->out, c->y[1], c->y[2], begin, end - begin};
}

static ipu__lanes_shape shape_of(const ipu__conv *c, const rows *x, const rows *y)
{
    return (ipu__lanes_shape){c->in, c->out, x->n, c->x[2], y->n, c->y[2], c->k[1], c->k[2]};
}

/* ---- the three ops ---- */

static void forward(const state *s, const float *bias, void *const *operand, float *scratch, share part)
{
    const ipu__conv *c       = &s->c;
    const rows       x       = rows_of_x(c, part.row.begin, part.row.end + c->k[1] - 1),
               y             = rows_of_y(c, part.row.begin, part.row.end);
    ipu__lanes_shape shape   = shape_of(c, &x, &y);
    float           *x_lanes = scratch, *y_lanes = x_lanes + c->in * x.n * x.width * IPU__LANES;
    void            *after = scratch + n_floats(c);
    int64_t          plane = c->y[1] * c->y[2];
    for (int64_t g = part.group.begin; g < part.group.end && y.n > 0; g++) {
        turn(&x, (const float *)operand[IPU__CONV_X] + g * IPU__LANES * image_floats(&x), x_lanes);
        IPU__SIMD_PICK(ipu__lanes_loops_at).forward(&shape, x_lanes, operand[IPU__CONV_W], bias, y_lanes);
        turn_back(&y, y_lanes, (float *)operand[IPU__CONV_OUT] + g * IPU__LANES * image_floats(&y));
        for (int64_t i = 0; i < IPU__LANES && s->epilogue.chain; i++)
            ipu__epilogue_run(&s->epilogue, operand,
                              (g * IPU__LANES + i) * image_floats(&y) + y.begin * y.width, y.n * y.width,
                              plane, c->out, after);
    }
}

static void input_grad(const state *s, void *const *operand, float *scratch, share part)
{
    const ipu__conv *c     = &s->c;
    int64_t          begin = part.row.begin - c->k[1] + 1;
    const rows       x     = rows_of_x(c, part.row.begin, part.row.end),
               y = rows_of_y(c, begin > 0 ? begin : 0, part.row.end < c->y[1] ? part.row.end : c->y[1]);
    ipu__lanes_shape shape   = shape_of(c, &x, &y);
    float           *x_lanes = scratch, *y_lanes = x_lanes + c->in * x.n * x.width * IPU__LANES;
    for (int64_t g = part.group.begin; g < part.group.end && x.n > 0; g++) {
        turn(&y, (const float *)operand[IPU__CONV_INPUT_GRAD_DY] + g * IPU__LANES * image_floats(&y),
             y_lanes);
        IPU__SIMD_PICK(ipu__lanes_loops_at)
            .input_grad(&shape, y_lanes, operand[IPU__CONV_INPUT_GRAD_W], x.begin, y.begin, c->y[1], x_lanes);
        turn_back(&x, x_lanes,
                  (float *)operand[IPU__CONV_INPUT_GRAD_OUT] + g * IPU__LANES * image_floats(&x));
    }
}

static void zero_tasks(const ipu__lanes_shape *s, ipu_interval tasks, float *dw)
{
    int64_t block = ipu__lanes_block(s->out), n = s->in * s->k_rows;
    for (int64_t task = tasks.begin; task < tasks.end; task++)
        for (int64_t c = task / n * block; c < (task / n + 1) * block && c < s->out; c++)
            memset(dw + (c * n + task % n) * s->k_columns, 0, (size_t)s->k_columns * sizeof *dw);
}

static void weight_grad(const state *s, void *const *operand, float *scratch, int part, int n_parts)
{
    const ipu__conv *c = &s->c;
    const rows       x = rows_of_x(c, 0, c->x[1]), y = rows_of_y(c, 0, c->y[1]);
    ipu__lanes_shape shape   = shape_of(c, &x, &y);
    ipu_interval     tasks   = ipu__op_part(ipu__lanes_n_tasks(&shape), 1, part, n_parts);
    float           *x_lanes = scratch, *y_lanes = x_lanes + image_floats(&x) * IPU__LANES;
    float           *dw = operand[IPU__CONV_WEIGHT_GRAD_OUT];
    zero_tasks(&shape, tasks, dw);
    for (int64_t g = 0; g < c->n / IPU__LANES && tasks.begin < tasks.end; g++) {
        turn(&x, (const float *)operand[IPU__CONV_WEIGHT_GRAD_X] + g * IPU__LANES * image_floats(&x),
             x_lanes);
        turn(&y, (const float *)operand[IPU__CONV_WEIGHT_GRAD_DY] + g * IPU__LANES * image_floats(&y),
             y_lanes);
        IPU__SIMD_PICK(ipu__lanes_loops_at).weight_grad(&shape, x_lanes, y_lanes, tasks.begin, tasks.end, dw);
    }
}

ipu_status ipu__conv_lanes_run(const ipu_kernel_call *call, void *prepared, void *const *operand,
                               void *scratch, int part, int n_parts)
{
    const state *s = prepared;
    switch (s->c.kind) {
    case IPU__CONV_FORWARD:
        forward(s, ipu__kernel_has(call, IPU__CONV_BIAS) ? operand[IPU__CONV_BIAS] : NULL, operand, scratch,
                share_of(&s->c, s->c.y[1], part, n_parts));
        break;
    case IPU__CONV_INPUT_GRAD:
        input_grad(s, operand, scratch, share_of(&s->c, s->c.x[1], part, n_parts));
        break;
    case IPU__CONV_WEIGHT_GRAD: weight_grad(s, operand, scratch, part, n_parts); break;
    }
    return IPU_OK;
}

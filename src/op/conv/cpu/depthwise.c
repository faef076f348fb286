/* Depthwise convolutions: every group has one channel, so taps are summed one plane at a time.
 *
 * Planes are padded with zeros, except for kernels of 3 x 3, whose loops mask accesses outside. For stride 1,
 * the gradient of x is again a convolution, with its taps reversed. Others, and gradients of w if rows are
 * short, take d_y with its elements placed as in the plane: in one long run with zeros between the rows.
 */
#include <string.h>

#include "op/conv/cpu/depthwise.h"
#include "op/conv/cpu/3x3.h"
#include "op/conv/cpu/columns.h"
#include "op/product/xsmm.h"

typedef struct state {
    ipu__conv_state base; /* columns of floats: planes of other types are converted first */
    ipu_type        type;
    bool            is_3x3;     /* done by 3x3_simd.c */
    bool            is_flipped; /* columns are those of d_y, for a gradient that is a convolution */
} state;

/* The convolution of d_y that gives d_x; false: there is none that is one. */
static bool flip(ipu__conv *c)
{
    ipu__conv f = *c;
    if (c->kind != IPU__CONV_INPUT_GRAD || c->out != 1) return false;
    for (int d = 0; d < 3; d++) {
        if (c->stride[d] != 1) return false;
        f.x[d]   = c->y[d];
        f.y[d]   = c->x[d];
        f.pad[d] = (c->k[d] - 1) * c->dilation[d] - c->pad[d];
    }
    *c = f;
    return true;
}

static bool is_forward(const ipu__kernel_call *call) { return call->def == &ipu__op_conv.kernel; }

bool ipu__conv_depthwise_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    ipu__conv c = ipu__conv_get(call);
    if (c.in != 1 || c.groups < 2 || call->operand[0].type == IPU_DOUBLE) return false;
    return c.n > 0 && c.out > 0 && ipu__conv_volume(c.y) > 0 && ipu__conv_volume(c.x) > 0
        && ipu__conv_volume(c.k) > 0;
}

/* Loops that do not want planes laid out. */
static bool is_3x3(const ipu__conv *c)
{
    for (int d = 0; d < 3; d++)
        if (c->k[d] != (d == 0 ? 1 : 3) || c->dilation[d] != 1) return false;
    if (c->stride[0] != 1 || c->stride[1] != c->stride[2] || c->stride[1] > 2) return false;
    return c->x[0] == 1 && c->y[0] == 1 && c->y[1] >= 4 && c->y[2] >= 4
        && IPU__SIMD_PICK(ipu__conv_3x3_loops_at).sum;
}

/* Taps; x as floats, and laid out; outputs as floats, and as they would lie in a plane; a row of zeros;
 * pointers to rows. Taps come first: masked lanes before x that lie in no page cost hundreds of cycles. */
typedef struct room {
    int64_t x, plane, y, flat, zeros, rows, n;
} room;

/* A weight's gradient is summed in lanes, which are added up at the end; that of a few channels at a time. */
enum { LANES = 16, CHANNELS = 8 };

static int64_t line_up(int64_t n) { return (n + 15) / 16 * 16; }

/* Of x, that outputs read. */
static int64_t count_rows(const ipu__conv *c) { return (c->y[1] - 1) * c->stride[1] + 3; }

static room get_room(const ipu__columns *s, ipu_type type)
{
    int64_t numbers = (s->c.kind == IPU__CONV_WEIGHT_GRAD ? CHANNELS * LANES : 1) * s->n_taps;
    room    r       = {.x = line_up(numbers)};
    r.plane         = r.x + (type == IPU_FLOAT ? 0 : line_up(ipu__conv_volume(s->c.x)));
    r.y             = r.plane + line_up(s->plane);
    r.flat          = r.y + (type == IPU_FLOAT ? 0 : line_up(s->n_outputs));
    r.zeros         = r.flat + line_up(s->flat);
    r.rows          = r.zeros + line_up(s->c.x[2]);
    r.n             = r.rows + line_up(count_rows(&s->c) * (int64_t)(sizeof(void *) / sizeof(float)));
    return r;
}

size_t ipu__conv_depthwise_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    ipu__conv    c = ipu__conv_get(call);
    ipu__columns s;
    flip(&c);
    if (ipu__columns_init(&s, &c, IPU_FLOAT) != IPU_OK) return SIZE_MAX;
    size_t bytes = (size_t)get_room(&s, call->operand[0].type).n * sizeof(float);
    ipu__columns_fini(&s);
    size_t more = is_forward(call) ? ipu__epilogue_scratch_bytes(call) : 0;
    return more == SIZE_MAX ? more : bytes + more;
}

ipu_status ipu__conv_depthwise_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    (void)n_parts;
    ipu__conv c          = ipu__conv_get(call);
    bool      is_flipped = flip(&c);
    IPU_TRY(ipu__conv_prepare(call, &c, IPU_FLOAT, sizeof(state), out));
    state *s      = *out;
    s->type       = call->operand[0].type;
    s->is_flipped = is_flipped;
    s->is_3x3     = is_3x3(&c);
    return IPU_OK;
}

/* ---- planes ---- */

typedef struct job {
    const ipu__columns        *s;
    const ipu__columns_loops  *loops;
    ipu_type                   type;
    int64_t                    bytes;
    float                     *taps, *x, *plane, *y, *flat;
    void                      *after;     /* scratch that is not used here */
    const ipu__conv_3x3_loops *loops_3x3; /* NULL: planes are laid out */
    ipu__rows_3x3              in_rows;   /* the plane at hand, for those */
    const float              **rows, *zeros;
} job;

/* Planes are zeros where x does not reach, and runs of d_y between its rows, from here on. */
static job make_job(const state *s, float *scratch)
{
    const ipu__conv *c    = &s->base.columns.c;
    room             r    = get_room(&s->base.columns, s->type);
    const float    **rows = (const float **)(void *)(scratch + r.rows);
    memset(scratch + r.plane, 0, (size_t)(r.rows - r.plane) * sizeof *scratch);
    return (job){.s         = &s->base.columns,
                 .loops     = &IPU__SIMD_PICK(ipu__columns_loops_at),
                 .type      = s->type,
                 .bytes     = (int64_t)ipu_type_size(s->type),
                 .taps      = scratch,
                 .x         = scratch + r.x,
                 .plane     = scratch + r.plane,
                 .y         = scratch + r.y,
                 .flat      = scratch + r.flat,
                 .after     = scratch + r.n,
                 .loops_3x3 = s->is_3x3 ? &IPU__SIMD_PICK(ipu__conv_3x3_loops_at) : NULL,
                 .in_rows   = {rows, c->x[2], c->pad[2], c->stride[2], c->y[1], c->y[2]},
                 .rows      = rows,
                 .zeros     = scratch + r.zeros};
}

/* `n` elements as floats, in `buffer` if they are not. */
static const float *get_floats(const job *j, const char *from, float *buffer, int64_t n)
{
    if (j->type == IPU_FLOAT) return (const float *)from;
    ipu__to_floats(j->type, from, buffer, n);
    return buffer;
}

static void set_rows(const job *j, const float *x)
{
    const ipu__conv *c = &j->s->c;
    for (int64_t i = 0, r = -c->pad[1]; i < count_rows(c); i++, r++)
        j->rows[i] = r >= 0 && r < c->x[1] ? x + r * c->x[2] : j->zeros;
}

/* The plane that `x` becomes; for loops of 3 x 3 rows point to it from here on. */
static const float *get_plane(const job *j, const char *x)
{
    const float *floats = get_floats(j, x, j->x, ipu__conv_volume(j->s->c.x));
    if (j->loops_3x3) set_rows(j, floats);
    if (j->loops_3x3 || j->s->in_place) return floats;
    ipu__columns_fill(j->s, floats, j->plane);
    return j->plane;
}

static void get_taps(const job *j, const void *w, int64_t channel)
{
    ipu__to_floats(j->type, (const char *)w + channel * j->s->n_taps * j->bytes, j->taps, j->s->n_taps);
}

/* All outputs of a plane, to y in its type. */
static void sum_plane(const job *j, const float *x, float bias, char *y)
{
    const ipu__columns *s  = j->s;
    float              *to = j->type == IPU_FLOAT ? (float *)y : j->y;
    if (j->loops_3x3) j->loops_3x3->sum(&j->in_rows, j->taps, bias, to);
    for (int64_t i = 0; i < s->c.y[0] && !j->loops_3x3; i++)
        j->loops->sum_taps(x + i * s->pitch[1] * s->pitch[2], s->pitch[2], s->tap, j->taps, s->n_taps, bias,
                           to + i * s->c.y[1] * s->c.y[2], s->c.y[1], s->c.y[2]);
    if (j->type != IPU_FLOAT) ipu__from_floats(j->type, j->y, y, s->n_outputs);
}

/* d_y with zeros between its rows. */
static void uncrop(const job *j, const char *dy)
{
    const ipu__columns *s = j->s;
    const float        *y = get_floats(j, dy, j->y, s->n_outputs);
    for (int64_t i = 0; i < s->c.y[0]; i++)
        j->loops->copy_rows(y + i * s->c.y[1] * s->c.y[2], s->c.y[2], j->flat + i * s->pitch[1] * s->pitch[2],
                            s->pitch[2], s->c.y[1], s->c.y[2]);
}

/* ---- the three ops; parts share out images and channels ---- */

ipu_status ipu__conv_depthwise_forward_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                           void *scratch, int part, int n_parts)
{
    job                 j = make_job(prepared, scratch);
    const ipu__columns *s = j.s;
    int64_t             m = s->c.out, volume = ipu__conv_volume(s->c.x);
    ipu_interval        range = ipu__op_part(s->c.n * s->c.groups, 1, part, n_parts);
    for (int64_t i = range.begin; i < range.end; i++) {
        const float *x = get_plane(&j, (const char *)operand[IPU__CONV_X] + i * volume * j.bytes);
        for (int64_t o = 0; o < m; o++) {
            int64_t channel = i % s->c.groups * m + o;
            float   bias    = 0;
            if (ipu__kernel_has(call, IPU__CONV_BIAS))
                ipu__to_floats(j.type, (const char *)operand[IPU__CONV_BIAS] + channel * j.bytes, &bias, 1);
            get_taps(&j, operand[IPU__CONV_W], channel);
            sum_plane(&j, x, bias, (char *)operand[IPU__CONV_OUT] + (i * m + o) * s->n_outputs * j.bytes);
            ipu__epilogue_run(&((const state *)prepared)->base.epilogue, operand, (i * m + o) * s->n_outputs,
                              s->n_outputs, s->n_outputs, 1, j.after);
        }
    }
    return IPU_OK;
}

static void reverse(float *taps, int64_t n)
{
    for (int64_t i = 0, k = n - 1; i < k; i++, k--) {
        float old = taps[i];
        taps[i]   = taps[k];
        taps[k]   = old;
    }
}

/* One plane of d_x, of channel `i` of all images. */
static void spread_plane(const job *j, int64_t i, void *const *operand, char *dx)
{
    const ipu__columns *s     = j->s;
    int64_t             m     = s->c.out;
    float              *x     = j->type == IPU_FLOAT ? (float *)dx : j->x;
    float              *plane = s->in_place ? x : j->plane;
    memset(plane, 0, (size_t)s->plane * sizeof *plane);
    for (int64_t o = 0; o < m; o++) {
        uncrop(j, (const char *)operand[IPU__CONV_INPUT_GRAD_DY] + (i * m + o) * s->n_outputs * j->bytes);
        get_taps(j, operand[IPU__CONV_INPUT_GRAD_W], i % s->c.groups * m + o);
        j->loops->spread_taps(plane, s->tap, j->taps, s->n_taps, j->flat, s->flat);
    }
    if (!s->in_place) ipu__columns_unstage(s, plane, 1, x);
    if (j->type != IPU_FLOAT) ipu__from_floats(j->type, x, dx, ipu__conv_volume(s->c.x));
}

ipu_status ipu__conv_depthwise_input_grad_run(const ipu__kernel_call *call, void *prepared,
                                              void *const *operand, void *scratch, int part, int n_parts)
{
    (void)call;
    job                 j      = make_job(prepared, scratch);
    const ipu__columns *s      = j.s;
    bool                flips  = ((const state *)prepared)->is_flipped;
    int64_t             volume = ipu__conv_volume(flips ? s->c.y : s->c.x), from = ipu__conv_volume(s->c.x);
    ipu_interval        range = ipu__op_part(s->c.n * s->c.groups, 1, part, n_parts);
    for (int64_t i = range.begin; i < range.end; i++) {
        char *dx = (char *)operand[IPU__CONV_INPUT_GRAD_OUT] + i * volume * j.bytes;
        if (!flips) {
            spread_plane(&j, i, operand, dx);
            continue;
        }
        const float *dy = get_plane(&j, (const char *)operand[IPU__CONV_INPUT_GRAD_DY] + i * from * j.bytes);
        get_taps(&j, operand[IPU__CONV_INPUT_GRAD_W], i % s->c.groups);
        reverse(j.taps, s->n_taps);
        sum_plane(&j, dy, 0, dx);
    }
    return IPU_OK;
}

/* Lanes of each tap to one number, in place. */
static void add_lanes(float *taps, int64_t n_taps)
{
    for (int64_t t = 0; t < n_taps; t++) {
        float *lane = taps + LANES * t;
        for (int width = LANES / 2; width > 0; width /= 2)
            for (int l = 0; l < width; l++) lane[l] += lane[l + width];
        taps[t] = lane[0];
    }
}

/* What one image adds to the lanes of all taps of a channel. */
static void add_dots(const job *j, const float *x, const char *dy, float *taps)
{
    const ipu__columns *s = j->s;
    if (s->c.y[2] < LANES && !j->loops_3x3) {
        uncrop(j, dy);
        j->loops->dots(x, 0, s->tap, s->n_taps, j->flat, 1, s->flat, taps);
        return;
    }
    const float *y = get_floats(j, dy, j->y, s->n_outputs);
    if (j->loops_3x3) j->loops_3x3->dots(&j->in_rows, y, taps);
    for (int64_t i = 0; i < s->c.y[0] && !j->loops_3x3; i++)
        j->loops->dots(x + i * s->pitch[1] * s->pitch[2], s->pitch[2], s->tap, s->n_taps,
                       y + i * s->c.y[1] * s->c.y[2], s->c.y[1], s->c.y[2], taps);
}

/* Channels [begin, end) of y. Those of an image lie together: memory is read in long runs. */
static void dot_channels(const job *j, int64_t begin, int64_t end, const char *x, const char *dy, char *out)
{
    const ipu__columns *s    = j->s;
    int64_t             step = LANES * s->n_taps, m = s->c.out, volume = ipu__conv_volume(s->c.x);
    const float        *plane = NULL;
    memset(j->taps, 0, (size_t)((end - begin) * step) * sizeof *j->taps);
    for (int64_t i = 0; i < s->c.n; i++)
        for (int64_t o = begin; o < end; o++) {
            int64_t channel = i * s->c.groups * m + o;
            if (o == begin || o % m == 0) plane = get_plane(j, x + channel / m * volume * j->bytes);
            add_dots(j, plane, dy + channel * s->n_outputs * j->bytes, j->taps + (o - begin) * step);
        }
    for (int64_t o = begin; o < end; o++) {
        float *taps = j->taps + (o - begin) * step;
        add_lanes(taps, s->n_taps);
        ipu__from_floats(j->type, taps, out + o * s->n_taps * j->bytes, s->n_taps);
    }
}

ipu_status ipu__conv_depthwise_weight_grad_run(const ipu__kernel_call *call, void *prepared,
                                               void *const *operand, void *scratch, int part, int n_parts)
{
    (void)call;
    job          j     = make_job(prepared, scratch);
    ipu_interval range = ipu__op_part(j.s->c.groups * j.s->c.out, 1, part, n_parts);
    for (int64_t o = range.begin; o < range.end; o += CHANNELS)
        dot_channels(&j, o, o + CHANNELS < range.end ? o + CHANNELS : range.end,
                     operand[IPU__CONV_WEIGHT_GRAD_X], operand[IPU__CONV_WEIGHT_GRAD_DY],
                     operand[IPU__CONV_WEIGHT_GRAD_OUT]);
    return IPU_OK;
}

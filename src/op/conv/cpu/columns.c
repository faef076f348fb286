/* Planes and columns of convolutions. */
#include "op/conv/cpu/columns.h"

#include <string.h>

#include "base/alloc.h"
#include "op/product/xsmm.h"

/* ---- planes ---- */

ipu_status ipu__columns_init(ipu__columns *s, const ipu__conv *c, ipu_type type)
{
    *s              = (ipu__columns){.c         = *c,
                                     .type      = type,
                                     .in_place  = type == IPU_FLOAT,
                                     .n_taps    = ipu__conv_volume(c->k),
                                     .n_outputs = ipu__conv_volume(c->y)};
    int64_t offsets = 1;
    for (int d = 0; d < 3; d++) {
        int64_t extent  = (c->y[d] - 1) * c->stride[d] + (c->k[d] - 1) * c->dilation[d] + 1;
        s->pitch[d]     = ipu__op_ceil_div(extent, c->stride[d]);
        s->n_offsets[d] = c->k[d] == 1 ? 1 : c->stride[d];
        offsets *= s->n_offsets[d];
        if (c->pad[d] != 0 || c->stride[d] != 1 || extent > c->x[d]) s->in_place = false;
    }
    for (int d = 0; d < 3 && s->in_place; d++) s->pitch[d] = c->x[d];
    int64_t box   = ipu__conv_volume(s->pitch);
    s->is_product = s->n_taps == 1 && s->n_outputs == box;
    s->plane      = offsets * box;
    s->flat       = ((c->y[0] - 1) * s->pitch[1] + c->y[1] - 1) * s->pitch[2] + c->y[2];
    s->tap        = ipu__alloc((size_t)s->n_taps * sizeof *s->tap);
    if (!s->tap) return ipu__fail_memory();
    for (int64_t t = 0; t < s->n_taps; t++) {
        int64_t at[3] = {t / c->k[2] / c->k[1], t / c->k[2] % c->k[1], t % c->k[2]}, offset = 0, inside = 0;
        for (int d = 0; d < 3; d++) {
            offset = offset * s->n_offsets[d] + at[d] * c->dilation[d] % c->stride[d];
            inside = inside * s->pitch[d] + at[d] * c->dilation[d] / c->stride[d];
        }
        s->tap[t] = offset * box + inside;
    }
    return IPU_OK;
}

void ipu__columns_fini(ipu__columns *s) { ipu__free(s->tap); }

ipu_status ipu__conv_prepare(const ipu__kernel_call *call, const ipu__conv *c, ipu_type type, size_t bytes,
                             void **out)
{
    ipu__conv_state *s = ipu__alloc_zeroed(bytes);
    *out               = NULL;
    if (!s) return ipu__fail_memory();
    ipu_status status = ipu__columns_init(&s->columns, c, type);
    if (status == IPU_OK && call->def == &ipu__op_conv.kernel)
        status = ipu__epilogue_init(&s->epilogue, call);
    if (status == IPU_OK)
        *out = s;
    else
        ipu__conv_release(s);
    return status;
}

void ipu__conv_release(void *prepared)
{
    ipu__conv_state *s = prepared;
    if (!s) return;
    ipu__epilogue_fini(&s->epilogue);
    ipu__columns_fini(&s->columns);
    ipu__free(s);
}

/* Places [begin, end) of a plane's box along dimension `d` are in x, the first of them at *first. */
static ipu_interval find_inside(const ipu__columns *s, int d, int64_t offset, int64_t *first)
{
    int64_t stride = s->c.stride[d], pad = s->c.pad[d], begin = 0, end = s->pitch[d];
    if (pad > offset) begin = ipu__op_ceil_div(pad - offset, stride);
    int64_t room = pad + s->c.x[d] - offset; /* elements below this one are in x */
    if (room <= 0)
        end = begin;
    else if (ipu__op_ceil_div(room, stride) < end)
        end = ipu__op_ceil_div(room, stride);
    if (end < begin) end = begin;
    if (begin > s->pitch[d]) begin = end = s->pitch[d];
    *first = begin * stride + offset - pad;
    return (ipu_interval){begin, end};
}

/* Rows that lie evenly in x and in a plane: of one offset below the strides, at one place of dimension 0. */
typedef struct slab {
    int64_t x, x_step, plane, n_rows, n_columns; /* where the first begins, in elements; sizes */
} slab;

static int64_t count_slabs(const ipu__columns *s) { return ipu__conv_volume(s->n_offsets) * s->pitch[0]; }

/* False: there is nothing of x in it. */
static bool get_slab(const ipu__columns *s, int64_t index, slab *out)
{
    const ipu__conv *c  = &s->c;
    int64_t          at = index % s->pitch[0], box = index / s->pitch[0], first[3];
    int64_t offset[3] = {box / s->n_offsets[2] / s->n_offsets[1], box / s->n_offsets[2] % s->n_offsets[1],
                         box % s->n_offsets[2]};
    ipu_interval in[3];
    for (int d = 0; d < 3; d++) in[d] = find_inside(s, d, offset[d], &first[d]);
    int64_t x0 = first[0] + (at - in[0].begin) * c->stride[0];
    *out       = (slab){.x         = (x0 * c->x[1] + first[1]) * c->x[2] + first[2],
                        .x_step    = c->stride[1] * c->x[2],
                        .plane     = (index * s->pitch[1] + in[1].begin) * s->pitch[2] + in[2].begin,
                        .n_rows    = in[1].end - in[1].begin,
                        .n_columns = in[2].end - in[2].begin};
    return at >= in[0].begin && at < in[0].end && out->n_rows > 0 && out->n_columns > 0;
}

enum { LINE = 256 }; /* elements of a row that are converted at a time */

/* to[i] = from[i * stride] of another type. */
static void pick_converted(ipu_type type, const char *from, int64_t stride, float *to, int64_t n)
{
    float   line[LINE];
    int64_t at_once = (LINE - 1) / stride + 1, bytes = (int64_t)ipu_type_size(type);
    for (int64_t i = 0; i < n; i += at_once) {
        int64_t m = n - i < at_once ? n - i : at_once;
        ipu__to_floats(type, from + i * stride * bytes, line, (m - 1) * stride + 1);
        IPU__SIMD_PICK(ipu__columns_loops_at).pick_rows(line, 0, stride, to + i, 0, 1, m);
    }
}

/* to[i * stride] = from[i], to another type. */
static void strew_converted(ipu_type type, const float *from, uint16_t *to, int64_t stride, int64_t n)
{
    uint16_t line[LINE];
    for (int64_t i = 0; i < n; i += LINE) {
        int64_t m = n - i < LINE ? n - i : LINE;
        ipu__from_floats(type, from + i, line, m);
        for (int64_t k = 0; k < m; k++) to[(i + k) * stride] = line[k];
    }
}

static void fill_slab(const ipu__columns *s, const slab *b, const char *x, float *plane)
{
    const ipu__columns_loops *loops  = &IPU__SIMD_PICK(ipu__columns_loops_at);
    int64_t                   stride = s->c.stride[2], bytes = (int64_t)ipu_type_size(s->type);
    const char               *from = x + b->x * bytes;
    float                    *to   = plane + b->plane;
    if (s->type == IPU_FLOAT && stride == 1)
        loops->copy_rows((const float *)from, b->x_step, to, s->pitch[2], b->n_rows, b->n_columns);
    else if (s->type == IPU_FLOAT)
        loops->pick_rows((const float *)from, b->x_step, stride, to, s->pitch[2], b->n_rows, b->n_columns);
    for (int64_t i = 0; i < b->n_rows && s->type != IPU_FLOAT; i++)
        if (stride == 1)
            ipu__to_floats(s->type, from + i * b->x_step * bytes, to + i * s->pitch[2], b->n_columns);
        else
            pick_converted(s->type, from + i * b->x_step * bytes, stride, to + i * s->pitch[2], b->n_columns);
}

void ipu__columns_fill(const ipu__columns *s, const void *x, float *plane)
{
    slab b;
    for (int64_t i = 0; i < count_slabs(s); i++)
        if (get_slab(s, i, &b)) fill_slab(s, &b, x, plane);
}

void ipu__columns_stage(const ipu__columns *s, const void *x, int64_t n, float *planes)
{
    int64_t x_step = ipu__conv_volume(s->c.x) * (int64_t)ipu_type_size(s->type);
    for (int64_t i = 0; i < n; i++) {
        memset(planes + i * s->plane, 0, (size_t)s->plane * sizeof *planes);
        ipu__columns_fill(s, (const char *)x + i * x_step, planes + i * s->plane);
    }
}

static void empty_slab(const ipu__columns *s, const slab *b, const float *plane, char *x)
{
    int64_t      stride = s->c.stride[2], bytes = (int64_t)ipu_type_size(s->type);
    const float *from = plane + b->plane;
    char        *to   = x + b->x * bytes;
    if (s->type == IPU_FLOAT && stride == 1)
        IPU__SIMD_PICK(ipu__columns_loops_at)
            .copy_rows(from, s->pitch[2], (float *)to, b->x_step, b->n_rows, b->n_columns);
    for (int64_t i = 0; i < b->n_rows && s->type == IPU_FLOAT && stride != 1; i++)
        for (int64_t k = 0; k < b->n_columns; k++)
            ((float *)to)[i * b->x_step + k * stride] = from[i * s->pitch[2] + k];
    for (int64_t i = 0; i < b->n_rows && s->type != IPU_FLOAT; i++)
        if (stride == 1)
            ipu__from_floats(s->type, from + i * s->pitch[2], to + i * b->x_step * bytes, b->n_columns);
        else
            strew_converted(s->type, from + i * s->pitch[2], (uint16_t *)(to + i * b->x_step * bytes), stride,
                            b->n_columns);
}

/* Whether planes hold all of x. */
static bool reaches_all(const ipu__columns *s)
{
    for (int d = 0; d < 3; d++)
        if (s->c.pad[d] < 0 || s->n_offsets[d] < s->c.stride[d]
            || s->pitch[d] * s->c.stride[d] < s->c.pad[d] + s->c.x[d])
            return false;
    return true;
}

void ipu__columns_unstage(const ipu__columns *s, float *planes, int64_t n, void *x)
{
    int64_t bytes = (int64_t)ipu_type_size(s->type), volume = ipu__conv_volume(s->c.x);
    if (!reaches_all(s)) memset(x, 0, (size_t)(n * volume * bytes));
    for (int64_t channel = 0; channel < n; channel++)
        for (int64_t i = 0; i < count_slabs(s); i++) {
            slab b;
            if (get_slab(s, i, &b))
                empty_slab(s, &b, planes + channel * s->plane, (char *)x + channel * volume * bytes);
        }
}

/* ---- columns ---- */

static int find_runs(const ipu__columns *s, int64_t image_step, int64_t column, int64_t n_columns,
                     ipu__column_run *runs)
{
    const ipu__conv *c = &s->c;
    int              n = 0;
    for (int64_t to = 0; to < n_columns;) {
        int64_t at = (column + to) % s->n_outputs, image = (column + to) / s->n_outputs, last = at % c->y[2];
        int64_t lines  = at / c->y[2] / c->y[1] * s->pitch[1] + at / c->y[2] % c->y[1];
        int64_t from   = image * image_step + lines * s->pitch[2] + last;
        int64_t length = c->y[2] - last < n_columns - to ? c->y[2] - last : n_columns - to;
        if (n > 0 && runs[n - 1].from + runs[n - 1].length == from)
            runs[n - 1].length += length;
        else
            runs[n++] = (ipu__column_run){from, to, length};
        to += length;
    }
    return n;
}

void ipu__columns_gather(const ipu__columns *s, const float *planes, int64_t image_step, int64_t row,
                         int64_t n_rows, int64_t column, int64_t n_columns, float *to, int64_t to_ld)
{
    ipu__column_run runs[IPU__MAX_COLUMNS];
    int             n = find_runs(s, image_step, column, n_columns, runs);
    IPU__SIMD_PICK(ipu__columns_loops_at).gather(s, planes, row, n_rows, runs, n, to, to_ld);
}

void ipu__columns_scatter(const ipu__columns *s, float *planes, int64_t image_step, int64_t row,
                          int64_t n_rows, int64_t column, int64_t n_columns, const float *from,
                          int64_t from_ld)
{
    ipu__column_run runs[IPU__MAX_COLUMNS];
    int             n = find_runs(s, image_step, column, n_columns, runs);
    IPU__SIMD_PICK(ipu__columns_loops_at).scatter(s, planes, row, n_rows, runs, n, from, from_ld);
}

/* ---- outputs ---- */

void ipu__outputs_gather(ipu_type type, const void *y, int64_t channel_step, int64_t image_step,
                         int64_t n_outputs, int64_t n_rows, int64_t column, int64_t n_columns, float *to,
                         int64_t to_ld)
{
    int64_t bytes = (int64_t)ipu_type_size(type);
    for (int64_t j = 0; j < n_columns;) {
        int64_t image = (column + j) / n_outputs, at = (column + j) % n_outputs, n = n_outputs - at;
        if (n > n_columns - j) n = n_columns - j;
        const char *from = (const char *)y + (image * image_step + at) * bytes;
        ipu__rows_to_floats(type, from, channel_step, to + j, to_ld, n_rows, n);
        j += n;
    }
}

void ipu__outputs_scatter(ipu_type type, void *y, int64_t channel_step, int64_t image_step, int64_t n_outputs,
                          int64_t n_rows, int64_t column, int64_t n_columns, const float *from,
                          int64_t from_ld)
{
    int64_t bytes = (int64_t)ipu_type_size(type);
    for (int64_t j = 0; j < n_columns;) {
        int64_t image = (column + j) / n_outputs, at = (column + j) % n_outputs, n = n_outputs - at;
        if (n > n_columns - j) n = n_columns - j;
        char *to = (char *)y + (image * image_step + at) * bytes;
        ipu__rows_from_floats(type, from + j, from_ld, to, channel_step, n_rows, n);
        j += n;
    }
}

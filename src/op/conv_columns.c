/* Planes and columns of convolutions. */
#include "op/conv_columns.h"

#include <string.h>

#include "base/alloc.h"
#include "op/xsmm.h"

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

ipu_status ipu__conv_prepare(const ipu_kernel_call *call, const ipu__conv *c, size_t bytes, void **out)
{
    ipu__conv_state *s = ipu__alloc_zeroed(bytes);
    *out               = NULL;
    if (!s) return ipu__fail_memory();
    ipu_status status = ipu__columns_init(&s->columns, c, call->operand[0].type);
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

/* Rows of planes and the rows of x they hold, one after another. */
typedef struct walk {
    int64_t offset[3], at[2]; /* below the strides; in the box of that offset */
    float  *plane;
    int64_t x; /* in elements; -1: padding */
} walk;

static void look(const ipu__columns *s, walk *w)
{
    const ipu__conv *c      = &s->c;
    int64_t          x0     = w->at[0] * c->stride[0] + w->offset[0] - c->pad[0];
    int64_t          x1     = w->at[1] * c->stride[1] + w->offset[1] - c->pad[1];
    bool             inside = x0 >= 0 && x0 < c->x[0] && x1 >= 0 && x1 < c->x[1];
    w->x                    = inside ? (x0 * c->x[1] + x1) * c->x[2] : -1;
}

static void begin_walk(const ipu__columns *s, float *plane, walk *w)
{
    *w       = (walk){0};
    w->plane = plane;
    look(s, w);
}

static bool advance(int64_t *i, int64_t n)
{
    if (++*i < n) return true;
    *i = 0;
    return false;
}

/* False: that was the last. */
static bool walk_on(const ipu__columns *s, walk *w)
{
    w->plane += s->pitch[2];
    bool more = advance(&w->at[1], s->pitch[1]) || advance(&w->at[0], s->pitch[0])
             || advance(&w->offset[2], s->n_offsets[2]) || advance(&w->offset[1], s->n_offsets[1])
             || advance(&w->offset[0], s->n_offsets[0]);
    look(s, w);
    return more;
}

/* Elements [begin, end) of a row of the plane are elements of x, the first of them x[*first]. */
static ipu_interval find_inside(const ipu__columns *s, int64_t offset, int64_t *first)
{
    int64_t stride = s->c.stride[2], pad = s->c.pad[2], begin = 0, end = s->pitch[2];
    if (pad > offset) begin = ipu__op_ceil_div(pad - offset, stride);
    int64_t room = pad + s->c.x[2] - offset; /* elements below this one are in x */
    if (room <= 0)
        end = begin;
    else if (ipu__op_ceil_div(room, stride) < end)
        end = ipu__op_ceil_div(room, stride);
    if (end < begin) end = begin;
    if (begin > s->pitch[2]) begin = end = s->pitch[2];
    *first = begin * stride + offset - pad;
    return (ipu_interval){begin, end};
}

static void fill_row(const ipu__columns *s, const char *x, const walk *w)
{
    int64_t      stride = s->c.stride[2], first, bytes = (int64_t)ipu_type_size(s->type);
    ipu_interval in = find_inside(s, w->offset[2], &first);
    float       *to = w->plane;
    if (stride == 1)
        ipu__to_floats(s->type, x + first * bytes, to + in.begin, in.end - in.begin);
    else if (s->type == IPU_FLOAT)
        for (int64_t i = in.begin; i < in.end; i++, first += stride) to[i] = ((const float *)x)[first];
    else
        for (int64_t i = in.begin; i < in.end; i++, first += stride)
            ipu__to_floats(s->type, x + first * bytes, to + i, 1);
}

/* No strides: a box in a box of zeros. */
static void fill_box(const ipu__columns *s, const char *x, float *plane)
{
    const ipu__conv *c = &s->c;
    int64_t          first, row = c->pad[1] > 0 ? c->pad[1] : 0, end = c->pad[1] + c->x[1];
    int64_t          bytes = (int64_t)ipu_type_size(s->type);
    ipu_interval     in    = find_inside(s, 0, &first);
    if (end > s->pitch[1]) end = s->pitch[1];
    for (int64_t i = 0; i < s->pitch[0] && row < end; i++) {
        int64_t x0 = i - c->pad[0];
        if (x0 < 0 || x0 >= c->x[0]) continue;
        const char *from = x + ((x0 * c->x[1] + row - c->pad[1]) * c->x[2] + first) * bytes;
        float      *to   = plane + (i * s->pitch[1] + row) * s->pitch[2] + in.begin;
        if (s->type == IPU_FLOAT)
            IPU__SIMD_PICK(ipu__columns_loops_at)
                .copy_rows((const float *)from, c->x[2], to, s->pitch[2], end - row, in.end - in.begin);
        for (int64_t k = row; k < end && s->type != IPU_FLOAT;
             k++, from += c->x[2] * bytes, to += s->pitch[2])
            ipu__to_floats(s->type, from, to, in.end - in.begin);
    }
}

void ipu__columns_fill(const ipu__columns *s, const void *x, float *plane)
{
    if (s->c.stride[0] == 1 && s->c.stride[1] == 1 && s->c.stride[2] == 1) {
        fill_box(s, x, plane);
        return;
    }
    walk w;
    begin_walk(s, plane, &w);
    do
        if (w.x >= 0) fill_row(s, (const char *)x + w.x * (int64_t)ipu_type_size(s->type), &w);
    while (walk_on(s, &w));
}

void ipu__columns_stage(const ipu__columns *s, const void *x, int64_t n, float *planes)
{
    int64_t x_step = ipu__conv_volume(s->c.x) * (int64_t)ipu_type_size(s->type);
    for (int64_t i = 0; i < n; i++) {
        memset(planes + i * s->plane, 0, (size_t)s->plane * sizeof *planes);
        ipu__columns_fill(s, (const char *)x + i * x_step, planes + i * s->plane);
    }
}

static void unstage_row(const ipu__columns *s, const walk *w, char *x)
{
    int64_t      stride = s->c.stride[2], first, bytes = (int64_t)ipu_type_size(s->type);
    ipu_interval in = find_inside(s, w->offset[2], &first);
    if (stride == 1 && s->type == IPU_FLOAT)
        IPU__SIMD_PICK(ipu__columns_loops_at)
            .copy_rows(w->plane + in.begin, 0, (float *)x + first, 0, 1, in.end - in.begin);
    else if (stride == 1)
        ipu__from_floats(s->type, w->plane + in.begin, x + first * bytes, in.end - in.begin);
    else if (s->type == IPU_FLOAT)
        for (int64_t i = in.begin; i < in.end; i++, first += stride) ((float *)x)[first] = w->plane[i];
    else
        for (int64_t i = in.begin; i < in.end; i++, first += stride)
            ipu__from_floats(s->type, w->plane + i, x + first * bytes, 1);
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
    for (int64_t channel = 0; channel < n; channel++) {
        walk w;
        begin_walk(s, planes + channel * s->plane, &w);
        do
            if (w.x >= 0) unstage_row(s, &w, (char *)x + (channel * volume + w.x) * bytes);
        while (walk_on(s, &w));
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
        for (int64_t i = 0; i < n_rows; i++)
            if (type == IPU_FLOAT)
                memcpy(to + i * to_ld + j, (const float *)from + i * channel_step, (size_t)n * sizeof *to);
            else
                ipu__to_floats(type, from + i * channel_step * bytes, to + i * to_ld + j, n);
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
        for (int64_t i = 0; i < n_rows; i++)
            if (type == IPU_FLOAT)
                memcpy((float *)to + i * channel_step, from + i * from_ld + j, (size_t)n * sizeof *from);
            else
                ipu__from_floats(type, from + i * from_ld + j, to + i * channel_step * bytes, n);
        j += n;
    }
}

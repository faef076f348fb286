/* Planes and columns of convolutions. */
#include "op/conv_columns.h"

#include <string.h>

#include "base/alloc.h"
#include "op/xsmm.h"

/* ---- planes ---- */

ipu_status ipu__columns_init(ipu__columns *s, const ipu__conv *c, ipu_type type)
{
    int64_t stride = c->stride[2];
    *s             = (ipu__columns){
                    .c = *c, .type = type, .n_taps = ipu__conv_volume(c->k), .n_outputs = ipu__conv_volume(c->y)};
    s->in_place = type == IPU_FLOAT && stride == 1 && c->pad[0] == 0 && c->pad[1] == 0 && c->pad[2] == 0;
    for (int d = 0; d < 3; d++) {
        s->extent[d] = (c->y[d] - 1) * c->stride[d] + (c->k[d] - 1) * c->dilation[d] + 1;
        if (s->extent[d] > c->x[d]) s->in_place = false; /* padding behind */
    }
    for (int d = 0; d < 3 && s->in_place; d++) s->extent[d] = c->x[d];
    s->is_product = s->in_place && s->n_taps == 1 && s->n_outputs == ipu__conv_volume(c->x);
    s->pitch      = ipu__op_ceil_div(s->extent[2], stride);
    s->plane      = s->extent[0] * s->extent[1] * stride * s->pitch;
    s->tap        = ipu__alloc((size_t)s->n_taps * sizeof *s->tap);
    if (!s->tap) return ipu__fail_memory();
    for (int64_t t = 0; t < s->n_taps; t++) {
        int64_t at[3] = {t / c->k[2] / c->k[1], t / c->k[2] % c->k[1], t % c->k[2]};
        for (int d = 0; d < 3; d++) at[d] *= c->dilation[d];
        s->tap[t] = ((at[0] * s->extent[1] + at[1]) * stride + at[2] % stride) * s->pitch + at[2] / stride;
    }
    return IPU_OK;
}

void ipu__columns_fini(ipu__columns *s) { ipu__free(s->tap); }

/* One row of x, whose first element lies at `pad` of the row of the plane. */
static void stage_row(const ipu__columns *s, const char *x, float *to)
{
    int64_t stride = s->c.stride[2], pad = s->c.pad[2], bytes = (int64_t)ipu_type_size(s->type);
    int64_t begin = pad > 0 ? pad : 0, end = pad + s->c.x[2];
    if (end > s->extent[2]) end = s->extent[2];
    if (stride == 1) {
        if (begin > 0) memset(to, 0, (size_t)(begin < s->pitch ? begin : s->pitch) * sizeof *to);
        if (end > begin) ipu__to_floats(s->type, x + (begin - pad) * bytes, to + begin, end - begin);
        int64_t rest = end > begin ? end : begin;
        if (rest < s->pitch) memset(to + rest, 0, (size_t)(s->pitch - rest) * sizeof *to);
        return;
    }
    memset(to, 0, (size_t)(stride * s->pitch) * sizeof *to);
    for (int64_t p = 0; p < stride; p++) {
        int64_t first = begin
                      + ((p - begin) % stride + stride)
                            % stride; /* the least >= begin that is p mod stride */
        float *run = to + p * s->pitch;
        if (s->type == IPU_FLOAT)
            for (int64_t w = first; w < end; w += stride) run[w / stride] = ((const float *)x)[w - pad];
        else
            for (int64_t w = first; w < end; w += stride)
                ipu__to_floats(s->type, x + (w - pad) * bytes, &run[w / stride], 1);
    }
}

static bool row_of(const ipu__columns *s, int64_t i, int64_t at[2])
{
    at[0] = i / s->extent[1] - s->c.pad[0];
    at[1] = i % s->extent[1] - s->c.pad[1];
    return at[0] >= 0 && at[0] < s->c.x[0] && at[1] >= 0 && at[1] < s->c.x[1];
}

void ipu__columns_stage(const ipu__columns *s, const void *x, int64_t n, float *planes)
{
    int64_t rows = s->extent[0] * s->extent[1], length = s->c.stride[2] * s->pitch;
    int64_t bytes = (int64_t)ipu_type_size(s->type), volume = ipu__conv_volume(s->c.x);
    for (int64_t channel = 0; channel < n; channel++)
        for (int64_t i = 0; i < rows; i++) {
            int64_t at[2];
            float  *to = planes + channel * s->plane + i * length;
            if (!row_of(s, i, at)) {
                memset(to, 0, (size_t)length * sizeof *to);
                continue;
            }
            int64_t from = channel * volume + (at[0] * s->c.x[1] + at[1]) * s->c.x[2];
            stage_row(s, (const char *)x + from * bytes, to);
        }
}

static void unstage_row(const ipu__columns *s, const float *from, char *x)
{
    int64_t stride = s->c.stride[2], pad = s->c.pad[2], bytes = (int64_t)ipu_type_size(s->type);
    int64_t n    = s->extent[2] - pad < s->c.x[2] ? s->extent[2] - pad : s->c.x[2];
    int64_t skip = pad < 0 ? -pad : 0;
    if (stride == 1 && n > skip) {
        ipu__from_floats(s->type, from + pad + skip, x + skip * bytes, n - skip);
        return;
    }
    for (int64_t i = skip; i < n; i++) {
        int64_t w = i + pad;
        ipu__from_floats(s->type, &from[w % stride * s->pitch + w / stride], x + i * bytes, 1);
    }
}

void ipu__columns_unstage(const ipu__columns *s, const float *planes, int64_t n, void *x)
{
    int64_t rows = s->extent[0] * s->extent[1], length = s->c.stride[2] * s->pitch;
    int64_t bytes = (int64_t)ipu_type_size(s->type), volume = ipu__conv_volume(s->c.x);
    bool    is_all = s->extent[0] - s->c.pad[0] >= s->c.x[0] && s->extent[1] - s->c.pad[1] >= s->c.x[1]
               && s->extent[2] - s->c.pad[2] >= s->c.x[2] && s->c.pad[0] >= 0 && s->c.pad[1] >= 0
               && s->c.pad[2] >= 0;
    if (!is_all) memset(x, 0, (size_t)(n * volume * bytes));
    for (int64_t channel = 0; channel < n; channel++)
        for (int64_t i = 0; i < rows; i++) {
            int64_t at[2];
            if (!row_of(s, i, at)) continue;
            int64_t to = channel * volume + (at[0] * s->c.x[1] + at[1]) * s->c.x[2];
            unstage_row(s, planes + channel * s->plane + i * length, (char *)x + to * bytes);
        }
}

/* ---- columns ---- */

/* Columns that read neighbours. */
typedef struct run {
    int64_t from; /* of tap 0, in channel 0 */
    int64_t to, length;
} run;

static int find_runs(const ipu__columns *s, int64_t image_step, int64_t column, int64_t n_columns, run *runs)
{
    const ipu__conv *c = &s->c;
    int              n = 0;
    for (int64_t to = 0; to < n_columns;) {
        int64_t at = (column + to) % s->n_outputs, image = (column + to) / s->n_outputs;
        int64_t y[3] = {at / c->y[2] / c->y[1], at / c->y[2] % c->y[1], at % c->y[2]};
        int64_t row  = (y[0] * c->stride[0] * s->extent[1] + y[1] * c->stride[1]) * c->stride[2] * s->pitch;
        int64_t from = image * image_step + row + y[2], length = c->y[2] - y[2];
        if (length > n_columns - to) length = n_columns - to;
        if (n > 0 && runs[n - 1].from + runs[n - 1].length == from)
            runs[n - 1].length += length;
        else
            runs[n++] = (run){from, to, length};
        to += length;
    }
    return n;
}

/* Runs are short: a call of memcpy for each would take longer than the copying. */
static inline void copy(const float *restrict from, float *restrict to, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) memcpy(to + i, from + i, 8 * sizeof *to);
    if (n - i >= 4) {
        memcpy(to + i, from + i, 4 * sizeof *to);
        i += 4;
    }
    for (; i < n; i++) to[i] = from[i];
}

void ipu__columns_gather(const ipu__columns *s, const float *planes, int64_t image_step, int64_t row,
                         int64_t n_rows, int64_t column, int64_t n_columns, float *to, int64_t to_ld)
{
    run runs[IPU__MAX_COLUMNS];
    int n = find_runs(s, image_step, column, n_columns, runs);
    for (int64_t i = 0; i < n_rows; i++) {
        const float *from = planes + (row + i) / s->n_taps * s->plane + s->tap[(row + i) % s->n_taps];
        for (int r = 0; r < n; r++) copy(from + runs[r].from, to + i * to_ld + runs[r].to, runs[r].length);
    }
}

static inline void add(const float *restrict from, float *restrict to, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int l = 0; l < 8; l++) to[i + l] += from[i + l];
    for (; i < n; i++) to[i] += from[i];
}

void ipu__columns_scatter(const ipu__columns *s, float *planes, int64_t image_step, int64_t row,
                          int64_t n_rows, int64_t column, int64_t n_columns, const float *from,
                          int64_t from_ld)
{
    run runs[IPU__MAX_COLUMNS];
    int n = find_runs(s, image_step, column, n_columns, runs);
    for (int64_t i = 0; i < n_rows; i++) {
        float *to = planes + (row + i) / s->n_taps * s->plane + s->tap[(row + i) % s->n_taps];
        for (int r = 0; r < n; r++) add(from + i * from_ld + runs[r].to, to + runs[r].from, runs[r].length);
    }
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
                copy((const float *)from + i * channel_step, to + i * to_ld + j, n);
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
                copy(from + i * from_ld + j, (float *)to + i * channel_step, n);
            else
                ipu__from_floats(type, from + i * from_ld + j, to + i * channel_step * bytes, n);
        j += n;
    }
}

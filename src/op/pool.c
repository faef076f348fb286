/* Pooling: windows from attributes, rows in float, what it costs, and the functions over it. */
#include "op/pool.h"

#include <string.h>

#include "graph/graph.h"
#include "ipu/matmul.h"
#include "ipu/pool.h"
#include "ipu/reduce.h"
#include "ipu/shape.h"
#include "op/builder.h"

/* ---- windows ---- */

static ipu_status fail_list(const ipu_kernel_call *call, const char *name, size_t found, int n)
{
    return ipu__fail(IPU_INVALID,
                     "%s: %s has %zu numbers: expected %d, one for each dimension after the second",
                     call->def->name, name, found, n);
}

/* A list of n numbers of at least `least`, or `otherwise` for each. */
static ipu_status get_list(const ipu_kernel_call *call, const char *name, int n, int64_t least,
                           const int64_t *otherwise, int64_t *out)
{
    size_t         found;
    const int64_t *list = ipu__op_ints(call, name, &found);
    if (found == 0 && otherwise) list = otherwise;
    if (found != (size_t)n && !(found == 0 && otherwise)) return fail_list(call, name, found, n);
    for (int i = 0; i < n; i++) {
        out[i] = list[i];
        if (list[i] < least || list[i] > INT32_MAX)
            return ipu__fail(IPU_INVALID, "%s: %s[%d] = %lld: expected %lld to 2^31 - 1", call->def->name,
                             name, i, (long long)list[i], (long long)least);
    }
    return IPU_OK;
}

static ipu_status get_padding(const ipu_kernel_call *call, int n, int64_t *before, int64_t *after)
{
    size_t               found;
    const int64_t       *list    = ipu__op_ints(call, "padding", &found);
    static const int64_t none[6] = {0};
    if (found != 0 && found != (size_t)n && found != 2 * (size_t)n)
        return fail_list(call, "padding", found, n);
    if (found == 0) list = none;
    for (int i = 0; i < n; i++) {
        before[i] = list[i];
        after[i]  = found == 2 * (size_t)n ? list[n + i] : list[i];
        if (before[i] < 0 || after[i] < 0 || before[i] > INT32_MAX || after[i] > INT32_MAX)
            return ipu__fail(IPU_INVALID, "%s: a padding of %lld and %lld: expected 0 to 2^31 - 1",
                             call->def->name, (long long)before[i], (long long)after[i]);
    }
    return IPU_OK;
}

static ipu_status count_windows(const ipu_kernel_call *call, ipu__pool *p, int d)
{
    int64_t reach = p->dilation[d] * (p->kernel[d] - 1) + 1;
    int64_t room  = p->in[d] + p->before[d] + p->after[d] - reach;
    if (room < 0)
        return ipu__fail(IPU_INVALID,
                         "%s: a window of %lld is larger than %lld with its padding of %lld and %lld",
                         call->def->name, (long long)reach, (long long)p->in[d], (long long)p->before[d],
                         (long long)p->after[d]);
    bool ceil = ipu__op_int(call, "ceil_mode") != 0;
    p->out[d] = (ceil ? ipu__op_ceil_div(room, p->stride[d]) : room / p->stride[d]) + 1;
    if (ceil && (p->out[d] - 1) * p->stride[d] >= p->in[d] + p->before[d]) p->out[d]--;
    for (int64_t i = 0; i < p->out[d]; i++) {
        ipu_interval taps = ipu__pool_taps(p, d, i);
        if (taps.end <= taps.begin)
            return ipu__fail(IPU_INVALID,
                             "%s: window %lld of a dimension of %lld reaches none of it: choose less "
                             "padding",
                             call->def->name, (long long)i, (long long)p->in[d]);
    }
    return IPU_OK;
}

ipu_status ipu__pool_get(const ipu_kernel_call *call, const ipu_shape *x, ipu__pool *p, ipu_shape *out)
{
    static const int64_t ones[3] = {1, 1, 1};
    int                  n       = x->rank - 2;
    if (n < 1 || n > 3)
        return ipu__fail(IPU_INVALID, "%s: %s has rank %d: expected [batch, channels] and 1 to 3 dimensions",
                         call->def->name, ipu__shape_str(x), x->rank);
    *p        = (ipu__pool){.planes          = x->dim[0] * x->dim[1],
                            .n               = n,
                            .in              = {1, 1, 1},
                            .out             = {1, 1, 1},
                            .kernel          = {1, 1, 1},
                            .stride          = {1, 1, 1},
                            .dilation        = {1, 1, 1},
                            .include_padding = ipu__op_int(call, "count_include_pad") != 0};
    int first = 3 - n;
    for (int d = 0; d < n; d++) p->in[first + d] = x->dim[2 + d];
    IPU_TRY(get_list(call, "kernel", n, 1, NULL, p->kernel + first));
    IPU_TRY(get_list(call, "stride", n, 1, p->kernel + first, p->stride + first));
    IPU_TRY(get_list(call, "dilation", n, 1, ones, p->dilation + first));
    IPU_TRY(get_padding(call, n, p->before + first, p->after + first));
    *out = *x;
    for (int d = 0; d < n; d++) {
        IPU_TRY(count_windows(call, p, first + d));
        out->dim[2 + d] = p->out[first + d];
    }
    if (p->in[0] * (double)p->in[1] * (double)p->in[2] > INT32_MAX)
        return ipu__fail(IPU_INVALID, "%s: a plane of %s has more than 2^31 - 1 elements", call->def->name,
                         ipu__shape_str(x));
    return IPU_OK;
}

ipu_interval ipu__pool_taps(const ipu__pool *p, int d, int64_t i)
{
    int64_t start = ipu__pool_at(p, d, i, 0), by = p->dilation[d];
    int64_t begin = start < 0 ? ipu__op_ceil_div(-start, by) : 0;
    int64_t end   = p->in[d] > start ? ipu__op_ceil_div(p->in[d] - start, by) : 0;
    return (ipu_interval){begin, end < p->kernel[d] ? end : p->kernel[d]};
}

int64_t ipu__pool_count(const ipu__pool *p, int d, int64_t i)
{
    if (!p->include_padding) {
        ipu_interval taps = ipu__pool_taps(p, d, i);
        return taps.end - taps.begin;
    }
    int64_t left = p->in[d] + p->after[d] - ipu__pool_at(p, d, i, 0),
            n    = ipu__op_ceil_div(left, p->dilation[d]);
    return n < p->kernel[d] ? n : p->kernel[d];
}

/* ---- rows ---- */

ipu__pool_rows ipu__pool_rows_get(const ipu__pool *p)
{
    ipu__pool_rows r;
    r.width = (p->out[2] - 1) * p->stride[2] + (p->kernel[2] - 1) * p->dilation[2] + 1;
    r.pitch = ipu__op_ceil_div(ipu__op_ceil_div(r.width, p->stride[2]), 16) * 16;
    r.kept  = r.width - p->before[2] < p->in[2] ? r.width - p->before[2] : p->in[2];
    return r;
}

bool ipu__pool_in_float(ipu_type type)
{
    return type == IPU_FLOAT || type == IPU_HALF || type == IPU_BFLOAT16;
}

const float *ipu__pool_load(ipu_type type, const void *from, int64_t at, int64_t n, float *room)
{
    if (type == IPU_FLOAT) return (const float *)from + at;
    if (type == IPU_HALF)
        ipu_half_to_floats((const ipu_half *)from + at, room, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) room[i] = ipu_bfloat16_to_float(((const ipu_bfloat16 *)from)[at + i]);
    return room;
}

void ipu__pool_store(ipu_type type, const float *from, void *to, int64_t at, int64_t n)
{
    if (type == IPU_FLOAT)
        memcpy((float *)to + at, from, (size_t)n * sizeof *from);
    else if (type == IPU_HALF)
        ipu_half_from_floats(from, (ipu_half *)to + at, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) ((ipu_bfloat16 *)to)[at + i] = ipu_bfloat16_from_float(from[i]);
}

/* ---- cost ---- */

static double n_outputs(const ipu__pool *p)
{
    return (double)p->planes * (double)p->out[0] * (double)p->out[1] * (double)p->out[2];
}

static double n_taps(const ipu__pool *p)
{
    return (double)p->kernel[0] * (double)p->kernel[1] * (double)p->kernel[2];
}

double ipu__pool_work(const ipu__pool *p) { return n_outputs(p) * n_taps(p); }

ipu_status ipu__pool_plan(const ipu__pool *p, ipu_type type, const ipu_target *target, ipu_kernel_plan *out)
{
    double vector = type == IPU_HALF ? 4 : 2, n = n_outputs(p);
    *out = (ipu_kernel_plan){0};
    if (n == 0) return IPU_OK;
    ipu__op_loop loop = {29, vector, 3 * n_taps(p)};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_count(n), (int64_t)vector, target, out));
    double stride       = (double)p->stride[0] * (double)p->stride[1] * (double)p->stride[2];
    double taken        = n / (double)out->n_tiles * (stride > n_taps(p) ? n_taps(p) : stride);
    out->bytes_received = out->bytes_sent = ipu__op_count(taken * (double)ipu_type_size(type));
    out->basis =
        "our estimate: a vector operation per tap, started like a PopLibs binary operation; windows fetched "
        "over the exchange (PopLibs: bytes / 4)";
    return IPU_OK;
}

/* ---- functions ---- */

static void emit(ipu_builder *b, const char *op, ipu_value x, const ipu_pool_options *o, ipu_value *out,
                 size_t n_out)
{
    int     n = ipu_value_rank(x) - 2;
    int64_t stride[3], dilation[3], padding[6];
    if (n < 1 || n > 3) n = 0; /* infer says what is wrong */
    for (int d = 0; d < n; d++) {
        stride[d]      = o->stride[d] ? o->stride[d] : o->kernel[d];
        dilation[d]    = o->dilation[d] ? o->dilation[d] : 1;
        padding[d]     = o->padding[d];
        padding[n + d] = o->padding[d] + o->padding_after[d];
    }
    ipu_emit(b, op,
             IPU__WITH(IPU__INTS("kernel", o->kernel, n), IPU__INTS("stride", stride, n),
                       IPU__INTS("padding", padding, 2 * n), IPU__INTS("dilation", dilation, n),
                       IPU_INT_ATTRIBUTE("ceil_mode", o->ceil_mode),
                       IPU_INT_ATTRIBUTE("count_include_pad", !o->exclude_padding)),
             IPU__IN(x), out, n_out);
}

ipu_value ipu_max_pool(ipu_builder *b, ipu_value x, ipu_pool_options options)
{
    ipu_value out;
    emit(b, "max_pool", x, &options, &out, 1);
    return out;
}

ipu_value ipu_max_pool_with_indices(ipu_builder *b, ipu_value x, ipu_pool_options options, ipu_value *indices)
{
    ipu_value out[2];
    emit(b, "max_pool_with_indices", x, &options, out, 2);
    *indices = out[1];
    return out[0];
}

ipu_value ipu_average_pool(ipu_builder *b, ipu_value x, ipu_pool_options options)
{
    ipu_value out;
    emit(b, "average_pool", x, &options, &out, 1);
    return out;
}

/* [batch, channels, ...]: the dimensions to reduce; false: x has none. */
static bool get_plane(ipu_builder *b, const char *caller, ipu_value x, int *axes, int *n)
{
    if (!ipu__builder_has(b, caller, x)) return false;
    *n = ipu_value_rank(x) - 2;
    if (*n < 1) {
        ipu__builder_fail(b, IPU_INVALID, "%s: %s: expected [batch, channels] and further dimensions", caller,
                          ipu__value_str(x));
        return false;
    }
    for (int d = 0; d < *n; d++) axes[d] = 2 + d;
    return true;
}

ipu_value ipu_global_average_pool(ipu_builder *b, ipu_value x)
{
    int axes[IPU_MAX_RANK], n;
    if (!get_plane(b, __func__, x, axes, &n)) return (ipu_value){b, 0};
    return ipu_reduce_mean(b, x, axes, n, true);
}

ipu_value ipu_global_max_pool(ipu_builder *b, ipu_value x)
{
    int axes[IPU_MAX_RANK], n;
    if (!get_plane(b, __func__, x, axes, &n)) return (ipu_value){b, 0};
    return ipu_reduce_max(b, x, axes, n, true);
}

/* A matrix [n, m]: column j averages what window j reaches, floor(j n / m) to ceil((j + 1) n / m). */
static ipu_value adaptive_matrix(ipu_builder *b, ipu_type type, int64_t n, int64_t m)
{
    size_t unit = ipu_type_size(type);
    char  *data = ipu__alloc_zeroed((size_t)(n * m) * unit);
    if (!data) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "ipu_adaptive_average_pool: memory for %lld numbers",
                          (long long)(n * m));
        return (ipu_value){b, 0};
    }
    for (int64_t j = 0; j < m; j++) {
        int64_t begin = j * n / m, end = ipu__op_ceil_div((j + 1) * n, m);
        for (int64_t i = begin; i < end; i++)
            ipu__value_from_double(type, 1 / (double)(end - begin), data + (size_t)(i * m + j) * unit);
    }
    ipu_value out = ipu_constant_data(b, type, IPU_SHAPE(n, m), data);
    ipu__free(data);
    return out;
}

/* Dimension `d` alone. */
static ipu_value adapt(ipu_builder *b, ipu_value x, int d, int64_t m)
{
    int       last  = ipu_value_rank(x) - 1;
    int64_t   n     = ipu_value_dim(x, d);
    ipu_value y     = ipu_swap_axes(b, x, d, last);
    ipu_shape shape = ipu_value_shape(y);
    y               = ipu_reshape(b, y, IPU_SHAPE(n ? ipu_value_n_elements(y) / n : 0, n));
    y               = ipu_matmul(b, y, adaptive_matrix(b, ipu_value_type(x), n, m));
    shape.dim[last] = m;
    return ipu_swap_axes(b, ipu_reshape(b, y, shape), d, last);
}

ipu_value ipu_adaptive_average_pool(ipu_builder *b, ipu_value x, const int64_t *size)
{
    int              axes[IPU_MAX_RANK], n;
    ipu_pool_options options = {0};
    bool             divides = true;
    if (!get_plane(b, __func__, x, axes, &n)) return (ipu_value){b, 0};
    for (int d = 0; d < n; d++) {
        int64_t extent = ipu_value_dim(x, 2 + d);
        if (size[d] < 1 || extent < 1 || size[d] > (int64_t)1 << 20 || extent > (int64_t)1 << 20) {
            ipu__builder_fail(b, IPU_INVALID,
                              "ipu_adaptive_average_pool: %lld from dimension %d of %s: expected 1 to 2^20",
                              (long long)size[d], 2 + d, ipu__value_str(x));
            return (ipu_value){b, 0};
        }
        divides = divides && extent % size[d] == 0;
        if (d < 3) options.kernel[d] = extent / size[d];
    }
    if (divides && n <= 3) return ipu_average_pool(b, x, options);
    for (int d = 0; d < n; d++)
        if (ipu_value_dim(x, 2 + d) != size[d]) x = adapt(b, x, 2 + d, size[d]);
    return x;
}

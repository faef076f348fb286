/* stft, a composition of gather, product and dft; windows and mel weights as constants computed in double. */
#include "ipu/op/signal.h"

#include <math.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "op/builder.h"

enum { X, WINDOW };

/* ---- stft ---- */

static ipu_status stft_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x      = &call->operand[X].shape;
    int64_t          length = ipu__op_int(call, "frame_length"), step = ipu__op_int(call, "frame_step");
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__op_want_rank(call, X, 3, 3));
    if (x->dim[2] != 1 && x->dim[2] != 2)
        return ipu__fail(IPU_INVALID, "stft: the last dimension of \"x\" %s must be 1 (real) or 2 (complex)",
                         ipu__shape_str(x));
    if (length < 1 || step < 1 || length > x->dim[1])
        return ipu__fail(
            IPU_INVALID,
            "stft: frames of %lld, %lld apart, of \"x\" %s: expected 1 or more, and no frame longer "
            "than the signal",
            (long long)length, (long long)step, ipu__shape_str(x));
    if (ipu__kernel_has(call, WINDOW)) {
        IPU_TRY(ipu__op_want_same_type(call, X, WINDOW));
        IPU_TRY(ipu__op_want_shape(call, WINDOW, &IPU_SHAPE(length)));
    }
    int64_t frames = (x->dim[1] - length) / step + 1;
    *out           = (ipu__kernel_value){call->operand[X].type, IPU_SHAPE(x->dim[0], frames, length, 2)};
    if (ipu__op_int(call, "onesided")) out->shape.dim[2] = length / 2 + 1;
    return IPU_OK;
}

/* [frames, length]: frame * step + i. */
static ipu_value frame_indices(ipu_builder *b, int64_t frames, int64_t step, int64_t length)
{
    ipu_value first = ipu_reshape(b, ipu_arange(b, IPU_INT64, frames, 0, (double)step), IPU_SHAPE(frames, 1));
    return ipu_add(b, first, ipu_arange(b, IPU_INT64, length, 0, 1));
}

static void stft_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    int64_t   length = ipu__op_int(call, "frame_length"), step = ipu__op_int(call, "frame_step");
    int64_t   n      = (call->operand[X].shape.dim[1] - length) / step + 1;
    ipu_value frames = ipu_gather(b, in[X], frame_indices(b, n, step, length), 1);
    if (ipu__has(in[WINDOW])) frames = ipu_mul(b, frames, ipu_reshape(b, in[WINDOW], IPU_SHAPE(length, 1)));
    out[0] = ipu_dft(b, frames, 2, (ipu_dft_options){.onesided = ipu__op_int(call, "onesided") != 0});
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__OPTIONAL("window"), IPU__OUTPUT("out")};

static const ipu_op_attribute attributes[] = {
    {.name = "frame_length", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "elements of a frame"},
    {.name = "frame_step", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "from frame to frame"},
    {.name = "onesided", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: only the first n / 2 + 1 frequencies"},
};
static const char *const samples[] = {"float[2,20,1], float[8]; frame_length=8 frame_step=4 onesided=1",
                                      "float[1,11,2]; frame_length=5 frame_step=3",
                                      "float[0,8,1]; frame_length=4 frame_step=4", NULL};

const ipu__op_def ipu__op_stft = {
    .kernel       = {.name = "stft", .operands = operands, .n_operands = 3, .check = ipu__op_check},
    .n_in         = 2,
    .family       = "signal",
    .summary      = "Fourier transforms of frames of a signal",
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = stft_infer,
    .compose      = stft_compose,
    .samples      = samples,
};

ipu_value ipu_stft(ipu_builder *b, ipu_value x, ipu_value window, ipu_stft_options o)
{
    int64_t length = o.frame_length ? o.frame_length : ipu__has(window) ? ipu_value_dim(window, 0) : 0;
    return ipu__emit1(b, "stft",
                      IPU__WITH(IPU_INT_ATTRIBUTE("frame_length", length),
                                IPU_INT_ATTRIBUTE("frame_step", o.frame_step),
                                IPU_INT_ATTRIBUTE("onesided", o.onesided)),
                      IPU__IN(x, window));
}

/* ---- constants ---- */

/* `data` in `type`; data is freed. */
static ipu_value constant_of(ipu_builder *b, ipu_type type, ipu_shape shape, double *data)
{
    ipu_value v = ipu_constant_data(b, IPU_DOUBLE, shape, data);
    ipu__free(data);
    return type == IPU_DOUBLE ? v : ipu_cast(b, v, type);
}

static double *make_doubles(ipu_builder *b, const char *caller, ipu_type type, int64_t n)
{
    if (b->status != IPU_OK) return NULL;
    if ((unsigned)type >= IPU_N_TYPES)
        ipu__builder_fail(b, IPU_INVALID, "%s: there is no type %d", caller, (int)type);
    else if (n < 0 || n > (int64_t)1 << 24)
        ipu__builder_fail(b, IPU_INVALID, "%s: %lld elements: expected 0 to 2^24", caller, (long long)n);
    if (b->status != IPU_OK) return NULL;
    double *data = ipu__alloc_zeroed((size_t)n * sizeof *data);
    if (!data) ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "%s: memory for %lld elements", caller, (long long)n);
    return data;
}

ipu_value ipu_cosine_window(ipu_builder *b, ipu_type type, int64_t n, bool periodic, const double *a, int n_a)
{
    double *data = make_doubles(b, __func__, type, n), length = (double)(periodic ? n : n - 1);
    if (!data) return (ipu_value){b, 0};
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < n_a; k++)
            data[i] += (k % 2 ? -1 : 1) * a[k] * (length > 0 ? cos(2 * M_PI * k * (double)i / length) : 1);
    if (n == 1) data[0] = 1; /* the middle of any window */
    return constant_of(b, type, IPU_SHAPE(n), data);
}

ipu_value ipu_hann_window(ipu_builder *b, ipu_type type, int64_t n, bool periodic)
{
    return ipu_cosine_window(b, type, n, periodic, (double[]){0.5, 0.5}, 2);
}

ipu_value ipu_hamming_window(ipu_builder *b, ipu_type type, int64_t n, bool periodic)
{
    return ipu_cosine_window(b, type, n, periodic, (double[]){0.54, 0.46}, 2);
}

ipu_value ipu_blackman_window(ipu_builder *b, ipu_type type, int64_t n, bool periodic)
{
    return ipu_cosine_window(b, type, n, periodic, (double[]){0.42, 0.5, 0.08}, 3);
}

/* The frequency bin at step `i` of n_mel + 2 that are even on the mel scale. */
static int64_t mel_bin(int64_t i, int64_t n_mel, int64_t dft_length, double sample_rate, double low,
                       double high)
{
    double from = 2595 * log10(1 + low / 700), to = 2595 * log10(1 + high / 700);
    double mel = from + (double)i * ((to - from) / (double)(n_mel + 2));
    double bin = floor((double)(dft_length + 1) * (700 * (pow(10, mel / 2595) - 1)) / sample_rate);
    return bin < 0x1p40 ? (int64_t)bin : (int64_t)1 << 40; /* not a number: beyond all, too */
}

/* Up from `low` to `centre`, down to `high`, in column `i`. */
static void fill_triangle(double *data, int64_t n_mel, int64_t i, int64_t low, int64_t centre, int64_t high)
{
    for (int64_t j = low; j <= centre; j++)
        data[j * n_mel + i] = centre > low ? (double)(j - low) / (double)(centre - low) : 1;
    for (int64_t j = centre; j < high; j++)
        data[j * n_mel + i] = (double)(high - j) / (double)(high - centre);
}

ipu_value ipu_mel_weights(ipu_builder *b, ipu_type type, int64_t n_mel, int64_t dft_length,
                          double sample_rate, double low, double high)
{
    int64_t rows  = dft_length / 2 + 1;
    bool    is_ok = n_mel > 0 && n_mel < 1 << 20 && dft_length > 0 && dft_length < 1 << 30 && sample_rate > 0
              && low >= 0 && high >= low
              && mel_bin(n_mel + 1, n_mel, dft_length, sample_rate, low, high) < rows;
    if (!is_ok && ipu_builder_status(b) == IPU_OK)
        ipu__builder_fail(
            b, IPU_INVALID,
            "ipu_mel_weights: %lld bins of a transform of %lld at %g Hz, from %g to %g Hz: expected "
            "0 <= low <= high, and high below half the sample rate",
            (long long)n_mel, (long long)dft_length, sample_rate, low, high);
    double *data = make_doubles(b, __func__, type, is_ok ? rows * n_mel : 0);
    if (!data) return (ipu_value){b, 0};
    for (int64_t i = 0; i < n_mel; i++)
        fill_triangle(data, n_mel, i, mel_bin(i, n_mel, dft_length, sample_rate, low, high),
                      mel_bin(i + 1, n_mel, dft_length, sample_rate, low, high),
                      mel_bin(i + 2, n_mel, dft_length, sample_rate, low, high));
    return constant_of(b, type, IPU_SHAPE(rows, n_mel), data);
}

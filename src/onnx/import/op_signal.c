/* Signals of ONNX: Fourier transforms, windows, the mel scale. */
#include "ipu/op.h"
#include "onnx/import/import.h"

/* The axis is an attribute before opset 20, an input after it. */
void ipu__onnx_DFT(ipu__node *n)
{
    ipu_value       x    = ipu__in_needed(n, 0);
    ipu_dft_options o    = {.inverse  = ipu__attr_int(n, "inverse", 0) != 0,
                            .onesided = ipu__attr_int(n, "onesided", 0) != 0,
                            .length   = ipu__in_int(n, 1, 0)};
    int64_t         axis = n->version < 20 ? ipu__attr_int(n, "axis", 1) : ipu__in_int(n, 2, -2);
    if (axis < -ipu_value_rank(x) || axis >= ipu_value_rank(x))
        ipu__node_fail(n, IPU_INVALID, "axis %lld is none of %d dimensions", (long long)axis,
                       ipu_value_rank(x));
    if (ipu__import_ok(n->im)) ipu__give(n, 0, ipu_dft(n->b, x, (int)axis, o));
}

/* Of complex signals all frequencies are given: half of them would not say everything. */
void ipu__onnx_STFT(ipu__node *n)
{
    ipu_value        x = ipu__in_needed(n, 0);
    ipu_stft_options o = {.frame_step = ipu__in_int(n, 1, 0), .frame_length = ipu__in_int(n, 3, 0)};
    o.onesided         = ipu__attr_int(n, "onesided", 1) != 0 && ipu_value_dim(x, -1) == 1;
    if (ipu__import_ok(n->im)) ipu__give(n, 0, ipu_stft(n->b, x, ipu__in(n, 2), o));
}

/* ---- constants ---- */

/* A file of a few bytes shall not ask for gigabytes. */
enum { MOST_ELEMENTS = 1 << 24 };

static void window(ipu__node *n, const double *a, int n_a)
{
    int64_t  size        = ipu__in_int(n, 0, 0);
    ipu_type type        = ipu__attr_type(n, "output_datatype", IPU_FLOAT);
    bool     is_periodic = ipu__attr_int(n, "periodic", 1) != 0;
    if (size < 1 || size > MOST_ELEMENTS)
        ipu__node_fail(n, IPU_INVALID, "a window of %lld elements; expected 1 to 2^24", (long long)size);
    if (ipu__import_claim(n, (double)size, type))
        ipu__give(n, 0, ipu_cosine_window(n->b, type, size, is_periodic, a, n_a));
}

void ipu__onnx_HannWindow(ipu__node *n) { window(n, (const double[]){0.5, 0.5}, 2); }
void ipu__onnx_HammingWindow(ipu__node *n) { window(n, (const double[]){25.0 / 46, 21.0 / 46}, 2); }
void ipu__onnx_BlackmanWindow(ipu__node *n) { window(n, (const double[]){0.42, 0.5, 0.08}, 3); }

void ipu__onnx_MelWeightMatrix(ipu__node *n)
{
    int64_t  n_mel = ipu__in_int(n, 0, 0), length = ipu__in_int(n, 1, 0);
    double   rate = ipu__in_double(n, 2, 0), low = ipu__in_double(n, 3, 0), high = ipu__in_double(n, 4, 0);
    ipu_type type = ipu__attr_type(n, "output_datatype", IPU_FLOAT);
    if (n_mel < 1 || length < 1 || n_mel > MOST_ELEMENTS || length > MOST_ELEMENTS
        || n_mel * length > MOST_ELEMENTS)
        ipu__node_fail(n, IPU_INVALID, "%lld bands of %lld frequencies; expected up to 2^24 in all",
                       (long long)n_mel, (long long)length);
    if (ipu__import_claim(n, (double)n_mel * ((double)length / 2 + 1), type))
        ipu__give(n, 0, ipu_mel_weights(n->b, type, n_mel, length, rate, low, high));
}

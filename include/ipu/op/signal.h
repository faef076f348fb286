/* Signals: Fourier transforms, short-time transforms, windows.
 *
 *     ipu_value spectrum = ipu_dft(b, x, 1, (ipu_dft_options){.onesided = true});    [n,400,1] -> [n,201,2]
 *     ipu_value frames   = ipu_stft(b, audio, ipu_hann_window(b, IPU_FLOAT, 400, true),
 *                                   (ipu_stft_options){.frame_step = 160, .onesided = true});
 *
 * The last dimension of a signal is 1 (real) or 2 (real and imaginary part), that of a spectrum is 2.
 */
#ifndef IPU_OP_SIGNAL_H
#define IPU_OP_SIGNAL_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_dft_options {
    bool    inverse;  /* divided by the length */
    bool    onesided; /* only the first n / 2 + 1 frequencies, for real signals; not with inverse */
    int64_t length;   /* first truncate or zero-pad the signal to this; 0 keeps its length */
} ipu_dft_options;

/* Along `axis`, for any length; computed in double. */
ipu_value ipu_dft(ipu_builder *b, ipu_value x, int axis, ipu_dft_options options);

typedef struct ipu_stft_options {
    int64_t frame_step;
    int64_t frame_length; /* 0 means the window's */
    bool    onesided;
} ipu_stft_options;

/* Cuts [n, length, 1 or 2] into frames, multiplies each by `window` (may be null), and transforms them: [n,
 * frames, frequencies, 2]. An incomplete last frame is dropped. */
ipu_value ipu_stft(ipu_builder *b, ipu_value x, ipu_value window, ipu_stft_options options);

/* ---- constants ---- */

/* [n], as in PyTorch. periodic: the first n of a window of n + 1, for spectra. */
ipu_value ipu_hann_window(ipu_builder *b, ipu_type type, int64_t n, bool periodic);
ipu_value ipu_hamming_window(ipu_builder *b, ipu_type type, int64_t n, bool periodic);
ipu_value ipu_blackman_window(ipu_builder *b, ipu_type type, int64_t n, bool periodic);
/* The sum of (-1)^k a[k] cos(2 pi k i / length), length n, or n - 1 if not periodic. */
ipu_value ipu_cosine_window(ipu_builder *b, ipu_type type, int64_t n, bool periodic, const double *a,
                            int n_a);
/* [dft_length / 2 + 1, n_mel]: multiplying spectra by it sums them over triangles evenly spaced on the mel
 * scale, from frequency `low` to `high`, like ONNX's MelWeightMatrix. */
ipu_value ipu_mel_weights(ipu_builder *b, ipu_type type, int64_t n_mel, int64_t dft_length,
                          double sample_rate, double low, double high);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_dft(...) IPU_AT(ipu_dft(__VA_ARGS__))
#define ipu_stft(...) IPU_AT(ipu_stft(__VA_ARGS__))
#define ipu_hann_window(...) IPU_AT(ipu_hann_window(__VA_ARGS__))
#define ipu_hamming_window(...) IPU_AT(ipu_hamming_window(__VA_ARGS__))
#define ipu_blackman_window(...) IPU_AT(ipu_blackman_window(__VA_ARGS__))
#define ipu_cosine_window(...) IPU_AT(ipu_cosine_window(__VA_ARGS__))
#define ipu_mel_weights(...) IPU_AT(ipu_mel_weights(__VA_ARGS__))
#endif
#endif

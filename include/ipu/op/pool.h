/* Pooling over windows of [n, channels, ...], of one to three dimensions.
 *
 *     ipu_value y = ipu_max_pool2d(b, x, 2);
 *     ipu_value z = ipu_average_pool(b, x, (ipu_pool_options){.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
 *
 * The rank of x (3, 4 or 5) determines the number of dimensions. Types are half, bfloat16, float and double; for
 * maxima also int8 and uint8.
 */
#ifndef IPU_OP_POOL_H
#define IPU_OP_POOL_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_pool_options {
    int64_t kernel[3];
    int64_t stride[3];      /* 0 means the kernel's size */
    int64_t padding[3];     /* before, and also after unless has_padding_end; less than the kernel's size */
    int64_t padding_end[3]; /* after; used if has_padding_end */
    bool    has_padding_end;
    int64_t dilation[3];     /* of maxima only; 0 means 1 */
    bool    ceil_mode;       /* include a last, partial window */
    bool    exclude_padding; /* averages: divide by the number of actual elements, not by the window's size */
} ipu_pool_options;

/* The maximum of each window, never padding. The first of equal elements; NaN if there is one. */
ipu_value ipu_max_pool(ipu_builder *b, ipu_value x, ipu_pool_options options);
/* *indices: int32, the position of each maximum in its plane (one n, one channel). */
ipu_value ipu_max_pool_with_indices(ipu_builder *b, ipu_value x, ipu_pool_options options,
                                    ipu_value *indices);
ipu_value ipu_average_pool(ipu_builder *b, ipu_value x, ipu_pool_options options);

/* Adjacent windows of `size` in each dimension. */
ipu_value ipu_max_pool2d(ipu_builder *b, ipu_value x, int64_t size);
ipu_value ipu_average_pool2d(ipu_builder *b, ipu_value x, int64_t size);

/* Over the whole of each plane: [n, channels, 1, ...]. */
ipu_value ipu_global_max_pool(ipu_builder *b, ipu_value x);
ipu_value ipu_global_average_pool(ipu_builder *b, ipu_value x);
/* The p-norm of each window, or of each plane, p > 0: the p-th root of the sum of |x|^p; padding is 0. */
ipu_value ipu_lp_pool(ipu_builder *b, ipu_value x, double p, ipu_pool_options options);
ipu_value ipu_global_lp_pool(ipu_builder *b, ipu_value x, double p);
/* size[i] windows along dimension i, as even as can be: torch's adaptive_avg_pool and adaptive_max_pool. *indices (may
 * be NULL) as of ipu_max_pool_with_indices. */
ipu_value ipu_adaptive_average_pool(ipu_builder *b, ipu_value x, const int64_t *size);
ipu_value ipu_adaptive_max_pool(ipu_builder *b, ipu_value x, const int64_t *size, ipu_value *indices);

/* Gathers elements of planes at the positions given by ipu_max_pool_with_indices (-1 gives 0), and the
 * inverse: adds them up at these positions in planes of size[i] along dimension i. */
ipu_value ipu_pool_gather(ipu_builder *b, ipu_value x, ipu_value indices);
ipu_value ipu_pool_scatter(ipu_builder *b, ipu_value y, ipu_value indices, const int64_t *size);

/* Puts the elements of x at the positions in `indices`, and zeros elsewhere: torch's max_unpool. Planes have
 * size[i] along dimension i. If positions are equal, one of the elements is kept. */
ipu_value ipu_max_unpool(ipu_builder *b, ipu_value x, ipu_value indices, const int64_t *size);
/* The same with positions in the whole result rather than in a plane: ONNX's MaxUnpool. */
ipu_value ipu_max_unpool_flat(ipu_builder *b, ipu_value x, ipu_value indices, const int64_t *size);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_max_pool(...) IPU_AT(ipu_max_pool(__VA_ARGS__))
#define ipu_max_pool_with_indices(...) IPU_AT(ipu_max_pool_with_indices(__VA_ARGS__))
#define ipu_average_pool(...) IPU_AT(ipu_average_pool(__VA_ARGS__))
#define ipu_max_pool2d(...) IPU_AT(ipu_max_pool2d(__VA_ARGS__))
#define ipu_average_pool2d(...) IPU_AT(ipu_average_pool2d(__VA_ARGS__))
#define ipu_global_max_pool(...) IPU_AT(ipu_global_max_pool(__VA_ARGS__))
#define ipu_global_average_pool(...) IPU_AT(ipu_global_average_pool(__VA_ARGS__))
#define ipu_lp_pool(...) IPU_AT(ipu_lp_pool(__VA_ARGS__))
#define ipu_global_lp_pool(...) IPU_AT(ipu_global_lp_pool(__VA_ARGS__))
#define ipu_adaptive_average_pool(...) IPU_AT(ipu_adaptive_average_pool(__VA_ARGS__))
#define ipu_adaptive_max_pool(...) IPU_AT(ipu_adaptive_max_pool(__VA_ARGS__))
#define ipu_pool_gather(...) IPU_AT(ipu_pool_gather(__VA_ARGS__))
#define ipu_pool_scatter(...) IPU_AT(ipu_pool_scatter(__VA_ARGS__))
#define ipu_max_unpool(...) IPU_AT(ipu_max_unpool(__VA_ARGS__))
#define ipu_max_unpool_flat(...) IPU_AT(ipu_max_unpool_flat(__VA_ARGS__))
#endif
#endif

/* Pooling over windows of [n, channels, ...], of one to three dimensions.
 *
 *     ipu_value y = ipu_max_pool2d(b, x, 2);
 *     ipu_value z = ipu_average_pool(b, x, (ipu_pool_options){.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
 *
 * The rank of x (3, 4 or 5) says how many dimensions there are. Types are half, bfloat16, float and double;
 * maxima are also of int8 and uint8.
 */
#ifndef IPU_OP_POOL_H
#define IPU_OP_POOL_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_pool_options {
    int64_t kernel[3];
    int64_t stride[3]; /* 0: the kernel's size */
    int64_t
        padding[3]; /* before, and after as well unless padding_end says otherwise; below the kernel's size */
    int64_t padding_end[3]; /* after; used if has_padding_end */
    bool    has_padding_end;
    int64_t dilation[3];  /* of maxima only. 0: 1 */
    bool    ceil_mode;    /* a last window that is only partly there counts */
    bool exclude_padding; /* of averages: divide by the elements that are there, not by the window's size */
} ipu_pool_options;

/* The largest of each window; padding never is. The first of several that are equal; NaN if there is one. */
ipu_value ipu_max_pool(ipu_builder *b, ipu_value x, ipu_pool_options options);
/* *indices: int32, where in its plane (one n, one channel) each maximum is. */
ipu_value ipu_max_pool_with_indices(ipu_builder *b, ipu_value x, ipu_pool_options options,
                                    ipu_value *indices);
ipu_value ipu_average_pool(ipu_builder *b, ipu_value x, ipu_pool_options options);

/* Windows of `size` in each dimension, next to one another. */
ipu_value ipu_max_pool2d(ipu_builder *b, ipu_value x, int64_t size);
ipu_value ipu_average_pool2d(ipu_builder *b, ipu_value x, int64_t size);

/* Over all of each plane: [n, channels, 1, ...]. */
ipu_value ipu_global_max_pool(ipu_builder *b, ipu_value x);
ipu_value ipu_global_average_pool(ipu_builder *b, ipu_value x);
/* The p-norm of each window, p > 0, of each plane: the p-th root of the sum of |x|^p; padding is 0. */
ipu_value ipu_lp_pool(ipu_builder *b, ipu_value x, double p, ipu_pool_options options);
ipu_value ipu_global_lp_pool(ipu_builder *b, ipu_value x, double p);
/* size[i] windows along dimension i, as even as can be: torch's adaptive_avg_pool and adaptive_max_pool. *indices (may
 * be NULL) as of ipu_max_pool_with_indices. */
ipu_value ipu_adaptive_average_pool(ipu_builder *b, ipu_value x, const int64_t *size);
ipu_value ipu_adaptive_max_pool(ipu_builder *b, ipu_value x, const int64_t *size, ipu_value *indices);

/* Elements of planes by their places, as ipu_max_pool_with_indices gives them (-1: 0), and back: added up at
 * their places in planes of size[i] along dimension i. */
ipu_value ipu_pool_gather(ipu_builder *b, ipu_value x, ipu_value indices);
ipu_value ipu_pool_scatter(ipu_builder *b, ipu_value y, ipu_value indices, const int64_t *size);

/* Zeros but at the places of `indices`, which have those of x: torch's max_unpool. Planes have size[i] along
 * dimension i. Where places are equal, one of the elements stays. */
ipu_value ipu_max_unpool(ipu_builder *b, ipu_value x, ipu_value indices, const int64_t *size);
/* The same with places counted through all of the result, not through a plane of it: ONNX's MaxUnpool. */
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

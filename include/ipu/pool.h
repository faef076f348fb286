/* Pooling over the last one to three dimensions of [batch, channels, ...].
 *
 *     x = ipu_max_pool(b, x, (ipu_pool_options){.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
 *
 * Every window must reach at least one element of x. Semantics are PyTorch's: the first of equal maxima gets the
 * gradient, NaN is larger than any number.
 */
#ifndef IPU_POOL_H
#define IPU_POOL_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_pool_options {
    int64_t kernel[3];        /* as many as x has dimensions after the second */
    int64_t stride[3];        /* 0: the kernel */
    int64_t padding[3];       /* before and behind */
    int64_t padding_after[3]; /* behind it, more than `padding` */
    int64_t dilation[3];      /* 0: 1 */
    bool    ceil_mode;        /* a last window that begins within x or its first padding counts */
    bool    exclude_padding;  /* ipu_average_pool: divide by what lies in x (count_include_pad = false) */
} ipu_pool_options;

ipu_value ipu_max_pool(ipu_builder *b, ipu_value x, ipu_pool_options options);
/* *indices: int32, where each maximum is, counted through the plane of its channel. */
ipu_value ipu_max_pool_with_indices(ipu_builder *b, ipu_value x, ipu_pool_options options,
                                    ipu_value *indices);
ipu_value ipu_average_pool(ipu_builder *b, ipu_value x, ipu_pool_options options);

/* Over the whole of each plane: [batch, channels, 1, ...]. */
ipu_value ipu_global_average_pool(ipu_builder *b, ipu_value x);
ipu_value ipu_global_max_pool(ipu_builder *b, ipu_value x);
/* Averages over windows that make the result `size` (as many numbers as there are dimensions after the second). */
ipu_value ipu_adaptive_average_pool(ipu_builder *b, ipu_value x, const int64_t *size);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_max_pool(...) IPU_AT(ipu_max_pool(__VA_ARGS__))
#define ipu_max_pool_with_indices(...) IPU_AT(ipu_max_pool_with_indices(__VA_ARGS__))
#define ipu_average_pool(...) IPU_AT(ipu_average_pool(__VA_ARGS__))
#define ipu_global_average_pool(...) IPU_AT(ipu_global_average_pool(__VA_ARGS__))
#define ipu_global_max_pool(...) IPU_AT(ipu_global_max_pool(__VA_ARGS__))
#define ipu_adaptive_average_pool(...) IPU_AT(ipu_adaptive_average_pool(__VA_ARGS__))
#endif
#endif

/* Random numbers, a function of a seed, the op and the element: never of threads, tiles or order.
 *
 *     ipu_value seed = ipu_model_seed(m);                      uint32[2]: seed and step
 *     h              = ipu_dropout(b, h, seed, 0.1);
 *
 * Every op has a key of its own, which the builder counts up: two calls with one seed give different numbers, the
 * same program with the same seed and step the same ones. Bits are those of Philox 4x32-10; ipu_emit takes an own
 * `key`, and a `replica` (uint32 scalar) as a second input, by which replicas differ.
 */
#ifndef IPU_RANDOM_H
#define IPU_RANDOM_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From low up to high, in steps of (high - low) / 2^24; rounding may give `high` itself. */
ipu_value ipu_random_uniform(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double low,
                             double high);
/* Box and Muller's method. */
ipu_value ipu_random_normal(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double mean,
                            double deviation);
/* 1 with probability p, else 0. Any type. */
ipu_value ipu_random_bernoulli(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double p);
/* Integers low <= i < high (int32, uint32 or int64; fewer than 2^32 different ones). */
ipu_value ipu_random_integers(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, int64_t low,
                              int64_t high);
/* Elements of x become 0 with probability p, the others x / (1 - p). The gradient makes the same choice again:
 * nothing is kept. */
ipu_value ipu_dropout(ipu_builder *b, ipu_value x, ipu_value seed, double p);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_random_uniform(...) IPU_AT(ipu_random_uniform(__VA_ARGS__))
#define ipu_random_normal(...) IPU_AT(ipu_random_normal(__VA_ARGS__))
#define ipu_random_bernoulli(...) IPU_AT(ipu_random_bernoulli(__VA_ARGS__))
#define ipu_random_integers(...) IPU_AT(ipu_random_integers(__VA_ARGS__))
#define ipu_dropout(...) IPU_AT(ipu_dropout(__VA_ARGS__))
#endif
#endif

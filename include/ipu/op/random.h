/* Random numbers: functions of a seed, regardless of who draws them and in which order.
 *
 *     ipu_value seed  = ipu_model_seed(m);                          uint32[2]: {seed, step}
 *     ipu_value noise = ipu_random_normal(b, seed, IPU_FLOAT, IPU_SHAPE(64, 100), 0, 1);
 *     ipu_value y     = ipu_dropout(b, x, seed, 0.5);
 *
 * An element depends on the seed, the step, the op (each call in a builder draws different numbers) and its
 * index, but not on threads, tiles or the machine. The generator is Philox 4x32-10.
 */
#ifndef IPU_OP_RANDOM_H
#define IPU_OP_RANDOM_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* low <= x < high, in steps of (high - low) / 2^24; may round to `high` in half or bfloat16. */
ipu_value ipu_random_uniform(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double low,
                             double high);
ipu_value ipu_random_normal(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double mean,
                            double standard_deviation);
/* 1 with probability p, else 0; of any type. */
ipu_value ipu_random_bernoulli(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double p);
/* Integers low <= x < high, a range of at most 2^32, of an integer type. */
ipu_value ipu_random_int(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, int64_t low,
                         int64_t high);

/* 1 with the probability given by each element of p, else 0; of any type. */
ipu_value ipu_bernoulli(ipu_builder *b, ipu_value p, ipu_value seed, ipu_type type);
/* `samples` classes for each row of x [n, classes], with probabilities softmax(x); of int32 or int64. */
ipu_value ipu_multinomial(ipu_builder *b, ipu_value x, ipu_value seed, int64_t samples, ipu_type type);

/* 0 with probability p, else x / (1 - p). The gradient draws the same numbers again, so nothing is stored. */
ipu_value ipu_dropout(ipu_builder *b, ipu_value x, ipu_value seed, double p);
/* The same for whole channels (dimension 1), and dropout that preserves mean and variance of outputs of selu, for
 * elements or for channels. */
ipu_value ipu_channel_dropout(ipu_builder *b, ipu_value x, ipu_value seed, double p);
ipu_value ipu_alpha_dropout(ipu_builder *b, ipu_value x, ipu_value seed, double p, bool channels);

/* ---- distributions derived from these ---- (drawn in float, then rounded) */

/* Times between events of `rate` per unit of time. */
ipu_value ipu_random_exponential(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double rate);
ipu_value ipu_random_cauchy(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double median,
                            double sigma);
/* Number of trials, 1 or more, up to the first success, each with probability p. */
ipu_value ipu_random_geometric(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double p);
/* Numbers whose logarithms are normally distributed. */
ipu_value ipu_random_log_normal(ipu_builder *b, ipu_value seed, ipu_type type, ipu_shape shape, double mean,
                                double standard_deviation);
/* 0 to n - 1 in random order, int32. */
ipu_value ipu_random_permutation(ipu_builder *b, ipu_value seed, int64_t n);

/* One number per element, which is the order of a gamma distribution of rate 1, or the rate of a Poisson
 * distribution; for Dirichlet, a point per row of orders. No gradient. */
ipu_value ipu_random_gamma(ipu_builder *b, ipu_value order, ipu_value seed);
ipu_value ipu_random_dirichlet(ipu_builder *b, ipu_value order, ipu_value seed);
ipu_value ipu_random_poisson(ipu_builder *b, ipu_value rate, ipu_value seed);
/* Like ipu_multinomial, int32, but without drawing a class of a row (the last dimension) twice. */
ipu_value ipu_multinomial_distinct(ipu_builder *b, ipu_value x, ipu_value seed, int64_t samples);

/* The seed for iteration `turn` (an integer) of a loop: different in each iteration, and for loops at different nesting
 * `depth`. */
ipu_value ipu_seed_of_turn(ipu_builder *b, ipu_value seed, ipu_value turn, int depth);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_random_uniform(...) IPU_AT(ipu_random_uniform(__VA_ARGS__))
#define ipu_random_normal(...) IPU_AT(ipu_random_normal(__VA_ARGS__))
#define ipu_random_bernoulli(...) IPU_AT(ipu_random_bernoulli(__VA_ARGS__))
#define ipu_random_int(...) IPU_AT(ipu_random_int(__VA_ARGS__))
#define ipu_bernoulli(...) IPU_AT(ipu_bernoulli(__VA_ARGS__))
#define ipu_multinomial(...) IPU_AT(ipu_multinomial(__VA_ARGS__))
#define ipu_dropout(...) IPU_AT(ipu_dropout(__VA_ARGS__))
#define ipu_channel_dropout(...) IPU_AT(ipu_channel_dropout(__VA_ARGS__))
#define ipu_alpha_dropout(...) IPU_AT(ipu_alpha_dropout(__VA_ARGS__))
#define ipu_random_exponential(...) IPU_AT(ipu_random_exponential(__VA_ARGS__))
#define ipu_random_cauchy(...) IPU_AT(ipu_random_cauchy(__VA_ARGS__))
#define ipu_random_geometric(...) IPU_AT(ipu_random_geometric(__VA_ARGS__))
#define ipu_random_log_normal(...) IPU_AT(ipu_random_log_normal(__VA_ARGS__))
#define ipu_random_permutation(...) IPU_AT(ipu_random_permutation(__VA_ARGS__))
#define ipu_random_gamma(...) IPU_AT(ipu_random_gamma(__VA_ARGS__))
#define ipu_random_dirichlet(...) IPU_AT(ipu_random_dirichlet(__VA_ARGS__))
#define ipu_random_poisson(...) IPU_AT(ipu_random_poisson(__VA_ARGS__))
#define ipu_multinomial_distinct(...) IPU_AT(ipu_multinomial_distinct(__VA_ARGS__))
#define ipu_seed_of_turn(...) IPU_AT(ipu_seed_of_turn(__VA_ARGS__))
#endif
#endif

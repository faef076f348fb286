/* What the generic test asks of every op. Each check prints what it finds wrong, one line each, and returns
 * how many that were.
 */
#ifndef IPU_TESTS_OP_CHECK_H
#define IPU_TESTS_OP_CHECK_H

#include "sample.h"

/* The record has all it must have, and says it well. */
int check_record(const ipu__op_def *op);

/* Every implementation against `ref`: 1 to 3 parts in both orders, sentinels, inputs left alone, outputs in
 * the place of inputs where the record allows it; and `ref` against `ref` in double. */
int check_implementations(const sample *s);
/* The same in so many parts, but for double. */
int check_parts(const sample *s, int n_parts);

/* What it composes to gives what the kernel gives. */
int check_composition(const sample *s);

/* Plans and work are positive and grow. */
int check_cost(const ipu__op_def *op);
/* One plan is positive. */
int check_price(const sample *s);

/* `prepare` fails cleanly whichever allocation fails. */
int check_memory(const sample *s);

/* Gradient, and the gradient of that, against finite differences in double. */
int check_gradient(const sample *s);
int check_second_gradient(const sample *s);
/* Whether the gradient is there and can itself be differentiated; for the table of what is supported. */
typedef enum gradient_support {
    GRADIENT_NONE,
    GRADIENT_ZERO,
    GRADIENT_FIRST,
    GRADIENT_SECOND
} gradient_support;
gradient_support find_gradient_support(const sample *s);

/* Print and count one finding; `what` NULL: none. */
int finding(const sample *s, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif

/* Random uses of an op, made from its samples: sizes, types, attributes and optional inputs change at random, towards
 * the edges of kernels, and what the op's `infer` then takes is a use of it. Nothing here knows any op.
 */
#ifndef IPU_TESTS_SWEEP_H
#define IPU_TESTS_SWEEP_H

#include "sample.h"

enum { SWEEP_TEXT = 4096, SWEEP_RELATED = 40 };

/* A use of `op` made from its sample `i`, as text in the grammar of samples; false: what came out is that sample, or
 * too large to be tried. The same numbers from `r` give the same text. */
bool sweep_make(test_random *r, const ipu__op_def *op, size_t i, char text[SWEEP_TEXT]);

/* A number of parts: mostly few, at times far more than there are rows. */
int sweep_parts(test_random *r);

/* Inputs hold values that the op can work on, with narrower bounds if need be; false: none were found. */
bool sweep_bound(sample *s);

/* Uses of other ops that follow from one: its gradient and what it is composed of. Ops that take only sizes that go
 * with each other are reached so. */
typedef struct sweep_list {
    int                n;
    const ipu__op_def *op[SWEEP_RELATED];
    char               text[SWEEP_RELATED][SWEEP_TEXT];
} sweep_list;

/* Gradients take references that go over all pairs of elements: so only of small ones. Statuses: what the builder
 * says. */
bool       sweep_is_small(const sample *s);
ipu_status sweep_relate(const sample *s, sweep_list *out);

/* The sample as text; false: it has no room. */
bool sweep_write(const sample *s, char text[SWEEP_TEXT]);

#endif

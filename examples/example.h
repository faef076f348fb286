/* What the examples share: stop with the library's own sentence when something fails.
 *
 * Everything an example teaches is in the example; here is only what would repeat in each.
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdio.h>
#include <stdlib.h>

#include "ipu/ipu.h"

/* A call that returns a status and must succeed. */
#define CHECK(call)                                                                         \
    do {                                                                                    \
        if ((call) != IPU_OK) {                                                             \
            fprintf(stderr, "%s:%d: %s\n  %s\n", __FILE__, __LINE__, #call, ipu_message()); \
            exit(EXIT_FAILURE);                                                             \
        }                                                                                   \
    } while (0)

/* Something that must be true of the result. */
#define EXPECT(condition)                                                           \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(EXIT_FAILURE);                                                     \
        }                                                                           \
    } while (0)

/* Compile `g` with one program and make an engine of it. The engine keeps the executable alive,
 * so that the caller has one thing to destroy. */
static inline ipu_engine *example_engine(ipu_graph *g, ipu_program p)
{
    ipu_executable *exe;
    ipu_engine     *e;
    CHECK(ipu_executable_compile(g, &p, 1, NULL, &exe));
    CHECK(ipu_engine_create(exe, NULL, &e));
    ipu_executable_release(exe);
    return e;
}

#endif

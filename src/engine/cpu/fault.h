/* Faults in vertex bodies: a body that accesses invalid memory, or divides by zero, is aborted instead of
 * killing the process.
 *
 * requires: aborting the body loses nothing; whatever it has allocated or locked stays so.
 */
#ifndef IPU_ENGINE_CPU_FAULT_H
#define IPU_ENGINE_CPU_FAULT_H

#include <stdbool.h>

#include "ipu/codelet.h"

typedef struct ipu__fault {
    int         signal; /* 0 if there was none */
    const void *address;
} ipu__fault;

/* Between these two calls, which any number of threads may make, faults inside ipu__fault_call are caught;
 * all others go to the handlers installed before. */
void ipu__fault_begin(void);
void ipu__fault_end(void);

/* Returns the result of `compute`; false, with `out` filled in, if it was aborted. */
bool ipu__fault_call(ipu_compute_fn compute, void *vertex, unsigned worker, unsigned n_workers,
                     ipu__fault *out);

#endif

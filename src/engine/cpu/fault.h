/* Faults of vertex bodies: a body that touches memory it must not, or divides by zero, is left instead of ending
 * the process.
 *
 * requires: the body holds nothing that leaving it would lose; what it has allocated or locked stays so.
 */
#ifndef IPU_ENGINE_CPU_FAULT_H
#define IPU_ENGINE_CPU_FAULT_H

#include <stdbool.h>

#include "ipu/codelet.h"

typedef struct ipu__fault {
    int         signal; /* 0: there was none */
    const void *address;
} ipu__fault;

/* Between these two, of any number of threads, faults of ipu__fault_call are caught; all others go to the handlers
 * that were there before. */
void ipu__fault_begin(void);
void ipu__fault_end(void);

/* What `compute` returned; false with `out` filled in if it was left. */
bool ipu__fault_call(ipu_compute_fn compute, void *vertex, unsigned worker, unsigned n_workers,
                     ipu__fault *out);

#endif

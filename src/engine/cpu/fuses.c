/* Which fusions pay off on a CPU, and from which sizes on. All figures were measured. */
#include <string.h>

#include "engine/cpu/cpu.h"

/* With fewer, a convolution is split within images, whereas conv_max_pool can only be split between them. */
enum { LEAST_IMAGES = 16 };

/* Rows of the batch. Fusing saves loading and storing weights and momenta, which does not depend on rows; the sums
 * for the input's gradient, of which each thread has its own, grow with rows (with 100 x 972 weights and two threads:
 * 16 rows 70 to 50 us, 64 rows 197 to 183). */
enum { MOST_ROWS = 64 };

bool ipu__cpu_fuses(const ipu__kernel_call *call)
{
    int64_t rows = call->operand[0].shape.dim[0];
    if (strcmp(call->def->name, "conv_max_pool") == 0) return rows >= LEAST_IMAGES;
    if (strcmp(call->def->name, "linear_sgd") == 0) return rows <= MOST_ROWS;
    return true;
}

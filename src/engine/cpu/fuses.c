/* What a CPU gains by doing at once, and from which sizes on. All figures were measured. */
#include <string.h>

#include "engine/cpu/cpu.h"

/* Below, parts of the convolution are of one image, and conv_max_pool has images only. */
enum { LEAST_IMAGES = 16 };

/* Rows of the batch. What weights and momenta take to come and go is saved, which is the same for all; sums for the
 * input's gradient, of which each thread has some, are more with each row (with 100 x 972 weights and two threads: 16 rows
 * 70 to 50 us, 64 rows 197 to 183). */
enum { MOST_ROWS = 64 };

bool ipu__cpu_fuses(const ipu_kernel_call *call)
{
    int64_t rows = call->operand[0].shape.dim[0];
    if (strcmp(call->def->name, "conv_max_pool") == 0) return rows >= LEAST_IMAGES;
    if (strcmp(call->def->name, "linear_sgd") == 0) return rows <= MOST_ROWS;
    return true;
}

/* Sums of arrays, element by element. */
#include "comm/comm.h"

#define ADD(T)                                                              \
    static void add_##T(const void *a, const void *b, void *to, size_t n)   \
    {                                                                       \
        const T *x = a, *y = b;                                             \
        T       *z                                           = to;          \
        IPU__INDEPENDENT for (size_t i = 0; i < n; i++) z[i] = x[i] + y[i]; \
    }
ADD(float)
ADD(double)

const ipu__comm_loops IPU__SIMD(ipu__comm_loops) = {add_float, add_double};

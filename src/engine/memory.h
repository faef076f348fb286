/* Sharing memory: offsets for things that are needed during intervals of time. */
#ifndef IPU_ENGINE_MEMORY_H
#define IPU_ENGINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IPU__MEMORY_ALIGN = 64 }; /* a cache line, and what kernels expect */

typedef struct ipu__tenant {
    uint32_t id;
    int64_t  first, last; /* moments, both included */
    int64_t  bytes;
    int64_t  offset; /* out: aligned */
} ipu__tenant;

static inline int64_t ipu__memory_round(int64_t bytes)
{
    return (bytes + IPU__MEMORY_ALIGN - 1) / IPU__MEMORY_ALIGN * IPU__MEMORY_ALIGN;
}

/* Sets the offsets so that tenants whose intervals meet do not overlap; sorts them by first moment.
 * `*bytes` is the end of the last. False: out of memory. */
bool ipu__memory_plan(ipu__tenant *tenants, size_t n, int64_t *bytes);

#endif

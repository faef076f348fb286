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

/* The next offset, or `offset` itself, at which something may begin. */
static inline int64_t ipu__memory_align(int64_t offset)
{
    return (offset + IPU__MEMORY_ALIGN - 1) / IPU__MEMORY_ALIGN * IPU__MEMORY_ALIGN;
}

/* Room for something of this size.
 *
 * Large things get one to two pages and a third of padding, so that neighbours of equal size begin neither
 * at the same offset in a page nor in the same sets of a cache: a loop over three arrays of 256 MiB takes half
 * the time or less (`make bench`, "arrays out of step / in step"). */
enum {
    IPU__MEMORY_LARGE   = 256 << 10,
    IPU__MEMORY_PAGE    = 4096,
    IPU__MEMORY_STAGGER = IPU__MEMORY_PAGE + 21 * IPU__MEMORY_ALIGN,
};

static inline int64_t ipu__memory_round(int64_t bytes)
{
    if (bytes < IPU__MEMORY_LARGE) return ipu__memory_align(bytes);
    return (bytes + IPU__MEMORY_PAGE - 1) / IPU__MEMORY_PAGE * IPU__MEMORY_PAGE + IPU__MEMORY_STAGGER;
}

/* Sets the offsets so that tenants whose intervals meet do not overlap; sorts them by first moment. Of
 * large plans, what is beyond the most that is needed at one moment is, for networks, next to nothing; those of 256 KiB
 * and more of which all tenants side by side take 3 MiB at most are not shared.
 * `*bytes` is the end of the last. False: out of memory. */
bool ipu__memory_plan(ipu__tenant *tenants, size_t n, int64_t *bytes);

#endif

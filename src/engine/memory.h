/* Sharing memory: offsets for things needed during intervals of time. */
#ifndef IPU_ENGINE_MEMORY_H
#define IPU_ENGINE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IPU__MEMORY_ALIGN = 64 }; /* a cache line, and what kernels expect */

typedef struct ipu__tenant {
    uint32_t id;
    int64_t  first, last; /* moments, inclusive */
    int64_t  bytes;
    int64_t  offset; /* result: aligned */
} ipu__tenant;

/* The lowest aligned offset from `offset` on. */
static inline int64_t ipu__memory_align(int64_t offset)
{
    return (offset + IPU__MEMORY_ALIGN - 1) / IPU__MEMORY_ALIGN * IPU__MEMORY_ALIGN;
}

/* How far apart an engine wants neighbours to be. */
typedef struct ipu__memory_spacing {
    int64_t large;         /* from this size on, things take whole pages */
    int64_t page, padding; /* plus this padding, a multiple of the alignment */
    /* Plans are not shared if all tenants side by side take at most most_spread, and at least least_spread
     * when shared. 0: all are shared. */
    int64_t most_spread, least_spread;
} ipu__memory_spacing;

/* Space taken by something of this size; `spacing` NULL for alignment only. */
static inline int64_t ipu__memory_room(const ipu__memory_spacing *spacing, int64_t bytes)
{
    if (!spacing || bytes < spacing->large) return ipu__memory_align(bytes);
    return (bytes + spacing->page - 1) / spacing->page * spacing->page + spacing->padding;
}

/* Sets the offsets so that tenants with overlapping intervals do not overlap in memory; sorts them by first
 * moment. For the large plans of networks, the excess over the peak need is next to nothing. `*bytes` is
 * the end of the last. Returns false on allocation failure. */
bool ipu__memory_plan(ipu__tenant *tenants, size_t n, const ipu__memory_spacing *spacing, int64_t *bytes);

#endif

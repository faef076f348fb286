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

/* How far apart an engine wants what lies side by side. */
typedef struct ipu__memory_spacing {
    int64_t large;         /* from so many bytes on, things take whole pages */
    int64_t page, padding; /* and so much more, which is a multiple of the alignment */
    /* Plans of which all tenants side by side take no more than this are not shared, if they take so much shared. 0: all are. */
    int64_t most_spread, least_spread;
} ipu__memory_spacing;

/* Room for something of this size; `spacing` NULL: no more than the alignment asks for. */
static inline int64_t ipu__memory_room(const ipu__memory_spacing *spacing, int64_t bytes)
{
    if (!spacing || bytes < spacing->large) return ipu__memory_align(bytes);
    return (bytes + spacing->page - 1) / spacing->page * spacing->page + spacing->padding;
}

/* Sets the offsets so that tenants whose intervals meet do not overlap; sorts them by first moment. Of
 * large plans, what is beyond the most that is needed at one moment is, for networks, next to nothing.
 * `*bytes` is the end of the last. False: out of memory. */
bool ipu__memory_plan(ipu__tenant *tenants, size_t n, const ipu__memory_spacing *spacing, int64_t *bytes);

#endif

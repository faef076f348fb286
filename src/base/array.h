/* Growing arrays of any type.
 *
 *     IPU__ARRAY(int) list = {0};
 *     if (!ipu__push(&list, 3)) return ipu__fail_memory();
 *     ipu__array_fini(&list);
 */
#ifndef IPU_BASE_ARRAY_H
#define IPU_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/alloc.h"

#define IPU__ARRAY(T)       \
    struct {                \
        T     *at;          \
        size_t n, capacity; \
    }

/* Make room for `extra` more elements. Returns false on allocation failure, leaving the array unchanged. */
bool ipu__array_grow(void **at, size_t *capacity, size_t n, size_t extra, size_t element_bytes);

#define ipu__reserve(a, extra)                 \
    ((a)->capacity - (a)->n >= (size_t)(extra) \
     || ipu__array_grow((void **)&(a)->at, &(a)->capacity, (a)->n, (extra), sizeof *(a)->at))

#define ipu__push(a, ...) (ipu__reserve(a, 1) && ((a)->at[(a)->n++] = (__VA_ARGS__), true))

#define ipu__array_fini(a) (ipu__free((a)->at), (a)->at = NULL, (a)->n = (a)->capacity = 0)

#endif

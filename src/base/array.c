/* Grows by half, so that realloc can reuse freed space. */
#include "base/array.h"

#include <stdint.h>

bool ipu__array_grow(void **at, size_t *capacity, size_t n, size_t extra, size_t element_bytes)
{
    if (extra > SIZE_MAX / 4 / element_bytes || n > SIZE_MAX / 4 / element_bytes) return false;
    size_t want = *capacity + *capacity / 2 + 8;
    if (want < n + extra) want = n + extra;
    void *grown = ipu__realloc(*at, *capacity * element_bytes, want * element_bytes);
    if (!grown) return false;
    *at       = grown;
    *capacity = want;
    return true;
}

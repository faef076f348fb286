/* A 128-bit hash of bytes (FNV-1a): detects damage and mix-ups, not forgery. */
#ifndef IPU_BASE_HASH_H
#define IPU_BASE_HASH_H

#include <stddef.h>

typedef struct ipu__hash128 {
    unsigned char bytes[16]; /* most significant first */
} ipu__hash128;

enum { IPU__HASH_TEXT = 33 }; /* 32 digits and the terminating 0 */

ipu__hash128 ipu__hash_bytes(const void *data, size_t bytes);
/* Continues a hash made by ipu__hash_bytes: the result is that of both byte strings concatenated. */
ipu__hash128 ipu__hash_more(const ipu__hash128 *before, const void *data, size_t bytes);
/* A different hash, many times as fast for megabytes. */
ipu__hash128 ipu__hash_bulk(const void *data, size_t bytes);
void         ipu__hash_print(const ipu__hash128 *hash, char out[IPU__HASH_TEXT]);

#endif

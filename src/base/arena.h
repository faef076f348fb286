/* Arenas: memory freed all at once, never piece by piece. */
#ifndef IPU_BASE_ARENA_H
#define IPU_BASE_ARENA_H

#include <stddef.h>

typedef struct ipu__arena_block ipu__arena_block;

typedef struct ipu__arena { /* all zero: empty */
    ipu__arena_block *block;
    size_t            used;
} ipu__arena;

/* Aligned to 16 bytes, not zeroed. NULL on allocation failure. */
void *ipu__arena_alloc(ipu__arena *arena, size_t bytes);
void *ipu__arena_copy(ipu__arena *arena, const void *data, size_t bytes);
char *ipu__arena_strdup(ipu__arena *arena, const char *text);
void  ipu__arena_fini(ipu__arena *arena);

#endif

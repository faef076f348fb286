/* The only way to the heap, with a hook that lets tests count allocations and make them fail. */
#ifndef IPU_BASE_ALLOC_H
#define IPU_BASE_ALLOC_H

#include <stddef.h>

/* Same shape as Lua's: new_bytes 0 frees, ptr NULL allocates. A NULL result refuses. */
typedef void *(*ipu__alloc_fn)(void *user, void *ptr, size_t old_bytes, size_t new_bytes);

/* NULL restores the C library's. Not while anything allocated through another one is live. */
void ipu__alloc_set(ipu__alloc_fn fn, void *user);

/* Sizes of 0 count as 1 byte; `old_bytes` is only a hint for the hook. */
void *ipu__alloc(size_t bytes);
void *ipu__alloc_zeroed(size_t bytes);
void *ipu__realloc(void *ptr, size_t old_bytes, size_t new_bytes);
void  ipu__free(void *ptr);
char *ipu__strdup(const char *text);
/* Returns freed memory to the system where the C library can. For use after freeing a lot: it scans the
 * whole heap. */
void ipu__alloc_trim(void);

/* Announces that all of this memory will be used soon, so that it may get huge pages: faulting in many small ones
 * takes longer than copying their contents. Does nothing below a few MiB. */
void ipu__alloc_advise(void *ptr, size_t bytes);

/* Memory for tensors: zeroed, aligned to 64 bytes, in huge pages where they help. Asks the hook first. */
void *ipu__alloc_pages(size_t bytes);
void  ipu__free_pages(void *ptr, size_t bytes);

#endif

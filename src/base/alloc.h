/* The one door to the heap, with a hook by which tests count allocations and make them fail. */
#ifndef IPU_BASE_ALLOC_H
#define IPU_BASE_ALLOC_H

#include <stddef.h>

/* Lua's shape: new_bytes 0 frees, ptr NULL allocates. NULL result: refused. */
typedef void *(*ipu__alloc_fn)(void *user, void *ptr, size_t old_bytes, size_t new_bytes);

/* NULL: the C library's. Not while anything is allocated through another one. */
void ipu__alloc_set(ipu__alloc_fn fn, void *user);

/* Sizes of 0 are served as 1 byte; `old_bytes` is a hint for the hook. */
void *ipu__alloc(size_t bytes);
void *ipu__alloc_zeroed(size_t bytes);
void *ipu__realloc(void *ptr, size_t old_bytes, size_t new_bytes);
void  ipu__free(void *ptr);
char *ipu__strdup(const char *text);
/* What was freed goes back to the system, where the C library can do that. For when much was: it looks at all of the heap. */
void ipu__alloc_trim(void);

/* Says that all of this memory will be used soon, so that it may come in huge pages: many small ones take longer than
 * what is copied to them. Does nothing for less than some MiB. */
void ipu__alloc_advise(void *ptr, size_t bytes);

/* Memory for tensors: zeroed, aligned to 64 bytes, huge pages where they help. Passes the hook first. */
void *ipu__alloc_pages(size_t bytes);
void  ipu__free_pages(void *ptr, size_t bytes);

#endif

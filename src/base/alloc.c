/* The allocator hook and page-sized memory. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "ipu/tensor.h"

static void *libc_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, new_bytes);
}

static ipu__alloc_fn hook      = libc_alloc;
static void         *hook_user = NULL;

void ipu__alloc_set(ipu__alloc_fn fn, void *user)
{
    hook      = fn ? fn : libc_alloc;
    hook_user = user;
}

void *ipu__realloc(void *ptr, size_t old_bytes, size_t new_bytes)
{
    return hook(hook_user, ptr, old_bytes, new_bytes ? new_bytes : 1);
}

void *ipu__alloc(size_t bytes) { return ipu__realloc(NULL, 0, bytes); }

/* For large sizes, the C library's zeroed memory is untouched pages, which cost nothing until used. */
void *ipu__alloc_zeroed(size_t bytes)
{
    if (hook == libc_alloc) return calloc(bytes ? bytes : 1, 1);
    void *p = ipu__alloc(bytes);
    if (p) memset(p, 0, bytes);
    return p;
}

void ipu__free(void *ptr)
{
    if (ptr) hook(hook_user, ptr, 0, 0);
}

void ipu_free(void *p) { ipu__free(p); }

char *ipu__strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char  *copy  = ipu__alloc(bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

void ipu__alloc_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

static size_t mapped_bytes(size_t bytes) { return (bytes / PAGE + 1) * PAGE; }

/* Starts at a huge page boundary, so that all of it can use huge pages. */
static void *map_aligned(size_t bytes)
{
    char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return MAP_FAILED;
    size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (before) munmap(p, before);
    if (before < HUGE_PAGE) munmap(p + before + bytes, HUGE_PAGE - before);
    return p + before;
}

void *ipu__alloc_pages(size_t bytes)
{
    /* mmap bypasses the hook: allocate a token byte so that tests can refuse this too. */
    void *token = ipu__alloc(1);
    if (!token) return NULL;
    ipu__free(token);
    if (bytes > (size_t)1 << 48) return NULL;
    size_t mapped = mapped_bytes(bytes);
    if (mapped < HUGE_PAGE) {
        void *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return p == MAP_FAILED ? NULL : p;
    }
    void *p = map_aligned(mapped);
    if (p == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    madvise(p, mapped, MADV_HUGEPAGE);
#endif
    return p;
}

void ipu__alloc_advise(void *ptr, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    size_t before = (HUGE_PAGE - (uintptr_t)ptr % HUGE_PAGE) % HUGE_PAGE;
    if (bytes < before + HUGE_PAGE) return;
    madvise((char *)ptr + before, (bytes - before) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#else
    (void)ptr, (void)bytes;
#endif
}

void ipu__free_pages(void *ptr, size_t bytes)
{
    if (ptr) munmap(ptr, mapped_bytes(bytes));
}

/* Bump allocation over blocks that double up to 1 MiB. */
#include "base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

struct ipu__arena_block {
    ipu__arena_block *next;
    size_t            bytes; /* of data */
};

enum { ALIGN = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

static_assert(sizeof(ipu__arena_block) % ALIGN == 0, "data after a block header is aligned");

static ipu__arena_block *add_block(ipu__arena *arena, size_t bytes)
{
    ipu__arena_block *block = ipu__alloc(sizeof *block + bytes);
    if (!block) return NULL;
    ipu__alloc_advise(block, bytes);
    block->bytes = bytes;
    block->next  = arena->block;
    arena->block = block;
    arena->used  = 0;
    return block;
}

void *ipu__arena_alloc(ipu__arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (!arena->block || arena->block->bytes - arena->used < bytes) {
        size_t want = arena->block ? arena->block->bytes * 2 : FIRST_BLOCK;
        if (want > LARGEST_BLOCK) want = LARGEST_BLOCK;
        if (want < bytes) want = bytes;
        if (!add_block(arena, want)) return NULL;
    }
    void *p = (char *)(arena->block + 1) + arena->used;
    arena->used += bytes;
    return p;
}

void *ipu__arena_copy(ipu__arena *arena, const void *data, size_t bytes)
{
    void *p = ipu__arena_alloc(arena, bytes);
    if (p && bytes) memcpy(p, data, bytes);
    return p;
}

char *ipu__arena_strdup(ipu__arena *arena, const char *text)
{
    return ipu__arena_copy(arena, text, strlen(text) + 1);
}

void ipu__arena_fini(ipu__arena *arena)
{
    for (ipu__arena_block *block = arena->block; block;) {
        ipu__arena_block *next = block->next;
        ipu__free(block);
        block = next;
    }
    *arena = (ipu__arena){0};
}

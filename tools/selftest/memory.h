/* Patterns for the memory of tiles, and the vertices that write and check them. */
#ifndef TOOLS_SELFTEST_MEMORY_H
#define TOOLS_SELFTEST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "ipu/codelet.h"

typedef enum memory_kind {
    MEMORY_FIXED,   /* every word is `value` */
    MEMORY_ADDRESS, /* a word holds its tile (upper half) and address */
    MEMORY_RANDOM,  /* derived from `value`, the tile and the address */
} memory_kind;

typedef struct memory_pattern {
    const char *name; /* "0x55" */
    uint64_t    kind, value;
} memory_pattern;

enum { MEMORY_PATTERNS = 6, MEMORY_FINDINGS = 4 };

/* The last two find most of what all of them do, hence --quick. */
extern const memory_pattern memory_patterns[MEMORY_PATTERNS];

/* What word `i` of a tile's memory should hold. */
uint64_t memory_word(const memory_pattern *p, uint64_t tile, uint64_t i);

void memory_fill(const memory_pattern *p, uint64_t tile, uint64_t *words, size_t n);
/* `found`: the number of wrong words, the first one's index, what it should hold, what it holds. */
void memory_check(const memory_pattern *p, uint64_t tile, const uint64_t *words, size_t n,
                  uint64_t found[MEMORY_FINDINGS]);

/* The same as codelets. Fields: in vector `pattern` (kind, value), state `tile`, vector `memory`; the second
 * also has out vector `found`. */
extern const ipu_codelet SelftestFill, SelftestCheck;

#endif

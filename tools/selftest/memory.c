/* Loops over a tile's memory, one per kind of pattern, so that each is short and runs at memory speed. */
#include "selftest/memory.h"

#include "selftest/data.h"

const memory_pattern memory_patterns[MEMORY_PATTERNS] = {
    {"0x00", MEMORY_FIXED, 0},
    {"0xff", MEMORY_FIXED, UINT64_MAX},
    {"0x55", MEMORY_FIXED, UINT64_C(0x5555555555555555)},
    {"0xaa", MEMORY_FIXED, UINT64_C(0xaaaaaaaaaaaaaaaa)},
    {"address", MEMORY_ADDRESS, 0},
    {"random", MEMORY_RANDOM, UINT64_C(0x6f70656e697075)},
};

static inline uint64_t address_word(uint64_t tile, uint64_t i) { return tile << 32 | i * sizeof(uint64_t); }

static inline uint64_t random_word(uint64_t value, uint64_t tile, uint64_t i)
{
    return selftest_random(value, tile << 32 | i);
}

uint64_t memory_word(const memory_pattern *p, uint64_t tile, uint64_t i)
{
    if (p->kind == MEMORY_FIXED) return p->value;
    return p->kind == MEMORY_ADDRESS ? address_word(tile, i) : random_word(p->value, tile, i);
}

void memory_fill(const memory_pattern *p, uint64_t tile, uint64_t *words, size_t n)
{
    if (p->kind == MEMORY_FIXED)
        for (size_t i = 0; i < n; i++) words[i] = p->value;
    else if (p->kind == MEMORY_ADDRESS)
        for (size_t i = 0; i < n; i++) words[i] = address_word(tile, i);
    else
        for (size_t i = 0; i < n; i++) words[i] = random_word(p->value, tile, i);
}

/* All bits that differ in any word. */
static uint64_t difference(const memory_pattern *p, uint64_t tile, const uint64_t *words, size_t n)
{
    uint64_t bits = 0;
    if (p->kind == MEMORY_FIXED)
        for (size_t i = 0; i < n; i++) bits |= words[i] ^ p->value;
    else if (p->kind == MEMORY_ADDRESS)
        for (size_t i = 0; i < n; i++) bits |= words[i] ^ address_word(tile, i);
    else
        for (size_t i = 0; i < n; i++) bits |= words[i] ^ random_word(p->value, tile, i);
    return bits;
}

void memory_check(const memory_pattern *p, uint64_t tile, const uint64_t *words, size_t n,
                  uint64_t found[MEMORY_FINDINGS])
{
    for (int k = 0; k < MEMORY_FINDINGS; k++) found[k] = 0;
    if (!difference(p, tile, words, n)) return;
    for (size_t i = 0; i < n; i++) {
        uint64_t expected = memory_word(p, tile, i);
        if (words[i] == expected || found[0]++) continue;
        found[1] = i;
        found[2] = expected;
        found[3] = words[i];
    }
}

#define FILL(F)                     \
    F(IN_VECTOR, uint64_t, pattern) \
    F(STATE, uint64_t, tile)        \
    F(OUT_VECTOR, uint64_t, memory)
/* cppcheck-suppress internalAstError; it cannot parse the macro */
IPU_VERTEX(SelftestFill, FILL)
{
    memory_pattern p = {.kind = v->pattern.data[0], .value = v->pattern.data[1]};
    memory_fill(&p, v->tile, v->memory.data, v->memory.size);
    return true;
}

#define CHECK(F)                    \
    F(IN_VECTOR, uint64_t, pattern) \
    F(STATE, uint64_t, tile)        \
    F(IN_VECTOR, uint64_t, memory)  \
    F(OUT_VECTOR, uint64_t, found)
IPU_VERTEX(SelftestCheck, CHECK)
{
    memory_pattern p = {.kind = v->pattern.data[0], .value = v->pattern.data[1]};
    memory_check(&p, v->tile, v->memory.data, v->memory.size, v->found.data);
    return true;
}

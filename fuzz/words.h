/* Mutation of texts word by word: a word of the text or of a list is inserted, taken out or put in another's place. */
#ifndef FUZZ_WORDS_H
#define FUZZ_WORDS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(unsigned char *data, size_t bytes, size_t max_bytes);
size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t bytes, size_t max_bytes, unsigned seed);

static bool in_word(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')
        || (c && strchr("_./~-", c));
}

typedef struct span {
    size_t at, n;
} span;

/* A random word or single character of the text, or a few of them. */
static span pick(const unsigned char *data, size_t bytes, unsigned *seed)
{
    size_t at = (size_t)rand_r(seed) % bytes, end = at + 1;
    while (at > 0 && in_word(data[at]) && in_word(data[at - 1])) at--;
    for (int words = rand_r(seed) % 8 ? 1 : 12; words > 0 && end < bytes; words--)
        for (end += words > 1; end < bytes && in_word(data[end - 1]) && in_word(data[end]);) end++;
    return (span){at, (end < bytes ? end : bytes) - at};
}

static size_t mutate_words(unsigned char *data, size_t bytes, size_t max_bytes, unsigned seed,
                           const char *const *words, size_t n_words)
{
    if (bytes == 0 || rand_r(&seed) % 3 == 0) return LLVMFuzzerMutate(data, bytes, max_bytes);
    unsigned char taken[256];
    const char   *word = words[(size_t)rand_r(&seed) % n_words];
    span          from = pick(data, bytes, &seed), to = pick(data, bytes, &seed);
    size_t        n = strlen(word);
    memcpy(taken, word, n);
    if (rand_r(&seed) % 2) { /* a part of the text itself */
        n = from.n < sizeof taken ? from.n : sizeof taken;
        memcpy(taken, data + from.at, n);
    }
    switch (rand_r(&seed) % 4) {
    case 0: to.n = 0; break; /* insert */
    case 1: n = 0; break;    /* delete */
    default: break;          /* replace */
    }
    if (bytes - to.n + n > max_bytes) return LLVMFuzzerMutate(data, bytes, max_bytes);
    memmove(data + to.at + n, data + to.at + to.n, bytes - to.at - to.n);
    memcpy(data + to.at, taken, n);
    return bytes - to.n + n;
}

#endif

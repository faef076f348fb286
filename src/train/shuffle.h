/* Shuffling: the samples of an epoch in an order that depends on the seed and the epoch only, drawn as it is
 * asked for: a batch costs its own samples, not the epoch's. */
#ifndef IPU_TRAIN_SHUFFLE_H
#define IPU_TRAIN_SHUFFLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct ipu__shuffle { /* all zero: empty */
    int64_t  n, done;
    uint64_t seed;
    int64_t  epoch;
    /* A permutation of which the first `done` places are settled; 4 bytes each where that is enough. */
    uint32_t *narrow;
    int64_t  *wide;
} ipu__shuffle;

/* Of samples 0 to n - 1. An epoch must begin before the first is drawn. */
ipu_status ipu__shuffle_create(int64_t n, uint64_t seed, ipu__shuffle *out);
void       ipu__shuffle_free(ipu__shuffle *s);

void ipu__shuffle_begin(ipu__shuffle *s, int64_t epoch);
/* The next sample of the epoch. At most n of them. */
int64_t ipu__shuffle_next(ipu__shuffle *s);

#endif

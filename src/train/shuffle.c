/* Fisher and Yates' shuffle from the front: place i is settled by one random number, that of counter
 * (i, epoch) under the seed as key. */
#include "train/shuffle.h"

#include "base/alloc.h"
#include "base/philox.h"

__extension__ typedef unsigned __int128 uint128;

ipu_status ipu__shuffle_create(int64_t n, uint64_t seed, ipu__shuffle *out)
{
    *out       = (ipu__shuffle){.n = n, .seed = seed};
    bool is_ok = false;
    if (n <= UINT32_MAX)
        is_ok = (out->narrow = ipu__alloc((size_t)n * sizeof *out->narrow)) != NULL;
    else if (n <= PTRDIFF_MAX / (int64_t)sizeof *out->wide)
        is_ok = (out->wide = ipu__alloc((size_t)n * sizeof *out->wide)) != NULL;
    return is_ok ? IPU_OK : ipu__fail_memory();
}

void ipu__shuffle_free(ipu__shuffle *s)
{
    ipu__free(s->narrow);
    ipu__free(s->wide);
    *s = (ipu__shuffle){0};
}

void ipu__shuffle_begin(ipu__shuffle *s, int64_t epoch)
{
    s->epoch = epoch;
    s->done  = 0;
    if (s->narrow)
        for (uint32_t i = 0; i < (uint32_t)s->n; i++) s->narrow[i] = i;
    else
        for (int64_t i = 0; i < s->n; i++) s->wide[i] = i;
}

/* 0 <= result < n. Of n up to 2^40 the likeliest is ahead by less than 2^-24 of its share: not measurable. */
static uint64_t random_below(const ipu__shuffle *s, uint64_t n)
{
    uint64_t i = (uint64_t)s->done, epoch = (uint64_t)s->epoch;
    uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)}, bits[4];
    uint32_t at[4]  = {(uint32_t)i, (uint32_t)(i >> 32), (uint32_t)epoch, (uint32_t)(epoch >> 32)};
    ipu__philox(key, at, bits);
    uint64_t wide = (uint64_t)bits[1] << 32 | bits[0];
    return (uint64_t)((uint128)wide * n >> 64);
}

int64_t ipu__shuffle_next(ipu__shuffle *s)
{
    IPU__ASSERT(s->done < s->n);
    int64_t to = s->done, from = to + (int64_t)random_below(s, (uint64_t)(s->n - to)), drawn;
    s->done++;
    if (s->narrow) {
        drawn           = s->narrow[from];
        s->narrow[from] = s->narrow[to];
        s->narrow[to]   = (uint32_t)drawn;
    } else {
        drawn         = s->wide[from];
        s->wide[from] = s->wide[to];
        s->wide[to]   = drawn;
    }
    return drawn;
}

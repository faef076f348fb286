/* FNV-1a in 128 bits: byte by byte, or for large inputs eight bytes at a time in each of four lanes. */
#include "base/hash.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

__extension__ typedef unsigned __int128 uint128;

/* Offset basis and prime: "The FNV Non-Cryptographic Hash Algorithm", Fowler, Noll, Vo, Eastlake. */
static const uint128 prime = ((uint128)1 << 88) + 0x13b;
static const uint128 basis = ((uint128)0x6c62272e07bb0142 << 64) | 0x62b821756295c58d;

static ipu__hash128 to_bytes(uint128 h)
{
    ipu__hash128 hash;
    for (int i = 0; i < 16; i++) hash.bytes[i] = (unsigned char)(h >> (120 - 8 * i));
    return hash;
}

static uint128 add_bytes(uint128 h, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) h = (h ^ at[i]) * prime;
    return h;
}

ipu__hash128 ipu__hash_bytes(const void *data, size_t bytes)
{
    return to_bytes(add_bytes(basis, data, bytes));
}

ipu__hash128 ipu__hash_more(const ipu__hash128 *before, const void *data, size_t bytes)
{
    uint128 h = 0;
    for (int i = 0; i < 16; i++) h = h << 8 | before->bytes[i];
    return to_bytes(add_bytes(h, data, bytes));
}

/* Four lanes, so that products need not wait for one another. */
ipu__hash128 ipu__hash_bulk(const void *data, size_t bytes)
{
    enum { LANES = 4, WORD = sizeof(uint64_t), BLOCK = LANES * WORD };
    const char    *at          = data;
    const size_t   n_blocks    = bytes / BLOCK;
    const uint64_t all         = bytes;
    uint128        h           = basis;
    uint128        lane[LANES] = {basis, basis, basis, basis};
    for (size_t i = 0; i < n_blocks; i++, at += BLOCK) {
        uint64_t word[LANES];
        memcpy(word, at, BLOCK);
        for (int k = 0; k < LANES; k++) lane[k] = (lane[k] ^ word[k]) * prime;
    }
    for (int k = 0; k < LANES; k++) {
        ipu__hash128 sum = to_bytes(lane[k]);
        h                = add_bytes(h, sum.bytes, sizeof sum.bytes);
    }
    h = add_bytes(h, at, bytes % BLOCK);
    return to_bytes(add_bytes(h, &all, sizeof all));
}

void ipu__hash_print(const ipu__hash128 *hash, char out[IPU__HASH_TEXT])
{
    for (int i = 0; i < 16; i++) snprintf(out + 2 * i, 3, "%02x", hash->bytes[i]);
}

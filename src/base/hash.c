/* FNV-1a in 128 bits, a byte at a time. */
#include "base/hash.h"

#include <stdio.h>

__extension__ typedef unsigned __int128 uint128;

ipu__hash128 ipu__hash_bytes(const void *data, size_t bytes)
{
    /* Offset basis and prime: "The FNV Non-Cryptographic Hash Algorithm", Fowler, Noll, Vo, Eastlake. */
    const uint128        prime = ((uint128)1 << 88) + 0x13b;
    uint128              h     = ((uint128)0x6c62272e07bb0142 << 64) | 0x62b821756295c58d;
    const unsigned char *at    = data;
    for (size_t i = 0; i < bytes; i++) h = (h ^ at[i]) * prime;
    ipu__hash128 hash;
    for (int i = 0; i < 16; i++) hash.bytes[i] = (unsigned char)(h >> (120 - 8 * i));
    return hash;
}

void ipu__hash_print(const ipu__hash128 *hash, char out[IPU__HASH_TEXT])
{
    for (int i = 0; i < 16; i++) snprintf(out + 2 * i, 3, "%02x", hash->bytes[i]);
}

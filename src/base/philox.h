/* Philox 4x32-10: random bits as a function of a key and a counter, so that each element of a tensor gets
 * the same bits whatever the thread, tile or order. */
#ifndef IPU_BASE_PHILOX_H
#define IPU_BASE_PHILOX_H

#include <stdint.h>

/* Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC11). */
void ipu__philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

#endif

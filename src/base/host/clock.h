/* The monotonic clock, for measuring intervals; shared by all processes of a machine.
 *
 *     int64_t begin = ipu__clock_ns();
 *     work();
 *     took += ipu__clock_ns() - begin;
 */
#ifndef IPU_BASE_HOST_CLOCK_H
#define IPU_BASE_HOST_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t ipu__clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double ipu__clock_seconds(void) { return 1e-9 * (double)ipu__clock_ns(); }

#endif

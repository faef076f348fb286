/* A clock that only goes on, in nanoseconds: for how long something took or may take. */
#ifndef TOOLS_WEB_CLOCK_H
#define TOOLS_WEB_CLOCK_H

#include <stdint.h>
#include <time.h>

#define WEB_SECOND INT64_C(1000000000)

static inline int64_t web_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * WEB_SECOND + t.tv_nsec;
}

#endif

/* Two clocks, in nanoseconds: a monotonic one for durations, and the time of day. */
#ifndef TOOLS_CLOCK_H
#define TOOLS_CLOCK_H

#include <stdint.h>
#include <time.h>

#define TOOL_SECOND INT64_C(1000000000)

static inline int64_t tool_read_clock(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (int64_t)t.tv_sec * TOOL_SECOND + t.tv_nsec;
}

static inline int64_t tool_clock(void) { return tool_read_clock(CLOCK_MONOTONIC); }

/* Since 1970. */
static inline int64_t tool_time(void) { return tool_read_clock(CLOCK_REALTIME); }

#endif

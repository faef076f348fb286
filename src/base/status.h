/* Making errors: status, message, location. Public half: ipu/status.h. */
#ifndef IPU_BASE_STATUS_H
#define IPU_BASE_STATUS_H

#include <stdarg.h>
#include <stdint.h>

#include "ipu/location.h"
#include "ipu/status.h"

/* Set this thread's message and return `status`. */
ipu_status ipu__fail(ipu_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
ipu_status ipu__vfail(ipu_status status, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* IPU_OUT_OF_MEMORY with its message. Does no formatting, so it cannot fail itself. */
ipu_status ipu__fail_memory(void);

typedef struct ipu__location {
    const char *file; /* NULL if unknown */
    int         line;
} ipu__location;

/* What ipu_here last set on this thread. */
ipu__location ipu__here(void);

/* For our own bugs: stops debug builds, compiled out of release builds. */
#ifdef NDEBUG
#define IPU__ASSERT(condition) ((void)sizeof(condition))
#else
#include <assert.h>
#define IPU__ASSERT(condition) assert(condition)
#endif

#endif

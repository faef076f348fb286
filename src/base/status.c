/* Status texts, this thread's message and location. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

enum { MESSAGE_BYTES = 16384 }; /* enough for 20 compile errors */

static _Thread_local char          message[MESSAGE_BYTES];
static _Thread_local ipu__location here;

const char *ipu_status_text(ipu_status status)
{
    static const char *const texts[] = {
#define X(name, text) [IPU_##name] = text,
        IPU_STATUS_LIST(X)
#undef X
    };
    size_t n = sizeof texts / sizeof *texts;
    return (size_t)status < n ? texts[status] : "unknown status";
}

const char *ipu_message(void) { return message; }

ipu_status ipu__vfail(ipu_status status, const char *format, va_list args)
{
    /* The arguments may point into the old message. */
    char text[MESSAGE_BYTES];
    vsnprintf(text, sizeof text, format, args);
    memcpy(message, text, strlen(text) + 1);
    return status;
}

ipu_status ipu__fail(ipu_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ipu__vfail(status, format, args);
    va_end(args);
    return status;
}

ipu_status ipu__fail_memory(void)
{
    static const char text[] = "out of memory: the host could not give the memory asked for";
    memcpy(message, text, sizeof text);
    return IPU_OUT_OF_MEMORY;
}

void ipu_here(const char *file, int line) { here = (ipu__location){file, line}; }

enum { DEEPEST = 64 }; /* nested calls: beyond this depth the deepest location is kept */

static _Thread_local ipu__location around[DEEPEST];
static _Thread_local unsigned      depth;

void ipu_enter(const char *file, int line)
{
    if (depth < DEEPEST) around[depth] = here;
    depth++;
    here = (ipu__location){file, line};
}

void ipu_leave(void)
{
    if (depth == 0) return;
    depth--;
    if (depth < DEEPEST) here = around[depth];
}

ipu__location ipu__here(void) { return here; }

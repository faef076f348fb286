/* `ipu poprun`, poprun: starts a program in several processes by mpirun, on one or more hosts. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipu/version.h"
#include "output.h"
#include "launch/poprun.h"

void poprun_log(const poprun *p, char level, const char *format, ...)
{
    struct timespec now;
    struct tm       t;
    char            clock[32], text[1024];
    va_list         args;
    if ((level == 'D' && p->verbosity < 1) || (level == 'T' && p->verbosity < 2)) return;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &t);
    strftime(clock, sizeof clock, "%H:%M:%S", &t);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fflush(stdout);
    /* In a single write: mpirun tags each write separately. */
    dprintf(STDERR_FILENO, "%s.%03ld %ld POPRUN [%c] %s\n", clock, now.tv_nsec / 1000000, (long)getpid(),
            level, text);
}

static tool_exit print_version(const char *format)
{
    if (!format || !strcmp(format, "text"))
        printf("poprun %s\n", ipu_version());
    else if (!strcmp(format, "full-text"))
        printf("poprun %s (OpenIPU)\n", ipu_version());
    else if (!strcmp(format, "full-json"))
        printf("{\"name\": \"poprun\", \"version\": \"%s\"}\n", ipu_version());
    else
        return tool_usage("poprun", "--version-format: expected text, full-text or full-json, found \"%s\"",
                          format);
    return TOOL_OK;
}

static tool_exit run(poprun *p)
{
    if (p->print_topology) poprun_print_topology(p);
    tool_exit code = poprun_open_partition(p);
    if (code == TOOL_OK) code = poprun_launch(p);
    poprun_close_partition(p);
    return code;
}

tool_exit run_poprun(const tool_arguments *args)
{
    poprun p;
    tool_must_finish();
    if (getenv(POPRUN_STAGE)) return poprun_instance(args);
    if (args->values[POPRUN_VERSION]) return print_version(args->values[POPRUN_VERSION_FORMAT]);
    tool_exit code = poprun_read(&p, args);
    if (code == TOOL_OK && p.n_program > 0) code = run(&p);
    if (code == TOOL_OK && p.n_program == 0 && p.print_topology) poprun_print_topology(&p);
    poprun_free(&p);
    return code;
}

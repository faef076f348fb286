/* `poprun`: its settings, and the parts of a launch. */
#ifndef TOOLS_LAUNCH_POPRUN_H
#define TOOLS_LAUNCH_POPRUN_H

#include <jansson.h>

#include "command.h"

enum { POPRUN_MOST_HOSTS = 1024 };

typedef struct poprun {
    const char *values[TOOL_MAX_OPTIONS]; /* as in tool_arguments, including those of --import-config */
    json_t     *config;                   /* the imported file, which owns texts in `values`; or NULL */
    char      **program;                  /* and its arguments */
    int         n_program;
    int64_t     n_replicas, ipus_per_replica, n_instances, only_output; /* -1: of all */
    char       *hosts[POPRUN_MOST_HOSTS];                               /* owned */
    int64_t     n_hosts;
    int         verbosity; /* 0, 1 (-v), 2 (-vv) */
    bool        update, remove, offline, print_topology, numa_aware;
    int         reset;              /* -1 if not given */
    bool        has_made_partition; /* so it may be removed */
} poprun;

/* To be freed even on failure. */
tool_exit poprun_read(poprun *p, const tool_arguments *args);
void      poprun_free(poprun *p);

/* "h0,h1", "h[0-2,4]", "h[00-03]": appended to the hosts. Returns false after reporting an error. */
bool poprun_add_hosts(poprun *p, const char *list);

/* ---- messages: HH:MM:SS.mmm PID POPRUN [I] text, on standard error ---- */

/* `level`: 'E' and 'I' always, 'D' with -v, 'T' with -vv. */
void poprun_log(const poprun *p, char level, const char *format, ...) __attribute__((format(printf, 3, 4)));
void poprun_print_topology(const poprun *p);

/* ---- the partition (partition.c) ---- */

/* Create or find the requested partition, and make programs use it. */
tool_exit poprun_open_partition(poprun *p);
void      poprun_close_partition(poprun *p);

/* ---- running ---- */

/* Runs mpirun with the requested instances; returns its exit code. */
tool_exit poprun_launch(poprun *p);

/* Set by the launcher for the process it starts on each host: this binary, as the parent of one instance. */
#define POPRUN_STAGE "IPU_POPRUN_STAGE"
tool_exit poprun_instance(const tool_arguments *args);

#endif

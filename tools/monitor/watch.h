/* A watch looks at the IPUs repeatedly and keeps the last sample, histories of utilisation, and alerts.
 *
 *     watch_options options;
 *     tool_exit code = watch_options_read(args, &options);      --interval, --alert, --exec, --all-...
 *     watch *w = watch_create(&options);
 *     watch_options_fini(&options);
 *     do {
 *         watch_look(w);
 *         ... watch_sample_of(w) ... watch_json(w) ... watch_alerts(w) ...
 *     } while ((signal = watch_wait(w)) == 0);
 *     watch_destroy(w);
 *
 * A look that fails (a broken configuration, a user whose IPUs cannot be seen) leaves the previous sample in
 * place and a problem as text. A watch belongs to one thread.
 */
#ifndef TOOLS_MONITOR_WATCH_H
#define TOOLS_MONITOR_WATCH_H

#include <jansson.h>

#include "monitor/alert.h"
#include "command.h"
#include "monitor/watch_history.h"

typedef struct watch_options {
    bool        all_partitions, all_users;
    double      interval; /* seconds between looks */
    alert_rule *rules;
    int         n_rules;
    const char *exec;  /* command for alerts, borrowed, or NULL */
    bool        quiet; /* discard its output; else it goes to standard error */
} watch_options;

/* From the options of `ipu monitor`. Reports errors: TOOL_USAGE, or TOOL_FAILED for --all-users if not root.
 * To be released in any case. */
tool_exit watch_options_read(const tool_arguments *args, watch_options *out);
void      watch_options_fini(watch_options *options);

typedef struct watch watch;

/* Does not look yet. From now on SIGINT, SIGQUIT, SIGTERM and SIGHUP end watch_wait and interrupt blocked
 * writes. Copies the options. NULL if out of memory. */
watch *watch_create(const watch_options *options);
/* Waits for commands that still run, a few seconds at most, unless a signal came. NULL is ignored. */
void watch_destroy(watch *w);

/* Receives other problems, such as a failed --exec command. By default they go to standard error. */
void watch_tell_to(watch *w, void (*tell)(void *to, const char *text), void *to);

/* Takes a new sample, evaluates the alerts, starts their commands. Returns false if there is a problem. */
bool watch_look(watch *w);

/* Waits until the next look is due (returns 0) or a signal comes (its number), tending commands meanwhile. */
int watch_wait(watch *w);
/* For other ways of waiting: milliseconds until the next look is due; a descriptor that becomes readable on a
 * signal; that signal (0: none, or SIGCHLD, after which commands have been tended). */
int watch_due_ms(const watch *w);
int watch_signal_fd(void);
int watch_take_signal(watch *w);

double watch_interval(const watch *w);
void   watch_set_interval(watch *w, double seconds);
bool   watch_shows_all(const watch *w);
void   watch_set_all(watch *w, bool all_partitions); /* from the next look on */

/* Borrowed until the next look. Never NULL. */
const watch_sample *watch_sample_of(const watch *w);
/* Why the last look failed, or NULL. */
const char *watch_problem(const watch *w);
/* For the sample's IPUs. */
const watch_histories *watch_histories_of(const watch *w);
const alerts          *watch_alerts(const watch *w);

/* The sample as one object (keys in docs/tools.md), to be released. Pending and firing alerts are listed per
 * subject; a rule with none is listed once, as ok. NULL if out of memory. */
json_t *watch_json(const watch *w);

#endif

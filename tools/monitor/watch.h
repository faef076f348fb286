/* A watch looks at the IPUs again and again and remembers: the last sample, histories of utilisation, alerts.
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
 * A look that fails (a configuration that has gone wrong, a user whose IPUs cannot be seen) is a problem, in words, and what was
 * seen before stays. One thread uses a watch.
 */
#ifndef TOOLS_MONITOR_WATCH_H
#define TOOLS_MONITOR_WATCH_H

#include <jansson.h>

#include "monitor/alert.h"
#include "command.h"
#include "monitor/watch_history.h"

typedef struct watch_options {
    bool        all_partitions, all_users;
    double      interval; /* seconds from look to look */
    alert_rule *rules;
    int         n_rules;
    const char *exec;  /* command for alerts, borrowed; NULL: none */
    bool        quiet; /* what it prints goes nowhere; else to standard error */
} watch_options;

/* From the options of `ipu monitor`. What is wrong is reported: TOOL_USAGE, or TOOL_FAILED for --all-users of a user who is not
 * root. To be released in any case. */
tool_exit watch_options_read(const tool_arguments *args, watch_options *out);
void      watch_options_fini(watch_options *options);

typedef struct watch watch;

/* Nothing is looked at yet. From now on SIGINT, SIGQUIT, SIGTERM and SIGHUP end watch_wait, and break off a write that
 * waits. The options are copied. NULL: out of memory. */
watch *watch_create(const watch_options *options);
/* Commands that still run are waited for, a few seconds at most, unless a signal came. NULL: nothing. */
void watch_destroy(watch *w);

/* Who is told of what goes wrong besides: a command of --exec that failed. Else it goes to standard error. */
void watch_tell_to(watch *w, void (*tell)(void *to, const char *text), void *to);

/* Take a new sample, hold the alerts against it, start their commands. False: there is a problem. */
bool watch_look(watch *w);

/* Until the next look is due, or a signal: its number. 0: it is due. Commands are looked after meanwhile. */
int watch_wait(watch *w);
/* For those who wait in another way: milliseconds until the next look is due; a descriptor that can be read when a signal came; what
 * it was (0: none, or SIGCHLD: commands have been looked after). */
int watch_due_ms(const watch *w);
int watch_signal_fd(void);
int watch_take_signal(watch *w);

double watch_interval(const watch *w);
void   watch_set_interval(watch *w, double seconds);
bool   watch_shows_all(const watch *w);
void   watch_set_all(watch *w, bool all_partitions); /* counts from the next look on */

/* Borrowed until the next look. Never NULL. */
const watch_sample *watch_sample_of(const watch *w);
/* Why the last look failed; NULL: it did not. */
const char *watch_problem(const watch *w);
/* Of the sample's IPUs. */
const watch_histories *watch_histories_of(const watch *w);
const alerts          *watch_alerts(const watch *w);

/* The sample as one object (docs/tools.md has its keys), to be released. Alerts that are pending or firing are listed for each
 * subject, a rule without any once, as ok. NULL: out of memory. */
json_t *watch_json(const watch *w);

#endif

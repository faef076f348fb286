/* The command of --exec: started for each alert that fires and once more when it is resolved, by /bin/sh -c.
 * Details are passed in its environment, never in the text of the command:
 *
 *     IPU_ALERT            the rule, as given            IPU_ALERT_STATE      firing, resolved
 *     IPU_ALERT_SUBJECT    "IPU 0 of p1 (pid 12, alice)" IPU_ALERT_VALUE      a number; empty: gone
 *     IPU_ALERT_TEXT       the value for people          IPU_ALERT_TIME       seconds since 1970
 *     IPU_ALERT_PARTITION, IPU_ALERT_GCD, IPU_ALERT_OWNER (whose IPUs), IPU_ALERT_IPU (id of the first), IPU_ALERT_IPUS (how
 *     many), IPU_ALERT_PID, IPU_ALERT_USER, IPU_ALERT_COMMAND: empty where there is none
 *
 * Commands run in the background, up to ALERT_COMMANDS at a time, each in its own process group; the rest
 * queue. One that takes longer than a minute is killed. Its input is empty and its output goes to standard
 * error.
 */
#ifndef TOOLS_MONITOR_ALERT_EXEC_H
#define TOOLS_MONITOR_ALERT_EXEC_H

#include "monitor/alert.h"

enum { ALERT_COMMANDS = 8, ALERT_WAITING = 256, ALERT_SECONDS = 60 };

typedef struct alert_exec alert_exec;

/* `quiet`: discard its output (a terminal is in use). `tell` is called for each command that could not be
 * started, failed or took too long. NULL if out of memory. */
alert_exec *alert_exec_create(const char *command, bool quiet, void (*tell)(void *to, const char *text),
                              void *to);
/* Leaves running commands alone and drops queued ones. */
void alert_exec_destroy(alert_exec *x);

void alert_exec_run(alert_exec *x, const alert_rule *rule, const alert *one);
/* Tends the commands: call it now and then, and after SIGCHLD. */
void alert_exec_tend(alert_exec *x);
/* The number running or queued. */
int alert_exec_n(const alert_exec *x);

#endif

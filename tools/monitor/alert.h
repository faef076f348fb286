/* Alerts: rules such as "utilisation<5% for 10m", and which of them hold for whom.
 *
 *     METRIC OPERATOR VALUE[UNIT] [for DURATION]
 *
 * A rule is looked at for each of its subjects by itself: the devices that processes hold, the IPUs, or the partitions,
 * whichever its metric is of. What nobody holds has no utilisation: "utilisation<5%" tells of devices that are
 * held and idle. What is not measured holds for no rule.
 *
 * A subject is ok; pending while the rule holds but not yet for its duration; firing from then on; and when it holds no
 * longer, or the subject is gone, firing ends: it is resolved. Time is what the caller says it is.
 *
 *     alert_rule rules[1];
 *     if (!alert_parse("free<1 for 5m", &rules[0], problem, sizeof problem)) ...
 *     alerts *a = alerts_create(rules, 1);
 *     alerts_look(a, &sample, now_ns);
 *     for (int i = 0; i < alerts_n_changes(a); i++) ... alerts_change(a, i)->state ...
 */
#ifndef TOOLS_MONITOR_ALERT_H
#define TOOLS_MONITOR_ALERT_H

#include "monitor/watch_sample.h"

enum { ALERT_TEXT = 128, ALERT_PROBLEM = 1024, ALERT_SUBJECT = 256, ALERT_VALUE = 32 };

typedef enum alert_state { ALERT_OK, ALERT_PENDING, ALERT_FIRING, ALERT_RESOLVED } alert_state;

/* What a metric is of: each device that is held, each IPU, each partition. */
typedef enum alert_scope { ALERT_PROCESS, ALERT_IPU, ALERT_PARTITION } alert_scope;

typedef struct alert_metric alert_metric;

typedef struct alert_rule {
    char                text[ALERT_TEXT]; /* as given, without blanks around it */
    const alert_metric *metric;
    char                op[3]; /* < <= > >= == != */
    double              bound; /* shares from 0 to 1, times in seconds, memory in bytes */
    int64_t             for_ns;
} alert_rule;

/* False: *problem says what is wrong and what there is. */
bool alert_parse(const char *text, alert_rule *out, char *problem, size_t size);

/* "  utilisation   ...": a line for each metric, for manuals. Returns the next from 0 on; NULL: no more. */
const char *alert_metric_name(int i);
alert_scope alert_metric_scope(int i);

/* A subject of a rule that is not ok, or was not until now. */
typedef struct alert {
    int         rule;
    alert_state state;
    char        subject[ALERT_SUBJECT]; /* "IPU 0 of p1 (pid 12, alice)" */
    char        owner[WATCH_TEXT], partition[WATCH_TEXT];
    int         gcd;
    int         ipu;    /* the first of its IPUs, as listed; -1: none */
    int         n_ipus; /* of the subject */
    int64_t     pid;    /* 0: none, or of another namespace */
    char        user[WATCH_TEXT], command[WATCH_TEXT];
    double      value;    /* that was found last; NaN: the subject is gone or not measured any more */
    int64_t     since_ns; /* that the state is so, since 1970 */
    int64_t     began_ns; /* that the rule holds, on the caller's clock */
    /* What tells subjects apart, with partition and process: their place in it, and when it attached. */
    int64_t uid, attached_ns;
    int     place;
    bool    seen;
} alert;

typedef struct alerts alerts;

/* The rules are copied. NULL: out of memory. */
alerts *alerts_create(const alert_rule *rules, int n);
void    alerts_destroy(alerts *a);

/* Hold the rules against a sample. False: out of memory; some are then not looked at. */
bool alerts_look(alerts *a, const watch_sample *s, int64_t now_ns);

int               alerts_n_rules(const alerts *a);
const alert_rule *alerts_rule(const alerts *a, int i);
/* All that is pending or firing, the oldest first. */
int          alerts_n(const alerts *a);
const alert *alerts_at(const alerts *a, int i);
/* What began to fire, and what was resolved, at the last look. */
int          alerts_n_changes(const alerts *a);
const alert *alerts_change(const alerts *a, int i);

/* "pending", "firing", ... */
const char *alert_state_name(alert_state state);
/* A value of the rule's metric, for people: "4.20%", "8h3m", "1.5 GiB", "3"; "gone" if it is NaN. */
void alert_value_text(const alert_rule *rule, double value, char out[ALERT_VALUE]);

#endif

/* Alerts: rules such as "utilisation<5% for 10m", and which subjects they hold for.
 *
 *     METRIC OPERATOR VALUE[UNIT] [for DURATION]
 *
 * A rule is evaluated separately for each of its subjects: devices held by processes, IPUs, or partitions,
 * depending on its metric. A device that nobody holds has no utilisation, so "utilisation<5%" finds devices
 * that are held and idle. A rule never holds for a value that is not measured.
 *
 * A subject is ok; pending while the rule holds but not yet for its duration; then firing; and resolved when
 * the rule no longer holds or the subject is gone. The caller supplies the time.
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

/* What a metric applies to: each device that is held, each IPU, each partition. */
typedef enum alert_scope { ALERT_PROCESS, ALERT_IPU, ALERT_PARTITION } alert_scope;

typedef struct alert_metric alert_metric;

typedef struct alert_rule {
    char                text[ALERT_TEXT]; /* as given, trimmed */
    const alert_metric *metric;
    char                op[3]; /* < <= > >= == != */
    double              bound; /* shares from 0 to 1, times in seconds, memory in bytes */
    int64_t             for_ns;
} alert_rule;

/* Returns false with *problem saying what is wrong and what would be valid. */
bool alert_parse(const char *text, alert_rule *out, char *problem, size_t size);

/* " utilisation ...": a line per metric, for manuals. Returns them from i = 0 on, then NULL. */
const char *alert_metric_name(int i);
alert_scope alert_metric_scope(int i);

/* A subject of a rule that is not ok, or was not until now. */
typedef struct alert {
    int         rule;
    alert_state state;
    char        subject[ALERT_SUBJECT]; /* "IPU 0 of p1 (pid 12, alice)" */
    char        owner[WATCH_TEXT], partition[WATCH_TEXT];
    int         gcd;
    int         ipu;    /* the first of its IPUs, as listed, or -1 */
    int         n_ipus; /* of the subject */
    int64_t     pid;    /* 0 if none, or in another namespace */
    char        user[WATCH_TEXT], command[WATCH_TEXT];
    double      value;    /* the last value found; NaN if the subject is gone or no longer measured */
    int64_t     since_ns; /* when this state began, since 1970 */
    int64_t     began_ns; /* when the rule began to hold, on the caller's clock */
    /* With partition and process these tell subjects apart: their place in it, and when it attached. */
    int64_t uid, attached_ns;
    int     place;
    bool    seen;
} alert;

typedef struct alerts alerts;

/* Copies the rules. NULL if out of memory. */
alerts *alerts_create(const alert_rule *rules, int n);
void    alerts_destroy(alerts *a);

/* Evaluates the rules on a sample. Returns false if out of memory; some are then not evaluated. */
bool alerts_look(alerts *a, const watch_sample *s, int64_t now_ns);

int               alerts_n_rules(const alerts *a);
const alert_rule *alerts_rule(const alerts *a, int i);
/* Everything pending or firing, oldest first. */
int          alerts_n(const alerts *a);
const alert *alerts_at(const alerts *a, int i);
/* What started firing or was resolved at the last look. */
int          alerts_n_changes(const alerts *a);
const alert *alerts_change(const alerts *a, int i);

/* "pending", "firing", ... */
const char *alert_state_name(alert_state state);
/* A value of the rule's metric as text: "4.20%", "8h3m", "1.5 GiB", "3"; "gone" if it is NaN. */
void alert_value_text(const alert_rule *rule, double value, char out[ALERT_VALUE]);

#endif

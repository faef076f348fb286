/* A metric of alerts: a number for each of its subjects. */
#ifndef TOOLS_MONITOR_ALERT_METRIC_H
#define TOOLS_MONITOR_ALERT_METRIC_H

#include "monitor/alert.h"

typedef enum alert_kind { ALERT_SHARE, ALERT_TIME, ALERT_COUNT, ALERT_BYTES } alert_kind;

struct alert_metric {
    const char *name;
    alert_scope scope;
    alert_kind  kind;
    /* Of process, IPU or partition i; NaN if unknown. */
    double (*value)(const watch_sample *s, int i);
};

#endif

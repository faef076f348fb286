/* Metrics: a sample of the monitor (watch_json) as text in Prometheus format.
 *
 *     metrics_monitor self = {.version = ipu_version(), .looks = 12, ...};
 *     size_t          size;
 *     char           *text = metrics_write(sample, &self, METRICS_OPENMETRICS, &size);
 *
 * Names, types, units and labels are the rows of metrics.inc; docs/tools.md has the same table. Unmeasured
 * values have no line. No two lines share name and labels, whatever the sample holds.
 */
#ifndef TOOLS_MONITOR_METRICS_H
#define TOOLS_MONITOR_METRICS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

typedef enum metrics_form {
    METRICS_PROMETHEUS,  /* text/plain; version=0.0.4 */
    METRICS_OPENMETRICS, /* application/openmetrics-text; version=1.0.0 */
} metrics_form;

/* The monitor's own figures. */
typedef struct metrics_monitor {
    const char *version;
    int64_t     looks, failures; /* looks at the IPUs; those that failed */
    double      look_seconds;    /* taken by the last one */
    int64_t     scrapes;         /* before this one */
    double      scrape_seconds;  /* spent on those, in total */
} metrics_monitor;

/* The format that a request's Accept header asks for; NULL if it had none. */
metrics_form metrics_negotiate(const char *accept);
const char  *metrics_content_type(metrics_form form);

/* Owned: free. NULL if out of memory. */
char *metrics_write(const json_t *sample, const metrics_monitor *self, metrics_form form, size_t *size);

#endif

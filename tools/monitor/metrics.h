/* Metrics: a sample of the monitor (watch_json) as text that Prometheus reads.
 *
 *     metrics_monitor self = {.version = ipu_version(), .looks = 12, ...};
 *     size_t          size;
 *     char           *text = metrics_write(sample, &self, METRICS_OPENMETRICS, &size);
 *
 * Names, types, units and labels are the rows of metrics.inc; docs/tools.md has the same table. What was not
 * measured has no line. No two lines have the same name and labels, whatever the sample holds.
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

/* What the monitor says of itself. */
typedef struct metrics_monitor {
    const char *version;
    int64_t     looks, failures; /* at the IPUs; those that found them unreadable */
    double      look_seconds;    /* that the last one took */
    int64_t     scrapes;         /* before this one */
    double      scrape_seconds;  /* that writing those took, in all */
} metrics_monitor;

/* The form that a request's Accept header asks for; NULL: none came. */
metrics_form metrics_negotiate(const char *accept);
const char  *metrics_content_type(metrics_form form);

/* Owned: free. NULL: out of memory. */
char *metrics_write(const json_t *sample, const metrics_monitor *self, metrics_form form, size_t *size);

#endif

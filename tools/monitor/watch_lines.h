/* A watch as lines of text: CSV, JSON, or the changes of alerts. */
#ifndef TOOLS_MONITOR_WATCH_LINES_H
#define TOOLS_MONITOR_WATCH_LINES_H

#include <stdio.h>

#include "monitor/watch.h"

typedef enum watch_format { WATCH_CSV, WATCH_JSONL, WATCH_ALERTS } watch_format;

/* Writes to standard output until a signal comes, writing fails, or `count` looks are done (0: no limit). If
 * the first look fails it is an error; later failures are reported on standard error. */
tool_exit watch_lines_run(watch *w, watch_format format, int64_t count);

/* The header of the CSV, and a row for each IPU and each process with IPUs of its own. */
void watch_csv_header(FILE *out);
void watch_csv_rows(FILE *out, const watch_sample *s);

/* "firing utilisation<5% for 10m: IPU 0 of p1 (pid 12, alice): 0.00%" */
void watch_alert_text(const alerts *a, const alert *one, char *out, size_t size);

#endif

/* The loop that writes looks as lines. */
#include "monitor/watch_lines.h"

#include <errno.h>
#include <stdio_ext.h>
#include <string.h>
#include <time.h>

#include "output.h"
#include "monitor/watch_users.h"

void watch_alert_text(const alerts *a, const alert *one, char *out, size_t size)
{
    const alert_rule *rule = alerts_rule(a, one->rule);
    char              value[ALERT_VALUE];
    alert_value_text(rule, one->value, value);
    snprintf(out, size, "%s %s: %s: %s", alert_state_name(one->state), rule->text, one->subject, value);
}

static void put_alerts(const watch *w)
{
    const alerts *a       = watch_alerts(w);
    time_t        seconds = (time_t)(watch_sample_of(w)->time_ns / 1000000000);
    struct tm     utc;
    char          time[40] = "", text[ALERT_PROBLEM];
    if (gmtime_r(&seconds, &utc)) strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &utc);
    for (int i = 0; i < alerts_n_changes(a); i++) {
        watch_alert_text(a, alerts_change(a, i), text, sizeof text);
        printf("%s %s\n", time, text);
    }
}

/* For when standard output is for data. */
static void tell_alerts(const watch *w)
{
    const alerts *a = watch_alerts(w);
    char          text[ALERT_PROBLEM];
    for (int i = 0; i < alerts_n_changes(a); i++) {
        watch_alert_text(a, alerts_change(a, i), text, sizeof text);
        tool_fail("alert %s", text);
    }
}

static tool_exit put_json(const watch *w)
{
    json_t *sample = watch_json(w);
    if (!sample) return tool_fail("out of memory");
    int wrong = json_dumpf(sample, stdout, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
    json_decref(sample);
    if (wrong && !ferror(stdout)) return tool_fail("out of memory");
    putchar('\n');
    return TOOL_OK;
}

static tool_exit put(const watch *w, watch_format format)
{
    tool_exit code = TOOL_OK;
    if (format == WATCH_ALERTS)
        put_alerts(w);
    else
        tell_alerts(w);
    if (format == WATCH_CSV) watch_csv_rows(stdout, watch_sample_of(w));
    if (format == WATCH_JSONL) code = put_json(w);
    return code;
}

/* Reports a problem once, not at each look. */
static void tell_problem(const watch *w, char told[WATCH_PROBLEM])
{
    const char *problem = watch_problem(w);
    if (strcmp(problem ? problem : "", told) == 0) return;
    tool_fail("%s", problem ? problem : "what went wrong before is mended");
    snprintf(told, WATCH_PROBLEM, "%s", problem ? problem : "");
}

/* Writing failed, or a signal interrupted it. Reported here, so that nothing is left for the end of the
 * process. */
static tool_exit end_writing(watch *w, int error)
{
    int number = watch_take_signal(w);
    __fpurge(stdout);
    clearerr(stdout);
    if (number) return (tool_exit)(128 + number);
    return tool_fail_output(error);
}

tool_exit watch_lines_run(watch *w, watch_format format, int64_t count)
{
    char told[WATCH_PROBLEM] = "";
    int  number              = 0;
    if (!watch_look(w) && watch_sample_of(w)->n_partitions == 0) return tool_fail("%s", watch_problem(w));
    if (format == WATCH_CSV) watch_csv_header(stdout);
    for (int64_t looks = 1;; looks++) {
        tell_problem(w, told);
        errno          = 0;
        tool_exit code = put(w, format);
        if (code != TOOL_OK) return code;
        if (fflush(stdout) || ferror(stdout)) return end_writing(w, errno);
        if (looks == count) return TOOL_OK;
        number = watch_wait(w);
        if (number) return (tool_exit)(128 + number);
        watch_look(w);
    }
}

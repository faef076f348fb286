/* The language of alerts: metrics, operators, units. */
#include "monitor/alert.h"

#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/alert_metric.h"
#include "nearest.h"

#define YEARS_10 (3652.5 * 86400)

/* ---- metrics ---- */

#define PROCESS(expression)                    \
    const watch_process *p = &s->processes[i]; \
    (void)s;                                   \
    return expression

static double known(double value) { return value < 0 ? NAN : value; }

static double utilisation(const watch_sample *s, int i) { PROCESS(known(p->counters.utilisation)); }
static double session(const watch_sample *s, int i) { PROCESS(known(p->counters.utilisation_session)); }
static double held(const watch_sample *s, int i)
{
    PROCESS(p->since_ns > 0 ? (double)(s->time_ns - p->since_ns) / 1e9 : NAN);
}
static double ipus(const watch_sample *s, int i) { PROCESS(p->n_ipus); }
static double runs(const watch_sample *s, int i) { PROCESS((double)p->counters.runs); }
static double run_rate(const watch_sample *s, int i) { PROCESS(known(p->runs_per_second)); }
static double supersteps(const watch_sample *s, int i) { PROCESS((double)p->counters.supersteps); }
static double cycles(const watch_sample *s, int i) { PROCESS(known((double)p->counters.cycles)); }
static double host_bytes(const watch_sample *s, int i) { PROCESS((double)p->counters.host_bytes); }
static double host_rate(const watch_sample *s, int i) { PROCESS(known(p->host_bytes_per_second)); }
static double tile_bytes(const watch_sample *s, int i) { PROCESS(known((double)p->counters.tile_bytes)); }
static double memory(const watch_sample *s, int i)
{
    double room = (double)s->partitions[s->processes[i].partition].bytes_per_ipu * s->processes[i].n_ipus;
    return room > 0 ? tile_bytes(s, i) / room : NAN;
}

/* Names in a list with commas. */
static double errors(const watch_sample *s, int i)
{
    const char *text = s->ipus[i].error;
    int         n    = *text != 0;
    for (; *text; text++) n += *text == ',';
    return n;
}

static double free_ipus(const watch_sample *s, int i) { return s->partitions[i].n_free; }
static double attached(const watch_sample *s, int i)
{
    return s->partitions[i].n_ipus - s->partitions[i].n_free;
}
static double processes(const watch_sample *s, int i) { return s->partitions[i].n_processes; }

static const alert_metric metrics[] = {
    {"utilisation", ALERT_PROCESS, ALERT_SHARE, utilisation},
    {"utilisation_session", ALERT_PROCESS, ALERT_SHARE, session},
    {"held", ALERT_PROCESS, ALERT_TIME, held},
    {"ipus", ALERT_PROCESS, ALERT_COUNT, ipus},
    {"runs", ALERT_PROCESS, ALERT_COUNT, runs},
    {"runs_per_second", ALERT_PROCESS, ALERT_COUNT, run_rate},
    {"supersteps", ALERT_PROCESS, ALERT_COUNT, supersteps},
    {"cycles", ALERT_PROCESS, ALERT_COUNT, cycles},
    {"host_bytes", ALERT_PROCESS, ALERT_BYTES, host_bytes},
    {"host_bytes_per_second", ALERT_PROCESS, ALERT_BYTES, host_rate},
    {"tile_bytes", ALERT_PROCESS, ALERT_BYTES, tile_bytes},
    {"memory", ALERT_PROCESS, ALERT_SHARE, memory},
    {"errors", ALERT_IPU, ALERT_COUNT, errors},
    {"free", ALERT_PARTITION, ALERT_COUNT, free_ipus},
    {"attached", ALERT_PARTITION, ALERT_COUNT, attached},
    {"processes", ALERT_PARTITION, ALERT_COUNT, processes},
};

enum { N_METRICS = sizeof metrics / sizeof *metrics };

const char *alert_metric_name(int i) { return i >= 0 && i < N_METRICS ? metrics[i].name : NULL; }
alert_scope alert_metric_scope(int i) { return metrics[i].scope; }

/* ---- units ---- */

typedef struct unit {
    const char *name;
    double      factor;
} unit;

#define KI 1024.0

static const unit shares[] = {{"", 1}, {"%", 0.01}, {NULL, 0}};
static const unit times[]  = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {NULL, 0}};
static const unit counts[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {NULL, 0}};
static const unit sizes[]  = {
     {"", 1},      {"B", 1},    {"kB", 1e3},     {"MB", 1e6},         {"GB", 1e9},
     {"TB", 1e12}, {"KiB", KI}, {"MiB", KI *KI}, {"GiB", KI *KI *KI}, {"TiB", KI *KI *KI *KI},
     {NULL, 0}};

static const unit *const units_of[] = {
    [ALERT_SHARE] = shares, [ALERT_TIME] = times, [ALERT_COUNT] = counts, [ALERT_BYTES] = sizes};

static const unit *find_unit(const unit *units, const char *name)
{
    for (; units->name; units++)
        if (!strcmp(units->name, name)) return units;
    return NULL;
}

static void list_units(const unit *units, char *out, size_t size)
{
    size_t used = 0;
    *out        = 0;
    for (units++; units->name && used < size; units++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", used ? " " : "", units->name);
}

/* ---- rules ---- */

/* Writes what is wrong with a rule into the caller's `problem`; false. */
#define WRONG(...) (snprintf(problem, size, __VA_ARGS__), false)

static bool unknown_metric(const char *name, char *problem, size_t size)
{
    char        list[ALERT_PROBLEM / 2] = "";
    const char *names[N_METRICS];
    size_t      used = 0;
    for (int i = 0; i < N_METRICS; i++) {
        names[i] = metrics[i].name;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    const char *nearest = nearest_of(name, names, N_METRICS);
    return WRONG("no metric \"%s\"%s%s%s: expected one of %s", name, nearest ? " (did you mean \"" : "",
                 nearest ? nearest : "", nearest ? "\"?)" : "", list);
}

/* "10m", "1h30m", "90": the sum of numbers with units. */
static bool read_duration(const char *text, double *seconds)
{
    *seconds = 0;
    do {
        char  *end, name[2] = "";
        double n = strtod(text, &end);
        if (strspn(text, "0123456789.") != (size_t)(end - text) || end == text) return false;
        if (*end) name[0] = *end++;
        const unit *u = find_unit(times, name);
        if (!u) return false;
        *seconds += n * u->factor;
        text = end;
    } while (*text);
    return *seconds <= YEARS_10;
}

static bool read_bound(alert_rule *r, const char *number, const char *name, char *problem, size_t size)
{
    char        list[ALERT_TEXT];
    const unit *u = find_unit(units_of[r->metric->kind], name);
    if (r->metric->kind == ALERT_TIME) {
        char whole[2 * ALERT_TEXT];
        snprintf(whole, sizeof whole, "%s%s", number, name);
        if (read_duration(whole, &r->bound)) return true;
        return WRONG("\"%s\" is no time: expected such as 30s, 10m, 8h, 1h30m, 2d", whole);
    }
    list_units(units_of[r->metric->kind], list, sizeof list);
    if (!u) return WRONG("%s has no unit \"%s\": expected %s, or none", r->metric->name, name, list);
    r->bound = strtod(number, NULL) * u->factor;
    if (r->metric->kind == ALERT_SHARE && r->bound > 1)
        return WRONG("%s is from 0%% to 100%%, or from 0 to 1 without the sign, found \"%s%s\"%s%s%s",
                     r->metric->name, number, name, *name ? "" : ": did you mean ", *name ? "" : number,
                     *name ? "" : "%?");
    return true;
}

enum { METRIC = 1, OP, NUMBER, FRACTION, UNIT, FOR, DURATION, N_GROUPS };

/* A metric, an operator, a number, a unit (for times possibly more such pairs), a duration. */
#define PATTERN                                                                                           \
    "^[[:space:]]*([[:alpha:]_]+)[[:space:]]*(<=|>=|==|!=|<|>)[[:space:]]*([0-9]+(\\.[0-9]+)?|\\.[0-9]+)" \
    "[[:space:]]*(%|[[:alpha:]]+[0-9smhd.]*)?([[:space:]]+for[[:space:]]+([^[:space:]]+))?[[:space:]]*$"

static void take(const char *text, const regmatch_t *m, char *out, size_t size)
{
    int n = m->rm_so < 0 ? 0 : (int)(m->rm_eo - m->rm_so);
    snprintf(out, size, "%.*s", n, m->rm_so < 0 ? "" : text + m->rm_so);
}

static bool match(const char *text, regmatch_t groups[N_GROUPS])
{
    regex_t regex;
    if (regcomp(&regex, PATTERN, REG_EXTENDED) != 0) return false;
    bool matches = regexec(&regex, text, N_GROUPS, groups, 0) == 0;
    regfree(&regex);
    return matches;
}

static void keep_text(alert_rule *out, const char *text)
{
    text += strspn(text, " \t\n\r\v\f");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\n\r\v\f", text[n - 1])) n--;
    snprintf(out->text, sizeof out->text, "%.*s", (int)n, text);
}

bool alert_parse(const char *text, alert_rule *out, char *problem, size_t size)
{
    regmatch_t groups[N_GROUPS];
    char       name[ALERT_TEXT], number[ALERT_TEXT], unit_name[ALERT_TEXT], duration[ALERT_TEXT];
    double     seconds = 0;
    *out               = (alert_rule){0};
    if (strlen(text) >= ALERT_TEXT || !match(text, groups))
        return WRONG("\"%.100s\" is no alert: expected METRIC OPERATOR VALUE [for DURATION], such as "
                     "'utilisation<5%% for 10m'; operators are < <= > >= == !=",
                     text);
    keep_text(out, text);
    take(text, &groups[METRIC], name, sizeof name);
    take(text, &groups[OP], out->op, sizeof out->op);
    take(text, &groups[NUMBER], number, sizeof number);
    take(text, &groups[UNIT], unit_name, sizeof unit_name);
    take(text, &groups[DURATION], duration, sizeof duration);
    for (int i = 0; i < N_METRICS; i++)
        if (!strcmp(metrics[i].name, name)) out->metric = &metrics[i];
    if (!out->metric) return unknown_metric(name, problem, size);
    if (!strcmp(unit_name, "for")) return WRONG("\"for\" needs a duration behind it, such as 30s, 10m, 8h");
    if (!read_bound(out, number, unit_name, problem, size)) return false;
    if (*duration && !read_duration(duration, &seconds))
        return WRONG("\"for %s\" is no duration: expected such as 30s, 10m, 8h, 1h30m, 2d", duration);
    out->for_ns = (int64_t)(seconds * 1e9);
    return true;
}

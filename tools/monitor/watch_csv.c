/* Samples as CSV: a line each, fields quoted as in RFC 4180, absent ones empty. */
#include <string.h>
#include <time.h>

#include "monitor/watch_lines.h"

static const char *const columns[] = {
    "time",
    "owner",
    "partition",
    "gcd",
    "id",
    "machine",
    "board",
    "number",
    "error",
    "pid",
    "user",
    "command",
    "device",
    "ipus",
    "seconds",
    "utilisation",
    "utilisation_session",
    "runs",
    "supersteps",
    "cycles",
    "host_bytes",
    "tile_bytes",
};

enum { N_COLUMNS = sizeof columns / sizeof *columns };

void watch_csv_header(FILE *out)
{
    for (int i = 0; i < N_COLUMNS; i++) fprintf(out, "%s%s", i ? "," : "", columns[i]);
    fputc('\n', out);
}

static void put_text(FILE *out, const char *text)
{
    fputc(',', out);
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_whole(FILE *out, bool there, int64_t value)
{
    fputc(',', out);
    if (there) fprintf(out, "%lld", (long long)value);
}

static void put_real(FILE *out, double value)
{
    fputc(',', out);
    if (value >= 0) fprintf(out, "%.6g", value);
}

static void put_place(FILE *out, int64_t time_ns, const watch_partition *p)
{
    struct tm utc;
    time_t    seconds  = (time_t)(time_ns / 1000000000);
    char      text[40] = "";
    if (gmtime_r(&seconds, &utc)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    fprintf(out, "%s.%03dZ", text, (int)(time_ns / 1000000 % 1000));
    put_text(out, p->owner);
    put_text(out, p->name);
    put_whole(out, true, p->gcd);
}

static void put_process(FILE *out, const watch_sample *s, const watch_process *a)
{
    static const watch_process nobody;
    const watch_process       *p = a ? a : &nobody;
    const ipu_device_counters *c = &p->counters;
    put_whole(out, a, p->pid);
    put_text(out, p->user);
    put_text(out, p->command);
    put_whole(out, a && p->device >= 0, p->device);
    put_whole(out, a, p->n_ipus);
    fputc(',', out);
    if (a) fprintf(out, "%.3f", (double)(s->time_ns > p->since_ns ? s->time_ns - p->since_ns : 0) / 1e9);
    put_real(out, a ? c->utilisation : -1);
    put_real(out, a ? c->utilisation_session : -1);
    put_whole(out, a, c->runs);
    put_whole(out, a, c->supersteps);
    put_whole(out, a && c->cycles >= 0, c->cycles);
    put_whole(out, a, c->host_bytes);
    put_whole(out, a && c->tile_bytes >= 0, c->tile_bytes);
    fputc('\n', out);
}

void watch_csv_rows(FILE *out, const watch_sample *s)
{
    for (int i = 0; i < s->n_ipus; i++) {
        const watch_ipu       *u = &s->ipus[i];
        const watch_partition *p = &s->partitions[u->partition];
        if (p->stale) continue;
        put_place(out, s->time_ns, p);
        put_whole(out, true, u->id);
        put_text(out, u->machine);
        put_text(out, u->board);
        put_whole(out, true, u->number);
        put_text(out, u->error);
        put_process(out, s, u->process < 0 ? NULL : &s->processes[u->process]);
    }
    for (int i = 0; i < s->n_processes; i++) {
        const watch_process   *a = &s->processes[i];
        const watch_partition *p = &s->partitions[a->partition];
        if (a->first_id >= 0 || p->stale) continue;
        put_place(out, s->time_ns, p);
        fputs(",,,,,", out); /* no id, machine, board, number, error */
        put_process(out, s, a);
    }
}

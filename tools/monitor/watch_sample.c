/* Samples: joining them, sending them between processes. */
#include "monitor/watch_sample.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- growing lists ---- */

void *watch_grow(void **list, int n, int more, size_t size)
{
    size_t old = (size_t)n, added = (size_t)more;
    void  *grown = realloc(*list, (old + added + 1) * size);
    if (!grown) return NULL;
    *list = grown;
    return memset((char *)grown + old * size, 0, (added + 1) * size);
}

void watch_sample_clear(watch_sample *s) { s->n_partitions = s->n_ipus = s->n_processes = 0; }

void watch_sample_fini(watch_sample *s)
{
    free(s->partitions);
    free(s->ipus);
    free(s->processes);
    *s = (watch_sample){0};
}

/* ---- joining ---- */

bool watch_sample_append(watch_sample *s, const watch_sample *more)
{
    watch_partition *partitions = WATCH_GROW(s->partitions, s->n_partitions, more->n_partitions);
    watch_ipu       *ipus       = WATCH_GROW(s->ipus, s->n_ipus, more->n_ipus);
    watch_process   *processes  = WATCH_GROW(s->processes, s->n_processes, more->n_processes);
    if (!partitions || !ipus || !processes) return false;
    for (int i = 0; i < more->n_partitions; i++) {
        partitions[i] = more->partitions[i];
        partitions[i].first_ipu += s->n_ipus;
    }
    for (int i = 0; i < more->n_ipus; i++) {
        ipus[i] = more->ipus[i];
        ipus[i].partition += s->n_partitions;
        if (ipus[i].process >= 0) ipus[i].process += s->n_processes;
    }
    for (int i = 0; i < more->n_processes; i++) {
        processes[i] = more->processes[i];
        processes[i].partition += s->n_partitions;
    }
    s->n_partitions += more->n_partitions;
    s->n_ipus += more->n_ipus;
    s->n_processes += more->n_processes;
    return true;
}

/* ---- between processes ---- */

typedef struct header {
    int32_t n_partitions, n_ipus, n_processes;
} header;

static bool write_all(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t written = write(fd, at, n);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        at += written;
        n -= (size_t)written;
    }
    return true;
}

bool watch_sample_is_too_large(const watch_sample *s)
{
    return s->n_partitions > WATCH_MOST_PARTITIONS || s->n_ipus > WATCH_MOST_IPUS
        || s->n_processes > WATCH_MOST_PROCESSES;
}

bool watch_sample_write(int fd, const watch_sample *s)
{
    header h = {s->n_partitions, s->n_ipus, s->n_processes};
    return write_all(fd, &h, sizeof h)
        && write_all(fd, s->partitions, (size_t)s->n_partitions * sizeof *s->partitions)
        && write_all(fd, s->ipus, (size_t)s->n_ipus * sizeof *s->ipus)
        && write_all(fd, s->processes, (size_t)s->n_processes * sizeof *s->processes);
}

static void clean(char *text, size_t size)
{
    char copy[WATCH_PATH];
    memcpy(copy, text, size);
    copy[size - 1] = 0;
    harmless_copy(text, size, copy);
}

#define CLEAN(text) clean(text, sizeof(text))

/* A byte that is neither 0 nor 1 is no bool, and must not be read as one. */
#define IS_BOOL(value) (*(const unsigned char *)&(value) <= 1)

static bool check_partitions(watch_sample *s)
{
    int next = 0;
    for (int i = 0; i < s->n_partitions; i++) {
        watch_partition *p = &s->partitions[i];
        if (p->first_ipu != next || p->n_ipus < 0 || p->n_ipus > s->n_ipus - next) return false;
        if (p->n_free < 0 || p->n_free > p->n_ipus || p->n_processes < 0 || !isfinite(p->clock_hz))
            return false;
        if (!IS_BOOL(p->active) || !IS_BOOL(p->elastic) || !IS_BOOL(p->reconfigurable) || !IS_BOOL(p->stale))
            return false;
        next += p->n_ipus;
        CLEAN(p->owner);
        CLEAN(p->name);
        CLEAN(p->title);
        CLEAN(p->chip);
        CLEAN(p->arch);
    }
    return next == s->n_ipus;
}

static bool check_ipus(watch_sample *s)
{
    for (int i = 0; i < s->n_ipus; i++) {
        watch_ipu *u = &s->ipus[i];
        if (u->partition < 0 || u->partition >= s->n_partitions) return false;
        if (u->process < -1 || u->process >= s->n_processes) return false;
        CLEAN(u->machine);
        CLEAN(u->type);
        CLEAN(u->software);
        CLEAN(u->server);
        CLEAN(u->firmware);
        CLEAN(u->board);
        CLEAN(u->error);
    }
    return true;
}

static bool check_processes(watch_sample *s)
{
    for (int i = 0; i < s->n_processes; i++) {
        watch_process *p = &s->processes[i];
        if (p->partition < 0 || p->partition >= s->n_partitions) return false;
        if (p->pid < 0 || p->since_ns < 0 || p->device < -1 || p->first_id < -1 || p->n_ipus < 1)
            return false;
        if (p->first_id >= 0 && p->n_ipus > INT_MAX - p->first_id) return false;
        if (!isfinite(p->counters.utilisation) || !isfinite(p->counters.utilisation_session)) return false;
        p->runs_per_second = p->host_bytes_per_second = -1;
        CLEAN(p->user);
        CLEAN(p->command);
        CLEAN(p->executable);
    }
    return true;
}

/* The next `n` records of `size`; NULL if out of memory. */
static void *take(const char **at, int n, size_t size)
{
    size_t bytes = (size_t)n * size;
    void  *list  = calloc((size_t)n + 1, size);
    if (list) memcpy(list, *at, bytes);
    *at += bytes;
    return list;
}

/* The length of a sample with these counts. */
static size_t length(const watch_sample *s)
{
    return sizeof(header) + (size_t)s->n_partitions * sizeof *s->partitions
         + (size_t)s->n_ipus * sizeof *s->ipus + (size_t)s->n_processes * sizeof *s->processes;
}

bool watch_sample_read(const void *bytes, size_t n, watch_sample *out)
{
    header       h;
    const char  *at = bytes;
    watch_sample s  = {0};
    *out            = s;
    if (n < sizeof h) return false;
    memcpy(&h, at, sizeof h);
    at += sizeof h;
    s.n_partitions = h.n_partitions;
    s.n_ipus       = h.n_ipus;
    s.n_processes  = h.n_processes;
    if (h.n_partitions < 0 || h.n_ipus < 0 || h.n_processes < 0 || watch_sample_is_too_large(&s))
        return false;
    if (n != length(&s)) return false;
    s.partitions = take(&at, s.n_partitions, sizeof *s.partitions);
    s.ipus       = take(&at, s.n_ipus, sizeof *s.ipus);
    s.processes  = take(&at, s.n_processes, sizeof *s.processes);
    if (s.partitions && s.ipus && s.processes && check_partitions(&s) && check_ipus(&s)
        && check_processes(&s)) {
        *out = s;
        return true;
    }
    watch_sample_fini(&s);
    return false;
}

/* ---- words ---- */

bool watch_same_process(const watch_sample *a, int i, const watch_sample *b, int k)
{
    const watch_process   *p = &a->processes[i], *q = &b->processes[k];
    const watch_partition *pp = &a->partitions[p->partition], *qp = &b->partitions[q->partition];
    return p->pid == q->pid && p->since_ns == q->since_ns && p->device == q->device && pp->uid == qp->uid
        && pp->gcd == qp->gcd && !strcmp(pp->name, qp->name);
}

void watch_ipus_text(const watch_sample *s, const watch_process *p, char *out, size_t size)
{
    const char *title = s->partitions[p->partition].title;
    if (p->first_id < 0)
        snprintf(out, size, "%d further IPU%s of %s", p->n_ipus, p->n_ipus == 1 ? "" : "s", title);
    else if (p->n_ipus == 1)
        snprintf(out, size, "IPU %d of %s", p->first_id, title);
    else
        snprintf(out, size, "IPUs %d to %d of %s", p->first_id, p->first_id + p->n_ipus - 1, title);
}

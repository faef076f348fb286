/* The rows of the live view: filtered, sorted, selected. */
#include "live/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void live_view_init(live_view *v)
{
    *v = (live_view){0};
    for (live_table t = 0; t < LIVE_TABLES; t++)
        v->rows[t] = (live_rows){.selected = -1, .sort = live_first_sort(t)};
}

static void picture_fini(live_picture *p)
{
    watch_sample_fini(&p->sample);
    free(p->histories);
    *p = (live_picture){0};
}

void live_view_fini(live_view *v)
{
    picture_fini(&v->picture);
    for (int t = 0; t < LIVE_TABLES; t++) free(v->rows[t].order);
    live_view_init(v);
}

/* ---- pictures ---- */

static bool picture_take(live_picture *p, const watch *w)
{
    const watch_sample *s = watch_sample_of(w);
    *p                    = (live_picture){.sample.time_ns = s->time_ns, .all = watch_shows_all(w)};
    p->histories          = calloc((size_t)s->n_ipus * LIVE_HISTORY + 1, sizeof *p->histories);
    if (!p->histories || !watch_sample_append(&p->sample, s)) {
        picture_fini(p);
        return false;
    }
    for (int i = 0; i < s->n_ipus; i++) {
        float *to = p->histories + (size_t)i * LIVE_HISTORY;
        int    n  = watch_histories_get(watch_histories_of(w), i, LIVE_HISTORY, to);
        memmove(to + LIVE_HISTORY - n, to, (size_t)n * sizeof *to);
        for (int k = 0; k < LIVE_HISTORY - n; k++) to[k] = -1;
    }
    const char *problem = watch_problem(w);
    snprintf(p->problem, sizeof p->problem, "%s", problem ? problem : "");
    return true;
}

static int n_rows(const live_view *v, live_table table)
{
    return table == LIVE_IPUS ? v->picture.sample.n_ipus : v->picture.sample.n_processes;
}

static bool same_partition(const watch_partition *a, const watch_partition *b)
{
    return a->uid == b->uid && a->gcd == b->gcd && !strcmp(a->name, b->name);
}

/* Whether row i of one picture is row k of another. */
static bool same_row(live_table table, const watch_sample *a, int i, const watch_sample *b, int k)
{
    if (table == LIVE_PROCESSES) return watch_same_process(a, i, b, k);
    const watch_ipu *u = &a->ipus[i], *x = &b->ipus[k];
    return u->index == x->index && same_partition(&a->partitions[u->partition], &b->partitions[x->partition]);
}

static int selected_row(const live_view *v, live_table table)
{
    const live_rows *r = &v->rows[table];
    return r->selected >= 0 && r->selected < r->n ? r->order[r->selected] : -1;
}

/* Where the selected row is now, or -1 if it is gone. */
static int find_again(live_table table, const watch_sample *old, int row, const watch_sample *now)
{
    int n = table == LIVE_IPUS ? now->n_ipus : now->n_processes;
    for (int k = 0; row >= 0 && k < n; k++)
        if (same_row(table, old, row, now, k)) return k;
    return -1;
}

static void note_variety(live_view *v)
{
    const watch_sample *s = &v->picture.sample;
    v->several_owners     = false;
    v->several_partitions = s->n_partitions > 1;
    for (int i = 1; i < s->n_partitions; i++)
        v->several_owners |= s->partitions[i].uid != s->partitions[0].uid;
}

/* ---- order ---- */

static bool matches(const live_view *v, live_table table, int row)
{
    char cell[LIVE_CELL];
    if (!*v->filter) return true;
    for (int c = 0; c < live_n_columns(table); c++) {
        live_columns(table)[c].text(v, row, cell);
        if (strcasestr(cell, v->filter)) return true;
    }
    return false;
}

/* The argument of qsort_r. */
typedef struct sorting {
    const live_view   *view;
    const live_column *column;
    int                sign;
} sorting;

static int compare(const void *a, const void *b, void *context)
{
    const sorting *s = context;
    int            i = *(const int *)a, k = *(const int *)b, result;
    if (s->column->number) {
        double x = s->column->number(s->view, i), y = s->column->number(s->view, k);
        result = (x > y) - (x < y);
    } else {
        char x[LIVE_CELL], y[LIVE_CELL];
        s->column->text(s->view, i, x);
        s->column->text(s->view, k, y);
        result = strcmp(x, y);
    }
    if (result == 0) return (i > k) - (i < k);
    return s->sign * result;
}

/* `keep`: the row to select; -1: whichever takes its place. */
static bool arrange(live_view *v, live_table table, int keep)
{
    live_rows *r     = &v->rows[table];
    int        total = n_rows(v, table);
    int       *order = realloc(r->order, ((size_t)total + 1) * sizeof *order);
    if (!order) {
        r->n = 0;
        return false;
    }
    r->order = order;
    r->n     = 0;
    for (int i = 0; i < total; i++)
        if (matches(v, table, i)) order[r->n++] = i;
    sorting s = {v, &live_columns(table)[r->sort], r->reverse ? -1 : 1};
    qsort_r(order, (size_t)r->n, sizeof *order, compare, &s);
    for (int i = 0; keep >= 0 && i < r->n; i++)
        if (order[i] == keep) r->selected = i;
    if (r->selected >= r->n) r->selected = r->n - 1;
    if (r->selected < 0 && r->n > 0) r->selected = 0;
    return true;
}

bool live_view_arrange(live_view *v)
{
    bool ok = true;
    for (live_table t = 0; t < LIVE_TABLES; t++) ok &= arrange(v, t, selected_row(v, t));
    return ok;
}

bool live_view_take(live_view *v, const watch *w)
{
    live_picture now;
    int          keep[LIVE_TABLES];
    if (!picture_take(&now, w)) return false;
    for (live_table t = 0; t < LIVE_TABLES; t++)
        keep[t] = find_again(t, &v->picture.sample, selected_row(v, t), &now.sample);
    picture_fini(&v->picture);
    v->picture = now;
    note_variety(v);
    bool ok = true;
    for (live_table t = 0; t < LIVE_TABLES; t++) ok &= arrange(v, t, keep[t]);
    return ok;
}

/* ---- selecting ---- */

void live_view_move(live_view *v, int rows)
{
    live_rows *r  = &v->rows[v->table];
    long long  to = (long long)r->selected + rows;
    if (to >= r->n) to = r->n - 1;
    if (to < 0) to = r->n > 0 ? 0 : -1;
    r->selected = (int)to;
}

void live_view_scroll(live_view *v, live_table table, int rows)
{
    live_rows *r = &v->rows[table];
    if (r->selected >= r->top + rows) r->top = r->selected - rows + 1;
    if (r->selected >= 0 && r->selected < r->top) r->top = r->selected;
    if (r->top > r->n - rows) r->top = r->n - rows;
    if (r->top < 0) r->top = 0;
}

void live_view_sort(live_view *v, int step)
{
    live_rows *r = &v->rows[v->table];
    int        n = live_n_columns(v->table);
    do r->sort = (r->sort + step + n) % n;
    while (!live_column_is_used(v, v->table, r->sort) || live_columns(v->table)[r->sort].kind != LIVE_TEXT);
}

const watch_ipu *live_view_ipu(const live_view *v)
{
    int row = v->table == LIVE_IPUS ? selected_row(v, LIVE_IPUS) : -1;
    return row < 0 ? NULL : &v->picture.sample.ipus[row];
}

const watch_process *live_view_process(const live_view *v)
{
    const watch_ipu *u   = live_view_ipu(v);
    int              row = u ? u->process : v->table == LIVE_PROCESSES ? selected_row(v, LIVE_PROCESSES) : -1;
    return row < 0 ? NULL : &v->picture.sample.processes[row];
}

/* Measured host times beside the estimated steps, matched by their place in the programs; listed separately
 * for a different program. */
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "ipu/profile.h"

static int by_place(const void *a, const void *b)
{
    const ipu_cost_step *x = *(ipu_cost_step *const *)a, *y = *(ipu_cost_step *const *)b;
    if (x->program != y->program) return x->program < y->program ? -1 : 1;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return (x > y) - (x < y); /* all in one array: lower addresses come first in the list */
}

static ipu_cost_step *find(ipu_cost_step **steps, size_t n, const ipu_step_time *time)
{
    size_t low = 0, high = n;
    while (low < high) {
        size_t               middle = (low + high) / 2;
        const ipu_cost_step *s      = steps[middle];
        if (s->program < time->program || (s->program == time->program && s->step < time->step))
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && steps[low]->program == time->program && steps[low]->step == time->step ? steps[low]
                                                                                             : NULL;
}

/* Whether something other than what ran is at its place. Other kinds of steps say little, since the host
 * may skip them. */
static bool is_another(const ipu_cost_step *s, const ipu_step_time *time)
{
    return s && time->kind && *time->name
        && (strcmp(s->kind, time->kind) != 0 || strcmp(s->name, time->name) != 0);
}

/* Strings belong to the engine, which may be destroyed before the cost. */
static ipu_status list_apart(ipu_cost *cost, const ipu_step_time *times, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ipu_step_time t = times[i];
        t.kind          = ipu__arena_strdup(&cost->arena, t.kind ? t.kind : "step");
        t.name          = ipu__arena_strdup(&cost->arena, t.name ? t.name : "");
        if (!t.kind || !t.name || !ipu__push(&cost->host, t)) return ipu__fail_memory();
    }
    return IPU_OK;
}

ipu_status ipu_cost_set_times(ipu_cost *cost, const ipu_step_time *times, size_t n)
{
    size_t          n_steps = cost->rows.n;
    bool            other   = false;
    ipu_cost_step **steps   = ipu__alloc(n_steps * sizeof(ipu_cost_step *));
    if (!steps) return ipu__fail_memory();
    for (size_t i = 0; i < n_steps; i++) {
        steps[i]               = &cost->rows.at[i].s;
        steps[i]->host_runs    = 0;
        steps[i]->host_seconds = 0;
    }
    cost->host.n = 0;
    qsort(steps, n_steps, sizeof(ipu_cost_step *), by_place);
    for (size_t i = 0; i < n && !other; i++) other = is_another(find(steps, n_steps, &times[i]), &times[i]);
    for (size_t i = 0; i < n && !other; i++) {
        ipu_cost_step *s = find(steps, n_steps, &times[i]);
        if (!s) continue;
        s->host_runs    = times[i].runs;
        s->host_seconds = times[i].seconds;
    }
    ipu__free(steps);
    return other ? list_apart(cost, times, n) : IPU_OK;
}

bool ipu_cost_host_step_at(const ipu_cost *cost, int64_t i, ipu_step_time *out)
{
    if (i < 0 || (size_t)i >= cost->host.n) return false;
    *out = cost->host.at[i];
    return true;
}

/* Histories of utilisation: rings that all begin and end at the same look. */
#include "monitor/watch_history.h"

#include <stdlib.h>
#include <string.h>

enum { MANY = 8192 };

typedef struct history {
    int64_t uid;
    char    partition[WATCH_TEXT];
    int     gcd, index;
    int64_t last_look;             /* when it was last seen */
    float   shares[WATCH_HISTORY]; /* of look k at k % WATCH_HISTORY */
} history;

struct watch_histories {
    int64_t   n_looks;
    int64_t   times[WATCH_HISTORY];
    history **all;
    int       n, room;
    int      *of_ipu; /* for the last sample, indices into `all`; -1 if memory ran out */
    int       n_ipus;
};

watch_histories *watch_histories_create(void) { return calloc(1, sizeof(watch_histories)); }

void watch_histories_destroy(watch_histories *h)
{
    if (!h) return;
    for (int i = 0; i < h->n; i++) free(h->all[i]);
    free(h->all);
    free(h->of_ipu);
    free(h);
}

static bool is_of(const history *one, const watch_sample *s, const watch_ipu *u)
{
    const watch_partition *p = &s->partitions[u->partition];
    return one->index == u->index && one->gcd == p->gcd && one->uid == p->uid
        && !strcmp(one->partition, p->name);
}

/* IPUs mostly come in the order of the last look, so the search starts at `hint`. */
static int find(const watch_histories *h, const watch_sample *s, const watch_ipu *u, int hint)
{
    for (int k = 0; k < h->n; k++) {
        int i = (hint + k) % h->n;
        if (is_of(h->all[i], s, u)) return i;
    }
    return -1;
}

static int make(watch_histories *h, const watch_sample *s, const watch_ipu *u)
{
    const watch_partition *p = &s->partitions[u->partition];
    if (h->n == h->room) {
        int       room  = h->room ? 2 * h->room : 16;
        history **grown = realloc(h->all, (size_t)room * sizeof(history *));
        if (!grown) return -1;
        h->all  = grown;
        h->room = room;
    }
    history *one = malloc(sizeof *one);
    if (!one) return -1;
    *one = (history){.uid = p->uid, .gcd = p->gcd, .index = u->index};
    harmless_copy(one->partition, sizeof one->partition, p->name);
    for (int i = 0; i < WATCH_HISTORY; i++) one->shares[i] = -1;
    h->all[h->n] = one;
    return h->n++;
}

/* Where partitions come and go by the thousand, only those present at the last look are remembered. */
static void forget_old(watch_histories *h)
{
    int     kept  = 0;
    int64_t looks = h->n < MANY ? WATCH_HISTORY : 2;
    for (int i = 0; i < h->n; i++)
        if (h->n_looks - h->all[i]->last_look < looks)
            h->all[kept++] = h->all[i];
        else
            free(h->all[i]);
    h->n = kept;
}

bool watch_histories_add(watch_histories *h, const watch_sample *s)
{
    int  at = (int)(h->n_looks % WATCH_HISTORY), hint = 0;
    bool complete = true;
    forget_old(h);
    h->n_ipus    = 0;
    int *of_ipu  = realloc(h->of_ipu, ((size_t)s->n_ipus + 1) * sizeof *of_ipu);
    h->times[at] = s->time_ns;
    for (int i = 0; i < h->n; i++) h->all[i]->shares[at] = -1;
    if (of_ipu) {
        h->of_ipu = of_ipu;
        h->n_ipus = s->n_ipus;
    }
    for (int i = 0; i < h->n_ipus; i++) {
        const watch_ipu *u     = &s->ipus[i];
        int              found = find(h, s, u, hint);
        if (found < 0) found = make(h, s, u);
        of_ipu[i] = found;
        complete &= found >= 0;
        if (found < 0) continue;
        h->all[found]->last_look = h->n_looks;
        hint                     = found + 1;
        if (u->process >= 0 && !s->partitions[u->partition].stale)
            h->all[found]->shares[at] = (float)s->processes[u->process].counters.utilisation;
    }
    h->n_looks++;
    return complete && of_ipu;
}

static int n_of(const watch_histories *h, int most)
{
    int64_t n = h->n_looks < WATCH_HISTORY ? h->n_looks : WATCH_HISTORY;
    return n < most ? (int)n : most;
}

int watch_histories_get(const watch_histories *h, int ipu, int most, float *out)
{
    int            n   = n_of(h, most);
    const history *one = ipu >= 0 && ipu < h->n_ipus && h->of_ipu[ipu] >= 0 ? h->all[h->of_ipu[ipu]] : NULL;
    for (int i = 0; i < n; i++) out[i] = one ? one->shares[(h->n_looks - n + i) % WATCH_HISTORY] : -1;
    return n;
}

int watch_histories_n(const watch_histories *h) { return h->n; }

int watch_histories_times(const watch_histories *h, int most, int64_t *out)
{
    int n = n_of(h, most);
    for (int i = 0; i < n; i++) out[i] = h->times[(h->n_looks - n + i) % WATCH_HISTORY];
    return n;
}

/* Exchanges: what each tile receives and sends, and how long that takes.
 *
 * A tile receives every element once, however many of its vertices use it; a sender sends every element
 * once, however many tiles receive it. A message is everything that one tile receives of one variable from
 * one other tile. Flows are distributed by tile, so that little is left to sort.
 */
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "cost/ladder.h"

/* ---- adding ---- */

enum { LOOK_BACK = 8 }; /* flows: repeated copies come in few pieces */

bool ipu__exchange_add(ipu__exchange *x, uint32_t to, uint32_t from, uint32_t var, int64_t begin, int64_t end)
{
    for (size_t i = 0; i < LOOK_BACK && i < x->flows.n; i++) {
        ipu__flow *f = &x->flows.at[x->flows.n - 1 - i];
        if (f->to != to || f->from != from || f->var != var) continue;
        if (f->begin <= begin && end <= f->end) return true;
        if (i == 0 && f->end == begin) {
            f->end = end;
            return true;
        }
    }
    return ipu__push(&x->flows, (ipu__flow){to, from, var, begin, end});
}

bool ipu__exchange_add_bytes(ipu__exchange *x, uint32_t to, uint32_t from, uint32_t var, int64_t bytes)
{
    if (!x->cache && !(x->cache = ipu__alloc_zeroed(IPU__CACHED_MESSAGES * sizeof *x->cache))) return false;
    uint32_t      hash = (to * 2654435761u) ^ (from * 2246822519u) ^ (var * 3266489917u);
    ipu__message *m    = &x->cache[(hash >> 16) % IPU__CACHED_MESSAGES];
    if (m->bytes > 0 && (m->to != to || m->from != from || m->var != var)) {
        if (!ipu__push(&x->messages, *m)) return false;
        m->bytes = 0;
    }
    *m = (ipu__message){to, from, var, m->bytes + bytes};
    return true;
}

static bool flush_cache(ipu__exchange *x)
{
    for (size_t i = 0; x->cache && i < IPU__CACHED_MESSAGES; i++) {
        if (x->cache[i].bytes > 0 && !ipu__push(&x->messages, x->cache[i])) return false;
        x->cache[i].bytes = 0;
    }
    return true;
}

void ipu__exchange_fini(ipu__exchange *x)
{
    ipu__array_fini(&x->flows);
    ipu__array_fini(&x->dealt);
    ipu__array_fini(&x->messages);
    ipu__array_fini(&x->sends);
    ipu__free(x->cache);
    x->cache = NULL;
}

/* ---- sorting ---- */

typedef int (*compare_fn)(const void *, const void *);

#define ORDER(a, b) \
    if ((a) != (b)) return (a) < (b) ? -1 : 1

static int by_element(const void *a, const void *b)
{
    const ipu__flow *x = a, *y = b;
    ORDER(x->var, y->var);
    ORDER(x->begin, y->begin);
    return 0;
}

static int by_to(const void *a, const void *b)
{
    const ipu__flow *x = a, *y = b;
    ORDER(x->to, y->to);
    return by_element(a, b);
}

static int by_from(const void *a, const void *b)
{
    const ipu__flow *x = a, *y = b;
    ORDER(x->from, y->from);
    return by_element(a, b);
}

static int received(const void *a, const void *b)
{
    const ipu__message *x = a, *y = b;
    ORDER(x->to, y->to);
    ORDER(x->from, y->from);
    ORDER(x->var, y->var);
    return 0;
}

static int sent(const void *a, const void *b)
{
    const ipu__message *x = a, *y = b;
    ORDER(x->from, y->from);
    ORDER(x->var, y->var);
    return 0;
}

/* Graphs are mostly built in order: check before sorting. */
static void sort(void *at, size_t n, size_t size, compare_fn compare)
{
    char  *first = at;
    size_t i     = 1;
    while (i < n && compare(first + (i - 1) * size, first + i * size) <= 0) i++;
    if (i < n) qsort(at, n, size, compare);
}

/* Sorts flows by tile (`is_to`: the receiver's), variable and element. */
static bool sort_flows(ipu__pricer *p, ipu__exchange *x, bool is_to)
{
    size_t n = x->flows.n, n_tiles = (size_t)p->model->n_tiles, *next = p->deal;
    if (n < 64 || n < n_tiles / 4) {
        sort(x->flows.at, n, sizeof *x->flows.at, is_to ? by_to : by_from);
        return true;
    }
    if (!ipu__reserve(&x->dealt, n)) return false;
    memset(next, 0, (n_tiles + 1) * sizeof *next);
    for (size_t i = 0; i < n; i++) next[(is_to ? x->flows.at[i].to : x->flows.at[i].from) + 1]++;
    for (size_t t = 1; t <= n_tiles; t++) next[t] += next[t - 1];
    for (size_t i = 0; i < n; i++)
        x->dealt.at[next[is_to ? x->flows.at[i].to : x->flows.at[i].from]++] = x->flows.at[i];
    memcpy(x->flows.at, x->dealt.at, n * sizeof *x->flows.at); /* next[t] is now where tile t ends */
    for (size_t t = 0; t < n_tiles; t++) {
        size_t begin = t ? next[t - 1] : 0;
        sort(x->flows.at + begin, next[t] - begin, sizeof *x->flows.at, by_element);
    }
    return true;
}

/* ---- every element once ---- */

static int64_t flow_bytes(const ipu__pricer *p, const ipu__flow *f)
{
    return (f->end - f->begin) * (int64_t)ipu_type_size(p->g->variables.at[f->var].type);
}

/* Joins sorted flows to the same tile; each element has only one source tile. */
static void merge_received(ipu__exchange *x)
{
    size_t n = 0;
    for (size_t i = 0; i < x->flows.n; i++) {
        ipu__flow next = x->flows.at[i], *last = n ? &x->flows.at[n - 1] : NULL;
        if (last && last->to == next.to && last->var == next.var && last->from == next.from
            && next.begin <= last->end) {
            if (next.end > last->end) last->end = next.end;
        } else {
            x->flows.at[n++] = next;
        }
    }
    x->flows.n = n;
}

/* Bytes that each tile sends of each variable, from flows sorted by sender. */
static bool merge_sent(ipu__pricer *p, ipu__exchange *x)
{
    for (size_t i = 0; i < x->flows.n;) {
        ipu__flow first = x->flows.at[i];
        int64_t   size = (int64_t)ipu_type_size(p->g->variables.at[first.var].type), n = 0, end = 0;
        for (; i < x->flows.n && x->flows.at[i].from == first.from && x->flows.at[i].var == first.var; i++) {
            const ipu__flow *f = &x->flows.at[i];
            if (f->end <= end) continue;
            n += f->end - (f->begin > end ? f->begin : end);
            end = f->end;
        }
        if (!ipu__push(&x->sends, (ipu__message){0, first.from, first.var, n * size})) return false;
    }
    return true;
}

static bool list_messages(ipu__pricer *p, ipu__exchange *x)
{
    if (!sort_flows(p, x, true)) return false;
    merge_received(x);
    for (size_t i = 0; i < x->flows.n; i++) {
        const ipu__flow *f = &x->flows.at[i];
        if (!ipu__push(&x->messages, (ipu__message){f->to, f->from, f->var, flow_bytes(p, f)})) return false;
    }
    return true;
}

static void join_messages(ipu__exchange *x)
{
    size_t n = 0;
    sort(x->messages.at, x->messages.n, sizeof *x->messages.at, received);
    for (size_t i = 0; i < x->messages.n; i++) {
        ipu__message next = x->messages.at[i];
        if (n && received(&x->messages.at[n - 1], &next) == 0)
            x->messages.at[n - 1].bytes += next.bytes;
        else
            x->messages.at[n++] = next;
    }
    x->messages.n = n;
}

/* Without flows, every byte of a message is sent just for it. */
static bool list_sends(ipu__pricer *p, ipu__exchange *x)
{
    if (x->flows.n) return sort_flows(p, x, false) && merge_sent(p, x);
    if (!ipu__reserve(&x->sends, x->messages.n)) return false;
    if (x->messages.n) memcpy(x->sends.at, x->messages.at, x->messages.n * sizeof *x->sends.at);
    x->sends.n = x->messages.n;
    sort(x->sends.at, x->sends.n, sizeof *x->sends.at, sent);
    return true;
}

/* ---- pricing ---- */

static int64_t in_words(const ipu__pricer *p, int64_t bytes)
{
    int64_t word = p->model->word >= 1 ? (int64_t)p->model->word : 1;
    return (bytes + word - 1) / word * word;
}

void ipu__exchange_charge(ipu__pricer *p, uint32_t tile, int64_t n_messages)
{
    p->fixed[tile].exchange_code += IPU__DEFAULT_exchange_code_bytes
                                  + n_messages * IPU__DEFAULT_message_code_bytes;
}

static void price_received(ipu__pricer *p, const ipu__exchange *x, ipu__traffic *out)
{
    for (size_t i = 0; i < x->messages.n;) {
        uint32_t tile  = x->messages.at[i].to;
        int64_t  bytes = 0, n = 0;
        for (; i < x->messages.n && x->messages.at[i].to == tile; i++, n++)
            bytes += in_words(p, x->messages.at[i].bytes);
        int64_t cycles = ipu__cost_ceil((double)bytes, p->model->receive_rate)
                       + ipu__cost_ceil((double)(n - 1) * p->model->message, 1);
        out->cycles   = ipu__cost_larger(out->cycles, cycles);
        out->received = ipu__cost_larger(out->received, bytes);
        out->bytes += bytes;
        out->messages += n;
        ipu__exchange_charge(p, tile, n);
    }
}

static void price_sent(ipu__pricer *p, const ipu__exchange *x, ipu__traffic *out)
{
    for (size_t i = 0; i < x->sends.n;) {
        uint32_t tile  = x->sends.at[i].from;
        int64_t  bytes = 0, n = 0;
        while (i < x->sends.n && x->sends.at[i].from == tile) {
            uint32_t var = x->sends.at[i].var;
            int64_t  sum = 0;
            for (; i < x->sends.n && x->sends.at[i].from == tile && x->sends.at[i].var == var; i++)
                sum += x->sends.at[i].bytes;
            bytes += in_words(p, sum);
            n++;
        }
        out->cycles = ipu__cost_larger(out->cycles, ipu__cost_ceil((double)bytes, p->model->send_rate));
        out->sent   = ipu__cost_larger(out->sent, bytes);
        ipu__exchange_charge(p, tile, n);
    }
}

/* Traffic between IPUs, from flows in which tiles are replaced by IPUs; every element counts once per
 * receiving IPU. */
static bool price_links(ipu__pricer *p, ipu__exchange *x, ipu__traffic *out)
{
    int64_t     n_ipus = p->model->target.n_ipus, per_ipu = p->model->target.tiles_per_ipu;
    ipu__ladder ladder;
    if (n_ipus < 2) return true;
    if (!ipu__ladder_init(&ladder, n_ipus)) return false;
    for (size_t i = 0; i < x->flows.n; i++) {
        x->flows.at[i].to /= (uint32_t)per_ipu;
        x->flows.at[i].from /= (uint32_t)per_ipu;
    }
    bool by_flow = x->flows.n > 0;
    sort(x->flows.at, x->flows.n, sizeof *x->flows.at, by_to);
    merge_received(x);
    for (size_t i = 0; i < (by_flow ? x->flows.n : x->messages.n); i++) {
        const ipu__message *m    = by_flow ? NULL : &x->messages.at[i];
        int64_t             to   = m ? m->to / per_ipu : x->flows.at[i].to;
        int64_t             from = m ? m->from / per_ipu : x->flows.at[i].from;
        int64_t             n    = to == from ? 0 : m ? m->bytes : flow_bytes(p, &x->flows.at[i]);
        ipu__ladder_add(&ladder, from, to, n);
        out->link_bytes += n;
    }
    out->cycles = ipu__cost_larger(out->cycles, ipu__ladder_cycles(&ladder, p->model));
    ipu__ladder_fini(&ladder);
    return true;
}

static void forget(ipu__exchange *x) { x->flows.n = x->messages.n = x->sends.n = 0; }

ipu_status ipu__exchange_price(ipu__pricer *p, ipu__exchange *x, ipu__traffic *out)
{
    *out = (ipu__traffic){0};
    if (!flush_cache(x) || !list_messages(p, x)) return ipu__fail_memory();
    join_messages(x);
    if (!list_sends(p, x)) return ipu__fail_memory();
    price_received(p, x, out);
    price_sent(p, x, out);
    if (!price_links(p, x, out)) return ipu__fail_memory();
    forget(x);
    return IPU_OK;
}

ipu_status ipu__exchange_buffers(ipu__pricer *p, ipu__exchange *x)
{
    if (!sort_flows(p, x, true)) return ipu__fail_memory();
    merge_received(x);
    for (size_t i = 0; i < x->flows.n;) {
        ipu__buffer buffer = {x->flows.at[i].to, 0};
        for (; i < x->flows.n && x->flows.at[i].to == buffer.tile; i++)
            buffer.bytes += flow_bytes(p, &x->flows.at[i]);
        if (!ipu__push(&p->buffers, buffer)) return ipu__fail_memory();
    }
    forget(x);
    return IPU_OK;
}

void ipu__cost_add_traffic(const ipu__pricer *p, ipu__cost_row *row, const ipu__traffic *t)
{
    row->s.cycles.exchange = ipu__cost_add(row->s.cycles.exchange, t->cycles);
    row->s.bytes_exchanged += t->bytes;
    row->s.messages += t->messages;
    row->s.link_bytes += t->link_bytes;
    row->s.bytes_received = ipu__cost_larger(row->s.bytes_received, t->received);
    row->s.bytes_sent     = ipu__cost_larger(row->s.bytes_sent, t->sent);
    if (t->link_bytes > 0) row->s.cycles.sync += ipu__cost_hops(p->model, p->model->target.n_ipus);
}

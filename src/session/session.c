/* Executables of a session: found, compiled, kept. */
#include "session/session.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/host/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "engine/executable.h"
#include "session/cache.h"

/* ---- keeping ---- */

void ipu__compiled_fini(ipu__compiled *c)
{
    ipu_engine_destroy(c->engine);
    ipu_executable_release(c->exe);
    ipu__arguments_fini(&c->arguments);
}

void ipu__session_fini(ipu__session *s)
{
    for (size_t i = 0; i < s->compiled.n; i++) s->def->destroy(s->user, s->compiled.at[i]);
    ipu__array_fini(&s->compiled);
    ipu__session_leave(s);
    s->last = NULL;
}

ipu__compiled *ipu__session_find(ipu__session *s, const ipu__arguments *asked)
{
    ipu__compiled *found = s->last && ipu__arguments_fit(&s->last->arguments, asked) ? s->last : NULL;
    for (size_t i = 0; i < s->compiled.n && !found; i++)
        if (ipu__arguments_fit(&s->compiled.at[i]->arguments, asked)) found = s->compiled.at[i];
    if (found) {
        found->used = ++s->clock;
        s->last     = found;
    }
    return found;
}

static int64_t bytes_of(const ipu__compiled *c)
{
    int64_t planned, unshared;
    ipu_executable_memory(c->exe, &planned, &unshared);
    return planned;
}

static int64_t half_of_the_machine(void)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), each = sysconf(_SC_PAGE_SIZE);
    return pages > 0 && each > 0 ? pages / 2 * each : INT64_MAX;
}

static void drop_oldest(ipu__session *s)
{
    size_t oldest = 0;
    for (size_t i = 1; i < s->compiled.n; i++)
        if (s->compiled.at[i]->used < s->compiled.at[oldest]->used) oldest = i;
    ipu__compiled *c       = s->compiled.at[oldest];
    s->compiled.at[oldest] = s->compiled.at[--s->compiled.n];
    if (s->last == c) s->last = NULL;
    s->def->destroy(s->user, c);
}

ipu_status ipu__session_keep(ipu__session *s, ipu__compiled *c)
{
    size_t  most       = s->most ? s->most : 1;
    int64_t most_bytes = s->most_bytes ? s->most_bytes : half_of_the_machine(), bytes = 0;
    if (!ipu__reserve(&s->compiled, 1)) return ipu__fail_memory();
    for (size_t i = 0; i < s->compiled.n; i++) bytes += bytes_of(s->compiled.at[i]);
    while (s->compiled.n >= most || (s->compiled.n > 0 && bytes > most_bytes)) {
        drop_oldest(s);
        bytes = 0;
        for (size_t i = 0; i < s->compiled.n; i++) bytes += bytes_of(s->compiled.at[i]);
    }
    s->compiled.at[s->compiled.n++] = c;
    c->used                         = ++s->clock;
    s->last                         = c;
    return IPU_OK;
}

/* ---- compiling ---- */

static ipu_status accept(const ipu__session *s, ipu__compiled *c)
{
    return s->def->accept ? s->def->accept(s->user, c) : IPU_OK;
}

/* NOT_FOUND: the cache does not have it. */
static ipu_status load(const ipu__session *s, ipu__compiled *c)
{
    if (!c->folder) return IPU_NOT_FOUND;
    IPU_TRY(ipu__cache_load(c->folder, &c->key, s->options, &c->exe));
    ipu_status status = accept(s, c);
    c->was_cached     = status == IPU_OK;
    if (status != IPU_INVALID) return status;
    ipu__log(IPU_LOG_WARN, "session", "an executable in the cache is made anew: %s", ipu_message());
    ipu_executable_release(c->exe);
    c->exe = NULL;
    return IPU_NOT_FOUND;
}

ipu_status ipu__session_compile(ipu__session *s, ipu__compiled *c)
{
    double     begin  = ipu__clock_seconds();
    ipu_status status = load(s, c);
    if (status == IPU_NOT_FOUND) {
        status = s->def->compile(s->user, c);
        if (status == IPU_OK) status = accept(s, c);
        if (status == IPU_OK && c->folder) ipu__cache_store(c->folder, &c->key, c->exe);
    }
    c->seconds = ipu__clock_seconds() - begin;
    return status;
}

/* ---- pricing ---- */

static ipu_status price(ipu__session *s, ipu__compiled *c)
{
    ipu_cost *cost;
    IPU_TRY(s->def->price(s->user, c, &cost));
    ipu_cost_get_summary(cost, &c->cost);
    ipu_cost_destroy(cost);
    return IPU_OK;
}

ipu_status ipu__session_price(ipu__session *s, ipu__compiled *c)
{
    if (c->has_cost) return IPU_OK;
    ipu__hash128 key = ipu__hash_more(&c->key, "cost", 4);
    if (!c->folder || !ipu__cache_load_note(c->folder, &key, &c->cost, sizeof c->cost)) {
        IPU_TRY(price(s, c));
        c->cost.chip = NULL; /* an address of this process */
        if (c->folder) ipu__cache_store_note(c->folder, &key, &c->cost, sizeof c->cost);
    }
    c->has_cost = true;
    return IPU_OK;
}

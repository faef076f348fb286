/* Pages of text. */
#include "live/page.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipu/ipuinfo.h"
#include "monitor/monitor_table.h"

void live_page_fini(live_page *page)
{
    free(page->lines);
    *page = (live_page){0};
}

/* If memory runs out, the line is missing. */
static void add(live_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(live_page *page, const char *format, ...)
{
    va_list args;
    char    text[LIVE_LINE];
    if (page->n == page->room) {
        int   room  = page->room ? 2 * page->room : 64;
        void *grown = realloc(page->lines, (size_t)room * sizeof *page->lines);
        if (!grown) return;
        page->lines = grown;
        page->room  = room;
    }
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    harmless_copy(page->lines[page->n++], LIVE_LINE, text);
}

static void put(live_page *page, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put(live_page *page, const char *key, const char *format, ...)
{
    char    value[LIVE_LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    add(page, "%-28s %.*s", key, LIVE_LINE - 40, value);
}

static void begin(live_page *page, live_page_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void begin(live_page *page, live_page_kind kind, const char *format, ...)
{
    va_list args;
    if (page->kind != kind) page->top = 0;
    page->kind = kind;
    page->n    = 0;
    va_start(args, format);
    vsnprintf(page->title, sizeof page->title, format, args);
    va_end(args);
}

void live_page_help(live_page *page)
{
    static const char *const text[] = {
        "Up, Down, Ctrl-P, Ctrl-N   select a row; PgUp, PgDn, Home and End go further",
        "Tab                        the other table: IPUs, processes",
        "s or >, <, F6              sort by the next column, the one before, the next",
        "r                          the other way round",
        "/                          show only rows with this text; Esc: all of them again",
        "a                          all partitions, or the active one",
        "e or Enter                 all that is known of the IPU, or process, that is selected",
        "k or F9                    end the process that is selected, or that holds the IPU; it asks first",
        "p or Space                 stand still; alerts go on",
        "+ and -                    longer, shorter from look to look",
        "h, ? or F1                 this page",
        "q or F10                   end",
        "",
        "STATE   free: nobody is attached; held: a process is, and runs nothing; busy: it runs programs;",
        "        error: the IPU has one that waits for gc-reset",
        "UTIL    share of the last second or so in which programs ran",
        "HISTORY utilisation at the last looks, the newest at the right; blank: nobody was attached",
        "IPUS    ids of the IPUs a process holds; +8: so many beyond those that the partition shows",
        "RUNS/S  programs run; HOST/S bytes from and to the host; both since the last look",
        "CYCLES  by the model of the chip, where programs were compiled with the option `estimate`",
    };
    begin(page, LIVE_PAGE_HELP, "Keys and columns");
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) add(page, "%s", text[i]);
}

/* ---- details ---- */

/* One of the user's own IPUs: its attributes come from the library. */
static bool add_attributes(live_page *page, const live_view *v, const watch_ipu *u)
{
    ipu_info   *info;
    const char *key, *value;
    if (ipu_info_create(v->picture.all ? IPU_INFO_ALL_PARTITIONS : IPU_INFO_ACTIVE_PARTITION, &info)
        != IPU_OK)
        return false;
    for (int i = 0; ipu_info_at(info, u->id, i, &key, &value); i++) put(page, key, "%s", value);
    ipu_info_destroy(info);
    return true;
}

static void add_process(live_page *page, const watch_sample *s, const watch_process *p)
{
    const ipu_device_counters *c    = &p->counters;
    time_t                     when = (time_t)(p->since_ns / 1000000000);
    struct tm                  local;
    char                       text[LIVE_LINE] = "", held[MONITOR_TIME];
    watch_ipus_text(s, p, text, sizeof text);
    monitor_time(p->since_ns, s->time_ns, held);
    put(page, "user process id", "%lld%s", (long long)p->pid, p->pid ? "" : " (of another namespace)");
    put(page, "user name", "%s", p->user);
    put(page, "command", "%s", p->command);
    put(page, "user executable", "%s", p->executable);
    put(page, "holds", "%s", text);
    if (p->device >= 0) put(page, "device id", "%d", p->device);
    if (localtime_r(&when, &local) && strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local))
        put(page, "attached since", "%s, %s", text, held);
    if (c->utilisation >= 0) put(page, "ipu utilisation", "%.2f%%", 100 * c->utilisation);
    if (c->utilisation_session >= 0)
        put(page, "ipu utilisation (session)", "%.2f%%", 100 * c->utilisation_session);
    put(page, "programs run (session)", "%lld", (long long)c->runs);
    put(page, "supersteps (session)", "%lld", (long long)c->supersteps);
    if (c->cycles >= 0) put(page, "modelled cycles (session)", "%lld", (long long)c->cycles);
    put(page, "host bytes (session)", "%lld", (long long)c->host_bytes);
    if (c->tile_bytes >= 0) put(page, "tile memory used (bytes)", "%lld", (long long)c->tile_bytes);
}

/* Another user's: only what the look has shown. */
static void add_seen(live_page *page, const watch_sample *s, const watch_ipu *u)
{
    const watch_partition *p = &s->partitions[u->partition];
    put(page, "id", "%d", u->id);
    put(page, "ipu architecture", "%s", p->arch);
    put(page, "clock", "%.0fMHz", p->clock_hz / 1e6);
    put(page, "board serial number", "%s", u->board);
    put(page, "board type", "%s", u->type);
    put(page, "ipuof host", "%s", u->machine);
    put(page, "board ipu index", "%d", u->number);
    put(page, "ipu error state", "%s", *u->error ? u->error : "no errors");
    if (u->process >= 0) add_process(page, s, &s->processes[u->process]);
}

bool live_page_detail(live_page *page, const live_view *v, char *problem, size_t size)
{
    const watch_sample  *s = &v->picture.sample;
    const watch_ipu     *u = live_view_ipu(v);
    const watch_process *p = live_view_process(v);
    *problem               = 0;
    if (u) {
        const watch_partition *home = &s->partitions[u->partition];
        begin(page, LIVE_PAGE_IPU, "IPU %d of partition %s of %s", u->id, home->title, home->owner);
        if (home->uid != (int64_t)geteuid())
            add_seen(page, s, u);
        else if (!add_attributes(page, v, u))
            snprintf(problem, size, "%s", ipu_message());
    } else if (p) {
        begin(page, LIVE_PAGE_PROCESS, "Process %lld, %s", (long long)p->pid, p->command);
        add_process(page, s, p);
    } else
        snprintf(problem, size, "nothing is selected");
    return !*problem;
}

/* The messages of checking mode: from bytes in memory back to elements of variables and source lines. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/cpu/checking.h"

enum { MOST_FINDINGS = 20 };

/* Finds the source of the byte that a move writes at `to`. Returns false if this move does not write it. */
static bool trace_move(const ipu__moves *moves, const ipu__move *move, ipu__place to, ipu__place *from)
{
    const ipu__stride *loops                 = moves->loops.at + move->first_loop;
    int64_t            index[IPU__MAX_LOOPS] = {0};
    ipu__place         a = move->to, b = move->from;
    for (;;) {
        if (to >= a && to < a + move->unit) {
            *from = b + (to - a);
            return true;
        }
        int k = (int)move->n_loops - 1;
        for (; k >= 0; k--) {
            a += (uint64_t)loops[k].to;
            b += (uint64_t)loops[k].from;
            if (++index[k] < loops[k].count) break;
            a -= (uint64_t)(loops[k].to * loops[k].count);
            b -= (uint64_t)(loops[k].from * loops[k].count);
            index[k] = 0;
        }
        if (k < 0) return false;
    }
}

static ipu__place trace(const ipu_executable *exe, ipu__gathered by, ipu__place place)
{
    ipu__place from = place;
    for (uint32_t m = by.first; m < by.end; m++)
        if (trace_move(&exe->moves, &exe->moves.at.at[m], place, &from)) break;
    return from;
}

static const ipu__check_variable *variable_at(const ipu__check_info *info, ipu__place place)
{
    int64_t offset = ipu__place_offset(place);
    if (ipu__place_space(place) != IPU__SPACE_VARIABLE) return NULL;
    for (size_t i = 0; i < info->variables.n; i++) {
        const ipu__check_variable *v = &info->variables.at[i];
        if (offset >= v->offset && offset < v->offset + v->bytes) return v;
    }
    return NULL;
}

ipu__origin ipu__checking_origin(const ipu__cpu *e, ipu__gathered by, ipu__place place, int64_t unit,
                                 int64_t count)
{
    ipu__place  first  = trace(e->exe, by, place);
    ipu__origin origin = {.variable = variable_at(e->exe->check, first)};
    if (!origin.variable) return origin;
    int64_t n = 1, offset = ipu__place_offset(first) - origin.variable->offset;
    int64_t most = (origin.variable->bytes - offset) / unit;
    while (n < count && n < most
           && trace(e->exe, by, place + (uint64_t)(n * unit)) == first + (uint64_t)(n * unit))
        n++;
    origin.begin = offset / origin.variable->unit;
    origin.end   = origin.begin + n;
    return origin;
}

const char *ipu__checking_origin_text(const ipu__cpu *e, const ipu__origin *origin,
                                      char text[IPU__CHECK_TEXT])
{
    const ipu__check_variable *v = origin->variable;
    char                       where[IPU__EXE_WHERE_BYTES];
    if (!v) return "a constant";
    const char *name = ipu__exe_text(e->exe, v->name);
    ipu__exe_where(e->exe, v->location, where);
    snprintf(text, IPU__CHECK_TEXT, "elements [%lld, %lld) of %s%.300s%s%s%s", (long long)origin->begin,
             (long long)origin->end, *name == '"' ? "variable " : "", name, *where ? " (added at " : "",
             where, *where ? ")" : "");
    return text;
}

void ipu__checking_find(ipu__cpu *e, const char *who, const char *format, ...)
{
    ipu__checking *c = e->check;
    char           text[2 * IPU__CHECK_TEXT];
    va_list        args;
    if (c->n_findings++ >= MOST_FINDINGS) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ipu__text_add(&c->findings, "%s%s: %s", c->n_findings > 1 ? "\n" : "", who, text);
}

/* Of `count` elements, how many from `first` on are undefined; *more: whether there are others later. */
static int64_t count_undefined(const char *shadow, int64_t unit, int64_t first, int64_t count, int64_t *more)
{
    int64_t n = 0;
    *more     = 0;
    for (int64_t i = first; i < count; i++) {
        if (memchr(shadow + i * unit, 0, (size_t)unit) == NULL) continue;
        if (i == first + n)
            n++;
        else
            ++*more;
    }
    return n;
}

bool ipu__checking_defined(ipu__cpu *e, const char *who, int64_t replica, ipu__gathered by, ipu__place place,
                           int64_t unit, int64_t count)
{
    const char *shadow = ipu__place_pointer(place, e->check->bases[replica]);
    const char *hole   = count > 0 ? memchr(shadow, 0, (size_t)(count * unit)) : NULL;
    char        text[IPU__CHECK_TEXT], others[64] = "";
    if (!hole) return true;
    int64_t     more, first = (hole - shadow) / unit;
    int64_t     n      = count_undefined(shadow, unit, first, count, &more);
    ipu__origin origin = ipu__checking_origin(e, by, place + (uint64_t)(first * unit), unit, n);
    more += n - (origin.end - origin.begin);
    if (more > 0) snprintf(others, sizeof others, ", and %lld more such elements", (long long)more);
    ipu__checking_find(e, who, "reads %s, which nothing has written%s: write or initialise them first",
                       ipu__checking_origin_text(e, &origin, text), others);
    return false;
}

ipu_status ipu__checking_conclude(ipu__cpu *e, ipu_status status)
{
    ipu__checking *c = e->check;
    if (c->n_findings == 0) return IPU_OK;
    if (c->findings.failed)
        status = ipu__fail_memory();
    else if (c->n_findings > MOST_FINDINGS)
        ipu__fail(status, "%s\nand %d more findings", c->findings.at, c->n_findings - MOST_FINDINGS);
    else
        ipu__fail(status, "%s", c->findings.at);
    ipu__text_fini(&c->findings);
    c->n_findings = 0;
    return status;
}

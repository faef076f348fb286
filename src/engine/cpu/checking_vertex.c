/* Runs vertices on guarded copies of what they are connected to.
 *
 * The arena holds a copy of every run, surrounded by red zones; zones and outputs are filled with a pattern
 * that reveals afterwards what the body has written. The pattern avoids the bytes 0 and 1. An output
 * element that still has the pattern was either not written or happened to get that value: calling the body
 * again with the inverted pattern decides which.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/cpu/checking.h"
#include "engine/cpu/fault.h"
#include "engine/cpu/move.h"
#include "engine/memory.h"

enum { ZONE = 256 }; /* bytes on either side: a stray write beyond hits a neighbour or goes unnoticed */

/* Rows before and after a list of rows point to inaccessible memory: if a body faults there, the address
 * identifies the list and the row. Rows are far enough apart that all of a row's elements identify it. */
enum { BEYOND = 8, BEYOND_BYTES = 1 << 16, FENCE_BYTES = 2 * BEYOND * BEYOND_BYTES };

typedef struct vertex {
    ipu__cpu               *e;
    const ipu__exe_set     *set;
    const ipu__exe_group   *group;
    const ipu__exe_codelet *codelet;
    const ipu__check_field *fields;
    uint32_t                n_fields, index; /* in its group */
    int64_t                 replica;
    ipu__gathered           by;
} vertex;

static uint32_t number_of(const vertex *v) { return v->group->first + v->index; }

static size_t bytes_of(const ipu__guard *g) { return (size_t)(g->count * g->field->unit); }

static bool is_written(const ipu__guard *g)
{
    return g->field->direction == IPU_DIRECTION_OUT || g->field->direction == IPU_DIRECTION_INOUT;
}

static char *memory_of(const vertex *v, const ipu__guard *g)
{
    return ipu__cpu_pointer(v->e, v->replica, g->place);
}

enum { PERIOD = 16 };

static char pattern(size_t at, int attempt)
{
    unsigned byte = 0xa5u ^ (unsigned)(at * 0x14u & 0x3cu);
    return (char)(attempt ? ~byte : byte);
}

/* ---- reports ---- */

/* `field` is NULL for the vertex alone. */
static const char *who(const vertex *v, const ipu__check_field *field, char text[IPU__CHECK_TEXT])
{
    const ipu_executable  *exe    = v->e->exe;
    const ipu__exe_vertex *known  = &exe->vertices.at[number_of(v)];
    char                   on[40] = "", where[IPU__EXE_WHERE_BYTES];
    if (v->e->replication > 1) snprintf(on, sizeof on, " of replica %lld", (long long)v->replica);
    ipu__exe_where(exe, known->location, where);
    int n = snprintf(text, IPU__CHECK_TEXT, "%s%svertex \"%.100s\" of compute set \"%.100s\" on tile %u%s",
                     where, *where ? ": " : "", ipu__exe_text(exe, v->codelet->name),
                     ipu__exe_text(exe, v->set->name), known->tile, on);
    if (field && n < IPU__CHECK_TEXT)
        snprintf(text + n, IPU__CHECK_TEXT - (size_t)n, ": field \"%.100s\"",
                 ipu__exe_text(exe, field->name));
    return text;
}

/* Elements first <= i < end of a run. */
static const char *elements(const vertex *v, const ipu__guard *g, int64_t first, int64_t end,
                            char text[IPU__CHECK_TEXT])
{
    if (g->field->direction == IPU_DIRECTION_STATE) {
        snprintf(text, IPU__CHECK_TEXT, "elements [%lld, %lld) of its values", (long long)first,
                 (long long)end);
        return text;
    }
    ipu__origin origin = ipu__checking_origin(v->e, v->by, g->place + (uint64_t)(first * g->field->unit),
                                              g->field->unit, end - first);
    return ipu__checking_origin_text(v->e, &origin, text);
}

static void report_outside(const vertex *v, const ipu__guard *g, int64_t n, bool past)
{
    char    name[IPU__CHECK_TEXT], text[IPU__CHECK_TEXT] = "no element";
    int64_t last = past ? g->count - 1 : 0;
    ipu__checking_find(v->e, who(v, g->field, name),
                       "writes outside: %lld element%s %s the %lld it is connected to, next to %s",
                       (long long)n, n == 1 ? "" : "s", past ? "past the end of" : "before the beginning of",
                       (long long)g->count, g->count > 0 ? elements(v, g, last, last + 1, text) : text);
}

/* ---- collecting what a vertex is connected to ---- */

static bool add_guard(ipu__checking *c, const ipu__check_field *field, ipu__place place, int64_t count,
                      size_t *at)
{
    ipu__guard guard = {field, place, count, *at + ZONE};
    *at              = (size_t)ipu__memory_align((int64_t)(guard.at + bytes_of(&guard))) + ZONE;
    return ipu__push(&c->guards, guard);
}

static bool add_list(const vertex *v, const ipu__check_field *field, const ipu__exe_span *list, size_t *at)
{
    const ipu__exe_span *spans = v->e->exe->spans.at;
    size_t               first = (size_t)ipu__place_offset(list->place) / sizeof *spans;
    for (size_t i = 0; i < list->size; i++)
        if (!add_guard(v->e->check, field, spans[first + i].place, (int64_t)spans[first + i].size, at))
            return false;
    size_t n = list->size + (size_t)2 * BEYOND;
    if (!ipu__reserve(&v->e->check->spans, n)) return false;
    v->e->check->spans.n += n;
    v->e->check->n_lists++;
    return true;
}

static bool is_value(const ipu__check_field *f)
{
    return f->direction == IPU_DIRECTION_STATE && f->shape == IPU_FIELD_SHAPE_SCALAR;
}

static bool collect(const vertex *v, size_t *bytes)
{
    ipu__checking *c      = v->e->check;
    const char    *record = v->e->exe->records.at + v->group->records + v->index * (size_t)v->codelet->bytes;
    size_t         length = c->info->first_length[number_of(v)];
    bool           ok     = true;
    *bytes                = ZONE; /* empty fields point into the zone */
    c->guards.n = c->spans.n = c->n_lists = 0;
    for (uint32_t i = 0; ok && i < v->n_fields; i++) {
        const ipu__check_field *f = &v->fields[i];
        bool          has_size    = f->shape == IPU_FIELD_SHAPE_VECTOR || f->shape == IPU_FIELD_SHAPE_VECTORS;
        ipu__exe_span span        = {.size = 1};
        if (is_value(f)) continue;
        memcpy(&span, record + f->offset, has_size ? sizeof span : sizeof span.place);
        if (f->shape == IPU_FIELD_SHAPE_POINTER) span.size = (size_t)c->info->lengths.at[length++];
        ok = f->shape == IPU_FIELD_SHAPE_VECTORS ? add_list(v, f, &span, bytes)
                                                 : add_guard(c, f, span.place, (int64_t)span.size, bytes);
    }
    return ok;
}

static bool reserve_fence(ipu__checking *c, size_t bytes)
{
    if (bytes <= c->fence_bytes) return true;
    char *memory = ipu__alloc_pages(bytes);
    if (!memory) return false;
    ipu__free_pages(c->fence, c->fence_bytes);
    c->fence       = memory;
    c->fence_bytes = bytes;
    return mprotect(memory, bytes, PROT_NONE) == 0;
}

static bool reserve(ipu__checking *c, size_t bytes, size_t record_bytes)
{
    if (!ipu__reserve(&c->record, record_bytes) || !ipu__reserve(&c->given, record_bytes)) return false;
    if (!reserve_fence(c, c->n_lists * FENCE_BYTES)) return false;
    if (bytes <= c->arena_bytes) return true;
    char *memory = ipu__alloc_pages(6 * bytes); /* room for twice the present need, times three arrays */
    if (!memory) return false;
    ipu__free_pages(c->arena, 3 * c->arena_bytes);
    c->arena_bytes = 2 * bytes;
    c->arena       = memory;
    c->before      = memory + c->arena_bytes;
    c->writer      = memory + 2 * c->arena_bytes;
    return true;
}

/* ---- calling the body ---- */

static void fill_arena(const vertex *v, size_t bytes, int attempt)
{
    ipu__checking *c = v->e->check;
    for (size_t i = 0; i < PERIOD; i++) c->arena[i] = pattern(i, attempt);
    for (size_t n = PERIOD; n < bytes; n *= 2) memcpy(c->arena + n, c->arena, n < bytes - n ? n : bytes - n);
    for (size_t i = 0; i < c->guards.n; i++) {
        const ipu__guard *g = &c->guards.at[i];
        if (g->field->direction != IPU_DIRECTION_OUT && g->count > 0)
            memcpy(c->arena + g->at, memory_of(v, g), bytes_of(g));
    }
}

/* Nonexistent rows of list `list`: `i` counts those before it, then those after it. Each claims one element, so
 * that a loop over its elements touches one. */
static ipu_span row_beyond(const ipu__checking *c, size_t list, size_t i)
{
    return (ipu_span){c->fence + list * FENCE_BYTES + i * BEYOND_BYTES + BEYOND_BYTES / 2, 1};
}

/* A list of `n` rows and its surroundings; returns its first row. */
static ipu_span *fill_list(const ipu__checking *c, size_t list, const ipu__guard *rows, size_t n,
                           ipu_span *span)
{
    for (size_t i = 0; i < BEYOND; i++) {
        span[i]              = row_beyond(c, list, i);
        span[BEYOND + n + i] = row_beyond(c, list, BEYOND + i);
    }
    for (size_t i = 0; i < n; i++)
        span[BEYOND + i] = (ipu_span){c->arena + rows[i].at, (size_t)rows[i].count};
    return span + BEYOND;
}

static size_t rows_of(const vertex *v, const ipu__check_field *f)
{
    size_t n;
    memcpy(&n, v->e->check->record.at + f->offset + offsetof(ipu_span, size), sizeof n);
    return n;
}

/* The struct passed to the body, with pointers to the copies. */
static void fill_record(const vertex *v)
{
    ipu__checking    *c     = v->e->check;
    size_t            bytes = v->codelet->bytes;
    const ipu__guard *g     = c->guards.at;
    ipu_span         *span  = c->spans.at;
    size_t            list  = 0;
    memcpy(c->record.at,
           v->e->records + (size_t)v->replica * v->e->records_stride + v->group->records + v->index * bytes,
           bytes);
    for (uint32_t i = 0; i < v->n_fields; i++) {
        const ipu__check_field *f = &v->fields[i];
        if (is_value(f)) continue;
        void *pointer;
        if (f->shape == IPU_FIELD_SHAPE_VECTORS) {
            size_t n = rows_of(v, f);
            pointer  = fill_list(c, list++, g, n, span);
            span += n + (size_t)2 * BEYOND;
            g += n;
        } else {
            pointer = c->arena + g++->at;
        }
        memcpy(c->record.at + f->offset, &pointer, sizeof pointer);
    }
    memcpy(c->given.at, c->record.at, bytes);
}

/* Attributes changes since `before` to this worker; two workers that write one element are a finding. */
static void note_worker(const vertex *v, const ipu__guard *g, unsigned worker)
{
    ipu__checking *c    = v->e->check;
    size_t         unit = (size_t)g->field->unit;
    char           name[IPU__CHECK_TEXT], text[IPU__CHECK_TEXT];
    bool           told = false;
    for (int64_t i = 0; i < g->count; i++) {
        size_t at = g->at + (size_t)i * unit;
        if (memcmp(c->arena + at, c->before + at, unit) == 0) continue;
        unsigned other = (unsigned char)c->writer[at];
        c->writer[at]  = (char)(worker + 1);
        if (other == 0 || told) continue;
        told = true;
        ipu__checking_find(v->e, who(v, g->field, name), "workers %u and %u both write %s, a race", other - 1,
                           worker, elements(v, g, i, i + 1, text));
    }
}

static bool call(const vertex *v, size_t bytes, int attempt, ipu__fault *fault)
{
    ipu__checking *c       = v->e->check;
    unsigned       workers = v->e->exe->n_workers;
    bool           ok      = true;
    fill_arena(v, bytes, attempt);
    fill_record(v);
    if (!v->codelet->multi) return ipu__fault_call(v->codelet->compute, c->record.at, 0, workers, fault);
    memset(c->writer, 0, bytes);
    for (unsigned worker = 0; worker < workers; worker++) {
        if (attempt == 0) memcpy(c->before, c->arena, bytes);
        ok &= ipu__fault_call(v->codelet->compute, c->record.at, worker, workers, fault);
        if (fault->signal) return false;
        for (size_t i = 0; attempt == 0 && i < c->guards.n; i++)
            if (is_written(&c->guards.at[i])) note_worker(v, &c->guards.at[i], worker);
    }
    return ok;
}

/* ---- looking at what it did ---- */

/* The list whose fence contains `address`, with its number of rows and the row that was meant; NULL if
 * none. */
static const ipu__check_field *find_list(const vertex *v, const void *address, size_t *n, long long *row)
{
    const ipu__checking *c    = v->e->check;
    uintptr_t            at   = (uintptr_t)address - (uintptr_t)c->fence;
    size_t               list = at / FENCE_BYTES;
    if (at >= c->n_lists * FENCE_BYTES) return NULL;
    for (uint32_t i = 0; i < v->n_fields; i++) {
        if (v->fields[i].shape != IPU_FIELD_SHAPE_VECTORS || list-- > 0) continue;
        *n   = rows_of(v, &v->fields[i]);
        *row = (long long)(at % FENCE_BYTES / BEYOND_BYTES) - BEYOND;
        if (*row >= 0) *row += (long long)*n;
        return &v->fields[i];
    }
    return NULL;
}

static void report_fault(const vertex *v, const ipu__fault *fault)
{
    char                    name[IPU__CHECK_TEXT];
    size_t                  n;
    long long               row;
    const ipu__check_field *field = find_list(v, fault->address, &n, &row);
    if (fault->signal == SIGFPE)
        ipu__checking_find(v->e, who(v, NULL, name),
                           "divides a whole number by zero, or overflows in a division");
    else if (field)
        ipu__checking_find(v->e, who(v, field, name),
                           "touches row %lld: it is connected to %zu row%s, counted from 0", row, n,
                           n == 1 ? "" : "s");
    else
        ipu__checking_find(v->e, who(v, NULL, name), "touches memory at %p, which is none of its fields",
                           fault->address);
}

static bool is_pattern(const char *arena, size_t at, size_t bytes, int attempt)
{
    for (size_t i = at; i < at + (bytes < PERIOD ? bytes : PERIOD); i++)
        if (arena[i] != pattern(i, attempt)) return false;
    return bytes <= PERIOD || memcmp(arena + at, arena + at + PERIOD, bytes - PERIOD) == 0;
}

static void check_zones(const vertex *v, const ipu__guard *g)
{
    const char *arena = v->e->check->arena;
    size_t      end = g->at + bytes_of(g), unit = (size_t)g->field->unit;
    size_t      low = g->at - ZONE, high = (size_t)ipu__memory_align((int64_t)end) + ZONE;
    if (is_pattern(arena, low, ZONE, 0) && is_pattern(arena, end, high - end, 0)) return;
    while (low < g->at && arena[low] == pattern(low, 0)) low++;
    while (high > end && arena[high - 1] == pattern(high - 1, 0)) high--;
    if (low < g->at) report_outside(v, g, (int64_t)((g->at - low + unit - 1) / unit), false);
    if (high > end) report_outside(v, g, (int64_t)((high - end + unit - 1) / unit), true);
}

/* An in field or a state vector must be unchanged. */
static void check_unchanged(const vertex *v, const ipu__guard *g)
{
    const char *now = v->e->check->arena + g->at, *was = memory_of(v, g);
    size_t      unit = (size_t)g->field->unit;
    char        name[IPU__CHECK_TEXT], text[IPU__CHECK_TEXT];
    int64_t     first = 0, end;
    if (g->count == 0 || memcmp(now, was, bytes_of(g)) == 0) return;
    while (first < g->count && memcmp(now + first * g->field->unit, was + first * g->field->unit, unit) == 0)
        first++;
    for (end = first; end < g->count; end++)
        if (memcmp(now + end * g->field->unit, was + end * g->field->unit, unit) == 0) break;
    bool is_state = g->field->direction == IPU_DIRECTION_STATE;
    ipu__checking_find(v->e, who(v, g->field, name), "writes to %s field, at %s: %s",
                       is_state ? "a state" : "an in", elements(v, g, first, end, text),
                       is_state ? "state is set when the graph is built" : "make it inout or out");
}

/* A body must not change the struct itself: the change would persist into the next run. */
static void check_record(const vertex *v)
{
    const ipu__checking *c = v->e->check;
    char                 name[IPU__CHECK_TEXT];
    for (uint32_t i = 0; i < v->n_fields; i++) {
        const ipu__check_field *f = &v->fields[i];
        bool   sized              = f->shape == IPU_FIELD_SHAPE_VECTOR || f->shape == IPU_FIELD_SHAPE_VECTORS;
        size_t bytes              = is_value(f) ? (size_t)f->unit : sized ? sizeof(ipu_span) : sizeof(void *);
        if (memcmp(c->record.at + f->offset, c->given.at + f->offset, bytes) != 0)
            ipu__checking_find(v->e, who(v, f, name),
                               "the body changes it in the vertex itself: copy it to a local variable");
    }
}

/* Whether some output element may not have been written. */
static bool is_partial(const ipu__checking *c)
{
    for (size_t i = 0; i < c->guards.n; i++) {
        const ipu__guard *g    = &c->guards.at[i];
        size_t            unit = (size_t)g->field->unit;
        for (int64_t k = 0; g->field->direction == IPU_DIRECTION_OUT && k < g->count; k++)
            if (is_pattern(c->arena, g->at + (size_t)k * unit, unit, 0)) return true;
    }
    return false;
}

/* Makes what was written the vertex's result; `first` has the values from the first call. */
static void commit(const vertex *v, const char *first, bool partial)
{
    const ipu__checking *c = v->e->check;
    for (size_t i = 0; i < c->guards.n; i++) {
        const ipu__guard *g    = &c->guards.at[i];
        size_t            unit = (size_t)g->field->unit;
        if (!is_written(g)) continue;
        char *to = memory_of(v, g), *shadow = ipu__place_pointer(g->place, c->bases[v->replica]);
        bool  may_lack = partial && g->field->direction == IPU_DIRECTION_OUT;
        for (int64_t k = 0; k < g->count; k++) {
            size_t at = g->at + (size_t)k * unit;
            if (may_lack && is_pattern(first, at, unit, 0) && is_pattern(c->arena, at, unit, 1)) continue;
            memcpy(to + (size_t)k * unit, first + at, unit);
            memset(shadow + (size_t)k * unit, 1, unit);
        }
    }
}

static bool inputs_defined(const vertex *v)
{
    const ipu__checking *c  = v->e->check;
    bool                 ok = true;
    char                 name[IPU__CHECK_TEXT];
    for (size_t i = 0; i < c->guards.n; i++) {
        const ipu__guard *g = &c->guards.at[i];
        if (g->field->direction == IPU_DIRECTION_IN || g->field->direction == IPU_DIRECTION_INOUT)
            ok &= !memchr(ipu__place_pointer(g->place, c->bases[v->replica]), 0, bytes_of(g))
               || ipu__checking_defined(v->e, who(v, g->field, name), v->replica, v->by, g->place,
                                        g->field->unit, g->count);
    }
    return ok;
}

/* The body was aborted midway, possibly while holding a lock, so nothing else may run. */
static bool note_fault(const vertex *v, const ipu__fault *fault)
{
    report_fault(v, fault);
    v->e->check->was_left = true;
    return true;
}

static void note_failure(const vertex *v)
{
    ipu__cpu          *e       = v->e;
    unsigned long long failure = (unsigned long long)e->exe->vertices.at[number_of(v)].number << 32
                               | (unsigned long long)v->replica;
    if (failure < atomic_load(&e->runners->failed)) atomic_store(&e->runners->failed, failure);
}

static bool run(const vertex *v)
{
    ipu__checking *c = v->e->check;
    size_t         bytes;
    ipu__fault     fault = {0};
    if (!collect(v, &bytes) || !reserve(c, bytes, v->codelet->bytes)) return false;
    int before = c->n_findings;
    if (!inputs_defined(v)) return true;
    bool ok = call(v, bytes, 0, &fault);
    if (fault.signal) return note_fault(v, &fault);
    for (size_t i = 0; i < c->guards.n; i++) {
        check_zones(v, &c->guards.at[i]);
        if (!is_written(&c->guards.at[i])) check_unchanged(v, &c->guards.at[i]);
    }
    check_record(v);
    if (c->n_findings > before) return true;
    bool partial = is_partial(c);
    if (partial) {
        memcpy(c->before, c->arena, bytes);
        call(v, bytes, 1, &fault);
        if (fault.signal) return note_fault(v, &fault);
    }
    commit(v, partial ? c->before : c->arena, partial);
    if (!ok) note_failure(v);
    return true;
}

/* ---- a compute set ---- */

static bool run_gathered(vertex *v)
{
    ipu__cpu *e = v->e;
    if (v->group->first_moves == IPU__NONE) return run(v);
    const ipu__exe_vertex_moves *moves = &e->exe->vertex_moves.at[v->group->first_moves + v->index];
    char *const                 *bases = e->runners->bases[v->replica];
    v->by                              = (ipu__gathered){moves->gather, moves->scatter};
    for (uint32_t m = moves->gather; m < moves->scatter; m++) ipu__move_run(&e->exe->moves, m, bases, bases);
    ipu__checking_move(e, moves->gather, moves->scatter, v->replica, v->replica);
    if (!run(v)) return false;
    for (uint32_t m = moves->scatter; m < moves->end; m++) ipu__move_run(&e->exe->moves, m, bases, bases);
    ipu__checking_move(e, moves->scatter, moves->end, v->replica, v->replica);
    return true;
}

static bool run_set(ipu__cpu *e, const ipu__exe_set *set)
{
    const ipu_executable *exe = e->exe;
    for (int64_t r = 0; r < e->replication; r++)
        for (uint32_t k = set->first_group; k < set->first_group + set->n_groups; k++) {
            const ipu__exe_group     *group = &exe->groups.at[k];
            const ipu__check_codelet *known = &exe->check->codelets.at[group->codelet];
            for (uint32_t n = 0; n < group->n; n++) {
                vertex v = {.e        = e,
                            .set      = set,
                            .group    = group,
                            .codelet  = &exe->codelets.at[group->codelet],
                            .fields   = exe->check->fields.at + known->first,
                            .n_fields = known->n,
                            .index    = n,
                            .replica  = r};
                if (!run_gathered(&v)) return false;
                if (e->check->was_left) return true;
            }
        }
    return true;
}

ipu_status ipu__checking_execute(ipu__cpu *e, const ipu__instruction *i)
{
    e->check->was_left = false;
    ipu__fault_begin();
    bool ok = run_set(e, &e->exe->sets.at[i->a]);
    ipu__fault_end();
    return ok ? ipu__checking_conclude(e, IPU_ABORTED) : ipu__fail_memory();
}

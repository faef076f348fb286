/* Checking an executable: data. Instructions are checked by validate_code.c.
 *
 * Everything is visited a bounded number of times: what the compiler lays out in order must be in that
 * order, so that a file cannot cause the same thing to be checked over and over.
 */
#include "engine/file/validate.h"

#include <string.h>

#include "engine/memory.h"
#include "graph/graph.h"

#define MOST_BYTES ((int64_t)1 << 55) /* for all replicas together; the range of a place */
#define REQUIRE IPU__REQUIRE

enum { MOST_WORKERS = 1 << 16, MOST_REPLICAS = 1 << 16, MOST_IPUS = 1 << 16, RECORD_ALIGN = 16 };

ipu_status ipu__invalid(const char *what, size_t i, const char *why)
{
    return ipu__fail(IPU_INVALID, "the executable contradicts itself: %s %zu: %s", what, i, why);
}

/* ---- pieces ---- */

static int64_t space_bytes(const ipu_executable *exe, ipu__place place)
{
    switch (ipu__place_space(place)) {
    case IPU__SPACE_VARIABLE: return exe->variable_bytes;
    case IPU__SPACE_CONSTANT: return (int64_t)exe->constant_bytes;
    case IPU__SPACE_GATHER: return exe->gather_bytes;
    default: return -1;
    }
}

bool ipu__valid_place(const ipu_executable *exe, ipu__place place, int64_t bytes, bool written)
{
    int64_t all = space_bytes(exe, place), at = ipu__place_offset(place);
    if (bytes < 0 || at > all || bytes > all - at) return false;
    return !written || bytes == 0 || ipu__place_space(place) != IPU__SPACE_CONSTANT;
}

bool ipu__valid_value(ipu_type type, const ipu_shape *shape, int64_t *bytes)
{
    int64_t n;
    if ((unsigned)type >= IPU_N_TYPES || !ipu__shape_count(shape, &n)) return false;
    return !__builtin_mul_overflow(n, (int64_t)ipu_type_size(type), bytes);
}

bool ipu__valid_text(const ipu_executable *exe, uint32_t text) { return text < exe->strings.n; }

bool ipu__valid_batch(const ipu__validator *v, uint32_t batch)
{
    return batch < v->exe->batches.n && v->batches[batch].host_bytes == 0;
}

/* ---- sizes ---- */

/* `n` items of `bytes` per replica. */
static bool fits(const ipu_executable *exe, uint64_t n, uint64_t bytes)
{
    uint64_t all;
    return !__builtin_mul_overflow(n, bytes, &all)
        && !__builtin_mul_overflow(all, (uint64_t)exe->replication, &all) && all <= (uint64_t)MOST_BYTES;
}

static ipu_status check_numbers(const ipu_executable *exe)
{
    REQUIRE(exe->replication >= 1 && exe->replication <= MOST_REPLICAS, "number", 0, "replicas");
    REQUIRE(exe->n_counters <= exe->code.n, "number", 2, "loops");
    REQUIRE(exe->start == IPU__NONE || (exe->programs.n > 0 && exe->start == exe->programs.n - 1), "number",
            6, "the program to start with");
    REQUIRE(exe->n_workers >= 1 && exe->n_workers <= MOST_WORKERS, "number", 1, "workers");
    REQUIRE(exe->n_ipus >= 1 && exe->n_ipus <= MOST_IPUS, "number", 7, "IPUs");
    REQUIRE(exe->tile_bytes >= -1, "number", 8, "bytes on tiles");
    const int64_t bytes[] = {exe->variable_bytes, exe->gather_bytes, exe->staging_bytes, exe->unshared_bytes};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        REQUIRE(bytes[i] >= 0 && fits(exe, 1, (uint64_t)bytes[i]), "size", i, "too large");
    REQUIRE(fits(exe, exe->records.n, 2) && fits(exe, exe->spans.n, 64) && fits(exe, exe->streams.n, 256)
                && fits(exe, exe->kernels.n, 16 * IPU__MAX_OPERANDS),
            "size", 4, "too large");
    REQUIRE(exe->n_buffers <= exe->kernels.n * IPU__MAX_OPERANDS, "number", 9, "buffers");
    REQUIRE(exe->constant_bytes >= IPU__MEMORY_ALIGN, "constant", 0, "missing");
    return IPU_OK;
}

static ipu_status check_texts(const ipu_executable *exe)
{
    REQUIRE(exe->strings.n > 0 && exe->strings.n < IPU__NONE && exe->strings.at[0] == 0
                && exe->strings.at[exe->strings.n - 1] == 0,
            "string", 0, "does not end");
    REQUIRE(ipu__valid_text(exe, exe->chip), "chip", 0, "its name is out of range");
    REQUIRE(exe->locations.n > 0 && exe->locations.n < IPU__NONE, "location", 0, "missing");
    for (size_t i = 0; i < exe->locations.n; i++)
        REQUIRE(ipu__valid_text(exe, exe->locations.at[i].file), "location", i, "its file is out of range");
    for (size_t i = 0; i < exe->sources.n; i++) {
        const ipu__exe_source *s = &exe->sources.at[i];
        REQUIRE(ipu__valid_text(exe, s->name) && ipu__valid_text(exe, s->text)
                    && ipu__valid_text(exe, s->flags),
                "source", i, "its text is out of range");
    }
    return IPU_OK;
}

/* ---- moves ---- */

/* Bytes [low, high) around the place that loops can reach on one side. */
static bool reach(const ipu__stride *loops, uint32_t n, bool is_to, int64_t *low, int64_t *high)
{
    for (uint32_t i = 0; i < n; i++) {
        int64_t span, *end;
        if (__builtin_mul_overflow(loops[i].count - 1, is_to ? loops[i].to : loops[i].from, &span))
            return false;
        end = span < 0 ? low : high;
        if (__builtin_add_overflow(*end, span, end)) return false;
    }
    return true;
}

static bool valid_side(const ipu_executable *exe, const ipu__move *move, bool is_to, ipu__batch_use *use)
{
    ipu__place         place = is_to ? move->to : move->from;
    int64_t            low = 0, high = move->unit, bytes;
    const ipu__stride *loops = move->n_loops ? exe->moves.loops.at + move->first_loop : NULL;
    if (!reach(loops, move->n_loops, is_to, &low, &high)) return false;
    int64_t at = ipu__place_offset(place);
    if (at + low < 0 || __builtin_sub_overflow(high, low, &bytes) || __builtin_add_overflow(at, high, &high))
        return false;
    ipu__space space = ipu__place_space(place);
    if (space != IPU__SPACE_HOST)
        return space != IPU__SPACE_SPANS
            && ipu__valid_place(exe, ipu__place_make(space, at + low), bytes, is_to);
    if (high > use->host_bytes) use->host_bytes = high;
    use->to_host |= is_to;
    use->from_host |= !is_to;
    return true;
}

static ipu_status check_move(const ipu_executable *exe, size_t i, ipu__batch_use *use)
{
    const ipu__move *move = &exe->moves.at.at[i];
    REQUIRE(move->unit > 0 && move->n_loops <= IPU__MAX_LOOPS
                && ipu__in_range(move->first_loop, move->n_loops, exe->moves.loops.n),
            "move", i, "its loops are out of range");
    int64_t bytes = move->unit;
    for (uint32_t k = 0; k < move->n_loops; k++) {
        const ipu__stride *loop = &exe->moves.loops.at[move->first_loop + k];
        REQUIRE(loop->count >= 1 && !__builtin_mul_overflow(bytes, loop->count, &bytes), "move", i,
                "a loop has no turns or too many");
    }
    REQUIRE(bytes == move->bytes && bytes <= IPU__MOVE_BYTES, "move", i, "its size is wrong");
    REQUIRE(valid_side(exe, move, true, use), "move", i, "writes where it may not");
    REQUIRE(valid_side(exe, move, false, use), "move", i, "reads where it may not");
    return IPU_OK;
}

/* Moves between batches are those of vertices: none of them may involve the host. */
static ipu_status check_moves(ipu__validator *v)
{
    const ipu_executable *exe  = v->exe;
    ipu__batch_use        none = {0};
    size_t                at   = 0;
    REQUIRE(exe->moves.at.n < IPU__NONE && exe->batches.n < IPU__NONE, "move", 0, "too many");
    for (size_t i = 0; i < exe->batches.n; i++) {
        const ipu__exe_batch *batch = &exe->batches.at[i];
        int64_t               bytes = 0;
        REQUIRE(batch->first >= at && ipu__in_range(batch->first, batch->n, exe->moves.at.n), "batch", i,
                "its moves are out of range or order");
        for (; at < batch->first; at++) IPU_TRY(check_move(exe, at, &none));
        for (; at < (size_t)batch->first + batch->n; at++) {
            IPU_TRY(check_move(exe, at, &v->batches[i]));
            bytes += exe->moves.at.at[at].bytes;
        }
        REQUIRE(batch->bytes == bytes && fits(exe, 1, (uint64_t)bytes), "batch", i, "its size is wrong");
    }
    for (; at < exe->moves.at.n; at++) IPU_TRY(check_move(exe, at, &none));
    return none.host_bytes == 0 ? IPU_OK : ipu__invalid("move", 0, "meets the host outside of a batch");
}

/* ---- codelets and vertices ---- */

/* Bytes of a field in the struct. */
static size_t field_bytes(const ipu__exe_signature *s)
{
    ipu_field_shape shape = ipu__field_shape((ipu_field_form)s->form);
    if (shape == IPU_FIELD_SHAPE_VECTOR || shape == IPU_FIELD_SHAPE_VECTORS) return sizeof(ipu_span);
    return s->form == IPU_FIELD_STATE ? ipu_type_size((ipu_type)s->type) : sizeof(void *);
}

static ipu_status check_codelet(const ipu_executable *exe, size_t i)
{
    const ipu__exe_codelet *c = &exe->codelets.at[i];
    uint32_t                n = 0;
    REQUIRE(ipu__valid_text(exe, c->name) && (c->source == IPU__NONE || c->source < exe->sources.n)
                && ipu__in_range(c->first_field, c->n_fields, exe->fields.n)
                && ipu__in_range(c->first_signature, c->n_signatures, exe->signatures.n),
            "codelet", i, "its fields are out of range");
    for (uint32_t k = 0; k < c->n_signatures; k++) {
        const ipu__exe_signature *s = &exe->signatures.at[c->first_signature + k];
        REQUIRE(ipu__valid_text(exe, s->name) && s->form < IPU_N_FIELD_FORMS && s->type < IPU_N_TYPES
                    && ipu__in_range(s->offset, field_bytes(s), c->bytes),
                "codelet", i, "a field lies outside of its struct");
        if (s->form == IPU_FIELD_STATE) continue;
        REQUIRE(n < c->n_fields && exe->fields.at[c->first_field + n] == s->offset, "codelet", i,
                "its pointers are not its fields");
        n++;
    }
    REQUIRE(n == c->n_fields, "codelet", i, "its pointers are not its fields");
    return IPU_OK;
}

/* `size` elements of the field at a place. Outputs must not be constants, except for the empty place. */
static bool valid_run(const ipu_executable *exe, const ipu__exe_signature *s, ipu__place place, uint64_t size)
{
    ipu_field_direction direction = ipu__field_direction((ipu_field_form)s->form);
    bool                written   = direction == IPU_DIRECTION_OUT || direction == IPU_DIRECTION_INOUT;
    size_t              unit      = ipu_type_size((ipu_type)s->type);
    if (written && ipu__place_space(place) == IPU__SPACE_CONSTANT && ipu__place_offset(place) != 0)
        return false;
    return size <= (uint64_t)MOST_BYTES / unit && place % unit == 0
        && ipu__valid_place(exe, place, (int64_t)(size * unit), written);
}

static bool valid_list(ipu__validator *v, const ipu__exe_signature *s, ipu__place place, uint64_t size)
{
    const ipu_executable *exe   = v->exe;
    uint64_t              first = (uint64_t)ipu__place_offset(place) / sizeof(ipu__exe_span);
    if (size == 0) return ipu__valid_place(exe, place, 0, false);
    if (ipu__place_space(place) != IPU__SPACE_SPANS || place % sizeof(ipu__exe_span) != 0
        || !ipu__in_range(first, size, exe->spans.n) || size > exe->spans.n - v->n_listed)
        return false;
    v->n_listed += (size_t)size;
    for (uint64_t i = 0; i < size; i++)
        if (!valid_run(exe, s, exe->spans.at[first + i].place, exe->spans.at[first + i].size)) return false;
    return true;
}

static bool valid_field(ipu__validator *v, const ipu__exe_signature *s, const char *record)
{
    ipu__exe_span span = {0};
    if (s->form == IPU_FIELD_STATE) return true;
    memcpy(&span, record + s->offset, field_bytes(s));
    switch (ipu__field_shape((ipu_field_form)s->form)) {
    case IPU_FIELD_SHAPE_VECTORS: return valid_list(v, s, span.place, span.size);
    case IPU_FIELD_SHAPE_POINTER: return valid_run(v->exe, s, span.place, 0);
    case IPU_FIELD_SHAPE_SCALAR: return valid_run(v->exe, s, span.place, 1);
    case IPU_FIELD_SHAPE_VECTOR: break;
    }
    return valid_run(v->exe, s, span.place, span.size);
}

static ipu_status check_vertex_moves(ipu__validator *v, size_t i)
{
    const ipu_executable        *exe = v->exe;
    const ipu__exe_vertex_moves *m   = &exe->vertex_moves.at[i];
    REQUIRE(m->gather <= m->scatter && m->scatter <= m->end && m->end <= exe->moves.at.n
                && m->end - m->gather <= exe->moves.at.n - v->n_moved,
            "vertex moves", i, "out of range");
    v->n_moved += m->end - m->gather;
    for (uint32_t k = m->gather; k < m->end; k++) {
        const ipu__move *move = &exe->moves.at.at[k];
        REQUIRE(ipu__place_space(move->to) != IPU__SPACE_HOST
                    && ipu__place_space(move->from) != IPU__SPACE_HOST,
                "vertex moves", i, "meet the host");
    }
    return IPU_OK;
}

/* The vertices of a group whose arrays are known to be in range. */
static ipu_status check_vertices(ipu__validator *v, const ipu__exe_group *group, int64_t n_in_set)
{
    const ipu_executable   *exe    = v->exe;
    const ipu__exe_codelet *c      = &exe->codelets.at[group->codelet];
    const char             *record = exe->records.at + group->records;
    for (uint32_t i = 0; i < group->n; i++, record += c->bytes) {
        const ipu__exe_vertex *vertex = &exe->vertices.at[group->first + i];
        REQUIRE(vertex->location < exe->locations.n && vertex->number < n_in_set, "vertex",
                (size_t)group->first + i, "its number or location is out of range");
        for (uint32_t k = 0; k < c->n_signatures; k++)
            REQUIRE(valid_field(v, &exe->signatures.at[c->first_signature + k], record), "vertex",
                    (size_t)group->first + i, "a field points to what it may not");
        if (group->first_moves != IPU__NONE) IPU_TRY(check_vertex_moves(v, group->first_moves + i));
    }
    return IPU_OK;
}

/* Where the next group must start. */
typedef struct layout {
    size_t vertices, moves, records;
} layout;

static ipu_status check_group(const ipu_executable *exe, size_t i, layout *at)
{
    const ipu__exe_group *group = &exe->groups.at[i];
    size_t                bytes;
    REQUIRE(group->codelet < exe->codelets.n && group->n > 0 && group->first == at->vertices
                && ipu__in_range(group->first, group->n, exe->vertices.n),
            "group", i, "its vertices are out of range or order");
    REQUIRE(!__builtin_mul_overflow((size_t)group->n, exe->codelets.at[group->codelet].bytes, &bytes)
                && group->records >= at->records && group->records % RECORD_ALIGN == 0
                && ipu__in_range(group->records, bytes, exe->records.n),
            "group", i, "its records are out of range or order");
    at->records = group->records + bytes;
    at->vertices += group->n;
    if (group->first_moves == IPU__NONE) return IPU_OK;
    REQUIRE(group->first_moves == at->moves
                && ipu__in_range(group->first_moves, group->n, exe->vertex_moves.n),
            "group", i, "its moves are out of range or order");
    at->moves += group->n;
    return IPU_OK;
}

static ipu_status check_sets(ipu__validator *v)
{
    const ipu_executable *exe    = v->exe;
    layout                at     = {0};
    size_t                groups = 0;
    for (size_t i = 0; i < exe->codelets.n; i++) IPU_TRY(check_codelet(exe, i));
    for (size_t i = 0; i < exe->sets.n; i++) {
        const ipu__exe_set *set = &exe->sets.at[i];
        int64_t             n   = 0;
        REQUIRE(ipu__valid_text(exe, set->name) && set->first_group == groups
                    && ipu__in_range(groups, set->n_groups, exe->groups.n) && set->bytes >= 0
                    && fits(exe, 1, (uint64_t)set->bytes),
                "compute set", i, "its groups are out of range or order");
        for (uint32_t k = 0; k < set->n_groups; k++) IPU_TRY(check_group(exe, groups + k, &at));
        for (uint32_t k = 0; k < set->n_groups; k++) n += exe->groups.at[groups + k].n;
        REQUIRE(set->n_vertices == n, "compute set", i, "its number of vertices is wrong");
        for (uint32_t k = 0; k < set->n_groups; k++)
            IPU_TRY(check_vertices(v, &exe->groups.at[groups + k], n));
        groups += set->n_groups;
    }
    REQUIRE(groups == exe->groups.n && fits(exe, at.vertices, 64), "group", groups, "belongs to no set");
    return IPU_OK;
}

/* ---- the host's side ---- */

static ipu_status check_tensor(const ipu__validator *v, size_t i)
{
    const ipu__exe_tensor *t = &v->exe->tensors.at[i];
    int64_t                bytes;
    REQUIRE(ipu__valid_value(t->type, &t->shape, &bytes) && bytes == t->bytes, "tensor", i,
            "its type, shape or size is wrong");
    REQUIRE(t->batch < v->exe->batches.n && v->batches[t->batch].host_bytes <= bytes, "tensor", i,
            "its moves go beyond it");
    REQUIRE(!t->direct || ipu__valid_place(v->exe, t->place, bytes, true), "tensor", i,
            "its place is out of range");
    return IPU_OK;
}

static ipu_status check_names(const ipu__validator *v)
{
    const ipu_executable *exe = v->exe;
    for (size_t i = 0; i < exe->streams.n; i++)
        REQUIRE(ipu__valid_text(exe, exe->streams.at[i].handle) && exe->streams.at[i].bytes >= 0, "stream", i,
                "its name or size is wrong");
    for (size_t i = 0; i < exe->remotes.n; i++) {
        const ipu__exe_remote *r = &exe->remotes.at[i];
        REQUIRE(ipu__valid_text(exe, r->handle) && r->row_bytes >= 0 && r->n_rows >= 0
                    && fits(exe, (uint64_t)r->n_rows, (uint64_t)r->row_bytes),
                "remote buffer", i, "its name or size is wrong");
    }
    for (size_t i = 0; i < exe->handles.n; i++) {
        const ipu__exe_handle *h = &exe->handles.at[i];
        REQUIRE(ipu__valid_text(exe, h->handle) && h->tensor < exe->tensors.n, "host handle", i,
                "its name or tensor is out of range");
        const ipu__batch_use *use = &v->batches[exe->tensors.at[h->tensor].batch];
        REQUIRE(h->is_write ? !use->to_host : !use->from_host, "host handle", i, "goes the wrong way");
    }
    return IPU_OK;
}

static ipu_status check_crosses(const ipu__validator *v)
{
    const ipu_executable *exe = v->exe;
    size_t                n   = (size_t)exe->replication;
    REQUIRE(exe->replicas.n / n == exe->crosses.n && exe->replicas.n % n == 0, "cross copy", exe->crosses.n,
            "the list of replicas has another length");
    for (size_t i = 0; i < exe->crosses.n; i++) {
        const ipu__exe_cross *c = &exe->crosses.at[i];
        REQUIRE((c->gather == IPU__NONE || ipu__valid_batch(v, c->gather)) && ipu__valid_batch(v, c->copy)
                    && c->to == i * n,
                "cross copy", i, "its moves or replicas are out of range");
    }
    if (exe->crosses.n == 0) return IPU_OK;
    uint8_t *seen = ipu__alloc(n);
    bool     ok   = true;
    if (!seen) return ipu__fail_memory();
    for (size_t i = 0; ok && i < exe->crosses.n; i++) {
        memset(seen, 0, n);
        for (size_t r = 0; ok && r < n; r++) {
            int64_t to = exe->replicas.at[i * n + r];
            ok         = to >= 0 && to < exe->replication && !seen[to];
            if (ok) seen[to] = 1;
        }
    }
    ipu__free(seen);
    return ok ? IPU_OK : ipu__invalid("cross copy", 0, "replicas are missing or there twice");
}

static ipu_status check_reduces(const ipu_executable *exe)
{
    size_t next = 0;
    for (size_t i = 0; i < exe->reduces.n; i++) {
        const ipu__exe_reduce *r = &exe->reduces.at[i];
        REQUIRE((r->type == IPU_FLOAT || r->type == IPU_DOUBLE) && r->first == next
                    && ipu__in_range(r->first, r->n, exe->pieces.n)
                    && (r->tensor == IPU__NONE || r->tensor < exe->tensors.n),
                "sum over replicas", i, "its type or pieces are wrong");
        int64_t at = 0, size = (int64_t)ipu_type_size(r->type);
        for (size_t k = r->first; k < r->first + r->n; k++) {
            const ipu__exe_piece *p = &exe->pieces.at[k];
            REQUIRE(p->at == at && p->n > 0 && p->n <= exe->variable_bytes / size
                        && at <= (INT64_MAX >> 8) - p->n && ipu__valid_place(exe, p->place, p->n * size, true)
                        && p->place % (uint64_t)size == 0,
                    "sum over replicas", i, "a piece is out of range");
            at += p->n;
        }
        REQUIRE(at == r->n_elements, "sum over replicas", i, "its pieces have another length");
        next += r->n;
    }
    return next == exe->pieces.n ? IPU_OK : ipu__invalid("sum over replicas", 0, "pieces are left");
}

static ipu_status check_host(const ipu__validator *v)
{
    const ipu_executable *exe = v->exe;
    for (size_t i = 0; i < exe->tensors.n; i++) IPU_TRY(check_tensor(v, i));
    IPU_TRY(check_names(v));
    for (size_t i = 0; i < exe->initial.n; i++)
        REQUIRE(ipu__valid_batch(v, exe->initial.at[i]), "initial value", i, "its moves are out of range");
    for (size_t i = 0; i < exe->replication_indices.n; i++)
        REQUIRE(ipu__valid_place(exe, exe->replication_indices.at[i], sizeof(uint32_t), true),
                "replica index", i, "its place is out of range");
    for (size_t i = 0; i < exe->prints.n; i++) {
        const ipu__exe_print *p = &exe->prints.at[i];
        REQUIRE(ipu__valid_text(exe, p->text), "print", i, "its text is out of range");
        if (p->tensor == IPU__NONE) continue;
        REQUIRE(p->tensor < exe->tensors.n, "print", i, "its tensor is out of range");
        const ipu__exe_tensor *t = &exe->tensors.at[p->tensor];
        REQUIRE((t->direct || t->bytes <= exe->staging_bytes) && !v->batches[t->batch].from_host, "print", i,
                "its tensor cannot be read");
    }
    IPU_TRY(check_reduces(exe));
    return check_crosses(v);
}

/* ---- the whole ---- */

static ipu_status check_all(ipu__validator *v)
{
    IPU_TRY(check_numbers(v->exe));
    IPU_TRY(check_texts(v->exe));
    IPU_TRY(check_moves(v));
    IPU_TRY(check_sets(v));
    IPU_TRY(check_host(v));
    IPU_TRY(ipu__validate_code(v));
    return ipu__validate_bodies(v->exe);
}

ipu_status ipu__executable_validate(const ipu_executable *exe)
{
    ipu__validator v  = {.exe = exe};
    v.batches         = ipu__alloc_zeroed(exe->batches.n * sizeof *v.batches);
    v.functions       = ipu__alloc((exe->code.n + 1) * sizeof *v.functions);
    ipu_status status = v.batches && v.functions ? check_all(&v) : ipu__fail_memory();
    ipu__free(v.batches);
    ipu__free(v.functions);
    return status;
}

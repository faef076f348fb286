/* Programs: sequences of steps, checked as they are added. */
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "graph/graph.h"

/* ---- helpers ---- */

static bool begin(const char *function, ipu_program p)
{
    if (!ipu__graph_ok(p.graph)) return false;
    if (p.id != 0) return true;
    ipu__graph_fail(p.graph, IPU_INVALID, "%s: the program is null", function);
    return false;
}

/* What the bodies of a step contribute to the depth and size of its program. */
typedef struct extent {
    int            depth;
    int64_t        expanded;
    ipu__step_kind barred;
} extent;

static void add_extent(const ipu_graph *g, ipu__body body, extent *sum)
{
    const ipu__program *program = &g->programs.at[body.program]; /* the null program is empty */
    if (program->depth + 1 > sum->depth && body.program) sum->depth = program->depth + 1;
    sum->expanded += program->expanded;
    if (program->barred) sum->barred = program->barred;
}

/* Steps that involve all replicas or all IPUs cannot be in one of several concurrent bodies. */
static ipu__step_kind barred(ipu__step_kind kind)
{
    return kind == IPU__STEP_PARALLEL || kind == IPU__STEP_CROSS_REPLICA_COPY || kind == IPU__STEP_ALL_REDUCE
                || kind == IPU__STEP_ALL_REDUCE_WAIT
             ? kind
             : IPU__STEP_SEQUENCE;
}

/* Bodies are snapshots of the present, so their present extent is final. */
static extent step_extent(const ipu_graph *g, const ipu__step *step)
{
    extent sum = {0, 1, barred(step->kind)};
    add_extent(g, step->body, &sum);
    add_extent(g, step->other, &sum);
    for (int64_t i = 0; step->cases && i < step->n; i++) add_extent(g, step->cases[i].body, &sum);
    if (step->kind == IPU__STEP_CALL) {
        sum.depth  = g->functions.at[step->object].depth + 1;
        sum.barred = g->functions.at[step->object].barred;
    }
    return sum;
}

static void add_step(ipu_program p, ipu__step step)
{
    ipu_graph    *g       = p.graph->root;
    ipu__program *program = &g->programs.at[p.id];
    extent        more    = step_extent(g, &step);
    step.location         = ipu__graph_here(g);
    if (more.depth > IPU__MAX_DEPTH)
        ipu__graph_fail(g, IPU_UNSUPPORTED, "programs within programs: more than %d deep", IPU__MAX_DEPTH);
    else if (program->expanded + more.expanded > IPU__MAX_STEPS)
        ipu__graph_fail(g, IPU_UNSUPPORTED,
                        "the program has more than %d steps, all bodies written out: use functions or repeat",
                        IPU__MAX_STEPS);
    else if (!ipu__push(&program->steps, step))
        ipu__graph_fail_memory(g);
    else
        program->expanded += more.expanded;
    if (more.depth > program->depth) program->depth = more.depth;
    if (more.barred) program->barred = more.barred;
}

/* `object`, of a kind such as "stream", must belong to the graph. */
static bool check_object(const char *function, ipu_program p, const char *kind, const ipu_graph *owner,
                         uint32_t id)
{
    if (id != 0 && owner && owner->root == p.graph->root) return true;
    ipu__graph_fail(p.graph, IPU_INVALID, "%s: the %s is null or belongs to another graph", function, kind);
    return false;
}

/* A snapshot of `body`; where allowed, a null program counts as an empty one. */
static bool snapshot(const char *function, ipu_program p, ipu_program body, bool may_be_null, ipu__body *out)
{
    *out = (ipu__body){0};
    if (body.id == 0 && may_be_null) return true;
    if (!check_object(function, p, "program", body.graph, body.id)) return false;
    size_t n = p.graph->root->programs.at[body.id].steps.n;
    *out     = (ipu__body){body.id, (uint32_t)n};
    return true;
}

static bool is_integer(ipu_type type) { return type >= IPU_INT8 && type <= IPU_UINT64; }

static bool check_predicate(const char *function, ipu_program p, ipu_tensor t)
{
    if (!ipu__graph_has(p.graph, function, t)) return false;
    ipu_type type = ipu_tensor_type(t);
    if (ipu_tensor_n_elements(t) == 1 && (type == IPU_BOOL || is_integer(type))) return true;
    ipu_shape shape = ipu_tensor_shape(t);
    ipu__graph_fail(p.graph, IPU_INVALID, "%s: a predicate has one element, bool or an integer: this is %s%s",
                    function, ipu_type_name(type), ipu__shape_str(&shape));
    return false;
}

/* Whether all of `t` may be written: no constants, no element twice. */
static bool check_writeable(const char *function, ipu_program p, ipu_tensor t)
{
    if (!ipu__graph_has(p.graph, function, t)) return false;
    ipu__view   view   = ipu__view_get(&p.graph->root->views, t.id);
    ipu__pieces pieces = ipu__view_pieces(&p.graph->root->views, &view);
    for (ipu__piece piece; ipu__pieces_next(&pieces, &piece);)
        if (ipu__graph_variable(p.graph, piece.var)->kind != IPU__VARIABLE) {
            ipu__graph_fail(p.graph, IPU_INVALID, "%s: writes to %s, which is a constant", function,
                            ipu__variable_str(p.graph, piece.var));
            return false;
        }
    bool ok, aliases = ipu__view_has_aliases(&p.graph->root->views, t.id, &ok);
    if (!ok) ipu__graph_fail_memory(p.graph);
    if (ok && aliases) {
        char text[160];
        ipu_tensor_text(t, text, sizeof text);
        ipu__graph_fail(p.graph, IPU_INVALID, "%s: the target selects some elements twice: %s", function,
                        text);
    }
    return ok && !aliases;
}

static bool check_transfer(const char *function, ipu_program p, ipu_tensor t, const char *kind,
                           const char *handle, ipu_type type, int64_t n_elements)
{
    if (!ipu__graph_has(p.graph, function, t)) return false;
    if (ipu_tensor_type(t) == type && ipu_tensor_n_elements(t) == n_elements) return true;
    ipu_shape shape = ipu_tensor_shape(t);
    ipu__graph_fail(p.graph, IPU_INVALID, "%s: %s \"%s\" moves %lld elements of %s, the tensor is %s%s",
                    function, kind, handle, (long long)n_elements, ipu_type_name(type),
                    ipu_type_name(ipu_tensor_type(t)), ipu__shape_str(&shape));
    return false;
}

/* ---- sequences and copies ---- */

ipu_program ipu_program_sequence(ipu_graph *graph)
{
    ipu_program null = {graph, 0};
    if (!ipu__graph_ok(graph)) return null;
    ipu_graph *g = graph->root;
    if (!ipu__push(&g->programs, (ipu__program){.location = ipu__graph_here(g)})) {
        ipu__graph_fail_memory(g);
        return null;
    }
    return (ipu_program){graph, (uint32_t)g->programs.n - 1};
}

void ipu_program_add(ipu_program p, ipu_program body)
{
    ipu__step step = {.kind = IPU__STEP_SEQUENCE};
    if (begin(__func__, p) && snapshot(__func__, p, body, false, &step.body)) add_step(p, step);
}

void ipu_program_add_execute(ipu_program p, ipu_compute_set cs)
{
    if (begin(__func__, p) && check_object(__func__, p, "compute set", cs.graph, cs.id))
        add_step(p, (ipu__step){.kind = IPU__STEP_EXECUTE, .object = cs.id});
}

static bool check_copy(const char *function, ipu_program p, ipu_tensor from, ipu_tensor to)
{
    if (!ipu__graph_has(p.graph, function, from) || !ipu__graph_has(p.graph, function, to)) return false;
    ipu_shape a = ipu_tensor_shape(from), b = ipu_tensor_shape(to);
    if (ipu_tensor_type(from) != ipu_tensor_type(to)
        || ipu_tensor_n_elements(from) != ipu_tensor_n_elements(to)) {
        ipu__graph_fail(p.graph, IPU_INVALID,
                        "%s: from %s%s to %s%s: expected the same type and number of elements", function,
                        ipu_type_name(ipu_tensor_type(from)), ipu__shape_str(&a),
                        ipu_type_name(ipu_tensor_type(to)), ipu__shape_str(&b));
        return false;
    }
    return check_writeable(function, p, to);
}

void ipu_program_add_copy(ipu_program p, ipu_tensor from, ipu_tensor to)
{
    ipu__interval where;
    if (!begin(__func__, p) || !check_copy(__func__, p, from, to)) return;
    if (ipu__views_intersect(p.graph, from.id, to.id, &where)) {
        ipu__graph_fail(
            p.graph, IPU_INVALID,
            "%s: source and target overlap in elements [%lld, %lld) of %s: copy through a third tensor",
            __func__, (long long)where.begin, (long long)where.end, ipu__variable_str(p.graph, where.var));
        return;
    }
    add_step(p, (ipu__step){.kind = IPU__STEP_COPY, .from = from.id, .to = to.id});
}

/* ---- streams and remote buffers ---- */

static bool check_stream(const char *function, ipu_program p, ipu_stream s, ipu_tensor t, bool to_device)
{
    if (!check_object(function, p, "stream", s.graph, s.id)) return false;
    const ipu__stream *stream = &p.graph->root->streams.at[s.id];
    if (stream->to_device != to_device) {
        ipu__graph_fail(p.graph, IPU_INVALID, "%s: stream \"%s\" goes %s", function, stream->handle,
                        stream->to_device ? "from host to device" : "from device to host");
        return false;
    }
    return check_transfer(function, p, t, "stream", stream->handle, stream->type, stream->n_elements);
}

void ipu_program_add_read(ipu_program p, ipu_stream from, ipu_tensor to)
{
    if (begin(__func__, p) && check_stream(__func__, p, from, to, true) && check_writeable(__func__, p, to))
        add_step(p, (ipu__step){.kind = IPU__STEP_READ, .object = from.id, .to = to.id});
}

void ipu_program_add_write(ipu_program p, ipu_tensor from, ipu_stream to)
{
    if (begin(__func__, p) && check_stream(__func__, p, to, from, false))
        add_step(p, (ipu__step){.kind = IPU__STEP_WRITE, .from = from.id, .object = to.id});
}

static bool check_remote(const char *function, ipu_program p, ipu_remote_buffer b, ipu_tensor rows,
                         ipu_tensor t)
{
    if (!check_object(function, p, "remote buffer", b.graph, b.id) || !ipu__graph_has(p.graph, function, t))
        return false;
    const ipu__remote_buffer *buffer = &p.graph->root->remote_buffers.at[b.id];
    int64_t n = ipu_tensor_n_elements(t), n_rows = buffer->n_elements ? n / buffer->n_elements : 0;
    if (rows.id != 0) {
        if (!ipu__graph_has(p.graph, function, rows)) return false;
        ipu_type type = ipu_tensor_type(rows);
        if (type != IPU_INT32 && type != IPU_UINT32) {
            ipu__graph_fail(p.graph, IPU_INVALID,
                            "%s: row numbers of remote buffer \"%s\" are int32 or uint32, not %s", function,
                            buffer->handle, ipu_type_name(type));
            return false;
        }
        n_rows = ipu_tensor_n_elements(rows);
    } else if (n_rows > buffer->n_rows) {
        ipu__graph_fail(p.graph, IPU_INVALID, "%s: %lld rows of remote buffer \"%s\", which has %lld",
                        function, (long long)n_rows, buffer->handle, (long long)buffer->n_rows);
        return false;
    }
    return check_transfer(function, p, t, "remote buffer", buffer->handle, buffer->type,
                          n_rows * buffer->n_elements);
}

void ipu_program_add_remote_read(ipu_program p, ipu_remote_buffer from, ipu_tensor rows, ipu_tensor to)
{
    if (begin(__func__, p) && check_remote(__func__, p, from, rows, to) && check_writeable(__func__, p, to))
        add_step(p,
                 (ipu__step){.kind = IPU__STEP_REMOTE_READ, .object = from.id, .rows = rows.id, .to = to.id});
}

void ipu_program_add_remote_write(ipu_program p, ipu_tensor from, ipu_remote_buffer to, ipu_tensor rows)
{
    if (begin(__func__, p) && check_remote(__func__, p, to, rows, from))
        add_step(p, (ipu__step){
                        .kind = IPU__STEP_REMOTE_WRITE, .object = to.id, .rows = rows.id, .from = from.id});
}

/* ---- loops, branches, calls ---- */

void ipu_program_add_repeat(ipu_program p, int64_t n, ipu_program body)
{
    ipu__step step = {.kind = IPU__STEP_REPEAT, .n = n};
    if (!begin(__func__, p) || !snapshot(__func__, p, body, false, &step.body)) return;
    if (n < 0)
        ipu__graph_fail(p.graph, IPU_INVALID, "%s: %lld times: expected 0 or more", __func__, (long long)n);
    else
        add_step(p, step);
}

static void add_while(const char *function, ipu__step_kind kind, ipu_program p, ipu_program condition,
                      ipu_tensor predicate, ipu_program body)
{
    ipu__step step = {.kind = kind, .from = predicate.id};
    if (begin(function, p) && check_predicate(function, p, predicate)
        && snapshot(function, p, condition, true, &step.other)
        && snapshot(function, p, body, true, &step.body))
        add_step(p, step);
}

void ipu_program_add_while_true(ipu_program p, ipu_program condition, ipu_tensor predicate, ipu_program body)
{
    add_while(__func__, IPU__STEP_WHILE_TRUE, p, condition, predicate, body);
}

void ipu_program_add_while_false(ipu_program p, ipu_program condition, ipu_tensor predicate, ipu_program body)
{
    add_while(__func__, IPU__STEP_WHILE_FALSE, p, condition, predicate, body);
}

void ipu_program_add_if(ipu_program p, ipu_tensor predicate, ipu_program then, ipu_program otherwise)
{
    ipu__step step = {.kind = IPU__STEP_IF, .from = predicate.id};
    if (begin(__func__, p) && check_predicate(__func__, p, predicate)
        && snapshot(__func__, p, then, true, &step.body)
        && snapshot(__func__, p, otherwise, true, &step.other))
        add_step(p, step);
}

static int by_value(const void *a, const void *b)
{
    const ipu__case *x = a, *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

/* Snapshots of the bodies, in the order given; values must be unique. */
static bool copy_cases(ipu_program p, const ipu_switch_case *cases, size_t n, ipu__case *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i].value = cases[i].value;
        if (!snapshot("ipu_program_add_switch", p, cases[i].body, true, &out[i].body)) return false;
    }
    ipu__case *sorted = ipu__alloc(n * sizeof *sorted);
    if (!sorted) {
        ipu__graph_fail_memory(p.graph);
        return false;
    }
    memcpy(sorted, out, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    for (size_t i = 1; i < n; i++)
        if (sorted[i].value == sorted[i - 1].value) {
            ipu__graph_fail(p.graph, IPU_INVALID, "ipu_program_add_switch: case %lld is given twice",
                            (long long)sorted[i].value);
            break;
        }
    ipu__free(sorted);
    return ipu__graph_ok(p.graph);
}

void ipu_program_add_switch(ipu_program p, ipu_tensor control, const ipu_switch_case *cases, size_t n,
                            ipu_program otherwise)
{
    ipu__step step = {.kind = IPU__STEP_SWITCH, .from = control.id, .n = (int64_t)n};
    if (!begin(__func__, p) || !check_predicate(__func__, p, control)
        || !snapshot(__func__, p, otherwise, true, &step.other))
        return;
    ipu__case *own = ipu__arena_alloc(&p.graph->root->arena, n * sizeof *own);
    if (!own) {
        ipu__graph_fail_memory(p.graph);
        return;
    }
    step.cases = own;
    if (copy_cases(p, cases, n, own)) add_step(p, step);
}

static bool copy_bodies(ipu_program p, const ipu_program *bodies, size_t n, ipu__case *out)
{
    static const char *const words[] = {
#define X(name, text) [IPU__STEP_##name] = text,
        IPU__STEP_LIST(X)
#undef X
    };
    for (size_t i = 0; i < n; i++) {
        out[i].value = (int64_t)i;
        if (!snapshot("ipu_program_add_parallel", p, bodies[i], true, &out[i].body)) return false;
        ipu__step_kind found = p.graph->root->programs.at[out[i].body.program].barred;
        if (!found) continue;
        ipu__graph_fail(
            p.graph, IPU_INVALID,
            "ipu_program_add_parallel: body %zu holds a %s step, which cannot run beside other bodies: "
            "put it before or after the parallel step",
            i, words[found]);
        return false;
    }
    return true;
}

void ipu_program_add_parallel(ipu_program p, const ipu_program *bodies, size_t n)
{
    if (!begin(__func__, p)) return;
    if (n == 0) {
        ipu__graph_fail(p.graph, IPU_INVALID, "%s: no bodies: expected 1 or more", __func__);
        return;
    }
    ipu_graph *g   = p.graph->root;
    ipu__case *own = n <= IPU__MAX_STEPS ? ipu__arena_alloc(&g->arena, n * sizeof *own) : NULL;
    if (!own) {
        ipu__graph_fail_memory(g);
        return;
    }
    if (!copy_bodies(p, bodies, n, own)) return;
    add_step(p, (ipu__step){
                    .kind = IPU__STEP_PARALLEL, .object = g->n_parallels++, .cases = own, .n = (int64_t)n});
}

ipu_function ipu_graph_add_function(ipu_graph *graph, ipu_program body, const char *name)
{
    ipu_function null = {graph, 0};
    if (!ipu__graph_ok(graph)) return null;
    ipu_graph    *g = graph->root;
    ipu__function f = {.name = ipu__graph_strdup(g, name), .location = ipu__graph_here(g)};
    if (!f.name || !snapshot(__func__, (ipu_program){graph, 1}, body, false, &f.body)) return null;
    f.depth  = g->programs.at[body.id].depth;
    f.barred = g->programs.at[body.id].barred;
    if (!ipu__push(&g->functions, f)) {
        ipu__graph_fail_memory(g);
        return null;
    }
    return (ipu_function){graph, (uint32_t)g->functions.n - 1};
}

void ipu_program_add_call(ipu_program p, ipu_function f)
{
    if (begin(__func__, p) && check_object(__func__, p, "function", f.graph, f.id))
        add_step(p, (ipu__step){.kind = IPU__STEP_CALL, .object = f.id});
}

/* ---- the rest ---- */

void ipu_program_add_sync(ipu_program p, ipu_sync_type type)
{
    if (!begin(__func__, p)) return;
    if (type > IPU_SYNC_GLOBAL)
        ipu__graph_fail(p.graph, IPU_INVALID, "%s: %d is no sync type", __func__, (int)type);
    else
        add_step(p, (ipu__step){.kind = IPU__STEP_SYNC, .n = type});
}

/* The title of a print if the user gives none. */
static const char *default_title(ipu_graph *g, ipu_tensor t)
{
    ipu__runs runs = ipu__view_runs(&g->root->views, t.id);
    ipu__run  run;
    return ipu__runs_next(&runs, &run) ? ipu__graph_variable(g, run.var)->name : "";
}

void ipu_program_add_print(ipu_program p, const char *title, ipu_tensor t)
{
    if (!begin(__func__, p) || !ipu__graph_has(p.graph, __func__, t)) return;
    ipu__step step = {.kind = IPU__STEP_PRINT, .from = t.id};
    step.text      = title ? ipu__graph_strdup(p.graph, title) : default_title(p.graph, t);
    if (step.text) add_step(p, step);
}

void ipu_program_add_abort_if(ipu_program p, ipu_tensor predicate, const char *message)
{
    if (!begin(__func__, p) || !check_predicate(__func__, p, predicate)) return;
    ipu__step step = {
        .kind = IPU__STEP_ABORT_IF, .from = predicate.id, .text = ipu__graph_strdup(p.graph, message)};
    if (step.text) add_step(p, step);
}

void ipu_program_add_error(ipu_program p, const char *message, ipu_tensor t)
{
    if (!begin(__func__, p) || (t.id != 0 && !ipu__graph_has(p.graph, __func__, t))) return;
    ipu__step step = {.kind = IPU__STEP_ERROR, .from = t.id, .text = ipu__graph_strdup(p.graph, message)};
    if (step.text) add_step(p, step);
}

void ipu_program_add_write_undef(ipu_program p, ipu_tensor t)
{
    if (begin(__func__, p) && check_writeable(__func__, p, t))
        add_step(p, (ipu__step){.kind = IPU__STEP_WRITE_UNDEF, .to = t.id});
}

static bool check_replica_map(ipu_program p, const int64_t *to_replica, size_t n)
{
    int64_t replicas = p.graph->root->replication;
    bool    ok       = n == (size_t)replicas;
    for (size_t i = 0; ok && i < n; i++) {
        ok = to_replica[i] >= 0 && to_replica[i] < replicas && to_replica[i] != (int64_t)i;
        for (size_t k = 0; ok && k < i; k++) ok = to_replica[k] != to_replica[i];
    }
    if (!ok)
        ipu__graph_fail(
            p.graph, IPU_INVALID,
            "ipu_program_add_cross_replica_copy: expected one target for each of %lld replicas, all different and none to itself",
            (long long)replicas);
    return ok;
}

void ipu_program_add_cross_replica_copy(ipu_program p, ipu_tensor from, ipu_tensor to,
                                        const int64_t *to_replica, size_t n)
{
    if (!begin(__func__, p) || !check_copy(__func__, p, from, to) || !check_replica_map(p, to_replica, n))
        return;
    const int64_t *own  = ipu__arena_copy(&p.graph->root->arena, to_replica, n * sizeof *own);
    ipu__step      step = {
             .kind = IPU__STEP_CROSS_REPLICA_COPY, .from = from.id, .to = to.id, .n = (int64_t)n, .replicas = own};
    if (own)
        add_step(p, step);
    else
        ipu__graph_fail_memory(p.graph);
}

void ipu_program_add_all_reduce(ipu_program p, ipu_tensor t)
{
    if (!begin(__func__, p) || !check_writeable(__func__, p, t)) return;
    ipu_type type = ipu_tensor_type(t);
    if (type == IPU_FLOAT || type == IPU_DOUBLE)
        add_step(p, (ipu__step){.kind = IPU__STEP_ALL_REDUCE, .from = t.id, .to = t.id});
    else
        ipu__graph_fail(p.graph, IPU_INVALID, "%s: expected float or double, found %s: cast it first",
                        __func__, ipu_type_name(type));
}

void ipu_program_add_all_reduce_wait(ipu_program p)
{
    if (begin(__func__, p)) add_step(p, (ipu__step){.kind = IPU__STEP_ALL_REDUCE_WAIT});
}

void ipu_graph_add_start(ipu_graph *graph, ipu_program steps)
{
    if (!begin(__func__, steps)) return;
    ipu_graph *g = graph->root;
    if (g != steps.graph->root) {
        ipu__graph_fail(g, IPU_INVALID, "ipu_graph_add_start: the program belongs to another graph");
        return;
    }
    if (g->start == 0) g->start = ipu_program_sequence(g).id;
    if (g->start) ipu_program_add((ipu_program){g, g->start}, steps);
}

/* ---- kernels ---- */

static bool copy_attributes(ipu_graph *g, const ipu_attribute *attributes, size_t n, ipu__kernel_call *call)
{
    ipu_attribute *own = ipu__arena_copy(&g->arena, attributes, n * sizeof *own);
    for (size_t i = 0; own && i < n; i++) {
        own[i].name = ipu__graph_strdup(g, own[i].name);
        if (own[i].kind == IPU_ATTRIBUTE_TEXT) own[i].text = ipu__graph_strdup(g, own[i].text);
        if (own[i].kind == IPU_ATTRIBUTE_INTS)
            own[i].ints = ipu__arena_copy(&g->arena, own[i].ints, own[i].n_ints * sizeof *own[i].ints);
        bool ok = own[i].name && (own[i].kind != IPU_ATTRIBUTE_TEXT || own[i].text)
               && (own[i].kind != IPU_ATTRIBUTE_INTS || own[i].ints);
        if (!ok) own = NULL;
    }
    if (!own) ipu__graph_fail_memory(g);
    call->attributes   = own;
    call->n_attributes = n;
    return own != NULL;
}

static const ipu__kernel_def *find_kernel(ipu_program p, const char *name)
{
    const ipu__kernel_def *def = ipu__kernel_find(name);
    if (def) return def;
    ipu__nearest nearest = ipu__nearest_to(name);
    for (size_t i = 0; ipu__kernels[i]; i++) ipu__nearest_try(&nearest, ipu__kernels[i]->name);
    ipu__graph_fail(p.graph, IPU_NOT_FOUND, "ipu_program_add_kernel: no kernel \"%s\"%s", name,
                    ipu__nearest_hint(&nearest));
    return NULL;
}

/* Outputs must be writeable, and may overlap inputs only element by element, where the record allows it. */
static bool check_outputs(ipu_program p, const ipu__kernel_step *step)
{
    const ipu__kernel_def *def = step->call.def;
    for (int i = 0; i < step->call.n_operands; i++) {
        if (def->operands[i].access == IPU__ACCESS_READ) continue;
        if (!check_writeable("ipu_program_add_kernel", p, (ipu_tensor){p.graph, step->views[i]}))
            return false;
        for (int k = 0; k < step->call.n_operands; k++) {
            ipu__interval where;
            bool          both_written = def->operands[k].access != IPU__ACCESS_READ;
            if (k == i || !both_written
                || !ipu__views_intersect(p.graph, step->views[i], step->views[k], &where))
                continue;
            ipu__graph_fail(
                p.graph, IPU_INVALID,
                "kernel \"%s\": operands \"%s\" and \"%s\" both write elements [%lld, %lld) of %s", def->name,
                def->operands[i].name, def->operands[k].name, (long long)where.begin, (long long)where.end,
                ipu__variable_str(p.graph, where.var));
            return false;
        }
    }
    return true;
}

static ipu_tensor none_of(ipu_graph *g)
{
    if (g->none.id == 0) g->none = ipu_graph_add_constant(g, IPU_FLOAT, IPU_SHAPE(0), "", "none");
    return g->none;
}

/* All operands in the record's order; optional ones are absent if null, or if all are left out. */
static bool take_operands(ipu_graph *g, const ipu__kernel_def *def, const ipu_tensor *operands, size_t n,
                          ipu_tensor *out)
{
    size_t n_required = 0, next = 0;
    for (int i = 0; i < def->n_operands; i++) n_required += !def->operands[i].optional;
    if (n != (size_t)def->n_operands && n != n_required) {
        ipu__graph_fail(g, IPU_INVALID, "kernel \"%s\": %zu operands: expected %d", def->name, n,
                        def->n_operands);
        return false;
    }
    for (int i = 0; i < def->n_operands; i++) {
        bool is_left_out = def->operands[i].optional && n != (size_t)def->n_operands;
        out[i]           = is_left_out ? none_of(g) : operands[next++];
        if (out[i].id == 0 && def->operands[i].optional) out[i] = none_of(g);
        if (!ipu__graph_has(g, "ipu_program_add_kernel", out[i])) return false;
    }
    return true;
}

void ipu__program_add_kernel_on(ipu_program p, const char *kernel, const ipu_attribute *attributes,
                                size_t n_attributes, const ipu_tensor *operands, size_t n_operands,
                                int64_t first, int64_t end)
{
    if (!begin("ipu_program_add_kernel", p)) return;
    ipu_graph *g = p.graph->root;
    if (first < 0 || first >= end || end > g->n_tiles) {
        ipu__graph_fail(g, IPU_INVALID, "kernel \"%s\": tiles [%lld, %lld): expected some of %lld", kernel,
                        (long long)first, (long long)end, (long long)g->n_tiles);
        return;
    }
    const ipu__kernel_def *def = find_kernel(p, kernel);
    if (!def) return;
    ipu_tensor all[IPU__MAX_OPERANDS];
    if (!take_operands(g, def, operands, n_operands, all)) return;
    ipu__kernel_step step = {
        .call = {.def = def, .n_operands = def->n_operands}, .first_tile = first, .n_tiles = end - first};
    for (int i = 0; i < def->n_operands; i++) {
        step.views[i]        = all[i].id;
        step.call.operand[i] = (ipu__kernel_value){ipu_tensor_type(all[i]), ipu_tensor_shape(all[i])};
    }
    if (!copy_attributes(g, attributes, n_attributes, &step.call)) return;
    ipu_status status = def->check(&step.call);
    if (status != IPU_OK) {
        ipu__graph_fail(g, status, "%s", ipu_message());
        return;
    }
    if (!check_outputs(p, &step)) return;
    if (!ipu__push(&g->kernel_steps, step)) {
        ipu__graph_fail_memory(g);
        return;
    }
    add_step(p, (ipu__step){.kind = IPU__STEP_KERNEL, .object = (uint32_t)g->kernel_steps.n - 1});
}

/* Whether the tiles are consecutive; in a virtual graph without such a window, a kernel gets all of the
 * root's. */
static bool is_window(const ipu_graph *g)
{
    bool is = true;
    for (int64_t i = 1; g->tiles && i < g->n_tiles; i++) is = is && g->tiles[i] == g->tiles[0] + i;
    return is;
}

void ipu_program_add_kernel(ipu_program p, const char *kernel, const ipu_attribute *attributes,
                            size_t n_attributes, const ipu_tensor *operands, size_t n_operands)
{
    if (!ipu__graph_ok(p.graph)) return;
    const ipu_graph *g     = is_window(p.graph) ? p.graph : p.graph->root;
    int64_t          first = g->tiles ? g->tiles[0] : 0;
    ipu__program_add_kernel_on(p, kernel, attributes, n_attributes, operands, n_operands, first,
                               first + g->n_tiles);
}

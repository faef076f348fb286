/* Shadows: created with the engine, checked and moved before each step. */
#include "engine/cpu/checking.h"
#include "engine/cpu/move.h"

#include <stdio.h>
#include <string.h>

static const ipu__place host_place = (uint64_t)IPU__SPACE_HOST << IPU__SPACE_SHIFT;

/* ---- life ---- */

static bool alloc_remotes(ipu__cpu *e)
{
    const ipu_executable *exe = e->exe;
    ipu__checking        *c   = e->check;
    c->remotes                = ipu__alloc_zeroed(exe->remotes.n * sizeof *c->remotes);
    for (size_t i = 1; c->remotes && i < exe->remotes.n; i++) {
        size_t bytes  = (size_t)(exe->remotes.at[i].row_bytes * exe->remotes.at[i].n_rows * e->replication);
        c->remotes[i] = ipu__alloc(bytes);
        if (!c->remotes[i]) return false;
        memset(c->remotes[i], 1, bytes); /* remote buffers start as zeros */
    }
    return c->remotes != NULL;
}

static bool alloc_shadows(ipu__cpu *e)
{
    const ipu_executable *exe = e->exe;
    ipu__checking        *c   = e->check;
    size_t                n   = (size_t)e->replication;
    for (size_t i = 0; i < exe->tensors.n; i++)
        if ((size_t)exe->tensors.at[i].bytes > c->host_bytes)
            c->host_bytes = (size_t)exe->tensors.at[i].bytes;
    c->bases     = ipu__alloc_zeroed(n * sizeof *c->bases);
    c->variables = ipu__alloc_zeroed(e->variables_stride * n);
    c->gather    = ipu__alloc_zeroed(e->gather_stride * n);
    c->constants = ipu__alloc(exe->constant_bytes);
    c->host      = ipu__alloc(c->host_bytes);
    if (!c->bases || !c->variables || !c->gather || !c->constants || !c->host) return false;
    memset(c->constants, 1, exe->constant_bytes);
    for (size_t r = 0; r < n; r++) {
        c->bases[r][IPU__SPACE_VARIABLE] = c->variables + r * e->variables_stride;
        c->bases[r][IPU__SPACE_GATHER]   = c->gather + r * e->gather_stride;
        c->bases[r][IPU__SPACE_CONSTANT] = c->constants;
        c->bases[r][IPU__SPACE_HOST]     = c->host;
    }
    return alloc_remotes(e);
}

static void move_batch(ipu__cpu *e, uint32_t batch, int64_t replica, int64_t to_replica)
{
    const ipu__exe_batch *b = &e->exe->batches.at[batch];
    ipu__checking_move(e, b->first, b->first + b->n, replica, to_replica);
}

ipu_status ipu__checking_create(ipu__cpu *e)
{
    const ipu_executable *exe = e->exe;
    e->check                  = ipu__alloc_zeroed(sizeof *e->check);
    if (!e->check) return ipu__fail_memory();
    e->check->info = exe->check;
    if (!alloc_shadows(e)) return ipu__fail_memory();
    for (int64_t r = 0; r < e->replication; r++) {
        for (size_t i = 0; i < exe->initial.n; i++) move_batch(e, exe->initial.at[i], r, r);
        for (size_t i = 0; i < exe->replication_indices.n; i++)
            memset(ipu__place_pointer(exe->replication_indices.at[i], e->check->bases[r]), 1,
                   sizeof(uint32_t));
    }
    return IPU_OK;
}

void ipu__checking_destroy(ipu__cpu *e)
{
    ipu__checking *c = e->check;
    if (!c) return;
    for (size_t i = 1; c->remotes && i < e->exe->remotes.n; i++) ipu__free(c->remotes[i]);
    void *const owned[] = {c->bases, c->variables, c->gather, c->constants, c->host, c->remotes};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) ipu__free(owned[i]);
    ipu__free_pages(c->arena, 3 * c->arena_bytes);
    ipu__free_pages(c->fence, c->fence_bytes);
    ipu__array_fini(&c->guards);
    ipu__array_fini(&c->spans);
    ipu__array_fini(&c->record);
    ipu__array_fini(&c->given);
    ipu__text_fini(&c->findings);
    ipu__free(c);
}

/* ---- moving ---- */

void ipu__checking_move(ipu__cpu *e, uint32_t first, uint32_t end, int64_t replica, int64_t to_replica)
{
    for (uint32_t m = first; m < end; m++)
        ipu__move_run(&e->exe->moves, m, e->check->bases[to_replica], e->check->bases[replica]);
}

/* Marks all of a tensor as defined, or (0) as undefined. */
static void set_tensor(ipu__cpu *e, uint32_t tensor, int64_t first, int64_t end, char defined)
{
    const ipu__exe_tensor *t = &e->exe->tensors.at[tensor];
    memset(e->check->host, defined, (size_t)t->bytes);
    for (int64_t r = first; r < end; r++) move_batch(e, t->batch, r, r);
}

static void cross_replica(ipu__cpu *e, const ipu__exe_cross *cross)
{
    const int64_t *to = e->exe->replicas.at + cross->to;
    for (int64_t r = 0; cross->gather != IPU__NONE && r < e->replication; r++)
        move_batch(e, cross->gather, r, r);
    for (int64_t r = 0; r < e->replication; r++) move_batch(e, cross->copy, r, to[r]);
}

/* ---- who reads ---- */

typedef struct reader {
    char text[IPU__CHECK_TEXT];
} reader;

static reader make_reader(const ipu__cpu *e, const ipu__instruction *i, const char *what, const char *name,
                          int64_t replica)
{
    reader who;
    char   where[IPU__EXE_WHERE_BYTES] = "", on[40] = "";
    if (i) ipu__exe_where(e->exe, i->location, where);
    if (e->replication > 1) snprintf(on, sizeof on, " of replica %lld", (long long)replica);
    snprintf(who.text, sizeof who.text, "%s%s%s%s%.300s%s%s", where, *where ? ": " : "", what,
             name ? " \"" : "", name ? name : "", name ? "\"" : "", on);
    return who;
}

static void read_tensor(ipu__cpu *e, const reader *who, uint32_t tensor, int64_t replica)
{
    const ipu__exe_tensor *t     = &e->exe->tensors.at[tensor];
    const ipu__exe_batch  *batch = &e->exe->batches.at[t->batch];
    int64_t                unit  = (int64_t)ipu_type_size(t->type);
    move_batch(e, t->batch, replica, replica);
    ipu__checking_defined(e, who->text, replica, (ipu__gathered){batch->first, batch->first + batch->n},
                          host_place, unit, t->bytes / unit);
}

/* ---- steps ---- */

static ipu_status read_tensors(ipu__cpu *e, const ipu__instruction *i, const char *what, const char *name,
                               uint32_t tensor)
{
    for (int64_t r = 0; tensor != IPU__NONE && r < e->replication; r++) {
        reader who = make_reader(e, i, what, name, r);
        read_tensor(e, &who, tensor, r);
    }
    return ipu__checking_conclude(e, IPU_ABORTED);
}

static ipu_status read_value(ipu__cpu *e, const ipu__instruction *i, const char *what, ipu_type type,
                             ipu__place place)
{
    for (int64_t r = 0; r < e->replication; r++) {
        reader who = make_reader(e, i, what, NULL, r);
        ipu__checking_defined(e, who.text, r, (ipu__gathered){0, 0}, place, (int64_t)ipu_type_size(type), 1);
    }
    return ipu__checking_conclude(e, IPU_ABORTED);
}

/* Kernels are trusted to write everything they declare: outputs are defined from here on. */
static ipu_status kernel(ipu__cpu *e, const ipu__instruction *i)
{
    const ipu__exe_kernel *k      = &e->exe->kernels.at[i->a];
    const ipu__exe_batch  *gather = &e->exe->batches.at[k->gather];
    ipu__gathered          by     = {gather->first, gather->first + gather->n};
    for (int64_t r = 0; r < e->replication; r++) {
        reader who = make_reader(e, i, "kernel", k->call.def->name, r);
        size_t n   = strlen(who.text);
        move_batch(e, k->gather, r, r);
        for (int o = 0; o < k->call.n_operands; o++) {
            const ipu__kernel_operand *operand = &k->call.def->operands[o];
            int64_t                    unit = (int64_t)ipu_type_size(k->call.operand[o].type), count = 1;
            const ipu_shape           *shape = &k->call.operand[o].shape;
            for (int d = 0; d < shape->rank; d++) count *= shape->dim[d];
            snprintf(who.text + n, sizeof who.text - n, ": operand \"%s\"", operand->name);
            if (operand->access != IPU__ACCESS_WRITE)
                ipu__checking_defined(e, who.text, r, by, k->place[o], unit, count);
        }
    }
    return ipu__checking_conclude(e, IPU_ABORTED);
}

static void kernel_outputs(ipu__cpu *e, const ipu__exe_kernel *k)
{
    for (int64_t r = 0; r < e->replication; r++) {
        for (int o = 0; o < k->call.n_operands; o++) {
            const ipu_shape *shape = &k->call.operand[o].shape;
            size_t           bytes = ipu_type_size(k->call.operand[o].type);
            for (int d = 0; d < shape->rank; d++) bytes *= (size_t)shape->dim[d];
            if (k->call.def->operands[o].access != IPU__ACCESS_READ)
                memset(ipu__place_pointer(k->place[o], e->check->bases[r]), 1, bytes);
        }
        move_batch(e, k->scatter, r, r);
    }
}

/* ---- remote buffers ---- */

static int64_t row_number(const ipu__exe_tensor *rows, const char *packed, int64_t k)
{
    uint32_t number;
    memcpy(&number, packed + k * (int64_t)sizeof number, sizeof number);
    return rows->type == IPU_INT32 ? (int64_t)(int32_t)number : (int64_t)number;
}

/* Moves shadows of rows to or from the packed buffer. A row out of range makes the step itself fail. */
static bool move_rows(ipu__cpu *e, const ipu__exe_transfer *transfer, int64_t replica, const char *numbers,
                      bool is_read)
{
    const ipu__exe_remote *remote = &e->exe->remotes.at[transfer->object];
    const ipu__exe_tensor *tensor = &e->exe->tensors.at[transfer->tensor];
    int64_t                bytes = remote->row_bytes, n = bytes > 0 ? tensor->bytes / bytes : 0;
    char                  *buffer = e->check->remotes[transfer->object] + replica * remote->n_rows * bytes;
    for (int64_t k = 0; k < n; k++) {
        int64_t at = numbers ? row_number(&e->exe->tensors.at[transfer->rows], numbers, k) : k;
        if (at < 0 || at >= remote->n_rows) return false;
        char *row = buffer + at * bytes, *part = e->check->host + k * bytes;
        memcpy(is_read ? part : row, is_read ? row : part, (size_t)bytes);
    }
    return true;
}

static ipu_status remote_one(ipu__cpu *e, const ipu__instruction *i, int64_t r)
{
    const ipu__exe_transfer *transfer = &e->exe->transfers.at[i->a];
    const ipu__exe_tensor   *tensor   = &e->exe->tensors.at[transfer->tensor];
    char                    *numbers  = NULL;
    if (transfer->rows != IPU__NONE) {
        const ipu__exe_tensor *rows = &e->exe->tensors.at[transfer->rows];
        numbers                     = ipu__alloc((size_t)rows->bytes);
        if (!numbers) return ipu__fail_memory();
        ipu__cpu_move_packed(e->runners, rows->batch, r, r + 1, numbers);
    }
    bool is_read = i->op == IPU__CODE_REMOTE_READ;
    if (!is_read) move_batch(e, tensor->batch, r, r);
    bool ok = move_rows(e, transfer, r, numbers, is_read);
    if (is_read && ok) move_batch(e, tensor->batch, r, r);
    ipu__free(numbers);
    return IPU_OK;
}

static ipu_status remote(ipu__cpu *e, const ipu__instruction *i)
{
    const ipu__exe_transfer *transfer = &e->exe->transfers.at[i->a];
    const char              *name     = ipu__exe_text(e->exe, e->exe->remotes.at[transfer->object].handle);
    IPU_TRY(read_tensors(e, i, "row numbers of remote buffer", name, transfer->rows));
    for (int64_t r = 0; r < e->replication; r++) IPU_TRY(remote_one(e, i, r));
    return IPU_OK;
}

static ipu_status step(ipu_engine *engine, const ipu__instruction *i)
{
    ipu__cpu             *e   = engine->own;
    const ipu_executable *exe = e->exe;
    switch (i->op) {
    case IPU__CODE_MOVE:
        for (int64_t r = 0; r < e->replication; r++) move_batch(e, i->a, r, r);
        return IPU_OK;
    case IPU__CODE_CROSS_REPLICA: cross_replica(e, &exe->crosses.at[i->a]); return IPU_OK;
    case IPU__CODE_ALL_REDUCE: return read_tensors(e, i, "all_reduce", NULL, exe->reduces.at[i->a].tensor);
    case IPU__CODE_UNDEFINE: set_tensor(e, i->a, 0, e->replication, 0); return IPU_OK;
    case IPU__CODE_KERNEL:
        IPU_TRY(kernel(e, i));
        kernel_outputs(e, &exe->kernels.at[i->a]);
        return IPU_OK;
    case IPU__CODE_READ: set_tensor(e, exe->transfers.at[i->a].tensor, 0, e->replication, 1); return IPU_OK;
    case IPU__CODE_WRITE:
        return read_tensors(e, i, "write to stream",
                            ipu__exe_text(exe, exe->streams.at[exe->transfers.at[i->a].object].handle),
                            exe->transfers.at[i->a].tensor);
    case IPU__CODE_REMOTE_READ:
    case IPU__CODE_REMOTE_WRITE: return remote(e, i);
    case IPU__CODE_JUMP_IF:
    case IPU__CODE_JUMP_UNLESS: return read_value(e, i, "the predicate", (ipu_type)i->a, i->n);
    case IPU__CODE_ABORT_IF: return read_value(e, i, "the condition of abort_if", (ipu_type)i->a, i->n);
    case IPU__CODE_SWITCH:
        return read_value(e, i, "the control of a switch", exe->switches.at[i->a].type,
                          exe->switches.at[i->a].control);
    case IPU__CODE_PRINT: return read_tensors(e, i, "print", NULL, exe->prints.at[i->a].tensor);
    case IPU__CODE_ERROR: return read_tensors(e, i, "error step", NULL, exe->prints.at[i->a].tensor);
    default: return IPU_OK;
    }
}

/* ---- the host ---- */

static ipu_status host(ipu_engine *engine, const char *handle, uint32_t tensor, bool is_write, int64_t first,
                       int64_t end)
{
    ipu__cpu *e = engine->own;
    if (is_write) {
        set_tensor(e, tensor, first, end, 1);
        return IPU_OK;
    }
    reader who = make_reader(e, NULL, "host read", handle, first);
    read_tensor(e, &who, tensor, first);
    return ipu__checking_conclude(e, IPU_INVALID);
}

static ipu_status host_row(ipu_engine *engine, uint32_t id, int64_t replica, int64_t row, bool is_write)
{
    ipu__cpu              *e      = engine->own;
    const ipu__exe_remote *r      = &e->exe->remotes.at[id];
    size_t                 bytes  = (size_t)r->row_bytes;
    char                  *shadow = e->check->remotes[id] + (replica * r->n_rows + row) * r->row_bytes;
    const char            *hole   = is_write ? NULL : memchr(shadow, 0, bytes);
    if (is_write) memset(shadow, 1, bytes);
    if (!hole) return IPU_OK;
    reader who = make_reader(e, NULL, "host read of remote buffer", ipu__exe_text(e->exe, r->handle),
                             replica);
    return ipu__fail(
        IPU_INVALID,
        "%s: reads row %lld, where values that nothing has written were stored (from byte %lld on): "
        "write or initialise them first",
        who.text, (long long)row, (long long)(hole - shadow));
}

const ipu__engine_checks ipu__cpu_checks = {step, host, host_row};

/* Data in and out: streams, remote buffers, host handles, prints, initial values, copies between replicas.
 *
 * requires: liveness (places). Every tensor that is moved to or from a packed buffer gets a batch of moves;
 * what may need a buffer of the engine's own counts towards `staging_bytes`.
 */
#include "engine/compile.h"
#include "engine/memory.h"
#include "graph/interval.h"

static const ipu__place host_place = (uint64_t)IPU__SPACE_HOST << IPU__SPACE_SHIFT;

ipu_status ipu__lower_batch(ipu__compiler *c, size_t first, uint32_t *out)
{
    ipu__moves    *moves = &c->exe->moves;
    ipu__exe_batch batch = {.first = (uint32_t)first, .n = (uint32_t)(moves->at.n - first)};
    for (size_t i = first; i < moves->at.n; i++) batch.bytes += moves->at.at[i].bytes;
    *out = (uint32_t)c->exe->batches.n;
    return ipu__or_memory(ipu__push(&c->exe->batches, batch));
}

ipu__place ipu__lower_first(const ipu__compiler *c, uint32_t view)
{
    ipu__run run;
    if (!ipu__view_contiguous(&c->g->views, view, &run) || run.count == 0) return IPU__EMPTY_PLACE;
    return c->places[run.var] + (uint64_t)run.start * ipu_type_size(ipu__view_get(&c->g->views, view).type);
}

ipu_status ipu__lower_tensor(ipu__compiler *c, uint32_t view, bool unpack, uint32_t *out)
{
    ipu_executable *exe    = c->exe;
    ipu__view       v      = ipu__view_get(&c->g->views, view);
    size_t          first  = exe->moves.at.n;
    ipu__exe_tensor tensor = {.type = v.type, .shape = v.shape};
    ipu__run        run;
    for (int d = v.shape.rank; d < IPU_MAX_RANK; d++)
        tensor.shape.dim[d] = 0; /* shapes are stored in files */
    tensor.bytes  = v.n_elements * (int64_t)ipu_type_size(v.type);
    tensor.place  = ipu__lower_first(c, view);
    tensor.direct = ipu__view_contiguous(&c->g->views, view, &run)
                 && (run.count == 0 || ipu__place_space(tensor.place) == IPU__SPACE_VARIABLE);
    bool ok = unpack ? ipu__moves_add_unpack(&exe->moves, first, &c->layout, host_place, view)
                     : ipu__moves_add_pack(&exe->moves, first, &c->layout, view, host_place);
    if (!ok) return ipu__fail_memory();
    IPU_TRY(ipu__lower_batch(c, first, &tensor.batch));
    *out = (uint32_t)exe->tensors.n;
    return ipu__or_memory(ipu__push(&exe->tensors, tensor));
}

static void need_staging(ipu_executable *exe, int64_t bytes)
{
    if (bytes > exe->staging_bytes) exe->staging_bytes = bytes;
}

/* ---- what does not depend on programs ---- */

static ipu_status lower_streams(ipu__compiler *c)
{
    const ipu_graph *g   = c->g;
    ipu_executable  *exe = c->exe;
    for (size_t i = 0; i < g->streams.n; i++) {
        const ipu__stream *s       = &g->streams.at[i];
        ipu__exe_stream    lowered = {.handle    = ipu__compiler_text(c, s->handle ? s->handle : ""),
                                      .bytes     = s->n_elements * (int64_t)ipu_type_size(s->type),
                                      .to_device = s->to_device,
                                      .broadcast = s->mode == IPU_STREAM_BROADCAST};
        if (lowered.handle == IPU__NONE || !ipu__push(&exe->streams, lowered)) return ipu__fail_memory();
    }
    for (size_t i = 0; i < g->remote_buffers.n; i++) {
        const ipu__remote_buffer *b       = &g->remote_buffers.at[i];
        ipu__exe_remote           lowered = {.handle    = ipu__compiler_text(c, b->handle ? b->handle : ""),
                                             .row_bytes = b->n_elements * (int64_t)ipu_type_size(b->type),
                                             .n_rows    = b->n_rows};
        if (lowered.handle == IPU__NONE || !ipu__push(&exe->remotes, lowered)) return ipu__fail_memory();
    }
    return IPU_OK;
}

static ipu_status lower_handles(ipu__compiler *c)
{
    for (size_t i = 0; i < c->g->host_handles.n; i++) {
        const ipu__host_handle *h = &c->g->host_handles.at[i];
        ipu__exe_handle lowered   = {.handle = ipu__compiler_text(c, h->handle), .is_write = h->is_write};
        if (lowered.handle == IPU__NONE) return ipu__fail_memory();
        IPU_TRY(ipu__lower_tensor(c, h->view, h->is_write, &lowered.tensor));
        if (!ipu__push(&c->exe->handles, lowered)) return ipu__fail_memory();
    }
    return IPU_OK;
}

static ipu_status lower_initial_values(ipu__compiler *c)
{
    for (size_t i = 0; i < c->g->initial_values.n; i++) {
        const ipu__initial_value *value = &c->g->initial_values.at[i];
        ipu__view                 v     = ipu__view_get(&c->g->views, value->view);
        size_t     first = c->exe->moves.at.n, bytes = (size_t)v.n_elements * ipu_type_size(v.type);
        ipu__place place;
        uint32_t   batch;
        if (!ipu__compiler_constant(c, value->data, bytes, 16, &place)
            || !ipu__moves_add_unpack(&c->exe->moves, first, &c->layout, place, value->view))
            return ipu__fail_memory();
        IPU_TRY(ipu__lower_batch(c, first, &batch));
        if (!ipu__push(&c->exe->initial, batch)) return ipu__fail_memory();
    }
    return IPU_OK;
}

ipu_status ipu__lower_host(ipu__compiler *c)
{
    IPU_TRY(lower_streams(c));
    IPU_TRY(lower_handles(c));
    return lower_initial_values(c);
}

/* ---- steps ---- */

ipu_status ipu__lower_transfer(ipu__compiler *c, const ipu__step *step, uint32_t *out)
{
    ipu_executable   *exe      = c->exe;
    ipu__exe_transfer transfer = {.object = step->object, .rows = IPU__NONE};
    IPU_TRY(ipu__lower_tensor(c, step->to ? step->to : step->from, step->to != 0, &transfer.tensor));
    if (step->rows) IPU_TRY(ipu__lower_tensor(c, step->rows, false, &transfer.rows));
    bool    is_read   = step->kind == IPU__STEP_READ;
    bool    is_shared = is_read && exe->streams.at[step->object].broadcast && exe->replication > 1;
    int64_t staging   = 0;
    if (!exe->tensors.at[transfer.tensor].direct || is_shared)
        staging = ipu__memory_align(exe->tensors.at[transfer.tensor].bytes);
    if (step->rows) staging += exe->tensors.at[transfer.rows].bytes; /* rows follow the data */
    need_staging(exe, staging);
    *out = (uint32_t)exe->transfers.n;
    if (is_read) ipu__buffers_read(c, step->to, *out);
    return ipu__or_memory(ipu__push(&exe->transfers, transfer));
}

static const char *title_of(const ipu__compiler *c, const ipu__step *step)
{
    if (step->text || !step->from) return step->text ? step->text : "";
    ipu__view   v      = ipu__view_get(&c->g->views, step->from);
    ipu__pieces pieces = ipu__view_pieces(&c->g->views, &v);
    ipu__piece  piece;
    return ipu__pieces_next(&pieces, &piece) ? c->g->variables.at[piece.var].name : "";
}

ipu_status ipu__lower_print(ipu__compiler *c, const ipu__step *step, uint32_t *out)
{
    ipu_executable *exe   = c->exe;
    ipu__exe_print  print = {ipu__compiler_text(c, title_of(c, step)), IPU__NONE};
    if (print.text == IPU__NONE) return ipu__fail_memory();
    if (step->from) {
        IPU_TRY(ipu__lower_tensor(c, step->from, false, &print.tensor));
        if (!exe->tensors.at[print.tensor].direct) need_staging(exe, exe->tensors.at[print.tensor].bytes);
    }
    *out = (uint32_t)exe->prints.n;
    return ipu__or_memory(ipu__push(&exe->prints, print));
}

static bool share_variables(ipu__compiler *c, uint32_t from, uint32_t to)
{
    ipu__view   a = ipu__view_get(&c->g->views, from), b = ipu__view_get(&c->g->views, to);
    ipu__pieces pieces = ipu__view_pieces(&c->g->views, &a);
    ipu__piece  piece;
    c->stamp++;
    while (ipu__pieces_next(&pieces, &piece)) c->var_stamp[piece.var] = c->stamp;
    pieces = ipu__view_pieces(&c->g->views, &b);
    while (ipu__pieces_next(&pieces, &piece))
        if (c->var_stamp[piece.var] == c->stamp) return true;
    return false;
}

ipu_status ipu__lower_cross(ipu__compiler *c, const ipu__step *step, uint32_t *out)
{
    ipu_executable *exe   = c->exe;
    ipu__exe_cross  cross = {.gather = IPU__NONE, .to = (uint32_t)exe->replicas.n};
    size_t          first = exe->moves.at.n;
    bool            ok;
    if (share_variables(c, step->from, step->to)) { /* it may be overwritten before it is read */
        ipu__view  v      = ipu__view_get(&c->g->views, step->from);
        int64_t    bytes  = v.n_elements * (int64_t)ipu_type_size(v.type);
        ipu__place packed = ipu__place_make(IPU__SPACE_GATHER, 0);
        if (bytes > exe->gather_bytes) exe->gather_bytes = bytes;
        if (!ipu__moves_add_pack(&exe->moves, first, &c->layout, step->from, packed))
            return ipu__fail_memory();
        IPU_TRY(ipu__lower_batch(c, first, &cross.gather));
        first = exe->moves.at.n;
        ok    = ipu__moves_add_unpack(&exe->moves, first, &c->layout, packed, step->to);
    } else {
        ok = ipu__moves_add_copy(&exe->moves, first, &c->layout, step->from, step->to);
    }
    if (!ok) return ipu__fail_memory();
    IPU_TRY(ipu__lower_batch(c, first, &cross.copy));
    for (int64_t r = 0; r < exe->replication; r++)
        if (!ipu__push(&exe->replicas, step->replicas[r])) return ipu__fail_memory();
    *out = (uint32_t)exe->crosses.n;
    return ipu__or_memory(ipu__push(&exe->crosses, cross));
}

/* Elements in memory order: the order in which they are summed does not matter. */
ipu_status ipu__lower_reduce(ipu__compiler *c, const ipu__step *step, uint32_t *out)
{
    ipu_executable    *exe    = c->exe;
    ipu__view          v      = ipu__view_get(&c->g->views, step->to);
    size_t             size   = ipu_type_size(v.type);
    ipu__exe_reduce    reduce = {.type = v.type, .first = (uint32_t)exe->pieces.n, .tensor = IPU__NONE};
    ipu__interval_list set    = {0};
    bool               ok     = ipu__intervals_add(&set, &c->g->views, step->to, 0);
    ipu__intervals_merge(&set);
    for (size_t i = 0; ok && i < set.list.n; i++) {
        const ipu__interval *x = &set.list.at[i];
        ipu__exe_piece       p = {c->places[x->var] + (uint64_t)x->begin * size, reduce.n_elements,
                                  x->end - x->begin};
        ok                     = ipu__push(&exe->pieces, p);
        reduce.n_elements += p.n;
        reduce.n++;
    }
    ipu__intervals_fini(&set);
    if (!ok) return ipu__fail_memory();
    if (c->check) IPU_TRY(ipu__lower_tensor(c, step->to, false, &reduce.tensor));
    *out = (uint32_t)exe->reduces.n;
    return ipu__or_memory(ipu__push(&exe->reduces, reduce));
}

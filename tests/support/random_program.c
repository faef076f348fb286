/* Random programs: variables, then programs of random steps over random views of them. */
#include "random_program.h"

#include <stdio.h>
#include <string.h>

rp_mistake  random_program_mistake;
atomic_long random_program_chances[RP_N_MISTAKES];

static bool slips(rp_mistake mistake)
{
    atomic_fetch_add(&random_program_chances[mistake], 1);
    return random_program_mistake == mistake;
}

/* ---- codelets of all forms; integers wrap, all of an output is written ---- */

#define BLEND(F) F(IN, float, a) F(IN_VECTOR, float, x) F(INOUT_VECTOR, float, y) F(STATE, float, k)
IPU_VERTEX(Blend, BLEND)
{
    for (size_t i = 0; i < v->y.size; i++)
        v->y.data[i] = 0.5f * v->y.data[i] + *v->a * (v->x.size ? v->x.data[i % v->x.size] : 1) + v->k;
    if (slips(RP_BLEND_PAST_END)) v->y.data[v->y.size] = 1.5f;
    return true;
}

#define COMBINE(F) F(IN, int32_t, x) F(IN, int32_t, y) F(OUT, int32_t, to)
IPU_VERTEX(Combine, COMBINE)
{
    *v->to = (int32_t)((uint32_t)*v->x * 3u + (uint32_t)*v->y);
    if (slips(RP_COMBINE_WRITES_IN)) *(int32_t *)v->x ^= 1;
    return true;
}

#define ROW_SUMS(F) F(IN_VECTORS, int32_t, rows) F(OUT_VECTOR, int32_t, sums)
IPU_MULTI_VERTEX(RowSums, ROW_SUMS)
{
    for (size_t r = worker; r < v->sums.size; r += n_workers) {
        uint32_t sum = 0;
        for (size_t i = 0; r < v->rows.size && i < v->rows.data[r].size; i++)
            sum = sum * 31u + (uint32_t)v->rows.data[r].data[i];
        v->sums.data[r] = (int32_t)sum;
    }
    return true;
}

#define LOOKUP(F)                \
    F(IN_POINTER, int32_t, from) \
    F(OUT_POINTER, int32_t, to) F(STATE, uint32_t, n) F(STATE_VECTOR, int32_t, table)
IPU_VERTEX(Lookup, LOOKUP)
{
    for (uint32_t i = 0; i < v->n; i++)
        v->to[i] = (int32_t)((uint32_t)v->from[i] + (uint32_t)v->table.data[i % v->table.size]);
    return true;
}

#define SPREAD(F) F(IN_VECTOR, float, x) F(OUT_VECTORS, float, rows)
IPU_VERTEX(Spread, SPREAD)
{
    for (size_t r = 0; r < v->rows.size; r++)
        for (size_t i = 0; i < v->rows.data[r].size; i++)
            v->rows.data[r].data[i] = (v->x.size ? v->x.data[(r + i) % v->x.size] : 0) - (float)r;
    return true;
}

#define BUMP(F) F(INOUT_VECTORS, int32_t, rows) F(INOUT, int32_t, total)
IPU_VERTEX(Bump, BUMP)
{
    uint32_t total = (uint32_t)*v->total;
    for (size_t r = 0; r < v->rows.size; r++)
        for (size_t i = 0; i < v->rows.data[r].size; i++) {
            v->rows.data[r].data[i] = (int32_t)((uint32_t)v->rows.data[r].data[i] + (uint32_t)r + 1u);
            total += (uint32_t)v->rows.data[r].data[i];
        }
    *v->total = (int32_t)total;
    if (v->rows.size > 0 && slips(RP_BUMP_BEFORE_ROW)) v->rows.data[0].data[-1] = 1;
    return true;
}

#define NEGATE(F) F(INOUT_POINTER, ipu_half, h) F(STATE, uint8_t, n)
IPU_MULTI_VERTEX(Negate, NEGATE)
{
    for (unsigned i = worker; i < v->n; i += n_workers) v->h[i].bits ^= 0x8000u;
    return true;
}

#define STEP(F) F(INOUT, int32_t, counter) F(OUT, bool, flag) F(STATE, int32_t, by) F(STATE, int32_t, modulo)
IPU_VERTEX(Step, STEP)
{
    *v->counter = (int32_t)((uint32_t)*v->counter + (uint32_t)v->by);
    *v->flag    = *v->counter % v->modulo != 0;
    return true;
}

#define GUARD(F) F(IN, int32_t, counter) F(STATE, int32_t, forbidden)
IPU_VERTEX(Guard, GUARD)
{
    return *v->counter != v->forbidden;
}

const ipu_codelet *const random_program_codelets[] = {&Blend, &Combine, &RowSums, &Lookup, &Spread,
                                                      &Bump,  &Negate,  &Step,    &Guard};
const size_t random_program_n_codelets = sizeof random_program_codelets / sizeof *random_program_codelets;

/* ---- values ---- */

void random_values(uint64_t key, ipu_type type, int64_t n, void *out)
{
    test_random r    = {key};
    size_t      size = ipu_type_size(type);
    for (int64_t i = 0; i < n; i++) {
        uint64_t      bits   = random_bits(&r);
        float         number = (float)((int)(bits % 64) - 32) / 4;
        ipu_half      half   = ipu_half_from_float(number);
        char         *to     = (char *)out + (size_t)i * size;
        const void   *from   = &bits;
        unsigned char truth  = bits & 1;
        if (type == IPU_FLOAT) from = &number;
        if (type == IPU_HALF) from = &half;
        if (type == IPU_BOOL) from = &truth;
        memcpy(to, from, size);
    }
}

static bool    chance(random_program *rp, int percent) { return random_chance(&rp->random, percent); }
static int64_t in(random_program *rp, int64_t begin, int64_t end)
{
    return random_in(&rp->random, begin, end);
}

static const char *new_name(random_program *rp, const char *stem, char out[8])
{
    snprintf(out, 8, "%s%d", stem, rp->n_names++);
    return out;
}

/* ---- variables ---- */

static void place(random_program *rp, ipu_tensor t)
{
    int64_t n_tiles = ipu_graph_n_tiles(rp->graph), n = ipu_tensor_n_elements(t);
    ipu_graph_set_tile_mapping(rp->graph, t, in(rp, 0, n_tiles - 1));
    if (chance(rp, 50)) ipu_graph_map_linearly_by(rp->graph, t, in(rp, 1, 4), in(rp, 1, 4));
    for (int k = 0; k < 2 && chance(rp, 30); k++) {
        int64_t           begin = in(rp, 0, n);
        ipu_tile_interval map   = {in(rp, 0, n_tiles - 1), begin, in(rp, begin, n)};
        ipu_graph_set_tile_intervals(rp->graph, t, &map, 1);
    }
}

static ipu_tensor new_variable(random_program *rp, ipu_type type, ipu_shape shape)
{
    char       name[8];
    ipu_tensor t = ipu_graph_add_variable(rp->graph, type, shape, new_name(rp, "v", name));
    place(rp, t);
    return t;
}

static ipu_tensor new_constant(random_program *rp, ipu_type type, ipu_shape shape, const void *data)
{
    char       name[8];
    ipu_tensor t = ipu_graph_add_constant(rp->graph, type, shape, data, new_name(rp, "c", name));
    place(rp, t);
    return t;
}

static ipu_tensor constant_int(random_program *rp, int32_t value)
{
    return new_constant(rp, IPU_INT32, IPU_SCALAR, &value);
}

static ipu_shape any_shape(random_program *rp)
{
    switch (in(rp, 0, 3)) {
    case 0: return IPU_SHAPE(in(rp, 1, 64 * rp->scale));
    case 1: return IPU_SHAPE(in(rp, 1, 8 * rp->scale), in(rp, 1, 8));
    case 2: return IPU_SHAPE(in(rp, 1, 4), in(rp, 1, 4), in(rp, 1, 4 * rp->scale));
    default: return IPU_SHAPE(in(rp, 0, 3), in(rp, 2, 12));
    }
}

static void add_handle(random_program *rp, ipu_tensor t, bool is_write)
{
    rp_handle *h = &rp->handles[rp->n_handles];
    if (rp->n_handles == RP_MAX_HANDLES) return;
    new_name(rp, is_write ? "w" : "r", h->handle);
    h->type       = ipu_tensor_type(t);
    h->n_elements = ipu_tensor_n_elements(t);
    h->is_write   = is_write;
    if (is_write)
        ipu_graph_add_host_write(rp->graph, h->handle, t);
    else
        ipu_graph_add_host_read(rp->graph, h->handle, t);
    rp->n_handles++;
}

static void add_variables(random_program *rp)
{
    static const ipu_type types[] = {IPU_FLOAT, IPU_INT32, IPU_HALF, IPU_FLOAT, IPU_INT32};
    uint64_t              data[RP_MAX_ELEMENTS];
    while (rp->n_variables < RP_MAX_VARIABLES - RP_N_TEMPORARIES) {
        rp_variable *v = &rp->variables[rp->n_variables++];
        ipu_shape    s = any_shape(rp);
        *v             = (rp_variable){.type = types[rp->n_variables % 5], .constant = chance(rp, 15)};
        v->home        = (int)in(rp, -RP_N_PROGRAMS, RP_N_PROGRAMS - 1);
        random_values(random_bits(&rp->random), v->type, RP_MAX_ELEMENTS, data);
        v->tensor = v->constant ? new_constant(rp, v->type, s, data) : new_variable(rp, v->type, s);
        if (!v->constant && (chance(rp, 40) || rp->defined))
            ipu_graph_set_initial_value(rp->graph, v->tensor, data);
        if (!v->constant && chance(rp, 30)) add_handle(rp, v->tensor, true);
        if (chance(rp, 40)) add_handle(rp, v->tensor, false);
    }
    while (rp->n_variables < RP_MAX_VARIABLES) {
        rp_variable *v = &rp->variables[rp->n_variables++];
        *v             = (rp_variable){.type = types[rp->n_variables % 5], .temporary = true};
        v->home        = (int)in(rp, -RP_N_PROGRAMS, RP_N_PROGRAMS - 1);
        v->tensor      = new_variable(rp, v->type, any_shape(rp));
    }
    for (int k = 0; k < 2; k++) {
        int32_t zero    = 0;
        rp->counters[k] = new_variable(rp, IPU_INT32, IPU_SCALAR);
        rp->flags[k]    = new_variable(rp, IPU_BOOL, IPU_SCALAR);
        ipu_graph_set_initial_value(rp->graph, rp->counters[k], &zero);
        ipu_graph_set_initial_value(rp->graph, rp->flags[k], &zero);
        add_handle(rp, rp->counters[k], false);
    }
}

static void add_streams(random_program *rp)
{
    static const ipu_type types[] = {IPU_FLOAT, IPU_INT32, IPU_HALF};
    for (; rp->n_streams < RP_MAX_STREAMS; rp->n_streams++) {
        rp_stream *s = &rp->streams[rp->n_streams];
        *s           = (rp_stream){.type       = types[in(rp, 0, 2)],
                                   .n_elements = in(rp, 0, 24 * rp->scale),
                                   .to_device  = chance(rp, 50),
                                   .broadcast  = chance(rp, 30),
                                   .ring       = chance(rp, 50) ? in(rp, 1, 3) : 0};
        new_name(rp, "s", s->handle);
        ipu_stream_mode mode = s->broadcast ? IPU_STREAM_BROADCAST : IPU_STREAM_REPLICATE;
        s->broadcast         = s->broadcast && s->to_device;
        if (s->n_elements == 0) s->ring = 0; /* an empty buffer is no ring */
        s->stream = s->to_device
                      ? ipu_graph_add_host_to_device(rp->graph, s->handle, s->type, s->n_elements, mode)
                      : ipu_graph_add_device_to_host(rp->graph, s->handle, s->type, s->n_elements);
    }
    for (; rp->n_remotes < RP_MAX_REMOTES; rp->n_remotes++) {
        rp_remote *b = &rp->remotes[rp->n_remotes];
        *b = (rp_remote){.type = types[in(rp, 0, 2)], .n_elements = in(rp, 1, 8), .n_rows = in(rp, 1, 6)};
        new_name(rp, "m", b->handle);
        b->buffer = ipu_graph_add_remote_buffer(rp->graph, b->handle, b->type, b->n_elements, b->n_rows);
    }
}

/* ---- views ---- */

/* Some elements of `t`, flat, in some order, none twice. */
static ipu_tensor any_part(random_program *rp, ipu_tensor t)
{
    int rank = ipu_tensor_rank(t), perm[] = {0, 1, 2};
    if (chance(rp, 30)) {
        random_shuffle(&rp->random, perm, rank);
        t = ipu_tensor_permute(t, perm, rank);
    }
    for (int d = 0; d < rank; d++) {
        int64_t begin = in(rp, 0, ipu_tensor_dim(t, d)), end = in(rp, begin, ipu_tensor_dim(t, d));
        if (chance(rp, 25)) t = ipu_tensor_slice(t, begin, end, d);
        if (chance(rp, 15)) t = ipu_tensor_reverse(t, d);
        if (chance(rp, 15)) t = ipu_tensor_subsample(t, 2, d);
    }
    return ipu_tensor_flatten(t);
}

static bool in_use(const random_program *rp, const rp_variable *v)
{
    return v->home < 0 || v->home == rp->program;
}

/* Exactly `n` elements of a type, from one variable or several. To write: none twice, no constants.
 * To read: nothing that the compute set being made writes. Null: there are not enough. */
static ipu_tensor any_view(random_program *rp, ipu_type type, int64_t n, bool write)
{
    ipu_tensor parts[RP_MAX_VARIABLES + 1], null = {rp->graph, 0};
    int        order[RP_MAX_VARIABLES], n_parts  = 0;
    for (int i = 0; i < rp->n_variables; i++) order[i] = i;
    random_shuffle(&rp->random, order, rp->n_variables);
    parts[n_parts++] = ipu_tensor_slice(ipu_tensor_flatten(rp->variables[0].tensor), 0, 0, 0);
    if (type != rp->variables[0].type) n_parts = 0;
    for (int i = 0; i < rp->n_variables && n > 0; i++) {
        const rp_variable *v = &rp->variables[order[i]];
        if (v->type != type || v->busy || (write && (v->constant || v->temporary))) continue;
        if ((v->temporary && !v->ready) || !in_use(rp, v)) continue;
        ipu_tensor part = any_part(rp, v->tensor);
        if (!write && chance(rp, 10)) part = ipu_tensor_broadcast(part, 2, 0);
        int64_t most = ipu_tensor_n_elements(part), take = most < n ? most : n;
        int64_t from     = in(rp, 0, most - take);
        parts[n_parts++] = ipu_tensor_slice(part, from, from + take, 0);
        n -= take;
    }
    return n > 0 || n_parts == 0 ? null : ipu_tensor_concat(parts, (size_t)n_parts, 0);
}

static void set_busy(random_program *rp, ipu_tensor written)
{
    for (int i = 0; i < rp->n_variables; i++)
        rp->variables[i].busy |= ipu_tensor_intersects(rp->variables[i].tensor, written);
}

static void clear_busy(random_program *rp)
{
    for (int i = 0; i < rp->n_variables; i++) rp->variables[i].busy = false;
}

/* ---- compute sets ---- */

/* What the vertices of one compute set may write, handed out piece by piece. */
typedef struct supply {
    ipu_tensor tensor;
    int64_t    used;
} supply;

static supply new_supply(random_program *rp, ipu_type type)
{
    supply s = {any_view(rp, type, in(rp, 4, 50 * rp->scale), true), 0};
    if (ipu_tensor_valid(s.tensor)) set_busy(rp, s.tensor);
    return s;
}

static ipu_tensor hand_out(supply *s, int64_t n)
{
    bool enough = ipu_tensor_valid(s->tensor) && s->used + n <= ipu_tensor_n_elements(s->tensor);
    if (!enough) return (ipu_tensor){s->tensor.graph, 0};
    s->used += n;
    return ipu_tensor_slice(s->tensor, s->used - n, s->used, 0);
}

static ipu_vertex new_vertex(random_program *rp, ipu_compute_set cs, const char *codelet)
{
    ipu_vertex v = ipu_graph_add_vertex(rp->graph, cs, codelet);
    ipu_graph_set_vertex_tile(rp->graph, v, in(rp, 0, ipu_graph_n_tiles(rp->graph) - 1));
    return v;
}

static bool valid(ipu_tensor a, ipu_tensor b, ipu_tensor c)
{
    return ipu_tensor_valid(a) && ipu_tensor_valid(b) && ipu_tensor_valid(c);
}

static void add_blend(random_program *rp, ipu_compute_set cs, supply *s)
{
    ipu_tensor y = hand_out(s, in(rp, 0, 9)), x = any_view(rp, IPU_FLOAT, in(rp, 0, 9), false);
    ipu_tensor a = any_view(rp, IPU_FLOAT, 1, false);
    if (!valid(y, x, a)) return;
    ipu_vertex v = new_vertex(rp, cs, "Blend");
    ipu_vertex_connect(v, "a", a);
    ipu_vertex_connect(v, "x", x);
    ipu_vertex_connect(v, "y", y);
    ipu_vertex_set(v, "k", (double)in(rp, -8, 8) / 4);
}

static void add_combine(random_program *rp, ipu_compute_set cs, supply *s)
{
    ipu_tensor to = hand_out(s, 1), x = any_view(rp, IPU_INT32, 1, false),
               y = any_view(rp, IPU_INT32, 1, false);
    if (!valid(to, x, y)) return;
    ipu_vertex v = new_vertex(rp, cs, "Combine");
    ipu_vertex_connect(v, "x", x);
    ipu_vertex_connect(v, "y", y);
    ipu_vertex_connect(v, "to", to);
}

static void add_row_sums(random_program *rp, ipu_compute_set cs, supply *s)
{
    int64_t    n = in(rp, 0, 8), columns = in(rp, 0, 4);
    ipu_tensor sums = hand_out(s, n), rows = any_view(rp, IPU_INT32, n * columns, false), list[8];
    if (!valid(sums, rows, rows)) return;
    ipu_vertex v = new_vertex(rp, cs, "RowSums");
    for (int64_t r = 0; r < n; r++) list[r] = ipu_tensor_slice(rows, r * columns, (r + 1) * columns, 0);
    if (chance(rp, 50))
        ipu_vertex_connect(v, "rows", ipu_tensor_reshape(rows, IPU_SHAPE(n, columns)));
    else
        ipu_vertex_connect_list(v, "rows", list, (size_t)n);
    ipu_vertex_connect(v, "sums", sums);
}

static void add_lookup(random_program *rp, ipu_compute_set cs, supply *s)
{
    int64_t    n        = in(rp, 1, 9);
    int32_t    table[3] = {(int32_t)in(rp, -9, 9), 5, 7};
    ipu_tensor to = hand_out(s, n), from = any_view(rp, IPU_INT32, n, false);
    if (!valid(to, from, from)) return;
    ipu_vertex v = new_vertex(rp, cs, "Lookup");
    ipu_vertex_connect(v, "from", from);
    ipu_vertex_connect(v, "to", to);
    ipu_vertex_set(v, "n", (double)n);
    ipu_vertex_set_data(v, "table", table, (size_t)in(rp, 1, 3));
}

static void add_spread(random_program *rp, ipu_compute_set cs, supply *s)
{
    ipu_tensor rows[3], x = any_view(rp, IPU_FLOAT, in(rp, 0, 5), false);
    size_t     n = (size_t)in(rp, 0, 3);
    if (!ipu_tensor_valid(x)) return;
    for (size_t r = 0; r < n; r++) {
        rows[r] = hand_out(s, in(rp, 0, 5));
        if (!ipu_tensor_valid(rows[r])) return;
    }
    ipu_vertex v = new_vertex(rp, cs, "Spread");
    ipu_vertex_connect(v, "x", x);
    ipu_vertex_connect_list(v, "rows", rows, n);
}

static void add_bump(random_program *rp, ipu_compute_set cs, supply *s)
{
    int64_t    n = in(rp, 0, 3), columns = in(rp, 0, 4);
    ipu_tensor total = hand_out(s, 1), rows = hand_out(s, n * columns);
    if (!valid(total, rows, rows)) return;
    ipu_vertex v = new_vertex(rp, cs, "Bump");
    ipu_vertex_connect(v, "rows", ipu_tensor_reshape(rows, IPU_SHAPE(n, columns)));
    ipu_vertex_connect(v, "total", total);
}

static void add_negate(random_program *rp, ipu_compute_set cs, supply *s)
{
    int64_t    n = in(rp, 1, 20);
    ipu_tensor h = hand_out(s, n);
    if (!ipu_tensor_valid(h)) return;
    ipu_vertex v = new_vertex(rp, cs, "Negate");
    ipu_vertex_connect(v, "h", h);
    ipu_vertex_set(v, "n", (double)n);
}

/* Changes a counter and a flag in the same way on every replica. */
static void add_step_vertex(random_program *rp, ipu_compute_set cs, ipu_tensor counter, ipu_tensor flag,
                            int by, int modulo)
{
    ipu_vertex v = new_vertex(rp, cs, "Step");
    ipu_vertex_connect(v, "counter", counter);
    ipu_vertex_connect(v, "flag", flag);
    ipu_vertex_set(v, "by", by);
    ipu_vertex_set(v, "modulo", modulo);
}

static void step_execute(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    char            name[8];
    ipu_compute_set cs = ipu_graph_add_compute_set(rp->graph, new_name(rp, "cs", name));
    supply f = new_supply(rp, IPU_FLOAT), i = new_supply(rp, IPU_INT32), h = new_supply(rp, IPU_HALF);
    int    n = (int)in(rp, 0, 8 * rp->scale), k = (int)in(rp, 0, 1);
    bool   fail = chance(rp, 2);
    for (int n_vertices = 0; n_vertices < n; n_vertices++) {
        switch (in(rp, 0, 6)) {
        case 0: add_blend(rp, cs, &f); break;
        case 1: add_combine(rp, cs, &i); break;
        case 2: add_row_sums(rp, cs, &i); break;
        case 3: add_lookup(rp, cs, &i); break;
        case 4: add_spread(rp, cs, &f); break;
        case 5: add_bump(rp, cs, &i); break;
        default: add_negate(rp, cs, &h); break;
        }
    }
    if (!fail && chance(rp, 30))
        add_step_vertex(rp, cs, rp->counters[k], rp->flags[k], (int)in(rp, -1, 2), (int)in(rp, 1, 3));
    if (fail) {
        ipu_vertex v = new_vertex(rp, cs, "Guard");
        ipu_vertex_connect(v, "counter", rp->counters[k]);
        ipu_vertex_set(v, "forbidden", (double)in(rp, 0, 2));
    }
    clear_busy(rp);
    ipu_program_add_execute(p, cs);
}

/* ---- other steps; each may find nothing to do ---- */

static ipu_type any_type(random_program *rp)
{
    static const ipu_type types[] = {IPU_FLOAT, IPU_INT32, IPU_HALF};
    return types[in(rp, 0, 2)];
}

/* Two views of `n` elements without a common element: one to write, one to read. */
static bool two_views(random_program *rp, int64_t n, ipu_tensor *from, ipu_tensor *to)
{
    ipu_type type = any_type(rp);
    *to           = any_view(rp, type, n, true);
    *from         = any_view(rp, type, n, false);
    return ipu_tensor_valid(*to) && ipu_tensor_valid(*from) && !ipu_tensor_intersects(*from, *to);
}

static void step_copy(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    ipu_tensor from, to;
    for (int n = (int)in(rp, 1, 4); n > 0; n--)
        if (two_views(rp, in(rp, 0, 40 * rp->scale), &from, &to)) ipu_program_add_copy(p, from, to);
}

static void step_cross_replica(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    ipu_tensor from, to;
    int64_t    targets[4], shift = in(rp, 1, rp->replication > 1 ? rp->replication - 1 : 1);
    for (int64_t r = 0; r < rp->replication; r++) targets[r] = (r + shift) % rp->replication;
    if (rp->replication > 1 && two_views(rp, in(rp, 0, 20 * rp->scale), &from, &to))
        ipu_program_add_cross_replica_copy(p, from, to, targets, (size_t)rp->replication);
}

static void step_stream(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    const rp_stream *s = &rp->streams[in(rp, 0, rp->n_streams - 1)];
    ipu_tensor       t = any_view(rp, s->type, s->n_elements, s->to_device);
    if (!ipu_tensor_valid(t)) return;
    if (s->to_device)
        ipu_program_add_read(p, s->stream, t);
    else
        ipu_program_add_write(p, t, s->stream);
}

/* Row numbers as a constant: different ones, in any order. */
static ipu_tensor any_rows(random_program *rp, const rp_remote *b, int64_t n)
{
    int numbers[6] = {0, 1, 2, 3, 4, 5};
    random_shuffle(&rp->random, numbers, (int)b->n_rows);
    return new_constant(rp, chance(rp, 50) ? IPU_INT32 : IPU_UINT32, IPU_SHAPE(n), numbers);
}

static void step_remote(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    const rp_remote *b    = &rp->remotes[in(rp, 0, rp->n_remotes - 1)];
    int64_t          n    = in(rp, 1, b->n_rows);
    ipu_tensor       rows = {rp->graph, 0};
    bool             read = chance(rp, 50);
    ipu_tensor       t    = any_view(rp, b->type, n * b->n_elements, read);
    if (!ipu_tensor_valid(t)) return;
    if (chance(rp, 60)) rows = any_rows(rp, b, n);
    if (read)
        ipu_program_add_remote_read(p, b->buffer, rows, t);
    else
        ipu_program_add_remote_write(p, t, b->buffer, rows);
}

static void step_print(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    ipu_tensor t = any_view(rp, any_type(rp), in(rp, 0, 6), false);
    if (chance(rp, 50)) t = chance(rp, 50) ? rp->counters[0] : rp->flags[0];
    if (ipu_tensor_valid(t) && ipu_tensor_n_elements(t) == 6) t = ipu_tensor_reshape(t, IPU_SHAPE(2, 3));
    if (ipu_tensor_valid(t)) ipu_program_add_print(p, chance(rp, 20) ? NULL : "some values", t);
}

static void step_forget(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    rp_variable *v = &rp->variables[in(rp, 0, rp->n_variables - 1)];
    ipu_tensor   t = v->temporary || chance(rp, 70) ? v->tensor : any_part(rp, v->tensor);
    if (v->constant || !in_use(rp, v) || rp->defined) return;
    ipu_program_add_write_undef(p, t);
    v->ready = false;
}

/* All of `t`, written from as many elements by vertices that share it. */
static void write_by_vertices(random_program *rp, ipu_program p, ipu_tensor from, ipu_tensor t)
{
    char            name[8];
    ipu_compute_set cs   = ipu_graph_add_compute_set(rp->graph, new_name(rp, "cs", name));
    bool            ints = ipu_tensor_type(t) == IPU_INT32;
    int64_t         n = ipu_tensor_n_elements(t), middle = in(rp, 0, n);
    for (int k = 0; k < 2; k++) {
        ipu_tensor x = ipu_tensor_slice(from, k ? middle : 0, k ? n : middle, 0);
        ipu_tensor y = ipu_tensor_slice(t, k ? middle : 0, k ? n : middle, 0);
        ipu_vertex v = new_vertex(rp, cs, ints ? "Lookup" : "Spread");
        ipu_vertex_connect(v, ints ? "from" : "x", x);
        if (!ints) ipu_vertex_connect_list(v, "rows", &y, 1);
        if (!ints) continue;
        ipu_vertex_connect(v, "to", y);
        ipu_vertex_set(v, "n", (double)ipu_tensor_n_elements(y));
        ipu_vertex_set_data(v, "table", (int32_t[]){3, 1}, 2);
    }
    ipu_program_add_execute(p, cs);
}

/* A temporary written as a whole, in some way: from here on it can be read. */
static void step_whole(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    rp_variable *v      = &rp->variables[in(rp, rp->n_variables - RP_N_TEMPORARIES, rp->n_variables - 1)];
    ipu_tensor   t      = ipu_tensor_flatten(chance(rp, 30) ? ipu_tensor_transpose(v->tensor) : v->tensor);
    v->ready            = false; /* it is not its own source */
    ipu_tensor    from  = any_view(rp, v->type, ipu_tensor_n_elements(t), false);
    ipu_attribute value = IPU_INT_ATTRIBUTE("value", in(rp, -3, 3));
    if (v->type != IPU_HALF && chance(rp, 40) && ipu_tensor_valid(from))
        write_by_vertices(rp, p, from, t);
    else if (ipu_tensor_valid(from) && chance(rp, 70))
        ipu_program_add_copy(p, from, t);
    else
        ipu_program_add_kernel(p, "fill", &value, 1, &t, 1);
    v->ready = true;
}

static void step_sync(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    ipu_program_add_sync(p, (ipu_sync_type)in(rp, 0, 2));
}

static void step_abort(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    if (!chance(rp, 15)) return;
    ipu_tensor  t    = chance(rp, 50) ? rp->counters[1] : (ipu_tensor){rp->graph, 0};
    ipu_program then = ipu_program_sequence(rp->graph), none = {rp->graph, 0};
    ipu_program_add_error(then, "the end", t);
    if (chance(rp, 50))
        ipu_program_add_if(p, rp->flags[1], then, none);
    else
        ipu_program_add_abort_if(p, rp->flags[0], "stopped");
}

/* ---- kernels: outputs and inputs may overlap ---- */

static void step_add(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    ipu_type   type = any_type(rp);
    int64_t    n    = in(rp, 0, 30 * rp->scale);
    ipu_tensor t[]  = {any_view(rp, type, n, false), any_view(rp, type, n, false),
                       any_view(rp, type, n, true)};
    if (!valid(t[0], t[1], t[2])) return;
    if (chance(rp, 20)) t[0] = t[2];
    ipu_program_add_kernel(p, "add", NULL, 0, t, 3);
}

static void step_fill(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    ipu_tensor    t     = any_view(rp, any_type(rp), in(rp, 0, 30 * rp->scale), true);
    ipu_attribute value = IPU_INT_ATTRIBUTE("value", in(rp, -3, 3));
    if (ipu_tensor_valid(t)) ipu_program_add_kernel(p, "fill", &value, 1, &t, 1);
}

/* In integers, so that the order of additions does not matter. */
static void step_matmul(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    int64_t       m = in(rp, 1, 4), k = in(rp, 1, 4), n = in(rp, 1, 4);
    bool          ta = chance(rp, 30), tb = chance(rp, 30);
    ipu_tensor    t[] = {any_view(rp, IPU_INT32, m * k, false), any_view(rp, IPU_INT32, k * n, false),
                         any_view(rp, IPU_INT32, m * n, true)};
    ipu_attribute attributes[] = {IPU_INT_ATTRIBUTE("transpose_a", ta), IPU_INT_ATTRIBUTE("transpose_b", tb)};
    if (!valid(t[0], t[1], t[2])) return;
    t[0] = ipu_tensor_reshape(t[0], ta ? IPU_SHAPE(k, m) : IPU_SHAPE(m, k));
    t[1] = ipu_tensor_reshape(t[1], tb ? IPU_SHAPE(n, k) : IPU_SHAPE(k, n));
    t[2] = ipu_tensor_reshape(t[2], IPU_SHAPE(m, n));
    ipu_program_add_kernel(p, "matmul", attributes, 2, t, 3);
}

/* ---- control flow ---- */

static ipu_program new_body(random_program *rp, int depth);

static void step_repeat(random_program *rp, ipu_program p, int depth)
{
    ipu_program_add_repeat(p, in(rp, 0, 3), new_body(rp, depth + 1));
}

static void step_sequence(random_program *rp, ipu_program p, int depth)
{
    ipu_program_add(p, new_body(rp, depth + 1));
}

static void step_if(random_program *rp, ipu_program p, int depth)
{
    ipu_program none      = {rp->graph, 0};
    ipu_tensor  predicate = chance(rp, 50) ? rp->flags[in(rp, 0, 1)] : rp->counters[in(rp, 0, 1)];
    ipu_program then      = chance(rp, 80) ? new_body(rp, depth + 1) : none;
    ipu_program_add_if(p, predicate, then, chance(rp, 60) ? new_body(rp, depth + 1) : none);
}

static void step_switch(random_program *rp, ipu_program p, int depth)
{
    static const int64_t values[] = {0, 1, -1, 2, INT64_MIN};
    ipu_switch_case      cases[5];
    ipu_program          none = {rp->graph, 0};
    size_t               n    = (size_t)in(rp, 0, 5);
    for (size_t i = 0; i < n; i++) cases[i] = (ipu_switch_case){values[i], new_body(rp, depth + 1)};
    ipu_program_add_switch(p, rp->counters[in(rp, 0, 1)], cases, n,
                           chance(rp, 50) ? new_body(rp, depth + 1) : none);
}

/* Counts a counter of its own down to a number that its modulo divides. */
static void step_while(random_program *rp, ipu_program p, int depth)
{
    char       name[8];
    ipu_tensor counter        = new_variable(rp, IPU_INT32, IPU_SCALAR),
               flag           = new_variable(rp, IPU_BOOL, IPU_SCALAR);
    ipu_compute_set cs        = ipu_graph_add_compute_set(rp->graph, new_name(rp, "cs", name));
    ipu_program     condition = chance(rp, 50) ? new_body(rp, depth + 1) : ipu_program_sequence(rp->graph);
    add_step_vertex(rp, cs, counter, flag, -1, 100);
    ipu_program_add_execute(condition, cs);
    if (chance(rp, 70)) { /* the flag is true until the counter is 0 */
        ipu_program_add_copy(p, constant_int(rp, (int32_t)in(rp, 1, 3)), counter);
        ipu_program_add_while_true(p, condition, flag, new_body(rp, depth + 1));
    } else { /* false at once, then true */
        ipu_program_add_copy(p, constant_int(rp, 1), counter);
        ipu_program_add_while_false(p, condition, flag, new_body(rp, depth + 1));
    }
}

static void step_call(random_program *rp, ipu_program p, int depth)
{
    (void)depth;
    if (rp->n_functions) ipu_program_add_call(p, rp->functions[in(rp, 0, rp->n_functions - 1)]);
}

typedef void (*step_fn)(random_program *rp, ipu_program p, int depth);

/* Beside one another where the check of the graph allows it, otherwise in order. */
static void step_parallel(random_program *rp, ipu_program p, int depth)
{
    static const step_fn kinds[] = {step_execute, step_whole, step_whole, step_copy, step_add, step_matmul};
    ipu_program          bodies[2], beside = ipu_program_sequence(rp->graph);
    for (int i = 0; i < 2; i++) {
        bodies[i] = ipu_program_sequence(rp->graph);
        for (int64_t n = in(rp, 1, 3); n > 0; n--) kinds[in(rp, 0, 5)](rp, bodies[i], depth);
    }
    ipu_program_add_parallel(beside, bodies, 2);
    if (ipu_graph_check(rp->graph, &beside, 1) == IPU_OK)
        ipu_program_add(p, beside);
    else
        for (int i = 0; i < 2; i++) ipu_program_add(p, bodies[i]);
}

static const step_fn plain_steps[] = {
    step_execute, step_execute, step_execute, step_execute, step_whole,         step_whole,
    step_whole,   step_whole,   step_whole,   step_copy,    step_copy,          step_copy,
    step_stream,  step_stream,  step_remote,  step_print,   step_forget,        step_forget,
    step_sync,    step_add,     step_fill,    step_matmul,  step_cross_replica, step_abort,
};
static const step_fn nested_steps[] = {step_repeat, step_sequence, step_if,       step_switch,  step_while,
                                       step_call,   step_call,     step_parallel, step_parallel};

static void add_steps(random_program *rp, ipu_program p, int depth)
{
    const size_t n_nested = sizeof nested_steps / sizeof *nested_steps;
    const size_t n_plain  = sizeof plain_steps / sizeof *plain_steps;
    for (int n = (int)in(rp, 1, depth ? 5 : 16); n > 0; n--) {
        bool   nested = depth < 3 && chance(rp, 25);
        size_t which  = (size_t)in(rp, 0, (int64_t)(nested ? n_nested : n_plain) - 1);
        (nested ? nested_steps : plain_steps)[which](rp, p, depth);
    }
}

/* What is ready within a body may not be so after it. */
static ipu_program new_body(random_program *rp, int depth)
{
    ipu_program p = ipu_program_sequence(rp->graph);
    bool        ready[RP_MAX_VARIABLES];
    for (int i = 0; i < rp->n_variables; i++) ready[i] = rp->variables[i].ready;
    add_steps(rp, p, depth);
    for (int i = 0; i < rp->n_variables; i++) rp->variables[i].ready = ready[i] && rp->variables[i].ready;
    return p;
}

/* ---- the whole ---- */

static void create(random_program *rp, uint64_t seed, bool defined)
{
    static const int64_t replications[] = {1, 1, 2, 4};
    ipu_target           target;
    *rp             = (random_program){.random = {seed}, .defined = defined};
    rp->replication = replications[in(rp, 0, 3)];
    rp->scale       = chance(rp, 5) ? RP_LARGE : 1;
    if (ipu_target_find("gc200", rp->replication, &target) != IPU_OK) return;
    if (ipu_target_limit_tiles(&target, in(rp, 1, 12)) != IPU_OK) return;
    if (ipu_graph_create(&target, rp->replication, &rp->graph) != IPU_OK) return;
    for (size_t i = 0; i < random_program_n_codelets; i++)
        ipu_graph_add_codelet(rp->graph, random_program_codelets[i]);
    add_variables(rp);
    add_streams(rp);
    rp->program = -1;
    for (int i = 0; i < 2; i++) {
        rp->functions[i] = ipu_graph_add_function(rp->graph, new_body(rp, 2), i ? "g" : "f");
        rp->n_functions++;
    }
    for (rp->program = 0; rp->program < RP_N_PROGRAMS; rp->program++)
        rp->programs[rp->program] = new_body(rp, 0);
}

void random_program_create(random_program *rp, uint64_t seed) { create(rp, seed, false); }

void random_program_create_defined(random_program *rp, uint64_t seed) { create(rp, seed, true); }

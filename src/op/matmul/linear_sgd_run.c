/* linear_sgd by tiles: each part owns some rows of w, adds their contribution to dx, and then updates them.
 *
 * Forward products divide the rows in the same way, so that weights and momenta stay in the cache of one
 * core. Sums for dx are spread over the parts, and the last part to finish adds them up: nobody waits, and
 * parts may run one after another. The order of addition does not depend on that.
 *
 * Processors that see rows being read in order prefetch the next ones, at the end those of the next part,
 * which has to get them back (20 us for 16 x 972 x 100 instead of 2): so every other part goes through its
 * rows backwards.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "op/vector/lanes.h"
#include "op/matmul/linear_sgd.h"

enum {
    DY           = IPU__LINEAR_SGD_DY,
    X            = IPU__LINEAR_SGD_X,
    P            = IPU__LINEAR_SGD_PARAMETER,
    MOMENTUM     = IPU__LINEAR_SGD_MOMENTUM,
    NEW_P        = IPU__LINEAR_SGD_NEW_PARAMETER,
    NEW_MOMENTUM = IPU__LINEAR_SGD_NEW_MOMENTUM,
    DX           = IPU__LINEAR_SGD_DX
};

/* dx in pieces, one for each part that works: who adds up a piece has set its number to that of the call. */
typedef struct piece {
    atomic_uint taken;
    unsigned    calls; /* of the part */
    char        line[64 - sizeof(atomic_uint) - sizeof(unsigned)];
} piece;

typedef struct state {
    ipu__optimizer o;
    int64_t        batch, m, n;
    bool           has_dx, masks_dx;
    int            n_parts; /* that work */
    float         *sums;    /* for dx, of all parts but the first: that has dx itself */
    atomic_uint    there;   /* sums that are complete, over all calls */
    atomic_uint    done;    /* parts that are through */
    piece          pieces[];
} state;

static int64_t dim(const ipu__kernel_call *call, int operand, int i)
{
    return call->operand[operand].shape.dim[i];
}

/* Parts that have enough rows. */
static int working_parts(const ipu__kernel_call *call, int n_parts)
{
    int64_t most = dim(call, P, 0) / IPU__LINEAR_SGD_LEAST;
    return most < n_parts ? (int)most : n_parts;
}

bool ipu__linear_sgd_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    bool has_dx = ipu__kernel_has(call, DX);
    return dim(call, P, 0) >= IPU__LINEAR_SGD_LEAST && dim(call, P, 1) > 0
        && (!has_dx || dim(call, DY, 0) >= IPU__LINEAR_SGD_LEAST);
}

/* x is packed in any case; a mask is read as it is. */
ipu__kernel_layouts ipu__linear_sgd_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    unsigned bits = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    (void)n_parts;
    if (operand == X && !ipu__op_int(call, "relu")) bits |= IPU__LAYOUT_BIT(IPU__LAYOUT_LANES);
    return (ipu__kernel_layouts){bits, bits, false};
}

/* ---- scratch, in floats ---- */

typedef struct room {
    int64_t left, right, tile, n; /* packed parts of dy and x; a tile of gradients */
} room;

static int64_t line_up(int64_t n) { return (n + 15) / 16 * 16; }

static room get_room(int64_t batch, int64_t rows)
{
    const ipu__linear_sgd_loops *loops = &IPU__SIMD_PICK(ipu__linear_sgd_loops_at);
    int64_t                      strip = (int64_t)loops->vectors * loops->width;
    room                         r     = {.right = line_up(batch * rows)};
    r.tile                             = r.right + line_up(batch * strip);
    r.n                                = r.tile + line_up(loops->most_rows * strip);
    return r;
}

size_t ipu__linear_sgd_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    int64_t rows = ipu__op_ceil_div(dim(call, P, 0), working_parts(call, n_parts));
    return (size_t)get_room(dim(call, DY, 0), rows).n * sizeof(float);
}

/* ---- at load ---- */

ipu_status ipu__linear_sgd_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    ipu__kernel_call update = ipu__linear_sgd_update(call);
    int              n      = working_parts(call, n_parts);
    bool             has_dx = ipu__kernel_has(call, DX);
    size_t floats = has_dx ? (size_t)(n - 1) * (size_t)line_up(dim(call, DY, 0) * dim(call, X, 1)) : 0;
    size_t head   = (sizeof(state) + (size_t)n * sizeof(piece) + 63) / 64 * 64;
    state *s      = ipu__alloc(head + floats * sizeof(float));
    *out          = NULL;
    if (!s) return ipu__fail_memory();
    memset(s, 0, head);
    s->o        = ipu__optimizer_get(&update);
    s->batch    = dim(call, DY, 0);
    s->m        = dim(call, P, 0);
    s->n        = dim(call, P, 1);
    s->has_dx   = has_dx;
    s->masks_dx = ipu__op_int(call, "relu") != 0;
    s->n_parts  = n;
    s->sums     = (float *)((char *)s + head);
    *out        = s;
    return IPU_OK;
}

/* ---- running ---- */

/* One part. */
typedef struct job {
    const state                 *s;
    const ipu__linear_sgd_loops *loops;
    ipu__optimizer               o;
    ipu_interval                 rows;
    bool                         is_down;     /* rows go from the last to the first */
    bool                         is_in_lanes; /* x */
    const float                 *dy, *x;
    float                       *w, *momentum; /* of all; momentum NULL: there is none */
    float                       *dx;           /* sums of this part */
    float                       *left, *right, *tile;
} job;

/* Rows [begin, end) in tiles as even as can be. */
typedef struct tiles {
    int64_t begin, rows, n;
} tiles;

static tiles get_tiles(const job *j, int64_t begin, int64_t end)
{
    return (tiles){begin, end - begin, ipu__op_ceil_div(end - begin, j->loops->most_rows)};
}

static int64_t tile_begin(const tiles *t, int64_t i) { return t->begin + t->rows * i / t->n; }

/* Columns of the strip that begins at `c`: most are as wide as tiles can be, some by a vector less so that no narrow one
 * is left over at the end. */
static int strip_columns(const job *j, int64_t c)
{
    int64_t wide    = (int64_t)j->loops->vectors * j->loops->width;
    int64_t vectors = ipu__op_ceil_div(j->s->n, j->loops->width),
            n       = ipu__op_ceil_div(vectors, j->loops->vectors);
    int64_t less = n * j->loops->vectors - vectors, left = j->s->n - c;
    if (less <= n && c >= (n - less) * wide) wide -= j->loops->width;
    return (int)(left < wide ? left : wide);
}

/* dx, or this part's share of it: tiles of the batch over all of its rows. */
static void add_to_dx(const job *j)
{
    const state *s     = j->s;
    int64_t      rows  = j->rows.end - j->rows.begin;
    tiles        batch = get_tiles(j, 0, s->batch);
    float       *to    = j->left;
    for (int64_t t = 0; t < batch.n; t++)
        for (int64_t k = 0; k < rows; k++) {
            const float *from = j->dy + (j->is_down ? j->rows.end - 1 - k : j->rows.begin + k);
            for (int64_t i = tile_begin(&batch, t); i < tile_begin(&batch, t + 1); i++)
                *to++ = from[i * s->m];
        }
    ipu__outer_tile tile = {.k = rows, .b_step = j->is_down ? -s->n : s->n, .step = s->n};
    for (int64_t c = 0; c < s->n; c += tile.columns) {
        tile.columns = strip_columns(j, c);
        tile.b       = j->w + (j->is_down ? j->rows.end - 1 : j->rows.begin) * s->n + c;
        tile.a       = j->left;
        for (int64_t t = 0; t < batch.n; t++) {
            int64_t i = tile_begin(&batch, t), end = tile_begin(&batch, t + 1);
            tile.rows = (int)(end - i);
            tile.out  = j->dx + i * s->n + c;
            tile.next = t + 1 < batch.n ? tile.out + tile.rows * s->n : j->dx + c + tile.columns;
            j->loops->store(&tile);
            tile.a += tile.rows * rows;
        }
    }
}

/* What sgd does in other cases than the usual one, on sums that lie in j->tile. */
static void update_row(const job *j, int64_t at, int64_t n, const float *g)
{
    ipu__optimizer_block x = {.n = n, .p = j->w + at, .g = g, .new_p = j->w + at};
    if (j->o.has[0]) x.s[0] = x.new_s[0] = j->momentum + at;
    IPU__SIMD_PICK(ipu__optimizer_loops).sgd(&j->o, &x);
}

static void update_tile(const job *j, ipu__outer_tile *tile, int64_t row, int64_t column)
{
    const ipu__optimizer *o  = &j->o;
    int64_t               at = row * j->s->n + column;
    tile->out                = j->w + at;
    if (o->has[0] && !o->first && !o->nesterov && o->weight_decay == 0 && o->dampening == 0) {
        tile->momentum = j->momentum + at;
        j->loops->update(tile);
        return;
    }
    ipu__outer_tile sums = *tile;
    sums.step            = (int64_t)j->loops->vectors * j->loops->width;
    sums.out             = j->tile;
    sums.next            = j->tile;
    j->loops->store(&sums);
    for (int i = 0; i < sums.rows; i++)
        update_row(j, at + i * j->s->n, sums.columns, j->tile + i * sums.step);
}

static void pack_x(const job *j, int64_t column, int columns)
{
    int64_t step = (int64_t)j->loops->vectors * j->loops->width;
    if (j->is_in_lanes) {
        for (int64_t k = 0; k < j->s->batch; k += IPU__LANES)
            IPU__SIMD_PICK(ipu__lane_turns_at)
                .turn_back(j->x + k * j->s->n + column * IPU__LANES, columns, j->right + k * step, step);
        return;
    }
    for (int64_t k = 0; k < j->s->batch; k++)
        memcpy(j->right + k * step, j->x + k * j->s->n + column, (size_t)columns * sizeof *j->x);
}

/* Fewer tiles read x as it is. */
enum { TILES_WORTH_PACKING = 4 };

/* Tiles of rows of w over all of the batch. */
static void update(const job *j)
{
    const state *s    = j->s;
    tiles        rows = get_tiles(j, j->rows.begin, j->rows.end);
    float       *to   = j->left;
    for (int64_t t = 0; t < rows.n; t++)
        for (int64_t k = 0; k < s->batch; k++)
            for (int64_t i = tile_begin(&rows, t); i < tile_begin(&rows, t + 1); i++)
                *to++ = j->dy[k * s->m + i];
    bool            is_packed = j->is_in_lanes || rows.n >= TILES_WORTH_PACKING;
    ipu__outer_tile tile      = {.k      = s->batch,
                                 .b      = j->right,
                                 .b_step = is_packed ? (int64_t)j->loops->vectors * j->loops->width : s->n,
                                 .step   = s->n,
                                 .keep   = (float)j->o.momentum,
                                 .rate   = (float)j->o.rate};
    for (int64_t c = 0; c < s->n; c += tile.columns) {
        tile.columns = strip_columns(j, c);
        if (is_packed)
            pack_x(j, c, tile.columns);
        else
            tile.b = j->x + c;
        for (int64_t t = 0; t < rows.n; t++) {
            int64_t at = j->is_down ? rows.n - 1 - t : t, i = tile_begin(&rows, at);
            int64_t next = t + 1 == rows.n
                             ? tile_begin(&rows, j->is_down ? rows.n - 1 : 0) * s->n + c + tile.columns
                             : tile_begin(&rows, j->is_down ? at - 1 : at + 1) * s->n + c;
            if (next >= s->m * s->n) next = i * s->n + c;
            tile.rows          = (int)(tile_begin(&rows, at + 1) - i);
            tile.a             = j->left + (i - rows.begin) * s->batch;
            tile.next          = j->w + next;
            tile.next_momentum = j->momentum ? j->momentum + next : tile.next;
            update_tile(j, &tile, i, c);
        }
    }
}

/* Adds up a piece of dx unless someone has. */
static void take_piece(state *s, const float *x, float *dx, unsigned call, int i)
{
    unsigned before = call - 1;
    if (!atomic_compare_exchange_strong(&s->pieces[i].taken, &before, call)) return;
    const ipu__linear_sgd_loops *loops = &IPU__SIMD_PICK(ipu__linear_sgd_loops_at);
    int64_t                      size  = s->batch * s->n;
    ipu_interval                 mine  = ipu__op_part(size, 16, i, s->n_parts);
    int64_t                      n     = mine.end - mine.begin;
    for (int k = 1; k < s->n_parts; k++)
        loops->add(s->sums + (k - 1) * line_up(size) + mine.begin, dx + mine.begin, n);
    if (s->masks_dx) loops->mask(x + mine.begin, dx + mine.begin, n);
}

/* Its own piece where all sums are there; who is the last does what is left. */
static void finish_dx(state *s, const float *x, float *dx, int index)
{
    unsigned call = s->pieces[index].calls, all = call * (unsigned)s->n_parts;
    if (atomic_load(&s->there) == all) take_piece(s, x, dx, call, index);
    if (atomic_fetch_add(&s->done, 1) + 1 != all) return;
    for (int i = 0; i < s->n_parts; i++) take_piece(s, x, dx, call, i);
}

/* New values may be in the memory of the old; if not, they begin as a copy. */
static void copy_rows(const float *from, float *to, ipu_interval rows, int64_t n)
{
    if (from != to)
        memcpy(to + rows.begin * n, from + rows.begin * n,
               (size_t)((rows.end - rows.begin) * n) * sizeof *to);
}

ipu_status ipu__linear_sgd_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                               void *scratch, int index, int n_parts)
{
    state *s = prepared;
    (void)n_parts;
    if (index >= s->n_parts) return IPU_OK;
    job  j = {.s           = s,
              .loops       = &IPU__SIMD_PICK(ipu__linear_sgd_loops_at),
              .o           = s->o,
              .rows        = ipu__op_part(s->m, 1, index, s->n_parts),
              .is_down     = s->n_parts > 1 && index % 2 == 0,
              .is_in_lanes = call->layout[X] == IPU__LAYOUT_LANES,
              .dy          = operand[DY],
              .x           = operand[X],
              .w           = operand[NEW_P],
              .momentum    = ipu__kernel_has(call, MOMENTUM) ? operand[NEW_MOMENTUM] : NULL};
    room r = get_room(s->batch, j.rows.end - j.rows.begin);
    j.left = (float *)scratch + r.left, j.right = (float *)scratch + r.right,
    j.tile = (float *)scratch + r.tile;
    ipu__linear_sgd_set_step(call, operand, &j.o);
    copy_rows(operand[P], j.w, j.rows, s->n);
    if (j.momentum) copy_rows(operand[MOMENTUM], j.momentum, j.rows, s->n);
    if (s->has_dx) {
        j.dx = index == 0 ? operand[DX] : s->sums + (index - 1) * line_up(s->batch * s->n);
        add_to_dx(&j);
        s->pieces[index].calls++;
        atomic_fetch_add(&s->there, 1);
    }
    update(&j);
    if (s->has_dx) finish_dx(s, j.x, operand[DX], index);
    return IPU_OK;
}

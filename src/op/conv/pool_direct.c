/* conv_max_pool and the gradient of its weights in registers: the convolution's result is never in memory.
 *
 * Vectors hold sixteen images (IPU__LAYOUT_LANES), or sixteen channels of the result if there are as many
 * (IPU__LAYOUT_BLOCKED). Either way pooled values are [group][vector][row][column][16], of which parts get
 * stretches of rows (lanes.h); plain operands are converted, a group at a time. Gradients are summed within
 * each part, and the last part to finish adds them up.
 */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "op/conv/pool.h"
#include "op/vector/lanes.h"
#include "op/pool/pool.h"

enum {
    MOST_IN      = 16,        /* channels of x: above, other ways need fewer operations */
    MOST_IN_WIDE = 4,         /* where the result has channels in sixteens */
    MOST_BYTES   = 768 << 10, /* of what is turned: it is to stay in the second-level cache */
    KERNEL       = IPU__CONV_POOL_KERNEL,
    TAPS         = KERNEL * KERNEL
};

typedef ipu__conv_pool_shape shape;

typedef struct plan {
    ipu__conv c;
    shape     s;
    int64_t   n_groups, n_vectors, rows, columns; /* of what is pooled */
} plan;

typedef struct state {
    plan       p;
    float     *sums;   /* gradients of weights, then of biases, of each part */
    atomic_int n_left; /* parts that have not finished */
} state;

/* ---- what fits ---- */

/* Operands: x, pooled values, indices. */
static int operand_of_z(const ipu__kernel_call *call)
{
    return ipu__conv_pool_is_grad(call) ? (int)IPU__CONV_POOL_GRAD_DY : (int)IPU__CONV_POOL_Y;
}

static int operand_of_at(const ipu__kernel_call *call)
{
    return ipu__conv_pool_is_grad(call) ? (int)IPU__CONV_POOL_GRAD_INDICES : (int)IPU__CONV_POOL_INDICES;
}

static plan plan_of(const ipu__kernel_call *call)
{
    ipu__conv_pool_calls calls;
    ipu__conv_pool_split(call, call->operand[0].shape.dim[0], &calls);
    const ipu_shape *z = &call->operand[operand_of_z(call)].shape;
    plan             p = {.c = ipu__conv_get(&calls.conv), .rows = 0};
    const ipu__conv *c = &p.c;
    p.rows             = z->rank == 4 ? z->dim[2] : 0;
    p.columns          = z->rank == 4 ? z->dim[3] : 0;
    p.s                = (shape){.blocked   = c->out % IPU__LANES == 0 && c->in <= MOST_IN_WIDE,
                                 .in        = c->in,
                                 .x_columns = c->x[2],
                                 .x_plane   = c->x[1] * c->x[2],
                                 .y_columns = c->y[2],
                                 .z_columns = p.columns,
                                 .kernel    = c->k[2]};
    if (!ipu__conv_pool_is_grad(call)) {
        p.s.relu = ipu__op_int(call, "relu") != 0;
        p.s.mask = ipu__op_int(call, "mask") != 0;
    }
    p.n_groups  = p.s.blocked ? c->n : c->n / IPU__LANES;
    p.n_vectors = p.s.blocked ? c->out / IPU__LANES : c->out;
    return p;
}

static bool is_plain(const ipu__conv *c)
{
    for (int d = 0; d < 3; d++)
        if (c->stride[d] != 1 || c->dilation[d] != 1 || c->pad[d] != 0 || c->pad_end[d] != 0) return false;
    return c->rank == 2 && c->groups == 1 && c->k[1] == c->k[2];
}

static int64_t x_floats(const plan *p)
{
    return p->s.blocked ? 0 : p->c.in * ipu__conv_volume(p->c.x) * IPU__LANES;
}
static int64_t z_floats(const plan *p) { return p->n_vectors * p->rows * p->columns * IPU__LANES; }

bool ipu__conv_pool_direct_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)n_parts;
    if (call->operand[0].type != IPU_FLOAT || call->operand[0].shape.rank != 4) return false;
    if ((ipu__cpu_features_of(machine) & IPU__SIMD_AVX512) != IPU__SIMD_AVX512
        || !IPU__SIMD_PICK(ipu__conv_pool_loops_at).forward)
        return false;
    plan             p = plan_of(call);
    const ipu__conv *c = &p.c;
    size_t           n;
    if (!is_plain(c) || c->n < 1 || c->in < 1 || c->out < 1 || p.rows < 1 || p.columns < 1) return false;
    if (!p.s.blocked && (c->n % IPU__LANES != 0 || c->in > MOST_IN)) return false;
    if ((x_floats(&p) + 2 * z_floats(&p)) * (int64_t)sizeof(float) > MOST_BYTES) return false;
    if (ipu__conv_pool_is_grad(call))
        return c->k[2] == KERNEL && 2 * p.rows <= c->y[1] && 2 * p.columns <= c->y[2];
    const int64_t *window = ipu__op_ints(call, "window", &n);
    return (c->k[2] == 3 || c->k[2] == 5) && window[0] == 2 && window[1] == 2;
}

ipu__kernel_layouts ipu__conv_pool_direct_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    (void)n_parts;
    plan           p     = plan_of(call);
    const unsigned plain = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    unsigned       own   = IPU__LAYOUT_BIT(p.s.blocked ? IPU__LAYOUT_BLOCKED : IPU__LAYOUT_LANES);
    if (operand == 0 && !p.s.blocked) return (ipu__kernel_layouts){plain | own, own, false};
    if (operand == operand_of_z(call) || operand == operand_of_at(call))
        return (ipu__kernel_layouts){plain | own, own, false};
    return (ipu__kernel_layouts){plain, plain, false};
}

static bool is_turned(const ipu__kernel_call *call, int operand)
{
    return call->layout[operand] != IPU__LAYOUT_PLAIN;
}

/* ---- at load ---- */

static int64_t n_weights(const plan *p) { return p->c.out * p->c.in * p->c.k[1] * p->c.k[2]; }

/* Scratch in floats: groups that are not in vectors, weights as vectors, or sums. */
typedef struct room {
    int64_t x, z, at, w, n;
} room;

static room room_of(const ipu__kernel_call *call, const plan *p)
{
    room r    = {.x = 0};
    bool grad = ipu__conv_pool_is_grad(call);
    r.z       = is_turned(call, 0) ? 0 : x_floats(p);
    r.at      = r.z + (is_turned(call, operand_of_z(call)) ? 0 : z_floats(p));
    bool turn = !is_turned(call, operand_of_at(call)) && ipu__kernel_has(call, operand_of_at(call));
    r.w       = r.at + (turn ? z_floats(p) : 0);
    r.n = r.w + (grad ? p->n_vectors * (p->c.in * TAPS + 1) * IPU__LANES : p->s.blocked ? n_weights(p) : 0);
    return r;
}

size_t ipu__conv_pool_direct_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    plan p = plan_of(call);
    return (size_t)room_of(call, &p).n * sizeof(float);
}

ipu_status ipu__conv_pool_direct_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state *s = *out = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    s->p = plan_of(call);
    atomic_init(&s->n_left, n_parts);
    if (!ipu__conv_pool_is_grad(call)) return IPU_OK;
    s->sums = ipu__alloc((size_t)(n_parts * (n_weights(&s->p) + s->p.c.out)) * sizeof *s->sums);
    if (s->sums) return IPU_OK;
    ipu__free(s);
    *out = NULL;
    return ipu__fail_memory();
}

void ipu__conv_pool_direct_release(void *prepared)
{
    state *s = prepared;
    ipu__free(s->sums);
    ipu__free(s);
}

/* ---- groups ---- */

/* x of a group: in vectors, turned to scratch if need be; or numbers. */
static const float *get_x(const ipu__kernel_call *call, const plan *p, const float *x, int64_t group,
                          float *scratch, int64_t *turned)
{
    int64_t image = p->c.in * p->s.x_plane;
    if (p->s.blocked) return x + group * image;
    if (is_turned(call, 0)) return x + group * image * IPU__LANES;
    if (*turned != group)
        IPU__SIMD_PICK(ipu__lane_turns_at).turn(x + group * image * IPU__LANES, image, image, scratch);
    *turned = group;
    return scratch;
}

static int64_t plane_of(const plan *p) { return p->rows * p->columns; }

/* Pieces of pooled values between rows of an operand and vectors of a group: either way, rows of sixteen that are
 * `step` apart. */
static void turn_piece(const plan *p, float *plain, float *vectors, const ipu__lanes_piece *piece, bool back)
{
    const ipu__lane_turns *turns = &IPU__SIMD_PICK(ipu__lane_turns_at);
    int64_t                plane = plane_of(p), step = p->s.blocked ? plane : p->n_vectors * plane;
    for (int64_t v = piece->channel.begin; v < piece->channel.end; v++) {
        int64_t at  = v * plane + piece->row.begin * p->columns;
        int64_t n   = (piece->row.end - piece->row.begin) * p->columns;
        float  *to  = vectors + at * IPU__LANES,
              *from = plain + piece->group * p->n_vectors * plane * IPU__LANES;
        from += p->s.blocked ? v * plane * IPU__LANES + piece->row.begin * p->columns : at;
        if (back)
            turns->turn_back(to, n, from, step);
        else
            turns->turn(from, step, n, to);
    }
}

/* Where vectors of a group are: in the operand, or in scratch. */
static float *group_of(const ipu__kernel_call *call, const plan *p, int operand, void *data, int64_t group,
                       float *scratch)
{
    return is_turned(call, operand) ? (float *)data + group * z_floats(p) : scratch;
}

static ipu_interval share(const plan *p, int part, int n_parts)
{
    return ipu__op_part(p->n_groups * p->n_vectors * p->rows, 1, part, n_parts);
}

ipu_interval ipu__conv_pool_direct_writes(const ipu__kernel_call *call, int operand, int part, int n_parts)
{
    plan         p    = plan_of(call);
    ipu_interval mine = share(&p, part, n_parts);
    (void)operand;
    return (ipu_interval){mine.begin * p.columns * IPU__LANES, mine.end * p.columns * IPU__LANES};
}

/* ---- forward ---- */

/* Sixteen channels side by side. */
static void pack(const plan *p, const float *w, float *to)
{
    int64_t taps = p->c.in * p->c.k[1] * p->c.k[2];
    for (int64_t o = 0; o < p->c.out; o++)
        for (int64_t t = 0; t < taps; t++)
            to[(o / IPU__LANES * taps + t) * IPU__LANES + o % IPU__LANES] = w[o * taps + t];
}

static void forward(const ipu__kernel_call *call, const plan *p, void *const *operand, float *scratch,
                    int part, int n_parts)
{
    const ipu__conv_pool_loops *loops = &IPU__SIMD_PICK(ipu__conv_pool_loops_at);
    room                        r     = room_of(call, p);
    ipu_interval                left  = share(p, part, n_parts);
    ipu__lanes_piece            piece;
    bool                        wants = ipu__kernel_has(call, IPU__CONV_POOL_INDICES),
         has_bias                     = ipu__kernel_has(call, IPU__CONV_POOL_BIAS);
    const float *w = operand[IPU__CONV_POOL_W], *bias = has_bias ? operand[IPU__CONV_POOL_BIAS] : NULL;
    int64_t      turned = -1, width = p->s.blocked ? IPU__LANES : 1, taps = p->c.in * p->c.k[1] * p->c.k[2];
    if (p->s.blocked) {
        pack(p, w, scratch + r.w);
        w = scratch + r.w;
    }
    while (ipu__lanes_next(&left, p->n_vectors, p->rows, &piece)) {
        const float *x = get_x(call, p, operand[0], piece.group, scratch, &turned);
        float *z = group_of(call, p, IPU__CONV_POOL_Y, operand[IPU__CONV_POOL_Y], piece.group, scratch + r.z);
        float *at = !wants ? NULL
                           : group_of(call, p, IPU__CONV_POOL_INDICES, operand[IPU__CONV_POOL_INDICES],
                                      piece.group, scratch + r.at);
        for (int64_t row = piece.row.begin; row < piece.row.end; row++)
            for (int64_t v = piece.channel.begin; v < piece.channel.end; v++) {
                int64_t first = v * plane_of(p) * IPU__LANES;
                loops->forward(&p->s, x, w + v * taps * width, bias ? bias + v * width : NULL, row, z + first,
                               at ? (int32_t *)(void *)(at + first) : NULL);
            }
        if (!is_turned(call, IPU__CONV_POOL_Y)) turn_piece(p, operand[IPU__CONV_POOL_Y], z, &piece, true);
        if (wants && !is_turned(call, IPU__CONV_POOL_INDICES))
            turn_piece(p, operand[IPU__CONV_POOL_INDICES], at, &piece, true);
    }
}

/* ---- the gradient of weights ---- */

typedef struct gradient {
    const ipu__kernel_call *call;
    const plan             *p;
    float                  *sums; /* [vector][in][TAPS][16], then biases, [vector][16] */
    float                  *bias;
} gradient;

/* One that is not in its window: element `at` of what was convolved, of lane `lane`. */
static void add_miss(const gradient *g, const float *x, int64_t v, int64_t at, int64_t lane, float dz)
{
    const shape *s = &g->p->s;
    int64_t      i = at / s->y_columns, j = at % s->y_columns;
    for (int64_t in = 0; in < s->in; in++)
        for (int64_t t = 0; t < TAPS; t++) {
            int64_t from  = in * s->x_plane + (i + t / KERNEL) * s->x_columns + j + t % KERNEL;
            float   value = s->blocked ? x[from] : x[from * IPU__LANES + lane];
            g->sums[((v * s->in + in) * TAPS + t) * IPU__LANES + lane] += dz * value;
        }
    g->bias[v * IPU__LANES + lane] += dz;
}

static ipu_status add_misses(const gradient *g, const float *x, const float *dz, const int32_t *indices,
                             int64_t v, ipu_interval rows)
{
    const plan *p     = g->p;
    int64_t     plane = p->c.y[1] * p->c.y[2];
    for (int64_t k = rows.begin * p->columns * IPU__LANES; k < rows.end * p->columns * IPU__LANES; k++) {
        int64_t row = k / IPU__LANES / p->columns, column = k / IPU__LANES % p->columns, at = indices[k];
        if (at == -1) continue;
        if (at < 0 || at >= plane) return ipu__pool_fail_index(g->call, indices[k], plane);
        if (at / p->c.y[2] / 2 == row && at % p->c.y[2] / 2 == column) continue;
        add_miss(g, x, v, at, k % IPU__LANES, dz[k]);
    }
    return IPU_OK;
}

static ipu_status grad_piece(const gradient *g, const float *x, const float *dz, const int32_t *indices,
                             const ipu__lanes_piece *piece)
{
    const ipu__conv_pool_loops *loops = &IPU__SIMD_PICK(ipu__conv_pool_loops_at);
    const plan                 *p     = g->p;
    for (int64_t v = piece->channel.begin; v < piece->channel.end; v++) {
        int64_t first  = v * plane_of(p) * IPU__LANES;
        bool    misses = false;
        for (int64_t in = 0; in < p->s.in; in++)
            misses |= loops->grad(&p->s, x + in * p->s.x_plane * (p->s.blocked ? 1 : IPU__LANES), dz + first,
                                  indices + first, piece->row.begin, piece->row.end,
                                  g->sums + (v * p->s.in + in) * TAPS * IPU__LANES,
                                  in == 0 ? g->bias + v * IPU__LANES : NULL);
        if (misses) IPU_TRY(add_misses(g, x, dz + first, indices + first, v, piece->row));
    }
    return IPU_OK;
}

/* Sums in vectors to those of weights and biases. */
static void reduce(const gradient *g, float *to)
{
    const plan *p    = g->p;
    int64_t     taps = p->s.in * TAPS, n = n_weights(p);
    memset(to, 0, (size_t)(n + p->c.out) * sizeof *to);
    for (int64_t v = 0; v < p->n_vectors; v++)
        for (int64_t l = 0; l < IPU__LANES; l++) {
            int64_t o = p->s.blocked ? v * IPU__LANES + l : v;
            for (int64_t t = 0; t < taps; t++) to[o * taps + t] += g->sums[(v * taps + t) * IPU__LANES + l];
            to[n + o] += g->bias[v * IPU__LANES + l];
        }
}

static ipu_status grad_part(const ipu__kernel_call *call, const plan *p, void *const *operand, float *scratch,
                            int part, int n_parts, float *to)
{
    enum { DZ = IPU__CONV_POOL_GRAD_DY, AT = IPU__CONV_POOL_GRAD_INDICES };
    room             r      = room_of(call, p);
    ipu_interval     left   = share(p, part, n_parts);
    int64_t          turned = -1;
    ipu__lanes_piece piece;
    gradient         g = {call, p, scratch + r.w, scratch + r.w + p->n_vectors * p->s.in * TAPS * IPU__LANES};
    memset(g.sums, 0, (size_t)(r.n - r.w) * sizeof *g.sums);
    while (ipu__lanes_next(&left, p->n_vectors, p->rows, &piece)) {
        const float *x  = get_x(call, p, operand[0], piece.group, scratch, &turned);
        float       *dz = group_of(call, p, DZ, operand[DZ], piece.group, scratch + r.z);
        float       *at = group_of(call, p, AT, operand[AT], piece.group, scratch + r.at);
        if (!is_turned(call, DZ)) turn_piece(p, operand[DZ], dz, &piece, false);
        if (!is_turned(call, AT)) turn_piece(p, operand[AT], at, &piece, false);
        IPU_TRY(grad_piece(&g, x, dz, (const int32_t *)(const void *)at, &piece));
    }
    reduce(&g, to);
    return IPU_OK;
}

static ipu_status grad(const ipu__kernel_call *call, state *s, void *const *operand, float *scratch, int part,
                       int n_parts)
{
    int64_t    n = n_weights(&s->p), all = n + s->p.c.out;
    ipu_status status = grad_part(call, &s->p, operand, scratch, part, n_parts, s->sums + part * all);
    if (atomic_fetch_sub_explicit(&s->n_left, 1, memory_order_acq_rel) != 1) return status;
    atomic_store_explicit(&s->n_left, n_parts, memory_order_relaxed);
    for (int k = 1; k < n_parts; k++)
        for (int64_t i = 0; i < all; i++) s->sums[i] += s->sums[k * all + i];
    memcpy(operand[IPU__CONV_POOL_GRAD_DW], s->sums, (size_t)n * sizeof *s->sums);
    if (ipu__kernel_has(call, IPU__CONV_POOL_GRAD_DB))
        memcpy(operand[IPU__CONV_POOL_GRAD_DB], s->sums + n, (size_t)(all - n) * sizeof *s->sums);
    return status;
}

ipu_status ipu__conv_pool_direct_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                     void *scratch, int part, int n_parts)
{
    state *s = prepared;
    if (ipu__conv_pool_is_grad(call)) return grad(call, s, operand, scratch, part, n_parts);
    forward(call, &s->p, operand, scratch, part, n_parts);
    return IPU_OK;
}

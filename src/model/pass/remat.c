/* Rematerialisation: cheap values are recomputed where they are needed much later, rather than held in memory
 * in between.
 *
 * A training step needs most memory where the forward pass ends. Activations that lie idle there, and that an
 * elementwise op or a normalisation computes from something that is kept anyway, get a copy of that op before
 * their first use beyond the peak. Results are bit-identical. The order of ops is unchanged; the peak is
 * found by counting live bytes.
 */
#include "base/arena.h"
#include "model/pass/pass.h"

enum {
    ROUNDS    = 4,   /* the peak may move */
    SHARE     = 256, /* smaller parts of the peak are ignored */
    MOST_WORK = 16,  /* per element of the result */
    MOST_COST = 2,   /* bytes written per byte saved */
};

typedef struct life {
    uint32_t root;        /* the value whose memory it occupies: itself, or the one it views */
    uint32_t first, last; /* positions, counted from 1; of roots */
    int64_t  bytes;       /* of roots */
    uint32_t copy, since; /* a copy for the position `since` */
} life;

typedef struct inserted {
    uint32_t before, op; /* position */
} inserted;

typedef struct keeper {
    ipu_model *m;
    life      *lives;    /* by value */
    uint32_t  *position; /* by op of block 0 when the round began */
    int64_t   *live;     /* by position: bytes */
    uint32_t   peak_at;
    int64_t    peak, least;      /* least: smallest value worth looking at */
    uint32_t   n_values, number; /* values when the round began; of copies (ipu__model_op.recompute) */
    bool       any;              /* copies were made */
    IPU__ARRAY(inserted) inserted;
} keeper;

/* ---- when values live ---- */

static const ipu__model_op *op_at(const keeper *k, uint32_t position)
{
    return &k->m->ops.at[k->m->blocks.at[0].order.at[position - 1]];
}

static uint32_t end_of(const keeper *k) { return (uint32_t)k->m->blocks.at[0].order.n + 1; }

/* A view of one value shares its memory; a view of several is a copy of them. */
static uint32_t viewed(const ipu__model_op *op)
{
    uint32_t in = 0;
    if (!op->def->view) return 0;
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (in && op->in[i]) return 0;
        if (op->in[i]) in = op->in[i];
    }
    return in;
}

static int64_t bytes_of(const ipu_model *m, uint32_t id)
{
    const ipu__builder_value *v = &m->base.values.at[id];
    return ipu__op_n_elements(&v->shape) * (int64_t)ipu_type_size(v->type);
}

static void use(keeper *k, uint32_t id, uint32_t position)
{
    life *root = &k->lives[k->lives[id].root];
    if (position > root->last) root->last = position;
}

static void note_op(keeper *k, const ipu__model_op *op, uint32_t position)
{
    uint32_t of = viewed(op);
    for (uint32_t i = 0; i < op->n_in; i++) use(k, op->in[i], position);
    for (uint32_t id = op->first_out; id < op->first_out + op->n_out; id++) {
        life *l = &k->lives[id];
        l->root = of ? k->lives[of].root : id;
        if (of) continue;
        l->first = l->last = position;
        l->bytes           = bytes_of(k->m, id);
    }
}

/* A parameter's new value takes its memory. */
static void note_updates(keeper *k, const uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t update = k->m->values.at[ids[i]].update;
        if (update) k->lives[k->lives[update].root].bytes = 0;
    }
}

static void note_all(keeper *k)
{
    ipu_model *m = k->m;
    for (uint32_t id = 0; id < m->values.n; id++) k->lives[id] = (life){.root = id};
    for (uint32_t at = 1; at < end_of(k); at++) {
        k->position[m->blocks.at[0].order.at[at - 1]] = at;
        note_op(k, op_at(k, at), at);
    }
    for (size_t i = 0; i < m->outputs.n; i++) use(k, m->outputs.at[i].value, end_of(k));
    note_updates(k, m->parameters.at, m->parameters.n);
    note_updates(k, m->states.at, m->states.n);
}

static void find_peak(keeper *k)
{
    uint32_t end = end_of(k);
    int64_t  sum = 0;
    for (uint32_t at = 0; at <= end + 1; at++) k->live[at] = 0;
    for (uint32_t id = 1; id < k->n_values; id++) {
        const life *l = &k->lives[id];
        if (l->root != id || !l->first) continue;
        k->live[l->first] += l->bytes;
        k->live[l->last + 1] -= l->bytes;
    }
    k->peak = 0;
    for (uint32_t at = 1; at <= end; at++) {
        sum += k->live[at];
        if (sum <= k->peak) continue;
        k->peak    = sum;
        k->peak_at = at;
    }
    k->least = k->peak / SHARE;
}

/* ---- whether a value can be recomputed ---- */

static bool is_cheap(const keeper *k, const ipu__model_op *op)
{
    if (op->kind != IPU__MODEL_OP || op->def->view || !op->def->kernel.work
        || op->def->flags & IPU__OP_IMPURE)
        return false;
    ipu__kernel_call call = ipu__model_call(k->m, op);
    double           n    = (double)ipu__op_n_elements(&call.operand[op->n_in].shape);
    return op->def->kernel.work(&call) <= MOST_WORK * n;
}

/* A kept value, until it is updated. */
static bool is_kept(const keeper *k, const ipu__model_value *v, uint32_t at)
{
    const ipu__model_value *update = &k->m->values.at[v->update];
    if (v->kind != IPU__VALUE_PARAMETER && v->kind != IPU__VALUE_STATE) return true;
    return !v->update || update->kind != IPU__VALUE_OP || k->position[update->of] > at;
}

/* Whether `id` is available at `at`, or can be made so. *cost: bytes to be written for it. */
static bool is_available(const keeper *k, uint32_t id, uint32_t at, int64_t most, int64_t *cost)
{
    uint32_t                root = k->lives[id].root;
    const life             *l    = &k->lives[root];
    const ipu__model_value *v    = &k->m->values.at[root];
    if (v->kind != IPU__VALUE_OP) return is_kept(k, v, at);
    if (l->last >= at || l->bytes < k->least || l->since == at) return true;
    const ipu__model_op *op = &k->m->ops.at[v->of];
    if (!is_cheap(k, op)) return false;
    for (uint32_t i = 0; i < op->n_out; i++) *cost += bytes_of(k->m, op->first_out + i);
    for (uint32_t i = 0; i < op->n_in && *cost <= most; i++)
        if (op->in[i] && !is_available(k, op->in[i], at, most, cost)) return false;
    return *cost <= most;
}

/* ---- copies ---- */

static uint32_t copy_of(keeper *k, uint32_t id, uint32_t at);

/* Copies the op, with its outputs, before position `at`. */
static bool copy_op(keeper *k, uint32_t id, uint32_t at)
{
    ipu_model    *m    = k->m;
    ipu__model_op made = m->ops.at[id];
    uint32_t     *in = ipu__arena_alloc(&m->base.arena, made.n_in * sizeof *in), first = made.first_out;
    if (!in) return false;
    for (uint32_t i = 0; i < made.n_in; i++) {
        in[i] = made.in[i] ? copy_of(k, made.in[i], at) : 0;
        if (made.in[i] && !in[i]) return false;
    }
    made.in        = in;
    made.first_out = (uint32_t)m->values.n;
    made.recompute = k->number;
    for (uint32_t i = 0; i < made.n_out; i++) {
        uint32_t copy = ipu__pass_copy_value(m, first + i);
        if (!copy) return false;
        m->values.at[copy].of     = (uint32_t)m->ops.n;
        k->lives[first + i].copy  = copy;
        k->lives[first + i].since = at;
    }
    return ipu__push(&k->inserted, (inserted){at, (uint32_t)m->ops.n}) && ipu__push(&m->ops, made);
}

/* What replaces `id` at position `at`: itself if it is available. 0 if out of memory. */
static uint32_t copy_of(keeper *k, uint32_t id, uint32_t at)
{
    life *l = &k->lives[id], *root = &k->lives[l->root];
    if (l->since == at) return l->copy;
    if (k->m->values.at[l->root].kind != IPU__VALUE_OP) return id;
    if (root->since != at) {
        if (root->last >= at) return id;
        if (root->bytes < k->least) {
            root->last = at;
            return id;
        }
    }
    return copy_op(k, k->m->values.at[id].of, at) ? l->copy : 0;
}

/* ---- choosing ---- */

/* The first use of a root beyond the peak, or 0. *before: the last use up to there. */
static uint32_t next_use(const keeper *k, uint32_t root, uint32_t *before)
{
    *before = k->lives[root].first;
    for (uint32_t at = *before + 1; at < end_of(k) && at <= k->lives[root].last; at++) {
        const ipu__model_op *op = op_at(k, at);
        for (uint32_t i = 0; i < op->n_in; i++) {
            if (!op->in[i] || op->in[i] >= k->n_values || k->lives[op->in[i]].root != root) continue;
            if (at > k->peak_at) return at;
            *before = at;
        }
    }
    return 0;
}

/* Makes uses of the root from position `at` on use its copy; later views become views of the copy. */
static bool redirect(keeper *k, uint32_t root, uint32_t at)
{
    bool ok = true;
    for (uint32_t p = at; ok && p < end_of(k) && p <= k->lives[root].last; p++) {
        const ipu__model_op *op = op_at(k, p);
        uint32_t            *in = op->in, n = op->n_in; /* ops move when copies are made */
        for (uint32_t i = 0; ok && i < n; i++) {
            if (!in[i] || in[i] >= k->n_values || k->lives[in[i]].root != root) continue;
            if (k->position[k->m->values.at[in[i]].of] >= at) continue;
            in[i] = copy_of(k, in[i], at);
            ok    = in[i] != 0;
        }
    }
    return ok;
}

static bool consider(keeper *k, uint32_t root, bool *changed)
{
    life    *l = &k->lives[root];
    uint32_t before;
    int64_t  cost = 0;
    if (l->root != root || l->bytes < k->least || l->last <= k->peak_at || l->last == end_of(k)) return true;
    uint32_t at = next_use(k, root, &before), last = l->last;
    if (!at || before >= k->peak_at) return true;
    l->last = before;
    if (!is_available(k, root, at, MOST_COST * l->bytes + k->least, &cost)) {
        l->last = last;
        return true;
    }
    bool ok  = copy_of(k, root, at) != 0;
    l        = &k->lives[root];
    l->last  = last;
    ok       = ok && redirect(k, root, at);
    l->last  = before;
    *changed = k->any = true;
    return ok;
}

/* ---- the whole ---- */

static bool put_in_order(keeper *k)
{
    ipu__block *b              = &k->m->blocks.at[0];
    IPU__ARRAY(uint32_t) order = {0};
    bool ok                    = true;
    for (uint32_t at = 1; ok && at < end_of(k); at++) {
        for (size_t i = 0; ok && i < k->inserted.n; i++)
            if (k->inserted.at[i].before == at) ok = ipu__push(&order, k->inserted.at[i].op);
        ok = ok && ipu__push(&order, b->order.at[at - 1]);
    }
    ok         = ok && ipu__reserve(&b->order, order.n);
    b->order.n = ok ? 0 : b->order.n;
    for (size_t i = 0; ok && i < order.n; i++) b->order.at[b->order.n++] = order.at[i];
    ipu__array_fini(&order);
    return ok;
}

static bool round_begins(keeper *k)
{
    const ipu_model *m = k->m;
    ipu__free(k->position);
    ipu__free(k->live);
    ipu__free(k->lives);
    k->position   = ipu__alloc_zeroed((m->ops.n + 1) * sizeof *k->position);
    k->live       = ipu__alloc((m->blocks.at[0].order.n + 3) * sizeof *k->live);
    k->lives      = ipu__alloc((m->values.n + 1) * sizeof *k->lives);
    k->n_values   = (uint32_t)m->values.n;
    k->inserted.n = 0;
    if (!k->position || !k->live || !k->lives) return false;
    note_all(k);
    find_peak(k);
    return true;
}

static bool do_round(keeper *k, int64_t worth, bool *changed)
{
    *changed = false;
    if (!round_begins(k)) return false;
    bool ok   = true;
    k->number = ++k->m->n_recomputes;
    for (uint32_t at = 1; ok && k->peak >= worth && at < k->peak_at; at++) {
        const ipu__model_op *op    = op_at(k, at);
        uint32_t             first = op->first_out, n = op->n_out;
        for (uint32_t i = 0; ok && i < n; i++) ok = consider(k, first + i, changed);
    }
    return ok && (!*changed || put_in_order(k));
}

ipu_status ipu__model_remat(ipu_model *m, int64_t worth)
{
    keeper k  = {.m = m};
    bool   ok = true, changed = m->stages.n == 0;
    for (size_t i = 0; i < m->blocks.at[0].order.n; i++)
        changed &= m->ops.at[m->blocks.at[0].order.at[i]].kind == IPU__MODEL_OP;
    for (int i = 0; ok && changed && i < ROUNDS; i++) ok = do_round(&k, worth, &changed);
    if (ok && k.any && ipu__model_dce(m, &changed) != IPU_OK) ok = false; /* originals used only beyond */
    ipu__free(k.position);
    ipu__free(k.live);
    ipu__free(k.lives);
    ipu__array_fini(&k.inserted);
    return ok ? IPU_OK : ipu__fail_memory();
}

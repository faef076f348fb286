/* Branches and loops of ONNX.
 *
 * A condition that is known leaves one branch. A loop is emitted turn by turn where it must be (sequences,
 * shapes that change, shapes that the turn decides) and where it is small; else it is a loop of the model.
 * Its first turn is emitted outside in any case: it tells the shapes of what is collected. What is not used
 * of it is dropped later.
 */
#include "ipu/op.h"
#include "onnx/import/import.h"

enum { SMALL_TURNS = 16, SMALL_NODES = 64 };

static ipu__item array_item(ipu_value v) { return (ipu__item){.kind = IPU_ONNX_ARRAY, .v = v}; }

static bool is_plain(const ipu__item *i) { return i->kind == IPU_ONNX_ARRAY && i->count.id == 0; }

/* Both tensors, of one type and shape. */
static bool is_alike(const ipu__item *x, const ipu__item *y)
{
    if (!is_plain(x) || !is_plain(y) || ipu_value_type(x->v) != ipu_value_type(y->v)) return false;
    ipu_shape a = ipu_value_shape(x->v), b = ipu_value_shape(y->v);
    return ipu__shape_equal(&a, &b);
}

/* ---- If ---- */

static ipu_value *values_of(ipu__node *n, const ipu__item *items, size_t count)
{
    ipu_value *out = ipu__import_alloc(n->im, count * sizeof *out);
    for (size_t i = 0; out && i < count; i++) out[i] = items[i].v;
    return out;
}

/* Both branches; what they give must be alike. */
static void import_if(ipu__node *n, ipu_value condition, const Ipu__GraphProto *branch[2])
{
    size_t     n_out  = branch[0]->n_output;
    ipu__item *out[2] = {ipu__import_alloc(n->im, n_out * sizeof *out[0]),
                         ipu__import_alloc(n->im, n_out * sizeof *out[1])};
    if (!out[0] || !out[1]) return;
    ipu_model_if(n->m, condition);
    for (int i = 0; i < 2; i++) {
        if (i == 1) ipu_model_else(n->m);
        ipu__import_graph(n->im, branch[i], NULL, 0, out[i], n_out);
        if (!ipu__import_ok(n->im)) return;
        for (size_t k = 0; k < n_out; k++)
            if (!is_alike(&out[0][k], &out[i][k])) {
                ipu__must_know(n, condition, "the condition, whose branches give different types or shapes,");
                return;
            }
        ipu_value *values = values_of(n, out[i], n_out);
        if (!values) return;
        ipu_model_yield(n->m, values, n_out);
    }
    ipu_value *results = values_of(n, out[0], n_out);
    if (!results) return;
    ipu_model_end(n->m, results, n_out);
    for (size_t k = 0; k < n_out; k++) ipu__give(n, k, results[k]);
}

void ipu__onnx_If(ipu__node *n)
{
    ipu_value              condition = ipu__in_needed(n, 0);
    const Ipu__GraphProto *branch[2] = {ipu__attr_graph(n, "then_branch"), ipu__attr_graph(n, "else_branch")};
    if (!ipu__import_ok(n->im)) return;
    if (ipu_value_type(condition) != IPU_BOOL || ipu_value_n_elements(condition) != 1) {
        ipu__node_fail(n, IPU_INVALID, "its condition must be one bool");
        return;
    }
    if (branch[0]->n_output != branch[1]->n_output) {
        ipu__node_fail(n, IPU_INVALID, "its branches give %zu and %zu values; expected as many",
                       branch[0]->n_output, branch[1]->n_output);
        return;
    }
    for (int i = 0; i < 2; i++) ipu__import_captured(n->im, branch[i]);
    const bool *known = ipu__known(n, condition);
    if (!ipu__import_ok(n->im)) return;
    if (!known) {
        import_if(n, condition, branch);
        return;
    }
    const Ipu__GraphProto *taken = branch[*known ? 0 : 1];
    ipu__item             *out   = ipu__import_alloc(n->im, taken->n_output * sizeof *out);
    if (!out) return;
    ipu__import_graph(n->im, taken, NULL, 0, out, taken->n_output);
    for (size_t k = 0; k < taken->n_output; k++) ipu__give_item(n, k, out[k]);
}

/* ---- one turn of a loop ---- */

/* A tensor that a Scan takes apart or puts together along an axis. */
typedef struct scanned {
    ipu_value x; /* null: put together */
    int       axis;
    bool      is_backward;
} scanned;

typedef struct loop {
    ipu__node             *n;
    const Ipu__GraphProto *body;
    bool                   is_scan;
    int64_t                most;      /* turns; INT64_MAX: no bound */
    bool                   has_go_on; /* the body's first output counts */
    ipu_value              first;     /* whether to begin at all; null: yes */
    ipu__item             *carried;   /* before the first turn, in the end after the last */
    size_t                 n_carried;
    scanned               *elements; /* that the turns take */
    size_t                 n_elements;
    scanned               *collected; /* that the turns give, `x` in the end */
    size_t                 n_collected;
    ipu_value              count; /* turns there were, if that depends on data */
    ipu__item             *in, *out;
} loop;

static bool resolve_axis(ipu__node *n, scanned *s, int rank)
{
    int axis = s->axis < 0 ? s->axis + rank : s->axis;
    if (axis < 0 || axis >= rank)
        ipu__node_fail(n, IPU_INVALID, "axis %d is none of a tensor of %d dimensions", s->axis, rank);
    else
        s->axis = axis;
    return ipu__import_ok(n->im);
}

static size_t first_out(const loop *l) { return l->is_scan ? 0 : 1; }

/* Memory for the body's inputs and outputs; false: an error. */
static bool prepare(loop *l)
{
    ipu__node *n    = l->n;
    size_t     n_in = l->n_carried + (l->is_scan ? l->n_elements : 2);
    if (!l->body || !ipu__import_ok(n->im)) return false;
    if (l->body->n_input != n_in || l->body->n_output < l->n_carried + first_out(l)) {
        ipu__node_fail(n, IPU_INVALID,
                       "its body has %zu inputs and %zu outputs; expected %zu, and %zu or more",
                       l->body->n_input, l->body->n_output, n_in, l->n_carried + first_out(l));
        return false;
    }
    ipu__import_captured(n->im, l->body);
    l->n_collected = l->body->n_output - l->n_carried - first_out(l);
    l->in          = ipu__import_alloc(n->im, n_in * sizeof *l->in);
    l->out         = ipu__import_alloc(n->im, l->body->n_output * sizeof *l->out);
    if (!l->collected) {
        l->collected = ipu__import_alloc(n->im, l->n_collected * sizeof *l->collected);
        for (size_t i = 0; l->collected && i < l->n_collected; i++) l->collected[i] = (scanned){.axis = 0};
    }
    return ipu__import_ok(n->im);
}

/* Bodies of some producers take the turn and the condition as tensors of one element. */
static ipu_value as_declared(const loop *l, size_t i, ipu_value v)
{
    ipu_onnx_port port;
    ipu__onnx_port(l->body->input[i], &port);
    return port.rank == 1 ? ipu_reshape(l->n->b, v, IPU_SHAPE(1)) : v;
}

/* The place along `s` that a turn takes or fills. */
static ipu_value place(const loop *l, const scanned *s, ipu_value turn)
{
    ipu_builder *b = l->n->b;
    return s->is_backward ? ipu_sub(b, ipu_scalar_like(b, turn, (double)(l->most - 1)), turn) : turn;
}

/* The element of turn `known`, or of `turn` if that is negative. An empty tensor has none: zeros of that
 * shape. */
static ipu_value element(const loop *l, const scanned *s, int64_t known, ipu_value turn)
{
    ipu_builder *b = l->n->b;
    if (l->most == 0) {
        ipu_shape shape = ipu_value_shape(s->x);
        for (int i = s->axis; i + 1 < shape.rank; i++) shape.dim[i] = shape.dim[i + 1];
        shape.rank--;
        return ipu_expand(b, ipu_scalar_like(b, s->x, 0), shape);
    }
    if (known >= 0) return ipu_index(b, s->x, s->is_backward ? l->most - 1 - known : known, s->axis);
    return ipu_squeeze(b, ipu_dynamic_slice(b, s->x, place(l, s, turn), 1, s->axis), s->axis);
}

/* Emits the body on carried[] for turn `known`, or for `turn` (int32) if that is negative, into l->out. */
static bool emit_turn(loop *l, const ipu__item *carried, int64_t known, ipu_value turn)
{
    ipu__node *n  = l->n;
    size_t     at = 0;
    ipu__import_charge(n->im, 1); /* a body may be empty */
    if (!l->is_scan) {
        bool      yes = true;
        ipu_value i   = known >= 0 ? ipu_constant_data(n->b, IPU_INT64, IPU_SCALAR, &known)
                                   : ipu_cast(n->b, turn, IPU_INT64);
        l->in[0]      = array_item(as_declared(l, 0, i));
        l->in[1]      = array_item(as_declared(l, 1, ipu_constant_data(n->b, IPU_BOOL, IPU_SCALAR, &yes)));
        at            = 2;
    }
    for (size_t i = 0; i < l->n_carried; i++) l->in[at++] = carried[i];
    for (size_t i = 0; i < l->n_elements; i++)
        l->in[at++] = array_item(element(l, &l->elements[i], known, turn));
    if (!ipu__import_ok(n->im)) return false;
    ipu__import_graph(n->im, l->body, l->in, at, l->out, l->body->n_output);
    for (size_t i = l->n_carried + first_out(l); i < l->body->n_output && ipu__import_ok(n->im); i++)
        if (!is_plain(&l->out[i]))
            ipu__node_fail(n, IPU_UNSUPPORTED,
                           "output %zu of its body is collected, but is no tensor or of an extent that "
                           "depends on data",
                           i);
    return ipu__import_ok(n->im);
}

/* ---- turn by turn ---- */

typedef IPU__ARRAY(ipu_value) value_list;

/* Keeps what the turn gave. */
static bool keep_turn(loop *l, value_list *kept)
{
    size_t at = first_out(l);
    for (size_t i = 0; i < l->n_carried; i++) l->carried[i] = l->out[at++];
    for (size_t i = 0; i < l->n_collected; i++)
        if (!ipu__push(kept, l->out[at++].v)) {
            ipu__node_fail(l->n, IPU_OUT_OF_MEMORY, "out of memory");
            return false;
        }
    return true;
}

static bool goes_on(loop *l)
{
    if (!l->has_go_on) return true;
    if (!is_plain(&l->out[0]) || ipu_value_type(l->out[0].v) != IPU_BOOL
        || ipu_value_n_elements(l->out[0].v) != 1) {
        ipu__node_fail(l->n, IPU_INVALID, "the first output of its body must be one bool");
        return false;
    }
    const bool *known = ipu__must_know(l->n, l->out[0].v, "whether the loop goes on");
    return known && *known;
}

/* Puts together what the turns gave. */
static void join(loop *l, const value_list *kept, size_t turns)
{
    ipu_value *values = ipu__import_alloc(l->n->im, turns * sizeof *values);
    for (size_t k = 0; values && k < l->n_collected; k++) {
        scanned *s = &l->collected[k];
        for (size_t t = 0; t < turns; t++)
            values[s->is_backward ? turns - 1 - t : t] = kept->at[t * l->n_collected + k];
        s->x = ipu_stack(l->n->b, values, turns, s->axis);
    }
}

/* All turns, after the first. */
static void unroll(loop *l)
{
    value_list kept  = {0};
    int64_t    turns = 1;
    if (ipu__has(l->first)) ipu__must_know(l->n, l->first, "whether the loop begins");
    ipu__import *im     = l->n->im;
    int64_t      around = im->turns;
    bool         ok     = ipu__import_ok(im) && keep_turn(l, &kept);
    if (l->most < INT32_MAX && around < INT32_MAX) im->turns = around * l->most;
    for (; ok && turns < l->most && goes_on(l); turns++)
        ok = emit_turn(l, l->carried, turns, IPU_NO_VALUE) && keep_turn(l, &kept);
    im->turns = around;
    if (ok && ipu__import_ok(l->n->im)) join(l, &kept, (size_t)turns);
    ipu__array_fini(&kept);
}

/* ---- as a loop of the model ---- */

/* What the turn just emitted gives to collect. */
static ipu_value collected_value(const loop *l, size_t i)
{
    return l->out[first_out(l) + l->n_carried + i].v;
}

/* Room for what `turns` give. */
static ipu_value collected_zeros(const loop *l, size_t i, int64_t turns)
{
    ipu_value v     = collected_value(l, i);
    ipu_shape shape = ipu_value_shape(v);
    int       axis  = l->collected[i].axis;
    if (shape.rank == IPU_MAX_RANK) {
        ipu__node_fail(l->n, IPU_UNSUPPORTED, "an output would have more than %d dimensions", IPU_MAX_RANK);
        return IPU_NO_VALUE;
    }
    for (int d = shape.rank++; d > axis; d--) shape.dim[d] = shape.dim[d - 1];
    shape.dim[axis] = turns;
    return ipu_expand(l->n->b, ipu_scalar_like(l->n->b, v, 0), shape);
}

/* Carried values, then what is collected, then the number of turns. */
static void begin_values(const loop *l, ipu_value *all)
{
    int64_t none = 0;
    size_t  at   = 0;
    for (size_t i = 0; i < l->n_carried; i++) all[at++] = l->carried[i].v;
    for (size_t i = 0; i < l->n_collected; i++) all[at++] = collected_zeros(l, i, l->most);
    all[at] = ipu_constant_data(l->n->b, IPU_INT64, IPU_SCALAR, &none);
}

static void next_values(const loop *l, ipu_value turn, const ipu_value *inside, ipu_value *next)
{
    ipu_builder *b   = l->n->b;
    size_t       out = first_out(l), at = 0;
    for (size_t i = 0; i < l->n_carried; i++) next[at++] = l->out[out++].v;
    for (size_t i = 0; i < l->n_collected; i++, at++) {
        const scanned *s = &l->collected[i];
        ipu_value      v = ipu_unsqueeze(b, l->out[out++].v, s->axis);
        next[at]         = ipu_dynamic_update_slice(b, inside[at], v, place(l, s, turn), s->axis);
    }
    next[at] = ipu_add(b, ipu_cast(b, turn, IPU_INT64), ipu_scalar_like(b, inside[at], 1));
}

static void end_values(loop *l, const ipu_value *all)
{
    size_t at = 0;
    for (size_t i = 0; i < l->n_carried; i++) l->carried[i] = array_item(all[at++]);
    for (size_t i = 0; i < l->n_collected; i++) l->collected[i].x = all[at++];
    if (l->has_go_on || ipu__has(l->first)) l->count = all[at];
}

static bool check_bound(loop *l)
{
    if (l->most <= INT32_MAX) return true;
    if (!l->has_go_on)
        ipu__node_fail(l->n, IPU_UNSUPPORTED, "%lld turns; at most %d are supported", (long long)l->most,
                       INT32_MAX);
    else if (l->n_collected > 0)
        ipu__node_fail(l->n, IPU_UNSUPPORTED,
                       "what its turns give is collected, but nothing bounds their number");
    l->most = INT32_MAX; /* more would take longer than anyone waits */
    return ipu__import_ok(l->n->im);
}

/* Producers write loops of a fixed number of turns with a condition that is always true. */
static bool always_goes_on(const loop *l)
{
    if (!l->has_go_on || !is_plain(&l->out[0]) || ipu_value_type(l->out[0].v) != IPU_BOOL) return false;
    const bool *known = ipu_value_n_elements(l->out[0].v) == 1 ? ipu__known(l->n, l->out[0].v) : NULL;
    return known && *known;
}

static void emit_loop(loop *l)
{
    ipu__node *n     = l->n;
    size_t     n_all = l->n_carried + l->n_collected + 1;
    if (!check_bound(l)) return;
    ipu_value *all     = ipu__import_alloc(n->im, n_all * sizeof *all);
    ipu_value *inside  = ipu__import_alloc(n->im, n_all * sizeof *inside);
    ipu__item *carried = ipu__import_alloc(n->im, (l->n_carried + 1) * sizeof *carried);
    ipu_value  turn;
    if (!all || !inside || !carried) return;
    begin_values(l, all);
    if (!ipu__import_ok(n->im)) return;
    ipu_model_loop(n->m, l->most, l->first, all, n_all, inside, &turn);
    if (!ipu__import_ok(n->im) || !ipu__import_note_loop(n)) return;
    for (size_t i = 0; i < l->n_carried; i++) carried[i] = array_item(inside[i]);
    if (!emit_turn(l, carried, -1, turn)) return;
    if (always_goes_on(l)) l->has_go_on = false;
    for (size_t i = 0; i < l->n_carried; i++)
        if (!is_alike(&carried[i], &l->out[first_out(l) + i]))
            ipu__node_fail(n, IPU_INVALID,
                           "output %zu of its body differs in type or shape from what it takes",
                           first_out(l) + i);
    if (!ipu__import_ok(n->im)) return;
    next_values(l, turn, inside, all);
    ipu_model_yield_while(n->m, l->has_go_on ? l->out[0].v : IPU_NO_VALUE, all, n_all);
    ipu_model_end(n->m, all, n_all);
    end_values(l, all);
}

/* ---- which of the two ---- */

static bool must_unroll(const loop *l)
{
    if (ipu__import_unrolls(l->n)) return true;
    for (size_t i = 0; i < l->n_carried; i++)
        if (!is_alike(&l->carried[i], &l->out[first_out(l) + i])) return true;
    return false;
}

static bool may_unroll(const loop *l)
{
    /* Loops within unrolled loops multiply. */
    bool is_small = l->most <= SMALL_TURNS / l->n->im->turns && l->body->n_node <= SMALL_NODES;
    if (ipu__has(l->first) || (!is_small && l->most != INT64_MAX)) return false;
    return !l->has_go_on || (is_plain(&l->out[0]) && ipu__known(l->n, l->out[0].v));
}

static void run_loop(loop *l)
{
    if (l->most == 0 && l->n_collected == 0) return;
    if (!emit_turn(l, l->carried, 0, IPU_NO_VALUE)) return;
    for (size_t i = 0; i < l->n_collected; i++)
        if (!resolve_axis(l->n, &l->collected[i], ipu_value_rank(collected_value(l, i)) + 1)) return;
    if (l->most == 0)
        for (size_t i = 0; i < l->n_collected; i++) l->collected[i].x = collected_zeros(l, i, 0);
    else if (must_unroll(l) || may_unroll(l))
        unroll(l);
    else
        emit_loop(l);
}

/* ---- Loop ---- */

/* How often, and whether at all. */
static void read_bounds(ipu__node *n, loop *l)
{
    l->most      = ipu__in_int(n, 0, INT64_MAX);
    l->has_go_on = ipu__has_in(n, 1);
    if (l->most < 0) l->most = 0;
    if (!ipu__has_in(n, 0) && !l->has_go_on)
        ipu__node_fail(n, IPU_INVALID, "neither a number of turns nor a condition: it would never end");
    ipu_value first = ipu__in(n, 1);
    if (!ipu__import_ok(n->im) || !l->has_go_on) return;
    if (ipu_value_type(first) != IPU_BOOL || ipu_value_n_elements(first) != 1) {
        ipu__node_fail(n, IPU_INVALID, "its condition must be one bool");
        return;
    }
    const bool *known = ipu__known(n, first);
    if (known && !*known) l->most = 0;
    if (!known) l->first = first;
}

void ipu__onnx_Loop(ipu__node *n)
{
    loop l = {.n = n, .body = ipu__attr_graph(n, "body")};
    read_bounds(n, &l);
    l.n_carried = n->n_in > 2 ? n->n_in - 2 : 0;
    l.carried   = ipu__import_alloc(n->im, (l.n_carried + 1) * sizeof *l.carried);
    if (!l.carried) return;
    for (size_t i = 0; i < l.n_carried; i++) l.carried[i] = n->in[i + 2];
    if (!prepare(&l)) return;
    run_loop(&l);
    for (size_t i = 0; i < l.n_carried; i++) ipu__give_item(n, i, l.carried[i]);
    for (size_t i = 0; i < l.n_collected && ipu__import_ok(n->im); i++) {
        if (l.count.id)
            ipu__give_counted(n, l.n_carried + i, l.collected[i].x, l.count, 0);
        else
            ipu__give(n, l.n_carried + i, l.collected[i].x);
    }
}

/* ---- Scan ---- */

/* Number `i` of a list attribute of `count` numbers; 0 if it was not given. */
static int listed(ipu__node *n, const char *name, size_t i, size_t count)
{
    size_t         found;
    const int64_t *list = ipu__attr_ints(n, name, &found);
    if (!list) return 0;
    if (found == count && list[i] >= -IPU_MAX_RANK && list[i] <= IPU_MAX_RANK) return (int)list[i];
    ipu__node_fail(n, IPU_INVALID, "%s has %zu numbers; expected %zu of at most %d", name, found, count,
                   IPU_MAX_RANK);
    return 0;
}

/* in[]: states, then what is scanned, along axes and in directions as attributes say. */
static bool read_scan(ipu__node *n, loop *l, const ipu_value *in, size_t n_in, const char *directions)
{
    l->n_elements = (size_t)ipu__attr_int(n, "num_scan_inputs", 0);
    l->n_carried  = n_in - l->n_elements;
    l->carried    = ipu__import_alloc(n->im, (l->n_carried + 1) * sizeof *l->carried);
    l->elements   = ipu__import_alloc(n->im, l->n_elements * sizeof *l->elements);
    if (!l->carried || !l->elements) return false;
    for (size_t i = 0; i < l->n_carried; i++) l->carried[i] = array_item(in[i]);
    for (size_t i = 0; i < l->n_elements && ipu__import_ok(n->im); i++) {
        scanned *s     = &l->elements[i];
        s->x           = in[l->n_carried + i];
        s->axis        = listed(n, "scan_input_axes", i, l->n_elements);
        s->is_backward = listed(n, directions, i, l->n_elements) != 0;
        if (!resolve_axis(n, s, ipu_value_rank(s->x))) return false;
        int64_t dim = ipu_value_dim(s->x, s->axis);
        if (i > 0 && dim != l->most)
            ipu__node_fail(n, IPU_INVALID, "scanned inputs have %lld and %lld elements; expected as many",
                           (long long)l->most, (long long)dim);
        l->most = dim;
    }
    return prepare(l);
}

/* Runs it over in[0..n_in) for `turns` (negative: all); fills out[0..outputs of the body). False: an
 * error. */
static bool scan(ipu__node *n, const ipu_value *in, size_t n_in, int64_t turns, const char *directions,
                 ipu_value *out)
{
    loop l = {.n = n, .body = ipu__attr_graph(n, "body"), .is_scan = true};
    if (!read_scan(n, &l, in, n_in, directions)) return false;
    if (turns > l.most) ipu__node_fail(n, IPU_INVALID, "a sequence is longer than what is scanned");
    if (turns >= 0) l.most = turns;
    for (size_t i = 0; i < l.n_collected; i++) {
        l.collected[i].axis        = listed(n, "scan_output_axes", i, l.n_collected);
        l.collected[i].is_backward = listed(n, "scan_output_directions", i, l.n_collected) != 0;
    }
    if (!ipu__import_ok(n->im)) return false;
    run_loop(&l);
    for (size_t i = 0; i < l.n_carried; i++) out[i] = l.carried[i].v;
    for (size_t i = 0; i < l.n_collected; i++) out[l.n_carried + i] = l.collected[i].x;
    return ipu__import_ok(n->im);
}

/* What is collected of a sequence that is shorter than the longest is filled up with zeros. */
static ipu_value fill_up(ipu__node *n, ipu_value x, int64_t turns)
{
    int64_t before[IPU_MAX_RANK] = {0}, after[IPU_MAX_RANK] = {0};
    if (!ipu__import_ok(n->im) || ipu_value_dim(x, 0) >= turns) return x;
    after[0] = turns - ipu_value_dim(x, 0);
    return ipu_pad(n->b, x, before, after, IPU_PAD_CONSTANT, 0);
}

/* The inputs of one sequence of a batch. */
static bool take_sequence(ipu__node *n, int64_t i, int64_t batch, ipu_value *in)
{
    for (size_t k = 1; k < n->n_in; k++) {
        ipu_value x = ipu__in_needed(n, k);
        if (ipu__import_ok(n->im) && (ipu_value_rank(x) == 0 || ipu_value_dim(x, 0) != batch))
            ipu__node_fail(n, IPU_INVALID, "input %zu has no batch of %lld", k, (long long)batch);
        if (!ipu__import_ok(n->im)) return false;
        in[k - 1] = ipu_index(n->b, x, i, 0);
    }
    return true;
}

/* Opset 8: a batch of sequences, each by itself. */
static void scan_batch(ipu__node *n, size_t n_out, size_t n_carried)
{
    ipu_value      last  = ipu__in_needed(n, n->n_in - 1);
    int64_t        batch = ipu_value_rank(last) > 1 ? ipu_value_dim(last, 0) : 0;
    int64_t        turns = ipu_value_rank(last) > 1 ? ipu_value_dim(last, 1) : 0;
    const int64_t *lengths;
    size_t         n_lengths;
    ipu__in_ints(n, 0, &lengths, &n_lengths);
    if (!ipu__import_ok(n->im)) return;
    if (batch < 1 || (lengths && (int64_t)n_lengths != batch)) {
        ipu__node_fail(n, IPU_INVALID, "expected a batch of one or more sequences, and a length for each");
        return;
    }
    ipu_value *in  = ipu__import_alloc(n->im, n->n_in * sizeof *in);
    ipu_value *out = ipu__import_alloc(n->im, (n_out + 1) * sizeof *out);
    ipu_value *all = ipu__import_alloc(n->im, (n_out + 1) * (size_t)batch * sizeof *all);
    if (!in || !out || !all) return;
    for (int64_t i = 0; i < batch; i++) {
        int64_t own = !lengths ? -1 : lengths[i] < 0 ? 0 : lengths[i];
        if (!take_sequence(n, i, batch, in) || !scan(n, in, n->n_in - 1, own, "directions", out)) return;
        for (size_t k = 0; k < n_out; k++)
            all[k * (size_t)batch + (size_t)i] = k < n_carried ? out[k] : fill_up(n, out[k], turns);
    }
    for (size_t k = 0; k < n_out; k++)
        ipu__give(n, k, ipu_stack(n->b, all + k * (size_t)batch, (size_t)batch, 0));
}

void ipu__onnx_Scan(ipu__node *n)
{
    const Ipu__GraphProto *body      = ipu__attr_graph(n, "body");
    size_t                 first     = n->version < 9 ? 1 : 0;
    int64_t                n_scanned = ipu__attr_int(n, "num_scan_inputs", 0);
    if (!body || !ipu__import_ok(n->im)) return;
    if (n->n_in <= first || n_scanned < 1 || (uint64_t)n_scanned > n->n_in - first) {
        ipu__node_fail(n, IPU_INVALID, "%lld of its %zu inputs are scanned", (long long)n_scanned, n->n_in);
        return;
    }
    if (first) {
        scan_batch(n, body->n_output, n->n_in - first - (size_t)n_scanned);
        return;
    }
    ipu_value *in  = ipu__import_alloc(n->im, n->n_in * sizeof *in);
    ipu_value *out = ipu__import_alloc(n->im, (body->n_output + 1) * sizeof *out);
    for (size_t i = 0; in && i < n->n_in; i++) in[i] = ipu__in_needed(n, i);
    if (!in || !out || !ipu__import_ok(n->im)) return;
    for (size_t i = 0; i < n->n_in; i++)
        if (!is_plain(&n->in[i]))
            ipu__node_fail(n, IPU_UNSUPPORTED,
                           "the extent of input %zu depends on data, which a Scan cannot take", i);
    if (!ipu__import_ok(n->im) || !scan(n, in, n->n_in, -1, "scan_input_directions", out)) return;
    for (size_t i = 0; i < body->n_output; i++) ipu__give(n, i, out[i]);
}

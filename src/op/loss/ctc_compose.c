/* ctc as other ops: alpha of all sequences at once, step by step. Used for second derivatives.
 *
 * Impossible states have a logarithm of -1e30: with -infinity, gradients would be NaN.
 */
#include <math.h>

#include "ipu/op/elementwise.h"
#include "ipu/op/gather.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "op/loss/ctc.h"

enum {
    LOG_PROBS      = IPU__CTC_LOG_PROBS,
    TARGETS        = IPU__CTC_TARGETS,
    INPUT_LENGTHS  = IPU__CTC_INPUT_LENGTHS,
    TARGET_LENGTHS = IPU__CTC_TARGET_LENGTHS
};

static const double never = -1e30;

typedef struct lattice {
    ipu_builder *b;
    ipu_type     type;
    int64_t      steps, n, states;
    ipu_value    state;             /* 0, 1, 2 .. */
    ipu_value    labels;            /* [n, states], int64 */
    ipu_value    n_steps, n_labels; /* [n, 1], int64 */
    ipu_value    may_skip;          /* [n, states] */
    ipu_value    log_probs;         /* [steps, n, states] */
} lattice;

static ipu_value filled(const lattice *l, ipu_type type, int64_t columns, double value)
{
    return ipu_expand(l->b, ipu_constant_value(l->b, type, IPU_SCALAR, value), IPU_SHAPE(l->n, columns));
}

static ipu_value whole(const lattice *l, double value)
{
    return ipu_constant_value(l->b, IPU_INT64, IPU_SCALAR, value);
}

static ipu_value number(const lattice *l, double value)
{
    return ipu_constant_value(l->b, l->type, IPU_SCALAR, value);
}

/* Moved by `by` states, with `first` in front. */
static ipu_value shifted(const lattice *l, ipu_value v, int64_t by, ipu_value first)
{
    if (l->states <= by) return first;
    return ipu_concat(l->b, (ipu_value[]){first, ipu_slice(l->b, v, 0, l->states - by, 1)}, 2, 1);
}

static ipu_value previous(const lattice *l, ipu_value alpha, int64_t by)
{
    int64_t columns = by < l->states ? by : l->states;
    return shifted(l, alpha, by, filled(l, l->type, columns, never));
}

/* blank, label, blank .. ; what is past the target is blank too. */
static void find_labels(lattice *l, ipu_value targets, double blank)
{
    ipu_builder *b   = l->b;
    int64_t      n   = (l->states - 1) / 2;
    ipu_value    own = ipu_reshape(b, ipu_cast(b, targets, IPU_INT64), IPU_SHAPE(l->n, n, 1));
    ipu_value    gap = ipu_reshape(b, filled(l, IPU_INT64, n, blank), IPU_SHAPE(l->n, n, 1));
    ipu_value    all = ipu_reshape(b, ipu_concat(b, (ipu_value[]){gap, own}, 2, 2), IPU_SHAPE(l->n, 2 * n));
    all              = ipu_concat(b, (ipu_value[]){all, filled(l, IPU_INT64, 1, blank)}, 2, 1);
    ipu_value inside = ipu_less(b, l->state, ipu_add(b, ipu_mul(b, l->n_labels, whole(l, 2)), whole(l, 1)));
    l->labels        = ipu_where(b, inside, all, whole(l, blank));
    ipu_value odd    = ipu_equal(b, ipu_mod(b, l->state, whole(l, 2)), whole(l, 1));
    int64_t   first  = l->states < 2 ? l->states : 2;
    ipu_value before = shifted(l, l->labels, 2, ipu_slice(b, l->labels, 0, first, 1));
    l->may_skip      = ipu_logical_and(b, odd, ipu_not_equal(b, l->labels, before)); /* never the first two */
}

static ipu_value at_step(const lattice *l, int64_t t) { return ipu_index(l->b, l->log_probs, t, 0); }

/* Before any step there is state 0 only; the first step leads to 0 or 1. */
static ipu_value first_alpha(const lattice *l)
{
    ipu_builder *b     = l->b;
    ipu_value    start = ipu_where(b, ipu_equal(b, l->state, whole(l, 0)), number(l, 0), number(l, never));
    start              = ipu_expand(b, start, IPU_SHAPE(l->n, l->states));
    if (l->steps == 0) return start;
    ipu_value first = ipu_where(b, ipu_less(b, l->state, whole(l, 2)), at_step(l, 0), number(l, never));
    return ipu_where(b, ipu_greater(b, l->n_steps, whole(l, 0)), first, start);
}

static ipu_value log_sum(const lattice *l, const ipu_value *values, size_t n)
{
    return ipu_reduce_logsumexp(l->b, ipu_stack(l->b, values, n, 0), (int[]){0}, 1, false);
}

static ipu_value next_alpha(const lattice *l, ipu_value alpha, int64_t t)
{
    ipu_builder *b    = l->b;
    ipu_value    skip = ipu_where(b, l->may_skip, previous(l, alpha, 2), number(l, never));
    ipu_value    sum  = log_sum(l, (ipu_value[]){alpha, previous(l, alpha, 1), skip}, 3);
    sum               = ipu_add(b, sum, at_step(l, t));
    return ipu_where(b, ipu_less(b, whole(l, (double)t), l->n_steps), sum, alpha);
}

/* Ends in the last state or the one before. */
static ipu_value loss_of(const lattice *l, ipu_value alpha)
{
    ipu_builder *b    = l->b;
    ipu_value    last = ipu_mul(b, l->n_labels, whole(l, 2)), zero = whole(l, 0);
    ipu_value    prior = ipu_maximum(b, ipu_sub(b, last, whole(l, 1)), zero);
    ipu_value    other = ipu_gather_elements(b, alpha, prior, 1);
    other              = ipu_where(b, ipu_greater(b, last, zero), other, number(l, never));
    ipu_value loss = ipu_neg(b, log_sum(l, (ipu_value[]){ipu_gather_elements(b, alpha, last, 1), other}, 2));
    loss           = ipu_reshape(b, loss, IPU_SHAPE(l->n));
    return ipu_where(b, ipu_less(b, loss, number(l, 1e29)), loss, number(l, (double)INFINITY));
}

void ipu__ctc_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    const ipu_shape *x      = &call->operand[LOG_PROBS].shape;
    ipu_type         type   = call->operand[LOG_PROBS].type;
    lattice          l      = {.b      = b,
                               .type   = type == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT,
                               .steps  = x->dim[0],
                               .n      = x->dim[1],
                               .states = 2 * call->operand[TARGETS].shape.dim[1] + 1};
    ipu_shape        column = IPU_SHAPE(l.n, 1);
    l.state                 = ipu_arange(b, IPU_INT64, l.states, 0, 1);
    l.n_steps               = ipu_reshape(b, ipu_cast(b, in[INPUT_LENGTHS], IPU_INT64), column);
    l.n_labels              = ipu_reshape(b, ipu_cast(b, in[TARGET_LENGTHS], IPU_INT64), column);
    find_labels(&l, in[TARGETS], (double)ipu__op_int(call, "blank"));
    ipu_value labels = ipu_expand(b, l.labels, IPU_SHAPE(l.steps, l.n, l.states));
    ipu_value wide   = type == l.type ? in[LOG_PROBS] : ipu_cast(b, in[LOG_PROBS], l.type);
    l.log_probs      = ipu_gather_elements(b, wide, labels, 2);
    ipu_value alpha  = first_alpha(&l);
    for (int64_t t = 1; t < l.steps && ipu_builder_status(b) == IPU_OK; t++) alpha = next_alpha(&l, alpha, t);
    out[0] = loss_of(&l, alpha);
    if (type != l.type) out[0] = ipu_cast(b, out[0], type);
}

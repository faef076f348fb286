/* Training: gradients of the losses, one step of an optimizer for each parameter, its states.
 *
 * A parameter belongs to the first group with a pattern that matches its name, or to group 0. Gradients and
 * steps are separate, so that gradients of several batches or replicas can be added up in between.
 */
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/nn/nn.h"
#include "op/optimizer/optimizer.h"

/* Shared by the parameters of a group. */
typedef struct trainer {
    ipu_model              *m;
    const ipu_nn_optimizer *how;
    const char *const      *states;     /* names, in the list's order */
    ipu_value               rate, step; /* step is null if no optimizer needs it */
    ipu_value               finite;     /* whether the step is made; null: always */
    ipu_value               now;        /* the parameter's current value, or that as float */
} trainer;

static ipu_value state_from(const trainer *t, ipu_value parameter, int k, double initial)
{
    ipu_type type = ipu_value_type(parameter) == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
    /* A parameter's name is complete: it includes scopes already. */
    ipu__text scope  = t->m->base.scope;
    t->m->base.scope = (ipu__text){0};
    ipu_value state  = ipu__nn_state(t->m, ipu_value_name(parameter), t->states[k], type,
                                     ipu_value_shape(parameter), initial);
    t->m->base.scope = scope;
    if (state.id) t->m->values.at[state.id].parameter = parameter.id;
    return state;
}

/* State `k` in the optimizer's list. */
static ipu_value state_of(const trainer *t, ipu_value parameter, int k)
{
    return state_from(t, parameter, k, 0);
}

static double momentum_of(const ipu_nn_optimizer *how) { return how->momentum > 0 ? how->momentum : 0; }

static ipu_adam_options adam_options(const ipu_nn_optimizer *how)
{
    return (ipu_adam_options){.beta1              = how->beta1,
                              .beta2              = how->beta2,
                              .epsilon            = how->epsilon,
                              .weight_decay       = how->weight_decay,
                              .max_weight_norm    = how->max_weight_norm,
                              .no_bias_correction = how->no_bias_correction,
                              .decay              = how->decay};
}

typedef struct stepped {
    ipu_value     state[3]; /* null: none */
    ipu_optimized next;
} stepped;

static stepped step_sgd(const trainer *t, ipu_value w, ipu_value dw)
{
    const ipu_nn_optimizer *how     = t->how;
    ipu_sgd_options         options = {momentum_of(how), how->dampening, how->weight_decay, how->nesterov,
                                       how->decay};
    stepped                 s       = {0};
    if (options.momentum != 0) s.state[0] = state_of(t, w, 0);
    s.next = ipu_sgd_step(&t->m->base, t->now, dw, t->rate, t->step, s.state[0], options);
    return s;
}

typedef ipu_optimized (*adam_fn)(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                                 ipu_value step, ipu_value mean, ipu_value square, ipu_value max_square,
                                 ipu_adam_options options);

static stepped step_adam_by(const trainer *t, ipu_value w, ipu_value dw, adam_fn fn)
{
    stepped s = {.state = {state_of(t, w, 0), state_of(t, w, 1)}};
    if (t->how->amsgrad) s.state[2] = state_of(t, w, 2);
    s.next = fn(&t->m->base, t->now, dw, t->rate, t->step, s.state[0], s.state[1], s.state[2],
                adam_options(t->how));
    return s;
}

static stepped step_adam(const trainer *t, ipu_value w, ipu_value dw)
{
    return step_adam_by(t, w, dw, ipu_adam_step);
}

static stepped step_adamw(const trainer *t, ipu_value w, ipu_value dw)
{
    return step_adam_by(t, w, dw, ipu_adamw_step);
}

static stepped step_adamax(const trainer *t, ipu_value w, ipu_value dw)
{
    stepped s = {.state = {state_of(t, w, 0), state_of(t, w, 1)}};
    s.next    = ipu_adamax_step(&t->m->base, t->now, dw, t->rate, t->step, s.state[0], s.state[1],
                                adam_options(t->how));
    return s;
}

static stepped step_lamb(const trainer *t, ipu_value w, ipu_value dw)
{
    stepped s = {.state = {state_of(t, w, 0), state_of(t, w, 1)}};
    s.next    = (ipu__model_is_shard(t->m, w) ? ipu__lamb_step_of_part : (ipu_lamb_step))(
        &t->m->base, t->now, dw, t->rate, t->step, s.state[0], s.state[1], adam_options(t->how));
    return s;
}

static stepped step_rmsprop(const trainer *t, ipu_value w, ipu_value dw)
{
    const ipu_nn_optimizer *how     = t->how;
    ipu_rmsprop_options     options = {.alpha        = how->alpha,
                                       .epsilon      = how->epsilon,
                                       .weight_decay = how->weight_decay,
                                       .momentum     = momentum_of(how),
                                       .tensorflow   = how->tensorflow,
                                       .decay        = how->decay};
    stepped                 s       = {.state = {state_from(t, w, 0, how->tensorflow ? 1 : 0)}};
    if (how->centered) s.state[1] = state_of(t, w, 1);
    if (options.momentum != 0) s.state[2] = state_of(t, w, 2);
    s.next = ipu_rmsprop_step(&t->m->base, t->now, dw, t->rate, s.state[0], s.state[1], s.state[2], options);
    return s;
}

static stepped step_adagrad(const trainer *t, ipu_value w, ipu_value dw)
{
    const ipu_nn_optimizer *how     = t->how;
    ipu_adagrad_options     options = {how->rate_decay, how->weight_decay, how->epsilon, how->decay};
    stepped                 s       = {.state = {state_of(t, w, 0)}};
    s.next = ipu_adagrad_step(&t->m->base, t->now, dw, t->rate, t->step, s.state[0], options);
    return s;
}

static stepped step_adadelta(const trainer *t, ipu_value w, ipu_value dw)
{
    const ipu_nn_optimizer *how     = t->how;
    ipu_adadelta_options    options = {how->alpha, how->epsilon, how->weight_decay, how->decay};
    stepped                 s       = {.state = {state_of(t, w, 0), state_of(t, w, 1)}};
    s.next = ipu_adadelta_step(&t->m->base, t->now, dw, t->rate, s.state[0], s.state[1], options);
    return s;
}

static const struct {
    stepped (*step)(const trainer *t, ipu_value w, ipu_value dw);
    bool counts_steps;
} kinds[] = {
#define OPTIMIZER(KIND, name, counts, ...) [IPU_NN_##KIND] = {step_##name, counts},
#include "model/nn/optimizers.inc"
#undef OPTIMIZER
};

/* ---- losses ---- */

void ipu_nn_loss(ipu_model *m, ipu_value loss, const char *name)
{
    ipu_builder *b = &m->base;
    if (!ipu__builder_has(b, __func__, loss)) return;
    if (ipu_value_n_elements(loss) != 1 || !ipu__op_is_floating(ipu_value_type(loss))) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_nn_loss \"%s\": expected a floating scalar, found %s",
                          name ? name : "", ipu__value_str(loss));
        return;
    }
    if (m->block != 0) {
        ipu__builder_fail(b, IPU_INVALID,
                          "ipu_nn_loss \"%s\": a loss inside a branch or loop: yield it and name the result",
                          name ? name : "");
        return;
    }
    ipu_model_output(m, loss, name);
    if (b->status == IPU_OK && !ipu__push(&m->losses, loss.id))
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "out of memory");
}

static double loss_scale(const ipu_nn_training *how) { return how->loss_scale == 0 ? 1 : how->loss_scale; }

/* The scaled sum of all losses, in the type of the first. */
static ipu_value total_loss(ipu_model *m, const ipu_nn_training *how)
{
    ipu_builder *b   = &m->base;
    ipu_value    sum = {b, 0};
    for (size_t i = 0; i < m->losses.n; i++) {
        ipu_value loss = ipu_reshape(b, ipu__model_handle(m, m->losses.at[i]), IPU_SCALAR);
        if (sum.id && ipu_value_type(loss) != ipu_value_type(sum))
            loss = ipu_cast(b, loss, ipu_value_type(sum));
        sum = sum.id ? ipu_add(b, sum, loss) : loss;
    }
    if (ipu__nn_finds_scale(how))
        return ipu_mul(b, sum, ipu_cast(b, ipu__nn_scale(m, how), ipu_value_type(sum)));
    return loss_scale(how) == 1 ? sum : ipu_mul(b, sum, ipu_scalar_like(b, sum, loss_scale(how)));
}

/* ---- groups ---- */

static bool matches(const char *patterns, const char *name)
{
    char one[256];
    for (const char *p = patterns + strspn(patterns, " "); *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        if (n < sizeof one) {
            memcpy(one, p, n);
            one[n] = 0;
            if (fnmatch(one, name, 0) == 0) return true;
        }
        p += n;
    }
    return false;
}

size_t ipu__nn_group_of(const ipu_nn_training *how, const char *name)
{
    for (size_t i = 0; i < how->n_groups; i++)
        if (matches(how->groups[i].parameters, name)) return i + 1;
    return 0;
}

bool ipu__nn_group_is_frozen(const ipu_nn_training *how, size_t group)
{
    return group > 0 && group <= how->n_groups && how->groups[group - 1].frozen;
}

static const ipu_nn_optimizer *optimizer_of(const ipu_nn_training *how, size_t group)
{
    return group == 0 ? &how->optimizer : &how->groups[group - 1].optimizer;
}

static bool check_pattern(ipu_model *m, const char *p, size_t n, size_t group)
{
    char one[256];
    if (n >= sizeof one) {
        ipu__builder_fail(&m->base, IPU_INVALID, "training: group %zu has a pattern of over 255 characters",
                          group);
        return false;
    }
    memcpy(one, p, n);
    one[n] = 0;
    for (size_t i = 0; i < m->parameters.n; i++)
        if (fnmatch(one, ipu_value_name(ipu_model_parameter_at(m, i)), 0) == 0) return true;
    ipu__builder_fail(&m->base, IPU_NOT_FOUND,
                      "training: pattern \"%s\" of group %zu matches no parameter; the first is \"%s\"", one,
                      group,
                      m->parameters.n ? ipu_value_name(ipu_model_parameter_at(m, 0)) : "(there are none)");
    return false;
}

static bool check_optimizer(ipu_model *m, const ipu_nn_optimizer *o, size_t group)
{
    bool is_known = ipu_nn_optimizer_kind_info(o->kind) != NULL;
    bool decays   = (unsigned)o->decay <= IPU_DECAY_DECOUPLED;
    if (is_known && decays && isfinite(o->rate)) return true;
    if (!is_known)
        ipu__builder_fail(&m->base, IPU_INVALID, "training: group %zu: there is no optimizer %d", group,
                          (int)o->kind);
    else if (!decays)
        ipu__builder_fail(&m->base, IPU_INVALID, "training: group %zu: there is no way of decay %d", group,
                          (int)o->decay);
    else
        ipu__builder_fail(&m->base, IPU_INVALID, "training: group %zu: expected a finite rate, found %g",
                          group, o->rate);
    return false;
}

static bool check_number(ipu_model *m, const char *what, double value)
{
    if (isfinite(value) && value >= 0) return true;
    ipu__builder_fail(&m->base, IPU_INVALID, "training: expected %s of 0 or more, found %g", what, value);
    return false;
}

static bool check_period(ipu_model *m, const ipu_nn_training *how)
{
    if (how->loss_scale_period >= 0 && how->loss_scale_period <= INT32_MAX) return true;
    ipu__builder_fail(&m->base, IPU_INVALID,
                      "training: expected a period of the loss scale of 0 to 2^31 - 1 steps, found %" PRId64,
                      how->loss_scale_period);
    return false;
}

bool ipu__nn_check_training(ipu_model *m, const ipu_nn_training *how)
{
    if (m->base.status != IPU_OK) return false;
    if (!check_number(m, "a largest norm of gradients", how->max_gradient_norm)
        || !check_number(m, "a largest gradient", how->max_gradient)
        || !check_number(m, "a loss scale", how->loss_scale) || !check_period(m, how)
        || !check_optimizer(m, &how->optimizer, 0))
        return false;
    for (size_t i = 0; i < how->n_groups; i++) {
        const char *p = how->groups[i].parameters;
        if (!p || !p[strspn(p, " ")]) {
            ipu__builder_fail(&m->base, IPU_INVALID, "training: group %zu has no patterns of parameters",
                              i + 1);
            return false;
        }
        if (!check_optimizer(m, &how->groups[i].optimizer, i + 1)) return false;
        for (p += strspn(p, " "); *p; p += strspn(p, " ")) {
            size_t n = strcspn(p, " ");
            if (!check_pattern(m, p, n, i + 1)) return false;
            p += n;
        }
    }
    return true;
}

/* ---- gradients ---- */

void ipu__nn_gradients(ipu_model *m, const ipu_nn_training *how, const ipu_value *w, size_t n, ipu_value *dw)
{
    ipu_builder *b = &m->base;
    for (size_t i = 0; i < n; i++) dw[i] = (ipu_value){b, 0};
    if (b->status != IPU_OK) return;
    if (m->losses.n == 0) {
        ipu__builder_fail(b, IPU_INVALID, "training: there is no loss: name one with ipu_nn_loss");
        return;
    }
    size_t     n_trained = 0;
    ipu_value *x         = ipu__alloc(2 * (n + 1) * sizeof *x);
    if (!x) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "out of memory");
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (!ipu__nn_group_is_frozen(how, ipu__nn_group_of(how, ipu_value_name(w[i])))) x[n_trained++] = w[i];
    ipu_value *d_x = x + n + 1;
    ipu_model_gradients(m, total_loss(m, how), x, n_trained, &(ipu_gradient_options){.allow_unused = true},
                        d_x);
    for (size_t i = 0, k = 0; i < n && b->status == IPU_OK; i++)
        if (k < n_trained && x[k].id == w[i].id) dw[i] = d_x[k++];
    ipu__free(x);
}

/* As in torch.nn.utils.clip_grad_norm_: max / (norm + 1e-6), at most 1. */
static ipu_value clip_factor(ipu_model *m, const ipu_value *w, const ipu_value *dw, size_t n, double most)
{
    ipu_builder *b   = &m->base;
    ipu_value    sum = {b, 0};
    for (size_t i = 0; i < n; i++) {
        if (!dw[i].id) continue;
        ipu_value square = ipu_reduce_sum_square(b, ipu_cast(b, dw[i], IPU_FLOAT), NULL, 0, false);
        square           = ipu__model_sum_shards(m, w[i], square);
        sum              = sum.id ? ipu_add(b, sum, square) : square;
    }
    if (!sum.id) return sum;
    ipu_value norm   = ipu_sqrt(b, sum);
    ipu_value factor = ipu_div(b, ipu_scalar_like(b, norm, most),
                               ipu_add(b, norm, ipu_scalar_like(b, norm, 1e-6)));
    return ipu_minimum(b, factor, ipu_scalar_like(b, factor, 1));
}

/* Multiplies by `scale` and divides by the loss scale, in float, since the result may not fit in half. */
static void scale_back(ipu_model *m, const ipu_nn_training *how, double scale, ipu_value *dw, size_t n)
{
    ipu_builder *b      = &m->base;
    ipu_value    factor = {b, 0};
    if (ipu__nn_finds_scale(how)) {
        ipu_value s = ipu__nn_scale(m, how);
        factor      = ipu_div(b, ipu_scalar_like(b, s, scale), s);
    }
    scale /= loss_scale(how);
    for (size_t i = 0; i < n && (factor.id || scale != 1); i++) {
        if (!dw[i].id) continue;
        if (ipu_value_type(dw[i]) == IPU_HALF) dw[i] = ipu_cast(b, dw[i], IPU_FLOAT);
        dw[i] = ipu_mul(b, dw[i],
                        factor.id ? ipu_cast(b, factor, ipu_value_type(dw[i]))
                                  : ipu_scalar_like(b, dw[i], scale));
    }
}

/* Clips by element, then by norm, so that what a step sees satisfies both. */
static void clip_gradients(ipu_model *m, const ipu_nn_training *how, const ipu_value *w, ipu_value *dw,
                           size_t n)
{
    ipu_builder *b = &m->base;
    for (size_t i = 0; i < n && how->max_gradient > 0; i++)
        if (dw[i].id) dw[i] = ipu_clip(b, dw[i], -how->max_gradient, how->max_gradient);
    if (how->max_gradient_norm <= 0) return;
    ipu_value factor = clip_factor(m, w, dw, n, how->max_gradient_norm);
    for (size_t i = 0; i < n && factor.id; i++)
        if (dw[i].id) dw[i] = ipu_mul(b, dw[i], ipu_cast(b, factor, ipu_value_type(dw[i])));
}

/* ---- steps ---- */

/* `next` if the step is made, else `now`. */
static ipu_value chosen(ipu_model *m, ipu_value finite, ipu_value next, ipu_value now)
{
    return finite.id ? ipu_where(&m->base, finite, next, now) : next;
}

/* The state counts completed steps; the first step is number 1. */
static ipu_value count_steps(ipu_model *m, ipu_value finite)
{
    ipu_value done = ipu_model_state(m, IPU_INT32, IPU_SCALAR, NULL, IPU__NN_STEP);
    ipu_value now  = ipu_add(&m->base, done, ipu_scalar_like(&m->base, done, 1));
    ipu_model_update(m, done, chosen(m, finite, now, done));
    return now;
}

void ipu__nn_rate_name(size_t group, char name[IPU__NN_RATE_NAME])
{
    if (group == 0)
        snprintf(name, IPU__NN_RATE_NAME, "learning_rate");
    else
        snprintf(name, IPU__NN_RATE_NAME, "learning_rate.%zu", group);
}

static ipu_value rate_of(ipu_model *m, const ipu_nn_training *how, size_t group)
{
    char name[IPU__NN_RATE_NAME];
    ipu__nn_rate_name(group, name);
    ipu_value rate = ipu_model_state(m, IPU_FLOAT, IPU_SCALAR, NULL, name);
    ipu_model_set_initial(m, rate, (ipu_initial){IPU_INITIAL_CONSTANT, optimizer_of(how, group)->rate, 0});
    if (rate.id) m->values.at[rate.id].rate = (uint32_t)group + 1;
    return rate;
}

static bool counts_steps(const ipu_nn_optimizer *o)
{
    return kinds[o->kind].counts_steps || o->dampening != 0;
}

static ipu_value rounding_seed(ipu_model *m)
{
    if (m->rounding_seed) return ipu__model_handle(m, m->rounding_seed);
    const uint32_t initial[2] = {m->seed_value, 0}, next[2] = {0, 1};
    ipu_value      seed = ipu_model_state(m, IPU_UINT32, IPU_SHAPE(2), initial, IPU__NN_ROUNDING_SEED);
    ipu_value      one  = ipu_constant_data(&m->base, IPU_UINT32, IPU_SHAPE(2), next);
    ipu_model_update(m, seed, ipu_add(&m->base, seed, one));
    m->rounding_seed = seed.id;
    return seed;
}

/* The parameter, or the network's own update of it, from which the step starts; the step's result replaces
 * it. */
static ipu_value take_update(ipu_model *m, ipu_value w)
{
    uint32_t *update = &m->values.at[w.id].update, own = *update;
    *update = 0;
    return own ? ipu__model_handle(m, own) : w;
}

static void step_one(trainer t, ipu_value w, ipu_value dw)
{
    ipu_builder *b         = &t.m->base;
    bool         at_random = t.m->rounds_at_random && ipu_value_type(w) == IPU_HALF;
    ipu_value    now       = take_update(t.m, w);
    t.now                  = at_random ? ipu_cast(b, now, IPU_FLOAT) : now;
    if (at_random) dw = ipu_cast(b, dw, IPU_FLOAT);
    if (t.how->maximize) dw = ipu_neg(b, dw);
    stepped   s    = kinds[t.how->kind].step(&t, w, dw);
    ipu_value next = s.next.parameter;
    if (at_random) next = ipu_cast_stochastic(b, next, rounding_seed(t.m));
    ipu_model_update(t.m, w, chosen(t.m, t.finite, next, now));
    for (int k = 0; k < 3; k++)
        if (s.state[k].id)
            ipu_model_update(t.m, s.state[k], chosen(t.m, t.finite, s.next.state[k], s.state[k]));
}

static void step_group(const trainer *t, const ipu_nn_training *how, size_t group, const ipu_value *w,
                       const ipu_value *dw, size_t n)
{
    for (size_t i = 0; i < n && t->m->base.status == IPU_OK; i++)
        if (dw[i].id && ipu__nn_group_of(how, ipu_value_name(w[i])) == group) step_one(*t, w[i], dw[i]);
}

void ipu__nn_step(ipu_model *m, const ipu_nn_training *how, double scale, const ipu_value *w, ipu_value *dw,
                  size_t n)
{
    ipu_value step = {&m->base, 0}, finite = {&m->base, 0};
    if (ipu__nn_finds_scale(how)) finite = ipu__nn_all_finite(m, dw, n);
    scale_back(m, how, scale, dw, n);
    clip_gradients(m, how, w, dw, n);
    for (size_t group = 0; group <= how->n_groups && m->base.status == IPU_OK; group++) {
        trainer t = {.m = m, .how = optimizer_of(how, group), .finite = finite};
        t.states  = ipu_nn_optimizer_kind_info(t.how->kind)->states;
        if (ipu__nn_group_is_frozen(how, group)) continue;
        t.rate = rate_of(m, how, group);
        if (counts_steps(t.how) && !step.id) step = count_steps(m, finite);
        if (counts_steps(t.how)) t.step = step;
        step_group(&t, how, group, w, dw, n);
    }
    if (finite.id) ipu__nn_update_scale(m, how, finite);
}

void ipu_nn_train_with(ipu_model *m, const ipu_nn_training *how)
{
    size_t     n = m->parameters.n;
    ipu_value *w = ipu__alloc(2 * (n + 1) * sizeof *w);
    if (!w) {
        ipu__builder_fail(&m->base, IPU_OUT_OF_MEMORY, "out of memory");
        return;
    }
    ipu_value *dw = w + n + 1;
    for (size_t i = 0; i < n; i++) w[i] = ipu_model_parameter_at(m, i);
    if (ipu__nn_check_training(m, how)) {
        ipu__nn_gradients(m, how, w, n, dw);
        if (m->base.status == IPU_OK) ipu__nn_step(m, how, 1, w, dw, n);
    }
    ipu__free(w);
}

void ipu_nn_train(ipu_model *m, ipu_value loss, ipu_nn_optimizer optimizer)
{
    if (!ipu__builder_has(&m->base, __func__, loss)) return;
    m->losses.n = 0;
    if (!ipu__push(&m->losses, loss.id)) {
        ipu__builder_fail(&m->base, IPU_OUT_OF_MEMORY, "out of memory");
        return;
    }
    ipu_nn_train_with(m, &(ipu_nn_training){.optimizer = optimizer});
}

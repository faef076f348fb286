/* Training: gradients of all parameters, one step of an optimizer for each, its
 * states. */
#include "model/nn.h"

/* What all parameters share. */
typedef struct trainer {
    ipu_model              *m;
    const ipu_nn_optimizer *how;
    ipu_value               rate, step; /* step null: the optimizer does not ask for it */
} trainer;

static ipu_value state_of(const trainer *t, ipu_value parameter, const char *what)
{
    ipu_type type = ipu_value_type(parameter) == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
    /* The name of a parameter is the whole of it: scopes are in it already. */
    ipu__text scope  = t->m->base.scope;
    t->m->base.scope = (ipu__text){0};
    ipu_value state  = ipu__nn_state(t->m, ipu_value_name(parameter), what, type, ipu_value_shape(parameter),
                                     0);
    t->m->base.scope = scope;
    return state;
}

static ipu_adam_options adam_options(const ipu_nn_optimizer *how)
{
    return (ipu_adam_options){how->beta1, how->beta2, how->epsilon, how->weight_decay};
}

typedef struct stepped {
    ipu_value     state[3]; /* null: none */
    ipu_optimized next;
} stepped;

static stepped step_sgd(const trainer *t, ipu_value w, ipu_value dw)
{
    const ipu_nn_optimizer *how     = t->how;
    ipu_sgd_options         options = {how->momentum, how->dampening, how->weight_decay, how->nesterov};
    stepped                 s       = {0};
    if (how->momentum != 0) s.state[0] = state_of(t, w, "momentum");
    s.next = ipu_sgd_step(&t->m->base, w, dw, t->rate, t->step, s.state[0], options);
    return s;
}

typedef ipu_optimized (*adam_fn)(ipu_builder *b, ipu_value parameter, ipu_value gradient, ipu_value rate,
                                 ipu_value step, ipu_value mean, ipu_value square, ipu_value max_square,
                                 ipu_adam_options options);

static stepped step_adam_by(const trainer *t, ipu_value w, ipu_value dw, adam_fn fn)
{
    stepped s = {.state = {state_of(t, w, "mean"), state_of(t, w, "square")}};
    if (t->how->amsgrad) s.state[2] = state_of(t, w, "max_square");
    s.next = fn(&t->m->base, w, dw, t->rate, t->step, s.state[0], s.state[1], s.state[2],
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
    stepped s = {.state = {state_of(t, w, "mean"), state_of(t, w, "largest")}};
    s.next    = ipu_adamax_step(&t->m->base, w, dw, t->rate, t->step, s.state[0], s.state[1],
                                adam_options(t->how));
    return s;
}

static stepped step_lamb(const trainer *t, ipu_value w, ipu_value dw)
{
    stepped s = {.state = {state_of(t, w, "mean"), state_of(t, w, "square")}};
    s.next    = ipu_lamb_step(&t->m->base, w, dw, t->rate, t->step, s.state[0], s.state[1],
                              adam_options(t->how));
    return s;
}

static stepped step_rmsprop(const trainer *t, ipu_value w, ipu_value dw)
{
    const ipu_nn_optimizer *how     = t->how;
    ipu_rmsprop_options     options = {how->alpha, how->epsilon, how->weight_decay, how->momentum};
    stepped                 s       = {.state = {state_of(t, w, "square")}};
    if (how->centered) s.state[1] = state_of(t, w, "mean");
    if (how->momentum != 0) s.state[2] = state_of(t, w, "momentum");
    s.next = ipu_rmsprop_step(&t->m->base, w, dw, t->rate, s.state[0], s.state[1], s.state[2], options);
    return s;
}

static stepped step_adagrad(const trainer *t, ipu_value w, ipu_value dw)
{
    const ipu_nn_optimizer *how     = t->how;
    ipu_adagrad_options     options = {how->rate_decay, how->weight_decay, how->epsilon};
    stepped                 s       = {.state = {state_of(t, w, "sum")}};
    s.next = ipu_adagrad_step(&t->m->base, w, dw, t->rate, t->step, s.state[0], options);
    return s;
}

static const struct {
    stepped (*step)(const trainer *t, ipu_value w, ipu_value dw);
    bool counts_steps;
} kinds[] = {
    [IPU_NN_SGD] = {step_sgd, false},         [IPU_NN_ADAM] = {step_adam, true},
    [IPU_NN_ADAMW] = {step_adamw, true},      [IPU_NN_ADAMAX] = {step_adamax, true},
    [IPU_NN_RMSPROP] = {step_rmsprop, false}, [IPU_NN_ADAGRAD] = {step_adagrad, true},
    [IPU_NN_LAMB] = {step_lamb, true},
};

/* The state counts finished steps; the first step is number 1. */
static ipu_value count_steps(ipu_model *m)
{
    ipu_value done = ipu_model_state(m, IPU_INT32, IPU_SCALAR, NULL, "optimizer_step");
    ipu_value now  = ipu_add(&m->base, done, ipu_scalar_like(&m->base, done, 1));
    ipu_model_update(m, done, now);
    return now;
}

static void step_all(const trainer *t, const ipu_value *w, const ipu_value *dw, size_t n)
{
    for (size_t i = 0; i < n && t->m->base.status == IPU_OK; i++) {
        if (!dw[i].id) continue;
        stepped s = kinds[t->how->kind].step(t, w[i], dw[i]);
        ipu_model_update(t->m, w[i], s.next.parameter);
        for (int k = 0; k < 3; k++)
            if (s.state[k].id) ipu_model_update(t->m, s.state[k], s.next.state[k]);
    }
}

void ipu_nn_train(ipu_model *m, ipu_value loss, ipu_nn_optimizer optimizer)
{
    ipu_builder *b = &m->base;
    if (!ipu__builder_has(b, __func__, loss)) return;
    if ((size_t)optimizer.kind >= sizeof kinds / sizeof *kinds) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_nn_train: there is no optimizer %d", (int)optimizer.kind);
        return;
    }
    size_t     n = m->parameters.n;
    ipu_value *w = ipu__alloc(2 * (n + 1) * sizeof *w);
    if (!w) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "out of memory");
        return;
    }
    ipu_value *dw = w + n + 1;
    for (size_t i = 0; i < n; i++) w[i] = ipu_model_parameter_at(m, i);
    ipu_model_gradients(m, loss, w, n, &(ipu_gradient_options){.allow_unused = true}, dw);
    trainer t = {.m = m, .how = &optimizer};
    t.rate    = ipu_model_state(m, IPU_FLOAT, IPU_SCALAR, NULL, "learning_rate");
    ipu_model_set_initial(m, t.rate, (ipu_initial){IPU_INITIAL_CONSTANT, optimizer.rate, 0});
    if (kinds[optimizer.kind].counts_steps || optimizer.dampening != 0) t.step = count_steps(m);
    step_all(&t, w, dw, n);
    ipu__free(w);
}

/* Ops of ONNX's training domain: optimizers' steps and gradients. */
#include <string.h>

#include "ipu/op.h"
#include "onnx/import/import.h"
#include "onnx/import/scope.h"

/* Inputs are the rate, the number of updates before, then `per` lists of as many tensors as are optimised. */
typedef struct step {
    ipu__node   *n;
    ipu_builder *b;
    ipu_value    rate, count; /* scalars, of the type of x */
    ipu_value    x, g;        /* g with the share of norm_coefficient */
    ipu_value    state[2];
    size_t       i, n_tensors;
} step;

static ipu_value times(const step *s, ipu_value v, double factor)
{
    return factor == 1 ? v : ipu_mul(s->b, v, ipu_scalar_like(s->b, v, factor));
}

static ipu_value plus(const step *s, ipu_value v, double addend)
{
    return addend == 0 ? v : ipu_add(s->b, v, ipu_scalar_like(s->b, v, addend));
}

static ipu_value scalar_at(ipu__node *n, size_t i, ipu_type type)
{
    ipu_value v = ipu__in_needed(n, i);
    if (!ipu__import_ok(n->im)) return IPU_NO_VALUE;
    if (ipu_value_n_elements(v) != 1) {
        ipu__node_fail(n, IPU_INVALID, "input %zu must have one element", i);
        return IPU_NO_VALUE;
    }
    v = ipu_reshape(n->b, v, (ipu_shape){0});
    return ipu_value_type(v) == type ? v : ipu_cast(n->b, v, type);
}

/* `first` if there has been no update yet. */
static ipu_value if_first(const step *s, ipu_value first, ipu_value value)
{
    return ipu_where(s->b, ipu_greater(s->b, s->count, ipu_scalar_like(s->b, s->count, 0)), value, first);
}

/* Calls `f` for each tensor; it gives the new x and then the new states. */
static void each(ipu__node *n, size_t per, void (*f)(const step *s, ipu_value out[3]))
{
    size_t count = n->n_in > 2 ? (n->n_in - 2) / per : 0;
    if (count == 0 || n->n_in != 2 + count * per) {
        ipu__node_fail(n, IPU_INVALID, "%zu inputs; expected 2 and a multiple of %zu", n->n_in, per);
        return;
    }
    for (size_t i = 0; i < count && ipu__import_ok(n->im); i++) {
        step s = {.n = n, .b = n->b, .i = i, .n_tensors = count, .x = ipu__in_needed(n, 2 + i)};
        if (!ipu__import_ok(n->im)) return;
        s.rate      = scalar_at(n, 0, ipu_value_type(s.x));
        s.count     = scalar_at(n, 1, ipu_value_type(s.x));
        s.g         = ipu__in_needed(n, 2 + count + i);
        double norm = ipu__attr_float(n, "norm_coefficient", 0);
        if (norm != 0) s.g = ipu_add(n->b, times(&s, s.x, norm), s.g);
        for (size_t k = 2; k < per; k++) s.state[k - 2] = ipu__in_needed(n, 2 + k * count + i);
        ipu_value out[3];
        f(&s, out);
        for (size_t k = 0; k + 1 < per; k++) ipu__give(n, k * count + i, out[k]);
    }
}

static void adagrad(const step *s, ipu_value out[3])
{
    ipu_builder *b     = s->b;
    double       decay = ipu__attr_float(s->n, "decay_factor", 0);
    ipu_value    rate  = ipu_div(b, s->rate, plus(s, times(s, s->count, decay), 1));
    out[1]             = ipu_add(b, s->state[0], ipu_square(b, s->g));
    ipu_value root     = plus(s, ipu_sqrt(b, out[1]), ipu__attr_float(s->n, "epsilon", 1e-6f));
    out[0]             = ipu_sub(b, s->x, ipu_div(b, ipu_mul(b, rate, s->g), root));
}

static void adam(const step *s, ipu_value out[3])
{
    ipu_builder *b     = s->b;
    double       alpha = ipu__attr_float(s->n, "alpha", 0.9f), beta = ipu__attr_float(s->n, "beta", 0.999f);
    double       post = ipu__attr_float(s->n, "norm_coefficient_post", 0);
    out[1]            = ipu_add(b, times(s, s->state[0], alpha), times(s, s->g, 1 - alpha));
    out[2]            = ipu_add(b, times(s, s->state[1], beta), times(s, ipu_square(b, s->g), 1 - beta));
    ipu_value root    = plus(s, ipu_sqrt(b, out[2]), ipu__attr_float(s->n, "epsilon", 1e-6f));
    ipu_value alphas  = ipu_pow(b, ipu_scalar_like(b, s->count, alpha), s->count);
    ipu_value betas   = ipu_pow(b, ipu_scalar_like(b, s->count, beta), s->count);
    ipu_value rate    = ipu_mul(b, s->rate, ipu_sqrt(b, plus(s, ipu_neg(b, betas), 1)));
    rate              = if_first(s, s->rate, ipu_div(b, rate, plus(s, ipu_neg(b, alphas), 1)));
    ipu_value x       = ipu_sub(b, s->x, ipu_div(b, ipu_mul(b, rate, out[1]), root));
    out[0]            = times(s, x, 1 - post);
}

static void momentum(const step *s, ipu_value out[3])
{
    ipu_builder *b     = s->b;
    double       alpha = ipu__attr_float(s->n, "alpha", 0), beta = ipu__attr_float(s->n, "beta", 1);
    const char  *mode        = ipu__attr_text(s->n, "mode", "standard");
    bool         is_nesterov = strcmp(mode, "nesterov") == 0;
    if (!is_nesterov && strcmp(mode, "standard") != 0)
        ipu__node_fail(s->n, IPU_INVALID, "mode is \"%.40s\"; expected standard or nesterov", mode);
    ipu_value share = if_first(s, ipu_scalar_like(b, s->count, 1), ipu_scalar_like(b, s->count, beta));
    out[1]          = ipu_add(b, times(s, s->state[0], alpha), ipu_mul(b, share, s->g));
    ipu_value along = is_nesterov ? ipu_add(b, s->g, times(s, out[1], alpha)) : out[1];
    out[0]          = ipu_sub(b, s->x, ipu_mul(b, s->rate, along));
}

void ipu__onnx_Adagrad(ipu__node *n) { each(n, 3, adagrad); }
void ipu__onnx_Adam(ipu__node *n) { each(n, 4, adam); }
void ipu__onnx_Momentum(ipu__node *n) { each(n, 3, momentum); }

/* ---- gradients ---- */

static ipu_value named_value(ipu__node *n, const char *name)
{
    ipu__item *item = ipu__scope_find(n->im->scope, name);
    if (item && item->kind == IPU_ONNX_ARRAY && item->v.id) return item->v;
    ipu__node_fail(n, IPU_INVALID, "no node before it gives \"%.100s\"", name);
    return IPU_NO_VALUE;
}

/* Inputs must be the tensors that xs names: then the graph's own values serve. */
static const ipu_value *gradient_inputs(ipu__node *n, size_t *count)
{
    size_t n_xs;
    ipu__attr_texts(n, "xs", &n_xs, 0);
    *count       = n_xs;
    ipu_value *x = ipu__import_alloc(n->im, (n_xs + 1) * sizeof *x);
    for (size_t i = 0; x && i < n_xs && ipu__import_ok(n->im); i++) {
        const char *name = ipu__attr_texts(n, "xs", &n_xs, i);
        x[i]             = ipu__in_needed(n, i);
        if (ipu__import_ok(n->im) && named_value(n, name).id != x[i].id)
            ipu__node_fail(n, IPU_UNSUPPORTED,
                           "input %zu is another tensor than \"%.100s\": a gradient at other values than the "
                           "graph's own is not supported",
                           i, name);
    }
    return x;
}

void ipu__onnx_Gradient(ipu__node *n)
{
    size_t           count;
    const ipu_value *x = gradient_inputs(n, &count);
    ipu_value        y = named_value(n, ipu__attr_text(n, "y", ""));
    if (!ipu__import_ok(n->im) || !x) return;
    ipu_value *d_x = ipu__import_alloc(n->im, (count + 1) * sizeof *d_x);
    if (!d_x || count == 0) return;
    ipu_gradient_options options = {.allow_unused = true,
                                    .higher_order = true,
                                    .d_y = ipu_constant_value(n->b, ipu_value_type(y), ipu_value_shape(y),
                                                              1)};
    ipu_model_gradients(n->m, y, x, count, &options, d_x);
    for (size_t i = 0; i < count && ipu__import_ok(n->im); i++)
        ipu__give(n, i,
                  d_x[i].id ? d_x[i]
                            : ipu_constant_value(n->b, ipu_value_type(x[i]), ipu_value_shape(x[i]), 0));
}

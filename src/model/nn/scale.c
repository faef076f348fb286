/* Automatic loss scaling: the scale is a state of the model that is halved when gradients overflow.
 *
 * requires: gradients summed over all batches and replicas of a step, so that all decide alike.
 */
#include "model/nn/nn.h"

#define FIRST_SCALE 65536.0 /* of PyTorch's GradScaler */
#define MOST_SCALE 0x1p24
#define LEAST_SCALE 0x1p-24

/* State *id, created on the first call. */
static ipu_value state(ipu_model *m, uint32_t *id, ipu_type type, double initial, const char *name)
{
    if (m->base.status != IPU_OK) return (ipu_value){&m->base, 0};
    if (*id) return ipu__model_handle(m, *id);
    ipu__text scope = m->base.scope;
    m->base.scope   = (ipu__text){0};
    ipu_value out   = ipu_model_state(m, type, IPU_SCALAR, NULL, name);
    m->base.scope   = scope;
    ipu_model_set_initial(m, out, (ipu_initial){IPU_INITIAL_CONSTANT, initial, 0});
    *id = out.id;
    return out;
}

bool ipu__nn_finds_scale(const ipu_nn_training *how) { return how->loss_scale_period > 0; }

ipu_value ipu__nn_scale(ipu_model *m, const ipu_nn_training *how)
{
    return state(m, &m->loss_scale, IPU_FLOAT, how->loss_scale == 0 ? FIRST_SCALE : how->loss_scale,
                 IPU__NN_SCALE);
}

/* All of them concatenated as floats; null if there are none. */
static ipu_value together(ipu_model *m, const ipu_value *dw, size_t n)
{
    ipu_builder *b     = &m->base;
    ipu_value   *parts = ipu__alloc((n + 1) * sizeof *parts), all = {b, 0};
    size_t       k = 0;
    if (!parts) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "out of memory");
        return all;
    }
    for (size_t i = 0; i < n; i++)
        if (dw[i].id) parts[k++] = ipu_cast(b, ipu_flatten(b, dw[i], 0), IPU_FLOAT);
    if (k > 0) all = ipu_concat(b, parts, k, 0);
    ipu__free(parts);
    return all;
}

ipu_value ipu__nn_all_finite(ipu_model *m, const ipu_value *dw, size_t n)
{
    ipu_builder *b   = &m->base;
    ipu_value    all = together(m, dw, n);
    if (!all.id) return ipu_constant_value(b, IPU_BOOL, IPU_SCALAR, 1);
    /* 0 for finite elements, else NaN; the sum is NaN if any is. */
    ipu_value none = ipu_mul(b, all, ipu_scalar_like(b, all, 0));
    ipu_value sum  = ipu_reduce_sum(b, none, NULL, 0, false);
    if (m->shards.n > 0) sum = ipu__model_sum_shards(m, ipu__model_handle(m, m->shards.at[0]), sum);
    return ipu_isfinite(b, sum);
}

void ipu__nn_update_scale(ipu_model *m, const ipu_nn_training *how, ipu_value all_finite)
{
    ipu_builder *b     = &m->base;
    ipu_value    scale = ipu__nn_scale(m, how),
              good     = state(m, &m->good_steps, IPU_INT32, 0, IPU__NN_GOOD_STEPS);
    ipu_value zero = ipu_scalar_like(b, good, 0), one = ipu_scalar_like(b, good, 1);
    ipu_value count = ipu_where(b, all_finite, ipu_add(b, good, one), zero);
    ipu_value grows = ipu_greater_equal(b, count, ipu_scalar_like(b, good, (double)how->loss_scale_period));
    ipu_value twice = ipu_mul(b, scale, ipu_scalar_like(b, scale, 2));
    ipu_value half  = ipu_mul(b, scale, ipu_scalar_like(b, scale, 0.5));
    /* a scale set beyond the bounds stays there */
    ipu_value up   = ipu_maximum(b, scale, ipu_minimum(b, twice, ipu_scalar_like(b, scale, MOST_SCALE)));
    ipu_value down = ipu_minimum(b, scale, ipu_maximum(b, half, ipu_scalar_like(b, scale, LEAST_SCALE)));
    ipu_model_update(m, scale, ipu_where(b, all_finite, ipu_where(b, grows, up, scale), down));
    ipu_model_update(m, good, ipu_where(b, grows, zero, count));
}

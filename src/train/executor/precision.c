/* Precision of an executor: what its network computes in, and weights that the module keeps in another type.
 *
 * The module has weights as the network was built; a device with weights of half takes and gives them rounded.
 */
#include "model/precision/precision.h"
#include "train/executor/executor.h"

bool ipu__executor_rounds_at_random(const ipu__executor_program *p, const ipu__parallel_models *m)
{
    return p->x->options.stochastic_rounding && m->engine;
}

ipu_status ipu__executor_set_precision(const ipu__executor_program *p, const ipu__parallel_models *m)
{
    const ipu_executor_options *o   = &p->x->options;
    ipu_model                  *net = m->net;
    net->rounds_at_random           = ipu__executor_rounds_at_random(p, m);
    if (o->precision != IPU_PRECISION_FLOAT && net->customs.n > 0)
        return ipu__fail(
            IPU_INVALID,
            "option precision: the network has gradients of its own (ipu_model_custom_gradient), which "
            "know nothing of other types: make its values half where they are built");
    if (o->precision != IPU_PRECISION_FLOAT)
        IPU_TRY(ipu__model_to_half(net, o->precision == IPU_PRECISION_HALF));
    return net->rounds_at_random ? ipu__model_round_at_random(net) : IPU_OK;
}

ipu_status ipu__executor_finish_precision(const ipu__executor_program *p, const ipu__parallel_models *m)
{
    if (m->net->rounds_at_random) IPU_TRY(ipu__model_round_at_random(m->net));
    return p->x->options.half_partials ? ipu__model_half_partials(m->net) : IPU_OK;
}

/* ---- weights ---- */

/* Whether the device has it as halves, which the module has as floats. */
static bool is_rounded(const ipu__weight *w, ipu_type type)
{
    return type == IPU_HALF && w->array.type == IPU_FLOAT;
}

static ipu_type type_on_device(const ipu__executor_program *p, const ipu__weight *w)
{
    return ipu__executor_kept_of(p, w->name)->type;
}

static ipu_status read_weight(void *owner, ipu__weight *w)
{
    const ipu__executor_program *p = owner;
    size_t                       n = (size_t)ipu_array_n_elements(&w->array);
    if (n == 0) return IPU_OK;
    if (!is_rounded(w, type_on_device(p, w)))
        return ipu_engine_read(p->base.engine, w->name, w->array.data, ipu_array_bytes(&w->array));
    ipu_half *halves = ipu__alloc(n * sizeof *halves);
    if (!halves) return ipu__fail_memory();
    ipu_status status = ipu_engine_read(p->base.engine, w->name, halves, n * sizeof *halves);
    if (status == IPU_OK) ipu_half_to_floats(halves, w->array.data, n);
    ipu__free(halves);
    return status;
}

static ipu_status write_weight(void *owner, const ipu__weight *w)
{
    const ipu__executor_program *p = owner;
    size_t                       n = (size_t)ipu_array_n_elements(&w->array);
    if (n == 0) return IPU_OK;
    if (!is_rounded(w, type_on_device(p, w)))
        return ipu_engine_write(p->base.engine, w->name, w->array.data, ipu_array_bytes(&w->array));
    ipu_half *halves = ipu__alloc(n * sizeof *halves);
    if (!halves) return ipu__fail_memory();
    ipu_half_from_floats(w->array.data, halves, n);
    ipu_status status = ipu_engine_write(p->base.engine, w->name, halves, n * sizeof *halves);
    ipu__free(halves);
    return status;
}

void ipu__executor_use_weights(ipu__executor_program *p)
{
    p->weights.owner = p;
    p->weights.read  = read_weight;
    p->weights.write = write_weight;
}

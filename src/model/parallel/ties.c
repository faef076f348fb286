/* What the models of the network and of the optimizer's step have in common. */
#include "base/text.h"
#include "model/parallel/parallel.h"

void ipu__parallel_models_fini(ipu__parallel_models *m)
{
    ipu_model_destroy(m->net);
    ipu_model_destroy(m->step);
    ipu__array_fini(&m->ties.trained);
    *m = (ipu__parallel_models){0};
}

const ipu__trained *ipu__trained_by_net(const ipu__ties *t, uint32_t id)
{
    for (size_t i = 0; i < t->trained.n; i++)
        if (t->trained.at[i].parameter.net == id || t->trained.at[i].sum.net == id) return &t->trained.at[i];
    return NULL;
}

const ipu__trained *ipu__trained_by_step(const ipu__ties *t, uint32_t id)
{
    for (size_t i = 0; i < t->trained.n; i++)
        if (t->trained.at[i].parameter.step == id || t->trained.at[i].sum.step == id)
            return &t->trained.at[i];
    return NULL;
}

bool ipu__ties_has_step(const ipu__ties *t, uint32_t id)
{
    return t->count.step == id || t->scale.step == id || ipu__trained_by_step(t, id);
}

bool ipu__ties_is_sum(const ipu__ties *t, uint32_t id)
{
    const ipu__trained *found = ipu__trained_by_net(t, id);
    return found && found->sum.net == id;
}

bool ipu__ties_is_transient(const ipu__ties *t, uint32_t id)
{
    return t->count.net == id || ipu__ties_is_sum(t, id);
}

char *ipu__parallel_free_name(const ipu__parallel_models *m, const char *first, const char *second)
{
    ipu__text t = {0};
    uint32_t  known;
    ipu__text_add(&t, "%s%s", first, second);
    while (!t.failed
           && (ipu__map_find(&m->net->names, t.at, &known)
               || (m->step && ipu__map_find(&m->step->names, t.at, &known))))
        ipu__text_add(&t, "_");
    return ipu__text_take(&t);
}

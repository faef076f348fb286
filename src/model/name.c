/* Finds values by name: first inputs, kept values and outputs, then additional names, then names of
 * values. */
#include <string.h>

#include "base/nearest.h"
#include "model/model.h"

#define OUTPUT_MARK 0x80000000u /* in m->names (model.c) */

/* Whether the value exists and can be used where the model is being built. */
static bool is_usable(const ipu_model *m, uint32_t id)
{
    const ipu__model_value *v = &m->values.at[id];
    if (v->kind == IPU__VALUE_OP && m->ops.at[v->of].dead) return false;
    return ipu__model_sees(m, id);
}

static uint32_t find_boundary(const ipu_model *m, const char *name)
{
    uint32_t found;
    if (!ipu__map_find(&m->names, name, &found)) return 0;
    return found & OUTPUT_MARK ? m->outputs.at[found & ~OUTPUT_MARK].value : found;
}

static uint32_t find_alias(const ipu_model *m, const char *name)
{
    for (size_t i = 0; i < m->aliases.n; i++)
        if (strcmp(m->aliases.at[i].name, name) == 0 && is_usable(m, m->aliases.at[i].id))
            return m->aliases.at[i].id;
    return 0;
}

static uint32_t find_value(const ipu_model *m, const char *name)
{
    for (uint32_t id = 1; id < m->values.n; id++)
        if (strcmp(m->base.values.at[id].name, name) == 0 && is_usable(m, id)) return id;
    return 0;
}

static void fail_unknown(const ipu_model *m, const char *name)
{
    ipu__nearest nearest = ipu__nearest_to(name);
    for (size_t i = 0; i < m->outputs.n; i++) ipu__nearest_try(&nearest, m->outputs.at[i].name);
    for (size_t i = 0; i < m->aliases.n; i++)
        if (is_usable(m, m->aliases.at[i].id)) ipu__nearest_try(&nearest, m->aliases.at[i].name);
    for (uint32_t id = 1; id < m->values.n; id++) {
        const char *own = m->base.values.at[id].name;
        if (*own && is_usable(m, id)) ipu__nearest_try(&nearest, own);
    }
    ipu__fail(IPU_NOT_FOUND, "the model has no value \"%s\"%s", name, ipu__nearest_hint(&nearest));
}

ipu_value ipu_model_value_named(ipu_model *m, const char *name)
{
    if (!name || !*name) {
        ipu__fail(IPU_NOT_FOUND, "a value without a name was asked for");
        return ipu__model_handle(m, 0);
    }
    uint32_t id = find_boundary(m, name);
    if (!id) id = find_alias(m, name);
    if (!id) id = find_value(m, name);
    if (!id) fail_unknown(m, name);
    return ipu__model_handle(m, id);
}

bool ipu__model_add_alias(ipu_model *m, uint32_t id, const char *name)
{
    return ipu__push(&m->aliases, ((ipu__alias){name, id}));
}

/* Scopes: a map from names to items for each graph. */
#include "onnx/import/scope.h"

void ipu__scope_fini(ipu__scope *s)
{
    ipu__map_fini(&s->map);
    ipu__array_fini(&s->items);
    ipu__array_fini(&s->names);
}

bool ipu__scope_add(ipu__scope *s, const char *name, ipu__item item, bool *out_of_memory)
{
    uint32_t taken;
    *out_of_memory = false;
    if (ipu__map_find(&s->map, name, &taken)) return false;
    if (ipu__push(&s->names, name) && ipu__push(&s->items, item)
        && ipu__map_set(&s->map, name, (uint32_t)s->items.n - 1))
        return true;
    *out_of_memory = true;
    return false;
}

void ipu__scope_cut(ipu__scope *s, size_t n)
{
    for (size_t i = n; i < s->items.n; i++) (void)ipu__map_remove(&s->map, s->names.at[i]);
    s->items.n = s->names.n = n;
}

ipu__item *ipu__scope_find(ipu__scope *s, const char *name)
{
    uint32_t at;
    for (; s; s = s->parent)
        if (ipu__map_find(&s->map, name, &at)) return &s->items.at[at];
    return NULL;
}

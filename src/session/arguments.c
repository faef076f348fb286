/* Lists of arguments: compared, copied, hashed. */
#include "session/arguments.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "op/op.h"

static size_t bytes_of(const ipu__argument *a)
{
    return a->value ? (size_t)ipu__op_n_elements(&a->shape) * ipu_type_size(a->type) : 0;
}

static bool fits(const ipu__argument *of, const ipu__argument *asked)
{
    if (of->kind != asked->kind || of->n_items != asked->n_items || of->type != asked->type
        || !ipu__shape_equal(&of->shape, &asked->shape))
        return false;
    size_t bytes = of->is_fixed ? bytes_of(of) : 0;
    return bytes == 0 || (asked->value && memcmp(of->value, asked->value, bytes) == 0);
}

bool ipu__arguments_fit(const ipu__arguments *of, const ipu__arguments *asked)
{
    if (of->list.n != asked->list.n) return false;
    for (size_t i = 0; i < of->list.n; i++)
        if (!fits(&of->list.at[i], &asked->list.at[i])) return false;
    return true;
}

ipu_status ipu__arguments_copy(const ipu__arguments *from, ipu__arguments *to)
{
    *to = (ipu__arguments){0};
    if (!ipu__reserve(&to->list, from->list.n)) return ipu__fail_memory();
    for (size_t i = 0; i < from->list.n; i++) {
        ipu__argument a     = from->list.at[i];
        size_t        bytes = a.is_fixed ? bytes_of(&a) : 0;
        a.value             = bytes ? ipu__arena_copy(&to->arena, a.value, bytes) : NULL;
        if (bytes && !a.value) return ipu__fail_memory();
        to->list.at[to->list.n++] = a;
    }
    return IPU_OK;
}

void ipu__arguments_fini(ipu__arguments *a)
{
    ipu__array_fini(&a->list);
    ipu__arena_fini(&a->arena);
}

void ipu__arguments_add_key(const ipu__arguments *arguments, ipu__text *key)
{
    for (size_t i = 0; i < arguments->list.n; i++) {
        const ipu__argument *a = &arguments->list.at[i];
        char                 text[IPU__HASH_TEXT];
        ipu__text_add(key, "%d %zu %s", a->kind, a->n_items, ipu_type_name(a->type));
        for (int d = 0; d < a->shape.rank; d++) ipu__text_add(key, ",%" PRId64, a->shape.dim[d]);
        ipu__text_add(key, ";");
        if (!a->is_fixed) continue;
        ipu__hash128 hash = ipu__hash_bulk(a->value, bytes_of(a));
        ipu__hash_print(&hash, text);
        ipu__text_add(key, "=%s ", text);
    }
}

/* Kernels by name, and the attributes of a call.
 *
 * requires: ipu__kernels, which op defines. Leaves everything as it was but this thread's message.
 */
#include "graph/kernel.h"

#include <string.h>

#include "base/text.h"

const ipu_kernel_def *ipu__kernel_find(const char *name)
{
    if (!name) return NULL;
    for (const ipu_kernel_def *const *def = ipu__kernels; *def; def++)
        if (strcmp((*def)->name, name) == 0) return *def;
    return NULL;
}

static bool named(const ipu_attribute *attribute, const char *name)
{
    return attribute->name && strcmp(attribute->name, name) == 0;
}

const ipu_attribute *ipu__attribute_find(const ipu_kernel_call *call, const char *name)
{
    for (size_t i = 0; i < call->n_attributes; i++)
        if (named(&call->attributes[i], name)) return &call->attributes[i];
    return NULL;
}

static const char *kind_text(ipu_attribute_kind kind)
{
    static const char *const text[] = {[IPU_ATTRIBUTE_INT]   = "an int",
                                       [IPU_ATTRIBUTE_FLOAT] = "a float",
                                       [IPU_ATTRIBUTE_TEXT]  = "text",
                                       [IPU_ATTRIBUTE_INTS]  = "a list of ints"};
    return (size_t)kind < sizeof text / sizeof *text ? text[kind] : "of no known kind";
}

static ipu_status check_kind(const ipu_kernel_call *call, const ipu_attribute *attribute,
                             ipu_attribute_kind kind)
{
    if (attribute->kind == kind) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: attribute \"%s\" must be %s, found %s", call->def->name,
                     attribute->name, kind_text(kind), kind_text(attribute->kind));
}

ipu_status ipu__attribute_int(const ipu_kernel_call *call, const char *name, int64_t otherwise, int64_t *out)
{
    const ipu_attribute *attribute = ipu__attribute_find(call, name);
    if (attribute) IPU_TRY(check_kind(call, attribute, IPU_ATTRIBUTE_INT));
    *out = attribute ? attribute->i : otherwise;
    return IPU_OK;
}

ipu_status ipu__attribute_float(const ipu_kernel_call *call, const char *name, double otherwise, double *out)
{
    const ipu_attribute *attribute = ipu__attribute_find(call, name);
    if (attribute) IPU_TRY(check_kind(call, attribute, IPU_ATTRIBUTE_FLOAT));
    *out = attribute ? attribute->f : otherwise;
    return IPU_OK;
}

static bool is_listed(const ipu_attribute *attribute, const char *const *names)
{
    for (; *names; names++)
        if (named(attribute, *names)) return true;
    return false;
}

static ipu_status fail_unknown(const ipu_kernel_call *call, const ipu_attribute *attribute,
                               const char *const *names)
{
    const char *name = attribute->name ? attribute->name : "";
    if (!*names) {
        return ipu__fail(IPU_INVALID, "%s: unknown attribute \"%s\": it takes none", call->def->name, name);
    }
    ipu__text list = {0};
    for (size_t i = 0; names[i]; i++) ipu__text_add(&list, "%s\"%s\"", i ? ", " : "", names[i]);
    ipu_status status = list.failed ? ipu__fail_memory()
                                    : ipu__fail(IPU_INVALID, "%s: unknown attribute \"%s\": it takes %s",
                                                call->def->name, name, list.at);
    ipu__text_fini(&list);
    return status;
}

ipu_status ipu__attributes_known(const ipu_kernel_call *call, const char *const *names)
{
    for (size_t i = 0; i < call->n_attributes; i++) {
        const ipu_attribute *attribute = &call->attributes[i];
        if (!is_listed(attribute, names)) return fail_unknown(call, attribute, names);
        if (ipu__attribute_find(call, attribute->name) != attribute)
            return ipu__fail(IPU_INVALID, "%s: attribute \"%s\" is given twice", call->def->name,
                             attribute->name);
    }
    return IPU_OK;
}

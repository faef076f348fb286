/* Kernels by name, the attributes of a call, and the implementations that fit it.
 *
 * requires: ipu__kernels (src/kernels.c). Changes nothing but this thread's message.
 */
#include "graph/kernel.h"

#include <pthread.h>
#include <string.h>

#include "base/map.h"

/* A hash table of kernel names: every emitted op is looked up. */
enum { SLOTS = 1024 };
static const ipu__kernel_def *slots[SLOTS];
static pthread_once_t         once = PTHREAD_ONCE_INIT;

static void fill_slots(void)
{
    size_t n = 0;
    for (const ipu__kernel_def *const *def = ipu__kernels; *def && n < SLOTS - 1; def++, n++) {
        uint32_t at = ipu__hash_text((*def)->name);
        while (slots[at % SLOTS]) at++;
        slots[at % SLOTS] = *def;
    }
    IPU__ASSERT(n < SLOTS / 2); /* keeps searches short */
}

const ipu__kernel_def *ipu__kernel_find(const char *name)
{
    if (!name || pthread_once(&once, fill_slots) != 0) return NULL;
    for (uint32_t at = ipu__hash_text(name); slots[at % SLOTS]; at++)
        if (strcmp(slots[at % SLOTS]->name, name) == 0) return slots[at % SLOTS];
    return NULL;
}

static bool named(const ipu_attribute *attribute, const char *name)
{
    return attribute->name && strcmp(attribute->name, name) == 0;
}

const ipu_attribute *ipu__attribute_find(const ipu__kernel_call *call, const char *name)
{
    for (size_t i = 0; i < call->n_attributes; i++)
        if (named(&call->attributes[i], name)) return &call->attributes[i];
    return NULL;
}

const char *ipu__attribute_kind_text(ipu_attribute_kind kind)
{
    static const char *const text[] = {[IPU_ATTRIBUTE_INT]   = "an int",
                                       [IPU_ATTRIBUTE_FLOAT] = "a float",
                                       [IPU_ATTRIBUTE_TEXT]  = "text",
                                       [IPU_ATTRIBUTE_INTS]  = "a list of ints"};
    return (size_t)kind < sizeof text / sizeof *text ? text[kind] : "of no known kind";
}

bool ipu__kernel_has_output(const ipu__kernel_call *call)
{
    bool any = false;
    for (int i = 0; i < call->n_operands; i++) {
        if (call->def->operands[i].access == IPU__ACCESS_READ) continue;
        bool has = true;
        for (int d = 0; d < call->operand[i].shape.rank; d++) has &= call->operand[i].shape.dim[d] > 0;
        if (has) return true;
        any = true;
    }
    return !any; /* a kernel without outputs is run for its side effects */
}

static double n_elements(const ipu_shape *shape)
{
    double n = 1;
    for (int d = 0; d < shape->rank; d++) n *= (double)shape->dim[d];
    return n;
}

double ipu__kernel_ref_work(const ipu__kernel_call *call)
{
    const ipu__kernel_def *def = call->def;
    if (!ipu__kernel_has_output(call)) return 0;
    if (def->ref_work) return def->ref_work(call);
    if (def->work) return def->work(call);
    double work = 0;
    for (int i = 0; i < call->n_operands; i++) work += n_elements(&call->operand[i].shape);
    return work;
}

bool ipu__kernel_may_share(const ipu__kernel_call *call, int in, int out)
{
    const ipu__kernel_operand *operands = call->def->operands;
    const ipu__kernel_value   *a = &call->operand[in], *b = &call->operand[out];
    if (a->type != b->type || a->shape.rank != b->shape.rank) return false;
    if (memcmp(a->shape.dim, b->shape.dim, (size_t)a->shape.rank * sizeof *a->shape.dim) != 0) return false;
    return operands[out].shares == in || operands[in].shares == out
        || operands[out].shares == IPU__SHARES_ANY;
}

/* ---- implementations ---- */

ipu__kernel_impls ipu__kernel_impls_of(const ipu__kernel_def *def, const char *engine)
{
    for (const ipu__kernel_impls *impls = def->implementations; impls && impls->engine; impls++)
        if (strcmp(impls->engine, engine) == 0) return *impls;
    return (ipu__kernel_impls){.engine = NULL};
}

const ipu__kernel_impl *ipu__kernel_find_impl(const ipu__kernel_call *call, const char *engine,
                                              const void *machine, int n_parts)
{
    ipu__kernel_impls impls = ipu__kernel_impls_of(call->def, engine);
    for (int i = 0; i < impls.n; i++) {
        const ipu__kernel_impl *impl = ipu__kernel_impl_at(&impls, i);
        if (impl->fits(call, machine, n_parts)) return impl;
    }
    return NULL;
}

/* Describes ops to tools and bindings: the record, and its operands as lists of names.
 *
 * The lists are built once, in static memory sized by ops.inc.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "op/op.h"

enum {
#define OP(name) COUNT_##name,
#include "op/ops.inc"
#undef OP
    N_OPS,
    NAME_BYTES           = 32, /* of an optional input with its '?' */
    MOST_IMPLEMENTATIONS = 12  /* that are listed */
};

typedef struct lists {
    const char *inputs[IPU__MAX_OPERANDS + 1], *outputs[IPU__MAX_OPERANDS + 1];
    const char *implementations[MOST_IMPLEMENTATIONS + 1];
} lists;

static lists             all_lists[N_OPS];
static char              optional_names[N_OPS][IPU__MAX_OPERANDS][NAME_BYTES];
static const char *const none[] = {NULL};

static void make_lists(void)
{
    for (size_t i = 0; i < N_OPS; i++) {
        const ipu__op_def *op   = ipu__ops[i];
        lists             *list = &all_lists[i];
        for (int k = 0; k < op->kernel.n_operands; k++) {
            const ipu__kernel_operand *operand = &op->kernel.operands[k];
            const char               **to = k < op->n_in ? &list->inputs[k] : &list->outputs[k - op->n_in];
            *to                           = operand->name;
            if (!operand->optional) continue;
            snprintf(optional_names[i][k], NAME_BYTES, "%s?", operand->name);
            *to = optional_names[i][k];
        }
        int n = 0;
        for (const ipu__kernel_impls *impls = op->kernel.implementations; impls && impls->engine; impls++)
            for (int k = 0; k < impls->n && n < MOST_IMPLEMENTATIONS; k++)
                list->implementations[n++] = ipu__kernel_impl_at(impls, k)->name;
    }
}

size_t ipu_n_ops(void) { return N_OPS; }

ipu_status ipu_op_info_at(size_t i, ipu_op_info *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (i >= N_OPS)
        return ipu__fail(IPU_NOT_FOUND, "ipu_op_info_at: there is no op %zu: expected 0 to %d", i, N_OPS - 1);
    pthread_once(&once, make_lists);
    const ipu__op_def *op = ipu__ops[i];
    *out                  = (ipu_op_info){.name            = op->kernel.name,
                                          .family          = op->family,
                                          .summary         = op->summary,
                                          .inputs          = all_lists[i].inputs,
                                          .outputs         = all_lists[i].outputs,
                                          .attributes      = op->attributes,
                                          .n_attributes    = op->n_attributes,
                                          .has_gradient    = op->grad || op->compose,
                                          .is_composite    = !op->kernel.ref && !op->view,
                                          .is_view         = op->view != NULL,
                                          .samples         = op->samples ? op->samples : none,
                                          .implementations = all_lists[i].implementations};
    return IPU_OK;
}

ipu_status ipu_op_info_find(const char *name, ipu_op_info *out)
{
    if (!name) return ipu__fail(IPU_INVALID, "ipu_op_info_find: expected a name");
    ipu__nearest nearest = ipu__nearest_to(name);
    for (size_t i = 0; i < N_OPS; i++) {
        if (strcmp(ipu__ops[i]->kernel.name, name) == 0) return ipu_op_info_at(i, out);
        ipu__nearest_try(&nearest, ipu__ops[i]->kernel.name);
    }
    return ipu__fail(IPU_NOT_FOUND, "there is no op \"%s\"%s; `ipu ops` lists them", name,
                     ipu__nearest_hint(&nearest));
}

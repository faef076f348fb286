/* The list of optimizers by number and by name, for front ends. */
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "ipu/nn.h"

enum { NONE = -1 };

static const ipu_nn_optimizer_info infos[] = {
#define OPTIMIZER(KIND, op, counts, usual_rate, usual_momentum, text, ...) \
    [IPU_NN_##KIND] = {.name     = #op,                                    \
                       .summary  = text,                                   \
                       .states   = {__VA_ARGS__},                          \
                       .rate     = usual_rate,                             \
                       .momentum = usual_momentum},
#include "model/nn/optimizers.inc"
#undef OPTIMIZER
};

/* No default case, so that the compiler reports a kind without a line. */
const ipu_nn_optimizer_info *ipu_nn_optimizer_kind_info(ipu_nn_optimizer_kind kind)
{
    switch (kind) {
#define OPTIMIZER(KIND, ...) case IPU_NN_##KIND:
#include "model/nn/optimizers.inc"
#undef OPTIMIZER
        return &infos[kind];
    }
    return NULL;
}

const char *ipu_nn_optimizer_kind_name(ipu_nn_optimizer_kind kind)
{
    const ipu_nn_optimizer_info *info = ipu_nn_optimizer_kind_info(kind);
    return info ? info->name : NULL;
}

ipu_status ipu_nn_optimizer_kind_find(const char *name, ipu_nn_optimizer_kind *out)
{
    enum { N = sizeof infos / sizeof *infos };
    char list[256] = "";
    for (int i = 0; i < N; i++) {
        if (name && strcmp(infos[i].name, name) == 0) {
            *out = (ipu_nn_optimizer_kind)i;
            return IPU_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", infos[i].name);
    }
    return ipu__fail(IPU_NOT_FOUND, "no optimizer \"%s\"; there are: %s", name ? name : "", list);
}

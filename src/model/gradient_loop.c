/* Gradients of loops. */
#include "model/gradient.h"

void ipu__diff_loop(ipu__diff *p, uint32_t id)
{
    if (ipu__diff_is_wanted(p, &p->m->ops.at[id]))
        ipu__builder_fail(&p->m->base, IPU_UNSUPPORTED, "ipu_model_gradients: loops have no gradient yet");
}

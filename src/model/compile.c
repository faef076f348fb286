/* Compiles or prices a model: a copy is optimised, for the host or for the chip, and lowered to a graph, from
 * which an executable or a cost is made. */
#include "engine/engine.h"
#include "model/fit.h"
#include "model/model.h"

typedef struct lowered {
    ipu_model  *copy;
    ipu_graph  *g;
    ipu_program run;
} lowered;

/* For an engine, or the chip (NULL). To be undone even on failure. */
static ipu_status lower(ipu_model *m, const ipu_target *target, const ipu__engine_def *engine, lowered *out)
{
    *out = (lowered){0};
    if (m->base.status != IPU_OK) return ipu__fail(m->base.status, "%s", ipu_builder_message(&m->base));
    out->copy = ipu__model_copy(m);
    if (!out->copy) return ipu__fail_memory();
    IPU_TRY(ipu__model_optimise_for(out->copy, engine ? IPU_PASS_ALL : IPU_PASS_CHIP, engine));
    IPU_TRY(ipu_graph_create(target, 1, &out->g));
    return ipu_model_lower(out->copy, out->g, &out->run);
}

static void undo(lowered *l)
{
    ipu_graph_destroy(l->g);
    ipu_model_destroy(l->copy);
}

ipu_status ipu_model_compile(ipu_model *m, const ipu_target *target, const ipu_options *options,
                             ipu_executable **out)
{
    lowered       host, chip = {0};
    ipu__settings settings;
    *out = NULL;
    IPU_TRY(ipu__options_settle(options, &settings));
    ipu_status status = lower(m, target, ipu__engine_find(settings.engine), &host);
    if (status == IPU_OK) ipu__warn_if_too_large(ipu__model_kept_bytes(m), target);
    if (status == IPU_OK && settings.estimate) status = lower(m, target, NULL, &chip);
    if (status == IPU_OK)
        status = ipu__executable_compile(host.g, &host.run, 1, options, chip.g, &chip.run, out);
    undo(&host);
    undo(&chip);
    return status;
}

ipu_status ipu_model_cost(ipu_model *m, const ipu_target *target, const ipu_cost_options *options,
                          ipu_cost **out)
{
    lowered l;
    *out              = NULL;
    ipu_status status = lower(m, target, NULL, &l);
    if (status == IPU_OK) status = ipu_cost_estimate(l.g, &l.run, 1, options, out);
    undo(&l);
    return status;
}

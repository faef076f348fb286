/* Runs the passes in turn until none changes anything. */
#include "engine/engine.h"
#include "model/model.h"

enum { ROUNDS = 8 }; /* each but the last changes something; models settle in two or three */

typedef ipu_status (*pass_fn)(ipu_model *m, bool *changed);

static ipu_status run(ipu_model *m, unsigned passes, unsigned pass, pass_fn fn, bool *changed)
{
    bool did = false;
    if (!(passes & pass)) return IPU_OK;
    IPU_TRY(fn(m, &did));
    *changed |= did;
    return IPU_OK;
}

static ipu_status simplify(ipu_model *m, unsigned passes)
{
    bool changed = true;
    for (int i = 0; changed && i < ROUNDS; i++) {
        changed = false;
        IPU_TRY(run(m, passes, IPU_PASS_DCE, ipu__model_dce, &changed));
        IPU_TRY(run(m, passes, IPU_PASS_FOLD, ipu__model_fold, &changed));
        IPU_TRY(run(m, passes, IPU_PASS_FOLD, ipu__model_join, &changed));
        IPU_TRY(run(m, passes, IPU_PASS_CSE, ipu__model_cse, &changed));
    }
    return IPU_OK;
}

/* Fusion is followed by a cleanup. */
static ipu_status optimise(ipu_model *m, unsigned passes)
{
    bool changed = false;
    IPU_TRY(simplify(m, passes));
    IPU_TRY(run(m, passes, IPU_PASS_SLICE, ipu__model_propagate_slices, &changed));
    if (changed) IPU_TRY(simplify(m, passes));
    changed = false;
    IPU_TRY(run(m, passes, IPU_PASS_HOST, ipu__model_fuse_for_host, &changed));
    IPU_TRY(run(m, passes, IPU_PASS_FUSE, ipu__model_fuse, &changed));
    if (m->engine && m->engine->supports) IPU_TRY(ipu__model_decompose(m, &changed));
    return changed ? simplify(m, passes & IPU_PASS_CSE) : IPU_OK;
}

ipu_status ipu_model_optimise(ipu_model *m, unsigned passes)
{
    ipu__settings settings;
    if (!(passes & IPU_PASS_HOST)) return ipu__model_optimise_for(m, passes, NULL);
    IPU_TRY(ipu__options_settle(NULL, &settings));
    return ipu__model_optimise_for(m, passes, ipu__engine_find(settings.engine));
}

ipu_status ipu__model_optimise_for(ipu_model *m, unsigned passes, const ipu__engine_def *engine)
{
    if (m->base.status != IPU_OK) return ipu__fail(m->base.status, "%s", ipu_builder_message(&m->base));
    if (passes & ~(unsigned)IPU_PASS_ALL)
        return ipu__fail(IPU_INVALID, "ipu_model_optimise: passes 0x%x: expected IPU_PASS_* flags", passes);
    if (m->block != 0)
        return ipu__fail(IPU_INVALID,
                         "ipu_model_optimise: a branch or loop has no end yet: ipu_model_end is missing");
    m->engine         = engine;
    ipu_status status = optimise(m, engine ? passes : passes & ~(unsigned)IPU_PASS_HOST);
#ifndef NDEBUG
    if (status == IPU_OK) status = ipu__model_verify(m);
    IPU__ASSERT(status != IPU_INVALID);
#endif
    if (status != IPU_OK) m->base.status = status; /* half changed: no longer usable */
    return status;
}

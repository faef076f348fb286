/* A training whose loss or weights are no numbers any more ends with an error. */
#include <math.h>
#include <stdio.h>

#include "train/module.h"
#include "train/trainer/trainer.h"

/* Without the sign of a NaN, which says nothing. */
static const char *name_of(double value) { return isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

/* The run that was last, and its place in the data. */
static void find_place(const ipu_trainer *t, char *out, size_t size)
{
    int64_t   last  = t->record.runs > 0 ? t->record.runs - 1 : 0;
    long long epoch = last / t->n_runs + 1, batch = last % t->n_runs + 1;
    snprintf(out, size, "epoch %lld, batch %lld of %lld", epoch, batch, (long long)t->n_runs);
}

ipu_status ipu__trainer_diverge(ipu_trainer *t, const char *what, double value)
{
    const ipu_trainer_options *o = &t->options;
    const ipu_trainer_words   *w = &o->words;
    char                       place[96], kept[256] = "", fate[128], scale[96] = "";
    t->has_diverged = t->stops = true;
    t->is_elsewhere            = !ipu__trainer_is_first(t);
    find_place(t, place, sizeof place);
    if (t->last_saved >= 0)
        snprintf(kept, sizeof kept, "; the last good checkpoint in %.160s is that of run %lld",
                 o->checkpoint_folder, (long long)t->last_saved);
    if (o->executor.precision != IPU_PRECISION_FLOAT)
        snprintf(scale, sizeof scale, ", or another %.64s", w->loss_scale);
    if (o->keep_diverged)
        snprintf(fate, sizeof fate, "it is kept all the same");
    else
        snprintf(fate, sizeof fate, "nothing of it is saved (%.64s does)", w->keep);
    return ipu__fail(IPU_ABORTED, "the training diverged: %s %s in %s: a lower %s than %g may help%s; %s%s",
                     what, name_of(value), place, w->rate, o->training.optimizer.rate, scale, fate, kept);
}

/* The first element that is a NaN, or (in networks of ours) infinite; 0: there is none. Files may hold infinities from
 * the beginning, as masks do. */
static double find_wrong(const ipu_array *a, bool may_be_infinite)
{
    int64_t n = a->type >= IPU_HALF ? ipu_array_n_elements(a) : 0;
    for (int64_t i = 0; i < n; i++) {
        double value = ipu_array_value(a, i);
        if (isnan(value) || (isinf(value) && !may_be_infinite)) return value;
    }
    return 0;
}

ipu_status ipu__trainer_check_weights(ipu_trainer *t)
{
    ipu_module *module    = t->options.module;
    char        what[160] = "";
    double      wrong = 0, right = -1;
    if (t->options.keep_diverged) return IPU_OK;
    for (size_t i = 0; i < ipu_module_n_weights(module) && wrong == 0; i++) {
        const char      *name;
        const ipu_array *a;
        IPU_TRY(ipu_module_weight_at(module, i, &name, &a));
        wrong = find_wrong(a, module->file != NULL);
        snprintf(what, sizeof what, "the weight \"%.100s\" is", name);
    }
    /* Running means of other processes are theirs alone. */
    double n_wrong = wrong != 0;
    IPU_TRY(ipu__trainer_add_up(t, &n_wrong, &right, t->stops));
    if (n_wrong == 0) return IPU_OK;
    return ipu__trainer_diverge(t, wrong != 0 ? what : "a weight of another process is",
                                wrong != 0 ? wrong : (double)NAN);
}

ipu_status ipu__trainer_check_result(ipu_trainer *t)
{
    enum { DOUBTFUL_LOSS = 1000000 }; /* of probabilities: beyond any that is learnt from */
    const ipu__trainer_record *r = &t->record;
    double loss                  = t->options.test && r->n_epochs ? r->epochs[r->n_epochs - 1].test_loss : 0;
    if (!isfinite(loss) && !t->options.keep_diverged)
        return ipu__trainer_diverge(t, "the test loss is", loss);
    if (loss > DOUBTFUL_LOSS)
        ipu__trainer_say(
            t, IPU_LOG_WARN,
            "the test loss is %g: the training has probably diverged; a lower %s than %g may help", loss,
            t->options.words.rate, t->options.training.optimizer.rate);
    return ipu__trainer_check_weights(t);
}

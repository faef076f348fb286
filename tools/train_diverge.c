/* A training whose loss or weights are no numbers any more ends with an error: its part of train_session.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "output.h"
#include "train_session.h"

static tool_exit failed(void) { return tool_fail("%s", ipu_message()); }

/* Without the sign of a NaN, which says nothing. */
static const char *name_of(double value) { return isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

/* The run that was last, and its place in the data. */
static void find_place(const train_session *s, char *out, size_t size)
{
    int64_t   last  = s->record.runs > 0 ? s->record.runs - 1 : 0;
    long long epoch = last / s->n_runs + 1, batch = last % s->n_runs + 1;
    snprintf(out, size, "epoch %lld, batch %lld of %lld", epoch, batch, (long long)s->n_runs);
}

tool_exit train_session_diverge(train_session *s, const char *what, double value)
{
    const train_settings *a = &s->settings;
    char                  place[96], kept[256] = "";
    s->has_diverged = s->group.stops = true;
    progress_clear(&s->progress);
    if (!train_group_is_first(&s->group)) return TOOL_FAILED;
    find_place(s, place, sizeof place);
    if (s->last_saved >= 0)
        snprintf(kept, sizeof kept, "; the last good checkpoint in %.160s is that of run %lld",
                 a->checkpoint_dir, (long long)s->last_saved);
    return tool_fail("the training diverged: %s %s in %s: a lower --lr than %g may help%s; %s%s", what,
                     name_of(value), place, a->rate,
                     a->precision == IPU_PRECISION_FLOAT ? "" : ", or another --loss-scale",
                     a->keep ? "it is kept all the same" : "nothing of it is saved (--keep does)", kept);
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

tool_exit train_session_check_weights(train_session *s)
{
    char   what[160] = "";
    double wrong = 0, right = -1;
    if (s->settings.keep) return TOOL_OK;
    for (size_t i = 0; i < ipu_module_n_weights(s->module) && wrong == 0; i++) {
        const char      *name;
        const ipu_array *a;
        if (ipu_module_weight_at(s->module, i, &name, &a) != IPU_OK) return failed();
        wrong = find_wrong(a, s->settings.from_file);
        snprintf(what, sizeof what, "the weight \"%.100s\" is", name);
    }
    /* Running means of other processes are theirs alone. */
    double    n_wrong = wrong != 0;
    tool_exit code    = train_group_add_up(&s->group, &n_wrong, &right, s->group.stops);
    if (code != TOOL_OK || n_wrong == 0) return code;
    return train_session_diverge(s, wrong != 0 ? what : "a weight of another process is",
                                 wrong != 0 ? wrong : (double)NAN);
}

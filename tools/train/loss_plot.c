/* Losses of runs, of epochs and of the test set over epochs, as SVG. */
#include "train/loss_plot.h"

#include <math.h>
#include <stdlib.h>

#include "output.h"
#include "plot.h"

tool_exit train_plot(const ipu_trainer_results *r, const char *title, const char *path)
{
    size_t  n = (size_t)r->n_points, m = (size_t)r->n_epochs;
    double *x = calloc(n + 4 * m + 1, sizeof *x);
    if (!x) return tool_fail("out of memory");
    double *ends = x + n, *middles = ends + m, *train = middles + m, *test = train + m;
    for (size_t i = 0; i < n; i++)
        x[i] = ((double)i + 0.5) * (double)r->runs_per_point / (double)r->runs_per_epoch;
    bool evaluated = false;
    for (size_t i = 0; i < m; i++) {
        ends[i]    = (double)(i + 1);
        middles[i] = (double)i + 0.5;
        train[i]   = r->epochs[i].loss;
        test[i]    = r->epochs[i].test_loss;
        evaluated |= isfinite(test[i]);
    }
    plot_line lines[] = {{"training", x, r->points, n, false, true},
                         {"mean of an epoch", middles, train, m, true, false},
                         {"test set", ends, test, m, true, false}};
    plot      p       = {title, "epochs", "loss", lines, evaluated ? 3 : 2};
    tool_exit code    = plot_write(&p, path);
    free(x);
    return code;
}

/* Trainers: complete training runs: epochs, learning rates, tests, checkpoints, and resuming from them.
 *
 *     ipu_trainer_options options = {.module = module, .data = train, .test = test, .n_epochs = 5,
 *                                    .loader   = {.batch_size = 16, .shuffle = true},
 *                                    .training = {.optimizer = {.rate = 0.01, .momentum = 0.9}},
 *                                    .checkpoint_folder = "checkpoints", .begin = IPU_TRAINER_RESUME};
 *     ipu_trainer        *trainer;
 *     ipu_trainer_results r;
 *     IPU_TRY(ipu_trainer_create(&options, &trainer));
 *     IPU_TRY(ipu_trainer_run(trainer));
 *     ipu_trainer_get_results(trainer, &r);
 *     printf("%.4f\n", r.epochs[r.n_epochs - 1].test_accuracy);
 *
 * A trainer creates the executors and loaders, and does what every training loop has to: the rate of each run, the
 * position in the data, the loss of each epoch and a test after it, checkpoints. One that is stopped, however
 * abruptly, and resumed ends with bit-identical results to one that was not. The trained weights are in the module.
 *
 * A sample has one field for each input of the network in training; the last is the target. The training loss is the
 * output "loss", or else the first output that is a floating scalar. A test runs the network for inference:
 * - if labels are scalars, with all fields but the last; an output [samples, classes] is taken as scores
 *   (ipu/scores.h), from which accuracy and loss follow;
 * - if there are no scores, or labels are not scalars, as in regression, with all fields; the network must then
 *   compute the loss itself, a mean over samples: `if (n > 1) ipu_nn_loss(...)`.
 *
 * Processes that train together (executor.comm) must all make the same calls. Only the first of them tests, writes,
 * and calls events. A trainer is used by one thread at a time, except for ipu_trainer_interrupt.
 */
#ifndef IPU_TRAINER_H
#define IPU_TRAINER_H

#include "ipu/checkpoint.h"
#include "ipu/executor.h"
#include "ipu/loader.h"
#include "ipu/log.h"
#include "ipu/module.h"
#include "ipu/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_trainer ipu_trainer;

/* What to do with checkpoints that are already in the folder. */
typedef enum ipu_trainer_begin {
    IPU_TRAINER_NEW,    /* fail if there are any: nothing is overwritten */
    IPU_TRAINER_RESUME, /* resume from the newest intact one; start from scratch if there is none */
    IPU_TRAINER_RESTART /* start from scratch; existing ones are renamed to NAME.before */
} ipu_trainer_begin;

/* ---- events: functions called by ipu_trainer_run, each of which may be NULL ---- */

/* After a device run. */
typedef struct ipu_trainer_step {
    int64_t epoch, batch;        /* of the run, from 0 */
    int64_t n_epochs, n_batches; /* in all; per epoch */
    int64_t n_samples;           /* in this run, over all processes */
    double  rate, loss;          /* of this run */
    double  mean_loss, accuracy; /* of the epoch so far; accuracy is NaN if unknown */
    double  samples_per_second, seconds_left;
} ipu_trainer_step;

/* After a batch of the test set. */
typedef struct ipu_trainer_test {
    int64_t batch, n_batches;
    double  accuracy; /* so far; NaN if unknown */
} ipu_trainer_test;

typedef struct ipu_trainer_epoch {
    double loss, accuracy; /* means during training; accuracy is NaN if the network gives no scores */
    double test_loss, test_accuracy; /* after the epoch; NaN if not tested, or if there are no scores */
    double seconds, n_samples;       /* of training */
} ipu_trainer_epoch;

typedef struct ipu_trainer_events {
    void *user;
    void (*compiled)(void *user); /* once, before the first run */
    void (*step)(void *user, const ipu_trainer_step *step);
    void (*testing)(void *user, const ipu_trainer_test *test);
    /* Epoch `i`, from 0, is trained and tested; called again after the test if that was interrupted. */
    void (*epoch)(void *user, int64_t i, const ipu_trainer_epoch *epoch);
    void (*checkpoint)(void *user, const char *path); /* was written */
    /* INFO: where training resumes from; WARN: it has probably diverged. If NULL, these are logged. */
    void (*message)(void *user, ipu_log_level level, const char *text);
} ipu_trainer_events;

/* ---- what it is asked for ---- */

/* Names for things in messages, for programs that call them differently, such as by command-line options. NULL for the
 * names used here. */
typedef struct ipu_trainer_words {
    const char *resume, *restart, *keep, *folder, *rate, *loss_scale;
    const char *constant; /* a schedule that does not depend on n_epochs */
    const char *program;  /* the one that writes the checkpoints */
    const char *data;     /* such as a path */
} ipu_trainer_words;

/* Copied; what it points to is borrowed until the trainer is destroyed. */
typedef struct ipu_trainer_options {
    ipu_module  *module;
    ipu_dataset *data, *test; /* test NULL: not tested */
    /* Of field 0 of a sample as the network takes it; rank 0: as the data have it, or as ipu_module_fit_sample says. */
    ipu_shape input;

    /* For training; output_mode DEFAULT means ALL. Tests take chip, device, engine, cache and precision from
     * it; device_alone is ignored. */
    ipu_executor_options executor;
    ipu_nn_training      training;
    ipu_loader_options   loader; /* tests take batch_size and n_workers from it */

    int64_t n_epochs; /* 0 means 1 */
    int64_t patience; /* stop after this many epochs without a lower test loss; 0 for never */

    /* The rate of group 0, by device run. `rate` 0 means that of the optimizer; n_steps 0 means all runs of
     * the training. */
    ipu_schedule schedule;
    /* Overrides the schedule unless NULL: the rate of run `run` of `n_runs`, from 0. May depend on nothing else but the
     * finished epochs (ipu_trainer_get_results), e.g. to lower it when the test loss stops improving. Called in all
     * processes. */
    double (*rate)(void *user, int64_t run, int64_t n_runs);
    void *rate_user;

    /* The accuracy metric: its sum over the samples of a batch, in training or testing, from which means are taken; NaN
     * if unknown. `x` has the outputs, of which only the first batch->n_samples count. NULL: the number of labels that
     * have the highest score. */
    double (*metric)(void *user, const ipu_executor *x, const ipu_batch *batch);
    void *metric_user;

    const char *checkpoint_folder; /* NULL for no checkpoints */
    int         checkpoints_kept;  /* 0 means 3 */
    int64_t     checkpoint_every;  /* in runs; 0 means after each epoch. There is always one at the end */
    ipu_trainer_begin begin;
    const char       *model; /* a name of the network, the same in all checkpoints; NULL: none */
    /* What decides the result, as a JSON object: kept in checkpoints, and the same when one goes on and in all processes. NULL:
     * what of the above does, but `rate`; older checkpoints that do not tell it had the default. A digest of the data is added. */
    const char *settings;
    /* Its purely informative names. "epochs" may differ if no rate depends on it, but not among processes. */
    const char *const *may_differ;
    size_t             n_may_differ;

    /* For logs: steps.csv, with a row for each run, or each `log_every`th; epochs.csv; and event files for TensorBoard
     * (ipu/summary.h), with histograms of the weights after each epoch if `log_weights`. When resuming from a
     * checkpoint, what was logged after it is removed. Existing logs are treated like checkpoints: an error (NEW),
     * continued (RESUME) or renamed to NAME.before (RESTART, or if there is no checkpoint to resume from). What cannot
     * be written later on is skipped, with a warning. NULL for no logs. */
    const char *log_folder;
    int64_t     log_every; /* 0 means 1 */
    bool        log_weights;

    bool keep_diverged; /* do not check weights, and save them even if diverged */

    ipu_trainer_events events;
    ipu_trainer_words  words;
} ipu_trainer_options;

/* Owned: ipu_trainer_destroy. Statuses: INVALID (settings are not a JSON object; data with an unknown number of
 * samples, or that do not match the test set), those of ipu_training_model and ipu_loader_create. */
ipu_status ipu_trainer_create(const ipu_trainer_options *options, ipu_trainer **out);
void       ipu_trainer_destroy(ipu_trainer *t);

/* Resumes if there is a checkpoint to resume from, compiles, trains and tests to the end. A finished training is only
 * tested, if that has not been done. Statuses: INTERRUPTED (ipu_trainer_interrupt; the message says what was saved;
 * call again to continue), ABORTED (it has diverged: a loss, a test loss or a weight is nan or infinite, except that
 * weights of an ONNX file may be infinite; no checkpoint is written), INVALID (existing checkpoints or logs cannot be
 * used, and why; in all processes: they were started with different settings or data), those of executors, loaders and
 * checkpoints. After anything but OK and INTERRUPTED it cannot be called again. */
ipu_status ipu_trainer_run(ipu_trainer *t);

/* From an event, any thread or signal handler: finishes the run in progress and writes a checkpoint. A compilation is
 * finished first; ipu_set_compile_progress can stop it, which also counts as an interruption. With several processes,
 * interrupting one is enough. */
void ipu_trainer_interrupt(ipu_trainer *t);

/* From an event or another thread: makes the epoch in progress, or the one just reported, the last. It is tested, and
 * training ends with OK as if there had been no more. Resuming from its checkpoint continues up to n_epochs again. With
 * several processes, stopping one is enough. */
void ipu_trainer_stop(ipu_trainer *t);

/* Writes a checkpoint now, between calls of ipu_trainer_run, unless there is one for this run; called in all
 * processes. Does nothing without a folder. Statuses: as for ipu_trainer_run. */
ipu_status ipu_trainer_save_checkpoint(ipu_trainer *t);

/* ---- what came of it ---- */

typedef struct ipu_trainer_results {
    const ipu_trainer_epoch *epochs; /* finished ones, including those before a checkpoint */
    int64_t                  n_epochs;
    int64_t                  runs, runs_per_epoch;
    double                   seconds, n_samples; /* of training */
    /* The loss curve: means over `runs_per_point` runs each. */
    const double *points;
    int64_t       n_points, runs_per_point;
    int64_t       resumed_from, last_saved; /* run of the checkpoint; -1 if none */
    bool          has_diverged;
    /* With several processes, after a failure: whether all know of it (if not, ipu_comm_abort ends them), and
     * whether another process reports it. */
    bool is_known, is_told_elsewhere;
} ipu_trainer_results;

/* At any time, even in events. Lists are borrowed until the trainer continues. */
void ipu_trainer_get_results(const ipu_trainer *t, ipu_trainer_results *out);

/* Borrowed. */
ipu_executor *ipu_trainer_executor(ipu_trainer *t); /* the one that trains */
ipu_loader   *ipu_trainer_loader(ipu_trainer *t);   /* of the training set */

#ifdef __cplusplus
}
#endif
#endif

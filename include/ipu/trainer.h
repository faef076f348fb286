/* Trainers: a whole training: epochs, learning rates, tests, checkpoints, and going on from them.
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
 * It makes the executors and loaders, and does what every loop over them has to: the rate of each run, the place in
 * the data, losses of epochs, a test after each, a checkpoint now and then. One that is stopped, in whatever way, and
 * goes on ends with the bits of one that was not. What is trained is in the module.
 *
 * A sample has one field for each input of the network in training, of which the last is what it should say. In training
 * the loss is the output "loss", or else the first that is a floating scalar. A test runs the network for inference:
 * - where labels are scalars, with all fields but the last; an output [samples, classes] is scores (ipu/scores.h), which
 *   give an accuracy and a loss;
 * - where it gives no scores, or labels are no scalars, as in regression, with all fields; then it is to say the loss
 *   itself, a mean over samples: `if (n > 1) ipu_nn_loss(...)`.
 *
 * Of processes that train together (executor.comm) all make the same calls. The first of them tests, writes, and has
 * its events called. A trainer is used by one thread at a time, but for ipu_trainer_interrupt.
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

/* What a training does with checkpoints that are in its folder. */
typedef enum ipu_trainer_begin {
    IPU_TRAINER_NEW,    /* it is an error that there are any: nothing is overwritten */
    IPU_TRAINER_RESUME, /* goes on from the newest that is whole; begins if there is none */
    IPU_TRAINER_RESTART /* begins; they are renamed to NAME.before */
} ipu_trainer_begin;

/* ---- what it tells: functions that are called by ipu_trainer_run, each of which may be NULL ---- */

/* After a run of the device. */
typedef struct ipu_trainer_step {
    int64_t epoch, batch;        /* which run it was, from 0 */
    int64_t n_epochs, n_batches; /* in all; of an epoch */
    int64_t n_samples;           /* in this run, of all processes */
    double  rate, loss;          /* of this run */
    double  mean_loss, accuracy; /* of the epoch so far; accuracy NaN: not known */
    double  samples_per_second, seconds_left;
} ipu_trainer_step;

/* After a batch of the test set. */
typedef struct ipu_trainer_test {
    int64_t batch, n_batches;
    double  accuracy; /* so far; NaN: not known */
} ipu_trainer_test;

typedef struct ipu_trainer_epoch {
    double loss, accuracy; /* means while it was trained; accuracy NaN: the network gives no scores */
    double test_loss, test_accuracy; /* after it; NaN: not tested, or it gives no scores */
    double seconds, n_samples;       /* of training */
} ipu_trainer_epoch;

typedef struct ipu_trainer_events {
    void *user;
    void (*compiled)(void *user); /* once, before the first run */
    void (*step)(void *user, const ipu_trainer_step *step);
    void (*testing)(void *user, const ipu_trainer_test *test);
    /* Epoch `i`, from 0, is trained and tested; if that was interrupted, again when it is. */
    void (*epoch)(void *user, int64_t i, const ipu_trainer_epoch *epoch);
    void (*checkpoint)(void *user, const char *path); /* was written */
    /* INFO: where it goes on from; WARN: it has probably diverged. NULL: to the log. */
    void (*message)(void *user, ipu_log_level level, const char *text);
} ipu_trainer_events;

/* ---- what it is asked for ---- */

/* What messages call things, for programs that have other names for them, such as those of a command line. NULL: as they are
 * called here. */
typedef struct ipu_trainer_words {
    const char *resume, *restart, *keep, *folder, *rate, *loss_scale;
    const char *constant; /* a schedule that does not depend on n_epochs */
    const char *program;  /* that writes the checkpoints */
    const char *data;     /* such as a path */
} ipu_trainer_words;

/* Copied; what it points to is borrowed until the trainer is destroyed. */
typedef struct ipu_trainer_options {
    ipu_module  *module;
    ipu_dataset *data, *test; /* test NULL: not tested */
    /* Of field 0 of a sample as the network takes it; rank 0: as the data have it, or as ipu_module_fit_sample says. */
    ipu_shape input;

    /* Of training; output_mode DEFAULT: ALL. Tests take chip, device, engine, cache and precision from it,
     * and device_alone is not looked at. */
    ipu_executor_options executor;
    ipu_nn_training      training;
    ipu_loader_options   loader; /* tests take batch_size and n_workers from it */

    int64_t n_epochs; /* 0: 1 */
    int64_t patience; /* ends after so many epochs without a lower test loss; 0: never */

    /* The rate of group 0, by runs of the device. `rate` 0: that of the optimizer; n_steps 0: all runs of the
     * training. */
    ipu_schedule schedule;
    /* Instead of it: the rate of run `run` of `n_runs`, from 0, which depends on nothing else but the epochs that are finished
     * (ipu_trainer_get_results), as to lower it when the test loss stays. All processes call it. NULL: the schedule. */
    double (*rate)(void *user, int64_t run, int64_t n_runs);
    void *rate_user;

    /* What is told as accuracy: the sum of a metric over the samples of a batch, of training or of a test, of which means are
     * taken; NaN: not known. `x` has the outputs, of which only the first batch->n_samples count. NULL: how many labels have
     * the highest score. */
    double (*metric)(void *user, const ipu_executor *x, const ipu_batch *batch);
    void *metric_user;

    const char *checkpoint_folder; /* NULL: no checkpoints */
    int         checkpoints_kept;  /* 0: 3 */
    int64_t     checkpoint_every;  /* runs; 0: after each epoch. There is one at the end in either case */
    ipu_trainer_begin begin;
    const char       *model; /* a name of the network, the same in all checkpoints; NULL: none */
    /* What decides the result, as a JSON object: kept in checkpoints, and the same when one goes on and in all processes. NULL:
     * what of the above does, but `rate`; older checkpoints that do not tell it had the default. A digest of the data is added. */
    const char *settings;
    /* Names in it that only tell something. "epochs" may differ where no rate depends on it, but not among processes. */
    const char *const *may_differ;
    size_t             n_may_differ;

    /* Where it writes its log: steps.csv, with a row for each run, or each `log_every`th, epochs.csv, and event files for
     * TensorBoard (ipu/summary.h), with histograms of the weights after each epoch if `log_weights`. They are those of the
     * steps that were made: one that goes on from a checkpoint removes what was logged after it. What is there already is as
     * with checkpoints: an error (NEW), gone on with (RESUME) or renamed to NAME.before (RESTART; and if there is no
     * checkpoint to go on from). What cannot be written later on is warned of, and left out. NULL: no log. */
    const char *log_folder;
    int64_t     log_every; /* 0: 1 */
    bool        log_weights;

    bool keep_diverged; /* no weights are looked at, and they are written all the same */

    ipu_trainer_events events;
    ipu_trainer_words  words;
} ipu_trainer_options;

/* Owned: ipu_trainer_destroy. Statuses: INVALID (settings that are no JSON object; data whose number of samples is not
 * known, or that do not fit the test set), those of ipu_training_model and ipu_loader_create. */
ipu_status ipu_trainer_create(const ipu_trainer_options *options, ipu_trainer **out);
void       ipu_trainer_destroy(ipu_trainer *t);

/* Finds the checkpoint to go on from, compiles, trains and tests to the end. One that is finished already tests if that
 * was not done. Statuses: INTERRUPTED (ipu_trainer_interrupt; the message says what is kept: called again, it goes on),
 * ABORTED (it has diverged: a loss, a test loss or a weight is nan or infinite, but for weights of an ONNX file, which may
 * be infinite; no checkpoint is written of it), INVALID (the checkpoints or the log there are not to be used, and why; in all
 * processes: they were started with different settings or data), those of executors, loaders and checkpoints. After any
 * but OK and INTERRUPTED it cannot be called again. */
ipu_status ipu_trainer_run(ipu_trainer *t);

/* From an event, any thread or signal handler: the run in progress is finished and a checkpoint written. A compilation is finished
 * first: ipu_set_compile_progress can stop it, which is an interruption, too. Of several processes one is enough. */
void ipu_trainer_interrupt(ipu_trainer *t);

/* From an event or another thread: the epoch that runs, or was just told of, is the last. It is tested, and the training
 * ends as if there had been no more: OK. One that goes on from its checkpoint has all n_epochs before it again. Of several
 * processes one is enough. */
void ipu_trainer_stop(ipu_trainer *t);

/* A checkpoint now, between calls of ipu_trainer_run, if this run has none; all processes call it. Nothing happens
 * without a folder. Statuses: as of ipu_trainer_run. */
ipu_status ipu_trainer_save_checkpoint(ipu_trainer *t);

/* ---- what came of it ---- */

typedef struct ipu_trainer_results {
    const ipu_trainer_epoch *epochs; /* those that are finished, also before a checkpoint */
    int64_t                  n_epochs;
    int64_t                  runs, runs_per_epoch;
    double                   seconds, n_samples; /* of training */
    /* The curve of losses: means over `runs_per_point` runs each. */
    const double *points;
    int64_t       n_points, runs_per_point;
    int64_t       resumed_from, last_saved; /* run of the checkpoint; -1: none */
    bool          has_diverged;
    /* Of several processes, after a failure: whether all know of it (or else ipu_comm_abort ends them), and whether
     * another one tells of it. */
    bool is_known, is_told_elsewhere;
} ipu_trainer_results;

/* At any time, also in events. Lists are borrowed until the trainer runs on. */
void ipu_trainer_get_results(const ipu_trainer *t, ipu_trainer_results *out);

/* Borrowed. */
ipu_executor *ipu_trainer_executor(ipu_trainer *t); /* that trains */
ipu_loader   *ipu_trainer_loader(ipu_trainer *t);   /* of the training set */

#ifdef __cplusplus
}
#endif
#endif

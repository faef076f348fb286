/* A trainer from within: what its parts share. Public half: ipu/trainer.h. */
#ifndef IPU_TRAIN_TRAINER_TRAINER_H
#define IPU_TRAIN_TRAINER_TRAINER_H

#include <jansson.h>
#include <stdatomic.h>

#include "base/status.h"
#include "ipu/comm.h"
#include "ipu/trainer.h"
#include "train/trainer/log.h"
#include "train/trainer/record.h"

struct ipu_trainer {
    ipu_trainer_options   options;
    ipu_executor         *executor, *tester;    /* tester NULL: not tested, or not compiled yet */
    ipu_loader           *loader, *test_loader; /* test_loader NULL: not tested */
    ipu_checkpoint_store *store;                /* NULL: none, or not opened yet */
    json_t               *settings;             /* what decides the result; NULL: nobody asks */
    size_t                n_fields;             /* of a sample */
    ipu_array             rest[IPU_MAX_FIELDS]; /* of a short last batch of the test set, filled up */
    int64_t               n_runs;               /* of the executor in an epoch */
    ipu__trainer_record   record;
    ipu__trainer_log      log;
    ipu_loader_position   position;     /* of the next run */
    int64_t               resumed_from; /* run; -1: it began at the beginning */
    int64_t               last_saved;   /* run of the newest checkpoint; -1: none */
    atomic_bool           is_interrupted, wants_end;
    bool                  tests_loss; /* the tester is given all fields and says the loss; else, scores */
    bool                  ends;       /* after this epoch: all processes know */
    bool                  has_begun, has_failed, has_diverged;
    bool                  was_compiled; /* which was told */

    int64_t rank, n_ranks;
    bool    stops;        /* one of the processes was told to stop, or the first failed: all know */
    bool    is_elsewhere; /* another process tells what is wrong */
};

static inline bool ipu__trainer_is_first(const ipu_trainer *t) { return t->rank == 0; }
static inline bool ipu__trainer_is_told(ipu_trainer *t) { return atomic_load(&t->is_interrupted); }

/* Nothing is left to train. */
bool ipu__trainer_is_finished(const ipu_trainer *t);
/* The last epoch is tested, or need not be. */
bool ipu__trainer_is_evaluated(const ipu_trainer *t);

/* A message of the first process. */
void ipu__trainer_say(const ipu_trainer *t, ipu_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Arrays without data, of `n` samples. */
void ipu__trainer_describe(const ipu_trainer *t, int64_t n, ipu_array out[IPU_MAX_FIELDS]);

/* The arrays of a batch, in the shape that the network takes. */
void ipu__trainer_batch(const ipu_trainer *t, const ipu_batch *batch, ipu_array out[IPU_MAX_FIELDS]);

/* ---- settings ---- */

/* Makes t->settings, if anybody asks. INVALID: they are no object. */
ipu_status ipu__trainer_settings_make(ipu_trainer *t);
/* Whether the other processes have the same. */
ipu_status ipu__trainer_settings_agree(ipu_trainer *t);
/* Whether a training with t->settings goes on from one with `then`. INVALID: the message says what differs. */
ipu_status ipu__trainer_settings_compare(const ipu_trainer *t, const json_t *then);

/* ---- checkpoints ---- */

/* Goes on from the newest checkpoint, if there is one and that is asked for. */
ipu_status ipu__trainer_resume(ipu_trainer *t);
/* If this run has none. */
ipu_status ipu__trainer_save(ipu_trainer *t);

/* ---- tests ---- */

typedef struct ipu__trainer_tally {
    int64_t n;
    double  right, loss; /* sums */
} ipu__trainer_tally;

/* The first output with a row for each of `n` samples; NULL: there is none. */
const ipu_array *ipu__trainer_find_scores(const ipu_executor *x, int64_t n);
/* Adds the first `n` of them. */
void ipu__trainer_count(const ipu_array *scores, const ipu_array *labels, int64_t n, ipu__trainer_tally *t);

/* Of the first process: makes the tester, and finds out what it can be tested by. */
ipu_status ipu__trainer_compile_test(ipu_trainer *t);

/* Accuracy and loss on the test set, put down for the last epoch; nothing is if it is interrupted meanwhile. */
ipu_status ipu__trainer_evaluate(ipu_trainer *t);

/* ---- divergence: all processes call these ---- */

/* ABORTED, with a message that `what`, "the loss is", is not finite, and what may help. */
ipu_status ipu__trainer_diverge(ipu_trainer *t, const char *what, double value);
/* Whether the weights are worth keeping. */
ipu_status ipu__trainer_check_weights(ipu_trainer *t);
/* The end of a training: the last test and the weights. */
ipu_status ipu__trainer_check_result(ipu_trainer *t);

/* ---- processes ---- */

/* What the first one came to. */
ipu_status ipu__trainer_agree(ipu_trainer *t, ipu_status status);
/* Whether all have the same of an object's values. */
ipu_status ipu__trainer_compare(ipu_trainer *t, const json_t *all);
/* A run's mean loss and number of right samples (NaN: not known), over all; and whether to stop. */
ipu_status ipu__trainer_add_up(ipu_trainer *t, double *loss, double *right, bool stop);
/* Numbers of the first for all; and whether to stop. */
ipu_status ipu__trainer_tell(ipu_trainer *t, double *numbers, size_t n, bool stop);
/* A checkpoint that the first has read from `path`, for all the others. To be freed by all. */
ipu_status ipu__trainer_share_checkpoint(ipu_trainer *t, const char *path, ipu_checkpoint *c);

#endif

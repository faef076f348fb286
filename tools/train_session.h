/* What a training works with: data, network, executors, checkpoints. */
#ifndef TOOLS_TRAIN_SESSION_H
#define TOOLS_TRAIN_SESSION_H

#include "ipu/checkpoint.h"
#include "progress.h"
#include "train_group.h"
#include "train_record.h"
#include "train_settings.h"

enum { TRAIN_DIGEST = 17 };

typedef struct train_session {
    train_group           group;
    train_settings        settings;
    progress              progress;
    FILE                 *silence; /* where progress goes that nobody sees; NULL: it is seen */
    ipu_dataset          *train, *test;
    ipu_options          *engine;
    ipu_executor_options  options; /* of training */
    ipu_module           *module;
    ipu_executor         *trainer, *tester;
    ipu_loader           *loader, *test_loader;
    ipu_array             rest;         /* images of a short last batch of the test set, filled up */
    ipu_shape             images;       /* of one sample, as the model takes it */
    int64_t               n_runs;       /* of the executor in an epoch */
    ipu_checkpoint_store *store;        /* NULL: none */
    json_t               *options_json; /* what decides the result */
    train_record          record;
    ipu_loader_position   position;     /* of the next run */
    int64_t               resumed_from; /* run; -1: it began at the beginning */
    int64_t               last_saved;   /* run of the newest checkpoint; -1: none */
    bool                  has_diverged; /* which was reported */
} train_session;

/* To be closed also when it fails. */
tool_exit train_session_open(train_session *s, const tool_arguments *args);
/* `code`: what it came to. */
void train_session_close(train_session *s, tool_exit code);

/* A training executor for the same network: of the session's module, or of another one for a profile. */
ipu_status train_session_trainer(const train_session *s, ipu_module *module, const ipu_options *engine,
                                 ipu_executor **out);
/* A module of the model that is trained, untrained. */
ipu_status train_session_module(const train_session *s, ipu_module **out);

/* Compiles what is trained and what is tested. `stop`: as for train_session_evaluate. */
tool_exit train_session_compile(train_session *s, bool (*stop)(void));

/* The arrays of a batch, in the shape that the model takes. */
void train_session_batch(const train_session *s, const ipu_batch *batch, ipu_array out[2]);

/* Goes on from the newest checkpoint, if there is one and --resume is given. */
tool_exit train_session_resume(train_session *s);
tool_exit train_session_save_checkpoint(train_session *s);

typedef struct train_tally {
    int64_t n;
    double  right, loss; /* sums */
} train_tally;

/* The first output with a row for each of `n` samples; NULL: there is none. */
const ipu_array *train_find_scores(const ipu_executor *x, int64_t n);
/* Adds the first `n` of them. */
void train_count(const ipu_array *scores, const ipu_array *labels, int64_t n, train_tally *t);

/* Accuracy and loss on the test set, put down for the last epoch. `stop`: asked now and then; true ends it early, and
 * nothing is put down. */
tool_exit train_session_evaluate(train_session *s, bool (*stop)(void));

/* Reports that `what`, "the loss is", is not finite, and what may help; all processes know and call it. TOOL_FAILED. */
tool_exit train_session_diverge(train_session *s, const char *what, double value);
/* Whether the weights are worth keeping, or --keep was given. All processes call it. */
tool_exit train_session_check_weights(train_session *s);

/* The trained network as an ONNX file, with what its pixels are. */
tool_exit train_session_write_onnx(train_session *s, const char *path);

#endif

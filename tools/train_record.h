/* What a training has shown so far: it goes into checkpoints, so that one that goes on tells the whole story. */
#ifndef TOOLS_TRAIN_RECORD_H
#define TOOLS_TRAIN_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "command.h"

typedef struct train_epoch {
    double loss, accuracy;           /* of training, while it went on; accuracy NaN: there are no scores */
    double test_loss, test_accuracy; /* after it; NaN: not evaluated */
    double seconds;                  /* of training */
    double n_samples;
} train_epoch;

enum { TRAIN_POINTS = 1024 };

typedef struct train_record {
    train_epoch *epochs; /* those that are finished */
    int64_t      n_epochs;
    train_epoch  running; /* the one that is not: loss and accuracy are sums over n_samples */
    int64_t      runs;    /* of the executor */
    double       seconds; /* of training, in all */
    double       n_samples;
    /* The curve of losses: means over `per_point` runs each. Full, two become one. */
    double  points[TRAIN_POINTS];
    int64_t n_points, per_point, n_pending;
    double  pending; /* sum over n_pending runs */
} train_record;

void train_record_open(train_record *r);
void train_record_free(train_record *r);

/* After a run: its mean loss, how many of its samples were right (below 0: not known), how long it took. */
void train_record_run(train_record *r, int64_t n_samples, double loss, double right, double seconds);
/* Ends an epoch. False: out of memory. */
bool train_record_epoch(train_record *r);
/* Means of the epoch that runs; NaN if there is nothing yet. */
double train_record_loss(const train_record *r);
double train_record_accuracy(const train_record *r);

/* NULL: out of memory. */
json_t *train_record_json(const train_record *r);
/* The other way; false: it is none, or there is no memory. */
bool train_record_parse(train_record *r, const json_t *json);

/* The losses as a picture; x counts epochs, of which each has `n_runs` runs. */
tool_exit train_record_plot(const train_record *r, int64_t n_runs, const char *title, const char *path);

#endif

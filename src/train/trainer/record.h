/* What a training has shown so far: it goes into checkpoints, so that one that goes on tells the whole story. */
#ifndef IPU_TRAIN_TRAINER_RECORD_H
#define IPU_TRAIN_TRAINER_RECORD_H

#include <jansson.h>

#include "base/status.h"
#include "ipu/trainer.h"

enum { IPU__TRAINER_POINTS = 1024 };

typedef struct ipu__trainer_record {
    ipu_trainer_epoch *epochs; /* those that are finished */
    int64_t            n_epochs;
    ipu_trainer_epoch  running; /* the one that is not: loss and accuracy are sums over n_samples */
    int64_t            runs;    /* of the executor */
    double             seconds; /* of training, in all */
    double             n_samples;
    /* The curve of losses: means over `per_point` runs each. Full, two become one. */
    double  points[IPU__TRAINER_POINTS];
    int64_t n_points, per_point, n_pending;
    double  pending; /* sum over n_pending runs */
} ipu__trainer_record;

void ipu__trainer_record_init(ipu__trainer_record *r);
void ipu__trainer_record_fini(ipu__trainer_record *r);

/* After a run: its mean loss, how many of its samples were right (NaN: not known), how long it took. */
void ipu__trainer_record_run(ipu__trainer_record *r, int64_t n_samples, double loss, double right,
                             double seconds);
/* Ends an epoch. OUT_OF_MEMORY. */
ipu_status ipu__trainer_record_epoch(ipu__trainer_record *r);
/* Means of the epoch that runs; NaN if there is nothing yet. */
double ipu__trainer_record_loss(const ipu__trainer_record *r);
double ipu__trainer_record_accuracy(const ipu__trainer_record *r);

/* NULL: out of memory. */
json_t *ipu__trainer_record_json(const ipu__trainer_record *r);
/* The other way, in place of what is there; false: it is none, or there is no memory. */
bool ipu__trainer_record_parse(ipu__trainer_record *r, const json_t *json);

#endif

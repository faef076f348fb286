/* The log of a training: tables of runs and epochs, and what TensorBoard shows. Written by the first process. */
#ifndef IPU_TRAIN_TRAINER_LOG_H
#define IPU_TRAIN_TRAINER_LOG_H

#include "ipu/summary.h"
#include "ipu/trainer.h"
#include "summary/csv.h"

typedef struct ipu__trainer_log { /* all zero: there is none */
    ipu__csv     steps, epochs;
    ipu_summary *summary;                 /* NULL: there is none, or it has not begun */
    double       seconds, n_samples;      /* of training, when a run was last written */
    bool         steps_fail, epochs_fail; /* the last one was not written, which was told of the first */
} ipu__trainer_log;

/* All processes call these two: before a checkpoint is looked for, and after. Statuses: IO, BUSY, INVALID (a log of another
 * training is there, and it is not to be gone on with), OUT_OF_MEMORY. */
ipu_status ipu__trainer_log_open(ipu_trainer *t);
ipu_status ipu__trainer_log_begin(ipu_trainer *t);
void       ipu__trainer_log_close(ipu__trainer_log *log);

/* What cannot be written is told once, and the training goes on. */
void ipu__trainer_log_step(ipu_trainer *t, const ipu_trainer_step *step);
/* The last epoch, when it is trained and, if it is to be, tested. */
void ipu__trainer_log_epoch(ipu_trainer *t);

#endif

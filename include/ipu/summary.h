/* Summaries: training progress for TensorBoard.
 *
 *     ipu_summary *s;
 *     IPU_TRY(ipu_summary_open("runs/1", -1, &s));
 *     IPU_TRY(ipu_summary_add_scalar(s, step, "train/loss", loss));
 *     IPU_TRY(ipu_summary_add_text(s, 0, "notes", "with *half* the rate"));
 *     ipu_summary_close(s);
 *
 *     tensorboard --logdir runs
 *
 * A folder holds a run, as event files, events.out.tfevents.*, one for each writer. What a call has written survives
 * the death of the process; what it cannot write is not written in part. Trainers write a summary, and tables beside
 * it: log_folder in ipu/trainer.h.
 *
 * Tags are names; TensorBoard groups those with the same prefix up to a '/'. Invalid UTF-8 in tags and texts becomes
 * U+FFFD. A summary is used by one thread at a time.
 */
#ifndef IPU_SUMMARY_H
#define IPU_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

#include "ipu/data.h"
#include "ipu/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_summary ipu_summary;

/* Creates the folder if needed, and a file in it after any existing ones. `purge`: supersedes what these have for this
 * step and later, as when training resumes from an earlier step; negative for nothing. Owned: ipu_summary_close.
 * Statuses: IO (the folder cannot be created or written to, or something else is in its place), OUT_OF_MEMORY. */
ipu_status  ipu_summary_open(const char *folder, int64_t purge, ipu_summary **out);
void        ipu_summary_close(ipu_summary *s);
const char *ipu_summary_path(const ipu_summary *s); /* of the file; borrowed */

typedef struct ipu_summary_scalar {
    const char *tag;
    double      value; /* stored as float */
} ipu_summary_scalar;

/* Each is stamped with the time of the call. Statuses of all of them: IO (e.g. a full disk; nothing was written, later
 * calls may succeed), INVALID (a negative step, an empty tag, and what is stated below), OUT_OF_MEMORY. */
ipu_status ipu_summary_add_scalar(ipu_summary *s, int64_t step, const char *tag, double value);
/* Several scalars in one event. */
ipu_status ipu_summary_add_scalars(ipu_summary *s, int64_t step, const ipu_summary_scalar *scalars, size_t n);
/* Markdown. */
ipu_status ipu_summary_add_text(ipu_summary *s, int64_t step, const char *tag, const char *text);
/* The distribution of an array's elements, in 30 buckets of equal width; non-finite ones are ignored. Statuses:
 * INVALID (none is left). */
ipu_status ipu_summary_add_histogram(ipu_summary *s, int64_t step, const char *tag, const ipu_array *array);

#ifdef __cplusplus
}
#endif
#endif

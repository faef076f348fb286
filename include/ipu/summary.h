/* Summaries: what a training shows as it goes, for TensorBoard.
 *
 *     ipu_summary *s;
 *     IPU_TRY(ipu_summary_open("runs/1", -1, &s));
 *     IPU_TRY(ipu_summary_add_scalar(s, step, "train/loss", loss));
 *     IPU_TRY(ipu_summary_add_text(s, 0, "notes", "with *half* the rate"));
 *     ipu_summary_close(s);
 *
 *     tensorboard --logdir runs
 *
 * A folder holds a run: event files, events.out.tfevents.*, of which each writer makes one of its own. What a call has
 * written is there whatever becomes of the process; what it cannot write is not there in part. Trainers write one, and
 * tables beside it: log_folder in ipu/trainer.h.
 *
 * Tags are names, of which TensorBoard shows those that are alike up to their '/' together. What is no UTF-8 in tags and
 * texts becomes U+FFFD. A summary is used by one thread at a time.
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

/* Makes the folder, and in it a file after those that are there. `purge`: what they have of this step and later ones is
 * superseded, as when a training goes on from an earlier step; below 0: nothing is. Owned: ipu_summary_close. Statuses: IO
 * (the folder cannot be made or written to, or something else is in its place), OUT_OF_MEMORY. */
ipu_status  ipu_summary_open(const char *folder, int64_t purge, ipu_summary **out);
void        ipu_summary_close(ipu_summary *s);
const char *ipu_summary_path(const ipu_summary *s); /* of the file. Borrowed */

typedef struct ipu_summary_scalar {
    const char *tag;
    double      value; /* kept as float */
} ipu_summary_scalar;

/* Each has the time of the call. Statuses of all of them: IO (a full disk: nothing was written, later calls may succeed),
 * INVALID (a step below 0, an empty tag, and what is said below), OUT_OF_MEMORY. */
ipu_status ipu_summary_add_scalar(ipu_summary *s, int64_t step, const char *tag, double value);
/* Several, as one event. */
ipu_status ipu_summary_add_scalars(ipu_summary *s, int64_t step, const ipu_summary_scalar *scalars, size_t n);
/* Markdown. */
ipu_status ipu_summary_add_text(ipu_summary *s, int64_t step, const char *tag, const char *text);
/* How the elements of an array are distributed, in 30 buckets of equal width; those that are not finite are left out.
 * INVALID: none is left. */
ipu_status ipu_summary_add_histogram(ipu_summary *s, int64_t step, const char *tag, const ipu_array *array);

#ifdef __cplusplus
}
#endif
#endif

/* Checkpoints: everything needed to resume training, in one file.
 *
 * Weights, states of the optimizer and of random ops, the loader's position, and text of the caller's own (options,
 * results so far). A training run that is stopped, however abruptly, and resumed from a checkpoint ends with
 * bit-identical results to one that was never stopped. The file is an .npz that numpy can read.
 *
 *     ipu_checkpoint_store *store;
 *     IPU_TRY(ipu_checkpoint_store_open("checkpoints", 3, &store));
 *     if (ipu_checkpoint_load_last(store, &c) == IPU_OK) { set_state, seek }
 *     ...
 *     IPU_TRY(ipu_checkpoint_save(store, &c));
 *
 * A store is a folder that keeps the newest `keep` checkpoints. Each is written to a temporary file, synced and
 * renamed before an old one is removed, so the newest is intact whenever the process dies.
 */
#ifndef IPU_CHECKPOINT_H
#define IPU_CHECKPOINT_H

#include "ipu/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_checkpoint {
    int64_t             step;     /* executor runs so far; names the file */
    ipu_loader_position position; /* of the loader: its next batch */
    ipu_npz             state;    /* of the executor: see ipu_executor_get_state */
    char               *text;     /* the caller's own, JSON by convention; NULL if none */
    char               *model; /* what the state belongs to, for the caller to check; NULL if unspecified */
} ipu_checkpoint;

/* Frees what loading allocated: state, text and model. */
void ipu_checkpoint_free(ipu_checkpoint *c);

/* A single file. Array names that begin with "checkpoint/" are reserved. A checksum covers every byte. Statuses:
 * IO (an existing file is left untouched), INVALID (reading: not a checkpoint, or damaged), UNSUPPORTED (reading:
 * a newer format). */
ipu_status ipu_checkpoint_write(const char *path, const ipu_checkpoint *c);
ipu_status ipu_checkpoint_read(const char *path, ipu_checkpoint *out);

typedef struct ipu_checkpoint_store ipu_checkpoint_store;

/* Creates the folder if needed and removes what a killed writer left behind. `keep` 0 means 3. Statuses: BUSY
 * (another process is writing to it). Owned: ipu_checkpoint_store_close. */
ipu_status ipu_checkpoint_store_open(const char *folder, int keep, ipu_checkpoint_store **out);
void       ipu_checkpoint_store_close(ipu_checkpoint_store *store);

/* Statuses: INVALID (the store holds a checkpoint of a later step, presumably of another training run;
 * nothing is removed). */
ipu_status ipu_checkpoint_save(ipu_checkpoint_store *store, const ipu_checkpoint *c);
/* Loads the newest intact checkpoint. A damaged one is logged, renamed to NAME.damaged and skipped; one that cannot
 * be read for another reason is an error. Statuses: NOT_FOUND (the store is empty), INVALID (all are damaged or were
 * set aside as damaged before; they stay in place, so the error persists). */
ipu_status ipu_checkpoint_load_last(ipu_checkpoint_store *store, ipu_checkpoint *out);
/* For starting over in the same folder: renames all checkpoints in it, damaged or not, to NAME.before. */
ipu_status ipu_checkpoint_store_restart(ipu_checkpoint_store *store);
/* Paths, oldest first. Borrowed until the next save or load. */
size_t      ipu_checkpoint_store_n(const ipu_checkpoint_store *store);
const char *ipu_checkpoint_store_at(const ipu_checkpoint_store *store, size_t i);

#ifdef __cplusplus
}
#endif
#endif

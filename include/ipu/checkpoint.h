/* Checkpoints: everything that is needed to go on training, in one file.
 *
 * Weights, states of the optimizer and of random ops, the loader's place, and text of the caller's own (options,
 * results so far). A training that is stopped, in whatever way, and goes on from a checkpoint ends with the bits
 * of one that was not. The file is an .npz that numpy reads.
 *
 *     ipu_checkpoint_store *store;
 *     IPU_TRY(ipu_checkpoint_store_open("checkpoints", 3, &store));
 *     if (ipu_checkpoint_load_last(store, &c) == IPU_OK) { set_state, seek }
 *     ...
 *     IPU_TRY(ipu_checkpoint_save(store, &c));
 *
 * A store is a folder of checkpoints, of which the newest `keep` stay. Each is written to a temporary file, brought
 * to disk and renamed, before an old one is removed: whenever the process dies, the newest one is whole.
 */
#ifndef IPU_CHECKPOINT_H
#define IPU_CHECKPOINT_H

#include "ipu/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_checkpoint {
    int64_t             step;     /* runs of the executor so far; names the file */
    ipu_loader_position position; /* of the loader: the next batch */
    ipu_npz             state;    /* of the executor: ipu_executor_get_state */
    char               *text;     /* the caller's own, JSON by custom; NULL: none */
    char               *model;    /* what the state belongs to: checked by the caller; NULL: not told */
} ipu_checkpoint;

/* Frees what a load gave: state, text and model. */
void ipu_checkpoint_free(ipu_checkpoint *c);

/* One file. Names of arrays that begin with "checkpoint/" are the file's own. Every byte is covered by a checksum.
 * Statuses: IO (the old file, if any, is still there), INVALID (loading: no checkpoint, damaged), UNSUPPORTED
 * (loading: of a later format). */
ipu_status ipu_checkpoint_write(const char *path, const ipu_checkpoint *c);
ipu_status ipu_checkpoint_read(const char *path, ipu_checkpoint *out);

typedef struct ipu_checkpoint_store ipu_checkpoint_store;

/* Makes the folder; removes what a killed writer left behind. `keep` 0: 3. BUSY: another process is writing to it.
 * Owned: ipu_checkpoint_store_close. */
ipu_status ipu_checkpoint_store_open(const char *folder, int keep, ipu_checkpoint_store **out);
void       ipu_checkpoint_store_close(ipu_checkpoint_store *store);

/* INVALID: the store holds one of a later step, as of another training: nothing is removed for it. */
ipu_status ipu_checkpoint_save(ipu_checkpoint_store *store, const ipu_checkpoint *c);
/* The newest that is whole. One that is damaged is told of in the log, renamed to NAME.damaged and passed over; one
 * that cannot be read for another reason is an error. NOT_FOUND: there is none. INVALID: all are damaged, or were set
 * aside as such before; they stay where they are, and so does the error. */
ipu_status ipu_checkpoint_load_last(ipu_checkpoint_store *store, ipu_checkpoint *out);
/* For a training that begins anew in the folder: all checkpoints in it, damaged or not, are renamed to NAME.before. */
ipu_status ipu_checkpoint_store_restart(ipu_checkpoint_store *store);
/* Paths, oldest first. Borrowed until the next save or load. */
size_t      ipu_checkpoint_store_n(const ipu_checkpoint_store *store);
const char *ipu_checkpoint_store_at(const ipu_checkpoint_store *store, size_t i);

#ifdef __cplusplus
}
#endif
#endif

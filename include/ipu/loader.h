/* Loaders: batches of a dataset, made ahead by threads.
 *
 *     ipu_loader_options how = {.batch_size = 16, .shuffle = true};
 *     ipu_loader        *loader;
 *     IPU_TRY(ipu_loader_create(dataset, &options, &how, &loader));
 *     for (int epoch = 0; epoch < 5; epoch++)
 *         for (ipu_batch batch; ipu_loader_next(loader, &batch);)
 *             IPU_TRY(ipu_executor_run(model, batch.arrays, batch.n_arrays));
 *     IPU_TRY(ipu_loader_status(loader));
 *
 * As poptorch.DataLoader: one batch holds all that an executor takes in one run: batch_size x device
 * iterations x (replicas / input group size) x gradient accumulation samples. The last, short one is dropped
 * unless keep_last. The order depends on the seed and the epoch only, not on the number of workers. While
 * the last batches of an epoch are used, the first ones of the next are made.
 *
 * Where the executor is one of several processes (options.comm), each loader reads only the samples of its own
 * replicas: together they have those that one process with all the replicas would have, in the same replicas. An
 * iterable dataset is each process's own: it gives what is meant for this one.
 *
 * A loader is used by one thread at a time; its workers are its own, and read the dataset from its creation
 * on. Where they are late with a map-style dataset, or a batch is made in less time than one is woken, the
 * caller makes it itself. A child made by fork has no workers: it cannot use a loader that has any
 * (IPU_FORKED).
 */
#ifndef IPU_LOADER_H
#define IPU_LOADER_H

#include "ipu/dataset.h"
#include "ipu/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_loader ipu_loader;

typedef struct ipu_loader_options {
    int64_t  batch_size; /* of what the model sees; 0: 1 */
    bool     shuffle;    /* anew for each epoch; map-style only */
    uint64_t seed;
    bool     keep_last; /* give the last batch of an epoch although it is short */
    int      n_workers; /* threads, of which an iterable dataset has one; 0: one; below 0: none,
                           ipu_loader_next makes the batch itself */
    int      prefetch;  /* batches made ahead; 0: 3, or one for each worker if there are more */
} ipu_loader_options;

/* Borrows the dataset. `how` NULL, `options` NULL: the defaults. Owned: ipu_loader_destroy. Statuses:
 * INVALID (no batch fits the dataset; shuffling an iterable one), OUT_OF_MEMORY (also: no thread for it). */
ipu_status ipu_loader_create(ipu_dataset *dataset, const ipu_executor_options *how,
                             const ipu_loader_options *options, ipu_loader **out);
/* At any moment; waits for the calls of the dataset's functions that are going on, not for their batches. */
void ipu_loader_destroy(ipu_loader *l);

typedef struct ipu_batch {
    const ipu_array *arrays; /* one for each field, [n_samples, ...]. Borrowed until the next call */
    size_t           n_arrays;
    int64_t          n_samples;
    int64_t          epoch, index; /* its place: the how manieth epoch and batch in it, from 0 */
} ipu_batch;

/* False at the end of an epoch, after which it begins the next one, or after an error: ipu_loader_status. */
bool       ipu_loader_next(ipu_loader *l, ipu_batch *out);
ipu_status ipu_loader_status(const ipu_loader *l); /* the first error, as if this call had failed with it */

int64_t ipu_loader_n_batches(const ipu_loader *l); /* of an epoch; -1: not known */
int64_t ipu_loader_combined_batch_size(const ipu_loader *l);

/* Where it is: what the next ipu_loader_next gives. */
typedef struct ipu_loader_position {
    int64_t epoch, batch;
} ipu_loader_position;
ipu_loader_position ipu_loader_get_position(const ipu_loader *l);
/* Go there; what was made ahead is dropped, and an error forgotten. An iterable dataset is read up to there.
 * Statuses: INVALID (an epoch has fewer batches), FORKED, those of an iterable dataset, after which
 * ipu_loader_next gives nothing until a seek succeeds. */
ipu_status ipu_loader_seek(ipu_loader *l, ipu_loader_position position);

/* Seconds that ipu_loader_next has taken, in all, because the batch was not made yet. */
double ipu_loader_waited(const ipu_loader *l);

#ifdef __cplusplus
}
#endif
#endif

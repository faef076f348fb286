/* Loaders: batches of a dataset, prefetched by threads.
 *
 *     ipu_loader_options how = {.batch_size = 16, .shuffle = true};
 *     ipu_loader        *loader;
 *     IPU_TRY(ipu_loader_create(dataset, &options, &how, &loader));
 *     for (int epoch = 0; epoch < 5; epoch++)
 *         for (ipu_batch batch; ipu_loader_next(loader, &batch);)
 *             IPU_TRY(ipu_executor_run(model, batch.arrays, batch.n_arrays));
 *     IPU_TRY(ipu_loader_status(loader));
 *
 * Like poptorch.DataLoader: one batch holds what an executor consumes in one run: batch_size x device iterations
 * x (replicas / input group size) x gradient accumulation samples. An incomplete last batch is dropped unless
 * keep_last. The order depends only on the seed and the epoch, not on the number of workers. Prefetching
 * continues across epochs.
 *
 * When several processes train together (options.comm), each loader reads only the samples of its own replicas;
 * together they see the same samples, on the same replicas, as a single process with all of them. An iterable
 * dataset is expected to yield only the samples meant for its process.
 *
 * A loader is used by one thread at a time. Its worker threads read the dataset from its creation on. If they
 * fall behind with a map-style dataset, or waking one would take longer than making the batch, the caller makes
 * the batch itself. A forked child has no workers, so it cannot use a loader that needs them (IPU_FORKED).
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
    int64_t  batch_size; /* as the model sees it; 0 means 1 */
    bool     shuffle;    /* reshuffled each epoch; map-style only */
    uint64_t seed;
    bool     keep_last; /* keep an incomplete last batch */
    /* Threads; at most one for an iterable dataset. 0 means one; below 0: none, ipu_loader_next makes the batch
     * itself. */
    int n_workers;
    int prefetch; /* batches made ahead; 0 means 3, or one per worker if there are more */
} ipu_loader_options;

/* Borrows the dataset. `how` and `options` may be NULL for the defaults. Owned: ipu_loader_destroy. Statuses:
 * INVALID (the dataset is too small for a batch; shuffling an iterable one), OUT_OF_MEMORY (includes failure
 * to start a thread). */
ipu_status ipu_loader_create(ipu_dataset *dataset, const ipu_executor_options *how,
                             const ipu_loader_options *options, ipu_loader **out);
/* May be called at any time; waits only for dataset functions in progress, not for whole batches. */
void ipu_loader_destroy(ipu_loader *l);

typedef struct ipu_batch {
    const ipu_array *arrays; /* one per field, [n_samples, ...]. Borrowed until the next call */
    size_t           n_arrays;
    int64_t          n_samples;
    int64_t          epoch, index; /* which epoch, and which batch of it, from 0 */
} ipu_batch;

/* Returns false at the end of an epoch, after which the next call begins another, or after an error
 * (ipu_loader_status). */
bool       ipu_loader_next(ipu_loader *l, ipu_batch *out);
ipu_status ipu_loader_status(const ipu_loader *l); /* the first error; also sets ipu_message */

int64_t ipu_loader_n_batches(const ipu_loader *l); /* per epoch; -1 if unknown */
int64_t ipu_loader_combined_batch_size(const ipu_loader *l);

/* Current position: what the next ipu_loader_next returns. */
typedef struct ipu_loader_position {
    int64_t epoch, batch;
} ipu_loader_position;
ipu_loader_position ipu_loader_get_position(const ipu_loader *l);
/* Moves to a position, discarding prefetched batches and clearing any error. An iterable dataset is read up
 * to there. Statuses: INVALID (an epoch has fewer batches), FORKED, those of an iterable dataset, after which
 * ipu_loader_next returns nothing until a seek succeeds. */
ipu_status ipu_loader_seek(ipu_loader *l, ipu_loader_position position);

/* Total seconds ipu_loader_next has spent waiting for batches. */
double ipu_loader_waited(const ipu_loader *l);

#ifdef __cplusplus
}
#endif
#endif

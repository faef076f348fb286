/* Draws digits into MNIST's four files, using all available threads. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "base/host/folder.h"
#include "base/host/pool.h"
#include "data/idx.h"
#include "ipu/dataset.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, BLOCK = 1024 };

typedef struct work {
    ipu__pool              *pool;
    ipu_dataset_progress_fn progress;
    void                   *user;
    uint32_t                seed;
    int64_t                 done, total; /* over all sets */
    int64_t                 first;       /* number of the set's first sample */
    int64_t                 from, to;    /* the block, within the set */
    uint8_t                *pixels, *labels;
} work;

static void draw_block(void *user, int part, int n_parts)
{
    const work *w = user;
    for (int64_t i = w->from + part; i < w->to; i += n_parts) {
        int label;
        ipu_digits_draw(w->seed, w->first + i, &label, w->pixels + i * PIXELS);
        w->labels[i] = (uint8_t)label;
    }
}

static ipu_status draw_set(work *w, int64_t n)
{
    for (w->from = 0; w->from < n; w->from = w->to) {
        w->to = w->from + BLOCK < n ? w->from + BLOCK : n;
        ipu__pool_run(w->pool, draw_block, w);
        w->done += w->to - w->from;
        if (w->progress && !w->progress(w->user, w->done, w->total))
            return ipu__fail(IPU_INTERRUPTED, "stopped after %lld of %lld digits: no file was written",
                             (long long)w->done, (long long)w->total);
    }
    return IPU_OK;
}

static ipu_status write_file(const char *folder, const char *name, const int64_t *dims, int rank,
                             const uint8_t *elements, size_t bytes)
{
    char    path[PATH_MAX];
    uint8_t head[IPU__IDX_HEADER_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        return ipu__fail(IPU_IO, "cannot write into %s: %s", folder, strerror(ENAMETOOLONG));
    const ipu__file_piece pieces[] = {{head, ipu__idx_header(dims, rank, head)}, {elements, bytes}};
    return ipu__file_write_pieces(path, pieces, 2);
}

static ipu_status write_set(const char *folder, const char *stem, int64_t n, const uint8_t *pixels,
                            const uint8_t *labels)
{
    char name[64];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", stem);
    IPU_TRY(write_file(folder, name, (int64_t[]){n, SIDE, SIDE}, 3, pixels, (size_t)n * PIXELS));
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", stem);
    return write_file(folder, name, &n, 1, labels, (size_t)n);
}

/* Both sets are drawn before any file is written, so that stopping leaves everything unchanged. */
static ipu_status draw_and_write(work *w, const char *folder, int64_t n_train, int64_t n_test)
{
    uint8_t *pixels = w->pixels, *labels = w->labels;
    IPU_TRY(draw_set(w, n_train));
    w->first  = IPU_DIGITS_TEST;
    w->pixels = pixels + n_train * PIXELS;
    w->labels = labels + n_train;
    IPU_TRY(draw_set(w, n_test));
    IPU_TRY(ipu__folder_make(folder, 0777));
    IPU_TRY(write_set(folder, "train", n_train, pixels, labels));
    return write_set(folder, "t10k", n_test, w->pixels, w->labels);
}

ipu_status ipu_digits_write(const char *folder, const ipu_digits_options *options,
                            ipu_dataset_progress_fn progress, void *user)
{
    const ipu_digits_options defaults = {0};
    if (!options) options = &defaults;
    int64_t n_train = options->n_train ? options->n_train : 60000,
            n_test  = options->n_test ? options->n_test : 10000;
    if (n_train < 0 || n_train > INT32_MAX || n_test < 0 || n_test > INT32_MAX)
        return ipu__fail(IPU_INVALID, "digits: %lld to train and %lld to test with: expected 1 to %d each",
                         (long long)n_train, (long long)n_test, INT32_MAX);
    uint8_t *memory = ipu__alloc((size_t)(n_train + n_test) * (PIXELS + 1));
    if (!memory) return ipu__fail_memory();
    work       w      = {.progress = progress,
                         .user     = user,
                         .seed     = options->seed,
                         .total    = n_train + n_test,
                         .pixels   = memory,
                         .labels   = memory + (n_train + n_test) * PIXELS};
    ipu_status status = ipu__pool_create(ipu__pool_default_threads(), &w.pool);
    if (status == IPU_OK) status = draw_and_write(&w, folder, n_train, n_test);
    ipu__pool_destroy(w.pool);
    ipu__free(memory);
    return status;
}

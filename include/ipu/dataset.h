/* Datasets: samples to train and test with.
 *
 * A sample has fields, each an array of a type and shape that is the same for all samples: a picture and its
 * label. A dataset knows how many samples there are and gives any of them (map-style), or gives them one after
 * the other (iterable). Those of files give two fields: "images", float [channels, height, width] as the options
 * say, and "labels", int32 scalars.
 *
 *     ipu_dataset *train, *test;
 *     IPU_TRY(ipu_dataset_open("data/mnist", IPU_TRAIN, NULL, &train));
 *     IPU_TRY(ipu_dataset_open("data/mnist", IPU_TEST, NULL, &test));
 *
 * or one's own, from memory or from functions. Loaders (ipu/loader.h) make batches of it. A dataset is not
 * changed by reading, which any number of threads may do at once; only the samples of an iterable one go to one
 * reader.
 */
#ifndef IPU_DATASET_H
#define IPU_DATASET_H

#include "ipu/data.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_dataset ipu_dataset;

typedef struct ipu_field {
    const char *name;
    ipu_type    type;
    ipu_shape   shape; /* of one sample */
} ipu_field;

enum { IPU_MAX_FIELDS = 16 };

/* ---- from files ---- */

typedef enum ipu_dataset_part { IPU_TRAIN, IPU_TEST } ipu_dataset_part;

typedef struct ipu_dataset_options {
    /* Pixels of 0 to 255 become (x / 255 - mean) / std. `std` 0: 1. `raw`: they stay as they are, 0 to 255. */
    double mean, std;
    bool   raw;
    /* Of folders and arrays without a split of their own: the share of samples, drawn with the fixed seed 0,
     * that makes the test set. 0: 1/6, as MNIST has it. */
    double  test_share;
    int64_t most; /* only the first so many samples; 0: all */
} ipu_dataset_options;

/* What is at `path` decides: a folder with MNIST's four IDX files (train-images-idx3-ubyte, t10k-labels-idx1-ubyte,
 * ..., with or without .gz); a folder with class folders of PNG files, or with train/ and test/ that hold those
 * (classes are numbered by the order of their names); an .npz with x_train, y_train, x_test, y_test as Keras has
 * it, or images and labels; a folder with those names as .npy files. Uncompressed data are mapped, not read.
 * `options` NULL: the defaults. Owned: ipu_dataset_destroy. Statuses: IO, NOT_FOUND (nothing at `path` that is
 * known: the message says what was looked for), INVALID (a file is damaged; images and labels differ in number). */
ipu_status ipu_dataset_open(const char *path, ipu_dataset_part part, const ipu_dataset_options *options,
                            ipu_dataset **out);

/* Number of classes: one more than the largest label; of class folders, their number. 0: not known, as the dataset
 * has no field "labels" of integers or is made of functions. */
int64_t ipu_dataset_n_classes(const ipu_dataset *d);

/* ---- from memory, from functions ---- */

/* Sample i is row i of each array. Borrowed until the dataset is destroyed: names and arrays. */
ipu_status ipu_dataset_from_arrays(const ipu_named_array *arrays, size_t n, ipu_dataset **out);

typedef struct ipu_dataset_functions {
    /* Map-style: write the fields of sample `i` to fields[0], fields[1], ... Called by several threads at once. */
    ipu_status (*get)(void *user, int64_t i, void *const *fields);
    /* Iterable: the fields of the next sample, or *end = true. One call at a time. */
    ipu_status (*next)(void *user, void *const *fields, bool *end);
    /* Iterable: begin again, at each epoch (from 0); NULL: the first epoch is all there is. */
    ipu_status (*rewind)(void *user, int64_t epoch);
    void (*destroy)(void *user); /* NULL: nothing */
} ipu_dataset_functions;

/* Either `get` or `next` is there. `n_samples`: of an iterable one it may be -1, not known. Fields are copied.
 * `user` is destroyed with the dataset; after a failure it is still the caller's. */
ipu_status ipu_dataset_create(const ipu_field *fields, size_t n_fields, int64_t n_samples,
                              ipu_dataset_functions functions, void *user, ipu_dataset **out);
void       ipu_dataset_destroy(ipu_dataset *d);

/* ---- asking ---- */

const char      *ipu_dataset_kind(const ipu_dataset *d); /* "IDX files", "arrays", ...: for people */
size_t           ipu_dataset_n_fields(const ipu_dataset *d);
const ipu_field *ipu_dataset_field_at(const ipu_dataset *d, size_t i); /* Borrowed. */
int64_t          ipu_dataset_n_samples(const ipu_dataset *d);          /* -1: not known */
bool             ipu_dataset_is_iterable(const ipu_dataset *d);
/* Map-style only. Statuses: INVALID (no such sample), those of `get`. */
ipu_status ipu_dataset_get(const ipu_dataset *d, int64_t i, void *const *fields);
/* Iterable only: one reader at a time. Statuses: INVALID, those of `next`. */
ipu_status ipu_dataset_next(ipu_dataset *d, void *const *fields, bool *end);
/* Begin an epoch, from 0. Map-style ones need none. Statuses: INVALID (a later one, and no `rewind`), its own. */
ipu_status ipu_dataset_rewind(ipu_dataset *d, int64_t epoch);

/* ---- drawn: digits as by hand, so that nothing must be downloaded ---- */

typedef struct ipu_digits_options {
    int64_t  n_train, n_test; /* 0: 60000, 10000 */
    uint32_t seed;
} ipu_digits_options;

/* Draws digits (strokes with slant, width and wobble) as MNIST's four IDX files into `folder`, which is made if it
 * is not there; files of these names are replaced. Sample i depends on the seed and on i only: training samples are
 * 0, 1, ..., test samples IPU_DIGITS_TEST, IPU_DIGITS_TEST + 1, ... `progress`, if not NULL, is called by the
 * calling thread now and then; false stops it. Statuses: INVALID, IO, OUT_OF_MEMORY, INTERRUPTED (no file was
 * written). */
#define IPU_DIGITS_TEST INT64_C(0x100000000)
typedef bool (*ipu_dataset_progress_fn)(void *user, int64_t done, int64_t total);
ipu_status ipu_digits_write(const char *folder, const ipu_digits_options *options,
                            ipu_dataset_progress_fn progress, void *user);
/* One digit, 0 to 9, as 28 x 28 bytes, light on dark. */
void ipu_digits_draw(uint32_t seed, int64_t i, int *label, uint8_t pixels[28 * 28]);
/* The same digit as if on paper: uint8 [size, size, 1], dark on light. `label` may be NULL. Owned: ipu_array_free.
 * Statuses: INVALID (size: 28 to 4096), OUT_OF_MEMORY. */
ipu_status ipu_digits_picture(uint32_t seed, int64_t i, int64_t size, int *label, ipu_array *out);

/* ---- pictures ---- */

/* A PNG file as uint8 [height, width, 1 or 3]: any size, depth and colour type; transparency is laid over white.
 * Owned: ipu_array_free. Statuses: IO, INVALID (no PNG, damaged), UNSUPPORTED (over 2^28 pixels). */
ipu_status ipu_png_read(const char *path, ipu_array *out);
/* uint8 [height, width, 1 or 3]; replaced at one stroke. */
ipu_status ipu_png_write(const char *path, const ipu_array *a);
/* A picture of any size made what networks trained on MNIST expect: uint8 [28, 28], light on dark (dark on light is
 * told by its border and turned), the figure in its box scaled into 20 x 20 by its longer side and placed by its
 * centre of mass; specks are removed and thin lines made as thick as MNIST's. A picture of 28 x 28 is only turned.
 * `picture` is uint8 [height, width] or [height, width, 1 or 3]. Owned: ipu_array_free. Statuses: INVALID (no such
 * array, nothing on it). */
ipu_status ipu_picture_digit(const ipu_array *picture, ipu_array *out);

#ifdef __cplusplus
}
#endif
#endif

/* Datasets: samples to train and test with.
 *
 * A sample has fields, such as a picture and its label; each is an array whose type and shape are the same for
 * all samples. A dataset either knows its number of samples and gives access to any of them (map-style), or
 * yields them one after another (iterable). Datasets read from files have two fields: "images", float [channels,
 * height, width] scaled according to the options, and "labels", int32 scalars.
 *
 *     ipu_dataset *train, *test;
 *     IPU_TRY(ipu_dataset_open("data/mnist", IPU_TRAIN, NULL, &train));
 *     IPU_TRY(ipu_dataset_open("data/mnist", IPU_TEST, NULL, &test));
 *
 * Datasets can also be made from memory or from functions. Loaders (ipu/loader.h) make batches of them. Any
 * number of threads may read a map-style dataset at once; an iterable one allows a single reader.
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
    /* Pixels from 0 to 255 become (x / 255 - mean) / std; `std` 0 means 1. `raw` leaves them as they are. */
    double mean, std;
    bool   raw;
    /* For folders and arrays without a split of their own: the share of samples, drawn with the fixed seed 0,
     * that becomes the test set. 0 means 1/6, as in MNIST. */
    double  test_share;
    int64_t most; /* only the first `most` samples; 0 for all */
} ipu_dataset_options;

/* The format is recognised from what is at `path`: a folder with MNIST's four IDX files (train-images-idx3-ubyte,
 * t10k-labels-idx1-ubyte, ..., with or without .gz); a folder with one folder of PNG files per class, or with
 * train/ and test/ containing such folders (classes are numbered in the order of their names); an .npz with
 * x_train, y_train, x_test, y_test as in Keras, or images and labels; a folder with .npy files of those names.
 * Uncompressed data are mapped rather than read. `options` may be NULL for the defaults. Owned:
 * ipu_dataset_destroy. Statuses: IO, NOT_FOUND (no known format at `path`; the message says what was looked for),
 * INVALID (a file is damaged; images and labels differ in number). */
ipu_status ipu_dataset_open(const char *path, ipu_dataset_part part, const ipu_dataset_options *options,
                            ipu_dataset **out);

/* Number of classes: one more than the largest label, or the number of class folders. 0 if unknown, because the
 * dataset has no integer field "labels" or is made of functions. */
int64_t ipu_dataset_n_classes(const ipu_dataset *d);

/* ---- from memory, from functions ---- */

/* Sample i is row i of each array. Names and arrays are borrowed until the dataset is destroyed. */
ipu_status ipu_dataset_from_arrays(const ipu_named_array *arrays, size_t n, ipu_dataset **out);

typedef struct ipu_dataset_functions {
    /* Map-style: write the fields of sample `i` to fields[0], fields[1], ... May be called by several threads
     * at once. */
    ipu_status (*get)(void *user, int64_t i, void *const *fields);
    /* Iterable: write the fields of the next sample, or set *end. Called by one thread at a time. */
    ipu_status (*next)(void *user, void *const *fields, bool *end);
    /* Iterable: start over, at each epoch (from 0). NULL if there is only one epoch. */
    ipu_status (*rewind)(void *user, int64_t epoch);
    void (*destroy)(void *user); /* may be NULL */
} ipu_dataset_functions;

/* Exactly one of `get` and `next` is set. `n_samples` may be -1 (unknown) for an iterable dataset. Field
 * descriptions are copied. `user` is destroyed with the dataset; after a failure it still belongs to the
 * caller. */
ipu_status ipu_dataset_create(const ipu_field *fields, size_t n_fields, int64_t n_samples,
                              ipu_dataset_functions functions, void *user, ipu_dataset **out);
void       ipu_dataset_destroy(ipu_dataset *d);

/* ---- asking ---- */

const char      *ipu_dataset_kind(const ipu_dataset *d); /* "IDX files", "arrays", ...: for display */
size_t           ipu_dataset_n_fields(const ipu_dataset *d);
const ipu_field *ipu_dataset_field_at(const ipu_dataset *d, size_t i); /* Borrowed. */
int64_t          ipu_dataset_n_samples(const ipu_dataset *d);          /* -1 if unknown */
bool             ipu_dataset_is_iterable(const ipu_dataset *d);
/* Map-style only. Statuses: INVALID (no such sample), those of `get`. */
ipu_status ipu_dataset_get(const ipu_dataset *d, int64_t i, void *const *fields);
/* Iterable only: one reader at a time. Statuses: INVALID, those of `next`. */
ipu_status ipu_dataset_next(ipu_dataset *d, void *const *fields, bool *end);
/* Start an epoch, from 0. Map-style datasets do not need this. Statuses: INVALID (a later epoch without
 * `rewind`), those of `rewind`. */
ipu_status ipu_dataset_rewind(ipu_dataset *d, int64_t epoch);

/* ---- synthetic handwritten digits, so that nothing needs to be downloaded ---- */

typedef struct ipu_digits_options {
    int64_t  n_train, n_test; /* 0 means 60000, 10000 */
    uint32_t seed;
} ipu_digits_options;

/* Draws digits (strokes with slant, width and wobble) as MNIST's four IDX files into `folder`, which is created if
 * needed; existing files of these names are replaced. Sample i depends only on the seed and i: training samples are
 * 0, 1, ..., test samples IPU_DIGITS_TEST, IPU_DIGITS_TEST + 1, ... `progress`, if not NULL, is called from the
 * calling thread now and then; returning false stops. Statuses: INVALID, IO, OUT_OF_MEMORY, INTERRUPTED (no file
 * was written). */
#define IPU_DIGITS_TEST INT64_C(0x100000000)
typedef bool (*ipu_dataset_progress_fn)(void *user, int64_t done, int64_t total);
ipu_status ipu_digits_write(const char *folder, const ipu_digits_options *options,
                            ipu_dataset_progress_fn progress, void *user);
/* One digit, 0 to 9, as 28 x 28 bytes, light on dark. */
void ipu_digits_draw(uint32_t seed, int64_t i, int *label, uint8_t pixels[28 * 28]);
/* The same digit as if drawn on paper: uint8 [size, size, 1], dark on light. `label` may be NULL. Owned:
 * ipu_array_free. Statuses: INVALID (size is not 28 to 4096), OUT_OF_MEMORY. */
ipu_status ipu_digits_picture(uint32_t seed, int64_t i, int64_t size, int *label, ipu_array *out);

/* ---- pictures ---- */

/* A PNG file as uint8 [height, width, 1 or 3], of any size, depth and colour type; transparency is blended over
 * white. Owned: ipu_array_free. Statuses: IO, INVALID (not a PNG, or damaged), UNSUPPORTED (over 2^28 pixels). */
ipu_status ipu_png_read(const char *path, ipu_array *out);
/* uint8 [height, width, 1 or 3]; the file is replaced atomically. */
ipu_status ipu_png_write(const char *path, const ipu_array *a);
/* Converts a picture of any size to what networks trained on MNIST expect: uint8 [28, 28], light on dark (dark on
 * light is recognised by its border and inverted), with the figure's bounding box scaled to fit 20 x 20 and placed
 * by its centre of mass. Specks are removed and thin lines thickened to match MNIST's. A 28 x 28 picture is only
 * inverted if needed. `picture` is uint8 [height, width] or [height, width, 1 or 3]. Owned: ipu_array_free.
 * Statuses: INVALID (not such an array, or blank). */
ipu_status ipu_picture_digit(const ipu_array *picture, ipu_array *out);

#ifdef __cplusplus
}
#endif
#endif

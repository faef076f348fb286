/* Datasets of pictures in memory: fields "images", float, and "labels", int32. Data stay as they are in files (a
 * byte per pixel); samples are converted to float on request. */
#ifndef IPU_DATA_IMAGE_SET_H
#define IPU_DATA_IMAGE_SET_H

#include "data/block.h"
#include "data/dataset.h"

/* What was found in files. All zero if nothing. */
typedef struct ipu__images {
    const char *kind;  /* of files, for display. Static */
    ipu_type    type;  /* of pixels: uint8, half, float or double */
    ipu_shape   shape; /* of a sample as provided: [channels, height, width], or any other */
    bool        channels_last;
    int64_t     n;
    const void *pixels;
    ipu__bytes  block;     /* the pixels */
    int32_t    *labels;    /* n of them. Owned */
    int64_t     n_classes; /* 0 means one more than the largest label */
    bool        undivided; /* not split into training and test set: to be drawn */
    char       *where;     /* file of the pixels, for messages; NULL for bytes. Owned */
} ipu__images;

void ipu__images_free(ipu__images *images);

/* Takes ownership of `images`, even on failure. `where` is for messages. */
ipu_status ipu__image_set_create(ipu__images *images, ipu_dataset_part part,
                                 const ipu_dataset_options *options, const char *where, ipu_dataset **out);

/* `n` labels from numbers of any type. Statuses: INVALID (negative, beyond int32, or not integers). */
ipu_status ipu__labels_take(const ipu_array *from, int64_t n, const char *where, int32_t **out);

/* Readers for each kind of files. Those with `found` check whether there are such files at all. */
ipu_status ipu__idx_pair_read(const char *images, const char *labels, ipu__images *out);
ipu_status ipu__npy_pair_read(const char *images, const char *labels, ipu__images *out);
ipu_status ipu__npz_read_images(const char *path, ipu_dataset_part part, ipu__images *out);
ipu_status ipu__image_folder_read(const char *path, ipu_dataset_part part, bool *found, ipu__images *out);

#endif

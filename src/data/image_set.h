/* Datasets of pictures in memory: fields "images", float, and "labels", int32. What files hold stays as it is there
 * (a byte for each pixel); samples are made floats when they are asked for. */
#ifndef IPU_DATA_IMAGE_SET_H
#define IPU_DATA_IMAGE_SET_H

#include "data/block.h"
#include "data/dataset.h"

/* What was found in files. All zero: nothing. */
typedef struct ipu__images {
    const char *kind;  /* of files, for people. Static */
    ipu_type    type;  /* of pixels: uint8, half, float or double */
    ipu_shape   shape; /* of a sample as it is given: [channels, height, width], or any other */
    bool        channels_last;
    int64_t     n;
    const void *pixels;
    ipu__bytes  block;     /* where they are */
    int32_t    *labels;    /* n of them. Owned */
    int64_t     n_classes; /* 0: one more than the largest label */
    bool        undivided; /* into training and test set: to be drawn */
    char       *where;     /* file of the pixels, for messages; NULL where they are bytes. Owned */
} ipu__images;

void ipu__images_free(ipu__images *images);

/* Owns `images` from now on, also when it fails. `where` is for messages. */
ipu_status ipu__image_set_create(ipu__images *images, ipu_dataset_part part,
                                 const ipu_dataset_options *options, const char *where, ipu_dataset **out);

/* Labels from numbers of any type, `n` of them. Statuses: INVALID (negative, beyond int32, no integers). */
ipu_status ipu__labels_take(const ipu_array *from, int64_t n, const char *where, int32_t **out);

/* Readers of each kind of files. Those with `found` look whether there are such files at all. */
ipu_status ipu__idx_pair_read(const char *images, const char *labels, ipu__images *out);
ipu_status ipu__npy_pair_read(const char *images, const char *labels, ipu__images *out);
ipu_status ipu__npz_read_images(const char *path, ipu_dataset_part part, ipu__images *out);
ipu_status ipu__image_folder_read(const char *path, ipu_dataset_part part, bool *found, ipu__images *out);

#endif

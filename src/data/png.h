/* PNG pictures in memory. Public half: ipu/dataset.h. */
#ifndef IPU_DATA_PNG_H
#define IPU_DATA_PNG_H

#include <stdbool.h>

#include "base/status.h"
#include "ipu/data.h"

/* ipu_png_read for a file in memory; `name` is for messages. */
ipu_status ipu__png_decode(const void *data, size_t bytes, const char *name, ipu_array *out);

/* From the first bytes of a file; reads nothing else. */
typedef struct ipu__png_size {
    int64_t height, width;
    int     n_channels; /* 1 or 3, as in ipu_png_read */
} ipu__png_size;
ipu_status ipu__png_measure(const char *path, ipu__png_size *out);

#endif

/* Datasets from within the library: one is a list of fields and the functions that give samples. */
#ifndef IPU_DATA_DATASET_H
#define IPU_DATA_DATASET_H

#include "base/status.h"
#include "ipu/dataset.h"

/* What only the library's own kinds know. */
typedef struct ipu__dataset_about {
    const char *kind; /* of static text */
    int64_t     n_classes;
    /* Sample i will be asked for soon: its memory may be fetched meanwhile. NULL: nothing to do. */
    void (*expect)(void *user, int64_t i);
} ipu__dataset_about;

ipu_status ipu__dataset_create(const ipu_field *fields, size_t n_fields, int64_t n_samples,
                               ipu_dataset_functions functions, void *user, ipu__dataset_about about,
                               ipu_dataset **out);

void ipu__dataset_expect(const ipu_dataset *d, int64_t i);

#endif

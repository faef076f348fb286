/* Datasets inside the library: a list of fields and functions that supply samples. */
#ifndef IPU_DATA_DATASET_H
#define IPU_DATA_DATASET_H

#include "base/status.h"
#include "ipu/dataset.h"

/* Additional properties of the library's own kinds. */
typedef struct ipu__dataset_about {
    const char *kind; /* static */
    int64_t     n_classes;
    /* Sample i will be requested soon, so its memory may be prefetched. May be NULL. */
    void (*expect)(void *user, int64_t i);
} ipu__dataset_about;

ipu_status ipu__dataset_create(const ipu_field *fields, size_t n_fields, int64_t n_samples,
                               ipu_dataset_functions functions, void *user, ipu__dataset_about about,
                               ipu_dataset **out);

void ipu__dataset_expect(const ipu_dataset *d, int64_t i);

#endif

/* Datasets from within the library: one is a list of fields and the functions that give samples. */
#ifndef IPU_DATA_DATASET_H
#define IPU_DATA_DATASET_H

#include "base/status.h"
#include "ipu/dataset.h"

/* As ipu_dataset_create, with the number of classes. After a failure `user` is still the caller's. */
ipu_status ipu__dataset_create(const ipu_field *fields, size_t n_fields, int64_t n_samples,
                               ipu_dataset_functions functions, void *user, int64_t n_classes,
                               ipu_dataset **out);

#endif

/* Host arrays.
 *
 *     ipu_array x;
 *     IPU_TRY(ipu_array_create(IPU_FLOAT, IPU_SHAPE(64, 784), &x));
 *     ((float *)x.data)[0] = 1;
 *     ipu_array_free(&x);
 *
 * An array is a plain struct that says all there is to say: elements are dense and row-major in the host's
 * format. An array that is all zero is empty and may be freed.
 */
#ifndef IPU_DATA_H
#define IPU_DATA_H

#include "ipu/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_array {
    ipu_type  type;
    ipu_shape shape;
    void     *data; /* NULL: empty. Owned by who made the array: ipu_array_free */
} ipu_array;

/* All elements zero. After a failure *out is empty.
 * Statuses: INVALID (no such type or shape, or more bytes than can be addressed), OUT_OF_MEMORY. */
ipu_status ipu_array_create(ipu_type type, ipu_shape shape, ipu_array *out);
/* Leaves it empty. */
void ipu_array_free(ipu_array *a);

/* 0 for an empty array. */
int64_t ipu_array_n_elements(const ipu_array *a);
size_t  ipu_array_bytes(const ipu_array *a);
/* Element `i` of the flat array, 0 <= i < n_elements. 64-bit integers are rounded. */
double ipu_array_value(const ipu_array *a, int64_t i);

#ifdef __cplusplus
}
#endif
#endif

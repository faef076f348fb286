/* Host arrays, and reading and writing them as files.
 *
 *     ipu_array x;
 *     IPU_TRY(ipu_array_create(IPU_FLOAT, IPU_SHAPE(64, 784), &x));
 *     ((float *)x.data)[0] = 1;
 *     IPU_TRY(ipu_array_write_npy("x.npy", &x));
 *     ipu_array_free(&x);
 *
 * An array is a plain struct with nothing hidden: elements are dense and row-major in the host's format. A
 * zero-initialised array is empty and may be freed.
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
    void     *data; /* NULL if empty. Owned by whoever made the array: ipu_array_free */
} ipu_array;

/* All elements are zero. On failure *out is empty. Statuses: INVALID (no such type or shape, or too large to
 * address), OUT_OF_MEMORY. */
ipu_status ipu_array_create(ipu_type type, ipu_shape shape, ipu_array *out);
/* Leaves the array empty. */
void ipu_array_free(ipu_array *a);

/* 0 for an empty array. */
int64_t ipu_array_n_elements(const ipu_array *a);
size_t  ipu_array_bytes(const ipu_array *a);
/* Element `i` of the flat array, 0 <= i < n_elements. 64-bit integers may be rounded. */
double ipu_array_value(const ipu_array *a, int64_t i);

/* ---- comparing ---- */

typedef struct ipu_array_difference {
    int64_t n;     /* elements that differ; -1 if types or shapes differ */
    int64_t first; /* index of the first in the flat array */
    double  expected, found, tolerance;
    int64_t worst; /* index of the one furthest beyond its tolerance */
} ipu_array_difference;

/* Whether all elements are within atol + rtol * |expected|, like numpy's assert_allclose: NaNs are equal, and so
 * are infinities of the same sign. `out` may be NULL. */
bool ipu_array_is_close(const ipu_array *expected, const ipu_array *found, double rtol, double atol,
                        ipu_array_difference *out);

/* ---- numpy's files: .npy holds one array, .npz several with names (np.savez) ----
 *
 * Reads versions 1 to 3, either byte order, C order and Fortran order (converted to C order). numpy has no
 * bfloat16: it is stored as two-byte raw data, `<V2`, as ml_dtypes does; np.load(f).view(np.uint16) gives the
 * bits. Strings, objects, complex numbers and structured types are UNSUPPORTED. A file whose size does not
 * match its header is INVALID. Writing replaces the file at `path` atomically, once it is complete.
 */
ipu_status ipu_array_read_npy(const char *path, ipu_array *out);
ipu_status ipu_array_write_npy(const char *path, const ipu_array *a);

typedef struct ipu_named_array {
    char     *name;
    ipu_array array;
} ipu_named_array;

typedef struct ipu_npz { /* empty if all zero */
    ipu_named_array *arrays;
    size_t           n;
} ipu_npz;

/* Skips archive entries not called NAME.npy. Owned: ipu_npz_free. */
ipu_status ipu_npz_read(const char *path, ipu_npz *out);
/* Reads one array of an archive. Statuses: also NOT_FOUND (the message lists the names). */
ipu_status ipu_array_read_npz(const char *path, const char *name, ipu_array *out);
/* Deterministic: equal arrays give identical files. */
ipu_status ipu_npz_write(const char *path, const ipu_named_array *arrays, size_t n, bool compress);
void       ipu_npz_free(ipu_npz *z);

#ifdef __cplusplus
}
#endif
#endif

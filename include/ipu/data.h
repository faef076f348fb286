/* Host arrays, and the files they come from and go to.
 *
 *     ipu_array x;
 *     IPU_TRY(ipu_array_create(IPU_FLOAT, IPU_SHAPE(64, 784), &x));
 *     ((float *)x.data)[0] = 1;
 *     IPU_TRY(ipu_array_write_npy("x.npy", &x));
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

/* ---- comparing ---- */

typedef struct ipu_array_difference {
    int64_t n;     /* elements that differ; -1: types or shapes do */
    int64_t first; /* the first of them, in the flat array */
    double  expected, found, tolerance;
    int64_t worst; /* the one farthest beyond its tolerance */
} ipu_array_difference;

/* Whether all elements are within atol + rtol * |expected|, as numpy's assert_allclose has it: NaNs are equal, and
 * infinities of one sign. `out` NULL: not told. */
bool ipu_array_is_close(const ipu_array *expected, const ipu_array *found, double rtol, double atol,
                        ipu_array_difference *out);

/* ---- numpy's files: .npy holds one array, .npz several with names (np.savez) ----
 *
 * Versions 1 to 3, either byte order, C order and Fortran order (which is made C order) are read. numpy has
 * no bfloat16: there it is raw data of two bytes, `<V2`, as ml_dtypes writes it; np.load(f).view(np.uint16)
 * gives its bits. Strings, objects, complex numbers and structured types are refused (UNSUPPORTED). A file that
 * holds more or less than it says is INVALID. What is written replaces the file at `path` only when all of it
 * is there.
 */
ipu_status ipu_array_read_npy(const char *path, ipu_array *out);
ipu_status ipu_array_write_npy(const char *path, const ipu_array *a);

typedef struct ipu_named_array {
    char     *name;
    ipu_array array;
} ipu_named_array;

typedef struct ipu_npz { /* all zero: empty */
    ipu_named_array *arrays;
    size_t           n;
} ipu_npz;

/* Entries of the archive that are not called NAME.npy are passed over. Owned: ipu_npz_free. */
ipu_status ipu_npz_read(const char *path, ipu_npz *out);
/* One of its arrays. Statuses: also NOT_FOUND, with the names there are. */
ipu_status ipu_array_read_npz(const char *path, const char *name, ipu_array *out);
/* Equal arrays make equal files. */
ipu_status ipu_npz_write(const char *path, const ipu_named_array *arrays, size_t n, bool compress);
void       ipu_npz_free(ipu_npz *z);

#ifdef __cplusplus
}
#endif
#endif

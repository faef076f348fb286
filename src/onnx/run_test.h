/* For tests: files in memory run through sessions, and what must come out, or the error that must. */
#ifndef IPU_ONNX_RUN_TEST_H
#define IPU_ONNX_RUN_TEST_H

#include <math.h>

#include "ipu/onnx.h"
#include "onnx/make_test.h"

/* A value that borrows `data`. */
static inline ipu_onnx_value value(ipu_type type, ipu_shape shape, const void *data)
{
    return (ipu_onnx_value){.kind = IPU_ONNX_ARRAY, .array = {type, shape, (void *)(uintptr_t)data}};
}
#define FLOATS(shape, ...) value(IPU_FLOAT, shape, (const float[]){__VA_ARGS__})
#define INT64(v) value(IPU_INT64, (ipu_shape){0}, (const int64_t[]){v})
#define BOOL(v) value(IPU_BOOL, (ipu_shape){0}, (const bool[]){v})
#define VALUES(...)                        \
    (const ipu_onnx_value[]){__VA_ARGS__}, \
        sizeof((const ipu_onnx_value[]){__VA_ARGS__}) / sizeof(ipu_onnx_value)

static inline ipu_onnx_session *session_of(bytes file, ipu_onnx **opened, const ipu_onnx_options *options)
{
    ipu_onnx_session *s;
    if (ipu_onnx_read(file.at, file.n, NULL, opened) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu_onnx_session_create(*opened, options, &s), IPU_OK);
    return s;
}

/* All outputs; the caller frees them. */
static inline void run_file(bytes file, const ipu_onnx_value *in, size_t n_in, ipu_onnx_value *out,
                            size_t n_out)
{
    ipu_onnx         *opened;
    ipu_onnx_session *s = session_of(file, &opened, NULL);
    if (ipu_onnx_session_run(s, in, n_in, out, n_out) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(opened);
}

static inline void assert_array(const ipu_onnx_value *v, ipu_shape shape, const double *expected)
{
    assert_int_equal(v->kind, IPU_ONNX_ARRAY);
    assert_int_equal(v->array.shape.rank, shape.rank);
    for (int i = 0; i < shape.rank; i++) assert_int_equal(v->array.shape.dim[i], shape.dim[i]);
    for (int64_t i = 0; i < ipu_array_n_elements(&v->array); i++) {
        double found = ipu_array_value(&v->array, i);
        if (fabs(found - expected[i]) > 1e-5 * fabs(expected[i]))
            fail_msg("element %lld is %g; expected %g", (long long)i, found, expected[i]);
    }
}
#define ASSERT_ARRAY(v, shape, ...) assert_array(v, shape, (const double[]){__VA_ARGS__})

/* Runs a file of one output, which must be this. */
#define EXPECT(file, in, shape, ...)              \
    do {                                          \
        ipu_onnx_value only_;                     \
        run_file(file, in, &only_, 1);            \
        ASSERT_ARRAY(&only_, shape, __VA_ARGS__); \
        ipu_onnx_value_free(&only_);              \
    } while (0)

/* Running (or reading) must fail so, with these words in the message. */
static inline void expect_error(bytes file, const ipu_onnx_value *in, size_t n_in, ipu_status status,
                                const char *words_of)
{
    ipu_onnx         *opened = NULL;
    ipu_onnx_session *s      = NULL;
    ipu_onnx_value    out[8] = {{0}};
    ipu_status        found  = ipu_onnx_read(file.at, file.n, NULL, &opened);
    if (found == IPU_OK) {
        assert_int_equal(ipu_onnx_session_create(opened, NULL, &s), IPU_OK);
        found = ipu_onnx_session_run(s, in, n_in, out, ipu_onnx_n_outputs(opened));
    }
    if (found != status || !strstr(ipu_message(), words_of))
        fail_msg("expected status %d and \"%s\"; found %d: %s", status, words_of, found, ipu_message());
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(opened);
}

#endif

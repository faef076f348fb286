/* ONNX files from anyone: reading, asking, importing and compiling give a result or an error with a sentence.
 *
 * Inputs that the file leaves open get small extents, and values where they decide shapes. What would be large once
 * compiled is not compiled: memory is what a user asked for then.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "ipu/onnx.h"
#include "model/model.h"
#include "onnx/import/import.h"
#include "protobuf.h"

enum { MOST_PORTS = 16, MOST_ELEMENTS = 1 << 16, MOST_OPS = 2000 };

static void stop(const char *why)
{
    fprintf(stderr, "%s: %s\n", why, ipu_message());
    abort();
}

static void check_message(ipu_status status)
{
    if (status != IPU_OK && !*ipu_message()) stop("an error without a message");
}

/* ---- inputs ---- */

static int64_t elements(const ipu_shape *shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape->rank; i++)
        if (__builtin_mul_overflow(n, shape->dim[i], &n)) return INT64_MAX;
    return n;
}

/* One of the port's type: ones, in dimensions of 2 where it tells none. False: it cannot be small. */
static bool make_array(const ipu_onnx_port *port, ipu_array *out)
{
    ipu_shape shape = {.rank = port->rank < 0 ? 1 : port->rank};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = port->rank < 0 || port->shape.dim[i] < 0 ? 2 : port->shape.dim[i];
    if (elements(&shape) > MOST_ELEMENTS || ipu_array_create(port->type, shape, out) != IPU_OK) return false;
    size_t each = ipu_type_size(out->type), bytes = ipu_array_bytes(out);
    for (size_t i = 0; i < bytes; i += each) ((unsigned char *)out->data)[i] = 1;
    return true;
}

static bool make_input(const ipu_onnx_port *port, ipu_onnx_value *out)
{
    out->kind = port->kind;
    if (port->kind == IPU_ONNX_ARRAY) return make_array(port, &out->array);
    if (port->kind != IPU_ONNX_SEQUENCE) return port->is_optional;
    out->items = ipu__alloc_zeroed(2 * sizeof *out->items);
    if (!out->items) return false;
    for (out->n_items = 0; out->n_items < 2; out->n_items++) {
        out->items[out->n_items].kind = IPU_ONNX_ARRAY;
        if (!make_array(port, &out->items[out->n_items].array)) return false;
    }
    return true;
}

/* ---- asking ---- */

static void ask(const ipu_onnx *file)
{
    ipu_onnx_info     info;
    ipu_onnx_op_count op;
    ipu_onnx_port     port;
    const char       *key, *text;
    ipu_onnx_get_info(file, &info);
    for (size_t i = 0; i < info.n_metadata; i++) ipu_onnx_metadata_at(file, i, &key, &text);
    for (size_t i = 0; ipu_onnx_op_count_at(file, i, &op); i++)
        if (!op.name || !op.domain) stop("an op without a name");
    for (size_t i = 0; i < ipu_onnx_n_outputs(file); i++) ipu_onnx_output_at(file, i, &port);
}

/* ---- compiling ---- */

static bool is_small(const ipu_model *m)
{
    int64_t all = 0;
    if (m->ops.n > MOST_OPS) return false;
    for (size_t i = 1; i < m->values.n; i++) {
        int64_t n = elements(&m->base.values.at[i].shape);
        if (n > MOST_ELEMENTS) return false;
        all += n;
    }
    return all < 16 * MOST_ELEMENTS;
}

/* Imports with the inputs that decide shapes known, as a session does, and again with them known from the first;
 * compiles what is small. */
static void import(ipu_onnx *file, const ipu_onnx_value *in, size_t n)
{
    bool             fixed[MOST_PORTS] = {false};
    ipu_onnx_options options           = {.inputs = in, .n_inputs = n};
    for (int turn = 0; turn < 2; turn++) {
        ipu__imported result;
        ipu_status    status = ipu__onnx_import(file, &options, NULL, fixed, &result);
        check_message(status);
        if (status == IPU_OK && ipu__model_verify(result.m) != IPU_OK) stop("the model is not valid");
        if (status == IPU_OK && is_small(result.m)) {
            ipu_target      target;
            ipu_executable *exe = NULL;
            if (ipu_target_find("gc200", 1, &target) != IPU_OK) stop("no target");
            check_message(ipu_model_compile(result.m, &target, NULL, &exe));
            ipu_executable_release(exe);
        }
        ipu__imported_fini(&result);
        if (!memchr(fixed, true, n)) return;
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes)
{
    ipu_onnx      *file;
    ipu_onnx_value in[MOST_PORTS] = {{0}};
    ipu_status     status         = ipu_onnx_read(data, bytes, NULL, &file);
    check_message(status);
    if (status != IPU_OK) return 0;
    ask(file);
    size_t n  = ipu_onnx_n_inputs(file);
    bool   ok = n <= MOST_PORTS;
    for (size_t i = 0; ok && i < n; i++) {
        ipu_onnx_port port;
        ipu_onnx_input_at(file, i, &port);
        ok = make_input(&port, &in[i]);
    }
    if (ok) import(file, in, n);
    for (size_t i = 0; i < MOST_PORTS; i++) ipu_onnx_value_free(&in[i]);
    ipu_onnx_close(file);
    return 0;
}

/* ---- mutation ---- */

/* Names that mean something to the importer, besides those of the file itself. */
static const char *word(unsigned *seed)
{
    static const char *const words[] = {"",     "x",       "y",        "axis", "axes",       "keepdims",
                                        "to",   "value",   "body",     "perm", "mode",       "shape",
                                        "pads", "strides", "CONSTANT", "edge", "SAME_UPPER", "location",
                                        "k",    "split",   "ai.onnx"};
    const char              *domain, *name;
    if (rand_r(seed) % 2 && ipu_onnx_known_op_at((size_t)rand_r(seed) % 300, &domain, &name)) return name;
    return words[(size_t)rand_r(seed) % (sizeof words / sizeof *words)];
}

size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t bytes, size_t max_bytes, unsigned seed)
{
    return mutate_message(&ipu__model_proto__descriptor, data, bytes, max_bytes, seed, word);
}

size_t LLVMFuzzerCustomCrossOver(const unsigned char *a, size_t a_bytes, const unsigned char *b,
                                 size_t b_bytes, unsigned char *out, size_t max_bytes, unsigned seed)
{
    return cross_messages(&ipu__model_proto__descriptor, a, a_bytes, b, b_bytes, out, max_bytes, seed);
}

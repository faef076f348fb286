/* Decoding tensors: raw bytes, typed lists, and files beside the model. */
#include "onnx/tensor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

/* X(number in onnx.proto, our type) */
#define TYPES(X)  \
    X(1, FLOAT)   \
    X(2, UINT8)   \
    X(3, INT8)    \
    X(4, UINT16)  \
    X(5, INT16)   \
    X(6, INT32)   \
    X(7, INT64)   \
    X(9, BOOL)    \
    X(10, HALF)   \
    X(11, DOUBLE) \
    X(12, UINT32) \
    X(13, UINT64) \
    X(16, BFLOAT16)

ipu_type ipu__onnx_type(int32_t data_type)
{
    switch (data_type) {
#define X(number, type) \
    case number: return IPU_##type;
        TYPES(X)
#undef X
    default: return IPU_N_TYPES;
    }
}

int32_t ipu__onnx_type_number(ipu_type type)
{
    switch (type) {
#define X(number, type) \
    case IPU_##type: return number;
        TYPES(X)
#undef X
    default: return 0;
    }
}

const char *ipu__onnx_type_name(int32_t data_type)
{
    if (data_type == 8) return "string";
    if (data_type == 14) return "complex64";
    if (data_type == 15) return "complex128";
    if (data_type == 0) return "undefined";
    return ipu_type_name(ipu__onnx_type(data_type));
}

static const char *name_of(const Ipu__TensorProto *t) { return t->name ? t->name : ""; }

ipu_status ipu__tensor_shape(const Ipu__TensorProto *t, ipu_shape *out)
{
    if (t->n_dims > IPU_MAX_RANK)
        return ipu__fail(IPU_UNSUPPORTED, "tensor \"%s\" has %zu dimensions; at most %d are supported",
                         name_of(t), t->n_dims, IPU_MAX_RANK);
    *out      = (ipu_shape){.rank = (int)t->n_dims};
    int64_t n = 1;
    for (size_t i = 0; i < t->n_dims; i++) {
        out->dim[i] = t->dims[i];
        if (t->dims[i] < 0)
            return ipu__fail(IPU_INVALID, "tensor \"%s\": dimension %zu is %lld; expected 0 or more",
                             name_of(t), i, (long long)t->dims[i]);
        if (__builtin_mul_overflow(n, t->dims[i] ? t->dims[i] : 1, &n) || n > PTRDIFF_MAX / 16)
            return ipu__fail(IPU_INVALID, "tensor \"%s\" has too many elements to count", name_of(t));
    }
    return IPU_OK;
}

static ipu_status wrong_length(const Ipu__TensorProto *t, size_t expected, size_t found, const char *unit)
{
    return ipu__fail(IPU_INVALID, "tensor \"%s\": expected %zu %s for its shape and type, found %zu",
                     name_of(t), expected, unit, found);
}

/* ---- external data ---- */

static const char *entry(const Ipu__TensorProto *t, const char *key)
{
    for (size_t i = 0; i < t->n_external_data; i++) {
        const Ipu__StringStringEntryProto *e = t->external_data[i];
        if (e->key && strcmp(e->key, key) == 0) return e->value;
    }
    return NULL;
}

static ipu_status entry_number(const Ipu__TensorProto *t, const char *key, int64_t otherwise, int64_t *out)
{
    const char *text = entry(t, key);
    *out             = otherwise;
    if (!text) return IPU_OK;
    char *end;
    errno = 0;
    *out  = strtoll(text, &end, 10);
    if (errno || end == text || *end || *out < 0)
        return ipu__fail(IPU_INVALID,
                         "tensor \"%s\": %s of its external data is \"%.40s\"; expected a number", name_of(t),
                         key, text);
    return IPU_OK;
}

static ipu_status outside(const Ipu__TensorProto *t, const char *location)
{
    return ipu__fail(
        IPU_INVALID,
        "tensor \"%s\": its data are in \"%.200s\", outside the model's folder, which is refused", name_of(t),
        location);
}

/* The file, which after all links is still in the folder. */
static ipu_status open_external(const Ipu__TensorProto *t, const char *folder, int *fd)
{
    const char *location = entry(t, "location");
    if (!location || !*location)
        return ipu__fail(IPU_INVALID, "tensor \"%s\": external data without a location", name_of(t));
    if (!folder)
        return ipu__fail(IPU_INVALID,
                         "tensor \"%s\" is in the file \"%.200s\", but the model was not read from a folder",
                         name_of(t), location);
    if (location[0] == '/') return outside(t, location);
    char path[PATH_MAX], real_folder[PATH_MAX], real_path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", *folder ? folder : ".", location) >= (int)sizeof path
        || !realpath(*folder ? folder : ".", real_folder) || !realpath(path, real_path))
        return ipu__fail(IPU_IO, "tensor \"%s\": its data should be in \"%.200s\" beside the model: %s",
                         name_of(t), location, strerror(errno));
    size_t n         = strlen(real_folder);
    bool   is_inside = strncmp(real_path, real_folder, n) == 0
                  && (real_path[n] == '/' || strcmp(real_folder, "/") == 0);
    if (!is_inside) return outside(t, location);
    *fd = open(real_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*fd < 0)
        return ipu__fail(IPU_IO, "tensor \"%s\": cannot open \"%.200s\": %s", name_of(t), location,
                         strerror(errno));
    return IPU_OK;
}

/* Memory is taken once it is clear that the file holds as much. */
static ipu_status read_data(const Ipu__TensorProto *t, int fd, size_t bytes, const ipu_shape *shape,
                            ipu_array *out)
{
    int64_t     offset, length;
    struct stat info;
    IPU_TRY(entry_number(t, "offset", 0, &offset));
    IPU_TRY(entry_number(t, "length", (int64_t)bytes, &length));
    if ((size_t)length != bytes) return wrong_length(t, bytes, (size_t)length, "bytes of external data");
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return ipu__fail(IPU_IO, "tensor \"%s\": its external data are in no regular file", name_of(t));
    if (offset > info.st_size || length > info.st_size - offset)
        return ipu__fail(
            IPU_INVALID,
            "tensor \"%s\": %lld bytes from %lld on of its external data are wanted, the file has %lld",
            name_of(t), (long long)length, (long long)offset, (long long)info.st_size);
    IPU_TRY(ipu_array_create(ipu__onnx_type(t->data_type), *shape, out));
    /* Not mapped: a file that is cut short meanwhile would end the process. */
    for (size_t n = 0; n < bytes;) {
        ssize_t got = pread(fd, (char *)out->data + n, bytes - n, offset + (off_t)n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return ipu__fail(IPU_IO, "tensor \"%s\": cannot read its external data: %s", name_of(t),
                             got < 0 ? strerror(errno) : "the file has become shorter");
        n += (size_t)got;
    }
    return IPU_OK;
}

static ipu_status read_external(const Ipu__TensorProto *t, const char *folder, size_t bytes,
                                const ipu_shape *shape, ipu_array *out)
{
    int fd;
    IPU_TRY(open_external(t, folder, &fd));
    ipu_status status = read_data(t, fd, bytes, shape, out);
    close(fd);
    return status;
}

/* ---- typed lists ---- */

#define COPY_LIST(list, C)                                                                  \
    do {                                                                                    \
        if (t->n_##list != n) return wrong_length(t, n, t->n_##list, "elements in " #list); \
        for (size_t i = 0; i < n; i++) ((C *)out->data)[i] = (C)t->list[i];                 \
        return IPU_OK;                                                                      \
    } while (0)

static ipu_status read_list(const Ipu__TensorProto *t, ipu_array *out)
{
    size_t n = ipu_array_bytes(out) / ipu_type_size(out->type);
    switch (out->type) {
    case IPU_FLOAT: COPY_LIST(float_data, float);
    case IPU_DOUBLE: COPY_LIST(double_data, double);
    case IPU_INT64: COPY_LIST(int64_data, int64_t);
    case IPU_UINT64: COPY_LIST(uint64_data, uint64_t);
    case IPU_UINT32: COPY_LIST(uint64_data, uint32_t);
    case IPU_INT32: COPY_LIST(int32_data, int32_t);
    case IPU_INT16: COPY_LIST(int32_data, int16_t);
    case IPU_INT8: COPY_LIST(int32_data, int8_t);
    case IPU_UINT8: COPY_LIST(int32_data, uint8_t);
    case IPU_BOOL: COPY_LIST(int32_data, bool);
    case IPU_UINT16: /* the other two as their bits */
    case IPU_HALF:
    case IPU_BFLOAT16: COPY_LIST(int32_data, uint16_t);
    default: return ipu__fail(IPU_UNSUPPORTED, "tensor \"%s\": no such type", name_of(t));
    }
}

static ipu_status read_raw(const Ipu__TensorProto *t, ipu_array *out)
{
    size_t bytes = ipu_array_bytes(out);
    if (t->raw_data.len != bytes) return wrong_length(t, bytes, t->raw_data.len, "bytes of raw data");
    if (bytes) memcpy(out->data, t->raw_data.data, bytes);
    return IPU_OK;
}

ipu_status ipu__tensor_array(const Ipu__TensorProto *t, const char *folder, ipu_array *out)
{
    ipu_shape shape;
    ipu_type  type        = ipu__onnx_type(t->data_type);
    bool      is_external = ipu__tensor_is_external(t);
    *out                  = (ipu_array){0};
    if (type == IPU_N_TYPES)
        return ipu__fail(IPU_UNSUPPORTED, "tensor \"%s\" is of type %s, which is not supported", name_of(t),
                         ipu__onnx_type_name(t->data_type));
    if (t->segment) return ipu__fail(IPU_UNSUPPORTED, "tensor \"%s\" is given in segments", name_of(t));
    IPU_TRY(ipu__tensor_shape(t, &shape));
    /* Before memory is taken for what a few bytes claim. */
    size_t bytes = ipu_type_size(type);
    for (int i = 0; i < shape.rank; i++) bytes *= (size_t)shape.dim[i];
    if (!is_external && t->has_raw_data && t->raw_data.len != bytes)
        return wrong_length(t, bytes, t->raw_data.len, "bytes of raw data");
    size_t listed = t->n_float_data + t->n_int32_data + t->n_int64_data + t->n_double_data + t->n_uint64_data;
    if (!is_external && !t->has_raw_data && listed != bytes / ipu_type_size(type))
        return wrong_length(t, bytes / ipu_type_size(type), listed, "elements");
    if (!is_external) IPU_TRY(ipu_array_create(type, shape, out));
    ipu_status status = is_external     ? read_external(t, folder, bytes, &shape, out)
                      : t->has_raw_data ? read_raw(t, out)
                                        : read_list(t, out);
    if (status != IPU_OK) ipu_array_free(out);
    if (type == IPU_BOOL && status == IPU_OK) /* any byte may stand there; a bool has two values */
        for (size_t i = 0; i < bytes; i++) ((uint8_t *)out->data)[i] = ((uint8_t *)out->data)[i] != 0;
    return status;
}

bool ipu__tensor_view(const Ipu__TensorProto *t, ipu_array *out)
{
    ipu_type type = ipu__onnx_type(t->data_type);
    bool     can  = type != IPU_N_TYPES && type != IPU_BOOL && t->has_raw_data && t->raw_data.len > 0
            && !t->segment && !ipu__tensor_is_external(t);
    *out = (ipu_array){0};
    if (!can || ipu__tensor_shape(t, &out->shape) != IPU_OK) return false;
    out->type    = type;
    out->data    = t->raw_data.data;
    size_t bytes = ipu_type_size(type);
    for (int i = 0; i < out->shape.rank; i++) bytes *= (size_t)out->shape.dim[i];
    return t->raw_data.len == bytes;
}

/* ---- every tensor of a message ---- */

static bool list_graph(ipu__tensor_list *list, const Ipu__GraphProto *g);

static bool list_nodes(ipu__tensor_list *list, Ipu__NodeProto *const *nodes, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
            const Ipu__AttributeProto *a = nodes[i]->attribute[k];
            if (a->t) ok &= ipu__push(list, a->t);
            if (a->g) ok &= list_graph(list, a->g);
            for (size_t t = 0; t < a->n_tensors; t++) ok &= ipu__push(list, a->tensors[t]);
            for (size_t g = 0; g < a->n_graphs; g++) ok &= list_graph(list, a->graphs[g]);
        }
    return ok;
}

static bool list_graph(ipu__tensor_list *list, const Ipu__GraphProto *g)
{
    bool ok = list_nodes(list, g->node, g->n_node);
    for (size_t i = 0; i < g->n_initializer; i++) ok &= ipu__push(list, g->initializer[i]);
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        const Ipu__SparseTensorProto *t = g->sparse_initializer[i];
        if (t->values) ok &= ipu__push(list, t->values);
        if (t->indices) ok &= ipu__push(list, t->indices);
    }
    return ok;
}

bool ipu__tensors_of(const Ipu__ModelProto *proto, ipu__tensor_list *list)
{
    bool ok = list_graph(list, proto->graph);
    for (size_t i = 0; i < proto->n_functions; i++)
        ok &= list_nodes(list, proto->functions[i]->node, proto->functions[i]->n_node);
    return ok;
}

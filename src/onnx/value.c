/* Values on the host: reading the messages of ONNX test data, freeing. */
#include <string.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "ipu/onnx.h"
#include "onnx/file.h"
#include "onnx/tensor.h"
#include "onnx/wire.h"
#include "onnx_data.pb-c.h"

void ipu_onnx_value_free(ipu_onnx_value *v)
{
    ipu_array_free(&v->array);
    for (size_t i = 0; i < v->n_items; i++) ipu_onnx_value_free(&v->items[i]);
    ipu__free(v->items);
    *v = (ipu_onnx_value){0};
}

static ipu_status from_tensor(const Ipu__TensorProto *t, ipu_onnx_value *out)
{
    IPU_TRY(ipu__tensor_array(t, NULL, &out->array));
    out->kind = IPU_ONNX_ARRAY;
    return IPU_OK;
}

static ipu_status from_sequence(const Ipu__SequenceProto *s, ipu_onnx_value *out)
{
    out->kind  = IPU_ONNX_SEQUENCE;
    size_t n   = s->n_tensor_values + s->n_sequence_values;
    out->items = ipu__alloc_zeroed((n + 1) * sizeof *out->items);
    if (!out->items) return ipu__fail_memory();
    for (size_t i = 0; i < s->n_tensor_values; i++)
        IPU_TRY(from_tensor(s->tensor_values[i], &out->items[out->n_items++]));
    for (size_t i = 0; i < s->n_sequence_values; i++)
        IPU_TRY(from_sequence(s->sequence_values[i], &out->items[out->n_items++]));
    if (s->n_sparse_tensor_values || s->n_optional_values)
        return ipu__fail(IPU_UNSUPPORTED, "a sequence of sparse tensors or optionals");
    return IPU_OK;
}

static ipu_status from_optional(const Ipu__OptionalProto *o, ipu_onnx_value *out)
{
    if (o->tensor_value) return from_tensor(o->tensor_value, out);
    if (o->sequence_value) return from_sequence(o->sequence_value, out);
    if (o->optional_value) return from_optional(o->optional_value, out);
    if (o->sparse_tensor_value) return ipu__fail(IPU_UNSUPPORTED, "an optional sparse tensor");
    return IPU_OK;
}

/* READ(message, its function): checked, unpacked, made a value, freed. */
#define READ(proto, from)                                                                              \
    do {                                                                                               \
        IPU_TRY(ipu__wire_check(&ipu__##proto##__descriptor, data, bytes));                            \
        void *message = ipu__##proto##__unpack(&ipu__onnx_allocator, bytes, data);                     \
        if (!message)                                                                                  \
            return ipu__fail(IPU_INVALID, "it holds no value of the kind that \"%s\" is", port->name); \
        ipu_status status = from(message, out);                                                        \
        ipu__##proto##__free_unpacked(message, &ipu__onnx_allocator);                                  \
        return status;                                                                                 \
    } while (0)

static ipu_status read_value(const void *data, size_t bytes, const ipu_onnx_port *port, ipu_onnx_value *out)
{
    if (port->is_optional) READ(optional_proto, from_optional);
    if (port->kind == IPU_ONNX_SEQUENCE) READ(sequence_proto, from_sequence);
    READ(tensor_proto, from_tensor);
}

ipu_status ipu_onnx_value_read(const void *data, size_t bytes, const ipu_onnx_port *port, ipu_onnx_value *out)
{
    *out              = (ipu_onnx_value){0};
    ipu_status status = read_value(data, bytes, port, out);
    if (status != IPU_OK) ipu_onnx_value_free(out);
    /* numpy has no bfloat16: test data hold its bits. */
    bool is_bits = port->has_type && port->type == IPU_BFLOAT16 && out->array.type == IPU_UINT16;
    if (out->kind == IPU_ONNX_ARRAY && is_bits) out->array.type = IPU_BFLOAT16;
    return status;
}

ipu_status ipu_onnx_value_open(const char *path, const ipu_onnx_port *port, ipu_onnx_value *out)
{
    char  *data;
    size_t bytes;
    *out = (ipu_onnx_value){0};
    IPU_TRY(ipu__file_read(path, (size_t)2 << 30, &data, &bytes));
    ipu_status status = ipu_onnx_value_read(data, bytes, port, out);
    ipu__free(data);
    return status == IPU_OK ? status : ipu__fail(status, "%s: %s", path, ipu_message());
}

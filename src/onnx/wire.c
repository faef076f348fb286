/* A walk over protobuf's wire format: tags, varints and lengths, guided by protobuf-c's own descriptors. */
#include "onnx/wire.h"

#include <stdbool.h>

enum {
    MOST_DEPTH = 100, /* messages within messages; a subgraph takes three */
    /* What unpacking may take beyond a multiple of the file, so that small files may hold many small messages. */
    FREE_BYTES  = 64 << 20,
    MOST_GROWTH = 32
};

typedef struct walk {
    uint64_t taken, most; /* bytes that unpacked structures will have */
} walk;

static ipu_status malformed(const char *what)
{
    return ipu__fail(IPU_INVALID, "not a valid protobuf message: %s; the file is damaged or no ONNX file",
                     what);
}

static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

static ipu_status walk_message(walk *w, const ProtobufCMessageDescriptor *message, const uint8_t *at,
                               const uint8_t *end, int depth);

static ipu_status walk_block(walk *w, const ProtobufCFieldDescriptor *field, const uint8_t *at,
                             uint64_t bytes, int depth)
{
    /* Packed varints of one byte become numbers of eight. */
    bool is_text = !field || field->type == PROTOBUF_C_TYPE_BYTES || field->type == PROTOBUF_C_TYPE_STRING;
    w->taken += is_text || field->type == PROTOBUF_C_TYPE_MESSAGE ? bytes : 8 * bytes;
    if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE) return IPU_OK;
    return walk_message(w, field->descriptor, at, at + bytes, depth + 1);
}

static ipu_status walk_field(walk *w, const ProtobufCMessageDescriptor *message, const uint8_t **at,
                             const uint8_t *end, int depth)
{
    uint64_t tag, value;
    if (!read_varint(at, end, &tag) || tag >> 3 == 0 || tag > UINT32_MAX)
        return malformed("a tag that is none");
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(message,
                                                                                    (unsigned)(tag >> 3));
    w->taken += 16;
    switch (tag & 7) {
    case 0: return read_varint(at, end, &value) ? IPU_OK : malformed("a number without end");
    case 1: value = 8; break;
    case 5: value = 4; break;
    case 2: {
        if (!read_varint(at, end, &value) || value > (uint64_t)(end - *at))
            return malformed("something is longer than what holds it");
        const uint8_t *block = *at;
        *at += value;
        return walk_block(w, field, block, value, depth);
    }
    default: return malformed("a field of a kind that does not exist");
    }
    if (value > (uint64_t)(end - *at)) return malformed("it ends within a number");
    *at += value;
    return IPU_OK;
}

static ipu_status walk_message(walk *w, const ProtobufCMessageDescriptor *message, const uint8_t *at,
                               const uint8_t *end, int depth)
{
    if (depth > MOST_DEPTH)
        return ipu__fail(IPU_INVALID, "%s: messages are nested more than %d deep; no real model is",
                         message->name, MOST_DEPTH);
    w->taken += message->sizeof_message;
    while (at < end) IPU_TRY(walk_field(w, message, &at, end, depth));
    if (w->taken > w->most)
        return ipu__fail(
            IPU_INVALID,
            "it would take over %llu MiB unpacked, too much for its size: the file is not a real model",
            (unsigned long long)(w->most >> 20));
    return IPU_OK;
}

ipu_status ipu__wire_check(const ProtobufCMessageDescriptor *message, const uint8_t *data, size_t bytes)
{
    walk w = {.most = (uint64_t)bytes * MOST_GROWTH + FREE_BYTES};
    if (bytes > INT32_MAX)
        return ipu__fail(IPU_INVALID,
                         "%zu bytes: a protobuf message has at most 2 GiB; keep tensors as external data",
                         bytes);
    return walk_message(&w, message, data, data + bytes, 0);
}

/* protobuf-c copies all bytes that it unpacks, large tensors as well. So these are left out of what it is given: the
 * message is written again without the raw data of large initializers, which are then pointed to where they lie.
 * Bytes have been checked (wire.h): every length is within what holds it. */
#include "onnx/borrow.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

enum {
    LEAST     = 4096, /* bytes of a tensor that are worth it */
    GRAPH     = 7,    /* field numbers: of a ModelProto, */
    TENSOR    = 5,    /* initializers of its GraphProto, */
    RAW       = 9,    /* raw data of a TensorProto */
    DELIMITED = 2     /* wire type */
};

typedef struct piece {
    const uint8_t *at, *end;
} piece;

/* A field with its tag; of those that have a length, the content. */
typedef struct field {
    uint64_t number;
    unsigned wire;
    piece    whole, content;
} field;

static uint64_t take_varint(piece *p)
{
    uint64_t value = 0;
    for (int shift = 0; p->at < p->end && shift < 64; shift += 7) {
        uint8_t byte = *p->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) break;
    }
    return value;
}

static void skip(piece *p, uint64_t bytes)
{
    uint64_t left = (uint64_t)(p->end - p->at);
    p->at += bytes < left ? bytes : left;
}

static bool next_field(piece *p, field *f)
{
    if (p->at >= p->end) return false;
    f->whole.at  = p->at;
    uint64_t tag = take_varint(p);
    f->number    = tag >> 3;
    f->wire      = tag & 7;
    if (f->wire == 0) take_varint(p);
    if (f->wire == 1) skip(p, 8);
    if (f->wire == 5) skip(p, 4);
    uint64_t bytes = f->wire == DELIMITED ? take_varint(p) : 0;
    f->content.at  = p->at;
    skip(p, bytes);
    f->whole.end = f->content.end = p->at;
    return true;
}

static bool is_block(const field *f, unsigned number) { return f->wire == DELIMITED && f->number == number; }
static size_t length(piece p) { return (size_t)(p.end - p.at); }

/* ---- the message without them ---- */

typedef IPU__ARRAY(uint8_t) byte_list;

typedef struct borrowed {
    size_t index; /* of the initializer */
    piece  data;
} borrowed;

typedef struct cutting {
    byte_list graph, model; /* written again */
    IPU__ARRAY(borrowed) list;
    size_t n_tensors;
    bool   failed; /* memory */
} cutting;

static void put(cutting *c, byte_list *to, piece p)
{
    if (!ipu__reserve(to, length(p) + 1) || !to->at) {
        c->failed = true;
        return;
    }
    memcpy(to->at + to->n, p.at, length(p));
    to->n += length(p);
}

static void put_varint(cutting *c, byte_list *to, uint64_t value)
{
    do {
        uint8_t byte = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
        if (!ipu__push(to, byte)) c->failed = true;
        value >>= 7;
    } while (value);
}

static void put_header(cutting *c, byte_list *to, unsigned number, size_t bytes)
{
    put_varint(c, to, (uint64_t)number << 3 | DELIMITED);
    put_varint(c, to, bytes);
}

/* The only field of raw data, if it is large. */
static bool find_raw(piece tensor, field *raw)
{
    field  f;
    size_t n = 0;
    while (next_field(&tensor, &f))
        if (f.number == RAW) {
            *raw = f;
            n++;
        }
    return n == 1 && raw->wire == DELIMITED && length(raw->content) >= LEAST;
}

static void cut_tensor(cutting *c, const field *f)
{
    field raw;
    c->n_tensors++;
    if (!find_raw(f->content, &raw)) {
        put(c, &c->graph, f->whole);
        return;
    }
    piece before = {f->content.at, raw.whole.at}, behind = {raw.whole.end, f->content.end};
    put_header(c, &c->graph, TENSOR, length(before) + length(behind));
    put(c, &c->graph, before);
    put(c, &c->graph, behind);
    if (!ipu__push(&c->list, ((borrowed){c->n_tensors - 1, raw.content}))) c->failed = true;
}

/* The fields around the graph are copied as they are. */
static void cut_model(cutting *c, piece model, const field *graph)
{
    piece before = {model.at, graph->whole.at}, behind = {graph->whole.end, model.end},
          inside = graph->content;
    field f;
    while (next_field(&inside, &f))
        if (is_block(&f, TENSOR))
            cut_tensor(c, &f);
        else
            put(c, &c->graph, f.whole);
    put(c, &c->model, before);
    put_header(c, &c->model, GRAPH, c->graph.n);
    put(c, &c->model, (piece){c->graph.at, c->graph.at + c->graph.n});
    put(c, &c->model, behind);
}

/* Several would be merged: left to protobuf-c. */
static bool find_graph(piece model, field *graph)
{
    field  f;
    size_t n = 0;
    while (next_field(&model, &f))
        if (f.number == GRAPH) {
            *graph = f;
            n++;
        }
    return n == 1 && graph->wire == DELIMITED;
}

/* ---- unpacking ---- */

static void attach(ipu_onnx *file, const cutting *c)
{
    for (size_t i = 0; i < c->list.n; i++) {
        Ipu__TensorProto *t = file->proto->graph->initializer[c->list.at[i].index];
        t->has_raw_data     = true;
        t->raw_data.len     = length(c->list.at[i].data);
        t->raw_data.data    = (uint8_t *)(uintptr_t)c->list.at[i].data.at;
    }
}

ipu_status ipu__onnx_unpack(ipu_onnx *file)
{
    piece   all = {file->data, file->data + file->n_data};
    field   graph;
    cutting c = {0};
    if (find_graph(all, &graph)) cut_model(&c, all, &graph);
    if (c.list.n > 0 && !c.failed) {
        file->proto = ipu__model_proto__unpack(&ipu__onnx_allocator, c.model.n, c.model.at);
        if (file->proto) attach(file, &c);
    } else if (!c.failed) {
        file->proto = ipu__model_proto__unpack(&ipu__onnx_allocator, file->n_data, file->data);
    }
    ipu_status status = c.failed ? ipu__fail_memory() : IPU_OK;
    ipu__array_fini(&c.graph);
    ipu__array_fini(&c.model);
    ipu__array_fini(&c.list);
    if (status != IPU_OK || file->proto) return status;
    return ipu__fail(IPU_INVALID, "its fields are not those of an ONNX model");
}

bool ipu__onnx_is_borrowed(const ipu_onnx *file, const Ipu__TensorProto *t)
{
    const uint8_t *at = t->raw_data.data;
    return file->data && at && at >= file->data && at < file->data + file->n_data;
}

void ipu__onnx_free_proto(ipu_onnx *file)
{
    Ipu__ModelProto *m = file->proto;
    if (!m) return;
    for (size_t i = 0; m->graph && i < m->graph->n_initializer; i++)
        if (ipu__onnx_is_borrowed(file, m->graph->initializer[i]))
            m->graph->initializer[i]->raw_data = (ProtobufCBinaryData){0};
    ipu__model_proto__free_unpacked(m, &ipu__onnx_allocator);
    file->proto = NULL;
}

/* An ONNX file in memory: protobuf-c's tree, checked, with what the importer looks up in it. */
#ifndef IPU_ONNX_FILE_H
#define IPU_ONNX_FILE_H

#include "base/arena.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/map.h"
#include "ipu/onnx.h"
#include "onnx.pb-c.h"

struct ipu_onnx {
    Ipu__ModelProto *proto;
    uint8_t
        *data; /* the message as it was read, in which large tensors lie (borrow.h); NULL: they are copies */
    size_t n_data;
    char  *name;                                    /* "resnet50.onnx", for messages */
    char  *folder;                                  /* of external data; NULL: there is none */
    IPU__ARRAY(const Ipu__ValueInfoProto *) inputs; /* of the graph, without those that have an initializer */
    IPU__ARRAY(ipu_onnx_op_count) ops;
    size_t       n_ports;                  /* inputs and outputs of all nodes */
    ipu__hash128 hash;                     /* of the message (session_cache.c); external data are not in it */
    bool         has_hash;                 /* until an initializer is set */
    ipu__map     op_index, function_index; /* "domain\nname" to numbers; keys in the arena */
    ipu__arena   arena;
    /* What attributes of functions are where a call does not give them, "domain\nfunction\nname" to numbers. IR
     * version 9 has these; the onnx.proto that we build with may be older. */
    IPU__ARRAY(Ipu__AttributeProto *) defaults;
    ipu__map default_index;
};

/* protobuf-c's memory through base/alloc.h. */
extern ProtobufCAllocator ipu__onnx_allocator;

/* "" for NULL. */
static inline const char *ipu__or_empty(const char *text) { return text ? text : ""; }

/* The version of a domain's operator set that the file asks for; 0: none. */
int64_t ipu__onnx_opset(const ipu_onnx *file, const char *domain);
/* "" and "ai.onnx" are the same domain. */
const char *ipu__onnx_domain(const char *domain);
/* The function of the file by that name, NULL: none. */
const Ipu__FunctionProto *ipu__onnx_function(const ipu_onnx *file, const char *domain, const char *name);

/* What an attribute of a function is where a call does not give it; NULL: nothing. */
const Ipu__AttributeProto *ipu__onnx_default(const ipu_onnx *file, const Ipu__FunctionProto *f,
                                             const char *name);

/* "[1,3,?,224]", in `text`. */
const char *ipu__onnx_shape_text(const ipu_shape *shape, char *text, size_t size);

/* What a type in the file says. */
void ipu__onnx_port(const Ipu__ValueInfoProto *info, ipu_onnx_port *out);

#endif

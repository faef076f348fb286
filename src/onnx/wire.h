/* Protobuf's wire format, walked before it is unpacked: protobuf-c follows nested messages by recursion, as deep
 * as a file says, and makes a structure of each empty message. */
#ifndef IPU_ONNX_WIRE_H
#define IPU_ONNX_WIRE_H

#include <protobuf-c/protobuf-c.h>

#include "base/status.h"

/* Whether `data` is well formed, not nested too deeply, and unpacks to a bounded multiple of its size. */
ipu_status ipu__wire_check(const ProtobufCMessageDescriptor *message, const uint8_t *data, size_t bytes);

#endif

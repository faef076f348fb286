/* Unpacking a model whose large tensors stay where they are in the file's bytes, rather than being copied. */
#ifndef IPU_ONNX_BORROW_H
#define IPU_ONNX_BORROW_H

#include "onnx/file.h"

/* file->proto from file->data, which has passed ipu__wire_check. Statuses: INVALID, OUT_OF_MEMORY. */
ipu_status ipu__onnx_unpack(ipu_onnx *file);

/* Whether the tensor's raw data lie in file->data: nothing may free them. */
bool ipu__onnx_is_borrowed(const ipu_onnx *file, const Ipu__TensorProto *t);

/* Frees file->proto. */
void ipu__onnx_free_proto(ipu_onnx *file);

#endif

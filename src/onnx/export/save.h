/* Messages packed and written: in one piece, or with large tensors in a file beside it. */
#ifndef IPU_ONNX_EXPORT_SAVE_H
#define IPU_ONNX_EXPORT_SAVE_H

#include "onnx/file.h"

/* Owned: ipu__free. Statuses: UNSUPPORTED (over 2 GiB, which protobuf cannot hold), OUT_OF_MEMORY. */
ipu_status ipu__onnx_pack(const Ipu__ModelProto *proto, void **out, size_t *bytes);

/* To `path`. Tensors of over 1 KiB go to `path`.data if that is asked for, or if the whole is over 2 GiB.
 * `proto` is changed on the way and restored. */
ipu_status ipu__onnx_save(Ipu__ModelProto *proto, const char *path, bool external);

#endif

/* TensorProto and its like as host arrays, and back. */
#ifndef IPU_ONNX_TENSOR_H
#define IPU_ONNX_TENSOR_H

#include "base/array.h"
#include "base/status.h"
#include "ipu/data.h"
#include "onnx.pb-c.h"

/* The type of an ONNX data type; IPU_N_TYPES if it has none of ours (strings, complex numbers). */
ipu_type    ipu__onnx_type(int32_t data_type);
int32_t     ipu__onnx_type_number(ipu_type type);
const char *ipu__onnx_type_name(int32_t data_type); /* "float", "string", "complex64"; for messages */

/* The shape of a tensor; INVALID: too many dimensions, negative ones, too many elements. */
ipu_status ipu__tensor_shape(const Ipu__TensorProto *t, ipu_shape *out);

/* All encodings. `folder`: where external data are; NULL: refused. Owned: ipu_array_free. */
ipu_status ipu__tensor_array(const Ipu__TensorProto *t, const char *folder, ipu_array *out);

/* The same without a copy, where the elements stand in the message as they are in memory: not owned, and not aligned.
 * False: they do not, or something is wrong, which ipu__tensor_array tells. */
bool ipu__tensor_view(const Ipu__TensorProto *t, ipu_array *out);

static inline bool ipu__tensor_is_external(const Ipu__TensorProto *t)
{
    return t->data_location == IPU__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

/* All tensors of a message, those of graphs within and of functions too, after those in the list. False: out of memory;
 * ipu__array_fini in any case. */
typedef IPU__ARRAY(Ipu__TensorProto *) ipu__tensor_list;
bool ipu__tensors_of(const Ipu__ModelProto *proto, ipu__tensor_list *list);

#endif

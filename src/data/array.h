/* Host arrays, for code that fills them. Public half: ipu/data.h. */
#ifndef IPU_DATA_ARRAY_H
#define IPU_DATA_ARRAY_H

#include "base/status.h"
#include "ipu/data.h"

/* Size in bytes of that many elements. Dimensions of 0 do not hide others that are too large. INVALID if
 * too large. */
ipu_status ipu__array_size(ipu_type type, const ipu_shape *shape, size_t *bytes);
/* The same as ipu_array_create, with uninitialised elements. */
ipu_status ipu__array_create_unset(ipu_type type, const ipu_shape *shape, ipu_array *out);

#endif

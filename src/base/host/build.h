/* Which build this is: versions have the same number for months, builds differ whenever their code does. */
#ifndef IPU_BASE_HOST_BUILD_H
#define IPU_BASE_HOST_BUILD_H

#include <stddef.h>

/* What the linker has hashed the library, or the program that it is part of, to (--build-id). Borrowed: as long as it is
 * loaded. NULL and 0: the linker was told not to. */
const void *ipu__build_id(size_t *bytes);

#endif

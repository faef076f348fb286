/* The build's identity: version numbers stay the same for months, while builds differ whenever their code
 * does. */
#ifndef IPU_BASE_HOST_BUILD_H
#define IPU_BASE_HOST_BUILD_H

#include <stddef.h>

/* The linker's hash of the library, or of the program it is linked into (--build-id). Borrowed while loaded. NULL and
 * 0 if linked without it. */
const void *ipu__build_id(size_t *bytes);

#endif

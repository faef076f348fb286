/* The version: of this header, and of the library that is loaded. */
#ifndef IPU_VERSION_H
#define IPU_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#define IPU_VERSION_MAJOR 0
#define IPU_VERSION_MINOR 1
#define IPU_VERSION_PATCH 0

/* "0.1.0", of the library. Borrowed: static. */
const char *ipu_version(void);

#ifdef __cplusplus
}
#endif
#endif

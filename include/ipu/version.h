/* The versions of this header and of the loaded library. */
#ifndef IPU_VERSION_H
#define IPU_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

#define IPU_VERSION_MAJOR 0
#define IPU_VERSION_MINOR 1
#define IPU_VERSION_PATCH 0

/* Of the library, "0.1.0". Static. */
const char *ipu_version(void);

#ifdef __cplusplus
}
#endif
#endif

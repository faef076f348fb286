/* What clang-tidy's analyzer cannot see from one file: that a function which fails returns the status
 * it is given. Included before every source by scripts/check.sh, never by a build. */
#ifndef IPU_ANALYZER_H
#define IPU_ANALYZER_H

#include "base/status.h"

#define ipu__fail(status, ...) (ipu__fail(status, __VA_ARGS__), (status))
#define ipu__vfail(status, ...) (ipu__vfail(status, __VA_ARGS__), (status))
#define ipu__fail_memory() (ipu__fail_memory(), IPU_OUT_OF_MEMORY)

#endif

/* The version of the library, from the header it was built with. */
#include "ipu/version.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *ipu_version(void)
{
    return TEXT(IPU_VERSION_MAJOR) "." TEXT(IPU_VERSION_MINOR) "." TEXT(IPU_VERSION_PATCH);
}

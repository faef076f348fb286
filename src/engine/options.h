/* Options as used by the engine. Public half: ipu/options.h. */
#ifndef IPU_ENGINE_OPTIONS_H
#define IPU_ENGINE_OPTIONS_H

#include <stdbool.h>

#include "ipu/options.h"

typedef enum ipu__attach_when {
    IPU__ATTACH_ALWAYS,
    IPU__ATTACH_ON_DEMAND,
    IPU__ATTACH_NEVER,
} ipu__attach_when;

typedef struct ipu__settings {
    char             engine[16]; /* name */
    int              threads;    /* >= 1 */
    bool             share;
    bool             layouts; /* layouts of buffers between kernels may be chosen */
    bool             profile;
    bool             check;        /* implies that no memory is shared */
    bool             check_floats; /* check what kernels read and write */
    bool             trust;        /* trust source code in executables */
    bool             estimate;
    ipu__attach_when attach;
    int              wait_seconds;
} ipu__settings;

/* A copy; NULL gives the defaults. Owned: ipu_options_destroy. */
ipu_status ipu__options_copy(const ipu_options *from, ipu_options **out);

/* The effective settings: the options (NULL for the defaults), overridden by the environment. */
ipu_status ipu__options_settle(const ipu_options *options, ipu__settings *out);

#endif

/* What an executable is compiled for: types and shapes of all that a run is given, and the values of what is known at compile
 * time. A list of arrays, sequences and nothings, one after another; a sequence is followed by its items.
 */
#ifndef IPU_SESSION_ARGUMENTS_H
#define IPU_SESSION_ARGUMENTS_H

#include "base/arena.h"
#include "base/array.h"
#include "base/text.h"
#include "ipu/tensor.h"

typedef struct ipu__argument {
    int         kind;    /* as its owner counts them */
    size_t      n_items; /* of a sequence */
    ipu_type    type;    /* of an array; else 0, and so is its shape */
    ipu_shape   shape;
    const void *value; /* of an array; NULL: not known, or it has no elements */
    bool        is_fixed;
} ipu__argument;

typedef struct ipu__arguments { /* all zero: none. Values are borrowed, but those of a copy */
    IPU__ARRAY(ipu__argument) list;
    ipu__arena arena;
} ipu__arguments;

/* Whether what was compiled for `of` runs `asked`: values are those of the fixed arguments in `of`. */
bool ipu__arguments_fit(const ipu__arguments *of, const ipu__arguments *asked);

/* With values of the fixed ones and of no others. To be undone also when it fails. */
ipu_status ipu__arguments_copy(const ipu__arguments *from, ipu__arguments *to);
void       ipu__arguments_fini(ipu__arguments *a);

/* All of it that an executable depends on. */
void ipu__arguments_add_key(const ipu__arguments *a, ipu__text *key);

#endif

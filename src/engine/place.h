/* Places: where data are, before an engine exists to hold them.
 *
 * A place is a space and a byte offset in it. An engine has a base address for each space and replica;
 * place + base is a pointer.
 */
#ifndef IPU_ENGINE_PLACE_H
#define IPU_ENGINE_PLACE_H

#include <stdint.h>

/* X(name): meaning */
#define IPU__SPACE_LIST(X)                                                 \
    X(VARIABLE) /* variables, one copy per replica */                      \
    X(CONSTANT) /* the executable's constants, shared, never written */    \
    X(GATHER)   /* packed copies of non-contiguous data, per replica */    \
    X(SPANS)    /* arrays of ipu_span for fields that are lists of runs */ \
    X(HOST)     /* a packed buffer supplied when the moves are run */

typedef enum ipu__space {
#define X(name) IPU__SPACE_##name,
    IPU__SPACE_LIST(X)
#undef X
        IPU__N_SPACES
} ipu__space;

typedef uint64_t ipu__place;

enum { IPU__SPACE_SHIFT = 56 };

static inline ipu__place ipu__place_make(ipu__space space, int64_t offset)
{
    return (uint64_t)space << IPU__SPACE_SHIFT | (uint64_t)offset;
}

static inline ipu__space ipu__place_space(ipu__place place)
{
    return (ipu__space)(place >> IPU__SPACE_SHIFT);
}

static inline int64_t ipu__place_offset(ipu__place place)
{
    return (int64_t)(place & (((uint64_t)1 << IPU__SPACE_SHIFT) - 1));
}

static inline char *ipu__place_pointer(ipu__place place, char *const *bases)
{
    return bases[ipu__place_space(place)] + ipu__place_offset(place);
}

#endif

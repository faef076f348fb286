/* The memory layout of the structures in these headers, and their constants, for front ends in other languages.
 *
 * A front end generates its declarations from this rather than repeating the headers:
 *
 *     ipu_abi_member m;
 *     for (size_t i = 0; ipu_abi_member_at(i, &m); i++)
 *         printf("%s.%s: %s at %zu\n", m.structure, m.name, m.type, m.offset);      ipu_shape.rank: int at 0
 *
 * The Python front end does this when it loads the library (python/openipu/abi.py). All strings are static.
 */
#ifndef IPU_ABI_H
#define IPU_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Members are in header order; an entry whose name and type are "" introduces each structure. */
typedef struct ipu_abi_member {
    const char *structure; /* "ipu_shape" */
    const char *name;      /* "rank" */
    /* "bool", "int", "uint" (32 bits, and every enum), "int64", "size", "double" or "text" (const char *); the name of
     * an embedded structure; one of these with a '*' for a pointer to it ("text*"); or "pointer" for any other. An
     * array's size is larger than its type's. */
    const char *type;
    size_t      offset, bytes;
} ipu_abi_member;

/* Returns false past the last. */
bool ipu_abi_member_at(size_t i, ipu_abi_member *out);

typedef struct ipu_abi_constant {
    const char *name; /* "IPU_OUTPUT_FINAL" */
    int64_t     value;
} ipu_abi_constant;

bool ipu_abi_constant_at(size_t i, ipu_abi_constant *out);

#ifdef __cplusplus
}
#endif

#endif

/* How the structures of these headers lie in memory, and what their constants are, for front ends in other languages.
 *
 * A front end makes its declarations from this, rather than repeating the headers:
 *
 *     ipu_abi_member m;
 *     for (size_t i = 0; ipu_abi_member_at(i, &m); i++)
 *         printf("%s.%s: %s at %zu\n", m.structure, m.name, m.type, m.offset);      ipu_shape.rank: int at 0
 *
 * Python's does so when it loads the library (python/openipu/abi.py). All texts are static.
 */
#ifndef IPU_ABI_H
#define IPU_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One member, in the order of the header; before the first of a structure, the structure: its name and type are "". */
typedef struct ipu_abi_member {
    const char *structure; /* "ipu_shape" */
    const char *name;      /* "rank" */
    /* "bool", "int", "uint" (32 bits, and every enum), "int64", "size", "double", "text" (const char *); the name of a structure
     * that lies within; one of these with a '*' for a pointer to it ("text*"), or "pointer" for any other. An array is larger
     * than its type. */
    const char *type;
    size_t      offset, bytes;
} ipu_abi_member;

/* False: there is no such one. */
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

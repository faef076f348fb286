/* The file format of executables, written by save.c and read by load.c.
 *
 *     header, a table with an entry for each section, the sections one after another, a hash of all before
 *
 * Numbers are little-endian, as on every host there is; structs are written member by member, without
 * padding. The sections are "numbers" (ipu__exe_numbers), the arrays of sections.inc, "constants" and
 * "kernels". The hash (ipu__hash_bulk) detects damage, not forgery: the contents are always checked as well
 * (validate.h).
 */
#ifndef IPU_ENGINE_FILE_IMAGE_H
#define IPU_ENGINE_FILE_IMAGE_H

#include "engine/executable.h"
#include "base/hash.h"

enum {
    IPU__FILE_FORMAT = 8,
    IPU__FILE_ORDER  = 0x01020304,
    IPU__FILE_NAME   = 16, /* size of a section name, including its 0 */
};

#define IPU__FILE_MAGIC "IPUEXE\r\n"

typedef struct ipu__file_header {
    char     magic[8];
    uint32_t order, format, pointer_bytes, n_sections;
    char     version[16];  /* of the library that wrote it: for messages */
    uint64_t cpu_features; /* of the machine that wrote it: informative only */
    uint64_t bytes;        /* of the whole file */
} ipu__file_header;

typedef struct ipu__file_entry {
    char     name[IPU__FILE_NAME];
    uint64_t element_bytes, n;
} ipu__file_entry;

/* How an array of the executable is stored in the file. */
typedef struct ipu__exe_member {
    uint32_t offset, bytes;
    bool     is_bool;
} ipu__exe_member;

typedef struct ipu__exe_section {
    const char            *name;
    size_t                 array;         /* offset in ipu_executable */
    size_t                 element_bytes; /* in memory */
    const ipu__exe_member *members;
    size_t                 n_members;
} ipu__exe_section;

/* Common layout of all IPU_ARRAYs. */
typedef struct ipu__any_array {
    void  *at;
    size_t n, capacity;
} ipu__any_array;

extern const ipu__exe_section ipu__exe_sections[];
extern const size_t           ipu__exe_n_sections;
/* The numbers in ipu_executable itself, treated as one element at its beginning. */
extern const ipu__exe_section ipu__exe_numbers;

/* Bytes of an element in the file. */
size_t ipu__exe_file_bytes(const ipu__exe_section *section);

#endif

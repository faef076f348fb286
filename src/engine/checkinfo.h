/* What checking mode needs beyond the executable: names, fields and lengths, present only if compiled for
 * it. */
#ifndef IPU_ENGINE_CHECKINFO_H
#define IPU_ENGINE_CHECKINFO_H

#include "engine/compile.h"

/* Bytes offset <= i < offset + bytes of the variables' memory. */
typedef struct ipu__check_variable {
    uint32_t name; /* quoted, or "#7" */
    uint32_t location;
    int64_t  offset, bytes, unit;
} ipu__check_variable;

typedef struct ipu__check_field {
    uint32_t            name, offset;
    ipu_field_direction direction;
    ipu_field_shape     shape;
    int64_t             unit; /* element size in bytes */
} ipu__check_field;

typedef struct ipu__check_codelet {
    uint32_t first, n; /* in `fields` */
} ipu__check_codelet;

typedef struct ipu__check_info {
    IPU__ARRAY(ipu__check_variable) variables;
    IPU__ARRAY(ipu__check_field) fields;
    IPU__ARRAY(ipu__check_codelet) codelets; /* by codelet of the executable */
    IPU__ARRAY(int64_t) lengths;             /* of pointer fields, which records do not contain */
    size_t *first_length;                    /* by vertex of the executable, in `lengths` */
} ipu__check_info;

/* Sets exe->check. requires: lower. */
ipu_status ipu__check_info_build(ipu__compiler *c);
void       ipu__check_info_destroy(ipu__check_info *info); /* NULL is allowed */

#endif

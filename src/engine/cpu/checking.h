/* Checking mode: an engine that knows of every element whether it has a value, and lets vertices touch
 * copies only.
 *
 * Beside the memory of variables, gathered fields and remote buffers lies a shadow of the same size: a byte
 * is 1 where the byte it stands for has a value. The moves of the executable move shadows as they move
 * data, so that what is known follows every copy.
 */
#ifndef IPU_ENGINE_CPU_CHECKING_H
#define IPU_ENGINE_CPU_CHECKING_H

#include "base/text.h"
#include "engine/checkinfo.h"
#include "engine/cpu/cpu.h"

/* A run that a field of the vertex at hand is connected to, and where its copy is. */
typedef struct ipu__guard {
    const ipu__check_field *field;
    ipu__place              place;
    int64_t                 count;
    size_t                  at; /* of the copy in `arena` */
} ipu__guard;

typedef struct ipu__checking {
    const ipu__check_info *info;
    ipu__bases            *bases; /* shadows, by replica */
    char                  *variables, *gather;
    char                  *constants; /* all 1 */
    char                  *host;      /* a packed buffer as large as the largest tensor */
    size_t                 host_bytes;
    char                 **remotes;

    /* the vertex at hand */
    IPU_ARRAY(ipu__guard) guards;
    IPU_ARRAY(ipu_span) spans;
    IPU_ARRAY(char) record, given;  /* the struct that the body sees, and what it was before */
    char  *arena, *before, *writer; /* copies with red zones; as they were; which worker wrote, + 1 */
    size_t arena_bytes;             /* of each of the three, which are one piece of memory */
    char  *fence;                   /* nobody may touch it: where rows lead that a list does not have */
    size_t fence_bytes, n_lists;
    bool   was_left; /* a body was, because of a fault */

    ipu__text findings;
    int       n_findings;
} ipu__checking;

/* Moves [first, end) that gathered what is looked at; none if it was not gathered. */
typedef struct ipu__gathered {
    uint32_t first, end;
} ipu__gathered;

/* What `count` elements are, as far as they are neighbours. */
typedef struct ipu__origin {
    const ipu__check_variable *variable; /* NULL: a constant */
    int64_t                    begin, end;
} ipu__origin;

enum { IPU__CHECK_TEXT = 1024 };

/* ---- checking.c ---- */
ipu_status ipu__checking_create(ipu__cpu *e);
void       ipu__checking_destroy(ipu__cpu *e);
/* Shadows follow each step and each access of the host: what is read must be defined. */
extern const ipu__engine_checks ipu__cpu_checks;
/* Moves of shadows. */
void ipu__checking_move(ipu__cpu *e, uint32_t first, uint32_t end, int64_t replica, int64_t to_replica);

/* ---- checking_vertex.c ---- */

/* A compute set, vertex by vertex. What bodies that return false leave is in `failed` of the first runner. */
ipu_status ipu__checking_execute(ipu__cpu *e, const ipu__instruction *i);

/* ---- checking_report.c ---- */
ipu__origin ipu__checking_origin(const ipu__cpu *e, ipu__gathered by, ipu__place place, int64_t unit,
                                 int64_t count);
/* "elements [2, 4) of variable "x" (added at file.c:5)" */
const char *ipu__checking_origin_text(const ipu__cpu *e, const ipu__origin *origin,
                                      char text[IPU__CHECK_TEXT]);
void        ipu__checking_find(ipu__cpu *e, const char *who, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A finding if one of `count` elements has no value; true: all have. */
bool ipu__checking_defined(ipu__cpu *e, const char *who, int64_t replica, ipu__gathered by, ipu__place place,
                           int64_t unit, int64_t count);
/* `status` with the findings, IPU_OK if there are none; none are left. */
ipu_status ipu__checking_conclude(ipu__cpu *e, ipu_status status);

#endif

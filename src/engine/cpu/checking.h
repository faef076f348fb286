/* Checking mode: an engine that tracks for every element whether it is defined, and gives vertices only
 * copies.
 *
 * The memory of variables, gathered fields and remote buffers has shadows of the same size, in which a byte
 * is 1 if the corresponding byte is defined. The executable's moves are applied to shadows as well as data,
 * so this information follows every copy.
 */
#ifndef IPU_ENGINE_CPU_CHECKING_H
#define IPU_ENGINE_CPU_CHECKING_H

#include "base/text.h"
#include "engine/checkinfo.h"
#include "engine/cpu/cpu.h"

/* A run connected to a field of the current vertex, and the location of its copy. */
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

    /* for the current vertex */
    IPU__ARRAY(ipu__guard) guards;
    IPU__ARRAY(ipu_span) spans;
    IPU__ARRAY(char) record, given; /* the struct passed to the body, and its previous contents */
    char  *arena, *before, *writer; /* copies with red zones; previous contents; writing worker + 1 */
    size_t arena_bytes;             /* size of each of the three, which share one allocation */
    char  *fence;                   /* inaccessible memory: where nonexistent rows of a list point */
    size_t fence_bytes, n_lists;
    bool   was_left; /* a body was aborted because of a fault */

    ipu__text findings;
    int       n_findings;
} ipu__checking;

/* Moves [first, end) that gathered what is being checked; empty if it was not gathered. */
typedef struct ipu__gathered {
    uint32_t first, end;
} ipu__gathered;

/* The source of `count` elements, as far as they are neighbours. */
typedef struct ipu__origin {
    const ipu__check_variable *variable; /* NULL for a constant */
    int64_t                    begin, end;
} ipu__origin;

enum { IPU__CHECK_TEXT = 1024 };

/* ---- checking.c ---- */
ipu_status ipu__checking_create(ipu__cpu *e);
void       ipu__checking_destroy(ipu__cpu *e);
/* Shadows follow each step and each host access: whatever is read must be defined. */
extern const ipu__engine_checks ipu__cpu_checks;
/* Applies moves to shadows. */
void ipu__checking_move(ipu__cpu *e, uint32_t first, uint32_t end, int64_t replica, int64_t to_replica);

/* ---- checking_vertex.c ---- */

/* Runs a compute set vertex by vertex. Bodies that return false are recorded in `failed` of the first
 * runner. */
ipu_status ipu__checking_execute(ipu__cpu *e, const ipu__instruction *i);

/* ---- checking_report.c ---- */
ipu__origin ipu__checking_origin(const ipu__cpu *e, ipu__gathered by, ipu__place place, int64_t unit,
                                 int64_t count);
/* "elements [2, 4) of variable "x" (added at file.c:5)" */
const char *ipu__checking_origin_text(const ipu__cpu *e, const ipu__origin *origin,
                                      char text[IPU__CHECK_TEXT]);
void        ipu__checking_find(ipu__cpu *e, const char *who, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Reports a finding if one of `count` elements is undefined; returns true if all are defined. */
bool ipu__checking_defined(ipu__cpu *e, const char *who, int64_t replica, ipu__gathered by, ipu__place place,
                           int64_t unit, int64_t count);
/* Returns `status` with the findings, or IPU_OK if there are none, and clears them. */
ipu_status ipu__checking_conclude(ipu__cpu *e, ipu_status status);

#endif

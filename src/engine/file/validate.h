/* Whether an executable hangs together: every index, place, size and jump within what there is.
 *
 * Whatever passes cannot make an engine touch memory that is not its own, as long as bodies of codelets stay
 * within their fields. What no file can tell is left to them: lengths that come with pointer fields, and
 * values of state. In debug builds all that is compiled is checked, too.
 */
#ifndef IPU_ENGINE_FILE_VALIDATE_H
#define IPU_ENGINE_FILE_VALIDATE_H

#include "engine/executable.h"

/* INVALID with what is wrong and where, OUT_OF_MEMORY. */
ipu_status ipu__executable_validate(const ipu_executable *exe);

/* ---- shared by validate.c and validate_code.c ---- */

/* What the moves of a batch do with the host's buffer. */
typedef struct ipu__batch_use {
    int64_t host_bytes; /* that they reach */
    bool    from_host, to_host;
} ipu__batch_use;

typedef struct ipu__validator {
    const ipu_executable *exe;
    ipu__batch_use       *batches;
    uint32_t             *functions; /* first instructions, n_functions of them at the end */
    size_t                n_functions, n_programs, n_switches, n_cases, n_bodies;
    size_t                n_listed, n_moved; /* spans and moves that vertices use */
} ipu__validator;

/* INVALID: "move 3: its loops are out of range". */
ipu_status ipu__invalid(const char *what, size_t i, const char *why);

#define IPU__REQUIRE(condition, what, i, why)                    \
    do {                                                         \
        if (!(condition)) return ipu__invalid(what, (i), (why)); \
    } while (0)

/* [first, first + n) lies in [0, all). */
static inline bool ipu__in_range(uint64_t first, uint64_t n, uint64_t all)
{
    return first <= all && n <= all - first;
}

/* `bytes` from `place` on are memory of an engine, which may be written to. */
bool ipu__valid_place(const ipu_executable *exe, ipu__place place, int64_t bytes, bool written);
/* Bytes of a tensor; false: there is no such type or shape. */
bool ipu__valid_value(ipu_type type, const ipu_shape *shape, int64_t *bytes);
bool ipu__valid_text(const ipu_executable *exe, uint32_t text);
/* A batch that does not touch the host. */
bool ipu__valid_batch(const ipu__validator *v, uint32_t batch);

/* Kernels, instructions, programs. */
ipu_status ipu__validate_code(ipu__validator *v);

/* ---- bodies.c: that bodies of a parallel step may run at the same time ---- */
ipu_status ipu__validate_bodies(const ipu_executable *exe);

#endif

/* Whether an executable is consistent: every index, place, size and jump is in range.
 *
 * Nothing that passes can make an engine access memory that is not its own, as long as codelet bodies stay
 * within their fields. They are responsible for what a file cannot show: lengths for pointer fields, and
 * state values. Debug builds also check everything they compile.
 */
#ifndef IPU_ENGINE_FILE_VALIDATE_H
#define IPU_ENGINE_FILE_VALIDATE_H

#include "engine/executable.h"

/* Returns INVALID with what is wrong and where, or OUT_OF_MEMORY. */
ipu_status ipu__executable_validate(const ipu_executable *exe);

/* ---- shared by validate.c and validate_code.c ---- */

/* How the moves of a batch use the host's buffer. */
typedef struct ipu__batch_use {
    int64_t host_bytes; /* that they can reach */
    bool    from_host, to_host;
} ipu__batch_use;

typedef struct ipu__validator {
    const ipu_executable *exe;
    ipu__batch_use       *batches;
    uint32_t             *functions; /* first instructions, n_functions of them at the end */
    size_t                n_functions, n_programs, n_switches, n_cases, n_bodies;
    size_t                n_listed, n_moved; /* spans and moves used by vertices so far */
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

/* `bytes` at `place` are writable engine memory. */
bool ipu__valid_place(const ipu_executable *exe, ipu__place place, int64_t bytes, bool written);
/* Size of a tensor in bytes. Returns false if there is no such type or shape. */
bool ipu__valid_value(ipu_type type, const ipu_shape *shape, int64_t *bytes);
bool ipu__valid_text(const ipu_executable *exe, uint32_t text);
/* A batch that does not involve the host. */
bool ipu__valid_batch(const ipu__validator *v, uint32_t batch);

/* Kernels, instructions, programs. */
ipu_status ipu__validate_code(ipu__validator *v);

/* ---- bodies.c: that bodies of a parallel step may run concurrently ---- */
ipu_status ipu__validate_bodies(const ipu_executable *exe);

#endif

/* The contents of an executable: a graph and programs as flat arrays, ready to run.
 *
 * Nothing in it points into the graph, and references are indices: the remaining pointers (codelet bodies,
 * kernel records and their attributes) are looked up by name on load. It is written once, by the compiler
 * (compile.h), and read-only from then on.
 */
#ifndef IPU_ENGINE_EXECUTABLE_H
#define IPU_ENGINE_EXECUTABLE_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/map.h"
#include "base/status.h"
#include "engine/moves.h"
#include "graph/kernel.h"
#include "ipu/codelet.h"
#include "ipu/engine.h"

#define IPU__NONE UINT32_MAX

static inline ipu_status ipu__or_memory(bool ok)
{
    if (!ok) ipu__fail_memory();
    return ok ? IPU_OK : IPU_OUT_OF_MEMORY;
}

/* Names are offsets in `strings`; 0 is "". */
typedef struct ipu__exe_location {
    uint32_t file;
    int      line;
} ipu__exe_location;

typedef struct ipu__exe_codelet {
    uint32_t       name;
    ipu_compute_fn compute;
    uint32_t       first_field, n_fields; /* pointers to fill in, in `fields` */
    uint32_t       bytes;
    bool           multi;
    uint32_t       first_signature, n_signatures;
    uint32_t       source; /* IPU__NONE if compiled in, to be found by name on load */
} ipu__exe_codelet;

/* A field of a codelet as declared, to identify the codelet on load. */
typedef struct ipu__exe_signature {
    uint32_t name, form, type, offset;
} ipu__exe_signature;

/* The source of codelets compiled at run time. */
typedef struct ipu__exe_source {
    uint32_t name, text, flags;
} ipu__exe_source;

/* Where a record holds a place that an engine turns into a pointer. */
typedef uint32_t ipu__exe_field;

/* Becomes an ipu_span when an engine fills in the pointer; same size and layout. */
typedef struct ipu__exe_span {
    ipu__place place;
    size_t     size;
} ipu__exe_span;

/* Vertices of one codelet in a compute set. Their records are consecutive. */
typedef struct ipu__exe_group {
    uint32_t codelet;
    uint32_t first, n;    /* in `vertices` */
    uint32_t first_moves; /* in `vertex_moves`, one per vertex; IPU__NONE if nothing is gathered */
    size_t   records;     /* byte offset in `records` */
} ipu__exe_group;

typedef struct ipu__exe_set {
    uint32_t name;
    uint32_t first_group, n_groups;
    int64_t  n_vertices;
    int64_t  bytes; /* connected to fields: estimates the work */
} ipu__exe_set;

typedef struct ipu__exe_vertex {
    uint32_t tile, location;
    uint32_t number; /* in its compute set, in the order added */
} ipu__exe_vertex;

/* Moves [gather, scatter) run before the body of a vertex, [scatter, end) after it. */
typedef struct ipu__exe_vertex_moves {
    uint32_t gather, scatter, end;
} ipu__exe_vertex_moves;

/* A list of moves that may run concurrently. */
typedef struct ipu__exe_batch {
    uint32_t first, n;
    int64_t  bytes;
} ipu__exe_batch;

/* Transfers between a view and the host: moves to or from a packed buffer. If direct, the variable itself
 * is such a buffer, and the host may see its memory. */
typedef struct ipu__exe_tensor {
    ipu_type   type;
    ipu_shape  shape;
    int64_t    bytes;
    bool       direct;
    ipu__place place; /* of the first element, if direct */
    uint32_t   batch;
} ipu__exe_tensor;

typedef struct ipu__exe_kernel {
    ipu__kernel_call call;
    ipu__place       place[IPU__MAX_OPERANDS];
    uint32_t         buffer[IPU__MAX_OPERANDS]; /* covered completely; IPU__NONE: always plain */
    uint32_t         gather, scatter;           /* batches, often empty */
} ipu__exe_kernel;

typedef struct ipu__exe_stream {
    uint32_t handle;
    int64_t  bytes; /* of a transfer */
    bool     to_device, broadcast;
} ipu__exe_stream;

typedef struct ipu__exe_remote {
    uint32_t handle;
    int64_t  row_bytes, n_rows;
} ipu__exe_remote;

/* READ and WRITE of a stream or of rows of a remote buffer. */
typedef struct ipu__exe_transfer {
    uint32_t object;       /* stream or remote buffer */
    uint32_t tensor, rows; /* in `tensors`; rows IPU__NONE means 0, 1, 2 ... */
} ipu__exe_transfer;

/* A kernel input that is all of what a READ brings, which has no other use: if the host lends the data, the kernel
 * may read them in place. */
typedef struct ipu__exe_lending {
    uint32_t transfer, kernel, operand;
} ipu__exe_lending;

typedef struct ipu__exe_handle {
    uint32_t handle, tensor;
    bool     is_write;
} ipu__exe_handle;

typedef struct ipu__exe_case {
    int64_t  value;
    uint32_t target;
} ipu__exe_case;

typedef struct ipu__exe_switch {
    ipu_type   type;
    ipu__place control;
    uint32_t   first_case, n_cases, otherwise;
} ipu__exe_switch;

/* `gather` runs in each replica r, then `copy` from r to replica to[r]. */
typedef struct ipu__exe_cross {
    uint32_t gather, copy; /* batches; gather is IPU__NONE if not needed */
    uint32_t to;           /* in `replicas` */
} ipu__exe_cross;

/* Elements [at, at + n) of a sum. */
typedef struct ipu__exe_piece {
    ipu__place place;
    int64_t    at, n;
} ipu__exe_piece;

/* A sum over replicas: `n_elements` in all, in the order of its pieces. */
typedef struct ipu__exe_reduce {
    ipu_type type;
    uint32_t first, n; /* in `pieces` */
    int64_t  n_elements;
    uint32_t tensor; /* for checking mode; else IPU__NONE */
} ipu__exe_reduce;

/* A title or message, and the tensor that goes with it (IPU__NONE if none). */
typedef struct ipu__exe_print {
    uint32_t text, tensor;
} ipu__exe_print;

/* X(name): a, b, n */
#define IPU__INSTRUCTION_LIST(X)                                                             \
    X(EXECUTE)      /* a: set */                                                             \
    X(KERNEL)       /* a: kernel; n > 1: the first of n that may run depth first (rows.c) */ \
    X(MOVE)         /* a: batch */                                                           \
    X(READ)         /* a: transfer */                                                        \
    X(WRITE)        /* a: transfer */                                                        \
    X(REMOTE_READ)  /* a: transfer */                                                        \
    X(REMOTE_WRITE) /* a: transfer */                                                        \
    X(REPEAT)       /* a: counter = n */                                                     \
    X(AGAIN)        /* counter a - 1; go to b if not 0 */                                    \
    X(JUMP)         /* go to b */                                                            \
    X(JUMP_IF)      /* go to b if the predicate of type a at place n is true */              \
    X(JUMP_UNLESS)  /* go to b if it is false */                                             \
    X(SWITCH)       /* a: switch */                                                          \
    X(CALL)         /* go to b, and return here */                                           \
    X(PARALLEL)     /* bodies [a, a + n), which are functions [b, b + n) */                  \
    X(RETURN)                                                                                \
    X(PRINT)         /* a: print */                                                          \
    X(ABORT_IF)      /* abort with text b if the predicate of type a at place n is true */   \
    X(ERROR)         /* a: print */                                                          \
    X(CROSS_REPLICA) /* a: cross */                                                          \
    X(ALL_REDUCE)    /* a: reduce */                                                         \
    X(ALL_REDUCE_WAIT)                                                                       \
    X(UNDEFINE) /* a: tensor; only with checking */                                          \
    X(END)

typedef enum ipu__opcode {
#define X(name) IPU__CODE_##name,
    IPU__INSTRUCTION_LIST(X)
#undef X
} ipu__opcode;

typedef struct ipu__instruction {
    ipu__opcode op;
    uint32_t    a, b;
    uint32_t    location;
    uint64_t    n;
} ipu__instruction;

/* A step of the graph's programs: the sequence it was added to, and its index in it. */
typedef struct ipu__exe_step {
    uint32_t program, step;
} ipu__exe_step;

/* Its first instruction, and streams [first_stream, + n_streams) of `used_streams`. */
typedef struct ipu__exe_program {
    uint32_t begin;
    uint32_t first_stream, n_streams;
    int64_t  cycles; /* of a run, by the chip model; -1 if compiled without the option "estimate" */
} ipu__exe_program;

struct ipu_executable {
    atomic_int references;
    int64_t    replication;
    unsigned   n_workers;
    int64_t    n_ipus;     /* over all replicas */
    uint32_t   chip;       /* name */
    int64_t    tile_bytes; /* over all tiles, by the chip model; -1 if not estimated */

    int64_t  variable_bytes; /* per replica */
    int64_t  unshared_bytes; /* per replica, if no memory were shared */
    int64_t  gather_bytes;   /* per replica */
    int64_t  staging_bytes;
    uint32_t n_buffers; /* variables that only kernels access, so that an engine may choose their layout */
    char    *constants; /* pages */
    size_t   constant_bytes;

    ipu__arena arena; /* attributes of kernel calls */
    IPU__ARRAY(char) strings;
    IPU__ARRAY(ipu__exe_location) locations; /* 0: unknown */
    IPU__ARRAY(ipu__exe_codelet) codelets;
    IPU__ARRAY(ipu__exe_field) fields;
    IPU__ARRAY(ipu__exe_signature) signatures;
    IPU__ARRAY(ipu__exe_source) sources;
    IPU__ARRAY(ipu__exe_set) sets;
    IPU__ARRAY(ipu__exe_group) groups;
    IPU__ARRAY(ipu__exe_vertex) vertices;
    IPU__ARRAY(ipu__exe_vertex_moves) vertex_moves;
    IPU__ARRAY(char) records; /* images of vertex structs, with places for pointers */
    IPU__ARRAY(ipu__exe_span) spans;
    ipu__moves moves;
    IPU__ARRAY(ipu__exe_batch) batches;
    IPU__ARRAY(ipu__exe_tensor) tensors;
    IPU__ARRAY(ipu__exe_kernel) kernels;
    IPU__ARRAY(ipu__exe_stream) streams; /* by id of the graph, 0 unused */
    IPU__ARRAY(ipu__exe_remote) remotes; /* by id of the graph, 0 unused */
    IPU__ARRAY(ipu__exe_transfer) transfers;
    IPU__ARRAY(ipu__exe_lending) lendings;
    IPU__ARRAY(ipu__exe_handle) handles;
    IPU__ARRAY(ipu__exe_switch) switches;
    IPU__ARRAY(ipu__exe_case) cases;
    IPU__ARRAY(ipu__exe_cross) crosses;
    IPU__ARRAY(int64_t) replicas;
    IPU__ARRAY(ipu__exe_reduce) reduces;
    IPU__ARRAY(ipu__exe_piece) pieces;
    IPU__ARRAY(ipu__exe_print) prints;
    IPU__ARRAY(ipu__place) replication_indices;
    IPU__ARRAY(uint32_t) initial; /* batches from constants to variables, in this order */
    IPU__ARRAY(ipu__instruction) code;
    IPU__ARRAY(ipu__exe_step) steps; /* by instruction; empty unless compiled with the option "profile" */
    IPU__ARRAY(uint32_t) bodies;     /* first instructions of bodies of parallel steps */
    IPU__ARRAY(ipu__exe_program) programs;
    IPU__ARRAY(uint32_t) used_streams;
    IPU__ARRAY(int32_t)
    note;           /* from whoever had it compiled, until shared; readers check it */
    uint32_t start; /* the program, always the last, that runs when an engine is created; IPU__NONE if none */
    uint32_t n_counters, n_functions; /* of REPEAT; calls nest no deeper than the number of functions */

    struct ipu__check_info *check; /* checkinfo.h; NULL if not compiled for checking */

    ipu__map stream_names, remote_names, write_names, read_names; /* keys in `strings` */
};

static inline const char *ipu__exe_text(const ipu_executable *exe, uint32_t name)
{
    return exe->strings.at + name;
}

/* ipu_executable_compile for programs that the chip would run differently: with the option "estimate", the programs
 * of the graph `chip` are priced instead, one for each. NULL if they are the same. */
ipu_status ipu__executable_compile(ipu_graph *g, const ipu_program *programs, size_t n,
                                   const ipu_options *options, ipu_graph *chip,
                                   const ipu_program *chip_programs, ipu_executable **out);

/* ipu_executable_load for a file that must belong to the effective user and not be writable by others (else
 * INVALID), without compiled-in codelets. NOT_FOUND if there is no file. */
ipu_status ipu__executable_load_own(const char *path, const ipu_options *options, ipu_executable **out);

/* ---- bodies.c: `in_body` by kernel: whether a body of a parallel step reaches it ---- */
ipu_status ipu__exe_kernels_in_bodies(const ipu_executable *exe, bool *in_body);

/* Builds the name maps from the arrays. */
bool ipu__exe_add_names(ipu_executable *exe);

/* "file.c:12", or "" if unknown. */
enum { IPU__EXE_WHERE_BYTES = 512 };
const char *ipu__exe_where(const ipu_executable *exe, uint32_t location, char buffer[IPU__EXE_WHERE_BYTES]);

#endif

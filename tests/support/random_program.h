/* Random graphs with random programs, valid by construction, of every kind of step, field and view.
 *
 * The test codelets have all forms of fields. What a program decides by (counters, flags, row numbers)
 * is always defined and equal on all replicas; everything else may be undefined at times.
 */
#ifndef IPU_TESTS_RANDOM_PROGRAM_H
#define IPU_TESTS_RANDOM_PROGRAM_H

#include <stdatomic.h>

#include "ipu/ipu.h"
#include "random.h"

enum {
    RP_MAX_VARIABLES = 32,
    RP_MAX_STREAMS   = 6,
    RP_MAX_REMOTES   = 2,
    RP_MAX_HANDLES   = 24,
    RP_N_TEMPORARIES = 9,
    RP_N_PROGRAMS    = 3,
    RP_LARGE         = 40,            /* how much larger a large one is */
    RP_MAX_TRANSFER  = 24 * RP_LARGE, /* elements */
    RP_MAX_ELEMENTS  = 64 * RP_LARGE, /* of a variable */
};

typedef struct rp_variable {
    ipu_tensor tensor;
    ipu_type   type;
    bool       constant;
    int        home;      /* the only program that uses it; less than 0: any */
    bool       busy;      /* written by the compute set that is being made */
    bool       temporary; /* always written as a whole, and read only after that: may share memory */
    bool       ready;     /* has been, on the way to the step that is being made */
} rp_variable;

typedef struct rp_stream {
    char       handle[8];
    ipu_stream stream;
    ipu_type   type;
    int64_t    n_elements;
    bool       to_device, broadcast;
    int64_t    ring; /* transfers in its buffer; 0: a callback */
} rp_stream;

typedef struct rp_remote {
    char              handle[8];
    ipu_remote_buffer buffer;
    ipu_type          type;
    int64_t           n_elements, n_rows;
} rp_remote;

typedef struct rp_handle {
    char     handle[8];
    ipu_type type;
    int64_t  n_elements;
    bool     is_write;
} rp_handle;

typedef struct random_program {
    test_random  random;
    ipu_graph   *graph;
    int64_t      replication;
    bool         defined;
    int64_t      scale; /* 1, or RP_LARGE: then sizes are such that threads share the work */
    ipu_program  programs[RP_N_PROGRAMS];
    rp_variable  variables[RP_MAX_VARIABLES]; /* general ones; what decides is kept apart */
    rp_stream    streams[RP_MAX_STREAMS];
    rp_remote    remotes[RP_MAX_REMOTES];
    rp_handle    handles[RP_MAX_HANDLES];
    int          n_variables, n_streams, n_remotes, n_handles;
    ipu_tensor   counters[2], flags[2]; /* int32 and bool scalars */
    ipu_function functions[2];
    int          n_functions, n_names, program; /* the program that is being made; -1: a function */
} random_program;

/* Everything from the seed. The graph is the caller's to destroy. */
void random_program_create(random_program *rp, uint64_t seed);
/* The same, and every element always has a value. */
void random_program_create_defined(random_program *rp, uint64_t seed);

/* The codelets it uses. */
extern const ipu_codelet *const random_program_codelets[];
extern const size_t             random_program_n_codelets;

/* A mistake that bodies make while it is set, and how often each could have been made. */
typedef enum rp_mistake {
    RP_NO_MISTAKE,
    RP_BLEND_PAST_END,    /* y of Blend */
    RP_COMBINE_WRITES_IN, /* x of Combine */
    RP_BUMP_BEFORE_ROW,   /* rows of Bump */
    RP_N_MISTAKES
} rp_mistake;
extern rp_mistake  random_program_mistake;
extern atomic_long random_program_chances[RP_N_MISTAKES];

/* Values that are legal for a type (bool: 0 and 1), a function of `key` alone. */
void random_values(uint64_t key, ipu_type type, int64_t n, void *out);

#endif

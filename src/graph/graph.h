/* The contents of a graph. The public functions on it are in ipu/graph.h, tensor.h, stream.h, program.h.
 *
 * Everything is in typed arrays and referred to by index; index 0 of each is unused, so that id 0 is null.
 * Names and other small objects live in the arena. All of it is freed together.
 */
#ifndef IPU_GRAPH_GRAPH_H
#define IPU_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/array.h"
#include "base/map.h"
#include "base/status.h"
#include "base/text.h"
#include "graph/interval.h"
#include "graph/kernel.h"
#include "graph/view.h"
#include "ipu/graph.h"
#include "ipu/program.h"
#include "ipu/stream.h"

#define IPU__NO_TILE UINT32_MAX

/* Elements begin <= i < end of a variable are on `tile` (of the root graph). */
typedef struct ipu__placement {
    int64_t  begin, end;
    uint32_t tile;
} ipu__placement;

typedef struct ipu__mapping {
    IPU__ARRAY(ipu__placement) places;
    bool   sorted;  /* ascending and disjoint; otherwise in the order given, where later ones win */
    size_t tidy_at; /* size at which to sort */
} ipu__mapping;

typedef enum ipu__variable_kind {
    IPU__VARIABLE,
    IPU__CONSTANT,
    IPU__REPLICATION_INDEX /* a constant that differs between replicas */
} ipu__variable_kind;

typedef struct ipu__variable {
    const char        *name; /* "" if none */
    ipu_type           type;
    ipu__variable_kind kind;
    ipu_shape          shape;
    int64_t            n_elements;
    const void        *data; /* CONSTANT: its values */
    ipu__mapping       mapping;
    uint32_t           view;      /* the whole of it */
    uint32_t           flat_view; /* the same with rank 1 */
    uint32_t           location;
} ipu__variable;

typedef struct ipu__initial_value {
    uint32_t    view;
    const void *data; /* in view order */
    uint32_t    location;
} ipu__initial_value;

/* What a codelet was compiled from at run time. */
typedef struct ipu__codelet_origin {
    const char *name, *text, *flags;
} ipu__codelet_origin;

typedef struct ipu__codelet {
    const char              *name;
    ipu_compute_fn           compute; /* NULL if only the signature is known */
    const ipu_codelet_field *fields;
    uint32_t                 n_fields, bytes;
    bool                     multi;
    uint32_t                 location;
    ipu_cycle_fn             estimator; /* NULL if none */
    void                    *estimator_user;

    const ipu__codelet_origin *origin; /* NULL if compiled in, or loaded by the user */
} ipu__codelet;

typedef struct ipu__compute_set {
    const char *name;
    uint32_t    location;
    uint32_t    first, last, n_vertices; /* vertices are linked by `next` in the order added */
} ipu__compute_set;

typedef struct ipu__vertex {
    uint32_t codelet, compute_set, next;
    uint32_t tile; /* of the root graph */
    uint32_t location;
    uint32_t links;  /* index in graph->links of n_fields entries */
    uint32_t state;  /* index in graph->states; 0 if none is set */
    uint32_t cycles; /* worker cycles on the chip; 0 if unspecified */
} ipu__vertex;

/* A link is 0 (not connected), a view or, always for VECTORS fields, IPU__LIST | index in graph->lists of
 * [n, view...]. For state fields it is 1 if set. */
#define IPU__LIST 0x80000000u

typedef struct ipu__stream {
    const char     *handle;
    ipu_type        type;
    int64_t         n_elements;
    bool            to_device;
    ipu_stream_mode mode;
    uint32_t        location;
} ipu__stream;

typedef struct ipu__remote_buffer {
    const char *handle;
    ipu_type    type;
    int64_t     n_elements, n_rows;
    uint32_t    location;
} ipu__remote_buffer;

typedef struct ipu__host_handle {
    const char *handle;
    uint32_t    view;
    bool        is_write;
    uint32_t    location;
} ipu__host_handle;

/* A program with its first `n_steps` steps. Sequences only grow, so this is a snapshot. */
typedef struct ipu__body {
    uint32_t program, n_steps; /* program 0 is empty */
} ipu__body;

/* X(name, text): members of ipu__step used by each kind */
#define IPU__STEP_LIST(X)                                                                     \
    X(SEQUENCE, "sequence")                     /* body */                                    \
    X(EXECUTE, "execute")                       /* object: compute set */                     \
    X(KERNEL, "kernel")                         /* object: kernel call */                     \
    X(COPY, "copy")                             /* from, to */                                \
    X(READ, "read")                             /* object: stream, to */                      \
    X(WRITE, "write")                           /* from, object: stream */                    \
    X(REMOTE_READ, "remote_read")               /* object: buffer, rows, to */                \
    X(REMOTE_WRITE, "remote_write")             /* from, object: buffer, rows */              \
    X(REPEAT, "repeat")                         /* n, body */                                 \
    X(WHILE_TRUE, "while_true")                 /* other: condition, from: predicate, body */ \
    X(WHILE_FALSE, "while_false")               /* the same */                                \
    X(IF, "if")                                 /* from: predicate, body, other */            \
    X(SWITCH, "switch")                         /* from: control, cases, n, other: default */ \
    X(PARALLEL, "parallel")                     /* object: its number, cases, n */            \
    X(CALL, "call")                             /* object: function */                        \
    X(SYNC, "sync")                             /* n: ipu_sync_type */                        \
    X(PRINT, "print")                           /* text, from */                              \
    X(ABORT_IF, "abort_if")                     /* from: predicate, text */                   \
    X(ERROR, "error")                           /* text, from (may be 0) */                   \
    X(WRITE_UNDEF, "write_undef")               /* to */                                      \
    X(CROSS_REPLICA_COPY, "cross_replica_copy") /* from, to, replicas, n */                   \
    X(ALL_REDUCE, "all_reduce")                 /* from and to: the same */                   \
    X(ALL_REDUCE_WAIT, "all_reduce_wait")

typedef enum ipu__step_kind {
#define X(name, text) IPU__STEP_##name,
    IPU__STEP_LIST(X)
#undef X
        IPU__N_STEP_KINDS
} ipu__step_kind;

typedef struct ipu__case {
    int64_t   value;
    ipu__body body;
} ipu__case;

typedef struct ipu__step {
    ipu__step_kind   kind;
    uint32_t         location;
    uint32_t         from, to, rows; /* views; 0 if none */
    uint32_t         object;
    ipu__body        body, other;
    int64_t          n;
    const char      *text;
    const ipu__case *cases;
    const int64_t   *replicas;
} ipu__step;

typedef struct ipu__program {
    IPU__ARRAY(ipu__step) steps;
    uint32_t       location;
    int            depth;    /* nesting depth of bodies, including calls: at most IPU__MAX_DEPTH */
    int64_t        expanded; /* steps with all bodies expanded: at most IPU__MAX_STEPS */
    ipu__step_kind barred;   /* a step in it that parallel bodies must not contain; SEQUENCE if none */
} ipu__program;

enum { IPU__MAX_DEPTH = 200, IPU__MAX_STEPS = 1 << 24 };

typedef struct ipu__function {
    const char    *name;
    ipu__body      body;
    uint32_t       location;
    int            depth;
    ipu__step_kind barred;
} ipu__function;

typedef struct ipu__kernel_step {
    ipu__kernel_call call; /* attributes in the arena */
    uint32_t         views[IPU__MAX_OPERANDS];
    int64_t          first_tile, n_tiles; /* of the root: the tiles it may use */
} ipu__kernel_step;

struct ipu_graph {
    ipu_graph *root; /* itself, unless virtual */
    /* A virtual graph has only these: */
    int64_t        n_tiles;
    const int64_t *tiles; /* of the root; NULL if numbers are the same */
    ipu_graph     *next_virtual;
    /* Only the root has these: */
    ipu_target        target;
    int64_t           replication;
    ipu_status        status;
    char             *message; /* of the first error */
    ipu__arena        arena;
    ipu__view_pool    views;
    ipu__view_builder builder; /* scratch of the tensor functions */
    ipu__piece_index  piece_index;
    IPU__ARRAY(ipu__variable) variables;
    IPU__ARRAY(ipu__initial_value) initial_values; /* from 0 */
    IPU__ARRAY(ipu__codelet) codelets;
    IPU__ARRAY(ipu__compute_set) compute_sets;
    IPU__ARRAY(ipu__vertex) vertices;
    IPU__ARRAY(uint32_t) links;
    IPU__ARRAY(uint32_t) lists;
    IPU__ARRAY(void *)
    states; /* images of vertex structs; pointers in them refer to arena copies of state vectors */
    IPU__ARRAY(ipu__stream) streams;
    IPU__ARRAY(ipu__remote_buffer) remote_buffers;
    IPU__ARRAY(ipu__host_handle) host_handles; /* from 0 */
    ipu_tensor none;                           /* stands for absent kernel operands; null until needed */
    uint32_t   start;                          /* program to run when an engine is created; 0 if none */
    IPU__ARRAY(ipu__program) programs;
    IPU__ARRAY(ipu__function) functions;
    uint32_t n_parallels; /* number of parallel steps */
    IPU__ARRAY(ipu__kernel_step) kernel_steps;
    IPU__ARRAY(ipu__location) locations; /* index 0: unknown */
    uint32_t location_cache[64];         /* recent locations by hash */
    ipu__map codelet_names, stream_names, remote_names, write_names, read_names, files;
};

/* Record an error at the current location and return its status. Only the first is kept. */
ipu_status ipu__graph_fail(ipu_graph *g, ipu_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
ipu_status ipu__graph_fail_memory(ipu_graph *g);

/* Index of the current location in g->locations (0 on allocation failure, which is never fatal). */
uint32_t ipu__graph_here(ipu_graph *g);
/* "file.c:12", or "place unknown", in the caller's buffer. */
enum { IPU__WHERE_BYTES = 512 };
const char *ipu__graph_where(const ipu_graph *g, uint32_t location, char buffer[IPU__WHERE_BYTES]);

/* A copy in the arena, "" for NULL. Returns NULL on allocation failure, recorded in the graph. */
const char *ipu__graph_strdup(ipu_graph *g, const char *text);

static inline ipu__variable *ipu__graph_variable(const ipu_graph *g, uint32_t id)
{
    return &g->root->variables.at[id];
}

/* "[4,8]" etc. in one of this thread's 4 rotating buffers, for messages. */
const char *ipu__shape_str(const ipu_shape *shape);
/* A variable's name in quotes, or "variable #7" if it has none. Uses the same buffers. */
const char *ipu__variable_str(const ipu_graph *g, uint32_t id);

/* Product of the dimensions. Returns false for more than 2^47 elements or a negative dimension. */
bool ipu__shape_count(const ipu_shape *shape, int64_t *out);

/* Whether builders may continue: `g` is a graph that has not failed. */
bool ipu__graph_ok(const ipu_graph *g);
/* The same, and `t` is a tensor of this graph; otherwise records an error that names the function. */
bool ipu__graph_has(ipu_graph *g, const char *function, ipu_tensor t);
/* The root's number for tile `tile` of `g`; IPU__NO_TILE, with an error, if there is none. */
uint32_t ipu__graph_tile(ipu_graph *g, const char *function, int64_t tile);
/* A new variable or constant; `data` is kept, not copied. */
ipu_tensor ipu__graph_add_variable(ipu_graph *g, const char *function, ipu__variable_kind kind, ipu_type type,
                                   const ipu_shape *shape, const void *data, const char *name);

/* ---- program.c ---- */
/* ipu_program_add_kernel on tiles [first, end) of the root. */
void ipu__program_add_kernel_on(ipu_program p, const char *kernel, const ipu_attribute *attributes,
                                size_t n_attributes, const ipu_tensor *operands, size_t n_operands,
                                int64_t first, int64_t end);

/* ---- vertex.c ---- */
ipu_field_direction ipu__field_direction(ipu_field_form form);
ipu_field_shape     ipu__field_shape(ipu_field_form form);
const char         *ipu__field_form_text(ipu_field_form form); /* "in vector" */

/* ---- value.c ---- */
/* `value` as an element of `type`. Returns false if not representable (integers: a fraction, or out of
 * range). */
bool ipu__value_from_double(ipu_type type, double value, void *out);

/* ---- tensor_query.c ---- */
/* Whether two views have an element in common, and the first such range. Allocation failure is recorded in
 * the graph. */
bool ipu__views_intersect(ipu_graph *g, uint32_t a, uint32_t b, ipu__interval *where);
/* "x[4]", "x[4:8]" or "x[4: 2*10, 3*1]": one element, a run, or a nest of count*stride. */
void ipu__piece_text(ipu__text *text, const char *name, const ipu__piece *piece);

/* ---- mapping.c ---- */
bool ipu__mapping_add(ipu__mapping *mapping, int64_t begin, int64_t end, uint32_t tile); /* can fail */
bool ipu__mapping_sort(ipu__mapping *mapping);
/* The placement that contains element `i`, or the next one after it; NULL past the last. Must be sorted. */
const ipu__placement *ipu__mapping_find(const ipu__mapping *mapping, int64_t i);

#endif

/* Codelets: what a vertex computes, written in C.
 *
 * A codelet is a list of fields and a body. The list is written once; the struct seen by the body and the
 * record the library reads are both expanded from it, so that names, types and offsets cannot disagree:
 *
 *     #define ADDER(F) F(IN, float, x) F(IN, float, y) F(OUT, float, sum)
 *     IPU_VERTEX(Adder, ADDER)
 *     {
 *         *v->sum = *v->x + *v->y;
 *         return true;
 *     }
 *
 * defines `struct Adder`, its body, and the record `const ipu_codelet Adder`, which ipu_graph_add_codelet(g,
 * &Adder) makes known to a graph. F(form, type, name):
 *
 *     IN  OUT  INOUT                        one element:          *v->x
 *     IN_VECTOR  OUT_VECTOR  INOUT_VECTOR   a run and its length:  v->x.data[i], v->x.size
 *     IN_POINTER ...                        a run, length unknown: v->x[i]
 *     IN_VECTORS ...                        a list of runs:        v->x.data[i].data[j], v->x.size
 *     STATE                                 a plain value, set when the graph is built: v->n
 *     STATE_VECTOR                          an array of them:      v->table.data[i]
 *
 * IPU_MULTI_VERTEX(Name, FIELDS) has a body that runs once per worker of the tile, with `worker` (from 0) and
 * `n_workers` to divide the work by.
 *
 * A body that returns false stops the program with an error that names the vertex. Vertices of a compute set
 * run concurrently and in any order: a body must touch nothing but its fields.
 */
#ifndef IPU_CODELET_H
#define IPU_CODELET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipu/status.h"
#include "ipu/type.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(form, text form, direction, shape) */
/* clang-format off */
#define IPU_FIELD_FORM_LIST(X)                       \
    X(IN,             "in",            IN,    SCALAR)  \
    X(OUT,            "out",           OUT,   SCALAR)  \
    X(INOUT,          "inout",         INOUT, SCALAR)  \
    X(IN_VECTOR,      "in vector",     IN,    VECTOR)  \
    X(OUT_VECTOR,     "out vector",    OUT,   VECTOR)  \
    X(INOUT_VECTOR,   "inout vector",  INOUT, VECTOR)  \
    X(IN_POINTER,     "in pointer",    IN,    POINTER) \
    X(OUT_POINTER,    "out pointer",   OUT,   POINTER) \
    X(INOUT_POINTER,  "inout pointer", INOUT, POINTER) \
    X(IN_VECTORS,     "in vectors",    IN,    VECTORS) \
    X(OUT_VECTORS,    "out vectors",   OUT,   VECTORS) \
    X(INOUT_VECTORS,  "inout vectors", INOUT, VECTORS) \
    X(STATE,          "state",         STATE, SCALAR)  \
    X(STATE_VECTOR,   "state vector",  STATE, VECTOR)

typedef enum ipu_field_form {
#define X(form, text, direction, shape) IPU_FIELD_##form,
    IPU_FIELD_FORM_LIST(X)
#undef X
    IPU_N_FIELD_FORMS
} ipu_field_form;
/* clang-format on */

typedef enum ipu_field_direction {
    IPU_DIRECTION_IN,
    IPU_DIRECTION_OUT,
    IPU_DIRECTION_INOUT,
    IPU_DIRECTION_STATE
} ipu_field_direction;

typedef enum ipu_field_shape {
    IPU_FIELD_SHAPE_SCALAR,
    IPU_FIELD_SHAPE_VECTOR,
    IPU_FIELD_SHAPE_POINTER,
    IPU_FIELD_SHAPE_VECTORS
} ipu_field_shape;

typedef struct ipu_codelet_field {
    const char    *name;
    ipu_field_form form;
    ipu_type       type;
    uint32_t       offset; /* in the struct the body sees */
} ipu_codelet_field;

typedef bool (*ipu_compute_fn)(void *vertex, unsigned worker, unsigned n_workers);

typedef struct ipu_codelet {
    const char    *name;
    ipu_compute_fn compute;                   /* NULL if only the signature is known (parsed from text) */
    const ipu_codelet_field *(*fields)(void); /* array of n_fields */
    uint32_t n_fields;
    uint32_t bytes; /* of the struct the body sees */
    bool     multi; /* runs once per worker */
} ipu_codelet;

/* A run as vertex code sees it, whatever its type. */
typedef struct ipu_span {
    void  *data;
    size_t size;
} ipu_span;

/* ---- modules: codelets compiled from source while the program runs ---- */

/* Incremented whenever the layout of a compiled module changes. */
#define IPU_CODELET_ABI 1

/* Library functions that bodies may call, passed to a module when it is loaded, so that modules do not depend
 * on how the program was linked. */
typedef struct ipu_codelet_host {
    ipu_half (*half_from_float)(float value);
    float (*half_to_float)(ipu_half value);
    ipu_bfloat16 (*bfloat16_from_float)(float value);
    float (*bfloat16_to_float)(ipu_bfloat16 value);
    void (*half_from_floats)(const float *from, ipu_half *to, size_t n);
    void (*half_to_floats)(const ipu_half *from, float *to, size_t n);
} ipu_codelet_host;

typedef struct ipu_codelet_module {
    uint32_t                  abi, codelet_bytes, field_bytes; /* of the header it was compiled with */
    uint32_t                  n_codelets;
    const ipu_codelet *const *codelets, *const *end; /* by name */
    uint64_t                   cpu;                  /* CPU features it needs, in the library's numbering */
    const ipu_codelet_host    *host;
    struct ipu_codelet_module *next; /* the library's */
    unsigned char              hash[16];
} ipu_codelet_module;

/* Compile the C file at `path` with the system's compiler (IPU_CC, or cc, gcc or clang from PATH) and load
 * it; a file written by ipu_codelet_compile is loaded as is. Its codelets are those it defines with
 * IPU_VERTEX and IPU_MULTI_VERTEX. `flags` (NULL if none) are separated by blanks and appended to our own,
 * such as -O3, without going through a shell. Compiled code is cached on disk, in IPU_CACHE_DIR,
 * $XDG_CACHE_HOME/openipu or ~/.cache/openipu. Borrowed: a module stays loaded until the process ends.
 * Statuses: INVALID (it does not compile; the message is the compiler's), UNSUPPORTED (no compiler; made for
 * another CPU or version of the library), IO, OUT_OF_MEMORY. */
ipu_status ipu_codelet_load_file(const char *path, const char *flags, const ipu_codelet_module **out);
/* The same for source in memory. `name` is used in compiler messages; NULL means "codelet". */
ipu_status ipu_codelet_load_source(const char *name, const char *source, const char *flags,
                                   const ipu_codelet_module **out);
/* Write the compiled file to `to`, for ipu_codelet_load_file on machines without a compiler. */
ipu_status ipu_codelet_compile(const char *path, const char *flags, const char *to);
/* Clear the cache on disk; modules that processes have loaded stay loaded. */
ipu_status ipu_codelet_clear_cache(void);

/* clang-format off */
#define IPU_MEMBER_IN(T, n) const T *n;
#define IPU_MEMBER_OUT(T, n) T *n;
#define IPU_MEMBER_INOUT(T, n) T *n;
#define IPU_MEMBER_IN_VECTOR(T, n) struct { const T *data; size_t size; } n;
#define IPU_MEMBER_OUT_VECTOR(T, n) struct { T *data; size_t size; } n;
#define IPU_MEMBER_INOUT_VECTOR(T, n) struct { T *data; size_t size; } n;
#define IPU_MEMBER_IN_POINTER(T, n) const T *n;
#define IPU_MEMBER_OUT_POINTER(T, n) T *n;
#define IPU_MEMBER_INOUT_POINTER(T, n) T *n;
#define IPU_MEMBER_IN_VECTORS(T, n) struct { const struct { const T *data; size_t size; } *data; size_t size; } n;
#define IPU_MEMBER_OUT_VECTORS(T, n) struct { const struct { T *data; size_t size; } *data; size_t size; } n;
#define IPU_MEMBER_INOUT_VECTORS(T, n) struct { const struct { T *data; size_t size; } *data; size_t size; } n;
#define IPU_MEMBER_STATE(T, n) T n;
#define IPU_MEMBER_STATE_VECTOR(T, n) struct { const T *data; size_t size; } n;
/* clang-format on */

#ifndef __cplusplus
#define IPU_CODELET_MEMBER(form, T, n) IPU_MEMBER_##form(T, n)
#define IPU_CODELET_ENTRY(form, T, n) \
    {#n, IPU_FIELD_##form, IPU_TYPE_OF(T), (uint32_t)offsetof(ipu_this_vertex, n)},

#define IPU_CODELET_ONE(form, T, n) +1

/* offsetof needs one struct name that is the same in every codelet; the function provides the scope in which
 * that is `ipu_this_vertex`. */
#define IPU_CODELET_RECORD_(Name, FIELDS, is_multi)                                   \
    struct Name {                                                                     \
        FIELDS(IPU_CODELET_MEMBER)                                                    \
    };                                                                                \
    static const ipu_codelet_field *Name##_fields(void)                               \
    {                                                                                 \
        typedef struct Name            ipu_this_vertex;                               \
        static const ipu_codelet_field fields[] = {FIELDS(IPU_CODELET_ENTRY)};        \
        return fields;                                                                \
    }                                                                                 \
    static bool       Name##_call(void *vertex, unsigned worker, unsigned n_workers); \
    const ipu_codelet Name = {.name     = #Name,                                      \
                              .compute  = Name##_call,                                \
                              .fields   = Name##_fields,                              \
                              .n_fields = 0 FIELDS(IPU_CODELET_ONE),                  \
                              .bytes    = sizeof(struct Name),                        \
                              .multi    = is_multi};                                     \
    IPU_CODELET_LISTED_(Name)

/* A module lists its codelets in a linker section, whose bounds the linker names. */
#ifdef IPU_CODELET_MODULE
#define IPU_CODELET_LISTED_(Name) \
    static const ipu_codelet *Name##_listed __attribute__((section("ipu_codelets"), used)) = &Name;

extern const ipu_codelet *__start_ipu_codelets[] __attribute__((weak, visibility("hidden")));
extern const ipu_codelet *__stop_ipu_codelets[] __attribute__((weak, visibility("hidden")));

__attribute__((visibility("default")))
ipu_codelet_module ipu_this_module = {.abi           = IPU_CODELET_ABI,
                                      .codelet_bytes = sizeof(ipu_codelet),
                                      .field_bytes   = sizeof(ipu_codelet_field),
                                      .codelets      = __start_ipu_codelets,
                                      .end           = __stop_ipu_codelets,
                                      .cpu           = IPU_CODELET_MODULE};

#define ipu_half_from_float ipu_this_module.host->half_from_float
#define ipu_half_to_float ipu_this_module.host->half_to_float
#define ipu_bfloat16_from_float ipu_this_module.host->bfloat16_from_float
#define ipu_bfloat16_to_float ipu_this_module.host->bfloat16_to_float
#define ipu_half_from_floats ipu_this_module.host->half_from_floats
#define ipu_half_to_floats ipu_this_module.host->half_to_floats
#else
#define IPU_CODELET_LISTED_(Name)
#endif

#define IPU_VERTEX(Name, FIELDS)                                                      \
    IPU_CODELET_RECORD_(Name, FIELDS, false)                                          \
    static inline bool Name##_compute(struct Name *v);                                \
    static bool        Name##_call(void *vertex, unsigned worker, unsigned n_workers) \
    {                                                                                 \
        (void)worker, (void)n_workers;                                                \
        return Name##_compute((struct Name *)vertex);                                 \
    }                                                                                 \
    static inline bool Name##_compute(struct Name *v)

#define IPU_MULTI_VERTEX(Name, FIELDS)                                                      \
    IPU_CODELET_RECORD_(Name, FIELDS, true)                                                 \
    static inline bool Name##_compute(struct Name *v, unsigned worker, unsigned n_workers); \
    static bool        Name##_call(void *vertex, unsigned worker, unsigned n_workers)       \
    {                                                                                       \
        return Name##_compute((struct Name *)vertex, worker, n_workers);                    \
    }                                                                                       \
    static inline bool Name##_compute(struct Name *v, unsigned worker, unsigned n_workers)
#endif

#ifdef __cplusplus
}
#endif
#endif

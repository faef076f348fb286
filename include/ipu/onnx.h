/* ONNX: reading, running, importing and writing files.
 *
 *     ipu_onnx *file;
 *     IPU_TRY(ipu_onnx_open("resnet50.onnx", &file));
 *     ipu_onnx_session *s;
 *     IPU_TRY(ipu_onnx_session_create(file, &(ipu_onnx_options){0}, &s));
 *     ipu_onnx_value x = {.kind = IPU_ONNX_ARRAY, .array = image}, y = {0};
 *     IPU_TRY(ipu_onnx_session_run(s, &x, 1, &y, 1));
 *
 * A file is read and checked as a whole: a hostile one gives an error, in bounded time and memory. Shapes are static in
 * a model. An input whose value determines a shape (that of a Reshape, the k of a TopK) is a compile-time input: a
 * session keeps one executable for each value it has seen, and for each set of input shapes. With a cache folder,
 * executables outlive the session and are shared with other processes. An output whose extent depends on data (NonZero,
 * Unique) is computed in a buffer of the largest extent and trimmed by the session. Sequences and optionals are
 * resolved on import. docs/onnx.md has limits and details.
 */
#ifndef IPU_ONNX_H
#define IPU_ONNX_H

#include "ipu/cost.h"
#include "ipu/data.h"
#include "ipu/executor.h"
#include "ipu/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_onnx ipu_onnx;

/* Owned: ipu_onnx_close. External data are read from the file's own folder only. Statuses: IO, INVALID (not
 * an ONNX file, damaged, or in violation of the format), UNSUPPORTED (an unknown IR version). */
ipu_status ipu_onnx_open(const char *path, ipu_onnx **out);
/* From memory, which is not needed afterwards. `folder` is where external data are; if NULL, they are
 * refused. */
ipu_status ipu_onnx_read(const void *data, size_t bytes, const char *folder, ipu_onnx **out);
void       ipu_onnx_close(ipu_onnx *file);

/* ---- queries; strings are borrowed from the file, "" where it has none ---- */

typedef enum ipu_onnx_kind { IPU_ONNX_NONE, IPU_ONNX_ARRAY, IPU_ONNX_SEQUENCE } ipu_onnx_kind;

typedef struct ipu_onnx_port {
    const char   *name;
    ipu_onnx_kind kind; /* SEQUENCE: `type` is that of its arrays, and shapes are unknown */
    bool          is_optional;
    bool          has_type; /* false: `type` is unspecified, or not one of ours (strings) */
    ipu_type      type;
    int           rank;  /* -1 if unspecified */
    ipu_shape     shape; /* -1 for a dimension that is unspecified or named */
    const char   *symbol[IPU_MAX_RANK];
} ipu_onnx_port;

size_t ipu_onnx_n_inputs(const ipu_onnx *file); /* those without an initial value */
size_t ipu_onnx_n_outputs(const ipu_onnx *file);
void   ipu_onnx_input_at(const ipu_onnx *file, size_t i, ipu_onnx_port *out);
void   ipu_onnx_output_at(const ipu_onnx *file, size_t i, ipu_onnx_port *out);

typedef struct ipu_onnx_info {
    int64_t     ir_version, opset; /* opset: the version of the standard domain */
    const char *producer, *producer_version, *domain, *graph_name, *doc;
    int64_t     model_version;
    size_t      n_nodes; /* including those of subgraphs and functions */
    size_t      n_initializers, n_metadata;
    int64_t     n_parameters, parameter_bytes; /* elements of initializers */
} ipu_onnx_info;
void ipu_onnx_get_info(const ipu_onnx *file, ipu_onnx_info *out);
void ipu_onnx_metadata_at(const ipu_onnx *file, size_t i, const char **key, const char **value);

/* Ops by domain and name, each with its number of uses. Returns false past the last. `is_known`: whether this
 * build can import it. */
typedef struct ipu_onnx_op_count {
    const char *domain, *name;
    size_t      n;
    bool        is_known;
} ipu_onnx_op_count;
bool ipu_onnx_op_count_at(const ipu_onnx *file, size_t i, ipu_onnx_op_count *out);

/* The i-th op that this build can import, by domain and name. Returns false past the last. */
bool ipu_onnx_known_op_at(size_t i, const char **domain, const char **name);

/* ---- values on the host ---- */

/* An array, a sequence of values, or nothing (an empty optional). */
typedef struct ipu_onnx_value {
    ipu_onnx_kind          kind;
    ipu_array              array;
    struct ipu_onnx_value *items;
    size_t                 n_items;
} ipu_onnx_value;
/* Frees the arrays too, and leaves it all zero. */
void ipu_onnx_value_free(ipu_onnx_value *v);

/* A standalone TensorProto, SequenceProto or OptionalProto, as in ONNX test data, for `port`. Owned:
 * ipu_onnx_value_free. `*name` (may be NULL) receives its name, owned: ipu_free. */
ipu_status ipu_onnx_value_read(const void *data, size_t bytes, const ipu_onnx_port *port,
                               ipu_onnx_value *out);
ipu_status ipu_onnx_value_open(const char *path, const ipu_onnx_port *port, ipu_onnx_value *out);

/* ---- as a model ---- */

typedef struct ipu_onnx_options {
    const char *const *dims; /* "N=8": the extent of a named dimension, or by position: "x.0=8" */
    size_t             n_dims;
    /* Types, shapes and, for compile-time inputs, values of the inputs, in the file's order; kind NONE or NULL
     * if unspecified. Arrays without data specify only the shape. */
    const ipu_onnx_value *inputs;
    size_t                n_inputs;
    const bool           *fixed; /* which of them are compile-time inputs; NULL for none */
    /* Make floating-point initial values parameters of the model (names as in the file), and let Dropout and
     * BatchNormalization follow their training_mode; otherwise initial values are constants, and the model is
     * for inference. */
    bool training;
    /* Compute what is float in the file in double, inputs and outputs included; for checking gradients against
     * finite differences. */
    bool wide;
    /* Limit in bytes for sparse tensors (beyond 128 times their size in the file), for constants generated from a
     * few numbers (Range), and for the variables of a session. 0 means 64 MiB; 128 MiB; no limit for variables. */
    int64_t most_bytes;
    /* Session only: engine options, and the target to compile for (NULL means one IPU of ipu_device_chip()). */
    const ipu_options *options;
    const ipu_target  *target;
    const char        *cache_folder; /* of executables; NULL: IPU_CACHE_DIR, POPTORCH_CACHE_DIR; "": none */
    /* Executables that a session keeps before it drops the least recently used; 0 means 64. It keeps fewer if the idle
     * ones would take over half of the machine's memory. */
    size_t most_executables;
    /* Session only: use several IPUs of the target's chip. The model is cut into `stages` of about equal modelled time,
     * up to 64, each on its own IPU; there are `replicas` of these, a power of two; and a run has `batches` for each
     * replica. 0 means 1. Inputs then hold batches x replicas batches along dimension 0, replicas innermost, and
     * outputs are concatenated the same way (scalars as a vector); compile-time inputs are the same for all. With at
     * least as many batches as stages, stages work concurrently as a pipeline, otherwise one after another
     * (docs/multi-ipu.md). */
    int64_t stages, replicas, batches;
    /* Which batches give outputs, and which replicas share an input, as in ipu_executor_options; DEFAULT means ALL.
     * Outputs that are sequences, or whose size depends on data, cannot be summed, and are returned for a single batch
     * only. */
    ipu_output_mode output_mode;
    int64_t         output_period;    /* of EVERY_N */
    int64_t         input_group_size; /* consecutive replicas; 0 means 1 */
    /* Tensors of the file's main graph to return after its outputs, in this order. Borrowed for the lifetime of the
     * session. */
    const char *const *outputs;
    size_t             n_outputs;
    /* Session only: the device to run on, with the same meaning as in ipu_executor_options. Other sessions, executors
     * and engines of the process that ask for the same device share it. */
    int  device_id;    /* id + 1 of a device of the active partition; 0 for any */
    bool device_alone; /* with a device_id: BUSY while something else in this process is attached there */
} ipu_onnx_options;

/* Owned: ipu_model_destroy; the file is not needed any more. Inputs and outputs have the file's names, and
 * ipu_model_value_named finds values by their names in the file's main graph. Statuses: UNSUPPORTED (the message lists
 * every node that cannot be imported), INVALID (an error in the file; an unspecified dimension; an input that
 * determines a shape, which the message names), NOT_FOUND (a name in options.outputs is unknown). */
ipu_status ipu_onnx_import(ipu_onnx *file, const ipu_onnx_options *options, ipu_model **out);

/* ---- running ---- */

typedef struct ipu_onnx_session ipu_onnx_session;

/* The file must outlive the session. Nothing is compiled before the first run. Owned:
 * ipu_onnx_session_destroy. */
ipu_status ipu_onnx_session_create(ipu_onnx *file, const ipu_onnx_options *options, ipu_onnx_session **out);
void       ipu_onnx_session_destroy(ipu_onnx_session *s);

/* Inputs and outputs are in the file's order, followed by options.outputs; trailing optional inputs may be omitted. The
 * caller owns the outputs: ipu_onnx_value_free. Compiles if these shapes, or these values of compile-time inputs, are
 * new. */
ipu_status ipu_onnx_session_run(ipu_onnx_session *s, const ipu_onnx_value *in, size_t n_in,
                                ipu_onnx_value *out, size_t n_out);

/* Runs attach automatically. Statuses: INVALID (nothing has run), those of ipu_device_attach. */
ipu_status ipu_onnx_session_attach(ipu_onnx_session *s);
/* A run reattaches; compiled executables and the model's states are kept. Executors and other sessions of the process
 * on the same device keep it: the last to detach releases it. Statuses: INVALID (not attached). */
ipu_status ipu_onnx_session_detach(ipu_onnx_session *s);
bool       ipu_onnx_session_is_attached(const ipu_onnx_session *s);

/* Used by the last run; borrowed. */
ipu_executable *ipu_onnx_session_executable(ipu_onnx_session *s);
ipu_engine     *ipu_onnx_session_engine(ipu_onnx_session *s);
/* Whether its executable came from the cache. */
bool ipu_onnx_session_was_cached(const ipu_onnx_session *s);
/* Its model, as imported, before optimisation. If the executable came from the cache, the file is imported, in its
 * current state, on the first call. NULL if that failed (ipu_message) or nothing has run. */
ipu_model *ipu_onnx_session_model(ipu_onnx_session *s);
/* Its cost on the target. With a cache, a model is priced once rather than in every process. Statuses: INVALID
 * (nothing has run). */
ipu_status ipu_onnx_session_cost(ipu_onnx_session *s, ipu_cost_summary *out);
/* The same, step by step. Owned: ipu_cost_destroy. */
ipu_status ipu_onnx_session_price(ipu_onnx_session *s, ipu_cost **out);
/* Number of executables it holds. */
size_t ipu_onnx_session_n_compiled(const ipu_onnx_session *s);

/* ---- writing ----
 *
 *     IPU_TRY(ipu_onnx_write(m, &(ipu_onnx_write_options){.engine = e, .graph_name = "mlp"}, "mlp.onnx"));
 *
 * A model, built in C or imported, becomes an ONNX file with the same names for inputs, outputs, parameters
 * and states (as initializers). It describes how one run computes the outputs: parameter updates are left
 * out, and dropout is written in its inference form, where it does nothing. An existing file is replaced
 * atomically, once all is on disk.
 */
typedef struct ipu_onnx_write_options {
    int64_t            opset;      /* 13 to 17; 0 means 17 */
    ipu_engine        *engine;     /* source of parameters and states; NULL for their initial values */
    const char        *graph_name; /* NULL means "model" */
    const char        *doc, *graph_doc, *domain, *producer_version; /* NULL for none */
    const char        *producer;                                    /* NULL means "OpenIPU" */
    int64_t            model_version;
    const char *const *metadata;   /* key, value, key, value, ... */
    size_t             n_metadata; /* of pairs */
    bool external; /* put large tensors in a file beside it, PATH.data; always done if it is over 2 GiB */
} ipu_onnx_write_options;

/* `options` may be NULL for the defaults. Statuses: UNSUPPORTED (the message lists every op that ONNX cannot
 * express), IO. */
ipu_status ipu_onnx_write(ipu_model *m, const ipu_onnx_write_options *options, const char *path);
/* To memory, at most 2 GiB. Owned: ipu_free. */
ipu_status ipu_onnx_write_memory(ipu_model *m, const ipu_onnx_write_options *options, void **data,
                                 size_t *bytes);

/* Writes a file as it was read, with everything in it; external data are moved inside if they fit. */
ipu_status ipu_onnx_save(ipu_onnx *file, const char *path);
/* Replaces the values of an initializer, e.g. by trained ones; type and shape stay. `a` is copied. Existing
 * models and compiled sessions are not affected. Statuses: NOT_FOUND, INVALID. */
ipu_status ipu_onnx_set_initializer(ipu_onnx *file, const char *name, const ipu_array *a);
/* Sets a metadata entry, replacing any with the same key. Copied. */
ipu_status ipu_onnx_set_metadata(ipu_onnx *file, const char *key, const char *value);

#ifdef __cplusplus
}
#endif
#endif

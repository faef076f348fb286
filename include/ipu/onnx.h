/* ONNX: files read, run, made into models, and written.
 *
 *     ipu_onnx *file;
 *     IPU_TRY(ipu_onnx_open("resnet50.onnx", &file));
 *     ipu_onnx_session *s;
 *     IPU_TRY(ipu_onnx_session_create(file, &(ipu_onnx_options){0}, &s));
 *     ipu_onnx_value x = {.kind = IPU_ONNX_ARRAY, .array = image}, y = {0};
 *     IPU_TRY(ipu_onnx_session_run(s, &x, 1, &y, 1));
 *
 * A file is read and checked as a whole: hostile ones give an error, in bounded time and memory (docs/onnx.md has the
 * limits). Shapes are static in a model. An input whose value decides a shape (that of a Reshape, the k of a TopK) is
 * a compile-time input: a session keeps one executable for each value it has seen, and for each set of input shapes. With
 * a cache folder, executables outlive the session, and other processes find them there (docs/onnx.md).
 * An output whose extent depends on data (NonZero, Unique) is computed in a buffer of the largest extent and cut by
 * the session. Sequences and optionals are resolved when a model is made. docs/onnx.md tells more.
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

/* Owned: ipu_onnx_close. External data are taken from the file's folder only. Statuses: IO, INVALID (no ONNX
 * file, damaged, or against the rules of the format), UNSUPPORTED (an IR version that is not known). */
ipu_status ipu_onnx_open(const char *path, ipu_onnx **out);
/* From memory, which is not needed afterwards. `folder`: where external data are; NULL: they are refused. */
ipu_status ipu_onnx_read(const void *data, size_t bytes, const char *folder, ipu_onnx **out);
void       ipu_onnx_close(ipu_onnx *file);

/* ---- asking; texts are borrowed from the file, "" where it says nothing ---- */

typedef enum ipu_onnx_kind { IPU_ONNX_NONE, IPU_ONNX_ARRAY, IPU_ONNX_SEQUENCE } ipu_onnx_kind;

typedef struct ipu_onnx_port {
    const char   *name;
    ipu_onnx_kind kind; /* SEQUENCE: `type` is that of its arrays, and shapes are not told */
    bool          is_optional;
    bool          has_type; /* false: `type` is not told, or none of ours (strings) */
    ipu_type      type;
    int           rank;  /* -1: not told */
    ipu_shape     shape; /* -1 where a dimension is not told or has a name */
    const char   *symbol[IPU_MAX_RANK];
} ipu_onnx_port;

size_t ipu_onnx_n_inputs(const ipu_onnx *file); /* those that have no initial value */
size_t ipu_onnx_n_outputs(const ipu_onnx *file);
void   ipu_onnx_input_at(const ipu_onnx *file, size_t i, ipu_onnx_port *out);
void   ipu_onnx_output_at(const ipu_onnx *file, size_t i, ipu_onnx_port *out);

typedef struct ipu_onnx_info {
    int64_t     ir_version, opset; /* opset: of the standard domain */
    const char *producer, *producer_version, *domain, *graph_name, *doc;
    int64_t     model_version;
    size_t      n_nodes; /* those of subgraphs and functions too */
    size_t      n_initializers, n_metadata;
    int64_t     n_parameters, parameter_bytes; /* elements of initializers */
} ipu_onnx_info;
void ipu_onnx_get_info(const ipu_onnx *file, ipu_onnx_info *out);
void ipu_onnx_metadata_at(const ipu_onnx *file, size_t i, const char **key, const char **value);

/* Ops by domain and name, each once, with their number; false past the last. `is_known`: whether this build
 * can import it. */
typedef struct ipu_onnx_op_count {
    const char *domain, *name;
    size_t      n;
    bool        is_known;
} ipu_onnx_op_count;
bool ipu_onnx_op_count_at(const ipu_onnx *file, size_t i, ipu_onnx_op_count *out);

/* The i-th op that this build imports, by domain and name; false past the last. */
bool ipu_onnx_known_op_at(size_t i, const char **domain, const char **name);

/* ---- values on the host ---- */

/* An array, a sequence of values, or nothing (an optional that is empty). */
typedef struct ipu_onnx_value {
    ipu_onnx_kind          kind;
    ipu_array              array;
    struct ipu_onnx_value *items;
    size_t                 n_items;
} ipu_onnx_value;
/* All zero afterwards; frees the arrays too. */
void ipu_onnx_value_free(ipu_onnx_value *v);

/* A TensorProto, SequenceProto or OptionalProto of its own, as ONNX test data hold them, for `port`.
 * Owned: ipu_onnx_value_free. `*name` (may be NULL) receives its name, owned: ipu_free. */
ipu_status ipu_onnx_value_read(const void *data, size_t bytes, const ipu_onnx_port *port,
                               ipu_onnx_value *out);
ipu_status ipu_onnx_value_open(const char *path, const ipu_onnx_port *port, ipu_onnx_value *out);

/* ---- as a model ---- */

typedef struct ipu_onnx_options {
    const char *const *dims; /* "N=8": the extent of a named dimension, or of one by place: "x.0=8" */
    size_t             n_dims;
    /* Types, shapes and, for compile-time inputs, values of the inputs, in the file's order; kind NONE or NULL
     * where there is nothing to say. Arrays without data say the shape only. */
    const ipu_onnx_value *inputs;
    size_t                n_inputs;
    const bool           *fixed; /* which of them are compile-time inputs. NULL: none */
    /* Initial values of floating types become parameters of the model (names as in the file), and Dropout and
     * BatchNormalization behave as their training_mode says; else they are constants and it is inference. */
    bool training;
    /* What is float in the file is computed in double, inputs and outputs included: to check gradients against
     * differences. */
    bool wide;
    /* Bytes that sparse tensors may take beyond what the file holds of them, that constants which a few numbers ask for
     * (Range) may take, and that the variables of a session may take. 0: 64 MiB and 128 times what the file holds; 128
     * MiB; no limit for variables. */
    int64_t most_bytes;
    /* Of a session: engine options; the target that is compiled for (NULL: one IPU of ipu_device_chip()). */
    const ipu_options *options;
    const ipu_target  *target;
    const char *cache_folder; /* compiled executables; NULL: IPU_CACHE_DIR, POPTORCH_CACHE_DIR; "": none */
    /* Executables that a session holds, the one used longest ago goes; 0: 64. Fewer, if those beside the one that runs
     * would take over half of the machine's memory. */
    size_t most_executables;
    /* Of a session: over IPUs of the target's chip. The model is cut into `stages` of about equal modelled time, up to 64,
     * each on an IPU of its own; there are `replicas` of that, a power of two; and a run has `batches` for each replica.
     * 0: 1. Inputs then hold batches x replicas batches along dimension 0, replicas innermost, and outputs are put together
     * along theirs (scalars as a vector); compile-time inputs are the same for all. With `batches` of at least `stages`
     * stages work side by side, as a pipeline, else one after another (docs/multi-ipu.md). */
    int64_t stages, replicas, batches;
    /* Which batches' outputs are given, and which replicas are given the same input, as ipu_executor_options has it; DEFAULT
     * is ALL. Outputs that are sequences, or as large as their data say, have no sum, and are given of one batch only. */
    ipu_output_mode output_mode;
    int64_t         output_period;    /* of EVERY_N */
    int64_t         input_group_size; /* replicas in a row; 0: 1 */
    /* Tensors of the file's main graph to be given besides its outputs, behind them and in this order. Borrowed for as
     * long as the session. */
    const char *const *outputs;
    size_t             n_outputs;
    /* Of a session: the device it runs on, with the meaning that ipu_executor_options gives these. Other sessions, executors
     * and engines of the process that ask for the same share it. */
    int  device_id;    /* of the active partition, from 1 on as id + 1; 0: any */
    bool device_alone; /* with a device_id: BUSY while another of this process is attached there */
} ipu_onnx_options;

/* Owned: ipu_model_destroy; the file is not needed any more. Inputs and outputs have the names of the file.
 * ipu_model_value_named finds values by the names that the file's main graph has for them. Statuses: UNSUPPORTED (the
 * message lists every node that cannot be imported), INVALID (something in the file is wrong; a dimension that is not
 * told; an input that decides a shape, which the message names), NOT_FOUND (options.outputs has a name that is none). */
ipu_status ipu_onnx_import(ipu_onnx *file, const ipu_onnx_options *options, ipu_model **out);

/* ---- running ---- */

typedef struct ipu_onnx_session ipu_onnx_session;

/* The file outlives it. Nothing is compiled before the first run. Owned: ipu_onnx_session_destroy. */
ipu_status ipu_onnx_session_create(ipu_onnx *file, const ipu_onnx_options *options, ipu_onnx_session **out);
void       ipu_onnx_session_destroy(ipu_onnx_session *s);

/* Inputs and outputs in the order of the file, then those of options.outputs; a trailing optional input may be missing. Outputs are owned by the
 * caller: ipu_onnx_value_free. Compiles if these shapes, or these values of compile-time inputs, are new. */
ipu_status ipu_onnx_session_run(ipu_onnx_session *s, const ipu_onnx_value *in, size_t n_in,
                                ipu_onnx_value *out, size_t n_out);

/* A run attaches by itself. Statuses: INVALID (nothing has run), those of ipu_device_attach. */
ipu_status ipu_onnx_session_attach(ipu_onnx_session *s);
/* A run attaches again; what is compiled, and the states of the model, stay. Executors and other sessions of the process
 * that are on the device keep it: the last of them to detach lets go. INVALID: it is not attached. */
ipu_status ipu_onnx_session_detach(ipu_onnx_session *s);
bool       ipu_onnx_session_is_attached(const ipu_onnx_session *s);

/* What the last run used: borrowed. */
ipu_executable *ipu_onnx_session_executable(ipu_onnx_session *s);
ipu_engine     *ipu_onnx_session_engine(ipu_onnx_session *s);
/* Whether its executable came from the cache. */
bool ipu_onnx_session_was_cached(const ipu_onnx_session *s);
/* Its model, as imported, before it was optimised; what came from the cache is imported when this is first asked for,
 * from the file as it is then. NULL: that failed (ipu_message), or nothing has run. */
ipu_model *ipu_onnx_session_model(ipu_onnx_session *s);
/* What it would take on the target. With a cache, a model is priced once and not in each process. INVALID: nothing has
 * run. */
ipu_status ipu_onnx_session_cost(ipu_onnx_session *s, ipu_cost_summary *out);
/* The same step by step. Owned: ipu_cost_destroy. */
ipu_status ipu_onnx_session_price(ipu_onnx_session *s, ipu_cost **out);
/* Number of executables it holds. */
size_t ipu_onnx_session_n_compiled(const ipu_onnx_session *s);

/* ---- writing ----
 *
 *     IPU_TRY(ipu_onnx_write(m, &(ipu_onnx_write_options){.engine = e, .graph_name = "mlp"}, "mlp.onnx"));
 *
 * A model, built in C or imported, becomes an ONNX file: inputs, outputs, parameters and states (as
 * initializers) have its names. It says what one run computes for the outputs: updates of parameters are left
 * out, and dropout is written as ONNX has it for inference, where it does nothing. A file is replaced at one
 * stroke once all of it is on disk.
 */
typedef struct ipu_onnx_write_options {
    int64_t            opset;      /* 13 to 17; 0: 17 */
    ipu_engine        *engine;     /* what parameters and states are read from. NULL: their initial values */
    const char        *graph_name; /* NULL: "model" */
    const char        *doc, *graph_doc, *domain, *producer_version; /* NULL: none */
    const char        *producer;                                    /* NULL: "OpenIPU" */
    int64_t            model_version;
    const char *const *metadata;   /* key, value, key, value, ... */
    size_t             n_metadata; /* of pairs */
    bool
        external; /* large tensors go to a file beside it, PATH.data; also without this if all is over 2 GiB */
} ipu_onnx_write_options;

/* `options` NULL: the defaults. Statuses: UNSUPPORTED (the message lists every op that ONNX cannot say), IO. */
ipu_status ipu_onnx_write(ipu_model *m, const ipu_onnx_write_options *options, const char *path);
/* To memory, of at most 2 GiB. Owned: ipu_free. */
ipu_status ipu_onnx_write_memory(ipu_model *m, const ipu_onnx_write_options *options, void **data,
                                 size_t *bytes);

/* A file as it was read, with everything it says; its external data are put inside if they fit. */
ipu_status ipu_onnx_save(ipu_onnx *file, const char *path);
/* New values, such as trained ones, for an initializer; type and shape stay. `a` is copied. Models and what
 * sessions have compiled keep theirs. Statuses: NOT_FOUND, INVALID. */
ipu_status ipu_onnx_set_initializer(ipu_onnx *file, const char *name, const ipu_array *a);
/* A pair of its metadata, new or in place of the one that has this key. Copied. */
ipu_status ipu_onnx_set_metadata(ipu_onnx *file, const char *key, const char *value);

#ifdef __cplusplus
}
#endif
#endif

/* Models: networks as values and ops, differentiated, optimised and lowered to a graph.
 *
 * A model has inputs (given at each run), parameters and states (kept between runs), ops and outputs. It
 * is built with the functions of the op library (ipu/op.h, layers in ipu/nn.h) through its builder:
 *
 *     ipu_model *m;
 *     IPU_TRY(ipu_model_create(&m));
 *     ipu_builder *b    = ipu_model_builder(m);
 *     ipu_value    x    = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(64, 784), "x");
 *     ipu_value    t    = ipu_model_input(m, IPU_INT32, IPU_SHAPE(64), "labels");
 *     ipu_value    w    = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(784, 10), initial, "w");
 *     ipu_value    loss = ipu_cross_entropy(b, ipu_matmul(b, x, w), t), dw;
 *     ipu_model_gradients(m, loss, &w, 1, NULL, &dw);
 *     ipu_model_update(m, w, ipu_sub(b, w, ipu_mul(b, dw, ipu_scalar_like(b, dw, 0.1))));
 *     ipu_model_output(m, loss, "loss");
 *     IPU_TRY(ipu_model_compile(m, &target, NULL, &exe));
 *
 * Inputs, outputs, parameters and states are host handles of the executable: ipu_engine_write(e, "x",
 * ...), ipu_engine_run(e, 0), ipu_engine_read(e, "loss", ...). Builders keep the first error, with the
 * user's file and line: ipu_builder_status. A model is used by one thread at a time.
 */
#ifndef IPU_MODEL_H
#define IPU_MODEL_H

#include "ipu/builder.h"
#include "ipu/cost.h"
#include "ipu/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_model ipu_model;

ipu_status   ipu_model_create(ipu_model **out);
void         ipu_model_destroy(ipu_model *m);
ipu_builder *ipu_model_builder(ipu_model *m); /* Borrowed. */

/* ---- what goes in, stays and comes out; names are unique among these ---- */

ipu_value ipu_model_input(ipu_model *m, ipu_type type, ipu_shape shape, const char *name);
/* Trained: ipu_model_parameter_at lists it. `initial` (copied) NULL: zeros. */
ipu_value ipu_model_parameter(ipu_model *m, ipu_type type, ipu_shape shape, const void *initial,
                              const char *name);
/* Kept between runs but not trained: running means, momenta, step counts. */
ipu_value ipu_model_state(ipu_model *m, ipu_type type, ipu_shape shape, const void *initial,
                          const char *name);
/* How a parameter or state begins when there is no data: drawn when an engine is created, so that neither model
 * nor executable holds it. Random ones are keyed by ipu_model_set_seed and the order of their making. */
typedef enum ipu_initial_kind {
    IPU_INITIAL_CONSTANT,
    IPU_INITIAL_UNIFORM,
    IPU_INITIAL_NORMAL
} ipu_initial_kind;
typedef struct ipu_initial {
    ipu_initial_kind kind;
    double           a, b; /* the constant; low and high; mean and standard deviation */
} ipu_initial;
void ipu_model_set_initial(ipu_model *m, ipu_value kept, ipu_initial initial);

void ipu_model_output(ipu_model *m, ipu_value v, const char *name);
/* After a run the parameter or state has this value; all ops of the run see the value before. */
void ipu_model_update(ipu_model *m, ipu_value kept, ipu_value value);

/* What random ops draw from: a state uint32[2] {seed, step} called "seed", whose step counts runs. Made at the
 * first call; set the seed with ipu_engine_write or here before compiling. */
ipu_value ipu_model_seed(ipu_model *m);
void      ipu_model_set_seed(ipu_model *m, uint32_t seed);

size_t    ipu_model_n_parameters(const ipu_model *m);
ipu_value ipu_model_parameter_at(ipu_model *m, size_t i);
size_t    ipu_model_n_inputs(const ipu_model *m);
ipu_value ipu_model_input_at(ipu_model *m, size_t i);
size_t    ipu_model_n_outputs(const ipu_model *m);
ipu_value ipu_model_output_at(ipu_model *m, size_t i, const char **name);
size_t    ipu_model_n_ops(const ipu_model *m);

/* The value of that name: an input, parameter, state or output; in an imported model, a tensor of the ONNX file's main
 * graph, also where it became the same value as another, such as a constant; or what ipu_named called so, scopes
 * included, the first that has the name. Borrowed. It can be an output, or what gradients are taken of or with respect to:
 *
 *     ipu_value h = ipu_model_value_named(m, "encoder/layer3/h"), d_h;
 *     ipu_model_gradients(m, loss, &h, 1, NULL, &d_h);
 *
 * Optimising drops values that nothing needs; names of those that become one lead to that one. Values in branches and
 * loops are found while these are built. The text form keeps a value's own name only. Null, and NOT_FOUND with the nearest
 * name in ipu_message: there is none, which is no error of the builder's. */
ipu_value ipu_model_value_named(ipu_model *m, const char *name);

/* ---- gradients ---- */

typedef struct ipu_gradient_options {
    /* Values of the forward pass to keep; what lies between them is computed again for the gradient, right before
     * it is used. Inputs, parameters and what branches and loops give are there anyway. */
    const ipu_value *checkpoints;
    size_t           n_checkpoints;
    /* Ops that are one kernel with a gradient of its own (recurrent layers) are taken apart, so that the
     * gradient can itself be differentiated. */
    bool higher_order;
    /* The gradient of an x that y does not depend on differentiably is null, and no error. */
    bool allow_unused;
    /* Gradient of `y`, of its shape. Null: ones (then y must be a scalar). */
    ipu_value d_y;
} ipu_gradient_options;

/* d_x[i] = the gradient of y with respect to x[i], as ops at the end of what is being built: they can be
 * differentiated again. `options` NULL: the defaults. An x that y does not depend on differentiably is an error
 * that names the op where the path ends. Gradients pass branches and loops; of a loop all turns are kept, by
 * their carried values. What a loop carries that is still open counts as constant. */
void ipu_model_gradients(ipu_model *m, ipu_value y, const ipu_value *x, size_t n,
                         const ipu_gradient_options *options, ipu_value *d_x);
/* The same value, through which no gradient passes. */
ipu_value ipu_stop_gradient(ipu_builder *b, ipu_value x);

/* Emits what d_x[i], null at first, is to be: of the type and shape of x[i], or null: none. d_y[i] is null where nothing
 * depends on y[i]. */
typedef void (*ipu_custom_gradient_fn)(ipu_model *m, const ipu_value *d_y, size_t n_y, ipu_value *d_x,
                                       size_t n, void *user);
/* out[i] is y[i], whose gradients are the user's own (torch.autograd.Function): where they are taken, `fn` is called and
 * says what they are for x; none goes into what y was computed from. It is called while gradients are, not in runs; `user`
 * is borrowed until then. Outside of branches and loops only, and not with executors that change the precision. */
void ipu_model_custom_gradient(ipu_model *m, const ipu_value *x, size_t n, const ipu_value *y, size_t n_y,
                               ipu_custom_gradient_fn fn, void *user, ipu_value *out);

/* ---- stages: a network cut over several IPUs ---- */

/* Ops emitted from now on are of the stage of that name; stages are numbered as they are first named, and what
 * comes before any is of the first. An op uses values of its own stage and of earlier ones, and parameters of
 * any. Gradients are of stages of their own, in the opposite order. An executor makes a pipeline of them
 * (ipu_executor_options); elsewhere they mean nothing. Not inside branches and loops. */
void   ipu_model_stage(ipu_model *m, const char *name);
size_t ipu_model_n_stages(const ipu_model *m); /* 1 where none was named */

/* ---- branches and loops ----
 *
 *     ipu_model_if(m, condition);                   scalar bool
 *         ipu_model_yield(m, &a, 1);                what the branch gives; it may use any earlier value
 *     ipu_model_else(m);
 *         ipu_model_yield(m, &c, 1);                same types and shapes
 *     ipu_model_end(m, &result, 1);
 *
 *     ipu_model_loop(m, 10, IPU_NO_VALUE, carried, 2, inside, &index);    at most 10 times
 *         ...                                        inside[i]: value of carried[i] in this turn
 *         ipu_model_yield_while(m, go_on, next, 2); null: all turns
 *     ipu_model_end(m, after, 2);
 */
void ipu_model_if(ipu_model *m, ipu_value condition);
void ipu_model_else(ipu_model *m);
/* `first`: whether to begin at all; null: yes. `index`: int32 scalar, 0 in the first turn. */
void ipu_model_loop(ipu_model *m, int64_t most, ipu_value first, const ipu_value *carried, size_t n,
                    ipu_value *inside, ipu_value *index);
void ipu_model_yield(ipu_model *m, const ipu_value *values, size_t n);
void ipu_model_yield_while(ipu_model *m, ipu_value go_on, const ipu_value *values, size_t n);
void ipu_model_end(ipu_model *m, ipu_value *results, size_t n);

/* ---- optimising, lowering, compiling ---- */

enum {
    IPU_PASS_FOLD  = 1,  /* ops on constants become constants; reshapes of reshapes, x + 0, ... simplify */
    IPU_PASS_CSE   = 2,  /* equal ops on equal values become one */
    IPU_PASS_DCE   = 4,  /* what no output or update needs is dropped */
    IPU_PASS_FUSE  = 8,  /* elementwise chains; epilogues of matmul and convolution */
    IPU_PASS_SLICE = 16, /* of what is used in a region only, or 0 outside it, the region is computed */
    IPU_PASS_HOST =
        32, /* fusion that pays on the engine (IPU_ENGINE): convolution and pool, a layer and its update */
    IPU_PASS_CHIP = 31, /* all that is priced: without the host's */
    IPU_PASS_ALL  = 63
};
/* In place; values that outputs, updates and the user's handles of inputs and parameters name stay. */
ipu_status ipu_model_optimise(ipu_model *m, unsigned passes);

/* Variables, host handles and one program for the model, in a graph the caller made: own vertices and
 * programs may work on the same tensors (ipu_model_tensor after this). */
ipu_status ipu_model_lower(ipu_model *m, ipu_graph *g, ipu_program *out);
/* Where a value is after ipu_model_lower; null if it was optimised away. */
ipu_tensor ipu_model_tensor(const ipu_model *m, ipu_value v);

/* A copy is optimised and lowered for `target`, then compiled: the model can be built further. Program 0 is one
 * run. Owned: ipu_executable_release. Statuses: the builder's own error, those of ipu_executable_compile. */
ipu_status ipu_model_compile(ipu_model *m, const ipu_target *target, const ipu_options *options,
                             ipu_executable **out);

/* What one run would take on `target`: a copy after the passes IPU_PASS_CHIP, lowered and priced. `options` NULL: the
 * defaults. Owned: ipu_cost_destroy. Statuses: the builder's own error, those of ipu_cost_estimate. */
ipu_status ipu_model_cost(ipu_model *m, const ipu_target *target, const ipu_cost_options *options,
                          ipu_cost **out);

/* ---- text form: the `model` section of docs/text-format.md ---- */

/* Constants and initial values of over 64 elements go to `side_file` (NULL: in full). Owned: ipu_free. */
ipu_status ipu_model_print(ipu_model *m, unsigned flags, const char *side_file, char **out);
ipu_status ipu_model_parse(const char *text, size_t bytes, const char *name, const char *side_file,
                           ipu_model **out);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
#define ipu_model_input(...) IPU_AT(ipu_model_input(__VA_ARGS__))
#define ipu_model_parameter(...) IPU_AT(ipu_model_parameter(__VA_ARGS__))
#define ipu_model_state(...) IPU_AT(ipu_model_state(__VA_ARGS__))
#define ipu_model_set_initial(...) (IPU_ENTER, ipu_model_set_initial(__VA_ARGS__), ipu_leave())
#define ipu_model_output(...) (IPU_ENTER, ipu_model_output(__VA_ARGS__), ipu_leave())
#define ipu_model_update(...) (IPU_ENTER, ipu_model_update(__VA_ARGS__), ipu_leave())
#define ipu_model_seed(...) IPU_AT(ipu_model_seed(__VA_ARGS__))
#define ipu_model_gradients(...) (IPU_ENTER, ipu_model_gradients(__VA_ARGS__), ipu_leave())
#define ipu_stop_gradient(...) IPU_AT(ipu_stop_gradient(__VA_ARGS__))
#define ipu_model_custom_gradient(...) (IPU_ENTER, ipu_model_custom_gradient(__VA_ARGS__), ipu_leave())
#define ipu_model_stage(...) (IPU_ENTER, ipu_model_stage(__VA_ARGS__), ipu_leave())
#define ipu_model_if(...) (IPU_ENTER, ipu_model_if(__VA_ARGS__), ipu_leave())
#define ipu_model_else(...) (IPU_ENTER, ipu_model_else(__VA_ARGS__), ipu_leave())
#define ipu_model_loop(...) (IPU_ENTER, ipu_model_loop(__VA_ARGS__), ipu_leave())
#define ipu_model_yield(...) (IPU_ENTER, ipu_model_yield(__VA_ARGS__), ipu_leave())
#define ipu_model_yield_while(...) (IPU_ENTER, ipu_model_yield_while(__VA_ARGS__), ipu_leave())
#define ipu_model_end(...) (IPU_ENTER, ipu_model_end(__VA_ARGS__), ipu_leave())
#endif
#endif

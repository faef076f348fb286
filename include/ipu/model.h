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

/* ---- inputs, kept values and outputs; names are unique among these ---- */

ipu_value ipu_model_input(ipu_model *m, ipu_type type, ipu_shape shape, const char *name);
/* Trained: listed by ipu_model_parameter_at. `initial` is copied; NULL means zeros. */
ipu_value ipu_model_parameter(ipu_model *m, ipu_type type, ipu_shape shape, const void *initial,
                              const char *name);
/* Kept between runs but not trained: running means, momenta, step counts. */
ipu_value ipu_model_state(ipu_model *m, ipu_type type, ipu_shape shape, const void *initial,
                          const char *name);
/* Initial value of a parameter or state without data: drawn when an engine is created, so that neither model
 * nor executable stores it. Random values depend on ipu_model_set_seed and the order of creation. */
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
/* After a run the parameter or state has this value; all ops of the run see the previous one. */
void ipu_model_update(ipu_model *m, ipu_value kept, ipu_value value);

/* The seed of random ops: a state uint32[2] {seed, step} called "seed", whose step counts runs. Created on
 * first call; set the seed with ipu_engine_write, or here before compiling. */
ipu_value ipu_model_seed(ipu_model *m);
void      ipu_model_set_seed(ipu_model *m, uint32_t seed);

size_t    ipu_model_n_parameters(const ipu_model *m);
ipu_value ipu_model_parameter_at(ipu_model *m, size_t i);
size_t    ipu_model_n_inputs(const ipu_model *m);
ipu_value ipu_model_input_at(ipu_model *m, size_t i);
size_t    ipu_model_n_outputs(const ipu_model *m);
ipu_value ipu_model_output_at(ipu_model *m, size_t i, const char **name);
size_t    ipu_model_n_ops(const ipu_model *m);

/* Finds a value by name: an input, parameter, state or output; in an imported model, a tensor of the ONNX file's main
 * graph, even if it became the same value as another, such as a constant; or the first value given that name, scopes
 * included, by ipu_named. Borrowed. It can be made an output, or differentiated:
 *
 *     ipu_value h = ipu_model_value_named(m, "encoder/layer3/h"), d_h;
 *     ipu_model_gradients(m, loss, &h, 1, NULL, &d_h);
 *
 * Optimising drops values that nothing needs; when values are merged, all their names find the merged one. Values in
 * branches and loops can be found only while these are built. The text form keeps a value's own name only. If there is
 * none, returns null with NOT_FOUND and the nearest name in ipu_message; this is not an error of the builder. */
ipu_value ipu_model_value_named(ipu_model *m, const char *name);

/* ---- gradients ---- */

typedef struct ipu_gradient_options {
    /* Values of the forward pass to keep; everything between them is recomputed for the gradient, right before it
     * is used. Inputs, parameters and results of branches and loops are always available. */
    const ipu_value *checkpoints;
    size_t           n_checkpoints;
    /* Decompose ops that are one kernel with a gradient of its own (recurrent layers), so that the gradient
     * is itself differentiable. */
    bool higher_order;
    /* If y does not depend differentiably on an x, return null for it instead of failing. */
    bool allow_unused;
    /* Gradient of `y`, with its shape. Null means ones (y must then be a scalar). */
    ipu_value d_y;
} ipu_gradient_options;

/* d_x[i] = the gradient of y with respect to x[i], as ops appended to what is being built, so they can be
 * differentiated again. `options` may be NULL for the defaults. An x that y does not depend on differentiably
 * is an error that names the op where the path ends. Gradients pass through branches and loops; for a loop, the
 * carried values of all iterations are kept. Values carried by a loop still under construction count as
 * constants. */
void ipu_model_gradients(ipu_model *m, ipu_value y, const ipu_value *x, size_t n,
                         const ipu_gradient_options *options, ipu_value *d_x);
/* The same value, but no gradient passes through it. */
ipu_value ipu_stop_gradient(ipu_builder *b, ipu_value x);

/* Sets each d_x[i], null on entry, to a value with the type and shape of x[i], or leaves it null for no gradient.
 * d_y[i] is null if nothing depends on y[i]. */
typedef void (*ipu_custom_gradient_fn)(ipu_model *m, const ipu_value *d_y, size_t n_y, ipu_value *d_x,
                                       size_t n, void *user);
/* out[i] is y[i] with user-defined gradients (torch.autograd.Function): when gradients are taken, `fn` is called to
 * emit those of x, and none flow into what y was computed from. It is called when gradients are built, not during runs;
 * `user` is borrowed until then. Not allowed in branches and loops, nor with executors that change the precision. */
void ipu_model_custom_gradient(ipu_model *m, const ipu_value *x, size_t n, const ipu_value *y, size_t n_y,
                               ipu_custom_gradient_fn fn, void *user, ipu_value *out);

/* ---- stages: a network split over several IPUs ---- */

/* Ops emitted from now on belong to the named stage; stages are numbered in the order they are first named,
 * and ops before the first belong to it as well. An op may use values of its own and earlier stages, and any
 * parameters. Gradients form stages of their own, in reverse order. An executor turns stages into a pipeline
 * (ipu_executor_options); elsewhere they have no effect. Not allowed inside branches and loops. */
void   ipu_model_stage(ipu_model *m, const char *name);
size_t ipu_model_n_stages(const ipu_model *m); /* 1 if none was named */

/* ---- branches and loops ----
 *
 *     ipu_model_if(m, condition);                   scalar bool
 *         ipu_model_yield(m, &a, 1);                result of the branch; may use any earlier value
 *     ipu_model_else(m);
 *         ipu_model_yield(m, &c, 1);                same types and shapes
 *     ipu_model_end(m, &result, 1);
 *
 *     ipu_model_loop(m, 10, IPU_NO_VALUE, carried, 2, inside, &index);    at most 10 times
 *         ...                                        inside[i]: carried[i] in this iteration
 *         ipu_model_yield_while(m, go_on, next, 2); go_on null: no early exit
 *     ipu_model_end(m, after, 2);
 */
void ipu_model_if(ipu_model *m, ipu_value condition);
void ipu_model_else(ipu_model *m);
/* `first`: whether to enter the loop at all; null means yes. `index`: int32 scalar, 0 in the first iteration. */
void ipu_model_loop(ipu_model *m, int64_t most, ipu_value first, const ipu_value *carried, size_t n,
                    ipu_value *inside, ipu_value *index);
void ipu_model_yield(ipu_model *m, const ipu_value *values, size_t n);
void ipu_model_yield_while(ipu_model *m, ipu_value go_on, const ipu_value *values, size_t n);
void ipu_model_end(ipu_model *m, ipu_value *results, size_t n);

/* ---- optimising, lowering, compiling ---- */

enum {
    IPU_PASS_FOLD = 1, /* constant ops are evaluated; reshapes of reshapes, x + 0, ... are simplified */
    IPU_PASS_CSE  = 2, /* equal ops on equal values are merged */
    IPU_PASS_DCE  = 4, /* ops that no output or update needs are dropped */
    IPU_PASS_FUSE = 8, /* fuses elementwise chains, and epilogues into matmul and convolution */
    /* If only a region of a value is used, or it is 0 outside one, only that region is computed. */
    IPU_PASS_SLICE = 16,
    IPU_PASS_HOST =
        32, /* fusions that pay off on the engine (IPU_ENGINE): convolution with pool, a layer with its update */
    IPU_PASS_CHIP = 31, /* all that affect prices: everything but IPU_PASS_HOST */
    IPU_PASS_ALL  = 63
};
/* In place; keeps values of outputs and updates, and the user's handles of inputs and parameters. */
ipu_status ipu_model_optimise(ipu_model *m, unsigned passes);

/* Adds variables, host handles and one program for the model to a graph the caller made; the caller's own
 * vertices and programs may use the same tensors (see ipu_model_tensor). */
ipu_status ipu_model_lower(ipu_model *m, ipu_graph *g, ipu_program *out);
/* The tensor of a value after ipu_model_lower; null if it was optimised away. */
ipu_tensor ipu_model_tensor(const ipu_model *m, ipu_value v);

/* Optimises and lowers a copy for `target`, then compiles it; the model itself can be extended further. Program
 * 0 is one run. Owned: ipu_executable_release. Statuses: the builder's own error, those of
 * ipu_executable_compile. */
ipu_status ipu_model_compile(ipu_model *m, const ipu_target *target, const ipu_options *options,
                             ipu_executable **out);

/* What one run would cost on `target`: a copy is optimised with IPU_PASS_CHIP, lowered and priced. `options` may be
 * NULL for the defaults. Owned: ipu_cost_destroy. Statuses: the builder's own error, those of ipu_cost_estimate. */
ipu_status ipu_model_cost(ipu_model *m, const ipu_target *target, const ipu_cost_options *options,
                          ipu_cost **out);

/* ---- text form: the `model` section of docs/text-format.md ---- */

/* Constants and initial values of over 64 elements go to `side_file` (if NULL, they are printed in full).
 * Owned: ipu_free. */
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

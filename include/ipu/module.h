/* Modules: a network as a function that builds it, and its weights on the host.
 *
 * What a torch.nn.Module is to PopTorch. The function is called whenever an executor (ipu/executor.h) compiles:
 * it is given values for one batch and builds the network with the op library, names its outputs and, in
 * training, its losses. Parameters and states that it makes (layers, ipu_model_parameter) live in the module
 * between executors, by their names, so that what one has trained another one runs.
 *
 *     static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
 *     {
 *         ipu_builder *b = ipu_model_builder(m);
 *         ipu_value    x = ipu_log_softmax(b, ipu_nn_linear(m, ipu_flatten(b, in[0], 1), 10, "fc"), 1);
 *         ipu_model_output(m, x, "scores");
 *         if (ipu_nn_is_training(m)) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
 *     }
 *     IPU_TRY(ipu_module_create(forward, NULL, &module));
 *
 * A module is used by one thread at a time, together with its executors.
 */
#ifndef IPU_MODULE_H
#define IPU_MODULE_H

#include "ipu/data.h"
#include "ipu/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_module ipu_module;

/* `in`: one value for each array that the executor is run with, of one batch. ipu_nn_is_training(m) tells for
 * whom it is built. Errors are the builder's. */
typedef void (*ipu_forward_fn)(ipu_model *m, const ipu_value *in, size_t n, void *user);

/* `user` is borrowed. Owned: ipu_module_destroy, after its executors. */
ipu_status ipu_module_create(ipu_forward_fn forward, void *user, ipu_module **out);

/* The network of an ONNX file, its floating initializers as parameters. For training, and for inference with one more
 * input, `loss` is put behind the first output, with the last input as its target: "cross_entropy" (scores), "nll" (log-probabilities), "mse", "l1",
 * "smooth_l1", "bce", "bce_logits", "kl"; NULL: a file of which one output, a scalar, is the loss. Statuses: those
 * of ipu_onnx_open; NOT_FOUND (no such loss: the message lists them). */
ipu_status ipu_module_from_onnx(const char *path, const char *loss, ipu_module **out);
void       ipu_module_destroy(ipu_module *module);

/* The networks that tools, tests and benchmarks name: "seed-cnn", "mnist-cnn" (docs/training.md). In training their
 * outputs are "scores" and "loss". NOT_FOUND: the message lists them. */
ipu_status ipu_module_named(const char *name, ipu_module **out);

/* What the arrays of a run are called, in their order: "input0", "input1", ... unless told. Copied. */
ipu_status ipu_module_name_inputs(ipu_module *module, const char *const *names, size_t n);

/* In which shape the network takes a sample of shape `sample` as input `i`: of a module from an ONNX file that of the file,
 * without its first dimension, if it has as many elements. Else, and of other modules, `sample` stays as it is. */
void ipu_module_fit_sample(const ipu_module *module, size_t i, ipu_shape *sample);

/* What random initial weights are drawn from, before the first executor compiles. 42 at first. */
void ipu_module_set_seed(ipu_module *module, uint32_t seed);

/* ---- weights: parameters and states of the network, not of the optimizer; empty until an executor has compiled.
 *      What runs have changed since, training or not, is fetched from the device first ---- */

size_t ipu_module_n_weights(const ipu_module *module);
/* Borrowed until the next run of an executor. */
ipu_status ipu_module_weight_at(ipu_module *module, size_t i, const char **name, const ipu_array **out);
/* NOT_FOUND: the message names the nearest. */
ipu_status ipu_module_weight(ipu_module *module, const char *name, const ipu_array **out);
/* Copies. Executors have it at their next run. INVALID: type or shape differ. */
ipu_status ipu_module_set_weight(ipu_module *module, const char *name, const ipu_array *a);

/* The same, but the module's copy is the caller's memory itself from now on: what is fetched is written there, what is
 * sent is read from there; what runs have changed since is fetched first. It stays valid, and where it is, until the module is destroyed, another is lent, or `a` is NULL:
 * then the module has memory of its own again, with what this held. What the caller changes in it reaches devices by
 * ipu_executor_copy_weights_to_device, or when it is lent again. */
ipu_status ipu_module_lend_weight(ipu_module *module, const char *name, const ipu_array *a);

/* Whether a device has newer ones than the module, which the next look at one of them fetches. Fetches nothing itself. */
bool ipu_module_is_behind(const ipu_module *module);
/* Of the module's own copies: another number whenever some of them have changed, and never one that another module of the
 * process has. What is changed in lent memory does not count. */
int64_t ipu_module_version(const ipu_module *module);

/* torch.save(model.state_dict()): an .npz of all weights. Loading into a module that has none yet keeps them until it
 * compiles; then, and in one that has, names, types and shapes must be equal (INVALID: the message lists what is
 * missing, left over or different; nothing is changed). */
ipu_status ipu_module_save(ipu_module *module, const char *path);
ipu_status ipu_module_load(ipu_module *module, const char *path);

/* ---- as an ONNX file, for inference ---- */

typedef struct ipu_module_write_options {
    int64_t            batch;      /* samples it takes: dimension 0 of inputs; 0: 1 */
    const char        *graph_name; /* NULL: "model" */
    const char *const *metadata;   /* key, value, key, value, ... */
    size_t             n_metadata; /* of pairs */
    /* It is built for the first so many inputs, as without the labels that give it a loss in tests (ipu/trainer.h); 0: as
     * below. */
    size_t n_inputs;
} ipu_module_write_options;

/* The network as it is built for inference, with the weights there are. Inputs have names, types and shapes as an
 * executor compiled them last; those that inference does not use are left out. Of a module from an ONNX file: that file
 * with new weights and metadata, as it was otherwise. `options` NULL: the defaults. Statuses: INVALID (no executor has
 * compiled yet), those of ipu_onnx_write. */
ipu_status ipu_module_write_onnx(ipu_module *module, const ipu_module_write_options *options,
                                 const char *path);

#ifdef __cplusplus
}
#endif
#endif

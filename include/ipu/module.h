/* Modules: a function that builds a network, and the network's weights on the host.
 *
 * The counterpart of a torch.nn.Module in PopTorch. The function is called whenever an executor
 * (ipu/executor.h) compiles: it receives values for one batch, builds the network with the op library, and
 * names its outputs and, in training, its losses. The parameters and states it creates (layers,
 * ipu_model_parameter) are kept in the module by name, so that one executor can run what another has trained.
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

/* `in`: one value for each array passed to the executor, for one batch. ipu_nn_is_training(m) tells whether
 * it is built for training. Errors are the builder's. */
typedef void (*ipu_forward_fn)(ipu_model *m, const ipu_value *in, size_t n, void *user);

/* `user` is borrowed. Owned: ipu_module_destroy, after its executors. */
ipu_status ipu_module_create(ipu_forward_fn forward, void *user, ipu_module **out);

/* The network of an ONNX file, with its floating-point initializers as parameters. `loss` is applied to the first
 * output, with an additional last input as its target, in training and in inference with that input: "cross_entropy"
 * (scores), "nll" (log-probabilities), "mse", "l1", "smooth_l1", "bce", "bce_logits", "kl"; NULL if one of the file's
 * outputs, a scalar, is the loss. Statuses: those of ipu_onnx_open; NOT_FOUND (no such loss: see the message). */
ipu_status ipu_module_from_onnx(const char *path, const char *loss, ipu_module **out);
void       ipu_module_destroy(ipu_module *module);

/* Networks built into the library for tools, tests and benchmarks: "seed-cnn", "mnist-cnn" (docs/training.md). In
 * training their outputs are "scores" and "loss". Statuses: NOT_FOUND (the message lists them). */
ipu_status ipu_module_named(const char *name, ipu_module **out);

/* Names for the arrays of a run, in order; "input0", "input1", ... by default. Copied. */
ipu_status ipu_module_name_inputs(ipu_module *module, const char *const *names, size_t n);

/* Reshape `sample` to what the network takes as input `i`: for a module from an ONNX file, the file's shape without its
 * first dimension, if it has as many elements. Otherwise, and for other modules, `sample` is left alone. */
void ipu_module_fit_sample(const ipu_module *module, size_t i, ipu_shape *sample);

/* Seed for random initial weights, to be set before the first executor compiles. Default: 42. */
void ipu_module_set_seed(ipu_module *module, uint32_t seed);

/* ---- weights: parameters and states of the network, not of the optimizer; empty until an executor has compiled.
 * Changes made by runs, training or not, are first fetched from the device ---- */

size_t ipu_module_n_weights(const ipu_module *module);
/* Borrowed until the next run of an executor. */
ipu_status ipu_module_weight_at(ipu_module *module, size_t i, const char **name, const ipu_array **out);
/* Statuses: NOT_FOUND (the message suggests the nearest name). */
ipu_status ipu_module_weight(ipu_module *module, const char *name, const ipu_array **out);
/* Copies. Executors use it from their next run. Statuses: INVALID (type or shape differ). */
ipu_status ipu_module_set_weight(ipu_module *module, const char *name, const ipu_array *a);

/* Makes the caller's memory the module's copy of the weight: what is fetched is written there, what is sent is read
 * from there. Pending changes by runs are fetched first. The memory must stay valid and in place until the module is
 * destroyed, other memory is lent, or `a` is NULL: the module then goes back to its own memory, with the same contents.
 * Changes by the caller reach devices through ipu_executor_copy_weights_to_device, or when the memory is lent again. */
ipu_status ipu_module_lend_weight(ipu_module *module, const char *name, const ipu_array *a);

/* Whether a device has newer weights, which the next access will fetch. Fetches nothing itself. */
bool ipu_module_is_behind(const ipu_module *module);
/* Version of the module's own copies: changes whenever one of them does, and is unique among the modules of a process.
 * Changes by the caller to lent memory do not count. */
int64_t ipu_module_version(const ipu_module *module);

/* Like torch.save(model.state_dict()): an .npz of all weights. Loaded into a module that has none yet, they are kept
 * until it compiles. Names, types and shapes must match the network's (INVALID: the message lists what is missing,
 * left over or different; nothing is changed). */
ipu_status ipu_module_save(ipu_module *module, const char *path);
ipu_status ipu_module_load(ipu_module *module, const char *path);

/* ---- as an ONNX file, for inference ---- */

typedef struct ipu_module_write_options {
    int64_t            batch;      /* number of samples: dimension 0 of inputs; 0 means 1 */
    const char        *graph_name; /* NULL means "model" */
    const char *const *metadata;   /* key, value, key, value, ... */
    size_t             n_metadata; /* of pairs */
    /* Build it for the first `n_inputs` inputs only, e.g. without the labels that give it a loss in tests
     * (ipu/trainer.h); 0: see below. */
    size_t n_inputs;
} ipu_module_write_options;

/* The network built for inference, with the current weights. Inputs have the names, types and shapes with which an
 * executor last compiled; those unused in inference are left out. For a module from an ONNX file: that file, otherwise
 * unchanged, with new weights and metadata. `options` may be NULL for the defaults. Statuses: INVALID (no executor has
 * compiled yet), those of ipu_onnx_write. */
ipu_status ipu_module_write_onnx(ipu_module *module, const ipu_module_write_options *options,
                                 const char *path);

#ifdef __cplusplus
}
#endif
#endif

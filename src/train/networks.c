/* Networks that tools, tests and benchmarks call by name. */
#include <string.h>

#include "base/text.h"
#include "ipu/nn.h"
#include "train/module.h"

/* The ClassificationModel of Graphcore's tutorial for PopTorch. */
static ipu_value seed_cnn(ipu_model *m, ipu_value x)
{
    ipu_builder *b = ipu_model_builder(m);
    x              = ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, x, 5, 3, "conv1")), 2);
    x              = ipu_nn_group_norm(m, ipu_relu(b, ipu_nn_conv(m, x, 12, 5, "conv2")), 3, "norm");
    x              = ipu_relu(b, ipu_nn_linear(m, ipu_flatten(b, x, 1), 100, "fc1"));
    return ipu_log_softmax(b, ipu_nn_linear(m, x, 10, "fc2"), 1);
}

static ipu_value mnist_cnn(ipu_model *m, ipu_value x)
{
    ipu_builder *b = ipu_model_builder(m);
    x              = ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, x, 32, 3, "conv1")), 2);
    x              = ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, x, 64, 3, "conv2")), 2);
    x              = ipu_relu(b, ipu_nn_linear(m, ipu_flatten(b, x, 1), 128, "fc1"));
    return ipu_log_softmax(b, ipu_nn_linear(m, x, 10, "fc2"), 1);
}

typedef struct network {
    const char *name;
    ipu_value (*forward)(ipu_model *m, ipu_value x);
} network;

static const network networks[] = {{"seed-cnn", seed_cnn}, {"mnist-cnn", mnist_cnn}};
enum { N_NETWORKS = sizeof networks / sizeof *networks };

static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    const network *net    = user;
    ipu_builder   *b      = ipu_model_builder(m);
    ipu_value      scores = net->forward(m, in[0]);
    ipu_model_output(m, scores, "scores");
    if (ipu_nn_is_training(m) && n > 1) ipu_nn_loss(m, ipu_nll_loss(b, scores, in[1]), "loss");
}

ipu_status ipu_module_named(const char *name, ipu_module **out)
{
    *out        = NULL;
    ipu__text t = {0};
    for (size_t i = 0; i < N_NETWORKS; i++) {
        if (strcmp(networks[i].name, name) == 0) {
            ipu__text_fini(&t);
            IPU_TRY(ipu_module_create(forward, (void *)(uintptr_t)&networks[i], out));
            const char *const inputs[] = {"images", "labels"};
            return ipu_module_name_inputs(*out, inputs, 2);
        }
        ipu__text_add(&t, "%s%s", i ? ", " : "", networks[i].name);
    }
    ipu_status status = t.failed
                          ? ipu__fail_memory()
                          : ipu__fail(IPU_NOT_FOUND, "there is no network \"%s\"; there are: %s", name, t.at);
    ipu__text_fini(&t);
    return status;
}

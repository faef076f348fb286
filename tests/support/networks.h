/* Networks with names: the six workloads, and two that are only compiled. Parameters have PyTorch's names.
 *
 *     seed-cnn mnist-cnn mlp lstm resnet18 bert-mini resnet50 bert-base
 *
 * requires: ipu/nn.h. The same modules are in tests/torch/train.py.
 */
#ifndef IPU_TESTS_NETWORKS_H
#define IPU_TESTS_NETWORKS_H

#include <stdio.h>
#include <string.h>

#include "ipu/ipu.h"

typedef struct network {
    const char *name;
    ipu_shape   input; /* of one sample */
    int64_t     n_classes;
    /* Logarithms of probabilities, [batch, n_classes]. */
    ipu_value (*forward)(ipu_model *m, ipu_value x);
} network;

static ipu_value seed_cnn(ipu_model *m, ipu_value x)
{
    ipu_builder *b = ipu_model_builder(m);
    x              = ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, x, 5, 3, "c1")), 2);
    x              = ipu_nn_group_norm(m, ipu_relu(b, ipu_nn_conv(m, x, 12, 5, "c2")), 3, "g");
    x              = ipu_relu(b, ipu_nn_linear(m, ipu_flatten(b, x, 1), 100, "f1"));
    return ipu_log_softmax(b, ipu_nn_linear(m, x, 10, "f2"), 1);
}

static ipu_value mnist_cnn(ipu_model *m, ipu_value x)
{
    ipu_builder *b = ipu_model_builder(m);
    x              = ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, x, 32, 3, "c1")), 2);
    x              = ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, x, 64, 3, "c2")), 2);
    x              = ipu_relu(b, ipu_nn_linear(m, ipu_flatten(b, x, 1), 128, "f1"));
    return ipu_log_softmax(b, ipu_nn_linear(m, x, 10, "f2"), 1);
}

static ipu_value mlp(ipu_model *m, ipu_value x)
{
    ipu_builder *b = ipu_model_builder(m);
    x              = ipu_relu(b, ipu_nn_linear(m, x, 512, "f1"));
    x              = ipu_relu(b, ipu_nn_linear(m, x, 512, "f2"));
    return ipu_log_softmax(b, ipu_nn_linear(m, x, 10, "f3"), 1);
}

static ipu_value lstm(ipu_model *m, ipu_value x)
{
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    y = ipu_nn_lstm(m, x, 128, (ipu_nn_recurrent_options){.batch_first = true}, NULL, "r");
    return ipu_log_softmax(b, ipu_nn_linear(m, ipu_index(b, y, ipu_value_dim(y, 1) - 1, 1), 10, "f"), 1);
}

/* ---- residual networks ---- */

static ipu_value resnet_conv(ipu_model *m, ipu_value x, int64_t n_out, int64_t size, int64_t stride,
                             const char *conv, const char *norm)
{
    ipu_nn_options options = {.no_bias = true, .stride = stride, .padding = size / 2};
    return ipu_nn_batch_norm(m, ipu_nn_conv_with(m, x, n_out, size, options, conv), norm);
}

/* `middle` 0: two convolutions of 3; else 1, 3, 1 with so many channels between. */
static ipu_value resnet_block(ipu_model *m, ipu_value x, int64_t n_out, int64_t stride, int64_t middle,
                              int number)
{
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    y = x;
    int          n = middle ? 3 : 2;
    char         conv[32], norm[32];
    for (int i = 0; i < n; i++) {
        bool is_wide = middle ? i == 1 : true, is_last = i == n - 1;
        snprintf(conv, sizeof conv, "body.%d.c.%d", number, i);
        snprintf(norm, sizeof norm, "body.%d.b.%d", number, i);
        bool strides = middle ? i == 1 : i == 0;
        y = resnet_conv(m, y, middle && !is_last ? middle : n_out, is_wide ? 3 : 1, strides ? stride : 1,
                        conv, norm);
        if (!is_last) y = ipu_relu(b, y);
    }
    if (stride != 1 || ipu_value_dim(x, 1) != n_out) {
        snprintf(conv, sizeof conv, "body.%d.d.0", number);
        snprintf(norm, sizeof norm, "body.%d.d.1", number);
        x = resnet_conv(m, x, n_out, 1, stride, conv, norm);
    }
    return ipu_relu(b, ipu_add(b, y, x));
}

static ipu_value resnet(ipu_model *m, ipu_value x, const int depths[4], bool bottleneck, int64_t n_classes)
{
    ipu_builder *b       = ipu_model_builder(m);
    bool         is_tiny = n_classes == 10; /* images of 32 pixels */
    x = ipu_relu(b, resnet_conv(m, x, 64, is_tiny ? 3 : 7, is_tiny ? 1 : 2, "stem.0", "stem.1"));
    if (!is_tiny)
        x = ipu_max_pool(b, x, (ipu_pool_options){.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
    for (int stage = 0, number = 0; stage < 4; stage++)
        for (int i = 0; i < depths[stage]; i++) {
            int64_t width = 64 << stage;
            x             = resnet_block(m, x, bottleneck ? 4 * width : width, stage && !i ? 2 : 1,
                             bottleneck ? width : 0, number++);
        }
    x = ipu_reduce_mean(b, x, (const int[]){2, 3}, 2, false);
    return ipu_log_softmax(b, ipu_nn_linear(m, x, n_classes, "f"), 1);
}

static ipu_value resnet18(ipu_model *m, ipu_value x)
{
    return resnet(m, x, (const int[]){2, 2, 2, 2}, false, 10);
}

static ipu_value resnet50(ipu_model *m, ipu_value x)
{
    return resnet(m, x, (const int[]){3, 4, 6, 3}, true, 1000);
}

/* ---- encoders ---- */

static ipu_value encoder(ipu_model *m, ipu_value x, int n_layers, int64_t n_heads)
{
    ipu_builder           *b       = ipu_model_builder(m);
    ipu_nn_encoder_options options = {.n_heads = n_heads, .n_inner = 4 * ipu_value_dim(x, -1), .gelu = true};
    for (int i = 0; i < n_layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "e.layers.%d", i);
        x = ipu_nn_encoder_layer(m, x, IPU_NO_VALUE, options, name);
    }
    return ipu_log_softmax(b, ipu_nn_linear(m, ipu_index(b, x, 0, 1), 10, "f"), 1);
}

static ipu_value bert_mini(ipu_model *m, ipu_value x) { return encoder(m, x, 4, 4); }

static ipu_value bert_base(ipu_model *m, ipu_value x) { return encoder(m, x, 12, 12); }

/* ---- all ---- */

static const network networks[] = {
    {"seed-cnn", {3, {1, 28, 28}}, 10, seed_cnn},
    {"mnist-cnn", {3, {1, 28, 28}}, 10, mnist_cnn},
    {"mlp", {1, {784}}, 10, mlp},
    {"lstm", {2, {28, 28}}, 10, lstm},
    {"resnet18", {3, {3, 32, 32}}, 10, resnet18},
    {"bert-mini", {2, {128, 256}}, 10, bert_mini},
    {"resnet50", {3, {3, 224, 224}}, 1000, resnet50},
    {"bert-base", {2, {128, 768}}, 10, bert_base},
};
enum { N_NETWORKS = sizeof networks / sizeof *networks, N_WORKLOADS = 6 };

/* Inputs "x" and "labels" (int32), output "loss"; `train`: a run is a step of SGD with momentum 0.9. Errors
 * are the builder's. */
static inline void network_build(ipu_model *m, const network *net, int64_t batch, bool train, double rate)
{
    ipu_builder *b     = ipu_model_builder(m);
    ipu_shape    shape = {.rank = net->input.rank + 1, .dim = {batch}};
    memcpy(shape.dim + 1, net->input.dim, (size_t)net->input.rank * sizeof *shape.dim);
    ipu_value x      = ipu_model_input(m, IPU_FLOAT, shape, "x");
    ipu_value labels = ipu_model_input(m, IPU_INT32, IPU_SHAPE(batch), "labels");
    ipu_value loss   = ipu_nll_loss(b, net->forward(m, x), labels);
    ipu_model_output(m, loss, "loss");
    if (train) ipu_nn_train(m, loss, (ipu_nn_optimizer){.rate = rate, .momentum = 0.9});
}

#endif

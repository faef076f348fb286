/* 18: a convolutional network, built of layers and trained.
 *
 * Teaches layers (ipu/nn.h): they make their parameters themselves, so that a network reads like a PyTorch
 * module, and `ipu_nn_train` adds gradients and an optimizer. One model is compiled for training; its weights
 * are read out of the engine and written into another, compiled from the same code for inference.
 *
 * The pictures are made here: a bright bar, upright or lying, at a random place, in noise.
 *
 * Expect:
 *     parameters: 10
 *     training lowers the loss
 *     32 of 32 pictures are told right
 */
#include <string.h>

#include "example.h"

enum { BATCH = 32, SIDE = 28, STEPS = 40 };

/* The network of PopTorch's MNIST tutorial, with two classes. */
static ipu_value network(ipu_model *m, ipu_value x)
{
    ipu_builder *b = ipu_model_builder(m);
    x              = ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, x, 5, 3, "conv1")), 2);
    x              = ipu_nn_group_norm(m, ipu_relu(b, ipu_nn_conv(m, x, 12, 5, "conv2")), 3, "norm");
    x              = ipu_relu(b, ipu_nn_linear(m, ipu_flatten(b, x, 1), 100, "fc1"));
    return ipu_log_softmax(b, ipu_nn_linear(m, x, 2, "fc2"), 1);
}

static ipu_engine *compile(bool training)
{
    ipu_target      target;
    ipu_model      *m;
    ipu_executable *exe;
    ipu_engine     *e;
    CHECK(ipu_model_create(&m));
    ipu_builder *b      = ipu_model_builder(m);
    ipu_value    x      = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(BATCH, 1, SIDE, SIDE), "x");
    ipu_value    scores = network(m, x);
    if (training) {
        ipu_value labels = ipu_model_input(m, IPU_INT32, IPU_SHAPE(BATCH), "labels");
        ipu_value loss   = ipu_nll_loss(b, scores, labels);
        ipu_model_output(m, loss, "loss");
        printf("parameters: %zu\n", ipu_model_n_parameters(m));
        ipu_nn_train(m, loss, (ipu_nn_optimizer){.rate = 0.05, .momentum = 0.9});
    } else {
        ipu_model_output(m, ipu_argmax(b, scores, 1, false), "class");
    }
    CHECK(ipu_builder_status(b));
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_model_compile(m, &target, NULL, &exe));
    CHECK(ipu_engine_create(exe, NULL, &e));
    ipu_executable_release(exe);
    ipu_model_destroy(m);
    return e;
}

static unsigned next_random(unsigned *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

static void draw(unsigned *state, float *pictures, int32_t *labels)
{
    for (int n = 0; n < BATCH; n++) {
        float *picture = pictures + n * SIDE * SIDE;
        labels[n]      = (int32_t)(next_random(state) % 2);
        for (int i = 0; i < SIDE * SIDE; i++) picture[i] = (float)(next_random(state) % 100) / 250;
        int at = (int)(next_random(state) % (SIDE - 4)) + 2;
        for (int i = 4; i < SIDE - 4; i++) picture[labels[n] ? at * SIDE + i : i * SIDE + at] = 1;
    }
}

static void copy_weights(ipu_engine *from, ipu_engine *to)
{
    static const struct {
        const char *name;
        size_t      n;
    } weights[] = {{"conv1.weight", 45}, {"conv1.bias", 5}, {"conv2.weight", 1500}, {"conv2.bias", 12},
                   {"norm.weight", 12},  {"norm.bias", 12}, {"fc1.weight", 97200},  {"fc1.bias", 100},
                   {"fc2.weight", 200},  {"fc2.bias", 2}};
    static float data[97200];
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        CHECK(ipu_engine_read(from, weights[i].name, data, weights[i].n * sizeof *data));
        CHECK(ipu_engine_write(to, weights[i].name, data, weights[i].n * sizeof *data));
    }
}

int main(void)
{
    static float pictures[BATCH * SIDE * SIDE];
    int32_t      labels[BATCH], classes[BATCH];
    unsigned     state = 1;
    float        first = 0, loss = 0;
    ipu_engine  *training = compile(true), *inference = compile(false);
    for (int step = 0; step < STEPS; step++) {
        draw(&state, pictures, labels);
        CHECK(ipu_engine_write(training, "x", pictures, sizeof pictures));
        CHECK(ipu_engine_write(training, "labels", labels, sizeof labels));
        CHECK(ipu_engine_run(training, 0));
        CHECK(ipu_engine_read(training, "loss", &loss, sizeof loss));
        if (step == 0) first = loss;
    }
    EXPECT(loss < first / 4);
    printf("training lowers the loss\n");

    copy_weights(training, inference);
    draw(&state, pictures, labels); /* never seen before */
    CHECK(ipu_engine_write(inference, "x", pictures, sizeof pictures));
    CHECK(ipu_engine_run(inference, 0));
    CHECK(ipu_engine_read(inference, "class", classes, sizeof classes));
    int right = 0;
    for (int n = 0; n < BATCH; n++) right += classes[n] == labels[n];
    printf("%d of %d pictures are told right\n", right, BATCH);
    ipu_engine_destroy(training);
    ipu_engine_destroy(inference);
    return 0;
}

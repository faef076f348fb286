/* 20: training as in PopTorch: a dataset, a loader, a module and two executors.
 *
 * Teaches datasets of one's own (a function that gives sample i), loaders that make batches of it in threads
 * (ipu/loader.h), and executors (ipu/executor.h): the module's function builds the network whenever one
 * compiles. A training run takes five batches at once and makes five steps on the device; the learning rate
 * is changed between runs, and nothing is compiled again. What was trained is in the module: the inference
 * model has it at its first run.
 *
 * The pictures are digits, drawn here. examples/mnist/train.c is the same with files.
 *
 * Expect:
 *     a run holds 5 batches of 16
 *     training lowers the loss
 *     4 weights
 *     most of 200 digits that were never seen are told right
 */
#include "example.h"

enum { PIXELS = 28 * 28, N_TRAIN = 960, N_TEST = 200 };

/* Sample i: the fields "image" and "label". Several threads call this at once. */
static ipu_status draw(void *user, int64_t i, void *const *fields)
{
    const uint32_t *seed = user;
    uint8_t         pixels[PIXELS];
    int             label;
    ipu_digits_draw(*seed, i, &label, pixels);
    for (int p = 0; p < PIXELS; p++) ((float *)fields[0])[p] = (float)pixels[p] / 255;
    *(int32_t *)fields[1] = label;
    return IPU_OK;
}

static ipu_dataset *make_dataset(int64_t n, uint32_t *seed)
{
    const ipu_field fields[] = {{"image", IPU_FLOAT, IPU_SHAPE(1, 28, 28)}, {"label", IPU_INT32, IPU_SCALAR}};
    ipu_dataset    *d;
    CHECK(ipu_dataset_create(fields, 2, n, (ipu_dataset_functions){.get = draw}, seed, &d));
    return d;
}

static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_relu(b, ipu_nn_linear(m, ipu_flatten(b, in[0], 1), 64, "hidden"));
    x              = ipu_log_softmax(b, ipu_nn_linear(m, x, 10, "scores"), 1);
    ipu_model_output(m, ipu_argmax(b, x, 1, false), "class");
    if (n > 1) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

/* The mean loss of the last run of each epoch. */
static void train(ipu_module *module, double losses[2])
{
    uint32_t             seed    = 1;
    ipu_executor_options options = {.device_iterations = 5, .output_mode = IPU_OUTPUT_ALL};
    ipu_nn_training      adam    = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.004}};
    ipu_dataset         *dataset = make_dataset(N_TRAIN, &seed);
    ipu_loader          *loader;
    ipu_executor        *x;
    CHECK(ipu_loader_create(dataset, &options, &(ipu_loader_options){.batch_size = 16, .shuffle = true},
                            &loader));
    CHECK(ipu_training_model(module, &options, &adam, &x));
    printf("a run holds %d batches of 16\n", (int)ipu_loader_combined_batch_size(loader) / 16);
    for (int epoch = 0; epoch < 2; epoch++) {
        for (ipu_batch batch; ipu_loader_next(loader, &batch);)
            CHECK(ipu_executor_run(x, batch.arrays, batch.n_arrays));
        CHECK(ipu_loader_status(loader));
        CHECK(ipu_executor_scalar(x, "loss", &losses[epoch]));
        CHECK(ipu_executor_set_rate(x, 0, 0.001));
    }
    EXPECT(ipu_executor_n_steps(x) == 2 * N_TRAIN / 16);
    ipu_executor_destroy(x);
    ipu_loader_destroy(loader);
    ipu_dataset_destroy(dataset);
}

static int count_right(ipu_module *module)
{
    uint32_t      seed    = 2;
    int           n_right = 0;
    ipu_dataset  *dataset = make_dataset(N_TEST, &seed);
    ipu_loader   *loader;
    ipu_executor *x;
    CHECK(ipu_loader_create(dataset, NULL, &(ipu_loader_options){.batch_size = 40}, &loader));
    CHECK(ipu_inference_model(module, NULL, &x));
    for (ipu_batch batch; ipu_loader_next(loader, &batch);) {
        CHECK(ipu_executor_run(x, batch.arrays, 1)); /* no labels: n is 1 in forward */
        const int32_t *labels = batch.arrays[1].data, *classes = ipu_executor_output(x, "class")->data;
        for (int64_t i = 0; i < batch.n_samples; i++) n_right += classes[i] == labels[i];
    }
    CHECK(ipu_loader_status(loader));
    ipu_executor_destroy(x);
    ipu_loader_destroy(loader);
    ipu_dataset_destroy(dataset);
    return n_right;
}

int main(void)
{
    ipu_module *module;
    double      losses[2];
    CHECK(ipu_module_create(forward, NULL, &module));
    train(module, losses);
    EXPECT(losses[1] < 1 && losses[1] < losses[0]);
    printf("training lowers the loss\n");
    printf("%zu weights\n", ipu_module_n_weights(module));
    int n_right = count_right(module);
    EXPECT(n_right > N_TEST * 7 / 10);
    printf("most of %d digits that were never seen are told right\n", N_TEST);
    ipu_module_destroy(module);
    return 0;
}

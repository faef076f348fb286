/* The MNIST tutorial of PopTorch, step by step: mnist_train [FOLDER [EPOCHS]]. No folder: drawn digits. */
#include "../example.h"

/* Build the model */
static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n, (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, in[0], 5, 3, "conv1")), 2);
    x              = ipu_nn_group_norm(m, ipu_relu(b, ipu_nn_conv(m, x, 12, 5, "conv2")), 3, "norm");
    x              = ipu_relu(b, ipu_nn_linear(m, ipu_flatten(b, x, 1), 100, "fc1"));
    x              = ipu_log_softmax(b, ipu_nn_linear(m, x, 10, "fc2"), 1);
    ipu_model_output(m, ipu_argmax(b, x, 1, false), "class");
    if (ipu_nn_is_training(m)) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

int main(int argc, char **argv)
{
    /* Load the data */
    const char  *folder = argc > 1 ? argv[1] : "digits";
    ipu_dataset *train_dataset, *test_dataset;
    if (argc < 2) CHECK(ipu_digits_write(folder, NULL, NULL, NULL));
    CHECK(ipu_dataset_open(folder, IPU_TRAIN, NULL, &train_dataset));
    CHECK(ipu_dataset_open(folder, IPU_TEST, NULL, &test_dataset));

    /* Prepare training for IPUs */
    ipu_module          *model;
    ipu_executor_options opts = {0};
    ipu_loader_options   how  = {.batch_size = 16, .shuffle = true};
    ipu_loader          *train_loader, *test_loader;
    CHECK(ipu_module_create(forward, NULL, &model));
    CHECK(ipu_loader_create(train_dataset, &opts, &how, &train_loader));

    /* Train the model */
    ipu_nn_training optimizer = {.optimizer = {.rate = 0.001, .momentum = 0.9}};
    ipu_executor   *trainer, *predictor;
    CHECK(ipu_training_model(model, &opts, &optimizer, &trainer));
    for (int epoch = 0, epochs = argc > 2 ? atoi(argv[2]) : 30; epoch < epochs; epoch++) {
        double total_loss = 0, loss;
        for (ipu_batch batch; ipu_loader_next(train_loader, &batch); total_loss += loss) {
            CHECK(ipu_executor_run(trainer, batch.arrays, 2));
            CHECK(ipu_executor_scalar(trainer, "loss", &loss));
        }
        CHECK(ipu_loader_status(train_loader));
        printf("epoch %d: loss %.4f\n", epoch + 1, total_loss / (double)ipu_loader_n_batches(train_loader));
    }
    CHECK(ipu_executor_detach(trainer));
    CHECK(ipu_module_save(model, "classifier.npz"));

    /* Evaluate the model */
    int n_right = 0, n = 0;
    CHECK(ipu_inference_model(model, &opts, &predictor));
    CHECK(ipu_loader_create(test_dataset, &opts, &(ipu_loader_options){.batch_size = 32}, &test_loader));
    for (ipu_batch batch; ipu_loader_next(test_loader, &batch); n += 32) {
        CHECK(ipu_executor_run(predictor, batch.arrays, 1));
        const int32_t *y = batch.arrays[1].data, *found = ipu_executor_output(predictor, "class")->data;
        for (int i = 0; i < 32; i++) n_right += found[i] == y[i];
    }
    CHECK(ipu_executor_detach(predictor));
    printf("Eval accuracy: %.2f%%\n", 100.0 * n_right / n);

    ipu_executor_destroy(trainer), ipu_executor_destroy(predictor), ipu_module_destroy(model);
    ipu_loader_destroy(train_loader), ipu_loader_destroy(test_loader);
    ipu_dataset_destroy(train_dataset), ipu_dataset_destroy(test_dataset);
}

/* 26: a whole training: epochs, learning rates, tests, checkpoints, and going on after a stop.
 *
 * Teaches trainers (ipu/trainer.h): a struct says what is to be trained, on what and for how long; functions in it are
 * called as it goes. This training is interrupted in its second epoch, as by Ctrl-C, and another trainer goes on from the
 * checkpoint that was written then. It ends with the bits of one that was never stopped: that is checked, too.
 *
 * The pictures are digits, drawn here.
 *
 * Expect:
 *     epoch 1 is trained and tested
 *     stopped after run 40 of 90
 *     epoch 2 is trained and tested
 *     epoch 3 is trained and tested
 *     went on from run 40
 *     most of 200 digits that were never seen are told right
 *     the same bits as without a stop
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "example.h"

enum { PIXELS = 28 * 28, N_TRAIN = 480, N_TEST = 200, STOP = 40 };

/* ---- the data and the network: examples 20 and 18 are about these ---- */

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
    (void)n;
    (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_relu(b, ipu_nn_linear(m, ipu_flatten(b, in[0], 1), 64, "hidden"));
    x              = ipu_log_softmax(b, ipu_nn_linear(m, x, 10, "scores"), 1);
    ipu_model_output(m, x, "scores");
    if (ipu_nn_is_training(m)) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

/* ---- training ---- */

typedef struct watch {
    ipu_trainer *trainer;
    int64_t      stop_after; /* runs; 0: never */
    bool         quiet;
} watch;

static void on_step(void *user, const ipu_trainer_step *step)
{
    watch *w = user;
    if (step->epoch * step->n_batches + step->batch + 1 == w->stop_after) ipu_trainer_interrupt(w->trainer);
}

static void on_epoch(void *user, int64_t i, const ipu_trainer_epoch *epoch)
{
    const watch *w = user;
    EXPECT(epoch->test_loss > 0 && epoch->test_accuracy <= 1);
    if (!w->quiet) printf("epoch %d is trained and tested\n", (int)i + 1);
}

/* Trains a new network; INTERRUPTED if it was stopped. */
static ipu_status train(const char *folder, watch w, ipu_trainer_results *out, double *accuracy,
                        ipu_array *weight)
{
    uint32_t            seeds[] = {1, 2};
    ipu_dataset        *data = make_dataset(N_TRAIN, &seeds[0]), *test = make_dataset(N_TEST, &seeds[1]);
    ipu_trainer_options how = {.data              = data,
                               .test              = test,
                               .n_epochs          = 3,
                               .loader            = {.batch_size = 16, .shuffle = true},
                               .training          = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.004}},
                               .schedule          = {.kind = IPU_SCHEDULE_COSINE},
                               .checkpoint_folder = folder,
                               .begin             = IPU_TRAINER_RESUME,
                               .events            = {.user = &w, .step = on_step, .epoch = on_epoch}};
    CHECK(ipu_module_create(forward, NULL, &how.module));
    CHECK(ipu_trainer_create(&how, &w.trainer));

    ipu_status status = ipu_trainer_run(w.trainer);
    if (status != IPU_INTERRUPTED) CHECK(status);
    ipu_trainer_get_results(w.trainer, out);
    *accuracy = out->epochs[out->n_epochs - 1].test_accuracy;

    const ipu_array *trained;
    CHECK(ipu_module_weight(how.module, "hidden.weight", &trained));
    CHECK(ipu_array_create(trained->type, trained->shape, weight));
    memcpy(weight->data, trained->data, ipu_array_bytes(weight));
    ipu_trainer_destroy(w.trainer);
    ipu_module_destroy(how.module);
    ipu_dataset_destroy(data);
    ipu_dataset_destroy(test);
    return status;
}

static void remove_folder(const char *folder)
{
    char path[512];
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) remove(path);
    }
    if (d) closedir(d);
    rmdir(folder);
}

int main(void)
{
    char                folder[] = "/tmp/ipu-example-XXXXXX";
    ipu_trainer_results r;
    ipu_array           weights[3];
    double              accuracy;
    if (!mkdtemp(folder)) return EXIT_FAILURE;

    EXPECT(train(folder, (watch){.stop_after = STOP}, &r, &accuracy, &weights[0]) == IPU_INTERRUPTED);
    printf("stopped after run %d of %d\n", (int)r.runs, 3 * (int)r.runs_per_epoch);
    EXPECT(r.last_saved == STOP);
    CHECK(train(folder, (watch){0}, &r, &accuracy, &weights[1]));
    printf("went on from run %d\n", (int)r.resumed_from);
    EXPECT(accuracy > 0.7);
    printf("most of %d digits that were never seen are told right\n", N_TEST);

    CHECK(train(NULL, (watch){.quiet = true}, &r, &accuracy, &weights[2]));
    EXPECT(memcmp(weights[1].data, weights[2].data, ipu_array_bytes(&weights[1])) == 0);
    printf("the same bits as without a stop\n");

    for (int i = 0; i < 3; i++) ipu_array_free(&weights[i]);
    remove_folder(folder);
    return 0;
}

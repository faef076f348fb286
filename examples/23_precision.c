/* 23: training with few bits: mixed precision, weights of half, stochastic rounding, loss scales.
 *
 * Teaches the options of an executor that choose what a network computes in (ipu/executor.h, docs/precision.md). The
 * network is built with floats, as ever; in mixed precision its ops run in half where half is enough and its weights
 * are kept in float, and with weights of half all that is trained has 11 bits. The module has floats in any case: what
 * is trained one way can be run another.
 *
 * Half is coarse: from 1 on, the next number is 1 + 1/1024. An update of an eighth of that is lost when it is rounded
 * to the nearest, however often it is made; rounded at random, it is made once in eight times. Half is also short: what
 * is under 2^-24 is 0, and that is what small gradients become, unless the loss is multiplied before gradients are taken.
 * The scale finds itself: it is halved when a gradient is no number any more, and that step is not made.
 *
 * Expect:
 *     64 steps of 2^-13 from 1, in half, to the nearest: 1.0000
 *     64 steps of 2^-13 from 1, in half, at random: about 1.0078
 *     64 steps of 2^-13 from 1, in mixed precision: 1.0078
 *     a step with an infinite gradient: weights stay, the scale goes from 65536 to 32768
 *     digits told right: mixed and half are as good as float
 *     modelled: mixed takes less time and less memory than float
 */
#include "example.h"

#include <math.h>

/* ---- one parameter, whose gradient is the input ---- */

enum { N_WEIGHTS = 1000, N_STEPS = 64 };

static void walk(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n, (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(N_WEIGHTS), NULL, "w");
    ipu_model_set_initial(m, w, (ipu_initial){IPU_INITIAL_CONSTANT, 1, 0});
    ipu_nn_loss(m, ipu_reduce_sum(b, ipu_mul(b, w, in[0]), NULL, 0, false), "loss");
}

static double mean_weight(ipu_module *module)
{
    const ipu_array *w;
    double           sum = 0;
    CHECK(ipu_module_weight(module, "w", &w));
    for (int i = 0; i < N_WEIGHTS; i++) sum += (double)((const float *)w->data)[i];
    return sum / N_WEIGHTS;
}

static ipu_array gradient(float value)
{
    ipu_array a;
    CHECK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(N_WEIGHTS), &a));
    for (int i = 0; i < N_WEIGHTS; i++) ((float *)a.data)[i] = value;
    return a;
}

static double walk_up(ipu_executor_options options)
{
    ipu_module     *module;
    ipu_executor   *x;
    ipu_nn_training how = {.optimizer = {.rate = 1}};
    ipu_array       in  = gradient(-0x1p-13f);
    CHECK(ipu_module_create(walk, NULL, &module));
    CHECK(ipu_training_model(module, &options, &how, &x));
    for (int i = 0; i < N_STEPS; i++) CHECK(ipu_executor_run(x, &in, 1));
    double mean = mean_weight(module);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    ipu_array_free(&in);
    return mean;
}

static void overflow(void)
{
    ipu_module          *module;
    ipu_executor        *x;
    float                scale[2];
    ipu_executor_options options = {.precision = IPU_PRECISION_HALF};
    ipu_nn_training      how     = {.optimizer = {.rate = 1}, .loss_scale_period = 2000};
    ipu_array            in      = gradient(INFINITY);
    CHECK(ipu_module_create(walk, NULL, &module));
    CHECK(ipu_training_model(module, &options, &how, &x));
    CHECK(ipu_executor_compile(x, &in, 1));
    CHECK(ipu_engine_read(ipu_executor_engine(x), "loss_scale", &scale[0], sizeof *scale));
    CHECK(ipu_executor_run(x, &in, 1));
    CHECK(ipu_engine_read(ipu_executor_engine(x), "loss_scale", &scale[1], sizeof *scale));
    EXPECT(mean_weight(module) == 1);
    printf("a step with an infinite gradient: weights stay, the scale goes from %.0f to %.0f\n",
           (double)scale[0], (double)scale[1]);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    ipu_array_free(&in);
}

/* ---- a network ---- */

enum { PIXELS = 28 * 28, BATCH = 32, N_RUNS = 60, N_TEST = 320 };

static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_max_pool2d(b, ipu_relu(b, ipu_nn_conv(m, in[0], 8, 5, "conv")), 4);
    x              = ipu_relu(b, ipu_nn_linear(m, ipu_flatten(b, x, 1), 64, "hidden"));
    x              = ipu_log_softmax(b, ipu_nn_linear(m, x, 10, "scores"), 1);
    ipu_model_output(m, ipu_argmax(b, x, 1, false), "class");
    if (n > 1) ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

/* `n` digits from number `first` on, into arrays of theirs. */
static void draw(int64_t first, int64_t n, ipu_array *out)
{
    CHECK(ipu_array_create(IPU_FLOAT, IPU_SHAPE(n, 1, 28, 28), &out[0]));
    CHECK(ipu_array_create(IPU_INT32, IPU_SHAPE(n), &out[1]));
    for (int64_t i = 0; i < n; i++) {
        uint8_t pixels[PIXELS];
        int     label;
        ipu_digits_draw(1, first + i, &label, pixels);
        for (int p = 0; p < PIXELS; p++) ((float *)out[0].data)[i * PIXELS + p] = (float)pixels[p] / 255;
        ((int32_t *)out[1].data)[i] = label;
    }
}

typedef struct outcome {
    int              n_right;
    ipu_cost_summary cost; /* of a step, on the chip */
} outcome;

static void train(ipu_module *module, const ipu_executor_options *options, outcome *out)
{
    ipu_nn_training adam = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.003}, .loss_scale_period = 2000};
    ipu_executor   *x;
    ipu_cost       *cost;
    ipu_array       batch[2];
    CHECK(ipu_training_model(module, options, &adam, &x));
    for (int run = 0; run < N_RUNS; run++) {
        draw((int64_t)run * BATCH, BATCH, batch);
        CHECK(ipu_executor_run(x, batch, 2));
        for (int i = 0; i < 2; i++) ipu_array_free(&batch[i]);
    }
    CHECK(ipu_executor_cost(x, NULL, &cost));
    ipu_cost_get_summary(cost, &out->cost);
    ipu_cost_destroy(cost);
    ipu_executor_destroy(x);
}

static outcome try(ipu_executor_options options)
{
    ipu_module   *module;
    ipu_executor *tester;
    ipu_array     test[2];
    outcome       out = {0};
    CHECK(ipu_module_create(forward, NULL, &module));
    train(module, &options, &out);
    CHECK(ipu_inference_model(module, NULL, &tester)); /* in float, whatever it was trained in */
    draw(100000, N_TEST, test);
    CHECK(ipu_executor_run(tester, test, 1));
    const int32_t *labels = test[1].data, *classes = ipu_executor_output(tester, "class")->data;
    for (int i = 0; i < N_TEST; i++) out.n_right += classes[i] == labels[i];
    for (int i = 0; i < 2; i++) ipu_array_free(&test[i]);
    ipu_executor_destroy(tester);
    ipu_module_destroy(module);
    return out;
}

int main(void)
{
    const ipu_executor_options mixed   = {.precision = IPU_PRECISION_MIXED};
    const ipu_executor_options nearest = {.precision = IPU_PRECISION_HALF};
    const ipu_executor_options random  = {.precision = IPU_PRECISION_HALF, .stochastic_rounding = true};
    printf("64 steps of 2^-13 from 1, in half, to the nearest: %.4f\n", walk_up(nearest));
    double arrived = walk_up(random);
    EXPECT(fabs(arrived - 1.0078) < 0.0003);
    printf("64 steps of 2^-13 from 1, in half, at random: about 1.0078\n");
    printf("64 steps of 2^-13 from 1, in mixed precision: %.4f\n", walk_up(mixed));
    overflow();
    outcome full = try((ipu_executor_options){0}), less = try(mixed), least = try(random);
    EXPECT(full.n_right > N_TEST * 8 / 10);
    EXPECT(less.n_right > full.n_right - 13 && least.n_right > full.n_right - 13);
    printf("digits told right: mixed and half are as good as float\n");
    EXPECT(less.cost.cycles.total < full.cost.cycles.total && less.cost.memory_most < full.cost.memory_most);
    printf("modelled: mixed takes less time and less memory than float\n");
    return 0;
}

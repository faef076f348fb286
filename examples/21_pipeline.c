/* 21: a network over several IPUs, as a pipeline of stages.
 *
 * Teaches ipu_model_stage, by which a network says where it is cut, and the options of an executor that make a
 * pipeline of it: schedule, recompute and activations_off_chip change what it takes, never what it computes. Without
 * names, options.stages cuts it into parts of about equal modelled time.
 *
 * A pipeline of S stages fills and empties once in each step of the optimizer, so that at least 2 S - 1 batches have
 * to be accumulated: example 11 shows how errors look; the one here says which option to change.
 *
 * Expect:
 *     2 stages, grouped: the weights of one IPU, bit for bit, in less time
 *     2 stages, interleaved: the weights of one IPU, bit for bit, in less time
 *     2 stages, sequential: the weights of one IPU, bit for bit
 *     4 stages, chosen, recomputed: the weights of one IPU, bit for bit, in less time
 *     2 batches are too few: "gradient_accumulation" is to be changed
 */
#include <string.h>

#include "example.h"

enum { WIDTH = 64, BATCH = 32, N_LAYERS = 8, N_BATCHES = 16 };

static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    const bool  *has_stages = user;
    ipu_builder *b          = ipu_model_builder(m);
    ipu_value    x          = in[0];
    (void)n;
    for (int i = 0; i < N_LAYERS; i++) {
        char name[8];
        if (*has_stages) ipu_model_stage(m, i < N_LAYERS / 2 ? "lower half" : "upper half");
        snprintf(name, sizeof name, "fc%d", i);
        x = ipu_tanh(b, ipu_nn_linear(m, x, WIDTH, name));
    }
    ipu_nn_loss(m, ipu_mse_loss(b, x, in[1], IPU_LOSS_MEAN), "loss"); /* of the last stage, with its labels */
}

static ipu_array numbers(uint32_t seed)
{
    ipu_array a;
    CHECK(ipu_array_create(IPU_FLOAT, IPU_SHAPE((int64_t)BATCH * N_BATCHES, WIDTH), &a));
    for (int64_t i = 0; i < ipu_array_n_elements(&a); i++) {
        seed                 = seed * 1664525u + 1013904223u;
        ((float *)a.data)[i] = (float)(seed >> 8) * 0x1p-23f - 1;
    }
    return a;
}

/* The weights of the first layer after two steps; what a step would take, in cycles. */
static int64_t train(bool has_stages, ipu_executor_options options, float weights[WIDTH * WIDTH])
{
    ipu_module      *module;
    ipu_executor    *x;
    const ipu_array *w;
    ipu_cost        *cost;
    ipu_cost_cycles  cycles;
    ipu_array        in[2]        = {numbers(1), numbers(2)};
    options.gradient_accumulation = N_BATCHES;
    CHECK(ipu_module_create(forward, &has_stages, &module));
    CHECK(ipu_training_model(module, &options, NULL, &x));
    for (int i = 0; i < 2; i++) CHECK(ipu_executor_run(x, in, 2));
    CHECK(ipu_module_weight(module, "fc0.weight", &w));
    memcpy(weights, w->data, ipu_array_bytes(w));
    CHECK(ipu_executor_cost(x, NULL, &cost));
    EXPECT(ipu_cost_program_at(cost, 0, &cycles));
    ipu_cost_destroy(cost);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    ipu_array_free(&in[0]);
    ipu_array_free(&in[1]);
    return cycles.total;
}

static void too_few_batches(void)
{
    bool          has_stages = true;
    ipu_module   *module;
    ipu_executor *x;
    ipu_array     in[2] = {numbers(1), numbers(2)};
    CHECK(ipu_module_create(forward, &has_stages, &module));
    CHECK(ipu_training_model(module, &(ipu_executor_options){.gradient_accumulation = 2}, NULL, &x));
    EXPECT(ipu_executor_run(x, in, 2) == IPU_INVALID);
    EXPECT(strstr(ipu_message(), "gradient_accumulation") != NULL);
    printf("2 batches are too few: \"gradient_accumulation\" is to be changed\n");
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    ipu_array_free(&in[0]);
    ipu_array_free(&in[1]);
}

int main(void)
{
    static float expected[WIDTH * WIDTH], found[WIDTH * WIDTH];
    static const struct {
        const char          *what;
        bool                 has_stages, is_faster;
        ipu_executor_options options;
    } ways[] = {
        {"2 stages, grouped", true, true, {.schedule = IPU_PIPELINE_GROUPED}},
        {"2 stages, interleaved", true, true, {.schedule = IPU_PIPELINE_INTERLEAVED}},
        {"2 stages, sequential", true, false, {.schedule = IPU_PIPELINE_SEQUENTIAL}},
        {"4 stages, chosen, recomputed", false, true, {.stages = 4, .recompute = true}},
    };
    ipu_options *one_thread; /* on several, sums are split otherwise: equal to rounding */
    CHECK(ipu_options_create(&one_thread));
    CHECK(ipu_options_set(one_thread, "threads", "1"));
    int64_t one = train(false, (ipu_executor_options){.engine = one_thread}, expected);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ipu_executor_options options = ways[i].options;
        options.engine               = one_thread;
        int64_t cycles               = train(ways[i].has_stages, options, found);
        EXPECT(memcmp(expected, found, sizeof expected) == 0);
        EXPECT(!ways[i].is_faster || cycles < one);
        printf("%s: the weights of one IPU, bit for bit%s\n", ways[i].what,
               ways[i].is_faster ? ", in less time" : "");
    }
    too_few_batches();
    ipu_options_destroy(one_thread);
    return 0;
}

/* 24: memory of an optimizer: divided among replicas, and in streaming memory.
 *
 * Adam keeps two numbers for every weight. With several replicas each would have all of them, and make the same step as
 * the others. Option shard_optimizer gives each replica a part: gradients are added up only where their part is
 * (reduce-scatter), each steps its part, and the new weights go to all of them (all-gather). Option optimizer_off_chip
 * keeps the numbers in streaming memory between steps. Neither changes a bit of what is learnt, and states go
 * from one to the other (ipu_executor_get_state gives whole arrays); what changes is the memory of tiles and the time,
 * which the model of the chip tells (ipu_executor_cost).
 *
 * Expect:
 *     whole, on chip: the loss goes down
 *     divided by 8: the same weights, less memory always in use, less time
 *     in streaming memory: the same weights, less memory always in use, more time
 *     both: the same weights, less memory always in use, more time
 *     a state of the divided one goes on in the whole one
 */
#include <string.h>

#include "example.h"

enum { WIDTH = 512, BATCH = 4, REPLICAS = 8, ROWS = BATCH * REPLICAS };

static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n;
    (void)user;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_tanh(b, ipu_nn_linear(m, in[0], WIDTH, "first"));
    x              = ipu_tanh(b, ipu_nn_linear(m, x, WIDTH, "second"));
    ipu_nn_loss(m, ipu_reduce_mean(b, ipu_square(b, ipu_sub(b, x, in[0])), NULL, 0, false), "loss");
}

typedef struct result {
    float   weights[WIDTH * WIDTH];
    double  first, last; /* losses */
    int64_t always;      /* bytes of all tiles of a replica that are in use all the time */
    int64_t cycles;      /* of one step */
} result;

static float pictures[ROWS * WIDTH];

static ipu_executor *make(ipu_module **module, bool divided, bool away)
{
    const ipu_nn_training      how     = {.optimizer = {.kind = IPU_NN_ADAM, .rate = 0.001}};
    const ipu_executor_options options = {
        .replicas = REPLICAS, .no_fold = true, .shard_optimizer = divided, .optimizer_off_chip = away};
    ipu_executor *x;
    CHECK(ipu_module_create(forward, NULL, module));
    CHECK(ipu_training_model(*module, &options, &how, &x));
    return x;
}

static double step(ipu_executor *x)
{
    const ipu_array in = {IPU_FLOAT, IPU_SHAPE(ROWS, WIDTH), pictures};
    CHECK(ipu_executor_run(x, &in, 1));
    double loss;
    CHECK(ipu_executor_scalar(x, "loss", &loss));
    return loss;
}

static void read_weights(ipu_module *module, float *out)
{
    const ipu_array *w;
    CHECK(ipu_module_weight(module, "first.weight", &w));
    memcpy(out, w->data, ipu_array_bytes(w));
}

static void train(bool divided, bool away, result *r)
{
    ipu_module      *module;
    ipu_executor    *x = make(&module, divided, away);
    ipu_cost        *cost;
    ipu_cost_summary all;
    for (int i = 0; i < 4; i++) {
        r->last = step(x);
        if (i == 0) r->first = r->last;
    }
    read_weights(module, r->weights);
    CHECK(ipu_executor_cost(x, NULL, &cost));
    ipu_cost_get_summary(cost, &all);
    r->always = all.memory[IPU_MEMORY_ALWAYS_LIVE];
    r->cycles = all.cycles.total;
    ipu_cost_destroy(cost);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

static void compare(const char *name, const result *r, const result *whole)
{
    bool same = memcmp(r->weights, whole->weights, sizeof r->weights) == 0;
    printf("%s: %s weights, %s memory always in use, %s time\n", name, same ? "the same" : "OTHER",
           r->always < whole->always ? "less" : "more", r->cycles < whole->cycles ? "less" : "more");
}

/* Two steps divided, two whole. */
static bool goes_on(const result *whole)
{
    static float  weights[WIDTH * WIDTH];
    ipu_module   *first, *second;
    ipu_executor *divided = make(&first, true, false), *other = make(&second, false, false);
    ipu_npz       state;
    for (int i = 0; i < 2; i++) step(divided);
    CHECK(ipu_executor_get_state(divided, &state));
    CHECK(ipu_executor_set_state(other, &state));
    for (int i = 0; i < 2; i++) step(other);
    read_weights(second, weights);
    ipu_npz_free(&state);
    ipu_executor_destroy(divided);
    ipu_executor_destroy(other);
    ipu_module_destroy(first);
    ipu_module_destroy(second);
    return memcmp(weights, whole->weights, sizeof weights) == 0;
}

int main(void)
{
    static result whole, parts, away, both;
    for (int i = 0; i < ROWS * WIDTH; i++)
        pictures[i] = (float)((i * 37 + i / WIDTH * 11) % 101) / 101 - 0.5f;
    train(false, false, &whole);
    printf("whole, on chip: the loss goes %s\n", whole.last < whole.first ? "down" : "UP");
    train(true, false, &parts);
    compare("divided by 8", &parts, &whole);
    train(false, true, &away);
    compare("in streaming memory", &away, &whole);
    train(true, true, &both);
    compare("both", &both, &whole);
    printf("a state of the divided one %s in the whole one\n",
           goes_on(&whole) ? "goes on" : "DOES NOT GO ON");
    return 0;
}

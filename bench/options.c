/* What each option of an executor does to numbers, memory and modelled time: the table of docs/multi-ipu.md.
 *
 *     options [--write FILE]
 *
 * One network is trained for some steps in many ways, always with the same 16 batches to a step and one host thread, by
 * gradient descent with momentum; memory and time are modelled of Adam. The table goes to standard output, or between its
 * marks in FILE. Nothing in it is measured: it is the same on every machine whose kernels give the same bits.
 */
#include <math.h>
#include <string.h>

#include "bench.h"

enum {
    INPUTS  = 784,
    WIDTH   = 1024,
    CLASSES = 10,
    BATCH   = 4,
    BATCHES = 16,
    STEPS   = 3,
    SAMPLES = BATCH * BATCHES
};

#define BEGIN_MARK "<!-- build/bench/options --write docs/multi-ipu.md -->\n"
#define END_MARK "<!-- end -->\n"

/* Four layers, the two in the middle of a million weights each. */
static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b = ipu_model_builder(m);
    (void)user;
    (void)n;
    ipu_value x = ipu_relu(b, ipu_nn_linear(m, in[0], WIDTH, "fc1"));
    x           = ipu_relu(b, ipu_nn_linear(m, x, WIDTH, "fc2"));
    x           = ipu_relu(b, ipu_nn_linear(m, x, WIDTH, "fc3"));
    x           = ipu_log_softmax(b, ipu_nn_linear(m, x, CLASSES, "fc4"), 1);
    ipu_nn_loss(m, ipu_nll_loss(b, x, in[1]), "loss");
}

typedef struct row {
    const char          *name;
    ipu_executor_options options;
    int                  like; /* the row it is compared with: 0 is one IPU */
} row;

#define REPLICAS .replicas = 4, .gradient_accumulation = BATCHES / 4
#define STAGES .stages = 4, .gradient_accumulation = BATCHES
#define ONE .gradient_accumulation = BATCHES

static const row rows[] = {
    {"one IPU, float", {ONE}, 0},
    {"`optimizer_off_chip`", {ONE, .optimizer_off_chip = true}, 0},
    {"`running_mean`", {ONE, .running_mean = true}, 0},
    {"`reduction` sum", {ONE, .reduction = IPU_REDUCTION_SUM}, 0},
    {"4 `replicas`, folded", {REPLICAS}, 0},
    {"4 `replicas`, `no_fold`", {REPLICAS, .no_fold = true}, 0},
    {"... and `shard_optimizer`", {REPLICAS, .no_fold = true, .shard_optimizer = true}, 5},
    {"... and `optimizer_off_chip`", {REPLICAS, .no_fold = true, .optimizer_off_chip = true}, 5},
    {"... and both", {REPLICAS, .no_fold = true, .shard_optimizer = true, .optimizer_off_chip = true}, 5},
    {"4 `stages`, grouped", {STAGES}, 0},
    {"4 `stages`, interleaved", {STAGES, .schedule = IPU_PIPELINE_INTERLEAVED}, 0},
    {"4 `stages`, sequential", {STAGES, .schedule = IPU_PIPELINE_SEQUENTIAL}, 0},
    {"4 `stages`, grouped, `recompute`", {STAGES, .recompute = true}, 0},
    {"4 `stages`, grouped, `activations_off_chip`", {STAGES, .activations_off_chip = true}, 0},
    {"`precision` mixed", {ONE, .precision = IPU_PRECISION_MIXED}, 0},
    {"`precision` half", {ONE, .precision = IPU_PRECISION_HALF}, 0},
    {"... and `stochastic_rounding`",
     {ONE, .precision = IPU_PRECISION_HALF, .stochastic_rounding = true},
     15},
    {"... and `half_partials`", {ONE, .precision = IPU_PRECISION_HALF, .half_partials = true}, 15},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

typedef struct result {
    float  *weights;
    int64_t n_weights;
    int64_t n_ipus;
    double  always, most; /* bytes: of a replica's tiles, in use all the time; of the fullest tile */
    double  cycles;       /* of one step */
} result;

static float   pictures[SAMPLES * INPUTS];
static int32_t labels[SAMPLES];

static void make_samples(void)
{
    uint32_t seed = 1;
    for (int i = 0; i < SAMPLES * INPUTS; i++) {
        seed        = seed * 1664525u + 1013904223u;
        pictures[i] = (float)(seed >> 8) * 0x1p-24f;
    }
    for (int i = 0; i < SAMPLES; i++) labels[i] = i * 7 % CLASSES;
}

static void read_weights(ipu_module *module, result *out)
{
    static const char *const names[] = {"fc1.weight", "fc2.weight", "fc3.weight", "fc4.weight", "fc1.bias"};
    const ipu_array         *a;
    for (int pass = 0; pass < 2; pass++) {
        int64_t n = 0;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            BENCH_CHECK(ipu_module_weight(module, names[i], &a));
            if (pass) memcpy(out->weights + n, a->data, ipu_array_bytes(a));
            n += ipu_array_n_elements(a);
        }
        if (pass) return;
        out->n_weights = n;
        out->weights   = malloc((size_t)n * sizeof *out->weights);
        if (!out->weights) exit(1);
    }
}

static ipu_executor *make(ipu_executor_options options, const ipu_options *engine, ipu_nn_optimizer how,
                          ipu_module **module)
{
    ipu_executor *x;
    options.engine       = engine;
    options.cache_folder = "";
    BENCH_CHECK(ipu_module_create(forward, NULL, module));
    BENCH_CHECK(ipu_training_model(*module, &options, &(ipu_nn_training){.optimizer = how}, &x));
    return x;
}

/* Adam has two states for each weight, which is most of what a step keeps. */
static void price(const row *r, const ipu_options *engine, const ipu_array in[2], result *out)
{
    ipu_executor_options options = r->options;
    ipu_cost            *cost;
    ipu_cost_summary     all;
    ipu_module          *module;
    options.attach  = IPU_ATTACH_NEVER;
    ipu_executor *x = make(options, engine, (ipu_nn_optimizer){.kind = IPU_NN_ADAM, .rate = 1e-3}, &module);
    BENCH_CHECK(ipu_executor_compile(x, in, 2));
    BENCH_CHECK(ipu_executor_cost(x, NULL, &cost));
    ipu_cost_get_summary(cost, &all);
    int64_t ipus_of_replica = all.n_ipus / all.replication;
    out->n_ipus             = all.n_ipus;
    out->always             = (double)all.memory[IPU_MEMORY_ALWAYS_LIVE] / (double)ipus_of_replica;
    out->most               = (double)all.memory_most;
    out->cycles             = (double)all.cycles.total;
    ipu_cost_destroy(cost);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

/* Numbers are those of gradient descent: Adam divides gradients by their size, and makes much of small differences. */
static void run(const row *r, const ipu_options *engine, result *out)
{
    ipu_array     in[2] = {{IPU_FLOAT, IPU_SHAPE(SAMPLES, INPUTS), pictures},
                           {IPU_INT32, IPU_SHAPE(SAMPLES), labels}};
    ipu_module   *module;
    ipu_executor *x = make(r->options, engine, (ipu_nn_optimizer){.rate = 0.05, .momentum = 0.9}, &module);
    for (int i = 0; i < STEPS; i++) BENCH_CHECK(ipu_executor_run(x, in, 2));
    read_weights(module, out);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    price(r, engine, in, out);
}

/* ---- the table ---- */

/* The largest difference of two weights, by the largest weight. */
static double difference(const result *a, const result *b)
{
    double most = 0, size = 0;
    for (int64_t i = 0; i < a->n_weights; i++) {
        most = fmax(most, fabs((double)a->weights[i] - (double)b->weights[i]));
        size = fmax(size, fabs((double)b->weights[i]));
    }
    return most / size;
}

static void print_row(FILE *out, const row *r, const result *all, const result *own)
{
    const result *one  = &all[0];
    double        diff = difference(own, &all[r->like]);
    char          numbers[64];
    if (own == one)
        snprintf(numbers, sizeof numbers, "-");
    else if (diff == 0)
        snprintf(numbers, sizeof numbers, "the same bits");
    else
        snprintf(numbers, sizeof numbers, "%.0e", diff);
    fprintf(out, "| %s | %lld | %s | %.2f | %.1f | %.0f | %.2f |\n", r->name, (long long)own->n_ipus, numbers,
            own->always / (1 << 20), own->most / 1024, own->cycles / 1000, own->cycles / one->cycles);
}

static void print_table(FILE *out, const result *all)
{
    fputs(
        "| option | IPUs | weights differ by | MB always in use, of an IPU | KB of the fullest tile | thousand cycles "
        "a step | times |\n|---|---|---|---|---|---|---|\n",
        out);
    for (int i = 0; i < N_ROWS; i++) print_row(out, &rows[i], all, &all[i]);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) return NULL;
    long  n    = ftell(f);
    char *text = malloc((size_t)n + 1);
    rewind(f);
    if (text) text[fread(text, 1, (size_t)n, f)] = 0;
    fclose(f);
    return text;
}

static int write_table(const char *path, const result *all)
{
    char *text  = read_file(path);
    char *begin = text ? strstr(text, BEGIN_MARK) : NULL, *end = begin ? strstr(begin, END_MARK) : NULL;
    FILE *f = end ? fopen(path, "wb") : NULL;
    if (!f) {
        fprintf(stderr, "%s: cannot be read or written, or has no marks of the table\n", path);
        free(text);
        return 1;
    }
    fwrite(text, 1, (size_t)(begin - text) + strlen(BEGIN_MARK), f);
    fputc('\n', f);
    print_table(f, all);
    fputc('\n', f);
    fputs(end, f);
    free(text);
    return fclose(f) != 0;
}

int main(int argc, char **argv)
{
    static result all[N_ROWS];
    ipu_options  *engine;
    bool          writes = argc == 3 && strcmp(argv[1], "--write") == 0;
    if (argc > 1 && !writes) {
        fputs("usage: options [--write FILE]\n", stderr);
        return 2;
    }
    make_samples();
    BENCH_CHECK(ipu_options_create(&engine));
    BENCH_CHECK(ipu_options_set(engine, "threads", "1"));
    for (int i = 0; i < N_ROWS; i++) run(&rows[i], engine, &all[i]);
    int code = 0;
    if (writes)
        code = write_table(argv[2], all);
    else
        print_table(stdout, all);
    for (int i = 0; i < N_ROWS; i++) free(all[i].weights);
    ipu_options_destroy(engine);
    return code;
}

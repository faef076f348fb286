/* What scripts/replay.sh compares between two commits: for a network and a way to train or run it, the kernels that the engine chose, the
 * program's steps, the priced program, and the bits of results. Built with each commit's own headers and library, so it uses only ipu/ *.h.
 *
 *     replay                 the names of all cases
 *     replay CASE            what there is to compare of one
 */
#include "../../bench/speed_network.h"

typedef struct replay_case {
    const char *name, *network;
    int64_t     batch;
    bool        trains;
    const char *threads;
    void (*set)(ipu_executor_options *o); /* NULL: the defaults */
} replay_case;

static void in_half(ipu_executor_options *o)
{
    o->precision           = IPU_PRECISION_HALF;
    o->stochastic_rounding = true;
}

static void mixed(ipu_executor_options *o) { o->precision = IPU_PRECISION_MIXED; }
static void replicated(ipu_executor_options *o) { o->replicas = 2; }

static void not_folded(ipu_executor_options *o)
{
    o->replicas = 2;
    o->no_fold  = true;
}

static void accumulating(ipu_executor_options *o)
{
    o->gradient_accumulation = 2;
    o->device_iterations     = 2;
}

static void in_stages(ipu_executor_options *o)
{
    o->stages                = 2;
    o->gradient_accumulation = 4;
    o->recompute             = true;
}

static const replay_case cases[] = {
    {"seed-cnn-15", "seed-cnn", 15, true, "2", NULL},
    {"seed-cnn-16", "seed-cnn", 16, true, "2", NULL},
    {"seed-cnn-16-1t", "seed-cnn", 16, true, "1", NULL},
    {"seed-cnn-64", "seed-cnn", 64, true, "2", NULL},
    {"seed-cnn-65-infer", "seed-cnn", 65, false, "2", NULL},
    {"seed-cnn-half", "seed-cnn", 16, true, "2", in_half},
    {"seed-cnn-replicas", "seed-cnn", 16, true, "2", replicated},
    {"seed-cnn-no-fold", "seed-cnn", 16, true, "2", not_folded},
    {"seed-cnn-accumulate", "seed-cnn", 16, true, "2", accumulating},
    {"seed-cnn-stages", "seed-cnn", 16, true, "2", in_stages},
    {"mnist-cnn-16", "mnist-cnn", 16, true, "2", NULL},
    {"mnist-cnn-64-infer", "mnist-cnn", 64, false, "2", NULL},
    {"mnist-cnn-mixed", "mnist-cnn", 16, true, "2", mixed},
    {"mlp-16", "mlp", 16, true, "2", NULL},
    {"mlp-256", "mlp", 256, true, "2", NULL},
    {"mlp-infer", "mlp", 64, false, "1", NULL},
    {"mlp-replicas", "mlp", 16, true, "2", replicated},
    {"mlp-stages", "mlp", 16, true, "2", in_stages},
    {"lstm-64", "lstm", 64, true, "2", NULL},
    {"lstm-infer", "lstm", 64, false, "1", NULL},
    {"resnet18-8", "resnet18", 8, true, "2", NULL},
    {"resnet18-infer", "resnet18", 16, false, "2", NULL},
    {"resnet18-half", "resnet18", 8, true, "2", in_half},
    {"bert-mini-2", "bert-mini", 2, true, "2", NULL},
    {"bert-mini-infer", "bert-mini", 2, false, "2", NULL},
    {"resnet50-infer", "resnet50", 1, false, "2", NULL},
    {"bert-base-infer", "bert-base", 1, false, "2", NULL},
};
enum { N_CASES = sizeof cases / sizeof *cases, N_RUNS = 3 };

/* FNV-1a, 64 bits. */
static uint64_t digest(const void *data, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return h;
}

static void print_array(const char *what, const char *name, const ipu_array *a)
{
    size_t n = (size_t)ipu_array_n_elements(a) * ipu_type_size(a->type);
    printf("%s %s: %016llx\n", what, name, (unsigned long long)digest(a->data, n));
}

static void print_results(ipu_executor *x)
{
    for (size_t i = 0; i < ipu_executor_n_outputs(x); i++) {
        const char      *name;
        const ipu_array *a = ipu_executor_output_at(x, i, &name);
        print_array("output", name, a);
    }
}

static void print_weights(ipu_executor *x, ipu_module *m)
{
    BENCH_CHECK(ipu_executor_copy_weights_to_host(x));
    for (size_t i = 0; i < ipu_module_n_weights(m); i++) {
        const char      *name;
        const ipu_array *a;
        BENCH_CHECK(ipu_module_weight_at(m, i, &name, &a));
        print_array("weight", name, a);
    }
}

static void print_kernels(const ipu_engine *e)
{
    ipu_engine_kernel  k;
    ipu_engine_operand o;
    for (size_t i = 0; ipu_engine_kernel_at(e, i, &k); i++) {
        printf("kernel %zu: %s %s, %d parts, %lld chunks, %.0f operations, %.0f bytes turned:", i, k.name,
               k.implementation, k.n_parts, (long long)k.n_chunks, k.operations, k.turned_bytes);
        for (int n = 0; n < k.n_operands && ipu_engine_operand_at(e, i, n, &o); n++) {
            printf(" %s %s[", o.is_absent ? "none" : o.layout, ipu_type_name(o.type));
            for (int d = 0; d < o.shape.rank; d++) printf("%s%lld", d ? "," : "", (long long)o.shape.dim[d]);
            printf("]");
        }
        printf("\n");
    }
}

static void print_steps(const ipu_engine *e)
{
    ipu_step_time *times;
    size_t         n;
    BENCH_CHECK(ipu_engine_step_times(e, &times, &n));
    for (size_t i = 0; i < n; i++)
        printf("step %u.%u: %lld runs of %s %s\n", times[i].program, times[i].step, (long long)times[i].runs,
               times[i].kind ? times[i].kind : "?", times[i].name);
    ipu_free(times);
}

static void print_price(ipu_executor *x)
{
    ipu_cost *cost;
    char     *json;
    BENCH_CHECK(ipu_executor_cost(x, NULL, &cost));
    BENCH_CHECK(ipu_cost_json(cost, 0, &json));
    printf("%s\n", json);
    ipu_free(json);
    ipu_cost_destroy(cost);
}

/* As speed_make, with options of the case; inputs for all of its batches. */
static void make(speed_ours *s, const replay_case *c, bool measured)
{
    ipu_executor_options how      = {.cache_folder = "", .seed = 7};
    ipu_nn_training      training = {.optimizer = {.rate = 1e-3, .momentum = 0.9}};
    *s                            = (speed_ours){.net = speed_network(c->network), .trains = c->trains};
    BENCH_CHECK(ipu_options_create(&s->options));
    BENCH_CHECK(ipu_options_set(s->options, "threads", c->threads));
    if (measured) BENCH_CHECK(ipu_options_set(s->options, "profile", "true"));
    if (c->set) c->set(&how);
    how.engine = s->options;
    speed_fill(s, c->batch * ipu_executor_options_n_batches(&how));
    BENCH_CHECK(ipu_module_create(speed_forward, (void *)(uintptr_t)s->net, &s->module));
    if (c->trains)
        BENCH_CHECK(ipu_training_model(s->module, &how, &training, &s->executor));
    else
        BENCH_CHECK(ipu_inference_model(s->module, &how, &s->executor));
    BENCH_CHECK(ipu_executor_compile(s->executor, s->in, c->trains ? 2 : 1));
}

static void replay(const replay_case *c)
{
    speed_ours s;
    make(&s, c, false);
    for (int i = 0; i < N_RUNS; i++) {
        BENCH_CHECK(ipu_executor_run(s.executor, s.in, c->trains ? 2 : 1));
        print_results(s.executor);
    }
    print_weights(s.executor, s.module);
    print_kernels(ipu_executor_engine(s.executor));
    print_price(s.executor);
    speed_end(&s);
    make(&s, c, true);
    BENCH_CHECK(ipu_executor_run(s.executor, s.in, c->trains ? 2 : 1));
    print_steps(ipu_executor_engine(s.executor));
    speed_end(&s);
}

int main(int argc, char **argv)
{
    int i = 0;
    if (argc == 1) {
        for (; i < N_CASES; i++) puts(cases[i].name);
        return 0;
    }
    while (i < N_CASES && strcmp(cases[i].name, argv[1]) != 0) i++;
    if (i == N_CASES) {
        fprintf(stderr, "replay: no case \"%s\"\n", argv[1]);
        return 2;
    }
    replay(&cases[i]);
    return 0;
}

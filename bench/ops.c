/* Matrix products and convolutions through the engine, against oneDNN (its best layouts, nothing reordered) and
 * libxsmm (one kernel for all; it has none for a transposed b) on the same shapes, in GFLOP/s. Best of 5 rounds, all in turn.
 * Argument: only rows whose name contains it. */
#include "ops_peers.h"

#include <string.h>

/* ---- ours: a program that repeats one kernel ---- */

typedef struct ours {
    ipu_engine *engine;
    int64_t     calls; /* of a run */
} ours;

static ours make_ours(const ipu__kernel_call *call, int threads, int64_t calls)
{
    ipu_target      target;
    ipu_graph      *g;
    ipu_executable *exe;
    ipu_options    *options;
    ipu_tensor      t[IPU__MAX_OPERANDS];
    size_t          n   = 0;
    ours            out = {.calls = calls};
    BENCH_CHECK(ipu_target_find("gc200", 1, &target));
    BENCH_CHECK(ipu_graph_create(&target, 1, &g));
    for (int i = 0; i < call->n_operands; i++) {
        if (call->def->operands[i].optional && !ipu__kernel_has(call, i)) continue;
        t[n] = ipu_graph_add_variable(g, call->operand[i].type, call->operand[i].shape, "x");
        ipu_graph_map_linearly(g, t[n++]);
    }
    ipu_program p = ipu_program_sequence(g), body = ipu_program_sequence(g);
    ipu_program_add_kernel(body, call->def->name, call->attributes, call->n_attributes, t, n);
    ipu_program_add_repeat(p, calls, body);
    BENCH_CHECK(ipu_graph_status(g));
    BENCH_CHECK(ipu_executable_compile(g, &p, 1, NULL, &exe));
    BENCH_CHECK(ipu_options_create(&options));
    BENCH_CHECK(ipu_options_set(options, "threads", threads == 1 ? "1" : "2"));
    BENCH_CHECK(ipu_engine_create(exe, options, &out.engine));
    ipu_options_destroy(options);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
    return out;
}

static void run_ours(void *user) { BENCH_CHECK(ipu_engine_run(((ours *)user)->engine, 0)); }

/* ---- timing ---- */

typedef struct contender {
    bench_fn run;
    void    *user;
    int64_t  calls;   /* of the kernel in a run */
    int      threads; /* OpenMP's; 0: as it is */
    double   best;    /* seconds of a kernel */
} contender;

enum { ROUNDS = 5 };

static void race(contender *c, int n, double seconds)
{
    for (int r = 0; r <= ROUNDS; r++)
        for (int i = 0; i < n; i++) {
            if (!c[i].run) continue;
            if (c[i].threads) omp_set_num_threads(c[i].threads);
            double  t = bench_now();
            int64_t k = 0;
            do {
                c[i].run(c[i].user);
                k += c[i].calls;
            } while (bench_now() - t < seconds && r > 0);
            t = (bench_now() - t) / (double)k;
            if (r > 0 && (c[i].best == 0 || t < c[i].best)) c[i].best = t;
        }
}

typedef struct result {
    const char *worst_name;
    double      worst, worst_half;
} result;

enum { OURS_1, OURS_2, HALF_1, HALF_2, DNNL_1, DNNL_2, XSMM_1, N_CONTENDERS };

static void report(const char *name, double work, contender *c, result *out)
{
    double g[N_CONTENDERS];
    for (int i = 0; i < N_CONTENDERS; i++) g[i] = c[i].best > 0 ? work / c[i].best * 1e-9 : 0;
    double one = g[OURS_1] / fmax(g[DNNL_1], g[XSMM_1]), two = g[OURS_2] / fmax(g[DNNL_2], g[XSMM_1]);
    double ratio = fmin(one, two), half = fmin(g[HALF_1] / g[OURS_1], g[HALF_2] / g[OURS_2]);
    printf("%-34s %7.1f %7.1f %8.1f %7.1f %8.1f %7.1f %8.1f %7.2f\n", name, g[OURS_1], g[OURS_2], g[HALF_1],
           g[HALF_2], g[DNNL_1], g[DNNL_2], g[XSMM_1], ratio);
    fflush(stdout);
    if (out->worst == 0 || ratio < out->worst) {
        out->worst      = ratio;
        out->worst_name = name;
    }
    if (out->worst_half == 0 || half < out->worst_half) out->worst_half = half;
}

/* dnnl[i] was made for i + 1 threads: oneDNN shares out work when a primitive is made. */
static void measure(const char *name, ipu__kernel_call *call, peer dnnl[2], xsmm_peer *xsmm, result *out)
{
    double  work  = call->def->work(call);
    int64_t calls = (int64_t)(2e7 / work) + 1; /* so that starting a run does not count */
    ours    mine[4];
    for (int i = 0; i < 4; i++) {
        ipu__kernel_call typed = *call;
        for (int k = 0; k < call->n_operands; k++) typed.operand[k].type = i < 2 ? IPU_FLOAT : IPU_HALF;
        mine[i] = make_ours(&typed, i % 2 + 1, calls);
    }
    contender c[N_CONTENDERS] = {
        [OURS_1] = {run_ours, &mine[0], calls, 0, 0}, [OURS_2] = {run_ours, &mine[1], calls, 0, 0},
        [HALF_1] = {run_ours, &mine[2], calls, 0, 0}, [HALF_2] = {run_ours, &mine[3], calls, 0, 0},
        [DNNL_1] = {peer_run, &dnnl[0], 1, 1, 0},     [DNNL_2] = {peer_run, &dnnl[1], 1, 2, 0}};
    if (xsmm && xsmm->fn) c[XSMM_1] = (contender){xsmm_peer_run, xsmm, 1, 0, 0};
    race(c, N_CONTENDERS, 0.008);
    report(name, work, c, out);
    for (int i = 0; i < 4; i++) ipu_engine_destroy(mine[i].engine);
}

/* ---- products ---- */

typedef struct product {
    const char *name;
    int64_t     batch, m, n, k;
    int         transpose_a, transpose_b;
} product;

/* Those of the six workloads, squares, and what a transformer and a gradient ask for. */
static const product products[] = {
    {"16 x 16 x 16", 1, 16, 16, 16, 0, 0},
    {"64 x 64 x 64", 1, 64, 64, 64, 0, 0},
    {"128 x 128 x 128", 1, 128, 128, 128, 0, 0},
    {"256 x 256 x 256", 1, 256, 256, 256, 0, 0},
    {"512 x 512 x 512", 1, 512, 512, 512, 0, 0},
    {"1024 x 1024 x 1024", 1, 1024, 1024, 1024, 0, 0},
    {"seed-cnn fc1: 16 x 100 x 972, b^T", 1, 16, 100, 972, 0, 1},
    {"seed-cnn fc2: 16 x 10 x 100, b^T", 1, 16, 10, 100, 0, 1},
    {"mnist-cnn fc1: 64 x 128 x 1600, b^T", 1, 64, 128, 1600, 0, 1},
    {"mlp: 64 x 512 x 784, b^T", 1, 64, 512, 784, 0, 1},
    {"mlp: 1 x 512 x 784, b^T", 1, 1, 512, 784, 0, 1},
    {"mlp d_w: 512 x 784 x 64, a^T", 1, 512, 784, 64, 1, 0},
    {"lstm: 64 x 512 x 128, b^T", 1, 64, 512, 128, 0, 1},
    {"bert-mini ffn: 1024 x 1024 x 256, b^T", 1, 1024, 1024, 256, 0, 1},
    {"bert-mini d_w: 1024 x 256 x 1024, a^T", 1, 1024, 256, 1024, 1, 0},
    {"attention: 32 x 128 x 128 x 64, b^T", 32, 128, 128, 64, 0, 1},
    {"attention: 32 x 128 x 64 x 128", 32, 128, 64, 128, 0, 0},
};

static void bench_product(const product *p, result *out)
{
    ipu_attribute    with[] = {IPU_INT_ATTRIBUTE("transpose_a", p->transpose_a),
                               IPU_INT_ATTRIBUTE("transpose_b", p->transpose_b)};
    ipu__kernel_call call   = {.def          = &ipu__op_matmul.kernel,
                               .attributes   = with,
                               .n_attributes = 2,
                               .n_operands   = ipu__op_matmul.kernel.n_operands};
    for (int i = 0; i < call.n_operands; i++) call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    call.operand[0].shape = p->transpose_a ? IPU_SHAPE(p->batch, p->k, p->m)
                                           : IPU_SHAPE(p->batch, p->m, p->k);
    call.operand[1].shape = p->transpose_b ? IPU_SHAPE(p->batch, p->n, p->k)
                                           : IPU_SHAPE(p->batch, p->k, p->n);
    BENCH_CHECK(ipu__op_matmul.infer(&call, &call.operand[call.n_operands - 1]));
    peer      dnnl[2];
    xsmm_peer xsmm;
    for (int i = 0; i < 2; i++) {
        omp_set_num_threads(i + 1);
        peer_matmul(&dnnl[i], p->batch, p->m, p->n, p->k, p->transpose_b);
    }
    xsmm_peer_make(&xsmm, p->batch, p->m, p->n, p->k);
    measure(p->name, &call, dnnl, p->transpose_b ? NULL : &xsmm, out);
    for (int i = 0; i < 2; i++) peer_end(&dnnl[i]);
    xsmm_peer_end(&xsmm);
}

/* ---- convolutions ---- */

typedef struct layer {
    const char *name;
    int64_t     n, in, size, out, kernel, stride, padding, groups;
    bool        is_first; /* nobody asks for the gradient of its input */
} layer;

static const layer layers[] = {
    {"seed-cnn 1>5 k3 28", 64, 1, 28, 5, 3, 1, 0, 1, true},
    {"seed-cnn 5>12 k5 13", 64, 5, 13, 12, 5, 1, 0, 1, false},
    {"mnist-cnn 1>32 k3 28", 64, 1, 28, 32, 3, 1, 0, 1, true},
    {"mnist-cnn 32>64 k3 13", 64, 32, 13, 64, 3, 1, 0, 1, false},
    {"resnet18 3>64 k3 32", 16, 3, 32, 64, 3, 1, 1, 1, true},
    {"resnet18 64>64 k3 32", 16, 64, 32, 64, 3, 1, 1, 1, false},
    {"resnet18 64>128 k3 s2 32", 16, 64, 32, 128, 3, 2, 1, 1, false},
    {"resnet18 256>256 k3 8", 16, 256, 8, 256, 3, 1, 1, 1, false},
    {"resnet18 512>512 k3 4", 16, 512, 4, 512, 3, 1, 1, 1, false},
    {"resnet50 3>64 k7 s2 224", 1, 3, 224, 64, 7, 2, 3, 1, true},
    {"resnet50 64>256 k1 56", 1, 64, 56, 256, 1, 1, 0, 1, false},
    {"resnet50 128>128 k3 28", 1, 128, 28, 128, 3, 1, 1, 1, false},
    {"resnet50 512>512 k3 7", 1, 512, 7, 512, 3, 1, 1, 1, false},
    {"resnet50 1024>2048 k1 s2 14", 1, 1024, 14, 2048, 1, 2, 0, 1, false},
    {"depthwise 96 k3 28", 8, 96, 28, 96, 3, 1, 1, 96, false},
};

static void bench_kernel(const layer *l, ipu__conv_kind kind, result *out)
{
    static const ipu__op_def *const ops[]   = {&ipu__op_conv, &ipu__op_conv_input_grad,
                                               &ipu__op_conv_weight_grad};
    static const char *const        names[] = {"", " d_x", " d_w"};
    static char                     name[sizeof layers / sizeof *layers][3][64];
    const int64_t                   stride[] = {l->stride, l->stride}, padding[] = {l->padding, l->padding};
    const int64_t                   size[] = {l->size, l->size}, kernel[] = {l->kernel, l->kernel};
    ipu_attribute with[] = {IPU__INTS("stride", stride, 2), IPU__INTS("padding", padding, 2),
                            IPU_INT_ATTRIBUTE("groups", l->groups),
                            kind == IPU__CONV_WEIGHT_GRAD ? IPU__INTS("kernel", kernel, 2)
                                                          : IPU__INTS("size", size, 2)};
    int64_t       y_size = (l->size + 2 * l->padding - l->kernel) / l->stride + 1;
    ipu_shape     x = IPU_SHAPE(l->n, l->in, l->size, l->size), y = IPU_SHAPE(l->n, l->out, y_size, y_size);
    ipu_shape     w       = IPU_SHAPE(l->out, l->in / l->groups, l->kernel, l->kernel);
    ipu__kernel_call call = {.def          = &ops[kind]->kernel,
                             .attributes   = with,
                             .n_attributes = kind == IPU__CONV_FORWARD ? 3 : 4,
                             .n_operands   = ops[kind]->kernel.n_operands};
    for (int i = 0; i < call.n_operands; i++) call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    call.operand[0].shape = kind == IPU__CONV_INPUT_GRAD ? y : x;
    call.operand[1].shape = kind == IPU__CONV_WEIGHT_GRAD ? y : w;
    BENCH_CHECK(ops[kind]->infer(&call, &call.operand[call.n_operands - 1]));
    ipu__conv c = ipu__conv_get(&call);
    peer      dnnl[2];
    char     *row = name[l - layers][kind];
    snprintf(row, sizeof name[0][0], "%s%s", l->name, names[kind]);
    for (int i = 0; i < 2; i++) {
        omp_set_num_threads(i + 1);
        peer_conv(&dnnl[i], &c);
    }
    measure(row, &call, dnnl, NULL, out);
    for (int i = 0; i < 2; i++) peer_end(&dnnl[i]);
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    result      out  = {.worst_name = ""};
    printf("fused multiply-adds, 1 thread: %.0f GFLOP/s\n", peak_gflops());
    printf("%-34s %7s %7s %8s %7s %8s %7s %8s %7s\n%-34s %7s %7s %8s %7s %8s %7s %8s %7s\n", "", "float",
           "float", "half", "half", "oneDNN", "oneDNN", "libxsmm", "ours /", "GFLOP/s, threads:", "1", "2",
           "1", "2", "1", "2", "1", "best");
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (strstr(products[i].name, only)) bench_product(&products[i], &out);
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        for (int kind = 0; kind < 3; kind++)
            if (strstr(layers[i].name, only) && !(kind == IPU__CONV_INPUT_GRAD && layers[i].is_first))
                bench_kernel(&layers[i], (ipu__conv_kind)kind, &out);
    printf("fused multiply-adds, 1 thread, once more: %.0f GFLOP/s\n", peak_gflops());
    printf("half against float at worst: %.2f\n", out.worst_half);
    printf("worst: %.2f of the better library (%s)\n", out.worst, out.worst_name);
    return 0;
}

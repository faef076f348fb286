/* ONNX models that PyTorch exported: import, compile and inference, beside TorchScript in the same run.
 *
 *     onnx [--threads N] [NAME...]
 *
 * import: file to model; compile: model to executable; both once, as a user meets them. Then runs of our session and
 * of TorchScript (frozen, in a process of its own) in turn, the median of some rounds. Needs python3-torch.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "peer.h"

typedef struct row {
    const char *name;
    int64_t     batch;
    double      limit_ms; /* import and compile; 0: none */
    double      bar;      /* of TorchScript's speed, at 2 threads; 0: none */
} row;

static const row rows[] = {
    {"seed-cnn", 16, 30, 0}, {"mnist-cnn", 16, 30, 1.5}, {"mnist-cnn", 64, 30, 1.5}, {"mlp", 64, 0, 0},
    {"lstm", 64, 0, 0},      {"resnet18", 32, 0, 0},     {"resnet50", 1, 1000, 1},   {"resnet50", 8, 1000, 1},
    {"bert-mini", 8, 0, 0},  {"bert-base", 1, 1500, 0},
};

static double our_time(ipu_onnx_session *s, const ipu_onnx_value *x, int calls)
{
    double begin = bench_now();
    for (int i = 0; i < calls; i++) {
        ipu_onnx_value y = {0};
        BENCH_CHECK(ipu_onnx_session_run(s, x, 1, &y, 1));
        ipu_onnx_value_free(&y);
    }
    return (bench_now() - begin) / calls;
}

static void compare(bench_peer *p, const row *r, ipu_onnx_session *s, const ipu_onnx_value *x,
                    const char *threads, double ready_ms)
{
    enum { ROUNDS = 7 };
    double ours[ROUNDS], theirs[ROUNDS];
    double once  = our_time(s, x, 3);
    int    calls = once > 0.1 ? 1 : (int)(0.1 / once) + 1;
    bench_peer_time(p, calls);
    for (int i = 0; i < ROUNDS; i++) {
        ours[i]   = our_time(s, x, calls);
        theirs[i] = bench_peer_time(p, calls);
    }
    double a = bench_median(ours, ROUNDS), b = bench_median(theirs, ROUNDS);
    bool   is_slow = (r->limit_ms > 0 && ready_ms > r->limit_ms) || (r->bar > 0 && b / a < r->bar);
    printf("%-12s %5lld %7s %12.1f %10.3f %12.3f %8.2f%s\n", r->name, (long long)r->batch, threads, ready_ms,
           1e3 * a, 1e3 * b, b / a, is_slow ? "  below its bar" : "");
}

static void run_row(bench_peer *p, const row *r, const char *threads, const char *folder)
{
    char line[512], path[256];
    snprintf(path, sizeof path, "%s/%s-%lld.onnx", folder, r->name, (long long)r->batch);
    snprintf(line, sizeof line, "export %s %lld %s", r->name, (long long)r->batch, path);
    if (!bench_ask(p, line, sizeof line) || strncmp(line, "exported", 8) != 0) {
        printf("%-12s PyTorch could not export it\n", r->name);
        return;
    }
    ipu_onnx         *file;
    ipu_onnx_session *s;
    ipu_onnx_port     port;
    ipu_options      *options;
    BENCH_CHECK(ipu_options_create(&options));
    BENCH_CHECK(ipu_options_set(options, "threads", threads));
    double begin = bench_now();
    BENCH_CHECK(ipu_onnx_open(path, &file));
    BENCH_CHECK(
        ipu_onnx_session_create(file, &(ipu_onnx_options){.options = options, .cache_folder = ""}, &s));
    ipu_onnx_input_at(file, 0, &port);
    ipu_onnx_value x = {.kind = IPU_ONNX_ARRAY}, y = {0};
    BENCH_CHECK(ipu_array_create(port.type, port.shape, &x.array));
    for (int64_t i = 0; i < ipu_array_n_elements(&x.array); i++)
        ((float *)x.array.data)[i] = (float)(i * 7919 % 1000) / 500 - 1;
    BENCH_CHECK(ipu_onnx_session_run(s, &x, 1, &y, 1));
    double ready = bench_now() - begin, run = our_time(s, &x, 1);
    ipu_onnx_value_free(&y);
    compare(p, r, s, &x, threads, 1e3 * (ready - run));
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
    ipu_onnx_value_free(&x);
    ipu_options_destroy(options);
    unlink(path);
}

int main(int argc, char **argv)
{
    const char *threads = "2";
    int         at      = 1;
    if (argc > 2 && strcmp(argv[1], "--threads") == 0) {
        threads = argv[2];
        at      = 3;
    }
    char       folder[] = "/tmp/ipu-bench-XXXXXX";
    bench_peer p        = {0};
    signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(folder) || !bench_start_peer(&p, threads)) return 1;
    printf("%-12s %5s %7s %12s %10s %12s %8s\n", "model", "batch", "threads", "to ready ms", "ours ms",
           "TorchScript", "ratio");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool wanted = at >= argc;
        for (int k = at; k < argc; k++) wanted |= strcmp(argv[k], rows[i].name) == 0;
        if (wanted) run_row(&p, &rows[i], threads, folder);
        fflush(stdout);
    }
    bench_end_peer(&p);
    rmdir(folder);
    return 0;
}

/* Importing ONNX models, without compiling them: what it takes to open a file and to make its model.
 *
 *     import [FILE...]
 *
 * The models are made here, each to ask for much of one kind: shapes computed from shapes, as PyTorch writes them for
 * dimensions without a size; inputs that decide shapes, one after another; loops that must be unrolled as their turns
 * decide shapes; and many weights. Files given are measured too, with 8 for every dimension that they do not tell. Each
 * time is the median of some imports.
 */
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "onnx/import/import.h"
#include "onnx/make_test.h"

enum { TIMES = 7, MOST_INPUTS = 512 };

/* A source that grows; generators know how long theirs get. */
typedef struct source {
    char  *at;
    size_t n, capacity;
} source;

#define ADD(s, ...) ((s)->n += (size_t)snprintf((s)->at + (s)->n, (s)->capacity - (s)->n, __VA_ARGS__))

static source begin(size_t capacity)
{
    source s = {calloc(1, capacity), 0, capacity};
    if (!s.at) exit(1);
    return s;
}

/* ---- the models ---- */

/* x is split into heads and put together again, by shapes taken from its own. */
static bytes shapes(int n)
{
    source s = begin((size_t)n * 700 + 1000);
    ADD(&s,
        "in x float[N,T,64]; const zero int64[1] 0; const one int64[1] 1; const heads int64[1] 4; "
        "const size int64[1] 16; const rest int64[1] -1; out x%d; x0 = Identity(x); ",
        n);
    for (int i = 0; i < n; i++) {
        ADD(&s, "s%d = Shape(x%d); b%d = Gather(s%d, zero); t%d = Gather(s%d, one); ", i, i, i, i, i, i);
        ADD(&s, "c%d = Concat(b%d, t%d, heads, size) axis=0; h%d = Reshape(x%d, c%d); ", i, i, i, i, i, i);
        ADD(&s, "p%d = Transpose(h%d) perm=[0,2,1,3]; e%d = Exp(p%d); ", i, i, i, i);
        ADD(&s, "q%d = Transpose(e%d) perm=[0,2,1,3]; ", i, i);
        ADD(&s, "d%d = Concat(b%d, t%d, rest) axis=0; x%d = Reshape(q%d, d%d); ", i, i, i, i + 1, i, i);
    }
    bytes file = model(13, graph(s.at, NULL), none);
    free(s.at);
    return file;
}

/* Every 50 nodes an input decides a shape. */
static bytes inputs(int n)
{
    source s = begin((size_t)n * 3000 + 1000);
    ADD(&s, "in x float[12]; ");
    for (int i = 0; i < n; i++) ADD(&s, "in s%d int64[2]; ", i);
    ADD(&s, "const flat int64[1] -1; out x%d; x0 = Identity(x); ", n);
    for (int i = 0; i < n; i++) {
        ADD(&s, "a%d_0 = Reshape(x%d, s%d); ", i, i, i);
        for (int k = 0; k < 48; k++) ADD(&s, "a%d_%d = Neg(a%d_%d); ", i, k + 1, i, k);
        ADD(&s, "x%d = Reshape(a%d_48, flat); ", i + 1, i);
    }
    bytes file = model(13, graph(s.at, NULL), none);
    free(s.at);
    return file;
}

/* Every 50 nodes a loop of 20 turns, each of which takes a slice by its number. */
static bytes loops(int n)
{
    const bytes body[] = {
        graph("in i int64[]; in go bool[]; in a float[1]; const one int64[1] 1; const zero int64[1] 0;"
              "out go; out b; e = Add(i, one); s = Slice(x, zero, e); r = ReduceSum(s) keepdims=1;"
              "b = Add(a, r)",
              NULL)};
    source s = begin((size_t)n * 3000 + 1000);
    ADD(&s, "in x float[20]; in y0 float[1]; const turns int64[] 20; out y%d; ", n);
    for (int i = 0; i < n; i++) {
        ADD(&s, "a%d_0 = Loop(turns, -, y%d) body=@0; ", i, i);
        for (int k = 0; k < 48; k++) ADD(&s, "a%d_%d = Neg(a%d_%d); ", i, k + 1, i, k);
        ADD(&s, "y%d = Identity(a%d_48); ", i + 1, i);
    }
    bytes file = model(13, graph(s.at, body), none);
    free(s.at);
    return file;
}

/* Matrices of 4 MiB. */
static bytes weights(int n)
{
    const size_t size = 4 << 20;
    bytes        dims = join(number(1, 1024), number(1, 1024)), tensors = none;
    float       *data = calloc(1, size);
    if (!data) exit(1);
    source s = begin((size_t)n * 100 + 1000);
    ADD(&s, "in x0 float[1,1024]; out x%d; ", n);
    for (int i = 0; i < n; i++) ADD(&s, "x%d = MatMul(x%d, w%d); ", i + 1, i, i);
    bytes *parts = calloc((size_t)n + 1, sizeof *parts);
    if (!parts) exit(1);
    for (int i = 0; i < n; i++) {
        char name[20];
        snprintf(name, sizeof name, "w%d", i);
        parts[i] = block(5, JOIN(dims, number(2, 1), text(8, name), block(9, raw(data, size))));
    }
    size_t all = 0, at = 0;
    for (int i = 0; i < n; i++) all += parts[i].n;
    tensors = (bytes){ipu__arena_alloc(&pool, all), all};
    for (int i = 0; i < n; at += parts[i++].n) memcpy(tensors.at + at, parts[i].at, parts[i].n);
    bytes file = model(13, join(tensors, graph(s.at, NULL)), none);
    free(parts);
    free(data);
    free(s.at);
    return file;
}

/* ---- measuring ---- */

/* Values for all inputs: 8 for what is not told, and as shapes {2, 6}. */
static size_t make_inputs(const ipu_onnx *file, ipu_onnx_value *in)
{
    size_t n = ipu_onnx_n_inputs(file);
    if (n > MOST_INPUTS) {
        fprintf(stderr, "import: %zu inputs: expected %d at most\n", n, MOST_INPUTS);
        exit(1);
    }
    for (size_t i = 0; i < n; i++) {
        ipu_onnx_port port;
        ipu_onnx_input_at(file, i, &port);
        for (int d = 0; d < port.rank; d++)
            if (port.shape.dim[d] < 0) port.shape.dim[d] = 8;
        in[i] = (ipu_onnx_value){.kind = IPU_ONNX_ARRAY};
        BENCH_CHECK(ipu_array_create(port.type, port.shape, &in[i].array));
        int64_t *data = in[i].array.data;
        if (port.type == IPU_INT64)
            for (int64_t k = 0; k < ipu_array_n_elements(&in[i].array); k++) data[k] = k % 2 ? 6 : 2;
    }
    return n;
}

static void measure(const char *name, const char *path)
{
    double         opened[TIMES], imported[TIMES], freed[TIMES];
    ipu_onnx_value in[MOST_INPUTS] = {{0}};
    size_t         n = 0, n_ops = 0;
    for (int i = 0; i < TIMES; i++) {
        ipu_onnx     *file;
        ipu__imported out;
        bool          fixed[MOST_INPUTS] = {false};
        double        begin_at           = bench_now();
        BENCH_CHECK(ipu_onnx_open(path, &file));
        opened[i] = bench_now() - begin_at;
        if (i == 0) n = make_inputs(file, in);
        ipu_onnx_options options = {.inputs = in, .n_inputs = n};
        begin_at                 = bench_now();
        BENCH_CHECK(ipu__onnx_import(file, &options, fixed, &out));
        imported[i] = bench_now() - begin_at;
        n_ops       = ipu_model_n_ops(out.m);
        begin_at    = bench_now();
        ipu__imported_fini(&out);
        ipu_onnx_close(file);
        freed[i] = bench_now() - begin_at;
    }
    for (size_t i = 0; i < n; i++) ipu_onnx_value_free(&in[i]);
    printf("%-24s %8zu %10.2f %10.2f %10.2f\n", name, n_ops, 1e3 * bench_median(opened, TIMES),
           1e3 * bench_median(imported, TIMES), 1e3 * bench_median(freed, TIMES));
}

static void measure_made(const char *name, bytes file)
{
    char path[] = "/tmp/ipu-import-XXXXXX";
    int  fd     = mkstemp(path);
    if (fd < 0 || write(fd, file.at, file.n) != (ssize_t)file.n) exit(1);
    close(fd);
    measure(name, path);
    unlink(path);
    ipu__arena_fini(&pool);
    pool = (ipu__arena){0};
}

int main(int argc, char **argv)
{
    printf("%-24s %8s %10s %10s %10s\n", "", "ops", "open ms", "import ms", "free ms");
    measure_made("shapes 100", shapes(100));
    measure_made("shapes 1000", shapes(1000));
    measure_made("inputs 8", inputs(8));
    measure_made("inputs 60", inputs(60));
    measure_made("loops 8", loops(8));
    measure_made("loops 30", loops(30));
    measure_made("weights 104 MB", weights(25));
    for (int i = 1; i < argc; i++) measure(argv[i], argv[i]);
    return 0;
}

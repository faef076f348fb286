/* `ipu check`: tries every part of the library once on this host, and names what is missing. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipu/codelet.h"
#include "ipu/op/conv.h"
#include "ipu/device.h"
#include "ipu/engine.h"
#include "ipu/executor.h"
#include "ipu/graph.h"
#include "ipu/op/loss.h"
#include "ipu/op/matmul.h"
#include "ipu/version.h"
#include "output.h"

typedef enum verdict { FINE, MISSING, BROKEN } verdict;

static const char *const verdict_texts[] = {[FINE] = "ok", [MISSING] = "missing", [BROKEN] = "failed"};

typedef struct finding {
    verdict verdict;
    char    text[1024]; /* what works; or what does not, and what to do */
} finding;

static void say(finding *f, verdict v, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(finding *f, verdict v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f->text, sizeof f->text, format, args);
    va_end(args);
    f->verdict = v;
}

/* ---- engine and codelets: y = 2 x + 1 on all tiles ---- */

enum { MOST_TILES = 1472 }; /* of any chip */

typedef struct line {
    int64_t n_tiles; /* of the active partition's chip, with a vertex on each */
    int     threads, wrong;
} line;

#define LINE(F) F(IN, float, x) F(OUT, float, y)
/* cppcheck-suppress internalAstError; it cannot parse the macro */
IPU_VERTEX(CheckLine, LINE)
{
    *v->y = 2 * *v->x + 1;
    return true;
}

static const char line_source[] = "#include \"ipu/codelet.h\"\n"
                                  "#define LINE(F) F(IN, float, x) F(OUT, float, y)\n"
                                  "IPU_VERTEX(CheckLine, LINE)\n"
                                  "{\n"
                                  "    *v->y = 2 * *v->x + 1;\n"
                                  "    return true;\n"
                                  "}\n";

static ipu_program build_line(ipu_graph *g, int64_t n)
{
    ipu_tensor      x  = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(n), "x");
    ipu_tensor      y  = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(n), "y");
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "line");
    ipu_graph_map_linearly(g, x);
    ipu_graph_map_linearly(g, y);
    for (int64_t i = 0; i < n; i++) {
        ipu_vertex v = ipu_graph_add_vertex(g, cs, "CheckLine");
        ipu_vertex_connect(v, "x", ipu_tensor_index(x, i));
        ipu_vertex_connect(v, "y", ipu_tensor_index(y, i));
        ipu_graph_set_vertex_tile(g, v, i);
    }
    ipu_graph_add_host_write(g, "x", x);
    ipu_graph_add_host_read(g, "y", y);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    return p;
}

/* Compiles and runs it; `wrong` counts incorrect elements. */
static ipu_status run_line(ipu_graph *g, line *out)
{
    float           data[MOST_TILES];
    ipu_executable *exe   = NULL;
    ipu_engine     *e     = NULL;
    ipu_program     p     = build_line(g, out->n_tiles);
    size_t          bytes = (size_t)out->n_tiles * sizeof *data;
    for (int64_t i = 0; i < out->n_tiles; i++) data[i] = (float)i;
    ipu_status status = ipu_executable_compile(g, &p, 1, NULL, &exe);
    if (status == IPU_OK) status = ipu_engine_create(exe, NULL, &e);
    if (status == IPU_OK) status = ipu_engine_write(e, "x", data, bytes);
    if (status == IPU_OK) status = ipu_engine_run(e, 0);
    if (status == IPU_OK) status = ipu_engine_read(e, "y", data, bytes);
    if (status == IPU_OK) {
        ipu_engine_counters counters;
        ipu_engine_get_counters(e, &counters);
        out->threads = counters.threads;
        for (int64_t i = 0; i < out->n_tiles; i++) out->wrong += data[i] != 2 * (float)i + 1;
    }
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    return status;
}

static ipu_status try_line(bool from_source, line *out)
{
    ipu_target target;
    ipu_graph *g;
    IPU_TRY(ipu_target_find(ipu_device_chip(), 1, &target));
    IPU_TRY(ipu_graph_create(&target, 1, &g));
    *out = (line){.n_tiles = target.tiles_per_ipu < MOST_TILES ? target.tiles_per_ipu : MOST_TILES};
    if (from_source)
        ipu_graph_add_codelet_source(g, "check.c", line_source, NULL);
    else
        ipu_graph_add_codelet(g, &CheckLine);
    ipu_status status = ipu_graph_status(g);
    if (status == IPU_OK) status = run_line(g, out);
    ipu_graph_destroy(g);
    return status;
}

static void check_engine(finding *f)
{
    line l;
    if (try_line(false, &l) != IPU_OK)
        say(f, BROKEN, "%s", ipu_message());
    else if (l.wrong)
        say(f, BROKEN, "%d of %lld vertices computed something else", l.wrong, (long long)l.n_tiles);
    else
        say(f, FINE, "%lld vertices on %lld tiles, %d host thread%s", (long long)l.n_tiles,
            (long long)l.n_tiles, l.threads, l.threads == 1 ? "" : "s");
}

/* Without a compiler, everything works except codelets from source. */
static void check_codelets(finding *f)
{
    line       l;
    ipu_status status = try_line(true, &l);
    if (status == IPU_UNSUPPORTED)
        say(f, MISSING, "%s; install one (apt-get install gcc libc6-dev), or name it in IPU_CC",
            ipu_message());
    else if (status != IPU_OK)
        say(f, BROKEN, "%s", ipu_message());
    else if (l.wrong)
        say(f, BROKEN, "%d of %lld vertices computed something else", l.wrong, (long long)l.n_tiles);
    else
        say(f, FINE, "compiled from C source and run");
}

/* ---- kernels: on all threads, more than there are rows ---- */

enum { MOST_FLOATS = 1 << 16 }; /* of an operand */

/* A product [m,k] x [n,k] transposed, or a convolution of m images of `in` channels with n kernels of 3x3, padded. */
typedef struct kernel_case {
    int64_t m, n, k, in, size;
} kernel_case;

static const kernel_case cases[] = {
    {.m = 1, .n = 40, .k = 1568},          {.m = 40, .n = 1, .k = 1568},
    {.m = 5, .n = 100, .k = 600},          {.m = 100, .n = 3, .k = 400},
    {.m = 6, .n = 3000, .k = 13},          {.m = 1, .n = 16, .in = 16, .size = 7},
    {.m = 1, .n = 5, .in = 3, .size = 29}, {.m = 3, .n = 33, .in = 8, .size = 9},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static ipu_shape shape_of(const kernel_case *c, int operand)
{
    if (c->in == 0) return operand == 0 ? IPU_SHAPE(c->m, c->k) : IPU_SHAPE(c->n, c->k);
    return operand == 0 ? IPU_SHAPE(c->m, c->in, c->size, c->size) : IPU_SHAPE(c->n, c->in, 3, 3);
}

static int64_t n_floats(const ipu_shape *shape)
{
    int64_t n = 1;
    for (int d = 0; d < shape->rank; d++) n *= shape->dim[d];
    return n;
}

static void forward_case(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n;
    const kernel_case *c = user;
    ipu_builder       *b = ipu_model_builder(m);
    ipu_value          y = c->in == 0 ? ipu_matmul_with(b, in[0], in[1], false, true)
                                      : ipu_conv(b, in[0], in[1], IPU_NO_VALUE, (ipu_conv_options){.padding = {1, 1}});
    ipu_model_output(m, y, "y");
}

/* Element `at` of the result, computed here. */
static double expect(const kernel_case *c, const float *x, const float *w, int64_t at)
{
    double sum = 0;
    if (c->in == 0) {
        for (int64_t k = 0; k < c->k; k++) sum += (double)(x[at / c->n * c->k + k] * w[at % c->n * c->k + k]);
        return sum;
    }
    int64_t column = at % c->size, row = at / c->size % c->size, plane = at / (c->size * c->size);
    for (int64_t i = 0; i < c->in * 9; i++) {
        int64_t r = row + i / 3 % 3 - 1, k = column + i % 3 - 1, from = plane / c->n * c->in + i / 9;
        if (r < 0 || r >= c->size || k < 0 || k >= c->size) continue;
        sum += (double)(x[(from * c->size + r) * c->size + k] * w[plane % c->n * c->in * 9 + i]);
    }
    return sum;
}

/* `wrong` counts incorrect elements. */
static ipu_status run_case(const kernel_case *c, float *data, int64_t *wrong)
{
    ipu_module                *module;
    ipu_executor              *x       = NULL;
    const ipu_executor_options options = {.cache_folder = ""};
    const ipu_array            in[]    = {{IPU_FLOAT, shape_of(c, 0), data},
                                          {IPU_FLOAT, shape_of(c, 1), data + MOST_FLOATS}};
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < n_floats(&in[i].shape); k++)
            ((float *)in[i].data)[k] = (float)(k % (5 + 2 * i) - 2);
    IPU_TRY(ipu_module_create(forward_case, (void *)(uintptr_t)c, &module));
    ipu_status status = ipu_inference_model(module, &options, &x);
    if (status == IPU_OK) status = ipu_executor_run(x, in, 2);
    const ipu_array *y = status == IPU_OK ? ipu_executor_output(x, "y") : NULL;
    *wrong += status == IPU_OK && !y;
    for (int64_t i = 0; y && i < n_floats(&y->shape); i++) {
        double expected = expect(c, in[0].data, in[1].data, i), found = (double)((const float *)y->data)[i];
        *wrong += !(fabs(found - expected) <= 1e-4 * (100 + fabs(expected)));
    }
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    return status;
}

static void check_kernels(finding *f)
{
    int64_t wrong = 0;
    float  *data  = calloc(2 * MOST_FLOATS, sizeof *data);
    for (int i = 0; i < N_CASES && data; i++) {
        ipu_status status = run_case(&cases[i], data, &wrong);
        if (status == IPU_OK) continue;
        say(f, status == IPU_BUSY ? MISSING : BROKEN, "%s", ipu_message());
        free(data);
        return;
    }
    if (!data)
        say(f, BROKEN, "out of memory");
    else if (wrong)
        say(f, BROKEN, "%lld numbers of %d products and convolutions are wrong", (long long)wrong, N_CASES);
    else
        say(f, FINE, "%d products and convolutions", N_CASES);
    free(data);
}

/* ---- devices, cache ---- */

static void check_devices(finding *f)
{
    ipu_device_list *list;
    ipu_device      *device = NULL;
    if (ipu_device_list_create(0, &list) != IPU_OK) {
        say(f, BROKEN, "%s", ipu_message());
        return;
    }
    const ipu_partition *p      = ipu_device_list_active(list);
    ipu_status           status = ipu_device_open_any(1, &device);
    if (status == IPU_OK) status = ipu_device_attach(device, 0);
    if (status == IPU_OK)
        say(f, FINE, "partition %s has %zu %s, %s", p->name, p->n_ipus, p->chip,
            p->elastic ? "and more for who asks" : "one is free");
    else
        say(f, status == IPU_BUSY ? MISSING : BROKEN, "%s", ipu_message());
    ipu_device_close(device);
    ipu_device_list_destroy(list);
}

/* Cuts a path to its longest part that exists. */
static void cut_to_what_is_there(char *path)
{
    while (access(path, F_OK) != 0) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            snprintf(path, 2, "%s", slash ? "/" : ".");
            return;
        }
        *slash = 0;
    }
}

/* Tries by writing: permissions alone do not reveal read-only or full file systems. Returns 0 or errno. */
static int try_writing(const char *folder)
{
    char *path;
    if (asprintf(&path, "%s/.ipu-check-XXXXXX", folder) < 0) return ENOMEM;
    int fd    = mkstemp(path);
    int wrong = fd < 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    free(path);
    return wrong;
}

/* Where compiled codelets (ipu/codelet.h) and executables (ipu/executor.h) are cached. */
static void check_cache(finding *f)
{
    const char *own = getenv("IPU_CACHE_DIR"), *torch = getenv("POPTORCH_CACHE_DIR");
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char        folder[512] = "", there[512];
    if (own && *own)
        snprintf(folder, sizeof folder, "%s", own);
    else if (xdg && *xdg == '/')
        snprintf(folder, sizeof folder, "%s/openipu", xdg);
    else if (home && *home)
        snprintf(folder, sizeof folder, "%s/.cache/openipu", home);
    if (!*folder) {
        say(f, MISSING, "no place for it: set IPU_CACHE_DIR to a folder, or HOME");
        return;
    }
    snprintf(there, sizeof there, "%s", folder);
    cut_to_what_is_there(there);
    bool keeps = (own && *own) || (torch && *torch);
    int  wrong = try_writing(there);
    if (wrong)
        say(f, MISSING,
            "%s cannot be written to (%s), so that codelets are compiled each "
            "time: set IPU_CACHE_DIR to a "
            "folder that can",
            there, strerror(wrong));
    else
        say(f, FINE, "%s%s", folder,
            keeps ? "" : "; with IPU_CACHE_DIR set, compiled networks are kept, too");
}

/* ---- training ---- */

enum { N_SAMPLES = 32, N_FEATURES = 4, N_RUNS = 40 };

static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)user;
    ipu_builder *b      = ipu_model_builder(m);
    ipu_value    hidden = ipu_relu(b, ipu_nn_linear(m, in[0], 16, "hidden"));
    ipu_value    scores = ipu_nn_linear(m, hidden, 2, "scores");
    ipu_model_output(m, scores, "scores");
    if (n > 1) ipu_nn_loss(m, ipu_cross_entropy(b, scores, in[1]), "loss");
}

/* Points on either side of a plane. */
static void make_samples(float *x, int32_t *labels)
{
    uint32_t random = 1;
    for (int i = 0; i < N_SAMPLES; i++) {
        float sum = 0;
        for (int k = 0; k < N_FEATURES; k++) {
            random                = random * 1664525 + 1013904223;
            x[i * N_FEATURES + k] = (float)(random >> 8) / (float)(1 << 23) - 1;
            sum += x[i * N_FEATURES + k];
        }
        labels[i] = sum > 0;
    }
}

/* The losses of the first and the last of N_RUNS runs over all samples. */
static ipu_status train(int64_t replicas, double *first, double *last)
{
    float                      x[N_SAMPLES * N_FEATURES];
    int32_t                    labels[N_SAMPLES];
    ipu_module                *module;
    ipu_executor              *model   = NULL;
    const ipu_executor_options options = {
        .replicas = replicas, .output_mode = IPU_OUTPUT_ALL, .cache_folder = ""};
    const ipu_nn_training how = {.optimizer = {.rate = 0.2, .momentum = 0.9}};
    make_samples(x, labels);
    const ipu_array in[] = {{IPU_FLOAT, IPU_SHAPE(N_SAMPLES, N_FEATURES), x},
                            {IPU_INT32, IPU_SHAPE(N_SAMPLES), labels}};
    IPU_TRY(ipu_module_create(forward, NULL, &module));
    ipu_status status = ipu_training_model(module, &options, &how, &model);
    for (int i = 0; i < N_RUNS && status == IPU_OK; i++) {
        status = ipu_executor_run(model, in, 2);
        if (status == IPU_OK) status = ipu_executor_scalar(model, "loss", last);
        if (status == IPU_OK && i == 0) *first = *last;
    }
    ipu_executor_destroy(model);
    ipu_module_destroy(module);
    return status;
}

static void check_training(finding *f, int64_t replicas)
{
    double     first, last, alone_first, alone_last;
    ipu_status status = train(replicas, &first, &last);
    if (status == IPU_BUSY || (status == IPU_NOT_FOUND && replicas > 1)) /* partition or device of one IPU */
        say(f, MISSING, "%s", ipu_message());
    else if (status != IPU_OK)
        say(f, BROKEN, "%s", ipu_message());
    else if (!(last < first / 2))
        say(f, BROKEN, "the loss was %g at first and %g in the end: expected less than half", first, last);
    else if (replicas == 1)
        say(f, FINE, "loss %.3f to %.3f", first, last);
    else if (train(1, &alone_first, &alone_last) != IPU_OK)
        say(f, BROKEN, "%s", ipu_message());
    else if (!(fabs(last - alone_last) < 1e-3)) /* sums are in another order */
        say(f, BROKEN, "the loss is %g in the end, and %g on one IPU: expected the same", last, alone_last);
    else
        say(f, FINE, "loss %.3f to %.3f, as on one", first, last);
}

static void check_one(finding *f) { check_training(f, 1); }
static void check_two(finding *f) { check_training(f, 2); }

/* ---- the command ---- */

static const struct {
    const char *name;
    void (*run)(finding *f);
    const char *praise; /* printed at the end if all is well */
} checks[] = {
    {"engine", check_engine, NULL},
    {"kernels", check_kernels, NULL},
    {"codelets", check_codelets, NULL},
    {"devices", check_devices, NULL},
    {"cache", check_cache, NULL},
    {"training on 1 IPU", check_one, "OpenIPU works well on 1 IPU."},
    {"training on 2 IPUs", check_two, "OpenIPU works well on 2 IPUs."},
};
enum { N_CHECKS = sizeof checks / sizeof *checks };

static tool_exit print_json(const finding *findings, bool works)
{
    json_t *list = json_array();
    bool    ok   = list != NULL;
    for (int i = 0; ok && i < N_CHECKS; i++)
        ok = json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", checks[i].name, "result",
                                                   verdict_texts[findings[i].verdict], "text",
                                                   tool_json_text(findings[i].text)))
          == 0;
    json_t *all = ok ? json_pack("{s:s, s:O, s:b}", "version", ipu_version(), "checks", list, "works",
                                 (int)works)
                     : NULL;
    json_decref(list);
    return tool_print_json(stdout, all);
}

tool_exit run_check(const tool_arguments *args)
{
    finding findings[N_CHECKS];
    bool    works = true, json = args->values[CHECK_JSON] != NULL;
    if (!json) printf("OpenIPU %s\n", ipu_version());
    for (int i = 0; i < N_CHECKS; i++) {
        checks[i].run(&findings[i]);
        works &= findings[i].verdict != BROKEN;
        if (json) continue;
        printf("%-20s%s: %s\n", checks[i].name, verdict_texts[findings[i].verdict], findings[i].text);
        fflush(stdout);
    }
    if (json) {
        tool_exit code = print_json(findings, works);
        return code == TOOL_OK && !works ? TOOL_FAILED : code;
    }
    for (int i = 0; i < N_CHECKS; i++)
        if (checks[i].praise && findings[i].verdict == FINE) puts(checks[i].praise);
    puts(works ? "OpenIPU is installed successfully!" : "OpenIPU does not work here: see what failed above.");
    return works ? TOOL_OK : TOOL_FAILED;
}

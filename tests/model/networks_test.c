/* Random networks over all families of ops.
 *
 *     networks_test                     models run by the engine against the references, op by op
 *     networks_test FOLDER [SEED N]     the same networks written for tests/torch/compare.py
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eager.h"
#include "net.h"
#include "sample.h"

enum { N_NETWORKS = 300, N_WRITTEN = 400, SEED = 1 };

/* ---- running ---- */

static ipu_target find_target(void)
{
    ipu_target target;
    if (ipu_target_find("gc200", 1, &target) != IPU_OK) abort();
    return target;
}

static ipu_engine *start(ipu_executable *exe, const char *threads)
{
    ipu_options *options = NULL;
    ipu_engine  *e       = NULL;
    bool ok = ipu_options_create(&options) == IPU_OK && ipu_options_set(options, "threads", threads) == IPU_OK
           && ipu_engine_create(exe, options, &e) == IPU_OK;
    ipu_options_destroy(options);
    return ok ? e : NULL;
}

static size_t bytes_of(ipu_value v)
{
    return (size_t)ipu_value_n_elements(v) * ipu_type_size(ipu_value_type(v));
}

static ipu_status write_inputs(const net *n, ipu_engine *e)
{
    for (int i = 0; i < n->n_inputs; i++) {
        const net_input *in     = &n->inputs[i];
        ipu_status       status = ipu_engine_write(e, in->name, in->data, bytes_of(in->v));
        /* What nothing needs has been dropped. */
        if (status != IPU_OK && status != IPU_NOT_FOUND) return status;
    }
    return IPU_OK;
}

/* After these passes only, which change the model. */
static ipu_status compile_with(ipu_model *m, unsigned passes, const ipu_target *target, ipu_executable **out)
{
    ipu_graph  *g;
    ipu_program program;
    IPU_TRY(ipu_model_optimise(m, passes));
    IPU_TRY(ipu_graph_create(target, 1, &g));
    ipu_status status = ipu_model_lower(m, g, &program);
    if (status == IPU_OK) status = ipu_executable_compile(g, &program, 1, NULL, out);
    ipu_graph_destroy(g);
    return status;
}

/* An engine that has run the network once; NULL with this thread's message. */
static ipu_engine *run_net(const net *n, unsigned passes, const char *threads)
{
    ipu_target      target = find_target();
    ipu_executable *exe    = NULL;
    ipu_engine     *e      = NULL;
    if (ipu_builder_status(n->b) != IPU_OK) return NULL;
    ipu_status status = passes == IPU_PASS_ALL ? ipu_model_compile(n->m, &target, NULL, &exe)
                                               : compile_with(n->m, passes, &target, &exe);
    if (status != IPU_OK) return NULL;
    e = start(exe, threads);
    ipu_executable_release(exe);
    if (e && write_inputs(n, e) == IPU_OK && ipu_engine_run(e, 0) == IPU_OK) return e;
    ipu_engine_destroy(e);
    return NULL;
}

static void *read_value(ipu_engine *e, const char *prefix, int i, ipu_value v)
{
    char  name[16];
    void *data = malloc(bytes_of(v) + 1);
    snprintf(name, sizeof name, "%s%d", prefix, i);
    if (data && ipu_engine_read(e, name, data, bytes_of(v)) == IPU_OK) return data;
    free(data);
    return NULL;
}

/* ---- against the references ---- */

static double largest_of(ipu_type type, const void *data, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(element_get(type, data, i)));
    return largest;
}

/* The largest difference, relative to the largest element, which counts as `least` at least. */
static double distance(ipu_type type, const void *expected, const void *found, int64_t n, double least)
{
    double largest = fmax(least, largest_of(type, expected, n)), worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double difference = fabs(element_get(type, expected, i) - element_get(type, found, i));
        if (!(difference <= 1e300)) return INFINITY;
        worst = fmax(worst, difference);
    }
    return worst / largest;
}

/* Sums that cancel, as a bias before a normalisation gets, leave the noise of their terms: a gradient is
 * measured by the largest of the network, too. */
static double least_gradient(const net *n)
{
    double largest = 1;
    for (int i = 0; i < n->n_inputs; i++) {
        ipu_value d = n->inputs[i].gradient;
        if (d.id)
            largest = fmax(largest, largest_of(ipu_value_type(d), eager_data(d), ipu_value_n_elements(d)));
    }
    return 0.02 * largest;
}

static int compare(ipu_engine *e, const char *prefix, int i, ipu_value found, ipu_value expected,
                   double least, uint64_t seed)
{
    if (!found.id && !expected.id) return 0;
    if (!found.id != !expected.id) {
        fprintf(stderr, "network %llu: %s%d: only one of the two has a gradient\n", (unsigned long long)seed,
                prefix, i);
        return 1;
    }
    void *data = read_value(e, prefix, i, found);
    if (!data) {
        fprintf(stderr, "network %llu: %s%d: %s\n", (unsigned long long)seed, prefix, i, ipu_message());
        return 1;
    }
    double far = distance(ipu_value_type(found), eager_data(expected), data, ipu_value_n_elements(found),
                          least);
    free(data);
    if (far <= 1e-4) return 0;
    fprintf(stderr, "network %llu: %s%d differs by %.3g of its largest element\n", (unsigned long long)seed,
            prefix, i, far);
    return 1;
}

static int check_network(uint64_t seed, const char *threads)
{
    static net ours, plain;
    int        bad = 0;
    net_build(&ours, seed, true, NULL, IPU_FLOAT);
    net_build(&plain, seed, false, NULL, IPU_FLOAT);
    ipu_engine *e = run_net(&ours, IPU_PASS_ALL, threads);
    if (ipu_builder_status(plain.b) != IPU_OK) {
        fprintf(stderr, "network %llu, at once: %s\n", (unsigned long long)seed,
                ipu_builder_message(plain.b));
        bad++;
    } else if (!e) {
        fprintf(stderr, "network %llu: %s\n", (unsigned long long)seed,
                ipu_builder_status(ours.b) != IPU_OK ? ipu_builder_message(ours.b) : ipu_message());
        bad++;
    }
    for (int i = 0; i < ours.n_outputs && !bad; i++)
        bad += compare(e, "o", i, ours.outputs[i], plain.outputs[i], 0.02, seed);
    double least = bad ? 0 : least_gradient(&plain);
    for (int i = 0; i < ours.n_inputs && !bad; i++)
        bad += compare(e, "g", i, ours.inputs[i].gradient, plain.inputs[i].gradient, least, seed);
    if (bad) fprintf(stderr, "%s\n", ours.text);
    ipu_engine_destroy(e);
    net_close(&ours);
    net_close(&plain);
    return bad;
}

static void models_give_what_their_ops_give_one_by_one(void **unused)
{
    (void)unused;
    int      bad = 0, count = test_count(N_NETWORKS);
    uint64_t seed = test_seed(SEED);
    for (int i = 0; i < count; i++) bad += check_network(seed + (uint64_t)i, i % 2 ? "2" : "1");
    if (bad) fail_msg("%d of %d networks", bad, count);
}

/* ---- fused against not ---- */

static int compare_bits(const char *prefix, int i, ipu_value v, ipu_engine *fused, ipu_engine *plain,
                        uint64_t seed)
{
    if (!v.id) return 0;
    char *a = read_value(fused, prefix, i, v), *b = read_value(plain, prefix, i, v);
    int   bad = !a || !b || memcmp(a, b, bytes_of(v)) != 0;
    if (bad)
        for (int64_t k = 0; a && b && k < ipu_value_n_elements(v); k++) {
            double x = element_get(ipu_value_type(v), b, k), y = element_get(ipu_value_type(v), a, k);
            if (memcmp(&x, &y, sizeof x) == 0) continue;
            fprintf(stderr, "network %llu: %s%d element %lld: %.9g fused, %.9g not\n",
                    (unsigned long long)seed, prefix, i, (long long)k, y, x);
            break;
        }
    free(a);
    free(b);
    return bad;
}

/* Adds to *n_fewer if there are fewer ops afterwards. */
static int check_fusion(uint64_t seed, ipu_type type, int *n_fewer)
{
    static net n;
    net_build(&n, seed, true, "elementwise", type);
    /* In this order: fusing changes the model. */
    ipu_engine *plain = run_net(&n, IPU_PASS_DCE, "1");
    size_t      n_ops = ipu_model_n_ops(n.m);
    ipu_engine *fused = run_net(&n, IPU_PASS_DCE | IPU_PASS_FUSE, "1");
    *n_fewer += ipu_model_n_ops(n.m) < n_ops;
    int bad = !fused || !plain;
    if (bad)
        fprintf(stderr, "network %llu: %s\n", (unsigned long long)seed,
                ipu_builder_status(n.b) != IPU_OK ? ipu_builder_message(n.b) : ipu_message());
    for (int i = 0; i < n.n_outputs && !bad; i++)
        bad += compare_bits("o", i, n.outputs[i], fused, plain, seed);
    for (int i = 0; i < n.n_inputs && !bad; i++)
        bad += compare_bits("g", i, n.inputs[i].gradient, fused, plain, seed);
    if (bad) fprintf(stderr, "%s in %s\n", n.text, ipu_type_name(type));
    ipu_engine_destroy(fused);
    ipu_engine_destroy(plain);
    net_close(&n);
    return bad;
}

static void fused_elementwise_ops_give_the_bits_of_single_ones(void **unused)
{
    (void)unused;
    static const ipu_type types[] = {IPU_FLOAT, IPU_HALF, IPU_BFLOAT16, IPU_DOUBLE};
    int                   bad = 0, n_fewer = 0, count = test_count(N_NETWORKS);
    uint64_t              seed = test_seed(SEED);
    for (int i = 0; i < count; i++) bad += check_fusion(seed + (uint64_t)i, types[i % 4], &n_fewer);
    if (bad) fail_msg("%d of %d networks", bad, count);
    if (n_fewer < count / 2) fail_msg("only %d of %d networks were fused", n_fewer, count);
}

/* ---- for PyTorch ---- */

static json_t *place(FILE *data, const char *name, ipu_value v, const void *values)
{
    ipu_shape shape = ipu_value_shape(v);
    json_t   *dims  = json_array();
    for (int d = 0; d < shape.rank; d++) json_array_append_new(dims, json_integer(shape.dim[d]));
    json_t *out = json_pack("{s:s, s:s, s:o, s:I}", "name", name, "type", ipu_type_name(ipu_value_type(v)),
                            "shape", dims, "at", (json_int_t)ftell(data));
    fwrite(values, 1, bytes_of(v), data);
    return out;
}

static json_t *place_result(FILE *data, ipu_engine *e, const char *prefix, int i, ipu_value named,
                            ipu_value v)
{
    char  name[16];
    void *values = read_value(e, prefix, i, v);
    if (!values) return NULL;
    snprintf(name, sizeof name, "v%u", named.id);
    json_t *out = place(data, name, v, values);
    free(values);
    return out;
}

static json_t *describe(const net *n, ipu_engine *e, uint64_t seed, FILE *data)
{
    json_t *inputs = json_array(), *outputs = json_array(), *gradients = json_array();
    for (int i = 0; i < n->n_inputs; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%u", n->inputs[i].v.id);
        json_t *in = place(data, name, n->inputs[i].v, n->inputs[i].data);
        json_object_set_new(in, "wanted", json_boolean(n->inputs[i].is_wanted));
        json_array_append_new(inputs, in);
    }
    for (int i = 0; i < n->n_outputs; i++)
        json_array_append_new(outputs, place_result(data, e, "o", i, n->outputs[i], n->outputs[i]));
    for (int i = 0; i < n->n_inputs; i++)
        if (n->inputs[i].gradient.id)
            json_array_append_new(gradients,
                                  place_result(data, e, "g", i, n->inputs[i].v, n->inputs[i].gradient));
    return json_pack("{s:I, s:o, s:s, s:o, s:o}", "seed", (json_int_t)seed, "inputs", inputs, "code", n->text,
                     "outputs", outputs, "gradients", gradients);
}

static bool write_network(uint64_t seed, FILE *lines, FILE *data)
{
    static net n;
    net_build(&n, seed, true, NULL, IPU_FLOAT);
    ipu_engine *e  = run_net(&n, IPU_PASS_ALL, "1");
    bool        ok = e != NULL;
    if (ok) {
        json_t *line = describe(&n, e, seed, data);
        ok           = json_dumpf(line, lines, JSON_COMPACT) == 0 && fputc('\n', lines) == '\n';
        json_decref(line);
    } else {
        fprintf(stderr, "network %llu: %s\n", (unsigned long long)seed,
                ipu_builder_status(n.b) != IPU_OK ? ipu_builder_message(n.b) : ipu_message());
    }
    ipu_engine_destroy(e);
    net_close(&n);
    return ok;
}

static int write_networks(const char *folder, uint64_t seed, int count)
{
    char path[2][4096];
    snprintf(path[0], sizeof *path, "%s/networks.jsonl", folder);
    snprintf(path[1], sizeof *path, "%s/networks.bin", folder);
    FILE *lines = fopen(path[0], "w"), *data = fopen(path[1], "wb");
    bool  ok = lines && data;
    for (int i = 0; ok && i < count; i++) ok = write_network(seed + (uint64_t)i, lines, data);
    if (lines) ok = !fclose(lines) && ok;
    if (data) ok = !fclose(data) && ok;
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return write_networks(argv[1], argc > 2 ? strtoull(argv[2], NULL, 0) : SEED,
                              argc > 3 ? atoi(argv[3]) : N_WRITTEN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_give_what_their_ops_give_one_by_one),
        cmocka_unit_test(fused_elementwise_ops_give_the_bits_of_single_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The public ONNX suite written again: every model that a session can run is written by ipu_onnx_write as it was
 * imported, read, and run beside the first.
 *
 *     onnx_write_conformance [--list] [--to FOLDER] FOLDER [NAME...]
 *
 * Prints what was refused (not imported, or made of ops that opset 17 lacks) and why, what was wrong, and last
 * "N passed, N refused, N wrong". --to: leaves the files there, as KIND-NAME.onnx.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "suite.h"

/* ---- comparing ---- */

static bool is_close(ipu_type type, double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (a == b) return true;
    double most = type == IPU_HALF ? 4e-3 : type == IPU_BFLOAT16 ? 3e-2 : 1e-4;
    return fabs(a - b) <= most * (1e-2 + fabs(a));
}

/* Output `i` of the model, as its engine has it after a run, with what the file gave. */
static void compare(ipu_model *m, ipu_engine *e, size_t i, const ipu_array *found, test *t)
{
    const char *name;
    ipu_array   own;
    ipu_value   v = ipu_model_output_at(m, i, &name);
    if (ipu_array_create(ipu_value_type(v), ipu_value_shape(v), &own) != IPU_OK) abort();
    size_t bytes = ipu_array_bytes(&own);
    bool   ok    = bytes == 0 || ipu_engine_read(e, name, own.data, bytes) == IPU_OK;
    bool   same  = ok && own.type == found->type && ipu_array_n_elements(&own) == ipu_array_n_elements(found);
    if (!same) judge(t, WRONG, "output \"%s\" has another type or size", name);
    for (int64_t k = 0; same && k < ipu_array_n_elements(&own); k++) {
        double a = ipu_array_value(&own, k), b = ipu_array_value(found, k);
        same = is_close(own.type, a, b);
        if (!same) judge(t, WRONG, "output \"%s\": element %lld was %.9g, is %.9g", name, (long long)k, a, b);
    }
    ipu_array_free(&own);
}

/* ---- inputs of the model, which are those of the file that it does not know already ---- */

/* "x", or "x[1]" of a sequence; NULL: another one. */
static const ipu_array *find_array(const ipu_onnx_value *v, const char *name, const char *wanted)
{
    if (v->kind == IPU_ONNX_ARRAY) return strcmp(name, wanted) == 0 ? &v->array : NULL;
    for (size_t i = 0; i < v->n_items; i++) {
        char item[400];
        snprintf(item, sizeof item, "%.300s[%zu]", name, i);
        const ipu_array *found = find_array(&v->items[i], item, wanted);
        if (found) return found;
    }
    return NULL;
}

static ipu_onnx_value input_of(const ipu_onnx *file, const data_set *d, const char *wanted)
{
    for (size_t i = 0; i < d->n_in; i++) {
        ipu_onnx_port port;
        ipu_onnx_input_at(file, i, &port);
        const ipu_array *a = find_array(&d->in[i], port.name, wanted);
        if (a) return (ipu_onnx_value){.kind = IPU_ONNX_ARRAY, .array = *a};
    }
    return (ipu_onnx_value){.kind = IPU_ONNX_NONE};
}

/* ---- one test ---- */

static void run_again(const ipu_onnx *file, ipu_onnx_session *first, const data_set *d, ipu_onnx *again,
                      test *t)
{
    ipu_model        *m               = ipu_onnx_session_model(first);
    ipu_onnx_session *s               = NULL;
    ipu_onnx_value    in[SUITE_PORTS] = {{0}}, out[SUITE_PORTS] = {{0}};
    size_t            n_in = ipu_model_n_inputs(m), n_out = ipu_model_n_outputs(m);
    if (n_in > SUITE_PORTS || n_out > SUITE_PORTS) {
        judge(t, REFUSED, "too many inputs or outputs for this program");
        return;
    }
    for (size_t i = 0; i < n_in; i++) in[i] = input_of(file, d, ipu_value_name(ipu_model_input_at(m, i)));
    ipu_status status = ipu_onnx_session_create(again, NULL, &s);
    if (status == IPU_OK) status = ipu_onnx_session_run(s, in, n_in, out, n_out);
    if (status != IPU_OK) judge(t, WRONG, "written, but: %s", ipu_message());
    for (size_t i = 0; i < n_out && t->outcome == PASSED; i++)
        compare(m, ipu_onnx_session_engine(first), i, &out[i].array, t);
    for (size_t i = 0; i < n_out; i++) ipu_onnx_value_free(&out[i]);
    ipu_onnx_session_destroy(s);
}

static void keep_file(const char *to, const test *t, const void *data, size_t bytes)
{
    char path[SUITE_PATH];
    snprintf(path, sizeof path, "%s/%s-%s.onnx", to, t->kind, t->name);
    FILE *f = to ? fopen(path, "wb") : NULL;
    if (!f) return;
    fwrite(data, 1, bytes, f);
    fclose(f);
}

static void write_model(const ipu_onnx *file, ipu_onnx_session *s, const data_set *d, const char *to, test *t)
{
    void      *data;
    size_t     bytes;
    ipu_onnx  *again;
    ipu_status status = ipu_onnx_write_memory(ipu_onnx_session_model(s), NULL, &data, &bytes);
    if (status != IPU_OK) {
        judge(t, status == IPU_UNSUPPORTED ? REFUSED : WRONG, "%s", ipu_message());
        return;
    }
    keep_file(to, t, data, bytes);
    if (ipu_onnx_read(data, bytes, NULL, &again) != IPU_OK)
        judge(t, WRONG, "written, but: %s", ipu_message());
    else
        run_again(file, s, d, again, t);
    if (t->outcome != WRONG || again) ipu_onnx_close(again);
    ipu_free(data);
}

static void run_test(const char *folder, const char *to, test *t)
{
    char              path[SUITE_PATH];
    ipu_onnx         *file = NULL;
    ipu_onnx_session *s    = NULL;
    data_set         *d    = NULL;
    snprintf(path, sizeof path, "%s/%s/%s/model.onnx", folder, t->kind, t->name);
    bool ok = ipu_onnx_open(path, &file) == IPU_OK && ipu_onnx_session_create(file, NULL, &s) == IPU_OK;
    if (!ok) judge(t, REFUSED, "%s", ipu_message());
    if (is_random_test(t)) judge(t, REFUSED, "its output is random: nothing to compare with");
    snprintf(path, sizeof path, "%s/%s/%s/test_data_set_0", folder, t->kind, t->name);
    if (t->outcome == PASSED) d = data_set_load(file, path, t);
    if (d && ipu_onnx_session_run(s, d->in, d->n_in, d->found, d->n_out) != IPU_OK)
        judge(t, REFUSED, "%s", ipu_message());
    if (d && t->outcome == PASSED) write_model(file, s, d, to, t);
    if (d) data_set_free(d);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
}

int main(int argc, char **argv)
{
    const char *to   = NULL;
    bool        list = false;
    int         at   = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        list |= strcmp(argv[at], "--list") == 0;
        if (strcmp(argv[at], "--to") == 0 && at + 1 < argc) to = argv[++at];
    }
    if (at >= argc) {
        fprintf(stderr, "usage: onnx_write_conformance [--list] [--to FOLDER] FOLDER [NAME...]\n");
        return 2;
    }
    static const char *const words[]  = {"passed", "refused", "wrong"};
    size_t                   count[3] = {0};
    test                    *tests    = calloc(SUITE_TESTS, sizeof *tests);
    size_t                   n        = tests ? suite_find(argv[at], argv + at + 1, argc - at - 1, tests) : 0;
    for (size_t i = 0; i < n; i++) {
        run_test(argv[at], to, &tests[i]);
        count[tests[i].outcome]++;
        if (list || tests[i].outcome == WRONG)
            printf("%-7s %s/%s: %s\n", words[tests[i].outcome], tests[i].kind, tests[i].name,
                   tests[i].reason);
    }
    free(tests);
    printf("%zu passed, %zu refused, %zu wrong\n", count[PASSED], count[REFUSED], count[WRONG]);
    return count[WRONG] > 0;
}

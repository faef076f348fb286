/* ONNX test data: runs a model on input_*.pb and compares its outputs with output_*.pb. */
#include "run/test.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "run/report.h"

/* The tolerances of ONNX's own backend tests (onnx/backend/test/loader). */
static const double suite_rtol = 1e-3, suite_atol = 1e-7;

typedef struct test_result {
    const char          *folder;
    bool                 passed, is_element; /* is_element: the failure is at one element */
    char                 text[1024];         /* the failure */
    const char          *output;             /* NULL if it failed before comparing */
    char                 index[256];
    ipu_array_difference d;
} test_result;

typedef struct tester {
    const onnx_file  *file;
    ipu_onnx_session *session;
    double            rtol, atol;
} tester;

/* ---- one set ---- */

static const char *kind_text(const ipu_onnx_value *v, char *out, size_t size)
{
    if (v->kind == IPU_ONNX_NONE) return "nothing";
    if (v->kind == IPU_ONNX_SEQUENCE) {
        snprintf(out, size, "a sequence of %zu", v->n_items);
        return out;
    }
    size_t n = (size_t)snprintf(out, size, "%s", ipu_type_name(v->array.type));
    ipu_shape_text(&v->array.shape, out + n, size - n);
    return out;
}

static void note_kinds(const ipu_onnx_value *expected, const ipu_onnx_value *found, test_result *r)
{
    char a[256], b[256];
    snprintf(r->text, sizeof r->text, "output \"%s\": expected %s, found %s", r->output,
             kind_text(expected, a, sizeof a), kind_text(found, b, sizeof b));
}

static void note_element(const ipu_array *expected, const ipu_array *found, test_result *r)
{
    char a[64], b[64];
    run_index_text(&expected->shape, r->d.first, r->index, sizeof r->index);
    run_element_text(expected, r->d.first, a, sizeof a);
    run_element_text(found, r->d.first, b, sizeof b);
    r->is_element = true;
    snprintf(r->text, sizeof r->text,
             "output \"%s\" at %s: expected %s, found %s, tolerance %.3g; %lld of %lld differ", r->output,
             r->index, a, b, r->d.tolerance, (long long)r->d.n, (long long)ipu_array_n_elements(expected));
}

/* Compares two values; if they differ, `r` says where. */
static bool compare(const tester *t, const ipu_onnx_value *expected, const ipu_onnx_value *found,
                    test_result *r)
{
    if (expected->kind != found->kind || expected->n_items != found->n_items) {
        note_kinds(expected, found, r);
        return false;
    }
    for (size_t i = 0; i < expected->n_items; i++)
        if (!compare(t, &expected->items[i], &found->items[i], r)) return false;
    if (expected->kind != IPU_ONNX_ARRAY
        || ipu_array_is_close(&expected->array, &found->array, t->rtol, t->atol, &r->d))
        return true;
    if (r->d.n < 0)
        note_kinds(expected, found, r);
    else
        note_element(&expected->array, &found->array, r);
    return false;
}

/* Reads FOLDER/WHAT_0.pb and so on while they exist, into values[0..n); more than n is an error. */
static bool read_values(const char *folder, const char *what, const ipu_onnx_port *ports, size_t n,
                        ipu_onnx_value *values, size_t *n_read, test_result *r)
{
    for (*n_read = 0;; ++*n_read) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s_%zu.pb", folder, what, *n_read);
        if (access(path, F_OK) != 0) return true;
        if (*n_read == n) {
            snprintf(r->text, sizeof r->text, "there is %s_%zu.pb, but the model has %zu %ss", what, n, n,
                     what);
            return false;
        }
        if (ipu_onnx_value_open(path, &ports[*n_read], &values[*n_read]) != IPU_OK) {
            snprintf(r->text, sizeof r->text, "%s", ipu_message());
            return false;
        }
    }
}

static void run_and_compare(const tester *t, const ipu_onnx_value *in, size_t n_in,
                            const ipu_onnx_value *expected, size_t n_expected, ipu_onnx_value *out,
                            test_result *r)
{
    if (ipu_onnx_session_run(t->session, in, n_in, out, t->file->n_outputs) != IPU_OK) {
        snprintf(r->text, sizeof r->text, "%s", ipu_message());
        return;
    }
    r->passed = true;
    for (size_t i = 0; i < n_expected && r->passed; i++) {
        r->output = t->file->outputs[i].name;
        r->passed = compare(t, &expected[i], &out[i], r);
    }
}

static void free_values(ipu_onnx_value *values, size_t n)
{
    for (size_t i = 0; values && i < n; i++) ipu_onnx_value_free(&values[i]);
    free(values);
}

static void run_set(const tester *t, test_result *r)
{
    const onnx_file *f        = t->file;
    ipu_onnx_value  *in       = calloc(f->n_inputs + 1, sizeof *in);
    ipu_onnx_value  *expected = calloc(f->n_outputs + 1, sizeof *expected);
    ipu_onnx_value  *out      = calloc(f->n_outputs + 1, sizeof *out);
    size_t           n_in, n_expected;
    if (!in || !expected || !out)
        snprintf(r->text, sizeof r->text, "out of memory");
    else if (read_values(r->folder, "input", f->inputs, f->n_inputs, in, &n_in, r)
             && read_values(r->folder, "output", f->outputs, f->n_outputs, expected, &n_expected, r)) {
        if (n_expected == 0)
            snprintf(r->text, sizeof r->text, "there is no output_0.pb");
        else
            run_and_compare(t, in, n_in, expected, n_expected, out, r);
    }
    free_values(in, f->n_inputs);
    free_values(expected, f->n_outputs);
    free_values(out, f->n_outputs);
}

/* ---- reports ---- */

static json_t *json_result(const test_result *r)
{
    json_t *one = json_pack("{s:o, s:b}", "folder", tool_json_text(r->folder), "passed", (int)r->passed);
    bool    ok  = one != NULL;
    if (!r->passed) ok = ok && json_object_set_new(one, "message", tool_json_text(r->text)) == 0;
    if (!r->passed && r->output)
        ok = ok && json_object_set_new(one, "output", tool_json_text(r->output)) == 0;
    if (r->is_element)
        ok = ok
          && json_object_update_new(one, json_pack("{s:s, s:o, s:o, s:f, s:I}", "index", r->index, "expected",
                                                   tool_json_finite(r->d.expected), "found",
                                                   tool_json_finite(r->d.found), "tolerance", r->d.tolerance,
                                                   "differing", (json_int_t)r->d.n))
                 == 0;
    if (ok) return one;
    json_decref(one);
    return NULL;
}

static tool_exit run_folders(const tester *t, char **folders, size_t n, bool as_json)
{
    json_t *list     = json_array();
    size_t  n_passed = 0;
    bool    failed   = !list;
    for (size_t i = 0; i < n; i++) {
        test_result r = {.folder = folders[i]};
        run_set(t, &r);
        n_passed += r.passed;
        failed |= json_array_append_new(list, json_result(&r)) != 0;
        if (as_json) continue;
        printf("%s %s%s%s\n", r.passed ? "pass" : "FAIL", r.folder, r.passed ? "" : ": ", r.text);
    }
    tool_exit code = n_passed == n ? TOOL_OK : TOOL_FAILED;
    if (as_json && !failed) {
        tool_exit written = tool_print_json(stdout, json_pack("{s:O, s:I, s:I}", "tests", list, "passed",
                                                              (json_int_t)n_passed, "failed",
                                                              (json_int_t)(n - n_passed)));
        if (written != TOOL_OK) code = written;
    } else if (!as_json) {
        printf("%zu passed, %zu failed\n", n_passed, n - n_passed);
    }
    json_decref(list);
    return failed ? tool_fail("out of memory") : code;
}

/* ---- folders ---- */

static int is_set(const struct dirent *e) { return !strncmp(e->d_name, "test_data_set_", 14); }

/* The sets in `folder`, in order of their numbers. Names and list are owned. */
static tool_exit find_sets(const char *folder, char ***out, size_t *n)
{
    char            path[4096];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/output_0.pb", folder);
    bool is_one = access(path, F_OK) == 0;
    int  found  = is_one ? 0 : scandir(folder, &entries, is_set, versionsort);
    if (found < 0) return tool_fail("cannot read %s: %s", folder, strerror(errno));
    *n      = is_one ? 1 : (size_t)found;
    *out    = calloc(*n + 1, sizeof **out);
    bool ok = *out != NULL;
    if (is_one && ok) ok = ((*out)[0] = strdup(folder)) != NULL;
    for (int i = 0; i < found; i++) {
        if (ok && asprintf(&(*out)[i], "%s/%s", folder, entries[i]->d_name) < 0) (*out)[i] = NULL, ok = false;
        free(entries[i]);
    }
    if (!is_one) free(entries);
    if (!ok) return tool_fail("out of memory");
    return *n ? TOOL_OK
              : tool_fail("no test data in %s: expected output_0.pb, or folders test_data_set_*", folder);
}

static bool read_tolerance(const char *option, const char *text, double *out)
{
    char *end;
    if (!text) return true;
    *out = strtod(text, &end);
    if (end != text && !*end && *out >= 0 && isfinite(*out)) return true;
    tool_usage("run", "--%s: expected a number of 0 or more, found \"%s\"", option, text);
    return false;
}

tool_exit run_test(const tool_arguments *args, const onnx_file *f, ipu_onnx_session *session)
{
    tester t       = {f, session, suite_rtol, suite_atol};
    char **folders = NULL;
    size_t n       = 0;
    if (!read_tolerance("rtol", args->values[RUN_RTOL], &t.rtol)
        || !read_tolerance("atol", args->values[RUN_ATOL], &t.atol))
        return TOOL_USAGE;
    tool_exit code = find_sets(args->values[RUN_TEST], &folders, &n);
    if (code == TOOL_OK) code = run_folders(&t, folders, n, args->values[RUN_JSON] != NULL);
    for (size_t i = 0; folders && i < n; i++) free(folders[i]);
    free(folders);
    return code;
}

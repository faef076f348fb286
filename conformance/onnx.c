/* The public ONNX suite, as Debian's libonnx-testdata installs it: every model, its inputs and expected outputs.
 *
 *     onnx_conformance [--list] [--report FILE] FOLDER [NAME...]
 *
 * FOLDER holds kinds of tests (node, simple, ...), they hold tests, those model.onnx and test_data_set_*. All run in
 * this process, through a session as a user has it. Prints what was refused and why, what was wrong, and last
 * "N passed, N refused, N wrong". Tolerances are those of the suite's own runner: 1e-3 relative, 1e-7 absolute.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

/* ---- comparing ---- */

static bool is_close(double expected, double found)
{
    if (isnan(expected) || isnan(found)) return isnan(expected) && isnan(found);
    if (isinf(expected) || isinf(found)) return expected == found;
    return fabs(expected - found) <= 1e-7 + 1e-3 * fabs(expected);
}

static bool same_shape(const ipu_shape *a, const ipu_shape *b)
{
    bool is_same = a->rank == b->rank;
    for (int i = 0; is_same && i < a->rank; i++) is_same = a->dim[i] == b->dim[i];
    return is_same;
}

static void shape_text(const ipu_shape *shape, char *out, size_t size)
{
    size_t at = (size_t)snprintf(out, size, "[");
    for (int i = 0; i < shape->rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? "," : "", (long long)shape->dim[i]);
    if (at < size) snprintf(out + at, size - at, "]");
}

static bool same_array(const ipu_array *expected, const ipu_array *found, test *t, const char *name)
{
    char a[100], b[100];
    shape_text(&expected->shape, a, sizeof a);
    shape_text(&found->shape, b, sizeof b);
    if (expected->type != found->type || !same_shape(&expected->shape, &found->shape)) {
        snprintf(t->reason, sizeof t->reason, "output \"%.100s\": expected %s%s, found %s%s", name,
                 ipu_type_name(expected->type), a, ipu_type_name(found->type), b);
        return false;
    }
    /* The suite's runner, in numpy, compares bfloat16 by its bits. */
    ipu_array bits[2] = {*expected, *found};
    for (int i = 0; i < 2; i++)
        if (bits[i].type == IPU_BFLOAT16) bits[i].type = IPU_UINT16;
    int64_t n = ipu_array_n_elements(expected);
    for (int64_t i = 0; i < n; i++) {
        double e = ipu_array_value(&bits[0], i), f = ipu_array_value(&bits[1], i);
        if (is_close(e, f)) continue;
        snprintf(t->reason, sizeof t->reason, "output \"%.100s\" %s%s: element %lld is %.9g, expected %.9g",
                 name, ipu_type_name(found->type), b, (long long)i, f, e);
        return false;
    }
    return true;
}

static bool same_value(const ipu_onnx_value *expected, const ipu_onnx_value *found, test *t, const char *name)
{
    if (expected->kind != found->kind || expected->n_items != found->n_items) {
        snprintf(t->reason, sizeof t->reason,
                 "output \"%.100s\": kind %d of %zu items, expected kind %d of %zu", name, (int)found->kind,
                 found->n_items, (int)expected->kind, expected->n_items);
        return false;
    }
    if (expected->kind == IPU_ONNX_ARRAY) return same_array(&expected->array, &found->array, t, name);
    for (size_t i = 0; i < expected->n_items; i++)
        if (!same_value(&expected->items[i], &found->items[i], t, name)) return false;
    return true;
}

/* ---- one test ---- */

static void run_data(const ipu_onnx *file, ipu_onnx_session *s, const char *folder, test *t)
{
    data_set *d = data_set_load(file, folder, t);
    if (!d) return;
    ipu_status status = ipu_onnx_session_run(s, d->in, d->n_in, d->found, d->n_out);
    if (status != IPU_OK) judge(t, status == IPU_UNSUPPORTED ? REFUSED : WRONG, "%s", ipu_message());
    for (size_t i = 0; i < d->n_out && t->outcome == PASSED; i++) {
        ipu_onnx_port port;
        ipu_onnx_output_at(file, i, &port);
        if (!same_value(&d->expected[i], &d->found[i], t, port.name)) t->outcome = WRONG;
    }
    data_set_free(d);
}

static void run_test(const char *folder, report *r, test *t)
{
    char              path[SUITE_PATH];
    ipu_onnx         *file  = NULL;
    ipu_onnx_session *s     = NULL;
    double            began = suite_now();
    snprintf(path, sizeof path, "%s/%s/%s/model.onnx", folder, t->kind, t->name);
    if (ipu_onnx_open(path, &file) != IPU_OK || ipu_onnx_session_create(file, NULL, &s) != IPU_OK)
        judge(t, REFUSED, "%s", ipu_message());
    if (is_random_test(t)) judge(t, REFUSED, "its output is random: nothing to compare with");
    if (strcmp(t->name, "test_adam_multiple") == 0) /* ONNX's own reference leaves it out, too */
        judge(t, REFUSED, "its output was made with an epsilon of 0.01, which the file does not hold");
    for (int i = 0; s && t->outcome == PASSED; i++) {
        snprintf(path, sizeof path, "%s/%s/%s/test_data_set_%d", folder, t->kind, t->name, i);
        if (access(path, R_OK) != 0) break;
        run_data(file, s, path, t);
    }
    if (file) report_add(r, file, t);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
    t->seconds = suite_now() - began;
}

/* ---- all of them ---- */

/* A refusal without the names that make it that test's own. */
static const char *plain_reason(const test *t)
{
    const char *reason = t->reason, *colon = strstr(reason, ".onnx: ");
    return colon ? colon + 7 : reason;
}

static void print_outcomes(const test *tests, size_t n, bool list)
{
    for (size_t i = 0; i < n; i++) {
        if (tests[i].outcome == WRONG)
            printf("wrong   %s/%s: %s\n", tests[i].kind, tests[i].name, tests[i].reason);
        else if (tests[i].outcome == REFUSED)
            printf("refused %s/%s: %s\n", tests[i].kind, tests[i].name, plain_reason(&tests[i]));
        else if (list)
            printf("passed  %s/%s (%.1f ms)\n", tests[i].kind, tests[i].name, 1e3 * tests[i].seconds);
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: onnx_conformance [--list] [--report FILE] FOLDER [NAME...]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *to   = NULL;
    bool        list = false;
    int         at   = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--list") == 0)
            list = true;
        else if (strcmp(argv[at], "--report") == 0 && at + 1 < argc)
            to = argv[++at];
        else
            return usage();
    }
    if (at >= argc) return usage();
    test   *tests    = calloc(SUITE_TESTS, sizeof *tests);
    report *r        = report_create();
    size_t  n        = tests && r ? suite_find(argv[at], argv + at + 1, argc - at - 1, tests) : 0;
    size_t  count[3] = {0};
    double  began    = suite_now();
    for (size_t i = 0; i < n; i++) {
        run_test(argv[at], r, &tests[i]);
        count[tests[i].outcome]++;
    }
    print_outcomes(tests, n, list);
    if (to && n > 0 && !report_write(r, tests, n, to))
        fprintf(stderr, "onnx_conformance: cannot write %s\n", to);
    printf("%.1f s\n", suite_now() - began);
    printf("%zu passed, %zu refused, %zu wrong\n", count[PASSED], count[REFUSED], count[WRONG]);
    report_free(r);
    free(tests);
    return n == 0 || count[WRONG] > 0;
}

/* Walking the suite's folders, and reading its data. */
#include "suite.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void judge(test *t, outcome how, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(t->reason, sizeof t->reason, format, args);
    va_end(args);
    t->outcome = how;
}

bool is_random_test(const test *t)
{
    static const char *const names[] = {"test_bernoulli", "test_training_dropout"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(t->name, names[i], strlen(names[i])) == 0 && !strstr(t->name, "zero_ratio")) return true;
    return false;
}

double suite_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- data ---- */

static bool load_side(const ipu_onnx *file, const char *folder, bool is_output, data_set *d, test *t)
{
    char            path[SUITE_PATH + 64];
    size_t          n      = is_output ? ipu_onnx_n_outputs(file) : ipu_onnx_n_inputs(file);
    ipu_onnx_value *values = is_output ? d->expected : d->in;
    for (size_t i = 0; i < n && i < SUITE_PORTS; i++) {
        ipu_onnx_port port;
        if (is_output)
            ipu_onnx_output_at(file, i, &port);
        else
            ipu_onnx_input_at(file, i, &port);
        snprintf(path, sizeof path, "%s/%s_%zu.pb", folder, is_output ? "output" : "input", i);
        if (access(path, R_OK) != 0) continue;
        *(is_output ? &d->n_out : &d->n_in) = i + 1;
        if (ipu_onnx_value_open(path, &port, &values[i]) == IPU_OK) continue;
        const char *why = strstr(ipu_message(), ".pb: ");
        judge(t, REFUSED, "its data cannot be read: %s", why ? why + 5 : ipu_message());
        return false;
    }
    return true;
}

data_set *data_set_load(const ipu_onnx *file, const char *folder, test *t)
{
    data_set *d = calloc(1, sizeof *d);
    if (!d) judge(t, WRONG, "out of memory");
    if (!d || (load_side(file, folder, false, d, t) && load_side(file, folder, true, d, t))) return d;
    data_set_free(d);
    return NULL;
}

void data_set_free(data_set *d)
{
    for (size_t i = 0; d && i < SUITE_PORTS; i++) {
        ipu_onnx_value_free(&d->in[i]);
        ipu_onnx_value_free(&d->expected[i]);
        ipu_onnx_value_free(&d->found[i]);
    }
    free(d);
}

/* ---- tests ---- */

static int by_name(const void *a, const void *b)
{
    const test *x = a, *y = b;
    int         k = strcmp(x->kind, y->kind);
    return k ? k : strcmp(x->name, y->name);
}

size_t suite_find(const char *folder, char *const *names, int n_names, test *tests)
{
    size_t n     = 0;
    DIR   *kinds = opendir(folder);
    for (struct dirent *k; kinds && (k = readdir(kinds));) {
        char path[SUITE_PATH];
        if (k->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, k->d_name);
        DIR *all = opendir(path);
        for (struct dirent *e; all && (e = readdir(all)) && n < SUITE_TESTS;) {
            bool is_wanted = n_names == 0;
            for (int i = 0; i < n_names; i++) is_wanted |= strstr(e->d_name, names[i]) != NULL;
            snprintf(path, sizeof path, "%s/%s/%s/model.onnx", folder, k->d_name, e->d_name);
            if (!is_wanted || access(path, R_OK) != 0) continue;
            snprintf(tests[n].kind, sizeof tests[n].kind, "%.60s", k->d_name);
            snprintf(tests[n].name, sizeof tests[n].name, "%.190s", e->d_name);
            n++;
        }
        if (all) closedir(all);
    }
    if (kinds) closedir(kinds);
    qsort(tests, n, sizeof *tests, by_name);
    return n;
}

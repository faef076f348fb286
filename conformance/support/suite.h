/* The ONNX suite on disk: its tests, and their data. */
#ifndef IPU_CONFORMANCE_SUITE_H
#define IPU_CONFORMANCE_SUITE_H

#include <stdbool.h>
#include <stddef.h>

#include "ipu/ipu.h"

enum { SUITE_PATH = 4096, SUITE_PORTS = 64, SUITE_TESTS = 20000 };

typedef enum outcome { PASSED, REFUSED, WRONG } outcome;

typedef struct test {
    char    kind[64], name[200], reason[400];
    outcome outcome;
    double  seconds;
} test;

/* Sets outcome and reason. */
void judge(test *t, outcome how, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Tests of FOLDER/KIND/NAME whose names contain one of `names` (none: all), sorted; at most SUITE_TESTS. */
size_t suite_find(const char *folder, char *const *names, int n_names, test *tests);

typedef struct data_set {
    ipu_onnx_value in[SUITE_PORTS], expected[SUITE_PORTS], found[SUITE_PORTS];
    size_t         n_in, n_out;
} data_set;

/* input_*.pb and output_*.pb of a folder; NULL after `t` was judged. Owned: data_set_free. */
data_set *data_set_load(const ipu_onnx *file, const char *folder, test *t);
void      data_set_free(data_set *d);

/* Whether its outputs are drawn from numpy's generator, so that there is nothing to compare with. */
bool is_random_test(const test *t);

double suite_now(void);

#endif

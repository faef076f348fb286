/* docs/onnx-ops.md: which ONNX ops the suite shows to work. */
#ifndef IPU_CONFORMANCE_REPORT_H
#define IPU_CONFORMANCE_REPORT_H

#include "suite.h"

typedef struct report report;

report *report_create(void); /* NULL: memory */
void    report_free(report *r);
/* Counts a test for each op of its model. */
void report_add(report *r, const ipu_onnx *file, const test *t);
/* False: `path` cannot be written. */
bool report_write(report *r, const test *tests, size_t n, const char *path);

#endif

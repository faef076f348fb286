/* Counting tests by op, and the table of it. */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPS = 1000 };

typedef struct op {
    char   domain[64], name[64];
    size_t passed, refused;
    bool   is_known;
} op;

struct report {
    op     ops[MOST_OPS];
    size_t n;
};

static op *find_op(report *r, const char *domain, const char *name)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->ops[i].name, name) == 0 && strcmp(r->ops[i].domain, domain) == 0) return &r->ops[i];
    if (r->n == MOST_OPS) return NULL;
    op *o = &r->ops[r->n++];
    snprintf(o->domain, sizeof o->domain, "%.60s", domain);
    snprintf(o->name, sizeof o->name, "%.60s", name);
    return o;
}

report *report_create(void)
{
    report     *r = calloc(1, sizeof *r);
    const char *domain, *name;
    for (size_t i = 0; r && ipu_onnx_known_op_at(i, &domain, &name); i++) {
        op *o = find_op(r, domain, name);
        if (o) o->is_known = true;
    }
    return r;
}

void report_free(report *r) { free(r); }

void report_add(report *r, const ipu_onnx *file, const test *t)
{
    ipu_onnx_op_count count;
    for (size_t i = 0; ipu_onnx_op_count_at(file, i, &count); i++) {
        op *o = find_op(r, count.domain, count.name);
        if (o) *(t->outcome == PASSED ? &o->passed : &o->refused) += 1;
    }
}

static int by_name(const void *a, const void *b)
{
    const op *x = a, *y = b;
    int       d = strcmp(x->domain, y->domain);
    return d ? d : strcmp(x->name, y->name);
}

static void write_ops(FILE *f, const report *r)
{
    fprintf(f, "| op | models passed | refused | |\n|---|---|---|---|\n");
    for (size_t i = 0; i < r->n; i++) {
        const op *o = &r->ops[i];
        fprintf(f, "| %s%s%s | %zu | %zu | %s |\n", o->domain, *o->domain ? "." : "", o->name, o->passed,
                o->refused,
                !o->is_known                  ? "not imported"
                : o->passed + o->refused == 0 ? "not in the suite"
                                              : "");
    }
}

bool report_write(report *r, const test *tests, size_t n, const char *path)
{
    FILE  *f        = fopen(path, "w");
    size_t count[3] = {0};
    if (!f) return false;
    for (size_t i = 0; i < n; i++) count[tests[i].outcome]++;
    qsort(r->ops, r->n, sizeof *r->ops, by_name);
    fprintf(f, "# ONNX ops\n\n");
    fprintf(
        f,
        "Written by `make conformance`: every model of the public ONNX suite (Debian's libonnx-testdata), run "
        "through a session and compared\nwith the outputs it brings, within the suite's own tolerances. "
        "%zu passed, %zu refused, %zu wrong.\n\n",
        count[PASSED], count[REFUSED], count[WRONG]);
    fprintf(f, "A model counts for every op it uses. docs/onnx.md tells how models are imported.\n\n");
    write_ops(f, r);
    fprintf(f, "\n## Models that are refused\n\n| model | why |\n|---|---|\n");
    for (size_t i = 0; i < n; i++) {
        const char *why = strstr(tests[i].reason, ".onnx: ");
        if (tests[i].outcome == REFUSED)
            fprintf(f, "| %s/%s | %s |\n", tests[i].kind, tests[i].name, why ? why + 7 : tests[i].reason);
    }
    return fclose(f) == 0;
}

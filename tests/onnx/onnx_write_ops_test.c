/* Every op of ops.inc, by its samples: written as ONNX, read again, and run beside the op itself.
 *
 *     onnx_write_ops_test [OP...]
 *     onnx_write_ops_test --write FOLDER     all of them as files, for tests/onnx/check.py
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipu/ipu.h"
#include "ipu/onnx.h"
#include "sample.h"

enum { MOST_ELEMENTS = 20000 };

static const ipu_type floating[] = {IPU_FLOAT, IPU_HALF, IPU_BFLOAT16, IPU_DOUBLE};
enum { N_FLOATING = sizeof floating / sizeof *floating };

/* Relative and absolute; half types are rounded more than once where an op becomes several. */
static double tolerance(ipu_type type)
{
    switch (type) {
    case IPU_HALF: return 4e-3;
    case IPU_BFLOAT16: return 3e-2;
    case IPU_DOUBLE: return 1e-6; /* ONNX's attributes are floats */
    case IPU_FLOAT: return 2e-5;
    default: return 0;
    }
}

typedef enum outcome { SAME, NOT_WRITTEN, NOT_READ, WRONG } outcome;

static struct count {
    size_t n[4];
    char   names[4][8000];
} total;

static void say(outcome what, const char *op)
{
    char *names = total.names[what];
    char  word[80];
    snprintf(word, sizeof word, " %s", op);
    size_t n = strlen(names), at = n > strlen(word) ? n - strlen(word) : 0;
    if (n > 0 && strcmp(names + at, word) == 0) return;
    total.n[what]++;
    if (n + strlen(word) + 1 < sizeof total.names[what]) strcat(names, word);
}

/* ---- one sample as a model ---- */

/* With its first outputs only, as most uses have it, or with all. */
static ipu_model *model_of(const sample *s, int n_out)
{
    ipu_model *m;
    ipu_value  in[IPU__MAX_OPERANDS] = {{0}}, out[IPU__MAX_OPERANDS] = {{0}};
    if (ipu_model_create(&m) != IPU_OK) abort();
    for (int i = 0; i < s->op->n_in; i++)
        if (s->present[i]) {
            char name[8];
            snprintf(name, sizeof name, "i%d", i);
            in[i] = ipu_model_input(m, s->call.operand[i].type, s->call.operand[i].shape, name);
        }
    ipu_emit(ipu_model_builder(m), s->op->kernel.name, s->call.attributes, s->call.n_attributes, in,
             (size_t)s->op->n_in, out, (size_t)n_out);
    for (int i = 0; i < n_out; i++) {
        char name[8];
        snprintf(name, sizeof name, "o%d", i);
        ipu_model_output(m, out[i], name);
    }
    return m;
}

static bool run_own(const sample *s, int n_out, ipu_model *m, const operands *o)
{
    ipu_target      target;
    ipu_executable *exe    = NULL;
    ipu_engine     *engine = NULL;
    bool            ok     = ipu_target_find("gc200", 1, &target) == IPU_OK
           && ipu_model_compile(m, &target, NULL, &exe) == IPU_OK
           && ipu_engine_create(exe, NULL, &engine) == IPU_OK;
    for (int i = 0; ok && i < s->op->n_in + n_out; i++) {
        if (i == s->op->n_in && ipu_engine_run(engine, 0) != IPU_OK) ok = false;
        if (!s->present[i] && i < s->op->n_in) continue;
        char name[8];
        snprintf(name, sizeof name, i < s->op->n_in ? "i%d" : "o%d", i < s->op->n_in ? i : i - s->op->n_in);
        size_t bytes = (size_t)sample_n_elements(s, i) * ipu_type_size(s->call.operand[i].type);
        if (bytes == 0) continue;
        ipu_status status = i < s->op->n_in ? ipu_engine_write(engine, name, o->pointer[i], bytes)
                                            : ipu_engine_read(engine, name, o->pointer[i], bytes);
        ok &= status == IPU_OK || (i < s->op->n_in && status == IPU_NOT_FOUND);
    }
    ipu_engine_destroy(engine);
    ipu_executable_release(exe);
    return ok;
}

/* ---- comparing ---- */

/* Of a result, by its own type and by that of what it was computed from. */
static double tolerance_of(const sample *s, ipu_type own)
{
    double most = tolerance(own);
    for (int i = 0; i < s->op->n_in; i++) {
        double other = s->present[i] ? tolerance(s->call.operand[i].type) : 0;
        if (other > most && ipu__op_is_floating(own)) most = other;
    }
    return most;
}

static bool is_near(double most, double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (a == b) return true;
    return fabs(a - b) <= most * (1 + fabs(a));
}

static bool compare(const sample *s, int n_out, const operands *o, const ipu_onnx_value *out, char why[200])
{
    for (int i = s->op->n_in; i < s->op->n_in + n_out; i++) {
        const ipu__kernel_value *own  = &s->call.operand[i];
        const ipu_array         *read = &out[i - s->op->n_in].array;
        if (read->type != own->type || !ipu__shape_equal(&read->shape, &own->shape)) {
            snprintf(why, 200, "output %d has another type or shape", i - s->op->n_in);
            return false;
        }
        double most = tolerance_of(s, own->type);
        /* numbers drawn are others; dropout is written for inference */
        bool is_drawn = strcmp(s->op->family, "random") == 0;
        if (is_drawn) continue;
        for (int64_t k = 0; k < sample_n_elements(s, i); k++) {
            double a = element_get(own->type, o->pointer[i], k), b = element_get(own->type, read->data, k);
            if (is_near(most, a, b)) continue;
            snprintf(why, 200, "output %d, element %lld: %.9g became %.9g", i - s->op->n_in, (long long)k, a,
                     b);
            return false;
        }
    }
    return true;
}

static outcome run_read(const sample *s, int n_out, const operands *o, const void *data, size_t bytes,
                        char why[200])
{
    ipu_onnx         *file                  = NULL;
    ipu_onnx_session *session               = NULL;
    ipu_onnx_value    in[IPU__MAX_OPERANDS] = {{0}}, out[IPU__MAX_OPERANDS] = {{0}};
    size_t            n_in = 0;
    for (int i = 0; i < s->op->n_in; i++)
        if (s->present[i])
            in[n_in++] = (ipu_onnx_value){.kind  = IPU_ONNX_ARRAY,
                                          .array = {s->call.operand[i].type, s->call.operand[i].shape,
                                                    o->pointer[i]}};
    ipu_status status = ipu_onnx_read(data, bytes, NULL, &file);
    if (status == IPU_OK) status = ipu_onnx_session_create(file, NULL, &session);
    if (status == IPU_OK) status = ipu_onnx_session_run(session, in, n_in, out, (size_t)n_out);
    outcome result = status == IPU_OK          ? compare(s, n_out, o, out, why) ? SAME : WRONG
                   : status == IPU_UNSUPPORTED ? NOT_READ
                                               : WRONG;
    if (status != IPU_OK) snprintf(why, 200, "%s", ipu_message());
    for (int i = 0; i < n_out; i++) ipu_onnx_value_free(&out[i]);
    ipu_onnx_session_destroy(session);
    ipu_onnx_close(file);
    return result;
}

static outcome check(const sample *s, int n_out, int64_t opset, char why[200])
{
    void      *data;
    size_t     bytes;
    operands   o      = operands_make(s, 7);
    ipu_model *m      = model_of(s, n_out);
    outcome    result = NOT_WRITTEN;
    ipu_status status = ipu_onnx_write_memory(m, &(ipu_onnx_write_options){.opset = opset}, &data, &bytes);
    if (status == IPU_OK && !run_own(s, n_out, m, &o)) {
        snprintf(why, 200, "the op itself: %s", ipu_message());
        result = WRONG;
    } else if (status == IPU_OK)
        result = run_read(s, n_out, &o, data, bytes, why);
    else
        snprintf(why, 200, "%s", ipu_message());
    if (status != IPU_OK && status != IPU_UNSUPPORTED) result = WRONG;
    if (status == IPU_OK) ipu_free(data);
    ipu_model_destroy(m);
    operands_free(&o);
    return result;
}

static bool is_large(const sample *s)
{
    for (int i = 0; i < s->call.n_operands; i++)
        if (sample_n_elements(s, i) > MOST_ELEMENTS) return true;
    return false;
}

/* What ONNX has no words for: steps of training, bits, extents that depend on data, inverses, sums at places. */
static bool has_no_words(const ipu__op_def *op)
{
    static const char *const names[] = {
        "cast_stochastic",       "inverse",   "non_max_suppression", "nonzero", "compress", "unique",
        "grid_sample_grid_grad", "host_call", "ctc_decode",          "solve",   "col2im"};
    const char *name = op->kernel.name, *end = strrchr(name, '_');
    bool        is = strcmp(op->family, "optimizer") == 0 || (end && strcmp(end, "_grad") == 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) is |= strcmp(name, names[i]) == 0;
    return is;
}

/* Whether it is right; *is_written if it was. */
static bool check_form(const sample *s, int n_out, ipu_type type, int64_t opset, bool *is_written)
{
    char    why[200] = "";
    outcome result   = check(s, n_out, opset, why);
    bool    is_wrong = result == WRONG || result == NOT_READ;
    if (opset != 13) say(result, s->op->kernel.name);
    *is_written |= result == SAME;
    if (is_wrong || (result != SAME && getenv("VERBOSE")))
        print_message("%s (%s) of %s: %s\n", s->op->kernel.name, s->text, ipu_type_name(type), why);
    return !is_wrong;
}

static void check_op(void **state)
{
    static sample      s;
    const ipu__op_def *op         = *state;
    bool               is_written = false, ok = true;
    int                n_out = ipu__op_n_out(op);
    for (size_t i = 0; op->samples[i]; i++)
        for (int t = 0; t < N_FLOATING + 1; t++) { /* the last: float again, in the oldest opset */
            char     error[SAMPLE_ERROR];
            ipu_type type  = floating[t % N_FLOATING];
            int64_t  opset = t < N_FLOATING ? 17 : 13;
            assert_true(sample_parse(&s, op, op->samples[i], error));
            if (type != IPU_FLOAT && !sample_retype(&s, IPU_FLOAT, type)) continue;
            if (sample_infer(&s) != IPU_OK || is_large(&s)) continue;
            ok &= check_form(&s, n_out, type, opset, &is_written);
            if (n_out > 1) ok &= check_form(&s, 1, type, opset, &is_written);
        }
    assert_true(ok);
    if (!is_written && !has_no_words(op)) fail_msg("%s was never written", op->kernel.name);
}

/* ---- files for others to read ---- */

static bool has_elements(const sample *s)
{
    for (int i = 0; i < s->call.n_operands; i++)
        if (sample_n_elements(s, i) == 0 && (i >= s->op->n_in || s->present[i])) return false;
    return true;
}

static int write_sample(const sample *s, int n_out, int64_t opset, const char *folder, size_t number,
                        ipu_type type)
{
    char       path[600];
    void      *data;
    size_t     bytes;
    ipu_model *m      = model_of(s, n_out);
    ipu_status status = ipu_onnx_write_memory(m, &(ipu_onnx_write_options){.opset = opset}, &data, &bytes);
    ipu_model_destroy(m);
    if (status == IPU_UNSUPPORTED) return 0;
    snprintf(path, sizeof path, "%s/%s-%zu-%s-%d-%lld.onnx", folder, s->op->kernel.name, number,
             ipu_type_name(type), n_out, (long long)opset);
    FILE *f  = status == IPU_OK ? fopen(path, "wb") : NULL;
    bool  ok = f && fwrite(data, 1, bytes, f) == bytes;
    if (f) ok &= fclose(f) == 0;
    if (!ok) fprintf(stderr, "%s: %s\n", path, ipu_message());
    if (status == IPU_OK) ipu_free(data);
    return !ok;
}

static int write_samples(const char *folder)
{
    static sample s;
    int           failed = 0;
    for (const ipu__op_def *const *op = ipu__ops; *op; op++)
        for (size_t i = 0; (*op)->samples[i]; i++)
            for (int t = 0; t < N_FLOATING; t++) {
                char error[SAMPLE_ERROR];
                if (!sample_parse(&s, *op, (*op)->samples[i], error)) return 1;
                if (t > 0 && !sample_retype(&s, IPU_FLOAT, floating[t])) continue;
                if (sample_infer(&s) != IPU_OK || is_large(&s) || !has_elements(&s)) continue;
                int n_out = ipu__op_n_out(*op);
                for (int opset = 13; opset <= 17; opset += 4) {
                    failed += write_sample(&s, n_out, opset, folder, i, floating[t]);
                    if (n_out > 1) failed += write_sample(&s, 1, opset, folder, i, floating[t]);
                }
            }
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0) return write_samples(argv[2]);
    struct CMUnitTest tests[512];
    size_t            n = 0;
    for (const ipu__op_def *const *op = ipu__ops; *op; op++) {
        bool is_asked = argc < 2;
        for (int i = 1; i < argc; i++) is_asked |= strcmp(argv[i], (*op)->kernel.name) == 0;
        if (is_asked) tests[n++] = (struct CMUnitTest){(*op)->kernel.name, check_op, NULL, NULL, (void *)*op};
    }
    int failed = _cmocka_run_group_tests("onnx_write_ops", tests, n, NULL, NULL);
    printf("# %zu ops written and read again with the same results\n", total.n[SAME]);
    printf("# %zu of them or others not in every form:%s\n", total.n[NOT_WRITTEN], total.names[NOT_WRITTEN]);
    return failed;
}

/* Every op of ops.inc, by its record and samples: what its member `batch` or `fold` says of replicas is so.
 *
 * Three replicas are computed one by one and as one, with any of the inputs the same for all, with rows along
 * each dimension, and with and without sums being wanted; nothing here knows any op. /
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/sanitized.h"
#include "eager.h"
#include "ipu/op/shape.h"
#include "op/replicas.h"
#include "sample.h"

enum { REPLICAS = 3, MOST_ELEMENTS = IPU__SANITIZED ? 1000 : 4000 };

/* How the inputs of a trial are. */
typedef struct trial {
    unsigned varying; /* by input */
    int      axis;    /* of rows, in inputs that have it; -1: another one in each */
    bool     sums;
} trial;

static bool is_large(const sample *s)
{
    for (int i = 0; i < s->call.n_operands; i++)
        if (sample_n_elements(s, i) > MOST_ELEMENTS) return true;
    return false;
}

static int axis_of(const trial *t, const sample *s, int i)
{
    int rank = s->call.operand[i].shape.rank;
    if (rank == 0) return 0;
    return t->axis < 0 ? i % rank : t->axis < rank ? t->axis : 0;
}

static bool varies(const trial *t, int i) { return t->varying >> i & 1; }

/* ---- one replica ---- */

/* Each replica has random numbers of its own, but those of replica 0 where an input is the same for all. */
static void make_inputs(const sample *s, const trial *t, operands o[REPLICAS])
{
    for (int r = 0; r < REPLICAS; r++) o[r] = operands_make(s, 7 + (uint64_t)r);
    for (int r = 1; r < REPLICAS; r++)
        for (int i = 0; i < s->op->n_in; i++)
            if (!varies(t, i)) memcpy(o[r].pointer[i], o[0].pointer[i], o[0].at[i].bytes);
}

static void emit_one(ipu_builder *b, const sample *s, const operands *o, ipu_value *out)
{
    ipu_value in[IPU__MAX_OPERANDS];
    for (int i = 0; i < s->op->n_in; i++)
        in[i] = s->present[i]
                  ? ipu_constant_data(b, s->call.operand[i].type, s->call.operand[i].shape, o->pointer[i])
                  : IPU_NO_VALUE;
    ipu_emit(b, s->op->kernel.name, s->call.attributes, s->call.n_attributes, in, (size_t)s->op->n_in, out,
             (size_t)ipu__op_n_out(s->op));
}

/* ---- all of them ---- */

static ipu__folded folded_input(ipu_builder *b, const sample *s, const trial *t, const operands *o, int i)
{
    const ipu__kernel_value *v = &s->call.operand[i];
    ipu_value                each[REPLICAS];
    if (!s->present[i]) return (ipu__folded){.value = IPU_NO_VALUE};
    for (int r = 0; r < REPLICAS; r++) each[r] = ipu_constant_data(b, v->type, v->shape, o[r].pointer[i]);
    if (!varies(t, i)) return (ipu__folded){.value = each[0]};
    if (v->shape.rank == 0) return (ipu__folded){ipu_stack(b, each, REPLICAS, 0), IPU__FOLDED_ROWS, 0};
    int axis = axis_of(t, s, i);
    return (ipu__folded){ipu_concat(b, each, REPLICAS, axis), IPU__FOLDED_ROWS, axis};
}

static double slack(const sample *s, int k)
{
    ipu_type type = s->call.operand[k].type;
    return type == IPU_HALF ? 0x1p-8 : type == IPU_BFLOAT16 ? 0x1p-6 : 2e-5;
}

static void expect(const sample *s, const trial *t, int k, int replica, int64_t i, double found,
                   double expected, double size)
{
    if (isnan(expected) ? isnan(found) : found == expected) return;
    if (fabs(found - expected) <= slack(s, k) * (size > 1 ? size : 1)) return;
    fail_msg("%s (%s): varying %x along %d%s: output %d of replica %d, element %lld is %g, expected %g",
             s->op->kernel.name, s->text, t->varying, t->axis, t->sums ? ", summed" : "", k - s->op->n_in,
             replica, (long long)i, found, expected);
}

static void check_rows(ipu_builder *b, const sample *s, const trial *t, int k, const ipu__folded *f,
                       ipu_value one[REPLICAS])
{
    const ipu__kernel_value *v = &s->call.operand[k];
    for (int r = 0; r < REPLICAS; r++) {
        ipu_value mine = f->value;
        if (f->kind == IPU__FOLDED_ROWS) {
            int64_t n = v->shape.rank ? v->shape.dim[f->axis] : 1;
            mine      = ipu_slice(b, f->value, r * n, (r + 1) * n, f->axis);
            if (v->shape.rank == 0) mine = ipu_reshape(b, mine, IPU_SCALAR);
        }
        if (ipu_builder_status(b) != IPU_OK) fail_msg("%s", ipu_builder_message(b));
        ipu_shape shape = ipu_value_shape(mine);
        if (ipu_value_type(mine) != v->type || !ipu__shape_equal(&shape, &v->shape))
            fail_msg("%s (%s): output %d is of another type or shape", s->op->kernel.name, s->text, k);
        for (int64_t i = 0; i < ipu__op_n_elements(&v->shape); i++) {
            double expected = element_get(v->type, eager_data(one[r]), i);
            expect(s, t, k, r, i, element_get(v->type, eager_data(mine), i), expected, fabs(expected));
        }
    }
}

static void check_sum(const sample *s, const trial *t, int k, const ipu__folded *f, ipu_value one[REPLICAS])
{
    const ipu__kernel_value *v     = &s->call.operand[k];
    ipu_shape                shape = ipu_value_shape(f->value);
    if (ipu_value_type(f->value) != ipu__replicas_sum_type(v->type) || !ipu__shape_equal(&shape, &v->shape))
        fail_msg("%s (%s): the sum of output %d is of another type or shape", s->op->kernel.name, s->text, k);
    for (int64_t i = 0; i < ipu__op_n_elements(&v->shape); i++) {
        double sum = 0, size = 0;
        for (int r = 0; r < REPLICAS; r++) {
            sum += element_get(v->type, eager_data(one[r]), i);
            size += fabs(element_get(v->type, eager_data(one[r]), i));
        }
        expect(s, t, k, -1, i, element_get(ipu_value_type(f->value), eager_data(f->value), i), sum, size);
    }
}

/* Whether the op was done for all replicas at once. */
static bool try(const sample *s, const trial *t)
{
    ipu_builder *b = eager_create(false);
    operands     o[REPLICAS];
    int          n_in = s->op->n_in, n_out                     = ipu__op_n_out(s->op);
    ipu__folded  in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS] = {{.value = IPU_NO_VALUE}};
    ipu_value    each[REPLICAS][IPU__MAX_OPERANDS], one[REPLICAS];
    bool         sums[IPU__MAX_OPERANDS], used[IPU__MAX_OPERANDS];
    assert_non_null(b);
    make_inputs(s, t, o);
    for (int r = 0; r < REPLICAS; r++) emit_one(b, s, &o[r], each[r]);
    for (int i = 0; i < n_in; i++) in[i] = folded_input(b, s, t, o, i);
    for (int i = 0; i < n_out; i++) {
        used[i] = true;
        sums[i] = t->sums && ipu__op_is_floating(s->call.operand[n_in + i].type);
    }
    if (ipu_builder_status(b) != IPU_OK) fail_msg("%s: %s", s->op->kernel.name, ipu_builder_message(b));
    ipu__replicas r    = {b, &s->call, REPLICAS, in, sums, used, out};
    bool          done = ipu__replicas_fold(&r);
    if (ipu_builder_status(b) != IPU_OK)
        fail_msg("%s (%s): varying %x along %d: %s", s->op->kernel.name, s->text, t->varying, t->axis,
                 ipu_builder_message(b));
    for (int i = 0; i < n_out && done; i++) {
        for (int k = 0; k < REPLICAS; k++) one[k] = each[k][i];
        if (out[i].kind == IPU__FOLDED_SUM)
            check_sum(s, t, n_in + i, &out[i], one);
        else
            check_rows(b, s, t, n_in + i, &out[i], one);
        if (out[i].kind == IPU__FOLDED_SUM && !sums[i]) fail_msg("%s: a sum that nobody asked for", s->text);
    }
    for (int k = 0; k < REPLICAS; k++) operands_free(&o[k]);
    eager_destroy(b);
    return done;
}

/* All inputs, each alone, and all but each; with rows along one dimension, or another one in each input. */
static int try_all(const sample *s)
{
    int      done    = 0;
    unsigned present = 0;
    for (int i = 0; i < s->op->n_in; i++) present |= (unsigned)s->present[i] << i;
    for (int k = -1; k < 2 * s->op->n_in; k++) {
        unsigned bit = 1u << (k < s->op->n_in ? k + (k < 0) : k - s->op->n_in), varying = present;
        if (k >= s->op->n_in) varying = present & ~bit;
        if (k >= 0 && k < s->op->n_in) varying = present & bit;
        for (int axis = -1; axis < 4 && varying; axis++)
            for (int sums = 0; sums < 2; sums++) done += try(s, &(trial){varying, axis, sums});
    }
    return done;
}

/* A chain is what fusing makes, which is after folding; its samples are for other tests. */
static bool says_it_can(const ipu__op_def *op)
{
    return op->batch || op->fold || (op->flags & IPU__OP_ELEMENTWISE);
}

static void folded_ops_give_what_replicas_give(void **state)
{
    const ipu__op_def *op = *state;
    static sample      s;
    int                done = 0;
    for (size_t i = 0; op->samples[i]; i++)
        for (int half = 0; half < 2; half++) {
            char error[SAMPLE_ERROR];
            if (!sample_parse(&s, op, op->samples[i], error)) fail_msg("%s", error);
            if (half && !sample_retype(&s, IPU_FLOAT, IPU_HALF)) continue;
            if (sample_infer(&s) != IPU_OK || is_large(&s)) continue;
            done += try_all(&s);
        }
    if (done == 0) fail_msg("%s: its record says that replicas can share it, but none did", op->kernel.name);
}

int main(void)
{
    size_t n_ops = 0, n = 0;
    while (ipu__ops[n_ops]) n_ops++;
    struct CMUnitTest *tests = calloc(n_ops + 1, sizeof *tests);
    if (!tests) return 1;
    for (size_t i = 0; i < n_ops; i++)
        if (says_it_can(ipu__ops[i]) && (ipu__ops[i]->kernel.ref || ipu__ops[i]->view))
            tests[n++] = (struct CMUnitTest){ipu__ops[i]->kernel.name, folded_ops_give_what_replicas_give,
                                             NULL, NULL, (void *)(uintptr_t)ipu__ops[i]};
    int failed = _cmocka_run_group_tests("folded ops", tests, n, NULL, NULL);
    free(tests);
    return failed;
}

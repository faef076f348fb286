/* Every op of ops.inc, by its record and samples: nothing here knows any op.
 *
 *     ops_test [test|grad|perf|support] [OP...]     without a mode: test and grad
 *
 * test: records, implementations, compositions, prices. grad: gradients. perf: a table of times. support: a
 * table of types and gradients.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sanitized.h"
#include "engine/cpu/impl.h"
#include "op_check.h"

static const ipu_type floating[] = {IPU_FLOAT, IPU_HALF, IPU_BFLOAT16, IPU_DOUBLE};
enum { N_FLOATING = sizeof floating / sizeof *floating };

/* Sample `i` with floats in `type`. False: the op does not take that. */
static bool take_sample(sample *s, const ipu__op_def *op, size_t i, ipu_type type)
{
    char error[SAMPLE_ERROR];
    if (!sample_parse(s, op, op->samples[i], error))
        fail_msg("%s: a sample is no sample: %s", op->kernel.name, error);
    if (type != IPU_FLOAT && !sample_retype(s, IPU_FLOAT, type)) return false;
    ipu_status status = sample_infer(s);
    if (status != IPU_OK && type == IPU_FLOAT)
        fail_msg("%s (%s): infer does not take it: %s", op->kernel.name, op->samples[i], ipu_message());
    return status == IPU_OK;
}

/* ---- test and grad ---- */

/* Sanitizers take what is large in one type: another one's kernels have the same bounds. */
static bool is_left_out(const sample *s, ipu_type type)
{
    int64_t n = 0;
    for (int i = 0; i < s->call.n_operands; i++) n += sample_n_elements(s, i);
    return IPU__SANITIZED && type != IPU_FLOAT && n > 30000;
}

static void check_op(void **state)
{
    static sample      s;
    const ipu__op_def *op  = *state;
    int                bad = check_record(op);
    if (bad) fail_msg("%d findings in the record", bad);
    for (size_t i = 0; op->samples[i]; i++)
        for (int t = 0; t < N_FLOATING; t++) {
            if (!take_sample(&s, op, i, floating[t]) || is_left_out(&s, floating[t])) continue;
            bad += check_implementations(&s) + check_composition(&s) + check_memory(&s);
        }
    bad += check_cost(op);
    if (bad) fail_msg("%d findings", bad);
}

static void check_op_gradient(void **state)
{
    static sample      s;
    const ipu__op_def *op  = *state;
    int                bad = 0;
    for (size_t i = 0; op->samples[i]; i++)
        if (take_sample(&s, op, i, IPU_FLOAT)) bad += check_gradient(&s) + check_second_gradient(&s);
    if (bad) fail_msg("%d findings", bad);
}

/* ---- perf ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of one run on one thread: the best of several, each of at least a millisecond. */
static double time_run(const sample *s, const ipu__cpu_impl *impl)
{
    operands o       = operands_make(s, 1);
    void    *state   = NULL;
    guarded  scratch = guarded_make(impl && impl->scratch_bytes ? impl->scratch_bytes(&s->call, 1) : 0);
    if (impl && impl->prepare && impl->prepare(&s->call, 1, &state) != IPU_OK) return 0;
    double best = 1e9;
    for (int round = 0, calls = 1; round < 5;) {
        double begin = now();
        for (int i = 0; i < calls; i++)
            if (impl)
                impl->run(&s->call, state, o.pointer, guarded_data(&scratch), 0, 1);
            else
                s->op->kernel.ref(&s->call, o.pointer);
        double seconds = now() - begin;
        if (seconds < 1e-3 && calls < 1 << 20) {
            calls *= 2;
            continue;
        }
        if (seconds / calls < best) best = seconds / calls;
        round++;
    }
    if (impl && impl->release) impl->release(state);
    guarded_free(&scratch);
    operands_free(&o);
    return best;
}

static void print_perf(const sample *s, const char *name, double seconds)
{
    double bytes = 0;
    for (int i = 0; i < s->call.n_operands; i++)
        bytes += (double)sample_n_elements(s, i) * (double)ipu_type_size(s->call.operand[i].type);
    printf("%-20s %-48.48s %-12s %12.0f %8.2f %8.2f\n", s->op->kernel.name, s->text, name, seconds * 1e9,
           bytes / seconds * 1e-9, s->op->kernel.work(&s->call) / seconds * 1e-9);
    fflush(stdout);
}

static void perf_op(const ipu__op_def *op)
{
    static sample s;
    for (size_t i = 0; op->samples[i] && op->kernel.ref; i++) {
        if (!take_sample(&s, op, i, IPU_FLOAT)) continue;
        print_perf(&s, "ref", time_run(&s, NULL));
        ipu__cpu_impls all = ipu__cpu_impls_of(&op->kernel);
        for (int k = 0; k < all.n; k++)
            if (all.at[k].head.fits(&s.call, ipu__cpu_machine_here(), 1))
                print_perf(&s, all.at[k].head.name, time_run(&s, &all.at[k]));
    }
}

/* ---- support ---- */

static const char *kind_of(const ipu__op_def *op)
{
    return op->view ? "view" : !op->kernel.ref ? "composition" : op->compose ? "kernel+" : "kernel";
}

static void support_op(const ipu__op_def *op)
{
    static const char *const words[] = {"-", "zero", "first", "second"};
    static sample            s;
    bool                     takes[IPU_N_TYPES] = {false};
    gradient_support         gradient           = GRADIENT_NONE;
    char                     error[SAMPLE_ERROR];
    for (size_t i = 0; op->samples[i]; i++)
        for (int type = 0; type < IPU_N_TYPES; type++) {
            if (!sample_parse(&s, op, op->samples[i], error)) continue;
            if (type != IPU_FLOAT && !sample_retype(&s, IPU_FLOAT, (ipu_type)type)) continue;
            if (sample_infer(&s) != IPU_OK) continue;
            takes[op->n_in > 0 ? s.call.operand[0].type : s.call.operand[op->n_in].type] = true;
            if (type != IPU_FLOAT) continue;
            gradient_support found = find_gradient_support(&s);
            if (found > gradient) gradient = found;
        }
    printf("%-24s %-12s %-12s", op->kernel.name, op->family, kind_of(op));
    for (int type = 0; type < IPU_N_TYPES; type++)
        printf(" %-8s", takes[type] ? ipu_type_name((ipu_type)type) : ".");
    printf(" %s\n", words[gradient]);
}

/* ---- choosing ---- */

static bool is_asked_for(const char *name, char *const *names, int n)
{
    bool found = n == 0;
    for (int i = 0; i < n; i++) found |= strcmp(names[i], name) == 0;
    return found;
}

static int run_chosen(bool test, bool grad, char *const *names, int n_names)
{
    size_t n_ops = 0, n = 0;
    while (ipu__ops[n_ops]) n_ops++;
    struct CMUnitTest *tests = calloc(2 * n_ops + 1, sizeof *tests);
    char(*texts)[64]         = calloc(n_ops + 1, sizeof *texts);
    if (!tests || !texts) return 1;
    for (size_t i = 0; i < n_ops; i++) {
        void       *op   = (void *)(uintptr_t)ipu__ops[i];
        const char *name = ipu__ops[i]->kernel.name;
        if (!is_asked_for(name, names, n_names)) continue;
        snprintf(texts[i], sizeof texts[i], "%s: gradient", name);
        if (test) tests[n++] = (struct CMUnitTest){name, check_op, NULL, NULL, op};
        if (grad) tests[n++] = (struct CMUnitTest){texts[i], check_op_gradient, NULL, NULL, op};
    }
    int failed = _cmocka_run_group_tests("ops", tests, n, NULL, NULL);
    free(tests);
    free(texts);
    return failed;
}

static void for_each(void (*fn)(const ipu__op_def *op), char *const *names, int n_names)
{
    for (size_t i = 0; ipu__ops[i]; i++)
        if (is_asked_for(ipu__ops[i]->kernel.name, names, n_names)) fn(ipu__ops[i]);
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"test", "grad", "perf", "support"};
    int                      mode    = -1;
    omp_set_num_threads(1); /* as the engine's threads do */
    for (int i = 0; i < 4 && argc > 1; i++)
        if (strcmp(argv[1], modes[i]) == 0) mode = i;
    char *const *names = argv + (mode >= 0 ? 2 : 1);
    int          n     = argc - (mode >= 0 ? 2 : 1);
    if (mode == 2) {
        printf("%-20s %-48s %-12s %12s %8s %8s\n", "op", "sample", "by", "ns", "GB/s", "GFLOP/s");
        for_each(perf_op, names, n);
    } else if (mode == 3) {
        for_each(support_op, names, n);
    } else {
        return run_chosen(mode != 1, mode != 0, names, n);
    }
    return 0;
}

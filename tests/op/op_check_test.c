/* The generic test of ops finds what is wrong: an op with one fault after another.
 *
 * What the checks print while they find it goes to the log.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/cpu/impl.h"
#include "op_check.h"

/* ---- an op without fault: out = 2 x ---- */

typedef enum fault {
    NONE,
    WRONG_VALUE,
    WRONG_LAST,    /* only the last element */
    WRITES_BEFORE, /* its output */
    WRITES_AFTER,
    WRITES_INPUT,
    WRITES_SCRATCH,
    NOT_ALL, /* leaves an element as it was */
    BY_ORDER /* parts depend on one another */
} fault;

static fault current;
static int   n_runs;

static ipu_status twice_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, 0));
    out[0] = call->operand[0];
    return IPU_OK;
}

static void twice_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_type type = call->operand[0].type;
    for (int64_t i = 0; i < ipu__op_n_elements(&call->operand[0].shape); i++)
        element_set(type, operand[1], i, 2 * element_get(type, operand[0], i));
}

static ipu_status twice_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                            int part, int n_parts)
{
    (void)state;
    ipu_type     type = call->operand[0].type;
    int64_t      n    = ipu__op_n_elements(&call->operand[0].shape);
    ipu_interval mine = ipu__op_part(n, 1, part, n_parts);
    for (int64_t i = mine.begin; i < mine.end; i++) {
        if (current == NOT_ALL && i == n - 1) continue;
        double x = 2 * element_get(type, operand[0], i);
        if (current == WRONG_VALUE || (current == WRONG_LAST && i == n - 1)) x *= 1.5;
        if (current == BY_ORDER && n_runs > 0) x += 0x1p-7;
        element_set(type, operand[1], i, x);
    }
    if (current == WRITES_BEFORE) element_set(type, operand[1], -1, 1);
    if (current == WRITES_AFTER) element_set(type, operand[1], n, 1);
    if (current == WRITES_INPUT) element_set(type, operand[0], 0, 1);
    if (current == WRITES_SCRATCH) ((char *)scratch)[16] = 1;
    n_runs++;
    return IPU_OK;
}

static size_t twice_scratch(const ipu__kernel_call *call, int n_parts)
{
    (void)call, (void)n_parts;
    return 16;
}

static double twice_work(const ipu__kernel_call *call)
{
    return (double)ipu__op_n_elements(&call->operand[0].shape);
}

static ipu_status twice_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__op_loop loop = {26, 1, 7};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[0].shape), 2, target, out));
    out->basis = "an estimate of ours, for this test";
    return IPU_OK;
}

static ipu_status flat_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    IPU_TRY(twice_plan(call, target, out));
    out->cycles = 100;
    return IPU_OK;
}

static ipu_status free_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    IPU_TRY(twice_plan(call, target, out));
    out->cycles = 0;
    return IPU_OK;
}

static const ipu__kernel_operand operand_table[]   = {IPU__INPUT("x"), IPU__OUTPUT("out")};
static const ipu__cpu_impl       implementations[] = {
          {.head = {"fast", ipu__op_fits_always}, .scratch_bytes = twice_scratch, .run = twice_run}};
static const ipu__kernel_impls lists[]   = {IPU__CPU_IMPLS(implementations), {.engine = NULL}};
static const char *const       samples[] = {"float[5,7]", NULL};

static ipu__op_def make_twice(void)
{
    return (ipu__op_def){
        .kernel  = {.name            = "twice",
                    .operands        = operand_table,
                    .n_operands      = 2,
                    .check           = ipu__op_check,
                    .ref             = twice_ref,
                    .work            = twice_work,
                    .plan            = twice_plan,
                    .implementations = lists},
        .n_in    = 1,
        .family  = "test",
        .summary = "2 x",
        .infer   = twice_infer,
        .samples = samples,
    };
}

/* ---- tests ---- */

static int findings_with(fault f, ipu_type type)
{
    static sample s;
    ipu__op_def   op = make_twice();
    char          error[SAMPLE_ERROR];
    assert_true(sample_parse(&s, &op, samples[0], error));
    sample_retype(&s, IPU_FLOAT, type);
    assert_int_equal(sample_infer(&s), IPU_OK);
    current = f;
    n_runs  = 0;
    int bad = check_implementations(&s);
    current = NONE;
    return bad;
}

static void every_fault_of_an_implementation_is_found(void **unused)
{
    (void)unused;
    static const ipu_type types[] = {IPU_FLOAT, IPU_HALF, IPU_BFLOAT16, IPU_DOUBLE};
    for (int t = 0; t < 4; t++) {
        assert_int_equal(findings_with(NONE, types[t]), 0);
        for (int f = WRONG_VALUE; f <= BY_ORDER; f++)
            if (findings_with((fault)f, types[t]) == 0)
                fail_msg("fault %d in %s", f, ipu_type_name(types[t]));
    }
}

static void prices_that_do_not_grow_are_found(void **unused)
{
    (void)unused;
    ipu__op_def op = make_twice();
    assert_int_equal(check_cost(&op), 0);
    op.kernel.plan = flat_plan;
    assert_true(check_cost(&op) > 0);
    op.kernel.plan = free_plan;
    assert_true(check_cost(&op) > 0);
}

static void incomplete_records_are_found(void **unused)
{
    (void)unused;
    ipu__op_def good = make_twice(), op = good;
    assert_int_equal(check_record(&good), 0);
#define WITHOUT(member) \
    op        = good;   \
    op.member = 0;      \
    if (check_record(&op) == 0) fail_msg("%s may be missing", #member)
    WITHOUT(family);
    WITHOUT(summary);
    WITHOUT(infer);
    WITHOUT(samples);
    WITHOUT(kernel.ref);
    WITHOUT(kernel.work);
    WITHOUT(kernel.plan);
    WITHOUT(kernel.check);
#undef WITHOUT
    op                           = good;
    ipu_op_attribute attribute[] = {{.name = "a", .meaning = "one"}, {.name = "a", .meaning = "again"}};
    op.attributes                = attribute;
    op.n_attributes              = 2;
    assert_true(check_record(&op) > 0);
    attribute[1].name    = "b";
    attribute[1].meaning = "";
    assert_true(check_record(&op) > 0);
}

static void samples_are_read_as_they_are_written(void **unused)
{
    (void)unused;
    static sample      s;
    char               error[SAMPLE_ERROR];
    const ipu__op_def *op = ipu__op_find("matmul");
    assert_true(sample_parse(&s, op, "float[3,4]{0.1,4}, half[4]; transpose_a=1 transpose_b=0", error));
    assert_int_equal(s.call.operand[0].shape.rank, 2);
    assert_int_equal(s.call.operand[1].type, IPU_HALF);
    assert_true(s.low[0] == 0.1 && s.high[0] == 4 && s.low[1] == -2);
    assert_int_equal(s.call.n_attributes, 2);
    assert_int_equal(s.attributes[0].i, 1);
    static const char *const wrong[] = {"float[3,4]", "float[3,4], float[4,", "float[3], real[3]",
                                        "float[3], float[3]; a"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (sample_parse(&s, op, wrong[i], error)) fail_msg("\"%s\" was taken", wrong[i]);
    ipu__op_def twice = make_twice();
    assert_false(sample_parse(&s, &twice, "float[3], float[3]", error)); /* one too many */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_of_an_implementation_is_found),
        cmocka_unit_test(prices_that_do_not_grow_are_found),
        cmocka_unit_test(incomplete_records_are_found),
        cmocka_unit_test(samples_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

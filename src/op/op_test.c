/* Helpers of ops: attributes and their checks, axes, broadcasting, parts, prices of loops.
 *
 * The ops themselves are tested from their records by tests/op/ops_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "op/op.h"

/* ---- an op to ask with: three inputs, the last of them optional ---- */

static const ipu__kernel_operand operands[] = {IPU__INPUT("a"), IPU__INPUT("b"), IPU__OPTIONAL("c"),
                                               IPU__OUTPUT("out")};

static const ipu_op_attribute attributes[] = {
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .otherwise = -1, .meaning = "a dimension"},
    {.name = "scale", .kind = IPU_ATTRIBUTE_FLOAT, .required = true, .meaning = "a factor"},
    {.name = "mode", .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = "plain", .meaning = "a word"},
    {.name = "axes", .kind = IPU_ATTRIBUTE_INTS, .meaning = "dimensions"},
};

static ipu_status infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_same_type(call, 0, 1));
    out[0].type = call->operand[0].type;
    return ipu__op_broadcast(call, 3, &out[0].shape);
}

static void no_ref(const ipu__kernel_call *call, void *const *operand) { (void)call, (void)operand; }

static const ipu__op_def probe = {
    .kernel       = {.name       = "probe",
                     .operands   = operands,
                     .n_operands = 4,
                     .check      = ipu__op_check,
                     .rows       = ipu__op_rows,
                     .ref        = no_ref},
    .n_in         = 3,
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = infer,
};

#define SCALE IPU_FLOAT_ATTRIBUTE("scale", 2)
#define CALL(given, n)                                                                                  \
    {                                                                                                   \
        .def = &probe.kernel, .attributes = (given), .n_attributes = (n), .n_operands = 4, .operand = { \
            {IPU_FLOAT, IPU_SHAPE(4, 1, 3)},                                                            \
            {IPU_FLOAT, IPU_SHAPE(5, 1)},                                                               \
            {IPU_FLOAT, IPU_SHAPE(0)},                                                                  \
            {IPU_FLOAT, IPU_SHAPE(4, 5, 3)},                                                            \
        }                                                                                               \
    }

#define assert_says(status, text)                                                                  \
    do {                                                                                           \
        assert_int_equal(status, IPU_INVALID);                                                     \
        if (!strstr(ipu_message(), text)) fail_msg("expected \"%s\" in: %s", text, ipu_message()); \
    } while (0)

/* ---- tests ---- */

static void attributes_have_defaults(void **unused)
{
    (void)unused;
    const ipu_attribute    given[] = {IPU_INT_ATTRIBUTE("scale", 3)};
    const ipu__kernel_call call    = CALL(given, 1);
    size_t                 n       = 7;
    assert_int_equal(ipu__op_check(&call), IPU_OK);
    assert_int_equal(ipu__op_int(&call, "axis"), -1);
    assert_true(ipu__op_float(&call, "scale") == 3); /* an int where a float is wanted */
    assert_string_equal(ipu__op_text(&call, "mode"), "plain");
    assert_null(ipu__op_ints(&call, "axes", &n));
    assert_int_equal(n, 0);
}

static void wrong_attributes_are_named(void **unused)
{
    (void)unused;
    const ipu_attribute unknown[] = {SCALE, IPU_INT_ATTRIBUTE("axle", 1)};
    const ipu_attribute kind[]    = {SCALE, IPU_FLOAT_ATTRIBUTE("axis", 1)};
    const ipu_attribute twice[]   = {SCALE, IPU_INT_ATTRIBUTE("axis", 1), IPU_INT_ATTRIBUTE("axis", 1)};
    const ipu_attribute text[]    = {SCALE, IPU_TEXT_ATTRIBUTE("mode", NULL)};
    ipu__kernel_call    call      = CALL(unknown, 2);
    assert_says(ipu__op_check(&call), "probe: unknown attribute \"axle\": it takes \"axis\", \"scale\"");
    call = (ipu__kernel_call)CALL(kind, 2);
    assert_says(ipu__op_check(&call), "attribute \"axis\" must be an int, found a float");
    call = (ipu__kernel_call)CALL(twice, 3);
    assert_says(ipu__op_check(&call), "attribute \"axis\" is given twice");
    call = (ipu__kernel_call)CALL(text, 2);
    assert_says(ipu__op_check(&call), "attribute \"mode\" has no text");
    call = (ipu__kernel_call)CALL(NULL, 0);
    assert_says(ipu__op_check(&call), "attribute \"scale\" is missing: a factor");
}

static void operands_are_checked_against_infer(void **unused)
{
    (void)unused;
    const ipu_attribute given[] = {SCALE};
    ipu__kernel_call    call    = CALL(given, 1);
    call.n_operands             = 2;
    assert_says(ipu__op_check(&call), "expected 4 operands (a, b, c, out), found 2");
    call                       = (ipu__kernel_call)CALL(given, 1);
    call.operand[3].shape.rank = 2;
    assert_says(ipu__op_check(&call), "output \"out\" must be float[4,5,3], found float[4,5]");
    call                 = (ipu__kernel_call)CALL(given, 1);
    call.operand[1].type = IPU_HALF;
    assert_says(ipu__op_check(&call), "found float[4,1,3] and half[5,1]: cast one");
}

static void shapes_broadcast_as_in_numpy(void **unused)
{
    (void)unused;
    const ipu_attribute given[] = {SCALE};
    ipu__kernel_call    call    = CALL(given, 1);
    ipu_shape           out;
    assert_int_equal(ipu__op_broadcast(&call, 3, &out), IPU_OK); /* c is absent: it takes no part */
    assert_true(ipu__shape_equal(&out, &IPU_SHAPE(4, 5, 3)));
    call.operand[1].shape = IPU_SCALAR;
    assert_int_equal(ipu__op_broadcast(&call, 2, &out), IPU_OK);
    assert_true(ipu__shape_equal(&out, &IPU_SHAPE(4, 1, 3)));
    call.operand[1].shape = IPU_SHAPE(0, 3);
    assert_int_equal(ipu__op_broadcast(&call, 2, &out), IPU_OK);
    assert_true(ipu__shape_equal(&out, &IPU_SHAPE(4, 0, 3)));
    call.operand[1].shape = IPU_SHAPE(2);
    assert_says(ipu__op_broadcast(&call, 2, &out), "\"b\" float[2] does not broadcast with [4,1,3]");
}

static void axes_count_from_either_end(void **unused)
{
    (void)unused;
    const int64_t    two[] = {0, -1}, far[] = {3}, same[] = {2, -1};
    ipu_attribute    given[] = {SCALE, IPU_INT_ATTRIBUTE("axis", -3), IPU__INTS("axes", two, 2)};
    ipu__kernel_call call    = CALL(given, 3);
    bool             mask[IPU_MAX_RANK];
    int              axis = -1;
    assert_int_equal(ipu__op_axis(&call, "axis", 3, &axis), IPU_OK);
    assert_int_equal(axis, 0);
    assert_says(ipu__op_axis(&call, "axis", 2, &axis),
                "axis = -3 is out of range for rank 2: expected -2 to 1");
    assert_int_equal(ipu__op_axes(&call, "axes", 3, mask), IPU_OK);
    assert_true(mask[0] && !mask[1] && mask[2] && !mask[3]);
    given[2] = IPU__INTS("axes", far, 1);
    assert_says(ipu__op_axes(&call, "axes", 3, mask), "axes = 3 is out of range");
    given[2] = IPU__INTS("axes", same, 2);
    assert_says(ipu__op_axes(&call, "axes", 3, mask), "axes names dimension 2 twice");
    call.n_attributes = 1;
    assert_int_equal(ipu__op_axes(&call, "axes", 3, mask), IPU_OK);
    assert_true(mask[0] && mask[1] && mask[2] && !mask[3]);
}

static void ranks_and_types_are_asked_for_by_name(void **unused)
{
    (void)unused;
    const ipu_attribute given[] = {SCALE};
    ipu__kernel_call    call    = CALL(given, 1);
    assert_int_equal(ipu__op_want_rank(&call, 0, 3, 3), IPU_OK);
    assert_says(ipu__op_want_rank(&call, 0, 2, 2), "probe: \"a\" must have rank 2, found float[4,1,3]");
    assert_says(ipu__op_want_rank(&call, 1, 3, 5), "\"b\" must have rank 3 to 5, found float[5,1]");
    assert_says(ipu__op_want_integer(&call, 0), "\"a\" must be int32, int64 or uint32, found float[4,1,3]");
    assert_says(ipu__op_want_type(&call, 0, IPU_BOOL), "\"a\" must be bool");
    assert_says(ipu__op_want_shape(&call, 1, &IPU_SHAPE(5)), "\"b\" must have shape [5], found float[5,1]");
    call.operand[0].type = IPU_INT32;
    assert_says(ipu__op_want_floating(&call, 0),
                "must be half, bfloat16, float or double, found int32[4,1,3]");
}

static void parts_cover_everything_once(void **unused)
{
    (void)unused;
    static const int64_t sizes[] = {0, 1, 15, 16, 17, 1000, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int n_parts = 1; n_parts < 9; n_parts++) {
            int64_t end = 0;
            for (int part = 0; part < n_parts; part++) {
                ipu_interval range = ipu__op_part(sizes[i], 16, part, n_parts);
                assert_int_equal(range.begin, end);
                assert_true(range.end >= range.begin);
                assert_true(range.end % 16 == 0 || range.end == sizes[i]);
                end = range.end;
            }
            assert_int_equal(end, sizes[i]);
        }
}

static ipu_target find_target(int64_t tiles)
{
    ipu_target target;
    assert_int_equal(ipu_target_find("gc200", 0, &target), IPU_OK);
    assert_int_equal(ipu_target_limit_tiles(&target, tiles), IPU_OK);
    return target;
}

static void a_loop_is_dealt_evenly_to_tiles(void **unused)
{
    (void)unused;
    ipu_target       target = find_target(1472), one = find_target(1);
    ipu__op_loop     loop = {29, 2, 3}; /* a binary operation of PopLibs on floats */
    ipu__kernel_plan plan;
    assert_int_equal(ipu__op_plan_loop(&loop, 1472 * 100, 2, &target, &plan), IPU_OK);
    assert_int_equal(plan.n_tiles, 1472);
    assert_int_equal(plan.cycles, 11 + 6 * (29 + 9 * 3)); /* 100 on a tile, 17 for a worker: 9 pairs */
    assert_int_equal(ipu__op_plan_loop(&loop, 5, 2, &target, &plan), IPU_OK);
    assert_int_equal(plan.n_tiles, 3);
    assert_int_equal(ipu__op_plan_loop(&loop, 1200, 2, &one, &plan), IPU_OK);
    assert_int_equal(plan.cycles, 1985);
    assert_int_equal(ipu__op_plan_loop(&loop, 0, 2, &one, &plan), IPU_OK);
    assert_int_equal(plan.cycles, 0);
}

static void counts_end_where_int64_does(void **unused)
{
    (void)unused;
    assert_true(ipu__op_count(12.7) == 12);
    assert_true(ipu__op_count(1e30) == INT64_MAX);
}

static void all_names_differ(void **unused)
{
    (void)unused;
    for (size_t i = 0; ipu__ops[i]; i++) {
        assert_ptr_equal(ipu__op_find(ipu__ops[i]->kernel.name), ipu__ops[i]);
        assert_ptr_equal(ipu__kernels[i], &ipu__ops[i]->kernel);
    }
    assert_null(ipu__op_find("no such op"));
}

static void kernels_say_what_their_rows_are(void **unused)
{
    (void)unused;
    for (size_t i = 0; ipu__ops[i]; i++) {
        const ipu__kernel_def *kernel = &ipu__ops[i]->kernel;
        if (kernel->ref && !kernel->rows) fail_msg("%s has no `rows`", kernel->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_have_defaults),
        cmocka_unit_test(wrong_attributes_are_named),
        cmocka_unit_test(operands_are_checked_against_infer),
        cmocka_unit_test(shapes_broadcast_as_in_numpy),
        cmocka_unit_test(axes_count_from_either_end),
        cmocka_unit_test(ranks_and_types_are_asked_for_by_name),
        cmocka_unit_test(parts_cover_everything_once),
        cmocka_unit_test(a_loop_is_dealt_evenly_to_tiles),
        cmocka_unit_test(counts_end_where_int64_does),
        cmocka_unit_test(all_names_differ),
        cmocka_unit_test(kernels_say_what_their_rows_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

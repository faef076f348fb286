/* Which epilogues are recognised as a scale and shift per channel, and their values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op/conv/conv.h"
#include "op/elementwise/epilogue_affine.h"

enum { E0 = IPU__CONV_BIAS + 1 };

/* conv of [2, 16, 5, 5] to 32 channels, 1 x 1, whose e0.. have these shapes. */
static ipu__kernel_call make_call(const ipu_attribute *epilogue, const ipu_shape *shapes, int n)
{
    const ipu__op_def *op   = ipu__op_find("conv");
    ipu__kernel_call   call = {
          .def = &op->kernel, .attributes = epilogue, .n_attributes = 1, .n_operands = op->kernel.n_operands};
    for (int i = 0; i < call.n_operands; i++) call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    call.operand[IPU__CONV_X].shape   = IPU_SHAPE(2, 16, 5, 5);
    call.operand[IPU__CONV_W].shape   = IPU_SHAPE(32, 16, 1, 1);
    call.operand[IPU__CONV_OUT].shape = IPU_SHAPE(2, 32, 5, 5);
    for (int i = 0; i < n; i++) call.operand[E0 + i].shape = shapes[i];
    return call;
}

static bool find(const char *text, const ipu_shape *shapes, int n, ipu__affine *out)
{
    const ipu_attribute    epilogue = IPU_TEXT_ATTRIBUTE("epilogue", text);
    const ipu__kernel_call call     = make_call(&epilogue, shapes, n);
    return ipu__affine_of(&call, out);
}

#define FOUND(text, out, ...)                    \
    find(text, (const ipu_shape[]){__VA_ARGS__}, \
         (int)(sizeof(ipu_shape[]){__VA_ARGS__} / sizeof(ipu_shape)), out)
#define BY_CHANNEL IPU_SHAPE(32, 1, 1)
#define WHOLE IPU_SHAPE(2, 32, 5, 5)

static void norms_and_residuals_are_found(void **unused)
{
    (void)unused;
    ipu__affine a;
    assert_true(FOUND("sub a0 a1; mul t0 a2; add t1 a3; add t2 a4; relu t3; out t4", &a, BY_CHANNEL,
                      IPU_SHAPE(1, 32, 1, 1), IPU_SHAPE(1), WHOLE));
    assert_int_equal(a.n_steps, 3);
    assert_int_equal(a.step[0].kind, IPU__AFFINE_SUB);
    assert_int_equal(a.step[1].operand, E0 + 1);
    assert_true(a.step[2].single);
    assert_int_equal(a.add, E0 + 3);
    assert_true(a.relu);
    assert_true(FOUND("add a1 a0; out t0", &a, WHOLE));
    assert_int_equal(a.add, E0);
    assert_false(a.relu);
    assert_true(FOUND("", &a, IPU_SHAPE(0)));
    assert_int_equal(a.n_steps + a.add + a.relu, 0);
}

static void others_are_not(void **unused)
{
    (void)unused;
    ipu__affine a;
    assert_false(FOUND("tanh a0; out t0", &a, IPU_SHAPE(0)));
    assert_false(FOUND("sub a1 a0; out t0", &a, BY_CHANNEL));
    assert_false(FOUND("relu a0; mul t0 a1; out t1", &a, BY_CHANNEL));
    assert_false(FOUND("add a0 a1; mul t0 a2; out t1", &a, WHOLE, BY_CHANNEL));
    assert_false(FOUND("mul a0 a1; out t0", &a, WHOLE));
    assert_false(FOUND("mul a0 a1; out t0", &a, IPU_SHAPE(5)));          /* along the last dimension */
    assert_false(FOUND("mul a0 a1; out t0", &a, IPU_SHAPE(2, 1, 1, 1))); /* along the first */
    assert_false(FOUND("mul a0 a0; out t0", &a, IPU_SHAPE(0)));
    assert_false(FOUND("mul a0 a1; add a0 a1; out t1", &a, BY_CHANNEL)); /* t0 is not used */
    assert_false(FOUND("relu a0; relu t0; out t0", &a, IPU_SHAPE(0)));
}

static void numbers_are_put_together(void **unused)
{
    (void)unused;
    ipu__affine a;
    float       less[32], factor[32], more = 0.5F, bias[32], scale[4], shift[4];
    void       *operand[IPU__MAX_OPERANDS] = {[E0] = less, [E0 + 1] = factor, [E0 + 2] = &more};
    for (int i = 0; i < 32; i++) {
        less[i]   = (float)i;
        factor[i] = (float)(2 * i);
        bias[i]   = 3;
    }
    assert_true(FOUND("sub a0 a1; mul a2 t0; add t1 a3; out t2", &a, BY_CHANNEL, BY_CHANNEL, IPU_SHAPE(1)));
    assert_true(ipu__affine_get(&a, operand, bias, 8, 4, scale, shift));
    for (int i = 0; i < 4; i++) { /* (y + 3 - c) * 2 c + 0.5 */
        float c = (float)(8 + i);
        assert_true(scale[i] == 2 * c);
        assert_true(shift[i] == (3 - c) * 2 * c + 0.5F);
    }
    assert_true(FOUND("sub a0 a1; out t0", &a, BY_CHANNEL));
    assert_false(ipu__affine_get(&a, operand, NULL, 0, 4, scale, shift));
    assert_true(scale[3] == 1 && shift[3] == -3);
}

static void values_of_other_shapes_stay_plain(void **unused)
{
    (void)unused;
    const ipu_attribute epilogue = IPU_TEXT_ATTRIBUTE("epilogue", "mul a0 a1; add t0 a2; out t1");
    const ipu_shape     shapes[] = {BY_CHANNEL, WHOLE};
    ipu__kernel_call    call     = make_call(&epilogue, shapes, 2);
    const unsigned plain = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN), blocked = IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED);
    ipu__kernel_layouts channel = ipu__affine_layouts(&call, E0, blocked);
    ipu__kernel_layouts whole   = ipu__affine_layouts(&call, E0 + 1, blocked);
    assert_int_equal(channel.takes, plain);
    assert_false(channel.tied);
    assert_int_equal(whole.takes, plain | blocked);
    assert_true(whole.tied);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_and_residuals_are_found),
        cmocka_unit_test(others_are_not),
        cmocka_unit_test(numbers_are_put_together),
        cmocka_unit_test(values_of_other_shapes_stay_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

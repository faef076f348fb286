/* Fusion of convolutions with the pools that read them, on models as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/expect_test.h"

static void test_convolution_relu_and_pool_become_one_op(void **state)
{
    (void)state;
    expect(IPU_PASS_HOST | IPU_PASS_FUSE,
           "  input x float[16,1,10,10];\n"
           "  input w float[5,1,3,3];\n"
           "  input b float[5];\n"
           "  c = conv(x, w, b) padding=[1,1];\n"
           "  y = relu(c);\n"
           "  p, at = max_pool(y) kernel=[2,2] strides=[2,2];\n"
           "  output p2 = p;\n",
           "  input x float[16,1,10,10];\n"
           "  input w float[5,1,3,3];\n"
           "  input b float[5];\n"
           "  p, at = conv_max_pool(x, w, b) padding=[1,1] window=[2,2] relu=1 indices=0;\n"
           "  output p2 = p;\n");
}

/* The gradients of a network's first layer: nothing of the convolution's full size is left. */
static void test_gradients_of_weights_take_what_was_pooled(void **state)
{
    (void)state;
    expect(IPU_PASS_HOST | IPU_PASS_FUSE,
           "  input x float[16,1,10,10];\n"
           "  input w float[5,1,3,3];\n"
           "  input b float[5];\n"
           "  input d float[16,5,4,4];\n"
           "  constant zero float = {0};\n"
           "  c = conv(x, w, b);\n"
           "  y = relu(c);\n"
           "  p, at = max_pool(y) kernel=[2,2];\n"
           "  s = pool_scatter(d, at) size=[8,8];\n"
           "  m = greater(y, zero);\n"
           "  g = where(m, s, zero);\n"
           "  db = reduce_sum(g) axes=[0,2,3];\n"
           "  dw = conv_weight_grad(x, g) kernel=[3,3];\n"
           "  output p2 = p;\n"
           "  output db2 = db;\n"
           "  output dw2 = dw;\n",
           "  input x float[16,1,10,10];\n"
           "  input w float[5,1,3,3];\n"
           "  input b float[5];\n"
           "  input d float[16,5,4,4];\n"
           "  p, at = conv_max_pool(x, w, b) window=[2,2] relu=1 mask=1;\n"
           "  dw, db = conv_max_pool_weight_grad(x, d, at) kernel=[3,3] size=[8,8] bias=1;\n"
           "  output p2 = p;\n"
           "  output db2 = db;\n"
           "  output dw2 = dw;\n");
}

/* Sums of half are float. */
static void test_gradients_of_half_have_a_bias_of_float(void **state)
{
    (void)state;
    expect(IPU_PASS_HOST | IPU_PASS_FUSE,
           "  input x half[16,1,10,10];\n"
           "  input w half[5,1,3,3];\n"
           "  input d half[16,5,4,4];\n"
           "  constant zero half = {0};\n"
           "  c = conv(x, w);\n"
           "  y = relu(c);\n"
           "  p, at = max_pool(y) kernel=[2,2];\n"
           "  s = pool_scatter(d, at) size=[8,8];\n"
           "  m = greater(y, zero);\n"
           "  g = where(m, s, zero);\n"
           "  dw = conv_weight_grad(x, g) kernel=[3,3];\n"
           "  f = cast(g) to=\"float\";\n"
           "  db = reduce_sum(f) axes=[0,2,3];\n"
           "  output p2 = p;\n"
           "  output db2 = db;\n"
           "  output dw2 = dw;\n",
           "  input x half[16,1,10,10];\n"
           "  input w half[5,1,3,3];\n"
           "  input d half[16,5,4,4];\n"
           "  p, at = conv_max_pool(x, w) window=[2,2] relu=1 mask=1;\n"
           "  dw, db = conv_max_pool_weight_grad(x, d, at) kernel=[3,3] size=[8,8] bias=2;\n"
           "  output p2 = p;\n"
           "  output db2 = db;\n"
           "  output dw2 = dw;\n");
}

/* The input's gradient needs the scattered values, the bias's does not. */
static void test_biases_are_summed_before_the_scatter(void **state)
{
    (void)state;
    expect(IPU_PASS_HOST | IPU_PASS_FUSE,
           "  input x float[16,1,10,10];\n"
           "  input w float[5,1,3,3];\n"
           "  input d float[16,5,4,4];\n"
           "  constant zero float = {0};\n"
           "  c = conv(x, w);\n"
           "  y = relu(c);\n"
           "  p, at = max_pool(y) kernel=[2,2];\n"
           "  s = pool_scatter(d, at) size=[8,8];\n"
           "  m = greater(y, zero);\n"
           "  g = where(m, s, zero);\n"
           "  db = reduce_sum(g) axes=[0,2,3];\n"
           "  dx = conv_input_grad(g, w) size=[10,10];\n"
           "  output p2 = p;\n"
           "  output db2 = db;\n"
           "  output dx2 = dx;\n",
           "  input x float[16,1,10,10];\n"
           "  input w float[5,1,3,3];\n"
           "  input d float[16,5,4,4];\n"
           "  constant zero float = {0};\n"
           "  p, at = conv_max_pool(x, w) window=[2,2] relu=1;\n"
           "  g = chain(p, zero, d) program=\"greater a0 a1; where t0 a2 a1; out t1\";\n"
           "  s = pool_scatter(g, at) size=[8,8];\n"
           "  db = reduce_sum(g) axes=[0,2,3];\n"
           "  dx = conv_input_grad(s, w) size=[10,10];\n"
           "  output p2 = p;\n"
           "  output db2 = db;\n"
           "  output dx2 = dx;\n");
}

/* Few images, windows that overlap or reach into padding, a result that is used again, another type. */
static void test_other_pools_stay_by_themselves(void **state)
{
    (void)state;
    static const char *const ways[][4] = {
        {"float[8,1,10,10]", "float[5,1,3,3]", "kernel=[2,2]", "p"},
        {"float[16,1,10,10]", "float[5,1,3,3]", "kernel=[2,2] strides=[1,1]", "p"},
        {"float[16,1,10,10]", "float[5,1,3,3]", "kernel=[2,2] pads=[1,0,0,0]", "p"},
        {"float[16,1,10,10]", "float[5,1,3,3]", "kernel=[2,2] ceil_mode=1", "p"},
        {"float[16,1,10,10]", "float[5,1,3,3]", "kernel=[2,2] dilations=[1,2]", "p"},
        {"float[16,1,10,10]", "float[5,1,3,3]", "kernel=[2,2]", "y"},
        {"double[16,1,10,10]", "double[5,1,3,3]", "kernel=[2,2]", "p"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "  input x %s;\n"
                 "  input w %s;\n"
                 "  c = conv(x, w);\n"
                 "  y = relu(c);\n"
                 "  p, at = max_pool(y) %s;\n"
                 "  output p2 = p;\n"
                 "  output p3 = %s;\n",
                 ways[i][0], ways[i][1], ways[i][2], ways[i][3]);
        expect_part(IPU_PASS_HOST | IPU_PASS_FUSE, text, "= max_pool(", true);
        expect_part(IPU_PASS_HOST | IPU_PASS_FUSE, text, "indices=0", true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolution_relu_and_pool_become_one_op),
        cmocka_unit_test(test_gradients_of_weights_take_what_was_pooled),
        cmocka_unit_test(test_gradients_of_half_have_a_bias_of_float),
        cmocka_unit_test(test_biases_are_summed_before_the_scatter),
        cmocka_unit_test(test_other_pools_stay_by_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

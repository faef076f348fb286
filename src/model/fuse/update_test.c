/* Which updates become linear_sgd, where it goes, and which stay as they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/expect_test.h"

#define HEAD                        \
    "  input x float[8,20];\n"      \
    "  input d float[8,10];\n"      \
    "  parameter w float[10,20];\n" \
    "  state v float[10,20];\n"     \
    "  state rate float;\n"

static void gradients_and_step_become_one(void **state)
{
    (void)state;
    expect(IPU_PASS_HOST | IPU_PASS_FUSE,
           HEAD "  y = matmul(x, w) transpose_b=1;\n"
                "  g = matmul(d, x) transpose_a=1;\n"
                "  dx = matmul(d, w);\n"
                "  e = exp(dx);\n"
                "  w1, v1 = sgd(w, g, rate, none, v) momentum=0.9;\n"
                "  output y2 = y;\n"
                "  output e2 = e;\n"
                "  update w = w1;\n"
                "  update v = v1;\n",
           HEAD "  y = matmul(x, w) transpose_b=1;\n"
                "  w1, v1, dx = linear_sgd(d, x, w, rate, none, v) momentum=0.9 input_gradient=1;\n"
                "  e = exp(dx);\n"
                "  output y2 = y;\n"
                "  output e2 = e;\n"
                "  update w = w1;\n"
                "  update v = v1;\n");
}

#define DX "  dx = matmul(d, w);\n"
#define STEP "  w1, v1 = sgd(w, g, rate, none, v) momentum=0.9;\n"
#define END "  update w = w1;\n  update v = v1;\n"

/* It runs after all that reads the weights, directly or through a view, and then without the gradient of the
 * input. */
static void it_waits_for_what_reads_the_weights(void **state)
{
    (void)state;
    static const char *const readers[] = {"  e = exp(w);\n",
                                          "  e = reshape(w) shape=[200];\n  f = exp(e);\n"};
    static const char *const ends[]    = {"  output e2 = e;\n", "  output f2 = f;\n"};
    static const char *const after[]   = {"  e = exp(w);\n  w1, v1 = linear_sgd(",
                                          "  f = exp(e);\n  w1, v1 = linear_sgd("};
    for (int i = 0; i < 2; i++) {
        ipu__text text = {0};
        ipu__text_add(&text, "%s%s%s%s%s%s%s", HEAD "  g = matmul(d, x) transpose_a=1;\n", DX, readers[i],
                      STEP, "  output dx2 = dx;\n", ends[i], END);
        expect_part(IPU_PASS_HOST | IPU_PASS_FUSE, text.at, "  dx = matmul(d, w);\n", true);
        expect_part(IPU_PASS_HOST | IPU_PASS_FUSE, text.at, after[i], true);
        ipu__text_fini(&text);
    }
}

static void it_needs_no_gradient_of_the_input(void **state)
{
    (void)state;
    expect(IPU_PASS_HOST | IPU_PASS_FUSE,
           HEAD "  g = matmul(d, x) transpose_a=1;\n"
                "  y = matmul(x, w) transpose_b=1;\n" STEP "  output y2 = y;\n" END,
           HEAD "  y = matmul(x, w) transpose_b=1;\n"
                "  w1, v1 = linear_sgd(d, x, w, rate, none, v) momentum=0.9;\n"
                "  output y2 = y;\n" END);
}

/* Two layers, one of which uses the gradient that the other gives. */
static void layers_follow_each_other(void **state)
{
    (void)state;
    static const char *const model = "  input x float[8,20];\n"
                                     "  input h float[8,10];\n"
                                     "  input d float[8,5];\n"
                                     "  parameter w float[10,20];\n"
                                     "  parameter u float[5,10];\n"
                                     "  state rate float;\n"
                                     "  gu = matmul(d, h) transpose_a=1;\n"
                                     "  dh = matmul(d, u);\n"
                                     "  gw = matmul(dh, x) transpose_a=1;\n"
                                     "  dx = matmul(dh, w);\n"
                                     "  w1, v1 = sgd(w, gw, rate);\n"
                                     "  u1, t1 = sgd(u, gu, rate);\n"
                                     "  output dx2 = dx;\n"
                                     "  update w = w1;\n"
                                     "  update u = u1;\n";
    expect_part(IPU_PASS_HOST | IPU_PASS_FUSE, model,
                "  u1, t1, dh = linear_sgd(d, h, u, rate) input_gradient=1;\n"
                "  w1, v1, dx = linear_sgd(dh, x, w, rate) input_gradient=1;\n",
                true);
}

/* A layer's input is itself trained, so its gradient is a value made by fusion. */
static void what_a_layer_reads_may_be_trained_too(void **state)
{
    (void)state;
    static const char *const model = "  parameter p float[8,20];\n"
                                     "  input d float[8,10];\n"
                                     "  parameter w float[10,20];\n"
                                     "  state rate float;\n"
                                     "  gw = matmul(d, p) transpose_a=1;\n"
                                     "  dp = matmul(d, w);\n"
                                     "  w1, v1 = sgd(w, gw, rate);\n"
                                     "  p1, t1 = sgd(p, dp, rate);\n"
                                     "  update w = w1;\n"
                                     "  update p = p1;\n";
    expect_part(IPU_PASS_HOST | IPU_PASS_FUSE, model,
                "  w1, v1, dp = linear_sgd(d, p, w, rate) input_gradient=1;\n"
                "  p1, t1 = sgd(p, dp, rate);\n",
                true);
}

/* The gradient of a relu before the layer is a mask of the layer's input; other masks stay. */
static void masks_of_a_relu_go_into_it(void **state)
{
    (void)state;
    static const char *const masks[] = {"  c = greater(h, zero);\n", "  c = greater(x, zero);\n"};
    for (int i = 0; i < 2; i++) {
        ipu__text text = {0};
        ipu__text_add(&text, "%s%s%s%s%s%s",
                      HEAD "  constant zero float = {0};\n"
                           "  h = relu(x);\n"
                           "  g = matmul(d, h) transpose_a=1;\n",
                      DX, masks[i], "  r = where(c, dx, zero);\n", STEP, "  output r2 = r;\n" END);
        expect_part(IPU_PASS_HOST | IPU_PASS_FUSE, text.at, "relu=1", i == 0);
        expect_part(IPU_PASS_HOST | IPU_PASS_FUSE, text.at, "where", i == 1);
        ipu__text_fini(&text);
    }
}

/* Clipped, scaled or exposed gradients, other products, large batches. */
static void other_updates_stay(void **state)
{
    (void)state;
    static const char *const models[] = {
        HEAD "  g = matmul(d, x) transpose_a=1;\n  c = clip(g) max=1.0;\n"
             "  w1, v1 = sgd(w, c, rate, none, v) momentum=0.9;\n" END,
        HEAD "  g = matmul(d, x) transpose_a=1;\n" STEP "  output g2 = g;\n" END,
        "  input x float[20,8];\n  input d float[10,8];\n  parameter w float[10,20];\n  state rate float;\n"
        "  g = matmul(d, x) transpose_b=1;\n  w1, v1 = sgd(w, g, rate);\n  update w = w1;\n",
        "  input x half[8,20];\n  input d half[8,10];\n  parameter w half[10,20];\n  state rate float;\n"
        "  g = matmul(d, x) transpose_a=1;\n  w1, v1 = sgd(w, g, rate);\n  update w = w1;\n",
        "  input x float[1000,20];\n  input d float[1000,10];\n  parameter w float[10,20];\n  state rate float;\n"
        "  g = matmul(d, x) transpose_a=1;\n  w1, v1 = sgd(w, g, rate);\n  update w = w1;\n",
        "  input x float[8,20];\n  input d float[8,2];\n  parameter w float[2,20];\n  state rate float;\n"
        "  g = matmul(d, x) transpose_a=1;\n  w1, v1 = sgd(w, g, rate);\n  update w = w1;\n",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        expect_part(IPU_PASS_HOST | IPU_PASS_FUSE, models[i], "linear_sgd", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_and_step_become_one),
        cmocka_unit_test(it_waits_for_what_reads_the_weights),
        cmocka_unit_test(it_needs_no_gradient_of_the_input),
        cmocka_unit_test(layers_follow_each_other),
        cmocka_unit_test(what_a_layer_reads_may_be_trained_too),
        cmocka_unit_test(masks_of_a_relu_go_into_it),
        cmocka_unit_test(other_updates_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

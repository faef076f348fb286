/* Fusion on models as text: which ops become chains and epilogues, and which must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/expect_test.h"

static void test_a_chain_becomes_one_op(void **state)
{
    (void)state;
    expect(
        IPU_PASS_FUSE,
        "  input x float[4,3];\n"
        "  input bias float[3];\n"
        "  constant k float = {2};\n"
        "  a = add(x, bias);\n"
        "  b = leaky_relu(a) alpha=0.125;\n"
        "  c = mul(b, k);\n"
        "  d = cast(c) to=\"half\";\n"
        "  output d2 = d;\n",
        "  input x float[4,3];\n"
        "  input bias float[3];\n"
        "  constant k float = {2};\n"
        "  d = chain(x, bias, k) program=\"add a0 a1; leaky_relu(alpha=0.125) t0; mul t1 a2; cast(to=half) t2; out t3\";\n"
        "  output d2 = d;\n");
}

static void test_a_mask_goes_before_the_scatter_of_a_pool(void **state)
{
    (void)state;
    expect(IPU_PASS_HOST | IPU_PASS_FUSE,
           "  input x float[1,2,4,4];\n"
           "  input d float[1,2,2,2];\n"
           "  constant zero float = {0};\n"
           "  y = relu(x);\n"
           "  p, at = max_pool(y) kernel=[2,2] strides=[2,2];\n"
           "  s = pool_scatter(d, at) size=[4,4];\n"
           "  c = greater(y, zero);\n"
           "  g = where(c, s, zero);\n"
           "  output p2 = p;\n"
           "  output g2 = g;\n",
           "  input x float[1,2,4,4];\n"
           "  input d float[1,2,2,2];\n"
           "  constant zero float = {0};\n"
           "  y = relu(x);\n"
           "  p, at = max_pool(y) kernel=[2,2] strides=[2,2];\n"
           "  g = chain(p, zero, d) program=\"greater a0 a1; where t0 a2 a1; out t1\";\n"
           "  s = pool_scatter(g, at) size=[4,4];\n"
           "  output p2 = p;\n"
           "  output g2 = s;\n");
}

/* Another pool's indices, a mask with a second user, a fill other than 0. */
static void test_other_masks_stay_where_they_are(void **state)
{
    (void)state;
    static const char *const ends[] = {
        "  c = greater(x, zero);\n  g = where(c, s, zero);\n  output c2 = p;\n",
        "  c = greater(y, zero);\n  g = where(c, s, one);\n  output c2 = p;\n",
        "  c = greater(y, zero);\n  g = where(c, s, zero);\n  output c2 = c;\n"};
    for (int i = 0; i < 3; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "  input x float[1,2,4,4];\n"
                 "  input d float[1,2,2,2];\n"
                 "  constant zero float = {0};\n"
                 "  constant one float = {1};\n"
                 "  y = relu(x);\n"
                 "  p, at = max_pool(y) kernel=[2,2] strides=[2,2];\n"
                 "  s = pool_scatter(d, at) size=[4,4];\n"
                 "%s"
                 "  output g2 = g;\n",
                 ends[i]);
        expect_part(IPU_PASS_FUSE, text, "= pool_scatter(d, at)", true);
    }
}

#define NORM_INPUTS              \
    "  input x float[2,4,3];\n"  \
    "  input dy float[2,4,3];\n" \
    "  input mean float[2,2];\n" \
    "  input var float[2,2];\n"  \
    "  input other float[2,4,3];\n"
#define NORM_GRAD "  dx, dw, db, ds = group_norm_grad(dy, x, mean, var) groups=2"
#define NORM NORM_INPUTS "  constant zero float = {0};\n  constant one float = {1};\n" NORM_GRAD

static void test_a_mask_of_what_was_normalised_goes_into_the_gradient(void **state)
{
    (void)state;
    expect(IPU_PASS_HOST | IPU_PASS_FUSE,
           NORM ";\n"
                "  c = greater(x, zero);\n"
                "  g = where(c, dx, zero);\n"
                "  e = neg(other);\n"
                "  output g2 = g;\n"
                "  output e2 = e;\n",
           NORM_INPUTS NORM_GRAD " relu=1;\n"
                                 "  e = neg(other);\n"
                                 "  output g2 = dx;\n"
                                 "  output e2 = e;\n");
}

static void test_the_sum_of_a_masked_gradient_comes_with_it(void **state)
{
    (void)state;
    expect(IPU_PASS_HOST | IPU_PASS_FUSE,
           NORM ";\n"
                "  c = greater(x, zero);\n"
                "  g = where(c, dx, zero);\n"
                "  s = reduce_sum(g) axes=[0,2];\n"
                "  t = reduce_sum(g) axes=[0,1];\n"
                "  output g2 = g;\n"
                "  output s2 = s;\n"
                "  output t2 = t;\n",
           NORM_INPUTS NORM_GRAD " relu=1;\n"
                                 "  t = reduce_sum(dx) axes=[0,1];\n"
                                 "  output g2 = dx;\n"
                                 "  output s2 = ds;\n"
                                 "  output t2 = t;\n");
}

static void test_other_masks_of_that_gradient_stay(void **state)
{
    (void)state;
    const char *const masked[] = {
        "  c = greater(other, zero);\n  g = where(c, dx, zero);\n  output g2 = g;\n",
        "  c = greater(x, one);\n  g = where(c, dx, zero);\n  output g2 = g;\n",
        "  c = greater(x, zero);\n  g = where(c, dx, one);\n  output g2 = g;\n",
        "  c = greater(x, zero);\n  g = where(c, dx, zero);\n  output g2 = g;\n  output d2 = dx;\n",
    };
    for (size_t i = 0; i < sizeof(masked) / sizeof(*masked); i++) {
        ipu__text text = {0};
        ipu__text_add(&text, "%s%s", NORM ";\n", masked[i]);
        expect_part(IPU_PASS_HOST | IPU_PASS_FUSE, text.at, "where t0", true);
        ipu__text_fini(&text);
    }
}

static void test_what_others_need_is_a_result_too(void **state)
{
    (void)state;
    expect(IPU_PASS_FUSE,
           "  input x float[4,4];\n"
           "  a = neg(x);\n"
           "  b = abs(a);\n"
           "  c = mul(a, b);\n"
           "  d = matmul(b, c);\n"
           "  output a2 = a;\n"
           "  output d2 = d;\n",
           "  input x float[4,4];\n"
           "  a, b, c = chain(x) program=\"neg a0; abs t0; mul t0 t1; out t0 t1 t2\";\n"
           "  d = matmul(b, c);\n"
           "  output a2 = a;\n"
           "  output d2 = d;\n");
}

static void test_a_way_that_leads_out_and_back_is_not_closed(void **state)
{
    (void)state;
    static const char text[] = "  input x float[4,4];\n"
                               "  a = neg(x);\n"
                               "  b = reduce_sum(a) axes=[0] keep_dims=1;\n"
                               "  c = add(a, b);\n"
                               "  output c2 = c;\n";
    expect(IPU_PASS_FUSE, text, text);
}

static void test_an_op_joins_late_if_all_it_needs_is_there(void **state)
{
    (void)state;
    expect(IPU_PASS_FUSE,
           "  input x float[4,4];\n"
           "  a = neg(x);\n"
           "  b = reduce_sum(a) axes=[0];\n"
           "  c = mul(a, x);\n"
           "  output b2 = b;\n"
           "  output c2 = c;\n",
           "  input x float[4,4];\n"
           "  a, c = chain(x) program=\"neg a0; mul t0 a0; out t0 t1\";\n"
           "  b = reduce_sum(a) axes=[0];\n"
           "  output b2 = b;\n"
           "  output c2 = c;\n");
}

static void test_an_op_rather_goes_with_its_user_than_joins_late(void **state)
{
    (void)state;
    expect(IPU_PASS_FUSE,
           "  input x float[4,4];\n"
           "  a = neg(x);\n"
           "  b = reduce_sum(a) axes=[0];\n"
           "  c = mul(a, x);\n"
           "  d = add(c, b);\n"
           "  output d2 = d;\n",
           "  input x float[4,4];\n"
           "  a = neg(x);\n"
           "  b = reduce_sum(a) axes=[0];\n"
           "  d = chain(a, x, b) program=\"mul a0 a1; add t0 a2; out t1\";\n"
           "  output d2 = d;\n");
}

static void test_shapes_and_copies_for_a_gradient_stay_apart(void **state)
{
    (void)state;
    static const char text[] = "  input x float[3];\n"
                               "  input y float[2,3];\n"
                               "  a = neg(x);\n"
                               "  b = add(a, y);\n"
                               "  c = abs(b) recompute 1;\n"
                               "  d = neg(c) recompute 2;\n"
                               "  output d2 = d;\n";
    expect(IPU_PASS_FUSE, text, text);
}

static void test_empty_tensors_are_left_alone(void **state)
{
    (void)state;
    static const char text[] = "  input x float[0];\n"
                               "  a = neg(x);\n"
                               "  b = abs(a);\n"
                               "  output b2 = b;\n";
    expect(IPU_PASS_FUSE, text, text);
}

static void test_blocks_are_fused_by_themselves(void **state)
{
    (void)state;
    expect(IPU_PASS_FUSE,
           "  input p bool;\n"
           "  input x float[3];\n"
           "  a = neg(x);\n"
           "  if p {\n"
           "    b = abs(a);\n"
           "    c = mul(b, a);\n"
           "    yield c;\n"
           "  } else {\n"
           "    yield a;\n"
           "  } -> r;\n"
           "  d = add(a, x);\n"
           "  e = add(d, r);\n"
           "  output e2 = e;\n",
           "  input p bool;\n"
           "  input x float[3];\n"
           "  a = neg(x);\n"
           "  if p {\n"
           "    c = chain(a) program=\"abs a0; mul t0 a0; out t1\";\n"
           "    yield c;\n"
           "  } else {\n"
           "    yield a;\n"
           "  } -> r;\n"
           "  e = chain(a, x, r) program=\"add a0 a1; add t0 a2; out t1\";\n"
           "  output e2 = e;\n");
}

static void test_stops_for_gradients_do_not_keep_ops_apart(void **state)
{
    (void)state;
    expect(IPU_PASS_FUSE,
           "  input x float[3];\n"
           "  a = neg(x);\n"
           "  b = stop_gradient(a);\n"
           "  c = abs(b);\n"
           "  output c2 = c;\n",
           "  input x float[3];\n"
           "  c = chain(x) program=\"neg a0; abs t0; out t1\";\n"
           "  output c2 = c;\n");
}

/* ---- epilogues ---- */

static void test_what_follows_a_product_becomes_its_epilogue(void **state)
{
    (void)state;
    expect(IPU_PASS_FUSE,
           "  input x float[4,3];\n"
           "  parameter w float[2,3];\n"
           "  parameter bias float[2];\n"
           "  y = matmul(x, w) transpose_b=1;\n"
           "  z = add(y, bias);\n"
           "  a = relu(z);\n"
           "  t = neg(x);\n"
           "  d = matmul(a, a) transpose_b=1;\n"
           "  e = matmul(d, a);\n"
           "  output e2 = e;\n"
           "  output t2 = t;\n",
           "  input x float[4,3];\n"
           "  parameter w float[2,3];\n"
           "  parameter bias float[2];\n"
           "  a = matmul(x, w, bias) transpose_b=1 epilogue=\"add a0 a1; relu t0; out t1\";\n"
           "  t = neg(x);\n"
           "  d = matmul(a, a) transpose_b=1;\n"
           "  e = matmul(d, a);\n"
           "  output e2 = e;\n"
           "  output t2 = t;\n");
}

static void test_what_only_an_epilogue_uses_is_computed_in_it(void **state)
{
    (void)state;
    expect(
        IPU_PASS_FUSE,
        "  input x float[4,4];\n"
        "  input u float[4,4];\n"
        "  input v float[4,4];\n"
        "  parameter zero float;\n"
        "  s = gelu_slope(u);\n"
        "  k = greater(v, zero);\n"
        "  t = tanh(u);\n"
        "  y = matmul(x, x);\n"
        "  z = mul(y, s);\n"
        "  a = where(k, z, zero);\n"
        "  b = mul(a, t);\n"
        "  output b2 = b;\n"
        "  output t2 = t;\n",
        "  input x float[4,4];\n"
        "  input u float[4,4];\n"
        "  input v float[4,4];\n"
        "  parameter zero float;\n"
        "  t = tanh(u);\n"
        "  b = matmul(x, x, u, v, zero, t) epilogue=\"gelu_slope a1; mul a0 t0; greater a2 a3; where t2 t1 a3; "
        "mul t3 a4; out t4\";\n"
        "  output b2 = b;\n"
        "  output t2 = t;\n");
}

static void test_an_epilogue_ends_where_somebody_else_looks(void **state)
{
    (void)state;
    expect(IPU_PASS_FUSE,
           "  input x float[4,4];\n"
           "  y = matmul(x, x);\n"
           "  z = add(y, x);\n"
           "  a = tanh(z);\n"
           "  b = matmul(a, z);\n"
           "  output b2 = b;\n",
           "  input x float[4,4];\n"
           "  z = matmul(x, x, x) epilogue=\"add a0 a1; out t0\";\n"
           "  a = tanh(z);\n"
           "  b = matmul(a, z);\n"
           "  output b2 = b;\n");
}

static void test_of_two_products_one_takes_the_other(void **state)
{
    (void)state;
    expect(IPU_PASS_FUSE,
           "  input x float[4,4];\n"
           "  input y float[4,4];\n"
           "  a = matmul(x, y);\n"
           "  b = matmul(y, x);\n"
           "  c = add(a, b);\n"
           "  output c2 = c;\n",
           "  input x float[4,4];\n"
           "  input y float[4,4];\n"
           "  b = matmul(y, x);\n"
           "  c = matmul(x, y, b) epilogue=\"add a0 a1; out t0\";\n"
           "  output c2 = c;\n");
}

static void test_epilogues_take_four_operands(void **state)
{
    (void)state;
    expect(IPU_PASS_FUSE,
           "  input x float[4,4];\n"
           "  input y float[4,4];\n"
           "  constant k float[4] = {1, 2, 3, 4};\n"
           "  constant l float = {2};\n"
           "  constant m float = {3};\n"
           "  a = matmul(x, y);\n"
           "  b = add(a, k);\n"
           "  c = mul(b, l);\n"
           "  d = add(c, m);\n"
           "  e = mul(d, y);\n"
           "  f = sub(e, x);\n"
           "  output f2 = f;\n",
           "  input x float[4,4];\n"
           "  input y float[4,4];\n"
           "  constant k float[4] = {1, 2, 3, 4};\n"
           "  constant l float = {2};\n"
           "  constant m float = {3};\n"
           "  e = matmul(x, y, k, l, m, y) epilogue=\"add a0 a1; mul t0 a2; add t1 a3; mul t2 a4; out t3\";\n"
           "  f = sub(e, x);\n"
           "  output f2 = f;\n");
}

/* ---- limits ---- */

static ipu_model *fused(ipu__text *text)
{
    ipu_model *m;
    if (ipu_model_parse(text->at, text->n, "text", NULL, &m) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_model_optimise(m, IPU_PASS_FUSE) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu__model_verify(m) != IPU_OK) fail_msg("%s", ipu_message());
    ipu__text_fini(text);
    return m;
}

static void test_long_chains_are_cut(void **state)
{
    (void)state;
    ipu__text text = {0};
    ipu__text_add(&text, "model { input v0 float[3];");
    for (int i = 0; i < 150; i++) ipu__text_add(&text, "v%d = neg(v%d);", i + 1, i);
    ipu__text_add(&text, "output o = v150; }");
    ipu_model *m = fused(&text);
    assert_int_equal(ipu_model_n_ops(m), 3); /* 64 + 64 + 22 */
    ipu_model_destroy(m);
}

static void test_chains_of_many_inputs_are_cut(void **state)
{
    (void)state;
    ipu__text text = {0};
    ipu__text_add(&text, "model { input v0 float[3];");
    for (int i = 0; i < 30; i++)
        ipu__text_add(&text, "input x%d float[3]; v%d = add(v%d, x%d);", i, i + 1, i, i);
    ipu__text_add(&text, "output o = v30; }");
    ipu_model *m = fused(&text);
    assert_int_equal(ipu_model_n_ops(m), 3); /* 11 + 11 + 8: the first has v0, the others the sum so far */
    ipu_model_destroy(m);
}

static void test_chains_of_many_results_are_cut(void **state)
{
    (void)state;
    ipu__text text = {0};
    ipu__text_add(&text, "model { input v0 float[3];");
    for (int i = 0; i < 10; i++)
        ipu__text_add(&text, "v%d = neg(v%d); output o%d = v%d;", i + 1, i, i + 1, i + 1);
    ipu__text_add(&text, "}");
    ipu_model *m = fused(&text);
    assert_int_equal(ipu_model_n_ops(m), 3); /* 4 + 4 + 2 */
    ipu_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_chain_becomes_one_op),
        cmocka_unit_test(test_a_mask_goes_before_the_scatter_of_a_pool),
        cmocka_unit_test(test_other_masks_stay_where_they_are),
        cmocka_unit_test(test_a_mask_of_what_was_normalised_goes_into_the_gradient),
        cmocka_unit_test(test_the_sum_of_a_masked_gradient_comes_with_it),
        cmocka_unit_test(test_other_masks_of_that_gradient_stay),
        cmocka_unit_test(test_what_others_need_is_a_result_too),
        cmocka_unit_test(test_a_way_that_leads_out_and_back_is_not_closed),
        cmocka_unit_test(test_an_op_joins_late_if_all_it_needs_is_there),
        cmocka_unit_test(test_an_op_rather_goes_with_its_user_than_joins_late),
        cmocka_unit_test(test_shapes_and_copies_for_a_gradient_stay_apart),
        cmocka_unit_test(test_empty_tensors_are_left_alone),
        cmocka_unit_test(test_blocks_are_fused_by_themselves),
        cmocka_unit_test(test_stops_for_gradients_do_not_keep_ops_apart),
        cmocka_unit_test(test_what_follows_a_product_becomes_its_epilogue),
        cmocka_unit_test(test_an_epilogue_ends_where_somebody_else_looks),
        cmocka_unit_test(test_of_two_products_one_takes_the_other),
        cmocka_unit_test(test_what_only_an_epilogue_uses_is_computed_in_it),
        cmocka_unit_test(test_epilogues_take_four_operands),
        cmocka_unit_test(test_long_chains_are_cut),
        cmocka_unit_test(test_chains_of_many_inputs_are_cut),
        cmocka_unit_test(test_chains_of_many_results_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

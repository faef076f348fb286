/* Passes on models as text: inputs and expected outputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "model/expect_test.h"

/* ---- dead code in branches and loops ---- */

static void test_results_of_a_branch_that_nobody_uses_go(void **state)
{
    (void)state;
    expect(IPU_PASS_DCE,
           "  input p bool;\n"
           "  input x float[4];\n"
           "  if p {\n"
           "    a = neg(x);\n"
           "    b = relu(x);\n"
           "    c = abs(x);\n"
           "    yield a, b, c;\n"
           "  } else {\n"
           "    d = relu(x);\n"
           "    yield d, x, d;\n"
           "  } -> u, v, w;\n"
           "  output v = v;\n",
           "  input p bool;\n"
           "  input x float[4];\n"
           "  if p {\n"
           "    b = relu(x);\n"
           "    yield b;\n"
           "  } else {\n"
           "    yield x;\n"
           "  } -> v;\n"
           "  output v = v;\n");
}

static void test_a_branch_without_use_goes_as_a_whole(void **state)
{
    (void)state;
    expect(IPU_PASS_DCE,
           "  input p bool;\n"
           "  input x float[4];\n"
           "  y = neg(x);\n"
           "  if p {\n"
           "    yield y;\n"
           "  } else {\n"
           "    yield x;\n"
           "  } -> z;\n"
           "  output x2 = x;\n",
           "  input p bool;\n"
           "  input x float[4];\n"
           "  output x2 = x;\n");
}

static void test_values_a_loop_carries_for_nothing_go(void **state)
{
    (void)state;
    expect(IPU_PASS_DCE,
           "  input x float[4];\n"
           "  input y float[4];\n"
           "  s = neg(x);\n"
           "  loop 3 (a = s, b = y, c = y) index i {\n"
           "    d = add(a, a);\n"
           "    e = add(b, c);\n"
           "    f = neg(c);\n"
           "    yield d, e, f;\n"
           "  } -> u, v, w;\n"
           "  output v = v;\n",
           "  input x float[4];\n"
           "  input y float[4];\n"
           "  loop 3 (b = y, c = y) index i {\n"
           "    e = add(b, c);\n"
           "    f = neg(c);\n"
           "    yield e, f;\n"
           "  } -> v, w;\n"
           "  output v = v;\n");
}

static void test_what_decides_whether_a_loop_goes_on_stays(void **state)
{
    (void)state;
    static const char text[] = "  input x float[4];\n"
                               "  input n int32;\n"
                               "  input p bool;\n"
                               "  loop 9 (a = x, k = n) index i if p {\n"
                               "    b = neg(a);\n"
                               "    l = add(k, k);\n"
                               "    q = less(l, i);\n"
                               "    yield b, l while q;\n"
                               "  } -> u, ~11;\n"
                               "  output u = u;\n";
    expect(IPU_PASS_DCE, text, text);
}

/* ---- common subexpressions across blocks ---- */

static void test_blocks_use_what_is_known_around_them(void **state)
{
    (void)state;
    expect(IPU_PASS_CSE,
           "  input p bool;\n"
           "  input x float[4];\n"
           "  a = neg(x);\n"
           "  if p {\n"
           "    b = neg(x);\n"
           "    c = abs(x);\n"
           "    yield b, c;\n"
           "  } else {\n"
           "    d = abs(x);\n"
           "    yield d, a;\n"
           "  } -> u, v;\n"
           "  e = abs(x);\n"
           "  output u = u;\n"
           "  output v = v;\n"
           "  output e2 = e;\n",
           "  input p bool;\n"
           "  input x float[4];\n"
           "  a = neg(x);\n"
           "  if p {\n"
           "    c = abs(x);\n"
           "    yield a, c;\n"
           "  } else {\n"
           "    d = abs(x);\n"
           "    yield d, a;\n"
           "  } -> u, v;\n"
           "  e = abs(x);\n"
           "  output u = u;\n"
           "  output v = v;\n"
           "  output e2 = e;\n");
}

/* ---- algebra ---- */

static void test_what_changes_nothing_is_left_out(void **state)
{
    (void)state;
    expect(IPU_PASS_FOLD,
           "  input x float[2,3];\n"
           "  input b bool[3];\n"
           "  constant zero float = {0};\n"
           "  constant ones float[3] = {1, 1, 1};\n"
           "  constant wide float[4,1,1] = {0, 0, 0, 0};\n"
           "  a = add(zero, x);\n"
           "  c = mul(a, ones);\n"
           "  d = div(c, ones);\n"
           "  e = sub(d, zero);\n"
           "  f = neg(e);\n"
           "  g = neg(f);\n"
           "  h = cast(g) to=\"float\";\n"
           "  n = logical_not(b);\n"
           "  nn = logical_not(n);\n"
           "  w = add(x, wide);\n"
           "  s = sub(zero, x);\n"
           "  output h = h;\n"
           "  output nn = nn;\n"
           "  output w = w;\n"
           "  output s = s;\n",
           "  input x float[2,3];\n"
           "  input b bool[3];\n"
           "  constant zero float = {0};\n"
           "  constant wide float[4,1,1] = {0, 0, 0, 0};\n"
           "  f = neg(x);\n"
           "  n = logical_not(b);\n"
           "  w = add(x, wide);\n"
           "  s = sub(zero, x);\n"
           "  output h = x;\n"
           "  output nn = b;\n"
           "  output w = w;\n"
           "  output s = s;\n");
}

static void test_shapes_that_are_changed_twice_are_changed_once(void **state)
{
    (void)state;
    expect(IPU_PASS_FOLD | IPU_PASS_DCE,
           "  input x float[2,3,4];\n"
           "  a = reshape(x) shape=[6,4];\n"
           "  b = reshape(a) shape=[24];\n"
           "  c = reshape(b) shape=[2,3,4];\n"
           "  t = transpose(x) perm=[2,0,1];\n"
           "  u = transpose(t) perm=[2,0,1];\n"
           "  v = transpose(u) perm=[2,0,1];\n"
           "  r = reduce_sum(x) axes=[1] keep_dims=1;\n"
           "  s = reduce_max(r) axes=[1];\n"
           "  k = reduce_max(r) axes=[1] keep_dims=1;\n"
           "  e = expand(x) shape=[2,3,4];\n"
           "  l = slice(x) begin=[0] end=[3] axes=[1];\n"
           "  m = slice(x) begin=[2] end=[-4] step=[-1] axes=[1];\n"
           "  n = concat(x) axis=1;\n"
           "  output b = b;\n"
           "  output c = c;\n"
           "  output u = u;\n"
           "  output v = v;\n"
           "  output s = s;\n"
           "  output k = k;\n"
           "  output e = e;\n"
           "  output l = l;\n"
           "  output m = m;\n"
           "  output n = n;\n",
           "  input x float[2,3,4];\n"
           "  b = reshape(x) shape=[24];\n"
           "  u = transpose(x) perm=[1,2,0];\n"
           "  r = reduce_sum(x) axes=[1] keep_dims=1;\n"
           "  s = reshape(r) shape=[2,4];\n"
           "  m = slice(x) begin=[2] end=[-4] step=[-1] axes=[1];\n"
           "  output b = b;\n"
           "  output c = x;\n"
           "  output u = u;\n"
           "  output v = x;\n"
           "  output s = s;\n"
           "  output k = r;\n"
           "  output e = x;\n"
           "  output l = x;\n"
           "  output m = m;\n"
           "  output n = x;\n");
}

static void test_transposes_become_part_of_a_product(void **state)
{
    (void)state;
    expect(IPU_PASS_FOLD | IPU_PASS_DCE,
           "  input x float[5,2,3];\n"
           "  parameter w float[4,3];\n"
           "  a = transpose(w) perm=[1,0];\n"
           "  y = matmul(x, a);\n"
           "  b = transpose(y) perm=[0,2,1];\n"
           "  z = matmul(b, b) transpose_a=1;\n"
           "  c = transpose(x) perm=[1,0,2];\n"
           "  q = matmul(c, w) transpose_b=1;\n"
           "  output z = z;\n"
           "  output q = q;\n",
           "  input x float[5,2,3];\n"
           "  parameter w float[4,3];\n"
           "  y = matmul(x, w) transpose_b=1;\n"
           "  z = matmul(y, y) transpose_b=1;\n"
           "  c = transpose(x) perm=[1,0,2];\n"
           "  q = matmul(c, w) transpose_b=1;\n"
           "  output z = z;\n"
           "  output q = q;\n");
}

static void test_views_of_constants_are_computed(void **state)
{
    (void)state;
    expect(IPU_PASS_FOLD | IPU_PASS_DCE,
           "  input x int32[3,2];\n"
           "  constant k int32[2,3] = {1, 2, 3, 4, 5, 6};\n"
           "  constant j int32[1,2] = {7, 8};\n"
           "  t = transpose(k) perm=[1,0];\n"
           "  s = slice(t) begin=[0] end=[2] axes=[0];\n"
           "  c = concat(s, j) axis=0;\n"
           "  y = add(x, c);\n"
           "  output y = y;\n",
           "  input x int32[3,2];\n"
           "  constant c int32[3,2] = {1, 4, 2, 5, 7, 8};\n"
           "  y = add(x, c);\n"
           "  output y = y;\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results_of_a_branch_that_nobody_uses_go),
        cmocka_unit_test(test_a_branch_without_use_goes_as_a_whole),
        cmocka_unit_test(test_values_a_loop_carries_for_nothing_go),
        cmocka_unit_test(test_what_decides_whether_a_loop_goes_on_stays),
        cmocka_unit_test(test_blocks_use_what_is_known_around_them),
        cmocka_unit_test(test_what_changes_nothing_is_left_out),
        cmocka_unit_test(test_shapes_that_are_changed_twice_are_changed_once),
        cmocka_unit_test(test_transposes_become_part_of_a_product),
        cmocka_unit_test(test_views_of_constants_are_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

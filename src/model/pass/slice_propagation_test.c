/* Slice propagation on models as text: what becomes narrower, forwards and backwards, and what must not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "model/expect_test.h"

#define PASSES (IPU_PASS_SLICE | IPU_PASS_DCE)

static void test_a_slice_goes_up_to_where_all_is_needed(void **state)
{
    (void)state;
    expect(PASSES,
           "  input x float[2,8,4];\n"
           "  parameter w float[6,4];\n"
           "  parameter b float[6];\n"
           "  a = matmul(x, w) transpose_b=1;\n"
           "  c = add(a, b);\n"
           "  d = relu(c);\n"
           "  e = slice(d) begin=[3] end=[4] axes=[1];\n"
           "  output y = e;\n",
           "  input x float[2,8,4];\n"
           "  parameter w float[6,4];\n"
           "  parameter b float[6];\n"
           "  ~4 = slice(x) begin=[3] end=[4] step=[1] axes=[1];\n"
           "  ~5 = matmul(~4, w) transpose_b=1;\n"
           "  ~6 = add(~5, b);\n"
           "  e = relu(~6);\n"
           "  output y = e;\n");
}

static void test_heads_and_queries_of_attention(void **state)
{
    (void)state;
    expect(PASSES,
           "  input q float[2,8,6];\n"
           "  input k float[2,3,8,2];\n"
           "  a = reshape(q) shape=[2,8,3,2];\n"
           "  b = transpose(a) perm=[0,2,1,3];\n"
           "  c, l = attention(b, k, k);\n"
           "  d = transpose(c) perm=[0,2,1,3];\n"
           "  e = reshape(d) shape=[2,8,6];\n"
           "  f = slice(e) begin=[-2] end=[8] axes=[1];\n"
           "  output y = f;\n",
           "  input q float[2,8,6];\n"
           "  input k float[2,3,8,2];\n"
           "  ~3 = slice(q) begin=[6] end=[8] step=[1] axes=[1];\n"
           "  ~4 = reshape(~3) shape=[2,2,3,2];\n"
           "  ~5 = transpose(~4) perm=[0,2,1,3];\n"
           "  ~6 = attention(~5, k, k);\n"
           "  ~8 = transpose(~6) perm=[0,2,1,3];\n"
           "  f = reshape(~8) shape=[2,2,6];\n"
           "  output y = f;\n");
}

static void test_rows_of_a_norm_with_what_it_keeps(void **state)
{
    (void)state;
    expect(PASSES | IPU_PASS_CSE,
           "  input x float[8,4];\n"
           "  a, mean, var = layer_norm(x);\n"
           "  b = slice(a) begin=[0] end=[2] axes=[0];\n"
           "  c = slice(mean) begin=[0] end=[2] axes=[0];\n"
           "  output y = b;\n"
           "  output z = c;\n",
           "  input x float[8,4];\n"
           "  ~2 = slice(x) begin=[0] end=[2] step=[1] axes=[0];\n"
           "  b, c = layer_norm(~2);\n"
           "  output y = b;\n"
           "  output z = c;\n");
}

/* The model must stay as it is. */
static void stays(const char *inside) { expect(PASSES, inside, inside); }

static void test_what_stays_whole(void **state)
{
    (void)state;
    stays("  input x float[8,4];\n" /* also used whole */
          "  a = relu(x);\n"
          "  b = slice(a) begin=[0] end=[1] axes=[0];\n"
          "  output y = b;\n"
          "  output z = a;\n");
    stays("  input x float[8,4];\n" /* two regions */
          "  a = relu(x);\n"
          "  b = slice(a) begin=[0] end=[1] axes=[0];\n"
          "  c = slice(a) begin=[1] end=[2] axes=[0];\n"
          "  output y = b;\n"
          "  output z = c;\n");
    stays("  input x float[8,4];\n" /* most of it */
          "  a = relu(x);\n"
          "  b = slice(a) begin=[0] end=[5] axes=[0];\n"
          "  output y = b;\n");
    stays("  input x float[8,4];\n" /* every other row */
          "  a = relu(x);\n"
          "  b = slice(a) begin=[0] end=[8] step=[2] axes=[0];\n"
          "  output y = b;\n");
    stays("  input x float[8,4];\n" /* a mean of all rows */
          "  a = layer_norm(x) n_dims=2;\n"
          "  b = slice(a) begin=[0] end=[1] axes=[0];\n"
          "  output y = b;\n");
    stays("  input x float[2,8,4];\n" /* which queries see what depends on their position */
          "  a = attention(x, x, x) causal=1;\n"
          "  b = slice(a) begin=[7] end=[8] axes=[1];\n"
          "  output y = b;\n");
    stays("  input x float[8,4];\n" /* not 0 outside */
          "  a = pad(x) before=[0,0] after=[24,0] value=1;\n"
          "  b = neg(a);\n"
          "  output y = b;\n");
    stays("  input x float[8,4];\n" /* zeros become something else */
          "  input z float[32,4];\n"
          "  a = pad(x) before=[0,0] after=[24,0];\n"
          "  b = add(a, z);\n"
          "  output y = b;\n");
}

static void test_zeros_are_left_out_of_products_and_sums(void **state)
{
    (void)state;
    expect(PASSES,
           "  input d float[2,1,4];\n"
           "  input x float[2,8,6];\n"
           "  parameter w float[4,6];\n"
           "  a = pad(d) before=[0,3,0] after=[0,4,0];\n"
           "  s = reduce_sum(a) axes=[0,1];\n"
           "  e = matmul(a, w);\n"
           "  f = mul(e, x);\n"
           "  g = reshape(a) shape=[16,4];\n"
           "  h = reshape(x) shape=[16,6];\n"
           "  i = matmul(g, h) transpose_a=1;\n"
           "  output s = s;\n"
           "  output f = f;\n"
           "  output i = i;\n",
           "  input d float[2,1,4];\n"
           "  input x float[2,8,6];\n"
           "  parameter w float[4,6];\n"
           "  s = reduce_sum(d) axes=[0,1];\n"
           "  ~5 = matmul(d, w);\n"
           "  ~6 = slice(x) begin=[3] end=[4] step=[1] axes=[1];\n"
           "  ~7 = mul(~5, ~6);\n"
           "  f = pad(~7) before=[0,3,0] after=[0,4,0] inside=[0,0,0];\n"
           "  ~9 = slice(x) begin=[3] end=[4] step=[1] axes=[1];\n"
           "  ~10 = reshape(d) shape=[2,4];\n"
           "  ~11 = reshape(~9) shape=[2,6];\n"
           "  i = matmul(~10, ~11) transpose_a=1;\n"
           "  output s = s;\n"
           "  output f = f;\n"
           "  output i = i;\n");
}

/* As in gradients of half. */
static void test_zeros_stay_zeros_in_another_type(void **state)
{
    (void)state;
    expect(PASSES,
           "  input d float[2,1,4];\n"
           "  a = pad(d) before=[0,3,0] after=[0,4,0];\n"
           "  b = cast(a) to=\"half\";\n"
           "  s = reduce_sum(b) axes=[0,1];\n"
           "  output s = s;\n",
           "  input d float[2,1,4];\n"
           "  ~2 = cast(d) to=\"half\";\n"
           "  s = reduce_sum(~2) axes=[0,1];\n"
           "  output s = s;\n");
}

static void test_gradients_of_norms_and_attention(void **state)
{
    (void)state;
    expect(PASSES | IPU_PASS_CSE,
           "  input d float[2,1,4];\n"
           "  input x float[2,8,4];\n"
           "  parameter w float[4];\n"
           "  a = pad(d) before=[0,0,0] after=[0,7,0];\n"
           "  b, mean, var = layer_norm(x, w);\n"
           "  c, dw, db = layer_norm_grad(a, x, mean, var, w);\n"
           "  o, lse = attention(x, x, x);\n"
           "  dq, dk, dv = attention_grad(c, x, x, x, none, o, lse);\n"
           "  output dw = dw;\n"
           "  output dk = dk;\n",
           "  input d float[2,1,4];\n"
           "  input x float[2,8,4];\n"
           "  parameter w float[4];\n"
           "  ~4 = slice(x) begin=[0] end=[1] step=[1] axes=[1];\n"
           "  ~5, ~6, ~7 = layer_norm(~4, w);\n"
           "  ~8, dw, db = layer_norm_grad(d, ~4, ~6, ~7, w);\n"
           "  ~11, ~12 = attention(~4, x, x);\n"
           "  ~13, dk, dv = attention_grad(~8, ~4, x, x, none, ~11, ~12);\n"
           "  output dw = dw;\n"
           "  output dk = dk;\n");
}

static void test_in_the_body_of_a_loop(void **state)
{
    (void)state;
    expect(PASSES,
           "  input x float[8,4];\n"
           "  r = relu(x);\n"
           "  loop 3 (k = x) index i {\n"
           "    a = neg(k);\n"
           "    b = slice(a) begin=[0] end=[1] axes=[0];\n"
           "    c = slice(r) begin=[0] end=[1] axes=[0];\n"
           "    e = add(b, c);\n"
           "    f = add(k, e);\n"
           "    yield f;\n"
           "  } -> l;\n"
           "  output y = l;\n",
           "  input x float[8,4];\n"
           "  r = relu(x);\n"
           "  loop 3 (k = x) index i {\n"
           "    ~5 = slice(k) begin=[0] end=[1] step=[1] axes=[0];\n"
           "    b = neg(~5);\n"
           "    c = slice(r) begin=[0] end=[1] axes=[0];\n"
           "    e = add(b, c);\n"
           "    f = add(k, e);\n"
           "    yield f;\n"
           "  } -> l;\n"
           "  output y = l;\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slice_goes_up_to_where_all_is_needed),
        cmocka_unit_test(test_heads_and_queries_of_attention),
        cmocka_unit_test(test_rows_of_a_norm_with_what_it_keeps),
        cmocka_unit_test(test_what_stays_whole),
        cmocka_unit_test(test_zeros_are_left_out_of_products_and_sums),
        cmocka_unit_test(test_zeros_stay_zeros_in_another_type),
        cmocka_unit_test(test_gradients_of_norms_and_attention),
        cmocka_unit_test(test_in_the_body_of_a_loop),
    };
    return cmocka_run_group_tests_name("narrow", tests, NULL, NULL);
}

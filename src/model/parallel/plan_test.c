/* Parts of a network with stages: where ops run, the routes of values, and what cannot be cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/op/elementwise.h"
#include "ipu/op/matmul.h"
#include "ipu/op/reduce.h"
#include "ipu/op/shape.h"
#include "ipu/target.h"
#include "model/parallel/plan.h"

static void expect_ok(ipu_status status)
{
    if (status != IPU_OK) fail_msg("%s", ipu_message());
}

static ipu_model *new_model(void)
{
    ipu_model *m;
    expect_ok(ipu_model_create(&m));
    return m;
}

/* x w0 | tanh, w1 | + x, w2, squared and summed; with gradients of all weights. y: the output of stage a. */
static ipu_model *three_stages(uint32_t *y)
{
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    w[3], dw[3], x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(2, 4), "x");
    for (int i = 0; i < 3; i++)
        w[i] = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(4, 4), NULL,
                                   (const char *[]){"w0", "w1", "w2"}[i]);
    ipu_model_stage(m, "a");
    ipu_value v = ipu_matmul(b, x, w[0]);
    *y          = v.id;
    ipu_model_stage(m, "b");
    v = ipu_matmul(b, ipu_tanh(b, v), w[1]);
    ipu_model_stage(m, "c");
    v              = ipu_matmul(b, ipu_add(b, v, x), w[2]);
    ipu_value loss = ipu_reduce_sum(b, ipu_mul(b, v, v), NULL, 0, false);
    ipu_model_output(m, loss, "loss");
    ipu_model_gradients(m, loss, w, 3, NULL, dw);
    for (int i = 0; i < 3; i++) ipu_model_output(m, dw[i], (const char *[]){"d0", "d1", "d2"}[i]);
    expect_ok(ipu_builder_status(b));
    expect_ok(ipu_model_optimise(m, IPU_PASS_DCE));
    return m;
}

static bool has_route(const ipu__plan *p, uint32_t value, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < p->routes.n; i++) {
        const ipu__route *r = &p->routes.at[i];
        if (r->value == value && r->from == from && r->to == to) return true;
    }
    return false;
}

static size_t n_into(const ipu__plan *p, uint32_t to)
{
    size_t n = 0;
    for (size_t i = 0; i < p->routes.n; i++) n += p->routes.at[i].to == to;
    return n;
}

static void values_go_from_neighbour_to_neighbour_or_along_an_ipu(void **state)
{
    (void)state;
    uint32_t      y;
    ipu_model    *m       = three_stages(&y);
    const int64_t three[] = {0, 1, 2}, two[] = {0, 1, 0};
    ipu__plan     p;
    uint32_t      x = m->inputs.at[0];
    expect_ok(ipu__plan_make(m, three, false, &p));
    assert_int_equal(p.n_positions, 6);
    assert_int_equal(ipu__plan_output_position(&p, 0), 2); /* loss */
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(ipu__plan_output_position(&p, 1 + i), 5 - i);
    assert_true(has_route(&p, x, 0, 1) && has_route(&p, x, 1, 2)); /* passed on by b */
    assert_true(has_route(&p, x, 0, 5));                           /* kept for the gradient of w0 */
    assert_true(has_route(&p, y, 0, 1) && !has_route(&p, y, 1, 2));
    ipu__plan_fini(&p);
    expect_ok(ipu__plan_make(m, two, false, &p));
    assert_true(has_route(&p, x, 0, 2) && !has_route(&p, x, 0, 1));
    ipu__plan_fini(&p);
    ipu_model_destroy(m);
}

static void what_is_computed_again_is_not_kept(void **state)
{
    (void)state;
    uint32_t      y;
    ipu_model    *m      = three_stages(&y);
    const int64_t ipus[] = {0, 1, 2};
    ipu__plan     keep, again;
    expect_ok(ipu__plan_make(m, ipus, false, &keep));
    expect_ok(ipu__plan_make(m, ipus, true, &again));
    assert_false(has_route(&keep, y, 1, 4)); /* the gradient of tanh uses its result */
    assert_true(has_route(&again, y, 1, 4));
    assert_int_equal(n_into(&again, 4), 2); /* that one, and the gradient from c */
    assert_int_equal(n_into(&again, 3), n_into(&keep, 3));
    ipu_model *part = ipu__plan_part(&again, 4), *other = ipu__plan_part(&keep, 4);
    assert_int_equal(ipu_model_n_ops(part), ipu_model_n_ops(other) + 1);
    ipu_model_destroy(part);
    ipu_model_destroy(other);
    ipu__plan_fini(&keep);
    ipu__plan_fini(&again);
    ipu_model_destroy(m);
}

static void parts_are_models(void **state)
{
    (void)state;
    uint32_t      y;
    ipu_model    *m      = three_stages(&y);
    const int64_t ipus[] = {0, 1, 2};
    ipu__plan     p;
    size_t        n_ops = 0;
    expect_ok(ipu__plan_make(m, ipus, false, &p));
    for (uint32_t q = 0; q < p.n_positions; q++) {
        ipu_model *part = ipu__plan_part(&p, q);
        n_ops += ipu_model_n_ops(part);
        expect_ok(ipu__model_verify(part));
        expect_ok(ipu_model_optimise(part, IPU_PASS_ALL));
        ipu_model_destroy(part);
    }
    assert_int_equal(n_ops, ipu_model_n_ops(m));
    ipu__plan_fini(&p);
    ipu_model_destroy(m);
}

/* ---- errors ---- */

static void expect_no_plan(const char *text, const char *part)
{
    ipu_model    *m;
    ipu__plan     p;
    const int64_t ipus[] = {0, 1};
    expect_ok(ipu_model_parse(text, strlen(text), "text", NULL, &m));
    expect_ok(ipu_model_optimise(m, IPU_PASS_DCE));
    assert_int_equal(ipu__plan_make(m, ipus, false, &p), IPU_INVALID);
    if (!strstr(ipu_message(), part)) fail_msg("expected \"%s\" in: %s", part, ipu_message());
    ipu__plan_fini(&p);
    ipu_model_destroy(m);
}

static void what_cannot_be_cut_is_told(void **state)
{
    (void)state;
    expect_no_plan(
        "model { input x float; stage \"a\"; y = tanh(x); stage \"b\"; z = tanh(y); output o = y; }",
        "stage \"b\" has nothing in it");
    expect_no_plan(
        "model { input x float; state s float; stage \"a\"; y = add(x, s); stage \"b\"; z = tanh(y);"
        " output o = z; update s = z; }",
        "stage \"a\" reads \"s\" float[], which is only there after stage \"b\"");
}

/* ---- automatic stages ---- */

/* Products with these widths, each more expensive than the one before. */
static ipu_model *widths(const int64_t *width, size_t n)
{
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(512, width[0]), "x");
    for (size_t i = 0; i + 1 < n; i++) {
        char      name[] = {'w', (char)('a' + i), 0};
        ipu_value w      = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(width[i], width[i + 1]), NULL, name);
        x                = ipu_tanh(b, ipu_matmul(b, x, w));
    }
    ipu_model_output(m, x, "y");
    expect_ok(ipu_builder_status(b));
    expect_ok(ipu__model_number_stages(m));
    return m;
}

static void expect_cut(const int64_t *width, size_t n, uint32_t n_stages, const char *stages)
{
    ipu_model *m = widths(width, n);
    ipu_target target;
    expect_ok(ipu_target_find("gc200", 1, &target));
    expect_ok(ipu__model_cut(m, n_stages, &target));
    assert_int_equal(ipu_model_n_stages(m), n_stages);
    for (size_t i = 0; i < m->blocks.at[0].order.n; i++)
        assert_int_equal(m->ops.at[m->blocks.at[0].order.at[i]].stage.number, stages[i] - '0');
    ipu_model_destroy(m);
}

static void cuts_balance_time_then_bytes(void **state)
{
    (void)state;
    /* Four equal layers of two ops each. */
    expect_cut((int64_t[]){512, 512, 512, 512, 512}, 5, 2, "00001111");
    expect_cut((int64_t[]){512, 512, 512, 512, 512}, 5, 4, "00112233");
    /* One layer as slow as the others together. */
    expect_cut((int64_t[]){2048, 2048, 256, 256, 256}, 5, 2, "00111111");
    /* The second cut is between pairs of IPUs and has half the links: it is where 128 cross, not 1024. */
    expect_cut((int64_t[]){2048, 1024, 1024, 128, 256, 1024}, 6, 3, "0011112222");
}

/* Weights computed from constants, all of them at the start, in several steps; one is also an output. */
static void what_is_made_of_constants_is_where_it_is_used(void **state)
{
    (void)state;
    enum { LAYERS = 4, WIDE = 512 };
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_target   target;
    ipu_value    w[LAYERS], x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(WIDE, WIDE), "x");
    for (int i = 0; i < LAYERS; i++)
        w[i] = ipu_neg(b, ipu_expand(b, ipu_constant_value(b, IPU_FLOAT, IPU_SHAPE(1, 1), i),
                                     IPU_SHAPE(WIDE, WIDE)));
    for (int i = 0; i < LAYERS; i++) x = ipu_tanh(b, ipu_matmul(b, x, w[i]));
    ipu_model_output(m, x, "y");
    ipu_model_output(m, w[2], "w");
    expect_ok(ipu_builder_status(b));
    expect_ok(ipu__model_number_stages(m));
    for (size_t i = 0; i < LAYERS; i++) {
        uint32_t use = (uint32_t)(2 * LAYERS + 2 * i);
        assert_int_equal(m->ops.at[2 * i].stage.number, i == 2 ? 5 : use);
        assert_int_equal(m->ops.at[2 * i + 1].stage.number, i == 2 ? 5 : use);
        assert_int_equal(m->ops.at[use].stage.number, use);
    }
    expect_ok(ipu_target_find("gc200", 1, &target));
    expect_ok(ipu__model_cut(m, 2, &target));
    expect_ok(ipu__model_verify(m));
    ipu_model_destroy(m);
}

static void a_small_network_has_few_stages(void **state)
{
    (void)state;
    ipu_model *m = widths((int64_t[]){8, 8}, 2);
    ipu_target target;
    expect_ok(ipu_target_find("gc200", 1, &target));
    assert_int_equal(ipu__model_cut(m, 3, &target), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "3 stages of a network of 1 ops"));
    ipu_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_from_neighbour_to_neighbour_or_along_an_ipu),
        cmocka_unit_test(what_is_computed_again_is_not_kept),
        cmocka_unit_test(parts_are_models),
        cmocka_unit_test(what_cannot_be_cut_is_told),
        cmocka_unit_test(cuts_balance_time_then_bytes),
        cmocka_unit_test(what_is_made_of_constants_is_where_it_is_used),
        cmocka_unit_test(a_small_network_has_few_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Branches and loops: what is built, and the errors when parts do not fit together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"

typedef struct net {
    ipu_model   *m;
    ipu_builder *b;
    ipu_value    x, y, narrow, p;
} net;

static net new_net(void)
{
    net n;
    assert_int_equal(ipu_model_create(&n.m), IPU_OK);
    n.b      = ipu_model_builder(n.m);
    n.x      = ipu_model_input(n.m, IPU_FLOAT, IPU_SHAPE(4), "x");
    n.y      = ipu_model_input(n.m, IPU_FLOAT, IPU_SHAPE(4), "y");
    n.narrow = ipu_model_input(n.m, IPU_FLOAT, IPU_SHAPE(2), "narrow");
    n.p      = ipu_model_input(n.m, IPU_BOOL, IPU_SCALAR, "p");
    return n;
}

static ipu_value sum(const net *n, ipu_value x, ipu_value y)
{
    return ipu__emit1(n->b, "add", NULL, 0, IPU__IN(x, y));
}

static void assert_fails(net *n, const char *what)
{
    assert_int_equal(ipu_builder_status(n->b), IPU_INVALID);
    if (!strstr(ipu_builder_message(n->b), what))
        fail_msg("expected \"%s\" in \"%s\"", what, ipu_builder_message(n->b));
    if (!strstr(ipu_builder_message(n->b), "control_test.c:"))
        fail_msg("expected a line in \"%s\"", ipu_builder_message(n->b));
    ipu_model_destroy(n->m);
}

static void assert_whole(net *n)
{
    assert_string_equal(ipu_builder_message(n->b), "");
    if (ipu__model_verify(n->m) != IPU_OK) fail_msg("%s", ipu_message());
}

/* ---- what is built ---- */

static void a_branch_gives_what_either_side_yields(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value r[2];
    ipu_model_if(n.m, n.p);
    ipu_value inner = sum(&n, n.x, n.y);
    ipu_model_yield(n.m, (ipu_value[]){inner, n.narrow}, 2);
    ipu_model_else(n.m);
    ipu_model_yield(n.m, (ipu_value[]){n.x, n.narrow}, 2);
    ipu_model_end(n.m, r, 2);
    ipu_model_output(n.m, sum(&n, r[0], n.x), "r");
    assert_whole(&n);
    assert_int_equal(ipu_value_dim(r[0], 0), 4);
    assert_int_equal(ipu_value_dim(r[1], 0), 2);
    const ipu__model_op *op = &n.m->ops.at[n.m->blocks.at[0].order.at[0]];
    assert_int_equal(op->kind, IPU__MODEL_IF);
    assert_int_equal(op->in[0], n.p.id);
    assert_int_equal(n.m->blocks.at[op->body].order.n, 1);
    assert_int_equal(n.m->blocks.at[op->otherwise].order.n, 0);
    assert_int_equal(n.m->blocks.at[0].order.n, 2);
    ipu_model_destroy(n.m);
}

static void a_loop_carries_values_and_counts_turns(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value inside[2], index, after[2];
    ipu_model_loop(n.m, 10, n.p, (ipu_value[]){n.x, n.narrow}, 2, inside, &index);
    assert_int_equal(ipu_value_type(index), IPU_INT32);
    assert_int_equal(ipu_value_rank(index), 0);
    assert_int_equal(ipu_value_dim(inside[1], 0), 2);
    ipu_model_yield_while(n.m, n.p, (ipu_value[]){sum(&n, inside[0], n.y), inside[1]}, 2);
    ipu_model_end(n.m, after, 2);
    ipu_model_output(n.m, after[0], "r");
    assert_whole(&n);
    const ipu__model_op *op = &n.m->ops.at[0];
    assert_int_equal(op->kind, IPU__MODEL_LOOP);
    assert_int_equal(op->most, 10);
    assert_int_equal(n.m->blocks.at[op->body].go_on, n.p.id);
    ipu_model_destroy(n.m);
}

static void branches_and_loops_nest(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value inside, index, r, after;
    ipu_model_loop(n.m, 3, IPU_NO_VALUE, &n.x, 1, &inside, &index);
    ipu_model_if(n.m, n.p);
    ipu_value part = sum(&n, inside, n.y);
    ipu_model_yield(n.m, &part, 1);
    ipu_model_else(n.m);
    ipu_model_yield(n.m, &inside, 1);
    ipu_model_end(n.m, &r, 1);
    ipu_model_yield(n.m, &r, 1);
    ipu_model_end(n.m, &after, 1);
    ipu_model_output(n.m, after, "r");
    assert_whole(&n);
    assert_int_equal(n.m->blocks.at[0].order.n, 1);
    ipu_model_destroy(n.m);
}

/* ---- errors ---- */

static void a_condition_is_one_bool(void **state)
{
    (void)state;
    net n = new_net();
    ipu_model_if(n.m, n.x);
    assert_fails(&n, "ipu_model_if: the condition must be one bool, found \"x\" float[4]");
}

static void branches_yield_the_same_types(void **state)
{
    (void)state;
    net n = new_net();
    ipu_model_if(n.m, n.p);
    ipu_model_yield(n.m, &n.x, 1);
    ipu_model_else(n.m);
    ipu_model_yield(n.m, &n.narrow, 1);
    assert_fails(&n, "value 0 is \"narrow\" float[2]: expected type and shape of \"x\" float[4]");
}

static void branches_yield_as_many_values(void **state)
{
    (void)state;
    net n = new_net();
    ipu_model_if(n.m, n.p);
    ipu_model_yield(n.m, &n.x, 1);
    ipu_model_else(n.m);
    ipu_model_yield(n.m, (ipu_value[]){n.x, n.y}, 2);
    assert_fails(&n, "2 values: expected 1, as many as the first branch yields");
}

static void a_loop_yields_what_it_carries(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value inside, index;
    ipu_model_loop(n.m, 3, IPU_NO_VALUE, &n.x, 1, &inside, &index);
    ipu_model_yield(n.m, &n.narrow, 1);
    assert_fails(&n, "value 0 is \"narrow\" float[2]");
}

static void values_do_not_leave_their_block(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value r;
    ipu_model_if(n.m, n.p);
    ipu_value inner = ipu_named(n.b, sum(&n, n.x, n.y), "inner");
    ipu_model_yield(n.m, &inner, 1);
    ipu_model_else(n.m);
    ipu_model_yield(n.m, &n.x, 1);
    ipu_model_end(n.m, &r, 1);
    ipu_emit(n.b, "add", NULL, 0, (ipu_value[]){inner, r}, 2, &r, 1);
    assert_fails(&n, "\"inner\" float[4] was made in a branch or loop that has ended");
}

static void one_branch_does_not_see_the_other(void **state)
{
    (void)state;
    net n = new_net();
    ipu_model_if(n.m, n.p);
    ipu_value inner = ipu_named(n.b, sum(&n, n.x, n.y), "inner");
    ipu_model_yield(n.m, &inner, 1);
    ipu_model_else(n.m);
    ipu_model_yield(n.m, &inner, 1);
    assert_fails(&n, "\"inner\" float[4] was made in a branch or loop that has ended");
}

static void calls_come_in_order(void **state)
{
    (void)state;
    ipu_value r;
    net       n = new_net();
    ipu_model_else(n.m);
    assert_fails(&n, "ipu_model_else: there is no open branch");
    n = new_net();
    ipu_model_end(n.m, &r, 1);
    assert_fails(&n, "ipu_model_end: there is no open branch or loop");
    n = new_net();
    ipu_model_if(n.m, n.p);
    ipu_model_else(n.m);
    assert_fails(&n, "has not yielded");
    n = new_net();
    ipu_model_if(n.m, n.p);
    ipu_model_yield(n.m, &n.x, 1);
    ipu_model_end(n.m, &r, 1);
    assert_fails(&n, "has no other");
    n = new_net();
    ipu_model_if(n.m, n.p);
    ipu_model_yield(n.m, &n.x, 1);
    ipu_model_yield(n.m, &n.x, 1);
    assert_fails(&n, "has yielded already");
    n = new_net();
    ipu_model_if(n.m, n.p);
    ipu_model_yield_while(n.m, n.p, &n.x, 1);
    assert_fails(&n, "a branch does not repeat");
    n = new_net();
    ipu_model_loop(n.m, 2, IPU_NO_VALUE, &n.x, 1, &r, NULL);
    ipu_model_else(n.m);
    assert_fails(&n, "has no other branch");
}

static void turns_and_results_are_counted(void **state)
{
    (void)state;
    ipu_value r[2];
    net       n = new_net();
    ipu_model_loop(n.m, -1, IPU_NO_VALUE, &n.x, 1, r, NULL);
    assert_fails(&n, "-1 turns");
    n = new_net();
    ipu_model_loop(n.m, 1, IPU_NO_VALUE, &n.x, 1, r, NULL);
    ipu_model_yield(n.m, r, 1);
    ipu_model_end(n.m, r, 2);
    assert_fails(&n, "2 results: the loop (");
}

/* ---- verifying ---- */

/* A branch in a model, damaged in one way after another. */
static void verify_finds(void (*damage)(ipu_model *m, ipu__model_op *branch), const char *what)
{
    net       n = new_net();
    ipu_value r;
    ipu_model_if(n.m, n.p);
    ipu_value inner = sum(&n, n.x, n.y);
    ipu_model_yield(n.m, &inner, 1);
    ipu_model_else(n.m);
    ipu_model_yield(n.m, &n.x, 1);
    ipu_model_end(n.m, &r, 1);
    ipu_model_output(n.m, sum(&n, r, n.x), "r");
    assert_whole(&n);
    damage(n.m, &n.m->ops.at[0]);
    assert_int_equal(ipu__model_verify(n.m), IPU_INVALID);
    if (!strstr(ipu_message(), what)) fail_msg("expected \"%s\" in \"%s\"", what, ipu_message());
    ipu_model_destroy(n.m);
}

static void use_from_outside(ipu_model *m, ipu__model_op *branch)
{
    m->ops.at[m->blocks.at[0].order.at[1]].in[0] = m->blocks.at[branch->body].yields.at[0];
}

static void use_too_early(ipu_model *m, ipu__model_op *branch)
{
    uint32_t later = m->blocks.at[0].order.at[1];
    (void)branch;
    m->blocks.at[0].order.at[1] = m->blocks.at[0].order.at[0];
    m->blocks.at[0].order.at[0] = later;
}

static void change_shape(ipu_model *m, ipu__model_op *branch)
{
    m->base.values.at[branch->first_out].shape = IPU_SHAPE(5);
}

static void forget_op(ipu_model *m, ipu__model_op *branch)
{
    (void)branch;
    m->blocks.at[0].order.n--;
}

static void put_in_twice(ipu_model *m, ipu__model_op *branch)
{
    (void)branch;
    m->blocks.at[0].order.at[1] = m->blocks.at[0].order.at[0];
}

static void lose_yield(ipu_model *m, ipu__model_op *branch) { m->blocks.at[branch->body].yields.n = 0; }

static void use_nothing(ipu_model *m, ipu__model_op *branch)
{
    (void)branch;
    m->ops.at[m->blocks.at[0].order.at[1]].in[0] = 0;
}

static void use_what_is_not_there(ipu_model *m, ipu__model_op *branch)
{
    (void)branch;
    m->ops.at[m->blocks.at[0].order.at[1]].in[0] = 1000;
}

static void damage_is_found(void **state)
{
    (void)state;
    verify_finds(use_from_outside, "outside of its block");
    verify_finds(use_too_early, "used before it is defined");
    verify_finds(change_shape, "differs from what goes out");
    verify_finds(forget_op, "in no block");
    verify_finds(put_in_twice, "or twice");
    verify_finds(lose_yield, "another number of values");
    verify_finds(use_nothing, "is missing");
    verify_finds(use_what_is_not_there, "no such value");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_branch_gives_what_either_side_yields),
        cmocka_unit_test(a_loop_carries_values_and_counts_turns),
        cmocka_unit_test(branches_and_loops_nest),
        cmocka_unit_test(a_condition_is_one_bool),
        cmocka_unit_test(branches_yield_the_same_types),
        cmocka_unit_test(branches_yield_as_many_values),
        cmocka_unit_test(a_loop_yields_what_it_carries),
        cmocka_unit_test(values_do_not_leave_their_block),
        cmocka_unit_test(one_branch_does_not_see_the_other),
        cmocka_unit_test(calls_come_in_order),
        cmocka_unit_test(turns_and_results_are_counted),
        cmocka_unit_test(damage_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

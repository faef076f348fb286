/* Rewinding models: what is rebuilt equals what it would have been without the detour; inputs that become
 * constants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/op.h"
#include "ipu/text.h"
#include "model/evaluate.h"
#include "model/rewind.h"

typedef struct net {
    ipu_model   *m;
    ipu_builder *b;
    ipu_value    x, w, y;
} net;

static net begin(void)
{
    net n;
    assert_int_equal(ipu_model_create(&n.m), IPU_OK);
    n.b = ipu_model_builder(n.m);
    n.x = ipu_model_input(n.m, IPU_FLOAT, IPU_SHAPE(2), "x");
    n.w = ipu_model_parameter(n.m, IPU_FLOAT, IPU_SHAPE(2), (float[]){1, 2}, "w");
    n.y = ipu_mul(n.b, n.x, n.w);
    return n;
}

static char *text_of(ipu_model *m)
{
    char *text;
    if (ipu__model_verify(m) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_model_print(m, 0, NULL, &text) != IPU_OK) fail_msg("%s", ipu_message());
    return text;
}

/* A bit of everything, with an open loop in an open branch, ending in an error. */
static void detour(net *n, bool in_block)
{
    ipu_value yes   = ipu_constant_data(n->b, IPU_BOOL, IPU_SCALAR, (bool[]){true}), inside, turn;
    ipu_value drawn = in_block ? n->y : ipu_dropout(n->b, n->y, ipu_model_seed(n->m), 0.5);
    if (!in_block) {
        ipu_value s = ipu_model_state(n->m, IPU_FLOAT, IPU_SHAPE(2), NULL, "state");
        ipu_model_parameter(n->m, IPU_FLOAT, IPU_SHAPE(1), NULL, "another");
        ipu_model_input(n->m, IPU_FLOAT, IPU_SHAPE(1), "late");
        ipu_model_update(n->m, n->w, drawn);
        ipu_model_update(n->m, s, n->y);
        ipu_model_output(n->m, drawn, "out");
    }
    ipu_model_if(n->m, yes);
    ipu_model_loop(n->m, 3, IPU_NO_VALUE, &n->y, 1, &inside, &turn);
    ipu_add(n->b, inside, n->x);
    assert_string_equal(ipu_builder_message(n->b), "");
    ipu_reshape(n->b, inside, IPU_SHAPE(7));
    assert_int_equal(ipu_builder_status(n->b), IPU_INVALID);
}

static void finish(net *n)
{
    ipu_value t = ipu_dropout(n->b, n->y, ipu_model_seed(n->m), 0.25);
    ipu_value s = ipu_model_state(n->m, IPU_FLOAT, IPU_SHAPE(2), NULL, "state");
    ipu_model_update(n->m, s, t);
    ipu_model_update(n->m, n->w, n->y);
    ipu_model_output(n->m, t, "out");
    assert_string_equal(ipu_builder_message(n->b), "");
}

static void what_is_built_again_is_what_it_would_have_been(void **state)
{
    (void)state;
    net straight = begin(), back = begin();
    finish(&straight);
    ipu__model_mark mark = ipu__model_take_mark(back.m);
    for (int i = 0; i < 3; i++) {
        detour(&back, false);
        ipu__model_rewind(back.m, &mark);
    }
    finish(&back);
    char *a = text_of(straight.m), *b = text_of(back.m);
    assert_string_equal(a, b);
    ipu_free(a);
    ipu_free(b);
    ipu_model_destroy(straight.m);
    ipu_model_destroy(back.m);
}

static void a_block_that_was_open_stays_open(void **state)
{
    (void)state;
    char *texts[2];
    for (int turn = 0; turn < 2; turn++) {
        net       n = begin();
        ipu_value inside, index, after;
        ipu_model_loop(n.m, 5, IPU_NO_VALUE, &n.y, 1, &inside, &index);
        ipu_value       next = ipu_add(n.b, inside, n.x);
        ipu__model_mark mark = ipu__model_take_mark(n.m);
        if (turn == 1) {
            n.y = inside;
            detour(&n, true);
            ipu__model_rewind(n.m, &mark);
        }
        next = ipu_mul(n.b, next, n.x);
        ipu_model_yield(n.m, &next, 1);
        ipu_model_end(n.m, &after, 1);
        ipu_model_output(n.m, after, "out");
        assert_string_equal(ipu_builder_message(n.b), "");
        texts[turn] = text_of(n.m);
        ipu_model_destroy(n.m);
    }
    assert_string_equal(texts[0], texts[1]);
    for (int i = 0; i < 2; i++) ipu_free(texts[i]);
}

static void values_that_were_computed_are_forgotten(void **state)
{
    (void)state;
    net             n    = begin();
    ipu__evaluation e    = {.m = n.m};
    ipu__model_mark mark = ipu__model_take_mark(n.m);
    const float    *data;
    for (int i = 0; i < 3; i++) {
        ipu_value k = ipu_constant_value(n.b, IPU_FLOAT, IPU_SHAPE(2), i);
        ipu_value v = i == 1 ? ipu_add(n.b, k, n.x) : ipu_add(n.b, k, k);
        assert_int_equal(ipu__evaluate(&e, v.id, (const void **)&data), IPU_OK);
        if (i == 1)
            assert_null(data);
        else
            assert_true(data && data[1] == (float)(2 * i));
        assert_int_equal(ipu__evaluation_has(&e, v.id), i != 1);
        ipu__evaluation_rewind(&e, mark.n_values);
        ipu__model_rewind(n.m, &mark);
    }
    ipu__evaluation_fini(&e);
    ipu_model_destroy(n.m);
}

static void an_input_that_is_fixed_is_a_constant_and_leaves_its_name(void **state)
{
    (void)state;
    net             n     = begin();
    ipu__evaluation e     = {.m = n.m};
    const ipu_array known = {IPU_FLOAT, IPU_SHAPE(2), (float[]){3, 4}};
    ipu_value    late = ipu_model_input(n.m, IPU_FLOAT, IPU_SHAPE(2), "late"), v = ipu_add(n.b, late, late);
    const float *data;
    assert_int_equal(ipu__evaluate(&e, v.id, (const void **)&data), IPU_OK);
    assert_null(data);
    assert_int_equal(ipu__model_fix_input(n.m, late.id, &known), IPU_OK);
    ipu__model_drop_fixed_inputs(n.m);
    ipu__evaluation_retry(&e);
    assert_int_equal(ipu__evaluate(&e, v.id, (const void **)&data), IPU_OK);
    assert_true(data && data[0] == 6 && data[1] == 8);
    assert_int_equal(ipu_model_n_inputs(n.m), 1);
    assert_int_equal(ipu_model_input_at(n.m, 0).id, n.x.id);
    ipu_model_output(n.m, v, "late");
    assert_string_equal(ipu_builder_message(n.b), "");
    assert_int_equal(ipu__model_verify(n.m), IPU_OK);
    ipu__evaluation_fini(&e);
    ipu_model_destroy(n.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_built_again_is_what_it_would_have_been),
        cmocka_unit_test(a_block_that_was_open_stays_open),
        cmocka_unit_test(values_that_were_computed_are_forgotten),
        cmocka_unit_test(an_input_that_is_fixed_is_a_constant_and_leaves_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

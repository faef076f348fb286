/* The rules of gradients, on ops made for the test: which are called, for what, and the errors if they
 * cannot. Values are compared in tests/model/model_gradients_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/op.h"
#include "model/model.h"

/* ---- the test's own ops: out has the type and shape of x ---- */

static struct {
    int  calls;
    bool wanted[2];
} seen;

static ipu_status infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    *out = call->operand[0];
    return IPU_OK;
}

static void ref(const ipu__kernel_call *call, void *const *operand) { (void)call, (void)operand; }

static const ipu__kernel_operand operands[] = {IPU__INPUT("x"), IPU__INPUT("y"), IPU__OUTPUT("z")};

#define OWN(n) \
    .kernel = {.name = (n), .operands = operands, .n_operands = 3, .ref = ref}, .n_in = 2, .infer = infer

static ipu_value emit_own(ipu_builder *b, const ipu__op_def *op, ipu_value x, ipu_value y)
{
    ipu__kernel_value type = {ipu_value_type(x), ipu_value_shape(x)};
    ipu__kernel_call  call = {.def = &op->kernel, .n_operands = 3, .operand = {type, type, type}};
    ipu_value         out  = {b, 0};
    if (ipu_builder_status(b) == IPU_OK)
        assert_int_equal(b->class->emit(b, op, &call, (ipu_value[]){x, y}, &out), IPU_OK);
    return out;
}

static const ipu__op_def without = {OWN("without")};

static void note_grad(ipu__gradient *g)
{
    seen.calls++;
    for (int i = 0; i < 2; i++) {
        seen.wanted[i] = g->wanted[i];
        g->d_in[i]     = g->d_out[0]; /* giving more than requested is harmless */
    }
}
static const ipu__op_def noting = {OWN("noting"), .grad = note_grad};

static void              silent_grad(ipu__gradient *g) { (void)g; }
static const ipu__op_def silent = {OWN("silent"), .grad = silent_grad};

static void wrong_grad(ipu__gradient *g)
{
    g->d_in[0] = ipu_constant_value(g->b, IPU_FLOAT, IPU_SHAPE(7), 0);
}
static const ipu__op_def wrong = {OWN("wrong"), .grad = wrong_grad};

/* x y, whose gradient is an op that has none itself. */
static void once_grad(ipu__gradient *g)
{
    for (int i = 0; i < 2; i++)
        if (g->wanted[i]) g->d_in[i] = emit_own(g->b, &without, g->d_out[0], g->in[1 - i]);
}
static void once_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    (void)call;
    out[0] = ipu_mul(b, in[0], in[1]);
}
static const ipu__op_def once = {OWN("once"), .grad = once_grad, .compose = once_compose,
                                 .flags = IPU__OP_GRAD_ONCE};

/* ---- the rules ---- */

typedef struct net {
    ipu_model   *m;
    ipu_builder *b;
    ipu_value    x, w;
} net;

static net new_net(void)
{
    net n = {0};
    assert_int_equal(ipu_model_create(&n.m), IPU_OK);
    n.b        = ipu_model_builder(n.m);
    n.x        = ipu_model_input(n.m, IPU_FLOAT, IPU_SCALAR, "x");
    n.w        = ipu_model_input(n.m, IPU_FLOAT, IPU_SCALAR, "w");
    seen.calls = 0;
    return n;
}

static void end(net *n)
{
    if (ipu_builder_status(n->b) != IPU_OK) fail_msg("%s", ipu_builder_message(n->b));
    ipu_model_destroy(n->m);
}

static void end_saying(net *n, const char *what)
{
    if (!strstr(ipu_builder_message(n->b), what))
        fail_msg("expected \"%s\" in \"%s\"", what, ipu_builder_message(n->b));
    ipu_model_destroy(n->m);
}

static size_t count(const ipu_model *m, const ipu__op_def *op)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ops.n; i++) n += m->ops.at[i].def == op;
    return n;
}

static void only_what_leads_to_an_x_is_asked_for(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value d;
    ipu_value y = emit_own(n.b, &noting, n.x, ipu_tanh(n.b, n.w));
    ipu_model_gradients(n.m, y, &n.x, 1, NULL, &d);
    assert_true(seen.wanted[0] && !seen.wanted[1]);
    assert_int_equal(seen.calls, 1);
    assert_int_equal(n.m->ops.n, 2); /* nothing emitted for w */
    end(&n);
}

static void ops_that_y_does_not_need_are_not_asked(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value d;
    ipu_value y = ipu_mul(n.b, n.x, n.x);
    emit_own(n.b, &noting, y, n.x);
    ipu_model_gradients(n.m, y, &n.x, 1, NULL, &d);
    assert_int_equal(seen.calls, 0);
    end(&n);
}

static void an_op_with_many_uses_is_asked_once(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value d;
    ipu_value h = emit_own(n.b, &noting, n.x, n.w), y = h;
    for (int i = 0; i < 5; i++) y = ipu_add(n.b, y, h);
    ipu_model_gradients(n.m, y, &n.x, 1, NULL, &d);
    assert_int_equal(seen.calls, 1);
    end(&n);
}

static void gradient_ops_have_the_line_and_name_of_what_they_are_of(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value d;
    int       line   = __LINE__ + 1;
    ipu_value y      = ipu_named(n.b, ipu_tanh(n.b, n.x), "h");
    size_t    before = n.m->ops.n;
    ipu_model_gradients(n.m, ipu_mul(n.b, y, n.w), &n.x, 1, NULL, &d);
    size_t last = n.m->ops.n - 1; /* of tanh, which comes first and so is processed last */
    assert_true(last > before);
    assert_int_equal(n.m->locations.at[n.m->ops.at[last].location].line, line);
    assert_string_equal(ipu_value_name(d), "grad/x");
    bool named = false;
    for (size_t i = 1; i < n.m->base.values.n; i++) named |= !strcmp(n.m->base.values.at[i].name, "grad/h");
    assert_true(named);
    end(&n);
}

static void an_op_that_is_taken_apart_has_second_derivatives(void **state)
{
    (void)state;
    ipu_gradient_options higher = {.higher_order = true};
    net                  n      = new_net();
    ipu_value            d, y = emit_own(n.b, &once, n.x, n.x);
    ipu_model_gradients(n.m, y, &n.x, 1, NULL, &d);
    assert_int_equal(count(n.m, &without), 2);
    ipu_model_gradients(n.m, d, &n.x, 1, NULL, &d);
    end_saying(&n, "op without (y = \"x\" float[] to value 6");

    n = new_net();
    y = emit_own(n.b, &once, n.x, n.x);
    ipu_model_gradients(n.m, y, &n.x, 1, &higher, &d);
    assert_int_equal(count(n.m, &without), 0);
    ipu_model_gradients(n.m, d, &n.x, 1, NULL, &d);
    end(&n);
}

/* ---- errors ---- */

static void an_op_without_a_gradient_is_named_with_its_line(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value d;
    char      where[64];
    ipu_enter("net.c", 12);
    ipu_value y = emit_own(n.b, &without, n.x, n.w);
    ipu_leave();
    ipu_named(n.b, y, "strange");
    ipu_model_gradients(n.m, ipu_mul(n.b, y, y), &n.w, 1, NULL, &d);
    snprintf(where, sizeof where, "net.c:12: ");
    assert_non_null(strstr(ipu_builder_message(n.b), where));
    assert_int_equal(d.id, 0);
    end_saying(&n, "op without (y = \"w\" float[] to \"strange\" float[]) has no gradient");
}

static void a_path_around_an_op_without_a_gradient_is_no_error(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value d;
    ipu_value y = ipu_mul(n.b, emit_own(n.b, &without, n.w, n.w), n.x);
    ipu_model_gradients(n.m, y, &n.x, 1, NULL, &d);
    end(&n);
}

static void an_op_that_gives_no_gradient_is_where_the_path_ends(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value d;
    ipu_enter("net.c", 34);
    ipu_value y = emit_own(n.b, &silent, ipu_mul(n.b, n.x, n.x), n.w);
    ipu_leave();
    ipu_model_gradients(n.m, ipu_mul(n.b, y, y), &n.x, 1, NULL, &d);
    end_saying(&n, "the path ends at net.c:34: silent");
}

static void an_unused_x_is_null_if_allowed(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value d[2];
    ipu_model_gradients(n.m, ipu_mul(n.b, n.x, n.x), (ipu_value[]){n.x, n.w}, 2,
                        &(ipu_gradient_options){.allow_unused = true}, d);
    assert_true(d[0].id != 0 && d[1].id == 0);
    end(&n);
}

static void a_gradient_of_the_wrong_shape_is_the_ops_error(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value d;
    ipu_model_gradients(n.m, emit_own(n.b, &wrong, n.x, n.w), &n.x, 1, NULL, &d);
    end_saying(&n, "op wrong gives value 5 float[7] as the gradient of its input x, \"x\" float[]");
}

static void what_an_open_loop_carries_is_constant(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value inside, d;
    ipu_model_loop(n.m, 3, IPU_NO_VALUE, &n.x, 1, &inside, NULL);
    ipu_value y = ipu_mul(n.b, inside, n.w);
    ipu_model_gradients(n.m, y, (ipu_value[]){n.w}, 1, NULL, &d);
    assert_true(d.id != 0);
    ipu_model_gradients(n.m, y, &n.x, 1, NULL, &d);
    end_saying(&n, "what an open loop carries counts as constant");
}

static void values_of_ended_branches_have_no_gradient(void **state)
{
    (void)state;
    net       n = new_net();
    ipu_value p = ipu_model_input(n.m, IPU_BOOL, IPU_SCALAR, "p"), r, d;
    ipu_model_if(n.m, p);
    ipu_value inner = ipu_named(n.b, ipu_mul(n.b, n.x, n.x), "inner");
    ipu_model_yield(n.m, &inner, 1);
    ipu_model_else(n.m);
    ipu_model_yield(n.m, &n.x, 1);
    ipu_model_end(n.m, &r, 1);
    ipu_model_gradients(n.m, r, &inner, 1, NULL, &d);
    end_saying(&n, "\"inner\" float[] was made in a branch or loop that has ended");
}

static void values_of_another_model_are_refused(void **state)
{
    (void)state;
    net       n = new_net(), other = new_net();
    ipu_value d;
    ipu_model_gradients(n.m, n.x, &other.x, 1, NULL, &d);
    end_saying(&n, "belongs to another builder");
    end(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_leads_to_an_x_is_asked_for),
        cmocka_unit_test(ops_that_y_does_not_need_are_not_asked),
        cmocka_unit_test(an_op_with_many_uses_is_asked_once),
        cmocka_unit_test(gradient_ops_have_the_line_and_name_of_what_they_are_of),
        cmocka_unit_test(an_op_that_is_taken_apart_has_second_derivatives),
        cmocka_unit_test(an_op_without_a_gradient_is_named_with_its_line),
        cmocka_unit_test(a_path_around_an_op_without_a_gradient_is_no_error),
        cmocka_unit_test(an_op_that_gives_no_gradient_is_where_the_path_ends),
        cmocka_unit_test(an_unused_x_is_null_if_allowed),
        cmocka_unit_test(a_gradient_of_the_wrong_shape_is_the_ops_error),
        cmocka_unit_test(what_an_open_loop_carries_is_constant),
        cmocka_unit_test(values_of_ended_branches_have_no_gradient),
        cmocka_unit_test(values_of_another_model_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

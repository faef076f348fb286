/* Every use of every op, in half and rounded at random, with its gradient: models stay whole, and compile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"
#include "model/precision/precision.h"
#include "sample.h"

static bool too_large(const sample *s)
{
    for (int i = 0; i < s->op->n_in; i++)
        if (s->present[i] && ipu__op_n_elements(&s->call.operand[i].shape) > 4096) return true;
    return false;
}

/* Inputs of the sample: floats behind a product, so that there are halves for the op to follow. */
static void make_inputs(ipu_model *m, const sample *s, bool as_halves, ipu_value *in)
{
    for (int i = 0; i < s->op->n_in; i++) {
        char name[16];
        snprintf(name, sizeof name, "in%d", i);
        in[i] = IPU_NO_VALUE;
        if (!s->present[i]) continue;
        in[i] = ipu_model_input(m, s->call.operand[i].type, s->call.operand[i].shape, name);
        if (s->call.operand[i].type != IPU_FLOAT || !as_halves) continue;
        ipu_value half = ipu_cast(&m->base, in[i], IPU_HALF);
        if (i == 0) in[i] = ipu_cast(&m->base, half, IPU_FLOAT);
    }
}

static ipu_status gradients(ipu_model *m, const sample *s, ipu_value y)
{
    ipu_value x = {&m->base, 0}, dx;
    for (size_t i = 0; i < m->inputs.n && !x.id; i++)
        if (ipu_value_type(ipu_model_input_at(m, i)) == IPU_FLOAT) x = ipu_model_input_at(m, i);
    bool has = s->op->grad || s->op->compose;
    if (!x.id || !has || !ipu__op_is_floating(ipu_value_type(y))) return IPU_OK;
    ipu_value d_y = ipu_constant_value(&m->base, ipu_value_type(y), ipu_value_shape(y), 1);
    ipu_model_gradients(m, y, &x, 1, &(ipu_gradient_options){.d_y = d_y, .allow_unused = true}, &dx);
    if (dx.id) ipu_model_output(m, dx, "dx");
    return m->base.status;
}

static void check(const sample *s, bool as_halves)
{
    ipu_model      *m;
    ipu_value       in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS];
    ipu_executable *exe;
    ipu_target      target;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    make_inputs(m, s, as_halves, in);
    ipu_emit(&m->base, s->op->kernel.name, s->attributes, s->call.n_attributes, in, (size_t)s->op->n_in, out,
             (size_t)ipu__op_n_out(s->op));
    ipu_type type = ipu_value_type(out[0]);
    ipu_model_output(m, out[0], "y");
    ipu_status status = m->base.status;
    if (status == IPU_OK) status = ipu__model_to_half(m, true);
    if (status == IPU_OK) status = ipu__model_verify(m);
    if (status == IPU_OK) status = ipu__model_round_at_random(m);
    if (status == IPU_OK) status = ipu__model_verify(m);
    if (status == IPU_OK && type != ipu_value_type(ipu_model_output_at(m, 0, NULL)))
        fail_msg("%s %s: an output has another type", s->op->kernel.name, s->text);
    if (status == IPU_OK) status = gradients(m, s, ipu_model_output_at(m, 0, NULL));
    if (status == IPU_OK) status = ipu__model_round_at_random(m);
    if (status == IPU_OK) status = ipu__model_half_partials(m);
    if (status == IPU_OK) status = ipu__model_verify(m);
    if (status == IPU_OK) status = ipu_model_compile(m, &target, NULL, &exe);
    if (status == IPU_OK) ipu_executable_release(exe);
    /* Not of all ops, nor of those that took others in. */
    bool no_gradient = status == IPU_UNSUPPORTED
                    && (strstr(ipu_builder_message(&m->base), "has no gradient")
                        || strstr(ipu_builder_message(&m->base), "take gradients before ops are fused"));
    if (status != IPU_OK && !no_gradient)
        fail_msg("%s %s: %s%s", s->op->kernel.name, s->text, ipu_message(), ipu_builder_message(&m->base));
    ipu_model_destroy(m);
}

static void every_op_goes_into_half(void **state)
{
    (void)state;
    int n = 0;
    for (size_t i = 0; ipu__ops[i]; i++)
        for (const char *const *text = ipu__ops[i]->samples; text && *text; text++) {
            static sample s;
            char          error[SAMPLE_ERROR];
            if (!sample_parse(&s, ipu__ops[i], *text, error)) fail_msg("%s", error);
            if (too_large(&s)) continue;
            check(&s, false);
            check(&s, true);
            n++;
        }
    assert_true(n > 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_op_goes_into_half)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

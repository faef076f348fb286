/* The list of optimizers, against their ops and what training makes of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

static void every_kind_is_found_by_its_name(void **state)
{
    (void)state;
    int                          n = 0;
    const ipu_nn_optimizer_info *info;
    for (; (info = ipu_nn_optimizer_kind_info((ipu_nn_optimizer_kind)n)); n++) {
        ipu_nn_optimizer_kind found;
        OK(ipu_nn_optimizer_kind_find(info->name, &found));
        assert_int_equal(found, n);
        assert_string_equal(ipu_nn_optimizer_kind_name(found), info->name);
        assert_true(info->summary[0] && info->rate > 0 && info->momentum < 1);
    }
    assert_int_equal(n, IPU_NN_ADADELTA + 1);
    assert_null(ipu_nn_optimizer_kind_name((ipu_nn_optimizer_kind)n));
    assert_null(ipu_nn_optimizer_kind_name((ipu_nn_optimizer_kind)-1));
}

static void names_that_are_none_are_told_of(void **state)
{
    (void)state;
    ipu_nn_optimizer_kind kind;
    assert_int_equal(ipu_nn_optimizer_kind_find("sgdd", &kind), IPU_NOT_FOUND);
    assert_string_equal(
        ipu_message(),
        "no optimizer \"sgdd\"; there are: sgd, adam, adamw, adamax, rmsprop, adagrad, lamb, adadelta");
    assert_int_equal(ipu_nn_optimizer_kind_find(NULL, &kind), IPU_NOT_FOUND);
}

static bool has_attribute(const ipu_op_info *op, const char *name)
{
    for (size_t i = 0; i < op->n_attributes; i++)
        if (strcmp(op->attributes[i].name, name) == 0) return true;
    return false;
}

/* "sum" is "sum", "max_square" is "max_square?". */
static bool is_input(const char *input, const char *state)
{
    size_t n = strlen(state);
    return strncmp(input, state, n) == 0 && (!input[n] || strcmp(input + n, "?") == 0);
}

static void states_are_the_last_inputs_of_the_op(void **state)
{
    (void)state;
    const ipu_nn_optimizer_info *info;
    for (int kind = 0; (info = ipu_nn_optimizer_kind_info((ipu_nn_optimizer_kind)kind)); kind++) {
        ipu_op_info op;
        size_t      n = 0, n_states = 0;
        OK(ipu_op_info_find(info->name, &op));
        assert_string_equal(op.family, "optimizer");
        assert_true(has_attribute(&op, "weight_decay"));
        while (op.inputs[n]) n++;
        while (n_states < 3 && info->states[n_states]) n_states++;
        assert_true(n_states > 0 && n_states <= n);
        for (size_t i = 0; i < n_states; i++)
            if (!is_input(op.inputs[n - n_states + i], info->states[i]))
                fail_msg("%s: state %zu is \"%s\", the op has \"%s\"", info->name, i, info->states[i],
                         op.inputs[n - n_states + i]);
        const char *before = op.inputs[n - n_states - 1];
        assert_true(strcmp(before, "rate") == 0 || strncmp(before, "step", 4) == 0);
    }
}

/* With all options that require states. */
static ipu_engine *train(ipu_nn_optimizer_kind kind)
{
    ipu_model      *m;
    ipu_target      target;
    ipu_executable *exe;
    ipu_engine     *e;
    OK(ipu_model_create(&m));
    ipu_value w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(2), (float[]){3, 4}, "w");
    ipu_nn_train(
        m, ipu_reduce_sum(ipu_model_builder(m), w, NULL, 0, false),
        (ipu_nn_optimizer){.kind = kind, .rate = 0.1, .momentum = 0.5, .centered = true, .amsgrad = true});
    OK(ipu_target_find("gc200", 1, &target));
    OK(ipu_model_compile(m, &target, NULL, &exe));
    OK(ipu_engine_create(exe, NULL, &e));
    ipu_executable_release(exe);
    ipu_model_destroy(m);
    return e;
}

static void a_training_has_these_states(void **state)
{
    (void)state;
    const ipu_nn_optimizer_info *info;
    for (int kind = 0; (info = ipu_nn_optimizer_kind_info((ipu_nn_optimizer_kind)kind)); kind++) {
        ipu_engine *e = train((ipu_nn_optimizer_kind)kind);
        OK(ipu_engine_run(e, 0));
        for (int i = 0; i < 3 && info->states[i]; i++) {
            char  name[32];
            float value[2];
            snprintf(name, sizeof name, "w.%s", info->states[i]);
            OK(ipu_engine_read(e, name, value, sizeof value));
            if (!(value[0] != 0)) fail_msg("%s: %s is still 0", info->name, name);
        }
        ipu_engine_destroy(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_found_by_its_name),
        cmocka_unit_test(names_that_are_none_are_told_of),
        cmocka_unit_test(states_are_the_last_inputs_of_the_op),
        cmocka_unit_test(a_training_has_these_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Training with groups of parameters, several losses and clipped gradients, against steps worked out by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

/* Parameters a = {3, 4} and b = {1}; the losses are sum(a) * k and 5 * b, whose gradients are {k, k} and {5}. */
static ipu_model *two_losses(double k)
{
    ipu_model *m;
    OK(ipu_model_create(&m));
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    p = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(2), (float[]){3, 4}, "first.a");
    ipu_value    q = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(1), (float[]){1}, "second.b");
    ipu_value    s = ipu_reduce_sum(b, p, NULL, 0, false);
    ipu_nn_loss(m, ipu_mul(b, s, ipu_scalar_like(b, s, k)), "one");
    ipu_nn_loss(m, ipu_mul(b, q, ipu_scalar_like(b, q, 5)), "two");
    return m;
}

/* The result of one step; destroys the model. */
static void step(ipu_model *m, const ipu_nn_training *how, float a[2], float *b)
{
    ipu_target      target;
    ipu_executable *exe;
    ipu_engine     *e;
    ipu_nn_train_with(m, how);
    OK(ipu_target_find("gc200", 1, &target));
    OK(ipu_model_compile(m, &target, NULL, &exe));
    OK(ipu_engine_create(exe, NULL, &e));
    OK(ipu_engine_run(e, 0));
    OK(ipu_engine_read(e, "first.a", a, 2 * sizeof *a));
    OK(ipu_engine_read(e, "second.b", b, sizeof *b));
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_model_destroy(m);
}

#define ASSERT_NEAR(found, expected) assert_true(fabs((double)(found) - (expected)) < 1e-5)

static void all_losses_are_trained_for(void **state)
{
    (void)state;
    float a[2], b;
    step(two_losses(2), &(ipu_nn_training){.optimizer = {.rate = 0.1}}, a, &b);
    ASSERT_NEAR(a[0], 3 - 0.2);
    ASSERT_NEAR(a[1], 4 - 0.2);
    ASSERT_NEAR(b, 1 - 0.5);
}

static void groups_have_optimizers_of_their_own(void **state)
{
    (void)state;
    float              a[2], b;
    const ipu_nn_group groups[] = {{"second.* other", {.kind = IPU_NN_ADAM, .rate = 0.01}, false}};
    ipu_model         *m        = two_losses(2);
    ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(1), NULL, "other");
    step(m, &(ipu_nn_training){.optimizer = {.rate = 0.1}, .groups = groups, .n_groups = 1}, a, &b);
    ASSERT_NEAR(a[0], 2.8);
    ASSERT_NEAR(b, 1 - 0.01);
}

static void frozen_parameters_keep_their_values(void **state)
{
    (void)state;
    float              a[2], b;
    const ipu_nn_group groups[] = {{"first.*", {0}, true}, {"*", {.rate = 1}, false}};
    step(two_losses(2), &(ipu_nn_training){.optimizer = {.rate = 0.1}, .groups = groups, .n_groups = 2}, a,
         &b);
    assert_true(a[0] == 3 && a[1] == 4);
    ASSERT_NEAR(b, -4);
}

static void gradients_are_clipped(void **state)
{
    (void)state;
    float a[2], b;
    /* {2, 2, 5}: the norm is sqrt(33) */
    step(two_losses(2), &(ipu_nn_training){.optimizer = {.rate = 1}, .max_gradient_norm = 1}, a, &b);
    ASSERT_NEAR(a[0], 3 - 2 / sqrt(33));
    ASSERT_NEAR(b, 1 - 5 / sqrt(33));
    step(two_losses(2), &(ipu_nn_training){.optimizer = {.rate = 1}, .max_gradient_norm = 100}, a, &b);
    ASSERT_NEAR(a[0], 1);
    ASSERT_NEAR(b, -4);
    step(two_losses(2), &(ipu_nn_training){.optimizer = {.rate = 1}, .max_gradient = 3}, a, &b);
    ASSERT_NEAR(a[0], 1);
    ASSERT_NEAR(b, -2);
    /* Scaling the loss changes nothing, even with clipping. */
    step(two_losses(2), &(ipu_nn_training){.optimizer = {.rate = 1}, .max_gradient = 3, .loss_scale = 1024},
         a, &b);
    ASSERT_NEAR(a[0], 1);
    ASSERT_NEAR(b, -2);
}

/* a = {3, 4} is cut off at 3.5, like weights that the network keeps in bounds; then the step. */
static void steps_begin_where_the_network_put_a_parameter(void **state)
{
    (void)state;
    float        a[2], q;
    ipu_model   *m = two_losses(2);
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    p = ipu_model_parameter_at(m, 0);
    ipu_model_update(m, p, ipu_clip(b, p, 0, 3.5));
    step(m, &(ipu_nn_training){.optimizer = {.rate = 0.1, .momentum = 0.9}}, a, &q);
    ASSERT_NEAR(a[0], 3 - 0.2);
    ASSERT_NEAR(a[1], 3.5 - 0.2);
    ASSERT_NEAR(q, 0.5);
}

/* One step of one optimizer, with gradients {2, 2} and {5}. */
static void step_by(ipu_nn_optimizer how, float a[2], float *b)
{
    step(two_losses(2), &(ipu_nn_training){.optimizer = how}, a, b);
}

static void losses_can_be_made_larger(void **state)
{
    (void)state;
    float a[2], b;
    step_by((ipu_nn_optimizer){.rate = 0.1, .weight_decay = 0.5, .maximize = true}, a, &b);
    ASSERT_NEAR(a[0], 3 - 0.1 * (-2 + 1.5));
    ASSERT_NEAR(b, 1 - 0.1 * (-5 + 0.5));
}

static void negative_betas_are_zero(void **state)
{
    (void)state;
    float            a[2], b;
    ipu_nn_optimizer how = {.kind = IPU_NN_ADAM, .rate = 0.1, .beta1 = -1, .beta2 = -1, .epsilon = 1};
    step_by(how, a, &b);
    ASSERT_NEAR(a[0], 3 - 0.1 * 2 / (2 + 1));
    ASSERT_NEAR(b, 1 - 0.1 * 5 / (5 + 1));
    how.epsilon = -1;
    step_by(how, a, &b);
    ASSERT_NEAR(a[1], 4 - 0.1);
    step_by((ipu_nn_optimizer){.rate = 0.1, .momentum = -1}, a, &b);
    ASSERT_NEAR(b, 1 - 0.5);
}

static void means_can_stay_uncorrected(void **state)
{
    (void)state;
    float            a[2], b;
    ipu_nn_optimizer how = {
        .kind = IPU_NN_ADAMW, .rate = 0.1, .beta1 = 0.9, .beta2 = 0.75, .no_bias_correction = true};
    step_by(how, a, &b);
    ASSERT_NEAR(a[0], 3 - 0.1 * (0.1 * 2) / sqrt(0.25 * 4));
    ASSERT_NEAR(b, 1 - 0.1 * (0.1 * 5) / sqrt(0.25 * 25));
}

/* The direction of LAMB's first step is {1, 1} and {1}; without bias correction, with these betas, 0.1 / 0.5
 * of that. */
static void lamb_takes_norms_up_to_the_largest(void **state)
{
    (void)state;
    float            a[2], b;
    ipu_nn_optimizer how = {.kind = IPU_NN_LAMB, .rate = 0.1, .epsilon = -1};
    step_by(how, a, &b);
    ASSERT_NEAR(a[0], 3 - 0.1 * 5 / sqrt(2));
    ASSERT_NEAR(b, 1 - 0.1);
    how.max_weight_norm = 2;
    step_by(how, a, &b);
    ASSERT_NEAR(a[0], 3 - 0.1 * 2 / sqrt(2));
    ASSERT_NEAR(b, 1 - 0.1);
    how.beta2              = 0.75;
    how.weight_decay       = 0.1;
    how.no_bias_correction = true;
    double d[2] = {0.2 + 0.3, 0.2 + 0.4}, size = sqrt(d[0] * d[0] + d[1] * d[1]);
    step_by(how, a, &b);
    ASSERT_NEAR(a[0], 3 - 0.1 * 2 / size * d[0]);
    ASSERT_NEAR(a[1], 4 - 0.1 * 2 / size * d[1]);
}

/* Its mean of squares starts at one. */
static void rmsprop_can_be_that_of_tensorflow(void **state)
{
    (void)state;
    float            a[2], b;
    ipu_nn_optimizer how = {
        .kind = IPU_NN_RMSPROP, .rate = 0.1, .alpha = 0.75, .epsilon = 0.5, .tensorflow = true};
    step_by(how, a, &b);
    ASSERT_NEAR(a[0], 3 - 0.1 * 2 / sqrt(0.75 + 0.25 * 4 + 0.5));
    ASSERT_NEAR(b, 1 - 0.1 * 5 / sqrt(0.75 + 0.25 * 25 + 0.5));
    how.momentum = 0.9;
    how.centered = true;
    step_by(how, a, &b);
    ASSERT_NEAR(b, 1 - 0.1 * 5 / sqrt(0.75 + 0.25 * 25 - 1.25 * 1.25 + 0.5));
}

static void adadelta_moves_by_past_changes(void **state)
{
    (void)state;
    float            a[2], b;
    ipu_nn_optimizer how = {.kind = IPU_NN_ADADELTA, .rate = 1, .alpha = 0.75, .epsilon = 0.5};
    step_by(how, a, &b);
    ASSERT_NEAR(a[0], 3 - 2 * sqrt(0.5 / (0.25 * 4 + 0.5)));
    ASSERT_NEAR(b, 1 - 5 * sqrt(0.5 / (0.25 * 25 + 0.5)));
    how.alpha = -1;
    step_by(how, a, &b);
    ASSERT_NEAR(a[1], 4 - 2 * sqrt(0.5 / (4 + 0.5)));
    how.alpha = how.epsilon = 0; /* 0.9, 1e-6 */
    step_by(how, a, &b);
    ASSERT_NEAR(b, 1 - 5 * sqrt(1e-6 / (0.1 * 25 + 1e-6)));
}

/* Gradients do not depend on parameters here, so a first step with decay is one without it, minus the
 * decay. */
static void every_optimizer_can_decay_past_its_gradient(void **state)
{
    (void)state;
    for (int kind = 0; ipu_nn_optimizer_kind_info((ipu_nn_optimizer_kind)kind); kind++) {
        float            plain[2], found[2], usual[2], b;
        ipu_nn_optimizer how = {.kind = (ipu_nn_optimizer_kind)kind, .rate = 0.1, .epsilon = 0.5};
        step_by(how, plain, &b);
        how.weight_decay = 0.5;
        step_by(how, usual, &b);
        how.decay = IPU_DECAY_DECOUPLED;
        step_by(how, found, &b);
        for (int i = 0; i < 2; i++) {
            double expected = (double)plain[i] - 0.1 * 0.5 * (3 + i);
            if (kind == IPU_NN_LAMB) expected = (double)usual[i];
            if (!(fabs((double)found[i] - expected) < 1e-5))
                fail_msg("%s: %g, expected %g", ipu_nn_optimizer_kind_name(how.kind), (double)found[i],
                         expected);
        }
        assert_true((found[0] == usual[0]) == (kind == IPU_NN_ADAMW || kind == IPU_NN_LAMB));
    }
}

static void every_optimizer_can_decay_through_its_gradient(void **state)
{
    (void)state;
    for (int kind = 0; ipu_nn_optimizer_kind_info((ipu_nn_optimizer_kind)kind); kind++) {
        float            a[2], usual[2], b;
        ipu_nn_optimizer how = {
            .kind = (ipu_nn_optimizer_kind)kind, .rate = 0.1, .epsilon = 0.5, .weight_decay = 0.5};
        step_by(how, usual, &b);
        how.decay = IPU_DECAY_L2;
        step_by(how, a, &b);
        if (kind == IPU_NN_ADAMW) { /* same as Adam's */
            how.kind = IPU_NN_ADAM;
            step_by(how, usual, &b);
        }
        assert_true((a[0] == usual[0] && a[1] == usual[1]) == (kind != IPU_NN_LAMB));
    }
    /* LAMB's direction is then {3.5, 4} / {4, 4.5}, the means being the gradients. */
    float            a[2], b;
    ipu_nn_optimizer lamb = {
        .kind = IPU_NN_LAMB, .rate = 0.1, .epsilon = 0.5, .weight_decay = 0.5, .decay = IPU_DECAY_L2};
    step_by(lamb, a, &b);
    double d[2] = {3.5 / 4, 4 / 4.5}, size = sqrt(d[0] * d[0] + d[1] * d[1]);
    ASSERT_NEAR(a[0], 3 - 0.1 * 5 / size * d[0]);
    ASSERT_NEAR(a[1], 4 - 0.1 * 5 / size * d[1]);
}

static void expect_refused(ipu_model *m, const ipu_nn_training *how, const char *says)
{
    ipu_nn_train_with(m, how);
    if (!strstr(ipu_builder_message(ipu_model_builder(m)), says))
        fail_msg("\"%s\" is not in \"%s\"", says, ipu_builder_message(ipu_model_builder(m)));
    ipu_model_destroy(m);
}

static void mistakes_are_told(void **state)
{
    (void)state;
    const ipu_nn_group none[]  = {{"first.* frist.b", {.rate = 1}, false}},
                       empty[] = {{" ", {.rate = 1}, false}};
    expect_refused(two_losses(1), &(ipu_nn_training){.groups = none, .n_groups = 1},
                   "pattern \"frist.b\" of group 1 matches no parameter");
    expect_refused(two_losses(1), &(ipu_nn_training){.groups = empty, .n_groups = 1},
                   "group 1 has no patterns");
    expect_refused(two_losses(1), &(ipu_nn_training){.max_gradient_norm = -1}, "largest norm of gradients");
    expect_refused(two_losses(1), &(ipu_nn_training){.optimizer = {.rate = (double)NAN}}, "a finite rate");
    expect_refused(two_losses(1), &(ipu_nn_training){.optimizer = {.kind = 99}}, "there is no optimizer 99");
    expect_refused(two_losses(1), &(ipu_nn_training){.optimizer = {.decay = 9}},
                   "there is no way of decay 9");
    ipu_model *m;
    OK(ipu_model_create(&m));
    expect_refused(m, &(ipu_nn_training){0}, "there is no loss");
    OK(ipu_model_create(&m));
    ipu_value p = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(2), NULL, "p");
    ipu_nn_loss(m, p, "loss");
    assert_non_null(strstr(ipu_builder_message(ipu_model_builder(m)), "expected a floating scalar"));
    ipu_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_losses_are_trained_for),
        cmocka_unit_test(groups_have_optimizers_of_their_own),
        cmocka_unit_test(frozen_parameters_keep_their_values),
        cmocka_unit_test(gradients_are_clipped),
        cmocka_unit_test(steps_begin_where_the_network_put_a_parameter),
        cmocka_unit_test(losses_can_be_made_larger),
        cmocka_unit_test(negative_betas_are_zero),
        cmocka_unit_test(means_can_stay_uncorrected),
        cmocka_unit_test(lamb_takes_norms_up_to_the_largest),
        cmocka_unit_test(rmsprop_can_be_that_of_tensorflow),
        cmocka_unit_test(adadelta_moves_by_past_changes),
        cmocka_unit_test(every_optimizer_can_decay_past_its_gradient),
        cmocka_unit_test(every_optimizer_can_decay_through_its_gradient),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

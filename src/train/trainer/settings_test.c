/* What decides the result of a training: each of its members is compared, also those that JSON has no number for, and checkpoints
 * of before know less. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ipu/abi.h"
#include "train/trainer/trainer.h"
#include "train/trainer/trainer_test.h"

/* With two groups, in room of its own. */
typedef struct asked {
    ipu_trainer_options o;
    ipu_nn_group        groups[2];
} asked;

static void ask(asked *a)
{
    *a = (asked){.o = usual(), .groups = {{.parameters = "a.*"}, {.parameters = "b.*", .frozen = true}}};
    a->o.checkpoint_folder = folder;
    a->o.training.groups   = a->groups;
    a->o.training.n_groups = 2;
    a->o.words.resume      = "RESUME";
    a->o.words.folder      = "FOLDER";
}

static json_t *settings_of(const ipu_trainer_options *o)
{
    ipu_trainer t = {.options = *o, .n_ranks = 1};
    assert_ok(ipu__trainer_settings_make(&t));
    return t.settings;
}

/* Whether a training as `o` goes on from `then`, as a checkpoint has it. */
static bool goes_on(const ipu_trainer_options *o, const json_t *then)
{
    ipu_trainer t     = {.options = *o, .n_ranks = 1, .settings = settings_of(o)};
    char       *text  = json_dumps(then, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_t     *saved = json_loads(text, 0, NULL);
    assert_non_null(saved);
    ipu_status status = ipu__trainer_settings_compare(&t, saved);
    assert_true(status == IPU_OK || status == IPU_INVALID);
    json_decref(saved);
    free(text);
    json_decref(t.settings);
    return status == IPU_OK;
}

static bool is_number(const ipu_abi_member *m)
{
    static const char *const types[] = {"double", "bool", "uint", "int64", "int"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(m->type, types[i])) return true;
    return false;
}

/* Each number of a structure at `at`, within `a`, in turn: changed, it is refused. */
static void assert_each_counts(const char *structure, void *at, const asked *a, const json_t *then)
{
    ipu_abi_member m;
    int            n = 0;
    for (size_t i = 0; ipu_abi_member_at(i, &m); i++) {
        if (strcmp(m.structure, structure) != 0 || !is_number(&m)) continue;
        unsigned char *byte = (unsigned char *)at + m.offset + (strcmp(m.type, "double") ? 0 : m.bytes - 1);
        assert_true(goes_on(&a->o, then));
        *byte ^= 1;
        if (goes_on(&a->o, then)) fail_msg("%s.%s: another one goes on", structure, m.name);
        *byte ^= 1;
        n++;
    }
    assert_true(n > 0);
}

static void each_member_is_compared(void **state)
{
    (void)state;
    asked a;
    ask(&a);
    json_t *then = settings_of(&a.o);
    assert_each_counts("ipu_nn_optimizer", &a.o.training.optimizer, &a, then);
    assert_each_counts("ipu_nn_training", &a.o.training, &a, then);
    assert_each_counts("ipu_nn_group", &a.groups[1], &a, then);
    assert_each_counts("ipu_nn_optimizer", &a.groups[1].optimizer, &a, then);
    a.groups[0].parameters = "c.*";
    assert_false(goes_on(&a.o, then));
    assert_says("RESUME: \"groups\" is ");
    a.groups[0].parameters = "a.*";
    a.o.training.n_groups  = 1;
    assert_false(goes_on(&a.o, then));
    json_decref(then);
    ask(&a);
    a.o.schedule.rate = 0.25;
    then              = settings_of(&a.o);
    assert_each_counts("ipu_schedule", &a.o.schedule, &a, then);
    json_decref(then);
}

static void milestones_are_compared(void **state)
{
    (void)state;
    const double halves[] = {0.5, 0.75};
    double       own[]    = {0.5, 0.75};
    asked        a;
    ask(&a);
    a.o.schedule              = (ipu_schedule){.kind = IPU_SCHEDULE_MILESTONES, .gamma = 0.1};
    json_t *then              = settings_of(&a.o);
    a.o.schedule.milestones   = halves;
    a.o.schedule.n_milestones = 2;
    assert_false(goes_on(&a.o, then));
    assert_says("\"schedule-milestones\" is [] in the checkpoint, and [0.5, 0.75] now");
    json_decref(then);
    then                    = settings_of(&a.o);
    a.o.schedule.milestones = own;
    assert_true(goes_on(&a.o, then));
    own[1] = 0.8;
    assert_false(goes_on(&a.o, then));
    own[1] = 0.75;
    a.o.n_epochs++; /* all steps are more, and so is each share of them */
    assert_false(goes_on(&a.o, then));
    assert_says("\"epochs\" is 3 in the checkpoint, and 4 now");
    a.o.n_epochs--;
    json_decref(then);
    a.o.schedule.n_steps = 100;
    then                 = settings_of(&a.o);
    a.o.n_epochs++;
    assert_true(goes_on(&a.o, then));
    json_decref(then);
}

static void options_of_executors_that_decide_are_compared(void **state)
{
    (void)state;
    asked a;
    ask(&a);
    a.o.executor.replicas               = 2;
    json_t                    *then     = settings_of(&a.o);
    const ipu_executor_options others[] = {{.replicas = 4},
                                           {.replicas = 2, .device_iterations = 2},
                                           {.replicas = 2, .gradient_accumulation = 2},
                                           {.replicas = 2, .input_group_size = 2},
                                           {.replicas = 2, .reduction = IPU_REDUCTION_SUM},
                                           {.replicas = 2, .running_mean = true},
                                           {.replicas = 2, .stages = 2},
                                           {.replicas = 2, .no_fold = true},
                                           {.replicas = 2, .precision = IPU_PRECISION_MIXED},
                                           {.replicas = 2, .stochastic_rounding = true}};
    const ipu_executor_options alike[]  = {{.replicas = 2, .device_iterations = 1, .input_group_size = 1},
                                           {.replicas = 2, .seed = 3},
                                           {.replicas = 2, .recompute = true, .shard_optimizer = true},
                                           {.replicas = 2, .cache_folder = "elsewhere"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        a.o.executor = others[i];
        if (goes_on(&a.o, then)) fail_msg("other options %zu go on", i);
    }
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        a.o.executor = alike[i];
        if (!goes_on(&a.o, then)) fail_msg("%s", ipu_message());
    }
    json_decref(then);
}

static void numbers_that_json_does_not_have_are_kept(void **state)
{
    (void)state;
    static const double numbers[] = {INFINITY, -INFINITY, NAN, 1};
    enum { N = sizeof numbers / sizeof *numbers };
    asked a;
    for (int i = 0; i < N; i++) {
        ask(&a);
        a.o.training.max_gradient_norm = numbers[i];
        a.groups[0].optimizer.beta1    = numbers[i];
        json_t *then                   = settings_of(&a.o);
        for (int k = 0; k < N; k++) {
            a.o.training.max_gradient_norm = numbers[k];
            a.groups[0].optimizer.beta1    = numbers[k];
            assert_int_equal(goes_on(&a.o, then), i == k);
        }
        json_decref(then);
    }
    /* From one end to the other: one that is no good is told of, one that is goes on. */
    ipu_trainer_options o        = usual();
    story               s        = {0};
    o.checkpoint_folder          = folder;
    o.begin                      = IPU_TRAINER_RESUME;
    o.training.max_gradient_norm = INFINITY;
    assert_int_equal(run(&s, o), IPU_INVALID);
    assert_says("expected a largest norm of gradients of 0 or more, found inf");
    close_story(&s);
    o.training.max_gradient_norm         = 0;
    o.training.optimizer.max_weight_norm = INFINITY;
    assert_ok(run(&s, o));
    close_story(&s);
    assert_ok(run(&s, o));
    assert_int_equal(s.n_steps, 0);
    close_story(&s);
    o.training.optimizer.max_weight_norm = 1;
    assert_int_equal(run(&s, o), IPU_INVALID);
    assert_says("\"max-weight-norm\": \"inf\"");
    close_story(&s);
}

/* As trainers wrote them that knew less: what they did not know of was as usual; of groups they knew the number. */
static void older_checkpoints_go_on(void **state)
{
    (void)state;
    asked a;
    ask(&a);
    json_t *digest = settings_of(&a.o);
    json_t *then   = json_pack(
          "{s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:{s:i, s:f, s:f, s:b, s:i}, s:f, s:f, s:f, s:i, s:i, s:O}",
          "epochs", 3, "batch-size", BATCH, "device-iterations", 1, "gradient-accumulation", 1, "replicas", 1,
          "seed", 5, "shuffle", 1, "optimizer", "kind", (int)IPU_NN_ADAM, "weight-decay", 0.0, "momentum", 0.0,
          "nesterov", 0, "groups", 2, "rate", 0.05, "max-gradient-norm", 0.0, "max-gradient", 0.0, "schedule",
          0, "precision", 0, "data digest", json_object_get(digest, "data digest"));
    assert_non_null(then);
    if (!goes_on(&a.o, then)) fail_msg("%s", ipu_message());
    a.o.training.loss_scale = 1; /* which is the same as none */
    if (!goes_on(&a.o, then)) fail_msg("%s", ipu_message());
    a.o.training.loss_scale = 1024;
    assert_false(goes_on(&a.o, then));
    assert_says("\"loss-scale\" is 0.0 in the checkpoint, and 1024.0 now");
    a.o.may_differ   = (const char *const[]){"loss-scale"};
    a.o.n_may_differ = 1;
    assert_true(goes_on(&a.o, then));
    a.o.training.optimizer.beta1 = 0.5;
    assert_false(goes_on(&a.o, then));
    a.o.training.optimizer.beta1 = 0;
    a.o.training.n_groups        = 1;
    assert_false(goes_on(&a.o, then));
    a.o.training.n_groups = 2;
    /* One of a trainer that knows more is not understood. */
    assert_int_equal(json_object_set_new(then, "of-later", json_true()), 0);
    assert_false(goes_on(&a.o, then));
    assert_says("\"of-later\" is true in the checkpoint, and not there now");
    json_decref(then);
    json_decref(digest);
    then          = json_integer(1);
    ipu_trainer t = {.options = a.o, .n_ranks = 1, .settings = settings_of(&a.o)};
    assert_int_equal(ipu__trainer_settings_compare(&t, then), IPU_INVALID);
    assert_int_equal(ipu__trainer_settings_compare(&t, NULL), IPU_INVALID);
    json_decref(t.settings);
    json_decref(then);
}

#define each(test) cmocka_unit_test_teardown(test, empty_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {each(each_member_is_compared), each(milestones_are_compared),
                                       each(options_of_executors_that_decide_are_compared),
                                       each(numbers_that_json_does_not_have_are_kept),
                                       each(older_checkpoints_go_on)};
    return cmocka_run_group_tests(tests, begin_all, end_all);
}

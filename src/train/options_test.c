/* Options of executors: what does not go together is refused, IPUs are counted, and hard partitions are asked first. */
#include "train/options.h"

#include "device/sandbox_test.h"
#include "ipu/ipu.h"

static void expect_refused(ipu_executor_options o, const char *part)
{
    ipu_executor_options settled;
    assert_status(ipu__executor_options_settle(&o, &settled), IPU_INVALID);
    assert_message(part);
    assert_int_equal(ipu_executor_options_n_batches(&o), 0);
}

static int64_t ipus_per_replica(const ipu_executor_options *o, int64_t n_stages)
{
    ipu__parallel over = ipu__executor_over(o, false);
    return ipu__parallel_ipus_per_replica(&over, n_stages);
}

static void mistakes_name_their_option(void **state)
{
    (void)state;
    expect_refused((ipu_executor_options){.replicas = 3},
                   "option replicas: expected 1 or a power of two up to 64");
    expect_refused((ipu_executor_options){.replicas = 128}, "found 128");
    expect_refused((ipu_executor_options){.replicas = 4, .input_group_size = 3}, "option input_group_size");
    expect_refused((ipu_executor_options){.shard_optimizer = true}, "expected 2 replicas or more, found 1");
    expect_refused((ipu_executor_options){.schedule = (ipu_pipeline_schedule)3}, "option schedule");
    expect_refused((ipu_executor_options){.precision = (ipu_precision)7}, "option precision");
    expect_refused((ipu_executor_options){.reduction = (ipu_reduction)2}, "option reduction");
    expect_refused((ipu_executor_options){.attach = (ipu_attach_when)9}, "option attach");
    expect_refused((ipu_executor_options){.stages = 65}, "option stages: expected 1 to 64");
    expect_refused((ipu_executor_options){.n_stage_ipus = 2}, "expected 2 numbers, found none");
    expect_refused((ipu_executor_options){.stages = 2, .stage_ipus = (int64_t[]){0}, .n_stage_ipus = 1},
                   "expected an IPU for each of 2 stages, found 1");
    expect_refused((ipu_executor_options){.stage_ipus = (int64_t[]){0, 64}, .n_stage_ipus = 2},
                   "stage 1: expected an IPU from 0 to 63, found 64");
    expect_refused((ipu_executor_options){.stage_ipus = (int64_t[]){0, 2, 3}, .n_stage_ipus = 3},
                   "IPU 1 has no stage");
}

static void ipus_are_one_or_a_power_of_two(void **state)
{
    (void)state;
    ipu_executor_options settled;
    expect_refused((ipu_executor_options){.stages = 3, .replicas = 2},
                   "3 stages on 3 IPUs x 2 replicas are 6 IPUs: expected 1 or a power of two");
    ipu_executor_options four = {
        .stages = 3, .stage_ipus = (int64_t[]){0, 1, 1}, .n_stage_ipus = 3, .replicas = 2};
    assert_status(ipu__executor_options_settle(&four, &settled), IPU_OK);
    assert_int_equal(ipus_per_replica(&settled, 3), 2);
    ipu_executor_options plain = {.replicas = 2};
    assert_status(ipu__executor_options_settle(&plain, &settled), IPU_OK);
    assert_int_equal(ipus_per_replica(&settled, 4), 4);
    assert_status(ipu__executor_check_ipus(&settled, 3), IPU_INVALID); /* stages that the network names */
    assert_message("are 6 IPUs");
    settled.round_ipus = true;
    assert_status(ipu__executor_check_ipus(&settled, 3), IPU_OK);
    for (int64_t n = 1; n <= 64; n++) {
        int64_t each = ipus_per_replica(&settled, n);
        assert_true(each >= n && each / 2 < n && (each & (each - 1)) == 0);
    }
    settled.target = "pod256";
    assert_status(ipu__executor_check_ipus(&settled, 128), IPU_INVALID);
    assert_message("128 stages are on 128 IPUs: expected at most 64 for a replica");
    expect_refused((ipu_executor_options){.target = "m2000", .stages = 4, .replicas = 2}, "8 IPUs: it has 4");
}

static void what_only_training_has_is_refused_for_inference(void **state)
{
    (void)state;
    const struct {
        ipu_executor_options o;
        const char          *part;
    } rows[] = {
        {{.gradient_accumulation = 2}, "option gradient_accumulation: expected 1 for inference"},
        {{.replicas = 2, .shard_optimizer = true}, "option shard_optimizer"},
        {{.optimizer_off_chip = true}, "option optimizer_off_chip"},
        {{.recompute = true}, "option recompute"},
        {{.activations_off_chip = true}, "option activations_off_chip"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ipu_executor_options settled;
        assert_status(ipu__executor_options_settle(&rows[i].o, &settled), IPU_OK);
        assert_status(ipu__executor_options_check_inference(&settled), IPU_INVALID);
        assert_message(rows[i].part);
    }
}

/* ---- partitions ---- */

static void forward(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n;
    (void)user;
    ipu_value y = ipu_nn_linear(m, in[0], 2, "layer");
    ipu_nn_loss(m, ipu_reduce_mean(ipu_model_builder(m), y, NULL, 0, false), "loss");
}

static ipu_status compile(const ipu_executor_options *options)
{
    ipu_module   *module;
    ipu_executor *x;
    ipu_array     in     = {.type = IPU_FLOAT, .shape = IPU_SHAPE(64, 3)};
    ipu_status    status = ipu_module_create(forward, NULL, &module);
    assert_int_equal(status, IPU_OK);
    assert_status(ipu_training_model(module, options, NULL, &x), IPU_OK);
    status = ipu_executor_compile(x, &in, 1);
    assert_int_equal(ipu_executor_is_compiled(x), status == IPU_OK);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
    return status;
}

static void a_hard_partition_is_asked_before_compiling(void **state)
{
    (void)state;
    assert_status(ipu_partition_create("pair", &(ipu_partition_options){.target = "gc200", .n_ipus = 2}),
                  IPU_OK);
    setenv("IPU_PARTITION", "pair", 1);
    assert_status(compile(&(ipu_executor_options){.replicas = 2}), IPU_OK);
    assert_status(compile(&(ipu_executor_options){.replicas = 4}), IPU_NOT_FOUND);
    assert_message("4 replicas of 1 IPUs need 4 IPUs, and partition pair has 2");
    /* What is never attached needs none. */
    assert_status(compile(&(ipu_executor_options){.replicas = 4, .attach = IPU_ATTACH_NEVER}), IPU_OK);
    setenv("IPU_ELASTIC", "1", 1);
    assert_status(compile(&(ipu_executor_options){.replicas = 4}), IPU_OK);
}

static void a_device_by_its_number_has_so_many(void **state)
{
    (void)state;
    /* The default partition is elastic and has 4: devices 0 to 3 are single ones. */
    assert_status(compile(&(ipu_executor_options){.replicas = 2, .device_id = 1}), IPU_NOT_FOUND);
    assert_message("need 2 IPUs, and device 0 of partition default has 1");
    assert_status(compile(&(ipu_executor_options){.replicas = 2, .device_id = 5}), IPU_OK);
}

/* As where another user has made /tmp/openipu-UID and there is no home: an elastic partition goes on unseen. */
static void a_state_that_cannot_be_kept_stops_no_elastic_partition(void **state)
{
    (void)state;
    assert_int_equal(chmod(sandbox, 0777), 0);
    setenv("IPU_RUNTIME_DIR", sandbox, 1);
    assert_status(compile(&(ipu_executor_options){.replicas = 2}), IPU_OK);
    setenv("IPU_ELASTIC", "0", 1);
    assert_status(compile(&(ipu_executor_options){.replicas = 2}), IPU_IO);
    assert_message("set IPU_RUNTIME_DIR to another folder");
}

/* ---- the list of members ---- */

static void the_list_has_all_members(void **state)
{
    (void)state;
    static const char *const names[] = {
#define NUMBER(member, uses) #member,
#define TEXT(member, uses) #member,
#define LIST(member, uses) #member,
#define ENGINE(member, uses) #member,
#define COMM(member, uses) #member,
#include "train/executor/options.inc"
#undef NUMBER
#undef TEXT
#undef LIST
#undef ENGINE
#undef COMM
    };
    ipu_abi_member m;
    size_t         n = 0;
    for (size_t i = 0; ipu_abi_member_at(i, &m); i++) {
        if (strcmp(m.structure, "ipu_executor_options") != 0 || !*m.name) continue;
        assert_true(n < sizeof names / sizeof *names);
        assert_string_equal(m.name, names[n++]);
    }
    assert_int_equal(n, sizeof names / sizeof *names);
}

static bool differ(ipu_executor_options a, ipu_executor_options b)
{
    ipu__text x = {0}, y = {0};
    ipu__executor_options_add_key(&a, &x);
    ipu__executor_options_add_key(&b, &y);
    bool found = strcmp(x.at, y.at) != 0;
    ipu__text_fini(&x);
    ipu__text_fini(&y);
    return found;
}

static void keys_differ_by_what_programs_depend_on(void **state)
{
    (void)state;
    const ipu_executor_options plain = {.target = "gc200"};
    ipu_options               *engine;
    assert_status(ipu_options_create(&engine), IPU_OK);
    assert_status(ipu_options_set(engine, "threads", "3"), IPU_OK);
    const ipu_executor_options others[] = {
        {.target = "bow"},
        {.target = "gc200", .replicas = 2},
        {.target = "gc200", .check_floats = true},
        {.target = "gc200", .output_mode = IPU_OUTPUT_SUM},
        {.target = "gc200", .stage_ipus = (int64_t[]){1, 0}, .n_stage_ipus = 2},
        {.target = "gc200", .engine = engine},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_true(differ(plain, others[i]));
        assert_false(differ(others[i], others[i]));
    }
    assert_true(differ((ipu_executor_options){.stage_ipus = (int64_t[]){1, 0}, .n_stage_ipus = 2},
                       (ipu_executor_options){.stage_ipus = (int64_t[]){0, 1}, .n_stage_ipus = 2}));
    assert_false(differ(
        plain, (ipu_executor_options){.target = "gc200", .cache_folder = "elsewhere", .device_id = 3}));
    ipu__text before = {0}, after = {0};
    ipu__executor_options_add_key(&plain, &before);
    setenv("IPU_ENGINE", "null", 1);
    ipu__executor_options_add_key(&plain, &after);
    unsetenv("IPU_ENGINE");
    assert_string_not_equal(before.at, after.at);
    ipu__text_fini(&before);
    ipu__text_fini(&after);
    ipu_options_destroy(engine);
}

static void processes_agree_on_what_they_train(void **state)
{
    (void)state;
    ipu__agreed agreed;
    bool        found[2] = {false};
    ipu__executor_options_agreed(
        &(ipu_executor_options){.replicas = 4, .precision = IPU_PRECISION_HALF, .seed = 9}, &agreed);
    for (size_t i = 0; i < agreed.n; i++) {
        assert_string_not_equal(agreed.items[i].name, "seed");
        found[0] |= strcmp(agreed.items[i].name, "replicas") == 0 && strcmp(agreed.items[i].value, "4") == 0;
        found[1] |= strcmp(agreed.items[i].name, "precision") == 0 && strcmp(agreed.items[i].value, "2") == 0;
    }
    assert_true(found[0] && found[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_name_their_option),
        cmocka_unit_test(ipus_are_one_or_a_power_of_two),
        cmocka_unit_test(what_only_training_has_is_refused_for_inference),
        cmocka_unit_test(the_list_has_all_members),
        cmocka_unit_test(keys_differ_by_what_programs_depend_on),
        cmocka_unit_test(processes_agree_on_what_they_train),
        SANDBOXED(a_hard_partition_is_asked_before_compiling),
        SANDBOXED(a_device_by_its_number_has_so_many),
        SANDBOXED(a_state_that_cannot_be_kept_stops_no_elastic_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

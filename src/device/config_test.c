/* Configuration: which source takes precedence, which partition is active; creating and removing
 * partitions. */
#include "device/config.h"

#include "device/sandbox_test.h"

static ipu_device_list *all(void)
{
    ipu_device_list *list;
    assert_status(ipu_device_list_create(IPU_ALL_PARTITIONS, &list), IPU_OK);
    return list;
}

/* The name of the active partition. */
static void assert_active(const char *name)
{
    ipu_device_list *list;
    assert_status(ipu_device_list_create(0, &list), IPU_OK);
    assert_string_equal(ipu_device_list_active(list)->name, name);
    assert_true(ipu_device_list_active(list)->active);
    assert_int_equal(ipu_device_list_active(list)->n_before, 0);
    assert_null(ipu_device_list_at(list, 1));
    ipu_device_list_destroy(list);
}

/* We cannot change the system's folder: a host that has one skips the default. */
static void the_first_place_that_has_any_counts(void **state)
{
    (void)state;
    if (access("/etc/ipuof.conf.d", F_OK) != 0) assert_active("default");
    put_config("b.conf", "{\"system\": \"pod16\"}");
    put_config("a.config", "{}");
    put_config("notes.txt", "not JSON");
    put_config(".hidden.conf", "not JSON");
    assert_active("a");
    setenv("IPU_PARTITION", "b", 1);
    assert_active("b");
    setenv("IPUOF_CONFIG_PATH", put_file("ipuof.conf", "{}"), 1);
    unsetenv("IPU_PARTITION");
    assert_active("ipuof");
}

static void all_partitions_are_listed_by_name_and_numbered_on(void **state)
{
    (void)state;
    put_config("x.conf", "{\"partition\": \"p2\"}");
    put_config("y.conf", "{\"partition\": \"p1\", \"ipus\": 2}");
    put_config("z.conf", "{\"partition\": \"p2\", \"attributes\": {\"GCD Id\": \"1\"}}");
    setenv("IPU_PARTITION", "p2", 1);
    ipu_device_list *list = all();
    assert_string_equal(ipu_device_list_at(list, 0)->name, "p1");
    assert_false(ipu_device_list_at(list, 0)->active);
    assert_int_equal(ipu_device_list_at(list, 1)->gcd, 0);
    assert_int_equal(ipu_device_list_at(list, 1)->n_before, 2);
    assert_int_equal(ipu_device_list_at(list, 2)->gcd, 1);
    assert_int_equal(ipu_device_list_at(list, 2)->n_before, 6);
    assert_ptr_equal(ipu_device_list_active(list), ipu_device_list_at(list, 1));
    assert_null(ipu_device_list_at(list, 3));
    ipu_device_list_destroy(list);
}

static void wrong_configuration_is_an_error_that_names_it(void **state)
{
    (void)state;
    ipu_device_list *list;
    setenv("IPUOF_CONFIG_PATH", "/nonexistent/ipuof.conf", 1);
    assert_status(ipu_device_list_create(0, &list), IPU_IO);
    assert_message("IPUOF_CONFIG_PATH");
    assert_message("/nonexistent/ipuof.conf");
    assert_null(list);
    unsetenv("IPUOF_CONFIG_PATH");
    setenv("IPUOF_VIPU_API_HOST", "10.1.3.101", 1);
    assert_status(ipu_device_list_create(0, &list), IPU_UNSUPPORTED);
    assert_message("IPUOF_VIPU_API_HOST=10.1.3.101");
    assert_message("no server yet");
    unsetenv("IPUOF_VIPU_API_HOST");
    setenv("IPU_PARTITION", "p9", 1);
    assert_status(ipu_device_list_create(0, &list), IPU_NOT_FOUND);
    assert_message("IPU_PARTITION=p9");
    assert_string_equal(ipu_device_chip(), "gc200");
    unsetenv("IPU_PARTITION");
    put_config("a.conf", "{\"partition\": \"p\"}");
    put_config("b.conf", "{\"partition\": \"p\"}");
    assert_status(ipu_device_list_create(0, &list), IPU_INVALID);
    assert_message("a.conf");
    assert_message("b.conf");
    assert_message("GCD 0 of partition p");
    assert_status(ipu_device_list_create(2, &list), IPU_INVALID);
}

static void a_partition_can_be_made_used_and_removed(void **state)
{
    (void)state;
    ipu_device *d;
    assert_status(ipu_partition_create("pod", &(ipu_partition_options){.target = "bow-pod256"}), IPU_OK);
    assert_active("pod");
    assert_string_equal(ipu_device_chip(), "bow");
    ipu_device_list *list = all();
    assert_int_equal(ipu_device_list_active(list)->n_ipus, 256);
    assert_int_equal(ipu_device_list_active(list)->n_devices, 511);
    assert_false(ipu_device_list_active(list)->elastic);
    ipu_device_list_destroy(list);
    assert_status(ipu_device_open(510, &d), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    assert_status(ipu_partition_remove("pod"), IPU_BUSY);
    assert_message("which is this process");
    ipu_device_close(d);
    assert_status(ipu_partition_remove("pod"), IPU_OK);
    char path[128];
    snprintf(path, sizeof path, "%s/run/pod.gcd0.ipus1", sandbox);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_status(ipu_partition_remove("pod"), IPU_NOT_FOUND);
}

static void partitions_that_cannot_be_made_are_not(void **state)
{
    (void)state;
    assert_status(ipu_partition_create("a b", NULL), IPU_INVALID);
    assert_status(ipu_partition_create("../p", NULL), IPU_INVALID);
    assert_status(ipu_partition_create("p", &(ipu_partition_options){.target = "pod17"}), IPU_NOT_FOUND);
    assert_status(ipu_partition_create("p", &(ipu_partition_options){.n_ipus = 3}), IPU_INVALID);
    assert_status(ipu_partition_create("p", NULL), IPU_OK);
    assert_status(ipu_partition_create("p", NULL), IPU_INVALID);
    assert_message("exists");
    assert_message("ipu partition remove p");
    put_config("other.conf", "{\"partition\": \"q\"}");
    assert_status(ipu_partition_create("q", NULL), IPU_INVALID);
    assert_status(
        ipu_partition_create("r", &(ipu_partition_options){.target = "gc200", .n_ipus = 2, .elastic = true}),
        IPU_OK);
    setenv("IPU_PARTITION", "r", 1);
    ipu_device_list *list = all();
    assert_int_equal(ipu_device_list_active(list)->n_ipus, 2);
    assert_true(ipu_device_list_active(list)->elastic);
    ipu_device_list_destroy(list);
}

static void only_partitions_of_the_users_folder_are_removed(void **state)
{
    (void)state;
    const char *file = put_file("mine.conf", "{}");
    setenv("IPUOF_CONFIG_PATH", file, 1);
    assert_status(ipu_partition_remove("mine"), IPU_INVALID);
    assert_message("remove it there");
    assert_int_equal(access(file, F_OK), 0);
    unsetenv("IPUOF_CONFIG_PATH");
    if (access("/etc/ipuof.conf.d", F_OK) == 0) return;
    assert_status(ipu_partition_remove("default"), IPU_INVALID);
    assert_message("partition default cannot be removed: it is the default");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SANDBOXED(the_first_place_that_has_any_counts),
        SANDBOXED(all_partitions_are_listed_by_name_and_numbered_on),
        SANDBOXED(wrong_configuration_is_an_error_that_names_it),
        SANDBOXED(a_partition_can_be_made_used_and_removed),
        SANDBOXED(partitions_that_cannot_be_made_are_not),
        SANDBOXED(only_partitions_of_the_users_folder_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

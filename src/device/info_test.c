/* Attributes: the tools' keys, in their order, with correct values. */
#include "ipu/ipuinfo.h"

#include "base/alloc.h"
#include "device/device.h"
#include "device/sandbox_test.h"

static ipu_info *taken(void)
{
    ipu_info *info;
    assert_int_equal(ipu_info_create(IPU_INFO_ACTIVE_PARTITION, &info), IPU_OK);
    return info;
}

static const char *const tool_keys[] = {"average board temp",
                                        "average die temp",
                                        "board ipu index",
                                        "board serial number",
                                        "board type",
                                        "board variant",
                                        "clock",
                                        "config domain",
                                        "driver version",
                                        "firmware major version",
                                        "firmware minor version",
                                        "firmware patch version",
                                        "firmware version",
                                        "gateway software version",
                                        "graph streaming",
                                        "hexoatt active size (bytes)",
                                        "hexoatt total size (bytes)",
                                        "hexopt active size (bytes)",
                                        "hexopt total size (bytes)",
                                        "host link correctable error count",
                                        "icu bootloader version",
                                        "ipu architecture",
                                        "ipu error state",
                                        "ipu power",
                                        "ipu utilisation",
                                        "ipu utilisation (session)",
                                        "ipuof host",
                                        "ipuof partition id",
                                        "ipuof routing id",
                                        "ipuof routing type",
                                        "ipuof server version",
                                        "link correctable error count",
                                        "link correctable error count (session)",
                                        "link speed",
                                        "link width",
                                        "numa node",
                                        "number of replicas",
                                        "parity error count threshold",
                                        "parity error threshold interval",
                                        "parity initialised",
                                        "partition sync type",
                                        "pci id",
                                        "pcie physical slot",
                                        "reconfigurable partition",
                                        "remote buffers supported",
                                        "sysfs file id",
                                        "total board power"};
enum { N_KEYS = sizeof tool_keys / sizeof *tool_keys };

static void every_key_of_the_tools_is_there_in_order(void **state)
{
    (void)state;
    ipu_info   *info = taken();
    const char *key, *value, *before = "";
    int         found = 0;
    assert_int_equal(ipu_info_n_devices(info), 4);
    assert_true(ipu_info_at(info, 2, 0, &key, &value));
    assert_string_equal(key, "id");
    assert_string_equal(value, "2");
    assert_true(ipu_info_at(info, 2, 1, &key, &value));
    assert_string_equal(key, "target");
    assert_string_equal(value, "Fabric");
    for (int i = 2; ipu_info_at(info, 2, i, &key, &value); i++) {
        assert_true(strcmp(before, key) < 0);
        assert_true(*value);
        before = key;
        if (found < N_KEYS && strcmp(tool_keys[found], key) == 0) found++;
        assert_int_not_equal(strncmp(key, "user ", 5), 0);
    }
    assert_int_equal(found, N_KEYS);
    ipu_info_destroy(info);
}

static void sensors_that_do_not_exist_read_na(void **state)
{
    (void)state;
    static const char *const sensors[] = {"average board temp", "average die temp", "ipu power",
                                          "total board power"};
    ipu_info                *info      = taken();
    for (int device = 0; device < 4; device++)
        for (size_t i = 0; i < sizeof sensors / sizeof *sensors; i++)
            assert_string_equal(ipu_info_get(info, device, sensors[i]), "N/A");
    assert_string_equal(ipu_info_get(info, 0, IPU_INFO_CLOCK), "1330MHz");
    assert_string_equal(ipu_info_get(info, 0, IPU_INFO_ERROR_STATE), "no errors");
    assert_string_equal(ipu_info_get(info, 0, IPU_INFO_UTILISATION), "0.00%");
    assert_string_equal(ipu_info_get(info, 0, IPU_INFO_USER_PID), "N/A");
    assert_string_equal(ipu_info_get(info, 0, "board ipu index"), "3");
    assert_string_equal(ipu_info_get(info, 4, IPU_INFO_CLOCK), "N/A");
    assert_string_equal(ipu_info_get(info, -1, IPU_INFO_CLOCK), "N/A");
    assert_string_equal(ipu_info_get(info, 0, "no such key"), "N/A");
    ipu_info_destroy(info);
}

static const char *of_device(const ipu_info *info, int id, const char *wanted)
{
    const char *key, *value;
    for (int i = 0; ipu_info_device_at(info, id, i, &key, &value); i++)
        if (strcmp(key, wanted) == 0) return value;
    return NULL;
}

static void a_group_has_what_its_ipus_share(void **state)
{
    (void)state;
    ipu_info   *info = taken();
    const char *key, *value;
    assert_string_equal(of_device(info, 5, "id"), "5");
    assert_string_equal(of_device(info, 5, "target"), "Multi IPU");
    assert_string_equal(of_device(info, 5, "clock"), "1330MHz");
    assert_string_equal(of_device(info, 5, "board serial number"),
                        ipu_info_get(info, 2, "board serial number"));
    assert_null(of_device(info, 5, "board ipu index"));
    assert_null(of_device(info, 6, "board serial number"));
    assert_string_equal(of_device(info, 3, "board ipu index"), "0");
    assert_false(ipu_info_device_at(info, 7, 0, &key, &value));
    ipu_info_destroy(info);
}

static void an_update_leaves_the_same_of_what_is_the_same(void **state)
{
    (void)state;
    ipu_info *info = taken();
    assert_int_equal(ipu_info_update(info), IPU_OK);
    assert_int_equal(ipu_info_n_devices(info), 4);
    assert_string_equal(ipu_info_get(info, 3, "board ipu index"), "0");
    ipu_info_destroy(info);
}

static void an_attached_process_has_its_attributes(void **state)
{
    (void)state;
    static const char *const keys[] = {"host bytes (session)", "modelled cycles (session)",
                                       "process start time",   "programs run (session)",
                                       "supersteps (session)", "tile memory used (bytes)",
                                       "user executable",      "user name",
                                       "user process id"};
    ipu_device              *d;
    char                     pid[32];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    assert_status(ipu_device_open(4, &d), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    ipu_info *info = taken();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_non_null(of_device(info, 1, keys[i]));
        assert_non_null(of_device(info, 4, keys[i]));
        assert_null(of_device(info, 2, keys[i]));
        assert_null(of_device(info, 6, keys[i]));
    }
    assert_string_equal(of_device(info, 0, "user process id"), pid);
    assert_string_equal(of_device(info, 0, "modelled cycles (session)"), "N/A");
    assert_string_equal(of_device(info, 0, "programs run (session)"), "0");
    assert_int_equal(strlen(of_device(info, 0, "process start time")), strlen("20211122T224648Z"));
    ipu_device_close(d);
    assert_status(ipu_info_update(info), IPU_OK);
    assert_null(of_device(info, 0, "user process id"));
    ipu_info_destroy(info);
}

static const char *of_event(const ipu_info *info, const char *wanted)
{
    const char *key, *value;
    for (int i = 0; ipu_info_event_at(info, i, &key, &value); i++)
        if (strcmp(key, wanted) == 0) return value;
    return NULL;
}

static void what_went_wrong_last_is_on_record(void **state)
{
    (void)state;
    ipu_device *d, *busy;
    char        pid[32];
    ipu_info   *info = taken();
    const char *key, *value;
    assert_false(ipu_info_event_at(info, 0, &key, &value));
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("IPU_ELASTIC", "0", 1);
    assert_status(ipu_device_open(4, &d), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    assert_status(ipu_device_open(1, &busy), IPU_OK);
    assert_status(ipu_device_attach(busy, 0), IPU_BUSY);
    assert_message("device 1 is busy"); /* recording it does not change the message */
    assert_status(ipu_info_update(info), IPU_OK);
    assert_string_equal(of_event(info, "partition"), "default");
    assert_string_equal(of_event(info, "pid"), pid);
    assert_string_equal(of_event(info, "severity"), "error");
    assert_string_equal(of_event(info, "attached ipus"), "");
    assert_non_null(strstr(of_event(info, "description"), "device 1 is busy"));
    assert_non_null(strstr(of_event(info, "command line"), "device_info_test"));
    assert_int_equal(access(of_event(info, "event record path"), F_OK), 0);
    ipu_device_close(busy);
    ipu_device_close(d);
    put_file("run/event.json", "{\"pid\": 7, \"partition\": \"x\"}");
    assert_status(ipu_info_update(info), IPU_OK);
    assert_string_equal(of_event(info, "partition"), "x");
    assert_null(of_event(info, "pid"));
    put_file("run/event.json", "no JSON");
    assert_status(ipu_info_update(info), IPU_OK);
    assert_false(ipu_info_event_at(info, 0, &key, &value));
    ipu_info_destroy(info);
}

static void health_says_who_uses_it_or_what_to_do(void **state)
{
    (void)state;
    ipu_device *d;
    const char *why;
    setenv("GCDA_OPTIONS", "{\"simulateSOCError.errorList\": \"IPUSOFTERR\"}", 1);
    assert_status(ipu_device_open(5, &d), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    ipu_info *info = taken();
    assert_true(ipu_info_is_healthy(info, 0, &why));
    assert_string_equal(why, "idle");
    assert_true(ipu_info_is_healthy(info, 3, &why));
    assert_non_null(strstr(why, "in use by pid"));
    assert_status(ipu__device_begin_run(d, 0), IPU_DEVICE_ERROR);
    assert_status(ipu_info_update(info), IPU_OK);
    assert_true(ipu_info_is_healthy(info, 1, &why));
    assert_false(ipu_info_is_healthy(info, 2, &why));
    assert_string_equal(why, "reports IPUSOFTERR: reset it (gc-reset -d 2)");
    assert_string_equal(of_event(info, "attached ipus"), "2,3");
    assert_string_equal(of_event(info, "attached ipu hosts"), "localhost");
    assert_false(ipu_info_is_healthy(info, 4, &why));
    assert_false(ipu_info_is_healthy(info, -1, NULL));
    ipu_info_destroy(info);
    ipu_device_close(d);
}

/* ---- memory that runs out ---- */

static struct {
    long n, refuse, live;
} heap;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        heap.live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (++heap.n == heap.refuse) return NULL;
    void *p = realloc(ptr, new_bytes);
    heap.live += p && !ptr;
    return p;
}

static ipu_status use_everything(void)
{
    ipu_device *d;
    ipu_info   *info;
    IPU_TRY(ipu_device_open(4, &d));
    ipu_status status = ipu_device_attach(d, 0);
    if (status == IPU_OK) status = ipu_info_create(IPU_INFO_ALL_PARTITIONS, &info);
    if (status == IPU_OK) {
        status = ipu_info_update(info);
        ipu_info_destroy(info);
    }
    ipu_device_close(d);
    return status == IPU_OK ? ipu_device_reset(0) : status;
}

static void memory_may_end_anywhere(void **state)
{
    (void)state;
    put_config("a.conf", "{\"machines\": [{\"host\": \"h\"}]}");
    put_config("b.conf", "{\"system\": \"pod16\"}");
    ipu__alloc_set(failing_alloc, NULL);
    heap.n = heap.refuse = 0;
    assert_status(use_everything(), IPU_OK);
    assert_int_equal(heap.live, 0);
    long n = heap.n;
    assert_true(n > 20);
    for (long i = 1; i <= n; i++) {
        heap.n      = 0;
        heap.refuse = i;
        if (use_everything() != IPU_OUT_OF_MEMORY) fail_msg("allocation %ld of %ld: %s", i, n, ipu_message());
        assert_int_equal(heap.live, 0);
    }
    heap.refuse = 0;
    assert_status(use_everything(), IPU_OK); /* nothing is left attached */
    ipu__alloc_set(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SANDBOXED(every_key_of_the_tools_is_there_in_order),
        SANDBOXED(sensors_that_do_not_exist_read_na),
        SANDBOXED(a_group_has_what_its_ipus_share),
        SANDBOXED(an_attached_process_has_its_attributes),
        SANDBOXED(what_went_wrong_last_is_on_record),
        SANDBOXED(health_says_who_uses_it_or_what_to_do),
        SANDBOXED(memory_may_end_anywhere),
        SANDBOXED(an_update_leaves_the_same_of_what_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

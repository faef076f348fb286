/* Runs on devices: counters, simulated errors, resets. */
#include <time.h>

#include "device/device.h"
#include "device/sandbox_test.h"
#include "ipu/ipuinfo.h"

static ipu_device *attached(int id)
{
    ipu_device *d;
    assert_status(ipu_device_open(id, &d), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    return d;
}

static void rest(long milliseconds) { nanosleep(&(struct timespec){0, milliseconds * 1000000}, NULL); }

static void runs_are_counted_for_everyone_to_see(void **state)
{
    (void)state;
    ipu_device         *d = attached(4);
    ipu_device_counters c;
    ipu_device_get_counters(d, &c);
    assert_int_equal(c.runs, 0);
    assert_int_equal(c.cycles, -1);
    assert_int_equal(c.tile_bytes, -1);
    for (int i = 0; i < 3; i++) {
        assert_status(ipu__device_begin_run(d, 0), IPU_OK);
        ipu__device_end_run(
            d, &(ipu__run_counts){.supersteps = 5, .host_bytes = 100, .cycles = 1000, .tile_bytes = 77});
    }
    ipu__device_count_host_bytes(d, 11);
    ipu_device_list *list;
    assert_status(ipu_device_list_create(0, &list), IPU_OK);
    const ipu_attached *a = ipu_device_list_active(list)->singles[1].process;
    assert_int_equal(a->counters.runs, 3);
    assert_int_equal(a->counters.supersteps, 15);
    assert_int_equal(a->counters.host_bytes, 311);
    assert_int_equal(a->counters.cycles, 3000);
    assert_int_equal(a->counters.tile_bytes, 77);
    ipu_device_list_destroy(list);
    assert_status(ipu_device_detach(d), IPU_OK);
    ipu_device_get_counters(d, &c);
    assert_int_equal(c.runs, 0);
    assert_status(ipu_device_attach(d, 0), IPU_OK); /* starts counting again */
    ipu_device_get_counters(d, &c);
    assert_int_equal(c.runs, 0);
    assert_int_equal(c.cycles, -1);
    ipu_device_close(d);
}

static void utilisation_is_the_share_of_time_that_programs_run(void **state)
{
    (void)state;
    ipu_device         *d = attached(0);
    ipu_device_counters c;
    rest(20);
    ipu_device_get_counters(d, &c);
    assert_true(c.utilisation == 0 && c.utilisation_session == 0);
    assert_status(ipu__device_begin_run(d, 0), IPU_OK);
    assert_status(ipu__device_begin_run(d, 0), IPU_OK); /* two concurrent engines count as one */
    for (int i = 0; i < 1000 && c.utilisation_session <= 0.5;
         i++) { /* pauses take longer on a busy machine */
        rest(20);
        ipu_device_get_counters(d, &c);
    }
    assert_true(c.utilisation_session > 0.5 && c.utilisation_session < 1);
    ipu__device_end_run(d, &(ipu__run_counts){.cycles = -1, .tile_bytes = -1});
    ipu__device_end_run(d, &(ipu__run_counts){.cycles = -1, .tile_bytes = -1});
    double before = c.utilisation_session;
    for (int i = 0; i < 1000 && c.utilisation_session >= before; i++) {
        rest(20);
        ipu_device_get_counters(d, &c);
    }
    assert_true(c.utilisation_session > 0 && c.utilisation_session < before);
    for (int i = 0; i < 100 && (c.utilisation == 0 || c.utilisation == 1);
         i++) { /* only for the most recent time */
        assert_status(ipu__device_begin_run(d, 0), IPU_OK);
        rest(5);
        ipu__device_end_run(d, &(ipu__run_counts){.cycles = -1, .tile_bytes = -1});
        rest(5);
        ipu_device_get_counters(d, &c);
    }
    assert_true(c.utilisation > 0 && c.utilisation < 1);
    ipu_device_close(d);
    setenv("GCDA_OPTIONS", "{\"monitorUtilisation\": \"false\"}", 1);
    d = attached(0);
    ipu_device_get_counters(d, &c);
    assert_true(c.utilisation < 0 && c.utilisation_session < 0);
    ipu_info *info;
    assert_status(ipu_info_create(IPU_INFO_ACTIVE_PARTITION, &info), IPU_OK);
    assert_string_equal(ipu_info_get(info, 0, IPU_INFO_UTILISATION), "N/A");
    ipu_info_destroy(info);
    ipu_device_close(d);
}

static void a_device_attaches_when_it_runs(void **state)
{
    (void)state;
    ipu_device *d;
    assert_status(ipu_device_open_any(2, &d), IPU_OK);
    assert_false(ipu_device_is_attached(d));
    assert_status(ipu__device_begin_run(d, 0), IPU_OK);
    assert_true(ipu_device_is_attached(d));
    assert_status(ipu_device_detach(d), IPU_INVALID);
    assert_message("a program runs");
    ipu__device_end_run(d, &(ipu__run_counts){.cycles = -1, .tile_bytes = -1});
    assert_status(ipu_device_detach(d), IPU_OK);
    assert_status(ipu__device_begin_run(d, 0), IPU_OK);
    ipu__device_end_run(d, &(ipu__run_counts){.cycles = -1, .tile_bytes = -1});
    ipu_device_close(d);
}

static void engines_of_a_process_share_what_it_has(void **state)
{
    (void)state;
    ipu_device *a, *b, *other, *more;
    setenv("IPU_ELASTIC", "0", 1);
    assert_status(ipu__device_use("gc200", 4, 0, false, &a), IPU_OK);
    assert_status(ipu__device_use("gc200", 1, 0, false, &b), IPU_OK);
    assert_ptr_equal(a, b);
    assert_status(ipu__device_use("bow", 1, 0, false, &other), IPU_NOT_FOUND);
    assert_message("the program is for bow");
    setenv("IPU_ELASTIC", "1", 1);
    assert_status(ipu__device_use("bow", 1, 0, false, &other), IPU_OK);
    assert_int_equal(ipu_device_id(other), -1);
    assert_status(ipu__device_use("gc200", 8, 0, false, &more), IPU_OK);
    assert_ptr_not_equal(more, a);
    ipu_device_close(b);
    assert_true(ipu_device_is_attached(a));
    ipu_device_close(a);
    ipu_device_close(other);
    ipu_device_close(more);
    ipu_device_list *list;
    assert_status(ipu_device_list_create(0, &list), IPU_OK);
    assert_int_equal(ipu_device_list_active(list)->n_processes, 0);
    ipu_device_list_destroy(list);
}

static void run_once(ipu_device *d, ipu_status expected)
{
    assert_status(ipu__device_begin_run(d, 0), expected);
    if (expected == IPU_OK) ipu__device_end_run(d, &(ipu__run_counts){.cycles = -1, .tile_bytes = -1});
}

static void simulated_errors_stay_until_reset(void **state)
{
    (void)state;
    setenv("GCDA_OPTIONS",
           "{\"simulateSOCError.errorList\": \"IPUSOFTERR\", \"simulateSOCError.triggerCount\": \"3\","
           " \"simulateSOCError.rearmOnReset\": \"true\"}",
           1);
    ipu_device *d = attached(5);
    run_once(d, IPU_OK);
    run_once(d, IPU_OK);
    run_once(d, IPU_DEVICE_ERROR);
    assert_message("device 5");
    assert_message("IPUSOFTERR");
    assert_message("gc-reset -d 5");
    run_once(d, IPU_DEVICE_ERROR);
    ipu_info *info;
    assert_status(ipu_info_create(IPU_INFO_ACTIVE_PARTITION, &info), IPU_OK);
    assert_string_equal(ipu_info_get(info, 1, IPU_INFO_ERROR_STATE), "no errors");
    assert_string_equal(ipu_info_get(info, 2, IPU_INFO_ERROR_STATE), "IPUSOFTERR");
    assert_string_equal(ipu_info_get(info, 3, IPU_INFO_ERROR_STATE), "IPUSOFTERR");
    assert_status(ipu_device_reset(5), IPU_OK); /* by its own process: it may continue */
    assert_status(ipu_info_update(info), IPU_OK);
    assert_string_equal(ipu_info_get(info, 2, IPU_INFO_ERROR_STATE), "no errors");
    ipu_info_destroy(info);
    run_once(d, IPU_OK);
    run_once(d, IPU_OK);
    run_once(d, IPU_DEVICE_ERROR); /* armed again */
    ipu_device_close(d);
    unsetenv("GCDA_OPTIONS");
    d = attached(2);
    run_once(d, IPU_DEVICE_ERROR); /* outlives the process's hold on it */
    ipu_device_close(d);
    assert_status(ipu_device_reset(6), IPU_OK);
    d = attached(2);
    run_once(d, IPU_OK);
    ipu_device_close(d);
}

static void a_device_in_use_is_not_reset(void **state)
{
    (void)state;
    int  told[2], hold[2];
    char byte;
    assert_int_equal(pipe(told), 0);
    assert_int_equal(pipe(hold), 0);
    pid_t pid = fork();
    if (pid == 0) {
        ipu_device *d;
        close(hold[1]);
        if (ipu_device_open(0, &d) != IPU_OK || ipu_device_attach(d, 0) != IPU_OK
            || write(told[1], "r", 1) != 1)
            _exit(1);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(read(told[0], &byte, 1), 1);
    assert_status(ipu_device_reset(4), IPU_BUSY);
    assert_message("cannot be reset while it is in use");
    assert_status(ipu_device_reset(5), IPU_OK);
    assert_status(ipu_device_reset(7), IPU_NOT_FOUND);
    close(hold[1]);
    waitpid(pid, NULL, 0);
    assert_status(ipu_device_reset(4), IPU_OK);
    close(hold[0]);
    close(told[0]);
    close(told[1]);
}

static void options_that_are_wrong_say_so(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"{", "expected a JSON object"},
        {"[1]", "expected a JSON object"},
        {"{\"monitorUtilization\": \"true\"}", "did you mean \"monitorUtilisation\"?"},
        {"{\"monitorUtilisation\": \"yes\"}", "expected true or false, found \"yes\""},
        {"{\"monitorUtilisation\": {}}", "expected text"},
        {"{\"simulateSOCError.errorList\": \"\"}", "names in capitals"},
        {"{\"simulateSOCError.errorList\": \"A,,B\"}", "names in capitals"},
        {"{\"simulateSOCError.errorList\": \"soft\"}", "names in capitals"},
        {"{\"simulateSOCError.triggerCount\": \"0\"}", "from 1"},
        {"{\"simulateSOCError.triggerCount\": \"3x\"}", "from 1"},
        {"{\"simulateSOCError.rearmOnReset\": \"1\"}", "true or false"},
    };
    static const char *const right[] = {
        "", "{}", "{\"configFile\": \"x\", \"enableMonitoring\": \"true\"}",
        "{\"monitorUtilisation\": true, \"simulateSOCError.triggerCount\": 2}"};
    ipu_device *d;
    assert_status(ipu_device_open(0, &d), IPU_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("GCDA_OPTIONS", wrong[i][0], 1);
        assert_status(ipu_device_attach(d, 0), IPU_INVALID);
        assert_message("GCDA_OPTIONS");
        assert_message(wrong[i][1]);
    }
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        setenv("GCDA_OPTIONS", right[i], 1);
        assert_status(ipu_device_attach(d, 0), IPU_OK);
        assert_status(ipu_device_detach(d), IPU_OK);
    }
    ipu_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SANDBOXED(runs_are_counted_for_everyone_to_see),
        SANDBOXED(utilisation_is_the_share_of_time_that_programs_run),
        SANDBOXED(a_device_attaches_when_it_runs),
        SANDBOXED(engines_of_a_process_share_what_it_has),
        SANDBOXED(simulated_errors_stay_until_reset),
        SANDBOXED(a_device_in_use_is_not_reset),
        SANDBOXED(options_that_are_wrong_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

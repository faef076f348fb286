/* The monitor's metrics, for samples that no test can have at will: names that break lines, IPUs without ids, the same thing
 * twice. Also who may ask the page: tokens and Host headers. Made by the tool's own sources. */
#include "monitor/metrics.c"
#include "web/address.c"
#include "web/token.c"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* What the sources report, instead of printing it. */
static char told[1024];

static void tell(const char *format, va_list list) { vsnprintf(told, sizeof told, format, list); }

tool_exit tool_fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    tell(format, list);
    va_end(list);
    return TOOL_FAILED;
}

tool_exit tool_usage(const char *command, const char *format, ...)
{
    va_list list;
    assert_string_equal(command, "monitor");
    va_start(list, format);
    tell(format, list);
    va_end(list);
    return TOOL_USAGE;
}

/* ---- metrics ---- */

static const metrics_monitor self = {
    .version = "1.2.3", .looks = 7, .failures = 2, .look_seconds = 0.25, .scrapes = 3, .scrape_seconds = 0.5};

static char *write_metrics(const char *json, metrics_form form)
{
    json_error_t error;
    json_t      *sample = json_loads(json, 0, &error);
    size_t       size   = 0;
    assert_non_null(sample);
    char *text = metrics_write(sample, &self, form, &size);
    assert_non_null(text);
    assert_int_equal(strlen(text), size);
    json_decref(sample);
    return text;
}

static bool has_line(const char *text, const char *whole)
{
    char wanted[512];
    snprintf(wanted, sizeof wanted, "\n%s\n", whole);
    return strstr(text, wanted);
}

static int count_lines(const char *text, const char *beginning)
{
    int n = !strncmp(text, beginning, strlen(beginning));
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        n += !strncmp(at + 1, beginning, strlen(beginning));
    return n;
}

static const char empty[] =
    "{\"time\": 1.5, \"problem\": null, \"partitions\": [], \"ipus\": [], \"processes\": [], "
    "\"alerts\": []}";

static void the_monitor_tells_of_itself(void **state)
{
    (void)state;
    char *text = write_metrics(empty, METRICS_PROMETHEUS);
    assert_true(has_line(text, "exporter_ticks 7"));
    assert_true(has_line(text, "openipu_build_info{version=\"1.2.3\"} 1"));
    assert_true(has_line(text, "openipu_up 1"));
    assert_true(has_line(text, "openipu_look_failures_total 2"));
    assert_true(has_line(text, "openipu_look_duration_seconds 0.25"));
    assert_true(has_line(text, "openipu_look_timestamp_seconds 1.5"));
    assert_true(has_line(text, "openipu_scrape_duration_seconds_total 0.5"));
    assert_int_equal(count_lines(text, "ipu_attached"), 0);
    free(text);
    text = write_metrics("{\"time\": 2, \"problem\": \"broken\"}", METRICS_PROMETHEUS);
    assert_true(has_line(text, "openipu_up 0"));
    free(text);
}

static void openmetrics_has_its_own_names_units_and_end(void **state)
{
    (void)state;
    char *text = write_metrics(empty, METRICS_OPENMETRICS);
    assert_true(has_line(text, "# TYPE openipu_host_bytes counter"));
    assert_true(has_line(text, "# UNIT openipu_host_bytes bytes"));
    assert_true(has_line(text, "# TYPE openipu_build info"));
    assert_true(has_line(text, "# TYPE exporter_ticks unknown"));
    assert_true(has_line(text, "openipu_looks_total 7"));
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    free(text);
    text = write_metrics(empty, METRICS_PROMETHEUS);
    assert_true(has_line(text, "# TYPE openipu_host_bytes_total counter"));
    assert_true(has_line(text, "# TYPE openipu_build_info gauge"));
    assert_true(has_line(text, "# TYPE exporter_ticks untyped"));
    assert_int_equal(count_lines(text, "# UNIT"), 0);
    assert_int_equal(count_lines(text, "# EOF"), 0);
    free(text);
}

#define PROCESS(device, since, runs)                                                            \
    "{\"owner\": \"u\", \"partition\": \"p\", \"gcd\": 0, \"device\": " device ", \"pid\": 9, " \
    "\"user\": \"a\\\\b\", \"command\": \"x\\\"y\\nz\", \"since\": " since ", \"runs\": " runs "}"
#define PROCESSES_OF(list) "{\"time\": 1, \"problem\": null, \"processes\": [" list "]}"
#define LABELS(device)                                                                        \
    "{owner=\"u\",partition=\"p\",gcd=\"0\",device=\"" device "\",pid=\"9\",user=\"a\\\\b\"," \
    "command=\"x\\\"y\\nz\"}"

static void names_are_escaped(void **state)
{
    (void)state;
    char *text = write_metrics(PROCESSES_OF(PROCESS("3", "2.5", "11")), METRICS_PROMETHEUS);
    assert_true(has_line(text, "openipu_runs_total" LABELS("3") " 11"));
    assert_true(has_line(text, "openipu_attached_timestamp_seconds" LABELS("3") " 2.5"));
    assert_int_equal(count_lines(text, "openipu_cycles_total{"), 0); /* not measured */
    free(text);
}

static void ipus_without_ids_are_told_apart_and_nothing_is_there_twice(void **state)
{
    (void)state;
    char *text = write_metrics(
        PROCESSES_OF(PROCESS("null", "2.25", "1") ", " PROCESS("null", "4", "2") ", " PROCESS(
            "null", "4", "3") ", " PROCESS("5", "1", "123456789012345678")),
        METRICS_OPENMETRICS);
    assert_true(has_line(text, "openipu_runs_total" LABELS("own@2.250000") " 1"));
    assert_true(has_line(text, "openipu_runs_total" LABELS("own@4.000000") " 2"));
    assert_true(has_line(text, "openipu_runs_total" LABELS("5") " 123456789012345678"));
    assert_int_equal(count_lines(text, "openipu_runs_total{"), 3);
    free(text);
}

static void an_ipu_has_the_clock_of_its_own_partition(void **state)
{
    (void)state;
    char *text = write_metrics(
        "{\"time\": 1, \"problem\": null, \"partitions\": ["
        "{\"owner\": \"u\", \"name\": \"p\", \"gcd\": 0, \"clock_hz\": 1330000000},"
        "{\"owner\": \"v\", \"name\": \"p\", \"gcd\": 0, \"clock_hz\": 1850000000.5}], \"ipus\": ["
        "{\"owner\": \"v\", \"partition\": \"p\", \"gcd\": 0, \"index\": 1, \"pid\": 0, \"error\": null},"
        "{\"owner\": \"u\", \"partition\": \"p\", \"gcd\": 0, \"index\": 1, \"pid\": null, \"error\": \"E\"},"
        "{\"owner\": \"w\", \"partition\": \"p\", \"gcd\": 0, \"index\": 1, \"pid\": null, \"error\": null}]}",
        METRICS_PROMETHEUS);
#define IPU(owner) "{owner=\"" owner "\",partition=\"p\",gcd=\"0\",ipu=\"1\"}"
    assert_true(has_line(text, "ipu_tile_clk_speed" IPU("v") " 1850000000.5"));
    assert_true(has_line(text, "gcipuinfo_clock_frequency" IPU("u") " 1330000000"));
    assert_int_equal(count_lines(text, "ipu_tile_clk_speed{"), 2);
    assert_true(has_line(text, "ipu_attached" IPU("v") " 1"));
    assert_true(has_line(text, "ipu_attached" IPU("u") " 0"));
    assert_true(has_line(text, "openipu_error" IPU("u") " 1"));
    assert_true(has_line(text, "openipu_error" IPU("w") " 0"));
    free(text);
}

static void alerts_are_numbers(void **state)
{
    (void)state;
    char *text = write_metrics("{\"time\": 1, \"problem\": null, \"alerts\": ["
                               "{\"alert\": \"a\", \"state\": \"firing\", \"subject\": \"s\"},"
                               "{\"alert\": \"a\", \"state\": \"pending\", \"subject\": \"t\"},"
                               "{\"alert\": \"b\", \"state\": \"ok\", \"subject\": null}]}",
                               METRICS_PROMETHEUS);
    assert_true(has_line(text, "openipu_alert_state{alert=\"a\",subject=\"s\"} 2"));
    assert_true(has_line(text, "openipu_alert_state{alert=\"a\",subject=\"t\"} 1"));
    assert_true(has_line(text, "openipu_alert_state{alert=\"b\",subject=\"\"} 0"));
    free(text);
}

static void the_accept_header_chooses_the_form(void **state)
{
    (void)state;
    assert_int_equal(metrics_negotiate(NULL), METRICS_PROMETHEUS);
    assert_int_equal(metrics_negotiate(""), METRICS_PROMETHEUS);
    assert_int_equal(metrics_negotiate("text/plain, */*"), METRICS_PROMETHEUS);
    assert_int_equal(metrics_negotiate("application/openmetrics-text"), METRICS_OPENMETRICS);
    assert_int_equal(metrics_negotiate("text/html, Application/OpenMetrics-Text;version=1.0.0"),
                     METRICS_OPENMETRICS);
    assert_int_equal(metrics_negotiate("application/openmetrics-text;version=0.0.1"), METRICS_PROMETHEUS);
    assert_int_equal(metrics_negotiate("x-application/openmetrics-text"), METRICS_PROMETHEUS);
}

/* ---- who may ask ---- */

static void only_the_token_is_the_token(void **state)
{
    (void)state;
    web_token t = {.text = "0123456789abcdef"};
    assert_true(web_token_is(&t, "0123456789abcdef"));
    assert_false(web_token_is(&t, "0123456789abcdeF"));
    assert_false(web_token_is(&t, "0123456789abcde"));
    assert_false(web_token_is(&t, "0123456789abcdef0"));
    assert_false(web_token_is(&t, "0123456789abcdef0123456789abcdef")); /* itself, twice */
    assert_false(web_token_is(&t, ""));
    assert_false(web_token_is(&t, NULL));
    assert_false(web_token_is(&(web_token){0}, "")); /* none is no password */
    assert_false(web_token_is(&(web_token){0}, NULL));
}

static void made_tokens_differ_and_are_long(void **state)
{
    (void)state;
    web_token a, b;
    unsetenv("IPU_MONITOR_TOKEN");
    assert_int_equal(web_token_get(NULL, true, &a), TOOL_OK);
    assert_int_equal(web_token_get(NULL, true, &b), TOOL_OK);
    assert_int_equal(strlen(a.text), 48);
    assert_true(a.made);
    assert_string_not_equal(a.text, b.text);
    assert_int_equal(web_token_get(NULL, false, &a), TOOL_OK);
    assert_string_equal(a.text, "");
    setenv("IPU_MONITOR_TOKEN", "too short", 1);
    assert_int_equal(web_token_get(NULL, false, &a), TOOL_FAILED);
    assert_non_null(strstr(told, "IPU_MONITOR_TOKEN: "));
    assert_null(getenv("IPU_MONITOR_TOKEN"));
}

/* Commands that the monitor starts inherit its environment. */
static void no_token_stays_in_the_environment(void **state)
{
    (void)state;
    web_token t;
    char      path[] = "/tmp/ipu-token-XXXXXX";
    int       fd     = mkstemp(path);
    assert_int_equal(write(fd, "0123456789abcdef\n", 17), 17);
    close(fd);
    setenv("IPU_MONITOR_TOKEN", "fedcba9876543210", 1);
    assert_int_equal(web_token_get(path, true, &t), TOOL_OK);
    unlink(path);
    assert_string_equal(t.text, "0123456789abcdef");
    assert_null(getenv("IPU_MONITOR_TOKEN"));
    setenv("IPU_MONITOR_TOKEN", "fedcba9876543210", 1);
    assert_int_equal(web_token_get(NULL, true, &t), TOOL_OK);
    assert_string_equal(t.text, "fedcba9876543210");
    assert_null(getenv("IPU_MONITOR_TOKEN"));
}

static void a_token_is_escaped_for_addresses(void **state)
{
    (void)state;
    char text[3 * WEB_TOKEN_MOST + 1];
    web_token_escape(&(web_token){.text = "aZ09-._~+/="}, text);
    assert_string_equal(text, "aZ09-._~%2B%2F%3D");
}

static void only_names_of_the_loopback_are_hosts(void **state)
{
    (void)state;
    const web_address a = {.host = "127.0.0.2", .port = 8091}, six = {.host = "::1", .port = 8091};
    const char *const good[] = {"localhost", "localhost:8091", "LocalHost:1",   "127.0.0.1:65535",
                                "[::1]",     "[::1]:8091",     "127.0.0.2:8091"};
    const char *const bad[]  = {"",
                                "evil.example",
                                "localhost.evil.example",
                                "evil.localhost",
                                "127.0.0.1.example",
                                "127.0.0.3",
                                "::1",
                                "localhost:",
                                "localhost:x",
                                "localhost:65536",
                                "localhost:8091:8091",
                                "[::1",
                                "[::1]x",
                                "localhost, evil.example",
                                "[::1]:80]",
                                " localhost"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(web_address_is_host(&a, good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(web_address_is_host(&a, bad[i]));
    assert_false(web_address_is_host(&a, NULL));
    assert_true(web_address_is_host(&six, "[::1]:8091"));
    assert_false(web_address_is_host(&six, "127.0.0.2"));
}

static void the_address_is_told_with_its_kind(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool        loopback, any;
    } rows[] = {{"127.0.0.1:0", true, false}, {"127.1.2.3:0", true, false}, {"0.0.0.0:0", false, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        web_address a;
        char        url[WEB_HOST + 32];
        assert_int_equal(web_address_listen(rows[i].text, &a), TOOL_OK);
        assert_int_equal(a.loopback, rows[i].loopback);
        assert_int_equal(a.any, rows[i].any);
        assert_int_not_equal(a.port, 0);
        web_address_url(&a, url, sizeof url);
        assert_memory_equal(url, "http://", 7);
        assert_null(strstr(url, "0.0.0.0"));
        close(a.socket);
    }
    assert_int_equal(web_address_listen("nonsense", &(web_address){0}), TOOL_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_monitor_tells_of_itself),
        cmocka_unit_test(openmetrics_has_its_own_names_units_and_end),
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(ipus_without_ids_are_told_apart_and_nothing_is_there_twice),
        cmocka_unit_test(an_ipu_has_the_clock_of_its_own_partition),
        cmocka_unit_test(alerts_are_numbers),
        cmocka_unit_test(the_accept_header_chooses_the_form),
        cmocka_unit_test(only_the_token_is_the_token),
        cmocka_unit_test(made_tokens_differ_and_are_long),
        cmocka_unit_test(no_token_stays_in_the_environment),
        cmocka_unit_test(a_token_is_escaped_for_addresses),
        cmocka_unit_test(only_names_of_the_loopback_are_hosts),
        cmocka_unit_test(the_address_is_told_with_its_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Alerts: what a rule may say, what it is told when it is wrong, and states over time that the test makes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "monitor/alert.h"

enum { N_PROCESSES = 3, N_IPUS = 4 };

static const int64_t second = 1000000000;

static watch_partition partitions[2];
static watch_ipu       ipus[2 * N_IPUS];
static watch_process   processes[N_PROCESSES];
static watch_sample    sample;

/* Two partitions of four IPUs; alice has IPUs 0 and 1 of p1, bob IPU 2 of p1, carol further ones of p2. */
static int begin(void **state)
{
    static const char *const users[] = {"alice", "bob", "carol"};
    (void)state;
    memset(partitions, 0, sizeof partitions);
    memset(processes, 0, sizeof processes);
    memset(ipus, 0, sizeof ipus);
    for (int i = 0; i < 2; i++) {
        partitions[i] = (watch_partition){.n_ipus = N_IPUS, .first_ipu = N_IPUS * i, .bytes_per_ipu = 1000};
        snprintf(partitions[i].name, WATCH_TEXT, "p%d", i + 1);
        snprintf(partitions[i].title, WATCH_TITLE, "p%d", i + 1);
        snprintf(partitions[i].owner, WATCH_TEXT, "root");
    }
    for (int i = 0; i < 2 * N_IPUS; i++)
        ipus[i] = (watch_ipu){.partition = i / N_IPUS, .id = i, .index = i % N_IPUS, .process = -1};
    for (int i = 0; i < N_PROCESSES; i++) {
        processes[i] = (watch_process){
            .pid = 100 + i, .device = i, .first_id = i, .n_ipus = 1, .since_ns = second};
        snprintf(processes[i].user, WATCH_TEXT, "%s", users[i]);
        processes[i].runs_per_second = processes[i].host_bytes_per_second = -1;
        processes[i].counters.utilisation                                 = 0.5;
        processes[i].counters.cycles = processes[i].counters.tile_bytes = -1;
    }
    processes[0].n_ipus   = 2;
    processes[0].device   = 4;
    processes[1].first_id = processes[1].device = 2;
    processes[2].first_id = processes[2].device = -1;
    processes[2].partition                      = 1;
    ipus[0].process = ipus[1].process = 0;
    ipus[2].process                   = 1;
    partitions[0].n_free              = 1;
    partitions[1].n_free              = 4;
    partitions[0].n_processes         = 2;
    partitions[1].n_processes         = 1;
    sample                            = (watch_sample){.time_ns      = 10 * second,
                                                       .partitions   = partitions,
                                                       .ipus         = ipus,
                                                       .processes    = processes,
                                                       .n_partitions = 2,
                                                       .n_ipus       = 2 * N_IPUS,
                                                       .n_processes  = N_PROCESSES};
    return 0;
}

static alert_rule parse(const char *text)
{
    alert_rule rule;
    char       problem[ALERT_PROBLEM] = "";
    if (!alert_parse(text, &rule, problem, sizeof problem)) fail_msg("\"%s\": %s", text, problem);
    return rule;
}

static void refuses(const char *text, const char *expected)
{
    alert_rule rule;
    char       problem[ALERT_PROBLEM] = "";
    if (alert_parse(text, &rule, problem, sizeof problem)) fail_msg("\"%s\" is taken", text);
    if (!strstr(problem, expected)) fail_msg("\"%s\": \"%s\" is not in: %s", text, expected, problem);
}

/* ---- rules ---- */

static void rules_are_read(void **state)
{
    (void)state;
    alert_rule r = parse(" utilisation<5% for 10m ");
    assert_string_equal(r.text, "utilisation<5% for 10m");
    assert_string_equal(r.op, "<");
    assert_float_equal(r.bound, 0.05, 1e-12);
    assert_int_equal(r.for_ns, 600 * second);
    r = parse("free <= 1");
    assert_string_equal(r.op, "<=");
    assert_float_equal(r.bound, 1, 0);
    assert_int_equal(r.for_ns, 0);
    assert_float_equal(parse("held>8h").bound, 8 * 3600, 0);
    assert_float_equal(parse("held>1h30m").bound, 5400, 0);
    assert_float_equal(parse("held > 90 for 1.5s").bound, 90, 0);
    assert_int_equal(parse("held > 90 for 1.5s").for_ns, 1500000000);
    assert_float_equal(parse("memory>=0.9").bound, 0.9, 0);
    assert_float_equal(parse("memory>90 %").bound, 0.9, 1e-12);
    assert_float_equal(parse("host_bytes>1.5GiB").bound, 1.5 * 1024 * 1024 * 1024, 0);
    assert_float_equal(parse("host_bytes_per_second<2kB for 2d").bound, 2000, 0);
    assert_float_equal(parse("runs!=3k").bound, 3000, 0);
    assert_float_equal(parse("utilisation==.5").bound, 0.5, 0);
}

static void every_metric_can_be_used(void **state)
{
    (void)state;
    int n = 0;
    for (const char *name; (name = alert_metric_name(n)); n++) {
        char text[ALERT_TEXT];
        snprintf(text, sizeof text, "%s>0", name);
        parse(text);
    }
    assert_true(n >= 16);
}

static void wrong_rules_say_what_there_is(void **state)
{
    (void)state;
    refuses("", "expected METRIC OPERATOR VALUE");
    refuses("free", "operators are < <= > >= == !=");
    refuses("free=1", "operators are");
    refuses("free<", "expected METRIC");
    refuses("free<-1", "expected METRIC");
    refuses("free<nan", "expected METRIC");
    refuses("free<1 for", "\"for\" needs a duration");
    refuses("free<1 for 5m and more", "expected METRIC");
    refuses("utilization<5%", "did you mean \"utilisation\"");
    refuses("temperature>80", "expected one of utilisation, utilisation_session, held");
    refuses("utilisation<5", "did you mean 5%");
    refuses("utilisation<101%", "from 0% to 100%");
    refuses("free<1%", "expected k M G, or none");
    refuses("host_bytes>1h", "expected B kB MB GB TB KiB MiB GiB TiB, or none");
    refuses("held>8x", "30s, 10m, 8h");
    refuses("held>1 for 2x", "\"for 2x\" is no duration");
    refuses("held>1 for -5s", "is no duration");
    refuses("held>1 for 0x10", "is no duration");
    refuses("held>1 for inf", "is no duration");
    refuses("held>1 for 11000d", "is no duration");
    char long_text[500];
    memset(long_text, 'f', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    refuses(long_text, "expected METRIC");
}

/* ---- states ---- */

static alerts *watching(const char *text)
{
    alert_rule rule = parse(text);
    alerts    *a    = alerts_create(&rule, 1);
    assert_non_null(a);
    return a;
}

static int firing(const alerts *a)
{
    int n = 0;
    for (int i = 0; i < alerts_n(a); i++) n += alerts_at(a, i)->state == ALERT_FIRING;
    return n;
}

static void ok_pending_firing_resolved(void **state)
{
    (void)state;
    alerts *a = watching("utilisation<5% for 10s");
    assert_true(alerts_look(a, &sample, 0));
    assert_int_equal(alerts_n(a), 0);
    processes[1].counters.utilisation = 0.01;
    sample.time_ns                    = 20 * second;
    assert_true(alerts_look(a, &sample, 1 * second));
    assert_int_equal(alerts_n(a), 1);
    assert_int_equal(alerts_at(a, 0)->state, ALERT_PENDING);
    assert_int_equal(alerts_at(a, 0)->since_ns, 20 * second);
    assert_int_equal(alerts_n_changes(a), 0);
    assert_true(alerts_look(a, &sample, 10 * second));
    assert_int_equal(alerts_at(a, 0)->state, ALERT_PENDING);
    sample.time_ns = 30 * second;
    assert_true(alerts_look(a, &sample, 11 * second));
    assert_int_equal(alerts_at(a, 0)->state, ALERT_FIRING);
    assert_int_equal(alerts_n_changes(a), 1);
    const alert *one = alerts_change(a, 0);
    assert_string_equal(one->subject, "IPU 2 of p1 (pid 101, bob)");
    assert_string_equal(one->partition, "p1");
    assert_string_equal(one->user, "bob");
    assert_int_equal(one->ipu, 2);
    assert_int_equal(one->pid, 101);
    assert_float_equal(one->value, 0.01, 0);
    assert_int_equal(one->since_ns, 30 * second);
    assert_true(alerts_look(a, &sample, 12 * second));
    assert_int_equal(alerts_n_changes(a), 0); /* told once */
    assert_int_equal(firing(a), 1);
    processes[1].counters.utilisation = 0.9;
    assert_true(alerts_look(a, &sample, 13 * second));
    assert_int_equal(alerts_n(a), 0);
    assert_int_equal(alerts_n_changes(a), 1);
    assert_int_equal(alerts_change(a, 0)->state, ALERT_RESOLVED);
    assert_float_equal(alerts_change(a, 0)->value, 0.9, 0);
    alerts_destroy(a);
}

static void what_was_only_pending_is_not_told(void **state)
{
    (void)state;
    alerts *a                         = watching("utilisation<5% for 10s");
    processes[0].counters.utilisation = 0;
    assert_true(alerts_look(a, &sample, 0));
    processes[0].counters.utilisation = 1;
    assert_true(alerts_look(a, &sample, 9 * second));
    assert_int_equal(alerts_n_changes(a), 0);
    processes[0].counters.utilisation = 0; /* and time counts anew */
    assert_true(alerts_look(a, &sample, 11 * second));
    assert_int_equal(alerts_at(a, 0)->state, ALERT_PENDING);
    assert_true(alerts_look(a, &sample, 20 * second));
    assert_int_equal(alerts_at(a, 0)->state, ALERT_PENDING);
    assert_true(alerts_look(a, &sample, 21 * second));
    assert_int_equal(alerts_at(a, 0)->state, ALERT_FIRING);
    alerts_destroy(a);
}

static void subjects_are_apart(void **state)
{
    (void)state;
    alerts *a = watching("utilisation<60%");
    assert_true(alerts_look(a, &sample, 0));
    assert_int_equal(alerts_n_changes(a), 3);
    assert_string_equal(alerts_change(a, 0)->subject, "IPUs 0 to 1 of p1 (pid 100, alice)");
    assert_string_equal(alerts_change(a, 2)->subject, "1 further IPU of p2 (pid 102, carol)");
    assert_int_equal(alerts_change(a, 2)->ipu, -1);
    processes[2].counters.utilisation = 1;
    assert_true(alerts_look(a, &sample, second));
    assert_int_equal(alerts_n_changes(a), 1);
    assert_int_equal(alerts_change(a, 0)->pid, 102);
    assert_int_equal(firing(a), 2);
    alerts_destroy(a);
}

static void one_who_is_gone_is_resolved(void **state)
{
    (void)state;
    alerts *a = watching("held>5s");
    char    text[ALERT_VALUE];
    assert_true(alerts_look(a, &sample, 0));
    assert_int_equal(firing(a), 3);
    sample.n_processes = 2; /* carol went */
    assert_true(alerts_look(a, &sample, second));
    assert_int_equal(alerts_n_changes(a), 1);
    assert_string_equal(alerts_change(a, 0)->user, "carol");
    assert_true(isnan(alerts_change(a, 0)->value));
    alert_value_text(alerts_rule(a, 0), alerts_change(a, 0)->value, text);
    assert_string_equal(text, "gone");
    processes[1].since_ns = 9 * second; /* bob's device has another holder of the same number */
    assert_true(alerts_look(a, &sample, 2 * second));
    assert_int_equal(alerts_n_changes(a), 1);
    assert_int_equal(alerts_change(a, 0)->state, ALERT_RESOLVED);
    alerts_destroy(a);
}

static void what_is_not_measured_holds_for_nothing(void **state)
{
    (void)state;
    alert_rule rules[] = {parse("cycles>=0"), parse("cycles<1"), parse("memory<1"),
                          parse("runs_per_second<1"), parse("utilisation!=2%")};
    for (int i = 0; i < N_PROCESSES; i++) processes[i].counters.utilisation = -1;
    alerts *a = alerts_create(rules, 5);
    assert_true(alerts_look(a, &sample, 0));
    assert_int_equal(alerts_n(a), 0);
    processes[0].counters.tile_bytes = 1800; /* of 2000 */
    processes[0].runs_per_second     = 0.5;
    assert_true(alerts_look(a, &sample, second));
    assert_int_equal(alerts_n(a), 2);
    assert_float_equal(alerts_at(a, 0)->value, 0.9, 1e-12);
    alerts_destroy(a);
}

static void ipus_and_partitions_are_subjects_too(void **state)
{
    (void)state;
    alert_rule rules[] = {parse("errors>0"), parse("free<1"), parse("attached>=3"), parse("processes==1")};
    strcpy(ipus[5].error, "IPUSOFTERR,IPUHARDERR");
    alerts *a = alerts_create(rules, 4);
    assert_true(alerts_look(a, &sample, 0));
    assert_int_equal(alerts_n(a), 3);
    assert_string_equal(alerts_at(a, 0)->subject, "IPU 5 of p2");
    assert_float_equal(alerts_at(a, 0)->value, 2, 0);
    assert_string_equal(alerts_at(a, 1)->subject, "partition p1");
    assert_string_equal(alerts_at(a, 2)->subject, "partition p2");
    partitions[0].n_free = 0;
    assert_true(alerts_look(a, &sample, second));
    assert_int_equal(alerts_n_changes(a), 1);
    assert_int_equal(alerts_change(a, 0)->rule, 1);
    alerts_destroy(a);
}

static void what_cannot_be_seen_stays_as_it_is(void **state)
{
    (void)state;
    alerts *a                         = watching("utilisation<5%");
    processes[0].counters.utilisation = 0;
    assert_true(alerts_look(a, &sample, 0));
    assert_int_equal(firing(a), 1);
    partitions[0].stale               = true;
    processes[0].counters.utilisation = 1;
    processes[1].counters.utilisation = 0;
    assert_true(alerts_look(a, &sample, second));
    assert_int_equal(alerts_n_changes(a), 0);
    assert_int_equal(firing(a), 1);
    alerts_destroy(a);
}

static void more_partitions_change_no_subject(void **state)
{
    (void)state;
    alerts *a = watching("errors>0");
    strcpy(ipus[0].error, "IPUSOFTERR");
    assert_true(alerts_look(a, &sample, 0));
    assert_int_equal(alerts_n_changes(a), 1);
    ipus[0].id = 7; /* another partition comes before it: ids are raised */
    assert_true(alerts_look(a, &sample, second));
    assert_int_equal(alerts_n_changes(a), 0);
    assert_int_equal(firing(a), 1);
    alerts_destroy(a);
}

static void values_are_words(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        double      value;
        const char *text;
    } rows[] = {
        {"utilisation<1%", 0.042, "4.20%"}, {"held>1s", 3725, "1h2m"}, {"host_bytes>1", 1536, "1.5 KiB"},
        {"host_bytes>1", 12, "12 B"},       {"free<1", 3, "3"},        {"runs>1", 123456789, "123456789"},
        {"memory>1%", 1, "100.00%"},        {"held>1s", 0.4, "0s"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char       text[ALERT_VALUE];
        alert_rule rule = parse(rows[i].rule);
        alert_value_text(&rule, rows[i].value, text);
        assert_string_equal(text, rows[i].text);
    }
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rules_are_read),
        TEST(every_metric_can_be_used),
        TEST(wrong_rules_say_what_there_is),
        TEST(ok_pending_firing_resolved),
        TEST(what_was_only_pending_is_not_told),
        TEST(subjects_are_apart),
        TEST(one_who_is_gone_is_resolved),
        TEST(what_is_not_measured_holds_for_nothing),
        TEST(ipus_and_partitions_are_subjects_too),
        TEST(what_cannot_be_seen_stays_as_it_is),
        TEST(more_partitions_change_no_subject),
        TEST(values_are_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

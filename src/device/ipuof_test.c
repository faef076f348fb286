/* IPUoF files: what each key does, and errors that name file, key and fix. */
#include "device/ipuof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"

static ipu_status parse(ipu__arena *arena, const char *file, const char *text, ipu__partition_spec *out)
{
    return ipu__ipuof_parse(arena, file, text, strlen(text), out);
}

static void every_key_is_read(void **state)
{
    (void)state;
    static const char text[] =
        "{\"partition\": \"p1\", \"chip\": \"bow\", \"ipus\": 8, \"reconfigurable\": false,"
        " \"elastic\": true, \"routing\": \"SWNC\", \"sync_type\": \"pod\", \"replicas\": 2,"
        " \"attributes\": {\"GCD Id\": \"3\", \"x\": 1},"
        " \"machines\": [{\"host\": \"10.1.5.10\", \"type\": \"B\", \"software\": \"2.4.2\","
        "   \"server\": \"1.8.1\", \"firmware\": \"2.3.5\","
        "   \"boards\": [\"0134.0002.8210321\", \"0134.0001.8210321\"]}, {}]}";
    ipu__arena          arena = {0};
    ipu__partition_spec spec;
    ipu_partition       p;
    assert_int_equal(parse(&arena, "/x/y.conf", text, &spec), IPU_OK);
    assert_int_equal(ipu__partition_build(&arena, &spec, &p), IPU_OK);
    assert_string_equal(p.name, "p1");
    assert_string_equal(p.file, "/x/y.conf");
    assert_string_equal(p.chip, "bow");
    assert_int_equal(p.n_ipus, 8);
    assert_int_equal(p.gcd, 3);
    assert_false(p.reconfigurable);
    assert_true(p.elastic);
    assert_string_equal(p.routing, "SWNC");
    assert_string_equal(p.sync_type, "pod");
    assert_int_equal(p.n_replicas, 2);
    const ipu_machine *m = p.machines;
    assert_int_equal(p.n_machines, 2);
    assert_string_equal(m[0].host, "10.1.5.10");
    assert_string_equal(m[0].type, "B");
    assert_string_equal(m[0].software, "2.4.2");
    assert_string_equal(m[0].server, "1.8.1");
    assert_string_equal(m[0].firmware, "2.3.5");
    assert_string_equal(p.singles[1].board, "0134.0002.8210321");
    assert_string_equal(p.singles[2].board, "0134.0001.8210321");
    assert_string_equal(m[1].host, "localhost");
    assert_string_equal(m[1].type, "Bow");
    ipu__arena_fini(&arena);
}

static void an_empty_object_is_a_hard_machine_named_after_the_file(void **state)
{
    (void)state;
    ipu__arena          arena = {0};
    ipu__partition_spec spec;
    ipu_partition       p;
    assert_int_equal(parse(&arena, "/etc/ipuof.conf", "{}", &spec), IPU_OK);
    assert_int_equal(ipu__partition_build(&arena, &spec, &p), IPU_OK);
    assert_string_equal(p.name, "ipuof");
    assert_string_equal(p.chip, "gc200");
    assert_int_equal(p.n_ipus, 4);
    assert_false(p.elastic);
    assert_true(p.reconfigurable);
    assert_int_equal(parse(&arena, "many.conf", "{\"ipus\": 64}", &spec), IPU_OK);
    assert_int_equal(spec.n_ipus, 64);
    assert_int_equal(parse(&arena, "few.conf", "{\"ipus\": 2}", &spec), IPU_OK);
    assert_int_equal(spec.n_ipus, 2);
    assert_int_equal(parse(&arena, "bow.conf", "{\"system\": \"bow-pod256\"}", &spec), IPU_OK);
    ipu__arena_fini(&arena);
}

static void errors_name_file_key_and_fix(void **state)
{
    (void)state;
    static const struct {
        const char *text, *key, *fix;
    } wrong[] = {
        {"", "/x/p.conf:1", "remove the file"},
        {"{\"ipus\": 4,\n}", "/x/p.conf:2", "correct it"},
        {"[]", "expected a JSON object", "{\"partition\""},
        {"{\"ipus\": 4, \"ipus\": 8}", "duplicate", "correct it"},
        {"{\"systm\": \"pod16\"}", "\"systm\"", "did you mean \"system\"?"},
        {"{\"zzz\": 1}", "\"zzz\"", "expected one of partition, system"},
        {"{\"system\": \"pod17\"}", "\"system\"", "pod16"},
        {"{\"system\": 16}", "\"system\"", "write \"...\""},
        {"{\"system\": \"pod16\", \"chip\": \"bow\"}", "\"chip\"", "leave one out"},
        {"{\"ipus\": 3}", "\"ipus\"", "power of two"},
        {"{\"ipus\": 0}", "\"ipus\"", "from 1 to 256"},
        {"{\"ipus\": 512}", "\"ipus\"", "from 1 to 256"},
        {"{\"ipus\": \"4\"}", "\"ipus\"", "without quotes"},
        {"{\"ipus\": 32, \"system\": \"pod16\"}", "\"system\"", "it has 16"},
        {"{\"partition\": \"a/b\"}", "\"partition\"", "letters, digits"},
        {"{\"reconfigurable\": \"yes\"}", "\"reconfigurable\"", "true or false"},
        {"{\"elastic\": 1}", "\"elastic\"", "true or false"},
        {"{\"routing\": \"a\\nb\"}", "\"routing\"", "control characters"},
        {"{\"routing\": \"a\\u0000b\"}", "", "correct it"},
        {"{\"replicas\": 0}", "\"replicas\"", "from 1"},
        {"{\"attributes\": 1}", "\"attributes\"", "GCD Id"},
        {"{\"attributes\": {\"GCD Id\": 0}}", "\"attributes.GCD Id\"", "as text"},
        {"{\"attributes\": {\"GCD Id\": \"x\"}}", "\"attributes.GCD Id\"", "as text"},
        {"{\"attributes\": {\"GCD Id\": \"1000\"}}", "\"attributes.GCD Id\"", "255"},
        {"{\"machines\": {}}", "\"machines\"", "one for each machine"},
        {"{\"machines\": [1]}", "\"machines[0].\"", "{\"host\""},
        {"{\"machines\": [{}, {}]}", "\"machines\"", "expected 1 machines for these IPUs, found 2"},
        {"{\"machines\": [{\"hst\": \"h\"}]}", "\"machines[0].hst\"", "did you mean \"host\"?"},
        {"{\"machines\": [{\"boards\": []}]}", "\"machines[0].boards\"", "serial numbers"},
        {"{\"machines\": [{\"boards\": [1]}]}", "\"machines[0].boards\"", "write \"...\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ipu__arena          arena = {0};
        ipu__partition_spec spec;
        if (parse(&arena, "/x/p.conf", wrong[i].text, &spec) != IPU_INVALID)
            fail_msg("%s parses", wrong[i].text);
        const char *parts[] = {"/x/p.conf", wrong[i].key, wrong[i].fix};
        for (int k = 0; k < 3; k++)
            if (!strstr(ipu_message(), parts[k]))
                fail_msg("%s: \"%s\" is not in: %s", wrong[i].text, parts[k], ipu_message());
        ipu__arena_fini(&arena);
    }
}

static void a_name_that_is_none_must_be_given(void **state)
{
    (void)state;
    ipu__arena          arena = {0};
    ipu__partition_spec spec;
    assert_int_equal(parse(&arena, "/x/my pod.conf", "{}", &spec), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "add \"partition\""));
    assert_int_equal(parse(&arena, "/x/my pod.conf", "{\"partition\": \"p\"}", &spec), IPU_OK);
    ipu__arena_fini(&arena);
}

static void what_is_printed_parses_to_the_same(void **state)
{
    (void)state;
    const ipu__partition_spec spec = {.name = "q", .target = "bow-pod64", .n_ipus = 32, .fixed = true};
    ipu__partition_spec       again;
    ipu__arena                arena = {0};
    char                     *text;
    assert_int_equal(ipu__ipuof_print(&spec, &text), IPU_OK);
    assert_int_equal(parse(&arena, "f", text, &again), IPU_OK);
    assert_string_equal(again.name, "q");
    assert_string_equal(again.target, "bow-pod64");
    assert_int_equal(again.n_ipus, 32);
    assert_true(again.fixed && !again.hard);
    ipu__free(text);
    ipu__arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(an_empty_object_is_a_hard_machine_named_after_the_file),
        cmocka_unit_test(errors_name_file_key_and_fix),
        cmocka_unit_test(a_name_that_is_none_must_be_given),
        cmocka_unit_test(what_is_printed_parses_to_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

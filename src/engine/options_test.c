/* Options: what is accepted and refused, and that the environment takes precedence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/host/pool.h"
#include "engine/options.h"
#include "ipu/engine.h"
#include "ipu/log.h"

static int set_up(void **state)
{
    unsetenv("POPLAR_ENGINE_OPTIONS");
    unsetenv("IPU_ENGINE_OPTIONS");
    return ipu_options_create((ipu_options **)state) == IPU_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    unsetenv("POPLAR_ENGINE_OPTIONS");
    unsetenv("IPU_ENGINE_OPTIONS");
    ipu_options_destroy(*state);
    ipu_log_set(IPU_LOG_OFF, NULL, NULL);
    return 0;
}

static void assert_says(const char *part)
{
    if (!strstr(ipu_message(), part)) fail_msg("expected \"%s\" in \"%s\"", part, ipu_message());
}

static void defaults_are_those_listed(void **state)
{
    int           n = 0;
    const char   *value, *help;
    ipu__settings settings;
    for (const char *key; (key = ipu_options_key_at(n, &value, &help)) != NULL; n++) {
        assert_string_equal(ipu_options_get(*state, key), value);
        assert_true(strlen(help) > 10);
    }
    assert_int_equal(n, 11);
    assert_null(ipu_options_key_at(-1, NULL, NULL));
    assert_int_equal(ipu__options_settle(NULL, &settings), IPU_OK);
    assert_int_equal(settings.threads, ipu__pool_default_threads());
    assert_true(settings.share);
    assert_false(settings.profile);
    assert_false(settings.check);
    assert_false(settings.check_floats);
    assert_false(settings.trust);
    assert_false(settings.estimate);
    assert_int_equal(settings.attach, IPU__ATTACH_ALWAYS);
    assert_int_equal(settings.wait_seconds, 0);
    assert_string_equal(settings.engine, "cpu");
}

static void values_are_checked_and_kept_as_they_were_when_wrong(void **state)
{
    ipu_options *o = *state;
    assert_int_equal(ipu_options_set(o, "threads", "3"), IPU_OK);
    static const char *const wrong[] = {"", "two", "-1", "3x", "4097", " 3", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(ipu_options_set(o, "threads", wrong[i]), IPU_INVALID);
        assert_says("\"threads\"");
        assert_says(wrong[i]);
        assert_string_equal(ipu_options_get(o, "threads"), "3");
    }
    assert_int_equal(ipu_options_set(o, "memory.share", "0"), IPU_OK);
    assert_string_equal(ipu_options_get(o, "memory.share"), "false");
    assert_int_equal(ipu_options_set(o, "memory.share", "maybe"), IPU_INVALID);
    assert_says("expected true or false, found \"maybe\"");
    assert_int_equal(ipu_options_set(o, NULL, "1"), IPU_INVALID);
    assert_int_equal(ipu_options_set(o, "threads", NULL), IPU_INVALID);
}

static void an_unknown_key_names_the_nearest(void **state)
{
    assert_int_equal(ipu_options_set(*state, "treads", "2"), IPU_NOT_FOUND);
    assert_says("\"treads\"");
    assert_says("\"threads\"");
    assert_int_equal(ipu_options_set(*state, "debug.", "2"), IPU_NOT_FOUND); /* a prefix is not a key */
    assert_int_equal(ipu_options_set(*state, "debugger", "2"), IPU_NOT_FOUND);
    assert_null(ipu_options_get(*state, "treads"));
}

static void keep_text(void *user, ipu_log_level level, const char *module, const char *text)
{
    assert_int_equal(level, IPU_LOG_INFO);
    assert_string_equal(module, "engine");
    strncpy(user, text, 199);
}

static void engines_are_chosen_by_name(void **state)
{
    ipu__settings settings;
    const char   *summary;
    assert_int_equal(ipu_options_set(*state, "engine", "nul"), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "there is no engine \"nul\" (did you mean \"null\"?)"));
    assert_string_equal(ipu_options_get(*state, "engine"), "cpu");
    for (int i = 0; ipu_engine_at(i, &summary); i++) {
        assert_int_equal(ipu_options_set(*state, "engine", ipu_engine_at(i, NULL)), IPU_OK);
        assert_int_equal(ipu__options_settle(*state, &settings), IPU_OK);
        assert_string_equal(settings.engine, ipu_engine_at(i, NULL));
        assert_true(strlen(summary) > 10);
    }
    assert_null(ipu_engine_at(-1, NULL));
    setenv("IPU_ENGINE", "null", 1);
    assert_int_equal(ipu__options_settle(NULL, &settings), IPU_OK);
    assert_string_equal(settings.engine, "null");
    setenv("IPU_ENGINE", "gpu", 1);
    assert_int_equal(ipu__options_settle(NULL, &settings), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "IPU_ENGINE: "));
    setenv("IPU_ENGINE", "", 1);
    assert_int_equal(ipu__options_settle(NULL, &settings), IPU_OK);
    assert_string_equal(settings.engine, "cpu");
    unsetenv("IPU_ENGINE");
}

static void options_of_poplar_are_accepted_and_noted(void **state)
{
    static const char *const keys[] = {"debug.instrument",
                                       "target.workerStackSizeInBytes",
                                       "autoReport.all",
                                       "exchange.streamBufferOverlap",
                                       "streamCallbacks.multiThreadMode",
                                       "profiler.replicaToProfile",
                                       "opt.internalExchangeOptimisationTarget"};
    char                     text[200];
    ipu_log_set(IPU_LOG_INFO, keep_text, text);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        memset(text, 0, sizeof text);
        assert_string_equal(ipu_options_get(*state, keys[i]), "");
        assert_int_equal(ipu_options_set(*state, keys[i], "true"), IPU_OK);
        assert_non_null(strstr(text, keys[i]));
        assert_string_equal(ipu_options_get(*state, keys[i]), "true");
        assert_int_equal(ipu_options_set(*state, keys[i], "again"), IPU_OK);
        assert_string_equal(ipu_options_get(*state, keys[i]), "again");
    }
}

static void json_sets_all_or_nothing(void **state)
{
    ipu_options *o = *state;
    assert_int_equal(
        ipu_options_set_json(o, "{\"threads\": 2, \"memory.share\": false, \"debug.verify\": 1.5}"), IPU_OK);
    assert_string_equal(ipu_options_get(o, "threads"), "2");
    assert_string_equal(ipu_options_get(o, "memory.share"), "false");
    assert_string_equal(ipu_options_get(o, "debug.verify"), "1.5");
    static const struct {
        const char *json, *says;
        ipu_status  status;
    } wrong[] = {
        {"{\"threads\": \"5\", \"nothing\": 1}", "\"nothing\"", IPU_NOT_FOUND},
        {"{\"threads\": \"5\", \"memory.share\": null}", "expected a string", IPU_INVALID},
        {"{\"threads\": \"5\", \"threads\": \"6\"}", "duplicate", IPU_INVALID},
        {"{\"threads\": \"5\",\n }", "line 2, column 2", IPU_INVALID},
        {"[\"threads\"]", "expected a JSON object", IPU_INVALID},
        {"", "ipu_options_set_json", IPU_INVALID},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(ipu_options_set_json(o, wrong[i].json), wrong[i].status);
        assert_says(wrong[i].says);
        assert_string_equal(ipu_options_get(o, "threads"), "2");
    }
    assert_int_equal(ipu_options_set_json(o, NULL), IPU_INVALID);
}

static void the_environment_overrides_and_ours_comes_last(void **state)
{
    ipu__settings settings;
    assert_int_equal(ipu_options_set(*state, "threads", "1"), IPU_OK);
    setenv("POPLAR_ENGINE_OPTIONS", "{\"threads\": \"2\", \"memory.share\": false, \"debug.trace\": \"x\"}",
           1);
    assert_int_equal(ipu__options_settle(*state, &settings), IPU_OK);
    assert_int_equal(settings.threads, 2);
    assert_false(settings.share);
    setenv("IPU_ENGINE_OPTIONS", "{\"threads\": 3}", 1);
    assert_int_equal(ipu__options_settle(*state, &settings), IPU_OK);
    assert_int_equal(settings.threads, 3);
    assert_false(settings.share);
    assert_string_equal(ipu_options_get(*state, "threads"), "1"); /* what the program set is unchanged */
    setenv("IPU_ENGINE_OPTIONS", "", 1);
    setenv("IPU_CHECK", "1", 1);
    assert_int_equal(ipu__options_settle(NULL, &settings), IPU_OK);
    assert_true(settings.check && !settings.share);
    unsetenv("IPU_CHECK");
    assert_int_equal(ipu__options_settle(NULL, &settings), IPU_OK);
    assert_int_equal(settings.threads, 2);
}

static void wrong_environment_is_named(void **state)
{
    ipu__settings settings;
    setenv("POPLAR_ENGINE_OPTIONS", "{\"threads\" 2}", 1);
    assert_int_equal(ipu__options_settle(*state, &settings), IPU_INVALID);
    assert_says("POPLAR_ENGINE_OPTIONS");
    assert_says("line 1, column 12");
    unsetenv("POPLAR_ENGINE_OPTIONS");
    setenv("IPU_ENGINE_OPTIONS", "{\"thread\": 2}", 1);
    assert_int_equal(ipu__options_settle(*state, &settings), IPU_NOT_FOUND);
    assert_says("IPU_ENGINE_OPTIONS");
    assert_says("\"threads\"");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(defaults_are_those_listed),        TEST(values_are_checked_and_kept_as_they_were_when_wrong),
        TEST(an_unknown_key_names_the_nearest), TEST(options_of_poplar_are_accepted_and_noted),
        TEST(json_sets_all_or_nothing),         TEST(the_environment_overrides_and_ours_comes_last),
        TEST(wrong_environment_is_named),       TEST(engines_are_chosen_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

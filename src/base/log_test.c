/* The log: silence, levels, the environment (each case in a child that reads it afresh), the writer,
 * threads and forks. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"

/* Required by the thread sanitizer: a child's exit leaves its parent's threads unjoined. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "report_thread_leaks=0"; }

/* ---- children ---- */

static char out_text[8192], err_text[8192];

static void read_back(FILE *file, char *text, size_t bytes)
{
    rewind(file);
    text[fread(text, 1, bytes - 1, file)] = 0;
    fclose(file);
}

/* Runs `body` in a child with this environment ("A=1 B=2") and no other log variable; stores its output in
 * out_text and err_text. */
static void in_child(const char *environment, void (*body)(void))
{
    FILE *out = tmpfile(), *err = tmpfile();
    assert_true(out && err);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        char copy[1024];
        snprintf(copy, sizeof copy, "%s", environment);
        clearenv();
        for (char *save, *e = strtok_r(copy, " ", &save); e; e = strtok_r(NULL, " ", &save)) putenv(e);
        dup2(fileno(out), 1);
        dup2(fileno(err), 2);
        body();
        fflush(stdout);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    read_back(out, out_text, sizeof out_text);
    read_back(err, err_text, sizeof err_text);
}

/* One message of each level and each of two modules. */
static void say_everything(void)
{
    ipu__log_text(IPU_LOG_PRINT, "program", "printed");
    ipu__log(IPU_LOG_ERR, "engine", "e%d", 1);
    ipu__log(IPU_LOG_WARN, "engine", "w%d", 1);
    ipu__log(IPU_LOG_INFO, "engine", "i%d", 1);
    ipu__log(IPU_LOG_DEBUG, "engine", "d%d", 1);
    ipu__log(IPU_LOG_TRACE, "engine", "t%d", 1);
    ipu__log(IPU_LOG_INFO, "graph", "graph info");
    ipu__log(IPU_LOG_OFF, "engine", "never");
}

/* The letters of the engine's lines, P for the bare line, g for lines of graph. */
static const char *heard(const char *text)
{
    static char letters[64];
    size_t      n = 0;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        const char *mark = strstr(line, "[ipu:"), *end = strchr(line, '\n');
        if (!mark || mark > end)
            letters[n++] = 'P';
        else if (strncmp(mark, "[ipu:graph]", 11) == 0)
            letters[n++] = 'g';
        else if (strncmp(mark, "[ipu:engine]", 12) == 0)
            letters[n++] = mark[13];
        else
            letters[n++] = '?'; /* about the log itself */
    }
    letters[n] = 0;
    return letters;
}

static void assert_heard(const char *environment, const char *expected)
{
    in_child(environment, say_everything);
    assert_string_equal(out_text, "");
    if (strcmp(heard(err_text), expected) != 0)
        fail_msg("%s: expected %s, heard %s:\n%s", environment, expected, heard(err_text), err_text);
}

/* ---- levels ---- */

static void nothing_is_said_unasked(void **state)
{
    (void)state;
    assert_heard("", "");
    assert_heard("IPU_LOG_LEVEL= POPLAR_LOG_LEVEL=", "");
    assert_heard("IPU_LOG_DEST=/nonexistent/log", "");
}

static void a_level_lets_through_all_up_to_it(void **state)
{
    (void)state;
    assert_heard("IPU_LOG_LEVEL=OFF", "");
    assert_heard("IPU_LOG_LEVEL=PRINT", "P");
    assert_heard("IPU_LOG_LEVEL=ERR", "PE");
    assert_heard("IPU_LOG_LEVEL=WARN", "PEW");
    assert_heard("IPU_LOG_LEVEL=INFO", "PEWIg");
    assert_heard("IPU_LOG_LEVEL=DEBUG", "PEWIDg");
    assert_heard("IPU_LOG_LEVEL=TRACE", "PEWIDTg");
    assert_heard("IPU_LOG_LEVEL=tRaCe", "PEWIDTg");
}

static void poplar_spellings_count_and_the_most_verbose_wins(void **state)
{
    (void)state;
    assert_heard("POPLAR_LOG_LEVEL=ERR", "PE");
    assert_heard("POPLIBS_LOG_LEVEL=ERR", "PE");
    assert_heard("POPART_LOG_LEVEL=ERR", "PE");
    assert_heard("POPTORCH_LOG_LEVEL=ERR", "PE");
    assert_heard("POPLAR_LOG_LEVEL=ERR POPART_LOG_LEVEL=WARN POPTORCH_LOG_LEVEL=OFF", "PEW");
}

static void our_own_spelling_overrules_theirs(void **state)
{
    (void)state;
    assert_heard("IPU_LOG_LEVEL=ERR POPLAR_LOG_LEVEL=TRACE", "PE");
    assert_heard("IPU_LOG_LEVEL=OFF POPLAR_LOG_LEVEL=TRACE", "");
}

static void a_module_can_have_a_level_of_its_own(void **state)
{
    (void)state;
    assert_heard("POPLAR_GRAPH_LOG_LEVEL=INFO", "g");
    assert_heard("POPLAR_ENGINE_LOG_LEVEL=DEBUG", "EWID");
    assert_heard("POPLAR_LOG_LEVEL=INFO POPLAR_ENGINE_LOG_LEVEL=ERR", "PEg");
    assert_heard("IPU_LOG_LEVEL=INFO POPLAR_GRAPH_LOG_LEVEL=OFF", "PEWI");
    assert_heard("IPU_LOG_LEVEL=ERR POPLAR_PROGRAM_LOG_LEVEL=OFF", "E");
}

static void an_unknown_level_is_taken_as_warn_and_said_once(void **state)
{
    (void)state;
    assert_heard("IPU_LOG_LEVEL=LOUD", "?PEW");
    assert_non_null(strstr(err_text, "[ipu:log] W IPU_LOG_LEVEL: expected OFF, ERR, WARN, INFO, DEBUG or "
                                     "TRACE, found \"LOUD\": taken as WARN\n"));
    assert_heard("POPLAR_ENGINE_LOG_LEVEL=3", "?EW");
}

static void say_by_default(void)
{
    ipu_log_set_default(IPU_LOG_WARN, NULL, NULL);
    say_everything();
}

static void assert_heard_by_default(const char *environment, const char *expected)
{
    in_child(environment, say_by_default);
    if (strcmp(heard(err_text), expected) != 0)
        fail_msg("%s: expected %s, heard %s:\n%s", environment, expected, heard(err_text), err_text);
}

static void a_default_holds_where_the_environment_names_no_level(void **state)
{
    (void)state;
    assert_heard_by_default("", "PEW");
    assert_heard_by_default("IPU_LOG_LEVEL=", "PEW");
    assert_heard_by_default("IPU_LOG_LEVEL=OFF", "");
    assert_heard_by_default("POPTORCH_LOG_LEVEL=INFO", "PEWIg");
    assert_heard_by_default("POPLAR_GRAPH_LOG_LEVEL=INFO", "g");
}

static void note_in_stdout(void *user, ipu_log_level level, const char *module, const char *text)
{
    (void)user, (void)level, (void)module;
    printf("%s\n", text);
}

static void say_to_a_default_sink(void)
{
    ipu_log_set_default(IPU_LOG_ERR, note_in_stdout, NULL);
    say_everything();
}

static void a_destination_that_is_named_overrules_a_default_sink(void **state)
{
    (void)state;
    in_child("", say_to_a_default_sink);
    assert_string_equal(out_text, "printed\ne1\n");
    assert_string_equal(err_text, "");
    in_child("IPU_LOG_DEST=stderr", say_to_a_default_sink);
    assert_string_equal(out_text, "");
    assert_string_equal(heard(err_text), "PE");
}

/* ---- the writer ---- */

static void lines_have_a_time_a_module_and_a_letter(void **state)
{
    (void)state;
    int  hour, minute, second, milli, n = 0;
    char letter;
    in_child("IPU_LOG_LEVEL=WARN", say_everything);
    char *line = strchr(err_text, '\n') + 1; /* after the bare one */
    assert_int_equal(strncmp(err_text, "printed\n", 8), 0);
    int found = sscanf(line, "%2d:%2d:%2d.%3d [ipu:engine] %c e1%n", &hour, &minute, &second, &milli, &letter,
                       &n);
    assert_int_equal(found, 5);
    assert_in_range(hour, 0, 23);
    assert_in_range(minute, 0, 59);
    assert_in_range(second, 0, 60);
    assert_int_equal(letter, 'E');
    assert_int_equal(line[n], '\n');
}

static void say_between_prints(void)
{
    printf("before\n");
    ipu__log_text(IPU_LOG_PRINT, "program", "ours");
    printf("after\n");
}

static void stdout_keeps_the_order_of_the_program(void **state)
{
    (void)state;
    in_child("IPU_LOG_LEVEL=ERR IPU_LOG_DEST=stdout", say_between_prints);
    assert_string_equal(out_text, "before\nours\nafter\n");
    assert_string_equal(err_text, "");
    in_child("POPTORCH_LOG_LEVEL=ERR POPLAR_LOG_DEST=stdout", say_between_prints);
    assert_string_equal(out_text, "before\nours\nafter\n");
}

static void a_file_is_appended_to(void **state)
{
    (void)state;
    char path[] = "/tmp/ipu-log-test-XXXXXX", environment[256], text[256];
    int  fd     = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(environment, sizeof environment, "IPU_LOG_LEVEL=PRINT IPU_LOG_DEST=%s", path);
    in_child(environment, say_everything);
    in_child(environment, say_everything);
    assert_string_equal(out_text, "");
    assert_string_equal(err_text, "");
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    unlink(path);
    assert_true(n >= 0);
    text[n] = 0;
    assert_string_equal(text, "printed\nprinted\n");
}

static void an_unwritable_file_is_said_once_and_stderr_used(void **state)
{
    (void)state;
    assert_heard("IPU_LOG_LEVEL=WARN IPU_LOG_DEST=/nonexistent/log", "?PEW");
    assert_non_null(strstr(err_text, "IPU_LOG_DEST: cannot write /nonexistent/log"));
}

static void say_long_things(void)
{
    char piece[2001];
    memset(piece, 'y', 2000);
    piece[2000] = 0;
    ipu__log(IPU_LOG_PRINT, "program", "<%s>", piece);
    ipu__log_text(IPU_LOG_PRINT, "program", "line 1\nline 2");
}

static void long_and_several_lines_come_out_whole(void **state)
{
    (void)state;
    in_child("IPU_LOG_LEVEL=ERR", say_long_things);
    assert_int_equal(strlen(err_text), 2002 + 1 + 14);
    assert_int_equal(strspn(err_text + 1, "y"), 2000);
    assert_string_equal(err_text + 2001, ">\nline 1\nline 2\n");
}

static void set_own_writer(void)
{
    ipu_log_set(IPU_LOG_WARN, NULL, NULL);
    say_everything();
}

static void a_program_overrules_the_environment_but_for_the_destination(void **state)
{
    (void)state;
    in_child("", set_own_writer);
    assert_string_equal(heard(err_text), "PEW");
    in_child("IPU_LOG_LEVEL=LOUD POPLAR_ENGINE_LOG_LEVEL=TRACE", set_own_writer);
    assert_string_equal(heard(err_text), "PEW");
    in_child("IPU_LOG_DEST=stdout", set_own_writer);
    assert_string_equal(err_text, "");
    assert_string_equal(heard(out_text), "PEW");
}

/* ---- callbacks ---- */

typedef struct ear {
    int  calls, inside, overlaps;
    char last[4096];
} ear;

static void listen(void *user, ipu_log_level level, const char *module, const char *text)
{
    ear *e = user;
    if (e->inside++) e->overlaps++;
    e->calls++;
    snprintf(e->last, sizeof e->last, "%d %s %s", level, module, text);
    ipu__log(IPU_LOG_ERR, "engine", "from inside"); /* forbidden: must be dropped, not recurse or hang */
    e->inside--;
}

static int silence(void **state)
{
    (void)state;
    ipu_log_set(IPU_LOG_OFF, NULL, NULL);
    ipu__alloc_set(NULL, NULL);
    return 0;
}

static void a_callback_gets_level_module_and_text(void **state)
{
    (void)state;
    ear e = {0};
    ipu_log_set(IPU_LOG_INFO, listen, &e);
    ipu__log(IPU_LOG_WARN, "target", "%d IPUs", 4);
    assert_int_equal(e.calls, 1);
    char expected[64];
    snprintf(expected, sizeof expected, "%d target 4 IPUs", IPU_LOG_WARN);
    assert_string_equal(e.last, expected);
    ipu__log(IPU_LOG_DEBUG, "target", "no");
    assert_int_equal(e.calls, 1);
    ipu_log_set(IPU_LOG_OFF, listen, &e);
    ipu__log_text(IPU_LOG_PRINT, "program", "no");
    assert_int_equal(e.calls, 1);
}

static void wants_says_what_would_be_delivered(void **state)
{
    (void)state;
    ear e = {0};
    ipu_log_set(IPU_LOG_WARN, listen, &e);
    assert_true(ipu__log_wants(IPU_LOG_PRINT, "program"));
    assert_true(ipu__log_wants(IPU_LOG_WARN, "no such module"));
    assert_false(ipu__log_wants(IPU_LOG_INFO, "engine"));
    assert_false(ipu__log_wants(IPU_LOG_OFF, "engine"));
    ipu_log_set((ipu_log_level)99, listen, &e); /* beyond the last: everything */
    assert_true(ipu__log_wants(IPU_LOG_TRACE, "engine"));
    ipu_log_set((ipu_log_level)-1, listen, &e);
    assert_false(ipu__log_wants(IPU_LOG_PRINT, "engine"));
}

static void *refusing(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)ptr, (void)old_bytes, (void)new_bytes;
    return NULL;
}

static void without_memory_the_beginning_is_delivered(void **state)
{
    (void)state;
    ear  e = {0};
    char large[2000];
    memset(large, 'z', sizeof large - 1);
    large[sizeof large - 1] = 0;
    ipu_log_set(IPU_LOG_INFO, listen, &e);
    ipu__alloc_set(refusing, NULL);
    ipu__log(IPU_LOG_INFO, "engine", "%s", large);
    assert_int_equal(e.calls, 1);
    assert_in_range(strlen(e.last), 100, 1000);
    ipu__alloc_set(NULL, NULL);
    ipu__log(IPU_LOG_INFO, "engine", "%s", large);
    assert_int_equal(strlen(e.last), strlen("4 engine ") + 1999);
}

enum { THREADS = 4, EACH = 2000 };

static void *talker(void *arg)
{
    (void)arg;
    for (int i = 0; i < EACH; i++) ipu__log(IPU_LOG_INFO, "engine", "message %d", i);
    return NULL;
}

static void threads_are_heard_one_at_a_time(void **state)
{
    (void)state;
    ear       e = {0};
    pthread_t threads[THREADS];
    ipu_log_set(IPU_LOG_INFO, listen, &e);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, talker, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(e.calls, THREADS * EACH);
    assert_int_equal(e.overlaps, 0);
}

/* If the lock were held by a logging thread during the fork, the child's own message would hang. */
static void a_child_forked_amid_messages_can_log(void **state)
{
    (void)state;
    ear       e = {0};
    pthread_t thread;
    ipu_log_set(IPU_LOG_INFO, listen, &e);
    assert_int_equal(pthread_create(&thread, NULL, talker, NULL), 0);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(600);
            int before = e.calls;
            ipu__log(IPU_LOG_INFO, "engine", "child");
            _exit(e.calls == before + 1 ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    pthread_join(thread, NULL);
    assert_int_equal(e.calls, EACH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* These must come first: they rely on the environment not having been read yet. */
        cmocka_unit_test(nothing_is_said_unasked),
        cmocka_unit_test(a_level_lets_through_all_up_to_it),
        cmocka_unit_test(poplar_spellings_count_and_the_most_verbose_wins),
        cmocka_unit_test(our_own_spelling_overrules_theirs),
        cmocka_unit_test(a_module_can_have_a_level_of_its_own),
        cmocka_unit_test(a_default_holds_where_the_environment_names_no_level),
        cmocka_unit_test(a_destination_that_is_named_overrules_a_default_sink),
        cmocka_unit_test(an_unknown_level_is_taken_as_warn_and_said_once),
        cmocka_unit_test(lines_have_a_time_a_module_and_a_letter),
        cmocka_unit_test(stdout_keeps_the_order_of_the_program),
        cmocka_unit_test(a_file_is_appended_to),
        cmocka_unit_test(an_unwritable_file_is_said_once_and_stderr_used),
        cmocka_unit_test(long_and_several_lines_come_out_whole),
        cmocka_unit_test(a_program_overrules_the_environment_but_for_the_destination),
        cmocka_unit_test_teardown(a_callback_gets_level_module_and_text, silence),
        cmocka_unit_test_teardown(wants_says_what_would_be_delivered, silence),
        cmocka_unit_test_teardown(without_memory_the_beginning_is_delivered, silence),
        cmocka_unit_test_teardown(threads_are_heard_one_at_a_time, silence),
        cmocka_unit_test_teardown(a_child_forked_amid_messages_can_log, silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

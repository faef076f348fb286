/* The cache of compiled codelets: it is used, correct, and copes with other processes and damage. */
#include "graph/codelet_bench.h"

static void a_hit_does_not_run_the_compiler(void **state)
{
    (void)state;
    const ipu_codelet_module *m;
    count_runs();
    put("hit.c", ONE("Hit", "x"));
    for (int i = 0; i < 3; i++) assert_int_equal(ipu_codelet_load_file(in_box("hit.c"), NULL, &m), IPU_OK);
    assert_int_equal(runs(), 1);
    assert_int_equal(ipu_codelet_load_file(in_box("hit.c"), "-O1", &m), IPU_OK);
    assert_int_equal(runs(), 2);
    put("hit.c", ONE("Hit", "-x"));
    assert_int_equal(ipu_codelet_load_file(in_box("hit.c"), NULL, &m), IPU_OK);
    assert_int_equal(runs(), 3);
    assert_int_equal(ipu_codelet_clear_cache(), IPU_OK);
    assert_string_equal(entry(".so"), "");
    assert_string_equal(entry(".dep"), "");
    assert_int_equal(ipu_codelet_load_file(in_box("hit.c"), NULL, &m), IPU_OK);
    assert_int_equal(runs(), 4);
    setenv("IPU_CC", "cc", 1); /* another compiler */
    assert_int_equal(ipu_codelet_load_file(in_box("hit.c"), NULL, &m), IPU_OK);
    assert_int_equal(runs(), 4);
    put("hit.c", "int wrong\n");
    assert_int_equal(ipu_codelet_load_file(in_box("hit.c"), NULL, &m), IPU_INVALID);
}

static void a_changed_header_is_noticed(void **state)
{
    (void)state;
    static const char *const names[] = {"beside.h", "with blank.h", "odd#$.h"};
    char                     source[512];
    count_runs();
    for (int i = 0; i < 3; i++) {
        snprintf(source, sizeof source, "#include \"%s\"\n" ONE("Beside%d", "x + CONSTANT"), names[i], i);
        put("beside.c", source);
        for (int value = 1; value <= 2; value++) {
            char define[64], name[16];
            snprintf(define, sizeof define, "#define CONSTANT %d\n", value);
            snprintf(name, sizeof name, "Beside%d", i);
            put(names[i], define);
            for (int k = 0; k < 2; k++) {
                ipu_graph *g = new_graph();
                ipu_graph_add_codelet_file(g, in_box("beside.c"), NULL);
                assert_float_equal(compute(g, name, 10), 10 + value, 0);
            }
            assert_int_equal(runs(), 2 * i + value);
        }
    }
}

static void a_file_written_anew_with_the_same_bytes_is_no_change(void **state)
{
    (void)state;
    const ipu_codelet_module *m;
    count_runs();
    put("same.h", "#define CONSTANT 3\n");
    put("same.c", "#include \"same.h\"\n" ONE("Rewritten", "x + CONSTANT"));
    assert_int_equal(ipu_codelet_load_file(in_box("same.c"), NULL, &m), IPU_OK);
    usleep(20000);
    put("same.h", "#define CONSTANT 3\n");
    assert_int_equal(ipu_codelet_load_file(in_box("same.c"), NULL, &m), IPU_OK);
    assert_int_equal(runs(), 1);
}

static void a_header_that_changes_while_compiling_is_not_cached(void **state)
{
    (void)state;
    const ipu_codelet_module *m;
    char                      text[512];
    snprintf(text, sizeof text,
             "#!/bin/sh\ncc \"$@\"\nstatus=$?\necho '#define CONSTANT 2' > '%s'\nexit $status\n",
             in_box("race.h"));
    put_script("racing-cc", text);
    setenv("IPU_CC", in_box("racing-cc"), 1);
    put("race.h", "#define CONSTANT 1\n");
    put("race.c", "#include \"race.h\"\n" ONE("Race", "x + CONSTANT"));
    assert_int_equal(ipu_codelet_load_file(in_box("race.c"), NULL, &m), IPU_OK);
    assert_string_equal(entry(".dep"), "");
    ipu_graph *g = new_graph();
    ipu_graph_add_codelet_file(g, in_box("race.c"), NULL);
    assert_float_equal(compute(g, "Race", 1), 3, 0);
}

static int load_shared(void)
{
    const ipu_codelet_module *m;
    if (ipu_codelet_load_source("shared.c", ONE("Shared", "3 * x"), NULL, &m) != IPU_OK) {
        fprintf(stderr, "%s\n", ipu_message());
        return 1;
    }
    float        x = 7, y = 0;
    const float *in       = &x;
    float       *out      = &y;
    void        *vertex[] = {(void *)(uintptr_t)in, out};
    if (!m->codelets[0]->compute(vertex, 0, 1)) return 2;
    return (int)y;
}

static void sixteen_processes_at_once_succeed(void **state)
{
    (void)state;
    enum { N = 16 };
    pid_t pid[N];
    for (int i = 0; i < N; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) _exit(load_shared());
    }
    for (int i = 0; i < N; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 21);
    }
    count_runs();
    unsetenv("IPU_CC");
    assert_int_equal(in_child(load_shared), 21);
    assert_int_equal(runs(), 0);
    /* No traces of compilations are left. */
    DIR *d = opendir(in_box("cache/codelets"));
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (strncmp(e->d_name, "work-", 5) == 0 || strncmp(e->d_name, ".ipu", 4) == 0)
            fail_msg("left behind: %s", e->d_name);
    closedir(d);
}

static void a_killed_writer_leaves_nothing_that_is_used(void **state)
{
    (void)state;
    char text[256];
    snprintf(text, sizeof text, "#!/bin/sh\ntouch '%s'\nsleep 1\n", in_box("began"));
    put_script("slow-cc", text);
    setenv("IPU_CC", in_box("slow-cc"), 1);
    pid_t pid = fork();
    if (pid == 0) _exit(load_shared());
    for (int i = 0; i < 6000 && access(in_box("began"), F_OK) != 0; i++) usleep(10000);
    assert_int_equal(access(in_box("began"), F_OK), 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_string_equal(entry(".so"), "");
    assert_string_equal(entry(".dep"), "");
    unsetenv("IPU_CC");
    assert_int_equal(in_child(load_shared), 21);
}

static void flip(const char *path, off_t at)
{
    int  fd = open(path, O_RDWR);
    char byte;
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void damaged_entries_are_made_anew(void **state)
{
    (void)state;
    count_runs();
    assert_int_equal(in_child(load_shared), 21);
    assert_int_equal(in_child(load_shared), 21);
    assert_int_equal(runs(), 1);
    for (int i = 0; i < 6; i++) {
        const char *path = entry(i < 3 ? ".so" : ".dep");
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        if (i % 3 == 0) flip(path, st.st_size / 2);
        if (i % 3 == 1) assert_int_equal(truncate(path, st.st_size / 2), 0);
        if (i % 3 == 2) assert_int_equal(truncate(path, 0), 0);
        assert_int_equal(in_child(load_shared), 21);
        assert_int_equal(runs(), 2 + i);
    }
    assert_int_equal(unlink(entry(".so")), 0);
    assert_int_equal(in_child(load_shared), 21);
    assert_int_equal(runs(), 8);
    assert_int_equal(in_child(load_shared), 21);
    assert_int_equal(runs(), 8);
}

static void a_folder_that_cannot_be_trusted_or_written_is_not_used(void **state)
{
    (void)state;
    put("file", "");
    assert_int_equal(mkdir(in_box("open"), 0700), 0);
    assert_int_equal(mkdir(in_box("open/codelets"), 0700), 0);
    assert_int_equal(chmod(in_box("open/codelets"), 0777), 0);
    assert_int_equal(mkdir(in_box("linked"), 0700), 0);
    assert_int_equal(symlink("/tmp", in_box("linked/codelets")), 0);
    assert_int_equal(mkdir(in_box("locked"), 0500), 0);
    assert_int_equal(mkdir(in_box("shared"), 0700), 0);
    assert_int_equal(chmod(in_box("shared"), 0777), 0);
    const char *const roots[] = {"file", "open", "linked", "shared", "/proc/ipu", "locked"};
    count_runs();
    for (int i = 0; i < 6; i++) {
        setenv("IPU_CACHE_DIR", roots[i][0] == '/' ? roots[i] : in_box(roots[i]), 1);
        assert_int_equal(in_child(load_shared), 21);
        assert_int_equal(in_child(load_shared), 21);
        if (i < 5) assert_int_equal(runs(), 2 * i + 2); /* the superuser may write to a read-only folder */
    }
    assert_int_not_equal(rmdir(in_box("open")), 0);
    assert_int_equal(rmdir(in_box("open/codelets")), 0); /* empty */
}

static int load_twice_in_private(void)
{
    int first = load_shared(), second = load_shared();
    return first == 21 && second == 21 ? runs() : 100;
}

static void a_private_folder_serves_a_process_and_goes_with_it(void **state)
{
    (void)state;
    count_runs();
    setenv("IPU_CACHE_DIR", "/proc/ipu", 1);
    int   status;
    pid_t pid = fork();
    if (pid == 0) exit(load_twice_in_private()); /* exit, not _exit, so that it cleans up */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 1);
    DIR *d = opendir(box);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (strncmp(e->d_name, "ipu-codelets-", 13) == 0) fail_msg("left behind: %s", e->d_name);
    closedir(d);
}

static void trimming_keeps_what_was_used_last(void **state)
{
    (void)state;
    char name[64], folder[IPU__FOLDER_BYTES];
    assert_int_equal(ipu__codelet_folder(folder), IPU_OK);
    for (int i = 0; i < 10; i++) { /* 100 bytes each; number 3 was used last, then 9, 8, ... */
        char text[101];
        snprintf(text, sizeof text, "%0100d", i);
        snprintf(name, sizeof name, "cache/codelets/%032x.%s", (unsigned)i, i % 2 ? "so" : "dep");
        put(name, text);
        struct timespec times[2] = {{i == 3 ? 2000 : 1000 + i, 0}, {i == 3 ? 2000 : 1000 + i, 0}};
        assert_int_equal(utimensat(AT_FDCWD, in_box(name), times, 0), 0);
    }
    put("cache/codelets/notes", "not ours to delete");
    assert_int_equal(mkdir(in_box("cache/codelets/work-abcdef"), 0700), 0);
    put("cache/codelets/work-abcdef/module.so", "of a process that was killed");
    struct timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, in_box("cache/codelets/work-abcdef"), long_ago, 0), 0);
    ipu__codelet_cache_trim(folder, 1000, 10);
    for (int round = 0; round < 2; round++) {
        if (round == 0) ipu__codelet_cache_trim(folder, 10000, 5); /* by number: 3, 9, 8, 7, 6 */
        if (round == 1) ipu__codelet_cache_trim(folder, 250, 100); /* by bytes: 3 and 9 */
        for (int i = 0; i < 10; i++) {
            bool kept = i == 3 || i >= (round == 0 ? 6 : 9);
            snprintf(name, sizeof name, "cache/codelets/%032x.%s", (unsigned)i, i % 2 ? "so" : "dep");
            assert_int_equal(access(in_box(name), F_OK) == 0, kept);
        }
    }
    assert_int_equal(access(in_box("cache/codelets/notes"), F_OK), 0);
    assert_int_not_equal(access(in_box("cache/codelets/work-abcdef"), F_OK), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_hit_does_not_run_the_compiler),
        TEST(a_changed_header_is_noticed),
        TEST(a_file_written_anew_with_the_same_bytes_is_no_change),
        TEST(a_header_that_changes_while_compiling_is_not_cached),
        TEST(sixteen_processes_at_once_succeed),
        TEST(a_killed_writer_leaves_nothing_that_is_used),
        TEST(damaged_entries_are_made_anew),
        TEST(a_folder_that_cannot_be_trusted_or_written_is_not_used),
        TEST(a_private_folder_serves_a_process_and_goes_with_it),
        TEST(trimming_keeps_what_was_used_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The cache of executables: hits, misses, damage, others' files, its bound, and many processes that are killed. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "session/cache.h"
#include "ipu/ipu.h"

static char box[] = "/tmp/ipu-cache-test-XXXXXX";
static char folder[64], path[PATH_MAX], warnings[4096];
static int  n_warnings;

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void note_warning(void *user, ipu_log_level level, const char *module, const char *text)
{
    (void)user, (void)level, (void)module;
    n_warnings++;
    snprintf(warnings, sizeof warnings, "%s", text);
}

static int make_box(void **state)
{
    (void)state;
    return mkdtemp(box) ? 0 : -1;
}

static int remove_box(void **state)
{
    (void)state;
    return rmdir(box);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/cache", box);
    ipu_log_set(IPU_LOG_WARN, note_warning, NULL);
    warnings[0] = 0;
    n_warnings  = 0;
    return unsetenv("IPU_CACHE_LIMIT");
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'/*", box);
    return system(command);
}

/* Entries of the folder that begin so. */
static int entries(const char *beginning)
{
    int  n   = 0;
    DIR *dir = opendir(folder);
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        n += strncmp(e->d_name, beginning, strlen(beginning)) == 0 && strcmp(e->d_name, ".") != 0
          && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

/* ---- executables that say which they are ---- */

/* y = number, `n` times. */
static ipu_executable *compile_with(int number, int64_t n, const ipu_options *options)
{
    ipu_target      target;
    ipu_graph      *g;
    ipu_executable *exe = NULL;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    float *values = calloc((size_t)n, sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = (float)number;
    ipu_tensor y = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(n), "y");
    ipu_tensor k = ipu_graph_add_constant(g, IPU_FLOAT, IPU_SHAPE(n), values, "k");
    ipu_graph_set_tile_mapping(g, y, 0);
    ipu_graph_set_tile_mapping(g, k, 0);
    ipu_graph_add_host_read(g, "y", y);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_copy(p, k, y);
    if (ipu_executable_compile(g, &p, 1, options, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_graph_destroy(g);
    free(values);
    return exe;
}

static ipu_executable *compile(int number) { return compile_with(number, 100, NULL); }

static ipu__hash128 key_of(int number) { return ipu__hash_bytes(&number, sizeof number); }

static void store(int number)
{
    ipu__hash128    key = key_of(number);
    ipu_executable *exe = compile(number);
    ipu__cache_store(folder, &key, exe);
    ipu_executable_release(exe);
}

/* What the executable of that key gives; -1: it is not there. */
static int load(int number)
{
    ipu__hash128    key = key_of(number);
    ipu_executable *exe;
    ipu_engine     *e;
    float           y[100];
    ipu_status      status = ipu__cache_load(folder, &key, NULL, &exe);
    if (status == IPU_NOT_FOUND) return -1;
    assert_int_equal(status, IPU_OK);
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_OK);
    ipu_executable_release(exe);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "y", y, sizeof y), IPU_OK);
    ipu_engine_destroy(e);
    return (int)y[99];
}

static const char *path_of(int number)
{
    ipu__hash128 key = key_of(number);
    assert_true(ipu__cache_path(folder, &key, path));
    return path;
}

/* ---- one process ---- */

static void what_is_stored_is_found_and_runs(void **state)
{
    (void)state;
    struct stat st;
    mode_t      before = umask(0);
    assert_int_equal(load(1), -1); /* without a folder */
    snprintf(folder, sizeof folder, "%s/a/b", box);
    for (int i = 1; i <= 3; i++) store(i);
    umask(before);
    for (int i = 1; i <= 3; i++) assert_int_equal(load(i), i);
    assert_int_equal(load(4), -1);
    assert_int_equal(stat(folder, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(stat(path_of(1), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(entries(""), 3);
    if (n_warnings) fail_msg("%s", warnings);
}

static void a_damaged_file_is_a_miss_and_is_replaced(void **state)
{
    (void)state;
    store(7);
    for (int how = 0; how < 4; how++) {
        struct stat st;
        char        byte = 0;
        assert_int_equal(stat(path_of(7), &st), 0);
        int fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &byte, 1, st.st_size / 2), 1);
        byte ^= 1;
        if (how == 0) assert_int_equal(ftruncate(fd, 0), 0);
        if (how == 1) assert_int_equal(ftruncate(fd, st.st_size - 1), 0);
        if (how == 2) assert_int_equal(pwrite(fd, &byte, 1, st.st_size / 2), 1);
        close(fd);
        if (how == 3) {
            assert_int_equal(unlink(path), 0);
            assert_int_equal(mkdir(path, 0700), 0);
        }
        n_warnings = 0;
        assert_int_equal(load(7), -1);
        assert_int_equal(n_warnings, 1);
        assert_non_null(strstr(warnings, path_of(7)));
        store(7);
        assert_int_equal(load(7), 7);
    }
}

static void files_that_others_may_have_written_are_not_used(void **state)
{
    (void)state;
    store(5);
    assert_int_equal(chmod(path_of(5), 0660), 0);
    assert_int_equal(load(5), -1);
    assert_non_null(strstr(warnings, "others may write to it"));
    store(5);
    assert_int_equal(load(5), 5);
}

static void a_folder_that_others_may_write_to_is_not_used(void **state)
{
    (void)state;
    store(5);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(load(5), -1);
    assert_non_null(strstr(warnings, "others may write to it"));
    n_warnings = 0;
    store(6);
    assert_int_equal(n_warnings, 1);
    assert_int_equal(entries(""), 1);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(load(5), 5);
}

static void a_link_is_neither_read_nor_written_through(void **state)
{
    (void)state;
    char elsewhere[128];
    snprintf(elsewhere, sizeof elsewhere, "%s/precious", box);
    close(open(elsewhere, O_CREAT | O_WRONLY, 0600));
    store(1);
    assert_int_equal(symlink(elsewhere, path_of(2)), 0);
    assert_int_equal(load(2), -1);
    store(2);
    assert_int_equal(load(2), 2);
    struct stat st;
    assert_int_equal(stat(elsewhere, &st), 0);
    assert_int_equal(st.st_size, 0);
}

static void a_folder_that_cannot_be_is_one_warning(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/proc/none/cache");
    assert_int_equal(load(1), -1);
    assert_int_equal(n_warnings, 0);
    store(1);
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(warnings, "/proc/none"));
    snprintf(folder, sizeof folder, "%s/file", box);
    close(open(folder, O_CREAT | O_WRONLY, 0600));
    n_warnings = 0;
    store(1);
    assert_int_equal(n_warnings, 1);
    assert_int_equal(load(1), -1);
}

static void checking_mode_passes_the_cache_by(void **state)
{
    (void)state;
    ipu_options    *options;
    ipu_executable *exe;
    ipu__hash128    key = key_of(1);
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "check", "true"), IPU_OK);
    exe = compile_with(1, 100, options);
    ipu__cache_store(folder, &key, exe);
    ipu_executable_release(exe);
    assert_int_equal(entries(""), 0);
    store(1);
    assert_int_equal(ipu__cache_load(folder, &key, options, &exe), IPU_NOT_FOUND);
    assert_int_equal(load(1), 1);
    assert_int_equal(n_warnings, 0);
    ipu_options_destroy(options);
}

static void notes_are_found_whole_or_not_at_all(void **state)
{
    (void)state;
    ipu__hash128 key = key_of(1);
    char         found[6];
    assert_false(ipu__cache_load_note(folder, &key, found, 6));
    ipu__cache_store_note(folder, &key, "seven?", 6);
    assert_true(ipu__cache_load_note(folder, &key, found, 6));
    assert_memory_equal(found, "seven?", 6);
    key = key_of(2);
    assert_false(ipu__cache_load_note(folder, &key, found, 6));
    key = key_of(1);
    assert_int_equal(load(1), -1);
    store(1); /* beside it */
    assert_int_equal(load(1), 1);
    assert_int_equal(n_warnings, 0);
    assert_false(ipu__cache_load_note(folder, &key, found, 5)); /* of another size */
    assert_non_null(strstr(warnings, "a note in the cache is made anew"));
    path_of(1);
    strcpy(strstr(path, ".ipuexe"), ".ipunote");
    assert_int_equal(chmod(path, 0620), 0);
    assert_false(ipu__cache_load_note(folder, &key, found, 6));
    assert_int_equal(n_warnings, 2);
    ipu__cache_store_note(folder, &key, "eight!", 6);
    assert_true(ipu__cache_load_note(folder, &key, found, 6));
    assert_memory_equal(found, "eight!", 6);
    setenv("IPU_CACHE_LIMIT", "10", 1);
    store(2); /* all goes */
    assert_int_equal(entries(""), 0);
}

/* ---- its bound ---- */

static void what_was_not_used_for_long_goes_first(void **state)
{
    (void)state;
    struct stat st;
    char        text[32];
    for (int i = 0; i < 5; i++) {
        const struct timespec times[2] = {{1000 + i, 0}, {1000 + i, 0}};
        store(i);
        assert_int_equal(utimensat(AT_FDCWD, path_of(i), times, 0), 0);
    }
    close(open(in_folder("not ours"), O_CREAT | O_WRONLY, 0600));
    assert_int_equal(load(1), 1); /* used now */
    assert_int_equal(stat(path_of(1), &st), 0);
    snprintf(text, sizeof text, "%lld", 3 * (long long)st.st_size + 10);
    setenv("IPU_CACHE_LIMIT", text, 1);
    store(5);
    static const bool stays[] = {false, true, false, false, true, true};
    for (int i = 0; i < 6; i++) assert_int_equal(load(i), stays[i] ? i : -1);
    setenv("IPU_CACHE_LIMIT", "100", 1); /* less than one */
    store(6);
    assert_int_equal(entries(""), 1);
    assert_int_equal(access(in_folder("not ours"), F_OK), 0);
    assert_int_equal(n_warnings, 0);
    setenv("IPU_CACHE_LIMIT", "1 GiB", 1);
    store(6);
    assert_non_null(strstr(warnings, "expected a number of bytes"));
    assert_int_equal(load(6), 6);
}

/* ---- many processes ---- */

enum { PROCESSES = 16, KEYS = 12 };

/* By what they are told from one another without running them. */
static int64_t sizes[KEYS];

static int64_t size_of(const ipu_executable *exe)
{
    int64_t planned, unshared;
    ipu_executable_memory(exe, &planned, &unshared);
    return unshared;
}

/* As executors do, until it is killed: 1 if a wrong executable came. What was done is counted for all processes. */
static int use_for_ever(unsigned random, atomic_int *n_done)
{
    for (;; atomic_fetch_add(n_done, 1)) {
        random                 = random * 1103515245u + 12345u;
        int             i      = (int)(random >> 16) % KEYS;
        ipu__hash128    key    = key_of(i);
        ipu_executable *exe    = NULL;
        ipu_status      status = ipu__cache_load(folder, &key, NULL, &exe);
        if (status == IPU_OK && size_of(exe) != sizes[i]) return 1;
        if (status != IPU_OK && status != IPU_NOT_FOUND) return 2;
        if (n_warnings) return fprintf(stderr, "%s\n", warnings), 3; /* something was damaged */
        if (status == IPU_NOT_FOUND) {
            exe = compile_with(i, 1000 + 100 * i, NULL);
            ipu__cache_store(folder, &key, exe);
        }
        ipu_executable_release(exe);
    }
}

static void sixteen_processes_that_are_killed_do_no_harm(void **state)
{
    (void)state;
    enum { ROUNDS = 20 };
    unsigned    random = 5;
    atomic_int *n_done = mmap(NULL, sizeof *n_done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                              0);
    assert_true(n_done != MAP_FAILED);
    setenv("IPU_CACHE_LIMIT", "40000", 1); /* some of them: there is much to remove and to make again */
    for (int i = 0; i < KEYS; i++) {
        ipu_executable *exe = compile_with(i, 1000 + 100 * i, NULL);
        sizes[i]            = size_of(exe);
        if (i) assert_true(sizes[i] > sizes[i - 1]);
        ipu_executable_release(exe);
    }
    for (int r = 0; r < ROUNDS; r++) {
        pid_t pid[PROCESSES];
        atomic_store(n_done, 0);
        for (int i = 0; i < PROCESSES; i++) {
            pid[i] = fork();
            assert_true(pid[i] >= 0);
            if (pid[i] == 0) _exit(use_for_ever((unsigned)(r * PROCESSES + i), n_done));
        }
        random = random * 1103515245u + 12345u;
        /* Killed after so much work, at whatever moment that is: on a busy machine it takes longer. */
        for (int i = 0; i < 60000 && atomic_load(n_done) < 4 + (int)(random >> 16) % 60; i++) usleep(500);
        for (int i = 0; i < PROCESSES; i++) kill(pid[i], SIGKILL);
        for (int i = 0; i < PROCESSES; i++) {
            int status;
            assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
            if (!WIFSIGNALED(status)) fail_msg("round %d: %d", r, WEXITSTATUS(status));
        }
    }
    munmap(n_done, sizeof *n_done);
    assert_true(entries("") > 3);
    unsetenv("IPU_CACHE_LIMIT");
    store(KEYS); /* clears what was half written */
    assert_int_equal(entries(".ipu-"), 0);
    assert_int_equal(load(KEYS), KEYS);
    assert_int_equal(n_warnings, 0);
}

/* ---- memory ---- */

static int calls_left;

static void *limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes && calls_left-- <= 0) return NULL;
    if (new_bytes) return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

static void refused_memory_is_reported_or_costs_an_entry(void **state)
{
    (void)state;
    ipu_executable *found, *exe;
    ipu__hash128    key    = key_of(3);
    ipu_status      status = IPU_OUT_OF_MEMORY;
    store(3);
    for (int allowed = 0; status == IPU_OUT_OF_MEMORY; allowed++) {
        assert_in_range(allowed, 0, 300);
        ipu__alloc_set(limited, NULL);
        calls_left = allowed;
        status     = ipu__cache_load(folder, &key, NULL, &found);
        if (status == IPU_OK) ipu_executable_release(found);
        ipu__alloc_set(NULL, NULL);
    }
    assert_int_equal(status, IPU_OK);
    key = key_of(4);
    for (int allowed = 0; load(4) < 0; allowed++) {
        assert_in_range(allowed, 0, 300);
        ipu__alloc_set(limited, NULL);
        calls_left = 1000;
        exe        = compile(4);
        calls_left = allowed;
        ipu__cache_store(folder, &key, exe);
        ipu_executable_release(exe);
        ipu__alloc_set(NULL, NULL);
    }
    assert_int_equal(load(4), 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_is_stored_is_found_and_runs),
        TEST(a_damaged_file_is_a_miss_and_is_replaced),
        TEST(files_that_others_may_have_written_are_not_used),
        TEST(a_folder_that_others_may_write_to_is_not_used),
        TEST(a_link_is_neither_read_nor_written_through),
        TEST(a_folder_that_cannot_be_is_one_warning),
        TEST(checking_mode_passes_the_cache_by),
        TEST(notes_are_found_whole_or_not_at_all),
        TEST(what_was_not_used_for_long_goes_first),
        TEST(sixteen_processes_that_are_killed_do_no_harm),
        TEST(refused_memory_is_reported_or_costs_an_entry),
    };
    return cmocka_run_group_tests(tests, make_box, remove_box);
}

/* Folders: creating, trusting, cleaning and trimming them, and that everything else stays. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "base/host/folder.h"

static char folder[] = "/tmp/ipu-folder-test-XXXXXX";
static char path[512];

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

/* Counts entries; removes them if asked. */
static int entries(bool removing)
{
    DIR *dir = opendir(folder);
    int  n   = 0;
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        n++;
        if (removing) remove(in_folder(e->d_name));
    }
    closedir(dir);
    return n;
}

static int empty_folder(void **state)
{
    (void)state;
    ipu__alloc_set(NULL, NULL);
    entries(true);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void a_folder_is_made_with_those_above_it(void **state)
{
    (void)state;
    struct stat st;
    char        deep[1024];
    mode_t      before = umask(022);
    snprintf(deep, sizeof deep, "%s/a/b//c/", folder);
    for (int again = 0; again < 2; again++) assert_int_equal(ipu__folder_make(deep, 0770), IPU_OK);
    umask(before);
    assert_int_equal(stat(deep, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0750);
    assert_int_equal(ipu__file_write(in_folder("file"), "", 0), IPU_OK);
    assert_int_equal(ipu__folder_make(in_folder("file"), 0700), IPU_IO);
    assert_non_null(strstr(ipu_message(), path));
    assert_int_equal(ipu__folder_make(in_folder("file/below"), 0700), IPU_IO);
    assert_int_equal(ipu__folder_make("/proc/none", 0700), IPU_IO);
    assert_int_equal(ipu__folder_make("", 0700), IPU_IO);
    const char *const parts[] = {"a/b/c", "a/b", "a"};
    for (int i = 0; i < 3; i++) assert_int_equal(rmdir(in_folder(parts[i])), 0);
}

/* The id of a process that has ended. */
static pid_t dead_process(void)
{
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return pid;
}

static void rests_of_killed_writers_are_cleared_and_nothing_else(void **state)
{
    (void)state;
    const struct timespec old[2] = {{1000, 0}, {1000, 0}};
    char                  name[64];
    const struct {
        const char *format;
        pid_t       pid;
        bool        is_old, stays;
    } files[] = {
        {".ipu-%ld-3.tmp", dead_process(), false, false},
        {".ipu-%ld-3.tmp", getpid(), false, true},
        {".ipu-%ld-4.tmp", getpid(), true, false},
        {".ipu-%ld-3.tmp.more", dead_process(), true, true},
        {".ipu-0-%ld.tmp", 1, true, true},
        {"ipu-%ld-3.tmp", dead_process(), true, true},
    };
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            snprintf(name, sizeof name, files[i].format, (long)files[i].pid);
            if (pass && (access(in_folder(name), F_OK) == 0) != files[i].stays) fail_msg("%s", name);
            if (!pass) assert_int_equal(ipu__file_write(in_folder(name), "x", 1), IPU_OK);
            if (!pass && files[i].is_old) assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
        }
        if (!pass) ipu__folder_clear_rests(folder);
    }
    ipu__folder_clear_rests("/no/such/folder");
}

/* Its process may be in another container or on another host. */
static void a_rest_that_is_being_written_stays(void **state)
{
    (void)state;
    char name[64];
    snprintf(name, sizeof name, ".ipu-%ld-9.tmp", (long)dead_process());
    assert_int_equal(ipu__file_write(in_folder(name), "x", 1), IPU_OK);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    ipu__folder_clear_rests(folder);
    assert_int_equal(access(path, F_OK), 0);
    close(fd);
    ipu__folder_clear_rests(folder);
    assert_int_not_equal(access(path, F_OK), 0);

    ipu__new_file f; /* writers take such a lock */
    assert_int_equal(ipu__file_begin(in_folder("whole"), &f), IPU_OK);
    fd = open(in_folder(f.temporary), O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), -1);
    assert_int_equal(ipu__file_commit(&f), IPU_OK);
    assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), 0);
    close(fd);
    assert_int_equal(unlink(in_folder("whole")), 0);
}

static void only_ones_own_folder_is_trusted(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("own"), 0700), 0);
    assert_null(ipu__folder_distrust(path));
    assert_int_equal(chmod(path, 0770), 0);
    assert_string_equal(ipu__folder_distrust(path), "others may write to it");
    assert_int_equal(chmod(path, 01702), 0);
    assert_string_equal(ipu__folder_distrust(path), "others may write to it");
    assert_int_equal(rmdir(path), 0);
    assert_string_equal(ipu__folder_distrust(path), "No such file or directory");
    assert_int_equal(symlink(folder, in_folder("link")), 0);
    assert_string_equal(ipu__folder_distrust(path), "it is no folder");
    if (geteuid() == 0) {
        assert_int_equal(mkdir(in_folder("theirs"), 0700), 0);
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_string_equal(ipu__folder_distrust(path), "it belongs to another user");
    }
}

static bool is_entry(const char *name) { return strncmp(name, "entry", 5) == 0; }

/* 100 bytes each; number 3 was used last, then 9, 8, ... */
static void what_was_used_last_is_kept(void **state)
{
    (void)state;
    char name[64], text[101] = "";
    for (int i = 0; i < 10; i++) {
        const struct timespec times[2] = {{1000 + i, 0}, {1000 + i, 0}};
        snprintf(name, sizeof name, "entry%d", i);
        assert_int_equal(ipu__file_write(in_folder(name), text, 100), IPU_OK);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    ipu__folder_note_use(in_folder("entry3"));
    assert_int_equal(ipu__file_write(in_folder("other"), text, 100), IPU_OK);
    assert_int_equal(mkdir(in_folder("entry folder"), 0700), 0);
    static const struct {
        uint64_t bytes;
        size_t   files;
        int      from; /* the oldest that stays, apart from 3 */
    } rounds[] = {{1000, 10, 0}, {10000, 5, 6}, {250, 100, 9}, {100, 100, 10}, {99, 100, 11}};
    for (int r = 0; r < 5; r++) {
        ipu__folder_trim(folder, is_entry, rounds[r].bytes, rounds[r].files);
        for (int i = 0; i < 10; i++) {
            bool stays = i == 3 ? rounds[r].from <= 10 : i >= rounds[r].from;
            snprintf(name, sizeof name, "entry%d", i);
            if ((access(in_folder(name), F_OK) == 0) != stays) fail_msg("round %d: %s", r, name);
        }
    }
    assert_int_equal(entries(false), 2);
    ipu__folder_trim("/no/such/folder", is_entry, 0, 0);
    ipu__folder_note_use("/no/such/file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_folder_is_made_with_those_above_it, empty_folder),
        cmocka_unit_test_teardown(rests_of_killed_writers_are_cleared_and_nothing_else, empty_folder),
        cmocka_unit_test_teardown(a_rest_that_is_being_written_stays, empty_folder),
        cmocka_unit_test_teardown(only_ones_own_folder_is_trusted, empty_folder),
        cmocka_unit_test_teardown(what_was_used_last_is_kept, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

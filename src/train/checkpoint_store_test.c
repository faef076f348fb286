/* Folders of checkpoints: which stay, who may write, damage, full disks, and writers killed at any moment. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ipu/checkpoint.h"
#include "ipu/log.h"

static char box[] = "/tmp/ipu-store-test-XXXXXX";
static char folder[128], path[512], warning[1024];

static const char *in_folder(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void note_warning(void *user, ipu_log_level level, const char *module, const char *text)
{
    (void)user, (void)level, (void)module;
    snprintf(warning, sizeof warning, "%s", text);
}

static int make_box(void **state)
{
    (void)state;
    if (!mkdtemp(box)) return -1;
    snprintf(folder, sizeof folder, "%s/a/b", box);
    ipu_log_set(IPU_LOG_WARN, note_warning, NULL);
    return 0;
}

/* Entries but for the lock; removes all of them if asked. */
static int entries(bool removing)
{
    int  n   = 0;
    DIR *dir = opendir(folder);
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        n += strcmp(e->d_name, ".lock") != 0;
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
    warning[0] = 0;
    return 0;
}

static int remove_box(void **state)
{
    (void)state;
    char above[64];
    rmdir(folder);
    snprintf(above, sizeof above, "%s/a", box);
    rmdir(above);
    return rmdir(box);
}

/* ---- a state that says of which step it is ---- */

enum { N_FLOATS = 2000 };

static ipu_status save_step(ipu_checkpoint_store *s, int64_t step)
{
    static float    values[N_FLOATS];
    ipu_named_array a = {(char *)"values", {IPU_FLOAT, {1, {N_FLOATS}}, values}};
    for (int i = 0; i < N_FLOATS; i++) values[i] = (float)step;
    return ipu_checkpoint_save(s, &(ipu_checkpoint){.step = step, .position = {1, step}, .state = {&a, 1}});
}

/* The step of the newest one; -1: there is none. */
static int64_t last_step(ipu_checkpoint_store *s)
{
    ipu_checkpoint c;
    ipu_status     status = ipu_checkpoint_load_last(s, &c);
    if (status == IPU_NOT_FOUND) return -1;
    assert_int_equal(status, IPU_OK);
    assert_int_equal(c.position.batch, c.step);
    assert_int_equal(c.state.n, 1);
    for (int i = 0; i < N_FLOATS; i++)
        if (((const float *)c.state.arrays[0].array.data)[i] != (float)c.step) fail_msg("element %d", i);
    int64_t step = c.step;
    ipu_checkpoint_free(&c);
    return step;
}

static ipu_checkpoint_store *open_store(int keep)
{
    ipu_checkpoint_store *s;
    if (ipu_checkpoint_store_open(folder, keep, &s) != IPU_OK) fail_msg("%s", ipu_message());
    return s;
}

/* ---- which stay ---- */

static void the_newest_stay(void **state)
{
    (void)state;
    for (int keep = 0; keep < 3; keep++) {
        ipu_checkpoint_store *s      = open_store(keep);
        size_t                stayed = keep ? (size_t)keep : 3;
        assert_int_equal(last_step(s), -1);
        assert_non_null(strstr(ipu_message(), folder));
        for (int i = 1; i <= 5; i++) assert_int_equal(save_step(s, 10 * i), IPU_OK);
        assert_int_equal(save_step(s, 50), IPU_OK); /* the same once more */
        assert_int_equal(ipu_checkpoint_store_n(s), stayed);
        assert_int_equal(entries(false), stayed);
        assert_string_equal(ipu_checkpoint_store_at(s, stayed - 1), in_folder("checkpoint-000000000050.npz"));
        assert_null(ipu_checkpoint_store_at(s, stayed));
        ipu_checkpoint_store_close(s);
        s = open_store(1);
        assert_int_equal(ipu_checkpoint_store_n(s), stayed); /* fewer only when there is a new one */
        assert_int_equal(last_step(s), 50);
        assert_int_equal(save_step(s, INT64_MAX), IPU_OK);
        ipu_checkpoint_store_close(s);
        s = open_store(1);
        assert_int_equal(last_step(s), INT64_MAX);
        assert_int_equal(entries(true), 1);
        ipu_checkpoint_store_close(s);
    }
}

static void files_that_are_no_checkpoints_are_left_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"checkpoint-1.npz",
                                        "checkpoint-000000000001.npz.damaged",
                                        "checkpoint--00000000001.npz",
                                        "checkpoint-00000000000x.npz",
                                        "checkpoint-000000000001.npy",
                                        "model.npz"};
    ipu_checkpoint_store_close(open_store(1));
    for (int i = 0; i < 6; i++) close(open(in_folder(names[i]), O_CREAT | O_WRONLY, 0666));
    ipu_checkpoint_store *s = open_store(1);
    assert_int_equal(ipu_checkpoint_store_n(s), 0);
    for (int i = 1; i < 4; i++) assert_int_equal(save_step(s, i), IPU_OK);
    assert_int_equal(entries(false), 7);
    ipu_checkpoint_store_close(s);
}

static void an_earlier_step_does_not_push_out_a_later_one(void **state)
{
    (void)state;
    ipu_checkpoint_store *s = open_store(1);
    assert_int_equal(save_step(s, 500), IPU_OK);
    assert_int_equal(save_step(s, 10), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "checkpoint-000000000500.npz is of a later one"));
    assert_int_equal(last_step(s), 500);
    assert_int_equal(entries(false), 1);
    ipu_checkpoint_store_close(s);
}

static void what_cannot_be_asked_for_is_refused(void **state)
{
    (void)state;
    ipu_checkpoint_store *s;
    assert_int_equal(ipu_checkpoint_store_open("", 0, &s), IPU_INVALID);
    assert_int_equal(ipu_checkpoint_store_open(folder, -1, &s), IPU_INVALID);
    assert_null(s);
    assert_int_equal(ipu_checkpoint_store_open("/proc/none", 0, &s), IPU_IO);
    assert_non_null(strstr(ipu_message(), "/proc/none"));
    ipu_checkpoint_store_close(NULL);
}

/* ---- who may write ---- */

static void a_second_writer_is_told_who_is_first(void **state)
{
    (void)state;
    int                   begin[2], end[2], status;
    char                  byte = 0, who[32];
    ipu_checkpoint_store *s;
    assert_int_equal(pipe(begin) + pipe(end), 0);
    pid_t child = fork();
    if (child == 0) {
        if (ipu_checkpoint_store_open(folder, 0, &s) != IPU_OK || write(begin[1], "x", 1) != 1) _exit(1);
        _exit(read(end[0], &byte, 1) != 1);
    }
    assert_int_equal(read(begin[0], &byte, 1), 1);
    assert_int_equal(ipu_checkpoint_store_open(folder, 0, &s), IPU_BUSY);
    snprintf(who, sizeof who, "process %ld ", (long)child);
    if (!strstr(ipu_message(), who) || !strstr(ipu_message(), folder)) fail_msg("%s", ipu_message());
    assert_int_equal(write(end[1], "x", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    s = open_store(0); /* it never closed it */
    ipu_checkpoint_store *again;
    assert_int_equal(ipu_checkpoint_store_open(folder, 0, &again), IPU_BUSY);
    ipu_checkpoint_store_close(s);
    ipu_checkpoint_store_close(open_store(0));
    for (int i = 0; i < 2; i++) close(begin[i]), close(end[i]);
}

/* ---- damage ---- */

static void damage(const char *name, int how)
{
    struct stat st;
    char        byte;
    int         fd = open(in_folder(name), O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(pread(fd, &byte, 1, st.st_size / 2), 1);
    byte ^= 4;
    if (how == 0) assert_int_equal(ftruncate(fd, 0), 0);
    if (how == 1) assert_int_equal(ftruncate(fd, st.st_size / 2), 0);
    if (how == 2) assert_int_equal(pwrite(fd, &byte, 1, st.st_size / 2), 1);
    close(fd);
}

static void a_damaged_one_is_told_of_and_passed_over(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        ipu_checkpoint_store *s = open_store(1);
        ipu_checkpoint_store_close(s);
        s = open_store(3);
        for (int i = 1; i <= 3; i++) assert_int_equal(save_step(s, i), IPU_OK);
        damage("checkpoint-000000000003.npz", how);
        assert_int_equal(last_step(s), 2);
        assert_non_null(strstr(warning, "checkpoint-000000000003.npz"));
        assert_int_equal(access(in_folder("checkpoint-000000000003.npz.damaged"), F_OK), 0);
        assert_int_equal(ipu_checkpoint_store_n(s), 2);
        assert_int_equal(save_step(s, 3), IPU_OK);
        assert_int_equal(last_step(s), 3);
        ipu_checkpoint_store_close(s);
        empty_folder(NULL);
    }
}

static void assert_no_whole_one(ipu_checkpoint_store *s, const char *how_many)
{
    ipu_checkpoint c;
    assert_int_equal(ipu_checkpoint_load_last(s, &c), IPU_INVALID);
    if (!strstr(ipu_message(), how_many) || !strstr(ipu_message(), folder)) fail_msg("%s", ipu_message());
}

static void if_all_are_damaged_it_stays_an_error_until_a_restart(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        ipu_checkpoint_store *s = open_store(3);
        for (int i = 1; i <= 3; i++) assert_int_equal(save_step(s, i), IPU_OK);
        damage("checkpoint-000000000003.npz", how);
        assert_int_equal(last_step(s), 2); /* the third is set aside */
        damage("checkpoint-000000000001.npz", how);
        damage("checkpoint-000000000002.npz", how);
        for (int i = 0; i < 2; i++) {
            ipu_checkpoint_store_close(s);
            s = open_store(3);
            assert_no_whole_one(s, "3 were damaged");
            assert_int_equal(entries(false), 3);
            assert_int_equal(save_step(s, 1), IPU_INVALID);
        }
        for (int i = 1; i < 3; i++) assert_int_equal(unlink(ipu_checkpoint_store_at(s, (size_t)(i - 1))), 0);
        ipu_checkpoint_store_close(s);
        s = open_store(3);
        assert_no_whole_one(s, "1 was damaged");
        assert_int_equal(ipu_checkpoint_store_restart(s), IPU_OK);
        assert_int_equal(access(in_folder("checkpoint-000000000003.npz.damaged.before"), F_OK), 0);
        ipu_checkpoint c;
        assert_int_equal(ipu_checkpoint_load_last(s, &c), IPU_NOT_FOUND);
        assert_int_equal(save_step(s, 1), IPU_OK);
        assert_int_equal(ipu_checkpoint_store_restart(s), IPU_OK);
        assert_int_equal(ipu_checkpoint_store_n(s), 0);
        assert_int_equal(access(in_folder("checkpoint-000000000001.npz.before"), F_OK), 0);
        assert_int_equal(save_step(s, 1), IPU_OK);
        assert_int_equal(ipu_checkpoint_store_restart(s), IPU_OK); /* what an earlier one has kept stays */
        assert_int_equal(access(in_folder("checkpoint-000000000001.npz.before"), F_OK), 0);
        assert_int_equal(access(in_folder("checkpoint-000000000001.npz.before.2"), F_OK), 0);
        ipu_checkpoint_store_close(s);
        empty_folder(NULL);
    }
}

static void one_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    ipu_checkpoint        c;
    ipu_checkpoint_store *s = open_store(3);
    assert_int_equal(save_step(s, 1), IPU_OK);
    ipu_checkpoint_store_close(s);
    assert_int_equal(mkdir(in_folder("checkpoint-000000000002.npz"), 0700), 0);
    s = open_store(3);
    assert_int_equal(ipu_checkpoint_load_last(s, &c), IPU_IO);
    assert_non_null(strstr(ipu_message(), "checkpoint-000000000002.npz"));
    ipu_checkpoint_store_close(s);
    assert_int_equal(mkfifo(in_folder("checkpoint-000000000003.npz"), 0600), 0);
    s = open_store(3);
    alarm(600);
    assert_int_equal(ipu_checkpoint_load_last(s, &c), IPU_IO);
    alarm(0);
    assert_non_null(
        strstr(ipu_message(), "checkpoint-000000000003.npz: expected a regular file, found a pipe"));
    assert_int_equal(ipu_checkpoint_store_restart(s), IPU_OK);
    assert_int_equal(ipu_checkpoint_load_last(s, &c), IPU_NOT_FOUND);
    ipu_checkpoint_store_close(s);
}

/* ---- no room, no right ---- */

static void a_full_disk_leaves_the_old_ones(void **state)
{
    (void)state;
    int status;
    for (rlim_t most = 0; most < 8000; most += 1000) {
        pid_t child = fork();
        if (child == 0) {
            ipu_checkpoint_store *s = open_store(1);
            if (most == 0 && save_step(s, 1) != IPU_OK) _exit(1);
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){most, most});
            if (save_step(s, 2) != IPU_IO) _exit(2);
            if (!strstr(ipu_message(), strerror(EFBIG)) || !strstr(ipu_message(), folder)) _exit(3);
            _exit(last_step(s) == 1 && entries(false) == 1 ? 0 : 4);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status) fail_msg("%d bytes: status %d", (int)most, WEXITSTATUS(status));
    }
}

/* On a file system of 64 kB, in a mount namespace of a child's own: 77 if that cannot be had. */
static int fill_a_disk(void)
{
    int n = 0;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
        || mount("none", box, "tmpfs", 0, "size=65536") != 0)
        return 77;
    ipu_checkpoint_store *s      = open_store(100);
    ipu_status            status = IPU_OK;
    while (status == IPU_OK && n < 100) status = save_step(s, ++n);
    if (status != IPU_IO || !strstr(ipu_message(), strerror(ENOSPC)) || n < 3) return 1;
    if (last_step(s) != n - 1 || entries(false) != n - 1 || warning[0]) return 2;
    ipu_checkpoint_store_close(s);
    s = open_store(1); /* some room is made, and it goes on */
    if (remove(ipu_checkpoint_store_at(s, 0)) != 0 || save_step(s, n) != IPU_OK) return 3;
    return last_step(s) == n && entries(false) == 1 ? 0 : 4;
}

static void a_disk_that_fills_up_leaves_the_old_ones(void **state)
{
    (void)state;
    int   status;
    pid_t child = fork();
    if (child == 0) _exit(fill_a_disk());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) skip(); /* the superuser may do it */
    if (status) fail_msg("status %d", WEXITSTATUS(status));
}

/* As nobody: the superuser may do everything. */
static void a_folder_that_may_not_be_written_is_an_error(void **state)
{
    (void)state;
    enum { NOBODY = 65534 };
    int                   status;
    ipu_checkpoint_store *s = open_store(1);
    assert_int_equal(save_step(s, 1), IPU_OK);
    ipu_checkpoint_store_close(s);
    assert_int_equal(chmod(box, 0755), 0);
    assert_int_equal(chmod(folder, 0555), 0);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)) _exit(1);
        ipu_status found = ipu_checkpoint_store_open(folder, 1, &s); /* one's own lock can be had */
        if (found == IPU_OK) found = save_step(s, 2);
        if (found != IPU_IO) _exit(2);
        if (!strstr(ipu_message(), strerror(EACCES)) || !strstr(ipu_message(), folder)) _exit(3);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(box, 0700), 0);
    if (status) fail_msg("status %d", WEXITSTATUS(status));
    s = open_store(1);
    assert_int_equal(last_step(s), 1);
    ipu_checkpoint_store_close(s);
}

/* ---- killed ---- */

static void whenever_a_writer_is_killed_the_newest_is_whole(void **state)
{
    (void)state;
    enum { KILLS = 100 };
    unsigned random   = 1;
    int64_t  before   = -1;
    int      most     = 8000; /* microseconds */
    int      progress = 0;
    for (int i = 0; i < KILLS; i++) {
        pid_t child = fork();
        if (child == 0) {
            ipu_checkpoint_store *s = open_store(2);
            for (int64_t step = last_step(s) + 1; save_step(s, step) == IPU_OK;) step++;
            _exit(1);
        }
        random = random * 1103515245u + 12345u;
        usleep((useconds_t)((int64_t)(random >> 16) * most >> 16));
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        ipu_checkpoint_store *s    = open_store(2);
        int64_t               last = last_step(s);
        assert_string_equal(warning, "");
        assert_true(last >= before);
        assert_int_equal(entries(false), ipu_checkpoint_store_n(s)); /* what was half written is gone */
        progress += last > before;
        most += last > before ? -most / 8 : most / 4; /* about half of them come to save something */
        before = last;
        ipu_checkpoint_store_close(s);
    }
    assert_true(progress > KILLS / 8);
    ipu_checkpoint_store *s = open_store(2);
    assert_int_equal(save_step(s, before + 1), IPU_OK); /* also removes what killed ones did not come to */
    assert_int_equal(entries(false), 2);
    ipu_checkpoint_store_close(s);
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

static ipu_status all_of_it(void)
{
    ipu_checkpoint        c;
    ipu_checkpoint_store *s;
    IPU_TRY(ipu_checkpoint_store_open(folder, 2, &s));
    ipu_status status = ipu_checkpoint_load_last(s, &c);
    if (status == IPU_OK) status = save_step(s, c.step + 1);
    ipu_checkpoint_free(&c);
    ipu_checkpoint_store_close(s);
    return status;
}

static void refused_memory_is_reported_at_every_allocation(void **state)
{
    (void)state;
    ipu_checkpoint_store *s = open_store(2);
    assert_int_equal(save_step(s, 1), IPU_OK);
    assert_int_equal(save_step(s, 2), IPU_OK);
    ipu_checkpoint_store_close(s);
    ipu_status status = IPU_OUT_OF_MEMORY;
    for (int allowed = 0; status == IPU_OUT_OF_MEMORY; allowed++) {
        assert_in_range(allowed, 0, 200);
        ipu__alloc_set(limited, NULL);
        calls_left = allowed;
        status     = all_of_it();
        ipu__alloc_set(NULL, NULL);
        s = open_store(2);
        assert_int_equal(last_step(s), status == IPU_OK ? 3 : 2);
        assert_int_equal(entries(false), 2);
        ipu_checkpoint_store_close(s);
    }
    assert_int_equal(status, IPU_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_newest_stay, empty_folder),
        cmocka_unit_test_teardown(files_that_are_no_checkpoints_are_left_alone, empty_folder),
        cmocka_unit_test_teardown(an_earlier_step_does_not_push_out_a_later_one, empty_folder),
        cmocka_unit_test_teardown(what_cannot_be_asked_for_is_refused, empty_folder),
        cmocka_unit_test_teardown(a_second_writer_is_told_who_is_first, empty_folder),
        cmocka_unit_test_teardown(a_damaged_one_is_told_of_and_passed_over, empty_folder),
        cmocka_unit_test_teardown(if_all_are_damaged_it_stays_an_error_until_a_restart, empty_folder),
        cmocka_unit_test_teardown(one_that_cannot_be_read_is_an_error, empty_folder),
        cmocka_unit_test_teardown(a_full_disk_leaves_the_old_ones, empty_folder),
        cmocka_unit_test_teardown(a_disk_that_fills_up_leaves_the_old_ones, empty_folder),
        cmocka_unit_test_teardown(a_folder_that_may_not_be_written_is_an_error, empty_folder),
        cmocka_unit_test_teardown(whenever_a_writer_is_killed_the_newest_is_whole, empty_folder),
        cmocka_unit_test_teardown(refused_memory_is_reported_at_every_allocation, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_box, remove_box);
}

/* Damaged states, at any time and in any way a user can cause: no process dies, none is kept from running, and held
 * IPUs stay held. */
#include "device/state.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>

#include "device/device.h"
#include "device/sandbox_test.h"

enum { N_IPUS = 4 };

static char path[160];

static int enter_with_state(void **state)
{
    if (enter_sandbox(state) != 0) return -1;
    setenv("IPU_ELASTIC", "0", 1);
    snprintf(path, sizeof path, "%s/run/default.gcd0.ipus1", sandbox);
    return 0;
}

static int leave_with_state(void **state)
{
    unsetenv("IPU_ELASTIC");
    return leave_sandbox(state);
}

static ipu_device *attached(int64_t n_ipus)
{
    ipu_device *d;
    assert_status(ipu_device_open_any(n_ipus, &d), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    return d;
}

static void run(ipu_device *d)
{
    assert_status(ipu__device_begin_run(d, 0), IPU_OK);
    ipu__device_end_run(d, &(ipu__run_counts){.supersteps = 2, .cycles = -1, .tile_bytes = -1});
}

static int64_t n_runs(ipu_device *d)
{
    ipu_device_counters c;
    ipu_device_get_counters(d, &c);
    return c.runs;
}

/* What `act` returns in another process. */
static int in_another(int (*act)(void))
{
    int   status;
    pid_t pid = fork();
    if (pid == 0) _exit(act());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

enum { FREE, BUSY, SEEN, UNSEEN, WRONG };

static int try_to_attach(void)
{
    ipu_device *d;
    if (ipu_device_open(0, &d) != IPU_OK) return WRONG;
    ipu_status status = ipu_device_attach(d, 0);
    return status == IPU_OK ? FREE : status == IPU_BUSY ? BUSY : WRONG;
}

/* The parent, with all IPUs and three runs. */
static int look(void)
{
    ipu_device_list *list;
    if (ipu_device_list_create(0, &list) != IPU_OK) return WRONG;
    const ipu_partition *p = ipu_device_list_active(list);
    for (size_t i = 0; i < p->n_ipus; i++)
        if (!p->singles[i].process || p->singles[i].process->pid != getppid()) return WRONG;
    bool whole = p->n_processes == 1 && p->processes[0].counters.runs == 3
              && p->processes[0].n_ipus == N_IPUS;
    return whole ? SEEN : UNSEEN;
}

static void cut(off_t bytes) { assert_int_equal(truncate(path, bytes), 0); }

static const off_t cuts[] = {0, 1, 19, 4096, 4097, 4500, 5000, 100000};

static void one_that_is_cut_short_ends_nobody(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        ipu_device *d = attached(N_IPUS);
        for (int k = 0; k < 3; k++) run(d);
        assert_int_equal(in_another(look), SEEN);
        cut(cuts[i]);
        assert_int_not_equal(in_another(look), WRONG);
        assert_int_equal(in_another(try_to_attach), BUSY); /* the locks are not in it; and this repairs it */
        assert_int_not_equal(in_another(look), WRONG);
        d->recorded_ns = 0; /* as if a second had passed */
        assert_int_equal(n_runs(d), 3);
        run(d);
        assert_int_equal(n_runs(d), 4);
        atomic_store(&d->counters.runs, 2);
        run(d);
        assert_int_equal(in_another(look), SEEN); /* everything is as before */
        ipu_device_close(d);
        assert_int_equal(in_another(try_to_attach), FREE);
    }
}

static void one_that_is_cut_all_the_time_is_used(void **state)
{
    (void)state;
    ipu_device *d   = attached(1);
    pid_t       pid = fork();
    if (pid == 0)
        for (unsigned i = 0;; i++)
            if (truncate(path, cuts[i % 8]) != 0) _exit(1);
    for (int i = 0; i < 2000; i++) {
        ipu_device_list *list;
        run(d);
        if (i % 50) continue;
        assert_status(ipu_device_list_create(0, &list), IPU_OK);
        ipu_device_list_destroy(list);
        ipu_device *other = attached(1);
        ipu_device_close(other);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(n_runs(d), 2000);
    ipu_device_close(d);
}

/* In another process, because closing it here would drop our locks. */
static int filling;

static int fill(void)
{
    static char noise[sizeof(ipu__state_file) + 100];
    int         fd = open(path, O_WRONLY | O_CLOEXEC);
    memset(noise, filling, sizeof noise);
    return write(fd, noise, sizeof noise) == sizeof noise ? SEEN : WRONG;
}

static void one_that_is_overwritten_is_mended_where_it_is(void **state)
{
    (void)state;
    static const int bytes[] = {0, 0xFF, 'A', 0x1B};
    struct stat      before, after;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        ipu_device *d = attached(N_IPUS);
        for (int k = 0; k < 3; k++) run(d);
        assert_int_equal(stat(path, &before), 0);
        filling = bytes[i];
        assert_int_equal(in_another(fill), SEEN);
        assert_int_not_equal(in_another(look), WRONG);
        assert_int_equal(in_another(try_to_attach), BUSY);
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
        d->recorded_ns = 0;
        atomic_store(&d->counters.runs, 2);
        run(d);
        assert_int_equal(in_another(look), SEEN);
        ipu_device_close(d);
        assert_int_equal(in_another(try_to_attach), FREE);
    }
}

/* IPU errors keep programs from running, so noise must not look like one. */
static void noise_is_no_error_of_an_ipu(void **state)
{
    (void)state;
    static const char noise[][IPU__ERROR_BYTES] = {"\x1b[31mred", "lower", {'A', 0, 'B'}};
    ipu__slot         slot;
    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++) {
        ipu_device_close(attached(1));
        int   fd = open(path, O_RDWR | O_CLOEXEC);
        off_t at = offsetof(ipu__state_file, slots) + offsetof(ipu__slot, error);
        assert_int_equal(pwrite(fd, noise[i], sizeof slot.error, at), sizeof slot.error);
        close(fd);
        ipu_device *d = attached(1);
        run(d);
        ipu_device_list *list;
        assert_status(ipu_device_list_create(0, &list), IPU_OK);
        assert_string_equal(ipu_device_list_active(list)->singles[0].error, "no errors");
        ipu_device_list_destroy(list);
        ipu_device_close(d);
    }
}

static void put_folder(void) { assert_int_equal(mkdir(path, 0700), 0); }
static void put_link(void) { assert_int_equal(symlink("/etc/passwd", path), 0); }
static void put_dangling_link(void) { assert_int_equal(symlink("nowhere", path), 0); }
static void put_pipe(void) { assert_int_equal(mkfifo(path, 0600), 0); }
static void put_open_file(void)
{
    put_file("run/default.gcd0.ipus1", "x");
    assert_int_equal(chmod(path, 0666), 0);
}
static void put_short_file(void) { put_file("run/default.gcd0.ipus1", "short"); }

static void look_at_list(void)
{
    ipu_device_list *list;
    assert_status(ipu_device_list_create(0, &list), IPU_OK);
    assert_int_equal(ipu_device_list_active(list)->n_processes, 0);
    ipu_device_list_destroy(list);
}

static void what_is_no_state_is_set_aside(void **state)
{
    (void)state;
    static void (*const puts[])(void) = {put_folder, put_link,      put_dangling_link,
                                         put_pipe,   put_open_file, put_short_file};
    struct stat st;
    char        aside[200];
    snprintf(aside, sizeof aside, "%s.aside-%ld", path, (long)getpid());
    ipu_device_close(attached(1)); /* creates the folder */
    for (size_t i = 0; i < sizeof puts / sizeof *puts; i++) {
        assert_int_equal(unlink(path), 0);
        puts[i]();
        look_at_list(); /* as `ipu train` does before it attaches */
        run(attached(1));
        ipu_device *d = attached(1);
        assert_int_equal(lstat(path, &st), 0);
        assert_true(S_ISREG(st.st_mode));
        assert_int_equal(st.st_mode & 0777, puts[i] == put_short_file ? st.st_mode & 0777 : 0600);
        assert_int_equal(lstat(aside, &st) == 0, puts[i] != put_short_file);
        ipu_device_close(d);
        remove(aside);
    }
}

/* Waiters take turns whatever the file says. */
static void a_line_needs_no_file(void **state)
{
    (void)state;
    static const int64_t tickets[] = {-1, INT64_MAX, INT64_MIN, (int64_t)1 << 41, 7};
    ipu__state          *s;
    int64_t              pid;
    ipu_device_close(attached(1));
    for (size_t i = 0; i < sizeof tickets / sizeof *tickets; i++) {
        ipu__place_in_line first, second;
        int                fd = open(path, O_RDWR | O_CLOEXEC);
        off_t              at = offsetof(ipu__state_file, next_ticket);
        assert_int_equal(pwrite(fd, &tickets[i], sizeof tickets[i], at), sizeof tickets[i]);
        close(fd);
        ipu__state_lock();
        assert_status(ipu__state_open("default", 0, true, &s), IPU_OK);
        ipu__state_line_enter(s, &first);
        cut(0);
        ipu__state_line_enter(s, &second);
        assert_true(second.ticket > first.ticket);
        assert_true(ipu__state_line_others(s, &second, &pid));
        assert_false(ipu__state_line_others(s, &first, &pid));
        assert_true(ipu__state_line_others(s, NULL, &pid));
        ipu__state_line_leave(&first);
        assert_false(ipu__state_line_others(s, &second, &pid));
        ipu__state_line_leave(&second);
        assert_false(ipu__state_line_others(s, NULL, &pid));
        ipu__state_close(s);
        ipu__state_unlock();
    }
}

/* ulimit -f: less than the state's size. */
static int attach_and_run_limited(void)
{
    ipu_device *d;
    if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){5000, 5000}) != 0) return WRONG;
    if (ipu_device_open(0, &d) != IPU_OK || ipu_device_attach(d, 0) != IPU_OK) return WRONG;
    for (int i = 0; i < 3; i++) run(d);
    return try_to_attach() == FREE || n_runs(d) != 3 ? WRONG : SEEN;
}

static void a_limit_to_files_ends_nobody(void **state)
{
    (void)state;
    assert_int_equal(in_another(attach_and_run_limited), SEEN); /* creates it */
    ipu_device_close(attached(1));
    assert_int_equal(in_another(attach_and_run_limited), SEEN);
}

/* ---- what is left of those that were killed ---- */

static const char *put_rest(const char *format, pid_t pid)
{
    char name[80];
    snprintf(name, sizeof name, format, (long)pid);
    return put_file(name, "half");
}

static int only_attach(void)
{
    ipu_device *d;
    return ipu_device_open(0, &d) == IPU_OK && ipu_device_attach(d, 0) == IPU_OK ? FREE : WRONG;
}

static int nothing(void) { return FREE; }

static void what_killed_processes_began_is_removed(void **state)
{
    (void)state;
    static const char *const rests[] = {"run/.event.%ld", "run/.ipu-%ld-0.tmp", "run/default.gcd0.ipus1.%ld"};
    static const char *const others[] = {"run/.event.%ldx", "run/notes.%ld"};
    char                     of_dead[3][256], of_living[3][256], of_nobody[2][256], in_use[256];
    int                      status;
    pid_t                    dead = fork(), mine = getpid();
    if (dead == 0) _exit(nothing());
    assert_int_equal(waitpid(dead, &status, 0), dead);
    assert_int_equal(in_another(only_attach), FREE); /* creates the folder */
    for (int i = 0; i < 3; i++) strcpy(of_dead[i], put_rest(rests[i], dead));
    for (int i = 0; i < 3; i++) strcpy(of_living[i], put_rest(rests[i], mine));
    for (int i = 0; i < 2; i++) strcpy(of_nobody[i], put_rest(others[i], dead));
    /* From a process that is invisible here, e.g. in another container: the lock shows that it is alive. */
    strcpy(in_use, put_rest("run/.ipu-%ld-7.tmp", dead));
    int fd = open(in_use, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(in_another(only_attach), FREE);
    for (int i = 0; i < 3; i++) assert_int_not_equal(access(of_dead[i], F_OK), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(access(of_living[i], F_OK), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(access(of_nobody[i], F_OK), 0);
    assert_int_equal(access(in_use, F_OK), 0);
    close(fd);
    assert_int_equal(in_another(only_attach), FREE);
    assert_int_not_equal(access(in_use, F_OK), 0);
}

#define DAMAGED(test) cmocka_unit_test_setup_teardown(test, enter_with_state, leave_with_state)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DAMAGED(one_that_is_cut_short_ends_nobody),
        DAMAGED(one_that_is_cut_all_the_time_is_used),
        DAMAGED(one_that_is_overwritten_is_mended_where_it_is),
        DAMAGED(noise_is_no_error_of_an_ipu),
        DAMAGED(what_is_no_state_is_set_aside),
        DAMAGED(a_line_needs_no_file),
        DAMAGED(a_limit_to_files_ends_nobody),
        DAMAGED(what_killed_processes_began_is_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

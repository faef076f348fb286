/* Attaching: each IPU has one holder, which others can see, and is released when that ends, however it
 * ends. */
#include "device/device.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/host/clock.h"
#include "device/sandbox_test.h"

#define HARD_4 "{\"partition\": \"p1\", \"system\": \"m2000\"}"

static ipu_device *opened(int id)
{
    ipu_device *d;
    assert_status(ipu_device_open(id, &d), IPU_OK);
    return d;
}

static ipu_device *opened_any(int64_t n)
{
    ipu_device *d;
    assert_status(ipu_device_open_any(n, &d), IPU_OK);
    return d;
}

static ipu_device_list *listed(void)
{
    ipu_device_list *list;
    assert_status(ipu_device_list_create(0, &list), IPU_OK);
    return list;
}

/* ---- a child that holds a device until it is told to end ---- */

typedef struct holder {
    pid_t pid;
    int   hold; /* close it to end the process */
} holder;

static holder start_holder(int id)
{
    int  ready[2], hold[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(hold), 0);
    pid_t pid = fork();
    if (pid == 0) {
        ipu_device *d;
        close(hold[1]);
        if (ipu_device_open(id, &d) != IPU_OK || ipu_device_attach(d, 0) != IPU_OK) _exit(1);
        if (write(ready[1], "r", 1) != 1) _exit(1);
        if (read(hold[0], &byte, 1) != 0) _exit(1);
        ipu_device_close(d);
        _exit(0);
    }
    close(ready[1]);
    close(hold[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return (holder){pid, hold[1]};
}

static void end_holder(holder h)
{
    int status;
    close(h.hold);
    assert_int_equal(waitpid(h.pid, &status, 0), h.pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- */

static void what_is_attached_is_listed_with_its_process(void **state)
{
    (void)state;
    ipu_device *d = opened(5);
    assert_false(ipu_device_is_attached(d));
    assert_int_equal(ipu_device_id(d), -1);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    assert_int_equal(ipu_device_id(d), 5);
    assert_int_equal(ipu_device_n_ipus(d), 2);
    ipu_device_list     *list = listed();
    const ipu_partition *p    = ipu_device_list_active(list);
    assert_int_equal(p->n_processes, 1);
    const ipu_attached *a = &p->processes[0];
    assert_int_equal(a->pid, getpid());
    assert_int_equal(a->uid, geteuid());
    assert_int_equal(a->id, 5);
    assert_int_equal(a->first, 2);
    assert_int_equal(a->n_ipus, 2);
    assert_string_equal(a->command, "device_device_test");
    assert_non_null(strstr(a->executable, "/device_device_test"));
    assert_true(a->since_ns / 1000000000 >= time(NULL) - 10);
    assert_null(p->singles[0].process);
    assert_null(p->singles[1].process);
    assert_ptr_equal(p->singles[2].process, a);
    assert_ptr_equal(p->singles[3].process, a);
    ipu_device_list_destroy(list);
    ipu_device_close(d);
    list = listed();
    assert_int_equal(ipu_device_list_active(list)->n_processes, 0);
    ipu_device_list_destroy(list);
}

static void looking_does_not_let_go(void **state)
{
    (void)state;
    char        run[128];
    ipu_device *d = opened(0);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    for (int i = 0; i < 3; i++) ipu_device_list_destroy(listed());
    /* the same folder under another name */
    snprintf(run, sizeof run, "/tmp/..%s/run", sandbox);
    setenv("IPU_RUNTIME_DIR", run, 1);
    for (int i = 0; i < 3; i++) ipu_device_list_destroy(listed());
    pid_t pid = fork();
    if (pid == 0) {
        ipu_device *other;
        _exit(ipu_device_open(0, &other) == IPU_OK && ipu_device_attach(other, 0) == IPU_BUSY ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ipu_device_close(d);
    end_holder(start_holder(0));
}

/* Locks IPU 0 through a child that shares its descriptors and ends, and stays until `hold` is closed. */
static void hold_without_process(const char *path, int ready, int hold)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    char         byte;
    int          fd  = open(path, O_RDWR), status;
    pid_t        pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) _exit(fcntl(fd, F_SETLK, &range) == 0 ? 0 : 1);
    if (waitpid(pid, &status, 0) != pid || status != 0) _exit(1);
    _exit(write(ready, "r", 1) == 1 && read(hold, &byte, 1) == 0 ? 0 : 1);
}

/* Users and sizes in the file are whatever its owner wrote. */
static void forge(const char *path, int32_t n_ipus)
{
    ipu__slot slot;
    off_t     at = offsetof(ipu__state_file, slots);
    int       fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &slot, sizeof slot, at), sizeof slot);
    slot.uid    = 0x7FFFFFF0;
    slot.n_ipus = n_ipus;
    assert_int_equal(pwrite(fd, &slot, sizeof slot, at), sizeof slot);
    close(fd);
}

static void a_number_that_is_no_holders_is_not_told(void **state)
{
    (void)state;
    int  ready[2], hold[2], status;
    char byte, path[160];
    put_config("p1.conf", HARD_4);
    end_holder(start_holder(0)); /* its record stays */
    snprintf(path, sizeof path, "%s/run/p1.gcd0.ipus1", sandbox);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(hold), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(hold[1]);
        hold_without_process(path, ready[1], hold[0]);
    }
    close(ready[1]);
    close(hold[0]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    for (int k = 0; k < 2; k++) {
        forge(path, k ? INT32_MAX : 1);
        ipu_device_list     *list = listed();
        const ipu_partition *p    = ipu_device_list_active(list);
        assert_int_equal(p->n_processes, 1);
        assert_int_equal(p->processes[0].pid, 0);
        assert_int_equal(p->processes[0].uid, geteuid());
        assert_int_equal(p->processes[0].n_ipus, 1);
        ipu_device_list_destroy(list);
    }
    close(hold[1]);
    close(ready[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void a_busy_device_names_its_holder(void **state)
{
    (void)state;
    put_config("p1.conf", HARD_4);
    holder      h = start_holder(4);
    ipu_device *d = opened(1);
    char        pid[32];
    snprintf(pid, sizeof pid, "pid %d", (int)h.pid);
    assert_status(ipu_device_attach(d, 0), IPU_BUSY);
    assert_message("device 1 is busy");
    assert_message(pid);
    assert_message("(device_device_test)");
    assert_message("of user ");
    assert_message(" since 20");
    ipu_device *any = opened_any(4);
    assert_status(ipu_device_attach(any, 0), IPU_BUSY);
    assert_message("no device of that size is free");
    ipu_device *free_one = opened_any(2);
    assert_status(ipu_device_attach(free_one, 0), IPU_OK);
    assert_int_equal(ipu_device_id(free_one), 5);
    ipu_device_close(free_one);
    end_holder(h);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    ipu_device_close(d);
    ipu_device_close(any);
}

static void a_process_excludes_itself_too(void **state)
{
    (void)state;
    put_config("p1.conf", HARD_4);
    ipu_device *a = opened(0), *b = opened(4);
    assert_status(ipu_device_attach(a, 0), IPU_OK);
    assert_status(ipu_device_attach(b, 0), IPU_BUSY);
    assert_message("which is this process");
    assert_status(ipu_device_detach(a), IPU_OK);
    assert_status(ipu_device_attach(b, 0), IPU_OK);
    ipu_device_close(a);
    ipu_device_close(b);
}

static void killed_processes_leave_nothing(void **state)
{
    (void)state;
    put_config("p1.conf", HARD_4);
    for (int i = 0; i < 3; i++) {
        holder h = start_holder(6);
        kill(h.pid, SIGKILL);
        waitpid(h.pid, NULL, 0);
        close(h.hold);
        ipu_device_list *list = listed();
        assert_int_equal(ipu_device_list_active(list)->n_processes, 0);
        ipu_device_list_destroy(list);
        ipu_device *d = opened(6);
        assert_status(ipu_device_attach(d, 0), IPU_OK);
        ipu_device_close(d);
    }
}

/* A data-loader worker that outlives its parent, or simply keeps running. */
static void a_forked_child_does_not_keep_the_device(void **state)
{
    (void)state;
    put_config("p1.conf", HARD_4);
    int hold[2], told[2];
    assert_int_equal(pipe(hold), 0);
    assert_int_equal(pipe(told), 0);
    pid_t parent = fork();
    if (parent == 0) {
        ipu_device *d;
        char        byte;
        if (ipu_device_open(6, &d) != IPU_OK || ipu_device_attach(d, 0) != IPU_OK) _exit(1);
        if (fork() == 0) { /* the worker */
            close(hold[1]);
            bool right = !ipu_device_is_attached(d) && ipu_device_attach(d, 0) == IPU_FORKED
                      && ipu_device_detach(d) == IPU_FORKED;
            ipu_device *own;
            right = right && ipu_device_open(6, &own) == IPU_OK && ipu_device_attach(own, 0) == IPU_BUSY;
            ipu_device_close(d); /* must not release the parent's */
            right = right && ipu_device_attach(own, 0) == IPU_BUSY;
            if (write(told[1], right ? "y" : "n", 1) != 1) _exit(1);
            _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
        }
        while (getppid() != 1 && read(hold[0], &byte, 1) != 0) {}
        _exit(0);
    }
    char byte = 0;
    assert_int_equal(read(told[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    kill(parent, SIGKILL);
    waitpid(parent, NULL, 0);
    ipu_device *d = opened(6);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    ipu_device_close(d);
    close(hold[0]);
    close(hold[1]);
    close(told[0]);
    close(told[1]);
}

static void a_wait_ends_when_its_time_is_up(void **state)
{
    (void)state;
    put_config("p1.conf", HARD_4);
    holder      h     = start_holder(0);
    ipu_device *d     = opened(0);
    double      began = ipu__clock_seconds();
    assert_status(ipu_device_attach(d, 0.05), IPU_BUSY);
    assert_message("after a wait of 0.05 s");
    assert_true(ipu__clock_seconds() - began >= 0.05 && ipu__clock_seconds() - began < 60);
    end_holder(h);
    ipu_device_close(d);
}

static void *let_go_later(void *hold)
{
    nanosleep(&(struct timespec){0, 30000000}, NULL);
    close(*(int *)hold);
    return NULL;
}

static void a_wait_ends_when_the_device_is_free(void **state)
{
    (void)state;
    put_config("p1.conf", HARD_4);
    pthread_t   thread;
    holder      h = start_holder(6);
    ipu_device *d = opened_any(1);
    assert_int_equal(pthread_create(&thread, NULL, let_go_later, &h.hold), 0);
    assert_status(ipu_device_attach(d, -1), IPU_OK);
    pthread_join(thread, NULL);
    waitpid(h.pid, NULL, 0);
    ipu_device_close(d);
}

static void *attach_briefly(void *device) { return (void *)(intptr_t)ipu_device_attach(device, 0.03); }

static void *attach_long(void *device) { return (void *)(intptr_t)ipu_device_attach(device, 30); }

/* Two engines on one device that is attached on demand. */
static void threads_may_attach_one_handle_at_once(void **state)
{
    (void)state;
    put_config("p1.conf", HARD_4);
    holder      h = start_holder(0);
    ipu_device *d = opened(0);
    pthread_t   brief, patient[2];
    void       *result[3];
    assert_int_equal(pthread_create(&brief, NULL, attach_briefly, d), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&patient[i], NULL, attach_long, d), 0);
    pthread_join(brief, &result[0]); /* gives up; the others keep waiting */
    usleep(10000);
    end_holder(h);
    for (int i = 0; i < 2; i++) pthread_join(patient[i], &result[1 + i]);
    assert_int_equal((intptr_t)result[0], IPU_BUSY);
    assert_int_equal((intptr_t)result[1], IPU_OK);
    assert_int_equal((intptr_t)result[2], IPU_OK);
    assert_int_equal(ipu_device_id(d), 0);
    ipu_device_close(d);
    end_holder(start_holder(6));
}

static void nobody_overtakes_the_line(void **state)
{
    (void)state;
    put_config("p1.conf", HARD_4);
    holder h   = start_holder(0);
    pid_t  pid = fork();
    if (pid == 0) { /* waits for all four */
        ipu_device *d;
        close(h.hold);
        _exit(ipu_device_open(6, &d) == IPU_OK && ipu_device_attach(d, 120) == IPU_OK ? 0 : 1);
    }
    ipu_device *d = opened(3); /* free, but not available to us any more once the other one waits */
    ipu_status  status;
    double      began = ipu__clock_seconds();
    do {
        status = ipu_device_attach(d, 0);
        if (status == IPU_OK) assert_status(ipu_device_detach(d), IPU_OK);
        usleep(1000);
    } while (status == IPU_OK && ipu__clock_seconds() - began < 60);
    assert_int_equal(status, IPU_BUSY);
    assert_message("waits in line before");
    end_holder(h);
    int exit_status;
    waitpid(pid, &exit_status, 0);
    assert_true(WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    ipu_device_close(d);
}

/* ---- elastic ---- */

static void an_elastic_partition_gives_more_than_it_shows(void **state)
{
    (void)state;
    ipu_device *all = opened_any(4), *more = opened_any(1), *many = opened_any(1000);
    assert_status(ipu_device_attach(all, 0), IPU_OK);
    assert_int_equal(ipu_device_id(all), 6);
    assert_status(ipu_device_attach(more, 0), IPU_OK);
    assert_int_equal(ipu_device_id(more), -1);
    assert_status(ipu_device_attach(many, 0), IPU_OK);
    ipu_device_list     *list = listed();
    const ipu_partition *p    = ipu_device_list_active(list);
    assert_int_equal(p->n_processes, 3);
    assert_int_equal(p->processes[1].id, -1);
    assert_int_equal(p->processes[1].first, -1);
    assert_int_equal(p->processes[1].n_ipus, 1);
    assert_int_equal(p->processes[2].n_ipus, 1000);
    ipu_device_list_destroy(list);
    ipu_device *one = opened(0); /* exactly that one is requested */
    assert_status(ipu_device_attach(one, 0), IPU_BUSY);
    ipu_device_close(one);
    ipu_device_close(all);
    ipu_device_close(more);
    ipu_device_close(many);
}

static void hard_by_variable_is_hard(void **state)
{
    (void)state;
    ipu_device *d;
    setenv("IPU_ELASTIC", "0", 1);
    assert_status(ipu_device_open_any(5, &d), IPU_NOT_FOUND);
    assert_message("5 IPUs are wanted, and partition default has 4");
    setenv("IPU_ELASTIC", "maybe", 1);
    assert_status(ipu_device_open_any(1, &d), IPU_INVALID);
    assert_message("expected 0 or 1");
    put_config("p1.conf", HARD_4);
    setenv("IPU_ELASTIC", "1", 1);
    d = opened_any(5);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    ipu_device_close(d);
}

static void a_size_that_is_none_gets_the_next(void **state)
{
    (void)state;
    put_config("p1.conf", HARD_4);
    ipu_device *d = opened_any(3);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    assert_int_equal(ipu_device_id(d), 6);
    assert_int_equal(ipu_device_n_ipus(d), 4);
    ipu_device_close(d);
    assert_status(ipu_device_open_any(0, &d), IPU_INVALID);
    assert_status(ipu_device_open(7, &d), IPU_NOT_FOUND);
    assert_status(ipu_device_open(-1, &d), IPU_NOT_FOUND);
    assert_null(d);
}

static void a_variable_allows_one_device_only(void **state)
{
    (void)state;
    ipu_device *d, *other;
    setenv("IPU_DEVICE_ID", "5", 1); /* IPUs 2 and 3 of the elastic default */
    d = opened_any(1);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    assert_int_equal(ipu_device_id(d), 2);
    other = opened_any(1);
    assert_status(ipu_device_attach(other, 0), IPU_OK);
    assert_int_equal(ipu_device_id(other), 3);
    ipu_device *third = opened_any(1); /* it does not get additional ones of its own */
    assert_status(ipu_device_attach(third, 0), IPU_BUSY);
    assert_message("none within IPU_DEVICE_ID=5 is free");
    assert_message("held are IPU 2 by pid");
    ipu_device_close(third);
    ipu_device_close(other);
    ipu_device_close(d);
    d = opened_any(2);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    assert_int_equal(ipu_device_id(d), 5);
    ipu_device_close(d);
    ipu_device_close(opened(3));
    assert_status(ipu_device_open_any(3, &d), IPU_NOT_FOUND);
    assert_message("3 IPUs are wanted, and IPU_DEVICE_ID=5 allows IPUs 2 to 3 of partition default only");
    assert_status(ipu_device_open(6, &d), IPU_NOT_FOUND);
    assert_message("device 6 is wanted, and IPU_DEVICE_ID=5");
    assert_status(ipu_device_open(1, &d), IPU_NOT_FOUND);
    assert_status(ipu__device_use("bow", 1, 0, false, &d), IPU_NOT_FOUND);
    assert_message("the program is for bow");
    setenv("IPU_DEVICE_ID", "", 1); /* as if unset */
    ipu_device_close(opened(6));
}

static void a_variable_that_names_no_device_is_told(void **state)
{
    (void)state;
    static const char *const wrong[] = {"x",         "-1", "+1", " 1", "1 ", "1x", "99999999999999999999",
                                        "4294967296"};
    ipu_device              *d;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("IPU_DEVICE_ID", wrong[i], 1);
        assert_status(ipu_device_open_any(1, &d), IPU_INVALID);
        assert_message("IPU_DEVICE_ID: expected the number of a device");
        assert_message(wrong[i]);
        assert_null(d);
    }
    setenv("IPU_DEVICE_ID", "7", 1);
    assert_status(ipu_device_open_any(1, &d), IPU_NOT_FOUND);
    assert_message("IPU_DEVICE_ID: ");
    assert_message("devices 0 to 6");
    assert_status(ipu_device_open(0, &d), IPU_NOT_FOUND);
}

static void the_folder_of_the_state_is_told(void **state)
{
    (void)state;
    char folder[PATH_MAX], expected[PATH_MAX];
    assert_status(ipu_device_folder(folder, sizeof folder), IPU_OK);
    snprintf(expected, sizeof expected, "%s/run", sandbox);
    assert_string_equal(folder, expected);
    assert_int_equal(access(folder, W_OK), 0); /* created on demand */
    assert_status(ipu_device_folder(folder, strlen(expected)), IPU_INVALID);
    assert_status(ipu_device_folder(folder, strlen(expected) + 1), IPU_OK);
    assert_int_equal(chmod(expected, 0777), 0);
    assert_status(ipu_device_folder(folder, sizeof folder), IPU_IO);
    assert_message("no other may write to");
}

static void a_folder_of_anothers_is_not_used(void **state)
{
    (void)state;
    char run[96];
    snprintf(run, sizeof run, "%s/open", sandbox);
    assert_int_equal(mkdir(run, 0700), 0);
    assert_int_equal(chmod(run, 0777), 0);
    setenv("IPU_RUNTIME_DIR", run, 1);
    ipu_device_list *list;
    assert_status(ipu_device_list_create(0, &list), IPU_IO);
    assert_message("no other may write to");
    ipu_device *d = opened_any(1); /* elastic: continues, with IPUs that nobody else sees */
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    assert_int_equal(ipu_device_id(d), -1);
    ipu_device_close(d);
    setenv("IPU_ELASTIC", "0", 1);
    d = opened_any(1);
    assert_status(ipu_device_attach(d, 0), IPU_IO);
    ipu_device_close(d);
}

static void a_state_that_was_removed_is_made_anew(void **state)
{
    (void)state;
    char path[128];
    put_config("p1.conf", HARD_4);
    ipu_device *d = opened(0);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    ipu_device_close(d);
    snprintf(path, sizeof path, "%s/run/p1.gcd0.ipus1", sandbox);
    assert_int_equal(unlink(path), 0);
    d = opened(0);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0); /* while it is held: from now on others see it as free */
    ipu_device *other = opened(0);
    assert_status(ipu_device_attach(other, 0), IPU_OK);
    ipu_device_close(other);
    ipu_device_close(d);
    assert_int_equal(access(path, F_OK), 0);
}

/* A daemon that has closed them: the state must not end up as its output. */
static void a_state_is_no_standard_descriptor(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        ipu_device *d;
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) close(fd);
        if (ipu_device_open(0, &d) != IPU_OK || ipu_device_attach(d, 0) != IPU_OK) _exit(1);
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
            if (write(fd, "printed", 7) >= 0) _exit(2);
        ipu_device_close(d);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    end_holder(start_holder(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SANDBOXED(what_is_attached_is_listed_with_its_process),
        SANDBOXED(looking_does_not_let_go),
        SANDBOXED(a_number_that_is_no_holders_is_not_told),
        SANDBOXED(a_busy_device_names_its_holder),
        SANDBOXED(a_process_excludes_itself_too),
        SANDBOXED(killed_processes_leave_nothing),
        SANDBOXED(a_forked_child_does_not_keep_the_device),
        SANDBOXED(a_wait_ends_when_its_time_is_up),
        SANDBOXED(a_wait_ends_when_the_device_is_free),
        SANDBOXED(threads_may_attach_one_handle_at_once),
        SANDBOXED(nobody_overtakes_the_line),
        SANDBOXED(an_elastic_partition_gives_more_than_it_shows),
        SANDBOXED(hard_by_variable_is_hard),
        SANDBOXED(a_size_that_is_none_gets_the_next),
        SANDBOXED(a_variable_allows_one_device_only),
        SANDBOXED(a_variable_that_names_no_device_is_told),
        SANDBOXED(the_folder_of_the_state_is_told),
        SANDBOXED(a_folder_of_anothers_is_not_used),
        SANDBOXED(a_state_that_was_removed_is_made_anew),
        SANDBOXED(a_state_is_no_standard_descriptor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Two users of one host cannot disturb each other: neither read nor hold nor forge each other's state.
 * Needs root, who becomes the other user in children; skipped for others. */
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>

#include "device/sandbox_test.h"
#include "ipu/device.h"

enum { N_CHECKS = 12 };

/* A user without a name, another one in each run: /tmp has a folder for each user. */
static uid_t stranger;

/* What a child found out: names of what went wrong. */
typedef struct findings {
    int         n;
    const char *what[N_CHECKS];
} findings;

static findings *found;

#define EXPECT(condition)                                       \
    do {                                                        \
        if (!(condition)) found->what[found->n++] = #condition; \
    } while (0)

static void as_stranger(void (*act)(void))
{
    pid_t pid = fork();
    int   status;
    if (pid == 0) {
        if (setgroups(0, NULL) != 0 || setgid(stranger) != 0 || setuid(stranger) != 0) _exit(1);
        act();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < found->n; i++) print_error("not so: %s\n", found->what[i]);
    assert_int_equal(found->n, 0);
}

static int enter_shared(void **state)
{
    if (geteuid() != 0) return 0;
    found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED || enter_sandbox(state) != 0) return -1;
    return chmod(sandbox, 01777);
}

static int leave_shared(void **state)
{
    if (geteuid() != 0) return 0;
    munmap(found, sizeof *found);
    return leave_sandbox(state);
}

#define ROOT_ONLY \
    (void)state;  \
    if (geteuid() != 0) skip()

/* ---- what strangers try ---- */

static char state_path[256];

static void look_into_anothers_state(void)
{
    ipu_device_list *list;
    ipu_device      *d;
    EXPECT(open(state_path, O_RDONLY) < 0);
    EXPECT(open(state_path, O_RDWR) < 0);
    EXPECT(unlink(state_path) != 0);
    EXPECT(ipu_device_list_create(0, &list) == IPU_IO);
    EXPECT(strstr(ipu_message(), "set IPU_RUNTIME_DIR") != NULL);
    setenv("IPU_ELASTIC", "0", 1);
    EXPECT(ipu_device_open(0, &d) == IPU_OK && ipu_device_attach(d, 0) == IPU_IO);
}

static void state_is_the_owners_alone(void **state)
{
    ROOT_ONLY;
    struct stat st;
    ipu_device *d;
    assert_status(ipu_device_open(0, &d), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    snprintf(state_path, sizeof state_path, "%s/run/default.gcd0.ipus1", sandbox);
    assert_int_equal(stat(state_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    as_stranger(look_into_anothers_state);
    assert_true(ipu_device_is_attached(d));
    ipu_device_close(d);
}

static void make_folder_first(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/run", sandbox);
    EXPECT(mkdir(path, 0777) == 0 && chmod(path, 0777) == 0);
}

static void link_folder_first(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/run", sandbox);
    EXPECT(rmdir(path) == 0 && symlink("/tmp", path) == 0);
}

static void a_folder_made_by_another_is_refused(void **state)
{
    ROOT_ONLY;
    ipu_device *d, *elastic;
    as_stranger(make_folder_first);
    setenv("IPU_ELASTIC", "0", 1);
    assert_status(ipu_device_open(0, &d), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_IO);
    char owner[64];
    snprintf(owner, sizeof owner, "of user %lu's", (unsigned long)stranger);
    assert_message(owner);
    as_stranger(link_folder_first);
    assert_status(ipu_device_attach(d, 0), IPU_IO);
    ipu_device_close(d);
    unsetenv("IPU_ELASTIC"); /* who has configured nothing is not kept from working */
    assert_status(ipu_device_open_any(1, &elastic), IPU_OK);
    assert_status(ipu_device_attach(elastic, 0), IPU_OK);
    ipu_device_close(elastic);
}

static void attach_to_all_of_their_own(void)
{
    ipu_device *d;
    char        run[128];
    snprintf(run, sizeof run, "%s/other", sandbox);
    setenv("IPU_RUNTIME_DIR", run, 1);
    setenv("IPU_ELASTIC", "0", 1);
    EXPECT(ipu_device_open(6, &d) == IPU_OK && ipu_device_attach(d, 0) == IPU_OK);
}

static void each_user_has_ipus_of_their_own(void **state)
{
    ROOT_ONLY;
    ipu_device *d;
    assert_status(ipu_device_open(6, &d), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    as_stranger(attach_to_all_of_their_own);
    ipu_device_close(d);
}

/* A variable that a su leaves behind must not lead into the other's folder. */
static void follow_the_wrong_variable(void)
{
    char        wrong[128], right[64], file[128];
    struct stat st;
    ipu_device *d;
    unsetenv("IPU_RUNTIME_DIR");
    setenv("XDG_RUNTIME_DIR", sandbox, 1); /* root's */
    snprintf(wrong, sizeof wrong, "%s/openipu", sandbox);
    snprintf(right, sizeof right, "/tmp/openipu-%lu", (unsigned long)stranger);
    snprintf(file, sizeof file, "%s/default.gcd0.ipus1", right);
    bool was_there = stat(right, &st) == 0;
    EXPECT(ipu_device_open(0, &d) == IPU_OK && ipu_device_attach(d, 1) == IPU_OK);
    EXPECT(stat(wrong, &st) != 0);
    if (was_there) return;
    unlink(file);
    rmdir(right);
}

static void anothers_runtime_folder_is_passed_over(void **state)
{
    ROOT_ONLY;
    as_stranger(follow_the_wrong_variable);
}

/* Anyone may be the first to make the folder in /tmp: then the state is in the home, for every process. The victim is a
 * user whose number is this process's, so that no folder of a real one is touched. */
static char  contested[64], home[96];
static uid_t victim;

static void use_what_is_left(void)
{
    char             folder[PATH_MAX], again[PATH_MAX];
    ipu_device_list *list;
    ipu_device      *d;
    unsetenv("IPU_RUNTIME_DIR");
    setenv("HOME", home, 1);
    EXPECT(setuid(victim) == 0);
    EXPECT(ipu_device_list_create(0, &list) == IPU_OK); /* looking makes nothing */
    EXPECT(ipu_device_folder(folder, sizeof folder) == IPU_OK && strstr(folder, home) == folder);
    setenv("IPU_ELASTIC", "0", 1);
    EXPECT(ipu_device_open(0, &d) == IPU_OK && ipu_device_attach(d, 0) == IPU_OK);
    EXPECT(ipu_device_list_create(0, &list) == IPU_OK);
    EXPECT(ipu_device_list_active(list)->n_processes == 1);
    EXPECT(ipu_device_folder(again, sizeof again) == IPU_OK && !strcmp(folder, again));
}

static void stay_where_the_state_is(void)
{
    char folder[PATH_MAX];
    unsetenv("IPU_RUNTIME_DIR");
    setenv("HOME", home, 1);
    EXPECT(setuid(victim) == 0);
    EXPECT(ipu_device_folder(folder, sizeof folder) == IPU_OK && strstr(folder, home) == folder);
}

static void in_child(void (*act)(void))
{
    pid_t pid = fork();
    int   status;
    if (pid == 0) {
        act();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < found->n; i++) print_error("not so: %s\n", found->what[i]);
    assert_int_equal(found->n, 0);
}

static void put_folder(void) { assert_int_equal(mkdir(contested, 0777), 0); }
static void put_plain_file(void) { assert_int_equal(close(creat(contested, 0666)), 0); }
static void put_link(void) { assert_int_equal(symlink(home, contested), 0); }
static void put_dangling_link(void) { assert_int_equal(symlink("nowhere", contested), 0); }

static void nobody_is_stopped_by_what_is_in_tmp(void **state)
{
    ROOT_ONLY;
    static void (*const puts[])(void) = {put_folder, put_plain_file, put_link, put_dangling_link};
    victim                            = (uid_t)(2000000 + getpid());
    snprintf(contested, sizeof contested, "/tmp/openipu-%lu", (unsigned long)victim);
    for (int i = 0; i < 5; i++) {
        snprintf(home, sizeof home, "%s/home%d", sandbox, i);
        assert_int_equal(mkdir(home, 0700), 0);
        assert_int_equal(chown(home, victim, victim), 0);
        puts[i % 4]();
        assert_int_equal(lchown(contested, i < 4 ? stranger : victim, stranger), 0);
        if (i == 4) assert_int_equal(chmod(contested, 0777), 0); /* one of their own that all may write to */
        in_child(use_what_is_left);
        assert_int_equal(remove(contested), 0);
        in_child(stay_where_the_state_is); /* and not in /tmp, where others of the user's are not */
        assert_int_not_equal(access(contested, F_OK), 0);
    }
}

#define SHARED(test) cmocka_unit_test_setup_teardown(test, enter_shared, leave_shared)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHARED(state_is_the_owners_alone),           SHARED(a_folder_made_by_another_is_refused),
        SHARED(each_user_has_ipus_of_their_own),     SHARED(anothers_runtime_folder_is_passed_over),
        SHARED(nobody_is_stopped_by_what_is_in_tmp),
    };
    stranger = (uid_t)(1500000 + getpid() % 400000);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

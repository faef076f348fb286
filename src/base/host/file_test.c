/* Whole files: limits, refusals, interruptions, and failed writes that do no harm. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/host/file.h"

static char folder[] = "/tmp/ipu-file-test-XXXXXX";

/* Replaces the C library's: fails for folders with `folder_error`, if set. */
static int folder_error;

int fsync(int fd)
{
    struct stat st;
    if (!folder_error || fstat(fd, &st) != 0 || !S_ISDIR(st.st_mode)) return (int)syscall(SYS_fsync, fd);
    errno = folder_error;
    return -1;
}
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

static void assert_contents(const char *name, const void *expected, size_t expected_bytes)
{
    char  *data;
    size_t bytes;
    assert_int_equal(ipu__file_read(in_folder(name), 1 << 30, &data, &bytes), IPU_OK);
    assert_int_equal(bytes, expected_bytes);
    assert_memory_equal(data, expected, bytes);
    assert_int_equal(data[bytes], 0);
    ipu__free(data);
}

static void assert_unreadable(const char *name, size_t limit, const char *why)
{
    char  *data  = folder;
    size_t bytes = 99;
    assert_int_equal(ipu__file_read(name, limit, &data, &bytes), IPU_IO);
    assert_null(data);
    assert_int_equal(bytes, 0);
    assert_non_null(strstr(ipu_message(), name));
    if (!strstr(ipu_message(), why)) fail_msg("expected \"%s\" in \"%s\"", why, ipu_message());
}

/* ---- reading and writing ---- */

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 1000000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        unsigned char *data = malloc(sizes[s] + 1);
        for (size_t i = 0; i < sizes[s]; i++) data[i] = (unsigned char)(i * 31 >> 3);
        assert_int_equal(ipu__file_write(in_folder("f"), data, sizes[s]), IPU_OK);
        assert_contents("f", data, sizes[s]);
        free(data);
    }
    assert_int_equal(entries(false), 1); /* no temporary file is left */
}

static void pieces_are_written_one_after_the_other(void **state)
{
    (void)state;
    const ipu__file_piece pieces[] = {{"one ", 4}, {NULL, 0}, {"two", 3}};
    assert_int_equal(ipu__file_write_pieces(in_folder("f"), pieces, 3), IPU_OK);
    assert_contents("f", "one two", 7);
    assert_int_equal(ipu__file_write_pieces(in_folder("f"), NULL, 0), IPU_OK);
    assert_contents("f", "", 0);
    assert_int_equal(entries(false), 1);
}

static void the_limit_is_the_largest_size_allowed(void **state)
{
    (void)state;
    char  *data;
    size_t bytes;
    assert_int_equal(ipu__file_write(in_folder("f"), "12345", 5), IPU_OK);
    assert_int_equal(ipu__file_read(in_folder("f"), 5, &data, &bytes), IPU_OK);
    assert_int_equal(bytes, 5);
    ipu__free(data);
    assert_unreadable(in_folder("f"), 4, "larger than the 4 bytes");
    assert_unreadable(in_folder("f"), 0, "larger than");
}

static void a_file_that_gives_no_size_is_read_and_limited(void **state)
{
    (void)state;
    char  *data;
    size_t bytes;
    assert_int_equal(ipu__file_read("/proc/self/status", 1 << 20, &data, &bytes), IPU_OK);
    assert_int_equal(strncmp(data, "Name:", 5), 0);
    assert_int_equal(strlen(data), bytes);
    ipu__free(data);
    assert_unreadable("/proc/self/status", 10, "larger than the 10 bytes");
}

static void directories_devices_and_nothing_are_refused(void **state)
{
    (void)state;
    assert_unreadable(folder, 100, "a directory");
    assert_unreadable("/dev/zero", 100, "something else");
    assert_unreadable(in_folder("none"), 100, strerror(ENOENT));
    assert_unreadable("", 100, strerror(ENOENT));
    assert_int_equal(ipu__file_write(folder, "x", 1), IPU_IO);
    assert_non_null(strstr(ipu_message(), "a directory"));
    assert_int_equal(ipu__file_write("/dev/null", "x", 1), IPU_IO);
    assert_int_equal(ipu__file_write(in_folder("no/such/folder"), "x", 1), IPU_IO);
    assert_non_null(strstr(ipu_message(), strerror(ENOENT)));
    assert_int_equal(entries(false), 0);
    struct stat st;
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
}

static void a_path_too_long_is_an_error(void **state)
{
    (void)state;
    static char longest[10000];
    memset(longest, 'a', sizeof longest - 1);
    assert_int_equal(ipu__file_write(longest, "x", 1), IPU_IO);
    assert_non_null(strstr(ipu_message(), strerror(ENAMETOOLONG)));
}

static void mode_of_an_old_file_is_kept_and_a_new_one_obeys_the_umask(void **state)
{
    (void)state;
    struct stat st;
    mode_t      before = umask(027);
    assert_int_equal(ipu__file_write(in_folder("f"), "1", 1), IPU_OK);
    umask(before);
    assert_int_equal(stat(in_folder("f"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(chmod(in_folder("f"), 0751), 0);
    assert_int_equal(ipu__file_write(in_folder("f"), "22", 2), IPU_OK);
    assert_int_equal(stat(in_folder("f"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0751);
    assert_int_equal(st.st_size, 2);
}

static void a_link_stays_and_its_file_is_replaced(void **state)
{
    (void)state;
    char        link[128];
    struct stat st;
    assert_int_equal(ipu__file_write(in_folder("real"), "old", 3), IPU_OK);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink("real", link), 0);
    assert_int_equal(ipu__file_write(link, "newer", 5), IPU_OK);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_contents("real", "newer", 5);
}

static void a_relative_name_without_a_folder_works(void **state)
{
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    ipu_status first = ipu__file_write("plain", "a", 1), second = ipu__file_write("plain", "bc", 2);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(first, IPU_OK);
    assert_int_equal(second, IPU_OK);
    assert_contents("plain", "bc", 2);
}

/* ---- links of others ---- */

enum { STRANGER = 65534 };

static void link_as(uid_t owner, const char *name, const char *target)
{
    assert_int_equal(symlink(target, in_folder(name)), 0);
    assert_int_equal(lchown(path, owner, owner), 0);
}

/* As in /tmp: `mode` of the folder, which belongs to root. */
static void assert_written(mode_t mode, const char *name, ipu_status expected)
{
    char old[] = "old", new[] = "newer";
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(ipu__file_write(in_folder("kept/file"), old, 3), IPU_OK);
    assert_int_equal(chmod(folder, mode), 0);
    ipu_status status = ipu__file_write(in_folder(name), new, 5);
    if (status != expected) fail_msg("%s: %s: %s", name, ipu_status_text(status), ipu_message());
    if (status == IPU_OK) assert_contents("kept/file", new, 5);
    if (status == IPU_OK) return;
    assert_contents("kept/file", old, 3);
    assert_non_null(strstr(ipu_message(), "is a link that user 65534 has put there"));
    assert_int_equal(access(in_folder("kept/new"), F_OK), -1);
}

static void a_link_that_another_has_planted_is_not_followed(void **state)
{
    (void)state;
    static const char *const planted[] = {"file",  "relative", "through", "over/file",
                                          "chain", "new",      "over/new"};
    if (geteuid() != 0) skip();
    assert_int_equal(mkdir(in_folder("kept"), 0700), 0);
    char target[600];
    snprintf(target, sizeof target, "%s/kept/file", folder);
    link_as(STRANGER, "file", target);
    link_as(STRANGER, "relative", "kept/file");
    link_as(STRANGER, "through", "../../../../../../..//tmp/./x/../" /* anywhere */);
    link_as(STRANGER, "over", "kept");
    link_as(0, "chain", "relative");
    link_as(STRANGER, "new", "kept/new");
    link_as(0, "mine", "kept/file");
    link_as(0, "mine2", "mine");
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++) {
        assert_written(01777, planted[i], IPU_IO);
        assert_written(0777, planted[i], IPU_IO);
        assert_false(ipu__file_links_are_trusted(in_folder(planted[i])));
    }
    assert_written(01777, "mine", IPU_OK);
    assert_written(01777, "mine2", IPU_OK);
    assert_true(ipu__file_links_are_trusted(in_folder("mine2")));
    assert_written(0755, "file", IPU_OK); /* where only root could have put it, or asked for it */
    assert_written(0755, "over/file", IPU_OK);
    assert_int_equal(chmod(folder, 01777), 0);
    assert_int_equal(chown(folder, STRANGER, STRANGER),
                     0); /* the folder is theirs, so their links are intended */
    assert_written(01777, "file", IPU_OK);
    assert_int_equal(chown(folder, 0, 0), 0);
    assert_int_equal(chmod(folder, 0700), 0);
    remove(in_folder("kept/file"));
}

static void links_in_a_circle_are_an_error(void **state)
{
    (void)state;
    assert_int_equal(symlink("b", in_folder("a")), 0);
    assert_int_equal(symlink("a", in_folder("b")), 0);
    assert_int_equal(ipu__file_write(in_folder("a"), "x", 1), IPU_IO);
    assert_non_null(strstr(ipu_message(), strerror(ELOOP)));
    assert_int_equal(ipu__file_write(in_folder("none/a"), "x", 1), IPU_IO);
    assert_non_null(strstr(ipu_message(), strerror(ENOENT)));
    assert_int_equal(ipu__file_write(in_folder("new/"), "x", 1), IPU_IO);
    assert_int_equal(ipu__file_write("", "x", 1), IPU_IO);
    assert_int_equal(symlink("made", in_folder("dangling")), 0);
    assert_int_equal(ipu__file_write(in_folder("dangling"), "x", 1), IPU_OK);
    assert_contents("made", "x", 1);
}

/* ---- for those who write themselves ---- */

static void a_file_begun_is_seen_only_when_committed(void **state)
{
    (void)state;
    ipu__new_file f;
    char          back[8] = "";
    assert_int_equal(ipu__file_write(in_folder("f"), "old", 3), IPU_OK);
    for (int commit = 0; commit < 2; commit++) {
        assert_int_equal(ipu__file_begin(in_folder("f"), &f), IPU_OK);
        assert_int_equal(write(f.fd, "newer", 5), 5);
        assert_int_equal(pread(f.fd, back, sizeof back, 0), 5);
        assert_contents("f", "old", 3);
        assert_int_equal(entries(false), 2);
        if (commit) assert_int_equal(ipu__file_commit(&f), IPU_OK);
        if (!commit) ipu__file_abandon(&f);
        assert_int_equal(f.fd, -1);
        assert_int_equal(entries(false), 1);
    }
    assert_contents("f", "newer", 5);
}

static void a_new_file_replaces_none(void **state)
{
    (void)state;
    ipu__new_file f;
    for (int pass = 0; pass < 2; pass++) {
        assert_int_equal(ipu__file_begin(in_folder("f"), &f), IPU_OK);
        assert_true(ipu__file_append(&f, pass ? "second" : "first", 5));
        assert_int_equal(ipu__file_commit_new(&f), pass == 0);
        if (pass) assert_int_equal(errno, EEXIST);
        assert_contents("f", "first", 5);
        assert_int_equal(entries(false), 1);
    }
}

/* ---- failures ---- */

static void a_folder_that_cannot_be_synced_is_told(void **state)
{
    (void)state;
    folder_error = EIO;
    assert_int_equal(ipu__file_write(in_folder("f"), "x", 1), IPU_IO);
    assert_non_null(strstr(ipu_message(), "/f is there, but may be gone after a crash of the machine"));
    assert_non_null(strstr(ipu_message(), strerror(EIO)));
    assert_contents("f", "x", 1);
    assert_int_equal(ipu__file_sync_folder(in_folder("f")), IPU_IO);
    folder_error = EINVAL; /* a file system without that feature */
    assert_int_equal(ipu__file_write(in_folder("f"), "y", 1), IPU_OK);
    folder_error = 0;
    assert_int_equal(entries(false), 1);
}

/* In a child whose files may not exceed 1000 bytes: to write, this looks like a full disk. */
static void a_full_disk_leaves_the_old_file_and_no_other(void **state)
{
    (void)state;
    static char large[5000];
    assert_int_equal(ipu__file_write(in_folder("f"), "old", 3), IPU_OK);
    for (int ignored = 0; ignored < 2; ignored++) { /* SIGXFSZ must not kill it */
        pid_t child = fork();
        if (child == 0) {
            struct rlimit limit = {1000, 1000};
            sigset_t      pending;
            signal(SIGXFSZ, ignored ? SIG_IGN : SIG_DFL);
            setrlimit(RLIMIT_FSIZE, &limit);
            if (ipu__file_write(path, large, sizeof large) != IPU_IO) _exit(1);
            if (sigpending(&pending) != 0 || sigismember(&pending, SIGXFSZ)) _exit(3);
            _exit(strstr(ipu_message(), "File too large: files of this process may have 1000 bytes") ? 0 : 2);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_contents("f", "old", 3);
    assert_int_equal(entries(false), 1);
}

static int calls_left;

static void *limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes && calls_left-- <= 0) return NULL;
    if (new_bytes) return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

static void refused_memory_is_reported_at_every_allocation(void **state)
{
    (void)state;
    char      *data;
    size_t     bytes;
    ipu_status status  = IPU_OUT_OF_MEMORY;
    int        refused = 0;
    ipu__alloc_set(limited, NULL);
    for (int allowed = 0; status == IPU_OUT_OF_MEMORY; allowed++) {
        assert_in_range(allowed, 0, 20);
        calls_left = allowed;
        status     = ipu__file_read("/proc/self/status", 1 << 20, &data, &bytes);
        if (status != IPU_OK) {
            assert_int_equal(status, IPU_OUT_OF_MEMORY);
            assert_null(data);
            refused++;
        }
    }
    assert_int_equal(status, IPU_OK);
    assert_true(refused >= 1);
    ipu__free(data);
}

/* ---- pipes and signals ---- */

static volatile sig_atomic_t interruptions;

static void on_alarm(int number)
{
    (void)number;
    interruptions++;
}

static void *slow_writer(void *fifo)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL); /* so that the reader is interrupted */
    usleep(20000);
    int fd = open(fifo, O_WRONLY);
    for (int i = 0; i < 5; i++) {
        usleep(10000);
        if (write(fd, "piece", 5) != 5) break;
    }
    close(fd);
    return NULL;
}

static void a_pipe_is_read_to_its_end_through_interruptions(void **state)
{
    (void)state;
    char            *data, fifo[128];
    size_t           bytes;
    pthread_t        thread;
    struct sigaction action = {.sa_handler = on_alarm}, before;
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {0};
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(pthread_create(&thread, NULL, slow_writer, fifo), 0);
    sigaction(SIGALRM, &action, &before); /* no SA_RESTART: open and read give EINTR */
    setitimer(ITIMER_REAL, &often, NULL);
    ipu_status status = ipu__file_read(fifo, 100, &data, &bytes);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(status, IPU_OK);
    assert_true(interruptions > 0);
    assert_int_equal(bytes, 25);
    assert_string_equal(data, "piecepiecepiecepiecepiece");
    ipu__free(data);
}

/* ---- many at once ---- */

static void *rewriter(void *arg)
{
    char        own[128], text[64];
    static char result_bad[] = "bad";
    snprintf(own, sizeof own, "%s/shared", folder);
    for (int i = 0; i < 20; i++) {
        memset(text, *(char *)arg, sizeof text);
        if (ipu__file_write(own, text, sizeof text) != IPU_OK) return result_bad;
    }
    return NULL;
}

static void writers_at_once_leave_one_whole_file(void **state)
{
    (void)state;
    static char letters[] = "abcd";
    pthread_t   threads[4];
    char       *data;
    size_t      bytes;
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, rewriter, &letters[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    assert_int_equal(ipu__file_read(in_folder("shared"), 1000, &data, &bytes), IPU_OK);
    assert_int_equal(bytes, 64);
    char only[2] = {data[0], 0};
    assert_int_equal(strspn(data, only), 64);
    ipu__free(data);
    assert_int_equal(entries(false), 1);
}

/* ---- a file that others remove ---- */

static void *remover(void *arg)
{
    for (atomic_bool *stop = arg; !atomic_load(stop);) unlink(path);
    return NULL;
}

static void a_file_that_others_remove_meanwhile_is_written(void **state)
{
    (void)state;
    atomic_bool stop = false;
    pthread_t   thread;
    in_folder("comes and goes");
    assert_int_equal(pthread_create(&thread, NULL, remover, &stop), 0);
    ipu_status status = IPU_OK;
    for (int i = 0; i < 20000 && status == IPU_OK; i++) {
        ipu__new_file f;
        status = ipu__file_begin(path, &f);
        if (status != IPU_OK) break;
        f.hasty = true;
        status  = ipu__file_commit(&f);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    if (status != IPU_OK) fail_msg("%s", ipu_message());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(what_is_written_is_read, empty_folder),
        cmocka_unit_test_teardown(pieces_are_written_one_after_the_other, empty_folder),
        cmocka_unit_test_teardown(the_limit_is_the_largest_size_allowed, empty_folder),
        cmocka_unit_test_teardown(a_file_that_gives_no_size_is_read_and_limited, empty_folder),
        cmocka_unit_test_teardown(directories_devices_and_nothing_are_refused, empty_folder),
        cmocka_unit_test_teardown(a_path_too_long_is_an_error, empty_folder),
        cmocka_unit_test_teardown(mode_of_an_old_file_is_kept_and_a_new_one_obeys_the_umask, empty_folder),
        cmocka_unit_test_teardown(a_link_stays_and_its_file_is_replaced, empty_folder),
        cmocka_unit_test_teardown(a_relative_name_without_a_folder_works, empty_folder),
        cmocka_unit_test_teardown(a_link_that_another_has_planted_is_not_followed, empty_folder),
        cmocka_unit_test_teardown(links_in_a_circle_are_an_error, empty_folder),
        cmocka_unit_test_teardown(a_new_file_replaces_none, empty_folder),
        cmocka_unit_test_teardown(a_folder_that_cannot_be_synced_is_told, empty_folder),
        cmocka_unit_test_teardown(a_file_begun_is_seen_only_when_committed, empty_folder),
        cmocka_unit_test_teardown(a_full_disk_leaves_the_old_file_and_no_other, empty_folder),
        cmocka_unit_test_teardown(refused_memory_is_reported_at_every_allocation, empty_folder),
        cmocka_unit_test_teardown(a_pipe_is_read_to_its_end_through_interruptions, empty_folder),
        cmocka_unit_test_teardown(writers_at_once_leave_one_whole_file, empty_folder),
        cmocka_unit_test_teardown(a_file_that_others_remove_meanwhile_is_written, empty_folder),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

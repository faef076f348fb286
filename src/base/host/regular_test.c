/* Regular files only: contents and limits, and that nothing else blocks. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "base/host/regular.h"

static char folder[] = "/tmp/ipu-regular-test-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void the_whole_is_read_up_to_the_limit(void **state)
{
    (void)state;
    char   text[10000], *data;
    size_t bytes;
    memset(text, 'x', sizeof text);
    for (size_t n = 0; n <= sizeof text; n += 2500) {
        assert_int_equal(ipu__file_write(path, text, n), IPU_OK);
        assert_int_equal(ipu__regular_read(path, n, &data, &bytes), IPU_OK);
        assert_int_equal(bytes, n);
        assert_memory_equal(data, text, n);
        assert_int_equal(data[n], 0);
        ipu__free(data);
    }
    assert_int_equal(ipu__regular_read(path, sizeof text - 1, &data, &bytes), IPU_IO);
    assert_null(data);
    assert_non_null(strstr(ipu_message(), "larger than the 9999 bytes"));
}

static void files_that_say_0_bytes_are_read(void **state)
{
    (void)state;
    char  *data;
    size_t bytes;
    assert_int_equal(ipu__file_write(path, "", 0), IPU_OK);
    assert_int_equal(ipu__regular_read("/proc/self/status", 1 << 20, &data, &bytes), IPU_OK);
    assert_int_equal(strlen(data), bytes);
    assert_non_null(strstr(data, "Pid:"));
    ipu__free(data);
}

static void refused(const char *name, const char *found)
{
    char  *data;
    size_t bytes;
    int    fd;
    assert_int_equal(ipu__regular_open(name, &fd), IPU_IO);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(ipu_message(), name));
    assert_non_null(strstr(ipu_message(), found));
    assert_int_equal(ipu__regular_read(name, 100, &data, &bytes), IPU_IO);
    assert_null(data);
}

static void nothing_else_is_waited_for(void **state)
{
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int                fd      = socket(AF_UNIX, SOCK_STREAM, 0);
    alarm(600);
    refused(path, "No such file");
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(path, "expected a regular file, found a pipe");
    unlink(path);
    memcpy(address.sun_path, path, sizeof path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    refused(path, "expected a regular file, found a socket");
    close(fd);
    refused(folder, "expected a regular file, found a directory");
    refused("/dev/zero", "expected a regular file, found a device");
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_whole_is_read_up_to_the_limit, remove_file),
        cmocka_unit_test_teardown(files_that_say_0_bytes_are_read, remove_file),
        cmocka_unit_test_teardown(nothing_else_is_waited_for, remove_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

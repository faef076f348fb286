/* Tables: rows, cuts, incomplete rows, other files in their place, two writers, a full disk, restarts. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "summary/csv.h"

#define assert_ok(call)                                                 \
    do {                                                                \
        if ((call) != IPU_OK) fail_msg("%s: %s", #call, ipu_message()); \
    } while (0)
#define assert_says(part)                                                                          \
    do {                                                                                           \
        if (!strstr(ipu_message(), part)) fail_msg("expected \"%s\" in: %s", part, ipu_message()); \
    } while (0)

static const char header[] = "step,a,b,time";
static char       box[]    = "/tmp/ipu-csv-test-XXXXXX";
static char       path[64];

static void put(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static const char *get(const char *name)
{
    static char text[4096];
    FILE       *f = fopen(name, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static void add(ipu__csv *c, int64_t key)
{
    assert_ok(ipu__csv_add(c, key, (double[]){(double)key / 2, NAN}, 2, "now"));
}

static void open_it(ipu__csv *c) { assert_ok(ipu__csv_open(path, header, c)); }

static void test_rows(void **state)
{
    (void)state;
    ipu__csv c;
    open_it(&c);
    assert_true(ipu__csv_is_empty(&c));
    add(&c, 1);
    assert_false(ipu__csv_is_empty(&c));
    assert_string_equal(get(path), "step,a,b,time\n1,0.5,,now\n"); /* while it is open */
    assert_ok(ipu__csv_add(&c, 2, (double[]){1e-7, INFINITY}, 2, NULL));
    ipu__csv_close(&c);
    open_it(&c);
    assert_false(ipu__csv_is_empty(&c));
    add(&c, 30);
    ipu__csv_close(&c);
    assert_string_equal(get(path), "step,a,b,time\n1,0.5,,now\n2,1e-07,inf\n30,15,,now\n");
}

static void test_cuts(void **state)
{
    (void)state;
    ipu__csv c;
    open_it(&c);
    for (int i = 1; i < 5; i++) add(&c, i * 10);
    assert_ok(ipu__csv_cut(&c, 40));
    assert_ok(ipu__csv_cut(&c, 25));
    assert_string_equal(get(path), "step,a,b,time\n10,5,,now\n20,10,,now\n");
    add(&c, 21);
    ipu__csv_close(&c);
    assert_string_equal(get(path), "step,a,b,time\n10,5,,now\n20,10,,now\n21,10.5,,now\n");
    put("step,a,b,time\n1,1,1,1\n2,2,2"); /* as left by a crash of the machine */
    open_it(&c);
    assert_ok(ipu__csv_cut(&c, 9));
    assert_string_equal(get(path), "step,a,b,time\n1,1,1,1\n");
    assert_ok(ipu__csv_cut(&c, 0));
    assert_true(ipu__csv_is_empty(&c));
    ipu__csv_close(&c);
    put("step,a,");
    open_it(&c);
    assert_true(ipu__csv_is_empty(&c));
    ipu__csv_close(&c);
    assert_string_equal(get(path), "step,a,b,time\n");
}

/* A folder in place of the opened file simulates a failing disk. */
static void test_unreadable(void **state)
{
    (void)state;
    ipu__csv c;
    open_it(&c);
    add(&c, 1);
    int fd = open(box, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0 && dup2(fd, c.file.fd) >= 0);
    assert_int_equal(ipu__csv_cut(&c, 0), IPU_IO);
    assert_says("t.csv: Is a directory");
    assert_says("cannot read");
    close(fd);
    ipu__csv_close(&c);
    assert_string_equal(get(path), "step,a,b,time\n1,0.5,,now\n");
}

static void test_something_else(void **state)
{
    (void)state;
    static const char *const others[] = {"my notes\n", "step,a,b\n1,2,3\n", "step,a,b,time,more\n",
                                         "step;a;b;time\n", "x"};
    ipu__csv                 c;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        put(others[i]);
        assert_int_equal(ipu__csv_open(path, header, &c), IPU_INVALID);
        assert_says("its first line is not \"step,a,b,time\"");
        ipu__csv_close(&c);
        assert_string_equal(get(path), others[i]);
    }
    remove(path);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(ipu__csv_open(path, header, &c), IPU_IO);
    assert_says(path);
    ipu__csv_close(&c);
    rmdir(path);
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_int_equal(ipu__csv_open(path, header, &c), IPU_IO);
    assert_says("expected a regular file");
    ipu__csv_close(&c);
}

static void test_two_writers(void **state)
{
    (void)state;
    ipu__csv a, b;
    open_it(&a);
    assert_int_equal(ipu__csv_open(path, header, &b), IPU_BUSY);
    assert_says("another process is writing to it");
    ipu__csv_close(&b);
    ipu__csv_close(&a);
    open_it(&b);
    ipu__csv_close(&b);
}

/* The file size limit simulates a full disk. */
static int fill_up(void)
{
    ipu__csv            c;
    const struct rlimit small = {30, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    if (ipu__csv_open(path, header, &c) != IPU_OK || ipu__csv_add(&c, 1, (double[]){1, 2}, 2, "x") != IPU_OK)
        return 1;
    if (setrlimit(RLIMIT_FSIZE, &small) != 0) return 2;
    for (int i = 2; i < 5; i++)
        if (ipu__csv_add(&c, i, (double[]){123456789, 2}, 2, "x") != IPU_IO
            || !strstr(ipu_message(), "File too large"))
            return 3;
    if (setrlimit(RLIMIT_FSIZE, &none) != 0) return 4;
    return ipu__csv_add(&c, 5, (double[]){5, 6}, 2, "x") == IPU_OK ? 0 : 5;
}

static void test_full_disk(void **state)
{
    (void)state;
    int   code;
    pid_t child = fork();
    if (child == 0) _exit(fill_up());
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    assert_string_equal(get(path), "step,a,b,time\n1,1,2,x\n5,5,6,x\n");
}

static void test_restarts(void **state)
{
    (void)state;
    ipu__csv c;
    char     before[80];
    open_it(&c);
    for (int i = 1; i < 4; i++) {
        add(&c, i);
        assert_ok(ipu__csv_restart(&c));
        assert_true(ipu__csv_is_empty(&c));
    }
    ipu__csv_close(&c);
    assert_string_equal(get(path), "step,a,b,time\n");
    for (int i = 1; i < 4; i++) {
        char row[64];
        snprintf(before, sizeof before, i > 1 ? "%s.before.%d" : "%s.before", path, i);
        snprintf(row, sizeof row, "step,a,b,time\n%d,%g,,now\n", i, i / 2.0);
        assert_string_equal(get(before), row);
    }
}

static void test_decimal_point(void **state)
{
    (void)state;
    static const char *const with_comma[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8"};
    bool                     found        = false;
    ipu__csv                 c;
    for (size_t i = 0; i < 4 && !found; i++) found = setlocale(LC_ALL, with_comma[i]) != NULL;
    if (!found) skip(); /* no such locale installed */
    open_it(&c);
    add(&c, 1);
    ipu__csv_close(&c);
    setlocale(LC_ALL, "C");
    assert_string_equal(get(path), "step,a,b,time\n1,0.5,,now\n");
}

static int empty_box(void **state)
{
    (void)state;
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'/*", box);
    return system(command);
}

static int make_box(void **state)
{
    (void)state;
    if (!mkdtemp(box)) return -1;
    snprintf(path, sizeof path, "%s/t.csv", box);
    return 0;
}

static int remove_box(void **state) { return empty_box(state) + rmdir(box); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_rows, empty_box),
                                       cmocka_unit_test_teardown(test_cuts, empty_box),
                                       cmocka_unit_test_teardown(test_unreadable, empty_box),
                                       cmocka_unit_test_teardown(test_something_else, empty_box),
                                       cmocka_unit_test_teardown(test_two_writers, empty_box),
                                       cmocka_unit_test_teardown(test_full_disk, empty_box),
                                       cmocka_unit_test_teardown(test_restarts, empty_box),
                                       cmocka_unit_test_teardown(test_decimal_point, empty_box)};
    return cmocka_run_group_tests_name("csv", tests, make_box, remove_box);
}

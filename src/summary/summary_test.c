/* Event files, read back record by record: framing and checksums with independent code, messages by their fields; two
 * files in one second; hostile tags and texts; paths that are not folders. What a process wrote before it was killed
 * is intact. */
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "event.pb-c.h"
#include "events_test.h"
#include "ipu/summary.h"

#define assert_ok(call)                                                 \
    do {                                                                \
        if ((call) != IPU_OK) fail_msg("%s: %s", #call, ipu_message()); \
    } while (0)
#define assert_says(part)                                                                          \
    do {                                                                                           \
        if (!strstr(ipu_message(), part)) fail_msg("expected \"%s\" in: %s", part, ipu_message()); \
    } while (0)

static char box[] = "/tmp/ipu-summary-test-XXXXXX";
static char folder[64];

/* Checks field numbers against the documented format rather than event.proto. */
static void test_bytes(void **state)
{
    (void)state;
    ipu_summary *s;
    test_events  all;
    double       before = (double)time(NULL) - 1, when;
    assert_ok(ipu_summary_open(folder, -1, &s));
    assert_ok(ipu_summary_add_scalar(s, 300, "ab", 1.5));
    test_events_read(ipu_summary_path(s), &all); /* while it is open */
    assert_int_equal(all.n, 2);
    const unsigned char *first = all.at[0].data, *second = all.at[1].data;
    assert_int_equal(all.at[0].bytes, 9 + 2 + 13);
    assert_memory_equal(first + 9,
                        "\x1A\x0D"
                        "brain.Event:2",
                        15);
    assert_int_equal(second[0], 0x09);
    memcpy(&when, second + 1, sizeof when);
    assert_true(when > before && when < before + 600);
    const unsigned char expected[] = {0x10, 0xAC, 0x02, 0x2A, 11, 0x0A, 9,    0x0A,
                                      2,    'a',  'b',  0x15, 0,  0,    0xC0, 0x3F};
    assert_int_equal(all.at[1].bytes, 9 + sizeof expected);
    assert_memory_equal(second + 9, expected, sizeof expected);
    test_events_free(&all);
    ipu_summary_close(s);
}

static Ipu__Tfevents__Event *event_at(const test_events *all, size_t i)
{
    assert_true(i < all->n);
    Ipu__Tfevents__Event *e = ipu__tfevents__event__unpack(NULL, all->at[i].bytes, all->at[i].data);
    assert_non_null(e);
    return e;
}

static void test_values(void **state)
{
    (void)state;
    ipu_summary *s;
    test_events  all;
    assert_ok(ipu_summary_open(folder, 7, &s));
    assert_ok(ipu_summary_add_scalars(s, 0, (ipu_summary_scalar[]){{"x", 0}, {"y/z", NAN}}, 2));
    assert_ok(ipu_summary_add_text(s, 8, "notes", "| a | b |"));
    test_events_read(ipu_summary_path(s), &all);
    assert_int_equal(all.n, 4);
    Ipu__Tfevents__Event *e = event_at(&all, 1);
    assert_true(e->session_log && e->session_log->status == 1 && e->step == 7);
    ipu__tfevents__event__free_unpacked(e, NULL);
    e = event_at(&all, 2);
    assert_int_equal(e->summary->n_value, 2);
    assert_true(e->has_step && e->step == 0);
    assert_string_equal(e->summary->value[0]->tag, "x");
    assert_true(e->summary->value[0]->has_simple_value && e->summary->value[0]->simple_value == 0);
    assert_true(isnan(e->summary->value[1]->simple_value));
    ipu__tfevents__event__free_unpacked(e, NULL);
    e                                = event_at(&all, 3);
    Ipu__Tfevents__Summary__Value *v = e->summary->value[0];
    assert_string_equal(v->metadata->plugin_data->plugin_name, "text");
    assert_int_equal(v->tensor->dtype, 7);
    assert_int_equal(v->tensor->tensor_shape->dim[0]->size, 1);
    assert_int_equal(v->tensor->string_val[0].len, 9);
    assert_memory_equal(v->tensor->string_val[0].data, "| a | b |", 9);
    ipu__tfevents__event__free_unpacked(e, NULL);
    test_events_free(&all);
    ipu_summary_close(s);
}

static void test_histograms(void **state)
{
    (void)state;
    ipu_summary *s;
    test_events  all;
    float        x[] = {0, 1, 1.05F, 3, 3, 3, NAN, INFINITY}, same[] = {-2, -2}, none[] = {NAN};
    ipu_array    a = {IPU_FLOAT, IPU_SHAPE(2, 4), x}, b = {IPU_FLOAT, IPU_SHAPE(2), same},
              c = {IPU_FLOAT, IPU_SHAPE(1), none};
    assert_ok(ipu_summary_open(folder, -1, &s));
    assert_ok(ipu_summary_add_histogram(s, 1, "w", &a));
    assert_ok(ipu_summary_add_histogram(s, 1, "w", &b));
    assert_int_equal(ipu_summary_add_histogram(s, 1, "w", &c), IPU_INVALID);
    assert_says("\"w\": expected an array with a finite element");
    test_events_read(ipu_summary_path(s), &all);
    assert_int_equal(all.n, 3);
    Ipu__Tfevents__Event          *e = event_at(&all, 1);
    Ipu__Tfevents__HistogramProto *h = e->summary->value[0]->histo;
    double                         n = 0;
    assert_true(h->min == 0 && h->max == 3 && h->num == 6);
    assert_true(fabs(h->sum - 11.05) < 1e-6 && fabs(h->sum_squares - (1 + 1.05 * 1.05 + 27)) < 1e-6);
    assert_int_equal(h->n_bucket, 30);
    assert_int_equal(h->n_bucket_limit, 30);
    for (size_t i = 0; i < 30; i++) n += h->bucket[i];
    assert_true(n == 6 && h->bucket[0] == 1 && h->bucket[10] == 2 && h->bucket[29] == 3);
    assert_true(h->bucket_limit[29] == 3 && fabs(h->bucket_limit[0] - 0.1) < 1e-9);
    ipu__tfevents__event__free_unpacked(e, NULL);
    e = event_at(&all, 2);
    h = e->summary->value[0]->histo;
    assert_true(h->n_bucket == 1 && h->bucket[0] == 2 && h->bucket_limit[0] == -2);
    ipu__tfevents__event__free_unpacked(e, NULL);
    test_events_free(&all);
    ipu_summary_close(s);
}

/* Readers reject messages whose strings are not UTF-8. */
static void test_hostile(void **state)
{
    (void)state;
    static const char *const given[]    = {"a\xFF\x62",        "\xC0\xAF",  "\xED\xA0\x80",
                                           "\xF4\x90\x80\x80", "é\xE2\x82", "\xE2\x82\xAC\n\t"};
    static const char *const expected[] = {"a\xEF\xBF\xBD\x62",
                                           "\xEF\xBF\xBD\xEF\xBF\xBD",
                                           "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD",
                                           "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD",
                                           "é\xEF\xBF\xBD\xEF\xBF\xBD",
                                           "\xE2\x82\xAC\n\t"};
    enum { N = sizeof given / sizeof *given };
    ipu_summary *s;
    test_events  all;
    assert_ok(ipu_summary_open(folder, -1, &s));
    for (size_t i = 0; i < N; i++) assert_ok(ipu_summary_add_scalar(s, 1, given[i], 1));
    assert_int_equal(ipu_summary_add_scalar(s, 1, "", 1), IPU_INVALID);
    assert_says("expected a tag that is not empty");
    assert_int_equal(ipu_summary_add_scalar(s, -1, "x", 1), IPU_INVALID);
    assert_says("at step -1");
    test_events_read(ipu_summary_path(s), &all);
    assert_int_equal(all.n, 1 + N);
    for (size_t i = 0; i < N; i++) {
        Ipu__Tfevents__Event *e = event_at(&all, 1 + i);
        assert_string_equal(e->summary->value[0]->tag, expected[i]);
        ipu__tfevents__event__free_unpacked(e, NULL);
    }
    test_events_free(&all);
    ipu_summary_close(s);
}

static void test_names(void **state)
{
    (void)state;
    ipu_summary *a, *b;
    char         late[128];
    assert_ok(ipu_summary_open(folder, -1, &a));
    assert_ok(ipu_summary_open(folder, -1, &b)); /* within the same second */
    assert_true(strcmp(ipu_summary_path(a), ipu_summary_path(b)) < 0);
    assert_non_null(strstr(ipu_summary_path(a), "/events.out.tfevents.1"));
    ipu_summary_close(a);
    ipu_summary_close(b);
    snprintf(late, sizeof late, "%s/events.out.tfevents.4000000000.x", folder); /* the clock was set back */
    FILE *f = fopen(late, "w");
    assert_non_null(f);
    fclose(f);
    assert_ok(ipu_summary_open(folder, -1, &a));
    assert_non_null(strstr(ipu_summary_path(a), "/events.out.tfevents.4000000001."));
    ipu_summary_close(a);
}

static void test_no_folder(void **state)
{
    (void)state;
    ipu_summary *s;
    char         below[128], *longest = malloc(5001);
    FILE        *f = fopen(folder, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(ipu_summary_open(folder, -1, &s), IPU_IO);
    assert_null(s);
    assert_says("Not a directory");
    snprintf(below, sizeof below, "%s/below", folder);
    assert_int_equal(ipu_summary_open(below, -1, &s), IPU_IO);
    assert_says("Not a directory");
    memset(longest, 'x', 5000);
    longest[5000] = 0;
    assert_int_equal(ipu_summary_open(longest, -1, &s), IPU_IO);
    assert_says("too long");
    free(longest);
    if (geteuid() == 0) return; /* may write anywhere */
    remove(folder);
    assert_int_equal(mkdir(folder, 0500), 0);
    assert_int_equal(ipu_summary_open(folder, -1, &s), IPU_IO);
    assert_says("Permission denied");
}

/* Simulates a full disk, in a child. */
static int fill_up(void)
{
    ipu_summary        *s;
    const struct rlimit small = {60, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    if (ipu_summary_open(folder, -1, &s) != IPU_OK || setrlimit(RLIMIT_FSIZE, &small) != 0) return 1;
    if (ipu_summary_add_scalar(s, 1, "a tag of many letters", 1) != IPU_IO
        || !strstr(ipu_message(), "File too large"))
        return 2;
    if (setrlimit(RLIMIT_FSIZE, &none) != 0) return 3;
    return ipu_summary_add_scalar(s, 2, "b", 1) == IPU_OK ? 0 : 4;
}

static void read_only_file(test_events *all)
{
    char           path[512] = "";
    DIR           *d         = opendir(folder);
    struct dirent *e;
    assert_non_null(d);
    while ((e = readdir(d)))
        if (*e->d_name != '.') snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    closedir(d);
    test_events_read(path, all);
}

static void test_full_disk(void **state)
{
    (void)state;
    int         code;
    test_events all;
    pid_t       child = fork();
    if (child == 0) _exit(fill_up());
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    read_only_file(&all);
    assert_int_equal(all.n, 2);
    Ipu__Tfevents__Event *e = event_at(&all, 1);
    assert_int_equal(e->step, 2);
    ipu__tfevents__event__free_unpacked(e, NULL);
    test_events_free(&all);
}

/* Reports through a pipe what it has written, and is killed. */
static void test_killed(void **state)
{
    (void)state;
    int          fds[2], code;
    test_events  all;
    ipu_summary *s;
    char         told;
    int          n = 0;
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    if (child == 0) {
        if (ipu_summary_open(folder, -1, &s) != IPU_OK) _exit(1);
        for (int i = 1; ipu_summary_add_scalar(s, i, "x", i) == IPU_OK && write(fds[1], "x", 1) == 1;) i++;
        _exit(2);
    }
    close(fds[1]);
    while (n < 100 && read(fds[0], &told, 1) == 1) n++;
    kill(child, SIGKILL);
    while (read(fds[0], &told, 1) == 1) n++;
    close(fds[0]);
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFSIGNALED(code) && n >= 100);
    read_only_file(&all);
    assert_in_range(all.n, (size_t)n + 1, (size_t)n + 2);
    test_events_free(&all);
}

/* ---- memory ---- */

static long n_allocated, live, refused;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (++n_allocated == refused) return NULL;
    void *p = realloc(ptr, new_bytes);
    if (p && !ptr) live++;
    return p;
}

/* Each call either fails for lack of memory or works, independently of the others. */
static int write_some(void)
{
    int          n_failed = 0;
    float        x[]      = {1, 2};
    ipu_summary *s;
    ipu_status   status = ipu_summary_open(folder, 3, &s);
    if (status != IPU_OK) {
        assert_int_equal(status, IPU_OUT_OF_MEMORY);
        return 1;
    }
    status = ipu_summary_add_scalars(s, 1, (ipu_summary_scalar[]){{"a", 1}, {"b", 2}}, 2);
    n_failed += status == IPU_OUT_OF_MEMORY;
    status = ipu_summary_add_text(s, 1, "t", "text");
    n_failed += status == IPU_OUT_OF_MEMORY;
    status = ipu_summary_add_histogram(s, 1, "h", &(ipu_array){IPU_FLOAT, IPU_SHAPE(2), x});
    n_failed += status == IPU_OUT_OF_MEMORY;
    ipu_summary_close(s);
    return n_failed;
}

static void test_memory(void **state)
{
    (void)state;
    ipu__alloc_set(failing_alloc, NULL);
    for (refused = 1;; refused++) {
        n_allocated  = 0;
        int n_failed = write_some();
        assert_int_equal(live, 0);
        assert_in_range(n_failed, 0, 1);
        if (n_failed == 0) break;
    }
    ipu__alloc_set(NULL, NULL);
    assert_true(refused > 8);
}

static int empty_box(void **state)
{
    (void)state;
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static int make_box(void **state)
{
    (void)state;
    if (!mkdtemp(box)) return -1;
    snprintf(folder, sizeof folder, "%s/runs", box);
    return 0;
}

static int remove_box(void **state) { return empty_box(state) + rmdir(box); }

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_bytes, empty_box),
                                       cmocka_unit_test_teardown(test_values, empty_box),
                                       cmocka_unit_test_teardown(test_histograms, empty_box),
                                       cmocka_unit_test_teardown(test_hostile, empty_box),
                                       cmocka_unit_test_teardown(test_names, empty_box),
                                       cmocka_unit_test_teardown(test_no_folder, empty_box),
                                       cmocka_unit_test_teardown(test_full_disk, empty_box),
                                       cmocka_unit_test_teardown(test_killed, empty_box),
                                       cmocka_unit_test_teardown(test_memory, empty_box)};
    return cmocka_run_group_tests_name("summary", tests, make_box, remove_box);
}

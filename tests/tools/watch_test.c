/* Samples, histories, and the rows of the live view, for data that no test can have at will. */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "live/view.h"
#include "monitor/watch_history.h"
#include "monitor/watch_users.h"

/* ---- samples that are made ---- */

static void add_partition(watch_sample *s, int64_t uid, const char *name, int n_ipus)
{
    watch_partition *p = WATCH_GROW(s->partitions, s->n_partitions, 1);
    watch_ipu       *u = WATCH_GROW(s->ipus, s->n_ipus, n_ipus);
    assert_true(p && u && WATCH_GROW(s->processes, s->n_processes, 0));
    *p = (watch_partition){.uid = uid, .first_ipu = s->n_ipus, .n_ipus = n_ipus, .n_free = n_ipus};
    harmless_copy(p->name, sizeof p->name, name);
    harmless_copy(p->title, sizeof p->title, name);
    for (int i = 0; i < n_ipus; i++)
        u[i] = (watch_ipu){.partition = s->n_partitions, .id = s->n_ipus + i, .index = i, .process = -1};
    s->n_partitions++;
    s->n_ipus += n_ipus;
}

static void attach(watch_sample *s, int ipu, int64_t pid, const char *command, double utilisation)
{
    watch_process *p = WATCH_GROW(s->processes, s->n_processes, 1);
    assert_non_null(p);
    *p = (watch_process){.partition            = s->ipus[ipu].partition,
                         .pid                  = pid,
                         .since_ns             = pid,
                         .device               = s->ipus[ipu].index,
                         .first_id             = s->ipus[ipu].id,
                         .n_ipus               = 1,
                         .counters.utilisation = utilisation,
                         .runs_per_second      = -1};
    harmless_copy(p->command, sizeof p->command, command);
    s->ipus[ipu].process = s->n_processes++;
    s->partitions[p->partition].n_free--;
}

/* ---- text ---- */

static void copies(const char *text, size_t size, const char *expected)
{
    char out[64];
    memset(out, 'x', sizeof out);
    harmless_copy(out, size, text);
    assert_string_equal(out, expected);
    assert_int_equal(out[size - 1], 0);
    if (size < sizeof out) assert_int_equal(out[size], 'x');
}

static void text_is_made_harmless(void **state)
{
    (void)state;
    copies("python3", 64, "python3");
    copies("", 64, "");
    copies("a\x1b[31mb\nc\td\x7f", 64, "a?[31mb?c?d?");
    copies("\xc2\x9b"
           "31m",
           64, "?31m"); /* CSI of the C1 controls */
    copies("na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80", 64, "na\xc3\xafve \xe2\x82\xac \xf0\x9f\x98\x80");
    copies("\xff\xfe", 64, "??");
    copies("\xc3", 64, "?");                /* cut */
    copies("\xc0\xaf", 64, "??");           /* too long a form */
    copies("\xed\xa0\x80", 64, "???");      /* half a pair */
    copies("\xf4\x90\x80\x80", 64, "????"); /* beyond Unicode */
    copies("a\xe2\x80\xae"
           "b",
           64, "a?b"); /* text that runs backwards */
}

static void text_is_cut_between_characters(void **state)
{
    (void)state;
    copies("abcdef", 4, "abc");
    copies("ab\xe2\x82\xac", 4, "ab");
    copies("ab\xe2\x82\xac", 6, "ab\xe2\x82\xac");
    copies("abc", 1, "");
}

/* ---- joining and sending ---- */

static void joined_samples_refer_to_their_own(void **state)
{
    (void)state;
    watch_sample a = {0}, b = {0};
    add_partition(&a, 1, "p1", 2);
    attach(&a, 1, 11, "one", 0);
    add_partition(&b, 2, "p1", 2);
    attach(&b, 0, 22, "two", 0);
    assert_true(watch_sample_append(&a, &b));
    assert_int_equal(a.n_partitions, 2);
    assert_int_equal(a.n_ipus, 4);
    assert_int_equal(a.partitions[1].first_ipu, 2);
    assert_int_equal(a.ipus[2].partition, 1);
    assert_int_equal(a.ipus[2].process, 1);
    assert_int_equal(a.ipus[0].process, -1);
    assert_int_equal(a.processes[1].partition, 1);
    assert_string_equal(a.processes[a.ipus[2].process].command, "two");
    watch_sample_fini(&a);
    watch_sample_fini(&b);
}

enum { MOST_BYTES = 1 << 22 };

/* What watch_sample_write writes. Owned: free. */
static char *written(const watch_sample *s, size_t *n)
{
    FILE *file  = tmpfile();
    char *bytes = malloc(MOST_BYTES);
    assert_non_null(file);
    assert_true(watch_sample_write(fileno(file), s));
    ssize_t got = pread(fileno(file), bytes, MOST_BYTES, 0);
    assert_true(got > 0);
    *n = (size_t)got;
    fclose(file);
    return bytes;
}

static void a_sample_arrives_as_it_was_sent(void **state)
{
    (void)state;
    watch_sample a = {0}, b;
    size_t       n;
    add_partition(&a, 1000, "p1", 4);
    attach(&a, 2, 77, "python3", 0.25);
    char *bytes = written(&a, &n);
    assert_true(watch_sample_read(bytes, n, &b));
    assert_int_equal(b.n_ipus, 4);
    assert_int_equal(b.ipus[2].process, 0);
    assert_string_equal(b.processes[0].command, "python3");
    assert_float_equal(b.processes[0].counters.utilisation, 0.25, 0);
    assert_true(watch_same_process(&a, 0, &b, 0));
    watch_sample_fini(&b);
    for (size_t k = 0; k < n; k += 97) assert_false(watch_sample_read(bytes, k, &b)); /* torn */
    watch_sample_fini(&a);
    free(bytes);
}

static void refused(watch_sample *s)
{
    watch_sample back;
    size_t       n;
    char        *bytes = written(s, &n);
    assert_false(watch_sample_read(bytes, n, &back));
    assert_null(back.ipus);
    free(bytes);
}

/* What the child of another user says is shown to root. */
static void text_that_arrives_is_made_harmless(void **state)
{
    (void)state;
    watch_sample s = {0}, back;
    size_t       n;
    add_partition(&s, 1, "p1", 1);
    attach(&s, 0, 5, "x", 0);
    strcpy(s.partitions[0].owner, "a\x1b[31m");
    strcpy(s.ipus[0].error, "b\n\xff");
    strcpy(s.processes[0].command, "c\x1b]0;d\a");
    s.processes[0].runs_per_second = -INFINITY;
    char *bytes                    = written(&s, &n);
    assert_true(watch_sample_read(bytes, n, &back));
    assert_string_equal(back.partitions[0].owner, "a?[31m");
    assert_string_equal(back.ipus[0].error, "b??");
    assert_string_equal(back.processes[0].command, "c?]0;d?");
    assert_float_equal(back.processes[0].runs_per_second, -1, 0);
    watch_sample_fini(&back);
    watch_sample_fini(&s);
    free(bytes);
}

static void a_sample_that_cannot_be_is_refused(void **state)
{
    (void)state;
    watch_sample s = {0};
    add_partition(&s, 1, "p1", 1);
    attach(&s, 0, 5, "x", 0);
    s.processes[0].counters.utilisation = NAN; /* no JSON can say it */
    refused(&s);
    s.processes[0].counters.utilisation = INFINITY;
    refused(&s);
    s.processes[0].counters.utilisation = 0;
    s.processes[0].since_ns             = INT64_MIN;
    refused(&s);
    s.processes[0].since_ns = 0;
    s.processes[0].n_ipus   = 0;
    refused(&s);
    s.processes[0].n_ipus   = INT_MAX;
    s.processes[0].first_id = 1;
    refused(&s);
    s.processes[0].n_ipus = 1;
    memset(&s.partitions[0].stale, 2, 1);
    refused(&s);
    watch_sample_fini(&s);
    add_partition(&s, 1, "p1", WATCH_MOST_IPUS + 1);
    assert_true(watch_sample_is_too_large(&s));
    refused(&s);
    watch_sample_fini(&s);
}

static void a_sample_that_refers_outside_is_refused(void **state)
{
    (void)state;
    watch_sample s = {0};
    add_partition(&s, 1, "p1", 2);
    attach(&s, 0, 5, "x", 0);
    s.ipus[0].process = 1;
    refused(&s);
    s.ipus[0].process = -2;
    refused(&s);
    s.ipus[0].process   = 0;
    s.ipus[1].partition = 1;
    refused(&s);
    s.ipus[1].partition      = 0;
    s.processes[0].partition = -1;
    refused(&s);
    s.processes[0].partition = 0;
    s.partitions[0].n_ipus   = 3;
    refused(&s);
    s.partitions[0].n_ipus = 2;
    add_partition(&s, 1, "p2", WATCH_MOST_IPUS - 1);
    assert_true(watch_sample_is_too_large(&s));
    refused(&s);
    s.n_partitions = 1;
    s.n_ipus       = 2;
    memset(s.processes[0].command, 'x', sizeof s.processes[0].command); /* no end */
    watch_sample back;
    size_t       n;
    char        *bytes = written(&s, &n);
    assert_true(watch_sample_read(bytes, n, &back));
    assert_int_equal(strlen(back.processes[0].command), WATCH_TEXT - 1);
    watch_sample_fini(&back);
    free(bytes);
    watch_sample_fini(&s);
}

/* ---- histories ---- */

static float newest(const watch_histories *h, int ipu)
{
    float last = 0;
    assert_int_equal(watch_histories_get(h, ipu, 1, &last), 1);
    return last;
}

static void of_too_many_users_the_lowest_are_looked_at(void **state)
{
    (void)state;
    enum { N = WATCH_USERS + 3 };
    static int64_t uids[N + 2];
    int            left_out = -1;
    for (int i = 0; i < N; i++)
        uids[i] = 100000 + N - i; /* the folders of one who can make many came first */
    uids[N]     = 7;
    uids[N + 1] = 1000;
    assert_int_equal(watch_users_choose(uids, N + 2, 7, &left_out), WATCH_USERS);
    assert_int_equal(left_out, 4);
    assert_int_equal(uids[0], 1000);
    assert_int_equal(uids[1], 100001);
    assert_int_equal(uids[WATCH_USERS - 1], 100000 + WATCH_USERS - 1);
    int64_t few[] = {3, 1, 3, 2, 1};
    assert_int_equal(watch_users_choose(few, 5, 2, &left_out), 2);
    assert_int_equal(left_out, 0);
    assert_int_equal(few[0], 1);
    assert_int_equal(few[1], 3);
    assert_int_equal(watch_users_choose(NULL, 0, 2, &left_out), 0);
}

static void histories_follow_partitions_that_come_and_go(void **state)
{
    (void)state;
    float            values[WATCH_HISTORY];
    watch_sample     one = {.time_ns = 1}, two = {.time_ns = 2};
    watch_histories *h = watch_histories_create();
    add_partition(&one, 1, "b", 2);
    attach(&one, 0, 5, "x", 0.5);
    add_partition(&two, 1, "a", 1);
    add_partition(&two, 1, "b", 2);
    attach(&two, 1, 5, "x", 0.75);
    attach(&two, 0, 6, "y", 0.25);
    assert_true(watch_histories_add(h, &one));
    assert_float_equal(newest(h, 0), 0.5, 0);
    assert_true(newest(h, 1) < 0);
    assert_true(watch_histories_add(h, &two)); /* "a" comes before "b" */
    assert_int_equal(watch_histories_get(h, 1, WATCH_HISTORY, values), 2);
    assert_float_equal(values[0], 0.5, 0);
    assert_float_equal(values[1], 0.75, 0);
    assert_int_equal(watch_histories_get(h, 0, WATCH_HISTORY, values), 2);
    assert_true(values[0] < 0);
    assert_float_equal(values[1], 0.25, 0);
    assert_true(watch_histories_add(h, &one)); /* "a" is gone, and comes back */
    assert_true(watch_histories_add(h, &two));
    assert_int_equal(watch_histories_get(h, 0, WATCH_HISTORY, values), 4);
    assert_float_equal(values[1], 0.25, 0);
    assert_true(values[2] < 0);
    assert_float_equal(values[3], 0.25, 0);
    watch_histories_destroy(h);
    watch_sample_fini(&one);
    watch_sample_fini(&two);
}

static void histories_keep_the_last_looks(void **state)
{
    (void)state;
    float            values[WATCH_HISTORY];
    int64_t          times[WATCH_HISTORY];
    watch_sample     s = {0}, other = {0};
    watch_histories *h = watch_histories_create();
    add_partition(&s, 1, "p", 1);
    add_partition(&other, 1, "q", 1);
    attach(&s, 0, 5, "x", 0);
    for (int i = 0; i < WATCH_HISTORY + 10; i++) {
        s.time_ns                           = i;
        s.processes[0].counters.utilisation = (double)(i % 100) / 100;
        assert_true(watch_histories_add(h, &s));
    }
    assert_int_equal(watch_histories_get(h, 0, 1000, values), WATCH_HISTORY);
    assert_int_equal(watch_histories_times(h, 1000, times), WATCH_HISTORY);
    for (int i = 0; i < WATCH_HISTORY; i++) {
        assert_int_equal(times[i], i + 10);
        assert_float_equal(values[i], (double)((i + 10) % 100) / 100, 1e-6);
    }
    assert_int_equal(watch_histories_get(h, 0, 3, values), 3);
    assert_float_equal(values[2], (double)((WATCH_HISTORY + 9) % 100) / 100, 1e-6);
    for (int i = 0; i <= WATCH_HISTORY; i++) assert_true(watch_histories_add(h, &other));
    assert_true(watch_histories_add(h, &s)); /* forgotten meanwhile: it begins anew */
    assert_int_equal(watch_histories_get(h, 0, 1000, values), WATCH_HISTORY);
    assert_true(values[WATCH_HISTORY - 2] < 0);
    assert_true(values[0] < 0);
    assert_true(watch_histories_get(h, 99, 2, values) == 2 && values[1] < 0); /* no such IPU */
    watch_histories_destroy(h);
    watch_sample_fini(&s);
    watch_sample_fini(&other);
}

static void histories_are_bounded(void **state)
{
    (void)state;
    float            values[WATCH_HISTORY];
    watch_histories *h = watch_histories_create();
    for (int i = 0; i < 60;
         i++) { /* each look has 256 IPUs that were never seen before, and one that stays */
        watch_sample s = {0};
        char         name[16];
        snprintf(name, sizeof name, "p%d", i);
        add_partition(&s, 1, "stays", 1);
        attach(&s, 0, 5, "x", 0.5);
        add_partition(&s, 1, name, 256);
        assert_true(watch_histories_add(h, &s));
        watch_sample_fini(&s);
    }
    assert_int_equal(watch_histories_get(h, 0, 1000, values), 60);
    for (int i = 0; i < 60; i++) assert_float_equal(values[i], 0.5, 0);
    assert_true(watch_histories_n(h) <= 8192 + 257);
    watch_histories_destroy(h);
}

/* ---- the live view, of a watch that is this ---- */

static watch_sample     shown;
static watch_histories *shown_histories;

const watch_sample    *watch_sample_of(const watch *w) { return (void)w, &shown; }
const watch_histories *watch_histories_of(const watch *w) { return (void)w, shown_histories; }
const char            *watch_problem(const watch *w) { return (void)w, NULL; }
bool                   watch_shows_all(const watch *w) { return (void)w, true; }

static live_view view;

static int begin_view(void **state)
{
    (void)state;
    shown           = (watch_sample){0};
    shown_histories = watch_histories_create();
    add_partition(&shown, 1, "p1", 4);
    attach(&shown, 0, 300, "charlie", 0.2);
    attach(&shown, 1, 100, "alpha", 0.9);
    attach(&shown, 2, 200, "Bravo", 0.5);
    live_view_init(&view);
    return !watch_histories_add(shown_histories, &shown) || !live_view_take(&view, NULL);
}

static int end_view(void **state)
{
    (void)state;
    live_view_fini(&view);
    watch_histories_destroy(shown_histories);
    watch_sample_fini(&shown);
    return 0;
}

static void sort_by(const char *heading, bool reverse)
{
    live_rows *r = &view.rows[view.table];
    for (int i = 0; strcmp(live_columns(view.table)[r->sort].heading, heading) != 0; i++) {
        assert_true(i < 20);
        live_view_sort(&view, 1);
    }
    r->reverse = reverse;
    assert_true(live_view_arrange(&view));
}

/* The commands of the processes, in the order of the rows. */
static void rows_are(const char *expected)
{
    char             text[256] = "";
    const live_rows *r         = &view.rows[LIVE_PROCESSES];
    for (int i = 0; i < r->n; i++) {
        strcat(text, i ? " " : "");
        strcat(text, view.picture.sample.processes[r->order[i]].command);
    }
    assert_string_equal(text, expected);
}

static void rows_are_sorted_by_any_column(void **state)
{
    (void)state;
    view.table = LIVE_PROCESSES;
    rows_are("charlie alpha Bravo"); /* as their IPUs are */
    sort_by("PID", false);
    rows_are("alpha Bravo charlie");
    sort_by("PID", true);
    rows_are("charlie Bravo alpha");
    sort_by("COMMAND", false);
    rows_are("Bravo alpha charlie");
    sort_by("UTIL", true);
    rows_are("alpha Bravo charlie");
}

static void what_is_selected_stays_selected(void **state)
{
    (void)state;
    view.table = LIVE_PROCESSES;
    sort_by("UTIL", true);
    assert_int_equal(live_view_process(&view)->pid, 300); /* the first before, the last now */
    live_view_move(&view, -1);
    assert_int_equal(live_view_process(&view)->pid, 200);
    shown.processes[2].counters.utilisation = 1; /* it is now the first */
    assert_true(live_view_take(&view, NULL));
    rows_are("Bravo alpha charlie");
    assert_int_equal(view.rows[LIVE_PROCESSES].selected, 0);
    assert_int_equal(live_view_process(&view)->pid, 200);
    shown.processes[2].since_ns = 12345; /* gone; another has its number */
    shown.n_processes           = 2;
    shown.ipus[2].process       = -1;
    assert_true(live_view_take(&view, NULL));
    rows_are("alpha charlie");
    assert_int_equal(live_view_process(&view)->pid, 100);
}

static void the_filter_finds_any_cell(void **state)
{
    (void)state;
    strcpy(view.filter, "BRAVO");
    assert_true(live_view_arrange(&view));
    rows_are("Bravo");
    assert_int_equal(view.rows[LIVE_IPUS].n, 1);
    strcpy(view.filter, "free");
    assert_true(live_view_arrange(&view));
    assert_int_equal(view.rows[LIVE_IPUS].n, 1);
    assert_int_equal(live_view_ipu(&view)->id, 3);
    assert_null(live_view_process(&view));
    strcpy(view.filter, "nothing has this");
    assert_true(live_view_arrange(&view));
    assert_null(live_view_ipu(&view));
    live_view_move(&view, 5);
    assert_null(live_view_ipu(&view));
    view.filter[0] = 0;
    assert_true(live_view_arrange(&view));
    assert_int_equal(view.rows[LIVE_IPUS].n, 4);
    assert_non_null(live_view_ipu(&view));
}

static void the_selection_is_kept_in_sight(void **state)
{
    (void)state;
    live_rows *r = &view.rows[LIVE_IPUS];
    live_view_move(&view, 1000);
    live_view_scroll(&view, LIVE_IPUS, 2);
    assert_int_equal(r->selected, 3);
    assert_int_equal(r->top, 2);
    live_view_move(&view, -1000);
    live_view_scroll(&view, LIVE_IPUS, 2);
    assert_int_equal(r->selected, 0);
    assert_int_equal(r->top, 0);
    live_view_scroll(&view, LIVE_IPUS, 100);
    assert_int_equal(r->top, 0);
}

static void states_have_words(void **state)
{
    (void)state;
    shown.processes[1].counters.utilisation = 0;
    shown.processes[2].counters.utilisation = -1; /* not measured */
    strcpy(shown.ipus[3].error, "IPUSOFTERR");
    assert_true(live_view_take(&view, NULL));
    assert_string_equal(live_ipu_state(&view, 0), "busy");
    assert_string_equal(live_ipu_state(&view, 1), "held");
    assert_string_equal(live_ipu_state(&view, 2), "held");
    assert_string_equal(live_ipu_state(&view, 3), "error");
}

#define VIEW(name) cmocka_unit_test_setup_teardown(name, begin_view, end_view)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_made_harmless),
        cmocka_unit_test(text_is_cut_between_characters),
        cmocka_unit_test(joined_samples_refer_to_their_own),
        cmocka_unit_test(a_sample_arrives_as_it_was_sent),
        cmocka_unit_test(text_that_arrives_is_made_harmless),
        cmocka_unit_test(a_sample_that_cannot_be_is_refused),
        cmocka_unit_test(a_sample_that_refers_outside_is_refused),
        cmocka_unit_test(of_too_many_users_the_lowest_are_looked_at),
        cmocka_unit_test(histories_follow_partitions_that_come_and_go),
        cmocka_unit_test(histories_keep_the_last_looks),
        cmocka_unit_test(histories_are_bounded),
        VIEW(rows_are_sorted_by_any_column),
        VIEW(what_is_selected_stays_selected),
        VIEW(the_filter_finds_any_cell),
        VIEW(the_selection_is_kept_in_sight),
        VIEW(states_have_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

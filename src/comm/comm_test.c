/* Process groups, simulated by threads: sums, broadcasts and gathers of any size and root. */
#include "comm/comm.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "comm/threads_test.h"

enum { MOST = 8 };

/* ---- what each does ---- */

typedef struct task {
    int64_t   rank;
    size_t    n;
    pthread_t thread;
    float    *data;
    double   *doubles;
    char      text[64], gathered[MOST * 64];
    bool      ok;
} task;

static float value(int64_t rank, size_t i) { return 1.0f / (float)(3 + rank * 7 + (int64_t)(i % 1000)); }

static bool talk(task *t, ipu_comm *comm)
{
    bool ok = ipu_comm_rank(comm) == t->rank && ipu_comm_size(comm) == n_ranks;
    for (int64_t root = 0; root < n_ranks; root++) {
        snprintf(t->text, sizeof t->text, "rank %d", (int)t->rank);
        ok = ok && ipu_comm_gather(comm, root, t->text, sizeof t->text, t->gathered) == IPU_OK;
        for (int r = 0; ok && root == t->rank && r < n_ranks; r++) {
            char expected[64];
            snprintf(expected, sizeof expected, "rank %d", r);
            ok = strcmp(t->gathered + (size_t)r * sizeof t->text, expected) == 0;
        }
        ok = ok && ipu_comm_broadcast(comm, root, t->text, sizeof t->text) == IPU_OK
          && atoi(t->text + 5) == root;
    }
    ok = ok && ipu_comm_all_reduce(comm, IPU_FLOAT, t->data, t->n) == IPU_OK;
    ok = ok && ipu_comm_all_reduce(comm, IPU_DOUBLE, t->doubles, t->n) == IPU_OK;
    return ok && ipu_comm_barrier(comm) == IPU_OK;
}

static void *run(void *arg)
{
    task     *t = arg;
    end       e = {t->rank};
    ipu_comm *comm;
    if (ipu__comm_create(&threads, &e, &comm) != IPU_OK) return NULL;
    t->ok = talk(t, comm);
    ipu_comm_close(comm);
    return NULL;
}

/* The sum over ranks [first, first + n) as a tree. */
static float tree(int64_t first, int64_t n, size_t i)
{
    return n == 1 ? value(first, i) : tree(first, n / 2, i) + tree(first + n / 2, n / 2, i);
}

static void check_group(int64_t ranks, size_t n, int looks)
{
    task tasks[MOST] = {0};
    n_ranks          = ranks;
    delay            = looks;
    for (int64_t r = 0; r < ranks; r++) {
        tasks[r] = (task){.rank = r, .n = n, .data = malloc(n * 4 + 1), .doubles = malloc(n * 8 + 1)};
        for (size_t i = 0; i < n; i++) tasks[r].data[i] = value(r, i);
        for (size_t i = 0; i < n; i++) tasks[r].doubles[i] = (double)r;
        assert_int_equal(pthread_create(&tasks[r].thread, NULL, run, &tasks[r]), 0);
    }
    for (int64_t r = 0; r < ranks; r++) pthread_join(tasks[r].thread, NULL);
    for (int64_t r = 0; r < ranks; r++) {
        assert_true(tasks[r].ok);
        for (size_t i = 0; i<n; i += n> 5000 ? 997 : 1) {
            float expected = tree(0, ranks, i);
            assert_memory_equal(&tasks[r].data[i], &expected, sizeof expected);
            assert_true(2 * tasks[r].doubles[i] == (double)(ranks * (ranks - 1)));
        }
        free(tasks[r].data);
        free(tasks[r].doubles);
    }
    assert_null(letters);
}

static void all_ranks_have_the_bits_of_the_tree(void **state)
{
    (void)state;
    for (int64_t ranks = 1; ranks <= MOST; ranks *= 2) check_group(ranks, 1000, 0);
}

static void sums_of_many_chunks_and_of_nothing(void **state)
{
    (void)state;
    check_group(4, 0, 0);
    check_group(2, 1, 3);
    check_group(2, 1200001, 1); /* more chunks than are in flight, with a short last one */
    check_group(4, 70000, 200); /* slow enough for sleeping */
}

static void a_process_by_itself_needs_no_transport(void **state)
{
    ipu_comm *comm;
    float     x = 3, y = 0;
    (void)state;
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMI_SIZE");
    unsetenv("PMIX_RANK");
    assert_int_equal(ipu_comm_open(&comm), IPU_OK);
    assert_int_equal(ipu_comm_size(comm), 1);
    assert_int_equal(ipu_comm_all_reduce(comm, IPU_FLOAT, &x, 1), IPU_OK);
    assert_int_equal(ipu_comm_gather(comm, 0, &x, sizeof x, &y), IPU_OK);
    assert_true(x == 3 && y == 3);
    assert_int_equal(ipu_comm_broadcast(comm, 1, &x, sizeof x), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "no rank 1"));
    assert_int_equal(ipu_comm_all_reduce(comm, IPU_INT32, &x, 1), IPU_INVALID);
    ipu_comm_close(comm);
    assert_int_equal(ipu_comm_barrier(NULL), IPU_OK);
    assert_int_equal(ipu_comm_size(NULL), 1);
}

static void a_launcher_without_the_plugin_is_told_what_to_install(void **state)
{
    ipu_comm *comm;
    (void)state;
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    setenv("IPU_COMM_PATH", "/nowhere", 1);
    assert_int_equal(ipu_comm_open(&comm), IPU_NOT_FOUND);
    assert_null(comm);
    assert_non_null(strstr(ipu_message(), "libopenmpi-dev"));
    unsetenv("IPU_COMM_PATH");
    unsetenv("OMPI_COMM_WORLD_SIZE");
}

static void failures_of_the_transport_are_reported(void **state)
{
    ipu_comm *comm;
    end       broken = {-1}, fine = {0};
    (void)state;
    assert_int_equal(ipu__comm_create(&threads, &broken, &comm), IPU_IO);
    assert_string_equal(ipu_message(), "there is no network");
    n_ranks = 3;
    assert_int_equal(ipu__comm_create(&threads, &fine, &comm), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "power of two"));
}

/* ---- were they started alike? ---- */

typedef struct starter {
    int64_t     rank;
    const char *batch;
    pthread_t   thread;
    ipu_status  status;
    char        message[600];
} starter;

static void *start(void *arg)
{
    starter            *s       = arg;
    end                 e       = {s->rank};
    const ipu_comm_item items[] = {{"seed", "3"}, {"batch size", s->batch}};
    ipu_comm           *comm;
    s->status = ipu__comm_create(&threads, &e, &comm);
    if (s->status != IPU_OK) return NULL;
    s->status = ipu_comm_agree(comm, items, s->batch ? 2 : 1);
    if (s->status != IPU_OK) snprintf(s->message, sizeof s->message, "%s", ipu_message());
    ipu_comm_close(comm);
    return NULL;
}

static void check_start(int64_t ranks, int64_t other, const char *batch, const char *expected)
{
    starter s[MOST];
    n_ranks = ranks;
    delay   = 0;
    for (int64_t r = 0; r < ranks; r++) {
        s[r] = (starter){.rank = r, .batch = r == other ? batch : "16"};
        assert_int_equal(pthread_create(&s[r].thread, NULL, start, &s[r]), 0);
    }
    for (int64_t r = 0; r < ranks; r++) pthread_join(s[r].thread, NULL);
    for (int64_t r = 0; r < ranks; r++) {
        assert_int_equal(s[r].status, expected ? IPU_INVALID : IPU_OK);
        if (expected) assert_non_null(strstr(s[r].message, expected));
    }
    assert_null(letters);
}

static void ranks_that_were_started_otherwise_are_named_to_all(void **state)
{
    (void)state;
    check_start(4, -1, NULL, NULL);
    check_start(2, 1, "32", "rank 1 was started with batch size 32, rank 0 with 16");
    check_start(4, 2, "32", "rank 2 was started with batch size 32, rank 0 with 16");
    check_start(4, 3, NULL, "rank 3 was started with batch size left out, rank 0 with 16");
    check_start(2, 0, NULL, "rank 1 was started with batch size 16, rank 0 with it left out");
}

/* ---- ranks that go, and ranks that lie ---- */

enum { PART = 40000, GUARD = 64 };

typedef struct member {
    int64_t     rank;
    const char *does; /* from its second call on; NULL to behave as agreed */
    pthread_t   thread;
    ipu_status  status;
    bool        is_hurt; /* something was written beyond its data */
    char        message[600];
} member;

static ipu_status call(ipu_comm *comm, const char *does, char *data, size_t room)
{
    if (!does) return ipu_comm_all_reduce(comm, IPU_DOUBLE, data, room / sizeof(double));
    if (!strcmp(does, "less")) return ipu_comm_all_reduce(comm, IPU_DOUBLE, data, room / sizeof(double) / 2);
    if (!strcmp(does, "least")) return ipu_comm_all_reduce(comm, IPU_DOUBLE, data, 1);
    if (!strcmp(does, "broadcast")) return ipu_comm_broadcast(comm, 0, data, room);
    if (!strcmp(does, "ahead")) { /* nobody waits for the gather */
        IPU_TRY(ipu_comm_gather(comm, 0, data, 16, data));
        return ipu_comm_broadcast(comm, 0, data, 16);
    }
    if (!strcmp(does, "gather")) return ipu_comm_gather(comm, 0, data, 16, data);
    return IPU_OK;
}

static void *take_part(void *arg)
{
    member    *m = arg;
    end        e = {m->rank};
    ipu_comm  *comm;
    const char guard[GUARD] = {0};
    char      *data         = calloc(1, PART + GUARD);
    m->status               = ipu__comm_create(&threads, &e, &comm);
    for (int i = 0; i < 4 && m->status == IPU_OK; i++) {
        if (i > 0 && m->does && !strcmp(m->does, "leave")) break;
        m->status = call(comm, i > 0 ? m->does : NULL, data, PART);
    }
    if (m->status != IPU_OK) snprintf(m->message, sizeof m->message, "%s", ipu_message());
    m->is_hurt = memcmp(data + PART, guard, GUARD) != 0;
    ipu_comm_close(comm);
    free(data);
    return NULL;
}

/* All but rank 1, which may not notice, must fail in time, with a message that says why. */
static void check_members(int64_t ranks, const char *does, const char *expected)
{
    member          m[MOST];
    struct timespec begin, now;
    n_ranks = ranks;
    delay   = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int64_t r = 0; r < ranks; r++) {
        m[r] = (member){.rank = r, .does = r == 1 ? does : NULL};
        assert_int_equal(pthread_create(&m[r].thread, NULL, take_part, &m[r]), 0);
    }
    for (int64_t r = 0; r < ranks; r++) pthread_join(m[r].thread, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    bool any = false;
    for (int64_t r = 0; r < ranks; r++) {
        assert_false(m[r].is_hurt);
        any |= strstr(m[r].message, expected) != NULL;
        if (r != 1) assert_int_equal(m[r].status, IPU_IO);
    }
    if (!any) fail_msg("expected \"%s\", found \"%s\"", expected, m[0].message);
    assert_true(now.tv_sec - begin.tv_sec < 60); /* a few seconds, unless the machine is under load */
    drop_letters();
}

static void a_rank_that_leaves_fails_the_others(void **state)
{
    (void)state;
    check_members(2, "leave", "rank 1 has left the group while rank 0 waits for it");
    check_members(4, "leave", "rank 1 has left the group while rank 0 waits for it");
}

static void ranks_that_make_other_calls_fail_and_harm_nothing(void **state)
{
    (void)state;
    check_members(2, "less", "bytes, found");
    check_members(4, "least", "bytes, found");
    check_members(4, "least", "has failed: expected");
    check_members(2, "broadcast", "for a broadcast of 40000 bytes");
    check_members(4, "gather", "");
    check_members(2, "ahead",
                  "rank 0 waits for a sum of 40000 bytes, its call 2 of the group; rank 1 is at its call 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_have_the_bits_of_the_tree),
        cmocka_unit_test(sums_of_many_chunks_and_of_nothing),
        cmocka_unit_test(a_process_by_itself_needs_no_transport),
        cmocka_unit_test(a_launcher_without_the_plugin_is_told_what_to_install),
        cmocka_unit_test(failures_of_the_transport_are_reported),
        cmocka_unit_test(ranks_that_were_started_otherwise_are_named_to_all),
        cmocka_unit_test(a_rank_that_leaves_fails_the_others),
        cmocka_unit_test(ranks_that_make_other_calls_fail_and_harm_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Thread pools: every part once, many runs, too many threads, several pools, forks, refusals, quotas. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
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

#include "base/alloc.h"
#include "base/host/pool.h"
#include "base/sanitized.h"

enum { MOST = 8 };

static ipu__pool *make(int n_threads)
{
    ipu__pool *pool;
    assert_int_equal(ipu__pool_create(n_threads, &pool), IPU_OK);
    assert_int_equal(ipu__pool_n_threads(pool), n_threads);
    return pool;
}

/* ---- running ---- */

/* Plain ints: a missing barrier gives a data race, which the thread sanitizer sees, and a wrong sum. */
typedef struct tally {
    int calls[MOST], n_parts[MOST];
    int input, output[MOST];
} tally;

static void count(void *work, int part, int n_parts)
{
    tally *t = work;
    t->calls[part]++;
    t->n_parts[part] = n_parts;
    t->output[part]  = t->input + part;
}

static void check_runs(int n_threads, int runs)
{
    tally      t    = {0};
    ipu__pool *pool = make(n_threads);
    for (int i = 0; i < runs; i++) {
        t.input = i * 10;
        ipu__pool_run(pool, count, &t);
        for (int p = 0; p < n_threads; p++)
            if (t.output[p] != i * 10 + p) fail_msg("run %d part %d: %d", i, p, t.output[p]);
    }
    for (int p = 0; p < MOST; p++) {
        assert_int_equal(t.calls[p], p < n_threads ? runs : 0);
        assert_int_equal(t.n_parts[p], p < n_threads ? n_threads : 0);
    }
    ipu__pool_destroy(pool);
}

static void every_part_runs_once_per_run(void **state)
{
    (void)state;
    for (int n = 1; n <= MOST; n++) check_runs(n, 50);
}

static void a_hundred_thousand_runs_are_all_whole(void **state)
{
    (void)state;
    check_runs(2, 100000);
}

static void more_threads_than_cpus_work_too(void **state)
{
    (void)state;
    check_runs(MOST, 2000);
}

/* Parts append their numbers without an atomic: correct only if one thread runs them all. */
typedef struct roll {
    pthread_t caller;
    int       parts[MOST], n, others;
} roll;

static void call_roll(void *work, int part, int n_parts)
{
    roll *r = work;
    (void)n_parts;
    r->others += !pthread_equal(pthread_self(), r->caller);
    r->parts[r->n++] = part;
}

static void a_pool_that_is_alone_has_the_caller_run_all_parts_in_order(void **state)
{
    (void)state;
    ipu__pool *pool = make(4);
    roll       r    = {.caller = pthread_self()};
    ipu__pool_set_alone(pool, true);
    ipu__pool_run(pool, call_roll, &r);
    assert_int_equal(r.n, 4);
    assert_int_equal(r.others, 0);
    for (int i = 0; i < 4; i++) assert_int_equal(r.parts[i], i);
    ipu__pool_set_alone(pool, false);
    tally t = {.input = 7};
    ipu__pool_run(pool, count, &t);
    for (int i = 0; i < 4; i++) assert_int_equal(t.output[i], 7 + i);
    ipu__pool_destroy(pool);
}

static void threads_that_went_to_sleep_wake_up(void **state)
{
    (void)state;
    tally      t    = {0};
    ipu__pool *pool = make(2);
    for (int i = 0; i < 20; i++) {
        ipu__pool_run(pool, count, &t);
        usleep(2000); /* far longer than the spinning */
    }
    assert_int_equal(t.calls[0], 20);
    assert_int_equal(t.calls[1], 20);
    ipu__pool_destroy(pool);
}

static void slow_part(void *work, int part, int n_parts)
{
    (void)n_parts;
    if (part == 1) usleep(3000); /* so that the caller sleeps */
    ((int *)work)[part]++;
}

static void a_caller_that_went_to_sleep_wakes_up(void **state)
{
    (void)state;
    int        calls[3] = {0};
    ipu__pool *pool     = make(3);
    for (int i = 0; i < 20; i++) {
        ipu__pool_run(pool, slow_part, calls);
        assert_int_equal(calls[1], i + 1);
    }
    ipu__pool_destroy(pool);
}

/* ---- what the threads are ---- */

typedef struct portrait {
    char      name[16];
    pthread_t thread;
    sigset_t  blocked;
    cpu_set_t cpus;
    size_t    stack_bytes;
} portrait;

static void take_portrait(void *work, int part, int n_parts)
{
    (void)n_parts;
    portrait      *p = (portrait *)work + part;
    pthread_attr_t attr;
    p->thread = pthread_self();
    pthread_getname_np(p->thread, p->name, sizeof p->name);
    pthread_sigmask(SIG_SETMASK, NULL, &p->blocked);
    sched_getaffinity(0, sizeof p->cpus, &p->cpus);
    pthread_getattr_np(p->thread, &attr);
    pthread_attr_getstacksize(&attr, &p->stack_bytes);
    pthread_attr_destroy(&attr);
}

static void part_0_is_the_caller_and_the_others_take_no_signals(void **state)
{
    (void)state;
    portrait   p[3] = {0};
    ipu__pool *pool = make(3);
    ipu__pool_run_each(pool, take_portrait, p);
    ipu__pool_destroy(pool);
    assert_true(pthread_equal(p[0].thread, pthread_self()));
    assert_false(pthread_equal(p[1].thread, p[2].thread));
    assert_string_equal(p[1].name, "ipu-1");
    assert_string_equal(p[2].name, "ipu-2");
    static const int signals[] = {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGPROF, SIGCHLD};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        assert_int_equal(sigismember(&p[0].blocked, signals[i]), 0); /* the caller's mask is unchanged */
        assert_int_equal(sigismember(&p[1].blocked, signals[i]), 1);
        assert_int_equal(sigismember(&p[2].blocked, signals[i]), 1);
    }
    assert_true(p[1].stack_bytes >= 8 << 20);
}

/* Threads move away from the caller's CPU; any run here may find them doing so. */
static void threads_keep_the_affinity_they_were_made_with(void **state)
{
    (void)state;
    cpu_set_t  before, after;
    portrait   p[2] = {0};
    ipu__pool *pool = make(2);
    sched_getaffinity(0, sizeof before, &before);
    for (int i = 0; i < 50; i++) {
        usleep(1500);
        ipu__pool_run(pool, take_portrait, p);
        assert_true(CPU_EQUAL(&p[0].cpus, &before));
        assert_true(CPU_EQUAL(&p[1].cpus, &before));
    }
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&after, &before));
    ipu__pool_destroy(pool);
}

/* ---- several pools ---- */

static void *use_a_pool(void *arg)
{
    tally      t = {0};
    ipu__pool *pool;
    int        runs = *(int *)arg;
    if (ipu__pool_create(3, &pool) != IPU_OK) return arg;
    for (int i = 0; i < runs; i++) ipu__pool_run(pool, count, &t);
    ipu__pool_destroy(pool);
    return t.calls[0] == runs && t.calls[1] == runs && t.calls[2] == runs ? NULL : arg;
}

static void several_pools_run_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    int       runs = 1000;
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, use_a_pool, &runs), 0);
    for (int i = 0; i < 4; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
}

static void run_inner(void *work, int part, int n_parts)
{
    (void)n_parts;
    int runs            = 10;
    ((int *)work)[part] = use_a_pool(&runs) == NULL;
}

static void a_job_may_use_another_pool(void **state)
{
    (void)state;
    int        good[2] = {0};
    ipu__pool *pool    = make(2);
    ipu__pool_run(pool, run_inner, good);
    ipu__pool_destroy(pool);
    assert_int_equal(good[0], 1);
    assert_int_equal(good[1], 1);
}

static void pools_can_be_destroyed_unused_and_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) ipu__pool_destroy(make(1 + i % 4));
    ipu__pool_destroy(NULL);
}

/* ---- forks ---- */

static void count_call(void *work, int part, int n_parts)
{
    (void)part;
    (void)n_parts;
    atomic_fetch_add((atomic_int *)work, 1);
}

/* A thread that wakes up for the last job while the pool is being destroyed must do nothing. */
static void no_part_runs_again_while_the_pool_ends(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        static atomic_int calls;
        ipu__pool        *pool;
        atomic_store(&calls, 0);
        assert_int_equal(ipu__pool_create(16, &pool), IPU_OK);
        ipu__pool_run(pool, count_call, &calls);
        ipu__pool_destroy(pool);
        assert_int_equal(atomic_load(&calls), 16);
    }
}

static void a_child_can_destroy_its_copy_and_use_a_new_pool(void **state)
{
    (void)state;
    tally      t    = {0};
    ipu__pool *pool = make(3);
    ipu__pool_run(pool, count, &t);
    pid_t child = fork();
    if (child == 0) {
        int runs = 100;
        alarm(600);
        ipu__pool_destroy(pool); /* would hang if it joined the missing threads */
        /* The thread sanitizer does not support threads in the child of a threaded process. */
        _exit(IPU__THREAD_SANITIZED || use_a_pool(&runs) == NULL ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ipu__pool_run(pool, count, &t); /* the parent's still works */
    assert_int_equal(t.calls[2], 2);
    ipu__pool_destroy(pool);
}

/* ---- refusals ---- */

static void counts_out_of_range_are_invalid(void **state)
{
    (void)state;
    static const int wrong[] = {0, -1, INT_MIN, 1 << 20, INT_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ipu__pool *pool = (ipu__pool *)&pool;
        assert_int_equal(ipu__pool_create(wrong[i], &pool), IPU_INVALID);
        assert_null(pool);
        char number[16];
        snprintf(number, sizeof number, "found %d", wrong[i]);
        assert_non_null(strstr(ipu_message(), number));
    }
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

static int reset(void **state)
{
    (void)state;
    ipu__alloc_set(NULL, NULL);
    return 0;
}

static void refused_memory_is_reported_at_every_allocation(void **state)
{
    (void)state;
    ipu__pool *pool    = NULL;
    int        allowed = 0;
    ipu__alloc_set(limited, NULL);
    for (; !pool; allowed++) {
        assert_in_range(allowed, 0, 20);
        calls_left        = allowed;
        ipu_status status = ipu__pool_create(3, &pool);
        assert_int_equal(status, pool ? IPU_OK : IPU_OUT_OF_MEMORY);
    }
    assert_true(allowed > 1);
    calls_left = 0; /* running and ending need none */
    tally t    = {0};
    ipu__pool_run(pool, count, &t);
    ipu__pool_destroy(pool);
    assert_int_equal(t.calls[2], 1);
}

/* The number after `label` in /proc/self/status, or -1. */
static long own_status(const char *label)
{
    char   line[128];
    long   n     = -1;
    size_t bytes = strlen(label);
    FILE  *file  = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, label, bytes) == 0) n = strtol(line + bytes, NULL, 10);
    if (file) fclose(file);
    return n;
}

/* Room for a few stacks of 8 MiB but not for 1000. */
static int starve(void)
{
    rlim_t        most  = (rlim_t)own_status("VmSize:") * 1024 + (60 << 20);
    struct rlimit limit = {most, most};
    ipu__pool    *pool  = NULL;
    alarm(600);
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    if (ipu__pool_create(1000, &pool) != IPU_OUT_OF_MEMORY || pool) return 2;
    if (!strstr(ipu_message(), "could not start thread") || !strstr(ipu_message(), "of 1000")) return 3;
    for (int i = 0; own_status("Threads:") != 1; i++) { /* joined, but the kernel may lag */
        if (i == 20000) return 4;
        usleep(1000);
    }
    return ipu__pool_create(2, &pool) == IPU_OK ? 0 : 5;
}

static void threads_that_cannot_be_started_are_undone(void **state)
{
    (void)state;
    if (IPU__SANITIZED) skip(); /* sanitizers cannot live within an address space limit */
    pid_t child = fork();
    if (child == 0) _exit(starve());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- how many ---- */

static void the_default_obeys_the_affinity(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_in_range(ipu__pool_default_threads(), 1, CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    int n = ipu__pool_default_threads();
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(n, 1);
}

static char root[] = "/tmp/ipu-pool-test-XXXXXX";

/* Writes root/name, or creates the folder if text is NULL. */
static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    if (!text) {
        assert_int_equal(mkdir(path, 0700), 0);
        return;
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int quota(const char *membership)
{
    char copy[256];
    snprintf(copy, sizeof copy, "%s", membership);
    return ipu__pool_quota(root, copy);
}

static int make_root(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    static const char *const names[] = {
        "a/b/cpu.max",
        "a/b",
        "a/cpu.max",
        "a",
        "cpu,cpuacct/g/cpu.cfs_quota_us",
        "cpu,cpuacct/g/cpu.cfs_period_us",
        "cpu,cpuacct/g",
        "cpu,cpuacct",
        "",
    };
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", root, names[i]);
        if (remove(path) != 0) return -1;
    }
    return 0;
}

static void quotas_of_a_group_and_its_ancestors_count(void **state)
{
    (void)state;
    put("a", NULL);
    put("a/b", NULL);
    put("a/cpu.max", "max 100000\n");
    put("a/b/cpu.max", "max 100000\n");
    assert_int_equal(quota("0::/a/b\n"), INT_MAX);
    put("a/b/cpu.max", "350000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 4); /* 3.5 CPUs keep 4 threads busy */
    assert_int_equal(quota("0::/a\n"), INT_MAX);
    put("a/cpu.max", "200000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 2);
    put("a/b/cpu.max", "10000 100000\n");
    assert_int_equal(quota("0::/a/b\n"), 1);
    assert_int_equal(quota("0::/not/here\n"), INT_MAX);
    assert_int_equal(quota("0::/\n"), INT_MAX);
    put("cpu,cpuacct", NULL);
    put("cpu,cpuacct/g", NULL);
    put("cpu,cpuacct/g/cpu.cfs_quota_us", "-1\n");
    put("cpu,cpuacct/g/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota("5:cpu,cpuacct:/g\n"), INT_MAX);
    put("cpu,cpuacct/g/cpu.cfs_quota_us", "300000\n");
    assert_int_equal(quota("5:cpu,cpuacct:/g\n"), 3);
    assert_int_equal(quota("7:cpuset:/g\n5:cpu,cpuacct:/g\n0::/a\n"), 2); /* the least of all */
    assert_int_equal(quota("5:cpuset,cpuacct:/g\n"), INT_MAX);
}

static void memberships_that_make_no_sense_mean_no_quota(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "\n\n", "0", "0:", ":", "::", "nonsense", "5:cpu", "5:cpu,:", "x::/a",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) assert_int_equal(quota(texts[i]), INT_MAX);
    put("a/cpu.max", "junk");
    assert_int_equal(quota("0::/a"), INT_MAX);
    put("a/cpu.max", "100000 0");
    assert_int_equal(quota("0::/a"), INT_MAX);
    put("a/cpu.max", "9223372036854775807 8589934592");
    assert_int_equal(quota("0::/a"), 1 << 30);
    put("a/cpu.max", "9223372036854775807 1");
    assert_int_equal(quota("0::/a"), INT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_runs_once_per_run),
        cmocka_unit_test(a_hundred_thousand_runs_are_all_whole),
        cmocka_unit_test(more_threads_than_cpus_work_too),
        cmocka_unit_test(a_pool_that_is_alone_has_the_caller_run_all_parts_in_order),
        cmocka_unit_test(threads_that_went_to_sleep_wake_up),
        cmocka_unit_test(a_caller_that_went_to_sleep_wakes_up),
        cmocka_unit_test(part_0_is_the_caller_and_the_others_take_no_signals),
        cmocka_unit_test(threads_keep_the_affinity_they_were_made_with),
        cmocka_unit_test(several_pools_run_at_once),
        cmocka_unit_test(a_job_may_use_another_pool),
        cmocka_unit_test(pools_can_be_destroyed_unused_and_at_once),
        cmocka_unit_test(no_part_runs_again_while_the_pool_ends),
        cmocka_unit_test(a_child_can_destroy_its_copy_and_use_a_new_pool),
        cmocka_unit_test(counts_out_of_range_are_invalid),
        cmocka_unit_test_teardown(refused_memory_is_reported_at_every_allocation, reset),
        cmocka_unit_test(threads_that_cannot_be_started_are_undone),
        cmocka_unit_test(the_default_obeys_the_affinity),
        cmocka_unit_test(quotas_of_a_group_and_its_ancestors_count),
        cmocka_unit_test(memberships_that_make_no_sense_mean_no_quota),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}

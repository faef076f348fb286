/* Thread pools on two futex words: the generation of the job, and the number of parts still running. All
 * synchronisation goes through these, so that sanitizers can follow it.
 *
 * Each part belongs to the thread of the same number, but if that has not started it by the time the caller has
 * finished its own, the caller takes it. On a shared machine a thread may not get a CPU for milliseconds, in
 * which a waiting caller could run a hundred kernels. Whoever advances a worker's `taken` from the previous
 * generation to that of the job runs the part; since a job ends only when all its parts have run, `taken` is
 * always the previous generation when the next job begins. */
#include "base/host/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/host/clock.h"

enum {
    MAX_THREADS = 4096,
    SPIN_NS     = 50000,   /* about the cost of waking a sleeper: 40 to 75 us measured on a virtual machine */
    LEAVE_NS    = 1000000, /* minimum time between two moves of a thread to another CPU */
    STACK_BYTES = 8 << 20, /* like the main thread: vertices see no difference */
    LINE        = 64,
};

typedef struct worker {
    alignas(LINE) atomic_uint taken; /* generation of the last job whose part was taken */
    ipu__pool *pool;
    pthread_t  thread;
    int        part;
} worker;

struct ipu__pool {
    /* Written by the caller, read by the threads: one cache line travels per job. */
    alignas(LINE) atomic_uint generation;
    atomic_bool stop;
    atomic_int  caller_cpu;
    ipu__job_fn job;
    void       *work;

    alignas(LINE) atomic_uint remaining; /* parts of the threads that are not done */
    atomic_uint caller_sleeps;

    alignas(LINE) atomic_uint sleepers;

    alignas(LINE) int n_threads;
    bool   is_alone; /* the caller runs all parts, unless each needs its own thread */
    int    spin_ns;  /* 0 if there are more threads than CPUs: spinning would only keep others from working */
    pid_t  owner;
    worker workers[]; /* of parts 1.. */
};

static size_t pool_bytes(int n_threads) { return sizeof(ipu__pool) + (size_t)n_threads * sizeof(worker); }

/* ---- waiting ---- */

static void futex_wait(atomic_uint *word, unsigned expected)
{
    syscall(SYS_futex, (unsigned *)word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int n)
{
    syscall(SYS_futex, (unsigned *)word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Spins until the word equals `value`, or differs from it, depending on `equal`; returns false on timeout.
 * After a microsecond or two it yields between checks: on a busy machine the awaited thread is often on
 * this very CPU (a run then took 10 us instead of twice SPIN_NS). */
static bool spin(atomic_uint *word, unsigned value, bool equal, int spin_ns)
{
    if (spin_ns == 0) return (atomic_load_explicit(word, memory_order_acquire) == value) == equal;
    long long end = 0;
    do {
        for (int i = 0; i < 64; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) == value) == equal) return true;
            pause_cpu();
        }
        if (end == 0)
            end = ipu__clock_ns() + spin_ns;
        else
            sched_yield();
    } while (ipu__clock_ns() < end);
    return false;
}

/* ---- threads ---- */

/* No wake-up is lost: a sleeper first counts itself, and the kernel compares the word after that; whoever
 * changes the word checks the count after that (all sequentially consistent). */
static void wait_for_job(ipu__pool *pool, unsigned seen)
{
    if (spin(&pool->generation, seen, false, pool->spin_ns)) return;
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->generation) == seen) futex_wait(&pool->generation, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void finish_part(ipu__pool *pool)
{
    if (atomic_fetch_sub(&pool->remaining, 1) == 1 && atomic_load(&pool->caller_sleeps))
        futex_wake(&pool->remaining, 1);
}

/* Linux 6.18 has been seen to wake a thread on the CPU of its waker while others were idle, and to leave it
 * there, so that parts ran one after another. So move away by excluding this CPU for a moment; but not
 * often, since that takes some 10 us, and on a full machine there is nowhere to go. */
static void leave_cpu(int cpu, long long *last_left)
{
    cpu_set_t before, others;
    long long now = ipu__clock_ns();
    if (now - *last_left < LEAVE_NS || sched_getaffinity(0, sizeof before, &before) != 0) return;
    *last_left = now;
    others     = before;
    CPU_CLR(cpu, &others);
    if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof before, &before);
}

/* Whether this thread gets to run the part of `w` for that job. */
static bool take(worker *w, unsigned generation)
{
    unsigned before = generation - 1;
    return atomic_compare_exchange_strong(&w->taken, &before, generation);
}

static void *worker_main(void *arg)
{
    worker    *self      = arg;
    ipu__pool *pool      = self->pool;
    long long  last_left = 0;
    char       name[16];
    snprintf(name, sizeof name, "ipu-%d", self->part);
    pthread_setname_np(pthread_self(), name);
    for (unsigned seen = 0;;) {
        wait_for_job(pool, seen);
        seen = atomic_load(&pool->generation);
        /* After reading the generation: the last one, which follows `stop`, is not a job. */
        if (atomic_load(&pool->stop)) return NULL;
        /* Before taking the part: on the caller's own CPU this thread would always be too late. */
        int caller_cpu = atomic_load_explicit(&pool->caller_cpu, memory_order_relaxed);
        if (pool->spin_ns && caller_cpu == sched_getcpu()) leave_cpu(caller_cpu, &last_left);
        if (!take(self, seen)) continue; /* the caller took it, and may be jobs ahead */
        pool->job(pool->work, self->part, pool->n_threads);
        finish_part(pool);
    }
}

static void publish(ipu__pool *pool)
{
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers)) futex_wake(&pool->generation, INT_MAX);
}

static void wait_for_parts(ipu__pool *pool)
{
    if (spin(&pool->remaining, 0, true, pool->spin_ns)) return;
    atomic_store(&pool->caller_sleeps, 1);
    for (unsigned left; (left = atomic_load(&pool->remaining)) != 0;) futex_wait(&pool->remaining, left);
    atomic_store(&pool->caller_sleeps, 0);
}

/* Runs the parts that no thread has started. */
static void run_the_rest(ipu__pool *pool)
{
    unsigned generation = atomic_load_explicit(&pool->generation, memory_order_relaxed);
    for (int i = 0; i < pool->n_threads - 1; i++)
        if (take(&pool->workers[i], generation)) {
            pool->job(pool->work, pool->workers[i].part, pool->n_threads);
            finish_part(pool);
        }
}

static void run(ipu__pool *pool, ipu__job_fn job, void *work, bool each)
{
    if (pool->is_alone && !each) {
        for (int part = 0; part < pool->n_threads; part++) job(work, part, pool->n_threads);
        return;
    }
    if (pool->n_threads > 1) {
        pool->job  = job;
        pool->work = work;
        atomic_store_explicit(&pool->caller_cpu, sched_getcpu(), memory_order_relaxed);
        atomic_store_explicit(&pool->remaining, (unsigned)pool->n_threads - 1, memory_order_relaxed);
        publish(pool);
    }
    job(work, 0, pool->n_threads);
    if (pool->n_threads == 1) return;
    if (!each) run_the_rest(pool);
    wait_for_parts(pool);
}

void ipu__pool_run(ipu__pool *pool, ipu__job_fn job, void *work) { run(pool, job, work, false); }

void ipu__pool_set_alone(ipu__pool *pool, bool alone) { pool->is_alone = alone; }

void ipu__pool_run_each(ipu__pool *pool, ipu__job_fn job, void *work) { run(pool, job, work, true); }

/* ---- life ---- */

/* Stops and joins the first `n` workers. */
static void stop_workers(ipu__pool *pool, int n)
{
    atomic_store(&pool->stop, true);
    publish(pool);
    for (int i = 0; i < n; i++) pthread_join(pool->workers[i].thread, NULL);
}

/* Returns how many were started; if not all, *error says why. */
static int start_workers(ipu__pool *pool, int *error)
{
    pthread_attr_t attr;
    sigset_t       all, before;
    int            n = 0;
    *error           = pthread_attr_init(&attr);
    if (*error) return 0;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* threads inherit it */
    for (; n < pool->n_threads - 1; n++) {
        worker *w = &pool->workers[n];
        w->pool   = pool;
        w->part   = n + 1;
        *error    = pthread_create(&w->thread, &attr, worker_main, w);
        if (*error) break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return n;
}

ipu_status ipu__pool_create(int n_threads, ipu__pool **out)
{
    *out = NULL;
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return ipu__fail(IPU_INVALID, "threads: expected 1 to %d, found %d", MAX_THREADS, n_threads);
    ipu__pool *pool = ipu__alloc_pages(pool_bytes(n_threads));
    if (!pool) return ipu__fail_memory();
    pool->n_threads = n_threads;
    pool->spin_ns   = n_threads <= ipu__pool_default_threads() ? SPIN_NS : 0;
    pool->owner     = getpid();
    int error, n = start_workers(pool, &error);
    if (error) {
        stop_workers(pool, n);
        ipu__free_pages(pool, pool_bytes(n_threads));
        return ipu__fail(IPU_OUT_OF_MEMORY, "could not start thread %d of %d (%s): ask for fewer threads",
                         n + 2, n_threads, strerror(error));
    }
    *out = pool;
    return IPU_OK;
}

void ipu__pool_destroy(ipu__pool *pool)
{
    if (!pool) return;
    if (pool->owner == getpid()) stop_workers(pool, pool->n_threads - 1);
    ipu__free_pages(pool, pool_bytes(pool->n_threads));
}

int ipu__pool_n_threads(const ipu__pool *pool) { return pool->n_threads; }

/* ---- how many ---- */

/* Returns false if missing or unreadable. Reads as much as fits. Does not use file.c, which allocates. */
static bool read_small(const char *path, char *out, size_t bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t  n = 0;
    ssize_t got;
    while (n < bytes - 1 && (got = read(fd, out + n, bytes - 1 - n)) != 0) {
        if (got > 0)
            n += (size_t)got;
        else if (errno != EINTR)
            break;
    }
    close(fd);
    out[n] = 0;
    return n > 0;
}

static bool read_number(const char *folder, const char *name, long long *out)
{
    char path[PATH_MAX], text[64];
    snprintf(path, sizeof path, "%.*s/%s", PATH_MAX - 64, folder, name);
    return read_small(path, text, sizeof text) && sscanf(text, "%lld", out) == 1;
}

/* The number of CPUs one cgroup may use, rounded up; INT_MAX if there is no quota. */
static int folder_cpus(const char *folder)
{
    char      path[PATH_MAX], text[64];
    long long quota = -1, period = -1;
    snprintf(path, sizeof path, "%.*s/cpu.max", PATH_MAX - 64, folder);
    if (read_small(path, text, sizeof text)) { /* version 2: "200000 100000" or "max 100000" */
        if (sscanf(text, "%lld %lld", &quota, &period) != 2) return INT_MAX;
    } else if (!read_number(folder, "cpu.cfs_quota_us", &quota)
               || !read_number(folder, "cpu.cfs_period_us", &period)) {
        return INT_MAX;
    }
    if (quota <= 0 || period <= 0 || quota / period >= INT_MAX) return INT_MAX;
    return (int)(quota / period) + (quota % period != 0);
}

/* The smallest quota of a group and its ancestors. In a container the path may be the host's and not exist
 * here; the root always does. */
static int group_cpus(const char *root, const char *mount, const char *group)
{
    char folder[PATH_MAX];
    int  n = snprintf(folder, sizeof folder, "%s%s%s", root, mount, group), least = INT_MAX;
    if (n < 0 || (size_t)n >= sizeof folder) return INT_MAX;
    char *top = folder + strlen(root) + strlen(mount);
    for (;;) {
        int cpus = folder_cpus(folder);
        if (cpus < least) least = cpus;
        char *slash = strrchr(top, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

/* Whether the comma-separated list contains the controller "cpu". */
static bool lists_cpu(const char *list)
{
    for (;;) {
        size_t n = strcspn(list, ",");
        if (n == 3 && memcmp(list, "cpu", 3) == 0) return true;
        if (!list[n]) return false;
        list += n + 1;
    }
}

int ipu__pool_quota(const char *root, char *membership)
{
    int   least = INT_MAX;
    char *line, *rest = membership;
    while ((line = strsep(&rest, "\n")) != NULL) { /* "hierarchy:controllers:path" */
        char *id = strsep(&line, ":"), *controllers = strsep(&line, ":"), mount[64] = "";
        if (!line || (*controllers ? !lists_cpu(controllers) : strcmp(id, "0") != 0)) continue;
        if (*controllers) snprintf(mount, sizeof mount, "/%.60s", controllers);
        int cpus = group_cpus(root, mount, line);
        if (cpus < least) least = cpus;
    }
    return least;
}

int ipu__pool_default_threads(void)
{
    cpu_set_t set;
    char      membership[4096];
    bool      bound = sched_getaffinity(0, sizeof set, &set) == 0;
    long      n     = bound ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    if (n > MAX_THREADS) n = MAX_THREADS;
    if (read_small("/proc/self/cgroup", membership, sizeof membership)) {
        int quota = ipu__pool_quota("/sys/fs/cgroup", membership);
        if (quota < n) n = quota;
    }
    return n < 1 ? 1 : (int)n;
}

/* Two hundred processes race for the four IPUs of a hard partition: never two on one, each is served in
 * time, and those that are killed while they hold one leave nothing behind. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "device/sandbox_test.h"
#include "ipu/device.h"

enum { RACERS = 200, IPUS = 4, WAIT_SECONDS = 60, HOLD_NS = 4000000 };

/* Shared by all racers. */
typedef struct course {
    atomic_int on[IPUS]; /* who is on it; 0: nobody */
    atomic_int served, collisions, killed;
    atomic_int longest_ms;
} course;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void enter(course *c, int first, int n)
{
    for (int i = first; i < first + n; i++)
        if (atomic_exchange(&c->on[i], getpid()) != 0) atomic_fetch_add(&c->collisions, 1);
}

static void leave(course *c, int first, int n)
{
    for (int i = first; i < first + n; i++)
        if (atomic_exchange(&c->on[i], 0) != getpid()) atomic_fetch_add(&c->collisions, 1);
}

/* Most want one IPU, some two, some all of them. */
static void race(course *c, int number, int start)
{
    static const int first_of[] = {0, 1, 2, 3, 0, 2, 0}; /* by id of the device */
    int              n          = number % 20 == 7 ? 4 : number % 10 == 3 ? 2 : 1;
    ipu_device      *d;
    char             byte;
    if (read(start, &byte, 1) != 0) _exit(1);
    int64_t began = now_ms();
    if (ipu_device_open_any(n, &d) != IPU_OK || ipu_device_attach(d, WAIT_SECONDS) != IPU_OK) {
        fprintf(stderr, "%s\n", ipu_message());
        _exit(1);
    }
    int waited = (int)(now_ms() - began), before = atomic_load(&c->longest_ms);
    while (waited > before && !atomic_compare_exchange_weak(&c->longest_ms, &before, waited)) {}
    int first = first_of[ipu_device_id(d)];
    enter(c, first, n);
    atomic_fetch_add(&c->served, 1);
    nanosleep(&(struct timespec){0, HOLD_NS}, NULL);
    leave(c, first, n);
    if (number % 7 == 2) {
        atomic_fetch_add(&c->killed, 1);
        kill(getpid(), SIGKILL);
    }
    ipu_device_close(d);
    _exit(0);
}

static void assert_nothing_is_held(void)
{
    ipu_device_list *list;
    ipu_device      *d;
    assert_status(ipu_device_list_create(0, &list), IPU_OK);
    assert_int_equal(ipu_device_list_active(list)->n_processes, 0);
    ipu_device_list_destroy(list);
    assert_status(ipu_device_open_any(IPUS, &d), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_OK); /* nor does anyone stand in line */
    ipu_device_close(d);
}

static void racers_are_served_one_at_a_time_and_leave_nothing(void **state)
{
    (void)state;
    pid_t   racers[RACERS];
    int     start[2], failed = 0, killed = 0;
    course *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(c, MAP_FAILED);
    put_config("hard.conf", "{\"ipus\": 4}");
    assert_int_equal(pipe(start), 0);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = fork();
        if (racers[i] == 0) {
            close(start[1]);
            race(c, i, start[0]);
        }
        assert_true(racers[i] > 0);
    }
    close(start[1]); /* all at once */
    close(start[0]);
    for (int i = 0; i < RACERS; i++) {
        int status;
        assert_int_equal(waitpid(racers[i], &status, 0), racers[i]);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
            killed++;
        else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            failed++;
    }
    print_message("%d served, %d of them killed on the way out, the longest wait %d ms\n",
                  atomic_load(&c->served), killed, atomic_load(&c->longest_ms));
    assert_int_equal(failed, 0);
    assert_int_equal(atomic_load(&c->collisions), 0);
    assert_int_equal(atomic_load(&c->served), RACERS);
    assert_int_equal(killed, atomic_load(&c->killed));
    assert_true(killed > 20);
    assert_true(atomic_load(&c->longest_ms) < WAIT_SECONDS * 1000);
    assert_nothing_is_held();
    munmap(c, sizeof *c);
}

/* Those that wait are killed too: their places in the line must not stop those behind. */
static void killed_waiters_are_not_waited_for(void **state)
{
    (void)state;
    enum { WAITERS = 20 };
    pid_t       waiters[WAITERS];
    ipu_device *d;
    put_config("hard.conf", "{\"ipus\": 4}");
    assert_status(ipu_device_open_any(IPUS, &d), IPU_OK);
    assert_status(ipu_device_attach(d, 0), IPU_OK);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = fork();
        if (waiters[i] == 0) {
            ipu_device *own;
            if (ipu_device_open_any(1, &own) != IPU_OK) _exit(1);
            _exit(ipu_device_attach(own, WAIT_SECONDS) == IPU_OK ? 0 : 1);
        }
    }
    usleep(30000);
    for (int i = 0; i < WAITERS; i += 2) kill(waiters[i], SIGKILL);
    assert_status(ipu_device_detach(d), IPU_OK);
    for (int i = 0; i < WAITERS; i++) {
        int status;
        waitpid(waiters[i], &status, 0);
        if (i % 2) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ipu_device_close(d);
    assert_nothing_is_held();
}

/* Locks of POSIX do not keep threads of one process apart: that is ours to do. */
enum { THREADS = 8, TURNS = 25 };

static atomic_int on[IPUS], collisions;

static void *take_turns(void *unused)
{
    (void)unused;
    for (int i = 0; i < TURNS; i++) {
        ipu_device *d;
        if (ipu_device_open_any(1, &d) != IPU_OK || ipu_device_attach(d, WAIT_SECONDS) != IPU_OK)
            return "failed";
        int id = ipu_device_id(d);
        if (atomic_exchange(&on[id], 1) != 0) atomic_fetch_add(&collisions, 1);
        nanosleep(&(struct timespec){0, 200000}, NULL);
        atomic_store(&on[id], 0);
        ipu_device_close(d);
    }
    return NULL;
}

static void threads_of_one_process_take_turns(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    put_config("hard.conf", "{\"ipus\": 4}");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    assert_int_equal(atomic_load(&collisions), 0);
    assert_nothing_is_held();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SANDBOXED(racers_are_served_one_at_a_time_and_leave_nothing),
        SANDBOXED(threads_of_one_process_take_turns),
        SANDBOXED(killed_waiters_are_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Training killed at random moments and gone on with: the end has the bits of an uninterrupted one, and whenever it was
 * killed the newest checkpoint could be read. And sixteen at once. IPU_TEST_COUNT: kills, 200 unless told. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "random.h"
#include "tiny_training.h"

enum { N_RUNS = 30, KEEP = 2, KILLS = 200 };

/* Of one test: its checkpoints and the cache that all of its processes share. */
static char box[] = "/tmp/ipu-crash-test-XXXXXX";
static char folder[64], cache[64], devices[64], warning[1024];

static const tiny_options options = {.how       = {.device_iterations = 2, .gradient_accumulation = 2},
                                     .training  = {.optimizer = {.kind = IPU_NN_ADAM}},
                                     .n_workers = 2};

static void note_warning(void *user, ipu_log_level level, const char *module, const char *text)
{
    (void)user, (void)level, (void)module;
    snprintf(warning, sizeof warning, "%s", text);
}

static int make_box(void **state)
{
    (void)state;
    if (!mkdtemp(box)) return -1;
    snprintf(folder, sizeof folder, "%s/checkpoints", box);
    snprintf(cache, sizeof cache, "%s/cache", box);
    ipu_log_set(IPU_LOG_WARN, note_warning, NULL);
    snprintf(devices, sizeof devices, "%s/run", box);
    return setenv("IPU_CACHE_DIR", cache, 1) + setenv("IPU_RUNTIME_DIR", devices, 1);
}

static void remove_tree(const char *path)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command) != 0) fail_msg("%s", command);
}

static int remove_box(void **state)
{
    (void)state;
    remove_tree(box);
    return 0;
}

/* ---- the process that trains ---- */

static bool save(ipu_checkpoint_store *store, tiny_training *t)
{
    ipu_checkpoint c;
    if (!tiny_get(t, &c)) return false;
    bool ok = ipu_checkpoint_save(store, &c) == IPU_OK;
    if (!ok) fprintf(stderr, "%s\n", ipu_message());
    ipu_checkpoint_free(&c);
    return ok;
}

/* Goes on from the last checkpoint to the end, with one after every so many runs. */
static int train(int64_t every)
{
    ipu_checkpoint_store *store;
    ipu_checkpoint        c;
    tiny_training         t;
    if (ipu_checkpoint_store_open(folder, KEEP, &store) != IPU_OK || !tiny_begin(&t, &options)) return 1;
    ipu_status found = ipu_checkpoint_load_last(store, &c);
    if (found == IPU_OK && !tiny_set(&t, &c)) return 2;
    if (found != IPU_OK && found != IPU_NOT_FOUND) return 3;
    ipu_checkpoint_free(&c);
    while (t.step < N_RUNS)
        if (!tiny_run(&t, every) || !save(store, &t)) return 4;
    tiny_end(&t);
    ipu_checkpoint_store_close(store);
    return warning[0] ? 5 : 0;
}

static pid_t start(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(train(1));
    return pid;
}

/* ---- the test ---- */

/* Fails unless the newest checkpoint, if there is one, is whole. */
static ipu_checkpoint read_last(void)
{
    ipu_checkpoint_store *store;
    ipu_checkpoint        c;
    if (ipu_checkpoint_store_open(folder, KEEP, &store) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_status status = ipu_checkpoint_load_last(store, &c);
    if (status != IPU_OK && status != IPU_NOT_FOUND) fail_msg("%s", ipu_message());
    if (warning[0]) fail_msg("%s", warning);
    ipu_checkpoint_store_close(store);
    return c;
}

/* Trains to its end, killed again and again, `most_us` after its start at the latest. Returns the number of kills. */
static int train_and_kill(test_random *random, int64_t most_us, int most_kills, ipu_checkpoint *last)
{
    int status, n = 0;
    *last = (ipu_checkpoint){0};
    remove_tree(folder);
    while (last->step < N_RUNS) {
        int64_t before = last->step;
        pid_t   pid    = start();
        if (n < most_kills) {
            usleep((useconds_t)random_in(random, 0, most_us));
            kill(pid, SIGKILL);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status) && status != 0) fail_msg("training ended with %d", WEXITSTATUS(status));
        n += WIFSIGNALED(status);
        ipu_checkpoint_free(last);
        *last = read_last();
        assert_true(last->step >= before);
    }
    return n;
}

/* Microseconds of a training without kills, which it leaves behind. */
static int64_t time_of_one(void)
{
    struct timespec t0, t1;
    int             status;
    remove_tree(folder);
    clock_gettime(CLOCK_MONOTONIC, &t0);
    pid_t pid = start();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    assert_int_equal(status, 0);
    return (t1.tv_sec - t0.tv_sec) * 1000000 + (t1.tv_nsec - t0.tv_nsec) / 1000;
}

static void killed_at_200_moments_it_ends_with_the_same_bits(void **state)
{
    (void)state;
    test_random    random = {test_seed(1)};
    int            kills = test_count(KILLS), done = 0, ends = 0;
    ipu_checkpoint expected, found;
    time_of_one(); /* fills the cache */
    int64_t us = time_of_one();
    expected   = read_last();
    assert_int_equal(expected.step, N_RUNS);
    for (; done < kills; ends++) {
        done += train_and_kill(&random, random_in(&random, us / 4, us / 2), kills - done, &found);
        assert_int_equal(found.position.epoch, expected.position.epoch);
        assert_int_equal(found.position.batch, expected.position.batch);
        if (!tiny_is_equal(&expected.state, &found.state)) fail_msg("after %d kills", done);
        ipu_checkpoint_free(&found);
    }
    print_message("one takes %.0f ms; %d kills, %d came to their end\n", (double)us / 1e3, done, ends);
    ipu_checkpoint_free(&expected);
}

/* All begin with an empty cache. */
static void sixteen_at_once_share_a_cache_and_give_the_same_bits(void **state)
{
    (void)state;
    enum { N = 16 };
    pid_t          pid[N];
    int            status;
    ipu_checkpoint first = {0};
    remove_tree(cache);
    for (int i = 0; i < N; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) snprintf(folder, sizeof folder, "%s/at once %d", box, i);
        if (pid[i] == 0) _exit(train(N_RUNS));
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < N; i++) {
        snprintf(folder, sizeof folder, "%s/at once %d", box, i);
        ipu_checkpoint found = read_last();
        assert_int_equal(found.step, N_RUNS);
        if (i > 0) assert_true(tiny_is_equal(&first.state, &found.state));
        if (i > 0) ipu_checkpoint_free(&found);
        if (i == 0) first = found;
    }
    ipu_checkpoint_free(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_200_moments_it_ends_with_the_same_bits),
        cmocka_unit_test(sixteen_at_once_share_a_cache_and_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, make_box, remove_box);
}

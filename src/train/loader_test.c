/* Loaders: what is in which batch, whatever the number of workers; epochs, the last batch, seeking, iterable
 * datasets, errors, slow datasets, destruction at any moment, forks, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/status.h"
#include "ipu/loader.h"

#define assert_ok(call)                                                 \
    do {                                                                \
        if ((call) != IPU_OK) fail_msg("%s: %s", #call, ipu_message()); \
    } while (0)

/* ---- datasets: sample i is {i, [i, 2 i, 3 i]} ---- */

typedef struct source {
    int64_t      n, at;
    atomic_llong fail_at; /* 0: never */
    int          delay_us;
    int64_t      rewound_to;
    atomic_long  calls;
    atomic_int   inside;
    bool         overlapped;
} source;

static void sleep_us(int us) { nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000l}, NULL); }

static ipu_status write_sample(source *s, int64_t i, void *const *fields)
{
    atomic_fetch_add(&s->calls, 1);
    if (s->delay_us) sleep_us(s->delay_us);
    if (i > 0 && i == atomic_load(&s->fail_at))
        return ipu__fail(IPU_IO, "sample %d is not to be had", (int)i);
    *(int32_t *)fields[0] = (int32_t)i;
    for (int k = 0; k < 3; k++) ((float *)fields[1])[k] = (float)(i * (k + 1));
    return IPU_OK;
}

static ipu_status get(void *user, int64_t i, void *const *fields) { return write_sample(user, i, fields); }

static ipu_status next(void *user, void *const *fields, bool *end)
{
    source *s = user;
    if (atomic_fetch_add(&s->inside, 1)) s->overlapped = true;
    ipu_status status = IPU_OK;
    if (s->at == s->n)
        *end = true;
    else
        status = write_sample(s, s->at++, fields);
    atomic_fetch_sub(&s->inside, 1);
    return status;
}

static ipu_status rewind_source(void *user, int64_t epoch)
{
    source *s     = user;
    s->at         = 0;
    s->rewound_to = epoch;
    return IPU_OK;
}

static const ipu_field fields[] = {{"number", IPU_INT32, {0}}, {"multiples", IPU_FLOAT, {1, {3}}}};

static ipu_dataset *make_mapped(source *s)
{
    ipu_dataset *d;
    assert_ok(ipu_dataset_create(fields, 2, s->n, (ipu_dataset_functions){.get = get}, s, &d));
    return d;
}

static ipu_dataset *make_iterable(source *s, int64_t told, bool with_rewind)
{
    ipu_dataset          *d;
    ipu_dataset_functions functions = {.next = next, .rewind = with_rewind ? rewind_source : NULL};
    assert_ok(ipu_dataset_create(fields, 2, told, functions, s, &d));
    return d;
}

static ipu_loader *make(ipu_dataset *d, const ipu_executor_options *how, ipu_loader_options options)
{
    ipu_loader *l;
    assert_ok(ipu_loader_create(d, how, &options, &l));
    return l;
}

/* Checks one batch against itself; its numbers go to `out`. */
static void check_batch(const ipu_batch *b, int64_t n, int32_t *out)
{
    assert_int_equal(b->n_arrays, 2);
    assert_int_equal(b->n_samples, n);
    assert_int_equal(b->arrays[0].type, IPU_INT32);
    assert_int_equal(b->arrays[0].shape.rank, 1);
    assert_int_equal(b->arrays[0].shape.dim[0], n);
    assert_int_equal(b->arrays[1].type, IPU_FLOAT);
    assert_int_equal(b->arrays[1].shape.rank, 2);
    assert_int_equal(b->arrays[1].shape.dim[0], n);
    assert_int_equal(b->arrays[1].shape.dim[1], 3);
    assert_int_equal((uintptr_t)b->arrays[1].data % 64, 0);
    for (int64_t i = 0; i < n; i++) {
        out[i] = ((const int32_t *)b->arrays[0].data)[i];
        for (int k = 0; k < 3; k++)
            assert_true(((const float *)b->arrays[1].data)[3 * i + k] == (float)out[i] * (float)(k + 1));
    }
}

/* The numbers of an epoch, one after the other; how many there were. */
static int64_t read_epoch(ipu_loader *l, int64_t epoch, int32_t *out)
{
    int64_t n = 0, index = 0;
    for (ipu_batch b; ipu_loader_next(l, &b); index++) {
        assert_int_equal(b.epoch, epoch);
        assert_int_equal(b.index, index);
        check_batch(&b, b.n_samples, out + n);
        n += b.n_samples;
    }
    assert_ok(ipu_loader_status(l));
    return n;
}

/* ---- what is in a batch ---- */

static void batches_hold_all_that_a_run_takes(void **state)
{
    (void)state;
    source               s   = {.n = 100};
    ipu_dataset         *d   = make_mapped(&s);
    ipu_executor_options how = {
        .device_iterations = 2, .replicas = 4, .input_group_size = 2, .gradient_accumulation = 3};
    ipu_loader *l = make(d, &how, (ipu_loader_options){.batch_size = 2});
    int32_t     numbers[100];
    ipu_batch   b;
    assert_int_equal(ipu_loader_combined_batch_size(l), 2 * 2 * (4 / 2) * 3);
    assert_int_equal(ipu_loader_n_batches(l), 4);
    for (int k = 0; k < 4; k++) {
        assert_true(ipu_loader_next(l, &b));
        check_batch(&b, 24, numbers);
        for (int i = 0; i < 24; i++) assert_int_equal(numbers[i], 24 * k + i);
    }
    assert_false(ipu_loader_next(l, &b));
    assert_null(b.arrays);
    ipu_loader_destroy(l);
    ipu_dataset_destroy(d);
}

static void the_defaults_are_single_samples_in_order(void **state)
{
    (void)state;
    source       s = {.n = 5};
    ipu_dataset *d = make_mapped(&s);
    ipu_loader  *l;
    int32_t      numbers[5];
    assert_ok(ipu_loader_create(d, NULL, NULL, &l));
    assert_int_equal(ipu_loader_combined_batch_size(l), 1);
    assert_int_equal(ipu_loader_n_batches(l), 5);
    assert_int_equal(read_epoch(l, 0, numbers), 5);
    for (int i = 0; i < 5; i++) assert_int_equal(numbers[i], i);
    ipu_loader_destroy(l);
    ipu_dataset_destroy(d);
}

static void the_last_short_batch_is_dropped_or_kept(void **state)
{
    (void)state;
    static const struct {
        int64_t n, batch_size;
        bool    keep_last;
        int64_t n_batches, n_read;
    } cases[] = {{10, 4, false, 2, 8},
                 {10, 4, true, 3, 10},
                 {8, 4, true, 2, 8},
                 {8, 4, false, 2, 8},
                 {3, 4, true, 1, 3}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int iterable = 0; iterable < 2; iterable++)
            for (int workers = -1; workers < 3; workers++) {
                source       s = {.n = cases[c].n};
                ipu_dataset *d = iterable ? make_iterable(&s, s.n, true) : make_mapped(&s);
                ipu_loader  *l = make(d, NULL,
                                      (ipu_loader_options){.batch_size = cases[c].batch_size,
                                                           .keep_last  = cases[c].keep_last,
                                                           .n_workers  = workers});
                assert_int_equal(ipu_loader_n_batches(l), cases[c].n_batches);
                for (int epoch = 0; epoch < 3; epoch++) {
                    int32_t numbers[10];
                    assert_int_equal(read_epoch(l, epoch, numbers), cases[c].n_read);
                    for (int i = 0; i < cases[c].n_read; i++) assert_int_equal(numbers[i], i);
                }
                ipu_loader_destroy(l);
                ipu_dataset_destroy(d);
            }
}

/* ---- order ---- */

enum { MANY = 211, EPOCHS = 3 };

static void read_shuffled(uint64_t seed, int64_t batch_size, int workers, int prefetch,
                          int32_t out[EPOCHS][MANY])
{
    source       s = {.n = MANY};
    ipu_dataset *d = make_mapped(&s);
    ipu_loader  *l = make(d, NULL,
                          (ipu_loader_options){.batch_size = batch_size,
                                               .shuffle    = true,
                                               .seed       = seed,
                                               .keep_last  = true,
                                               .n_workers  = workers,
                                               .prefetch   = prefetch});
    for (int e = 0; e < EPOCHS; e++) assert_int_equal(read_epoch(l, e, out[e]), MANY);
    ipu_loader_destroy(l);
    ipu_dataset_destroy(d);
}

static void the_order_depends_on_seed_and_epoch_only(void **state)
{
    (void)state;
    int32_t expected[EPOCHS][MANY], found[EPOCHS][MANY];
    read_shuffled(5, 8, -1, 0, expected);
    for (int e = 0; e < EPOCHS; e++) {
        bool seen[MANY] = {0};
        for (int i = 0; i < MANY; i++) seen[expected[e][i]] = true;
        for (int i = 0; i < MANY; i++) assert_true(seen[i]);
    }
    assert_memory_not_equal(expected[0], expected[1], sizeof *expected);
    for (int workers = 0; workers < 6; workers++)
        for (int prefetch = 0; prefetch < 8; prefetch += 3) {
            read_shuffled(5, 8, workers, prefetch, found);
            assert_memory_equal(found, expected, sizeof expected);
        }
    read_shuffled(5, 100, 2, 0, found); /* nor on how it is cut */
    assert_memory_equal(found, expected, sizeof expected);
    read_shuffled(6, 8, 1, 0, found);
    assert_memory_not_equal(found[0], expected[0], sizeof *expected);
}

static void a_thousand_epochs_of_a_tiny_set(void **state)
{
    (void)state;
    source       s = {.n = 3};
    ipu_dataset *d = make_mapped(&s);
    ipu_loader  *l = make(d, NULL, (ipu_loader_options){.batch_size = 2, .shuffle = true, .n_workers = 3});
    int          firsts[3] = {0};
    for (int e = 0; e < 1000; e++) {
        int32_t numbers[3];
        assert_int_equal(read_epoch(l, e, numbers), 2);
        firsts[numbers[0]]++;
    }
    for (int i = 0; i < 3; i++) assert_in_range(firsts[i], 233, 433); /* 333 +- 15 */
    assert_int_equal(ipu_loader_get_position(l).epoch, 1000);
    ipu_loader_destroy(l);
    ipu_dataset_destroy(d);
}

/* ---- seeking ---- */

static void goes_on_from_any_place_as_if_it_had_come_there(bool iterable, int workers)
{
    enum { N = 23, BATCH = 4, PER_EPOCH = 6, TICKETS = 2 * (PER_EPOCH + 1) };
    source             s = {.n = N};
    ipu_dataset       *d = iterable ? make_iterable(&s, -1, true) : make_mapped(&s);
    ipu_loader_options o = {
        .batch_size = BATCH, .shuffle = !iterable, .keep_last = true, .n_workers = workers};
    ipu_loader         *l = make(d, NULL, o);
    ipu_loader_position places[TICKETS];
    int32_t             expected[TICKETS][BATCH], found[BATCH];
    int64_t             lengths[TICKETS];
    ipu_batch           b;
    for (int t = 0; t < TICKETS; t++) {
        places[t]  = ipu_loader_get_position(l);
        lengths[t] = ipu_loader_next(l, &b) ? b.n_samples : 0;
        if (lengths[t]) check_batch(&b, lengths[t], expected[t]);
    }
    assert_int_equal(places[PER_EPOCH].epoch, 0);
    assert_int_equal(places[PER_EPOCH].batch, PER_EPOCH);
    assert_int_equal(places[PER_EPOCH + 1].epoch, 1);
    assert_int_equal(places[PER_EPOCH + 1].batch, 0);
    for (int from = TICKETS - 1; from >= 0; from--) {
        assert_ok(ipu_loader_seek(l, places[from]));
        for (int t = from; t < TICKETS; t++) {
            assert_int_equal(ipu_loader_get_position(l).epoch, places[t].epoch);
            assert_int_equal(ipu_loader_get_position(l).batch, places[t].batch);
            assert_int_equal(ipu_loader_next(l, &b), lengths[t] > 0);
            if (lengths[t]) check_batch(&b, lengths[t], found);
            assert_memory_equal(found, expected[t], (size_t)lengths[t] * sizeof *found);
        }
    }
    assert_ok(ipu_loader_status(l));
    ipu_loader_destroy(l);
    ipu_dataset_destroy(d);
}

static void seeking_leads_to_the_same_batches(void **state)
{
    (void)state;
    for (int iterable = 0; iterable < 2; iterable++)
        for (int workers = -1; workers < 4; workers++)
            goes_on_from_any_place_as_if_it_had_come_there(iterable, workers);
}

static void places_that_are_not_there_are_refused(void **state)
{
    (void)state;
    source       s = {.n = 10}, t = {.n = 10};
    ipu_dataset *d = make_mapped(&s), *e = make_iterable(&t, -1, true);
    ipu_loader  *l = make(d, NULL, (ipu_loader_options){.batch_size = 2});
    ipu_loader  *m = make(e, NULL, (ipu_loader_options){.batch_size = 2});
    int32_t      numbers[10];
    ipu_batch    b;
    assert_true(ipu_loader_next(l, &b));
    assert_int_equal(ipu_loader_seek(l, (ipu_loader_position){0, 6}), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "batch 6, but an epoch has 5"));
    assert_int_equal(ipu_loader_seek(l, (ipu_loader_position){-1, 0}), IPU_INVALID);
    assert_true(ipu_loader_next(l, &b)); /* nothing happened */
    assert_int_equal(b.index, 1);
    assert_int_equal(ipu_loader_seek(m, (ipu_loader_position){3, 6}), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "epoch 3 has 5"));
    assert_false(ipu_loader_next(m, &b));
    assert_int_equal(ipu_loader_status(m), IPU_INVALID);
    assert_ok(ipu_loader_seek(m, (ipu_loader_position){0, 0}));
    assert_int_equal(read_epoch(m, 0, numbers), 10);
    ipu_loader_destroy(l);
    ipu_loader_destroy(m);
    ipu_dataset_destroy(d);
    ipu_dataset_destroy(e);
}

/* ---- iterable datasets ---- */

static void an_iterable_set_has_one_reader(void **state)
{
    (void)state;
    source       s = {.n = 50};
    ipu_dataset *d = make_iterable(&s, -1, true);
    ipu_loader  *l = make(d, NULL, (ipu_loader_options){.batch_size = 3, .n_workers = 8, .prefetch = 8});
    int32_t      numbers[50];
    assert_int_equal(ipu_loader_n_batches(l), -1);
    for (int e = 0; e < 20; e++) assert_int_equal(read_epoch(l, e, numbers), 48);
    ipu_loader_destroy(l);
    assert_false(s.overlapped);
    assert_in_range(s.rewound_to, 19, 29);
    ipu_dataset_destroy(d);
}

static void without_rewind_there_is_no_going_back(void **state)
{
    (void)state;
    source       s = {.n = 6};
    ipu_dataset *d = make_iterable(&s, -1, false);
    ipu_loader  *l = make(d, NULL, (ipu_loader_options){.batch_size = 3, .n_workers = -1});
    ipu_batch    b;
    assert_ok(ipu_loader_seek(l, (ipu_loader_position){0, 1})); /* nothing was read yet */
    assert_true(ipu_loader_next(l, &b));
    assert_int_equal(((const int32_t *)b.arrays[0].data)[0], 3);
    assert_int_equal(ipu_loader_seek(l, (ipu_loader_position){0, 1}), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "rewind"));
    ipu_loader_destroy(l);
    ipu_dataset_destroy(d);
}

static void without_rewind_the_first_epoch_is_all(void **state)
{
    (void)state;
    for (int workers = -1; workers < 1; workers++) {
        source       s = {.n = 6};
        ipu_dataset *d = make_iterable(&s, -1, false);
        ipu_loader  *l = make(d, NULL, (ipu_loader_options){.batch_size = 3, .n_workers = workers});
        int32_t      numbers[6];
        ipu_batch    b;
        assert_int_equal(read_epoch(l, 0, numbers), 6); /* and that is no error yet */
        assert_false(ipu_loader_next(l, &b));
        assert_int_equal(ipu_loader_status(l), IPU_INVALID);
        assert_non_null(strstr(ipu_message(), "rewind"));
        ipu_loader_destroy(l);
        ipu_dataset_destroy(d);
    }
}

/* ---- errors ---- */

static void errors_of_the_dataset_come_in_their_place(void **state)
{
    (void)state;
    for (int iterable = 0; iterable < 2; iterable++)
        for (int workers = -1; workers < 4; workers++) {
            source       s = {.n = 20, .fail_at = 13};
            ipu_dataset *d = iterable ? make_iterable(&s, 20, true) : make_mapped(&s);
            ipu_loader  *l = make(d, NULL, (ipu_loader_options){.batch_size = 4, .n_workers = workers});
            ipu_batch    b;
            for (int i = 0; i < 3; i++) assert_true(ipu_loader_next(l, &b));
            assert_ok(ipu_loader_status(l));
            for (int i = 0; i < 2; i++) {
                assert_false(ipu_loader_next(l, &b));
                ipu__fail(IPU_INVALID, "something else");
                assert_int_equal(ipu_loader_status(l), IPU_IO);
                assert_string_equal(ipu_message(), "sample 13 is not to be had");
            }
            assert_int_equal(ipu_loader_get_position(l).batch, 3);
            atomic_store(&s.fail_at, 0);
            assert_ok(ipu_loader_seek(l, ipu_loader_get_position(l))); /* mended: it goes on */
            assert_true(ipu_loader_next(l, &b));
            assert_int_equal(((const int32_t *)b.arrays[0].data)[1], 13);
            ipu_loader_destroy(l);
            ipu_dataset_destroy(d);
        }
}

static void what_cannot_work_is_refused(void **state)
{
    (void)state;
    static const struct {
        int64_t              n;
        ipu_executor_options how;
        ipu_loader_options   options;
        const char          *says;
    } cases[] = {
        {10,
         {0},
         {.batch_size = 11},
         "no batch of 11 samples (batch_size 11 x 1 for one run of the executor) fits a "
         "dataset of 10"},
        {10, {.device_iterations = 6}, {.batch_size = 2}, "no batch of 12 samples (batch_size 2 x 6"},
        {0, {0}, {.keep_last = true}, "dataset of 0"},
        {10, {0}, {.batch_size = -1}, "batch_size"},
        {10, {0}, {.prefetch = -1}, "prefetch"},
        {10, {0}, {.n_workers = 100000}, "n_workers"},
        {10, {.replicas = 4, .input_group_size = 3}, {0}, "input_group_size"},
        {10, {.device_iterations = 1 << 20}, {.batch_size = INT64_MAX / 2}, "too many"},
        {10, {0}, {.batch_size = INT64_MAX / 2, .keep_last = true}, "more bytes than can be addressed"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        source       s = {.n = cases[c].n};
        ipu_dataset *d = make_mapped(&s);
        ipu_loader  *l;
        assert_int_equal(ipu_loader_create(d, &cases[c].how, &cases[c].options, &l), IPU_INVALID);
        assert_null(l);
        if (!strstr(ipu_message(), cases[c].says)) fail_msg("case %zu: %s", c, ipu_message());
        ipu_dataset_destroy(d);
    }
    source       s = {.n = 10};
    ipu_dataset *d = make_iterable(&s, 10, true);
    ipu_loader  *l;
    assert_int_equal(ipu_loader_create(d, NULL, &(ipu_loader_options){.shuffle = true}, &l), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "shuffle"));
    ipu_dataset_destroy(d);
}

/* ---- time ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The caller's work with batch `index` of four samples: 8 ms, and until a worker has made the one after it. */
static void work_on(const source *s, int64_t index, bool has_worker)
{
    sleep_us(8000);
    for (int i = 0; has_worker && index < 18 && i < 30000 && atomic_load(&s->calls) <= 4 * (index + 2); i++)
        sleep_us(1000);
}

/* Seconds waited for 20 batches of 4 ms each, used for 8 ms or more each. */
static double waited_for(bool iterable, int workers)
{
    source       s = {.n = 80, .delay_us = 1000};
    ipu_dataset *d = iterable ? make_iterable(&s, -1, true) : make_mapped(&s);
    ipu_loader  *l = make(d, NULL, (ipu_loader_options){.batch_size = 4, .n_workers = workers});
    ipu_batch    b;
    while (ipu_loader_next(l, &b)) work_on(&s, b.index, workers >= 0);
    assert_ok(ipu_loader_status(l));
    double waited = ipu_loader_waited(l);
    ipu_loader_destroy(l);
    ipu_dataset_destroy(d);
    return waited;
}

static void a_slow_dataset_is_hidden_behind_the_work(void **state)
{
    (void)state;
    for (int iterable = 0; iterable < 2; iterable++) {
        double alone = waited_for(iterable, -1);
        assert_true(alone > 0.08);
        double waited = waited_for(iterable, 0);
        for (int i = 0; i < 4 && waited >= alone / 2; i++)
            waited = waited_for(iterable, 0); /* a busy machine */
        assert_true(waited < alone / 2);
    }
}

static double time_of_16(int workers)
{
    source       s = {.n = 16, .delay_us = 10000};
    ipu_dataset *d = make_mapped(&s);
    ipu_loader  *l = make(d, NULL, (ipu_loader_options){.batch_size = 1, .n_workers = workers});
    int32_t      numbers[16];
    double       begin = now();
    assert_int_equal(read_epoch(l, 0, numbers), 16);
    double took = now() - begin;
    ipu_loader_destroy(l);
    ipu_dataset_destroy(d);
    return took;
}

static void workers_work_at_once(void **state)
{
    (void)state;
    bool faster = false; /* a fifth of the time, as the user makes some too; more on a busy machine */
    for (int i = 0; i < 5 && !faster; i++) faster = time_of_16(4) < time_of_16(-1) * 0.6;
    assert_true(faster);
}

/* When all is made ahead nothing is called any more, and the next epoch is begun before this one ends. */
static void workers_make_the_ring_full_and_sleep(void **state)
{
    (void)state;
    source       s = {.n = 4};
    ipu_dataset *d = make_mapped(&s);
    ipu_loader  *l = make(d, NULL, (ipu_loader_options){.batch_size = 2, .prefetch = 5, .n_workers = 1});
    ipu_batch    b;
    for (int i = 0; i < 30000 && atomic_load(&s.calls) < 8; i++) sleep_us(1000);
    sleep_us(20000);
    assert_int_equal(atomic_load(&s.calls), 8); /* of 6 tickets: 0.0 0.1 end 1.0 1.1 end */
    assert_true(ipu_loader_next(l, &b));
    ipu_loader_destroy(l);
    ipu_dataset_destroy(d);
}

static void destroyed_at_any_moment_it_ends_soon(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        source       s = {.n = 100000, .delay_us = 1000};
        ipu_dataset *d = i % 2 ? make_iterable(&s, -1, true) : make_mapped(&s);
        ipu_loader  *l = make(d, NULL, (ipu_loader_options){.batch_size = 100000, .n_workers = i % 4});
        sleep_us(i * 37);
        double begin = now();
        ipu_loader_destroy(l); /* in the middle of a batch that takes 100 s */
        assert_true(now() - begin < 20);
        ipu_dataset_destroy(d);
    }
    for (int i = 0; i < 200; i++) {
        source       s = {.n = 100000};
        ipu_dataset *d = make_mapped(&s);
        ipu_loader  *l = make(d, NULL,
                              (ipu_loader_options){.batch_size = 3, .n_workers = i % 4, .shuffle = true});
        ipu_batch    b;
        for (int k = 0; k < i; k++) assert_true(ipu_loader_next(l, &b));
        if (i % 3 == 0) assert_ok(ipu_loader_seek(l, (ipu_loader_position){i, i}));
        ipu_loader_destroy(l);
        ipu_dataset_destroy(d);
    }
    ipu_loader_destroy(NULL);
}

/* ---- forks, memory ---- */

static bool is_right_in_a_child(ipu_loader *l, ipu_loader *alone)
{
    ipu_batch b;
    bool      right = !ipu_loader_next(l, &b) && ipu_loader_status(l) == IPU_FORKED
              && ipu_loader_seek(l, (ipu_loader_position){0, 0}) == IPU_FORKED;
    ipu_loader_destroy(l);
    right = right && ipu_loader_next(alone, &b) && ((const int32_t *)b.arrays[0].data)[0] == 2;
    ipu_loader_destroy(alone);
    return right;
}

static void a_child_has_no_workers(void **state)
{
    (void)state;
    source       s = {.n = 100};
    ipu_dataset *d = make_mapped(&s);
    ipu_loader  *l = make(d, NULL, (ipu_loader_options){.batch_size = 2});
    ipu_loader  *m = make(d, NULL, (ipu_loader_options){.batch_size = 2, .n_workers = -1});
    ipu_batch    b;
    int          status;
    assert_true(ipu_loader_next(l, &b));
    assert_true(ipu_loader_next(m, &b));
    pid_t child = fork();
    if (child == 0) _exit(is_right_in_a_child(l, m) ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(ipu_loader_next(l, &b)); /* the parent has them still */
    ipu_loader_destroy(l);
    ipu_loader_destroy(m);
    ipu_dataset_destroy(d);
}

static struct {
    atomic_long n, live;
    long        refuse;
} heap;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        atomic_fetch_sub(&heap.live, ptr != NULL);
        free(ptr);
        return NULL;
    }
    if (atomic_fetch_add(&heap.n, 1) + 1 == heap.refuse) return NULL;
    void *p = realloc(ptr, new_bytes);
    if (p && !ptr) atomic_fetch_add(&heap.live, 1);
    return p;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    ipu__alloc_set(failing_alloc, NULL);
    source       s      = {.n = 10, .fail_at = 3};
    ipu_dataset *d      = make_mapped(&s);
    long         before = atomic_load(&heap.live), refused = 0;
    for (long i = 1;; i++) {
        ipu_loader *l;
        ipu_batch   b;
        heap.refuse = i;
        atomic_store(&heap.n, 0);
        ipu_status status = ipu_loader_create(d, NULL,
                                              &(ipu_loader_options){.shuffle = true, .n_workers = -1}, &l);
        if (status == IPU_OK) {
            while (ipu_loader_next(l, &b)) continue;
            assert_int_equal(ipu_loader_status(l), IPU_IO); /* perhaps without its sentence */
            ipu_loader_destroy(l);
        } else {
            assert_int_equal(status, IPU_OUT_OF_MEMORY);
            refused++;
        }
        assert_int_equal(atomic_load(&heap.live), before);
        if (atomic_load(&heap.n) < i) break;
    }
    heap.refuse = 0;
    ipu_dataset_destroy(d);
    ipu__alloc_set(NULL, NULL);
    assert_true(refused > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_hold_all_that_a_run_takes),
        cmocka_unit_test(the_defaults_are_single_samples_in_order),
        cmocka_unit_test(the_last_short_batch_is_dropped_or_kept),
        cmocka_unit_test(the_order_depends_on_seed_and_epoch_only),
        cmocka_unit_test(a_thousand_epochs_of_a_tiny_set),
        cmocka_unit_test(seeking_leads_to_the_same_batches),
        cmocka_unit_test(places_that_are_not_there_are_refused),
        cmocka_unit_test(an_iterable_set_has_one_reader),
        cmocka_unit_test(without_rewind_the_first_epoch_is_all),
        cmocka_unit_test(without_rewind_there_is_no_going_back),
        cmocka_unit_test(errors_of_the_dataset_come_in_their_place),
        cmocka_unit_test(what_cannot_work_is_refused),
        cmocka_unit_test(a_slow_dataset_is_hidden_behind_the_work),
        cmocka_unit_test(workers_work_at_once),
        cmocka_unit_test(workers_make_the_ring_full_and_sleep),
        cmocka_unit_test(destroyed_at_any_moment_it_ends_soon),
        cmocka_unit_test(a_child_has_no_workers),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

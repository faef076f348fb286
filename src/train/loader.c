/* Loaders: a ring of batches that workers fill in the order of their tickets. Who takes a ticket draws the
 * batch's samples under the lock, so that what is in a batch does not depend on who makes it. The end of an
 * epoch has a ticket of its own. */
#include "ipu/loader.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/host/clock.h"
#include "data/array.h"
#include "data/dataset.h"
#include "ipu/comm.h"
#include "train/shuffle.h"

enum {
    DEFAULT_PREFETCH = 3, /* poptorch.AsynchronousDataAccessor's buffer_size */
    MOST_PREFETCH    = 1 << 20,
    MOST_WORKERS     = 1024,
    LINE             = 64,
};

/* A batch that is made in less time than a thread is woken for it (base/host/pool.c) is made by its user. */
static const double CHEAP_SECONDS = 50e-6;

typedef enum slot_state { EMPTY, FILLING, READY, USED } slot_state;

typedef struct slot {
    slot_state state;
    int64_t    epoch, index;
    int64_t    n; /* samples; 0: the end of the epoch */
    int64_t   *order;
    ipu_array *arrays;
    ipu_status status;
    char      *message; /* of a status that is not OK. Owned; NULL: no memory was left for it */
} slot;

struct ipu_loader {
    ipu_dataset       *dataset;
    ipu_loader_options options;
    size_t             n_fields;
    size_t             bytes[IPU_MAX_FIELDS]; /* of one sample */
    int64_t            combined, n_samples, n_batches;
    int64_t            part, n_parts; /* this process, of how many; an iterable dataset is each one's own */
    int64_t            stride;        /* samples of one process that follow one another */
    bool               is_iterable;
    pid_t              owner;
    ipu__arena         arena;
    void              *memory; /* of all batches */
    size_t             memory_bytes;

    /* Of the thread that uses the loader. */
    ipu_loader_position position;
    uint64_t            taken;
    slot               *used; /* NULL: none */
    ipu_status          status;
    char               *message;
    double              waited;

    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t  work, done; /* workers wait for work, the user for something done */
    slot           *slots;
    uint64_t        n_slots, n_tickets;
    uint64_t        n_empty;
    int             n_filling, n_sleeping;
    bool            stop, is_paused;
    bool            is_broken;    /* an iterable dataset failed: nothing can come after */
    int64_t         epoch, index; /* of the next ticket */
    ipu__shuffle    shuffle;
    bool            at_end; /* an iterable dataset gave all of the epoch */
    double          cost;   /* of a batch, in seconds: a mean of the last ones */

    atomic_bool hurry; /* what is being made will be dropped */

    int       n_workers;
    pthread_t workers[];
};

/* ---- making a batch ---- */

static void keep_error(slot *s, ipu_status status)
{
    s->status  = status;
    s->message = ipu__strdup(ipu_message()); /* messages are their thread's */
}

static void set_length(const ipu_loader *l, slot *s, int64_t n)
{
    s->n = n;
    for (size_t f = 0; f < l->n_fields; f++) s->arrays[f].shape.dim[0] = n;
}

static void point_to(const ipu_loader *l, const slot *s, int64_t i, void **fields)
{
    for (size_t f = 0; f < l->n_fields; f++) fields[f] = (char *)s->arrays[f].data + (size_t)i * l->bytes[f];
}

static bool is_hurried(ipu_loader *l) { return atomic_load_explicit(&l->hurry, memory_order_relaxed); }

static ipu_status fill_mapped(ipu_loader *l, slot *s)
{
    void *fields[IPU_MAX_FIELDS];
    for (int64_t i = 0; i < s->n && !is_hurried(l); i++) {
        if (i + 2 < s->n) ipu__dataset_expect(l->dataset, s->order[i + 2]);
        point_to(l, s, i, fields);
        IPU_TRY(ipu_dataset_get(l->dataset, s->order[i], fields));
    }
    return IPU_OK;
}

/* The next samples of an iterable dataset, up to a batch of them. `at_end` is its one reader's. */
static ipu_status fill_iterable(ipu_loader *l, slot *s)
{
    void   *fields[IPU_MAX_FIELDS];
    int64_t n = 0;
    set_length(l, s, 0);
    if (s->index == 0) {
        l->at_end = false;
        IPU_TRY(ipu_dataset_rewind(l->dataset, s->epoch));
    }
    while (n < l->combined && !l->at_end && !is_hurried(l)) {
        point_to(l, s, n, fields);
        IPU_TRY(ipu_dataset_next(l->dataset, fields, &l->at_end));
        n += !l->at_end;
    }
    if (n == l->combined || l->options.keep_last) set_length(l, s, n);
    return IPU_OK;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* What goes into the batch of the next ticket. */
static void draw(ipu_loader *l, slot *s)
{
    s->epoch = l->epoch;
    s->index = l->index;
    if (l->is_iterable) return;
    int64_t first = l->index * l->combined * l->n_parts;
    set_length(l, s, l->index < l->n_batches ? least(l->combined, l->n_samples - first) : 0);
    if (l->options.shuffle && l->index == 0) ipu__shuffle_begin(&l->shuffle, l->epoch);
    for (int64_t i = 0, k = 0; i < s->n * l->n_parts; i++) {
        int64_t sample = l->options.shuffle ? ipu__shuffle_next(&l->shuffle) : first + i;
        if (i / l->stride % l->n_parts == l->part) s->order[k++] = sample;
    }
}

static void advance(ipu_loader *l, const slot *s)
{
    l->index = s->n ? s->index + 1 : 0;
    l->epoch = s->epoch + (s->n == 0);
}

static slot *slot_of(const ipu_loader *l, uint64_t ticket) { return &l->slots[ticket % l->n_slots]; }

/* Of an iterable dataset the place of a ticket is known only when the one before it is made. */
static bool can_make(const ipu_loader *l)
{
    return slot_of(l, l->n_tickets)->state == EMPTY && !l->is_paused && !l->is_broken
        && (!l->is_iterable || l->n_filling == 0);
}

/* Wakes a worker if one sleeps and there is work that is worth it. */
static void wake(ipu_loader *l)
{
    if (l->n_sleeping && can_make(l) && (l->is_iterable || l->cost > CHEAP_SECONDS))
        pthread_cond_signal(&l->work);
}

/* Makes the batch of the next ticket. With the lock, which it gives up meanwhile. */
static void make(ipu_loader *l)
{
    slot *s  = slot_of(l, l->n_tickets++);
    s->state = FILLING;
    l->n_empty--;
    l->n_filling++;
    draw(l, s);
    if (!l->is_iterable) advance(l, s);
    wake(l);
    pthread_mutex_unlock(&l->lock);
    double     begin  = ipu__clock_seconds();
    ipu_status status = l->is_iterable ? fill_iterable(l, s) : fill_mapped(l, s);
    if (status != IPU_OK) keep_error(s, status);
    double seconds = ipu__clock_seconds() - begin;
    pthread_mutex_lock(&l->lock);
    if (s->n) l->cost += (seconds - l->cost) / 8;
    if (l->is_iterable) {
        advance(l, s);
        l->is_broken = status != IPU_OK;
    }
    s->state = READY;
    l->n_filling--;
    pthread_cond_signal(&l->done);
}

static void *work(void *arg)
{
    ipu_loader *l = arg;
    pthread_setname_np(pthread_self(), "ipu-loader");
    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        if (can_make(l)) {
            make(l);
        } else {
            l->n_sleeping++;
            pthread_cond_wait(&l->work, &l->lock);
            l->n_sleeping--;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- taking one ---- */

static bool is_forked(const ipu_loader *l) { return l->n_workers && l->owner != getpid(); }

static ipu_status fail_forked(void)
{
    return ipu__fail(IPU_FORKED,
                     "the loader was made before a fork, by the parent process, and its workers are "
                     "not here: create one here, or one without workers (n_workers below 0)");
}

static void empty(ipu_loader *l, slot *s)
{
    ipu__free(s->message);
    s->message = NULL;
    s->status  = IPU_OK;
    s->state   = EMPTY;
    l->n_empty++;
}

/* The slot of the next ticket, when it is ready. Rather than wait for a worker to begin with it, the user of
 * a map-style dataset makes it. With the lock. */
static slot *take(ipu_loader *l)
{
    slot  *s     = slot_of(l, l->taken++);
    double begin = s->state == READY ? 0 : ipu__clock_seconds();
    /* For half a ring of work, not for each batch, while there is one to go on with. */
    if (s->state != READY || 2 * l->n_empty >= l->n_slots) wake(l);
    while (s->state != READY) {
        if (s->state == EMPTY && (!l->is_iterable || !l->n_workers) && can_make(l))
            make(l);
        else
            pthread_cond_wait(&l->done, &l->lock);
    }
    if (begin != 0) l->waited += ipu__clock_seconds() - begin;
    s->state = USED;
    return s;
}

bool ipu_loader_next(ipu_loader *l, ipu_batch *out)
{
    *out = (ipu_batch){0};
    if (l->status != IPU_OK || is_forked(l)) return false;
    pthread_mutex_lock(&l->lock);
    if (l->used) empty(l, l->used);
    slot *s = l->used = take(l);
    pthread_mutex_unlock(&l->lock);
    if (s->status != IPU_OK) {
        l->status  = s->status;
        l->message = s->message;
        s->message = NULL;
        return false;
    }
    if (s->n == 0) {
        l->position = (ipu_loader_position){s->epoch + 1, 0};
        return false;
    }
    l->position = (ipu_loader_position){s->epoch, s->index + 1};
    *out        = (ipu_batch){s->arrays, l->n_fields, s->n, s->epoch, s->index};
    return true;
}

ipu_status ipu_loader_status(const ipu_loader *l)
{
    if (is_forked(l)) return fail_forked();
    if (l->status == IPU_OK) return IPU_OK;
    return ipu__fail(l->status, "%s", l->message ? l->message : ipu_status_text(l->status));
}

int64_t ipu_loader_n_batches(const ipu_loader *l) { return l->n_batches; }

int64_t ipu_loader_combined_batch_size(const ipu_loader *l) { return l->combined; }

double ipu_loader_waited(const ipu_loader *l) { return l->waited; }

/* ---- going elsewhere ---- */

ipu_loader_position ipu_loader_get_position(const ipu_loader *l) { return l->position; }

static ipu_status check_position(const ipu_loader *l, ipu_loader_position p)
{
    if (p.epoch < 0 || p.batch < 0)
        return ipu__fail(IPU_INVALID,
                         "a loader's position: expected an epoch and a batch from 0 on, found %lld "
                         "and %lld",
                         (long long)p.epoch, (long long)p.batch);
    if (!l->is_iterable && p.batch > l->n_batches)
        return ipu__fail(IPU_INVALID,
                         "a loader's position: batch %lld, but an epoch has %lld: is it that of another "
                         "dataset or batch size?",
                         (long long)p.batch, (long long)l->n_batches);
    return IPU_OK;
}

/* Reads an iterable dataset up to there, into a slot that nobody uses. */
static ipu_status skip_to(ipu_loader *l, ipu_loader_position p)
{
    slot *s = &l->slots[0];
    for (int64_t i = 0; i < p.batch; i++) {
        s->epoch = p.epoch;
        s->index = i;
        IPU_TRY(fill_iterable(l, s));
        if (s->n == 0)
            return ipu__fail(IPU_INVALID, "a loader's position: batch %lld, but epoch %lld has %lld",
                             (long long)p.batch, (long long)p.epoch, (long long)i);
    }
    return IPU_OK;
}

/* Ends what workers make and empties all slots; they make no more until `is_paused` ends. With the lock. */
static void drop_all(ipu_loader *l)
{
    l->is_paused = true;
    atomic_store(&l->hurry, true);
    while (l->n_filling) pthread_cond_wait(&l->done, &l->lock);
    atomic_store(&l->hurry, false);
    for (uint64_t i = 0; i < l->n_slots; i++)
        if (l->slots[i].state != EMPTY) empty(l, &l->slots[i]);
    l->n_tickets = l->taken = 0;
    l->used                 = NULL;
    l->is_broken            = false;
    ipu__free(l->message);
    l->message = NULL;
    l->status  = IPU_OK;
}

static ipu_status go_to(ipu_loader *l, ipu_loader_position p)
{
    if (l->is_iterable) IPU_TRY(skip_to(l, p));
    if (l->options.shuffle) {
        ipu__shuffle_begin(&l->shuffle, p.epoch);
        for (int64_t i = least(p.batch * l->combined * l->n_parts, l->n_samples); i > 0; i--)
            ipu__shuffle_next(&l->shuffle);
    }
    l->position = p;
    l->epoch    = p.epoch;
    l->index    = p.batch;
    return IPU_OK;
}

ipu_status ipu_loader_seek(ipu_loader *l, ipu_loader_position position)
{
    if (is_forked(l)) return fail_forked();
    IPU_TRY(check_position(l, position));
    pthread_mutex_lock(&l->lock);
    drop_all(l);
    ipu_status status = go_to(l, position);
    if (status == IPU_OK) {
        l->is_paused = false;
        pthread_cond_broadcast(&l->work);
    } else {
        l->status  = status;
        l->message = ipu__strdup(ipu_message());
    }
    pthread_mutex_unlock(&l->lock);
    return status;
}

/* ---- life ---- */

static ipu_status check_options(ipu_loader_options *o, bool is_iterable)
{
    if (o->batch_size < 0)
        return ipu__fail(IPU_INVALID, "a loader's batch_size: expected 1 or more, found %lld",
                         (long long)o->batch_size);
    if (o->prefetch < 0 || o->prefetch > MOST_PREFETCH)
        return ipu__fail(IPU_INVALID, "a loader's prefetch: expected 1 to %d, or 0 for the default, found %d",
                         MOST_PREFETCH, o->prefetch);
    if (o->n_workers > MOST_WORKERS)
        return ipu__fail(IPU_INVALID, "a loader's n_workers: expected at most %d, found %d", MOST_WORKERS,
                         o->n_workers);
    if (o->shuffle && is_iterable)
        return ipu__fail(IPU_INVALID,
                         "a loader cannot shuffle an iterable dataset, whose samples come in their own "
                         "order: expected shuffle false, or a dataset with `get`");
    if (o->batch_size == 0) o->batch_size = 1;
    if (o->n_workers == 0 || (o->n_workers > 0 && is_iterable)) o->n_workers = 1;
    if (o->prefetch == 0) o->prefetch = o->n_workers > DEFAULT_PREFETCH ? o->n_workers : DEFAULT_PREFETCH;
    if (o->n_workers < 0) o->prefetch = o->n_workers = 0;
    if (o->n_workers > o->prefetch) o->n_workers = o->prefetch;
    return IPU_OK;
}

/* Replicas are innermost in a batch of all processes: of each accumulated batch this one has the samples of its own. */
static ipu_status divide(ipu_loader *l, const ipu_executor_options *how)
{
    l->n_parts = ipu_comm_size(how ? how->comm : NULL);
    l->part    = ipu_comm_rank(how ? how->comm : NULL);
    if (!how || l->n_parts == 1) return IPU_OK;
    int64_t replicas = how->replicas ? how->replicas : 1,
            group    = how->input_group_size ? how->input_group_size : 1;
    l->stride        = replicas / group * l->options.batch_size;
    if (l->options.keep_last)
        return ipu__fail(IPU_INVALID,
                         "a loader's keep_last: expected false where several processes train together: "
                         "each of them needs a whole batch");
    int64_t unused;
    if (!__builtin_mul_overflow(l->combined, l->n_parts, &unused)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "a loader's batch_size of %lld: too many samples over %lld processes",
                     (long long)l->options.batch_size, (long long)l->n_parts);
}

static ipu_status size_batches(ipu_loader *l, const ipu_executor_options *how)
{
    int64_t n = ipu_executor_options_n_batches(how), samples = l->n_samples;
    if (n == 0) return IPU_INVALID;
    if (__builtin_mul_overflow(n, l->options.batch_size, &l->combined))
        return ipu__fail(IPU_INVALID,
                         "a loader's batch_size of %lld, %lld times in a batch: too many samples",
                         (long long)l->options.batch_size, (long long)n);
    l->n_batches = -1;
    l->n_parts   = 1;
    l->stride    = l->combined;
    if (samples < 0) return IPU_OK;
    IPU_TRY(divide(l, how));
    int64_t all = l->combined * l->n_parts, per_run = n * l->n_parts;
    l->n_batches = samples / all + (l->options.keep_last && samples % all != 0);
    if (l->n_batches == 0)
        return ipu__fail(IPU_INVALID,
                         "no batch of %lld samples (batch_size %lld x %lld for one run of the executor) "
                         "fits a dataset of %lld: make it smaller%s",
                         (long long)all, (long long)l->options.batch_size, (long long)per_run,
                         (long long)samples, samples > 0 ? ", or keep the last, short one (keep_last)" : "");
    return IPU_OK;
}

/* Where the parts of a slot begin: its order, then its fields. The last one is where the next slot does. */
static ipu_status lay_out(const ipu_loader *l, size_t begins[IPU_MAX_FIELDS + 1])
{
    size_t at = 0;
    for (size_t f = 0; f <= l->n_fields; f++) {
        size_t one = f ? l->bytes[f - 1] : l->is_iterable ? 0 : sizeof(int64_t), bytes;
        if (f) begins[f - 1] = at;
        if (__builtin_mul_overflow(one, (size_t)l->combined, &bytes)
            || __builtin_add_overflow(at, (bytes / LINE + 1) * LINE, &at) || bytes > PTRDIFF_MAX)
            return ipu__fail(IPU_INVALID, "a batch of %lld samples has more bytes than can be addressed",
                             (long long)l->combined);
    }
    begins[l->n_fields] = at;
    return IPU_OK;
}

static ipu_status make_slots(ipu_loader *l)
{
    size_t begins[IPU_MAX_FIELDS + 1] = {0};
    IPU_TRY(lay_out(l, begins));
    if (__builtin_mul_overflow(begins[l->n_fields], (size_t)l->n_slots, &l->memory_bytes)
        || !(l->memory = ipu__alloc_pages(l->memory_bytes)))
        return ipu__fail_memory();
    l->slots = ipu__arena_alloc(&l->arena, l->n_slots * sizeof *l->slots);
    if (!l->slots) return ipu__fail_memory();
    for (uint64_t i = 0; i < l->n_slots; i++) {
        char      *at     = (char *)l->memory + i * begins[l->n_fields];
        ipu_array *arrays = ipu__arena_alloc(&l->arena, l->n_fields * sizeof *arrays);
        if (!arrays) return ipu__fail_memory();
        for (size_t f = 0; f < l->n_fields; f++) {
            const ipu_field *field = ipu_dataset_field_at(l->dataset, f);
            arrays[f] = (ipu_array){field->type, {.rank = field->shape.rank + 1}, at + begins[f]};
            for (int d = 0; d < field->shape.rank; d++) arrays[f].shape.dim[d + 1] = field->shape.dim[d];
        }
        l->slots[i] = (slot){.order = (int64_t *)(void *)at, .arrays = arrays};
    }
    l->n_empty = l->n_slots;
    return IPU_OK;
}

static ipu_status describe_fields(ipu_loader *l)
{
    l->n_fields = ipu_dataset_n_fields(l->dataset);
    for (size_t f = 0; f < l->n_fields; f++) {
        const ipu_field *field = ipu_dataset_field_at(l->dataset, f);
        if (field->shape.rank >= IPU_MAX_RANK)
            return ipu__fail(IPU_INVALID,
                             "field \"%s\" of the dataset has rank %d: expected at most %d, for a batch "
                             "has one dimension more",
                             field->name, field->shape.rank, IPU_MAX_RANK - 1);
        IPU_TRY(ipu__array_size(field->type, &field->shape, &l->bytes[f]));
    }
    return IPU_OK;
}

static ipu_status start_workers(ipu_loader *l, int n)
{
    sigset_t all, before;
    int      error = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* threads inherit it */
    while (l->n_workers < n && error == 0) {
        error = pthread_create(&l->workers[l->n_workers], NULL, work, l);
        l->n_workers += error == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return ipu__fail(IPU_OUT_OF_MEMORY, "could not start worker %d of %d of a loader (%s): ask for fewer",
                         l->n_workers + 1, n, strerror(error));
    return IPU_OK;
}

static ipu_status prepare(ipu_loader *l, const ipu_executor_options *how)
{
    IPU_TRY(describe_fields(l));
    IPU_TRY(size_batches(l, how));
    IPU_TRY(make_slots(l));
    if (l->options.shuffle) IPU_TRY(ipu__shuffle_create(l->n_samples, l->options.seed, &l->shuffle));
    return start_workers(l, l->options.n_workers);
}

ipu_status ipu_loader_create(ipu_dataset *dataset, const ipu_executor_options *how,
                             const ipu_loader_options *options, ipu_loader **out)
{
    ipu_loader_options o           = options ? *options : (ipu_loader_options){0};
    bool               is_iterable = ipu_dataset_is_iterable(dataset);
    *out                           = NULL;
    IPU_TRY(check_options(&o, is_iterable));
    size_t      bytes = sizeof(ipu_loader) + (size_t)o.n_workers * sizeof(pthread_t);
    ipu_loader *l     = ipu__alloc_zeroed(bytes);
    if (!l) return ipu__fail_memory();
    l->dataset     = dataset;
    l->options     = o;
    l->is_iterable = is_iterable;
    l->n_samples   = ipu_dataset_n_samples(dataset);
    l->n_slots     = (uint64_t)o.prefetch + 1; /* one is in use */
    l->owner       = getpid();
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->done, NULL);
    ipu_status status = prepare(l, how);
    if (status == IPU_OK)
        *out = l;
    else
        ipu_loader_destroy(l);
    return status;
}

static void stop_workers(ipu_loader *l)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    atomic_store(&l->hurry, true);
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_workers; i++) pthread_join(l->workers[i], NULL);
}

void ipu_loader_destroy(ipu_loader *l)
{
    if (!l) return;
    if (!is_forked(l)) { /* a child has a copy of the lock, in whatever state it was */
        stop_workers(l);
        pthread_mutex_destroy(&l->lock);
        pthread_cond_destroy(&l->work);
        pthread_cond_destroy(&l->done);
    }
    for (uint64_t i = 0; l->slots && i < l->n_slots; i++) ipu__free(l->slots[i].message);
    ipu__free(l->message);
    ipu__shuffle_free(&l->shuffle);
    ipu__free_pages(l->memory, l->memory_bytes);
    ipu__arena_fini(&l->arena);
    ipu__free(l);
}

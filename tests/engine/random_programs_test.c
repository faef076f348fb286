/* Random programs on the engine against the interpreter of their text form, bit for bit.
 *
 * Each program is printed; the interpreter runs the text, engines with one and two threads run the graph,
 * the second from a saved executable.
 * After every run, all that the host can see must agree wherever the interpreter knows a value: host
 * tensors, streams, remote buffers, what was printed, and the status.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/interp.h"
#include "support/random_program.h"

enum {
    N_ENGINES      = 2,
    N_RUNS         = 6,
    MAX_REPLICAS   = 4,
    TRANSFER_BYTES = RP_MAX_TRANSFER * 8,
    MAX_PRINTED    = 4000
};

/* One end of one stream on one replica: how many transfers there were, and all that came out. */
typedef struct channel {
    const rp_stream *stream;
    int64_t          replica, count;
    uint8_t         *data;
    bool            *defined; /* by byte; the interpreter's only */
    size_t           bytes;
    uint8_t          ring[3 * TRANSFER_BYTES];
} channel;

typedef struct side { /* one engine, or the interpreter */
    channel channels[RP_MAX_STREAMS][MAX_REPLICAS];
    char   *printed[MAX_PRINTED];
    size_t  n_printed;
} side;

typedef struct trial {
    uint64_t       seed;
    random_program rp;
    char          *text;
    interp        *it;
    ipu_engine    *engines[N_ENGINES];
    side           sides[N_ENGINES + 1]; /* the last is the interpreter's */
    int            run;
} trial;

__attribute__((format(printf, 2, 3))) static void fail_trial(const trial *t, const char *format, ...)
{
    char    what[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const char *dump = getenv("IPU_TEST_DUMP");
    if (dump && *dump && t->text) fputs(t->text, stderr);
    fail_msg("run %d: %s\nIPU_TEST_SEED=%llu IPU_TEST_COUNT=1 (IPU_TEST_DUMP=1 shows the program)", t->run,
             what, (unsigned long long)t->seed);
}

/* ---- streams ---- */

static size_t transfer_bytes(const rp_stream *s) { return (size_t)s->n_elements * ipu_type_size(s->type); }

/* What transfer number `count` brings: a function of stream, replica and number, so that both sides see the
 * same. A ring comes round again. */
static void fill_transfer(const rp_stream *s, int64_t replica, int64_t count, void *data)
{
    uint64_t number = (uint64_t)(s->ring ? count % s->ring : count);
    uint64_t key    = number * 1000003u + (uint64_t)replica * 7919u + (uint64_t)s->handle[1] * 131u;
    random_values(key, s->type, s->n_elements, data);
}

static void take_transfer(channel *c, const void *data, const bool *defined)
{
    size_t n = transfer_bytes(c->stream), size = ipu_type_size(c->stream->type);
    c->data    = realloc(c->data, c->bytes + n + 1);
    c->defined = realloc(c->defined, c->bytes + n + 1);
    assert_true(c->data && c->defined);
    if (n) memcpy(c->data + c->bytes, data, n);
    for (size_t i = 0; i < n; i++) c->defined[c->bytes + i] = !defined || defined[i / size];
    c->bytes += n;
}

static ipu_status on_transfer(void *user, void *data, size_t bytes)
{
    channel *c = user;
    if (bytes != transfer_bytes(c->stream)) return IPU_INVALID;
    if (c->stream->to_device)
        fill_transfer(c->stream, c->replica, c->count, data);
    else
        take_transfer(c, data, NULL);
    c->count++;
    return IPU_OK;
}

static ipu_status on_interp_transfer(void *user, const char *handle, int64_t replica, void *data,
                                     size_t bytes, const bool *defined)
{
    side *s = user;
    int   i = 0;
    while (strcmp(s->channels[i][0].stream->handle, handle) != 0) i++;
    channel *c = &s->channels[i][replica];
    if (bytes != transfer_bytes(c->stream)) return IPU_INVALID;
    if (c->stream->to_device)
        fill_transfer(c->stream, replica, c->count, data);
    else
        take_transfer(c, data, defined);
    c->count++;
    return IPU_OK;
}

static void connect_channel(trial *t, ipu_engine *e, channel *c)
{
    const rp_stream *s     = c->stream;
    size_t           bytes = transfer_bytes(s) * (size_t)s->ring;
    for (int64_t k = 0; s->to_device && k < s->ring; k++)
        fill_transfer(s, c->replica, k, c->ring + transfer_bytes(s) * (size_t)k);
    ipu_status status = s->ring
                          ? ipu_engine_connect_stream_replica(e, s->handle, c->replica, c->ring, bytes)
                          : ipu_engine_connect_callback_replica(e, s->handle, c->replica, on_transfer, c);
    if (s->broadcast || t->rp.replication == 1)
        status = s->ring ? ipu_engine_connect_stream(e, s->handle, c->ring, bytes)
                         : ipu_engine_connect_callback(e, s->handle, on_transfer, c);
    if (status != IPU_OK) fail_trial(t, "connecting %s: %s", s->handle, ipu_message());
}

static void init_channels(trial *t)
{
    for (int k = 0; k <= N_ENGINES; k++)
        for (int i = 0; i < t->rp.n_streams; i++)
            for (int64_t r = 0; r < t->rp.replication; r++) {
                channel *c = &t->sides[k].channels[i][r];
                c->stream  = &t->rp.streams[i];
                c->replica = r;
                if (k < N_ENGINES && (r == 0 || !c->stream->broadcast)) connect_channel(t, t->engines[k], c);
            }
    interp_connect(t->it, on_interp_transfer, &t->sides[N_ENGINES]);
}

/* ---- comparing ---- */

static void compare(const trial *t, const char *what, int64_t replica, int engine, const void *found,
                    const void *expected, const bool *defined, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *a = (const uint8_t *)found + (size_t)i * size,
                      *b = (const uint8_t *)expected + (size_t)i * size;
        if (!defined[i] || memcmp(a, b, size) == 0) continue;
        uint64_t x = 0, y = 0;
        memcpy(&x, a, size);
        memcpy(&y, b, size);
        fail_trial(t, "engine %d: %s of replica %lld: element %lld is 0x%llx, expected 0x%llx", engine, what,
                   (long long)replica, (long long)i, (unsigned long long)x, (unsigned long long)y);
    }
}

static void compare_handles(trial *t, int k)
{
    uint64_t found[RP_MAX_ELEMENTS], expected[RP_MAX_ELEMENTS];
    bool     defined[RP_MAX_ELEMENTS];
    for (int i = 0; i < t->rp.n_handles; i++) {
        const rp_handle *h = &t->rp.handles[i];
        for (int64_t r = 0; !h->is_write && r < t->rp.replication; r++) {
            size_t bytes = (size_t)h->n_elements * ipu_type_size(h->type);
            if (ipu_engine_read_replica(t->engines[k], h->handle, r, found, bytes) != IPU_OK)
                fail_trial(t, "reading %s: %s", h->handle, ipu_message());
            interp_read(t->it, h->handle, r, expected, defined);
            compare(t, h->handle, r, k, found, expected, defined, h->n_elements, ipu_type_size(h->type));
        }
    }
}

static void compare_remotes(trial *t, int k)
{
    uint64_t found[RP_MAX_ELEMENTS], expected[RP_MAX_ELEMENTS];
    bool     defined[RP_MAX_ELEMENTS];
    for (int i = 0; i < t->rp.n_remotes; i++) {
        const rp_remote *b     = &t->rp.remotes[i];
        size_t           bytes = (size_t)b->n_elements * ipu_type_size(b->type);
        for (int64_t at = 0; at < t->rp.replication * b->n_rows; at++) {
            int64_t r = at / b->n_rows, row = at % b->n_rows;
            if (ipu_engine_read_remote(t->engines[k], b->handle, r, row, found, bytes) != IPU_OK)
                fail_trial(t, "reading remote %s: %s", b->handle, ipu_message());
            interp_read_remote(t->it, b->handle, r, row, expected, defined);
            compare(t, b->handle, r, k, found, expected, defined, b->n_elements, ipu_type_size(b->type));
        }
    }
}

/* A ring holds the last transfers: put what the interpreter has taken where the engine's ring has it. */
static void compare_ring(trial *t, int k, const channel *found, const channel *expected)
{
    const rp_stream *s     = found->stream;
    size_t           bytes = transfer_bytes(s);
    for (int64_t n = expected->count - s->ring < 0 ? 0 : expected->count - s->ring; n < expected->count;
         n++) {
        const uint8_t *now = found->ring + bytes * (size_t)(n % s->ring);
        compare(t, s->handle, found->replica, k, now, expected->data + bytes * (size_t)n,
                expected->defined + bytes * (size_t)n, (int64_t)bytes, 1);
    }
}

static void compare_streams(trial *t, int k)
{
    for (int i = 0; i < t->rp.n_streams; i++)
        for (int64_t r = 0; r < t->rp.replication; r++) {
            const channel *found    = &t->sides[k].channels[i][r],
                          *expected = &t->sides[N_ENGINES].channels[i][r];
            const rp_stream *s      = found->stream;
            if (s->ring && !s->to_device) compare_ring(t, k, found, expected);
            if (s->ring) continue;
            if (found->count != expected->count)
                fail_trial(t, "engine %d: %s of replica %lld: %lld transfers, expected %lld", k, s->handle,
                           (long long)r, (long long)found->count, (long long)expected->count);
            compare(t, s->handle, r, k, found->data, expected->data, expected->defined, (int64_t)found->bytes,
                    1);
        }
}

static void compare_printed(trial *t, int k)
{
    const side *s = &t->sides[k];
    size_t      n = interp_n_printed(t->it);
    if (s->n_printed != n) fail_trial(t, "engine %d: %zu messages printed, expected %zu", k, s->n_printed, n);
    for (size_t i = 0; i < n; i++) {
        const char *expected = interp_printed(t->it, i);
        if (expected && strcmp(expected, s->printed[i]) != 0)
            fail_trial(t, "engine %d: printed\n%s\nexpected\n%s", k, s->printed[i], expected);
    }
}

static void keep_message(void *user, ipu_log_level level, const char *module, const char *text)
{
    (void)module;
    side *s = user;
    if (level == IPU_LOG_PRINT && s->n_printed < MAX_PRINTED) s->printed[s->n_printed++] = strdup(text);
}

/* ---- a trial ---- */

/* The same executable, by way of its file. Takes `exe`. */
static ipu_executable *saved_and_loaded(const trial *t, ipu_executable *exe)
{
    void           *data;
    size_t          bytes;
    ipu_executable *loaded;
    if (ipu_executable_serialise(exe, &data, &bytes) != IPU_OK) fail_trial(t, "saving: %s", ipu_message());
    ipu_executable_release(exe);
    if (ipu_executable_deserialise(data, bytes, random_program_codelets, random_program_n_codelets, NULL,
                                   &loaded)
        != IPU_OK)
        fail_trial(t, "loading: %s", ipu_message());
    ipu_free(data);
    return loaded;
}

static void create_engines(trial *t)
{
    ipu_executable *exe;
    if (ipu_graph_status(t->rp.graph) != IPU_OK)
        fail_trial(t, "building: %s", ipu_graph_message(t->rp.graph));
    if (ipu_graph_print(t->rp.graph, t->rp.programs, RP_N_PROGRAMS, 0, NULL, &t->text) != IPU_OK)
        fail_trial(t, "printing: %s", ipu_message());
    t->it = interp_create(t->text, strlen(t->text), random_program_codelets, random_program_n_codelets);
    if (!t->it) fail_trial(t, "parsing: %s", ipu_message());
    if (ipu_executable_compile(t->rp.graph, t->rp.programs, RP_N_PROGRAMS, NULL, &exe) != IPU_OK)
        fail_trial(t, "compiling: %s", ipu_message());
    ipu_graph_destroy(t->rp.graph);
    t->rp.graph = NULL;
    for (int k = 0; k < N_ENGINES; k++) {
        ipu_options *options;
        assert_int_equal(ipu_options_create(&options), IPU_OK);
        assert_int_equal(ipu_options_set(options, "threads", k ? "2" : "1"), IPU_OK);
        if (k == 1) exe = saved_and_loaded(t, exe);
        if (ipu_engine_create(exe, options, &t->engines[k]) != IPU_OK)
            fail_trial(t, "creating: %s", ipu_message());
        ipu_options_destroy(options);
    }
    ipu_executable_release(exe);
    init_channels(t);
}

static void write_from_host(trial *t)
{
    uint64_t data[RP_MAX_ELEMENTS];
    for (int i = 0; i < t->rp.n_handles; i++) {
        const rp_handle *h = &t->rp.handles[i];
        if (!h->is_write || random_chance(&t->rp.random, 50)) continue;
        int64_t replica = random_in(&t->rp.random, -1, t->rp.replication - 1);
        size_t  bytes   = (size_t)h->n_elements * ipu_type_size(h->type);
        random_values(random_bits(&t->rp.random), h->type, h->n_elements, data);
        interp_write(t->it, h->handle, replica, data);
        for (int k = 0; k < N_ENGINES; k++) {
            ipu_status status = replica < 0
                                  ? ipu_engine_write(t->engines[k], h->handle, data, bytes)
                                  : ipu_engine_write_replica(t->engines[k], h->handle, replica, data, bytes);
            if (status != IPU_OK) fail_trial(t, "writing %s: %s", h->handle, ipu_message());
        }
    }
}

static void run_and_compare(trial *t)
{
    size_t program = (size_t)random_in(&t->rp.random, 0, RP_N_PROGRAMS - 1);
    write_from_host(t);
    ipu_status expected = interp_run(t->it, program);
    if (interp_lost(t->it)) fail_trial(t, "the generator made a program that decides by undefined values");
    for (int k = 0; k < N_ENGINES; k++) {
        ipu_log_set(IPU_LOG_PRINT, keep_message, &t->sides[k]);
        ipu_status status = ipu_engine_run(t->engines[k], program);
        ipu_log_set(IPU_LOG_OFF, NULL, NULL);
        if (status != expected)
            fail_trial(t, "engine %d: program %zu: status %d (%s), expected %d (%s)", k, program, status,
                       status ? ipu_message() : "", expected, expected ? interp_message(t->it) : "");
        compare_handles(t, k);
        compare_remotes(t, k);
        compare_streams(t, k);
        compare_printed(t, k);
    }
}

static void free_trial(trial *t)
{
    for (int k = 0; k <= N_ENGINES; k++) {
        for (size_t i = 0; i < t->sides[k].n_printed; i++) free(t->sides[k].printed[i]);
        for (int i = 0; i < RP_MAX_STREAMS; i++)
            for (int r = 0; r < MAX_REPLICAS; r++) {
                free(t->sides[k].channels[i][r].data);
                free(t->sides[k].channels[i][r].defined);
            }
        if (k < N_ENGINES) ipu_engine_destroy(t->engines[k]);
    }
    interp_destroy(t->it);
    ipu_free(t->text);
}

static void engines_agree_with_the_interpreter(void **state)
{
    (void)state;
    static trial t;
    uint64_t     seed = test_seed(1);
    for (int n = 0, count = test_count(300); n < count; n++) {
        memset(&t, 0, sizeof t);
        t.seed = seed + (uint64_t)n;
        random_program_create(&t.rp, t.seed);
        create_engines(&t);
        for (t.run = 0; t.run < N_RUNS; t.run++) run_and_compare(&t);
        free_trial(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(engines_agree_with_the_interpreter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

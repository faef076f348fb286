/* Checking mode on random programs against the interpreter, which knows what is defined.
 *
 * The engine must complain of a run exactly if the interpreter used a value that is not defined in it, of a host
 * read exactly if one of its elements is not, and otherwise compute the same.
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

enum { N_RUNS = 6, MAX_REPLICAS = 4 };

/* One end of a stream on a replica: transfers so far, and a hash of all that came out. */
typedef struct channel {
    const rp_stream *stream;
    int64_t          replica;
    uint64_t         count, hash;
} channel;

typedef struct trial {
    uint64_t       seed;
    random_program rp;
    char          *text;
    interp        *it;
    ipu_engine    *e;
    channel        engine[RP_MAX_STREAMS][MAX_REPLICAS], model[RP_MAX_STREAMS][MAX_REPLICAS];
    int            run;
} trial;

static int n_complete, n_refused, n_caught; /* runs */

__attribute__((format(printf, 2, 3))) static void fail_trial(const trial *t, const char *format, ...)
{
    char    what[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (getenv("IPU_TEST_DUMP") && t->text) fputs(t->text, stderr);
    fail_msg("run %d: %s\nIPU_TEST_SEED=%llu IPU_TEST_COUNT=1 (IPU_TEST_DUMP=1 shows the program)", t->run,
             what, (unsigned long long)t->seed);
}

/* ---- streams ---- */

static void move_transfer(channel *c, uint8_t *data, size_t bytes)
{
    uint64_t key = c->count++ * 1000003u + (uint64_t)c->replica * 7919u
                 + (uint64_t)c->stream->handle[1] * 131u;
    if (c->stream->to_device) random_values(key, c->stream->type, c->stream->n_elements, data);
    for (size_t i = 0; !c->stream->to_device && i < bytes; i++) c->hash = c->hash * 1099511628211u + data[i];
}

static ipu_status on_transfer(void *user, void *data, size_t bytes)
{
    move_transfer(user, data, bytes);
    return IPU_OK;
}

static ipu_status on_interp_transfer(void *user, const char *handle, int64_t replica, void *data,
                                     size_t bytes, const bool *defined)
{
    trial *t = user;
    int    i = 0;
    (void)defined;
    while (strcmp(t->rp.streams[i].handle, handle) != 0) i++;
    move_transfer(&t->model[i][replica], data, bytes);
    return IPU_OK;
}

static void connect(trial *t)
{
    for (int i = 0; i < t->rp.n_streams; i++)
        for (int64_t r = 0; r < t->rp.replication; r++) {
            const rp_stream *s = &t->rp.streams[i];
            t->engine[i][r] = t->model[i][r] = (channel){.stream = s, .replica = r};
            if (r > 0 && s->broadcast) continue;
            if (ipu_engine_connect_callback_replica(t->e, s->handle, r, on_transfer, &t->engine[i][r]))
                fail_trial(t, "connecting %s: %s", s->handle, ipu_message());
        }
    interp_connect(t->it, on_interp_transfer, t);
}

/* ---- a trial ---- */

static void create(trial *t, bool defined)
{
    ipu_executable *exe;
    ipu_options    *options;
    if (defined)
        random_program_create_defined(&t->rp, t->seed);
    else
        random_program_create(&t->rp, t->seed);
    assert_int_equal(ipu_graph_print(t->rp.graph, t->rp.programs, RP_N_PROGRAMS, 0, NULL, &t->text), IPU_OK);
    t->it = interp_create(t->text, strlen(t->text), random_program_codelets, random_program_n_codelets);
    assert_non_null(t->it);
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "check", "true"), IPU_OK);
    if (ipu_executable_compile(t->rp.graph, t->rp.programs, RP_N_PROGRAMS, options, &exe) != IPU_OK
        || ipu_engine_create(exe, options, &t->e) != IPU_OK)
        fail_trial(t, "compiling: %s", ipu_message());
    ipu_options_destroy(options);
    ipu_executable_release(exe);
    ipu_graph_destroy(t->rp.graph);
    connect(t);
}

static void destroy(trial *t)
{
    ipu_engine_destroy(t->e);
    interp_destroy(t->it);
    ipu_free(t->text);
}

static void write_from_host(trial *t)
{
    uint64_t data[RP_MAX_ELEMENTS];
    for (int i = 0; i < t->rp.n_handles; i++) {
        const rp_handle *h = &t->rp.handles[i];
        if (!h->is_write || random_chance(&t->rp.random, 50)) continue;
        int64_t replica = random_in(&t->rp.random, 0, t->rp.replication - 1);
        random_values(random_bits(&t->rp.random), h->type, h->n_elements, data);
        interp_write(t->it, h->handle, replica, data);
        if (ipu_engine_write_replica(t->e, h->handle, replica, data,
                                     (size_t)h->n_elements * ipu_type_size(h->type)))
            fail_trial(t, "writing %s: %s", h->handle, ipu_message());
    }
}

static void compare(const trial *t, const char *what, ipu_status status, const void *found,
                    const void *expected, const bool *defined, int64_t n, size_t size)
{
    bool all = true;
    for (int64_t i = 0; i < n; i++) all = all && defined[i];
    if (status != (all ? IPU_OK : IPU_INVALID))
        fail_trial(t, "%s: status %d (%s), but its elements are %sdefined", what, (int)status,
                   status ? ipu_message() : "", all ? "" : "not all ");
    if (all && memcmp(found, expected, (size_t)n * size) != 0) fail_trial(t, "%s: other values", what);
}

static void compare_all(trial *t)
{
    uint64_t found[RP_MAX_ELEMENTS], expected[RP_MAX_ELEMENTS];
    bool     defined[RP_MAX_ELEMENTS];
    for (int64_t r = 0; r < t->rp.replication; r++) {
        for (int i = 0; i < t->rp.n_handles; i++) {
            const rp_handle *h    = &t->rp.handles[i];
            size_t           size = ipu_type_size(h->type);
            if (h->is_write) continue;
            ipu_status status = ipu_engine_read_replica(t->e, h->handle, r, found,
                                                        (size_t)h->n_elements * size);
            interp_read(t->it, h->handle, r, expected, defined);
            compare(t, h->handle, status, found, expected, defined, h->n_elements, size);
        }
        for (int i = 0; i < t->rp.n_remotes; i++)
            for (int64_t row = 0; row < t->rp.remotes[i].n_rows; row++) {
                const rp_remote *b      = &t->rp.remotes[i];
                size_t           size   = ipu_type_size(b->type);
                ipu_status       status = ipu_engine_read_remote(t->e, b->handle, r, row, found,
                                                                 (size_t)b->n_elements * size);
                interp_read_remote(t->it, b->handle, r, row, expected, defined);
                compare(t, b->handle, status, found, expected, defined, b->n_elements, size);
            }
        for (int i = 0; i < t->rp.n_streams; i++)
            if (t->engine[i][r].hash != t->model[i][r].hash) fail_trial(t, "stream %d: other values", i);
    }
}

/* False: the states differ from here on. */
static bool run_and_compare(trial *t)
{
    size_t program = (size_t)random_in(&t->rp.random, 0, RP_N_PROGRAMS - 1);
    write_from_host(t);
    ipu_status expected = interp_run(t->it, program), status = ipu_engine_run(t->e, program);
    if (interp_undefined(t->it)) {
        n_refused++;
        if (status != IPU_ABORTED || !strstr(ipu_message(), "which nothing has written"))
            fail_trial(t, "a value that is not defined was used, but the status is %d: %s", (int)status,
                       status ? ipu_message() : "");
        if (t->rp.defined) fail_trial(t, "the generator made a program that uses undefined values");
        return false;
    }
    n_complete++;
    if (status != expected)
        fail_trial(t, "program %zu: status %d (%s), expected %d", program, (int)status,
                   status ? ipu_message() : "", (int)expected);
    if (expected == IPU_OK) compare_all(t);
    return expected == IPU_OK;
}

static void findings_are_those_of_the_interpreter(void **state)
{
    (void)state;
    static trial t;
    uint64_t     seed  = test_seed(1);
    int          count = test_count(400);
    for (int n = 0; n < count; n++) {
        memset(&t, 0, sizeof t);
        t.seed = seed + (uint64_t)n;
        create(&t, t.seed % 2);
        for (t.run = 0; t.run < N_RUNS && run_and_compare(&t); t.run++)
            ;
        destroy(&t);
    }
    if (count < 400) return; /* else both kinds must have been there */
    assert_true(n_complete > count);
    assert_true(n_refused > count / 8);
}

/* The engine's bodies make a mistake that the interpreter's do not; the run tells of it exactly if it
 * came to a vertex that makes it. */
static bool run_with_mistake(trial *t, rp_mistake mistake)
{
    static const char *const texts[][2] = {
        [RP_BLEND_PAST_END]    = {"vertex \"Blend\" of compute set",
                                  "field \"y\": writes outside: 1 element past"},
        [RP_COMBINE_WRITES_IN] = {"vertex \"Combine\" of", "field \"x\": writes to an in field"},
        [RP_BUMP_BEFORE_ROW]   = {"vertex \"Bump\" of", "field \"rows\": writes outside: 1 element before"}};
    size_t program = (size_t)random_in(&t->rp.random, 0, RP_N_PROGRAMS - 1);
    long   before  = atomic_load(&random_program_chances[mistake]);
    write_from_host(t);
    ipu_status expected    = interp_run(t->it, program);
    bool       made        = atomic_load(&random_program_chances[mistake]) > before;
    random_program_mistake = mistake;
    ipu_status status      = ipu_engine_run(t->e, program);
    random_program_mistake = RP_NO_MISTAKE;
    if (!made && status != expected)
        fail_trial(t, "status %d (%s), expected %d", (int)status, status ? ipu_message() : "", (int)expected);
    for (int i = 0; made && i < 2; i++)
        if (status != IPU_ABORTED || !strstr(ipu_message(), texts[mistake][i]))
            fail_trial(t, "mistake %d: status %d, expected \"%s\" in:\n%s", (int)mistake, (int)status,
                       texts[mistake][i], status ? ipu_message() : "");
    n_caught += made;
    return !made && expected == IPU_OK;
}

static void mistakes_of_bodies_are_found(void **state)
{
    (void)state;
    static trial t;
    uint64_t     seed  = test_seed(1);
    int          count = test_count(150);
    for (int n = 0; n < count; n++) {
        rp_mistake mistake = (rp_mistake)(1 + n % (RP_N_MISTAKES - 1));
        memset(&t, 0, sizeof t);
        t.seed = seed + (uint64_t)n;
        create(&t, true);
        for (t.run = 0; t.run < N_RUNS && run_with_mistake(&t, mistake); t.run++)
            ;
        destroy(&t);
    }
    if (count >= 150) assert_true(n_caught > count / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings_are_those_of_the_interpreter),
        cmocka_unit_test(mistakes_of_bodies_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

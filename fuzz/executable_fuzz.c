/* Executables from anyone: an image with some of its numbers changed and its hash made right again gives an
 * error or an executable that runs, and stays within its memory while it does. An input is a list of edits of
 * an image compiled here, so that the corpus outlives changes of the format. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "ipu/ipu.h"

#define BLEND(F)    \
    F(IN, float, a) \
    F(IN_VECTOR, float, x) F(INOUT_VECTOR, float, y) F(STATE, float, k) F(STATE_VECTOR, int, t)
IPU_VERTEX(Blend, BLEND)
{
    float sum = *v->a + v->k;
    for (size_t i = 0; i < v->x.size; i++) sum += v->x.data[i];
    for (size_t i = 0; i < v->t.size; i++) sum += (float)v->t.data[i];
    for (size_t i = 0; i < v->y.size; i++) v->y.data[i] += sum;
    return true;
}

#define ROWS(F) \
    F(IN_VECTORS, float, rows) F(OUT_VECTORS, float, out) F(OUT, int32_t, n) F(IN_POINTER, float, p)
IPU_MULTI_VERTEX(Rows, ROWS)
{
    size_t sum = 0;
    for (size_t r = worker; r < v->rows.size; r += n_workers)
        for (size_t i = 0; i < v->rows.data[r].size; i++) sum += v->rows.data[r].data[i] > 0;
    for (size_t r = worker; r < v->out.size; r += n_workers)
        for (size_t i = 0; i < v->out.data[r].size; i++) v->out.data[r].data[i] = (float)i;
    *v->n = (int32_t)sum;
    return true;
}

static const ipu_codelet *const known[] = {&Blend, &Rows};

static const char text[] =
    "graph target gc200 ipus 2 tiles 16 replication 2 {\n"
    "codelet Blend; codelet Rows;\n"
    "var x float[4,8] on 0; var y float[32] on 1; var rows uint32[2] on 0; var n int32 on 0; var b bool on 0;\n"
    "var m float[2,2] on 2; var l float[4,2] on 2; const c float[2,4] = {1,2,3,4,5,6,7,8} on 0; replication_index r on 0;\n"
    "init {y[0:4]}[4] = {1,2,3,4}; init n = {1};\n"
    "stream in \"i\" float 32 broadcast; stream in \"j\" float 32; stream out \"o\" float 32;\n"
    "remote \"buf\" float 16 rows 4;\n"
    "host_write \"y\" y; host_read \"z\" {x[0: 2*5, 3*1]}[6]; host_write \"b\" b; host_read \"n\" n;\n"
    "compute_set s {\n"
    "vertex Blend on 0 { a = {x[0]}, x = {x[8:8]}[8], y = {y[0: 8*2]}[8], k = 2, t = {1,2,3} }\n"
    "vertex Blend on 1 { a = {x[1]}, x = {c[0:4]}[4], y = {y[1: 4*2]}[4], k = 1, t = {} }\n"
    "vertex Rows on 1 { rows = [{x[8:8]}[8], {x[0: 4*2]}[4]], out = [{y[20:2]}[2], {y[25: 2*2]}[2]], n = n,"
    " p = {x[3:2]}[2] } }\n"
    "function f { copy {x[0:16]}[16] -> {y[16:16]}[16]; }\n"
    "function g { call f; execute s; }\n"
    "program { read \"i\" -> x; read \"j\" -> {y[0: 4*8, 8*1]}[32]; execute s; call g;\n"
    "remote_write {x[0:32]}[32] -> \"buf\" rows rows; remote_read \"buf\" -> {y[0: 16*2]}[16];\n"
    "kernel matmul (c, l, m); kernel fill (m) { value = 3 };\n"
    "repeat 3 { call f; kernel add ({y[0: 16*2]}[16], {y[0:16]}[16], {x[0:16]}[16]); }\n"
    "copy {x[0: 8*1, 4*8]}[8,4] -> {y[0:32]}[8,4]; write y -> \"o\"; print \"x\" x; abort_if b \"b\";\n"
    "cross_replica_copy {x[0:4]}[4] -> {y[0:4]}[4] {1, 0};\n"
    "switch n { case 1 { call f; } case -2 { error \"e\" x; } default { execute s; } } }\n"
    "program { while_true { execute s; } b { copy {x[0:4]}[4] -> {y[0:4]}[4]; } if b { call f; } else { call g; }\n"
    "parallel { body { call f; } body { repeat 2 { kernel fill (m) { value = 3 }; } } body { } } }\n"
    "}\n";

static unsigned char *image;
static size_t         image_bytes;

/* ---- a run that does not end is interrupted ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  wake = PTHREAD_COND_INITIALIZER;
static ipu_engine     *running;
static unsigned        runs;

static void *watch(void *user)
{
    (void)user;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!running) pthread_cond_wait(&wake, &lock);
        unsigned        run = runs;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        int timed = 0;
        while (running && run == runs && !timed) timed = pthread_cond_timedwait(&wake, &lock, &until) != 0;
        if (running && run == runs) ipu_engine_interrupt(running);
    }
    return NULL;
}

static void set_running(ipu_engine *e)
{
    pthread_mutex_lock(&lock);
    running = e;
    runs++;
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&lock);
}

/* ---- memory: enough for what is honest ---- */

static void *limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    return new_bytes > (size_t)64 << 20 ? NULL : realloc(ptr, new_bytes);
}

static void stop(const char *why)
{
    fprintf(stderr, "%s: %s\n", why, ipu_message());
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    ipu_parsed      parsed;
    ipu_executable *exe;
    void           *data;
    pthread_t       thread;
    (void)argc, (void)argv;
    ipu__alloc_set(limited, NULL);
    ipu_log_set(IPU_LOG_OFF, NULL, NULL);
    if (ipu_graph_parse(text, sizeof text - 1, "text", known, 2, NULL, &parsed) != IPU_OK) stop("parsing");
    if (ipu_executable_compile(parsed.graph, parsed.programs, parsed.n_programs, NULL, &exe) != IPU_OK)
        stop("compiling");
    if (ipu_executable_serialise(exe, &data, &image_bytes) != IPU_OK) stop("saving");
    image = data;
    ipu_executable_release(exe);
    ipu_graph_destroy(parsed.graph);
    if (pthread_create(&thread, NULL, watch, NULL) != 0) stop("starting a thread");
    return 0;
}

static ipu_status touch(void *user, void *data, size_t bytes)
{
    (void)user;
    memset(data, 1, bytes);
    return IPU_OK;
}

/* Reads what is written by the device; `touch` would do for both, but not for what is not ours to write. */
static ipu_status look(void *user, void *data, size_t bytes)
{
    unsigned char sum = 0;
    for (size_t i = 0; i < bytes; i++) sum = (unsigned char)(sum + ((unsigned char *)data)[i]);
    *(volatile unsigned char *)user = sum;
    return IPU_OK;
}

static void run(ipu_executable *exe)
{
    static unsigned char sum;
    unsigned char        buffer[128] = {0};
    ipu_options         *options;
    ipu_engine          *e;
    if (ipu_options_create(&options) != IPU_OK || ipu_options_set(options, "threads", "1") != IPU_OK)
        stop("making options");
    if (ipu_engine_create(exe, options, &e) == IPU_OK) {
        for (int64_t r = 0; r < 2; r++) {
            ipu_engine_connect_callback_replica(e, "i", r, touch, NULL);
            ipu_engine_connect_callback_replica(e, "j", r, touch, NULL);
            ipu_engine_connect_callback_replica(e, "o", r, look, &sum);
        }
        ipu_engine_write(e, "y", buffer, sizeof buffer);
        for (size_t i = 0; i < ipu_executable_n_programs(exe); i++) {
            set_running(e);
            ipu_engine_run(e, i);
            set_running(NULL);
        }
        ipu_engine_read(e, "z", buffer, 24);
        ipu_engine_destroy(e);
    }
    ipu_options_destroy(options);
}

/* An edit: where, how many bytes and whether to add or to set, what. */
typedef struct edit {
    uint16_t at;
    uint8_t  how;
    int8_t   small;
    uint32_t large;
} edit;

static void apply(unsigned char *to, const edit *e)
{
    size_t   width = (size_t)1 << (e->how & 3), at = e->at % (image_bytes - 24);
    uint64_t number = 0,
             change = e->how & 4 ? (uint64_t)(int64_t)e->small : (uint64_t)e->large << (e->how >> 4) * 4;
    memcpy(&number, to + at, width);
    number = e->how & 8 ? number + change : change;
    memcpy(to + at, &number, width);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes)
{
    ipu_executable *exe;
    unsigned char  *own = malloc(image_bytes);
    if (!own) return 0;
    memcpy(own, image, image_bytes);
    for (size_t i = 0; i + sizeof(edit) <= bytes && i < 32 * sizeof(edit); i += sizeof(edit)) {
        edit e;
        memcpy(&e, data + i, sizeof e);
        apply(own, &e);
    }
    ipu__hash128 hash = ipu__hash_bulk(own, image_bytes - sizeof hash);
    memcpy(own + image_bytes - sizeof hash, hash.bytes, sizeof hash.bytes);
    if (ipu_executable_deserialise(own, image_bytes, known, 2, NULL, &exe) == IPU_OK) {
        run(exe);
        ipu_executable_release(exe);
    } else if (!*ipu_message()) {
        stop("an error without a message");
    }
    free(own);
    return 0;
}

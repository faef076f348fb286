/* `ipu hosttraffictest`, gc-hosttraffictest: transfers between host and tiles through a remote buffer.
 *
 * An iteration moves one row of the buffer on each side. Iterations go in batches: the host moves the rows of
 * a batch one by one, one run of a program moves those of the tiles, and the result is checked before the
 * next batch. Only transfers are timed. The buffer has two halves. Data passing through it use the first half
 * on both sides; where both sides write, or both read, the host uses the first and the tiles the second. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "selftest/selftest.h"
#include "selftest/data.h"

enum {
    BLOCK_BYTES  = 64,
    BLOCK_WORDS  = BLOCK_BYTES / 4,
    BATCH_ROWS   = 64,
    BATCH_BYTES  = 16 << 20, /* per batch: about what stays in a cache if rows are small */
    N_IMAGES     = 4,        /* two for this batch, two for the next, so that stale data show */
    N_DIRECTIONS = 4,
};

/* Programs: what the tiles do with a half of the buffer, for whole batches and for the remainder. */
enum { TILES_READ, TILES_WRITE, TILES_READ_OWN, TILES_WRITE_OWN, N_KINDS };

typedef struct direction {
    const char *key, *description;
    bool        host_writes, tiles_read;
} direction;

static const direction directions[N_DIRECTIONS] = {
    {"host_from_buffer_from_tile", "host <- buffer <- tile", false, false},
    {"host_to_buffer_to_tile", "host -> buffer -> tile", true, true},
    {"host_to_buffer_from_tile", "host -> buffer <- tile", true, false},
    {"host_from_buffer_to_tile", "host <- buffer -> tile", false, true},
};

static bool is_through(const direction *d) { return d->host_writes == d->tiles_read; }

typedef struct traffic {
    selftest    s;
    int64_t     tiles, blocks, iterations, repeats;
    bool        host_side;  /* false for cards: tiles only */
    int64_t     rows, rest; /* of a batch; of the last one */
    size_t      row_words;
    ipu_engine *engine;
    double      modelled[2]; /* seconds per batch: tiles read, tiles write */
    uint32_t   *images[N_IMAGES], *landing;
} traffic;

/* For one direction. */
typedef struct sides {
    double          host_seconds, tile_seconds;
    selftest_errors errors;
} sides;

static size_t row_bytes(const traffic *t) { return t->row_words * sizeof(uint32_t); }

/* ---- programs ---- */

/* Row r of a batch has its own place on the tiles, to be checked when the batch is done. */
static ipu_tensor add_rows(const traffic *t, ipu_graph *g)
{
    int64_t    words = t->blocks * BLOCK_WORDS;
    ipu_tensor x     = ipu_graph_add_variable(g, IPU_UINT32,
                                              IPU_SHAPE(t->rows, t->s.target.n_ipus, t->tiles, words), "rows");
    for (int64_t ipu = 0; ipu < t->s.target.n_ipus; ipu++)
        for (int64_t i = 0; i < t->tiles; i++) {
            const int64_t begin[] = {0, ipu, i, 0}, end[] = {t->rows, ipu + 1, i + 1, words};
            ipu_graph_set_tile_mapping(g, ipu_tensor_slice_all(x, begin, end),
                                       ipu * t->s.target.tiles_per_ipu + i);
        }
    ipu_graph_add_host_read(g, "rows", x);
    ipu_graph_add_host_write(g, "rows", x);
    return x;
}

static ipu_program move_rows(const traffic *t, ipu_graph *g, ipu_remote_buffer buffer, ipu_tensor rows,
                             int kind, int64_t n)
{
    ipu_program p     = ipu_program_sequence(g);
    bool        reads = kind == TILES_READ || kind == TILES_READ_OWN;
    int64_t     first = kind >= TILES_READ_OWN ? t->rows : 0;
    for (int64_t r = 0; r < n; r++) {
        ipu_tensor row = ipu_graph_add_constant_value(g, IPU_UINT32, IPU_SHAPE(1), (double)(first + r),
                                                      "row");
        ipu_graph_set_tile_mapping(g, row, 0);
        if (reads)
            ipu_program_add_remote_read(p, buffer, row, ipu_tensor_index(rows, r));
        else
            ipu_program_add_remote_write(p, ipu_tensor_index(rows, r), buffer, row);
    }
    return p;
}

static void add_programs(const traffic *t, ipu_graph *g, ipu_program out[2 * N_KINDS])
{
    ipu_tensor        rows   = add_rows(t, g);
    ipu_remote_buffer buffer = ipu_graph_add_remote_buffer(g, "buffer", IPU_UINT32, (int64_t)t->row_words,
                                                           2 * t->rows);
    for (int kind = 0; kind < N_KINDS; kind++) {
        out[kind]           = move_rows(t, g, buffer, rows, kind, t->rows);
        out[N_KINDS + kind] = move_rows(t, g, buffer, rows, kind, t->rest);
    }
}

static tool_exit load(traffic *t)
{
    ipu_program programs[2 * N_KINDS];
    ipu_graph  *g = selftest_graph(&t->s);
    if (!g) return TOOL_FAILED;
    add_programs(t, g, programs);
    tool_exit code = selftest_price(g, programs, 2, t->modelled) == IPU_OK ? TOOL_OK : selftest_fail();
    if (code == TOOL_OK) code = selftest_load(&t->s, g, programs, 2 * N_KINDS, &t->engine);
    ipu_graph_destroy(g);
    return code;
}

/* ---- the two sides ---- */

/* Rows of one half of the buffer, one call on the host per row. */
static tool_exit host_moves(traffic *t, int64_t first, int64_t n, bool writes, uint32_t *words,
                            double *seconds)
{
    double     began  = progress_now();
    ipu_status status = IPU_OK;
    for (int64_t r = 0; status == IPU_OK && r < n; r++) {
        uint32_t *row = words + (size_t)r * t->row_words;
        status        = writes ? ipu_engine_write_remote(t->engine, "buffer", 0, first + r, row, row_bytes(t))
                               : ipu_engine_read_remote(t->engine, "buffer", 0, first + r, row, row_bytes(t));
    }
    *seconds += progress_now() - began;
    return status == IPU_OK ? TOOL_OK : selftest_fail();
}

static tool_exit tiles_move(traffic *t, int kind, int64_t n, double *seconds)
{
    return selftest_run(t->engine, (size_t)(n == t->rows ? kind : N_KINDS + kind), seconds);
}

/* Set what the tiles hold before they write, and get what they hold after reading; not timed. */
static tool_exit tiles_get(traffic *t, const uint32_t *image)
{
    ipu_status status = ipu_engine_write(t->engine, "rows", image, (size_t)t->rows * row_bytes(t));
    return status == IPU_OK ? TOOL_OK : selftest_fail();
}

static tool_exit tiles_show(traffic *t)
{
    ipu_status status = ipu_engine_read(t->engine, "rows", t->landing, (size_t)t->rows * row_bytes(t));
    return status == IPU_OK ? TOOL_OK : selftest_fail();
}

static tool_exit check(const traffic *t, const uint32_t *image, int64_t n, sides *time)
{
    selftest_spoil(t->landing, (size_t)n * t->row_words);
    selftest_compare(image, t->landing, (size_t)n * t->row_words, &time->errors);
    return TOOL_OK;
}

/* ---- a batch ---- */

/* Data pass through: the writer goes first. */
static tool_exit batch_through(traffic *t, const direction *d, uint32_t *image, int64_t n, sides *time)
{
    double ignored = 0, *host = t->host_side ? &time->host_seconds : &ignored;
    if (d->host_writes) {
        SELFTEST_TRY(host_moves(t, 0, n, true, image, host));
        SELFTEST_TRY(tiles_move(t, TILES_READ, n, &time->tile_seconds));
        SELFTEST_TRY(tiles_show(t));
        return check(t, image, n, time);
    }
    SELFTEST_TRY(tiles_get(t, image));
    SELFTEST_TRY(tiles_move(t, TILES_WRITE, n, &time->tile_seconds));
    SELFTEST_TRY(host_moves(t, 0, n, false, t->landing, host));
    return check(t, image, n, time);
}

/* Both write: the host its half, the tiles theirs; each is then checked from the other side. */
static tool_exit batch_both_write(traffic *t, uint32_t *image, uint32_t *other, int64_t n, sides *time)
{
    double ignored = 0;
    SELFTEST_TRY(tiles_get(t, other));
    if (t->host_side) SELFTEST_TRY(host_moves(t, 0, n, true, image, &time->host_seconds));
    SELFTEST_TRY(tiles_move(t, TILES_WRITE_OWN, n, &time->tile_seconds));
    SELFTEST_TRY(host_moves(t, t->rows, n, false, t->landing, &ignored));
    SELFTEST_TRY(check(t, other, n, time));
    if (!t->host_side) return TOOL_OK;
    SELFTEST_TRY(tiles_move(t, TILES_READ, n, &ignored));
    SELFTEST_TRY(tiles_show(t));
    return check(t, image, n, time);
}

/* Both read what the host wrote before. */
static tool_exit batch_both_read(traffic *t, uint32_t *image, uint32_t *other, int64_t n, sides *time)
{
    double ignored = 0;
    SELFTEST_TRY(host_moves(t, 0, n, true, image, &ignored));
    SELFTEST_TRY(host_moves(t, t->rows, n, true, other, &ignored));
    if (t->host_side) {
        SELFTEST_TRY(host_moves(t, 0, n, false, t->landing, &time->host_seconds));
        SELFTEST_TRY(check(t, image, n, time));
    }
    SELFTEST_TRY(tiles_move(t, TILES_READ_OWN, n, &time->tile_seconds));
    SELFTEST_TRY(tiles_show(t));
    return check(t, other, n, time);
}

static tool_exit measure(traffic *t, const direction *d, sides *time)
{
    for (int64_t done = 0, batch = 0; done < t->iterations; batch++) {
        int64_t   left = t->iterations - done, n = left < t->rows ? left : t->rows;
        uint32_t *image = t->images[2 * batch % N_IMAGES], *other = t->images[(2 * batch + 1) % N_IMAGES];
        if (is_through(d))
            SELFTEST_TRY(batch_through(t, d, image, n, time));
        else if (d->host_writes)
            SELFTEST_TRY(batch_both_write(t, image, other, n, time));
        else
            SELFTEST_TRY(batch_both_read(t, image, other, n, time));
        done += n;
        selftest_show(&t->s, d->description, done, t->iterations);
    }
    return TOOL_OK;
}

/* ---- results ---- */

typedef struct figures {
    double seconds, host_bytes, tile_bytes, host_gbps, tile_gbps,
        modelled_gbps; /* modelled is below 0 if unknown */
} figures;

static figures figure(const traffic *t, const direction *d, const sides *time)
{
    double  bytes = (double)t->iterations * (double)row_bytes(t);
    double  model = t->modelled[d->tiles_read ? TILES_READ : TILES_WRITE];
    bool    known = selftest_knows(&t->s, "streaming_bytes_per_second");
    figures f     = {.seconds       = time->host_seconds + time->tile_seconds,
                     .host_bytes    = t->host_side ? bytes : 0,
                     .tile_bytes    = bytes,
                     .modelled_gbps = known ? selftest_gbps((double)t->rows * (double)row_bytes(t), model) : -1};
    f.host_gbps   = selftest_gbps(f.host_bytes, f.seconds);
    f.tile_gbps   = selftest_gbps(f.tile_bytes, f.seconds);
    return f;
}

static json_t *configuration_json(const traffic *t)
{
    json_t *c  = json_object();
    bool    ok = selftest_set(c, "number_of_ipus", "%lld", (long long)t->s.target.n_ipus)
           && selftest_set(c, "tile_transfers_enabled", "true")
           && selftest_set(c, "tiles_per_ipu", "%lld", (long long)t->tiles)
           && selftest_set(c, "transfer_size_64byte_blocks", "%lld", (long long)t->blocks)
           && selftest_set(c, "iterations", "%lld", (long long)t->iterations)
           && selftest_set(c, "host_transfers_enabled", "%s", t->host_side ? "true" : "false");
    if (ok) return c;
    json_decref(c);
    return NULL;
}

static bool set_direction(json_t *repeat, const traffic *t, const direction *d, const sides *time)
{
    json_t *o  = json_object();
    figures f  = figure(t, d, time);
    bool    ok = selftest_set(o, "description", "%s", d->description)
           && selftest_set(o, "duration_seconds", "%.9f", f.seconds)
           && selftest_set(o, "host_data_transferred_bytes", "%.0f", f.host_bytes)
           && selftest_set(o, "tile_data_transferred_bytes", "%.0f", f.tile_bytes)
           && selftest_set(o, "host_transfer_speed_gbps", "%.2f", f.host_gbps)
           && selftest_set(o, "tile_transfer_speed_gbps", "%.2f", f.tile_gbps)
           && selftest_set(o, "host_side_seconds", "%.9f", time->host_seconds)
           && selftest_set(o, "tile_side_seconds", "%.9f", time->tile_seconds)
           && device_set_number(o, "errors", time->errors.wrong)
           && (f.modelled_gbps < 0
                   ? selftest_set(o, "modelled_tile_transfer_speed_gbps", "N/A")
                   : selftest_set(o, "modelled_tile_transfer_speed_gbps", "%.2f", f.modelled_gbps));
    return json_object_set_new(repeat, d->key, o) == 0 && ok;
}

static void print_direction(const traffic *t, const direction *d, const sides *time)
{
    figures f = figure(t, d, time);
    printf(
        "%s: %.3f s, host %.2f Gb/s, tile %.2f Gb/s (each alone: host %.2f Gb/s, tile %.2f Gb/s; modelled: ",
        d->description, f.seconds, f.host_gbps, f.tile_gbps, selftest_gbps(f.host_bytes, time->host_seconds),
        selftest_gbps(f.tile_bytes, time->tile_seconds));
    if (f.modelled_gbps < 0)
        puts("N/A)");
    else
        printf("tile %.2f Gb/s)\n", f.modelled_gbps);
}

static tool_exit report_errors(const direction *d, const selftest_errors *e)
{
    if (!e->wrong) return TOOL_OK;
    return tool_fail(
        "%s: wrong words, of 4 bytes, that are not what was sent: %lld; the first, word %zu of its batch, is 0x%08x, "
        "expected was 0x%08x",
        d->description, (long long)e->wrong, e->at, e->found, e->expected);
}

/* ---- all of it ---- */

/* One repeat, added to `out` or printed; `verdict` becomes TOOL_FAILED if data were wrong. */
static tool_exit run_directions(traffic *t, json_t *out, tool_exit *verdict)
{
    for (int i = 0; i < N_DIRECTIONS; i++) {
        sides time = {0};
        SELFTEST_TRY(measure(t, &directions[i], &time));
        if (!out)
            print_direction(t, &directions[i], &time);
        else if (!set_direction(out, t, &directions[i], &time))
            return tool_fail("out of memory");
        if (report_errors(&directions[i], &time.errors) != TOOL_OK) *verdict = TOOL_FAILED;
    }
    return TOOL_OK;
}

static tool_exit run_repeats(traffic *t, json_t *out, tool_exit *verdict)
{
    for (int64_t k = 0; k < t->repeats; k++) {
        char    key[32];
        json_t *repeat = out ? json_object() : NULL;
        snprintf(key, sizeof key, "repeat_%lld", (long long)k);
        if (out && json_object_set_new(out, key, repeat) != 0) return tool_fail("out of memory");
        if (!out && t->repeats > 1) printf("Repeat %lld\n", (long long)k);
        SELFTEST_TRY(run_directions(t, repeat, verdict));
    }
    return TOOL_OK;
}

static bool prepare(traffic *t)
{
    size_t words = (size_t)t->rows * t->row_words;
    t->landing   = malloc(words * sizeof *t->landing);
    for (int i = 0; i < N_IMAGES; i++) {
        t->images[i] = malloc(words * sizeof *t->images[i]);
        if (!t->images[i]) return false;
        selftest_fill(t->images[i], words, (uint64_t)i);
    }
    return t->landing;
}

static tool_exit test(traffic *t, bool json)
{
    double row = (double)t->s.target.n_ipus * (double)t->tiles * (double)t->blocks * BLOCK_BYTES;
    /* A row on the tiles, two in the buffer, the images and the landing buffer. */
    if (!selftest_has_memory((3 + N_IMAGES + 1) * row, "use fewer --tiles or a smaller --size"))
        return TOOL_FAILED;
    t->rows      = row * BATCH_ROWS > BATCH_BYTES ? (int64_t)(BATCH_BYTES / row) : BATCH_ROWS;
    t->rows      = t->rows < 1 ? 1 : t->rows > t->iterations ? t->iterations : t->rows;
    t->rest      = t->iterations % t->rows;
    t->row_words = (size_t)row / sizeof(uint32_t);
    t->host_side = strcmp(device_single_target(t->s.partition), "PCIe") != 0;
    if (!prepare(t)) return tool_fail("out of memory");
    SELFTEST_TRY(load(t));
    tool_exit verdict = TOOL_OK;
    json_t   *out     = json ? json_pack("{s:o}", "configuration", configuration_json(t)) : NULL;
    tool_exit code    = json && !out ? tool_fail("out of memory") : run_repeats(t, out, &verdict);
    if (code == TOOL_OK) return selftest_finish(&t->s, verdict, out);
    json_decref(out);
    return code;
}

tool_exit run_hosttraffictest(const tool_arguments *args)
{
    traffic t = {.tiles = 32, .blocks = 4, .iterations = 100000, .repeats = 1};
    if (!selftest_option(args, HOSTTRAFFIC_ITERATIONS, "iterations", 1, INT32_MAX, &t.iterations)
        || !selftest_option(args, HOSTTRAFFIC_SIZE, "size", 1, 4096, &t.blocks)
        || !selftest_option(args, HOSTTRAFFIC_REPEATS, "repeats", 1, 1000000, &t.repeats)
        || !selftest_option(args, HOSTTRAFFIC_TILES, "tiles", 1, INT32_MAX, &t.tiles))
        return TOOL_USAGE;
    tool_exit code = selftest_begin(&t.s, args->values[HOSTTRAFFIC_DEVICE]);
    if (code == TOOL_OK) code = selftest_tiles(&t.s, &t.tiles);
    if (code == TOOL_OK) code = test(&t, args->values[HOSTTRAFFIC_JSON]);
    ipu_engine_destroy(t.engine);
    for (int i = 0; i < N_IMAGES; i++) free(t.images[i]);
    free(t.landing);
    return selftest_end(&t.s, code);
}

/* `ipu exchangetest`, gc-exchangetest: every tile of an IPU sends a block to every other, and vertices check
 * what arrives.
 *
 * In step r of an all-to-all (1 <= r < tiles) tile t sends to tile t + r, modulo the tiles. That happens
 * twice. EXCHANGE consists of copies only, to measure their bandwidth; blocks move on from where they are, so
 * that one check at the end covers all steps. CHECKED has a vertex on each tile after each step, which checks
 * the block and makes the next one to send. */
#include <stdio.h>
#include <stdlib.h>

#include "ipu/codelet.h"
#include "output.h"
#include "selftest/selftest.h"
#include "selftest/data.h"

enum { WORDS = 64, N_IPU_MAX = 256 }; /* a block is 256 bytes */
enum { EXCHANGE, CHECKED, N_PROGRAMS };
enum { ONE_COPY, ONE_EXECUTE, N_PRICED };

/* What tile `tile` sends in step `step`. */
static inline uint32_t block_word(uint32_t tile, uint32_t step, uint32_t i)
{
    uint32_t x = tile * UINT32_C(0x9e3779b1) ^ step * UINT32_C(0x85ebca77) ^ i * UINT32_C(0xc2b2ae3d);
    return (x ^ x >> 15) * UINT32_C(0x2c1b3c6d);
}

#define CHECK(F)                     \
    F(STATE, uint32_t, tile)         \
    F(STATE, uint32_t, tiles)        \
    F(INOUT, uint32_t, step)         \
    F(INOUT, uint32_t, wrong)        \
    F(IN_VECTOR, uint32_t, received) \
    F(OUT_VECTOR, uint32_t, next)
/* cppcheck-suppress internalAstError; it cannot parse the macro */
IPU_VERTEX(SelftestExchange, CHECK)
{
    const uint32_t step = *v->step, sender = (v->tile + v->tiles - step) % v->tiles;
    const uint32_t then = step + 1 < v->tiles ? step + 1 : 1;
    uint32_t       bits = 0;
    for (uint32_t i = 0; i < v->received.size; i++) bits |= v->received.data[i] ^ block_word(sender, step, i);
    for (uint32_t i = 0; i < v->next.size; i++) v->next.data[i] = block_word(v->tile, then, i);
    *v->wrong += bits != 0;
    *v->step = then;
    return true;
}

/* Results of one IPU. */
typedef struct figures {
    int     id;
    int64_t wrong; /* blocks */
    double  exchange_seconds, checked_seconds;
    int64_t bytes, supersteps, vertices; /* bytes of EXCHANGE, the others of CHECKED */
} figures;

typedef struct exchange {
    selftest s;
    int64_t  tiles, iterations;
    double   modelled[N_PRICED];
    figures  ipus[N_IPU_MAX];
} exchange;

/* ---- programs ---- */

typedef struct parts {
    ipu_tensor      sent, received, steps, wrong;
    ipu_compute_set check;
} parts;

static ipu_tensor add_blocks(ipu_graph *g, int64_t tiles, int64_t words, const char *name)
{
    ipu_tensor x = ipu_graph_add_variable(g, IPU_UINT32, IPU_SHAPE(tiles, words), name);
    for (int64_t i = 0; i < tiles; i++) ipu_graph_set_tile_mapping(g, ipu_tensor_index(x, i), i);
    ipu_graph_add_host_write(g, name, x);
    ipu_graph_add_host_read(g, name, x);
    return x;
}

static parts add_parts(ipu_graph *g, int64_t tiles)
{
    parts p = {add_blocks(g, tiles, WORDS, "sent"), add_blocks(g, tiles, WORDS, "received"),
               add_blocks(g, tiles, 1, "steps"), add_blocks(g, tiles, 1, "wrong"),
               ipu_graph_add_compute_set(g, "check")};
    ipu_graph_add_codelet(g, &SelftestExchange);
    for (int64_t i = 0; i < tiles; i++)
        ipu_graph_add_vertex_with(g, p.check, "SelftestExchange", i,
                                  IPU_FIELDS(IPU_VALUE("tile", (double)i), IPU_VALUE("tiles", (double)tiles),
                                             IPU_TO("step", ipu_tensor_index(p.steps, i)),
                                             IPU_TO("wrong", ipu_tensor_index(p.wrong, i)),
                                             IPU_TO("received", ipu_tensor_index(p.received, i)),
                                             IPU_TO("next", ipu_tensor_index(p.sent, i))));
    return p;
}

/* Tile t's block goes to tile t + r. */
static void add_step(ipu_program p, ipu_tensor from, ipu_tensor to, int64_t tiles, int64_t r)
{
    ipu_program_add_copy(
        p, from, ipu_tensor_concat2(ipu_tensor_slice(to, r, tiles, 0), ipu_tensor_slice(to, 0, r, 0), 0));
}

static tool_exit load(exchange *t, int ipu, ipu_engine **out)
{
    ipu_program programs[N_PROGRAMS], priced[N_PRICED];
    ipu_graph  *whole = selftest_graph(&t->s);
    if (!whole) return TOOL_FAILED;
    int64_t    first = ipu * t->s.target.tiles_per_ipu;
    ipu_graph *g     = ipu_graph_add_virtual_range(whole, first, first + t->tiles);
    parts      p     = add_parts(g, t->tiles);
    for (int i = 0; i < N_PROGRAMS; i++) programs[i] = ipu_program_sequence(g);
    for (int i = 0; i < N_PRICED; i++) priced[i] = ipu_program_sequence(g);
    for (int64_t r = 1; r < t->tiles; r++) {
        add_step(programs[EXCHANGE], r % 2 ? p.sent : p.received, r % 2 ? p.received : p.sent, t->tiles, r);
        add_step(programs[CHECKED], p.sent, p.received, t->tiles, r);
        ipu_program_add_execute(programs[CHECKED], p.check);
    }
    add_step(priced[ONE_COPY], p.sent, p.received, t->tiles, 1);
    ipu_program_add_execute(priced[ONE_EXECUTE], p.check);
    tool_exit code = TOOL_OK;
    if (ipu == 0 && selftest_price(whole, priced, N_PRICED, t->modelled) != IPU_OK) code = selftest_fail();
    if (code == TOOL_OK) code = selftest_load(&t->s, whole, programs, N_PROGRAMS, out);
    ipu_graph_destroy(whole);
    return code;
}

/* ---- runs ---- */

/* Writes the blocks of step 1 to all tiles, and initialises counters. */
static tool_exit set_up(const exchange *t, ipu_engine *e, uint32_t *blocks)
{
    size_t     n      = (size_t)t->tiles;
    ipu_status status = IPU_OK;
    for (size_t i = 0; i < n; i++) blocks[i] = 1;
    status = ipu_engine_write(e, "steps", blocks, n * sizeof *blocks);
    for (size_t i = 0; i < n; i++) blocks[i] = 0;
    if (status == IPU_OK) status = ipu_engine_write(e, "wrong", blocks, n * sizeof *blocks);
    for (size_t i = 0; i < n * WORDS; i++)
        blocks[i] = block_word((uint32_t)(i / WORDS), 1, (uint32_t)(i % WORDS));
    if (status == IPU_OK) status = ipu_engine_write(e, "sent", blocks, n * WORDS * sizeof *blocks);
    return status == IPU_OK ? TOOL_OK : selftest_fail();
}

/* All steps together move a block on by 1 + 2 + ... + (tiles - 1). */
static tool_exit run_exchange(const exchange *t, ipu_engine *e, uint32_t *blocks, figures *f)
{
    const uint64_t n = (uint64_t)t->tiles, moved = n * (n - 1) / 2 % n;
    SELFTEST_TRY(set_up(t, e, blocks));
    SELFTEST_TRY(selftest_run(e, EXCHANGE, &f->exchange_seconds));
    const char *last = t->tiles % 2 ? "sent" : "received"; /* tiles - 1 copies, back and forth */
    if (ipu_engine_read(e, last, blocks, n * WORDS * sizeof *blocks) != IPU_OK) return selftest_fail();
    selftest_spoil(blocks, n * WORDS);
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits = 0, from = (uint32_t)((i + n - moved) % n);
        for (uint32_t k = 0; k < WORDS; k++) bits |= blocks[i * WORDS + k] ^ block_word(from, 1, k);
        f->wrong += bits != 0;
    }
    f->bytes += (int64_t)(n * (n - 1) * WORDS * sizeof *blocks);
    return TOOL_OK;
}

static tool_exit run_checked(const exchange *t, ipu_engine *e, uint32_t *blocks, figures *f)
{
    size_t              n = (size_t)t->tiles;
    ipu_engine_counters before, after;
    SELFTEST_TRY(set_up(t, e, blocks));
    ipu_engine_get_counters(e, &before);
    SELFTEST_TRY(selftest_run(e, CHECKED, &f->checked_seconds));
    ipu_engine_get_counters(e, &after);
    f->supersteps += after.supersteps - before.supersteps;
    f->vertices += after.vertices - before.vertices;
    if (ipu_engine_read(e, "wrong", blocks, n * sizeof *blocks) != IPU_OK) return selftest_fail();
    for (size_t i = 0; i < n; i++) f->wrong += blocks[i];
    return TOOL_OK;
}

static tool_exit run_ipu_k(exchange *t, int ipu, uint32_t *blocks)
{
    char        what[DEVICE_TEXT];
    figures    *f    = &t->ipus[ipu];
    ipu_engine *e    = NULL;
    tool_exit   code = load(t, ipu, &e);
    f->id            = t->s.info->first + ipu;
    snprintf(what, sizeof what, "IPU %d", f->id);
    for (int64_t i = 0; code == TOOL_OK && i < t->iterations; i++) {
        code = run_exchange(t, e, blocks, f);
        if (code == TOOL_OK) code = run_checked(t, e, blocks, f);
        selftest_show(&t->s, what, i + 1, t->iterations);
    }
    ipu_engine_destroy(e);
    return code;
}

/* ---- results ---- */

static double gbps(const figures *f) { return selftest_gbps((double)f->bytes, f->exchange_seconds); }

static double modelled_gbps(const exchange *t)
{
    return selftest_gbps((double)t->tiles * WORDS * sizeof(uint32_t), t->modelled[ONE_COPY]);
}

/* In compute sets, which is how the engine counts supersteps; the time includes the exchange before each. */
static double modelled_rate(const exchange *t)
{
    double seconds = t->modelled[ONE_COPY] + t->modelled[ONE_EXECUTE];
    return seconds > 0 ? 1 / seconds : 0;
}

static double rate(int64_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

static int64_t all_wrong(const exchange *t)
{
    int64_t wrong = 0;
    for (int i = 0; i < t->s.info->n_ipus; i++) wrong += t->ipus[i].wrong;
    return wrong;
}

static void print_text(const exchange *t)
{
    printf("All to all between %lld tiles of each IPU, blocks of %d bytes, %lld iterations\n",
           (long long)t->tiles, (int)(WORDS * sizeof(uint32_t)), (long long)t->iterations);
    for (int i = 0; i < t->s.info->n_ipus; i++) {
        const figures *f = &t->ipus[i];
        printf("IPU %d: exchange %.2f Gb/s; with vertices %.0f supersteps/s, %.0f vertices/s; %lld errors\n",
               f->id, gbps(f), rate(f->supersteps, f->checked_seconds), rate(f->vertices, f->checked_seconds),
               (long long)f->wrong);
    }
    printf("Modelled: exchange %.2f Gb/s; with vertices %.0f supersteps/s, %.0f vertices/s\n",
           modelled_gbps(t), modelled_rate(t), modelled_rate(t) * (double)t->tiles);
    printf("Result: %s\n", all_wrong(t) ? "failed" : "passed");
}

static json_t *ipu_json(const figures *f)
{
    json_t *o  = json_object();
    bool    ok = device_set_number(o, "ipu_id", f->id)
           && selftest_set(o, "exchange_duration_seconds", "%.9f", f->exchange_seconds)
           && device_set_number(o, "exchange_bytes", f->bytes)
           && selftest_set(o, "exchange_gbps", "%.2f", gbps(f))
           && selftest_set(o, "vertex_duration_seconds", "%.9f", f->checked_seconds)
           && device_set_number(o, "supersteps", f->supersteps)
           && device_set_number(o, "vertices", f->vertices)
           && selftest_set(o, "supersteps_per_second", "%.0f", rate(f->supersteps, f->checked_seconds))
           && selftest_set(o, "vertices_per_second", "%.0f", rate(f->vertices, f->checked_seconds))
           && device_set_number(o, "errors", f->wrong);
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static json_t *describe(const exchange *t)
{
    json_t *o = json_object(), *ipus = json_array();
    bool    ok = true;
    for (int i = 0; i < t->s.info->n_ipus; i++)
        ok = json_array_append_new(ipus, ipu_json(&t->ipus[i])) == 0 && ok;
    ok = json_object_set_new(o, "ipus", ipus) == 0 && ok;
    ok = ok && device_set_number(o, "device_id", t->s.info->id)
      && device_set_number(o, "tiles_per_ipu", t->tiles)
      && device_set_number(o, "block_bytes", WORDS * sizeof(uint32_t))
      && device_set_number(o, "iterations", t->iterations)
      && selftest_set(o, "modelled_exchange_gbps", "%.2f", modelled_gbps(t))
      && selftest_set(o, "modelled_supersteps_per_second", "%.0f", modelled_rate(t))
      && device_set_number(o, "errors", all_wrong(t))
      && device_set(o, "result", all_wrong(t) ? "fail" : "pass");
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static tool_exit test(exchange *t, bool json)
{
    tool_exit code   = TOOL_OK;
    uint32_t *blocks = malloc((size_t)t->tiles * WORDS * sizeof *blocks);
    if (!blocks) return tool_fail("out of memory");
    for (int i = 0; code == TOOL_OK && i < t->s.info->n_ipus; i++) code = run_ipu_k(t, i, blocks);
    free(blocks);
    if (code != TOOL_OK) return code;
    json_t *out = json ? describe(t) : NULL;
    if (json && !out) return tool_fail("out of memory");
    if (!json) print_text(t);
    if (all_wrong(t))
        code = tool_fail("wrong blocks, that are not what their tiles were sent: %lld",
                         (long long)all_wrong(t));
    return selftest_finish(&t->s, code, out);
}

tool_exit run_exchangetest(const tool_arguments *args)
{
    static exchange t; /* too large for the stack */
    t = (exchange){.iterations = 3};
    if (!selftest_option(args, EXCHANGETEST_TILES, "tiles", 2, INT32_MAX, &t.tiles)
        || !selftest_option(args, EXCHANGETEST_ITERATIONS, "iterations", 1, INT32_MAX, &t.iterations))
        return TOOL_USAGE;
    tool_exit code = selftest_begin(&t.s, args->values[EXCHANGETEST_DEVICE]);
    if (code == TOOL_OK) code = selftest_tiles(&t.s, &t.tiles);
    if (code == TOOL_OK) code = test(&t, args->values[EXCHANGETEST_JSON]);
    return selftest_end(&t.s, code);
}

/* `ipu memorytest`, gc-memorytest: test patterns in all tile memory available to a program.
 *
 * On each tile one vertex writes a pattern in one run, and another checks it in the next. Tiles are tested in
 * passes, IPU by IPU and as many at a time as fit in the host's memory. How much of a tile is free for data
 * follows from the cost model, after code, stacks and the like. */
#include <stdio.h>
#include <stdlib.h>

#include "ipu/cost.h"
#include "output.h"
#include "selftest/selftest.h"
#include "selftest/data.h"
#include "selftest/memory.h"

enum { FILL, CHECK, N_PROGRAMS };
enum { PASS_BYTES = 64 << 20, TRIAL_WORDS = 1024 };

typedef struct totals {
    int64_t     tiles, bytes, wrong; /* bytes tested, wrong words of 8 bytes */
    double      seconds;
    int64_t     tile; /* of the first wrong word, in its IPU; then the rest about it: */
    uint64_t    word, expected, found;
    int         ipu;
    const char *pattern;
} totals;

typedef struct memory {
    selftest              s;
    const memory_pattern *patterns;
    int                   n_patterns;
    int64_t               tiles; /* per IPU */
    int64_t               words; /* per tile, 8 bytes each */
    int64_t               pass;  /* tiles per pass */
    double                modelled[N_PROGRAMS];
    uint64_t             *found;
    totals                all;
} memory;

/* ---- programs ---- */

/* Tiles first .. first + n - 1 of the device, with `words` words each. */
static void build(const memory *t, ipu_graph *g, int64_t first, int64_t n, int64_t words,
                  ipu_program out[N_PROGRAMS])
{
    ipu_tensor      pattern = ipu_graph_add_variable(g, IPU_UINT64, IPU_SHAPE(2), "pattern");
    ipu_tensor      data    = ipu_graph_add_variable(g, IPU_UINT64, IPU_SHAPE(n, words), "memory");
    ipu_tensor      found   = ipu_graph_add_variable(g, IPU_UINT64, IPU_SHAPE(n, MEMORY_FINDINGS), "found");
    ipu_compute_set fill    = ipu_graph_add_compute_set(g, "fill");
    ipu_compute_set check   = ipu_graph_add_compute_set(g, "check");
    (void)t;
    ipu_graph_add_codelet(g, &SelftestFill);
    ipu_graph_add_codelet(g, &SelftestCheck);
    ipu_graph_set_tile_mapping(g, pattern, first);
    for (int64_t i = 0; i < n; i++) {
        ipu_tensor     mine = ipu_tensor_index(data, i), result = ipu_tensor_index(found, i);
        const int64_t  tile = first + i;
        ipu_connection to[] = {IPU_TO("pattern", pattern), IPU_TO("memory", mine),
                               IPU_VALUE("tile", (double)tile), IPU_TO("found", result)};
        ipu_graph_set_tile_mapping(g, mine, tile);
        ipu_graph_set_tile_mapping(g, result, tile);
        ipu_graph_add_vertex_with(g, fill, "SelftestFill", tile, to, 3);
        ipu_graph_add_vertex_with(g, check, "SelftestCheck", tile, to, 4);
    }
    for (int i = 0; i < N_PROGRAMS; i++) out[i] = ipu_program_sequence(g);
    ipu_program_add_execute(out[FILL], fill);
    ipu_program_add_execute(out[CHECK], check);
    ipu_graph_add_host_write(g, "pattern", pattern);
    ipu_graph_add_host_read(g, "found", found);
    /* One word in the middle, to inject a fault. */
    ipu_tensor middle = ipu_tensor_slice(ipu_tensor_index(data, n / 2), words / 2, words / 2 + 1, 0);
    ipu_graph_add_host_read(g, "word", middle);
    ipu_graph_add_host_write(g, "word", middle);
}

/* Bytes on the fullest tile, with `words` words of data on each. */
static ipu_status fullest(const memory *t, int64_t words, int64_t *bytes)
{
    ipu_program      programs[N_PROGRAMS];
    ipu_graph       *g;
    ipu_cost        *cost;
    ipu_cost_summary summary;
    IPU_TRY(ipu_graph_create(&t->s.target, 1, &g));
    build(t, g, 0, t->pass, words, programs);
    ipu_status status = ipu_cost_estimate(g, programs, N_PROGRAMS, NULL, &cost);
    if (status == IPU_OK) {
        ipu_cost_get_summary(cost, &summary);
        *bytes = summary.memory_most;
        ipu_cost_destroy(cost);
    }
    ipu_graph_destroy(g);
    return status;
}

/* Everything except the data has the same size, however many words there are. */
static tool_exit size(memory *t)
{
    const int64_t tile_bytes = ipu_target_bytes_per_tile(&t->s.target);
    double        most       = selftest_memory();
    int64_t       trial = 0, whole = 0;
    t->pass = (int64_t)((most < PASS_BYTES ? most : PASS_BYTES) / (double)tile_bytes);
    t->pass = t->pass < 1 ? 1 : t->pass > t->tiles ? t->tiles : t->pass;
    if (fullest(t, TRIAL_WORDS, &trial) != IPU_OK) return selftest_fail();
    t->words = (tile_bytes - trial) / (int64_t)sizeof(uint64_t) + TRIAL_WORDS;
    if (fullest(t, t->words, &whole) != IPU_OK) return selftest_fail();
    if (whole <= tile_bytes) return TOOL_OK;
    return tool_fail("by the cost model %lld bytes of data make a tile %lld bytes full, and it has %lld",
                     (long long)t->words * 8, (long long)whole, (long long)tile_bytes);
}

/* ---- a pass ---- */

static tool_exit spoil(ipu_engine *e)
{
    uint32_t flip[2] = {0};
    uint64_t word, mask;
    if (!selftest_spoil(flip, 2)) return TOOL_OK;
    mask = (uint64_t)flip[1] << 32 | flip[0];
    if (ipu_engine_read(e, "word", &word, sizeof word) != IPU_OK) return selftest_fail();
    word ^= mask;
    return ipu_engine_write(e, "word", &word, sizeof word) == IPU_OK ? TOOL_OK : selftest_fail();
}

static void note(memory *t, int ipu, int64_t first, int64_t n, const memory_pattern *p)
{
    for (int64_t i = 0; i < n; i++) {
        const uint64_t *found = t->found + i * MEMORY_FINDINGS;
        if (found[0] && !t->all.wrong) {
            t->all.ipu      = t->s.info->first + ipu;
            t->all.tile     = first + i;
            t->all.word     = found[1];
            t->all.expected = found[2];
            t->all.found    = found[3];
            t->all.pattern  = p->name;
        }
        t->all.wrong += (int64_t)found[0];
    }
}

static tool_exit try_pattern(memory *t, ipu_engine *e, int ipu, int64_t first, int64_t n,
                             const memory_pattern *p)
{
    uint64_t what[2] = {p->kind, p->value};
    size_t   bytes   = (size_t)n * MEMORY_FINDINGS * sizeof *t->found;
    if (ipu_engine_write(e, "pattern", what, sizeof what) != IPU_OK) return selftest_fail();
    SELFTEST_TRY(selftest_run(e, FILL, &t->all.seconds));
    SELFTEST_TRY(spoil(e));
    SELFTEST_TRY(selftest_run(e, CHECK, &t->all.seconds));
    if (ipu_engine_read(e, "found", t->found, bytes) != IPU_OK) return selftest_fail();
    note(t, ipu, first, n, p);
    return TOOL_OK;
}

static tool_exit run_pass(memory *t, int ipu, int64_t first, int64_t n)
{
    ipu_program programs[N_PROGRAMS];
    ipu_engine *e = NULL;
    ipu_graph  *g = selftest_graph(&t->s);
    if (!g) return TOOL_FAILED;
    build(t, g, ipu * t->s.target.tiles_per_ipu + first, n, t->words, programs);
    tool_exit code = TOOL_OK;
    if (!t->modelled[FILL] && selftest_price(g, programs, N_PROGRAMS, t->modelled) != IPU_OK)
        code = selftest_fail();
    if (code == TOOL_OK) code = selftest_load(&t->s, g, programs, N_PROGRAMS, &e);
    ipu_graph_destroy(g);
    for (int i = 0; code == TOOL_OK && i < t->n_patterns; i++)
        code = try_pattern(t, e, ipu, first, n, &t->patterns[i]);
    ipu_engine_destroy(e);
    t->all.tiles += n;
    t->all.bytes += n * t->words * (int64_t)sizeof(uint64_t);
    return code;
}

static tool_exit run_passes(memory *t)
{
    for (int ipu = 0; ipu < t->s.target.n_ipus; ipu++)
        for (int64_t first = 0; first < t->tiles; first += t->pass) {
            int64_t left = t->tiles - first;
            SELFTEST_TRY(run_pass(t, ipu, first, left < t->pass ? left : t->pass));
            selftest_show(&t->s, "tiles", t->all.tiles, t->tiles * t->s.target.n_ipus);
        }
    return TOOL_OK;
}

/* ---- results ---- */

/* Every byte is written and read once per pattern. */
static double gbps(const memory *t)
{
    return selftest_gbps(2.0 * (double)t->all.bytes * t->n_patterns, t->all.seconds);
}

/* On the chip all tiles of all IPUs work simultaneously. */
static double modelled_seconds(const memory *t)
{
    return (t->modelled[FILL] + t->modelled[CHECK]) * t->n_patterns;
}

static double modelled_gbps(const memory *t)
{
    return selftest_gbps(2.0 * (double)t->all.bytes * t->n_patterns, modelled_seconds(t));
}

static void print_text(const memory *t)
{
    const double share = 100.0 * (double)t->words * 8 / (double)ipu_target_bytes_per_tile(&t->s.target);
    printf("Device %d: %lld tiles, %lld bytes of each (%.1f %%), %lld bytes in all\n", t->s.info->id,
           (long long)t->all.tiles, (long long)t->words * 8, share, (long long)t->all.bytes);
    printf("Patterns:");
    for (int i = 0; i < t->n_patterns; i++) printf(" %s", t->patterns[i].name);
    printf("\nTook %.3f s: %.2f Gb/s written and read (modelled: %.6f s, %.2f Gb/s)\n", t->all.seconds,
           gbps(t), modelled_seconds(t), modelled_gbps(t));
    printf("%lld errors: %s\n", (long long)t->all.wrong, t->all.wrong ? "failed" : "passed");
}

static json_t *describe(const memory *t)
{
    json_t *o = json_object(), *names = json_array();
    bool    ok = true;
    for (int i = 0; i < t->n_patterns; i++)
        ok = json_array_append_new(names, json_string(t->patterns[i].name)) == 0 && ok;
    ok = json_object_set_new(o, "patterns", names) == 0 && ok;
    ok = ok && device_set_number(o, "device_id", t->s.info->id)
      && device_set_number(o, "number_of_ipus", t->s.info->n_ipus)
      && device_set_number(o, "tiles_tested", t->all.tiles)
      && device_set_number(o, "bytes_per_tile", ipu_target_bytes_per_tile(&t->s.target))
      && device_set_number(o, "bytes_per_tile_tested", t->words * 8)
      && device_set_number(o, "bytes_tested", t->all.bytes)
      && selftest_set(o, "duration_seconds", "%.9f", t->all.seconds)
      && selftest_set(o, "gbps", "%.2f", gbps(t))
      && selftest_set(o, "modelled_seconds", "%.9f", modelled_seconds(t))
      && selftest_set(o, "modelled_gbps", "%.2f", modelled_gbps(t))
      && device_set_number(o, "errors", t->all.wrong)
      && device_set(o, "result", t->all.wrong ? "fail" : "pass");
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static tool_exit report_errors(const memory *t)
{
    if (!t->all.wrong) return TOOL_OK;
    return tool_fail(
        "wrong words, of 8 bytes, that do not hold what was written: %lld; the first, of pattern %s, is at byte %llu of "
        "tile %lld of IPU %d: expected 0x%016llx, found 0x%016llx",
        (long long)t->all.wrong, t->all.pattern, (unsigned long long)t->all.word * 8, (long long)t->all.tile,
        t->all.ipu, (unsigned long long)t->all.expected, (unsigned long long)t->all.found);
}

static tool_exit test(memory *t, bool json)
{
    SELFTEST_TRY(size(t));
    t->found = malloc((size_t)t->pass * MEMORY_FINDINGS * sizeof *t->found);
    if (!t->found) return tool_fail("out of memory");
    SELFTEST_TRY(run_passes(t));
    json_t *out = json ? describe(t) : NULL;
    if (json && !out) return tool_fail("out of memory");
    if (!json) print_text(t);
    return selftest_finish(&t->s, report_errors(t), out);
}

tool_exit run_memorytest(const tool_arguments *args)
{
    memory t     = {.patterns = memory_patterns, .n_patterns = MEMORY_PATTERNS};
    bool   quick = args->values[MEMORYTEST_QUICK];
    if (quick) {
        t.patterns += MEMORY_PATTERNS - 2;
        t.n_patterns = 2;
    }
    if (!selftest_option(args, MEMORYTEST_TILES, "tiles", 1, INT32_MAX, &t.tiles)) return TOOL_USAGE;
    tool_exit code = selftest_begin(&t.s, args->values[MEMORYTEST_DEVICE]);
    if (code == TOOL_OK) code = selftest_tiles(&t.s, &t.tiles);
    if (code == TOOL_OK) code = test(&t, args->values[MEMORYTEST_JSON]);
    free(t.found);
    return selftest_end(&t.s, code);
}

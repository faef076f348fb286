/* `ipu iputraffictest`, gc-iputraffictest: copies of 64 KB between tiles of two IPUs, both ways at once.
 *
 * Two sets of blocks go back and forth, one from each IPU, and move on by one tile at every hop. So an error
 * in a copy is carried along, a missing copy leaves its set a tile behind, and one check at the end finds
 * them all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "selftest/selftest.h"
#include "selftest/data.h"
#include "selftest/links.h"

enum {
    BLOCK_BYTES = 65536,
    BLOCK_WORDS = BLOCK_BYTES / 4,
    /* Per run, so that a signal waits no longer than about a tenth of a second. */
    RUN_BYTES = 1 << 30,
};

enum { FULL, REST, THERE, N_PROGRAMS }; /* hops of a whole run, the even ones of the last, a single one */

typedef struct traffic {
    selftest        s;
    int64_t         iterations, tiles;
    int64_t         hops; /* per run, an even number */
    bool            all, forever, verbose, json;
    int             ends[2]; /* ids of the two IPUs */
    selftest_link  *pairs;   /* IPUs by index in the device */
    size_t          n_pairs;
    ipu_engine     *engine;
    double          modelled; /* seconds of a hop */
    uint32_t       *image, *landing;
    size_t          words; /* of all sets */
    selftest_errors errors;
    int64_t         done;
    double          seconds;
} traffic;

/* ---- programs ---- */

/* Blocks [pairs, 2 sets, tiles]: set k of a pair is on its IPU k, or with `other`, on the other one. */
static ipu_tensor add_blocks(const traffic *t, ipu_graph *g, bool other, const char *name)
{
    ipu_tensor x = ipu_graph_add_variable(g, IPU_UINT32,
                                          IPU_SHAPE((int64_t)t->n_pairs, 2, t->tiles, BLOCK_WORDS), name);
    for (size_t p = 0; p < t->n_pairs; p++)
        for (int k = 0; k < 2; k++) {
            ipu_tensor set   = ipu_tensor_index(ipu_tensor_index(x, (int64_t)p), k);
            int64_t    first = t->pairs[p].ipu[other ? 1 - k : k] * t->s.target.tiles_per_ipu;
            for (int64_t i = 0; i < t->tiles; i++)
                ipu_graph_set_tile_mapping(g, ipu_tensor_index(set, i), first + i);
        }
    return x;
}

static void add_hop(const traffic *t, ipu_program p, ipu_tensor from, ipu_tensor to)
{
    ipu_tensor moved = ipu_tensor_concat2(ipu_tensor_slice(to, 1, t->tiles, 2), ipu_tensor_slice(to, 0, 1, 2),
                                          2);
    ipu_program_add_copy(p, from, moved);
}

static tool_exit load(traffic *t)
{
    ipu_program programs[N_PROGRAMS];
    ipu_graph  *g = selftest_graph(&t->s);
    if (!g) return TOOL_FAILED;
    ipu_tensor  here = add_blocks(t, g, false, "here"), there = add_blocks(t, g, true, "there");
    ipu_program both = ipu_program_sequence(g);
    add_hop(t, both, here, there);
    add_hop(t, both, there, here);
    for (int i = 0; i < N_PROGRAMS; i++) programs[i] = ipu_program_sequence(g);
    ipu_program_add_repeat(programs[FULL], t->hops / 2, both);
    ipu_program_add_repeat(programs[REST], t->iterations % t->hops / 2, both);
    add_hop(t, programs[THERE], here, there);
    ipu_graph_add_host_write(g, "here", here);
    ipu_graph_add_host_read(g, "here", here);
    ipu_graph_add_host_read(g, "there", there);
    tool_exit code = selftest_price(g, &programs[THERE], 1, &t->modelled) == IPU_OK ? TOOL_OK
                                                                                    : selftest_fail();
    if (code == TOOL_OK) code = selftest_load(&t->s, g, programs, N_PROGRAMS, &t->engine);
    ipu_graph_destroy(g);
    return code;
}

/* ---- checking ---- */

/* Where block `i` of a set was `hops` ago: every hop moves it on by one tile. */
static int64_t came_from(const traffic *t, int64_t i, int64_t hops)
{
    return ((i - hops % t->tiles) % t->tiles + t->tiles) % t->tiles;
}

static tool_exit check(traffic *t, const char *handle, int64_t hops)
{
    size_t bytes = t->words * sizeof *t->landing, set = (size_t)t->tiles * BLOCK_WORDS;
    if (ipu_engine_read(t->engine, handle, t->landing, bytes) != IPU_OK) return selftest_fail();
    selftest_spoil(t->landing, t->words);
    for (size_t k = 0; k < 2 * t->n_pairs; k++)
        for (int64_t i = 0; i < t->tiles; i++)
            selftest_compare(t->image + k * set + (size_t)came_from(t, i, hops) * BLOCK_WORDS,
                             t->landing + k * set + (size_t)i * BLOCK_WORDS, BLOCK_WORDS, &t->errors);
    return TOOL_OK;
}

/* Starts over with new data: all hops back and forth, plus one if their number is odd. */
static tool_exit run_hops(traffic *t, int64_t hops)
{
    size_t bytes = t->words * sizeof *t->image;
    selftest_fill(t->image, t->words, (uint64_t)t->done);
    if (ipu_engine_write(t->engine, "here", t->image, bytes) != IPU_OK) return selftest_fail();
    if (hops > 1) {
        SELFTEST_TRY(selftest_run(t->engine, hops == t->hops ? FULL : REST, &t->seconds));
        SELFTEST_TRY(check(t, "here", hops / 2 * 2));
    }
    if (hops % 2) {
        SELFTEST_TRY(selftest_run(t->engine, THERE, &t->seconds));
        SELFTEST_TRY(check(t, "there", hops));
    }
    t->done += hops;
    return TOOL_OK;
}

/* ---- results ---- */

static double kbytes(const traffic *t)
{
    return (double)t->done * (double)t->words * sizeof(uint32_t) / 1024;
}

static double gbps(const traffic *t) { return selftest_gbps(kbytes(t) * 1024, t->seconds); }

static double modelled_gbps(const traffic *t)
{
    return selftest_gbps((double)t->words * sizeof(uint32_t), t->modelled);
}

static void print_progress(const traffic *t)
{
    printf("  %lld iterations: %.0f KB, %.2f Gb/s, %lld errors\n", (long long)t->done, kbytes(t), gbps(t),
           (long long)t->errors.wrong);
    fflush(stdout);
}

static void print_result(const traffic *t)
{
    if (t->all)
        printf("%zu links of device %d", t->n_pairs, t->s.info->id);
    else
        printf("IPU %d <-> IPU %d of device %d", t->ends[0], t->ends[1], t->s.info->id);
    printf(": %lld iterations of 64 KB from each of %lld tiles, both ways\n", (long long)t->done,
           (long long)t->tiles);
    printf("%.0f KB in %.6g s: %.2f Gb/s (modelled: %.2f Gb/s), %lld errors\n", kbytes(t), t->seconds,
           gbps(t), modelled_gbps(t), (long long)t->errors.wrong);
}

/* "0024.xxxx.8203321": hides which of its boards it is. */
static void mask_serial(const char *serial, char out[DEVICE_TEXT])
{
    const char *from = strchr(serial, '.'), *to = from ? strchr(from + 1, '.') : NULL;
    if (to)
        snprintf(out, DEVICE_TEXT, "%.*s.xxxx%s", (int)(from - serial), serial, to);
    else
        snprintf(out, DEVICE_TEXT, "%s", serial);
}

/* Values a virtual board has no sensor for are N/A; the sensors' names are the vendor's. */
static json_t *add_board(json_t *boards, const ipu_single *single)
{
    char serial[DEVICE_TEXT];
    mask_serial(single->board, serial);
    json_t *board = json_object_get(boards, serial);
    if (board) return board;
    board = json_pack("{s:{s:s,s:s},s:[],s:s,s:s}", "power_sensors", "XDPE132G5C:0", "N/A", "XDPE132G5C:1",
                      "N/A", "device_ids", "type", single->machine->type, "board_power", "N/A");
    return json_object_set_new(boards, serial, board) == 0 ? board : NULL;
}

static json_t *boards_json(const traffic *t)
{
    json_t *boards = json_object();
    bool    ok     = boards;
    for (int i = 0; ok && i < t->s.info->n_ipus; i++) {
        const ipu_single *single = &t->s.partition->singles[t->s.info->first + i];
        if (!t->all && single->index != t->ends[0] && single->index != t->ends[1]) continue;
        json_t *board = add_board(boards, single);
        char    id[DEVICE_TEXT];
        snprintf(id, sizeof id, "%d", single->index);
        ok = board && json_array_append_new(json_object_get(board, "device_ids"), json_string(id)) == 0;
    }
    if (ok) return boards;
    json_decref(boards);
    return NULL;
}

static bool set_end(json_t *o, const traffic *t, const char *key, int end)
{
    return t->all ? selftest_set(o, key, "all") : selftest_set(o, key, "%d", end);
}

static json_t *result_json(const traffic *t)
{
    json_t *o  = json_pack("{s:o}", "boards", boards_json(t));
    bool    ok = o && set_end(o, t, "device0", t->ends[0]) && set_end(o, t, "device1", t->ends[1])
           && selftest_set(o, "duration_sec", "%.9g", t->seconds)
           && selftest_set(o, "kbytes_transferred", "%.0f", kbytes(t))
           && selftest_set(o, "gbytes_transferred", "%.6g", kbytes(t) / 1024 / 1024)
           && selftest_set(o, "gbps", "%.6g", gbps(t))
           && selftest_set(o, "modelled_gbps", "%.6g", modelled_gbps(t))
           && selftest_set(o, "errors", "%lld", (long long)t->errors.wrong)
           && selftest_set(o, "power", "N/A");
    if (ok) return json_pack("{s:o}", "tile_to_tile", o);
    json_decref(o);
    return NULL;
}

/* ---- all of it ---- */

/* Ctrl-C is the normal end of --forever, not a failure. */
static tool_exit run_all(traffic *t)
{
    tool_exit code = TOOL_OK;
    while (code == TOOL_OK && (t->forever || t->done < t->iterations)) {
        int64_t left = t->iterations - t->done;
        code         = run_hops(t, t->forever || left > t->hops ? t->hops : left);
        if (code == TOOL_OK && t->verbose) print_progress(t);
        if (!t->forever) selftest_show(&t->s, "iterations", t->done, t->iterations);
    }
    return t->forever && code == TOOL_INTERRUPTED ? TOOL_OK : code;
}

static tool_exit test(traffic *t)
{
    double hop = (double)t->n_pairs * 2 * (double)t->tiles * BLOCK_BYTES;
    /* Both places of each block, its image and the landing buffer. */
    if (!selftest_has_memory(4 * hop, "use fewer --tiles")) return TOOL_FAILED;
    t->hops    = hop * 2 > RUN_BYTES ? 2 : (int64_t)(RUN_BYTES / hop) / 2 * 2;
    t->words   = (size_t)hop / sizeof(uint32_t);
    t->image   = malloc(t->words * sizeof *t->image);
    t->landing = malloc(t->words * sizeof *t->landing);
    if (!t->image || !t->landing) return tool_fail("out of memory");
    SELFTEST_TRY(load(t));
    SELFTEST_TRY(run_all(t));
    json_t *out = t->json ? result_json(t) : NULL;
    if (t->json && !out) return tool_fail("out of memory");
    if (!t->json) print_result(t);
    tool_exit code = TOOL_OK;
    if (t->errors.wrong)
        code = tool_fail(
            "wrong words, of 4 bytes, that are not what was sent: %lld; the first is 0x%08x, expected was 0x%08x",
            (long long)t->errors.wrong, t->errors.found, t->errors.expected);
    return selftest_finish(&t->s, code, out);
}

/* ---- which IPUs ---- */

static tool_exit attach_all(traffic *t)
{
    SELFTEST_TRY(selftest_begin_all(&t->s, NULL));
    if (t->s.target.n_ipus < 2)
        return tool_fail("device %d of partition %s has one IPU: there is no link to test", t->s.info->id,
                         t->s.partition->name);
    t->pairs = selftest_links(t->s.target.n_ipus, &t->n_pairs);
    return t->pairs ? TOOL_OK : tool_fail("out of memory");
}

static bool is_single(const traffic *t, int id)
{
    const ipu_device_info *info;
    if (ipu_partition_find_device(t->s.partition, id, &info) != IPU_OK) {
        selftest_fail();
        return false;
    }
    if (info->n_ipus == 1) return true;
    if (!t->s.partition->reconfigurable) {
        tool_fail("partition %s is not reconfigurable, and has no single IPUs to name: use --all-links",
                  t->s.partition->name);
        return false;
    }
    tool_fail("device %d is a group of %d IPUs: expected a single one (gc-info -l lists them)", id,
              info->n_ipus);
    return false;
}

/* The smallest group that contains both. */
static tool_exit attach_pair(traffic *t)
{
    SELFTEST_TRY(selftest_look(&t->s));
    const ipu_partition   *p    = t->s.partition;
    const ipu_device_info *best = NULL;
    for (int k = 0; k < 2; k++)
        if (!is_single(t, t->ends[k])) return TOOL_FAILED;
    if (t->ends[0] == t->ends[1]) return tool_fail("device %d is given twice: expected two IPUs", t->ends[0]);
    for (size_t i = 0; i < p->n_devices; i++) {
        const ipu_device_info *d     = &p->devices[i];
        bool                   holds = true;
        for (int k = 0; k < 2; k++)
            holds = holds && t->ends[k] >= d->first && t->ends[k] < d->first + d->n_ipus;
        if (holds && (!best || d->n_ipus < best->n_ipus)) best = d;
    }
    if (!best) return tool_fail("no device of partition %s has both IPUs", p->name);
    SELFTEST_TRY(selftest_attach(&t->s, best->id));
    t->pairs = malloc(sizeof *t->pairs);
    if (!t->pairs) return tool_fail("out of memory");
    *t->pairs  = (selftest_link){{t->ends[0] - best->first, t->ends[1] - best->first}};
    t->n_pairs = 1;
    return TOOL_OK;
}

static tool_exit parse(traffic *t, const tool_arguments *args)
{
    const char *ends[2] = {args->values[IPUTRAFFIC_DEVICE0], args->values[IPUTRAFFIC_DEVICE1]};
    t->json             = args->values[IPUTRAFFIC_JSON];
    t->forever          = args->values[IPUTRAFFIC_FOREVER];
    t->verbose          = args->values[IPUTRAFFIC_VERBOSE];
    t->all              = args->values[IPUTRAFFIC_ALL];
    if (!selftest_option(args, IPUTRAFFIC_ITERATIONS, "iterations", 1, INT32_MAX, &t->iterations)
        || !selftest_option(args, IPUTRAFFIC_TILES, "tiles", 2, 1 << 20, &t->tiles))
        return TOOL_USAGE;
    if (t->forever && t->json) return tool_usage("iputraffictest", "--forever never comes to its JSON");
    if (t->forever && args->values[IPUTRAFFIC_ITERATIONS])
        return tool_usage("iputraffictest", "--forever and --iterations: expected one of them");
    if (t->verbose && t->json) return tool_usage("iputraffictest", "--verbose is of text, not of JSON");
    if (t->all && (ends[0] || ends[1]))
        return tool_usage("iputraffictest", "--all-links is of all IPUs: without --device0 and --device1");
    for (int k = 0; k < 2; k++) {
        t->ends[k] = k;
        if (ends[k] && !device_number(ends[k], &t->ends[k])) return TOOL_USAGE;
    }
    return TOOL_OK;
}

tool_exit run_iputraffictest(const tool_arguments *args)
{
    traffic   t    = {.iterations = 1000, .tiles = 32};
    tool_exit code = parse(&t, args);
    if (code != TOOL_OK) return code;
    code = t.all ? attach_all(&t) : attach_pair(&t);
    if (code == TOOL_OK) code = selftest_tiles(&t.s, &t.tiles);
    if (code == TOOL_OK) code = test(&t);
    ipu_engine_destroy(t.engine);
    free(t.pairs);
    free(t.image);
    free(t.landing);
    return selftest_end(&t.s, code);
}

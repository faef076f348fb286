/* `ipu links`, gc-links: each pair of linked IPUs sends patterns both ways, which are checked on arrival.
 *
 * All links of the device (by default the whole partition) work at the same time. Every pattern is followed
 * by its complement, so that no word can pass by having been there before. */
#include <stdio.h>
#include <stdlib.h>

#include "ipu/ipuinfo.h"
#include "output.h"
#include "selftest/selftest.h"
#include "selftest/data.h"
#include "selftest/links.h"

enum {
    WORDS      = 4096,
    N_PATTERNS = 8
}; /* a pattern is 16 KiB on a tile, and there are four on both sides of it */

typedef struct training {
    selftest       s;
    selftest_link *pairs;
    size_t         n_pairs;
    int64_t       *wrong; /* words, by pair and direction */
    ipu_engine    *engine;
    uint32_t      *sent, *landing;
    double         seconds, modelled; /* of all runs; of one run */
} training;

static size_t n_words(const training *t) { return t->n_pairs * 2 * WORDS; }

/* [pairs, 2 directions, words] on tiles of the sending or receiving IPU. Each link of an IPU has tiles of its
 * own, chosen by the pair's number. */
static ipu_tensor add_side(const training *t, ipu_graph *g, bool receives)
{
    ipu_tensor x = ipu_graph_add_variable(g, IPU_UINT32, IPU_SHAPE((int64_t)t->n_pairs, 2, WORDS),
                                          receives ? "received" : "sent");
    for (size_t p = 0; p < t->n_pairs; p++)
        for (int k = 0; k < 2; k++) {
            int64_t ipu  = t->pairs[p].ipu[receives ? 1 - k : k];
            int64_t tile = ipu * t->s.target.tiles_per_ipu + (int64_t)p % t->s.target.tiles_per_ipu;
            ipu_graph_set_tile_mapping(g, ipu_tensor_index(ipu_tensor_index(x, (int64_t)p), k), tile);
        }
    return x;
}

static tool_exit load(training *t)
{
    ipu_graph *g = selftest_graph(&t->s);
    if (!g) return TOOL_FAILED;
    ipu_tensor  sent = add_side(t, g, false), received = add_side(t, g, true);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_copy(p, sent, received);
    ipu_graph_add_host_write(g, "sent", sent);
    ipu_graph_add_host_read(g, "received", received);
    tool_exit code = selftest_price(g, &p, 1, &t->modelled) == IPU_OK ? TOOL_OK : selftest_fail();
    if (code == TOOL_OK) code = selftest_load(&t->s, g, &p, 1, &t->engine);
    ipu_graph_destroy(g);
    return code;
}

static tool_exit exchange(training *t, uint64_t seed, bool complement)
{
    size_t bytes = n_words(t) * sizeof *t->sent;
    selftest_fill(t->sent, n_words(t), seed);
    for (size_t i = 0; complement && i < n_words(t); i++) t->sent[i] = ~t->sent[i];
    if (ipu_engine_write(t->engine, "sent", t->sent, bytes) != IPU_OK) return selftest_fail();
    SELFTEST_TRY(selftest_run(t->engine, 0, &t->seconds));
    if (ipu_engine_read(t->engine, "received", t->landing, bytes) != IPU_OK) return selftest_fail();
    selftest_spoil(t->landing, n_words(t));
    for (size_t k = 0; k < 2 * t->n_pairs; k++) {
        selftest_errors errors = {0};
        t->wrong[k] += selftest_compare(t->sent + k * WORDS, t->landing + k * WORDS, WORDS, &errors);
    }
    return TOOL_OK;
}

/* ---- results ---- */

static int n_failed(const training *t)
{
    int failed = 0;
    for (size_t k = 0; k < 2 * t->n_pairs; k++) failed += t->wrong[k] != 0;
    return failed;
}

static double gbps(const training *t, double seconds, int runs)
{
    return selftest_gbps((double)runs * (double)n_words(t) * sizeof(uint32_t), seconds);
}

/* Direction k of a pair: from its IPU k to the other one. */
static int from_id(const training *t, size_t pair, int k)
{
    return t->s.info->first + (int)t->pairs[pair].ipu[k];
}

static void print_text(const training *t)
{
    for (size_t p = 0; p < t->n_pairs; p++)
        for (int k = 0; k < 2; k++)
            printf("IPU %d -> IPU %d: %s\n", from_id(t, p, k), from_id(t, p, 1 - k),
                   t->wrong[2 * p + (size_t)k] ? "failed" : "passed");
    printf("%lld IPUs, %zu link%s, %d training fail%s: %s\n", (long long)t->s.target.n_ipus, t->n_pairs,
           t->n_pairs == 1 ? "" : "s", n_failed(t), n_failed(t) == 1 ? "" : "s",
           n_failed(t) ? "failed" : "passed");
    printf("%.2f Gb/s, all links together (modelled: %.2f Gb/s)\n", gbps(t, t->seconds, N_PATTERNS),
           gbps(t, t->modelled, 1));
}

/* A virtual link has no channel names, generation or lanes. */
static json_t *direction_json(const training *t, const ipu_info *info, size_t pair, int k)
{
    int     from = from_id(t, pair, k), to = from_id(t, pair, 1 - k);
    json_t *o = json_object(), *channel = json_object(), *channels = json_array();
    bool    ok = device_set_number(o, "from id", from) && device_set_number(o, "to id", to)
           && device_set(o, "from pcie id", ipu_info_get(info, from, "pci id"))
           && device_set(o, "to pcie id", ipu_info_get(info, to, "pci id"))
           && device_set(channel, "from", "N/A") && device_set(channel, "to", "N/A")
           && device_set(channel, "status", t->wrong[2 * pair + (size_t)k] ? "failed" : "passed")
           && device_set(channel, "gen", "N/A") && device_set(channel, "lanes", "N/A");
    ok = json_array_append_new(channels, channel) == 0 && ok;
    ok = json_object_set_new(o, "channel", channels) == 0 && ok;
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static json_t *describe(const training *t)
{
    ipu_info *info;
    json_t   *links = json_array(), *o = json_object();
    bool      ok = ipu_info_create(IPU_INFO_ACTIVE_PARTITION, &info) == IPU_OK;
    for (size_t p = 0; ok && p < t->n_pairs; p++)
        for (int k = 0; k < 2; k++)
            ok = json_array_append_new(links, direction_json(t, info, p, k)) == 0 && ok;
    if (ok) ipu_info_destroy(info);
    ok = json_object_set_new(o, "ipu to ipu", links) == 0 && ok;
    ok = ok && device_set_number(o, "num ipus", (long long)t->s.target.n_ipus)
      && device_set(o, "overall result", n_failed(t) ? "failed" : "passed")
      && device_set_number(o, "training fails", n_failed(t))
      && selftest_set(o, "gbps", "%.6g", gbps(t, t->seconds, N_PATTERNS))
      && selftest_set(o, "modelled gbps", "%.6g", gbps(t, t->modelled, 1));
    if (ok) return o;
    json_decref(o);
    return NULL;
}

/* ---- all of it ---- */

static tool_exit test(training *t, bool json)
{
    if (t->s.target.n_ipus < 2)
        return tool_fail("device %d of partition %s has one IPU: there is no link to test", t->s.info->id,
                         t->s.partition->name);
    t->pairs = selftest_links(t->s.target.n_ipus, &t->n_pairs);
    if (!t->pairs) return tool_fail("out of memory");
    t->wrong   = calloc(2 * t->n_pairs, sizeof *t->wrong);
    t->sent    = malloc(n_words(t) * sizeof *t->sent);
    t->landing = malloc(n_words(t) * sizeof *t->landing);
    if (!t->wrong || !t->sent || !t->landing) return tool_fail("out of memory");
    SELFTEST_TRY(load(t));
    for (int i = 0; i < N_PATTERNS; i++) SELFTEST_TRY(exchange(t, (uint64_t)i / 2, i % 2));
    json_t *out = json ? describe(t) : NULL;
    if (json && !out) return tool_fail("out of memory");
    if (!json) print_text(t);
    tool_exit code = TOOL_OK;
    if (n_failed(t))
        code = tool_fail("wrong data over links, of %zu directions: %d", 2 * t->n_pairs, n_failed(t));
    return selftest_finish(&t->s, code, out);
}

tool_exit run_links(const tool_arguments *args)
{
    training  t    = {0};
    tool_exit code = selftest_begin_all(&t.s, args->values[LINKS_DEVICE]);
    if (code == TOOL_OK) code = test(&t, args->values[LINKS_JSON]);
    ipu_engine_destroy(t.engine);
    free(t.pairs);
    free(t.wrong);
    free(t.sent);
    free(t.landing);
    return selftest_end(&t.s, code);
}

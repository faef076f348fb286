/* IPUs of `ipu run`: options that spread a model over several. */
#include "run/ipus.h"

#include <stdio.h>
#include <string.h>

#include "ipu/device.h"
#include "output.h"

enum { MOST_IPUS = 4096, MOST_STAGES = 64, MOST_BATCHES = 1 << 24 };

static bool read_count(const tool_arguments *args, int option, const char *name, int64_t most, int64_t *out)
{
    *out = 1;
    return !args->values[option] || tool_integer(name, args->values[option], 1, most, out);
}

static bool read_mode(const char *text, run_ipus *out)
{
    static const char every[] = "every:";
    static const struct {
        const char     *name;
        ipu_output_mode mode;
    } modes[] = {{"all", IPU_OUTPUT_ALL},
                 {"final", IPU_OUTPUT_FINAL},
                 {"sum", IPU_OUTPUT_SUM},
                 {"mean", IPU_OUTPUT_MEAN}};
    if (!text) return true;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(text, modes[i].name) == 0) {
            out->mode = modes[i].mode;
            return true;
        }
    out->mode = IPU_OUTPUT_EVERY_N;
    if (strncmp(text, every, strlen(every)) == 0)
        return tool_integer("output-mode", text + strlen(every), 1, INT64_MAX, &out->period);
    tool_usage("run", "--output-mode %s: expected all, every:P, final, sum or mean", text);
    return false;
}

tool_exit run_ipus_read(run_ipus *out, const tool_arguments *args)
{
    int64_t each = 1;
    if (!read_count(args, RUN_IPUS, "ipus", MOST_IPUS, &out->ipus)
        || !read_count(args, RUN_STAGES, "pipeline-stages", MOST_STAGES, &out->stages)
        || !read_count(args, RUN_BATCHES, "batches", MOST_BATCHES, &out->batches)
        || !read_mode(args->values[RUN_OUTPUT_MODE], out))
        return TOOL_USAGE;
    while (each < out->stages) each *= 2;
    if (!args->values[RUN_IPUS]) out->ipus = each;
    out->replicas = out->ipus / each;
    if (out->ipus % each == 0 && (out->replicas & (out->replicas - 1)) == 0) return TOOL_OK;
    if (each == 1)
        return tool_usage("run", "--ipus %lld: expected 1 or a power of two", (long long)out->ipus);
    return tool_usage("run", "--ipus %lld: expected a power of two from %lld on: %lld stages take %lld%s",
                      (long long)out->ipus, (long long)each, (long long)out->stages, (long long)each,
                      each > out->stages ? " (rounded up)" : "");
}

int64_t run_ipus_batches(const run_ipus *r) { return r->batches * r->replicas; }

tool_exit run_ipus_target(const run_ipus *r, const tool_arguments *args, ipu_target *out)
{
    const char *name = args->values[RUN_TARGET] ? args->values[RUN_TARGET] : ipu_device_chip();
    int64_t     n    = args->values[RUN_IPUS] || r->ipus > 1 || r->batches > 1 ? r->ipus : 0;
    return ipu_target_find(name, n, out) == IPU_OK ? TOOL_OK : tool_fail("%s", ipu_message());
}

static const char *s(int64_t n) { return n == 1 ? "" : "s"; }

void run_ipus_print(const run_ipus *r)
{
    if (r->ipus == 1 && r->batches == 1) return;
    printf("%-10s%lld: %lld replica%s of %lld stage%s, a run has %lld batch%s of each\n", "ipus",
           (long long)r->ipus, (long long)r->replicas, s(r->replicas), (long long)r->stages, s(r->stages),
           (long long)r->batches, r->batches == 1 ? "" : "es");
}

json_t *run_ipus_json(const run_ipus *r)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "ipus", (json_int_t)r->ipus, "pipeline_stages",
                     (json_int_t)r->stages, "replicas", (json_int_t)r->replicas, "batches",
                     (json_int_t)r->batches);
}

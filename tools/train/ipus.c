/* IPUs of `ipu train`: options that spread training over several, and a line for each of them at the end. */
#include "train/ipus.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

static const char *const schedules[] = {
    [IPU_PIPELINE_GROUPED]     = "grouped",
    [IPU_PIPELINE_INTERLEAVED] = "interleaved",
    [IPU_PIPELINE_SEQUENTIAL]  = "sequential",
};
enum { N_SCHEDULES = sizeof schedules / sizeof *schedules, MOST_REPLICAS = 1024 };

/* ---- reading ---- */

static bool read_count(const tool_arguments *args, int option, const char *name, int64_t most, int64_t *out)
{
    return !args->values[option] || tool_integer(name, args->values[option], 1, most, out);
}

/* In this process. */
static int64_t n_replicas(const train_ipus *t) { return t->replicas / t->n_processes; }
static int64_t n_ipus(const train_ipus *t) { return n_replicas(t) * t->stages; }

/* From the command line, --ipus, or the launcher; else one per process. */
static tool_exit find_replicas(train_ipus *t, const tool_arguments *args, int64_t ipus)
{
    const char *launched = getenv("IPU_POPRUN_REPLICAS");
    t->replicas          = t->n_processes;
    if (args->values[TRAIN_REPLICAS])
        return read_count(args, TRAIN_REPLICAS, "replicas", MOST_REPLICAS, &t->replicas) ? TOOL_OK
                                                                                         : TOOL_USAGE;
    if (ipus > 0 && ipus % t->stages)
        return tool_usage("train", "--ipus %lld: not to be divided into replicas of %lld stages",
                          (long long)ipus, (long long)t->stages);
    if (ipus > 0)
        t->replicas = ipus / t->stages;
    else if (launched && *launched
             && !tool_integer("replicas (IPU_POPRUN_REPLICAS)", launched, 1, MOST_REPLICAS, &t->replicas))
        return TOOL_USAGE;
    return TOOL_OK;
}

static tool_exit read_counts(train_ipus *t, const tool_arguments *args)
{
    int64_t ipus = 0;
    t->stages    = 1;
    if (!read_count(args, TRAIN_IPUS, "ipus", MOST_REPLICAS, &ipus)
        || !read_count(args, TRAIN_STAGES, "pipeline-stages", TRAIN_STAGES_MOST, &t->stages))
        return TOOL_USAGE;
    tool_exit code = find_replicas(t, args, ipus);
    if (code != TOOL_OK) return code;
    int64_t n = t->replicas * t->stages;
    if (ipus > 0 && n != ipus)
        return tool_usage("train", "--ipus %lld: %lld replicas of %lld stages have %lld", (long long)ipus,
                          (long long)t->replicas, (long long)t->stages, (long long)n);
    if (t->replicas % t->n_processes)
        return tool_usage("train",
                          "--replicas %lld do not divide over %lld processes: expected a multiple of it",
                          (long long)t->replicas, (long long)t->n_processes);
    if (n_ipus(t) & (n_ipus(t) - 1))
        return tool_usage("train", "%lld replicas of %lld stages are %lld IPUs: expected 1 or a power of two",
                          (long long)n_replicas(t), (long long)t->stages, (long long)n_ipus(t));
    return TOOL_OK;
}

/* The index of a word among `n`, or `n` after reporting that it is none of them. */
static int find_word(const char *option, const char *word, const char *const *words, int n)
{
    char list[128] = "";
    for (int i = 0; i < n; i++) {
        if (!strcmp(words[i], word)) return i;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", words[i]);
    }
    tool_usage("train", "--%s: no \"%s\"; there are: %s", option, word, list);
    return n;
}

static bool read_words(train_ipus *t, const tool_arguments *args)
{
    static const char *const places[] = {"optimizer", "activations", "both"}, *const reductions[] = {"mean",
                                                                                                     "sum"};
    const char *const *v = args->values;
    if (v[TRAIN_PIPELINE]) {
        int found = find_word("pipeline-schedule", v[TRAIN_PIPELINE], schedules, N_SCHEDULES);
        if (found == N_SCHEDULES) return false;
        t->schedule = (ipu_pipeline_schedule)found;
    }
    if (v[TRAIN_OFF_CHIP]) {
        int found = find_word("off-chip", v[TRAIN_OFF_CHIP], places, 3);
        if (found == 3) return false;
        t->optimizer_off_chip   = found != 1;
        t->activations_off_chip = found != 0;
    }
    if (v[TRAIN_REDUCTION]) {
        int found = find_word("reduction", v[TRAIN_REDUCTION], reductions, 2);
        if (found == 2) return false;
        t->reduction = found ? IPU_REDUCTION_SUM : IPU_REDUCTION_MEAN;
    }
    return true;
}

/* Requirements of a pipeline, so that all its stages have work. */
static tool_exit check_pipeline(const train_ipus *t, const tool_arguments *args, int64_t accumulation)
{
    const char *const *v     = args->values;
    int64_t            least = 2 * t->stages - 1;
    if (t->stages == 1 && v[TRAIN_PIPELINE])
        return tool_usage("train", "--pipeline-schedule is of stages: it needs --pipeline-stages 2 or more");
    if (t->stages == 1 && t->recompute)
        return tool_usage("train", "--recompute is of stages: it needs --pipeline-stages 2 or more");
    if (t->stages == 1 && t->activations_off_chip)
        return tool_usage("train", "--off-chip %s: what stages keep: it needs --pipeline-stages 2 or more",
                          v[TRAIN_OFF_CHIP]);
    if (t->stages > 1 && t->schedule != IPU_PIPELINE_SEQUENTIAL && accumulation < least)
        return tool_usage(
            "train",
            "--pipeline-stages %lld needs --gradient-accumulation %lld or more, for a batch in each "
            "(or --pipeline-schedule sequential)",
            (long long)t->stages, (long long)least);
    return TOOL_OK;
}

tool_exit train_ipus_read(train_ipus *t, const tool_arguments *args, int64_t n_processes,
                          int64_t accumulation)
{
    const char *const *v = args->values;
    *t                   = (train_ipus){.n_processes = n_processes};
    tool_exit code       = read_counts(t, args);
    if (code != TOOL_OK) return code;
    t->recompute = v[TRAIN_RECOMPUTE] != NULL;
    t->shard     = v[TRAIN_SHARD] != NULL;
    t->no_fold   = v[TRAIN_NO_FOLD] != NULL;
    if (!read_words(t, args)) return TOOL_USAGE;
    if (t->shard && n_replicas(t) == 1)
        return tool_usage("train", "--shard-optimizer divides it among replicas: it needs 2 or more");
    return check_pipeline(t, args, accumulation);
}

void train_ipus_apply(const train_ipus *t, ipu_executor_options *out)
{
    out->replicas             = n_replicas(t);
    out->stages               = t->stages > 1 ? t->stages : 0;
    out->schedule             = t->schedule;
    out->reduction            = t->reduction;
    out->recompute            = t->recompute;
    out->shard_optimizer      = t->shard;
    out->optimizer_off_chip   = t->optimizer_off_chip;
    out->activations_off_chip = t->activations_off_chip;
    out->no_fold              = t->no_fold;
}

/* Schedules, memory and sharding change no numbers or states, so training may resume with different ones. */
bool train_ipus_settings(const train_ipus *t, json_t *out)
{
    return (t->reduction == IPU_REDUCTION_MEAN
            || json_object_set_new(out, "reduction", json_string("sum")) == 0)
        && (!t->no_fold || json_object_set_new(out, "no-fold", json_true()) == 0)
        && (t->stages == 1
            || json_object_set_new(out, "pipeline-stages", json_integer((json_int_t)t->stages)) == 0);
}

/* ---- finding IPUs ---- */

typedef struct place {
    ipu_device_list     *list;
    const ipu_partition *partition;     /* NULL if not attached */
    int                  device, first; /* -1 for IPUs of its own, beyond those the partition shows */
    double               busy;          /* share of the time; below 0 if not measured */
} place;

static void find_place(ipu_executor *x, place *out)
{
    const ipu_device_info *info;
    ipu_device_counters    counters;
    ipu_engine            *engine = ipu_executor_engine(x);
    ipu_device            *device = engine ? ipu_engine_device(engine) : NULL;
    *out                          = (place){.device = -1, .first = -1, .busy = -1};
    if (!device || !ipu_device_is_attached(device) || ipu_device_list_create(0, &out->list) != IPU_OK) return;
    out->partition = ipu_device_list_active(out->list);
    out->device    = ipu_device_id(device);
    if (out->device >= 0 && ipu_partition_find_device(out->partition, out->device, &info) == IPU_OK)
        out->first = info->first;
    ipu_device_get_counters(device, &counters);
    out->busy = counters.utilisation_session;
}

void train_ipus_text(const train_ipus *t, ipu_executor *x, char *out, size_t size)
{
    place   p;
    char    where[128] = "", how[96] = "";
    int64_t n = n_ipus(t);
    *out      = 0;
    if (n == 1) return;
    find_place(x, &p);
    if (p.partition && p.first >= 0)
        snprintf(where, sizeof where, ", %d to %d of partition %.64s", p.first, p.first + (int)n - 1,
                 p.partition->name);
    else if (p.partition)
        snprintf(where, sizeof where, " of its own beside partition %.64s", p.partition->name);
    if (t->stages == 1)
        snprintf(how, sizeof how, "%lld replicas", (long long)n_replicas(t));
    else if (n_replicas(t) == 1)
        snprintf(how, sizeof how, "%lld stages", (long long)t->stages);
    else
        snprintf(how, sizeof how, "%lld replicas of %lld stages", (long long)n_replicas(t),
                 (long long)t->stages);
    snprintf(out, size, "%lld IPUs%s: %s", (long long)n, where, how);
    ipu_device_list_destroy(p.list);
}

json_t *train_ipus_json(const train_ipus *t, ipu_executor *x, const double *cycles)
{
    place   p;
    json_t *list = json_array();
    bool    ok   = list != NULL;
    find_place(x, &p);
    for (int64_t i = 0; ok && i < n_ipus(t); i++)
        ok = json_array_append_new(
                 list, json_pack("{s:o, s:o, s:I, s:I, s:o, s:o}", "ipu",
                                 p.first < 0 ? json_null() : json_integer(p.first + (json_int_t)i), "device",
                                 p.device < 0 ? json_null() : json_integer(p.device), "replica",
                                 (json_int_t)(i / t->stages), "stage", (json_int_t)(i % t->stages), "busy",
                                 tool_json_finite(p.busy < 0 ? (double)NAN : p.busy), "cycles_per_step",
                                 tool_json_finite(cycles ? cycles[i % t->stages] : (double)NAN)))
          == 0;
    ipu_device_list_destroy(p.list);
    if (ok) return list;
    json_decref(list);
    return NULL;
}

void train_ipus_print(const train_ipus *t, ipu_executor *x, const double *cycles)
{
    place   p;
    int64_t n = n_ipus(t);
    if (n == 1) return;
    find_place(x, &p);
    for (int64_t i = 0; i < n; i++) {
        char which[32] = "-", busy[32] = "N/A", priced[64] = "";
        if (p.first >= 0) snprintf(which, sizeof which, "%d", p.first + (int)i);
        if (p.busy >= 0) snprintf(busy, sizeof busy, "%.0f%%", 100 * p.busy);
        if (cycles) snprintf(priced, sizeof priced, ", computes %.0f cycles a step", cycles[i % t->stages]);
        printf("IPU %s: replica %lld, stage %lld, busy %s%s\n", which, (long long)(i / t->stages),
               (long long)(i % t->stages), busy, priced);
    }
    ipu_device_list_destroy(p.list);
}

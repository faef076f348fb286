/* Options of executors: what of them goes together, and how many IPUs they ask for. */
#include "train/options.h"

#include <inttypes.h>
#include <stdio.h>

#include "session/cache.h"
#include "engine/options.h"
#include "ipu/device.h"
#include "ipu/target.h"

static bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

/* ---- one by one ---- */

static ipu_status check_count(const char *name, int64_t value)
{
    if (value >= 0 && value <= IPU__MOST_OF_AN_OPTION) return IPU_OK;
    return ipu__fail(IPU_INVALID, "option %s: expected 1 to %d (0 is 1), found %" PRId64, name,
                     IPU__MOST_OF_AN_OPTION, value);
}

static ipu_status check_most(int64_t value)
{
    if (value >= 0 && value <= IPU__MOST_OF_AN_OPTION) return IPU_OK;
    return ipu__fail(
        IPU_INVALID,
        "option most_executables: expected 1 to %d (0: one, for arrays of one type and shape), found "
        "%" PRId64,
        IPU__MOST_OF_AN_OPTION, value);
}

static ipu_status check_kind(const char *name, int value, int last)
{
    if (value >= 0 && value <= last) return IPU_OK;
    return ipu__fail(IPU_INVALID, "option %s: expected 0 to %d, found %d", name, last, value);
}

static ipu_status check_kinds(const ipu_executor_options *o)
{
    IPU_TRY(check_kind("reduction", (int)o->reduction, IPU_REDUCTION_SUM));
    IPU_TRY(check_kind("attach", (int)o->attach, IPU_ATTACH_NEVER));
    IPU_TRY(check_kind("schedule", (int)o->schedule, IPU_PIPELINE_SEQUENTIAL));
    return check_kind("precision", (int)o->precision, IPU_PRECISION_HALF);
}

static ipu_status check_output(const ipu_executor_options *o, int64_t n_batches)
{
    if (o->output_mode < IPU_OUTPUT_DEFAULT || o->output_mode > IPU_OUTPUT_MEAN)
        return ipu__fail(IPU_INVALID, "option output_mode: there is no mode %d", (int)o->output_mode);
    if (o->output_mode != IPU_OUTPUT_EVERY_N) return IPU_OK;
    if (o->output_period > 0 && n_batches % o->output_period == 0) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "option output_period: expected a number that divides the %" PRId64
                     " batches of a run, found %" PRId64,
                     n_batches, o->output_period);
}

static ipu_status check_replicas(const ipu_executor_options *o)
{
    if (!is_power_of_two(o->replicas) || o->replicas > IPU__MOST_REPLICAS)
        return ipu__fail(IPU_INVALID,
                         "option replicas: expected 1 or a power of two up to %d, found %" PRId64,
                         IPU__MOST_REPLICAS, o->replicas);
    if (o->replicas % o->input_group_size != 0)
        return ipu__fail(IPU_INVALID,
                         "option input_group_size: expected a number that divides the %" PRId64
                         " replicas, found %" PRId64,
                         o->replicas, o->input_group_size);
    if (o->shard_optimizer && o->replicas == 1)
        return ipu__fail(IPU_INVALID,
                         "option shard_optimizer: the states of the optimizer are divided among replicas: "
                         "expected 2 replicas or more, found 1");
    return IPU_OK;
}

/* Each IPU of a replica has a stage. */
static ipu_status check_stage_ipus(const ipu_executor_options *o)
{
    uint64_t used = 0;
    if (o->stages < 0 || o->stages > IPU__MOST_REPLICAS)
        return ipu__fail(IPU_INVALID,
                         "option stages: expected 1 to %d (0: as the network names them), found %" PRId64,
                         IPU__MOST_REPLICAS, o->stages);
    if (o->n_stage_ipus > 0 && !o->stage_ipus)
        return ipu__fail(IPU_INVALID, "option stage_ipus: expected %zu numbers, found none", o->n_stage_ipus);
    if (o->n_stage_ipus > 0 && o->stages > 0 && o->n_stage_ipus != (size_t)o->stages)
        return ipu__fail(IPU_INVALID,
                         "option stage_ipus: expected an IPU for each of %" PRId64 " stages, found %zu",
                         o->stages, o->n_stage_ipus);
    for (size_t i = 0; i < o->n_stage_ipus; i++) {
        if (o->stage_ipus[i] < 0 || o->stage_ipus[i] >= IPU__MOST_REPLICAS)
            return ipu__fail(IPU_INVALID,
                             "option stage_ipus: stage %zu: expected an IPU from 0 to %d, found %" PRId64, i,
                             IPU__MOST_REPLICAS - 1, o->stage_ipus[i]);
        used |= UINT64_C(1) << o->stage_ipus[i];
    }
    if ((used & (used + 1)) == 0) return IPU_OK;
    int free_one = 0;
    while (used >> free_one & 1) free_one++;
    return ipu__fail(IPU_INVALID,
                     "option stage_ipus: IPU %d has no stage, and a later one has: leave none out", free_one);
}

/* ---- IPUs ---- */

static ipu__parallel_give give_of(const ipu_executor_options *o, bool training)
{
    ipu_output_mode otherwise = training ? IPU_OUTPUT_FINAL : IPU_OUTPUT_ALL;
    return ipu__parallel_give_of(o->output_mode == IPU_OUTPUT_DEFAULT ? otherwise : o->output_mode);
}

ipu__parallel ipu__executor_over(const ipu_executor_options *o, bool training)
{
    return (ipu__parallel){.target               = o->target,
                           .trains               = training,
                           .replicas             = o->replicas,
                           .processes            = ipu_comm_size(o->comm),
                           .iterations           = o->device_iterations,
                           .accumulation         = o->gradient_accumulation,
                           .stages               = o->stages,
                           .stage_ipus           = o->stage_ipus,
                           .n_stage_ipus         = o->n_stage_ipus,
                           .round_ipus           = o->round_ipus,
                           .schedule             = o->schedule,
                           .recompute            = o->recompute,
                           .activations_off_chip = o->activations_off_chip,
                           .shard_optimizer      = o->shard_optimizer,
                           .optimizer_off_chip   = o->optimizer_off_chip,
                           .reduction            = o->reduction,
                           .running_mean         = o->running_mean,
                           .no_fold              = o->no_fold,
                           .check_floats         = o->check_floats,
                           .give                 = give_of(o, training)};
}

/* A hard partition has no more IPUs than it shows. */
static ipu_status check_partition(const ipu_executor_options *o, int64_t n)
{
    ipu_device_list *list;
    ipu_status       status = ipu_device_list_create(0, &list);
    if (status == IPU_IO)
        return IPU_OK; /* whether that keeps a program from running is for attaching to say */
    IPU_TRY(status);
    const ipu_partition   *p      = ipu_device_list_active(list);
    const ipu_device_info *device = NULL;
    int64_t                has    = (int64_t)p->n_ipus;
    if (o->device_id > 0) {
        status = ipu_partition_find_device(p, o->device_id - 1, &device);
        if (status == IPU_OK) has = device->n_ipus;
    }
    if (status == IPU_OK && has < n && (device || !p->elastic)) {
        char which[32] = "";
        if (device) snprintf(which, sizeof which, "device %d of ", device->id);
        status = ipu__fail(
            IPU_NOT_FOUND,
            "%" PRId64 " replicas of %" PRId64 " IPUs need %" PRId64 " IPUs, and %spartition %s has %" PRId64
            ": take fewer replicas or stages, or a larger %s (ipu partition create, IPU_PARTITION)",
            o->replicas, n / o->replicas, n, which, p->name, has, device ? "device" : "partition");
    }
    ipu_device_list_destroy(list);
    return status;
}

ipu_status ipu__executor_check_ipus(const ipu_executor_options *o, int64_t n_stages)
{
    ipu__settings settings;
    ipu__parallel over = ipu__executor_over(o, false);
    IPU_TRY(ipu__parallel_check_ipus(&over, n_stages));
    IPU_TRY(ipu__options_settle(o->engine, &settings));
    if (o->attach == IPU_ATTACH_NEVER || settings.attach == IPU__ATTACH_NEVER) return IPU_OK;
    return check_partition(o, ipu__parallel_ipus_per_replica(&over, n_stages) * o->replicas);
}

/* ---- all of them ---- */

static int64_t or_one(int64_t n) { return n == 0 ? 1 : n; }

ipu_status ipu__executor_options_settle(const ipu_executor_options *given, ipu_executor_options *out)
{
    ipu_executor_options o = given ? *given : (ipu_executor_options){0};
    IPU_TRY(check_count("device_iterations", o.device_iterations));
    IPU_TRY(check_count("replicas", o.replicas));
    IPU_TRY(check_count("input_group_size", o.input_group_size));
    IPU_TRY(check_count("n_own_inputs", o.n_own_inputs));
    IPU_TRY(check_count("gradient_accumulation", o.gradient_accumulation));
    IPU_TRY(check_most(o.most_executables));
    IPU_TRY(check_kinds(&o));
    o.device_iterations     = or_one(o.device_iterations);
    o.replicas              = or_one(o.replicas);
    o.input_group_size      = or_one(o.input_group_size);
    o.gradient_accumulation = or_one(o.gradient_accumulation);
    if (!o.target) o.target = ipu_device_chip();
    IPU_TRY(check_replicas(&o));
    IPU_TRY(check_stage_ipus(&o));
    ipu__parallel over = ipu__executor_over(&o, false);
    if (o.stages > 0 || o.n_stage_ipus > 0)
        IPU_TRY(ipu__parallel_check_ipus(&over, o.stages > 0 ? o.stages : (int64_t)o.n_stage_ipus));
    int64_t iterations = o.device_iterations * o.gradient_accumulation;
    if (iterations > IPU__MOST_OF_AN_OPTION || iterations * o.replicas > IPU__MOST_OF_AN_OPTION)
        return ipu__fail(
            IPU_INVALID,
            "options: device_iterations x gradient_accumulation x replicas is over %d batches a run",
            IPU__MOST_OF_AN_OPTION);
    IPU_TRY(check_output(&o, iterations * o.replicas));
    *out = o;
    return IPU_OK;
}

ipu_status ipu__executor_options_check_inference(const ipu_executor_options *o)
{
    if (o->gradient_accumulation > 1)
        return ipu__fail(IPU_INVALID,
                         "option gradient_accumulation: expected 1 for inference, found %" PRId64,
                         o->gradient_accumulation);
    const struct {
        const char *name;
        bool        is_set;
    } options[] = {{"shard_optimizer", o->shard_optimizer},
                   {"optimizer_off_chip", o->optimizer_off_chip},
                   {"recompute", o->recompute},
                   {"activations_off_chip", o->activations_off_chip}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].is_set)
            return ipu__fail(IPU_INVALID,
                             "option %s: it is for training, and this is inference: leave it out",
                             options[i].name);
    return IPU_OK;
}

int64_t ipu_executor_options_n_batches(const ipu_executor_options *options)
{
    ipu_executor_options o = {0};
    if (ipu__executor_options_settle(options, &o) != IPU_OK) return 0;
    return o.device_iterations * o.gradient_accumulation * (o.replicas / o.input_group_size);
}

/* ---- what they are for ---- */

enum { NEITHER = 0, PROGRAM = 1, AGREED = 2, RESULT = 4 };

void ipu__executor_options_add_key(const ipu_executor_options *o, ipu__text *key)
{
#define NUMBER(member, uses) \
    if ((uses)&PROGRAM) ipu__text_add(key, #member "=%lld;", (long long)o->member);
#define TEXT(member, uses) \
    if ((uses)&PROGRAM) ipu__text_add(key, #member "=%s;", o->member ? o->member : "");
#define LIST(member, uses)                                       \
    for (size_t i = 0; (uses)&PROGRAM && i < o->n_##member; i++) \
        ipu__text_add(key, #member "=%lld;", (long long)o->member[i]);
#define ENGINE(member, uses) \
    if ((uses)&PROGRAM) ipu__cache_add_options(key, o->member);
#define COMM(member, uses) \
    if ((uses)&PROGRAM) ipu__text_add(key, #member "=%lld;", (long long)ipu_comm_size(o->member));
#include "train/executor/options.inc"
#undef NUMBER
#undef TEXT
#undef LIST
#undef ENGINE
#undef COMM
}

void ipu__executor_options_agreed(const ipu_executor_options *o, ipu__agreed *out)
{
    const struct {
        const char *name;
        int64_t     value;
    } all[] = {
#define NUMBER(member, uses) {(uses)&AGREED ? #member : NULL, (int64_t)o->member},
#define TEXT(member, uses)
#define LIST(member, uses)
#define ENGINE(member, uses)
#define COMM(member, uses)
#include "train/executor/options.inc"
#undef NUMBER
#undef TEXT
#undef LIST
#undef ENGINE
#undef COMM
    };
    _Static_assert(sizeof all / sizeof *all <= IPU__MOST_AGREED, "IPU__MOST_AGREED");
    out->n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].name) continue;
        snprintf(out->values[out->n], IPU__AGREED_BYTES, "%" PRId64, all[i].value);
        out->items[out->n] = (ipu_comm_item){all[i].name, out->values[out->n]};
        out->n++;
    }
}

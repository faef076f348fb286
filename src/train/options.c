/* Options of executors: what of them goes together. */
#include "train/options.h"

#include <inttypes.h>

static bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

static ipu_status check_count(const char *name, int64_t value)
{
    if (value >= 0 && value <= IPU__MOST_OF_AN_OPTION) return IPU_OK;
    return ipu__fail(IPU_INVALID, "option %s: expected 1 to %d (0 is 1), found %" PRId64, name,
                     IPU__MOST_OF_AN_OPTION, value);
}

static ipu_status check_output(const ipu_executor_options *o, int64_t n_batches)
{
    if (o->output_mode < IPU_OUTPUT_DEFAULT || o->output_mode > IPU_OUTPUT_SUM)
        return ipu__fail(IPU_INVALID, "option output_mode: there is no mode %d", (int)o->output_mode);
    if (o->output_mode != IPU_OUTPUT_EVERY_N) return IPU_OK;
    if (o->output_period > 0 && n_batches % o->output_period == 0) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "option output_period: expected a number that divides the %" PRId64
                     " batches of a run, found %" PRId64,
                     n_batches, o->output_period);
}

static int64_t or_one(int64_t n) { return n == 0 ? 1 : n; }

ipu_status ipu__executor_options_settle(const ipu_executor_options *given, ipu_executor_options *out)
{
    ipu_executor_options o = given ? *given : (ipu_executor_options){0};
    IPU_TRY(check_count("device_iterations", o.device_iterations));
    IPU_TRY(check_count("replicas", o.replicas));
    IPU_TRY(check_count("input_group_size", o.input_group_size));
    IPU_TRY(check_count("gradient_accumulation", o.gradient_accumulation));
    o.device_iterations     = or_one(o.device_iterations);
    o.replicas              = or_one(o.replicas);
    o.input_group_size      = or_one(o.input_group_size);
    o.gradient_accumulation = or_one(o.gradient_accumulation);
    if (!is_power_of_two(o.replicas))
        return ipu__fail(IPU_INVALID, "option replicas: expected a power of two, found %" PRId64, o.replicas);
    if (o.replicas % o.input_group_size != 0)
        return ipu__fail(IPU_INVALID,
                         "option input_group_size: expected a number that divides the %" PRId64
                         " replicas, found %" PRId64,
                         o.replicas, o.input_group_size);
    int64_t iterations = o.device_iterations * o.gradient_accumulation;
    if (iterations > IPU__MOST_OF_AN_OPTION || iterations * o.replicas > IPU__MOST_OF_AN_OPTION)
        return ipu__fail(
            IPU_INVALID,
            "options: device_iterations x gradient_accumulation x replicas is over %d batches a run",
            IPU__MOST_OF_AN_OPTION);
    IPU_TRY(check_output(&o, iterations * o.replicas));
    if (o.precision < IPU_PRECISION_FLOAT || o.precision > IPU_PRECISION_HALF)
        return ipu__fail(IPU_INVALID, "option precision: there is no precision %d", (int)o.precision);
    if (!o.target) o.target = "gc200";
    *out = o;
    return IPU_OK;
}

int64_t ipu_executor_options_n_batches(const ipu_executor_options *options)
{
    ipu_executor_options o;
    if (ipu__executor_options_settle(options, &o) != IPU_OK) return 0;
    return o.device_iterations * o.gradient_accumulation * (o.replicas / o.input_group_size);
}

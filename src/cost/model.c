/* Chip constants by member, defaults by row, and sums that do not overflow. */
#include "cost/model.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name, *what;
} chip_constants[] = {
#define X(member, name, what) {#name, what},
    IPU__COST_CONSTANT_LIST(X)
#undef X
};

static const ipu_constant defaults[] = {
#define DEFAULT(name, value, unit, certainty, reason) \
    {#name, value, unit, "OpenIPU: " reason, IPU_CERTAIN_##certainty},
#include "cost/defaults.inc"
#undef DEFAULT
};

enum {
    N_CHIP_CONSTANTS = sizeof chip_constants / sizeof *chip_constants,
    N_DEFAULTS       = sizeof defaults / sizeof *defaults
};

/* Looks it up without setting this thread's message. */
static bool find(const ipu_target *target, const char *name, ipu_constant *out)
{
    for (int i = 0; ipu_target_constant_at(target, i, out); i++)
        if (strcmp(out->name, name) == 0) return true;
    return false;
}

static double value_of(const ipu_target *target, const char *name)
{
    ipu_constant c;
    return find(target, name, &c) ? c.value : 0;
}

void ipu__cost_model_init(ipu__cost_model *m, const ipu_target *target, int64_t replication)
{
    *m                = (ipu__cost_model){.target = *target, .all_ipus = target->n_ipus};
    m->target.n_ipus  = target->n_ipus / replication;
    m->n_tiles        = ipu_target_n_tiles(&m->target);
    m->n_workers      = ipu_target_n_workers(target);
    m->bytes_per_tile = ipu_target_bytes_per_tile(target);
    m->clock          = ipu_target_clock_hz(target);
#define X(member, name, what) m->member = value_of(target, #name);
    IPU__COST_CONSTANT_LIST(X)
#undef X
}

bool ipu__cost_constant_at(const ipu_target *target, int64_t i, ipu_constant *out)
{
    for (int k = 0; k < N_CHIP_CONSTANTS; k++)
        if (find(target, chip_constants[k].name, out) && i-- == 0) return true;
    if (i < 0 || i >= N_DEFAULTS) return false;
    *out = defaults[i];
    return true;
}

bool ipu__cost_unknown_at(const ipu_target *target, int64_t i, const char **constant, const char **what)
{
    ipu_constant c;
    for (int k = 0; k < N_CHIP_CONSTANTS; k++) {
        if (find(target, chip_constants[k].name, &c) || i-- != 0) continue;
        *constant = chip_constants[k].name;
        *what     = chip_constants[k].what;
        return true;
    }
    return false;
}

int64_t ipu__cost_ceil(double amount, double rate)
{
    if (rate <= 0 || amount <= 0) return 0;
    double cycles = ceil(amount / rate);
    return cycles < (double)INT64_MAX ? (int64_t)cycles : INT64_MAX;
}

int64_t ipu__cost_at_rate(const ipu__cost_model *m, int64_t bytes, double rate)
{
    return ipu__cost_ceil((double)bytes * m->clock, rate);
}

int64_t ipu__cost_hops(const ipu__cost_model *m, int64_t n_ipus)
{
    int64_t hops = 1 + n_ipus / 2 / 2;
    return n_ipus < 2 ? 0 : ipu__cost_ceil(m->hop * m->clock * (double)(hops * 2), 1);
}

int64_t ipu__cost_add(int64_t a, int64_t b) { return a > INT64_MAX - b ? INT64_MAX : a + b; }

int64_t ipu__cost_times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

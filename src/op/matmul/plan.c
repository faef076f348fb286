/* What a matmul would cost on the chip: blocks of the product on tiles, each by the AMP unit.
 *
 * All of k stays on one tile, so nothing is reduced between tiles; the tiles are those of one IPU. Types not
 * supported by the AMP unit run as a loop of multiplications and additions.
 */
#include <math.h>
#include <string.h>

#include "op/matmul/matmul.h"

/* ---- PopLibs' estimate of the 1x1 vertex ---- */

/* One worker on `k` positions; `first`: the pass that also zeroes the sums. */
static double worker_cycles(const ipu__amp *amp, double k, bool first)
{
    static const double common[] = {20, 31, 40}, wide[] = {24, 47, 46}, narrow[] = {24, 39, 40};
    int                 few = k < 3 ? (int)k : 0;
    if (amp->path == IPU__AMP_COMMON) /* 7 are saved: state is retained between calls */
        return (k < 3 ? common[few] : 36 + 4 * (k - 3)) + (first ? 1 : 2) - 7;
    if (amp->path == IPU__AMP_NARROW)
        return (k < 3 ? narrow[few] : 41 + 4 * (k - 3)) + (first && k > 0 ? 2 + 2 * k : 0);
    double zeroing = first && k > 0 ? 2 + amp->units / 2 * k : 0;
    return (k < 3 ? wide[few] : 46 + 8 * (k - 3)) + zeroing;
}

static double pass_cycles(const ipu__amp *amp, double positions, bool first)
{
    double most  = worker_cycles(amp, ceil(positions / amp->n_workers), first);
    double least = worker_cycles(amp, floor(positions / amp->n_workers), first);
    return fmax(amp->n_workers * most, amp->n_workers * least + 14);
}

double ipu__amp_1x1_cycles(const ipu__amp *amp, double groups, double positions, double in_groups,
                           double out_groups)
{
    bool   common = amp->path == IPU__AMP_COMMON;
    double retain = common ? 7 : 0, retain_more = common ? 3 : 0;
    double later = 6 + amp->load_cycles + pass_cycles(amp, positions, false);
    double first = 7 + amp->load_cycles + pass_cycles(amp, positions, true);
    /* The estimate's `c`: sums are float or the path is the common one. */
    double c     = amp->path == IPU__AMP_NARROW ? 0 : 1;
    double group = 12 + c + (in_groups - 1) * (16 - c + out_groups * (19 + later)) + 11
                 + out_groups * (19 - c + first);
    return 50 + amp->n_workers * (retain + retain_more * (in_groups * groups - 1)) + groups * group;
}

/* ---- splitting ---- */

/* A product as tiles share it: groups (the batch), positions (rows of one operand), channels (columns of the
 * other), inputs (k). */
typedef struct problem {
    double  groups, positions, channels, inputs;
    int64_t n_tiles;
    double  element_bytes;
    double  receive_bytes_per_cycle;
} problem;

typedef struct split {
    double position_parts, channel_parts;
    double groups, positions, channels; /* on the fullest tile */
    double cycles;
    double received, sent; /* bytes */
} split;

/* Each tile needs its rows of one operand and columns of the other; it holds an even share of both
 * and is sent the rest. What several tiles need is sent once. */
static void price_exchange(const problem *p, split *s)
{
    double rows = s->groups * s->positions * p->inputs, columns = s->groups * s->channels * p->inputs;
    double own_rows = floor(rows / s->channel_parts), own_columns = floor(columns / s->position_parts);
    double sent_rows    = s->channel_parts > 1 ? own_rows : 0,
           sent_columns = s->position_parts > 1 ? own_columns : 0;
    s->received         = (rows - own_rows + columns - own_columns) * p->element_bytes;
    s->sent             = (sent_rows + sent_columns) * p->element_bytes;
}

typedef double (*block_fn)(const void *unit, const problem *p, const split *s);

/* Tries every number of column parts, each `grain` channels wide at least, with as many row parts as tiles
 * allow; keeps in *best the cheapest in compute and exchange. */
static void search(const problem *p, double grain, block_fn price, const void *unit, split *best)
{
    double  group_parts = fmin(p->groups, (double)p->n_tiles), grains = ceil(p->channels / grain);
    double  tiles = floor((double)p->n_tiles / group_parts);
    int64_t most  = (int64_t)fmin(tiles, grains);
    for (int64_t i = 1; i <= most; i++) {
        double parts     = (double)i;
        split  s         = {.groups = ceil(p->groups / group_parts)};
        s.channels       = ceil(grains / parts) * grain;
        s.channel_parts  = ceil(grains * grain / s.channels);
        s.positions      = ceil(p->positions / fmin(floor(tiles / parts), p->positions));
        s.position_parts = ceil(p->positions / s.positions);
        s.cycles         = price(unit, p, &s);
        price_exchange(p, &s);
        double total = s.cycles + s.received / p->receive_bytes_per_cycle;
        if (best->cycles == 0 || total < best->cycles + best->received / p->receive_bytes_per_cycle)
            *best = s;
    }
}

static double amp_block(const void *unit, const problem *p, const split *s)
{
    const ipu__amp *amp = unit;
    return ipu__amp_1x1_cycles(amp, s->groups, s->positions, ceil(p->inputs / amp->inputs),
                               ceil(s->channels / amp->units));
}

/* ---- by type ---- */

ipu_status ipu__partials_check(const ipu__kernel_call *call)
{
    const char *partials = ipu__op_text(call, "partials");
    if (strcmp(partials, "float") == 0 || strcmp(partials, "half") == 0) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: partials \"%s\": expected float or half", call->def->name, partials);
}

bool ipu__partials_are_half(const ipu__kernel_call *call)
{
    return call->operand[0].type == IPU_HALF && strcmp(ipu__op_text(call, "partials"), "half") == 0;
}

ipu_status ipu__amp_get(ipu_type type, bool half_partials, const ipu_target *target, ipu__amp *out)
{
    bool        is_half = type == IPU_HALF;
    double      bytes_per_cycle;
    const char *units = is_half ? "amp_units_half_float" : "amp_units_float_float";
    if (is_half && half_partials) units = "amp_units_half_half";
    out->half_partials = is_half && half_partials;
    out->n_workers     = (double)ipu_target_n_workers(target);
    IPU_TRY(ipu__op_constant(target, units, &out->units));
    out->path = is_half ? IPU__AMP_COMMON : IPU__AMP_FLOAT;
    if (out->half_partials && out->units <= 8) out->path = IPU__AMP_NARROW; /* Mk1 */
    IPU_TRY(ipu__op_constant(target, is_half ? "amp_inputs_half" : "amp_inputs_float", &out->inputs));
    IPU_TRY(ipu__op_constant(target, "amp_weights_bytes_per_cycle", &bytes_per_cycle));
    out->load_cycles = out->units * out->inputs * (double)ipu_type_size(type) / bytes_per_cycle;
    return IPU_OK;
}

bool ipu__amp_narrow(const ipu__amp *amp, ipu__amp *out)
{
    if (!amp->half_partials || amp->units <= 8) return false;
    *out             = *amp;
    out->path        = IPU__AMP_NARROW;
    out->load_cycles = amp->load_cycles * 8 / amp->units;
    out->units       = 8;
    return true;
}

typedef struct loop_unit {
    ipu__op_loop loop;
    double       launch_cycles, n_workers;
} loop_unit;

static double loop_block(const void *unit, const problem *p, const split *s)
{
    const loop_unit *u = unit;
    return ipu__op_loop_cycles(&u->loop, s->groups * s->positions * s->channels * p->inputs, u->launch_cycles,
                               u->n_workers);
}

/* Either operand may be the one whose rows are positions: the cheaper of the two ways. */
static void search_both(problem *p, double grain, block_fn price, const void *unit, split *best)
{
    search(p, grain, price, unit, best);
    double positions = p->positions;
    p->positions     = p->channels;
    p->channels      = positions;
    search(p, grain, price, unit, best);
}

static const char amp_basis[] =
    "PopLibs' estimate of the AMP 1x1 vertex; one IPU, no serial split, no reduction";
static const char loop_basis[] = "our default: 14 worker cycles for a product and its addition; one IPU";

ipu_status ipu__matmul_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__matmul mm      = ipu__matmul_get(call);
    ipu_type    type    = call->operand[IPU__MATMUL_OUT].type;
    bool        has_amp = type == IPU_FLOAT || type == IPU_HALF;
    problem     p       = {.groups        = (double)mm.batch,
                           .positions     = (double)mm.m,
                           .channels      = (double)mm.n,
                           .inputs        = fmax((double)mm.k, 1), /* k of 0 still has its sums zeroed */
                           .n_tiles       = target->tiles_per_ipu,
                           .element_bytes = (double)ipu_type_size(type)};
    split       best    = {0};
    *out                = (ipu__kernel_plan){.basis = has_amp ? amp_basis : loop_basis};
    if (mm.batch == 0 || mm.m == 0 || mm.n == 0) return IPU_OK;
    IPU_TRY(ipu__op_constant(target, "exchange_receive_bytes_per_cycle", &p.receive_bytes_per_cycle));
    bool half_partials = ipu__partials_are_half(call);
    if (has_amp) {
        ipu__amp amp;
        IPU_TRY(ipu__amp_get(type, half_partials, target, &amp));
        search_both(&p, amp.units, amp_block, &amp, &best);
        if (ipu__amp_narrow(&amp, &amp)) search_both(&p, amp.units, amp_block, &amp, &best);
    } else {
        loop_unit unit = {.loop = {26, 1, 14}, .n_workers = (double)ipu_target_n_workers(target)};
        IPU_TRY(ipu__op_constant(target, "compute_set_launch_cycles", &unit.launch_cycles));
        search_both(&p, 1, loop_block, &unit, &best);
    }
    double inputs = best.groups * (best.positions + best.channels) * p.inputs * p.element_bytes;
    double sums   = best.groups * best.positions * best.channels
                * (has_amp && !half_partials ? sizeof(float) : p.element_bytes);
    out->n_tiles        = ipu__op_count(ceil((double)mm.batch / best.groups) * best.position_parts
                                        * best.channel_parts);
    out->cycles         = ipu__op_count(best.cycles);
    out->bytes_received = ipu__op_count(best.received);
    out->bytes_sent     = ipu__op_count(best.sent);
    out->tile_bytes     = ipu__op_count(inputs + sums);
    return ipu__epilogue_plan(call, target, out);
}

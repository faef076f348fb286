/* What a convolution would cost on the chip: the best of a handful of splits over the tiles of one IPU.
 *
 * Batch and field, output channels and input channels are split; partial sums over split input channels are
 * reduced. A weight gradient is a product of matrices: inputs are its positions, the field is summed.
 */
#include <math.h>

#include "op/conv/conv.h"
#include "op/matmul/matmul.h"

/* ---- the problem as PopLibs' vertices see it ---- */

typedef struct problem {
    double groups, positions, inputs, channels; /* of a group */
    double row;                                 /* positions of a row of the field */
    double outer_taps, inner_taps;
    double input_per_position; /* elements of an input channel that a position brings, and a part on top */
    double halo;
    double n_tiles, element_bytes, receive_bytes_per_cycle;
} problem;

static problem get_problem(const ipu__conv *c)
{
    double  n = (double)c->n, field = (double)ipu__conv_volume(c->y), taps = (double)ipu__conv_volume(c->k);
    bool    is_grad = c->kind == IPU__CONV_INPUT_GRAD;
    problem p       = {.groups = (double)c->groups};
    if (c->kind == IPU__CONV_WEIGHT_GRAD) {
        p.positions = p.row = (double)c->in * taps;
        p.inputs            = fmax(n * field, 1);
        p.channels          = (double)c->out;
        p.outer_taps = p.inner_taps = p.input_per_position = 1;
        return p;
    }
    p.positions          = n * field;
    p.row                = (double)c->y[2];
    p.inputs             = fmax((double)(is_grad ? c->out : c->in), 1);
    p.channels           = (double)(is_grad ? c->in : c->out);
    p.outer_taps         = fmax((double)c->k[0] * (double)c->k[1], 1);
    p.inner_taps         = fmax((double)c->k[2], 1);
    p.input_per_position = is_grad ? 1 : (double)ipu__conv_volume(c->x) / fmax(field, 1);
    for (int d = 0; d < 2; d++)
        p.halo += (double)(c->dilation[d] * (c->k[d] - 1)) * (double)(d == 0 ? c->x[1] * c->x[2] : c->x[2]);
    return p;
}

/* ---- PopLibs' estimates of its vertices ---- */

/* Rows of the field that a worker has, and positions of each. */
typedef struct work {
    double rows, length;
} work;

static work share_rows(const problem *p, double positions, double n_workers)
{
    double rows = ceil(positions / p->row);
    if (rows < n_workers) return (work){1, ceil(positions / n_workers)};
    return (work){ceil(rows / n_workers), p->row};
}

/* A supervisor that loops over taps, one weight load each; kernel rows are not packed. */
static double nx1_cycles(const ipu__amp *amp, const problem *p, double groups, double positions,
                         double in_groups, double out_groups)
{
    static const double half_row[] = {17, 29, 33}, float_row[] = {17, 33, 44};
    bool                is_float = amp->path == IPU__AMP_FLOAT;
    work                w        = share_rows(p, positions, amp->n_workers);
    double              row      = is_float ? 45 + 8 * (w.length - 3) : 34 + 4 * (w.length - 3);
    if (w.length < 3) row = (is_float ? float_row : half_row)[(int)w.length];
    double half    = amp->half_partials ? 1 : 0;
    double worker  = 17 + half + w.rows * (3 + row - 9);
    double loop    = amp->n_workers * worker * p->outer_taps * p->inner_taps;
    double inner   = p->outer_taps * (14 + p->inner_taps * (12 + amp->load_cycles + 15 + 3)) + loop;
    double zeroing = amp->n_workers * groups * out_groups
                   * (ceil(ceil(positions * amp->units / amp->n_workers) / 2) + 5);
    return 109 + amp->n_workers * 9 + amp->n_workers * (9 + half)
         + groups * (17 * out_groups + 6 * (out_groups - 1) + 1) + 6 * (groups - 1) + 1
         + groups * (16 + in_groups * (14 + out_groups * (14 + inner))) + zeroing;
}

/* Dot products on vectors of two floats or four halves: few channels, or depthwise. Two channels at once with half
 * partials. */
static double hmac_cycles(bool is_float, bool half_partials, double n_workers, const problem *p,
                          double groups, double positions, double inputs, double channels)
{
    double width = is_float ? 2 : 4, bytes = is_float ? 4 : 2;
    while (fmod(inputs, width) != 0) width /= 2;
    bool   narrow  = width * bytes < 8;
    double at_once = half_partials ? 2 : 1;
    double base    = 3 * at_once + (half_partials ? 1 : 0) + 4;
    double dot     = base + (narrow ? at_once : 0) + inputs / width * (narrow ? 2 : 1) - (is_float ? 0 : 1);
    work   w       = share_rows(p, positions, n_workers);
    double saved   = is_float ? 0 : 6;
    double tap     = 16 - saved + w.rows * (19 + w.length * (7 + ceil(channels / at_once) * dot));
    double inner   = n_workers * (16 + p->outer_taps * p->inner_taps * tap);
    return (is_float ? 58 : 65) + n_workers * saved + groups * (23 + 15 + 10 + inner);
}

/* Conv partials added up, `depth` of each: the general form, 4 floats or 8 halves at a time. */
static double reduce_cycles(double outputs, double depth, double n_workers, bool half_partials)
{
    double width = half_partials ? 8 : 4, last = half_partials ? 9 : 8;
    if (depth <= 1) return 0;
    return 33 + n_workers * (20 + ceil(ceil(outputs / width) / n_workers) * (2 * (depth - 1) + last));
}

/* ---- splitting ---- */

typedef struct unit {
    ipu_type     type;
    bool         has_amp;
    ipu__amp     amp;
    ipu__op_loop loop;
    double       launch_cycles, n_workers;
} unit;

typedef struct split {
    double tiles, group_parts, position_parts, channel_parts, input_parts;
    double groups, positions, channels, inputs; /* on the fullest tile */
    double cycles, received, sent, bytes;
} split;

static double price_block(const unit *u, const problem *p, const split *s)
{
    double taps = p->outer_taps * p->inner_taps;
    if (!u->has_amp)
        return ipu__op_loop_cycles(&u->loop, s->groups * s->positions * s->channels * s->inputs * taps,
                                   u->launch_cycles, u->n_workers);
    double in_groups = ceil(s->inputs / u->amp.inputs), out_groups = ceil(s->channels / u->amp.units);
    double amp  = taps == 1 ? ipu__amp_1x1_cycles(&u->amp, s->groups, s->positions, in_groups, out_groups)
                            : nx1_cycles(&u->amp, p, s->groups, s->positions, in_groups, out_groups);
    double hmac = hmac_cycles(u->type == IPU_FLOAT, u->amp.half_partials, u->n_workers, p, s->groups,
                              s->positions, s->inputs, s->channels);
    return fmin(amp, hmac);
}

/* A tile holds an even share of what it needs with others and receives the rest. */
static void price_exchange(const unit *u, const problem *p, split *s)
{
    double taps  = p->outer_taps * p->inner_taps;
    double all   = p->positions * p->input_per_position;
    double x     = s->groups * s->inputs * fmin(all, s->positions * p->input_per_position + p->halo);
    double w     = s->groups * s->inputs * s->channels * taps;
    double out   = s->groups * s->positions * s->channels;
    double own_x = floor(x / s->channel_parts), own_w = floor(w / s->position_parts);
    double partial = u->has_amp && !u->amp.half_partials ? sizeof(float) : p->element_bytes;
    double sums    = s->input_parts > 1 ? out * partial : 0;
    s->received    = (x - own_x + w - own_w) * p->element_bytes + sums;
    s->sent = ((s->channel_parts > 1 ? own_x : 0) + (s->position_parts > 1 ? own_w : 0)) * p->element_bytes
            + sums;
    s->bytes = (x + w) * p->element_bytes + out * partial + sums;
}

static void try_split(const unit *u, const problem *p, double channel_parts, double input_parts, split *best)
{
    double grain = u->has_amp ? u->amp.units : 1, in_grain = u->has_amp ? u->amp.inputs : 1;
    split  s         = {.group_parts = fmin(p->groups, p->n_tiles)};
    double tiles     = floor(p->n_tiles / s.group_parts / input_parts);
    s.groups         = ceil(p->groups / s.group_parts);
    s.group_parts    = ceil(p->groups / s.groups);
    s.channels       = fmin(ceil(ceil(p->channels / grain) / channel_parts) * grain, p->channels);
    s.inputs         = fmin(ceil(ceil(p->inputs / in_grain) / input_parts) * in_grain, p->inputs);
    s.channel_parts  = ceil(p->channels / s.channels);
    s.input_parts    = ceil(p->inputs / s.inputs);
    double for_rows  = fmax(floor(tiles / s.channel_parts), 1);
    s.positions      = ceil(p->positions / fmin(for_rows, p->positions));
    s.position_parts = ceil(p->positions / s.positions);
    s.tiles          = s.group_parts * s.channel_parts * s.input_parts * s.position_parts;
    if (s.tiles > p->n_tiles) return;
    double outputs = s.groups * s.positions * s.channels;
    s.cycles       = price_block(u, p, &s)
             + reduce_cycles(outputs / s.input_parts, s.input_parts, u->n_workers, u->amp.half_partials);
    price_exchange(u, p, &s);
    double total = s.cycles + s.received / p->receive_bytes_per_cycle;
    if (best->cycles == 0 || total < best->cycles + best->received / p->receive_bytes_per_cycle) *best = s;
}

static void search(const unit *u, const problem *p, split *best)
{
    for (int64_t in = 1; (double)in <= fmin(p->n_tiles, p->inputs); in *= 2)
        for (int64_t out = 1; (double)out <= fmin(p->n_tiles / (double)in, p->channels); out *= 2)
            try_split(u, p, (double)out, (double)in, best);
}

static ipu_status get_unit(ipu_type type, bool half_partials, const ipu_target *target, unit *u)
{
    *u = (unit){.type      = type,
                .has_amp   = type == IPU_FLOAT || type == IPU_HALF,
                .loop      = {26, 1, 14},
                .n_workers = (double)ipu_target_n_workers(target)};
    if (u->has_amp) return ipu__amp_get(type, half_partials, target, &u->amp);
    return ipu__op_constant(target, "compute_set_launch_cycles", &u->launch_cycles);
}

ipu_status ipu__conv_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__conv c    = ipu__conv_get(call);
    ipu_type  type = call->operand[0].type;
    problem   p    = get_problem(&c);
    unit      u;
    split     best  = {0};
    p.n_tiles       = (double)target->tiles_per_ipu;
    p.element_bytes = (double)ipu_type_size(type);
    IPU_TRY(get_unit(type, ipu__partials_are_half(call), target, &u));
    IPU_TRY(ipu__op_constant(target, "exchange_receive_bytes_per_cycle", &p.receive_bytes_per_cycle));
    *out = (ipu__kernel_plan){.basis = u.has_amp
                                         ? "PopLibs' estimates of AMP 1x1, nx1 and HMAC vertices and of "
                                           "reductions; one IPU, no serial split"
                                         : "our default: 14 worker cycles for a product and its addition"};
    if (p.groups * p.positions * p.channels == 0) return IPU_OK;
    search(&u, &p, &best);
    if (u.has_amp && ipu__amp_narrow(&u.amp, &u.amp)) search(&u, &p, &best);
    out->n_tiles        = ipu__op_count(best.tiles);
    out->cycles         = ipu__op_count(best.cycles);
    out->bytes_received = ipu__op_count(best.received);
    out->bytes_sent     = ipu__op_count(best.sent);
    out->tile_bytes     = ipu__op_count(best.bytes);
    return c.kind == IPU__CONV_FORWARD ? ipu__epilogue_plan(call, target, out) : IPU_OK;
}

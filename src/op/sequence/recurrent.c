/* Records of recurrent layers and of their gradients: operands, checks, prices. */
#include "op/sequence/recurrent.h"

#include <math.h>
#include <string.h>

#include "graph/graph.h"

/* ---- what a call is ---- */

static const struct cell {
    const ipu__op_def           *op, *grad;
    int                          n_gates, n_saved;
    ipu__recurrent_operands      at;
    ipu__recurrent_grad_operands grad_at;
} cells[IPU__N_CELLS] = {
    [IPU__RNN]  = {.op      = &ipu__op_rnn,
                   .grad    = &ipu__op_rnn_grad,
                   .n_gates = 1,
                   .n_saved = 0,
                   .at      = {0, 1, 2, 3, 4, 5, -1, 6, 7, -1, -1, -1},
                   .grad_at = {.d_y     = 0,
                               .d_h_n   = 1,
                               .w_hh    = 2,
                               .y       = 3,
                               .d_ih    = 4,
                               .d_h0    = 5,
                               .d_c_n   = -1,
                               .gates   = -1,
                               .cells   = -1,
                               .h0      = -1,
                               .c0      = -1,
                               .d_gates = -1,
                               .d_cells = -1,
                               .d_hh    = -1,
                               .d_c0    = -1}},
    [IPU__GRU]  = {.op      = &ipu__op_gru,
                   .grad    = &ipu__op_gru_grad,
                   .n_gates = 3,
                   .n_saved = 4,
                   .at      = {0, 1, 2, 3, 4, 5, -1, 6, 7, -1, 8, -1},
                   .grad_at = {.d_y     = 0,
                               .d_h_n   = 1,
                               .w_hh    = 2,
                               .y       = 3,
                               .gates   = 4,
                               .h0      = 5,
                               .d_gates = 6,
                               .d_ih    = 7,
                               .d_hh    = 8,
                               .d_h0    = 9,
                               .d_c_n   = -1,
                               .cells   = -1,
                               .c0      = -1,
                               .d_cells = -1,
                               .d_c0    = -1}},
    [IPU__LSTM] = {.op      = &ipu__op_lstm,
                   .grad    = &ipu__op_lstm_grad,
                   .n_gates = 4,
                   .n_saved = 4,
                   .at      = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
                   .grad_at = {.d_y     = 0,
                               .d_h_n   = 1,
                               .d_c_n   = 2,
                               .w_hh    = 3,
                               .gates   = 4,
                               .cells   = 5,
                               .c0      = 6,
                               .d_gates = 7,
                               .d_cells = 8,
                               .d_ih    = 9,
                               .d_h0    = 10,
                               .d_c0    = 11,
                               .y       = -1,
                               .h0      = -1,
                               .d_hh    = -1}},
};

static const struct cell *cell_of(const ipu__kernel_call *call, bool *is_grad)
{
    const struct cell *c = cells;
    while (&c->op->kernel != call->def && &c->grad->kernel != call->def) c++;
    *is_grad = &c->grad->kernel == call->def;
    return c;
}

static ipu__recurrent get(const ipu__kernel_call *call)
{
    bool               is_grad;
    const struct cell *c = cell_of(call, &is_grad);
    ipu__recurrent     r = {.cell    = (ipu__cell)(c - cells),
                            .n_gates = c->n_gates,
                            .n_saved = c->n_saved,
                            .reverse = ipu__op_int(call, "reverse") != 0,
                            .keeps   = true};
    if (r.cell == IPU__RNN) r.relu = strcmp(ipu__op_text(call, "activation"), "relu") == 0;
    return r;
}

ipu__recurrent ipu__recurrent_get(const ipu__kernel_call *call)
{
    ipu__recurrent r   = get(call);
    r.at               = cells[r.cell].at;
    const ipu_shape *x = &call->operand[r.at.x].shape;
    r.steps            = x->dim[0];
    r.batch            = x->dim[1];
    r.inputs           = x->dim[2];
    r.hidden           = call->operand[r.at.w_hh].shape.dim[1];
    r.keeps            = r.cell != IPU__RNN && ipu__op_int(call, "training") != 0;
    return r;
}

ipu__recurrent ipu__recurrent_grad_get(const ipu__kernel_call *call)
{
    ipu__recurrent r       = get(call);
    r.grad_at              = cells[r.cell].grad_at;
    const ipu_shape *saved = &call->operand[r.cell == IPU__LSTM ? r.grad_at.cells : r.grad_at.y].shape;
    r.steps                = saved->dim[0];
    r.batch                = saved->dim[1];
    r.hidden               = saved->dim[2];
    return r;
}

/* ---- check ---- */

static ipu_status check_flag(const ipu__kernel_call *call, const char *name)
{
    int64_t value = ipu__op_int(call, name);
    if (value == 0 || value == 1) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: %s must be 0 or 1, found %lld", call->def->name, name,
                     (long long)value);
}

static ipu_status check_attributes(const ipu__kernel_call *call, ipu__cell cell)
{
    IPU_TRY(check_flag(call, "reverse"));
    if (cell != IPU__RNN) return IPU_OK;
    const char *activation = ipu__op_text(call, "activation");
    if (strcmp(activation, "tanh") == 0 || strcmp(activation, "relu") == 0) return IPU_OK;
    return ipu__fail(IPU_INVALID, "rnn: activation must be tanh or relu, found \"%s\"", activation);
}

/* Operand `i`, if the cell has it and it is given, is of type and shape. */
static ipu_status want(const ipu__kernel_call *call, int like, int i, ipu_shape shape)
{
    if (i < 0 || (call->def->operands[i].optional && !ipu__kernel_has(call, i))) return IPU_OK;
    IPU_TRY(ipu__op_want_same_type(call, like, i));
    return ipu__op_want_shape(call, i, &shape);
}

static void set(ipu__kernel_value *out, int first, int i, ipu_type type, ipu_shape shape)
{
    if (i >= 0) out[i - first] = (ipu__kernel_value){type, shape};
}

/* G*H, which may not fit where shapes are nonsense: then no weight can have it. */
static int64_t wide(int n_gates, int64_t hidden)
{
    int64_t rows;
    return __builtin_mul_overflow(n_gates, hidden, &rows) ? -1 : rows;
}

static ipu_status recurrent_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    bool                           is_grad;
    const struct cell             *c  = cell_of(call, &is_grad);
    const ipu__recurrent_operands *at = &c->at;
    IPU_TRY(check_attributes(call, (ipu__cell)(c - cells)));
    if (c->n_saved) IPU_TRY(check_flag(call, "training"));
    IPU_TRY(ipu__op_want_floating(call, at->x));
    IPU_TRY(ipu__op_want_rank(call, at->x, 3, 3));
    IPU_TRY(ipu__op_want_rank(call, at->w_hh, 2, 2));
    const ipu_shape *x     = &call->operand[at->x].shape;
    ipu_type         type  = call->operand[at->x].type;
    int64_t          steps = x->dim[0], batch = x->dim[1], hidden = call->operand[at->w_hh].shape.dim[1];
    int64_t          rows = wide(c->n_gates, hidden);
    IPU_TRY(want(call, at->x, at->w_hh, IPU_SHAPE(rows, hidden)));
    IPU_TRY(want(call, at->x, at->w_ih, IPU_SHAPE(rows, x->dim[2])));
    IPU_TRY(want(call, at->x, at->b_ih, IPU_SHAPE(rows)));
    IPU_TRY(want(call, at->x, at->b_hh, IPU_SHAPE(rows)));
    IPU_TRY(want(call, at->x, at->h0, IPU_SHAPE(batch, hidden)));
    IPU_TRY(want(call, at->x, at->c0, IPU_SHAPE(batch, hidden)));
    set(out, at->y, at->y, type, IPU_SHAPE(steps, batch, hidden));
    set(out, at->y, at->h_n, type, IPU_SHAPE(batch, hidden));
    set(out, at->y, at->c_n, type, IPU_SHAPE(batch, hidden));
    bool keeps = c->n_saved && ipu__op_int(call, "training");
    set(out, at->y, at->gates, keeps ? type : IPU_FLOAT,
        keeps ? IPU_SHAPE(steps, batch, wide(c->n_saved, hidden)) : IPU_SHAPE(0));
    set(out, at->y, at->cells, keeps ? type : IPU_FLOAT,
        keeps ? IPU_SHAPE(steps, batch, hidden) : IPU_SHAPE(0));
    return IPU_OK;
}

static ipu_status grad_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    bool                                is_grad;
    const struct cell                  *c    = cell_of(call, &is_grad);
    const ipu__recurrent_grad_operands *at   = &c->grad_at;
    int                                 like = at->y >= 0 ? at->y : at->cells;
    IPU_TRY(check_attributes(call, (ipu__cell)(c - cells)));
    IPU_TRY(ipu__op_want_floating(call, like));
    IPU_TRY(ipu__op_want_rank(call, like, 3, 3));
    ipu_shape all    = call->operand[like].shape;
    ipu_type  type   = call->operand[like].type;
    int64_t   hidden = all.dim[2], rows = wide(c->n_gates, hidden);
    ipu_shape state = IPU_SHAPE(all.dim[1], hidden), gates = IPU_SHAPE(all.dim[0], all.dim[1], rows);
    IPU_TRY(want(call, like, at->d_y, all));
    IPU_TRY(want(call, like, at->d_h_n, state));
    IPU_TRY(want(call, like, at->d_c_n, state));
    IPU_TRY(want(call, like, at->w_hh, IPU_SHAPE(rows, hidden)));
    IPU_TRY(want(call, like, at->gates, IPU_SHAPE(all.dim[0], all.dim[1], wide(c->n_saved, hidden))));
    IPU_TRY(want(call, like, at->h0, state));
    IPU_TRY(want(call, like, at->c0, state));
    IPU_TRY(want(call, like, at->d_gates, IPU_SHAPE(all.dim[0], all.dim[1], wide(c->n_saved, hidden))));
    IPU_TRY(want(call, like, at->d_cells, all));
    set(out, at->d_ih, at->d_ih, type, gates);
    set(out, at->d_ih, at->d_hh, type, gates);
    set(out, at->d_ih, at->d_h0, type, state);
    set(out, at->d_ih, at->d_c0, type, state);
    return IPU_OK;
}

/* ---- work and price ---- */

static ipu__recurrent get_either(const ipu__kernel_call *call)
{
    bool is_grad;
    (void)cell_of(call, &is_grad);
    return is_grad ? ipu__recurrent_grad_get(call) : ipu__recurrent_get(call);
}

static double products(const ipu__recurrent *r)
{
    return (double)r->batch * r->n_gates * (double)r->hidden * (double)(r->inputs + r->hidden);
}

static double recurrent_work(const ipu__kernel_call *call)
{
    ipu__recurrent r = get_either(call);
    return (double)r.steps * (2 * products(&r) + 20.0 * (double)(r.batch * r.hidden));
}

/* Every step is two supersteps: products, of which each tile has an even share, and the elementwise loop. */
static ipu_status recurrent_plan(const ipu__kernel_call *call, const ipu_target *target,
                                 ipu__kernel_plan *out)
{
    ipu__recurrent r = get_either(call);
    *out             = (ipu__kernel_plan){0};
    out->basis =
        "our estimate: per step, products shared evenly at the AMP unit's rate and a loop of PopLibs' "
        "nonlinearities; h sent to all tiles";
    if (r.steps == 0 || r.batch == 0 || r.hidden == 0) return IPU_OK;
    bool   is_half = call->operand[0].type == IPU_HALF;
    double units, inputs, launch, bytes_per_cycle, workers = (double)ipu_target_n_workers(target);
    IPU_TRY(ipu__op_constant(target, is_half ? "amp_units_half_float" : "amp_units_float_float", &units));
    IPU_TRY(ipu__op_constant(target, is_half ? "amp_inputs_half" : "amp_inputs_float", &inputs));
    IPU_TRY(ipu__op_constant(target, "compute_set_launch_cycles", &launch));
    IPU_TRY(ipu__op_constant(target, "exchange_receive_bytes_per_cycle", &bytes_per_cycle));
    double n_units  = (double)r.batch * (double)r.hidden,
           n_tiles  = fmin((double)target->tiles_per_ipu, n_units);
    double per_tile = ceil(n_units / n_tiles), element = (double)ipu_type_size(call->operand[0].type);
    /* An AMP unit takes `inputs` products in 4 cycles of half, 8 of float (facts: worker cycles of the 1x1
     * vertex). */
    double       amp     = launch + ceil(products(&r) / n_tiles / (units * inputs)) * (is_half ? 4 : 8);
    ipu__op_loop loop    = {26, 2, 12.0 * r.n_gates};
    double       gates   = ipu__op_loop_cycles(&loop, per_tile, launch, workers);
    double       columns = ceil(per_tile / (double)r.hidden) * (double)(r.inputs + r.hidden);
    out->n_tiles         = ipu__op_count(n_tiles);
    out->cycles          = ipu__op_count((double)r.steps * (amp + gates));
    out->bytes_received  = ipu__op_count((double)r.steps * columns * element);
    out->bytes_sent      = ipu__op_count((double)r.steps * per_tile * element);
    out->tile_bytes      = ipu__op_count(columns * element + 4 * per_tile * r.n_gates);
    return IPU_OK;
}

/* ---- records ---- */

#define REVERSE                                                                                       \
    {                                                                                                 \
        .name = "reverse", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: from the last step to the first" \
    }
#define TRAINING                                                               \
    {                                                                          \
        .name = "training", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1,         \
        .meaning = "0: what the gradient needs is not kept but computed again" \
    }
#define ACTIVATION                                                                  \
    {                                                                               \
        .name = "activation", .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = "tanh", \
        .meaning = "tanh or relu"                                                   \
    }
static const ipu_op_attribute rnn_attributes[]   = {ACTIVATION, REVERSE};
static const ipu_op_attribute gated_attributes[] = {REVERSE, TRAINING};
static const ipu_op_attribute back_attributes[]  = {REVERSE};

#define LAYER_INPUTS                                                                                       \
    IPU__INPUT("x"), IPU__INPUT("w_ih"), IPU__INPUT("w_hh"), IPU__OPTIONAL("b_ih"), IPU__OPTIONAL("b_hh"), \
        IPU__OPTIONAL("h0")
static const ipu__kernel_operand rnn_operands[]  = {LAYER_INPUTS, IPU__OUTPUT("y"), IPU__OUTPUT("h_n")};
static const ipu__kernel_operand gru_operands[]  = {LAYER_INPUTS, IPU__OUTPUT("y"), IPU__OUTPUT("h_n"),
                                                    IPU__OUTPUT("gates")};
static const ipu__kernel_operand lstm_operands[] = {LAYER_INPUTS,        IPU__OPTIONAL("c0"),
                                                    IPU__OUTPUT("y"),    IPU__OUTPUT("h_n"),
                                                    IPU__OUTPUT("c_n"),  IPU__OUTPUT("gates"),
                                                    IPU__OUTPUT("cells")};

static const ipu__kernel_operand rnn_grad_operands[]  = {IPU__OPTIONAL("d_y"), IPU__OPTIONAL("d_h_n"),
                                                         IPU__INPUT("w_hh"),   IPU__INPUT("y"),
                                                         IPU__OUTPUT("d_ih"),  IPU__OUTPUT("d_h0")};
static const ipu__kernel_operand gru_grad_operands[]  = {IPU__OPTIONAL("d_y"),     IPU__OPTIONAL("d_h_n"),
                                                         IPU__INPUT("w_hh"),       IPU__INPUT("y"),
                                                         IPU__INPUT("gates"),      IPU__OPTIONAL("h0"),
                                                         IPU__OPTIONAL("d_gates"), IPU__OUTPUT("d_ih"),
                                                         IPU__OUTPUT("d_hh"),      IPU__OUTPUT("d_h0")};
static const ipu__kernel_operand lstm_grad_operands[] = {
    IPU__OPTIONAL("d_y"),     IPU__OPTIONAL("d_h_n"), IPU__OPTIONAL("d_c_n"), IPU__INPUT("w_hh"),
    IPU__INPUT("gates"),      IPU__INPUT("cells"),    IPU__OPTIONAL("c0"),    IPU__OPTIONAL("d_gates"),
    IPU__OPTIONAL("d_cells"), IPU__OUTPUT("d_ih"),    IPU__OUTPUT("d_h0"),    IPU__OUTPUT("d_c0")};

#define KERNEL(op, meaning, impl)                                                             \
    {                                                                                         \
        .name = #op, .operands = op##_operands, .n_operands = IPU__COUNT(op##_operands),      \
        .check = ipu__op_check, .rows = ipu__op_rows, .ref = meaning, .work = recurrent_work, \
        .plan = recurrent_plan, .implementations = IPU__ON_CPU(impl)                          \
    }
#define LAYER(op, inputs, attributes_of, rows, text)                                                   \
    {                                                                                                  \
        .kernel = KERNEL(op, ipu__recurrent_ref, ipu__recurrent_impl), .n_in = (inputs),               \
        .family = "recurrent", .summary = (text), .attributes = attributes_of,                         \
        .n_attributes = IPU__COUNT(attributes_of), .flags = IPU__OP_GRAD_ONCE | IPU__OP_GAINS_IN_HALF, \
        .infer = recurrent_infer, .samples = op##_samples, .grad = ipu__recurrent_emit_grad,           \
        .compose = ipu__recurrent_compose, .batch = (rows)                                             \
    }
#define GRAD(op, inputs, attributes_of, rows, text)                                                \
    {                                                                                              \
        .kernel = KERNEL(op, ipu__recurrent_grad_ref, ipu__recurrent_grad_impl), .n_in = (inputs), \
        .family = "recurrent", .summary = (text), .attributes = attributes_of,                     \
        .n_attributes = IPU__COUNT(attributes_of), .infer = grad_infer, .samples = op##_samples,   \
        .batch = (rows)                                                                            \
    }

static const char *const rnn_samples[] = {
    "float[3,2,4], float[5,4], float[5,5], float[5], float[5], float[2,5]",
    "float[4,3,2], float[3,2], float[3,3]; reverse=1",
    "float[2,3,4]{0.1,1}, float[3,4]{0.1,1}, float[3,3]{0.1,1}, none, float[3]; activation=relu",
    "float[1,2,1], float[1,1], float[1,1]",
    "float[0,2,3], float[4,3], float[4,4]",
    "float[5,33,20]{-0.3,0.3}, float[65,20]{-0.3,0.3}, float[65,65]{-0.3,0.3}",
    NULL};
static const char *const gru_samples[] = {
    "float[3,2,4], float[15,4], float[15,5], float[15], float[15], float[2,5]",
    "float[4,3,2], float[9,2], float[9,3]; reverse=1",
    "float[2,1,3], float[6,3], float[6,2], none, float[6]; training=0",
    "float[1,2,1], float[3,1], float[3,1]",
    "float[0,2,3], float[12,3], float[12,4], none, none, float[2,4]",
    "float[4,21,20]{-0.3,0.3}, float[120,20]{-0.3,0.3}, float[120,40]{-0.3,0.3}",
    NULL};
static const char *const lstm_samples[] = {
    "float[3,2,4], float[20,4], float[20,5], float[20], float[20], float[2,5], float[2,5]",
    "float[4,3,2], float[12,2], float[12,3]; reverse=1",
    "float[2,1,3], float[8,3], float[8,2], none, float[8]; training=0",
    "float[1,2,1], float[4,1], float[4,1], float[4], none, none, float[2,1]",
    "float[0,2,3], float[16,3], float[16,4], none, none, float[2,4]",
    "float[4,17,20]{-0.3,0.3}, float[160,20]{-0.3,0.3}, float[160,40]{-0.3,0.3}",
    NULL};

const ipu__op_def ipu__op_rnn = LAYER(
    rnn, 6, rnn_attributes,
    IPU__BATCH({IPU__AXIS_1, IPU__SHARED, IPU__SHARED, IPU__SHARED, IPU__SHARED, IPU__AXIS_0},
               {IPU__AXIS_1, IPU__AXIS_0}),
    "a layer of Elman's network, in one direction");
const ipu__op_def ipu__op_gru = LAYER(
    gru, 6, gated_attributes,
    IPU__BATCH({IPU__AXIS_1, IPU__SHARED, IPU__SHARED, IPU__SHARED, IPU__SHARED, IPU__AXIS_0},
               {IPU__AXIS_1, IPU__AXIS_0, IPU__AXIS_1}),
    "a layer of gated recurrent units, in one direction");
const ipu__op_def ipu__op_lstm = LAYER(
    lstm, 7, gated_attributes,
    IPU__BATCH({IPU__AXIS_1, IPU__SHARED, IPU__SHARED, IPU__SHARED, IPU__SHARED, IPU__AXIS_0, IPU__AXIS_0},
               {IPU__AXIS_1, IPU__AXIS_0, IPU__AXIS_0, IPU__AXIS_1, IPU__AXIS_1}),
    "a layer of long short-term memory, in one direction");

static const char *const rnn_grad_samples[] = {
    "float[3,2,5], float[2,5], float[5,5], float[3,2,5]{-0.9,0.9}",
    "none, float[2,3], float[3,3], float[4,2,3]{-0.9,0.9}; reverse=1",
    "float[4,2,3], none, float[3,3], float[4,2,3]{0.1,0.9}; activation=relu",
    "float[6,33,65], none, float[65,65]{-0.1,0.1}, float[6,33,65]{-0.9,0.9}", NULL};
static const char *const gru_grad_samples[] = {
    "float[3,2,5], float[2,5], float[15,5], float[3,2,5], float[3,2,20]{0.1,0.9}, float[2,5]",
    "float[4,2,3], none, float[9,3], float[4,2,3], float[4,2,12]{0.1,0.9}; reverse=1",
    "float[5,21,40], none, float[120,40]{-0.1,0.1}, float[5,21,40], float[5,21,160]{0.1,0.9}", NULL};
static const char *const lstm_grad_samples[] = {
    "float[3,2,5], float[2,5], float[2,5], float[20,5], float[3,2,20]{0.1,0.9}, float[3,2,5], float[2,5]",
    "float[4,2,3], none, none, float[12,3], float[4,2,12]{0.1,0.9}, float[4,2,3]; reverse=1",
    "none, none, float[2,3], float[12,3], float[4,2,12]{0.1,0.9}, float[4,2,3]",
    "float[5,17,40], none, none, float[160,40]{-0.1,0.1}, float[5,17,160]{0.1,0.9}, float[5,17,40]", NULL};

const ipu__op_def ipu__op_rnn_grad = GRAD(rnn_grad, 4, rnn_attributes,
                                          IPU__BATCH({IPU__AXIS_1, IPU__AXIS_0, IPU__SHARED, IPU__AXIS_1},
                                                     {IPU__AXIS_1, IPU__AXIS_0}),
                                          "the gradient of rnn before its activations");
const ipu__op_def ipu__op_gru_grad = GRAD(
    gru_grad, 7, back_attributes,
    IPU__BATCH({IPU__AXIS_1, IPU__AXIS_0, IPU__SHARED, IPU__AXIS_1, IPU__AXIS_1, IPU__AXIS_0, IPU__AXIS_1},
               {IPU__AXIS_1, IPU__AXIS_1, IPU__AXIS_0}),
    "the gradient of gru before its activations");
const ipu__op_def ipu__op_lstm_grad = GRAD(lstm_grad, 9, back_attributes,
                                           IPU__BATCH({IPU__AXIS_1, IPU__AXIS_0, IPU__AXIS_0, IPU__SHARED,
                                                       IPU__AXIS_1, IPU__AXIS_1, IPU__AXIS_0, IPU__AXIS_1,
                                                       IPU__AXIS_1},
                                                      {IPU__AXIS_1, IPU__AXIS_0, IPU__AXIS_0}),
                                           "the gradient of lstm before its activations");

/* The meaning of recurrent layers: step by step, row by row, unit by unit.
 *
 * Everything is in double, and rounded only where it is stored. For half and bfloat16 the state is therefore
 * carried from step to step in separate memory; if that cannot be allocated, the rounded state is carried.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "op/number.h"
#include "op/sequence/recurrent.h"

/* One call, of which one row of the batch is taken through all steps. */
typedef struct use {
    ipu__recurrent          r;
    const ipu__kernel_call *call;
    void *const            *operand;
    ipu_type                type;
    int64_t                 row;
    /* The state of the row as it is carried, [H]: forwards h, c and h of this step; backwards the gradients
     * of h and c, and those of all gates before their activations. NULL: it is where it was stored. */
    double *h, *c, *next;
} use;

/* float and double lose nothing that matters by being stored. */
static double *make_work(use *u)
{
    int64_t hidden = u->r.hidden;
    if (u->type == IPU_FLOAT || u->type == IPU_DOUBLE) return NULL;
    double *work = ipu__alloc_zeroed((size_t)(6 * hidden + 1) * sizeof *work);
    if (!work) return NULL;
    u->h    = work;
    u->c    = u->h + hidden;
    u->next = u->c + hidden;
    return work;
}

static double load(const use *u, int operand, int64_t i)
{
    return ipu__number_load(u->type, u->operand[operand], i);
}

static void store(const use *u, int operand, int64_t i, double value)
{
    ipu__number_store(u->type, u->operand[operand], i, value);
}

static bool has(const use *u, int operand) { return operand >= 0 && ipu__kernel_has(u->call, operand); }

static double load_or_0(const use *u, int operand, int64_t i)
{
    return has(u, operand) ? load(u, operand, i) : 0;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* The row's first element among `width` for each row, in the i-th step. */
static int64_t at_step(const use *u, int64_t i, int64_t width)
{
    return (ipu__recurrent_time(&u->r, i) * u->r.batch + u->row) * width;
}

static int64_t at_state(const use *u) { return u->row * u->r.hidden; }

/* h before the i-th step, as an operand keeps it. */
static double stored_h(const use *u, int y, int h0, int64_t i, int64_t k)
{
    return i > 0 ? load(u, y, at_step(u, i - 1, u->r.hidden) + k) : load_or_0(u, h0, at_state(u) + k);
}

static double old_h(const use *u, int64_t i, int64_t k)
{
    return u->h ? u->h[k] : stored_h(u, u->r.at.y, u->r.at.h0, i, k);
}

/* ---- forwards ---- */

static double from_x(const use *u, int64_t i, int64_t gate)
{
    const ipu__recurrent *r   = &u->r;
    int64_t               x   = at_step(u, i, r->inputs);
    double                sum = load_or_0(u, r->at.b_ih, gate);
    for (int64_t k = 0; k < r->inputs; k++)
        sum += load(u, r->at.x, x + k) * load(u, r->at.w_ih, gate * r->inputs + k);
    return sum;
}

static double from_h(const use *u, int64_t i, int64_t gate)
{
    const ipu__recurrent *r   = &u->r;
    double                sum = load_or_0(u, r->at.b_hh, gate);
    for (int64_t k = 0; k < r->hidden; k++) sum += old_h(u, i, k) * load(u, r->at.w_hh, gate * r->hidden + k);
    return sum;
}

static void save_gates(const use *u, int64_t i, int64_t j, const double *gates)
{
    const ipu__recurrent *r = &u->r;
    for (int k = 0; r->keeps && k < r->n_saved; k++)
        store(u, r->at.gates, at_step(u, i, r->n_saved * r->hidden) + k * r->hidden + j, gates[k]);
}

/* c_n is c between steps too. */
static double lstm_unit(const use *u, int64_t i, int64_t j, const double *x, const double *h)
{
    const ipu__recurrent *r = &u->r;
    double gates[] = {sigmoid(x[0] + h[0]), sigmoid(x[1] + h[1]), tanh(x[2] + h[2]), sigmoid(x[3] + h[3])};
    double old     = u->c ? u->c[j] : load(u, r->at.c_n, at_state(u) + j);
    double c       = gates[1] * old + gates[0] * gates[2];
    if (u->c) u->c[j] = c;
    store(u, r->at.c_n, at_state(u) + j, c);
    save_gates(u, i, j, gates);
    if (r->keeps) store(u, r->at.cells, at_step(u, i, r->hidden) + j, c);
    return gates[3] * tanh(c);
}

static double gru_unit(const use *u, int64_t i, int64_t j, const double *x, const double *h)
{
    double r = sigmoid(x[0] + h[0]), z = sigmoid(x[1] + h[1]), n = tanh(x[2] + r * h[2]);
    save_gates(u, i, j, (double[]){r, z, n, h[2]});
    return (1 - z) * n + z * old_h(u, i, j);
}

static void one_unit(const use *u, int64_t i, int64_t j)
{
    const ipu__recurrent *r    = &u->r;
    double                x[4] = {0}, h[4] = {0}, y;
    for (int k = 0; k < r->n_gates; k++) {
        x[k] = from_x(u, i, k * r->hidden + j);
        h[k] = from_h(u, i, k * r->hidden + j);
    }
    if (r->cell == IPU__LSTM)
        y = lstm_unit(u, i, j, x, h);
    else if (r->cell == IPU__GRU)
        y = gru_unit(u, i, j, x, h);
    else
        y = r->relu ? fmax(x[0] + h[0], 0) : tanh(x[0] + h[0]);
    store(u, r->at.y, at_step(u, i, r->hidden) + j, y);
    if (u->next) u->next[j] = y;
}

static void row_forwards(use *u)
{
    const ipu__recurrent *r = &u->r;
    for (int64_t j = 0; j < r->hidden; j++) {
        if (r->at.c_n >= 0) store(u, r->at.c_n, at_state(u) + j, load_or_0(u, r->at.c0, at_state(u) + j));
        if (u->h) u->h[j] = load_or_0(u, r->at.h0, at_state(u) + j);
        if (u->c) u->c[j] = load_or_0(u, r->at.c0, at_state(u) + j);
    }
    for (int64_t i = 0; i < r->steps; i++) {
        for (int64_t j = 0; j < r->hidden; j++) one_unit(u, i, j);
        if (u->h) memcpy(u->h, u->next, (size_t)r->hidden * sizeof *u->h);
    }
    for (int64_t j = 0; j < r->hidden; j++) store(u, r->at.h_n, at_state(u) + j, old_h(u, r->steps, j));
}

void ipu__recurrent_ref(const ipu__kernel_call *call, void *const *operand)
{
    use u        = {.r = ipu__recurrent_get(call), .call = call, .operand = operand};
    u.type       = call->operand[0].type;
    double *work = make_work(&u);
    for (u.row = 0; u.row < u.r.batch; u.row++) row_forwards(&u);
    ipu__free(work);
}

/* ---- backwards: d_h0 and d_c0 are the gradients of the state between steps too ---- */

static double carried(const use *u, const double *work, int operand, int64_t j)
{
    return work ? work[j] : load(u, operand, at_state(u) + j);
}

static void carry(const use *u, double *work, int operand, int64_t j, double value)
{
    if (work) work[j] = value;
    store(u, operand, at_state(u) + j, value);
}

/* The gradient of gate `k` before its activation, of what passes w_hh. */
static void put_gate(const use *u, int operand, int64_t i, int k, int64_t j, double value)
{
    int64_t hidden = u->r.hidden;
    store(u, operand, at_step(u, i, u->r.n_gates * hidden) + k * hidden + j, value);
    if (u->next) u->next[k * hidden + j] = value;
}

static void load_gates(const use *u, int operand, int64_t i, int64_t j, double out[4])
{
    int64_t hidden = u->r.hidden;
    for (int k = 0; k < 4; k++) out[k] = load_or_0(u, operand, at_step(u, i, 4 * hidden) + k * hidden + j);
}

static void lstm_unit_back(const use *u, int64_t i, int64_t j, double d_h)
{
    const ipu__recurrent_grad_operands *at   = &u->r.grad_at;
    int64_t                             here = at_step(u, i, u->r.hidden) + j;
    double                              g[4], more[4], c = tanh(load(u, at->cells, here));
    double                              c_old = stored_h(u, at->cells, at->c0, i, j);
    load_gates(u, at->gates, i, j, g);
    load_gates(u, at->d_gates, i, j, more);
    double d_c = carried(u, u->c, at->d_c0, j) + d_h * g[3] * (1 - c * c) + load_or_0(u, at->d_cells, here);
    put_gate(u, at->d_ih, i, 0, j, (d_c * g[2] + more[0]) * g[0] * (1 - g[0]));
    put_gate(u, at->d_ih, i, 1, j, (d_c * c_old + more[1]) * g[1] * (1 - g[1]));
    put_gate(u, at->d_ih, i, 2, j, (d_c * g[0] + more[2]) * (1 - g[2] * g[2]));
    put_gate(u, at->d_ih, i, 3, j, (d_h * c + more[3]) * g[3] * (1 - g[3]));
    carry(u, u->c, at->d_c0, j, d_c * g[1]);
}

/* Returns what goes to the step before past w_hh. */
static double gru_unit_back(const use *u, int64_t i, int64_t j, double d_h)
{
    const ipu__recurrent_grad_operands *at = &u->r.grad_at;
    double                              g[4], more[4], h_old = stored_h(u, at->y, at->h0, i, j);
    load_gates(u, at->gates, i, j, g);
    load_gates(u, at->d_gates, i, j, more);
    double reset = g[0], z = g[1], fresh = g[2];
    double d_n = (d_h * (1 - z) + more[2]) * (1 - fresh * fresh);
    double d_z = (d_h * (h_old - fresh) + more[1]) * z * (1 - z);
    double d_r = (d_n * g[3] + more[0]) * reset * (1 - reset);
    put_gate(u, at->d_ih, i, 0, j, d_r);
    put_gate(u, at->d_ih, i, 1, j, d_z);
    put_gate(u, at->d_ih, i, 2, j, d_n);
    put_gate(u, at->d_hh, i, 0, j, d_r);
    put_gate(u, at->d_hh, i, 1, j, d_z);
    put_gate(u, at->d_hh, i, 2, j, d_n * reset + more[3]);
    return d_h * z;
}

static void rnn_unit_back(const use *u, int64_t i, int64_t j, double d_h)
{
    double y     = load(u, u->r.grad_at.y, at_step(u, i, u->r.hidden) + j);
    double slope = u->r.relu ? (y > 0 ? 1 : 0) : 1 - y * y;
    put_gate(u, u->r.grad_at.d_ih, i, 0, j, d_h * slope);
}

static void step_back(const use *u, int64_t i)
{
    const ipu__recurrent               *r    = &u->r;
    const ipu__recurrent_grad_operands *at   = &r->grad_at;
    int64_t                             wide = r->n_gates * r->hidden, first = at_step(u, i, wide);
    int                                 through = r->cell == IPU__GRU ? at->d_hh : at->d_ih;
    for (int64_t j = 0; j < r->hidden; j++) {
        double d_h  = carried(u, u->h, at->d_h0, j) + load_or_0(u, at->d_y, at_step(u, i, r->hidden) + j),
               past = 0;
        if (r->cell == IPU__LSTM)
            lstm_unit_back(u, i, j, d_h);
        else if (r->cell == IPU__GRU)
            past = gru_unit_back(u, i, j, d_h);
        else
            rnn_unit_back(u, i, j, d_h);
        carry(u, u->h, at->d_h0, j, past);
    }
    for (int64_t j = 0; j < r->hidden; j++) {
        double sum = carried(u, u->h, at->d_h0, j);
        for (int64_t k = 0; k < wide; k++)
            sum += (u->next ? u->next[k] : load(u, through, first + k))
                 * load(u, at->w_hh, k * r->hidden + j);
        carry(u, u->h, at->d_h0, j, sum);
    }
}

void ipu__recurrent_grad_ref(const ipu__kernel_call *call, void *const *operand)
{
    use u = {.r = ipu__recurrent_grad_get(call), .call = call, .operand = operand};
    const ipu__recurrent_grad_operands *at = &u.r.grad_at;
    u.type                                 = call->operand[at->w_hh].type;
    double *work                           = make_work(&u);
    for (u.row = 0; u.row < u.r.batch; u.row++) {
        for (int64_t j = 0; j < u.r.hidden; j++) {
            carry(&u, u.h, at->d_h0, j, load_or_0(&u, at->d_h_n, at_state(&u) + j));
            if (at->d_c0 >= 0) carry(&u, u.c, at->d_c0, j, load_or_0(&u, at->d_c_n, at_state(&u) + j));
        }
        for (int64_t i = u.r.steps - 1; i >= 0; i--) step_back(&u, i);
    }
    ipu__free(work);
}

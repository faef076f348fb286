/* What recurrent layers mean: step by step, row by row, unit by unit.
 *
 * Sums and activations are in double; what an output keeps (h, c, gates) is rounded to its type, and that
 * is what the next step reads.
 */
#include <math.h>

#include "op/number.h"
#include "op/recurrent.h"

/* One call: operands by name, loads and stores in its type. */
typedef struct use {
    ipu__recurrent         r;
    const ipu_kernel_call *call;
    void *const           *operand;
    ipu_type               type;
} use;

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

/* Where h of the step before the i-th is: an operand (-1: it is zero) and the first unit of row `n`. */
static int old_h(const use *u, int y, int h0, int64_t i, int64_t n, int64_t *first)
{
    const ipu__recurrent *r = &u->r;
    *first = i > 0 ? (ipu__recurrent_time(r, i - 1) * r->batch + n) * r->hidden : n * r->hidden;
    return i > 0 ? y : has(u, h0) ? h0 : -1;
}

/* ---- forwards ---- */

static double from_x(const use *u, int64_t row, int64_t gate)
{
    const ipu__recurrent *r   = &u->r;
    double                sum = load_or_0(u, r->at.b_ih, gate);
    for (int64_t k = 0; k < r->inputs; k++)
        sum += load(u, r->at.x, row * r->inputs + k) * load(u, r->at.w_ih, gate * r->inputs + k);
    return sum;
}

static double from_h(const use *u, int old, int64_t first, int64_t gate)
{
    const ipu__recurrent *r   = &u->r;
    double                sum = load_or_0(u, r->at.b_hh, gate);
    for (int64_t k = 0; old >= 0 && k < r->hidden; k++)
        sum += load(u, old, first + k) * load(u, r->at.w_hh, gate * r->hidden + k);
    return sum;
}

static void save_gates(const use *u, int64_t row, int64_t j, const double *gates)
{
    const ipu__recurrent *r = &u->r;
    for (int k = 0; r->keeps && k < r->n_saved; k++)
        store(u, r->at.gates, (row * r->n_saved + k) * r->hidden + j, gates[k]);
}

static double lstm_unit(const use *u, int64_t row, int64_t n, int64_t j, const double *x, const double *h)
{
    const ipu__recurrent *r = &u->r;
    double  gates[] = {sigmoid(x[0] + h[0]), sigmoid(x[1] + h[1]), tanh(x[2] + h[2]), sigmoid(x[3] + h[3])};
    int64_t at      = n * r->hidden + j;
    store(u, r->at.c_n, at, gates[1] * load(u, r->at.c_n, at) + gates[0] * gates[2]);
    double c = load(u, r->at.c_n, at);
    save_gates(u, row, j, gates);
    if (r->keeps) store(u, r->at.cells, row * r->hidden + j, c);
    return gates[3] * tanh(c);
}

static double gru_unit(const use *u, int64_t row, int64_t j, const double *x, const double *h, double old)
{
    double r = sigmoid(x[0] + h[0]), z = sigmoid(x[1] + h[1]), n = tanh(x[2] + r * h[2]);
    save_gates(u, row, j, (double[]){r, z, n, h[2]});
    return (1 - z) * n + z * old;
}

static void one_unit(const use *u, int64_t i, int64_t n, int64_t j)
{
    const ipu__recurrent *r   = &u->r;
    int64_t               row = ipu__recurrent_time(r, i) * r->batch + n, first;
    int                   old = old_h(u, r->at.y, r->at.h0, i, n, &first);
    double                x[4], h[4], y;
    for (int k = 0; k < r->n_gates; k++) {
        x[k] = from_x(u, row, k * r->hidden + j);
        h[k] = from_h(u, old, first, k * r->hidden + j);
    }
    if (r->cell == IPU__LSTM)
        y = lstm_unit(u, row, n, j, x, h);
    else if (r->cell == IPU__GRU)
        y = gru_unit(u, row, j, x, h, old >= 0 ? load(u, old, first + j) : 0);
    else
        y = r->relu ? fmax(x[0] + h[0], 0) : tanh(x[0] + h[0]);
    store(u, r->at.y, row * r->hidden + j, y);
}

void ipu__recurrent_ref(const ipu_kernel_call *call, void *const *operand)
{
    use                   u       = {ipu__recurrent_get(call), call, operand, call->operand[0].type};
    const ipu__recurrent *r       = &u.r;
    int64_t               n_units = r->batch * r->hidden;
    for (int64_t j = 0; r->at.c_n >= 0 && j < n_units; j++)
        store(&u, r->at.c_n, j, load_or_0(&u, r->at.c0, j));
    for (int64_t i = 0; i < r->steps; i++)
        for (int64_t n = 0; n < r->batch; n++)
            for (int64_t j = 0; j < r->hidden; j++) one_unit(&u, i, n, j);
    for (int64_t n = 0; n < r->batch; n++) {
        int64_t first;
        int     last = old_h(&u, r->at.y, r->at.h0, r->steps, n, &first);
        for (int64_t j = 0; j < r->hidden; j++)
            store(&u, r->at.h_n, n * r->hidden + j, last >= 0 ? load(&u, last, first + j) : 0);
    }
}

/* ---- backwards: d_h0 and d_c0 hold the gradients of the state between two steps ---- */

static void lstm_unit_back(const use *u, int64_t i, int64_t row, int64_t n, int64_t j, double d_h)
{
    const ipu__recurrent_grad_operands *at = &u->r.grad_at;
    int64_t hidden = u->r.hidden, gate = row * 4 * hidden + j, state = n * hidden + j;
    double  in = load(u, at->gates, gate), forget = load(u, at->gates, gate + hidden);
    double  g = load(u, at->gates, gate + 2 * hidden), out = load(u, at->gates, gate + 3 * hidden);
    double  c      = tanh(load(u, at->cells, row * hidden + j));
    int64_t before = i > 0 ? (ipu__recurrent_time(&u->r, i - 1) * u->r.batch + n) * hidden + j : state;
    double  c_old  = i > 0 ? load(u, at->cells, before) : load_or_0(u, at->c0, state);
    double  d_c    = load(u, at->d_c0, state) + d_h * out * (1 - c * c);
    store(u, at->d_ih, gate, d_c * g * in * (1 - in));
    store(u, at->d_ih, gate + hidden, d_c * c_old * forget * (1 - forget));
    store(u, at->d_ih, gate + 2 * hidden, d_c * in * (1 - g * g));
    store(u, at->d_ih, gate + 3 * hidden, d_h * c * out * (1 - out));
    store(u, at->d_c0, state, d_c * forget);
}

/* Returns what goes to the step before past w_hh. */
static double gru_unit_back(const use *u, int64_t i, int64_t row, int64_t n, int64_t j, double d_h)
{
    const ipu__recurrent_grad_operands *at     = &u->r.grad_at;
    int64_t                             hidden = u->r.hidden, gate = row * 4 * hidden + j, first;
    int                                 old = old_h(u, at->y, at->h0, i, n, &first);
    double  reset = load(u, at->gates, gate), z = load(u, at->gates, gate + hidden);
    double  candidate = load(u, at->gates, gate + 2 * hidden), q = load(u, at->gates, gate + 3 * hidden);
    double  h_old = old >= 0 ? load(u, old, first + j) : 0;
    double  d_n   = d_h * (1 - z) * (1 - candidate * candidate);
    double  d_z = d_h * (h_old - candidate) * z * (1 - z), d_r = d_n * q * reset * (1 - reset);
    int64_t to = row * 3 * hidden + j;
    store(u, at->d_ih, to, d_r);
    store(u, at->d_ih, to + hidden, d_z);
    store(u, at->d_ih, to + 2 * hidden, d_n);
    store(u, at->d_hh, to, d_r);
    store(u, at->d_hh, to + hidden, d_z);
    store(u, at->d_hh, to + 2 * hidden, d_n * reset);
    return d_h * z;
}

static void rnn_unit_back(const use *u, int64_t row, int64_t j, double d_h)
{
    int64_t at    = row * u->r.hidden + j;
    double  y     = load(u, u->r.grad_at.y, at);
    double  slope = u->r.relu ? (y > 0 ? 1 : 0) : 1 - y * y;
    store(u, u->r.grad_at.d_ih, at, d_h * slope);
}

static void row_back(const use *u, int64_t i, int64_t n)
{
    const ipu__recurrent               *r  = &u->r;
    const ipu__recurrent_grad_operands *at = &r->grad_at;
    int64_t row = ipu__recurrent_time(r, i) * r->batch + n, wide = r->n_gates * r->hidden;
    int     through = r->cell == IPU__GRU ? at->d_hh : at->d_ih;
    for (int64_t j = 0; j < r->hidden; j++) {
        int64_t state = n * r->hidden + j;
        double  d_h = load(u, at->d_h0, state) + load_or_0(u, at->d_y, row * r->hidden + j), past = 0;
        if (r->cell == IPU__LSTM)
            lstm_unit_back(u, i, row, n, j, d_h);
        else if (r->cell == IPU__GRU)
            past = gru_unit_back(u, i, row, n, j, d_h);
        else
            rnn_unit_back(u, row, j, d_h);
        store(u, at->d_h0, state, past);
    }
    for (int64_t j = 0; j < r->hidden; j++) {
        double sum = load(u, at->d_h0, n * r->hidden + j);
        for (int64_t k = 0; k < wide; k++)
            sum += load(u, through, row * wide + k) * load(u, at->w_hh, k * r->hidden + j);
        store(u, at->d_h0, n * r->hidden + j, sum);
    }
}

void ipu__recurrent_grad_ref(const ipu_kernel_call *call, void *const *operand)
{
    use                   u = {ipu__recurrent_grad_get(call), call, operand, IPU_FLOAT};
    const ipu__recurrent *r = &u.r;
    u.type                  = call->operand[r->grad_at.w_hh].type;
    for (int64_t j = 0; j < r->batch * r->hidden; j++) {
        store(&u, r->grad_at.d_h0, j, load_or_0(&u, r->grad_at.d_h_n, j));
        if (r->grad_at.d_c0 >= 0) store(&u, r->grad_at.d_c0, j, load_or_0(&u, r->grad_at.d_c_n, j));
    }
    for (int64_t i = r->steps - 1; i >= 0; i--)
        for (int64_t n = 0; n < r->batch; n++) row_back(&u, i, n);
}

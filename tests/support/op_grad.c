/* Gradients of ops, and gradients of those, against finite differences of the reference in double. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "eager.h"
#include "op_check.h"

enum { MOST_ELEMENTS = 2000, MOST_FIRST = 40, MOST_SECOND = 8 };

/* What is differentiated: s = sum <d_y, y> for the first gradient; sum <r, d s / d x> for the second. Numbers
 * that vary are inputs, then d_y. */
typedef struct trial {
    const sample *s;
    operands      in;                       /* inputs in use */
    double       *d_y[IPU__MAX_OPERANDS];   /* by operand; NULL: not floating */
    double       *r[2 * IPU__MAX_OPERANDS]; /* by operand, as x and d_y are numbered */
    bool          take_apart;
} trial;

/* Inputs that count as constants, as they do in PyTorch. */
static bool is_constant(const sample *s, int operand)
{
    static const struct {
        const char *family, *op, *input; /* NULL: any */
    } constants[]     = {{"loss", NULL, "weight"},
                         {NULL, "stop_gradient", "x"},
                         {"quantize", "fake_quantize", NULL},
                         {"random", "random_gamma", "x"},
                         {"random", "random_dirichlet", "x"},
                         {"vision", NULL, "rois"}};
    const char *input = s->op->kernel.operands[operand].name;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        bool family = !constants[i].family || strcmp(constants[i].family, s->op->family) == 0;
        bool op     = !constants[i].op || strcmp(constants[i].op, s->op->kernel.name) == 0;
        bool name   = !constants[i].input || strcmp(constants[i].input, input) == 0;
        if (family && op && name) return true;
    }
    return false;
}

static bool is_real(const sample *s, int operand)
{
    bool there = operand >= s->op->n_in || s->present[operand];
    return there && s->call.operand[operand].type == IPU_DOUBLE && !is_constant(s, operand);
}

static double *make_random(int64_t n, uint64_t seed)
{
    test_random random = {seed};
    double     *out    = malloc((size_t)(n + 1) * sizeof *out);
    if (!out) abort();
    for (int64_t i = 0; i < n; i++) out[i] = (double)(random_bits(&random) >> 11) * 0x1p-52 - 1;
    return out;
}

static trial make_trial(const sample *s, bool take_apart)
{
    trial t = {.s = s, .in = operands_make(s, 7), .take_apart = take_apart};
    for (int i = 0; i < s->call.n_operands; i++) {
        if (!is_real(s, i)) continue;
        t.r[i] = make_random(sample_n_elements(s, i), 100 + (uint64_t)i);
        if (i >= s->op->n_in) t.d_y[i] = make_random(sample_n_elements(s, i), 50 + (uint64_t)i);
    }
    return t;
}

static void free_trial(trial *t)
{
    operands_free(&t->in);
    for (int i = 0; i < IPU__MAX_OPERANDS; i++) {
        free(t->d_y[i]);
        free(t->r[i]);
    }
}

/* The op on the trial's numbers; by operand, null where there is none. d[i] is d_y for outputs. */
typedef struct emitted {
    ipu_builder *b;
    ipu_value    at[IPU__MAX_OPERANDS], d[IPU__MAX_OPERANDS];
} emitted;

static emitted emit_op(const trial *t)
{
    const sample *s = t->s;
    emitted       e = {.b = eager_create(t->take_apart)};
    if (!e.b) abort();
    for (int i = 0; i < s->op->n_in; i++)
        if (s->present[i])
            e.at[i] = ipu_constant_data(e.b, s->call.operand[i].type, s->call.operand[i].shape,
                                        t->in.pointer[i]);
    ipu_emit(e.b, s->op->kernel.name, s->call.attributes, s->call.n_attributes, e.at, (size_t)s->op->n_in,
             e.at + s->op->n_in, (size_t)ipu__op_n_out(s->op));
    for (int i = s->op->n_in; i < s->call.n_operands; i++)
        if (t->d_y[i]) e.d[i] = ipu_constant_data(e.b, IPU_DOUBLE, s->call.operand[i].shape, t->d_y[i]);
    return e;
}

/* d[i] = gradient of sum <d_y, y> for inputs. */
static void emit_gradient(const trial *t, emitted *e)
{
    const sample *s = t->s;
    ipu_value     y[IPU__MAX_OPERANDS], d_y[IPU__MAX_OPERANDS], x[IPU__MAX_OPERANDS], d_x[IPU__MAX_OPERANDS];
    size_t        n_y = 0, n_x = 0;
    for (int i = 0; i < s->call.n_operands; i++) {
        if (!is_real(s, i) || !e->at[i].id) continue;
        if (i < s->op->n_in)
            x[n_x++] = e->at[i];
        else {
            y[n_y]     = e->at[i];
            d_y[n_y++] = e->d[i];
        }
    }
    if (e->b->status == IPU_OK) eager_gradients(e->b, y, d_y, n_y, x, n_x, d_x);
    if (e->b->status != IPU_OK) return;
    n_x = 0;
    for (int i = 0; i < s->op->n_in; i++)
        if (is_real(s, i)) e->d[i] = d_x[n_x++];
}

/* dd[i] = gradient of sum <r, d x> with respect to inputs, and to d_y in the place of the outputs. */
static void emit_second(const trial *t, const emitted *e, ipu_value *dd)
{
    const sample *s = t->s;
    ipu_value     y[IPU__MAX_OPERANDS], d_y[IPU__MAX_OPERANDS], x[IPU__MAX_OPERANDS], d_x[IPU__MAX_OPERANDS];
    size_t        n_y = 0, n_x = 0;
    for (int i = 0; i < s->call.n_operands; i++) {
        if (!is_real(s, i)) continue;
        x[n_x++] = i < s->op->n_in ? e->at[i] : e->d[i];
        if (i >= s->op->n_in || !e->d[i].id) continue;
        y[n_y]     = e->d[i];
        d_y[n_y++] = ipu_constant_data(e->b, IPU_DOUBLE, s->call.operand[i].shape, t->r[i]);
    }
    eager_gradients(e->b, y, d_y, n_y, x, n_x, d_x);
    if (e->b->status != IPU_OK) return;
    n_x = 0;
    for (int i = 0; i < s->call.n_operands; i++)
        if (is_real(s, i)) dd[i] = d_x[n_x++];
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* The function of the trial's numbers whose gradient is asked for. */
static double value_of(const trial *t, bool second)
{
    emitted e   = emit_op(t);
    double  sum = 0;
    if (second) emit_gradient(t, &e);
    for (int i = 0; i < t->s->call.n_operands; i++) {
        bool is_in = i < t->s->op->n_in;
        if (!is_real(t->s, i) || is_in != second) continue;
        ipu_value v = second ? e.d[i] : e.at[i];
        if (v.id) sum += dot(eager_data(v), second ? t->r[i] : t->d_y[i], sample_n_elements(t->s, i));
    }
    if (e.b->status != IPU_OK) sum = NAN;
    eager_destroy(e.b);
    return sum;
}

static double slope(const trial *t, double *number, bool second)
{
    double keep = *number, h = 1e-5 * fmax(1, fabs(keep));
    *number      = keep + h;
    double above = value_of(t, second);
    *number      = keep - h;
    double below = value_of(t, second);
    *number      = keep;
    return (above - below) / (2 * h);
}

/* Some numbers of one operand; `found` NULL: the gradient says that nothing depends on it. */
static int compare_slopes(const trial *t, int operand, double *numbers, const double *found, bool second,
                          double size)
{
    int64_t     n = sample_n_elements(t->s, operand), most = second ? MOST_SECOND : MOST_FIRST;
    test_random random = {3};
    double      large  = size;
    int         bad    = 0;
    for (int64_t i = 0; found && i < n; i++) large = fmax(large, fabs(found[i]));
    for (int64_t k = 0; k < (n < most ? n : most); k++) {
        int64_t i        = n <= most ? k : random_in(&random, 0, n - 1);
        double  expected = slope(t, numbers + i, second), got = found ? found[i] : 0;
        if (fabs(expected - got) <= 1e-6 * large) continue;
        bad += finding(t->s, second ? "second gradient" : "gradient",
                       "of %s\"%s\" element %lld: %.9g, finite differences give %.9g",
                       operand >= t->s->op->n_in ? "the gradient of " : "",
                       t->s->op->kernel.operands[operand].name, (long long)i, got, expected);
        if (bad >= 2) break;
    }
    return bad;
}

static const double *numbers_of(ipu_value v) { return v.id ? eager_data(v) : NULL; }

/* Differentiates; the status is the builder's, and *bad counts what differs. */
static ipu_status try_trial(const sample *s, bool take_apart, bool second, int *bad)
{
    trial     t                     = make_trial(s, take_apart);
    emitted   e                     = emit_op(&t);
    ipu_value dd[IPU__MAX_OPERANDS] = {{0}};
    emit_gradient(&t, &e);
    if (second && e.b->status == IPU_OK) emit_second(&t, &e, dd);
    ipu_status status = e.b->status;
    if (status != IPU_OK) ipu__fail(status, "%s", ipu_builder_message(e.b));
    double size = status == IPU_OK ? fmax(1, fabs(value_of(&t, second))) : 1;
    for (int i = 0; i < s->call.n_operands && status == IPU_OK && bad; i++) {
        if (!is_real(s, i)) continue;
        if (i < s->op->n_in)
            *bad += compare_slopes(&t, i, t.in.pointer[i], numbers_of(second ? dd[i] : e.d[i]), second, size);
        else if (second)
            *bad += compare_slopes(&t, i, t.d_y[i], numbers_of(dd[i]), true, size);
    }
    eager_destroy(e.b);
    free_trial(&t);
    return status;
}

static bool is_differentiable(const sample *s)
{
    bool in = false, out = false;
    for (int i = 0; i < s->call.n_operands; i++) {
        in |= i < s->op->n_in && is_real(s, i);
        out |= i >= s->op->n_in && is_real(s, i);
    }
    return in && out;
}

static bool claims_gradient(const ipu__op_def *op)
{
    return op->grad || op->compose || op->flags & IPU__OP_NO_GRADIENT;
}

/* Ops that are the last of their kind: steps of optimizers, functions of the host, decoders, and gradients whose op has a composition to be
 * differentiated twice. */
static bool may_lack_gradient(const ipu__op_def *op)
{
    size_t n = strlen(op->kernel.name);
    return strcmp(op->family, "optimizer") == 0 || strcmp(op->family, "host") == 0
        || op == &ipu__op_ctc_decode || (n > 5 && strcmp(op->kernel.name + n - 5, "_grad") == 0);
}

static bool is_small(const sample *s)
{
    int64_t n = 0;
    for (int i = 0; i < s->call.n_operands; i++) n += sample_n_elements(s, i);
    return n <= MOST_ELEMENTS;
}

/* The sample in double; false: it has no gradient to check. */
static bool make_double(const sample *s, sample *out)
{
    char error[SAMPLE_ERROR];
    if (!sample_parse(out, s->op, s->text, error)) return false;
    sample_retype(out, IPU_FLOAT, IPU_DOUBLE);
    return sample_infer(out) == IPU_OK && is_differentiable(out) && claims_gradient(s->op) && is_small(out);
}

int check_gradient(const sample *s)
{
    static sample wide;
    int           bad = 0;
    if (!make_double(s, &wide)) {
        bool lacks = wide.call.n_operands == s->op->kernel.n_operands && is_differentiable(&wide)
                  && !claims_gradient(s->op) && !may_lack_gradient(s->op);
        return lacks ? finding(s, "gradient", "there is none") : 0;
    }
    if (try_trial(&wide, false, false, &bad) != IPU_OK)
        return finding(&wide, "gradient", "%s", ipu_message());
    return bad;
}

int check_second_gradient(const sample *s)
{
    static sample wide;
    int           bad = 0;
    if (!make_double(s, &wide)) return 0;
    if (try_trial(&wide, false, true, &bad) == IPU_OK) return bad;
    if (try_trial(&wide, true, true, &bad) == IPU_OK) return bad;
    return finding(&wide, "second gradient", "%s", ipu_message());
}

gradient_support find_gradient_support(const sample *s)
{
    static sample wide;
    if (s->op->flags & IPU__OP_NO_GRADIENT) return GRADIENT_ZERO;
    if (!make_double(s, &wide) || try_trial(&wide, false, false, NULL) != IPU_OK) return GRADIENT_NONE;
    bool again = try_trial(&wide, false, true, NULL) == IPU_OK
              || try_trial(&wide, true, true, NULL) == IPU_OK;
    return again ? GRADIENT_SECOND : GRADIENT_FIRST;
}

/* `ipu flops`, gc-flops: products of large matrices, timed on each IPU of a device, and checked. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipu/cost.h"
#include "ipu/version.h"
#include "output.h"
#include "selftest/selftest.h"
#include "selftest/data.h"
#include "selftest/product.h"

enum { SIDE = 1024, MOST_IPUS = 256 }; /* of the products; the engine is fastest here (bench/ops.c) */
enum { MOST_MODELLED_SIDE = 8192, STEP = 256 };

static const double run_seconds =
    0.02; /* approximate: the longest a signal waits; the best run is reported */

typedef struct precision {
    const char *name;
    ipu_type    type;
} precision;

static const precision precisions[] = {{"FP16", IPU_HALF}, {"FP32", IPU_FLOAT}};

typedef struct flops {
    selftest         s;
    const precision *precision;
    double           seconds;               /* measuring time per IPU */
    double           rate[MOST_IPUS], took; /* FLOP/s; seconds */
    double           best;                  /* FLOP/s of the best run */
    double           modelled;              /* FLOP/s, of products of modelled_side */
    int64_t          modelled_side;         /* 0 if none fits */
    float           *a, *b, *c;
    void            *raw; /* a matrix in the chosen precision */
    int64_t          wrong;
} flops;

static const double product_flop = 2.0 * SIDE * SIDE * SIDE;
static const size_t n_elements   = (size_t)SIDE * SIDE;

/* ---- numbers ---- */

static size_t encode(const flops *t, const float *x)
{
    if (t->precision->type == IPU_FLOAT)
        memcpy(t->raw, x, n_elements * sizeof *x);
    else
        ipu_half_from_floats(x, t->raw, n_elements);
    return n_elements * ipu_type_size(t->precision->type);
}

static void decode(const flops *t, float *x)
{
    if (t->precision->type == IPU_FLOAT)
        memcpy(x, t->raw, n_elements * sizeof *x);
    else
        ipu_half_to_floats(t->raw, x, n_elements);
}

/* ---- programs ---- */

/* A product of matrices of `side`. Half uses sums in half, which is how the chip reaches its peak; that
 * changes the price, not the result. */
static ipu_program add_product(ipu_graph *g, ipu_type type, int64_t side)
{
    static const char *const names[3] = {"a", "b", "c"};
    ipu_tensor               x[3];
    ipu_program              p        = ipu_program_sequence(g);
    ipu_attribute            partials = IPU_TEXT_ATTRIBUTE("partials", "half");
    for (int i = 0; i < 3; i++) {
        x[i] = ipu_graph_add_variable(g, type, IPU_SHAPE(side, side), names[i]);
        ipu_graph_map_linearly(g, x[i]);
        ipu_graph_add_host_write(g, names[i], x[i]);
    }
    ipu_graph_add_host_read(g, "c", x[2]);
    ipu_program_add_kernel(p, "matmul", &partials, type == IPU_HALF, x, 3);
    return p;
}

/* The chip is fastest with larger matrices than the host: the largest that fit its tiles. */
static ipu_status model(flops *t)
{
    ipu_target one = t->s.target;
    one.n_ipus     = 1;
    for (int64_t side = SIDE; side <= MOST_MODELLED_SIDE; side += STEP) {
        ipu_graph       *g;
        ipu_cost        *cost;
        ipu_cost_summary summary;
        IPU_TRY(ipu_graph_create(&one, 1, &g));
        ipu_program p      = add_product(g, t->precision->type, side);
        ipu_status  status = ipu_cost_estimate(g, &p, 1, NULL, &cost);
        ipu_graph_destroy(g);
        IPU_TRY(status);
        ipu_cost_get_summary(cost, &summary);
        double rate = summary.seconds > 0 ? 2.0 * pow((double)side, 3) / summary.seconds : 0;
        ipu_cost_destroy(cost);
        if (summary.n_overfull) break;
        if (rate <= t->modelled) continue;
        t->modelled      = rate;
        t->modelled_side = side;
    }
    return IPU_OK;
}

/* Program 0 runs `products` of them on the tiles of one IPU. */
static tool_exit load(flops *t, int ipu, int64_t products, ipu_engine **out)
{
    ipu_graph *whole = selftest_graph(&t->s);
    if (!whole) return TOOL_FAILED;
    const int64_t tiles = t->s.target.tiles_per_ipu;
    ipu_graph    *g     = ipu_graph_add_virtual_range(whole, ipu * tiles, (ipu + 1) * tiles);
    ipu_program   p     = ipu_program_sequence(g);
    ipu_program_add_repeat(p, products, add_product(g, t->precision->type, SIDE));
    tool_exit code = selftest_load(&t->s, whole, &p, 1, out);
    ipu_graph_destroy(whole);
    return code;
}

static tool_exit write_matrix(const flops *t, ipu_engine *e, const char *name, const float *x)
{
    size_t bytes = encode(t, x);
    return ipu_engine_write(e, name, t->raw, bytes) == IPU_OK ? TOOL_OK : selftest_fail();
}

/* The result is first filled with something else. */
static tool_exit set_up(flops *t, ipu_engine *e)
{
    SELFTEST_TRY(write_matrix(t, e, "a", t->a));
    SELFTEST_TRY(write_matrix(t, e, "b", t->b));
    product_fill(t->c, SIDE, 2);
    return write_matrix(t, e, "c", t->c);
}

static tool_exit look(flops *t, ipu_engine *e)
{
    size_t bytes = n_elements * ipu_type_size(t->precision->type);
    if (ipu_engine_read(e, "c", t->raw, bytes) != IPU_OK) return selftest_fail();
    selftest_spoil(t->raw, bytes / sizeof(uint32_t));
    decode(t, t->c);
    int64_t wrong = product_wrong_rows(t->a, t->b, t->c, SIDE);
    if (wrong < 0) return tool_fail("out of memory");
    t->wrong += wrong;
    return TOOL_OK;
}

/* How many products make a run: from the second of two, since the first touches memory for the first time. */
static tool_exit calibrate(flops *t, int ipu, int64_t *products)
{
    ipu_engine *e     = NULL;
    double      first = 0, second = 0;
    tool_exit   code = load(t, ipu, 1, &e);
    if (code == TOOL_OK) code = set_up(t, e);
    if (code == TOOL_OK) code = selftest_run(e, 0, &first);
    if (code == TOOL_OK) code = selftest_run(e, 0, &second);
    ipu_engine_destroy(e);
    double wanted = t->seconds < run_seconds ? t->seconds : run_seconds;
    *products     = second > 0 ? (int64_t)(wanted / second) : 1;
    if (*products < 1) *products = 1;
    return code;
}

static tool_exit measure(flops *t, int ipu, int64_t products)
{
    char        what[DEVICE_TEXT];
    double      seconds = 0, warm = 0;
    int64_t     done = 0;
    ipu_engine *e    = NULL;
    tool_exit   code = load(t, ipu, products, &e);
    snprintf(what, sizeof what, "IPU %d", t->s.info->first + ipu);
    if (code == TOOL_OK) code = set_up(t, e);
    if (code == TOOL_OK) code = selftest_run(e, 0, &warm);
    while (code == TOOL_OK && seconds < t->seconds) {
        double before = seconds;
        code          = selftest_run(e, 0, &seconds);
        if (code != TOOL_OK) break;
        done += products;
        t->best = fmax(t->best, (double)products * product_flop / (seconds - before));
        selftest_show(&t->s, what, (int64_t)(1000 * seconds), (int64_t)(1000 * t->seconds));
    }
    if (code == TOOL_OK) code = look(t, e);
    ipu_engine_destroy(e);
    t->rate[ipu] = seconds > 0 ? (double)done * product_flop / seconds : 0;
    t->took += seconds;
    return code;
}

/* ---- results ---- */

static double lowest(const flops *t)
{
    double low = t->rate[0];
    for (int i = 1; i < t->s.info->n_ipus; i++) low = t->rate[i] < low ? t->rate[i] : low;
    return low;
}

static void print_text(const flops *t)
{
    if (t->s.info->n_ipus > 1)
        for (int i = 0; i < t->s.info->n_ipus; i++)
            printf("IPU %d: %g teraFLOPS\n", t->s.info->first + i, t->rate[i] * 1e-12);
    printf("Flops per IPU (%s): %g teraFLOPS (took: %g seconds)\n", t->precision->name, lowest(t) * 1e-12,
           t->took);
    printf("IPU clock speed: %.0f MHz\n", t->s.partition->clock_hz / 1e6);
    printf("Best run: %g teraFLOPS\n", t->best * 1e-12);
    if (t->modelled_side)
        printf("Modelled flops per IPU (%s): %g teraFLOPS, with matrices of %lld x %lld\n",
               t->precision->name, t->modelled * 1e-12, (long long)t->modelled_side,
               (long long)t->modelled_side);
    else
        printf("Modelled flops per IPU (%s): N/A: no product has room on its tiles\n", t->precision->name);
}

static json_t *describe(const flops *t)
{
    json_t *o = json_object(), *ipus = json_array();
    bool    ok = true;
    for (int i = 0; i < t->s.info->n_ipus; i++) {
        json_t *ipu = json_object();
        ok          = device_set_number(ipu, "ipu_id", t->s.info->first + i)
          && selftest_set(ipu, "teraflops", "%g", t->rate[i] * 1e-12) && ok;
        ok = json_array_append_new(ipus, ipu) == 0 && ok;
    }
    ok = json_object_set_new(o, "ipus", ipus) == 0 && ok;
    ok = ok && device_set_number(o, "device_id", t->s.info->id) && device_set(o, "fp", t->precision->name)
      && selftest_set(o, "teraflops", "%g", lowest(t) * 1e-12)
      && selftest_set(o, "best_teraflops", "%g", t->best * 1e-12)
      && selftest_set(o, "duration_seconds", "%g", t->took)
      && selftest_set(o, "clock_mhz", "%.0f", t->s.partition->clock_hz / 1e6)
      && device_set_number(o, "matrix_side", SIDE)
      && (t->modelled_side
              ? selftest_set(o, "modelled_teraflops", "%g", t->modelled * 1e-12)
                    && device_set_number(o, "modelled_matrix_side", t->modelled_side)
              : device_set(o, "modelled_teraflops", "N/A") && device_set(o, "modelled_matrix_side", "N/A"))
      && device_set_number(o, "errors", t->wrong) && device_set(o, "result", t->wrong ? "fail" : "pass");
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static tool_exit test(flops *t, bool json)
{
    int64_t products;
    t->a   = malloc(n_elements * sizeof *t->a);
    t->b   = malloc(n_elements * sizeof *t->b);
    t->c   = malloc(n_elements * sizeof *t->c);
    t->raw = malloc(n_elements * sizeof(float));
    if (!t->a || !t->b || !t->c || !t->raw) return tool_fail("out of memory");
    product_fill(t->a, SIDE, 0);
    product_fill(t->b, SIDE, 1);
    if (!json) {
        printf("Measures each IPU for %g seconds; other work on this host makes it less\n", t->seconds);
        puts("Loading binary into IPU(s)");
    }
    if (model(t) != IPU_OK) return selftest_fail();
    SELFTEST_TRY(calibrate(t, 0, &products));
    if (!json) {
        printf("Starting %s FLOPS calculation...\n", t->precision->name);
        fflush(stdout);
    }
    for (int i = 0; i < t->s.info->n_ipus; i++) SELFTEST_TRY(measure(t, i, products));
    json_t *out = json ? describe(t) : NULL;
    if (json && !out) return tool_fail("out of memory");
    if (!json) print_text(t);
    tool_exit code = TOOL_OK;
    if (t->wrong) code = tool_fail("wrong rows of products: %lld", (long long)t->wrong);
    return selftest_finish(&t->s, code, out);
}

/* ---- options ---- */

static tool_exit choose(const char *text, const precision **out)
{
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        if (!strcasecmp(text, precisions[i].name)) {
            *out = &precisions[i];
            return TOOL_OK;
        }
    if (!strcasecmp(text, "FP8"))
        return tool_fail(
            "FP8 is not supported: the engine has no 8-bit floats; FP16 and FP32 can be measured");
    return tool_usage("flops", "option --fp: \"%s\" is not FP16 or FP32", text);
}

tool_exit run_flops(const tool_arguments *args)
{
    static flops t; /* too large for the stack */
    const char  *fp = args->values[FLOPS_FP], *seconds = args->values[FLOPS_SECONDS];
    t = (flops){.seconds = 2};
    if (args->values[FLOPS_VERSION]) {
        printf("gc-flops %s\n", ipu_version());
        return TOOL_OK;
    }
    if (seconds && !tool_number("seconds", seconds, 0.01, 86400, &t.seconds)) return TOOL_USAGE;
    tool_exit code = choose(fp ? fp : "FP16", &t.precision);
    if (code != TOOL_OK) return code;
    if (args->values[FLOPS_LOW_CLOCK])
        fputs("gc-flops: note: a virtual IPU has no clock to lower: --low-clock-rate changes nothing\n",
              stderr);
    code = selftest_begin(&t.s, args->values[FLOPS_DEVICE]);
    if (code == TOOL_OK) code = test(&t, args->values[FLOPS_JSON]);
    free(t.a);
    free(t.b);
    free(t.c);
    free(t.raw);
    return selftest_end(&t.s, code);
}

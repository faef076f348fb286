/* Gradients of the public ONNX suite: every model whose ops are differentiable, against differences.
 *
 *     onnx_gradients_conformance [--list] FOLDER [NAME...]
 *
 * A model is imported in double. The loss is the sum of its outputs, each element times a random number; its
 * gradient along random directions of the inputs is compared with (loss(x + h d) - loss(x - h d)) / 2h. Inputs are the
 * suite's, moved a little, so that none sits on a kink. Last line: "N agreed, N without gradient, N wrong".
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

enum { MOST_INPUTS = SUITE_PORTS, DIRECTIONS = 2, TRIES = 4 };
#define STEP 1e-6
#define TOLERANCE 1e-4

static uint64_t random_state = 1;

/* -1 to 1 */
static double draw(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)random_state * 0x1p-63;
}

/* A model with its loss and slope, and what goes in. */
typedef struct probe {
    ipu_model  *m;
    ipu_value   x[MOST_INPUTS], d[MOST_INPUTS]; /* inputs of double, and their directions */
    double     *at[MOST_INPUTS], *along[MOST_INPUTS], *moved[MOST_INPUTS];
    int         n;
    ipu_engine *engine;
} probe;

/* ---- the inputs ---- */

static void widen(ipu_onnx_value *v)
{
    for (size_t i = 0; i < v->n_items; i++) widen(&v->items[i]);
    if (v->kind != IPU_ONNX_ARRAY || v->array.type != IPU_FLOAT) return;
    ipu_array wide;
    if (ipu_array_create(IPU_DOUBLE, v->array.shape, &wide) != IPU_OK) return;
    for (int64_t i = 0; i < ipu_array_n_elements(&v->array); i++)
        ((double *)wide.data)[i] = ipu_array_value(&v->array, i);
    ipu_array_free(&v->array);
    v->array = wide;
}

static bool alloc_input(probe *p, int i, size_t n)
{
    p->at[i]    = calloc(n + 1, sizeof(double));
    p->along[i] = calloc(n + 1, sizeof(double));
    p->moved[i] = calloc(n + 1, sizeof(double));
    return p->at[i] && p->along[i] && p->moved[i];
}

/* Inputs of the model that are double, with the values its session just ran with. */
static bool list_inputs(probe *p, ipu_engine *ran)
{
    for (size_t i = 0; i < ipu_model_n_inputs(p->m); i++) {
        ipu_value x = ipu_model_input_at(p->m, i);
        if (ipu_value_type(x) != IPU_DOUBLE || ipu_value_n_elements(x) == 0 || p->n == MOST_INPUTS) continue;
        size_t n = (size_t)ipu_value_n_elements(x);
        if (!alloc_input(p, p->n, n)) return false;
        if (ipu_engine_read(ran, ipu_value_name(x), p->at[p->n], n * sizeof(double)) != IPU_OK) return false;
        p->x[p->n++] = x;
    }
    return true;
}

/* ---- the model ---- */

/* Null if no output depends on numbers. */
static ipu_value add_loss(ipu_model *m)
{
    ipu_builder *b    = ipu_model_builder(m);
    ipu_value    loss = IPU_NO_VALUE;
    for (size_t i = 0; i < ipu_model_n_outputs(m); i++) {
        const char *name;
        ipu_value   y = ipu_model_output_at(m, i, &name);
        size_t      n = (size_t)ipu_value_n_elements(y);
        if (ipu_value_type(y) != IPU_DOUBLE || n == 0) continue;
        double *weights = malloc(n * sizeof *weights);
        if (!weights) return IPU_NO_VALUE;
        for (size_t k = 0; k < n; k++) weights[k] = draw();
        ipu_value w    = ipu_constant_data(b, IPU_DOUBLE, ipu_value_shape(y), weights);
        ipu_value part = ipu_reduce_sum(b, ipu_mul(b, y, w), NULL, 0, false);
        loss           = loss.id ? ipu_add(b, loss, part) : part;
        free(weights);
    }
    return loss;
}

static bool add_slope(probe *p, test *t)
{
    ipu_builder *b    = ipu_model_builder(p->m);
    ipu_value    loss = add_loss(p->m), gradient[MOST_INPUTS], slope = IPU_NO_VALUE;
    if (loss.id == 0 || p->n == 0) {
        judge(t, REFUSED, "nothing in it depends on floating inputs");
        return false;
    }
    ipu_model_gradients(p->m, loss, p->x, (size_t)p->n, &(ipu_gradient_options){.allow_unused = true},
                        gradient);
    if (ipu_builder_status(b) != IPU_OK) {
        judge(t, REFUSED, "%s", ipu_builder_message(b));
        return false;
    }
    for (int i = 0; i < p->n; i++) {
        char name[32];
        snprintf(name, sizeof name, "direction %d", i);
        p->d[i] = ipu_model_input(p->m, IPU_DOUBLE, ipu_value_shape(p->x[i]), name);
        if (gradient[i].id == 0) continue;
        ipu_value part = ipu_reduce_sum(b, ipu_mul(b, gradient[i], p->d[i]), NULL, 0, false);
        slope          = slope.id ? ipu_add(b, slope, part) : part;
    }
    if (slope.id == 0) {
        judge(t, REFUSED, "no output depends differentiably on an input");
        return false;
    }
    ipu_model_output(p->m, loss, "the loss");
    ipu_model_output(p->m, slope, "the slope");
    return true;
}

/* ---- running ---- */

static ipu_status evaluate(probe *p, double h, double *loss, double *slope)
{
    for (int i = 0; i < p->n; i++) {
        size_t n = (size_t)ipu_value_n_elements(p->x[i]);
        for (size_t k = 0; k < n; k++) p->moved[i][k] = p->at[i][k] + h * p->along[i][k];
        IPU_TRY(ipu_engine_write(p->engine, ipu_value_name(p->x[i]), p->moved[i], n * sizeof(double)));
        ipu_status status = ipu_engine_write(p->engine, ipu_value_name(p->d[i]), p->along[i],
                                             n * sizeof(double));
        if (status != IPU_OK && status != IPU_NOT_FOUND) return status;
    }
    IPU_TRY(ipu_engine_run(p->engine, 0));
    IPU_TRY(ipu_engine_read(p->engine, "the loss", loss, sizeof *loss));
    return ipu_engine_read(p->engine, "the slope", slope, sizeof *slope);
}

static void try_directions(probe *p, test *t)
{
    double slope, above, below, unused;
    for (int i = 0; i < p->n; i++)
        for (int64_t k = 0; k < ipu_value_n_elements(p->x[i]); k++) {
            p->at[i][k] += 1e-3 * draw();
            p->along[i][k] = draw();
        }
    ipu_status status = evaluate(p, 0, &unused, &slope);
    if (status == IPU_OK) status = evaluate(p, STEP, &above, &unused);
    if (status == IPU_OK) status = evaluate(p, -STEP, &below, &unused);
    if (status != IPU_OK) {
        judge(t, WRONG, "%s", ipu_message());
        return;
    }
    double difference = (above - below) / (2 * STEP), most = fmax(1, fmax(fabs(slope), fabs(difference)));
    double noise = 1e-9 * fmax(fabs(above), fabs(below));
    if (!isfinite(difference))
        judge(t, REFUSED, "its outputs are not finite near the suite's inputs");
    else if (!(fabs(slope - difference) <= TOLERANCE * most + noise))
        judge(t, WRONG, "gradient along a direction is %.9g, difference %.9g", slope, difference);
    else
        t->outcome = PASSED;
}

/* A kink may be hit by chance: some tries, from places a little apart. */
static void compare(probe *p, test *t)
{
    for (int direction = 0; direction < DIRECTIONS; direction++)
        for (int i = 0; i < TRIES; i++) {
            try_directions(p, t);
            if (t->outcome == PASSED) break;
            if (i == TRIES - 1) return;
        }
    t->reason[0] = 0;
}

static void run_test(const char *folder, test *t)
{
    char              path[SUITE_PATH];
    ipu_onnx         *file = NULL;
    ipu_onnx_session *s    = NULL;
    data_set         *d    = NULL;
    probe             p    = {0};
    ipu_target        target;
    ipu_executable   *exe = NULL;
    random_state          = 1;
    snprintf(path, sizeof path, "%s/%s/%s/model.onnx", folder, t->kind, t->name);
    if (ipu_onnx_open(path, &file) == IPU_OK
        && ipu_onnx_session_create(file, &(ipu_onnx_options){.wide = true}, &s) == IPU_OK) {
        snprintf(path, sizeof path, "%s/%s/%s/test_data_set_0", folder, t->kind, t->name);
        d = data_set_load(file, path, t);
    } else
        judge(t, REFUSED, "%s", ipu_message());
    for (size_t i = 0; d && i < d->n_in; i++) widen(&d->in[i]);
    if (d && ipu_onnx_session_run(s, d->in, d->n_in, d->found, d->n_out) == IPU_OK) {
        p.m = ipu_onnx_session_model(s);
        if (list_inputs(&p, ipu_onnx_session_engine(s)) && add_slope(&p, t)) {
            if (ipu_target_find("gc200", 1, &target) != IPU_OK
                || ipu_model_compile(p.m, &target, NULL, &exe) != IPU_OK
                || ipu_engine_create(exe, NULL, &p.engine) != IPU_OK)
                judge(t, WRONG, "%s", ipu_message());
            else
                compare(&p, t);
        }
    } else if (d)
        judge(t, REFUSED, "%s", ipu_message());
    ipu_engine_destroy(p.engine);
    ipu_executable_release(exe);
    for (int i = 0; i < MOST_INPUTS; i++) {
        free(p.at[i]);
        free(p.along[i]);
        free(p.moved[i]);
    }
    data_set_free(d);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(file);
}

int main(int argc, char **argv)
{
    bool list = argc > 1 && strcmp(argv[1], "--list") == 0;
    int  at   = list ? 2 : 1;
    if (at >= argc) {
        fprintf(stderr, "usage: onnx_gradients_conformance [--list] FOLDER [NAME...]\n");
        return 2;
    }
    test  *tests    = calloc(SUITE_TESTS, sizeof *tests);
    size_t n        = tests ? suite_find(argv[at], argv + at + 1, argc - at - 1, tests) : 0;
    size_t count[3] = {0};
    double began    = suite_now();
    for (size_t i = 0; i < n; i++) {
        run_test(argv[at], &tests[i]);
        count[tests[i].outcome]++;
        if (tests[i].outcome == WRONG || list)
            printf("%s %s/%s%s%s\n", (const char *[]){"agreed", "without", "wrong"}[tests[i].outcome],
                   tests[i].kind, tests[i].name, tests[i].reason[0] ? ": " : "", tests[i].reason);
    }
    printf("%.1f s\n", suite_now() - began);
    printf("%zu agreed, %zu without gradient, %zu wrong\n", count[PASSED], count[REFUSED], count[WRONG]);
    free(tests);
    return n == 0 || count[WRONG] > 0;
}

/* ctc_decode against enumeration of all spellings, with beams that hold everything and beams that do not. */
#include "op/call_test.h"

#include "ipu/ipu.h"

enum { STEPS = 5, CLASSES = 3, N = 4, MOST = 243, TOP = 6 };

static const double lengths[N] = {5, 3, 0, 1};

static void fill(double x[STEPS * N * CLASSES])
{
    for (int i = 0; i < STEPS * N; i++) {
        double p[CLASSES], sum = 0;
        for (int k = 0; k < CLASSES; k++) sum += p[k] = 1 + (i * 7 + k * 5) % 11 + 0.01 * (i * i % 7);
        for (int k = 0; k < CLASSES; k++) x[i * CLASSES + k] = log(p[k] / sum);
    }
}

/* ---- all of them ---- */

typedef struct spelled {
    int    n, label[STEPS];
    double p;
} spelled;

static spelled spell(const double *x, int n_steps, int blank, int way)
{
    spelled s = {.p = 1};
    for (int t = 0, before = -1; t < n_steps; t++, way /= CLASSES) {
        int now = way % CLASSES;
        if (now != blank && now != before) s.label[s.n++] = now;
        s.p *= exp(x[t * N * CLASSES + now]);
        before = now;
    }
    return s;
}

static int by_probability(const void *a, const void *b)
{
    double p = ((const spelled *)a)->p, q = ((const spelled *)b)->p;
    return (p < q) - (p > q);
}

/* What sequence `i` may spell, the most likely first. */
static int list(const double *x, int i, int blank, spelled out[MOST])
{
    int n_ways = 1, n = 0;
    for (int t = 0; t < (int)lengths[i]; t++) n_ways *= CLASSES;
    for (int way = 0; way < n_ways; way++) {
        spelled s = spell(x + i * CLASSES, (int)lengths[i], blank, way);
        int     k = 0;
        while (k < n && (out[k].n != s.n || memcmp(out[k].label, s.label, sizeof s.label) != 0)) k++;
        if (k == n)
            out[n++] = s;
        else
            out[k].p += s.p;
    }
    qsort(out, (size_t)n, sizeof *out, by_probability);
    return n;
}

/* ---- the op ---- */

static call_made decode(const double *x, int64_t blank, int64_t width, int64_t top,
                        ipu_attribute attributes[3])
{
    const call_input in[] = {{IPU_FLOAT, {3, {STEPS, N, CLASSES}}, x}, {IPU_INT32, {1, {N}}, lengths}};
    attributes[0]         = IPU_INT_ATTRIBUTE("blank", blank);
    attributes[1]         = IPU_INT_ATTRIBUTE("beam_width", width);
    attributes[2]         = IPU_INT_ATTRIBUTE("top_paths", top);
    call_made made        = call_make("ctc_decode", attributes, 3, in, 2, IPU_DOUBLE);
    call_check(&made, 1);
    return made;
}

static void check_path(const call_made *made, int i, int k, const spelled *expected, int blank)
{
    const int32_t *path = (const int32_t *)made->data[4] + (i * TOP + k) * STEPS;
    double p = expected ? log(expected->p) : -HUGE_VAL, score = ((const double *)made->data[2])[i * TOP + k];
    int    n = expected ? expected->n : 0;
    if (!(score == p || fabs(score - p) < 1e-9))
        fail_msg("sequence %d, path %d: %.17g, not %.17g", i, k, score, p);
    assert_int_equal(((const int32_t *)made->data[3])[i * TOP + k], n);
    for (int t = 0; t < STEPS; t++) assert_int_equal(path[t], t < n ? expected->label[t] : blank);
}

static void a_wide_beam_finds_what_is_most_likely(void **unused)
{
    (void)unused;
    static spelled all[MOST];
    double         x[STEPS * N * CLASSES];
    fill(x);
    for (int blank = 0; blank < CLASSES; blank++) {
        ipu_attribute attributes[3];
        call_made     made = decode(x, blank, MOST, TOP, attributes);
        for (int i = 0; i < N; i++) {
            int n = list(x, i, blank, all);
            for (int k = 0; k < TOP; k++) check_path(&made, i, k, k < n ? &all[k] : NULL, blank);
        }
        call_free(&made);
    }
}

/* A path cannot be more likely than it is, and the best of a beam of six is found here. */
static void a_narrow_beam_leaves_ways_out(void **unused)
{
    (void)unused;
    static spelled all[MOST];
    double         x[STEPS * N * CLASSES];
    ipu_attribute  attributes[3];
    fill(x);
    call_made made = decode(x, 0, TOP, TOP, attributes);
    for (int i = 0; i < N; i++) {
        int            n     = list(x, i, 0, all);
        const int32_t *path  = (const int32_t *)made.data[4] + i * TOP * STEPS;
        double         score = ((const double *)made.data[2])[i * TOP];
        assert_true(score <= log(all[0].p) + 1e-12 && score > log(all[0].p) - 0.1);
        for (int t = 0; t < STEPS; t++) assert_int_equal(path[t], t < all[0].n ? all[0].label[t] : 0);
        for (int k = 1; k < TOP && k < n; k++)
            assert_true(((const double *)made.data[2])[i * TOP + k]
                        <= ((const double *)made.data[2])[i * TOP + k - 1]);
    }
    call_free(&made);
}

/* The beam of one is greedy in prefixes: a, then a again only after a blank. */
static void repetitions_need_a_blank_between(void **unused)
{
    (void)unused;
    const double     sure = 0, never = -HUGE_VAL;
    const double     x[]  = {never, sure, /**/ never, sure, /**/ sure, never, /**/ never, sure};
    const call_input in[] = {{IPU_FLOAT, {3, {4, 1, 2}}, x}, {IPU_INT32, {1, {1}}, (double[]){4}}};
    call_made        made = call_make("ctc_decode", NULL, 0, in, 2, IPU_FLOAT);
    call_check(&made, 1);
    assert_true(*(const float *)made.data[2] == 0);
    assert_int_equal(*(const int32_t *)made.data[3], 2);
    assert_memory_equal(made.data[4], ((int32_t[]){1, 1, 0, 0}), 4 * sizeof(int32_t));
    call_free(&made);
}

static void refused(ipu_ctc_decode_options options, ipu_shape n, const char *says)
{
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_ctc_decode(ipu_model_builder(m), ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(5, 2, 3), "x"),
                   ipu_model_input(m, IPU_INT32, n, "n"), options);
    if (!strstr(ipu_builder_message(ipu_model_builder(m)), says))
        fail_msg("\"%s\" is not in \"%s\"", says, ipu_builder_message(ipu_model_builder(m)));
    ipu_model_destroy(m);
}

static void mistakes_are_told(void **unused)
{
    (void)unused;
    refused((ipu_ctc_decode_options){.blank = 3}, IPU_SHAPE(2), "expected a class, 0 to 2");
    refused((ipu_ctc_decode_options){.beam_width = 2, .top_paths = 3}, IPU_SHAPE(2),
            "a beam that holds them");
    refused((ipu_ctc_decode_options){.beam_width = 1 << 30}, IPU_SHAPE(2), "too many prefixes");
    refused((ipu_ctc_decode_options){0}, IPU_SHAPE(3), "\"lengths\" must have shape [2]");
    double        x[STEPS * N * CLASSES];
    ipu_attribute attributes[3];
    fill(x);
    call_made made               = decode(x, 0, 4, 1, attributes);
    ((int32_t *)made.data[1])[2] = STEPS + 1;
    assert_int_equal(made.call.def->examine(&made.call, made.data), IPU_ABORTED);
    assert_non_null(strstr(ipu_message(), "length 2 is 6: expected 0 to 5"));
    call_free(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wide_beam_finds_what_is_most_likely),
        cmocka_unit_test(a_narrow_beam_leaves_ways_out),
        cmocka_unit_test(repetitions_need_a_blank_between),
        cmocka_unit_test(mistakes_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

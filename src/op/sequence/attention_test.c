/* Attention: hand-made cases, multiple heads compared with torch, masks that hide everything, errors. */
#include "op/call_test.h"

#include "op/run_bench.h"

enum { MAX = 64 };

static void equal_scores_give_the_mean_of_values(void **unused)
{
    (void)unused;
    call_expect("attention", NULL, 0,
                CALL_IN({IPU_FLOAT, {2, {1, 2}}, CALL_VALUES(0, 0)},
                        {IPU_FLOAT, {2, {2, 2}}, CALL_VALUES(1, 2, 3, 4)},
                        {IPU_FLOAT, {2, {2, 1}}, CALL_VALUES(3, 5)}),
                0, CALL_VALUES(4));
    call_expect("attention", NULL, 0,
                CALL_IN({IPU_FLOAT, {2, {1, 2}}, CALL_VALUES(0, 0)},
                        {IPU_FLOAT, {2, {2, 2}}, CALL_VALUES(1, 2, 3, 4)},
                        {IPU_FLOAT, {2, {2, 1}}, CALL_VALUES(3, 5)}),
                1, CALL_VALUES(0.69314718055994529)); /* log 2 */
}

static void a_key_may_be_hidden(void **unused)
{
    (void)unused;
    ipu_attribute    causal = IPU_INT_ATTRIBUTE("causal", 1);
    const call_input q      = {IPU_FLOAT, {2, {2, 1}}, CALL_VALUES(1, 1)},
                     k      = {IPU_FLOAT, {2, {2, 1}}, CALL_VALUES(1, 1)},
                     v      = {IPU_FLOAT, {2, {2, 1}}, CALL_VALUES(3, 5)};
    call_expect("attention", NULL, 0,
                CALL_IN(q, k, v, {IPU_FLOAT, {2, {2, 2}}, CALL_VALUES(0, -INFINITY, -INFINITY, 0)}), 0,
                CALL_VALUES(3, 5));
    call_expect("attention", NULL, 0, CALL_IN(q, k, v, {IPU_FLOAT, {2, {1, 2}}, CALL_VALUES(-INFINITY, 0)}),
                0, CALL_VALUES(5, 5));
    call_expect("attention", &causal, 1, CALL_IN(q, k, v), 0, CALL_VALUES(3, 4));
    call_expect("attention", NULL, 0, CALL_IN(q, k, v, {IPU_FLOAT, {2, {2, 1}}, CALL_VALUES(-INFINITY, 0)}),
                0, CALL_VALUES(NAN, 4)); /* as torch: a row that sees nothing has no answer */
}

static void large_scores_do_not_overflow(void **unused)
{
    (void)unused;
    call_expect("attention", NULL, 0,
                CALL_IN({IPU_FLOAT, {2, {1, 1}}, CALL_VALUES(1000)},
                        {IPU_FLOAT, {2, {2, 1}}, CALL_VALUES(1000, 999)},
                        {IPU_FLOAT, {2, {2, 1}}, CALL_VALUES(3, 5)}),
                0, CALL_VALUES(3));
}

/* More parts than groups, more rows than a block, rows and columns left over. */
static void implementations_do_what_ref_says(void **unused)
{
    (void)unused;
    static const int64_t  sizes[][5] = {{1, 1, 1, 1, 1},    {2, 64, 3, 5, 7}, {3, 65, 40, 16, 33},
                                        {1, 130, 70, 3, 2}, {0, 2, 2, 2, 2},  {2, 3, 4, 0, 2},
                                        {2, 3, 4, 2, 0}};
    static const ipu_type types[]    = {IPU_FLOAT, IPU_HALF, IPU_BFLOAT16};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int t = 0; t < 3; t++)
            for (int causal = 0; causal < 2; causal++) {
                const int64_t *s         = sizes[i];
                ipu_attribute  attribute = IPU_INT_ATTRIBUTE("causal", causal);
                call_made      made      = call_make("attention", &attribute, 1,
                                                     CALL_IN({IPU_FLOAT, {3, {s[0], s[1], s[3]}}, NULL},
                                                             {IPU_FLOAT, {3, {s[0], s[2], s[3]}}, NULL},
                                                             {IPU_FLOAT, {3, {s[0], s[2], s[4]}}, NULL},
                                                             {IPU_FLOAT, {3, {1, s[1], 1}}, NULL}),
                                                     types[t]);
                call_check_parts(&made, 4, false);
                call_free(&made);
            }
}

/* ---- several heads ---- */

/* The numbers torch was given: eighths between -5/8 and 5/8. */
static ipu_value numbers(bench *t, int seed, ipu_shape shape)
{
    float values[MAX];
    for (int k = 0; k < MAX; k++) values[k] = (float)((k * 7 + seed * 3) % 11 - 5) / 8;
    return bench_floats(t, shape, values);
}

static void expect_near(bench *t, ipu_value y, const double *expected)
{
    float found[24];
    int   result = bench_result(t, y);
    bench_ok(bench_run(t, "2"));
    bench_read(t, result, found, sizeof found);
    for (int i = 0; i < 24; i++)
        if (!(fabs((double)found[i] - expected[i]) <= 2e-6))
            fail_msg("element %d is %.9g, torch has %.9g", i, (double)found[i], expected[i]);
}

static ipu_attention_weights make_weights(bench *t)
{
    return (ipu_attention_weights){numbers(t, 1, IPU_SHAPE(12, 4)), numbers(t, 2, IPU_SHAPE(12)),
                                   numbers(t, 3, IPU_SHAPE(4, 4)), numbers(t, 4, IPU_SHAPE(4))};
}

static void several_heads_are_those_of_torch(void **unused)
{
    (void)unused;
    static const double cross[] = {-0.91765117,  0.806767045,  -0.46843261,  -0.119014395, -0.406614504,
                                   0.710129186,  0.0330728669, -0.225183443, -1.00234399,  0.96291847,
                                   -0.555375249, 0.0348872165, -0.426398887, 0.706794654,  0.0113549136,
                                   -0.230451546, -0.998557661, 0.960408442,  -0.551766885, 0.0321992179,
                                   -0.426365489, 0.706653474,  0.0113721853, -0.230608851};
    static const double self[]  = {-0.44921875,   0.703125,     -0.013671875, -0.236328125, -0.592623425,
                                   0.674043144,   -0.14710799,  -0.255441421, -0.51040297,  0.689659811,
                                   -0.0692878565, -0.244225076, -0.455078125, 0.01953125,   0.0859375,
                                   -0.814453125,  -0.413024738, 0.405195958,  0.072191535,  -0.484587768,
                                   -0.387696255,  0.333608583,  0.112532315,  -0.541162846};
    bench               t       = bench_start();
    ipu_value           y       = ipu_multi_head_attention(t.b, numbers(&t, 5, IPU_SHAPE(3, 2, 4)),
                                                           numbers(&t, 6, IPU_SHAPE(2, 2, 4)),
                                                           numbers(&t, 7, IPU_SHAPE(2, 2, 4)), make_weights(&t),
                                                           numbers(&t, 8, IPU_SHAPE(3, 2)),
                                                           (ipu_multi_head_options){.n_heads = 2});
    expect_near(&t, y, cross);
    bench_end(&t);
    t           = bench_start();
    ipu_value x = numbers(&t, 9, IPU_SHAPE(2, 3, 4));
    y           = ipu_multi_head_attention(t.b, x, x, x, make_weights(&t), IPU_NO_VALUE,
                                           (ipu_multi_head_options){.n_heads = 2, .batch_first = true, .causal = true});
    expect_near(&t, y, self);
    bench_end(&t);
}

/* With all values 1 a row is what is left of its probabilities, over what is left on average. */
static void dropout_takes_probabilities_away(void **unused)
{
    (void)unused;
    enum { ROWS = 64, KEYS = 32 };
    bench t = bench_start();
    float ones[KEYS], found[ROWS];
    for (int i = 0; i < KEYS; i++) ones[i] = 1;
    ipu_value q      = ipu_constant_value(t.b, IPU_FLOAT, IPU_SHAPE(ROWS, 2), 0.5);
    ipu_value k      = ipu_constant_value(t.b, IPU_FLOAT, IPU_SHAPE(KEYS, 2), 0.5);
    ipu_value seed   = bench_input(&t, IPU_UINT32, IPU_SHAPE(2), (uint32_t[]){7, 1});
    ipu_value y      = ipu_attention(t.b, q, k, bench_floats(&t, IPU_SHAPE(KEYS, 1), ones), IPU_NO_VALUE,
                                     (ipu_attention_options){.dropout = 0.5, .seed = seed});
    int       result = bench_result(&t, y);
    double    sum    = 0;
    bool      differ = false;
    bench_ok(bench_run(&t, "2"));
    bench_read(&t, result, found, sizeof found);
    for (int i = 0; i < ROWS; i++) {
        double kept = (double)found[i] * KEYS / 2;
        assert_true(fabs(kept - round(kept)) < 1e-4);
        differ |= found[i] != found[0];
        sum += (double)found[i];
    }
    assert_true(differ && fabs(sum / ROWS - 1) < 0.1);
    ipu_attention(t.b, q, k, q, IPU_NO_VALUE, (ipu_attention_options){.dropout = 0.5});
    bench_refused(&t, "dropout = 0.5 needs a seed");
    bench_end(&t);
}

static void errors_say_what_was_expected(void **unused)
{
    (void)unused;
    bench                 t    = bench_start();
    ipu_attention_options how  = {0};
    ipu_value             none = IPU_NO_VALUE, q = numbers(&t, 1, IPU_SHAPE(2, 3, 4));
    ipu_attention(t.b, q, numbers(&t, 1, IPU_SHAPE(2, 5, 3)), q, none, how);
    bench_refused(&t, "attention: \"k\" must have shape [2,5,4], found float[2,5,3]");
    q = numbers(&t, 1, IPU_SHAPE(2, 3, 4));
    ipu_attention(t.b, q, q, numbers(&t, 1, IPU_SHAPE(2, 4, 4)), none, how);
    bench_refused(&t, "\"v\" must have shape [2,3,4]");
    q = numbers(&t, 1, IPU_SHAPE(2, 3, 4));
    ipu_attention(t.b, q, q, q, numbers(&t, 1, IPU_SHAPE(2, 3)), how);
    bench_refused(&t, "\"mask\" must broadcast to [2,3,3]");
    ipu_attention(t.b, numbers(&t, 1, IPU_SHAPE(4)), numbers(&t, 1, IPU_SHAPE(4)),
                  numbers(&t, 1, IPU_SHAPE(4)), none, how);
    bench_refused(&t, "\"q\" must have rank 2 to 8");
    ipu_value empty = numbers(&t, 1, IPU_SHAPE(0, 4));
    ipu_attention(t.b, numbers(&t, 1, IPU_SHAPE(3, 4)), empty, empty, none, how);
    bench_refused(&t, "nothing to attend to");
    ipu_value x = numbers(&t, 9, IPU_SHAPE(2, 3, 4));
    ipu_multi_head_attention(t.b, x, x, x, make_weights(&t), none, (ipu_multi_head_options){.n_heads = 3});
    bench_refused(&t, "3 heads: expected a divisor of 4");
    x                       = numbers(&t, 9, IPU_SHAPE(2, 3, 4));
    ipu_attention_weights w = make_weights(&t);
    w.in_weight             = w.out_weight;
    ipu_multi_head_attention(t.b, x, x, x, w, none, (ipu_multi_head_options){.n_heads = 2});
    bench_refused(&t, "in_weight must be [12,4]");
    bench_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_scores_give_the_mean_of_values),
        cmocka_unit_test(a_key_may_be_hidden),
        cmocka_unit_test(large_scores_do_not_overflow),
        cmocka_unit_test(implementations_do_what_ref_says),
        cmocka_unit_test(several_heads_are_those_of_torch),
        cmocka_unit_test(dropout_takes_probabilities_away),
        cmocka_unit_test(errors_say_what_was_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

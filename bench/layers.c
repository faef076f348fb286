/* Layers over sequences and optimizers, run by an engine with 1 and 2 threads.
 *
 * The lstm is workload d of the performance notes: 28 steps, 28 to 128 features, batch 64, a linear layer at
 * the end; attention is that of BERT-mini. The rate of products is to be held against the CPU's peak
 * (bench/ops prints it), that of optimizers against its memory (bench/graph). Under load, only ratios between
 * rows say anything.
 */
#include "bench.h"

enum { ROUNDS = 60 };

typedef struct row {
    const char *name;
    double      flops, bytes;
    ipu_value (*build)(ipu_model *m); /* the output */
} row;

/* ---- what is run ---- */

enum { STEPS = 28, BATCH = 64, FEATURES = 28, HIDDEN = 128, CLASSES = 10 };

static ipu_value parameter(ipu_model *m, ipu_shape shape, const char *name)
{
    return ipu_model_parameter(m, IPU_FLOAT, shape, NULL, name);
}

static ipu_value lstm_net(ipu_model *m, ipu_value parameters[6], bool trains)
{
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(BATCH, STEPS, FEATURES), "x");
    parameters[0]  = parameter(m, IPU_SHAPE(4 * HIDDEN, FEATURES), "w_ih");
    parameters[1]  = parameter(m, IPU_SHAPE(4 * HIDDEN, HIDDEN), "w_hh");
    parameters[2]  = parameter(m, IPU_SHAPE(4 * HIDDEN), "b_ih");
    parameters[3]  = parameter(m, IPU_SHAPE(4 * HIDDEN), "b_hh");
    parameters[4]  = parameter(m, IPU_SHAPE(CLASSES, HIDDEN), "w");
    parameters[5]  = parameter(m, IPU_SHAPE(CLASSES), "b");
    ipu_value y    = ipu_lstm(b, x, parameters, 4, IPU_NO_VALUE, IPU_NO_VALUE,
                              (ipu_recurrent_options){.batch_first = true, .no_gradients = !trains}, NULL, NULL);
    return ipu_linear(b, ipu_index(b, y, -1, 1), parameters[4], parameters[5]);
}

static ipu_value lstm_infer(ipu_model *m)
{
    ipu_value parameters[6];
    return ipu_log_softmax(ipu_model_builder(m), lstm_net(m, parameters, false), 1);
}

static ipu_value lstm_train(ipu_model *m)
{
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    p[6], d[6], y = lstm_net(m, p, true);
    ipu_value    loss = ipu_cross_entropy(b, y, ipu_model_input(m, IPU_INT32, IPU_SHAPE(BATCH), "labels"));
    ipu_value    rate = ipu_constant_value(b, IPU_FLOAT, IPU_SCALAR, 0.01);
    ipu_model_gradients(m, loss, p, 6, NULL, d);
    for (int i = 0; i < 6; i++) {
        char name[16];
        snprintf(name, sizeof name, "momentum %d", i);
        ipu_value     old  = ipu_model_state(m, IPU_FLOAT, ipu_value_shape(p[i]), NULL, name);
        ipu_optimized next = ipu_sgd_step(b, p[i], d[i], rate, IPU_NO_VALUE, old,
                                          (ipu_sgd_options){.momentum = 0.9});
        ipu_model_update(m, p[i], next.parameter);
        ipu_model_update(m, old, next.state[0]);
    }
    return loss;
}

static ipu_value attention_net(ipu_model *m, ipu_value in[3])
{
    static const char *const names[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++) in[i] = parameter(m, IPU_SHAPE(8, 4, 128, 64), names[i]);
    return ipu_attention(ipu_model_builder(m), in[0], in[1], in[2], IPU_NO_VALUE, (ipu_attention_options){0});
}

static ipu_value attention_forward(ipu_model *m)
{
    ipu_value in[3];
    return attention_net(m, in);
}

static ipu_value attention_both(ipu_model *m)
{
    ipu_value in[3], d[3], y = attention_net(m, in);
    ipu_value d_y = ipu_model_input(m, IPU_FLOAT, ipu_value_shape(y), "d_y");
    ipu_model_gradients(m, y, in, 3, &(ipu_gradient_options){.d_y = d_y}, d);
    for (int i = 0; i < 3; i++) ipu_model_update(m, in[i], d[i]);
    return y;
}

enum { PARAMETERS = 4 << 20 };

static ipu_value sgd(ipu_model *m)
{
    ipu_builder  *b = ipu_model_builder(m);
    ipu_value     p = parameter(m, IPU_SHAPE(PARAMETERS), "p"), v = parameter(m, IPU_SHAPE(PARAMETERS), "v");
    ipu_value     rate = ipu_model_input(m, IPU_FLOAT, IPU_SCALAR, "rate");
    ipu_value     g    = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(PARAMETERS), "g");
    ipu_optimized next = ipu_sgd_step(b, p, g, rate, IPU_NO_VALUE, v, (ipu_sgd_options){.momentum = 0.9});
    ipu_model_update(m, p, next.parameter);
    ipu_model_update(m, v, next.state[0]);
    return rate;
}

static ipu_value adam(ipu_model *m)
{
    ipu_builder *b       = ipu_model_builder(m);
    ipu_value    p       = parameter(m, IPU_SHAPE(PARAMETERS), "p"),
              mean       = parameter(m, IPU_SHAPE(PARAMETERS), "mean");
    ipu_value     square = parameter(m, IPU_SHAPE(PARAMETERS), "square");
    ipu_value     rate   = ipu_model_input(m, IPU_FLOAT, IPU_SCALAR, "rate");
    ipu_value     g      = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(PARAMETERS), "g");
    ipu_optimized next   = ipu_adam_step(b, p, g, rate, rate, mean, square, IPU_NO_VALUE,
                                         (ipu_adam_options){0});
    ipu_model_update(m, p, next.parameter);
    ipu_model_update(m, mean, next.state[0]);
    ipu_model_update(m, square, next.state[1]);
    return rate;
}

static const double lstm_flops = 2.0 * STEPS * BATCH * 4 * HIDDEN * (FEATURES + HIDDEN);

/* ---- running ---- */

/* Memory that was never written is one page of zeros, which costs nothing to read. */
static void write_gradient(ipu_engine *e)
{
    float *g = bench_floats(PARAMETERS), rate = 1;
    for (int i = 0; i < PARAMETERS; i++) g[i] = (float)(i % 7) * 1e-3f;
    BENCH_CHECK(ipu_engine_write(e, "g", g, PARAMETERS * sizeof *g));
    BENCH_CHECK(ipu_engine_write(e, "rate", &rate, sizeof rate));
    bench_free_floats(g);
}

static double time_row(const row *r, const char *threads)
{
    ipu_model      *m;
    ipu_executable *exe;
    ipu_engine     *e;
    ipu_options    *options;
    ipu_target      target;
    double          times[ROUNDS];
    BENCH_CHECK(ipu_model_create(&m));
    ipu_model_output(m, r->build(m), "out");
    BENCH_CHECK(ipu_target_find("gc200", 1, &target));
    BENCH_CHECK(ipu_model_compile(m, &target, NULL, &exe));
    BENCH_CHECK(ipu_options_create(&options));
    BENCH_CHECK(ipu_options_set(options, "threads", threads));
    BENCH_CHECK(ipu_engine_create(exe, options, &e));
    if (r->bytes > 0) write_gradient(e);
    for (int i = 0; i < ROUNDS; i++) {
        double begin = bench_now();
        BENCH_CHECK(ipu_engine_run(e, 0));
        times[i] = bench_now() - begin;
    }
    ipu_engine_destroy(e);
    ipu_options_destroy(options);
    ipu_executable_release(exe);
    ipu_model_destroy(m);
    qsort(times, ROUNDS, sizeof *times, bench_compare);
    return times[0];
}

int main(void)
{
    const double attention = 2.0 * 2 * 8 * 4 * 128 * 128 * 64;
    const row    rows[]    = {{"lstm, inference", lstm_flops, 0, lstm_infer},
                              {"lstm, training", 3 * lstm_flops - 2.0 * STEPS * BATCH * 4 * HIDDEN * FEATURES, 0,
                               lstm_train},
                              {"attention, forward", attention, 0, attention_forward},
                              {"attention, forward and backward", 3.5 * attention, 0, attention_both},
                              {"sgd with momentum, 4M", 0, 5.0 * 4 * PARAMETERS, sgd},
                              {"adam, 4M", 0, 7.0 * 4 * PARAMETERS, adam}};
    printf("%-34s %10s %10s %16s\n", "best of 60", "1 thread", "2 threads", "with 2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double one = time_row(&rows[i], "1"), two = time_row(&rows[i], "2");
        printf("%-34s %7.3f ms %7.3f ms %9.1f %s\n", rows[i].name, 1e3 * one, 1e3 * two,
               (rows[i].flops > 0 ? rows[i].flops : rows[i].bytes) / two * 1e-9,
               rows[i].flops > 0 ? "GFLOP/s" : "GB/s");
    }
    return 0;
}

/* Fourier transforms of signals with known spectra; windows and mel weights against known numbers. */
#include "op/graph_test.h"

#include "ipu/ipu.h"

static void a_wave_is_one_line(void **unused)
{
    (void)unused;
    enum { N = 10, WAVE = 3 };
    double x[N], all[2 * N] = {0}, half[2 * (N / 2 + 1)] = {0};
    for (int j = 0; j < N; j++) x[j] = cos(2 * M_PI * WAVE * j / N) + 2;
    all[0] = half[0] = 2 * N;
    all[2 * WAVE] = all[2 * (N - WAVE)] = half[2 * WAVE] = N / 2.0;
    graph_bench t                                        = graph_start();
    ipu_value   v                                        = graph_floats(&t, IPU_SHAPE(1, N, 1), x);
    ipu_value   y                                        = ipu_dft(t.b, v, 1, (ipu_dft_options){0});
    double      back[2 * N];
    for (int j = 0; j < 2 * N; j++) back[j] = j % 2 ? 0 : x[j / 2];
    graph_expect(&t, y, all, 2 * N);
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(1, N, 1), x);
    graph_expect(&t, ipu_dft(t.b, v, -2, (ipu_dft_options){.onesided = true}), half, N + 2);
    t = graph_start();
    v = ipu_dft(t.b, graph_floats(&t, IPU_SHAPE(1, N, 1), x), 1, (ipu_dft_options){0});
    graph_expect(&t, ipu_dft(t.b, v, 1, (ipu_dft_options){.inverse = true}), back, 2 * N);
}

static void a_length_cuts_or_fills_with_zeros(void **unused)
{
    (void)unused;
    static const double x[] = {1, 2, 3};
    graph_bench         t   = graph_start();
    ipu_value           v   = graph_floats(&t, IPU_SHAPE(3, 1), x);
    graph_expect(&t, ipu_dft(t.b, v, 0, (ipu_dft_options){.length = 2}), GRAPH_VALUES(3, 0, -1, 0));
    t = graph_start();
    v = graph_floats(&t, IPU_SHAPE(3, 1), x);
    graph_expect(&t, ipu_dft(t.b, v, 0, (ipu_dft_options){.length = 4}),
                 GRAPH_VALUES(6, 0, -2, -2, 2, 0, -2, 2));
}

static void what_is_no_signal_is_refused(void **unused)
{
    (void)unused;
    static const double x[12];
    graph_bench         t = graph_start();
    graph_refused(&t, ipu_dft(t.b, graph_floats(&t, IPU_SHAPE(4, 3), x), 0, (ipu_dft_options){0}),
                  "must be 1 (real) or 2");
    t = graph_start();
    graph_refused(&t, ipu_dft(t.b, graph_floats(&t, IPU_SHAPE(4, 2), x), 1, (ipu_dft_options){0}),
                  "expected one before the last");
    t = graph_start();
    graph_refused(&t,
                  ipu_dft(t.b, graph_floats(&t, IPU_SHAPE(4, 2), x), 0,
                          (ipu_dft_options){.inverse = true, .onesided = true}),
                  "cannot be onesided");
    t = graph_start();
    graph_refused(&t,
                  ipu_stft(t.b, graph_floats(&t, IPU_SHAPE(1, 4, 1), x), IPU_NO_VALUE,
                           (ipu_stft_options){.frame_step = 1, .frame_length = 5}),
                  "no frame longer than the signal");
    t = graph_start();
    graph_refused(&t, ipu_mel_weights(t.b, IPU_FLOAT, 8, 16, 8192, 0, 9000), "below half the sample rate");
}

static void frames_are_windowed_and_transformed(void **unused)
{
    (void)unused;
    static const double x[] = {1, 2, 3, 4, 5, 6}, w[] = {1, 0.5};
    graph_bench         t = graph_start();
    ipu_value           v = graph_floats(&t, IPU_SHAPE(1, 6, 1), x);
    graph_expect(&t,
                 ipu_stft(t.b, v, graph_floats(&t, IPU_SHAPE(2), w),
                          (ipu_stft_options){.frame_step = 3, .onesided = true}),
                 GRAPH_VALUES(2, 0, 0, 0, 6.5, 0, 1.5, 0)); /* 1 1 and 4 2.5 */
}

static void windows_are_cosines(void **unused)
{
    (void)unused;
    graph_bench t = graph_start();
    graph_expect(&t, ipu_hann_window(t.b, IPU_FLOAT, 4, true), GRAPH_VALUES(0, 0.5, 1, 0.5));
    t = graph_start();
    graph_expect(&t, ipu_hann_window(t.b, IPU_FLOAT, 5, false), GRAPH_VALUES(0, 0.5, 1, 0.5, 0));
    t = graph_start();
    graph_expect(&t, ipu_hamming_window(t.b, IPU_FLOAT, 4, true), GRAPH_VALUES(0.08, 0.54, 1, 0.54));
    t = graph_start();
    graph_expect(&t, ipu_blackman_window(t.b, IPU_FLOAT, 4, true), GRAPH_VALUES(0, 0.34, 1, 0.34));
    t = graph_start();
    graph_expect(&t, ipu_hann_window(t.b, IPU_FLOAT, 1, false), GRAPH_VALUES(1));
}

/* test_melweightmatrix of ONNX's suite. */
static void mel_weights_are_onnxs(void **unused)
{
    (void)unused;
    static const int ones[]          = {0, 0, 1, 1, 2, 3, 4, 5}; /* the row of each column */
    double           expected[9 * 8] = {0};
    for (int i = 0; i < 8; i++) expected[ones[i] * 8 + i] = 1;
    graph_bench t = graph_start();
    graph_expect(&t, ipu_mel_weights(t.b, IPU_FLOAT, 8, 16, 8192, 0, 4096), expected, 72);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wave_is_one_line),           cmocka_unit_test(a_length_cuts_or_fills_with_zeros),
        cmocka_unit_test(what_is_no_signal_is_refused), cmocka_unit_test(frames_are_windowed_and_transformed),
        cmocka_unit_test(windows_are_cosines),          cmocka_unit_test(mel_weights_are_onnxs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

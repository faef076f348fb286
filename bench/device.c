/* Devices: what attaching costs a program, and a counter a run. There is no peer to compare with. */

#include "bench.h"
#include "device/device.h"

enum { ROUNDS = 2000, UPDATES = 1000000 };

static void row(const char *what, double seconds, double limit)
{
    const double scale = limit < 1e-6 ? 1e9 : 1e6;
    const char  *unit  = limit < 1e-6 ? "ns" : "us";
    printf("%-52s %9.2f %s %s %g %s\n", what, seconds * scale, unit, seconds < limit ? "<" : "OVER",
           limit * scale, unit);
}

static void attach_once(void)
{
    ipu_device *d;
    BENCH_CHECK(ipu_device_open_any(1, &d));
    BENCH_CHECK(ipu_device_attach(d, 0));
    ipu_device_close(d);
}

/* The median of single times, and the worst of all but a hundredth. */
static void bench_attach(void)
{
    static double times[ROUNDS];
    double        first = bench_now();
    attach_once();
    first = bench_now() - first;
    for (int i = 0; i < ROUNDS; i++) {
        double began = bench_now();
        attach_once();
        times[i] = bench_now() - began;
    }
    row("open, attach, detach: the first", first, 1e-3);
    row("open, attach, detach: median", bench_median(times, ROUNDS), 1e-3);
    row("open, attach, detach: 99 of 100 within", times[ROUNDS * 99 / 100], 1e-3);
}

static void bench_group(void)
{
    static double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        ipu_device *d;
        double      began = bench_now();
        BENCH_CHECK(ipu_device_open(6, &d));
        BENCH_CHECK(ipu_device_attach(d, 0));
        ipu_device_close(d);
        times[i] = bench_now() - began;
    }
    row("the same for a group of four: median", bench_median(times, ROUNDS), 1e-3);
}

static void bench_counters(void)
{
    ipu_device *d;
    double      times[5];
    BENCH_CHECK(ipu_device_open_any(1, &d));
    BENCH_CHECK(ipu_device_attach(d, 0));
    for (int r = 0; r < 5; r++) {
        double began = bench_now();
        for (int i = 0; i < UPDATES; i++) ipu__count(&d->counters.supersteps, 1);
        times[r] = (bench_now() - began) / UPDATES;
    }
    row("one update of a counter", bench_median(times, 5), 20e-9);
    for (int r = 0; r < 5; r++) {
        double began = bench_now();
        for (int i = 0; i < UPDATES; i++) {
            BENCH_CHECK(ipu__device_begin_run(d, 0));
            ipu__device_end_run(
                d, &(ipu__run_counts){.supersteps = 1, .host_bytes = 4, .cycles = 9, .tile_bytes = 9});
        }
        times[r] = (bench_now() - began) / UPDATES;
    }
    row("all that a run of a program updates", bench_median(times, 5), 4e-6);
    ipu_device_close(d);
}

static void bench_list(void)
{
    static double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        ipu_device_list *list;
        double           began = bench_now();
        BENCH_CHECK(ipu_device_list_create(0, &list));
        ipu_device_list_destroy(list);
        times[i] = bench_now() - began;
    }
    row("a list of all devices and processes: median", bench_median(times, ROUNDS), 1e-3);
}

int main(void)
{
    bench_attach();
    bench_group();
    bench_counters();
    bench_list();
    return 0;
}

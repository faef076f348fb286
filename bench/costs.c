/* What must stay cheap: training in half, engines that share a machine, and the first answer of a program. */
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "speed_network.h"

enum { ROUNDS = 9, FEW_ROUNDS = 3, ENGINES = 4, STARTS = 21 };
static const double SLICE = 0.04, MOST_HALF = 1.5, MOST_LOST = 1.15, MOST_START = 0.040;

static const char *verdict(double found, double most) { return found <= most ? "" : "  above its bound"; }

static int calls_of(speed_ours *s)
{
    speed_time(s, 2);
    return 1 + (int)(SLICE / fmax(1e-6, speed_time(s, 1)));
}

/* ---- half ---- */

static void measure_half(const char *name, int64_t batch, bool trains)
{
    static const ipu_precision precisions[] = {IPU_PRECISION_FLOAT, IPU_PRECISION_MIXED, IPU_PRECISION_HALF};
    speed_ours                 s[3];
    double                     times[3][ROUNDS], median[3];
    int                        calls = 0, rounds = ROUNDS;
    for (int i = 0; i < 3; i++) {
        speed_make(&s[i], name, batch, trains, "2", false, precisions[i]);
        calls = i == 0 ? calls_of(&s[i]) : calls;
        speed_time(&s[i], 2);
    }
    if (calls < 3) rounds = FEW_ROUNDS;
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < 3; i++) times[i][r] = speed_time(&s[i], calls);
    for (int i = 0; i < 3; i++) {
        median[i] = bench_median(times[i], rounds);
        speed_end(&s[i]);
    }
    printf("%-10s %4lld %s %10.1f us %10.1f us %6.2f %10.1f us %6.2f%s\n", name, (long long)batch,
           trains ? "train" : "infer", 1e6 * median[0], 1e6 * median[1], median[1] / median[0],
           1e6 * median[2], median[2] / median[0],
           verdict(fmax(median[1], median[2]) / median[0], MOST_HALF));
    fflush(stdout);
}

/* The rows of bench/speed. */
static void bench_half(void)
{
    static const struct {
        const char *name;
        int64_t     batch;
        bool        trains;
    } rows[] = {{"seed-cnn", 16, true},  {"seed-cnn", 64, true},  {"seed-cnn", 256, true},
                {"mnist-cnn", 16, true}, {"mnist-cnn", 64, true}, {"mnist-cnn", 256, true},
                {"mlp", 16, true},       {"mlp", 64, true},       {"mlp", 256, true},
                {"lstm", 64, true},      {"resnet18", 32, true},  {"resnet50", 1, false},
                {"resnet50", 8, false},  {"bert-mini", 8, true},  {"bert-base", 1, false}};
    printf("2 threads                     float         mixed                half\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].trains) measure_half(rows[i].name, rows[i].batch, true);
        measure_half(rows[i].name, rows[i].batch, false);
    }
}

/* ---- crowd ---- */

typedef struct crowd {
    speed_ours s[ENGINES];
    int        calls;
} crowd;

typedef struct crowd_member {
    speed_ours *s;
    int         calls;
} crowd_member;

static void *crowd_thread(void *user)
{
    crowd_member *m = user;
    speed_time(m->s, m->calls);
    return NULL;
}

static void at_once(void *user)
{
    crowd       *c = user;
    pthread_t    threads[ENGINES];
    crowd_member members[ENGINES];
    for (int i = 0; i < ENGINES; i++) {
        members[i] = (crowd_member){&c->s[i], c->calls};
        if (pthread_create(&threads[i], NULL, crowd_thread, &members[i]) != 0) exit(1);
    }
    for (int i = 0; i < ENGINES; i++) pthread_join(threads[i], NULL);
}

static void in_turn(void *user)
{
    crowd *c = user;
    for (int i = 0; i < ENGINES; i++) speed_time(&c->s[i], c->calls);
}

static void measure_crowd(const char *name, int64_t batch)
{
    crowd c;
    for (int i = 0; i < ENGINES; i++) speed_make(&c.s[i], name, batch, true, "2", false, IPU_PRECISION_FLOAT);
    c.calls         = 2 * calls_of(&c.s[0]);
    bench_pair pair = bench_against(at_once, in_turn, &c, 1);
    for (int i = 0; i < ENGINES; i++) speed_end(&c.s[i]);
    printf("%-12s %4lld %10.1f ms %10.1f ms %6.2f%s\n", name, (long long)batch, 1e3 * pair.ours,
           1e3 * pair.peer, pair.ours / pair.peer, verdict(pair.ours / pair.peer, MOST_LOST));
    fflush(stdout);
}

static void bench_crowd(void)
{
    printf("4 engines of 2 threads    at once       in turn\n");
    measure_crowd("seed-cnn", 16);
    measure_crowd("mlp", 64);
}

/* ---- start ---- */

static void write_model(const char *path)
{
    speed_ours s;
    speed_make(&s, "seed-cnn", 1, false, "1", false, IPU_PRECISION_FLOAT);
    BENCH_CHECK(ipu_module_write_onnx(s.module, NULL, path));
    speed_end(&s);
}

/* Seconds; below 0: it failed. */
static double run_once(const char *const *argv)
{
    int    status = -1;
    double begin  = bench_now();
    pid_t  pid    = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return -1;
    return bench_now() - begin;
}

static void bench_start_up(void)
{
    static const char picture[] = "examples/mnist/image/infer_3.png";
    char              self[1024], tool[1100], model[] = "/tmp/ipu-costs-XXXXXX";
    double            times[STARTS];
    ssize_t           length = readlink("/proc/self/exe", self, sizeof self - 1);
    int               file   = mkstemp(model);
    if (length < 0 || file < 0) exit(1);
    self[length] = 0;
    snprintf(tool, sizeof tool, "%s/../tools/ipu", dirname(self));
    close(file);
    write_model(model);
    const char *const argv[] = {tool, "infer", model, picture, NULL};
    for (int i = 0; i < STARTS; i++)
        if ((times[i] = run_once(argv)) < 0) {
            fprintf(stderr, "%s infer MODEL %s failed: build all, and run this from the top of the tree\n",
                    tool, picture);
            unlink(model);
            exit(1);
        }
    unlink(model);
    double median = bench_median(times, STARTS);
    printf("ipu infer, one picture: median %.1f ms, from %.1f to %.1f%s\n", 1e3 * median, 1e3 * times[0],
           1e3 * times[STARTS - 1], verdict(median, MOST_START));
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {{"half", bench_half}, {"crowd", bench_crowd}, {"start", bench_start_up}};
enum { N_PARTS = sizeof parts / sizeof *parts };

static const char usage[] =
    "usage: costs [half] [crowd] [start]\n"
    "What must stay cheap; without a word, all of it. Medians of rounds that take turns.\n"
    "  half   a step of the rows of bench/speed with activations (mixed), and weights as well (half), of\n"
    "         half, over one in float; no stochastic rounding\n"
    "  crowd  4 engines with 2 threads each train at once, over the same steps one engine after another\n"
    "  start  `ipu infer` with one picture, from before exec to after exit; run from the top of the\n"
    "         source tree, with the `ipu` of this build\n";

static int find_part(const char *name)
{
    for (int i = 0; i < N_PARTS; i++)
        if (strcmp(name, parts[i].name) == 0) return i;
    return -1;
}

int main(int argc, char **argv)
{
    bool wanted[N_PARTS] = {false};
    for (int k = 1; k < argc; k++) {
        int i = find_part(argv[k]);
        if (i < 0) {
            bool is_help = strcmp(argv[k], "--help") == 0 || strcmp(argv[k], "-h") == 0;
            if (!is_help) fprintf(stderr, "costs: expected half, crowd or start, found \"%s\"\n", argv[k]);
            fputs(usage, is_help ? stdout : stderr);
            return is_help ? 0 : 2;
        }
        wanted[i] = true;
    }
    for (int i = 0; i < N_PARTS; i++)
        if (argc == 1 || wanted[i]) parts[i].run();
    return 0;
}

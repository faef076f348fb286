/* How fast networks train and run, beside PyTorch on the same cores in the same run.
 *
 *     speed [--rounds N] [--patience S] [--avx2] [--json] [--profile [--half]] [--help] [ROW...]
 *
 * A ROW is a letter (a to f), or names, batches, modes and threads with slashes between them, all of which must
 * fit: a/16/train, resnet50/infer, lstm/1t. None: all rows. Ours and PyTorch's, eager and as TorchScript, are processes
 * of their own that take turns; of PyTorch's two the faster counts. Rounds in which other processes took much of
 * the machine are repeated, and of all rounds the quietest count. bench/torch/speed.py has what both are asked.
 */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "peak.h"
#include "peer.h"
#include "speed_ours.h"

/* ---- what is measured ---- */

/* Targets: how many times PyTorch's speed with 2 threads; 0: this mode is not measured. FLOPs are those of convolutions
 * and matrix products for one sample, forward, and of the first layer alone, which has no gradient for its input:
 * what bench/torch/speed.py counts, and is compared with. */
typedef struct speed_row {
    char        letter;
    const char *network;
    int64_t     batch;
    double      train, infer;
} speed_row;

static const speed_row rows[] = {
    {'a', "seed-cnn", 16, 15, 6},   {'a', "seed-cnn", 64, 8, 5},      {'a', "seed-cnn", 256, 7, 5},
    {'b', "mnist-cnn", 16, 5, 2.5}, {'b', "mnist-cnn", 64, 4.5, 2.2}, {'b', "mnist-cnn", 256, 4, 2.2},
    {'c', "mlp", 16, 3.5, 3},       {'c', "mlp", 64, 2.5, 2},         {'c', "mlp", 256, 1.8, 1.4},
    {'d', "lstm", 64, 4.5, 4.5},    {'e', "resnet18", 32, 1.35, 1.3}, {'e', "resnet50", 1, 0, 1.5},
    {'e', "resnet50", 8, 0, 1.3},   {'f', "bert-mini", 8, 1.6, 1.7},  {'f', "bert-base", 1, 0, 1.7},
};

static const struct {
    const char *network;
    double      flops, first;
} work[] = {
    {"seed-cnn", 500240, 60840},        {"mnist-cnn", 5262080, 389376},
    {"mlp", 1337344, 802816},           {"lstm", 4475392, 802816},
    {"resnet18", 1110845440, 3538944},  {"resnet50", 8178368512, 236027904},
    {"bert-mini", 872420352, 50331648}, {"bert-base", 22347267072, 452984832},
};

enum { OURS, EAGER, SCRIPT, N_SIDES, MOST_ROUNDS = 200, N_CASES = 2 * 2 * sizeof rows / sizeof *rows };
static const char *const side_names[] = {"ours", "eager", "script"};
static const double      SLICE = 0.1, MIB = 1 << 20, MOST_DISTURBED = 0.04, LEAST_RATIO = 1.15;

typedef struct speed_case {
    const speed_row *row;
    bool             trains;
    int              threads;
    double           target, flops; /* of a call */
} speed_case;

typedef struct speed_side {
    bench_peer peer;
    bool       runs;
    char       failed[160];
    double     ready; /* seconds to compile, or to its first calls */
    int        calls, n_rounds;
    double     times[MOST_ROUNDS], disturbed[MOST_ROUNDS]; /* a call; share of its CPUs that others had */
    double     seconds, best, quiet;                       /* what counts */
    double     weights, flops, growth, resident;
} speed_side;

typedef struct speed_result {
    speed_case c;
    speed_side sides[N_SIDES];
    int        better; /* of PyTorch's; 0: there is none */
    double     ratio;
    double     hand_off; /* seconds, the median */
} speed_result;

typedef struct speed_options {
    int         rounds;
    double      patience; /* seconds */
    bool        json, profile, half, avx2;
    char      **wanted;
    int         n_wanted;
    const char *self;
} speed_options;

static double peaks[PEAK_THREADS + 1]; /* best of this run, by threads */

static double case_flops(const speed_row *r, bool trains)
{
    for (size_t i = 0; i < sizeof work / sizeof *work; i++)
        if (strcmp(work[i].network, r->network) == 0)
            return (double)r->batch * (trains ? 3 * work[i].flops - work[i].first : work[i].flops);
    return 0;
}

/* ---- one side: a process that answers ---- */

static void side_start(speed_side *s, int which, const speed_case *c, const speed_options *o)
{
    char        batch[32], threads[16], line[512];
    const char *mode = c->trains ? "train" : "infer";
    *s               = (speed_side){0};
    snprintf(batch, sizeof batch, "%lld", (long long)c->row->batch);
    snprintf(threads, sizeof threads, "%d", c->threads);
    const char *const ours[]   = {o->self, "--work", c->row->network, batch, mode, threads, NULL};
    const char *const theirs[] = {"/usr/bin/python3",
                                  "bench/torch/speed.py",
                                  c->row->network,
                                  batch,
                                  mode,
                                  side_names[which],
                                  threads,
                                  NULL};
    bool              started  = bench_start(&s->peer, which == OURS ? ours : theirs);
    bool              told     = started && fgets(line, sizeof line, s->peer.from);
    s->runs                    = told && strncmp(line, "ready ", 6) == 0;
    if (s->runs)
        s->ready = strtod(line + 6, NULL);
    else
        snprintf(s->failed, sizeof s->failed, "%.*s", told ? (int)strcspn(line, "\n") : 0, told ? line : "");
    if (strncmp(s->failed, "failed ", 7) == 0) memmove(s->failed, s->failed + 7, strlen(s->failed + 7) + 1);
}

static double machine_busy(void)
{
    double t[8] = {0}; /* user, nice, system, idle, waiting, irq, softirq, steal */
    FILE  *f    = fopen("/proc/stat", "r");
    bool   ok   = f
           && fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5],
                     &t[6], &t[7])
                  == 8;
    if (f) fclose(f);
    return ok ? (t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / (double)sysconf(_SC_CLK_TCK) : 0;
}

static double process_busy(pid_t pid)
{
    char path[64], text[1024] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE  *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n]     = 0;
    char  *at   = strrchr(text, ')'); /* the name before it may hold anything */
    double user = 0, kernel = 0;
    if (!at || sscanf(at, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lf %lf", &user, &kernel) != 2)
        return 0;
    return (user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

/* Until nobody else computes, or for `patience` seconds. At first the side before may still spin. */
static void wait_for_quiet(double patience)
{
    const double ticks = 2 / (double)sysconf(_SC_CLK_TCK);
    double       end   = bench_now() + patience, busy;
    usleep(3000);
    do {
        busy = machine_busy();
        usleep(40000);
    } while (machine_busy() - busy > ticks && bench_now() < end);
}

/* Share of the CPUs it needs that others had, if it and they shared out the machine as well as can be. */
static double disturbance(double others, double passed, int threads)
{
    double spare = passed * (double)(sysconf(_SC_NPROCESSORS_ONLN) - threads);
    return fmax(0, others - fmax(0, spare)) / (passed * threads);
}

/* One slice of time for it. */
static void side_round(speed_side *s, int threads, double patience)
{
    if (!s->runs || s->n_rounds == MOST_ROUNDS) return;
    wait_for_quiet(patience);
    double busy = machine_busy(), own = process_busy(s->peer.pid), begin = bench_now();
    double each   = bench_peer_time(&s->peer, s->calls);
    double passed = bench_now() - begin;
    busy          = machine_busy() - busy;
    own           = process_busy(s->peer.pid) - own;
    if (each <= 0) {
        s->runs = false;
        return;
    }
    s->times[s->n_rounds]       = each;
    s->disturbed[s->n_rounds++] = disturbance(busy - own, passed, threads);
}

static void side_calibrate(speed_side *s)
{
    if (!s->runs) return;
    double each = bench_peer_time(&s->peer, 1);
    each        = fmin(each, bench_peer_time(&s->peer, 1 + (int)(SLICE / 4 / fmax(each, 1e-6))));
    s->calls    = 1 + (int)(SLICE / fmax(each, 1e-6));
}

static int n_quiet(const speed_side *s)
{
    int n = 0;
    for (int i = 0; i < s->n_rounds; i++) n += s->disturbed[i] < MOST_DISTURBED;
    return n;
}

/* The median of the `keep` quietest rounds. */
static void side_judge(speed_side *s, int keep)
{
    double sum = 0;
    s->best    = INFINITY;
    for (int i = 0; i < s->n_rounds; i++) s->best = fmin(s->best, s->times[i]);
    for (int i = 1; i < s->n_rounds; i++)
        for (int k = i; k > 0 && s->disturbed[k] < s->disturbed[k - 1]; k--) {
            double d = s->disturbed[k], t = s->times[k];
            s->disturbed[k]     = s->disturbed[k - 1];
            s->times[k]         = s->times[k - 1];
            s->disturbed[k - 1] = d;
            s->times[k - 1]     = t;
        }
    if (s->n_rounds == 0) return;
    if (keep > s->n_rounds) keep = s->n_rounds;
    for (int i = 0; i < keep; i++) sum += s->disturbed[i];
    s->quiet   = 1 - sum / keep;
    s->seconds = bench_median(s->times, keep);
}

static void side_end(speed_side *s)
{
    char line[256] = "sum";
    if (s->runs && bench_ask(&s->peer, line, sizeof line))
        s->runs = sscanf(line, "%lf %lf %lf %lf", &s->weights, &s->flops, &s->growth, &s->resident) == 4;
    if (s->peer.to && s->peer.from) bench_end_peer(&s->peer);
}

/* ---- one case: sides in turn ---- */

static void note_peak(int threads)
{
    for (int i = 0; i < 3; i++) peaks[threads] = fmax(peaks[threads], peak_measure(threads));
}

static double hand_off(void)
{
    double best = INFINITY;
    for (int i = 0; i < 3; i++) best = fmin(best, peak_hand_off());
    return best;
}

/* Whether each side has enough rounds that nobody disturbed, or has had its chances. */
static bool is_done(const speed_result *r, int round, const speed_options *o)
{
    bool enough = round >= o->rounds;
    for (int i = 0; i < N_SIDES; i++)
        if (r->sides[i].runs) enough = enough && n_quiet(&r->sides[i]) >= o->rounds;
    return enough || round >= 4 * o->rounds || round >= MOST_ROUNDS;
}

/* The slower of PyTorch's two is left alone once it is clear which that is. */
static bool is_slower(speed_result *r, int side, int round)
{
    if (round < 2 || side == OURS) return false;
    const speed_side *a = &r->sides[side], *b = &r->sides[EAGER + SCRIPT - side];
    double            best_a = INFINITY, best_b = INFINITY;
    for (int i = 0; i < a->n_rounds; i++) best_a = fmin(best_a, a->times[i]);
    for (int i = 0; i < b->n_rounds; i++) best_b = fmin(best_b, b->times[i]);
    return b->runs && best_a > 1.5 * best_b;
}

static void measure(speed_result *r, const speed_options *o)
{
    bool   slower[N_SIDES] = {false};
    double lines[MOST_ROUNDS];
    int    n_rounds = 0;
    for (int i = 0; i < N_SIDES; i++) {
        side_start(&r->sides[i], i, &r->c, o);
        side_calibrate(&r->sides[i]);
    }
    for (; !is_done(r, n_rounds, o); n_rounds++) {
        note_peak(r->c.threads);
        lines[n_rounds] = hand_off();
        for (int i = 0; i < N_SIDES; i++) {
            slower[i] = slower[i] || is_slower(r, i, n_rounds);
            if (!slower[i]) side_round(&r->sides[i], r->c.threads, o->patience);
        }
    }
    r->hand_off = bench_median(lines, n_rounds);
    for (int i = 0; i < N_SIDES; i++) {
        side_judge(&r->sides[i], o->rounds);
        side_end(&r->sides[i]);
        if (i == OURS || !r->sides[i].runs) continue;
        if (!r->better || r->sides[i].seconds < r->sides[r->better].seconds) r->better = i;
    }
    if (r->better) r->ratio = r->sides[r->better].seconds / r->sides[OURS].seconds;
}

/* Both must be the same network; the benchmark is worth nothing else. */
static void check_same(const speed_result *r)
{
    const speed_side *ours = &r->sides[OURS], *theirs = &r->sides[r->better];
    if (!ours->runs) {
        fprintf(stderr, "%s: our side ended\n", r->c.row->network);
        exit(1);
    }
    if (!r->better || (ours->weights == theirs->weights && r->c.flops == theirs->flops)) return;
    fprintf(stderr, "%s: weights %.0f, PyTorch's %.0f; operations %.0f, PyTorch's %.0f\n", r->c.row->network,
            ours->weights, theirs->weights, r->c.flops, theirs->flops);
    exit(1);
}

/* ---- telling ---- */

static void print_header(void)
{
    printf("%-23s %2s %8s %8s %-6s %6s %6s %6s %8s %5s %8s %6s %6s %6s %5s\n", "", "", "ours", "PyTorch", "",
           "", "by", "", "", "of", "compile", "ours", "PyT.", "", "line");
    printf("%-23s %2s %8s %8s %-6s %6s %6s %6s %8s %5s %8s %6s %6s %6s %5s\n", "", "t", "per s", "per s",
           "how", "ratio", "best", "target", "GFLOP/s", "peak", "ms", "MiB", "MiB", "quiet", "ns");
}

/* Resident memory of a network while it runs, beside one copy of its weights. */
static double memory_of(const speed_side *s) { return (s->growth - 4 * s->weights) / MIB; }

static void print_result(const speed_result *r)
{
    const speed_side *ours = &r->sides[OURS], *theirs = &r->sides[r->better];
    const speed_row  *row = r->c.row;
    char              name[64], target[16] = "";
    double            rate = r->c.flops / ours->seconds, n = (double)row->batch;
    snprintf(name, sizeof name, "%c %s %lld %s", row->letter, row->network, (long long)row->batch,
             r->c.trains ? "train" : "infer");
    if (r->c.target > 0) snprintf(target, sizeof target, "%.3g", r->c.target);
    printf("%-23s %2d %8.5g ", name, r->c.threads, n / ours->seconds);
    if (r->better)
        printf("%8.5g %-6s %6.2f %6.2f %5s%s ", n / theirs->seconds, side_names[r->better], r->ratio,
               theirs->best / ours->best, target, r->c.target > 0 && r->ratio >= r->c.target ? "+" : " ");
    else
        printf("%8s %-6s %6s %6s %5s  ", "-", "", "-", "-", target);
    printf("%8.1f %4.0f%% %8.1f %6.1f ", rate * 1e-9, 100 * rate / peaks[r->c.threads], 1e3 * ours->ready,
           memory_of(ours));
    if (r->better)
        printf("%6.1f %5.0f%%", memory_of(theirs), 100 * fmin(ours->quiet, theirs->quiet));
    else
        printf("%6s %5.0f%%", "-", 100 * ours->quiet);
    if (isfinite(r->hand_off))
        printf(" %5.0f\n", 1e9 * r->hand_off);
    else
        printf(" %5s\n", "-");
    if (!r->better && *r->sides[EAGER].failed) printf("    PyTorch: %s\n", r->sides[EAGER].failed);
    fflush(stdout);
}

static void add_side(json_t *to, const char *name, const speed_side *s)
{
    if (!s->runs) {
        json_object_set_new(to, name, json_null());
        return;
    }
    json_object_set_new(to, name,
                        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i}", "seconds", s->seconds,
                                  "best_seconds", s->best, "ready_seconds", s->ready, "weights", s->weights,
                                  "memory_bytes", s->growth - 4 * s->weights, "resident_bytes", s->resident,
                                  "quiet", s->quiet, "rounds", s->n_rounds));
}

static json_t *to_json(const speed_result *r)
{
    const speed_row *row  = r->c.row;
    double           rate = r->c.flops / r->sides[OURS].seconds;
    json_t          *o    = json_pack("{s:s, s:I, s:s, s:i, s:f, s:f, s:f}", "network", row->network, "batch",
                                      (json_int_t)row->batch, "mode", r->c.trains ? "train" : "infer", "threads",
                                      r->c.threads, "flops", r->c.flops, "gflops", rate * 1e-9, "peak_share",
                                      rate / peaks[r->c.threads]);
    for (int i = 0; i < N_SIDES; i++) add_side(o, side_names[i], &r->sides[i]);
    json_object_set_new(o, "line_seconds", isfinite(r->hand_off) ? json_real(r->hand_off) : json_null());
    json_object_set_new(o, "counts", r->better ? json_string(side_names[r->better]) : json_null());
    json_object_set_new(o, "ratio", r->better ? json_real(r->ratio) : json_null());
    json_object_set_new(o, "target", r->c.target > 0 ? json_real(r->c.target) : json_null());
    return o;
}

/* 0: there is nothing to compare with. */
static double geometric_mean(const speed_result *results, size_t n, int threads)
{
    double sum = 0;
    int    k   = 0;
    for (size_t i = 0; i < n; i++)
        if (results[i].c.threads == threads && results[i].better) {
            sum += log(results[i].ratio);
            k++;
        }
    return k ? exp(sum / k) : 0;
}

static void print_end(const speed_result *results, size_t n, const speed_options *o)
{
    const char *how     = o->avx2 ? ", AVX2" : "";
    int         reached = 0, low = 0, of = 0;
    for (size_t i = 0; i < n; i++) {
        if (results[i].c.target <= 0 || !results[i].better) continue;
        of++;
        reached += results[i].ratio >= results[i].c.target;
        low += results[i].ratio < LEAST_RATIO;
    }
    printf("peak: %.1f GFLOP/s with 1 thread, %.1f with 2\n", peaks[1] * 1e-9, peaks[2] * 1e-9);
    printf("targets reached: %d of %d; rows below %.2f: %d\n", reached, of, LEAST_RATIO, low);
    double one = geometric_mean(results, n, 1), two = geometric_mean(results, n, 2);
    if (one > 0) printf("geometric mean, 1 thread%s: %.2f\n", how, one);
    if (two > 0)
        printf("geometric mean%s: %.2f\n", how, two);
    else if (one == 0)
        printf("geometric mean: there is no PyTorch to compare with\n");
}

static int print_json(const speed_result *results, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, to_json(&results[i]));
    json_t *all = json_pack("{s:o, s:b, s:{s:f, s:f}, s:f}", "rows", list, "avx2", peak_is_narrow,
                            "peak_gflops", "1", peaks[1] * 1e-9, "2", peaks[2] * 1e-9, "geometric_mean",
                            geometric_mean(results, n, 2));
    int     bad = json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(all);
    return bad ? 1 : 0;
}

/* ---- which ---- */

/* One word between slashes. */
static bool fits_word(const speed_case *c, const char *word, size_t length)
{
    char        letter[2] = {c->row->letter, 0}, batch[32], threads[16];
    const char *fields[]  = {letter, c->row->network, batch, c->trains ? "train" : "infer", threads};
    snprintf(batch, sizeof batch, "%lld", (long long)c->row->batch);
    snprintf(threads, sizeof threads, "%dt", c->threads);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strlen(fields[i]) == length && strncmp(fields[i], word, length) == 0) return true;
    return false;
}

static bool fits(const speed_case *c, const char *wanted)
{
    while (*wanted) {
        size_t length = strcspn(wanted, "/");
        if (!fits_word(c, wanted, length)) return false;
        wanted += length + (wanted[length] == '/');
    }
    return true;
}

static size_t choose(speed_case *out, const speed_options *o)
{
    size_t n = 0;
    for (int threads = 2; threads >= 1; threads--)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            for (int mode = 0; mode < 2; mode++) {
                speed_case c = {&rows[i], mode == 0, threads, mode == 0 ? rows[i].train : rows[i].infer,
                                case_flops(&rows[i], mode == 0)};
                bool       is_wanted = o->n_wanted == 0;
                for (int k = 0; k < o->n_wanted; k++) is_wanted |= fits(&c, o->wanted[k]);
                if (!is_wanted || c.target <= 0) continue;
                if (threads == 1) c.target = 0;
                out[n++] = c;
            }
    return n;
}

static const char help[] =
    "usage: speed [--rounds N] [--patience S] [--avx2] [--json] [--profile [--half]] [ROW...]\n"
    "Speed of networks beside PyTorch's, eager and as TorchScript, in the same run.\n"
    "  ROW        a letter, network, batch, train or infer, 1t or 2t, or several of them with slashes:\n"
    "             a   seed-cnn/16/train   resnet50/2t      (none: all rows)\n"
    "  --rounds N quiet rounds that each side is timed for, of 0.1 s or one call (7)\n"
    "  --patience S  seconds to wait, before each slice, for other processes to be quiet (0.5)\n"
    "  --avx2     both sides without AVX-512: IPU_CPU, ATEN_CPU_CAPABILITY, ONEDNN_MAX_CPU_ISA, OPENBLAS_CORETYPE\n"
    "  --json     one object with all that was measured\n"
    "  --profile  ours only: host times of the steps of each row, the largest first\n"
    "  --half     with it: activations and weights of half\n"
    "per s: samples. ratio: of medians; by best: of the best rounds. target: times PyTorch's speed; + is\n"
    "reached. of peak: share of the multiply-adds that the machine was seen to do in this run. MiB: resident\n"
    "while it runs, less that of the process before and one copy of the weights. quiet: share of the CPUs it\n"
    "needs that no other process had meanwhile. line: time of a cache line from one core to the other.\n"
    "Needs python3-torch and libopenblas0-openmp; without them only our side is measured. To be run from the\n"
    "top of the source tree.\n";

static speed_options parse(int argc, char **argv)
{
    speed_options o  = {.rounds = 7, .patience = 0.5};
    int           at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "--json") == 0)
            o.json = true;
        else if (strcmp(argv[at], "--profile") == 0)
            o.profile = true;
        else if (strcmp(argv[at], "--half") == 0)
            o.half = true;
        else if (strcmp(argv[at], "--avx2") == 0)
            o.avx2 = true;
        else if (strcmp(argv[at], "--rounds") == 0 && at + 1 < argc)
            o.rounds = (int)strtol(argv[++at], NULL, 10);
        else if (strcmp(argv[at], "--patience") == 0 && at + 1 < argc)
            o.patience = strtod(argv[++at], NULL);
        else {
            bool is_asked = strcmp(argv[at], "--help") == 0;
            fputs(help, is_asked ? stdout : stderr);
            exit(is_asked ? 0 : 2);
        }
    }
    if (o.half && !o.profile) {
        fputs("--half goes with --profile; bench/costs.c compares half with float\n", stderr);
        exit(2);
    }
    if (o.rounds < 1 || 4 * o.rounds > MOST_ROUNDS) {
        fprintf(stderr, "--rounds: expected 1 to %d\n", MOST_ROUNDS / 4);
        exit(2);
    }
    o.wanted   = argv + at;
    o.n_wanted = argc - at;
    return o;
}

/* For the processes of both sides, and --profile's own. */
static void cap_at_avx2(void)
{
    setenv("IPU_CPU", "avx2", 1);
    setenv("ATEN_CPU_CAPABILITY", "avx2", 1);
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    peak_is_narrow = true;
}

static void profile(const speed_case *cases, size_t n, ipu_precision precision)
{
    for (size_t i = 0; i < n; i++) {
        char threads[16];
        snprintf(threads, sizeof threads, "%d", cases[i].threads);
        speed_profile(cases[i].row->network, cases[i].row->batch, cases[i].trains, threads, precision);
    }
}

int main(int argc, char **argv)
{
    static speed_case   cases[N_CASES];
    static speed_result results[N_CASES];
    char                self[1024];
    if (argc == 6 && strcmp(argv[1], "--work") == 0) return speed_work(argv[2], argv[3], argv[4], argv[5]);
    speed_options o      = parse(argc, argv);
    size_t        n      = choose(cases, &o);
    ssize_t       length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n == 0 || length < 0) {
        fputs(n == 0 ? "no row fits; see --help\n" : "cannot find this program\n", stderr);
        return 2;
    }
    self[length] = 0;
    o.self       = self;
    signal(SIGPIPE, SIG_IGN);
    if (o.avx2) cap_at_avx2();
    if (o.profile) {
        profile(cases, n, o.half ? IPU_PRECISION_HALF : IPU_PRECISION_FLOAT);
        return 0;
    }
    for (int threads = 1; threads <= PEAK_THREADS; threads++) note_peak(threads);
    if (!o.json) print_header();
    for (size_t i = 0; i < n; i++) {
        results[i].c = cases[i];
        measure(&results[i], &o);
        check_same(&results[i]);
        if (!o.json) print_result(&results[i]);
    }
    if (o.json) return print_json(results, n);
    print_end(results, n, &o);
    return 0;
}

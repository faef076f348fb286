/* Random uses of every op, every implementation in random numbers of parts against the reference: nothing here knows
 * any op.
 *
 *     sweep_test [OP...]              all ops, or these
 *     sweep_test OP SAMPLE PARTS      one use, as it is printed when it fails
 *     sweep_test parts N...           the samples as they are, in so many parts
 *
 * SWEEP_SEED: other numbers (default: 1). SWEEP_CASES: so many for each sample of an op. SWEEP_SECONDS: for that long
 * instead, and with a seed of the clock's if none is given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/sanitized.h"
#include "op_check.h"
#include "sweep.h"

enum {
    CASES         = IPU__SANITIZED ? 2 : 16,
    MOST_FINDINGS = 3, /* of an op */
    HANG          = 60 /* seconds of this process: far more than what is affordable takes */
};

/* Shared with the process that tries: what it was at when it died. */
typedef struct trial {
    const ipu__op_def *op;
    char               text[SWEEP_TEXT];
    int                n_parts;
    long               n_cases;
} trial;

static trial   *at;
static uint64_t seed;
static double   seconds; /* of an op; 0: CASES instead */
static int      parts[16];
static size_t   n_parts; /* 0: random ones */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void limit_time(void)
{
    setitimer(ITIMER_VIRTUAL, &(struct itimerval){.it_value = {.tv_sec = HANG}}, NULL);
}

/* The sample of `at`; false: its bounds leave nothing to be tried. */
static bool take(sample *s)
{
    char error[SAMPLE_ERROR];
    if (!sample_parse(s, at->op, at->text, error) || sample_infer(s) != IPU_OK) return false;
    s->conditioned = true;
    return sweep_bound(s);
}

static int try_kernel(void)
{
    static sample s;
    if (!take(&s) || !at->op->kernel.ref) return 0;
    int bad = check_price(&s) + check_parts(&s, at->n_parts);
    at->n_cases++;
    if (bad) fprintf(stderr, "again: sweep_test %s '%s' %d\n", at->op->kernel.name, at->text, at->n_parts);
    return bad;
}

/* Operands without elements: other ops may refuse theirs. */
static bool is_degenerate(const sample *s)
{
    bool any = false;
    for (int i = 0; i < s->call.n_operands; i++) any |= sample_n_elements(s, i) == 0;
    return any;
}

/* The use of `at` and those that follow from it. Findings. */
static int try_case(test_random *random)
{
    static sample     s;
    static sweep_list related;
    int               bad = try_kernel();
    if (bad || !take(&s) || !sweep_is_small(&s)) return bad;
    ipu_status status = sweep_relate(&s, &related);
    if (status != IPU_OK && status != IPU_UNSUPPORTED && !is_degenerate(&s)) {
        fprintf(stderr, "%s (%s): emitting it and its gradient: %s\n", at->op->kernel.name, at->text,
                ipu_message());
        return 1;
    }
    for (int i = 0; i < related.n && !bad; i++) {
        if (related.n > 4 && random_chance(random, 50)) continue;
        at->op = related.op[i];
        strcpy(at->text, related.text[i]);
        bad += try_kernel();
    }
    return bad;
}

/* The samples themselves, in each of `parts`. */
static int walk_op(const ipu__op_def *op)
{
    int bad = 0;
    at->op  = op;
    for (size_t i = 0; op->samples[i]; i++)
        for (size_t k = 0; k < n_parts && bad < MOST_FINDINGS; k++) {
            limit_time();
            snprintf(at->text, sizeof at->text, "%s", op->samples[i]);
            at->n_parts = parts[k];
            bad += try_kernel() > 0;
        }
    return bad;
}

/* In a process of its own. Findings. */
static int sweep_op(const ipu__op_def *op)
{
    double      end    = now() + seconds;
    int         bad    = 0;
    int         cases  = (int)test_number("SWEEP_CASES", CASES);
    test_random random = {seed};
    for (const char *c = op->kernel.name; *c; c++) random.state = random_bits(&random) + (unsigned char)*c;
    for (int round = 0; bad < MOST_FINDINGS && (seconds > 0 ? now() < end : round < cases); round++)
        for (size_t i = 0; op->samples[i] && bad < MOST_FINDINGS && (seconds == 0 || now() < end); i++) {
            limit_time();
            at->op = op;
            if (!sweep_make(&random, op, i, at->text)) continue;
            at->n_parts = sweep_parts(&random);
            bad += try_case(&random) > 0;
        }
    return bad;
}

static void check_op(void **state)
{
    const ipu__op_def *op = *state;
    int                status;
    memset(at, 0, sizeof *at);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (int s = 1; s < 32; s++) signal(s, SIG_DFL);
        int bad = n_parts ? walk_op(op) : sweep_op(op);
        fflush(NULL);
        _exit(bad);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status) || WEXITSTATUS(status) > MOST_FINDINGS)
        fail_msg("%s: %s\nagain: sweep_test %s '%s' %d", at->op->kernel.name,
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "died", at->op->kernel.name, at->text,
                 at->n_parts);
    if (getenv("SWEEP_SECONDS")) fprintf(stderr, "# %s: %ld cases\n", op->kernel.name, at->n_cases);
    if (WEXITSTATUS(status))
        fail_msg("%d findings with SWEEP_SEED=%llu", WEXITSTATUS(status), (unsigned long long)seed);
}

static bool is_asked_for(const char *name, char *const *names, int n)
{
    bool found = n == 0;
    for (int i = 0; i < n; i++) found |= strcmp(names[i], name) == 0;
    return found;
}

static int run_chosen(char *const *names, int n_names)
{
    size_t n_ops = 0, n = 0;
    while (ipu__ops[n_ops]) n_ops++;
    struct CMUnitTest *tests = calloc(n_ops + 1, sizeof *tests);
    if (!tests) return 1;
    for (size_t i = 0; i < n_ops; i++) {
        void       *op   = (void *)(uintptr_t)ipu__ops[i];
        const char *name = ipu__ops[i]->kernel.name;
        if (is_asked_for(name, names, n_names))
            tests[n++] = (struct CMUnitTest){name, check_op, NULL, NULL, op};
    }
    seconds    = (double)test_number("SWEEP_SECONDS", 0) / (double)(n ? n : 1);
    int failed = _cmocka_run_group_tests("sweep", tests, n, NULL, NULL);
    free(tests);
    return failed;
}

int main(int argc, char **argv)
{
    omp_set_num_threads(1); /* as the engine's threads do */
    guarded_from_reads = true;
    at                 = mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    seed               = test_number("SWEEP_SEED", getenv("SWEEP_SECONDS") ? (uint64_t)time(NULL) : 1);
    if (at == MAP_FAILED) return 1;
    if (argc == 4 && ipu__op_find(argv[1]) && atoi(argv[3]) > 0) {
        snprintf(at->text, sizeof at->text, "%s", argv[2]);
        at->n_parts = atoi(argv[3]);
        at->op      = ipu__op_find(argv[1]);
        return try_case(&(test_random){seed});
    }
    fprintf(stderr, "# SWEEP_SEED=%llu\n", (unsigned long long)seed);
    if (argc > 2 && strcmp(argv[1], "parts") == 0) {
        for (int i = 2; i < argc && n_parts < sizeof parts / sizeof *parts; i++)
            if (atoi(argv[i]) > 0) parts[n_parts++] = atoi(argv[i]);
        return run_chosen(NULL, 0);
    }
    return run_chosen(argv + 1, argc - 1);
}

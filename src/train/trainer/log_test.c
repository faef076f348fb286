/* Logs of trainings: tables and event files against what the events told; killed and gone on with, no step is there twice; what is
 * there already; several processes; what cannot be written. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "comm/threads_test.h"
#include "event.pb-c.h"
#include "ipu/ipu.h"
#include "summary/events_test.h"
#include "train/trainer/trainer_test.h"

static char logs[128];

static ipu_trainer_options logged(void)
{
    ipu_trainer_options o = usual();
    o.log_folder          = logs;
    return o;
}

/* ---- reading ---- */

enum { MOST_ROWS = 512, MOST_COLUMNS = 12 };

typedef struct table {
    char   header[256];
    int    n;
    double at[MOST_ROWS][MOST_COLUMNS]; /* nan: empty */
    char   last[MOST_ROWS][64];         /* the last cell as text */
} table;

static void read_row(table *t, char *line)
{
    int column = 0;
    for (char *cell = line; cell && column < MOST_COLUMNS;) {
        char *comma = strchr(cell, ',');
        if (comma) *comma = 0;
        t->at[t->n][column++] = *cell ? strtod(cell, NULL) : (double)NAN;
        if (!comma) snprintf(t->last[t->n], sizeof *t->last, "%.63s", cell);
        cell = comma ? comma + 1 : NULL;
    }
    t->n++;
}

static table read_table(const char *name)
{
    table t = {0};
    char  path[256], line[512];
    snprintf(path, sizeof path, "%s/%s", logs, name);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("no %s", path);
    while (fgets(line, sizeof line, f)) {
        char *tail = strchr(line, '\n');
        assert_non_null(tail);
        *tail = 0;
        if (!*t.header)
            snprintf(t.header, sizeof t.header, "%.255s", line);
        else
            read_row(&t, line);
        assert_true(t.n < MOST_ROWS);
    }
    fclose(f);
    return t;
}

/* What a reader of all event files knows of a tag: values by step; a START supersedes. */
typedef struct curve {
    int   n_at[MOST_ROWS]; /* how often there is a value */
    float at[MOST_ROWS];
} curve;

typedef struct board {
    int   n_files, n_texts, n_histograms, n_starts;
    curve loss, rate, test_loss, test_accuracy, epoch_loss;
    char  text[2048];
} board;

static void take_value(board *b, int64_t step, const Ipu__Tfevents__Summary__Value *v)
{
    curve *c = !strcmp(v->tag, "train/loss")    ? &b->loss
             : !strcmp(v->tag, "train/rate")    ? &b->rate
             : !strcmp(v->tag, "test/loss")     ? &b->test_loss
             : !strcmp(v->tag, "test/accuracy") ? &b->test_accuracy
             : !strcmp(v->tag, "epoch/loss")    ? &b->epoch_loss
                                                : NULL;
    assert_true(step >= 0 && step < MOST_ROWS);
    b->n_histograms += v->histo != NULL;
    if (v->tensor) {
        b->n_texts++;
        snprintf(b->text, sizeof b->text, "%.*s", (int)v->tensor->string_val[0].len,
                 (const char *)v->tensor->string_val[0].data);
    }
    if (!c) return;
    c->n_at[step]++;
    c->at[step] = v->simple_value;
}

static void supersede(curve *c, int64_t step)
{
    for (int64_t i = step; i < MOST_ROWS; i++) c->n_at[i] = 0;
}

static void take_file(board *b, const char *path)
{
    test_events all;
    test_events_read(path, &all);
    b->n_files++;
    for (size_t i = 0; i < all.n; i++) {
        Ipu__Tfevents__Event *e = ipu__tfevents__event__unpack(NULL, all.at[i].bytes, all.at[i].data);
        assert_non_null(e);
        if (e->session_log) {
            curve *all_curves[] = {&b->loss, &b->rate, &b->test_loss, &b->test_accuracy, &b->epoch_loss};
            for (size_t k = 0; k < 5; k++) supersede(all_curves[k], e->step);
            b->n_starts++;
        }
        for (size_t k = 0; e->summary && k < e->summary->n_value; k++)
            take_value(b, e->step, e->summary->value[k]);
        ipu__tfevents__event__free_unpacked(e, NULL);
    }
    test_events_free(&all);
}

/* In the order of their names. */
static board read_board(void)
{
    board           b = {0};
    struct dirent **names;
    char            path[512];
    int             n = scandir(logs, &names, NULL, alphasort);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%.200s", logs, names[i]->d_name);
        if (strstr(names[i]->d_name, "tfevents")) take_file(&b, path);
        free(names[i]);
    }
    free(names);
    return b;
}

static int n_points(const curve *c)
{
    int n = 0;
    for (int i = 0; i < MOST_ROWS; i++) {
        assert_true(c->n_at[i] <= 1);
        n += c->n_at[i];
    }
    return n;
}

/* Each step once, from 1. */
static void check_steps(int n)
{
    table steps = read_table("steps.csv");
    board b     = read_board();
    assert_int_equal(steps.n, n);
    assert_int_equal(n_points(&b.loss), n);
    for (int i = 0; i < n; i++) {
        assert_true(steps.at[i][0] == i + 1 && b.loss.n_at[i + 1] == 1);
        assert_true(fabs(steps.at[i][3] - (double)b.loss.at[i + 1]) < 1e-6);
    }
}

static void check_epochs(int n)
{
    table epochs = read_table("epochs.csv");
    board b      = read_board();
    assert_int_equal(epochs.n, n);
    assert_int_equal(n_points(&b.test_loss), n);
    assert_int_equal(n_points(&b.epoch_loss), n);
    for (int i = 0; i < n; i++) {
        assert_true(epochs.at[i][0] == i + 1 && epochs.at[i][1] == RUNS * (i + 1));
        const int step = RUNS * (i + 1);
        assert_true(fabs(epochs.at[i][2] - (double)b.epoch_loss.at[step]) < 1e-6);
        assert_true(fabs(epochs.at[i][4] - (double)b.test_loss.at[step]) < 1e-6);
        assert_true(fabs(epochs.at[i][5] - (double)b.test_accuracy.at[step]) < 1e-6);
    }
}

/* ---- a whole training ---- */

static void test_whole(void **state)
{
    (void)state;
    story s        = {0};
    bits  expected = whole(usual());
    assert_ok(run(&s, logged()));
    assert_same_bits(expected, take_bits(&s));
    ipu_trainer_results r      = results(&s);
    table               steps  = read_table("steps.csv");
    table               epochs = read_table("epochs.csv");
    board               b      = read_board();
    assert_string_equal(
        steps.header,
        "step,epoch,batch,loss,mean_loss,accuracy,rate,samples,samples_per_second,seconds,time");
    assert_string_equal(
        epochs.header,
        "epoch,step,loss,accuracy,test_loss,test_accuracy,samples,samples_per_second,seconds,time");
    check_steps(3 * RUNS);
    check_epochs(3);
    for (int i = 0; i < 3 * RUNS; i++) {
        const double *row   = steps.at[i];
        int           epoch = i / RUNS + 1;
        assert_true(row[1] == epoch && row[2] == i % RUNS + 1 && row[7] == (i + 1) * BATCH);
        assert_true(fabs(row[3] - r.points[i]) < 1e-8 && row[6] == s.rates[i] && row[5] >= 0 && row[5] <= 1);
        assert_true(row[8] > 0 && row[9] > (i ? steps.at[i - 1][9] : 0));
        assert_true(b.rate.at[i + 1] == (float)s.rates[i]);
        assert_int_equal(strlen(steps.last[i]), strlen("2026-01-01T00:00:00.000Z"));
    }
    assert_true(fabs(steps.at[3 * RUNS - 1][4] - r.epochs[2].loss) < 1e-8);
    for (int i = 0; i < 3; i++) {
        const ipu_trainer_epoch *e   = &r.epochs[i];
        const double            *row = epochs.at[i];
        assert_true(fabs(row[2] - e->loss) < 1e-8 && fabs(row[3] - e->accuracy) < 1e-8);
        assert_true(fabs(row[4] - e->test_loss) < 1e-8 && fabs(row[5] - e->test_accuracy) < 1e-8);
        assert_true(row[6] == RUNS * BATCH && row[7] > 0);
        assert_true(b.test_loss.at[RUNS * (i + 1)] == (float)e->test_loss);
    }
    assert_true(b.n_files == 1 && b.n_starts == 0 && b.n_texts == 1 && b.n_histograms == 0);
    assert_non_null(strstr(b.text, "| batch-size | 4 |\n"));
    close_story(&s);
}

static void test_every(void **state)
{
    (void)state;
    story               s = {0};
    ipu_trainer_options o = logged();
    o.log_every           = 4;
    o.log_weights         = true;
    o.test                = NULL;
    assert_ok(run(&s, o));
    table steps = read_table("steps.csv"), epochs = read_table("epochs.csv");
    board b = read_board();
    assert_int_equal(steps.n, 3 * RUNS / 4);
    for (int i = 0; i < steps.n; i++) assert_true(steps.at[i][0] == 4 * (i + 1));
    assert_true(steps.at[1][8] > 0 && steps.at[1][7] == 8 * BATCH);
    assert_true(epochs.n == 3 && isnan(epochs.at[0][4]) && isnan(epochs.at[0][5]));
    assert_int_equal(b.n_histograms, 3 * (int)ipu_module_n_weights(s.module));
    assert_int_equal(n_points(&b.test_loss) + n_points(&b.test_accuracy), 0);
    assert_int_equal(n_points(&b.epoch_loss), 3);
    close_story(&s);
}

/* ---- killed, interrupted, gone on with ---- */

static void kill_at(void *user, const ipu_trainer_step *step)
{
    if (step->epoch * RUNS + step->batch + 1 == *(const int64_t *)user) kill(getpid(), SIGKILL);
}

/* A process of its own is killed after so many runs, with the last checkpoint before. */
static void train_killed(ipu_trainer_options o, int64_t at)
{
    int   code;
    pid_t child = fork();
    if (child == 0) {
        ipu_trainer *t;
        o.events = (ipu_trainer_events){.user = &at, .step = kill_at};
        if (ipu_module_create(forward, NULL, &o.module) == IPU_OK && ipu_trainer_create(&o, &t) == IPU_OK)
            ipu_trainer_run(t);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_true(WIFSIGNALED(code) && WTERMSIG(code) == SIGKILL);
}

static void test_killed(void **state)
{
    (void)state;
    story               s = {0};
    ipu_trainer_options o = logged();
    o.checkpoint_folder   = folder;
    o.checkpoint_every    = 7;
    o.begin               = IPU_TRAINER_RESUME;
    train_killed(o, 5); /* before the first checkpoint */
    check_steps(5);
    train_killed(o, 26); /* after that of run 21 */
    check_steps(26);
    check_epochs(2);
    train_killed(o, 23); /* before the end of an epoch is reached again */
    check_steps(23);
    check_epochs(2);
    assert_ok(run(&s, o));
    assert_int_equal(results(&s).resumed_from, 21);
    check_steps(3 * RUNS);
    check_epochs(3);
    assert_int_equal(read_board().n_files, 4);
    assert_same_bits(whole(usual()), take_bits(&s));
    close_story(&s);
}

/* A checkpoint that is due at the end of an epoch knows of that epoch. */
static void test_killed_after_epoch(void **state)
{
    (void)state;
    story               s = {0};
    ipu_trainer_options o = logged();
    o.checkpoint_folder   = folder;
    o.checkpoint_every    = RUNS;
    o.begin               = IPU_TRAINER_RESUME;
    train_killed(o, 2 * RUNS + 3);
    assert_ok(run(&s, o)); /* on_epoch looks at the number of samples */
    assert_int_equal(results(&s).resumed_from, 2 * RUNS);
    assert_int_equal(results(&s).n_epochs, 3);
    check_steps(3 * RUNS);
    check_epochs(3);
    close_story(&s);
}

static void test_interrupted_test(void **state)
{
    (void)state;
    story               s = {.stop_in_test = true};
    ipu_trainer_options o = logged();
    o.checkpoint_folder   = folder;
    assert_int_equal(run(&s, o), IPU_INTERRUPTED);
    check_epochs(0);
    assert_ok(ipu_trainer_run(s.trainer));
    check_epochs(3);
    check_steps(3 * RUNS);
    close_story(&s);
}

/* ---- what is there already ---- */

static void test_begins(void **state)
{
    (void)state;
    story               s = {0};
    char                before[160];
    ipu_trainer_options o = logged();
    o.n_epochs            = 1;
    assert_ok(run(&s, o));
    close_story(&s);
    assert_int_equal(run(&s, o), IPU_INVALID);
    assert_says("/log holds the log of an earlier training");
    assert_says("IPU_TRAINER_RESTART");
    assert_int_equal(results(&s).runs, 0);
    close_story(&s);
    check_steps(RUNS);
    o.begin    = IPU_TRAINER_RESTART;
    o.n_epochs = 2;
    assert_ok(run(&s, o));
    close_story(&s);
    check_steps(2 * RUNS);
    check_epochs(2);
    snprintf(before, sizeof before, "%s/steps.csv.before", logs);
    assert_int_equal(access(before, R_OK), 0);
    o.begin             = IPU_TRAINER_RESUME; /* from nothing */
    o.checkpoint_folder = folder;
    o.n_epochs          = 1;
    assert_ok(run(&s, o));
    close_story(&s);
    check_steps(RUNS);
    snprintf(before, sizeof before, "%s/steps.csv.before.2", logs);
    assert_int_equal(access(before, R_OK), 0);
    assert_ok(run(&s, o)); /* finished */
    close_story(&s);
    check_steps(RUNS);
}

static void refused(const char *why)
{
    story s = {0};
    assert_int_not_equal(run(&s, logged()), IPU_OK);
    assert_says(why);
    assert_int_equal(s.n_compiled, 0);
    close_story(&s);
}

static void test_refused(void **state)
{
    (void)state;
    char  path[160];
    FILE *f = fopen(logs, "w");
    assert_non_null(f);
    fclose(f);
    refused("Not a directory");
    remove(logs);
    assert_int_equal(mkdir(logs, 0777), 0);
    snprintf(path, sizeof path, "%s/epochs.csv", logs);
    f = fopen(path, "w");
    fputs("mine\n", f);
    fclose(f);
    refused("epochs.csv: its first line is not \"epoch,");
    remove(path);
    assert_int_equal(mkdir(path, 0777), 0);
    refused("cannot write");
    rmdir(path);
    story a = {0}, b = {0};
    a.stop_at = 1;
    assert_int_equal(run(&a, logged()), IPU_INTERRUPTED); /* still open */
    assert_int_equal(run(&b, logged()), IPU_BUSY);
    assert_says("another process is writing to it");
    close_story(&a);
    close_story(&b);
}

/* ---- no room ---- */

enum { LONG = 30 }; /* epochs, whose table takes some 30 KiB */

static void limit_at(void *user, const ipu_trainer_step *step)
{
    const struct rlimit small = {8192, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    (void)user;
    if (step->epoch == 0 && step->batch == 1) setrlimit(RLIMIT_FSIZE, &small);
    if (step->epoch == LONG - 1 && step->batch == 1) setrlimit(RLIMIT_FSIZE, &none);
}

static int train_without_room(void)
{
    story               s = {0};
    ipu_trainer_options o = logged();
    o.n_epochs            = LONG;
    o.events              = (ipu_trainer_events){.user = &s, .step = limit_at, .message = on_message};
    if (ipu_module_create(forward, NULL, &o.module) != IPU_OK || ipu_trainer_create(&o, &s.trainer) != IPU_OK)
        return 1;
    if (ipu_trainer_run(s.trainer) != IPU_OK) return 2;
    if (s.n_warnings != 1 || !strstr(s.message, "the log: cannot write")
        || !strstr(s.message, "File too large"))
        return 3;
    return strstr(s.message, "the training goes on") ? 0 : 4;
}

static void test_no_room(void **state)
{
    (void)state;
    int   code;
    pid_t child = fork();
    if (child == 0) _exit(train_without_room());
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    table steps = read_table("steps.csv");
    board b     = read_board();
    assert_true(steps.n > 40 && steps.n < (LONG - 1) * RUNS);
    assert_true(steps.at[steps.n - 1][0] == LONG * RUNS && steps.at[39][0] == 40);
    assert_true(b.loss.n_at[LONG * RUNS] == 1);
}

/* When the table of steps has more than 8 KiB. */
static void stop_late(void *user, const ipu_trainer_step *step)
{
    if (step->epoch == LONG - 10 && step->batch == 2) ipu_trainer_interrupt(((story *)user)->trainer);
}

/* Steps have no room in their table; epochs have, and so do events, of which there is a new file. */
static int go_on_without_room(ipu_trainer_options o)
{
    story s  = {0};
    o.events = (ipu_trainer_events){.user = &s, .step = limit_at, .message = on_message};
    if (ipu_module_create(forward, NULL, &o.module) != IPU_OK || ipu_trainer_create(&o, &s.trainer) != IPU_OK)
        return 1;
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){8192, RLIM_INFINITY});
    if (ipu_trainer_run(s.trainer) != IPU_OK) return 2;
    return s.n_warnings == 1 && strstr(s.message, "steps.csv: File too large") ? 0 : 3;
}

static void test_no_room_for_steps(void **state)
{
    (void)state;
    int                 code;
    story               s = {0};
    ipu_trainer_options o = logged();
    o.n_epochs            = LONG;
    o.checkpoint_folder   = folder;
    o.checkpoint_every    = 100000;
    o.begin               = IPU_TRAINER_RESUME;
    o.events              = (ipu_trainer_events){.user = &s, .step = stop_late};
    assert_ok(ipu_module_create(forward, NULL, &s.module));
    o.module = s.module;
    assert_ok(ipu_trainer_create(&o, &s.trainer));
    assert_int_equal(ipu_trainer_run(s.trainer), IPU_INTERRUPTED);
    close_story(&s);
    pid_t child = fork();
    if (child == 0) _exit(go_on_without_room(o));
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    table steps = read_table("steps.csv");
    assert_int_equal(steps.n, (LONG - 10) * RUNS + 3 + RUNS - 2); /* it goes on when there is room */
    check_epochs(LONG);
}

/* ---- several processes ---- */

typedef struct process {
    int64_t             rank;
    ipu_trainer_options options;
    ipu_status          status;
    char                message[512];
    pthread_t           thread;
} process;

static void *run_process(void *arg)
{
    process     *p   = arg;
    end          own = {p->rank};
    ipu_trainer *t   = NULL;
    if (ipu__comm_create(&threads, &own, &p->options.executor.comm) != IPU_OK) return NULL;
    p->status = ipu_module_create(forward, NULL, &p->options.module);
    if (p->status == IPU_OK) p->status = ipu_trainer_create(&p->options, &t);
    if (p->status == IPU_OK) p->status = ipu_trainer_run(t);
    snprintf(p->message, sizeof p->message, "%s", ipu_message());
    ipu_trainer_destroy(t);
    ipu_module_destroy(p->options.module);
    ipu_comm_close(p->options.executor.comm);
    return NULL;
}

static void run_both(process *p)
{
    n_ranks = 2;
    for (int64_t r = 0; r < 2; r++) {
        p[r].rank   = r;
        p[r].status = IPU_DEVICE_ERROR;
        assert_int_equal(pthread_create(&p[r].thread, NULL, run_process, &p[r]), 0);
    }
    for (int64_t r = 0; r < 2; r++) pthread_join(p[r].thread, NULL);
    drop_letters();
}

static void test_processes(void **state)
{
    (void)state;
    ipu_trainer_options o   = logged();
    o.loader.batch_size     = 2;
    process p[2]            = {{.options = o}, {.options = o}};
    p[1].options.log_folder = NULL; /* as it may be */
    run_both(p);
    for (int r = 0; r < 2; r++)
        if (p[r].status != IPU_OK) fail_msg("rank %d: %s", r, p[r].message);
    check_steps(3 * RUNS);
    check_epochs(3);
    assert_int_equal(read_board().n_files, 1);
    table steps = read_table("steps.csv");
    assert_true(steps.at[0][7] == 4);
    p[1].options.log_folder = logs;
    run_both(p); /* it is there */
    assert_int_equal(p[0].status, IPU_INVALID);
    assert_int_equal(p[1].status, IPU_INVALID);
    assert_non_null(strstr(p[0].message, "holds the log of an earlier training"));
    assert_non_null(strstr(p[1].message, "process 0 of the training has failed"));
}

/* ---- what they share ---- */

static int empty_all(void **state)
{
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", logs);
    return empty_folder(state) + system(command);
}

static int begin_logs(void **state)
{
    int status = begin_all(state);
    snprintf(logs, sizeof logs, "%s/log", box);
    return status;
}

#define each(test) cmocka_unit_test_teardown(test, empty_all)

int main(void)
{
    const struct CMUnitTest tests[] = {each(test_whole),
                                       each(test_every),
                                       each(test_killed),
                                       each(test_killed_after_epoch),
                                       each(test_interrupted_test),
                                       each(test_begins),
                                       each(test_refused),
                                       each(test_no_room),
                                       each(test_no_room_for_steps),
                                       each(test_processes)};
    return cmocka_run_group_tests_name("trainer_log", tests, begin_logs, end_all);
}

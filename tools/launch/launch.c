/* Runs mpirun with the requested instances on each host, and reports the outcome. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "output.h"
#include "launch/poprun.h"
#include "words.h"

/* ---- the command line ---- */

/* Splits an option's text into words as a shell would, but without expansions. */
static void add_text(words *l, const char *text)
{
    char  *word  = text ? malloc(strlen(text) + 1) : NULL;
    size_t n     = 0;
    char   quote = 0;
    bool   open  = false;
    if (text && !word) l->failed = true;
    for (const char *c = text; word && *c; c++) {
        if (quote ? *c == quote : *c == '"' || *c == '\'') {
            quote = quote ? 0 : *c;
            open  = true;
        } else if (!quote && (*c == ' ' || *c == '\t')) {
            word[n] = 0;
            if (n > 0 || open) words_add(l, word);
            n    = 0;
            open = false;
        } else {
            word[n++] = *c;
        }
    }
    if (word && (n > 0 || open)) {
        word[n] = 0;
        words_add(l, word);
    }
    free(word);
}

/* Variables passed on to instances on other hosts: ours, and those that affect how programs run. */
static bool is_passed_on(const char *variable)
{
    static const char *const begins[] = {
        "IPU_",  "IPUOF_",           "POPTORCH_",   "POPLAR_",         "GCDA_",
        "PATH=", "LD_LIBRARY_PATH=", "PYTHONPATH=", "OMP_NUM_THREADS="};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strncmp(variable, begins[i], strlen(begins[i]))) return true;
    return false;
}

static void add_environment(words *l)
{
    for (char **v = environ; *v; v++) {
        char name[256];
        int  n = (int)strcspn(*v, "=");
        if (!is_passed_on(*v) || n >= (int)sizeof name) continue;
        snprintf(name, sizeof name, "%.*s", n, *v);
        words_add_two(l, "-x", name);
    }
}

static void add_hosts(words *l, const poprun *p)
{
    for (int64_t i = 0; i < p->n_hosts; i++) {
        char host[400];
        snprintf(host, sizeof host, "%s:%lld", p->hosts[i], (long long)(p->n_instances / p->n_hosts));
        words_add_two(l, "--host", host);
    }
}

static void add_subnet(words *l, const char *subnet)
{
    if (!subnet) return;
    words_add(l, "--mca");
    words_add_two(l, "btl_tcp_if_include", subnet);
    words_add(l, "--mca");
    words_add_two(l, "oob_tcp_if_include", subnet);
}

/* On a single host mpirun needs no ssh, but insists on having one that it never uses. */
static void add_launcher(words *l, const poprun *p)
{
    const char *own = p->values[POPRUN_GLOBAL_ARGS];
    if (p->n_hosts != 1 || strcmp(p->hosts[0], "localhost") != 0 || (own && strstr(own, "plm"))) return;
    words_add(l, "--mca");
    words_add_two(l, "plm", "isolated");
}

static void build(words *l, const poprun *p, const char *self)
{
    char n[32];
    snprintf(n, sizeof n, "%lld", (long long)p->n_instances);
    words_add(l, "mpirun");
    if (geteuid() == 0) words_add(l, "--allow-run-as-root");
    words_add(l, "--quiet");
    words_add_two(l, "--tag-output", "--bind-to");
    words_add(l, p->numa_aware ? "numa" : "none");
    add_launcher(l, p);
    add_subnet(l, p->values[POPRUN_SUBNET]);
    add_text(l, p->values[POPRUN_GLOBAL_ARGS]);
    add_hosts(l, p);
    words_add_two(l, "-np", n);
    add_environment(l);
    add_text(l, p->values[POPRUN_LOCAL_ARGS]);
    words_add_two(l, self, "poprun");
    words_add(l, "--");
    for (int i = 0; i < p->n_program; i++) words_add(l, p->program[i]);
}

/* ---- the instances' environment ---- */

static bool set_number(const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return setenv(name, text, 1) == 0;
}

static bool set_environment(const poprun *p)
{
    const char *cache = p->values[POPRUN_CACHE];
    bool        ok    = set_number("IPU_POPRUN_REPLICAS", p->n_replicas)
           && set_number("IPU_POPRUN_INSTANCES", p->n_instances)
           && set_number("IPU_POPRUN_IPUS_PER_REPLICA", p->ipus_per_replica)
           && setenv(POPRUN_STAGE, "instance", 1) == 0;
    if (ok && p->only_output >= 0) ok = set_number("IPU_POPRUN_ONLY_OUTPUT", p->only_output);
    if (ok && cache) ok = setenv("IPU_CACHE_DIR", cache, 1) == 0;
    if (ok && p->offline) ok = setenv("IPU_ENGINE_OPTIONS", "{\"device.attach\": \"never\"}", 1) == 0;
    return ok;
}

/* ---- running ---- */

static volatile sig_atomic_t running; /* mpirun's PID, or 0 */
static volatile sig_atomic_t stopped;

static void pass_on(int number)
{
    stopped = 1;
    if (running) kill((pid_t)running, number);
}

static void catch_signals(void (*handler)(int))
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
        sigemptyset(&action.sa_mask);
        sigaction(numbers[i], &action, NULL);
    }
}

static tool_exit wait_for(poprun *p, pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    running = 0;
    if (WIFSIGNALED(status)) {
        poprun_log(p, 'E', "mpirun (PID %ld) was killed by signal %d", (long)pid, WTERMSIG(status));
        return (tool_exit)(128 + WTERMSIG(status));
    }
    if (WEXITSTATUS(status) != 0 && !stopped)
        poprun_log(p, 'E', "an instance failed, or ended while others waited for it: all were ended");
    poprun_log(p, 'I', "mpirun (PID %ld) terminated with exit code %d", (long)pid, WEXITSTATUS(status));
    return (tool_exit)WEXITSTATUS(status);
}

static tool_exit start(poprun *p, const words *l)
{
    int   report[2], problem = 0;
    pid_t pid = pipe(report) == 0 ? fork() : -1;
    if (pid < 0) return tool_fail("cannot start mpirun: %s", strerror(errno));
    if (pid == 0) {
        close(report[0]);
        signal(SIGPIPE, SIG_IGN);
        if (!set_environment(p)) _exit(1);
        /* A successful exec closes this end, which tells the other that the program has started. */
        if (fcntl(report[1], F_SETFD, FD_CLOEXEC) == 0) execvp(l->at[0], l->at);
        problem = errno;
        if (write(report[1], &problem, sizeof problem) < 0) _exit(126);
        _exit(127);
    }
    running = (sig_atomic_t)pid;
    catch_signals(pass_on);
    close(report[1]);
    bool failed = read(report[0], &problem, sizeof problem) == (ssize_t)sizeof problem;
    close(report[0]);
    if (failed) {
        waitpid(pid, NULL, 0);
        return tool_fail("mpirun: %s: install Open MPI (Debian: openmpi-bin), or put it on the PATH",
                         strerror(problem));
    }
    poprun_log(p, 'D', "mpirun has PID %ld", (long)pid);
    return wait_for(p, pid);
}

tool_exit poprun_launch(poprun *p)
{
    words l    = {0};
    char *self = realpath("/proc/self/exe", NULL);
    if (!self) return tool_fail("cannot find this program: %s", strerror(errno));
    if (!set_environment(p)) return tool_fail("out of memory");
    build(&l, p, self);
    unsetenv(POPRUN_STAGE);
    tool_exit code = l.failed ? tool_fail("out of memory") : TOOL_OK;
    if (code == TOOL_OK) {
        for (size_t i = 0; i < l.n; i++) poprun_log(p, 'T', "argument %zu: %s", i, l.at[i]);
        poprun_log(p, 'D', "%lld replicas in %lld instances on %lld hosts", (long long)p->n_replicas,
                   (long long)p->n_instances, (long long)p->n_hosts);
        code = start(p, &l);
    }
    words_free(&l);
    free(self);
    return code;
}

/* Commands run for alerts: started by posix_spawn and tended without blocking. */
#include "monitor/alert_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

enum { N_OWN = 14, SETTING = 320 };

/* The variables of one command. */
typedef struct settings {
    char text[N_OWN][SETTING];
    int  n;
} settings;

typedef struct running {
    pid_t  pid; /* 0 if none */
    time_t until;
    bool   ended; /* because it took too long */
    char   what[ALERT_SUBJECT + ALERT_TEXT + 16];
} running;

typedef struct waiting {
    struct waiting *next;
    settings        settings;
    char            what[ALERT_SUBJECT + ALERT_TEXT + 16];
} waiting;

struct alert_exec {
    char *command;
    bool  quiet;
    void (*tell)(void *to, const char *text);
    void    *to;
    running  children[ALERT_COMMANDS];
    waiting *first, **last;
    int      n_waiting;
};

alert_exec *alert_exec_create(const char *command, bool quiet, void (*tell)(void *to, const char *text),
                              void *to)
{
    alert_exec *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    *x = (alert_exec){.command = strdup(command), .quiet = quiet, .tell = tell, .to = to};
    if (!x->command) {
        free(x);
        return NULL;
    }
    x->last = &x->first;
    return x;
}

void alert_exec_destroy(alert_exec *x)
{
    if (!x) return;
    while (x->first) {
        waiting *w = x->first;
        x->first   = w->next;
        free(w);
    }
    free(x->command);
    free(x);
}

static void tell(const alert_exec *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(const alert_exec *x, const char *format, ...)
{
    char    text[ALERT_PROBLEM];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    x->tell(x->to, text);
}

/* ---- the environment ---- */

static void set(settings *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void set(settings *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->text[s->n++], SETTING, format, args);
    va_end(args);
}

static void set_number(settings *s, const char *name, bool there, long long number)
{
    if (there)
        set(s, "%s=%lld", name, number);
    else
        set(s, "%s=", name);
}

static void describe(settings *s, const alert_rule *rule, const alert *one)
{
    char value[ALERT_VALUE];
    alert_value_text(rule, one->value, value);
    *s = (settings){0};
    set(s, "IPU_ALERT=%s", rule->text);
    set(s, "IPU_ALERT_STATE=%s", alert_state_name(one->state));
    set(s, "IPU_ALERT_SUBJECT=%s", one->subject);
    if (isnan(one->value))
        set(s, "IPU_ALERT_VALUE=");
    else
        set(s, "IPU_ALERT_VALUE=%.15g", one->value);
    set(s, "IPU_ALERT_TEXT=%s", value);
    set_number(s, "IPU_ALERT_TIME", true, one->since_ns / 1000000000);
    set(s, "IPU_ALERT_PARTITION=%s", one->partition);
    set_number(s, "IPU_ALERT_GCD", true, one->gcd);
    set(s, "IPU_ALERT_OWNER=%s", one->owner);
    set_number(s, "IPU_ALERT_IPU", one->ipu >= 0, one->ipu);
    set_number(s, "IPU_ALERT_IPUS", true, one->n_ipus);
    set_number(s, "IPU_ALERT_PID", one->pid > 0, one->pid);
    set(s, "IPU_ALERT_USER=%s", one->user);
    set(s, "IPU_ALERT_COMMAND=%s", one->command);
}

/* This process's environment, less any variables of ours, plus these. NULL if out of memory. */
static char **environment(settings *s)
{
    int n = 0, k = 0;
    while (environ && environ[n]) n++;
    char **all = calloc((size_t)n + N_OWN + 1, sizeof *all);
    if (!all) return NULL;
    for (int i = 0; i < n; i++)
        if (strncmp(environ[i], "IPU_ALERT", 9) != 0) all[k++] = environ[i];
    for (int i = 0; i < s->n; i++) all[k++] = s->text[i];
    return all;
}

/* ---- running ---- */

/* In its own process group, so that Ctrl-C does not reach it, and with the signal dispositions programs
 * expect. */
static int spawn(const alert_exec *x, char **env, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t          attributes;
    sigset_t                   none, all;
    char                      *argv[] = {"sh", "-c", x->command, NULL};
    sigemptyset(&none);
    sigfillset(&all);
    int error = posix_spawn_file_actions_init(&files);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setflags(&attributes,
                                 POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (!error && x->quiet)
            error = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (!error) error = posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
        if (!error) error = posix_spawn(pid, "/bin/sh", &files, &attributes, argv, env);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static time_t seconds_now(void) { return (time_t)(tool_clock() / TOOL_SECOND); }

static running *free_place(alert_exec *x)
{
    for (int i = 0; i < ALERT_COMMANDS; i++)
        if (!x->children[i].pid) return &x->children[i];
    return NULL;
}

static void start(alert_exec *x, running *place, waiting *w)
{
    char **env   = environment(&w->settings);
    int    error = env ? spawn(x, env, &place->pid) : ENOMEM;
    free(env);
    if (error) {
        place->pid = 0;
        tell(x, "--exec could not be run for %s: %s", w->what, strerror(error));
        return;
    }
    place->until = seconds_now() + ALERT_SECONDS;
    place->ended = false;
    memcpy(place->what, w->what, sizeof place->what);
}

static void start_waiting(alert_exec *x)
{
    running *place;
    while (x->first && (place = free_place(x))) {
        waiting *w = x->first;
        x->first   = w->next;
        if (!x->first) x->last = &x->first;
        x->n_waiting--;
        start(x, place, w);
        free(w);
    }
}

void alert_exec_run(alert_exec *x, const alert_rule *rule, const alert *one)
{
    waiting *w = x->n_waiting < ALERT_WAITING ? calloc(1, sizeof *w) : NULL;
    if (!w) {
        tell(x, "--exec was not run for %s (%s): %d commands wait already", rule->text, one->subject,
             x->n_waiting);
        return;
    }
    describe(&w->settings, rule, one);
    snprintf(w->what, sizeof w->what, "%s, %s, %s", rule->text, one->subject, alert_state_name(one->state));
    *x->last = w;
    x->last  = &w->next;
    x->n_waiting++;
    start_waiting(x);
}

static void judge(const alert_exec *x, const running *child, int status)
{
    if (child->ended)
        tell(x, "--exec took longer than %d s for %s: it was ended", ALERT_SECONDS, child->what);
    else if (WIFSIGNALED(status))
        tell(x, "--exec was ended by signal %d for %s", WTERMSIG(status), child->what);
    else if (WEXITSTATUS(status) != 0)
        tell(x, "--exec failed for %s: exit status %d", child->what, WEXITSTATUS(status));
}

void alert_exec_tend(alert_exec *x)
{
    time_t now = seconds_now();
    for (int i = 0; i < ALERT_COMMANDS; i++) {
        running *child = &x->children[i];
        int      status;
        if (!child->pid) continue;
        pid_t found = waitpid(child->pid, &status, WNOHANG);
        if (found == child->pid) judge(x, child, status);
        if (found != 0) child->pid = 0;
        if (found == 0 && now >= child->until && !child->ended)
            child->ended = kill(-child->pid, SIGKILL) == 0;
    }
    start_waiting(x);
}

int alert_exec_n(const alert_exec *x)
{
    int n = x->n_waiting;
    for (int i = 0; i < ALERT_COMMANDS; i++) n += x->children[i].pid != 0;
    return n;
}

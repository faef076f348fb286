/* The parent of one instance, on any host: passes it its number and reports how it ended. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "output.h"
#include "launch/poprun.h"

static volatile sig_atomic_t running, stopped;

static void pass_on(int number)
{
    stopped = 1;
    if (running) kill((pid_t)running, number);
}

/* Discards the other instances' output but not their errors. */
static void choose_output(const char *rank)
{
    const char *only = getenv("IPU_POPRUN_ONLY_OUTPUT");
    if (!only || strcmp(only, rank) == 0) return;
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
    if (nowhere >= 0) close(nowhere);
}

/* Does not return. */
static void become(char **program, const char *rank, pid_t parent)
{
    tool_default_signals();
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if its parent is killed */
    if (getppid() != parent) _exit(1);
    choose_output(rank);
    execvp(program[0], program);
    fprintf(stderr, "poprun: cannot run %s: %s\n", program[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static tool_exit report(const char *rank, pid_t pid, int status)
{
    const poprun quiet     = {0};
    char         host[256] = "unknown";
    gethostname(host, sizeof host - 1);
    if (WIFEXITED(status)) {
        int code = WEXITSTATUS(status);
        if (code != 0 && !stopped)
            poprun_log(&quiet, 'E', "rank %s on host %s (PID %ld) ended with exit code %d", rank, host,
                       (long)pid, code);
        return (tool_exit)code;
    }
    int number = WTERMSIG(status);
    if (!stopped)
        poprun_log(&quiet, 'E', "rank %s on host %s (PID %ld) was killed by signal %d (%s)", rank, host,
                   (long)pid, number, strsignal(number));
    return (tool_exit)(128 + number);
}

tool_exit poprun_instance(const tool_arguments *args)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
    const char      *rank      = getenv("OMPI_COMM_WORLD_RANK");
    int              status    = 0;
    if (!rank || args->n_operands == 0)
        return tool_fail(POPRUN_STAGE " is set, which poprun does for what mpirun starts: unset it");
    unsetenv(POPRUN_STAGE);
    if (setenv("IPU_POPRUN_INSTANCE", rank, 1) != 0) return tool_fail("out of memory");
    pid_t self = getpid(), pid = fork();
    if (pid < 0) return tool_fail("cannot start %s: %s", args->operands[0], strerror(errno));
    if (pid == 0) become(args->operands, rank, self);
    running = (sig_atomic_t)pid;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
        sigemptyset(&action.sa_mask);
        sigaction(numbers[i], &action, NULL);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return report(rank, pid, status);
}

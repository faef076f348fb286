/* MPI_Init waits for all of the launcher's processes, even those that ended before calling it, which Open MPI 4 does
 * not report. Meanwhile a thread checks that all those started on this host still exist. */
#include "comm/mpi_watch_plugin.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_LOOK_MS = 3000, NEXT_LOOK_MS = 500, LOOKS = 4, MOST_RANKS = 4096, ENVIRONMENT = 1 << 17 };

static const char rank_name[] = "OMPI_COMM_WORLD_RANK", job_name[] = "PMIX_NAMESPACE";

/* ---- processes ---- */

/* Returns the number of bytes read; 0 if it is gone, or we may not read it. */
static size_t read_file(long pid, const char *name, char *out, size_t room)
{
    char   path[64];
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%ld/%s", pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    for (ssize_t got = 1; got > 0 && n<room - 1; n += got> 0 ? (size_t)got : 0)
        got = read(fd, out + n, room - 1 - n);
    close(fd);
    out[n] = 0;
    return n;
}

/* 0 if unknown. The program name, in parentheses, may contain anything. */
static long parent_of(long pid)
{
    char        text[1024], state;
    long        parent = 0;
    const char *end    = read_file(pid, "stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    return end && sscanf(end + 1, " %c %ld", &state, &parent) == 2 ? parent : 0;
}

/* An environment variable of a process, as of its start. */
static const char *variable(const char *environment, size_t n, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = environment; at < environment + n; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=') return at + length + 1;
    return NULL;
}

/* Its rank in the job; -1 if it is not part of it. */
static long rank_of(long pid, const char *job, char *buffer)
{
    size_t      n    = read_file(pid, "environ", buffer, ENVIRONMENT);
    const char *rank = variable(buffer, n, rank_name), *of = variable(buffer, n, job_name);
    return rank && of && strcmp(of, job) == 0 ? strtol(rank, NULL, 10) : -1;
}

/* The nearest ancestor outside the job. */
static long find_launcher(const char *job, char *buffer)
{
    long pid = (long)getppid();
    for (int i = 0; i < 64 && pid > 1; i++, pid = parent_of(pid))
        if (rank_of(pid, job, buffer) < 0) return pid;
    return 0;
}

/* How many ranks the launcher's children have. */
static int count_ranks(long launcher, const char *job, char *buffer, bool *seen)
{
    int            n = 0;
    DIR           *d = opendir("/proc");
    struct dirent *e;
    memset(seen, 0, MOST_RANKS * sizeof *seen);
    while (d && (e = readdir(d))) {
        long pid = strtol(e->d_name, NULL, 10);
        if (pid <= 0 || parent_of(pid) != launcher) continue;
        long rank = rank_of(pid, job, buffer);
        if (rank < 0 || rank >= MOST_RANKS || seen[rank]) continue;
        seen[rank] = true;
        n++;
    }
    if (d) closedir(d);
    return n;
}

/* ---- the thread ---- */

static bool is_over(ipu__mpi_watch *w, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&w->lock);
    int error = 0;
    while (!w->over && error == 0) error = pthread_cond_timedwait(&w->changed, &w->lock, &until);
    bool over = w->over;
    pthread_mutex_unlock(&w->lock);
    return over;
}

static void *watch(void *arg)
{
    ipu__mpi_watch *w        = arg;
    int             missing  = 0;
    char           *buffer   = malloc(ENVIRONMENT);
    bool           *seen     = calloc(MOST_RANKS, sizeof *seen);
    long            launcher = buffer && seen ? find_launcher(w->job, buffer) : 0;
    for (int ms = FIRST_LOOK_MS; launcher && !is_over(w, ms); ms = NEXT_LOOK_MS) {
        int n   = count_ranks(launcher, w->job, buffer, seen);
        missing = seen[w->rank] && n < w->expected ? missing + 1 : 0;
        if (missing < LOOKS) continue;
        fprintf(
            stderr,
            "ipu: rank %ld: of %d processes that were started together on this host, %d ended before they joined "
            "the group: all end\n",
            w->rank, w->expected, w->expected - n);
        _exit(1);
    }
    free(buffer);
    free(seen);
    return NULL;
}

void ipu__mpi_watch_begin(ipu__mpi_watch *w)
{
    const char *expected = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *rank = getenv(rank_name);
    sigset_t    all, before;
    *w = (ipu__mpi_watch){.job = getenv(job_name)};
    if (!expected || !rank || !w->job) return;
    w->expected = (int)strtol(expected, NULL, 10);
    w->rank     = strtol(rank, NULL, 10);
    if (w->expected < 2 || w->rank < 0 || w->rank >= MOST_RANKS) return;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    w->is_running = pthread_create(&w->thread, NULL, watch, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void ipu__mpi_watch_end(ipu__mpi_watch *w)
{
    if (!w->is_running) return;
    pthread_mutex_lock(&w->lock);
    w->over = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
}

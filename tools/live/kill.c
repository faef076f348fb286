/* Ends processes through descriptors (pidfd). */
#include "live/kill.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool still_holds(const live_view *v, int process, const watch *w)
{
    const watch_sample *now = watch_sample_of(w);
    for (int i = 0; i < now->n_processes; i++)
        if (!now->partitions[now->processes[i].partition].stale
            && watch_same_process(&v->picture.sample, process, now, i))
            return true;
    return false;
}

static void describe(live_kill *k, const live_view *v, const watch_process *p)
{
    char ipus[LIVE_QUESTION / 2];
    watch_ipus_text(&v->picture.sample, p, ipus, sizeof ipus);
    snprintf(k->who, sizeof k->who, "pid %lld (%s) of %s", (long long)p->pid, p->command, p->user);
    snprintf(k->what, sizeof k->what, "which holds %s", ipus);
}

/* Opens the descriptor first and looks second: if the device is held after pinning, it is held by the pinned
 * process. */
bool live_kill_begin(live_kill *k, watch *w, const live_view *v, char *problem, size_t size)
{
    const watch_process *p = live_view_process(v);
    *k                     = (live_kill){.fd = -1};
    *problem               = 0;
    if (!p) {
        snprintf(problem, size, "nobody is attached here: select a process, or an IPU that one holds");
        return false;
    }
    describe(k, v, p);
    if (p->pid <= 0) {
        snprintf(problem, size, "the process is in another namespace (a container): end it from there");
        return false;
    }
    k->pid = p->pid;
    k->fd  = (int)syscall(SYS_pidfd_open, (pid_t)p->pid, 0);
    if (k->fd < 0) {
        snprintf(problem, size, "%s: %s", k->who, errno == ESRCH ? "it is gone already" : strerror(errno));
        return false;
    }
    watch_look(w);
    if (still_holds(v, (int)(p - v->picture.sample.processes), w)) return true;
    snprintf(problem, size, "%s holds nothing here any more", k->who);
    live_kill_end(k);
    return false;
}

void live_kill_send(live_kill *k, int number, char *said, size_t size)
{
    const char *name = number == SIGKILL ? "SIGKILL" : "SIGTERM";
    if (syscall(SYS_pidfd_send_signal, k->fd, number, NULL, 0) == 0)
        snprintf(said, size, "%s sent to %s", name, k->who);
    else if (errno == ESRCH)
        snprintf(said, size, "%s: it is gone already", k->who);
    else if (errno == EPERM)
        snprintf(said, size, "%s: not permitted: only its user and root may", k->who);
    else
        snprintf(said, size, "%s: %s failed: %s", k->who, name, strerror(errno));
}

void live_kill_end(live_kill *k)
{
    if (k->fd >= 0) close(k->fd);
    k->fd = -1;
}

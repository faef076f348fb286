/* Process groups: the queue of jobs and the thread that executes them. */
#include "comm/comm.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/host/clock.h"

struct ipu_comm {
    const ipu__transport *transport; /* NULL for this process alone */
    void                 *argument;
    ipu__comm_end         end; /* used by the thread; rank, size and self are constant once it is open */
    pthread_t             thread;
    bool                  has_thread;
    pid_t                 owner;

    pthread_mutex_t lock;
    pthread_cond_t  work, done;
    ipu__comm_job  *first, *last;
    int64_t         bytes_sent;
};

/* ---- the thread ---- */

static bool open_end(ipu_comm *comm)
{
    ipu__comm_end *end = &comm->end;
    end->transport     = comm->transport;
    if (!end->transport->open(comm->argument, &end->self, &end->rank, &end->size, end->message,
                              sizeof end->message))
        return false;
    return ipu__comm_notes_open(end);
}

/* A group with unfinished jobs cannot be closed in an orderly way: the launcher ends the others. */
static void close_end(ipu__comm_end *end)
{
    if (!end->self || !end->peers) return;
    ipu__comm_part(end);
    if (!end->is_broken) end->transport->close(end->self);
}

static bool pass(ipu__comm_end *end, const ipu__comm_job *job)
{
    if (job->kind == IPU__COMM_ALL_REDUCE) return ipu__comm_all_reduce(end, job->type, job->data, job->bytes);
    if (job->kind == IPU__COMM_BROADCAST) return ipu__comm_broadcast(end, job->root, job->data, job->bytes);
    return ipu__comm_gather(end, job->root, job->data, job->bytes, job->all);
}

static bool do_job(ipu_comm *comm, ipu__comm_job *job)
{
    ipu__comm_end *end = &comm->end;
    if (job->kind == IPU__COMM_OPEN) return open_end(comm);
    if (job->kind == IPU__COMM_STOP) {
        close_end(end);
        return true;
    }
    if (end->is_broken) return false;
    end->now = (ipu__comm_note){.job   = end->now.job + 1,
                                .kind  = job->kind,
                                .type  = job->type,
                                .bytes = (int64_t)job->bytes,
                                .root  = job->root};
    bool ok  = pass(end, job);
    if (!ok) ipu__comm_break(end);
    return ok;
}

static void *work(void *arg)
{
    ipu_comm      *comm = arg;
    ipu__comm_kind kind;
    pthread_setname_np(pthread_self(), "ipu-comm");
    pthread_mutex_lock(&comm->lock);
    do {
        while (!comm->first) pthread_cond_wait(&comm->work, &comm->lock);
        ipu__comm_job *job = comm->first;
        pthread_mutex_unlock(&comm->lock);
        bool ok     = do_job(comm, job);
        job->status = ok ? IPU_OK : IPU_IO;
        if (!ok) snprintf(job->message, sizeof job->message, "%s", comm->end.message);
        pthread_mutex_lock(&comm->lock);
        comm->first = job->next;
        if (!comm->first) comm->last = NULL;
        comm->bytes_sent = comm->end.bytes_sent;
        kind             = job->kind;
        job->done        = true; /* from here on it belongs to its owner */
        pthread_cond_broadcast(&comm->done);
    } while (kind != IPU__COMM_STOP);
    pthread_mutex_unlock(&comm->lock);
    return NULL;
}

/* Signals are for the program's own threads. */
static bool start_thread(ipu_comm *comm)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    comm->has_thread = pthread_create(&comm->thread, NULL, work, comm) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return comm->has_thread;
}

/* ---- jobs ---- */

void ipu__comm_begin(ipu_comm *comm, ipu__comm_job *job)
{
    job->next   = NULL;
    job->done   = !comm->has_thread;
    job->status = IPU_OK;
    if (!comm->has_thread) { /* alone: all sums are complete, and rank 0 has everything */
        if (job->kind == IPU__COMM_GATHER && job->bytes > 0) memcpy(job->all, job->data, job->bytes);
        return;
    }
    pthread_mutex_lock(&comm->lock);
    if (comm->last)
        comm->last->next = job;
    else
        comm->first = job;
    comm->last = job;
    pthread_cond_signal(&comm->work);
    pthread_mutex_unlock(&comm->lock);
}

ipu_status ipu__comm_wait(ipu_comm *comm, ipu__comm_job *job, double *waited)
{
    if (comm->has_thread) {
        double begin = ipu__clock_seconds();
        pthread_mutex_lock(&comm->lock);
        while (!job->done) pthread_cond_wait(&comm->done, &comm->lock);
        pthread_mutex_unlock(&comm->lock);
        if (waited) *waited += ipu__clock_seconds() - begin;
    }
    return job->status == IPU_OK ? IPU_OK : ipu__fail(job->status, "%s", job->message);
}

int64_t ipu__comm_bytes(ipu_comm *comm)
{
    if (!comm->has_thread) return 0;
    pthread_mutex_lock(&comm->lock);
    int64_t bytes = comm->bytes_sent;
    pthread_mutex_unlock(&comm->lock);
    return bytes;
}

static ipu_status run(ipu_comm *comm, ipu__comm_job job)
{
    ipu_comm alone = {.owner = getpid()};
    if (!comm) comm = &alone;
    if (comm->owner != getpid())
        return ipu__fail(IPU_FORKED,
                         "the group of processes was opened before a fork, by the parent process");
    ipu__comm_begin(comm, &job);
    return ipu__comm_wait(comm, &job, NULL);
}

/* ---- life ---- */

static bool is_power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

static ipu_status open_group(ipu_comm *comm)
{
    if (!start_thread(comm)) return ipu__fail(IPU_OUT_OF_MEMORY, "no thread can be made for the group");
    IPU_TRY(run(comm, (ipu__comm_job){.kind = IPU__COMM_OPEN}));
    if (is_power_of_two(comm->end.size)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "expected 1, 2, 4, ... processes (a power of two), found %" PRId64,
                     comm->end.size);
}

ipu_status ipu__comm_create(const ipu__transport *transport, void *argument, ipu_comm **out)
{
    *out           = NULL;
    ipu_comm *comm = ipu__alloc_zeroed(sizeof *comm);
    if (!comm) return ipu__fail_memory();
    comm->transport = transport;
    comm->argument  = argument;
    comm->end.size  = 1;
    comm->owner     = getpid();
    pthread_mutex_init(&comm->lock, NULL);
    pthread_cond_init(&comm->work, NULL);
    pthread_cond_init(&comm->done, NULL);
    ipu_status status = transport ? open_group(comm) : IPU_OK;
    if (status == IPU_OK)
        *out = comm;
    else
        ipu_comm_close(comm);
    return status;
}

ipu_status ipu_comm_open(ipu_comm **out)
{
    const ipu__transport *transport = NULL;
    *out                            = NULL;
    if (ipu__comm_is_launched()) IPU_TRY(ipu__comm_load_plugin(&transport));
    return ipu__comm_create(transport, NULL, out);
}

void ipu_comm_close(ipu_comm *comm)
{
    if (!comm) return;
    if (comm->owner == getpid()) {
        if (comm->has_thread) {
            run(comm, (ipu__comm_job){.kind = IPU__COMM_STOP});
            pthread_join(comm->thread, NULL);
        }
        pthread_mutex_destroy(&comm->lock);
        pthread_cond_destroy(&comm->work);
        pthread_cond_destroy(&comm->done);
    }
    ipu__comm_end_fini(&comm->end);
    ipu__free(comm);
}

/* ---- what programs call ---- */

int64_t ipu_comm_rank(const ipu_comm *comm) { return comm ? comm->end.rank : 0; }
int64_t ipu_comm_size(const ipu_comm *comm) { return comm ? comm->end.size : 1; }

ipu_status ipu_comm_all_reduce(ipu_comm *comm, ipu_type type, void *data, size_t n)
{
    if (type != IPU_FLOAT && type != IPU_DOUBLE)
        return ipu__fail(IPU_INVALID, "ipu_comm_all_reduce: expected float or double, found %s",
                         ipu_type_name(type));
    return run(comm, (ipu__comm_job){.kind  = IPU__COMM_ALL_REDUCE,
                                     .type  = type,
                                     .data  = data,
                                     .bytes = n * ipu_type_size(type)});
}

static ipu_status check_root(const ipu_comm *comm, const char *function, int64_t root)
{
    if (root >= 0 && root < ipu_comm_size(comm)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: there is no rank %" PRId64 ": the group has %" PRId64, function, root,
                     ipu_comm_size(comm));
}

ipu_status ipu_comm_broadcast(ipu_comm *comm, int64_t root, void *data, size_t bytes)
{
    IPU_TRY(check_root(comm, "ipu_comm_broadcast", root));
    return run(comm,
               (ipu__comm_job){.kind = IPU__COMM_BROADCAST, .root = root, .data = data, .bytes = bytes});
}

ipu_status ipu_comm_gather(ipu_comm *comm, int64_t root, const void *data, size_t bytes, void *all)
{
    IPU_TRY(check_root(comm, "ipu_comm_gather", root));
    return run(comm, (ipu__comm_job){.kind  = IPU__COMM_GATHER,
                                     .root  = root,
                                     .data  = (void *)(uintptr_t)data,
                                     .bytes = bytes,
                                     .all   = all});
}

ipu_status ipu_comm_barrier(ipu_comm *comm)
{
    double unused = 0;
    return ipu_comm_all_reduce(comm, IPU_DOUBLE, &unused, 1);
}

/* Does not involve the thread, which may be waiting for a process that will never respond. */
void ipu_comm_abort(ipu_comm *comm, int exit_status)
{
    if (comm && comm->end.self) comm->transport->abort(comm->end.self, exit_status);
    _exit(exit_status);
}

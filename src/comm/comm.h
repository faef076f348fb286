/* Cooperating processes: the group of this process, and sums that proceed while it computes.
 *
 * One thread per group does all communication, job by job in the order they were started, so that all processes of a
 * group handle the same jobs in the same order. Public half: ipu/comm.h.
 */
#ifndef IPU_COMM_COMM_H
#define IPU_COMM_COMM_H

#include <stdbool.h>

#include "base/simd.h"
#include "base/status.h"
#include "comm/transport.h"
#include "ipu/comm.h"

typedef enum ipu__comm_kind {
    IPU__COMM_OPEN,
    IPU__COMM_ALL_REDUCE,
    IPU__COMM_BROADCAST,
    IPU__COMM_GATHER,
    IPU__COMM_STOP
} ipu__comm_kind;

enum { IPU__COMM_MESSAGE_BYTES = 512 };

/* Belongs to the caller, who must leave it and its data alone until it has been waited for. */
typedef struct ipu__comm_job {
    ipu__comm_kind kind;
    ipu_type       type;
    void          *data, *all;
    size_t         bytes;
    int64_t        root;

    /* Used by the thread of the group: */
    struct ipu__comm_job *next;
    bool                  done;
    ipu_status            status;
    char                  message[IPU__COMM_MESSAGE_BYTES];
} ipu__comm_job;

/* A group over a given transport, which receives `self`; ipu_comm_open finds both by itself. */
ipu_status ipu__comm_create(const ipu__transport *transport, void *argument, ipu_comm **out);

void ipu__comm_begin(ipu_comm *comm, ipu__comm_job *job);
/* Waits until the job is done, and returns its error as this thread's. Adds to `waited`, in seconds, unless
 * NULL. */
ipu_status ipu__comm_wait(ipu_comm *comm, ipu__comm_job *job, double *waited);
/* Bytes sent by this process. */
int64_t ipu__comm_bytes(ipu_comm *comm);

/* to[i] = a[i] + b[i]; `to` may be either of them. */
typedef struct ipu__comm_loops {
    void (*add_float)(const void *a, const void *b, void *to, size_t n);
    void (*add_double)(const void *a, const void *b, void *to, size_t n);
} ipu__comm_loops;

IPU__SIMD_DECLARE(extern const ipu__comm_loops, ipu__comm_loops)

/* `n` elements, float or double. */
void ipu__comm_add(ipu_type type, const void *a, const void *b, void *to, size_t n);

/* ---- notes.c: what processes tell one another besides data ---- */

enum { IPU__COMM_NOTE_TAG = 32001 };

typedef enum ipu__comm_word { /* the last two are final */
                              IPU__COMM_NOTHING,
                              IPU__COMM_WAITS,
                              IPU__COMM_LEFT,
                              IPU__COMM_FAILED
} ipu__comm_word;

typedef struct ipu__comm_note {
    int64_t word, job; /* jobs are counted from 1; 0 if none yet */
    int64_t kind, type, bytes, root;
    char    text[192]; /* of FAILED */
} ipu__comm_note;

typedef struct ipu__comm_peer {
    ipu__comm_note last;
    int64_t        told; /* the last job for which it was told that this process waits */
} ipu__comm_peer;

/* How long nothing has moved. All zero if something just has. */
typedef struct ipu__comm_stall {
    double since, looked;
} ipu__comm_stall;

/* ---- jobs.c: what the group's thread does ---- */

/* A process as seen by that thread. */
typedef struct ipu__comm_end {
    const ipu__transport *transport;
    void                 *self;
    int64_t               rank, size;
    int64_t               bytes_sent;
    char                 *arriving; /* for all-reduces; NULL until the first */
    ipu__comm_note        now;      /* the current job */
    ipu__comm_peer       *peers;
    bool                  is_broken; /* a job has failed: no more are done */
    char                  message[IPU__COMM_MESSAGE_BYTES];
} ipu__comm_end;

void ipu__comm_end_fini(ipu__comm_end *end);

/* Returns false if it fails; end->message says why. */
bool ipu__comm_all_reduce(ipu__comm_end *end, ipu_type type, void *data, size_t bytes);
bool ipu__comm_broadcast(ipu__comm_end *end, int64_t root, void *data, size_t bytes);
bool ipu__comm_gather(ipu__comm_end *end, int64_t root, const void *data, size_t bytes, void *all);

/* Sleeps briefly. */
void ipu__comm_pause(void);

bool ipu__comm_notes_open(ipu__comm_end *end);
/* To be called while nothing arrives from `peers`, and nothing can be sent to them. Returns false if
 * nothing ever will. */
bool ipu__comm_look_around(ipu__comm_end *end, ipu__comm_stall *s, const int64_t *peers, int n);
/* After a failure: tells the others. */
void ipu__comm_break(ipu__comm_end *end);
/* At the end. */
void ipu__comm_part(ipu__comm_end *end);

/* ---- plugin.c ---- */

/* Whether an MPI launcher started this process along with others. */
bool ipu__comm_is_launched(void);
/* The MPI transport. Statuses: NOT_FOUND. */
ipu_status ipu__comm_load_plugin(const ipu__transport **out);

#endif

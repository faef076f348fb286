/* Communication between processes: sums over all, broadcasts and gathers.
 *
 * Sums: a process exchanges data with the one whose rank differs in bit 0, then 1, and so on, adding each time. All
 * arrive at identical bits, those of a tree over the ranks. The array is sent in chunks, several at a time, each with
 * its own rounds, so that one is added while others are in transit.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "comm/comm.h"

enum {
    CHUNK_BYTES = 256 << 10, /* per message; a second-level cache's size, so that adding finds it there */
    IN_FLIGHT   = 8,
    MANY_BYTES  = 1 << 26, /* per message of broadcast and gather: MPI counts in int */
    SPIN        = 64,      /* polls before sleeping */
    SLEEP_LEAST = 20000,   /* nanoseconds */
    SLEEP_MOST  = 500000,
    OTHER_TAG   = 32000, /* for broadcast and gather; those of chunks are below */
};

void ipu__comm_add(ipu_type type, const void *a, const void *b, void *to, size_t n)
{
    const ipu__comm_loops *loops = &IPU__SIMD_PICK(ipu__comm_loops);
    (type == IPU_DOUBLE ? loops->add_double : loops->add_float)(a, b, to, n);
}

/* ---- waiting without taking a processor from who computes ---- */

typedef struct idler {
    int             looks;
    long            nanoseconds;
    ipu__comm_stall stall;
} idler;

/* Returns false if what is awaited will never come. */
static bool idle(ipu__comm_end *end, idler *i, const int64_t *peers, int n)
{
    if (++i->looks < SPIN) {
        sched_yield();
        return true;
    }
    i->nanoseconds = i->nanoseconds == 0 ? SLEEP_LEAST : i->nanoseconds * 2;
    if (i->nanoseconds > SLEEP_MOST) i->nanoseconds = SLEEP_MOST;
    nanosleep(&(struct timespec){.tv_nsec = i->nanoseconds}, NULL);
    return ipu__comm_look_around(end, &i->stall, peers, n);
}

void ipu__comm_pause(void) { nanosleep(&(struct timespec){.tv_nsec = SLEEP_MOST}, NULL); }

/* ---- sums ---- */

typedef struct chunk {
    char        *mine;
    size_t       bytes;
    int          tag;
    int64_t      bit; /* of the round; 0 if free, or done */
    bool         is_sent, has_arrived;
    ipu__request sending, receiving;
} chunk;

static bool send(ipu__comm_end *end, int64_t to, int tag, const void *data, size_t bytes,
                 ipu__request *request)
{
    end->bytes_sent += (int64_t)bytes;
    return end->transport->send(end->self, to, tag, data, bytes, request, end->message, sizeof end->message);
}

static bool receive(ipu__comm_end *end, int64_t from, int tag, void *data, size_t bytes,
                    ipu__request *request)
{
    return end->transport->receive(end->self, from, tag, data, bytes, request, end->message,
                                   sizeof end->message);
}

static bool look(ipu__comm_end *end, ipu__request *request, bool *done)
{
    return *done || end->transport->is_done(end->self, request, done, end->message, sizeof end->message);
}

static bool begin_round(ipu__comm_end *end, chunk *c, char *arriving)
{
    int64_t partner = end->rank ^ c->bit;
    c->is_sent = c->has_arrived = false;
    return receive(end, partner, c->tag, arriving, c->bytes, &c->receiving)
        && send(end, partner, c->tag, c->mine, c->bytes, &c->sending);
}

/* Polls a chunk, and starts the next round if this one is over. */
static bool advance(ipu__comm_end *end, ipu_type type, chunk *c, char *arriving, bool *moved)
{
    *moved = false;
    if (!look(end, &c->receiving, &c->has_arrived) || !look(end, &c->sending, &c->is_sent)) return false;
    if (!c->has_arrived || !c->is_sent) return true;
    *moved = true;
    ipu__comm_add(type, c->mine, arriving, c->mine, c->bytes / ipu_type_size(type));
    c->bit *= 2;
    if (c->bit < end->size) return begin_round(end, c, arriving);
    c->bit = 0;
    return true;
}

static bool make_room(ipu__comm_end *end)
{
    if (!end->arriving) end->arriving = ipu__alloc_pages((size_t)IN_FLIGHT * CHUNK_BYTES);
    if (!end->arriving) snprintf(end->message, sizeof end->message, "out of memory");
    return end->arriving != NULL;
}

/* What is still in transit after a failure may yet arrive. */
void ipu__comm_end_fini(ipu__comm_end *end)
{
    ipu__free(end->peers);
    end->peers = NULL;
    if (end->is_broken) return;
    ipu__free_pages(end->arriving, end->arriving ? (size_t)IN_FLIGHT * CHUNK_BYTES : 0);
    end->arriving = NULL;
}

static bool idle_for_chunks(ipu__comm_end *end, idler *i, const chunk *chunks)
{
    int64_t peers[IN_FLIGHT];
    int     n = 0;
    for (int k = 0; k < IN_FLIGHT; k++)
        if (chunks[k].bit != 0) peers[n++] = end->rank ^ chunks[k].bit;
    return idle(end, i, peers, n);
}

bool ipu__comm_all_reduce(ipu__comm_end *end, ipu_type type, void *data, size_t bytes)
{
    chunk  chunks[IN_FLIGHT] = {0};
    size_t at = 0, n = 0;
    int    n_open = 0;
    idler  i      = {0};
    if (end->size == 1 || bytes == 0) return true;
    if (!make_room(end)) return false;
    while (at < bytes || n_open > 0) {
        bool any = false;
        for (int k = 0; k < IN_FLIGHT; k++) {
            chunk *c        = &chunks[k];
            char  *arriving = end->arriving + (size_t)k * CHUNK_BYTES;
            bool   moved    = false;
            if (c->bit == 0 && at < bytes) {
                size_t rest = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
                *c          = (chunk){
                             .mine = (char *)data + at, .bytes = rest, .tag = (int)(n++ % OTHER_TAG), .bit = 1};
                at += rest;
                n_open++;
                moved = true;
                if (!begin_round(end, c, arriving)) return false;
            } else if (c->bit != 0) {
                if (!advance(end, type, c, arriving, &moved)) return false;
                n_open -= c->bit == 0;
            }
            any |= moved;
        }
        if (any)
            i = (idler){0};
        else if (!idle_for_chunks(end, &i, chunks))
            return false;
    }
    return true;
}

/* ---- one and all ---- */

static bool finish(ipu__comm_end *end, int64_t peer, ipu__request *request)
{
    idler i    = {0};
    bool  done = false;
    while (look(end, request, &done)) {
        if (done) return true;
        if (!idle(end, &i, &peer, 1)) return false;
    }
    return false;
}

static bool send_all(ipu__comm_end *end, int64_t to, const char *data, size_t bytes)
{
    ipu__request request;
    for (size_t at = 0; at < bytes; at += MANY_BYTES) {
        size_t n = bytes - at < MANY_BYTES ? bytes - at : MANY_BYTES;
        if (!send(end, to, OTHER_TAG, data + at, n, &request) || !finish(end, to, &request)) return false;
    }
    return true;
}

static bool receive_all(ipu__comm_end *end, int64_t from, char *data, size_t bytes)
{
    ipu__request request;
    for (size_t at = 0; at < bytes; at += MANY_BYTES) {
        size_t n = bytes - at < MANY_BYTES ? bytes - at : MANY_BYTES;
        if (!receive(end, from, OTHER_TAG, data + at, n, &request) || !finish(end, from, &request))
            return false;
    }
    return true;
}

/* A tree: whoever has the data passes it on to the process whose number, relative to the root, has the next
 * higher bit. */
bool ipu__comm_broadcast(ipu__comm_end *end, int64_t root, void *data, size_t bytes)
{
    int64_t mine = end->rank ^ root;
    for (int64_t bit = 1; bit < end->size; bit *= 2) {
        if (mine < bit) {
            if (!send_all(end, end->rank ^ bit, data, bytes)) return false;
        } else if (mine < 2 * bit) {
            if (!receive_all(end, end->rank ^ bit, data, bytes)) return false;
        }
    }
    return true;
}

bool ipu__comm_gather(ipu__comm_end *end, int64_t root, const void *data, size_t bytes, void *all)
{
    if (end->rank != root) return send_all(end, root, data, bytes);
    char *to = all;
    for (int64_t r = 0; r < end->size; r++) {
        if (r == root && bytes > 0)
            memcpy(to + (size_t)r * bytes, data, bytes);
        else if (r != root && !receive_all(end, r, to + (size_t)r * bytes, bytes))
            return false;
    }
    return true;
}

/* For tests: a transport between threads of one process, where what is sent is copied to a list of letters. */
#ifndef IPU_COMM_THREADS_TEST_H
#define IPU_COMM_THREADS_TEST_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"

typedef struct letter {
    struct letter *next;
    int64_t        from, to;
    int            tag;
    size_t         bytes;
    char           data[];
} letter;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static letter         *letters;
static int64_t         n_ranks;
static int             delay; /* letters are not found at the first looks */

typedef struct end {
    int64_t rank;
} end;

typedef struct waiting {
    int64_t from, to;
    int     tag, looks;
    void   *data;
    size_t  bytes;
} waiting;

static bool open_end(void *argument, void **self, int64_t *rank, int64_t *size, char *message, size_t room)
{
    end *e = argument;
    if (e->rank < 0) {
        snprintf(message, room, "there is no network");
        return false;
    }
    *rank = e->rank;
    *size = n_ranks;
    *self = e;
    return true;
}

static void close_end(void *self) { (void)self; }

static bool send(void *self, int64_t to, int tag, const void *data, size_t bytes, ipu__request *request,
                 char *message, size_t room)
{
    letter *l = malloc(sizeof *l + bytes), **last = &letters;
    if (!l) {
        snprintf(message, room, "out of memory");
        return false;
    }
    *l = (letter){.from = ((end *)self)->rank, .to = to, .tag = tag, .bytes = bytes};
    memcpy(l->data, data, bytes);
    pthread_mutex_lock(&lock);
    while (*last) last = &(*last)->next;
    *last = l;
    pthread_mutex_unlock(&lock);
    *request = (ipu__request){0};
    return true;
}

static bool receive(void *self, int64_t from, int tag, void *data, size_t bytes, ipu__request *request,
                    char *message, size_t room)
{
    waiting *w = malloc(sizeof *w);
    if (!w) {
        snprintf(message, room, "out of memory");
        return false;
    }
    *w       = (waiting){from, ((end *)self)->rank, tag, 0, data, bytes};
    *request = (ipu__request){.space = {w}};
    return true;
}

static bool is_done(void *self, ipu__request *request, bool *done, char *message, size_t room)
{
    waiting *w = request->space[0];
    (void)self;
    *done = !w;
    if (!w || w->looks++ < delay) return true;
    bool ok = true;
    pthread_mutex_lock(&lock);
    for (letter **at = &letters; *at; at = &(*at)->next) {
        letter *l = *at;
        if (l->from != w->from || l->to != w->to || l->tag != w->tag) continue;
        ok    = l->bytes == w->bytes;
        *at   = l->next;
        *done = true;
        if (ok) memcpy(w->data, l->data, l->bytes);
        if (!ok) snprintf(message, room, "expected %zu bytes, found %zu", w->bytes, l->bytes);
        free(l);
        free(w);
        break;
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

static void abort_all(void *self, int status)
{
    (void)self;
    exit(status);
}

static const ipu__transport threads = {
    IPU__TRANSPORT_VERSION, "threads", open_end, close_end, send, receive, is_done, abort_all};

#endif

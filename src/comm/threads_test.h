/* For tests: a transport between threads of one process, in which messages are copied to a list of letters. */
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
static int             delay; /* number of polls before letters are found */

typedef struct end {
    int64_t rank;
} end;

/* Requests that are never polled again leave theirs in the list. */
typedef struct waiting {
    struct waiting *next;
    int64_t         from, to;
    int             tag, looks;
    void           *data;
    size_t          bytes;
} waiting;

static waiting *waitings;
static int      n_open;

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
    pthread_mutex_lock(&lock);
    n_open++;
    pthread_mutex_unlock(&lock);
    return true;
}

/* Notes sent by the last to leave have no receiver. */
static void close_end(void *self)
{
    (void)self;
    pthread_mutex_lock(&lock);
    letter **at = &letters;
    n_open--;
    while (n_open == 0 && *at) {
        letter *l = *at;
        if (l->tag == IPU__COMM_NOTE_TAG) {
            *at = l->next;
            free(l);
        } else {
            at = &l->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

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
    *w       = (waiting){NULL, from, ((end *)self)->rank, tag, 0, data, bytes};
    *request = (ipu__request){.space = {w}};
    pthread_mutex_lock(&lock);
    w->next  = waitings;
    waitings = w;
    pthread_mutex_unlock(&lock);
    return true;
}

static void forget(waiting *w)
{
    waiting **at = &waitings;
    while (*at != w) at = &(*at)->next;
    *at = w->next;
    free(w);
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
        forget(w);
        break;
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

static bool has_come(void *self, int64_t from, int tag, bool *out)
{
    *out = false;
    pthread_mutex_lock(&lock);
    for (const letter *l = letters; l; l = l->next)
        if (l->from == from && l->to == ((end *)self)->rank && l->tag == tag) *out = true;
    pthread_mutex_unlock(&lock);
    return true;
}

static void abort_all(void *self, int status)
{
    (void)self;
    exit(status);
}

/* Discards what failed groups left behind. */
static inline void drop_letters(void)
{
    for (letter *next; letters; letters = next) {
        next = letters->next;
        free(letters);
    }
    for (waiting *next; waitings; waitings = next) {
        next = waitings->next;
        free(waitings);
    }
}

static const ipu__transport threads = {
    IPU__TRANSPORT_VERSION, "threads", open_end, close_end, send, receive, is_done, has_come, abort_all};

#endif

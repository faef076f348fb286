/* Sessions: what ONNX sessions and executors have in common. A session holds executables, each compiled for arguments of its
 * own, and runs the one that fits.
 *
 * There is one way to an executable. Whoever has a session (`def`) says what it is for and what its key is; then
 *
 *     ipu__session_find       one that it holds already
 *     ipu__session_compile    else what the cache has under the key, or what `compile` makes, which is stored there
 *     ipu__session_keep       is held from then on; the ones used longest ago go, where there are too many
 *     ipu__session_price      what a run would take, when that is first asked for
 */
#ifndef IPU_SESSION_SESSION_H
#define IPU_SESSION_SESSION_H

#include "base/hash.h"
#include "ipu/cost.h"
#include "ipu/engine.h"
#include "session/arguments.h"

/* An executable of a session. Its owner's structures begin with it. */
typedef struct ipu__compiled {
    ipu__arguments   arguments; /* what it is for */
    const char      *folder;    /* of the cache; NULL: it is not in one. Borrowed */
    ipu__hash128     key;       /* in it */
    ipu_executable  *exe;
    ipu_engine      *engine; /* NULL: none yet */
    bool             was_cached, has_cost;
    ipu_cost_summary cost;
    double           seconds; /* that compiling took */
    uint64_t         used;    /* when, by the session's clock */
} ipu__compiled;

/* What a kind of session does in its own way. `user` is the session's. */
typedef struct ipu__session_def {
    /* Makes c->exe. It may correct what is in c->arguments, c->folder and c->key by what it finds out meanwhile. */
    ipu_status (*compile)(void *user, ipu__compiled *c);
    /* Takes c->exe, just compiled or from the cache, for its own. INVALID: it is not what was compiled under that key. NULL:
     * everything is. */
    ipu_status (*accept)(void *user, ipu__compiled *c);
    /* What a run would take. NULL: nobody asks. */
    ipu_status (*price)(void *user, ipu__compiled *c, ipu_cost **out);
    /* Frees all of it but what ipu__compiled_fini does. What it alone has of weights is fetched before. */
    void (*destroy)(void *user, ipu__compiled *c);
} ipu__session_def;

typedef struct ipu__session {
    const ipu__session_def *def;
    void                   *user;
    const ipu_options      *options;   /* of compiling and of engines; NULL: the defaults. Borrowed */
    size_t                  most;      /* executables, 0: one */
    int                     device_id; /* of the active partition, from 1 on as id + 1; 0: any */
    bool                    alone;     /* on it: with other sessions of the process it is BUSY */
    int64_t most_bytes; /* that engines may hold beside the one that runs; 0: half of the machine's memory */
    IPU__ARRAY(ipu__compiled *) compiled;
    ipu__compiled *last; /* the one to run; NULL: none yet */
    uint64_t       clock;
    ipu_device    *device; /* that its engines are on, once there is one; NULL: on none */
    bool           holds;  /* it is attached for this session; maybe for others of the process too */
} ipu__session;

void ipu__session_fini(ipu__session *s);

/* The one that was compiled for these, which is the last from then on. NULL: there is none. */
ipu__compiled *ipu__session_find(ipu__session *s, const ipu__arguments *asked);

/* `c` is new, c->folder and c->key are where the cache has it. Afterwards its exe is there, or it failed. Statuses: those of
 * def->compile and def->accept. */
ipu_status ipu__session_compile(ipu__session *s, ipu__compiled *c);

/* Takes `c`, which is the last then. OUT_OF_MEMORY: it is still the caller's. */
ipu_status ipu__session_keep(ipu__session *s, ipu__compiled *c);

/* With a cache it is priced once, not in each process. c->cost.chip is for the caller to fill in. */
ipu_status ipu__session_price(ipu__session *s, ipu__compiled *c);

/* ---- engines, all on one device (device.c). Sessions of one process that are on the same device have it attached until the
 *      last of them has detached ---- */

/* Makes c->engine, if it is not there. */
ipu_status ipu__session_start(ipu__session *s, ipu__compiled *c);
/* After a run, which attaches what was not. */
void ipu__session_has_run(ipu__session *s);

/* There is an engine. Statuses: those of ipu_device_attach. */
ipu_status ipu__session_attach(ipu__session *s);
/* Statuses: INVALID (a program of another session runs there). */
ipu_status ipu__session_detach(ipu__session *s);
bool       ipu__session_is_attached(const ipu__session *s);

/* The engines are gone: so is the device. */
void ipu__session_leave(ipu__session *s);

/* What ipu__compiled itself holds. */
void ipu__compiled_fini(ipu__compiled *c);

#endif

/* Weights that the host has, and devices have copies of: whose are the newest, and who is behind.
 *
 * All weights of a table have one version, which grows whenever somebody changes some of them. The newest are with `holder`
 * or, if that is NULL, on the host. The host and each user have a version of their own, by which they know whether their
 * copies are up to date: what is, is not copied again. No two tables of a process have the same version, so that whoever
 * looks at several of them can tell by the number alone whether anything has changed.
 */
#ifndef IPU_SESSION_WEIGHTS_H
#define IPU_SESSION_WEIGHTS_H

#include "base/array.h"
#include "base/status.h"
#include "ipu/data.h"

typedef struct ipu__weight {
    char     *name;
    ipu_array array;
    bool      is_lent;   /* the array is in the caller's memory */
    bool      is_set;    /* the array has a value: it was given, or fetched */
    bool      is_in_use; /* an executable has it; else it was loaded and waits for one */
} ipu__weight;

typedef IPU__ARRAY(size_t) ipu__numbers;

/* Who has copies of some of them. */
typedef struct ipu__weights_user {
    void        *owner;
    ipu__numbers numbers; /* of those it has */
    int64_t      version; /* of its copies; 0: they are what the device began with */
    /* One of them from its copy to the host's, and back. */
    ipu_status (*read)(void *owner, ipu__weight *w);
    ipu_status (*write)(void *owner, const ipu__weight *w);
} ipu__weights_user;

typedef struct ipu__weights { /* all zero: there are none */
    IPU__ARRAY(ipu__weight) list;
    int64_t            version, host_version;
    ipu__weights_user *holder;
} ipu__weights;

void ipu__weights_fini(ipu__weights *w);

size_t     ipu__weights_find(const ipu__weights *w, const char *name); /* SIZE_MAX: there is none */
ipu_status ipu__weights_add(ipu__weights *w, const char *name, ipu_type type, const ipu_shape *shape);
/* The first `n` stay. */
void ipu__weights_cut(ipu__weights *w, size_t n);

/* ---- the host: weight `i` has the type and shape of `a` ---- */

/* A copy of it; ipu__weights_changed is for the caller, once for all that are set. */
void ipu__weights_set(ipu__weights *w, size_t i, const ipu_array *a);
void ipu__weights_changed(ipu__weights *w);
/* The host's copy is `a` itself from now on; NULL: memory of its own again. */
ipu_status ipu__weights_lend(ipu__weights *w, size_t i, const ipu_array *a);
/* Whether a user has newer ones than the host. */
bool ipu__weights_is_behind(const ipu__weights *w);
/* The host is up to date. */
ipu_status ipu__weights_fetch(ipu__weights *w);

/* ---- users ---- */

/* Its copies are the newest afterwards: the host's, or what it began with where nobody has given a value yet. */
ipu_status ipu__weights_sync(ipu__weights *w, ipu__weights_user *user);
/* It has changed some since it was up to date. */
void ipu__weights_has_newest(ipu__weights *w, ipu__weights_user *user);
/* The host has what it has, and it what the host has, whatever the versions: for who has changed either by other means. */
ipu_status ipu__weights_take(ipu__weights *w, ipu__weights_user *user);
ipu_status ipu__weights_give(ipu__weights *w, ipu__weights_user *user);
/* It is about to go: what it alone has is fetched. Forgotten also when that fails. */
ipu_status ipu__weights_leave(ipu__weights *w, ipu__weights_user *user);

#endif

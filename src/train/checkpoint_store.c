/* Folders of checkpoints: FOLDER/checkpoint-<step>.npz. Who holds the lock on FOLDER/.lock is the only one to write. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/host/folder.h"
#include "base/log.h"
#include "base/text.h"
#include "ipu/checkpoint.h"

typedef struct kept {
    int64_t step;
    char   *path;
} kept;

struct ipu_checkpoint_store {
    char  *folder;
    size_t keep;
    int    lock;
    IPU__ARRAY(kept) all; /* by step */
    size_t n_damaged;     /* that had been set aside when it was opened */
};

enum { DEFAULT_KEEP = 3 };

/* ---- names ---- */

static const char name_format[] = "checkpoint-%012lld.npz", damaged_ending[] = ".damaged";

/* -1: it is not the name of a checkpoint. */
static int64_t step_of(const char *name)
{
    long long step;
    char      again[64];
    if (sscanf(name, "checkpoint-%19lld", &step) != 1 || step < 0) return -1;
    snprintf(again, sizeof again, name_format, step);
    return strcmp(name, again) == 0 ? step : -1;
}

/* One that was set aside. */
static bool is_damaged(const char *name)
{
    char        of[64];
    const char *ending = strstr(name, damaged_ending);
    if (!ending || strcmp(ending, damaged_ending) != 0 || (size_t)(ending - name) >= sizeof of) return false;
    snprintf(of, sizeof of, "%.*s", (int)(ending - name), name);
    return step_of(of) >= 0;
}

/* Owned: ipu__free. NULL: out of memory. */
static char *path_in(const char *folder, const char *name)
{
    ipu__text text = {0};
    ipu__text_add(&text, "%s/%s", folder, name);
    return ipu__text_take(&text);
}

static ipu_status add(ipu_checkpoint_store *s, const char *name)
{
    kept k = {step_of(name), path_in(s->folder, name)};
    if (k.path && ipu__push(&s->all, k)) return IPU_OK;
    ipu__free(k.path);
    return ipu__fail_memory();
}

static int by_step(const void *a, const void *b)
{
    const kept *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

static ipu_status list_all(ipu_checkpoint_store *s)
{
    ipu_status status = IPU_OK;
    DIR       *d      = opendir(s->folder);
    if (!d) return ipu__fail(IPU_IO, "cannot read the folder %s: %s", s->folder, strerror(errno));
    s->n_damaged = 0;
    for (struct dirent *e = readdir(d); e && status == IPU_OK; e = readdir(d)) {
        if (step_of(e->d_name) >= 0) status = add(s, e->d_name);
        s->n_damaged += is_damaged(e->d_name);
    }
    closedir(d);
    if (s->all.n) qsort(s->all.at, s->all.n, sizeof *s->all.at, by_step);
    return status;
}

/* ---- the lock ---- */

static ipu_status fail_busy(const ipu_checkpoint_store *s)
{
    char    holder[48] = "";
    ssize_t n          = pread(s->lock, holder, sizeof holder - 1, 0);
    long    pid        = n > 0 ? strtol(holder, NULL, 10) : 0;
    if (pid > 0) snprintf(holder, sizeof holder, "process %ld", pid);
    return ipu__fail(
        IPU_BUSY,
        "cannot use the folder %s: %s is writing checkpoints to it; wait for its end, or use another "
        "folder",
        s->folder, pid > 0 ? holder : "another process");
}

/* The number in the file is for messages only: the lock ends with its process, however that ends. */
static ipu_status take_lock(ipu_checkpoint_store *s)
{
    char *path = path_in(s->folder, ".lock");
    if (!path) return ipu__fail_memory();
    s->lock           = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    ipu_status status = IPU_OK;
    if (s->lock < 0)
        status = ipu__fail(IPU_IO, "cannot write checkpoints to %s: cannot open %s: %s", s->folder, path,
                           strerror(errno));
    else if (flock(s->lock, LOCK_EX | LOCK_NB) != 0)
        status = errno == EWOULDBLOCK ? fail_busy(s)
                                      : ipu__fail(IPU_IO, "cannot lock %s: %s", path, strerror(errno));
    ipu__free(path);
    if (status != IPU_OK) return status;
    char text[24];
    int  n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    /* A disk that is full is noticed when something is saved. */
    if (ftruncate(s->lock, 0) != 0 || pwrite(s->lock, text, (size_t)n, 0) != n)
        ipu__log(IPU_LOG_WARN, "train", "cannot note the process in %s/.lock: %s", s->folder,
                 strerror(errno));
    return IPU_OK;
}

/* ---- the store ---- */

static ipu_status open_store(ipu_checkpoint_store *s)
{
    IPU_TRY(ipu__folder_make(s->folder, 0777));
    IPU_TRY(take_lock(s));
    ipu__folder_clear_rests(s->folder);
    return list_all(s);
}

ipu_status ipu_checkpoint_store_open(const char *folder, int keep, ipu_checkpoint_store **out)
{
    *out = NULL;
    if (!folder || !*folder) return ipu__fail(IPU_INVALID, "expected a folder for checkpoints, found none");
    if (keep < 0)
        return ipu__fail(IPU_INVALID, "expected a number of checkpoints to keep, or 0 for %d, found %d",
                         DEFAULT_KEEP, keep);
    ipu_checkpoint_store *s = ipu__alloc_zeroed(sizeof *s);
    if (!s) return ipu__fail_memory();
    s->lock           = -1;
    s->keep           = keep ? (size_t)keep : DEFAULT_KEEP;
    s->folder         = ipu__strdup(folder);
    ipu_status status = s->folder ? open_store(s) : ipu__fail_memory();
    if (status != IPU_OK) {
        ipu_checkpoint_store_close(s);
        return status;
    }
    *out = s;
    return IPU_OK;
}

static void forget_all(ipu_checkpoint_store *s)
{
    for (size_t i = 0; i < s->all.n; i++) ipu__free(s->all.at[i].path);
    s->all.n = 0;
}

void ipu_checkpoint_store_close(ipu_checkpoint_store *store)
{
    if (!store) return;
    forget_all(store);
    ipu__array_fini(&store->all);
    if (store->lock >= 0) {
        flock(store->lock, LOCK_UN); /* a child made by fork would keep it otherwise */
        close(store->lock);
    }
    ipu__free(store->folder);
    ipu__free(store);
}

size_t ipu_checkpoint_store_n(const ipu_checkpoint_store *store) { return store->all.n; }

const char *ipu_checkpoint_store_at(const ipu_checkpoint_store *store, size_t i)
{
    return i < store->all.n ? store->all.at[i].path : NULL;
}

/* ---- saving ---- */

static void drop(ipu_checkpoint_store *s, size_t i)
{
    ipu__free(s->all.at[i].path);
    memmove(&s->all.at[i], &s->all.at[i + 1], (s->all.n - i - 1) * sizeof *s->all.at);
    s->all.n--;
}

/* One that cannot be removed is no reason to fail: the new one is there. */
static void remove_oldest(ipu_checkpoint_store *s)
{
    while (s->all.n > s->keep) {
        if (unlink(s->all.at[0].path) != 0 && errno != ENOENT)
            ipu__log(IPU_LOG_WARN, "train", "cannot remove the old checkpoint %s: %s", s->all.at[0].path,
                     strerror(errno));
        drop(s, 0);
    }
}

static ipu_status fail_earlier(int64_t step, const char *later)
{
    return ipu__fail(
        IPU_INVALID,
        "cannot save step %lld: %s is of a later one, as of another training; go on from it, or use "
        "another folder",
        (long long)step, later);
}

ipu_status ipu_checkpoint_save(ipu_checkpoint_store *store, const ipu_checkpoint *c)
{
    char    name[64];
    size_t  n    = store->all.n;
    int64_t last = n ? store->all.at[n - 1].step : -1;
    if (last > c->step) return fail_earlier(c->step, store->all.at[n - 1].path);
    snprintf(name, sizeof name, name_format, (long long)c->step);
    kept k = {c->step, path_in(store->folder, name)};
    if (!k.path || !ipu__push(&store->all, k)) {
        ipu__free(k.path);
        return ipu__fail_memory();
    }
    ipu_status status = ipu_checkpoint_write(k.path, c);
    if (status != IPU_OK || last == c->step) drop(store, n);
    if (status == IPU_OK) remove_oldest(store);
    return status;
}

/* ---- loading ---- */

static ipu_status fail_damaged(const ipu_checkpoint_store *s, size_t n, const char *why)
{
    return ipu__fail(
        IPU_INVALID,
        "there is no checkpoint in %s that is whole; %zu %s damaged%s%s; put a copy of one there, or begin anew",
        s->folder, n, n == 1 ? "was" : "were", *why ? ", the newest one: " : "", why);
}

/* Out of the way of those to come, for its owner to look at. */
static void set_aside(ipu_checkpoint_store *s, size_t i)
{
    ipu__text text = {0};
    ipu__text_add(&text, "%s%s", s->all.at[i].path, damaged_ending);
    char *aside = ipu__text_take(&text);
    bool  moved = aside && rename(s->all.at[i].path, aside) == 0;
    ipu__log(IPU_LOG_WARN, "train", "a damaged checkpoint is passed over: %s%s%s", s->all.at[i].path,
             moved ? "; it is now called " : "", moved ? aside : "");
    ipu__free(aside);
    drop(s, i);
}

/* Damaged ones are set aside only if there is one to go on from: otherwise the next one to look would find an empty
 * folder, and begin a training anew whose work is perhaps to be saved. */
ipu_status ipu_checkpoint_load_last(ipu_checkpoint_store *store, ipu_checkpoint *out)
{
    char   why[512] = "";
    size_t n        = store->all.n;
    *out            = (ipu_checkpoint){0};
    for (; n; n--) {
        ipu_status status = ipu_checkpoint_read(store->all.at[n - 1].path, out);
        if (status == IPU_OK) break;
        if (status != IPU_INVALID) return status;
        if (!*why) snprintf(why, sizeof why, "%s", ipu_message());
    }
    if (n) {
        while (store->all.n > n) set_aside(store, store->all.n - 1);
        return IPU_OK;
    }
    if (store->all.n || store->n_damaged) return fail_damaged(store, store->all.n + store->n_damaged, why);
    return ipu__fail(IPU_NOT_FOUND, "there is no checkpoint in %s", store->folder);
}

/* ---- beginning anew ---- */

/* NAME.before, or, if an earlier restart has left that, NAME.before.2, ... NULL: out of memory. */
static char *free_name(const ipu_checkpoint_store *s, const char *name)
{
    struct stat st;
    for (int i = 1;; i++) {
        ipu__text text = {0};
        ipu__text_add(&text, "%s/%s.before", s->folder, name);
        if (i > 1) ipu__text_add(&text, ".%d", i);
        char *path = ipu__text_take(&text);
        if (!path || lstat(path, &st) != 0) return path;
        ipu__free(path);
    }
}

static ipu_status move_before(ipu_checkpoint_store *s, const char *name)
{
    char      *from = path_in(s->folder, name), *to = free_name(s, name);
    ipu_status status = from && to ? IPU_OK : ipu__fail_memory();
    if (status == IPU_OK && rename(from, to) != 0)
        status = ipu__fail(IPU_IO, "cannot rename %s to %s: %s", from, to, strerror(errno));
    ipu__free(from);
    ipu__free(to);
    return status;
}

ipu_status ipu_checkpoint_store_restart(ipu_checkpoint_store *store)
{
    ipu_status status = IPU_OK;
    DIR       *d      = opendir(store->folder);
    if (!d) return ipu__fail(IPU_IO, "cannot read the folder %s: %s", store->folder, strerror(errno));
    for (struct dirent *e = readdir(d); e && status == IPU_OK; e = readdir(d))
        if (step_of(e->d_name) >= 0 || is_damaged(e->d_name)) status = move_before(store, e->d_name);
    closedir(d);
    forget_all(store);
    ipu_status listed = list_all(store);
    return status == IPU_OK ? listed : status;
}

/* Tables of weights. */
#include "session/weights.h"

#include <stdatomic.h>
#include <string.h>

static int64_t next_version(void)
{
    static _Atomic int64_t last;
    return atomic_fetch_add(&last, 1) + 1;
}

/* ---- the table ---- */

static void free_weight(ipu__weight *w)
{
    ipu__free(w->name);
    if (!w->is_lent) ipu_array_free(&w->array);
}

void ipu__weights_cut(ipu__weights *w, size_t n)
{
    while (w->list.n > n) free_weight(&w->list.at[--w->list.n]);
}

void ipu__weights_fini(ipu__weights *w)
{
    ipu__weights_cut(w, 0);
    ipu__array_fini(&w->list);
}

size_t ipu__weights_find(const ipu__weights *w, const char *name)
{
    for (size_t i = 0; i < w->list.n; i++)
        if (strcmp(w->list.at[i].name, name) == 0) return i;
    return SIZE_MAX;
}

ipu_status ipu__weights_add(ipu__weights *w, const char *name, ipu_type type, const ipu_shape *shape)
{
    ipu__weight own = {.name = ipu__strdup(name)};
    if (!own.name) return ipu__fail_memory();
    ipu_status status = ipu_array_create(type, *shape, &own.array);
    if (status == IPU_OK && !ipu__push(&w->list, own)) status = ipu__fail_memory();
    if (status != IPU_OK) free_weight(&own);
    return status;
}

/* ---- the host ---- */

void ipu__weights_set(ipu__weights *w, size_t i, const ipu_array *a)
{
    ipu__weight *own   = &w->list.at[i];
    size_t       bytes = ipu_array_bytes(a);
    if (bytes && own->array.data != a->data) memcpy(own->array.data, a->data, bytes);
    own->is_set = true;
}

void ipu__weights_changed(ipu__weights *w)
{
    w->host_version = w->version = next_version();
    w->holder                    = NULL;
}

static ipu_status take_back(ipu__weight *w)
{
    ipu_array own;
    if (!w->is_lent) return IPU_OK;
    IPU_TRY(ipu_array_create(w->array.type, w->array.shape, &own));
    if (ipu_array_bytes(&own)) memcpy(own.data, w->array.data, ipu_array_bytes(&own));
    w->array   = own;
    w->is_lent = false;
    return IPU_OK;
}

ipu_status ipu__weights_lend(ipu__weights *w, size_t i, const ipu_array *a)
{
    if (!a) return take_back(&w->list.at[i]);
    IPU_TRY(ipu__weights_fetch(w));
    ipu__weight *own = &w->list.at[i];
    if (!own->is_lent) ipu_array_free(&own->array);
    own->array   = *a;
    own->is_lent = own->is_set = true;
    ipu__weights_changed(w);
    return IPU_OK;
}

static ipu_status read_all(ipu__weights *w, ipu__weights_user *user)
{
    for (size_t i = 0; i < user->numbers.n; i++) {
        ipu__weight *own = &w->list.at[user->numbers.at[i]];
        IPU_TRY(user->read(user->owner, own));
        own->is_set = true;
    }
    return IPU_OK;
}

bool ipu__weights_is_behind(const ipu__weights *w) { return w->holder && w->host_version != w->version; }

ipu_status ipu__weights_fetch(ipu__weights *w)
{
    if (!ipu__weights_is_behind(w)) return IPU_OK;
    IPU_TRY(read_all(w, w->holder));
    w->host_version = w->version;
    return IPU_OK;
}

/* ---- users ---- */

static ipu_status write_all(const ipu__weights *w, ipu__weights_user *user, bool *has_all)
{
    *has_all = true;
    for (size_t i = 0; i < user->numbers.n; i++) {
        const ipu__weight *own = &w->list.at[user->numbers.at[i]];
        if (own->is_set) IPU_TRY(user->write(user->owner, own));
        *has_all &= own->is_set || ipu_array_bytes(&own->array) == 0; /* nobody gives nothing */
    }
    return IPU_OK;
}

ipu_status ipu__weights_sync(ipu__weights *w, ipu__weights_user *user)
{
    bool has_all;
    if (user->version == w->version && user->version != 0) return IPU_OK;
    if (w->holder != user) IPU_TRY(ipu__weights_fetch(w));
    IPU_TRY(write_all(w, user, &has_all));
    if (!has_all) {
        w->version = next_version();
        w->holder  = user;
    }
    if (w->version == 0) w->version = w->host_version = next_version(); /* there are no weights */
    user->version = w->version;
    return IPU_OK;
}

void ipu__weights_has_newest(ipu__weights *w, ipu__weights_user *user)
{
    user->version = w->version = next_version();
    w->holder                  = user;
}

ipu_status ipu__weights_take(ipu__weights *w, ipu__weights_user *user)
{
    IPU_TRY(ipu__weights_sync(w, user));
    IPU_TRY(read_all(w, user));
    w->holder       = NULL;
    w->host_version = w->version;
    return IPU_OK;
}

/* What is lent may have been changed by its owner: others have to look. */
static bool has_lent(const ipu__weights *w)
{
    for (size_t i = 0; i < w->list.n; i++)
        if (w->list.at[i].is_lent) return true;
    return false;
}

ipu_status ipu__weights_give(ipu__weights *w, ipu__weights_user *user)
{
    bool has_all;
    IPU_TRY(ipu__weights_fetch(w));
    IPU_TRY(write_all(w, user, &has_all));
    if (has_lent(w)) ipu__weights_changed(w);
    user->version = w->version;
    return IPU_OK;
}

ipu_status ipu__weights_leave(ipu__weights *w, ipu__weights_user *user)
{
    if (w->holder != user) return IPU_OK;
    ipu_status status = ipu__weights_fetch(w);
    w->holder         = NULL;
    return status;
}

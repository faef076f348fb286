/* Checkpoints as files: a sealed .npz (data/npz.h) of the state's arrays under their names and a few of our own,
 * called checkpoint/... */
#include "ipu/checkpoint.h"

#include <string.h>

#include "base/alloc.h"
#include "data/array.h"
#include "data/npz.h"

static const char prefix[] = "checkpoint/";

enum { FORMAT = 1 };

/* ---- our own arrays ---- */

enum { OWN_FORMAT, OWN_STEP, OWN_POSITION, OWN_TEXT, OWN_MODEL, N_OWN };

static const struct {
    const char *name;
    ipu_type    type;
    int         rank;
    int64_t     n; /* elements; -1: any number */
    bool        may_lack;
} own[N_OWN] = {
    [OWN_FORMAT]   = {"checkpoint/format", IPU_INT64, 0, 1, false},
    [OWN_STEP]     = {"checkpoint/step", IPU_INT64, 0, 1, false},
    [OWN_POSITION] = {"checkpoint/position", IPU_INT64, 1, 2, false},
    [OWN_TEXT]     = {"checkpoint/text", IPU_UINT8, 1, -1, true},
    [OWN_MODEL]    = {"checkpoint/model", IPU_UINT8, 1, -1, true},
};

static bool is_own(const char *name) { return strncmp(name, prefix, sizeof prefix - 1) == 0; }

/* Borrows the elements. */
static ipu_named_array make_own(int i, const void *data, int64_t n)
{
    ipu_array a = {.type = own[i].type, .shape = {.rank = own[i].rank}, .data = (void *)(uintptr_t)data};
    if (own[i].rank) a.shape.dim[0] = n;
    return (ipu_named_array){(char *)(uintptr_t)own[i].name, a};
}

/* ---- writing ---- */

static ipu_status check(const char *path, const ipu_checkpoint *c)
{
    if (c->step < 0 || c->position.epoch < 0 || c->position.batch < 0)
        return ipu__fail(
            IPU_INVALID,
            "cannot write %s: expected a step and a position of at least 0, found step %lld, epoch "
            "%lld, batch %lld",
            path, (long long)c->step, (long long)c->position.epoch, (long long)c->position.batch);
    for (size_t i = 0; i < c->state.n; i++) {
        const char *name = c->state.arrays[i].name;
        if (!name || !*name)
            return ipu__fail(IPU_INVALID, "cannot write %s: array %zu of the state has no name", path, i);
        if (is_own(name))
            return ipu__fail(
                IPU_INVALID,
                "cannot write %s: the state has an array \"%s\", but names that begin with \"%s\" "
                "are the checkpoint's own",
                path, name, prefix);
    }
    return IPU_OK;
}

ipu_status ipu_checkpoint_write(const char *path, const ipu_checkpoint *c)
{
    const int64_t format = FORMAT, position[2] = {c->position.epoch, c->position.batch};
    size_t        n = 0;
    IPU_TRY(check(path, c));
    ipu_named_array *all = ipu__alloc((N_OWN + c->state.n) * sizeof *all);
    if (!all) return ipu__fail_memory();
    all[n++] = make_own(OWN_FORMAT, &format, 1);
    all[n++] = make_own(OWN_STEP, &c->step, 1);
    all[n++] = make_own(OWN_POSITION, position, 2);
    if (c->text) all[n++] = make_own(OWN_TEXT, c->text, (int64_t)strlen(c->text));
    if (c->model) all[n++] = make_own(OWN_MODEL, c->model, (int64_t)strlen(c->model));
    for (size_t i = 0; i < c->state.n; i++) all[n++] = c->state.arrays[i];
    ipu_status status = ipu__npz_write_sealed(path, all, n);
    ipu__free(all);
    return status;
}

/* ---- reading ---- */

/* Takes our own arrays out of `z`, in the order of `own`; empty: not there. Names that are ours but not known
 * are left out: a later version may add some without changing the format. */
static void take_own(ipu_npz *z, ipu_array found[N_OWN])
{
    size_t n = 0;
    for (size_t i = 0; i < z->n; i++) {
        ipu_named_array *a = &z->arrays[i];
        if (!is_own(a->name)) {
            z->arrays[n++] = *a;
            continue;
        }
        for (int k = 0; k < N_OWN; k++)
            if (strcmp(a->name, own[k].name) == 0) {
                found[k] = a->array;
                a->array = (ipu_array){0};
            }
        ipu_array_free(&a->array);
        ipu__free(a->name);
    }
    z->n = n;
}

static ipu_status check_own(const char *path, const ipu_array found[N_OWN])
{
    if (!found[OWN_FORMAT].data)
        return ipu__fail(IPU_INVALID,
                         "cannot read %s: expected a checkpoint, found an archive without \"%s\"", path,
                         own[OWN_FORMAT].name);
    for (int i = 0; i < N_OWN; i++) {
        const ipu_array *a = &found[i];
        if (!a->data && own[i].may_lack) continue;
        if (!a->data || a->type != own[i].type || a->shape.rank != own[i].rank
            || (own[i].n >= 0 && ipu_array_n_elements(a) != own[i].n))
            return ipu__fail(IPU_INVALID, "cannot read %s: its array \"%s\" %s", path, own[i].name,
                             a->data ? "is of another type or shape than a checkpoint's" : "is missing");
        if (i == OWN_FORMAT && *(const int64_t *)a->data != FORMAT)
            return ipu__fail(
                IPU_UNSUPPORTED,
                "cannot read %s: it is a checkpoint of format %lld: expected %d; use the version "
                "of the library that wrote it",
                path, (long long)*(const int64_t *)a->data, FORMAT);
    }
    const int64_t *position = found[OWN_POSITION].data;
    if (*(const int64_t *)found[OWN_STEP].data < 0 || position[0] < 0 || position[1] < 0)
        return ipu__fail(IPU_INVALID, "cannot read %s: its step or position is below 0", path);
    return IPU_OK;
}

/* NULL stays NULL. */
static ipu_status make_text(const ipu_array *a, char **out)
{
    size_t n = ipu_array_bytes(a);
    *out     = NULL;
    if (!a->data) return IPU_OK;
    if (!(*out = ipu__alloc(n + 1))) return ipu__fail_memory();
    memcpy(*out, a->data, n);
    (*out)[n] = 0;
    return IPU_OK;
}

static ipu_status fill(const char *path, const ipu_array found[N_OWN], ipu_checkpoint *out)
{
    IPU_TRY(check_own(path, found));
    const int64_t *position = found[OWN_POSITION].data;
    out->step               = *(const int64_t *)found[OWN_STEP].data;
    out->position           = (ipu_loader_position){position[0], position[1]};
    IPU_TRY(make_text(&found[OWN_TEXT], &out->text));
    return make_text(&found[OWN_MODEL], &out->model);
}

ipu_status ipu_checkpoint_read(const char *path, ipu_checkpoint *out)
{
    ipu_array found[N_OWN] = {0};
    *out                   = (ipu_checkpoint){0};
    IPU_TRY(ipu__npz_read_sealed(path, &out->state));
    take_own(&out->state, found);
    ipu_status status = fill(path, found, out);
    for (int i = 0; i < N_OWN; i++) ipu_array_free(&found[i]);
    if (status != IPU_OK) ipu_checkpoint_free(out);
    return status;
}

void ipu_checkpoint_free(ipu_checkpoint *c)
{
    ipu_npz_free(&c->state);
    ipu__free(c->text);
    ipu__free(c->model);
    *c = (ipu_checkpoint){0};
}

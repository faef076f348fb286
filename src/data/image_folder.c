/* Folders with a folder of PNG pictures per class. All pictures are decoded into memory, using all available
 * threads: rereading them each epoch would take longer than training. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/host/pool.h"
#include "data/array.h"
#include "data/image_set.h"
#include "data/png.h"
#include "ipu/dataset.h"

typedef IPU__ARRAY(char *) names;

typedef struct entry {
    const char *path;
    int32_t     label;
} entry;

typedef IPU__ARRAY(entry) entries;

/* ---- what there is ---- */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_png(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && strcasecmp(name + n - 4, ".png") == 0;
}

static ipu_status fail_folder(const char *path)
{
    return ipu__fail(IPU_IO, "cannot read the folder %s: %s", path, strerror(errno));
}

/* Sorted names in a folder, of folders or of PNG files. Skips those that begin with a dot. */
static ipu_status list_open(DIR *d, const char *path, bool folders, ipu__arena *arena, names *out)
{
    for (;;) {
        struct stat st;
        char        full[PATH_MAX];
        errno                  = 0;
        const struct dirent *e = readdir(d);
        if (!e && errno) return fail_folder(path);
        if (!e) break;
        if (e->d_name[0] == '.' || (!folders && !is_png(e->d_name))) continue;
        if ((size_t)snprintf(full, sizeof full, "%s/%s", path, e->d_name) >= sizeof full
            || stat(full, &st) != 0 || (folders ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode)))
            continue;
        char *name = ipu__arena_strdup(arena, e->d_name);
        if (!name || !ipu__push(out, name)) return ipu__fail_memory();
    }
    if (out->n) qsort(out->at, out->n, sizeof *out->at, compare_names);
    return IPU_OK;
}

static ipu_status list(const char *path, bool folders, ipu__arena *arena, names *out)
{
    DIR *d = opendir(path);
    out->n = 0;
    if (!d) return fail_folder(path);
    ipu_status status = list_open(d, path, folders, arena, out);
    closedir(d);
    return status;
}

static char *join_path(ipu__arena *arena, const char *folder, const char *name)
{
    size_t n    = strlen(folder) + strlen(name) + 2;
    char  *path = ipu__arena_alloc(arena, n);
    if (path) snprintf(path, n, "%s/%s", folder, name);
    return path;
}

/* The pictures of all classes: those of the first class by name, then those of the second, ... */
static ipu_status list_pictures(const char *path, const names *classes, ipu__arena *arena, entries *out)
{
    names      pictures = {0};
    ipu_status status   = IPU_OK;
    for (size_t c = 0; c < classes->n && status == IPU_OK; c++) {
        struct stat st;
        char       *folder = join_path(arena, path, classes->at[c]);
        if (!folder) status = ipu__fail_memory();
        if (status != IPU_OK || stat(folder, &st) != 0) continue; /* only in the other part */
        status = list(folder, false, arena, &pictures);
        for (size_t i = 0; i < pictures.n && status == IPU_OK; i++) {
            entry e = {join_path(arena, folder, pictures.at[i]), (int32_t)c};
            if (!e.path || !ipu__push(out, e)) status = ipu__fail_memory();
        }
    }
    ipu__array_fini(&pictures);
    return status;
}

/* ---- reading ---- */

typedef struct trouble {
    size_t     at; /* the entry */
    ipu_status status;
    char       message[512];
} trouble;

typedef struct work {
    const entry  *entries;
    size_t        n;
    ipu__png_size size;  /* common to all */
    size_t        bytes; /* per picture */
    uint8_t      *pixels;
    trouble      *troubles;  /* the first of each thread; status OK if none */
    bool         *is_colour; /* by thread: it has seen some */
} work;

static ipu_status measure_one(work *w, size_t i, int part)
{
    ipu__png_size size;
    IPU_TRY(ipu__png_measure(w->entries[i].path, &size));
    if (size.n_channels == 3) w->is_colour[part] = true;
    if (size.height == w->size.height && size.width == w->size.width) return IPU_OK;
    return ipu__fail(IPU_INVALID,
                     "%s has %lld x %lld pixels, but %s has %lld x %lld: all must be of one size",
                     w->entries[i].path, (long long)size.width, (long long)size.height, w->entries[0].path,
                     (long long)w->size.width, (long long)w->size.height);
}

static ipu_status decode_one(const work *w, size_t i)
{
    ipu_array picture;
    IPU_TRY(ipu_png_read(w->entries[i].path, &picture));
    const uint8_t *from = picture.data;
    uint8_t       *to   = w->pixels + i * w->bytes;
    int64_t        n = w->size.height * w->size.width, c = picture.shape.dim[2];
    bool           fits = picture.shape.dim[0] == w->size.height && picture.shape.dim[1] == w->size.width
             && c <= w->size.n_channels;
    if (fits && c == w->size.n_channels)
        memcpy(to, from, w->bytes);
    else if (fits)
        for (int64_t p = 0; p < n; p++) memset(to + 3 * p, from[p], 3); /* a grey picture among colour ones */
    ipu_array_free(&picture);
    return fits ? IPU_OK : ipu__fail(IPU_IO, "%s was changed while it was read", w->entries[i].path);
}

static void keep_trouble(trouble *t, size_t at, ipu_status status)
{
    *t = (trouble){.at = at, .status = status};
    snprintf(t->message, sizeof t->message, "%s", ipu_message());
}

static void measure_part(void *user, int part, int n_parts)
{
    work      *w      = user;
    ipu_status status = IPU_OK;
    for (size_t i = (size_t)part; i < w->n && status == IPU_OK; i += (size_t)n_parts) {
        status = measure_one(w, i, part);
        if (status != IPU_OK) keep_trouble(&w->troubles[part], i, status);
    }
}

static void decode_part(void *user, int part, int n_parts)
{
    work      *w      = user;
    ipu_status status = IPU_OK;
    for (size_t i = (size_t)part; i < w->n && status == IPU_OK; i += (size_t)n_parts) {
        status = decode_one(w, i);
        if (status != IPU_OK) keep_trouble(&w->troubles[part], i, status);
    }
}

/* Reports the problem with the first bad picture, whichever thread met it. */
static ipu_status run(ipu__pool *pool, ipu__job_fn job, work *w)
{
    const trouble *first = NULL;
    ipu__pool_run(pool, job, w);
    for (int part = 0; part < ipu__pool_n_threads(pool); part++) {
        const trouble *t = &w->troubles[part];
        if (t->status != IPU_OK && (!first || t->at < first->at)) first = t;
    }
    return first ? ipu__fail(first->status, "%s", first->message) : IPU_OK;
}

static ipu_status read_pictures(ipu__pool *pool, work *w, ipu__images *out)
{
    size_t all;
    IPU_TRY(ipu__png_measure(w->entries[0].path, &w->size));
    IPU_TRY(run(pool, measure_part, w));
    w->size.n_channels = 1;
    for (int part = 0; part < ipu__pool_n_threads(pool); part++)
        if (w->is_colour[part]) w->size.n_channels = 3;
    const ipu_shape one = IPU_SHAPE(w->size.n_channels, w->size.height, w->size.width);
    const ipu_shape set = IPU_SHAPE((int64_t)w->n, one.dim[0], one.dim[1], one.dim[2]);
    IPU_TRY(ipu__array_size(IPU_UINT8, &one, &w->bytes));
    IPU_TRY(ipu__array_size(IPU_UINT8, &set, &all));
    w->pixels   = ipu__alloc(all);
    out->labels = ipu__alloc(w->n * sizeof *out->labels);
    out->block  = (ipu__bytes){.data = w->pixels, .bytes = all, .owned = w->pixels};
    if (!w->pixels || !out->labels) return ipu__fail_memory();
    for (size_t i = 0; i < w->n; i++) out->labels[i] = w->entries[i].label;
    out->kind          = "PNG files in class folders";
    out->type          = IPU_UINT8;
    out->shape         = one;
    out->channels_last = true;
    out->n             = (int64_t)w->n;
    out->pixels        = w->pixels;
    return run(pool, decode_part, w);
}

static ipu_status read_entries(const entries *e, ipu__images *out)
{
    ipu__pool *pool   = NULL;
    work       w      = {.entries = e->at, .n = e->n};
    ipu_status status = ipu__pool_create(ipu__pool_default_threads(), &pool);
    if (status == IPU_OK) {
        size_t n_threads = (size_t)ipu__pool_n_threads(pool);
        w.troubles       = ipu__alloc_zeroed(n_threads * sizeof *w.troubles);
        w.is_colour      = ipu__alloc_zeroed(n_threads * sizeof *w.is_colour);
        status           = w.troubles && w.is_colour ? read_pictures(pool, &w, out) : ipu__fail_memory();
    }
    ipu__free(w.troubles);
    ipu__free(w.is_colour);
    ipu__pool_destroy(pool);
    if (status != IPU_OK) ipu__images_free(out);
    return status;
}

/* ---- parts ---- */

/* Whether each of `some` is among `all`; both are sorted. */
static ipu_status check_classes(const char *path, const names *some, const names *all)
{
    for (size_t i = 0; i < some->n; i++)
        if (!bsearch(&some->at[i], all->at, all->n, sizeof *all->at, compare_names))
            return ipu__fail(IPU_INVALID, "%s/test has the class \"%s\", which %s/train has not", path,
                             some->at[i], path);
    return IPU_OK;
}

/* Where the class folders of `part` are: in `path`, or in its train/ and test/. Classes are those of train/, so
 * that both parts number them the same way. */
static ipu_status find_part(const char *path, ipu_dataset_part part, ipu__arena *arena, names *classes,
                            const char **where)
{
    struct stat st;
    names       of_test = {0};
    char       *train = join_path(arena, path, "train"), *test = join_path(arena, path, "test");
    if (!train || !test) return ipu__fail_memory();
    *where = path;
    if (stat(train, &st) != 0 || !S_ISDIR(st.st_mode)) return list(path, true, arena, classes);
    IPU_TRY(list(train, true, arena, classes));
    *where = part == IPU_TEST ? test : train;
    if (part == IPU_TRAIN || classes->n == 0) return IPU_OK;
    if (stat(test, &st) != 0) return ipu__fail(IPU_NOT_FOUND, "%s is there, but no %s", train, test);
    ipu_status status = list(test, true, arena, &of_test);
    if (status == IPU_OK) status = check_classes(path, &of_test, classes);
    ipu__array_fini(&of_test);
    return status;
}

ipu_status ipu__image_folder_read(const char *path, ipu_dataset_part part, bool *found, ipu__images *out)
{
    ipu__arena  arena   = {0};
    names       classes = {0};
    entries     e       = {0};
    const char *where   = path;
    *out                = (ipu__images){0};
    ipu_status status   = find_part(path, part, &arena, &classes, &where);
    if (status == IPU_OK) status = list_pictures(where, &classes, &arena, &e);
    *found = status != IPU_OK || e.n > 0;
    if (status == IPU_OK && e.n) status = read_entries(&e, out);
    if (status == IPU_OK) {
        out->n_classes = (int64_t)classes.n;
        out->undivided = where == path;
    }
    ipu__array_fini(&e);
    ipu__array_fini(&classes);
    ipu__arena_fini(&arena);
    return status;
}

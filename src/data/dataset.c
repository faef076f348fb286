/* Datasets: the interface, and samples that are rows of arrays. The source of samples is behind three
 * functions, which need not repeat the checks made here (numbers, fields). */
#include "data/dataset.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "data/array.h"

struct ipu_dataset {
    ipu_field             fields[IPU_MAX_FIELDS];
    size_t                n_fields;
    int64_t               n_samples;
    ipu__dataset_about    about;
    ipu_dataset_functions functions;
    void                 *user;
    bool                  is_begun; /* iterable: something has been read */
    char                  names[];  /* of the fields, consecutively */
};

/* ---- making one ---- */

/* *name_bytes: size of all names, including their 0s. */
static ipu_status check_fields(const ipu_field *fields, size_t n, size_t *name_bytes)
{
    *name_bytes = 0;
    if (n < 1 || n > IPU_MAX_FIELDS)
        return ipu__fail(IPU_INVALID, "a dataset of %zu fields: expected 1 to %d", n, IPU_MAX_FIELDS);
    for (size_t i = 0; i < n; i++) {
        size_t ignored;
        if (!fields[i].name || !*fields[i].name)
            return ipu__fail(IPU_INVALID, "field %zu of a dataset has no name", i);
        *name_bytes += strlen(fields[i].name) + 1;
        IPU_TRY(ipu__array_size(fields[i].type, &fields[i].shape, &ignored));
        for (size_t k = 0; k < i; k++)
            if (strcmp(fields[i].name, fields[k].name) == 0)
                return ipu__fail(IPU_INVALID, "fields %zu and %zu of a dataset are both called \"%s\"", k, i,
                                 fields[i].name);
    }
    return IPU_OK;
}

ipu_status ipu__dataset_create(const ipu_field *fields, size_t n_fields, int64_t n_samples,
                               ipu_dataset_functions functions, void *user, ipu__dataset_about about,
                               ipu_dataset **out)
{
    size_t name_bytes;
    *out = NULL;
    IPU_TRY(check_fields(fields, n_fields, &name_bytes));
    if (!functions.get == !functions.next)
        return ipu__fail(IPU_INVALID,
                         "a dataset takes either `get` or `next`: expected one of them, found %s",
                         functions.get ? "both" : "none");
    if (n_samples < (functions.get ? 0 : -1))
        return ipu__fail(IPU_INVALID, "a dataset of %lld samples: expected 0 or more%s", (long long)n_samples,
                         functions.get ? "" : ", or -1 where the number is not known");
    ipu_dataset *d = ipu__alloc(sizeof *d + name_bytes);
    if (!d) return ipu__fail_memory();
    *d = (ipu_dataset){
        .n_fields = n_fields, .n_samples = n_samples, .about = about, .functions = functions, .user = user};
    char *name = d->names, *end = name + name_bytes;
    for (size_t i = 0; i < n_fields; i++) {
        d->fields[i]      = fields[i];
        d->fields[i].name = name;
        name += snprintf(name, (size_t)(end - name), "%s", fields[i].name) + 1;
    }
    *out = d;
    return IPU_OK;
}

ipu_status ipu_dataset_create(const ipu_field *fields, size_t n_fields, int64_t n_samples,
                              ipu_dataset_functions functions, void *user, ipu_dataset **out)
{
    return ipu__dataset_create(fields, n_fields, n_samples, functions, user,
                               (ipu__dataset_about){.kind = "functions"}, out);
}

void ipu_dataset_destroy(ipu_dataset *d)
{
    if (!d) return;
    if (d->functions.destroy) d->functions.destroy(d->user);
    ipu__free(d);
}

/* ---- asking ---- */

size_t ipu_dataset_n_fields(const ipu_dataset *d) { return d->n_fields; }

const ipu_field *ipu_dataset_field_at(const ipu_dataset *d, size_t i)
{
    return i < d->n_fields ? &d->fields[i] : NULL;
}

int64_t ipu_dataset_n_samples(const ipu_dataset *d) { return d->n_samples; }

int64_t ipu_dataset_n_classes(const ipu_dataset *d) { return d->about.n_classes; }

const char *ipu_dataset_kind(const ipu_dataset *d) { return d->about.kind; }

bool ipu_dataset_is_iterable(const ipu_dataset *d) { return d->functions.next; }

ipu_status ipu_dataset_get(const ipu_dataset *d, int64_t i, void *const *fields)
{
    if (!d->functions.get)
        return ipu__fail(IPU_INVALID,
                         "an iterable dataset has no sample %lld to ask for: use "
                         "ipu_dataset_next, or a loader",
                         (long long)i);
    if (i < 0 || i >= d->n_samples)
        return ipu__fail(IPU_INVALID, "no sample %lld: the dataset has %lld", (long long)i,
                         (long long)d->n_samples);
    return d->functions.get(d->user, i, fields);
}

void ipu__dataset_expect(const ipu_dataset *d, int64_t i)
{
    if (d->about.expect) d->about.expect(d->user, i);
}

ipu_status ipu_dataset_next(ipu_dataset *d, void *const *fields, bool *end)
{
    *end = true;
    if (!d->functions.next)
        return ipu__fail(IPU_INVALID, "a map-style dataset has no next sample: use ipu_dataset_get");
    *end        = false;
    d->is_begun = true;
    return d->functions.next(d->user, fields, end);
}

ipu_status ipu_dataset_rewind(ipu_dataset *d, int64_t epoch)
{
    if (!d->functions.next || (!d->functions.rewind && epoch == 0 && !d->is_begun)) return IPU_OK;
    if (!d->functions.rewind)
        return ipu__fail(IPU_INVALID,
                         "this iterable dataset cannot begin epoch %lld: it has no `rewind`, so that what "
                         "it gives once is all there is",
                         (long long)epoch);
    return d->functions.rewind(d->user, epoch);
}

/* ---- rows of arrays ---- */

typedef struct rows {
    size_t n;
    struct {
        const char *data;
        size_t      bytes; /* per row */
    } at[IPU_MAX_FIELDS];
} rows;

static ipu_status get_rows(void *user, int64_t i, void *const *fields)
{
    const rows *r = user;
    for (size_t f = 0; f < r->n; f++)
        memcpy(fields[f], r->at[f].data + (size_t)i * r->at[f].bytes, r->at[f].bytes);
    return IPU_OK;
}

/* The type and shape of a row. */
static ipu_status describe_rows(const ipu_named_array *a, ipu_field *out)
{
    const char *name = a->name ? a->name : "";
    if (!a->array.data)
        return ipu__fail(IPU_INVALID, "array \"%s\" of a dataset is empty: it has no elements in memory",
                         name);
    if (a->array.shape.rank < 1)
        return ipu__fail(IPU_INVALID, "array \"%s\" of a dataset is a scalar: expected one row per sample",
                         name);
    *out = (ipu_field){.name = a->name, .type = a->array.type, .shape = {.rank = a->array.shape.rank - 1}};
    for (int d = 0; d < out->shape.rank; d++) out->shape.dim[d] = a->array.shape.dim[d + 1];
    return IPU_OK;
}

/* One more than the largest of integers; 0 if they are not integers, or not labels. */
static int64_t count_classes(const ipu_named_array *arrays, size_t n)
{
    for (size_t f = 0; f < n; f++) {
        const ipu_array *a = &arrays[f].array;
        if (strcmp(arrays[f].name, "labels") != 0 || a->shape.rank != 1) continue;
        if (a->type == IPU_FLOAT || a->type == IPU_HALF || a->type == IPU_BFLOAT16 || a->type == IPU_DOUBLE)
            continue;
        double most = -1;
        for (int64_t i = 0; i < a->shape.dim[0]; i++) {
            double value = ipu_array_value(a, i);
            if (value > most) most = value;
        }
        return most < (double)INT_MAX ? (int64_t)most + 1 : 0;
    }
    return 0;
}

ipu_status ipu_dataset_from_arrays(const ipu_named_array *arrays, size_t n, ipu_dataset **out)
{
    ipu_field fields[IPU_MAX_FIELDS];
    *out = NULL;
    if (n < 1 || n > IPU_MAX_FIELDS)
        return ipu__fail(IPU_INVALID, "a dataset of %zu arrays: expected 1 to %d", n, IPU_MAX_FIELDS);
    for (size_t i = 0; i < n; i++) {
        IPU_TRY(describe_rows(&arrays[i], &fields[i]));
        if (arrays[i].array.shape.dim[0] != arrays[0].array.shape.dim[0])
            return ipu__fail(
                IPU_INVALID,
                "arrays of a dataset differ in their number of rows: \"%s\" has %lld, \"%s\" %lld",
                arrays[0].name, (long long)arrays[0].array.shape.dim[0], arrays[i].name,
                (long long)arrays[i].array.shape.dim[0]);
    }
    size_t name_bytes;
    IPU_TRY(check_fields(fields, n, &name_bytes));
    rows *r = ipu__alloc(sizeof *r);
    if (!r) return ipu__fail_memory();
    r->n = n;
    for (size_t i = 0; i < n; i++) {
        r->at[i].data = arrays[i].array.data;
        ipu__array_size(fields[i].type, &fields[i].shape, &r->at[i].bytes);
    }
    ipu_dataset_functions functions = {.get = get_rows, .destroy = ipu__free};
    ipu_status            status    = ipu__dataset_create(
                      fields, n, arrays[0].array.shape.dim[0], functions, r,
                      (ipu__dataset_about){.kind = "arrays", .n_classes = count_classes(arrays, n)}, out);
    if (status != IPU_OK) ipu__free(r);
    return status;
}

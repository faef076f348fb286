/* .npz files: zip archives whose entries NAME.npy are arrays. libzip reads and writes the archive; sizes that
 * an archive claims are held against its own size, so that a small file cannot ask for much memory. */
#include "data/npz.h"

#include <stdio.h>
#include <string.h>
#include <zip.h>

#include "base/array.h"
#include "base/file.h"
#include "base/text.h"
#include "data/npy.h"

typedef IPU_ARRAY(ipu_named_array) named_arrays;

/* Of the word that libzip has for it; `error` is done with. */
static ipu_status fail_zip(const char *what, const char *path, zip_error_t *error)
{
    ipu_status status = ipu__fail(IPU_IO, "%s %s: %s", what, path, zip_error_strerror(error));
    zip_error_fini(error);
    return status;
}

/* ---- reading ---- */

typedef struct archive {
    zip_t      *zip;
    const char *name;
    uint64_t    bytes; /* of compressed data that there can still be */
} archive;

/* Owns `source`, NULL if it could not be made. */
static ipu_status open_archive(zip_source_t *source, const char *name, zip_error_t *error, archive *out)
{
    zip_stat_t st;
    *out = (archive){.name = name};
    if (!source) return fail_zip("cannot open", name, error);
    if (zip_source_stat(source, &st) == 0 && st.valid & ZIP_STAT_SIZE) out->bytes = st.size;
    out->zip = zip_open_from_source(source, ZIP_RDONLY, error);
    if (!out->zip) {
        zip_source_free(source);
        return fail_zip("cannot read", name, error);
    }
    zip_error_fini(error);
    if (out->bytes) return IPU_OK;
    zip_discard(out->zip); /* libzip takes a file without a byte for an archive without entries */
    return ipu__fail(IPU_INVALID, "cannot read %s: expected a zip archive, found an empty file", name);
}

static ipu_status open_file(const char *path, archive *out)
{
    zip_error_t error;
    zip_error_init(&error);
    return open_archive(zip_source_file_create(path, 0, -1, &error), path, &error, out);
}

/* The length of an entry's name without ".npy"; 0: it is no array. */
static size_t array_name(const char *entry)
{
    size_t n = strlen(entry);
    return n >= 4 && strcmp(entry + n - 4, ".npy") == 0 ? n - 4 : 0;
}

/* Deflate makes at most 1032 bytes of one (zlib, "Technical Details"). */
static ipu_status check_size(archive *a, const char *entry, const zip_stat_t *st)
{
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((st->valid & needed) != needed)
        return ipu__fail(IPU_INVALID, "cannot read %s: its entry %s does not say how large it is", a->name,
                         entry);
    if (st->comp_method != ZIP_CM_STORE && st->comp_method != ZIP_CM_DEFLATE)
        return ipu__fail(IPU_UNSUPPORTED,
                         "cannot read %s: its entry %s is compressed by method %u: expected 0 (stored) "
                         "or 8 (deflate), as numpy writes",
                         a->name, entry, (unsigned)st->comp_method);
    uint64_t factor = st->comp_method == ZIP_CM_STORE ? 1 : 1032;
    if (st->comp_size > a->bytes || st->size / factor > st->comp_size || st->size >= PTRDIFF_MAX)
        return ipu__fail(IPU_INVALID,
                         "cannot read %s: its entry %s says that it has %llu bytes, compressed to %llu, "
                         "which cannot be",
                         a->name, entry, (unsigned long long)st->size, (unsigned long long)st->comp_size);
    a->bytes -= st->comp_size; /* no two entries share their bytes */
    return IPU_OK;
}

static ipu_status read_all(zip_file_t *file, const char *where, char *to, uint64_t bytes)
{
    uint64_t n   = 0;
    int64_t  got = 1;
    while (n < bytes && (got = zip_fread(file, to + n, bytes - n)) > 0) n += (uint64_t)got;
    char more;
    if (got > 0 || bytes == 0) got = zip_fread(file, &more, 1); /* also checks the sum of all before */
    if (got < 0)
        return ipu__fail(IPU_IO, "cannot read %s: %s", where, zip_error_strerror(zip_file_get_error(file)));
    if (n < bytes || got > 0)
        return ipu__fail(IPU_INVALID, "cannot read %s: expected %llu bytes, found %s", where,
                         (unsigned long long)bytes, n < bytes ? "fewer" : "more");
    return IPU_OK;
}

static ipu_status read_entry(archive *a, uint64_t i, const char *entry, ipu_array *out)
{
    zip_stat_t st;
    char       where[512];
    snprintf(where, sizeof where, "%s of %s", entry, a->name);
    if (zip_stat_index(a->zip, i, 0, &st) != 0)
        return ipu__fail(IPU_IO, "cannot read %s: %s", where, zip_strerror(a->zip));
    IPU_TRY(check_size(a, entry, &st));
    zip_file_t *file = zip_fopen_index(a->zip, i, 0);
    if (!file) return ipu__fail(IPU_IO, "cannot read %s: %s", where, zip_strerror(a->zip));
    char      *buffer = ipu__alloc(st.size);
    ipu_status status = buffer ? read_all(file, where, buffer, st.size) : ipu__fail_memory();
    zip_fclose(file);
    if (status == IPU_OK) return ipu__npy_take(buffer, st.size, where, out);
    ipu__free(buffer);
    return status;
}

static ipu_status read_named(archive *a, uint64_t i, const char *entry, size_t n, named_arrays *to)
{
    if (zip_name_locate(a->zip, entry, 0) != (zip_int64_t)i)
        return ipu__fail(IPU_INVALID, "cannot read %s: it has two entries %s", a->name, entry);
    ipu_named_array one = {.name = ipu__alloc(n + 1)};
    if (!one.name) return ipu__fail_memory();
    memcpy(one.name, entry, n);
    one.name[n]       = 0;
    ipu_status status = read_entry(a, i, entry, &one.array);
    if (status == IPU_OK && !ipu__push(to, one)) status = ipu__fail_memory();
    if (status == IPU_OK) return IPU_OK;
    ipu_array_free(&one.array);
    ipu__free(one.name);
    return status;
}

/* Closes the archive. */
static ipu_status read_archive(archive *a, ipu_npz *out)
{
    named_arrays all    = {0};
    ipu_status   status = IPU_OK;
    int64_t      n      = zip_get_num_entries(a->zip, 0);
    for (int64_t i = 0; i < n && status == IPU_OK; i++) {
        const char *entry = zip_get_name(a->zip, (uint64_t)i, 0);
        if (!entry) status = ipu__fail(IPU_IO, "cannot read %s: %s", a->name, zip_strerror(a->zip));
        size_t length = entry ? array_name(entry) : 0;
        if (length) status = read_named(a, (uint64_t)i, entry, length, &all);
    }
    zip_discard(a->zip);
    *out = (ipu_npz){all.at, all.n};
    if (status != IPU_OK) ipu_npz_free(out);
    return status;
}

ipu_status ipu_npz_read(const char *path, ipu_npz *out)
{
    archive a;
    *out = (ipu_npz){0};
    IPU_TRY(open_file(path, &a));
    return read_archive(&a, out);
}

ipu_status ipu__npz_read_bytes(const void *data, size_t bytes, const char *name, ipu_npz *out)
{
    archive     a;
    zip_error_t error;
    *out = (ipu_npz){0};
    zip_error_init(&error);
    IPU_TRY(open_archive(zip_source_buffer_create(data, bytes, 0, &error), name, &error, &a));
    return read_archive(&a, out);
}

void ipu_npz_free(ipu_npz *z)
{
    for (size_t i = 0; i < z->n; i++) {
        ipu_array_free(&z->arrays[i].array);
        ipu__free(z->arrays[i].name);
    }
    ipu__free(z->arrays);
    *z = (ipu_npz){0};
}

/* Says what there is instead. */
static ipu_status fail_missing(const archive *a, const char *name)
{
    enum { MOST = 8 };
    ipu__text text  = {0};
    int64_t   n     = zip_get_num_entries(a->zip, 0);
    int       shown = 0;
    for (int64_t i = 0; i < n && shown <= MOST; i++) {
        const char *entry = zip_get_name(a->zip, (uint64_t)i, 0);
        if (!entry || !array_name(entry)) continue;
        if (shown < MOST)
            ipu__text_add(&text, "%s\"%.*s\"", shown ? ", " : "; it holds ", (int)array_name(entry), entry);
        else
            ipu__text_add(&text, " and others");
        shown++;
    }
    char      *names  = ipu__text_take(&text);
    ipu_status status = ipu__fail(IPU_NOT_FOUND, "%s holds no array \"%s\"%s", a->name, name,
                                  names ? names : "");
    ipu__free(names);
    return status;
}

ipu_status ipu_array_read_npz(const char *path, const char *name, ipu_array *out)
{
    archive a;
    char    entry[512];
    *out = (ipu_array){0};
    if ((size_t)snprintf(entry, sizeof entry, "%s.npy", name) >= sizeof entry)
        return ipu__fail(IPU_INVALID, "the name of an array is at most %zu bytes long", sizeof entry - 5);
    IPU_TRY(open_file(path, &a));
    zip_int64_t i      = zip_name_locate(a.zip, entry, 0);
    ipu_status  status = i < 0 ? fail_missing(&a, name) : read_entry(&a, (uint64_t)i, entry, out);
    zip_discard(a.zip);
    return status;
}

/* ---- writing ---- */

typedef char npy_header[IPU__NPY_HEADER_BYTES];

/* Header and elements are not copied: both stay until the archive is closed. */
static ipu_status add_entry(zip_t *zip, const ipu_named_array *one, bool compress, npy_header head)
{
    size_t    bytes;
    ipu__text text = {0};
    IPU_TRY(ipu__npy_header(&one->array, head, &bytes));
    ipu__text_add(&text, "%s.npy", one->name);
    char *entry = ipu__text_take(&text);
    if (!entry) return ipu__fail_memory();
    zip_buffer_fragment_t pieces[] = {{(zip_uint8_t *)head, bytes},
                                      {one->array.data, ipu_array_bytes(&one->array)}};
    zip_source_t         *source   = zip_source_buffer_fragment(zip, pieces, 2, 0);
    zip_int64_t           i        = source ? zip_file_add(zip, entry, source, ZIP_FL_ENC_UTF_8) : -1;
    if (source && i < 0) zip_source_free(source);
    ipu__free(entry);
    /* 1980-01-01, as numpy has it: the same arrays are the same bytes. */
    bool ok = i >= 0 && zip_file_set_dostime(zip, (uint64_t)i, 0, 1 << 5 | 1, 0) == 0
           && zip_set_file_compression(zip, (uint64_t)i, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) == 0;
    return ok ? IPU_OK : ipu__fail(IPU_IO, "cannot write the array \"%s\": %s", one->name, zip_strerror(zip));
}

static ipu_status write_archive(const char *path, const ipu_named_array *arrays, size_t n, bool compress,
                                npy_header *heads)
{
    int         code;
    zip_error_t error;
    zip_t      *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (!zip) {
        zip_error_init_with_code(&error, code);
        return fail_zip("cannot write", path, &error);
    }
    ipu_status status = IPU_OK;
    for (size_t i = 0; i < n && status == IPU_OK; i++)
        status = add_entry(zip, &arrays[i], compress, heads[i]);
    if (status == IPU_OK && zip_close(zip) == 0) return IPU_OK;
    if (status == IPU_OK) status = ipu__fail(IPU_IO, "cannot write %s: %s", path, zip_strerror(zip));
    zip_discard(zip);
    return status;
}

ipu_status ipu_npz_write(const char *path, const ipu_named_array *arrays, size_t n, bool compress)
{
    static const char empty[22] = "PK\5\6"; /* libzip removes an archive without entries */
    if (n == 0) return ipu__file_write(path, empty, sizeof empty);
    npy_header *heads = n > SIZE_MAX / sizeof *heads ? NULL : ipu__alloc(n * sizeof *heads);
    if (!heads) return ipu__fail_memory();
    ipu_status status = write_archive(path, arrays, n, compress, heads);
    ipu__free(heads);
    return status;
}

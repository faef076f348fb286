/* .npz files: zip archives whose entries NAME.npy are arrays. libzip reads and writes the archive; sizes
 * claimed by an archive are checked against its own size, so that a small file cannot demand much memory.
 * Files are written atomically. */
#include "data/npz.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include "base/array.h"
#include "base/host/file.h"
#include "base/host/regular.h"
#include "base/text.h"
#include "data/npy.h"

typedef IPU__ARRAY(ipu_named_array) named_arrays;

/* Uses libzip's message; finishes `error`. */
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
    uint64_t    bytes; /* of compressed data that may still follow */
} archive;

/* Takes ownership of `source`, which is NULL if it could not be made. */
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
    zip_discard(out->zip); /* libzip treats an empty file as an archive without entries */
    return ipu__fail(IPU_INVALID, "cannot read %s: expected a zip archive, found an empty file", name);
}

/* Takes ownership of `file`. */
static ipu_status open_stream(FILE *file, const char *path, archive *out)
{
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t *source = zip_source_filep_create(file, 0, -1, &error);
    if (!source) fclose(file);
    return open_archive(source, path, &error, out);
}

static ipu_status open_regular(const char *path, FILE **out)
{
    int fd;
    *out = NULL;
    IPU_TRY(ipu__regular_open(path, &fd));
    *out = fdopen(fd, "rb");
    if (*out) return IPU_OK;
    close(fd);
    return ipu__fail_memory();
}

static ipu_status open_file(const char *path, archive *out)
{
    FILE *file;
    IPU_TRY(open_regular(path, &file));
    return open_stream(file, path, out);
}

/* The length of an entry's name without ".npy"; 0 if it is not an array. */
static size_t array_name(const char *entry)
{
    size_t n = strlen(entry);
    return n >= 4 && strcmp(entry + n - 4, ".npy") == 0 ? n - 4 : 0;
}

/* Deflate expands by at most a factor of 1032 (zlib, "Technical Details"). */
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
    a->bytes -= st->comp_size; /* entries must not share bytes */
    return IPU_OK;
}

/* libzip 1.7 miscounts what it inflates if asked for 4 GiB or more. */
enum { MOST_AT_ONCE = 1 << 24 };

static ipu_status read_all(zip_file_t *file, const char *where, char *to, uint64_t bytes)
{
    uint64_t n   = 0;
    int64_t  got = 1;
    while (n < bytes && got > 0) {
        got = zip_fread(file, to + n, bytes - n < MOST_AT_ONCE ? bytes - n : MOST_AT_ONCE);
        if (got > 0) n += (uint64_t)got;
    }
    char more;
    if (got > 0 || bytes == 0) got = zip_fread(file, &more, 1); /* also verifies the checksum */
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

/* Lists what there is instead. */
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

/* ---- seals ---- */

/* The archive's comment, at the very end of the file. The digits are the CRC-32 of everything before them. */
static const char seal[] = "CRC-32 of all bytes before these digits: 00000000";
enum { SEAL_BYTES = sizeof seal - 1, SEAL_DIGITS = 8 };

/* Over the first `bytes`. Returns false with errno, or 0 if the file is shorter. */
static bool sum_file(int fd, int64_t bytes, char digits[SEAL_DIGITS + 1])
{
    enum { CHUNK = 1 << 15 };
    unsigned char buffer[CHUNK];
    uLong         sum = crc32(0, NULL, 0);
    for (int64_t at = 0; at < bytes;) {
        ssize_t got = pread(fd, buffer, bytes - at < CHUNK ? (size_t)(bytes - at) : CHUNK, at);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = 0;
        if (got <= 0) return false;
        sum = crc32(sum, buffer, (uInt)got);
        at += got;
    }
    snprintf(digits, SEAL_DIGITS + 1, "%08lx", (unsigned long)sum);
    return true;
}

static ipu_status fail_file(const char *what, const char *path)
{
    return ipu__fail(IPU_IO, "%s %s: %s", what, path, errno ? strerror(errno) : "it became shorter");
}

static ipu_status write_seal(const char *path, int fd)
{
    struct stat st;
    char        digits[SEAL_DIGITS + 1];
    if (fstat(fd, &st) != 0 || !sum_file(fd, st.st_size - SEAL_DIGITS, digits)
        || pwrite(fd, digits, SEAL_DIGITS, st.st_size - SEAL_DIGITS) != SEAL_DIGITS)
        return fail_file("cannot write", path);
    return IPU_OK;
}

static ipu_status check_seal(const char *path, int fd)
{
    struct stat st;
    char        found[SEAL_BYTES + 1] = "", digits[SEAL_DIGITS + 1];
    if (fstat(fd, &st) != 0) return fail_file("cannot read", path);
    if (st.st_size >= SEAL_BYTES && pread(fd, found, SEAL_BYTES, st.st_size - SEAL_BYTES) != SEAL_BYTES)
        return fail_file("cannot read", path);
    if (memcmp(found, seal, SEAL_BYTES - SEAL_DIGITS) != 0)
        return ipu__fail(IPU_INVALID,
                         "cannot read %s: expected a checksum at its end, found none: it is cut off, or "
                         "was not written as a checkpoint",
                         path);
    if (!sum_file(fd, st.st_size - SEAL_DIGITS, digits)) return fail_file("cannot read", path);
    const char *said = found + SEAL_BYTES - SEAL_DIGITS;
    if (strcmp(said, digits) == 0) return IPU_OK;
    return ipu__fail(IPU_INVALID, "cannot read %s: it is damaged: expected the checksum %.8s, found %s", path,
                     said, digits);
}

/* Reads the very file that was checked, whatever is at `path` by then. */
ipu_status ipu__npz_read_sealed(const char *path, ipu_npz *out)
{
    archive a;
    FILE   *file;
    *out = (ipu_npz){0};
    IPU_TRY(open_regular(path, &file));
    ipu_status status = check_seal(path, fileno(file));
    if (status != IPU_OK) {
        fclose(file);
        return status;
    }
    IPU_TRY(open_stream(file, path, &a));
    return read_archive(&a, out);
}

/* ---- writing ---- */

typedef enum how_written { STORED, COMPRESSED, SEALED } how_written;

typedef char npy_header[IPU__NPY_HEADER_BYTES];

/* Header and elements are not copied: both must stay until the archive is closed. */
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
    /* 1980-01-01, as in numpy: equal arrays give equal bytes. */
    bool ok = i >= 0 && zip_file_set_dostime(zip, (uint64_t)i, 0, 1 << 5 | 1, 0) == 0
           && zip_set_file_compression(zip, (uint64_t)i, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) == 0;
    return ok ? IPU_OK : ipu__fail(IPU_IO, "cannot write the array \"%s\": %s", one->name, zip_strerror(zip));
}

/* What libzip writes to: the temporary file of `f`, committed only when complete. */
typedef struct sink {
    ipu__new_file f;
    int64_t       at;
    int           failed; /* errno of a failed write, or 0 */
    zip_error_t   error;
} sink;

static int64_t sink_write(sink *s, const char *data, uint64_t bytes)
{
    ipu__size_guard guard = ipu__size_guard_begin();
    bool            ok    = true;
    for (uint64_t n = 0; n < bytes && ok;) {
        ssize_t done = pwrite(s->f.fd, data + n, bytes - n, s->at);
        ok           = done >= 0 || errno == EINTR;
        if (done < 0) continue;
        n += (uint64_t)done;
        s->at += done;
    }
    ipu__size_guard_end(&guard);
    if (ok) return (int64_t)bytes;
    s->failed = errno;
    zip_error_set(&s->error, ZIP_ER_WRITE, errno);
    return -1;
}

static int64_t sink_seek(sink *s, void *data, uint64_t bytes)
{
    struct stat st;
    if (fstat(s->f.fd, &st) != 0) {
        zip_error_set(&s->error, ZIP_ER_SEEK, errno);
        return -1;
    }
    s->at = zip_source_seek_compute_offset((uint64_t)s->at, (uint64_t)st.st_size, data, bytes, &s->error);
    return s->at < 0 ? -1 : 0;
}

static int64_t sink_stat(void *data, uint64_t bytes, sink *s)
{
    if (bytes < sizeof(zip_stat_t)) {
        zip_error_set(&s->error, ZIP_ER_INVAL, 0);
        return -1;
    }
    zip_stat_t *st = data;
    zip_stat_init(st);
    st->valid = ZIP_STAT_SIZE; /* of a previous archive: there is none */
    return 0;
}

/* A zip_source_callback, for writing only. */
static int64_t sink_do(void *user, void *data, uint64_t bytes, zip_source_cmd_t command)
{
    sink *s = user;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                              ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE,
                                              ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_BEGIN_WRITE,
                                              ZIP_SOURCE_COMMIT_WRITE, ZIP_SOURCE_ROLLBACK_WRITE,
                                              ZIP_SOURCE_WRITE, ZIP_SOURCE_SEEK_WRITE, ZIP_SOURCE_TELL_WRITE,
                                              ZIP_SOURCE_REMOVE, -1);
    case ZIP_SOURCE_STAT: return sink_stat(data, bytes, s);
    case ZIP_SOURCE_ERROR: return zip_error_to_data(&s->error, data, bytes);
    case ZIP_SOURCE_WRITE: return sink_write(s, data, bytes);
    case ZIP_SOURCE_SEEK_WRITE: return sink_seek(s, data, bytes);
    case ZIP_SOURCE_TELL_WRITE: return s->at;
    case ZIP_SOURCE_BEGIN_WRITE:
    case ZIP_SOURCE_COMMIT_WRITE:
    case ZIP_SOURCE_ROLLBACK_WRITE:
    case ZIP_SOURCE_REMOVE:
    case ZIP_SOURCE_OPEN:
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE: return 0;
    default: zip_error_set(&s->error, ZIP_ER_OPNOTSUPP, 0); return -1;
    }
}

static zip_t *open_sink(sink *s)
{
    zip_error_init(&s->error);
    zip_source_t *source = zip_source_function_create(sink_do, s, &s->error);
    zip_t        *zip    = source ? zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &s->error) : NULL;
    if (source && !zip) zip_source_free(source);
    return zip;
}

static ipu_status write_archive(const char *path, const ipu_named_array *arrays, size_t n, how_written how,
                                npy_header *heads, sink *s)
{
    zip_t *zip = open_sink(s);
    if (!zip) return fail_zip("cannot write", path, &s->error);
    ipu_status status = IPU_OK;
    for (size_t i = 0; i < n && status == IPU_OK; i++)
        status = add_entry(zip, &arrays[i], how == COMPRESSED, heads[i]);
    if (status == IPU_OK && how == SEALED && zip_set_archive_comment(zip, seal, SEAL_BYTES) != 0)
        status = ipu__fail(IPU_IO, "cannot write %s: %s", path, zip_strerror(zip));
    if (status == IPU_OK && zip_close(zip) == 0) return IPU_OK;
    char reason[IPU__FILE_REASON];
    if (status == IPU_OK)
        status = ipu__fail(IPU_IO, "cannot write %s: %s", path,
                           s->failed ? ipu__file_reason(s->failed, reason) : zip_strerror(zip));
    zip_discard(zip);
    return status;
}

static ipu_status write_file(const char *path, const ipu_named_array *arrays, size_t n, how_written how)
{
    npy_header *heads  = n > SIZE_MAX / sizeof *heads ? NULL : ipu__alloc(n * sizeof *heads);
    sink       *s      = ipu__alloc_zeroed(sizeof *s);
    ipu_status  status = heads && s ? ipu__file_begin(path, &s->f) : ipu__fail_memory();
    if (status == IPU_OK) {
        status = write_archive(path, arrays, n, how, heads, s);
        if (status == IPU_OK && how == SEALED) status = write_seal(path, s->f.fd);
        if (status == IPU_OK)
            status = ipu__file_commit(&s->f);
        else
            ipu__file_abandon(&s->f);
        zip_error_fini(&s->error);
    }
    ipu__free(heads);
    ipu__free(s);
    return status;
}

ipu_status ipu_npz_write(const char *path, const ipu_named_array *arrays, size_t n, bool compress)
{
    static const char empty[22] = "PK\5\6"; /* libzip removes an archive without entries */
    if (n == 0) return ipu__file_write(path, empty, sizeof empty);
    return write_file(path, arrays, n, compress ? COMPRESSED : STORED);
}

ipu_status ipu__npz_write_sealed(const char *path, const ipu_named_array *arrays, size_t n)
{
    if (n == 0) return ipu__fail(IPU_INVALID, "cannot write %s: there are no arrays", path);
    return write_file(path, arrays, n, SEALED);
}

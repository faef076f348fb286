/* CSV files. Numbers have decimal points regardless of the program's locale. */
#include "summary/csv.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"

/* ---- opening ---- */

static ipu_status fail_read(const ipu__csv *c)
{
    return ipu__fail(IPU_IO, "cannot read %s: %s", c->file.path, strerror(errno));
}

static ipu_status write_header(ipu__csv *c)
{
    ipu__text text = {0};
    ipu__text_add(&text, "%s\n", c->header);
    ipu_status status = text.failed ? ipu__fail_memory() : ipu__append(&c->file, text.at, text.n);
    ipu__text_fini(&text);
    return status;
}

/* An incomplete header counts as none. */
static ipu_status check_header(ipu__csv *c)
{
    size_t n = strlen(c->header), most = n + 1;
    char  *found = ipu__alloc(most);
    if (!found) return ipu__fail_memory();
    ssize_t got = pread(c->file.fd, found, most, 0);
    if (got < 0) {
        fail_read(c);
        ipu__free(found);
        return IPU_IO;
    }
    bool is_ours  = !memcmp(found, c->header, (size_t)got < n ? (size_t)got : n);
    bool is_whole = is_ours && got == (ssize_t)most && found[n] == '\n';
    ipu__free(found);
    if (is_whole) return IPU_OK;
    if (!is_ours || (size_t)got > n)
        return ipu__fail(
            IPU_INVALID,
            "cannot go on with %s: its first line is not \"%s\": it is something else, or was changed; move "
            "it away, or use another folder",
            c->file.path, c->header);
    IPU_TRY(ipu__append_cut(&c->file, 0));
    return write_header(c);
}

ipu_status ipu__csv_open(const char *path, const char *header, ipu__csv *out)
{
    *out = (ipu__csv){.header = header};
    IPU_TRY(ipu__append_open(path, false, &out->file));
    if (flock(out->file.fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return ipu__fail(
            IPU_BUSY,
            "cannot write %s: another process is writing to it; wait for its end, or use another folder",
            path);
    return check_header(out);
}

void ipu__csv_close(ipu__csv *c) { ipu__append_close(&c->file); }

bool ipu__csv_is_empty(const ipu__csv *c) { return (size_t)c->file.bytes <= strlen(c->header) + 1; }

/* ---- rows ---- */

static void add_numbers(ipu__text *text, const double *numbers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isnan(numbers[i]))
            ipu__text_add(text, ",");
        else
            ipu__text_add(text, ",%.10g", numbers[i]);
}

ipu_status ipu__csv_add(ipu__csv *c, int64_t key, const double *numbers, size_t n, const char *more)
{
    ipu__text text  = {0};
    locale_t  plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) return ipu__fail_memory();
    locale_t before = uselocale(plain);
    ipu__text_add(&text, "%" PRId64, key);
    add_numbers(&text, numbers, n);
    ipu__text_add(&text, "%s%s\n", more ? "," : "", more ? more : "");
    uselocale(before);
    freelocale(plain);
    ipu_status status = text.failed ? ipu__fail_memory() : ipu__append(&c->file, text.at, text.n);
    ipu__text_fini(&text);
    return status;
}

/* ---- going on ---- */

/* Where the first row after `key` begins, or the first invalid one. -1 with errno if unreadable. */
static int64_t find_end(FILE *f, size_t header, int64_t key)
{
    char   *line = NULL, *end;
    size_t  room = 0;
    int64_t at   = (int64_t)header + 1;
    ssize_t n;
    if (fseeko(f, at, SEEK_SET) != 0) return -1;
    for (; (n = getline(&line, &room, f)) > 0; at += n) {
        long long found = strtoll(line, &end, 10);
        if (end == line || line[n - 1] != '\n' || found > key) break;
    }
    if (n < 0 && !feof(f)) at = -1;
    free(line);
    return at;
}

ipu_status ipu__csv_cut(ipu__csv *c, int64_t key)
{
    int   fd = dup(c->file.fd);
    FILE *f  = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!f) {
        ipu_status status = fail_read(c);
        if (fd >= 0) close(fd);
        return status;
    }
    int64_t    end    = find_end(f, strlen(c->header), key);
    ipu_status status = end < 0 ? fail_read(c) : IPU_OK;
    fclose(f);
    IPU_TRY(status);
    return end < c->file.bytes ? ipu__append_cut(&c->file, end) : IPU_OK;
}

/* Owned: ipu__free. NULL on allocation failure. */
static char *free_name(const char *path)
{
    struct stat st;
    for (int i = 1;; i++) {
        ipu__text text = {0};
        ipu__text_add(&text, "%s.before", path);
        if (i > 1) ipu__text_add(&text, ".%d", i);
        char *name = ipu__text_take(&text);
        if (!name || lstat(name, &st) != 0) return name;
        ipu__free(name);
    }
}

ipu_status ipu__csv_restart(ipu__csv *c)
{
    ipu__csv   old    = *c;
    char      *to     = free_name(old.file.path);
    ipu_status status = to ? IPU_OK : ipu__fail_memory();
    if (status == IPU_OK && rename(old.file.path, to) != 0)
        status = ipu__fail(IPU_IO, "cannot rename %s to %s: %s", old.file.path, to, strerror(errno));
    if (status == IPU_OK) status = ipu__csv_open(old.file.path, old.header, c);
    if (c->file.fd != old.file.fd) ipu__csv_close(&old);
    ipu__free(to);
    return status;
}

/* .npy files: a header, which is a Python literal in one fixed form, followed by the elements. */
#include "data/npy.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/host/file.h"

/* The format: numpy/lib/format.py. Magic, two bytes of version, the header's length (2 bytes in version 1,
 * 4 in 2 and 3), and the header, blank-padded to a total multiple of 64. */
static const char magic[] = "\x93NUMPY";
enum { MAGIC_BYTES = 6, LENGTH_AT = 8, ALIGN = 64 };

/* ---- types ---- */

typedef struct npy_type {
    char     kind;
    int      bytes;
    ipu_type type;
} npy_type;

static const npy_type types[] = {
    {'b', 1, IPU_BOOL},     {'i', 1, IPU_INT8},  {'u', 1, IPU_UINT8},  {'i', 2, IPU_INT16},
    {'u', 2, IPU_UINT16},   {'i', 4, IPU_INT32}, {'u', 4, IPU_UINT32}, {'i', 8, IPU_INT64},
    {'u', 8, IPU_UINT64},   {'f', 2, IPU_HALF},  {'f', 4, IPU_FLOAT},  {'f', 8, IPU_DOUBLE},
    {'V', 2, IPU_BFLOAT16},
};
enum { N_TYPES = sizeof types / sizeof *types };

static const struct {
    char        kind;
    const char *what;
} refused[] = {
    {'O', "Python objects"},  {'S', "byte strings"}, {'a', "byte strings"},   {'U', "strings"},
    {'c', "complex numbers"}, {'M', "times"},        {'m', "time intervals"}, {'V', "raw bytes"},
};

/* `descr` is "<f4": byte order, kind, bytes. */
static ipu_status find_type(const char *descr, const char *name, ipu_type *type, bool *swapped)
{
    const char *at    = descr + (strchr("<>|=", *descr) && *descr ? 1 : 0);
    int         bytes = 0, length = 0;
    bool        is_sized = sscanf(at, "%*c%9d%n", &bytes, &length) == 1 && !at[length];
    *swapped             = *descr == '>';
    for (int i = 0; i < N_TYPES; i++)
        if (is_sized && types[i].kind == *at && types[i].bytes == bytes) {
            *type = types[i].type;
            return IPU_OK;
        }
    const char *what = "another type";
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].kind == *at) what = refused[i].what;
    return ipu__fail(IPU_UNSUPPORTED,
                     "cannot read %s: its elements are %s (descr '%s'): expected bool, integers, or "
                     "floats of 2, 4 or 8 bytes; convert them with numpy's astype first",
                     name, what, descr);
}

/* ---- the header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } ---- */

typedef struct scanner {
    const char *begin, *at, *end;
    const char *name;
} scanner;

typedef struct header {
    char      descr[32];
    bool      fortran;
    ipu_shape shape;
    unsigned  seen; /* by key number */
} header;

static ipu_status fail_header(const scanner *s, const char *expected)
{
    char found[24];
    int  n = 0;
    for (const char *p = s->at; p < s->end && n + 1 < (int)sizeof found; p++)
        found[n++] = (char)(*p >= ' ' && *p < 127 ? *p : '?');
    found[n] = 0;
    return ipu__fail(IPU_INVALID,
                     "cannot read %s: its header is wrong at byte %zu: expected %s, found \"%s\"", s->name,
                     (size_t)(s->at - s->begin), expected, found);
}

static void skip_blanks(scanner *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r')) s->at++;
}

static bool accept(scanner *s, char c)
{
    skip_blanks(s);
    if (s->at >= s->end || *s->at != c) return false;
    s->at++;
    return true;
}

static bool accept_word(scanner *s, const char *word)
{
    size_t n = strlen(word);
    skip_blanks(s);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0) return false;
    s->at += n;
    return true;
}

/* A string in either kind of quotes, without escapes. */
static ipu_status scan_string(scanner *s, char *out, size_t size)
{
    char quote = accept(s, '\'') ? '\'' : '"';
    if (quote == '"' && !accept(s, '"')) return fail_header(s, "a string");
    size_t n = 0;
    for (; s->at < s->end && *s->at != quote && n + 1 < size; s->at++) {
        if (*s->at < ' ' || *s->at > '~' || *s->at == '\\') return fail_header(s, "a plain character");
        out[n++] = *s->at;
    }
    out[n] = 0;
    if (s->at >= s->end || *s->at != quote) return fail_header(s, "the end of a short string");
    s->at++;
    return IPU_OK;
}

static ipu_status scan_descr(scanner *s, header *h)
{
    skip_blanks(s);
    if (s->at < s->end && *s->at == '[')
        return ipu__fail(
            IPU_UNSUPPORTED,
            "cannot read %s: its elements are of a structured type: expected one number each; save each "
            "field as an array of its own",
            s->name);
    return scan_string(s, h->descr, sizeof h->descr);
}

static ipu_status scan_fortran(scanner *s, header *h)
{
    h->fortran = accept_word(s, "True");
    return h->fortran || accept_word(s, "False") ? IPU_OK : fail_header(s, "True or False");
}

/* Python 2 appended an L to long numbers. */
static ipu_status scan_dimension(scanner *s, int64_t *out)
{
    int64_t value = 0;
    skip_blanks(s);
    if (s->at >= s->end || *s->at < '0' || *s->at > '9') return fail_header(s, "a dimension");
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *s->at - '0', &value))
            return fail_header(s, "a dimension of at most 63 bits");
    if (s->at < s->end && *s->at == 'L') s->at++;
    *out = value;
    return IPU_OK;
}

static ipu_status scan_shape(scanner *s, header *h)
{
    bool comma = true;
    if (!accept(s, '(')) return fail_header(s, "a tuple of dimensions");
    while (!accept(s, ')')) {
        if (!comma) return fail_header(s, "a comma");
        if (h->shape.rank == IPU_MAX_RANK)
            return ipu__fail(IPU_UNSUPPORTED, "cannot read %s: it has more than %d dimensions; reshape it",
                             s->name, IPU_MAX_RANK);
        IPU_TRY(scan_dimension(s, &h->shape.dim[h->shape.rank++]));
        comma = accept(s, ',');
    }
    return h->shape.rank == 1 && !comma ? fail_header(s, "a comma behind the only dimension") : IPU_OK;
}

static const struct {
    const char *name;
    ipu_status (*scan)(scanner *s, header *h);
} keys[] = {{"descr", scan_descr}, {"fortran_order", scan_fortran}, {"shape", scan_shape}};
enum { N_KEYS = sizeof keys / sizeof *keys };

static ipu_status scan_entry(scanner *s, header *h)
{
    char    key[32];
    scanner before = *s;
    IPU_TRY(scan_string(s, key, sizeof key));
    for (unsigned i = 0; i < N_KEYS; i++) {
        if (strcmp(key, keys[i].name) != 0) continue;
        if (h->seen & 1u << i) return fail_header(&before, "each key once");
        h->seen |= 1u << i;
        return accept(s, ':') ? keys[i].scan(s, h) : fail_header(s, "a colon");
    }
    return fail_header(&before, "the key descr, fortran_order or shape");
}

static ipu_status scan_header(scanner *s, header *h)
{
    *h         = (header){0};
    bool comma = true;
    if (!accept(s, '{')) return fail_header(s, "a dictionary");
    while (!accept(s, '}')) {
        if (!comma) return fail_header(s, "a comma");
        IPU_TRY(scan_entry(s, h));
        comma = accept(s, ',');
    }
    skip_blanks(s);
    if (s->at != s->end) return fail_header(s, "its end");
    return h->seen == (1u << N_KEYS) - 1 ? IPU_OK : fail_header(s, "the keys descr, fortran_order and shape");
}

/* ---- the whole ---- */

/* Finds the header within the file, and where the elements begin. */
static ipu_status find_header(const char *data, size_t bytes, const char *name, scanner *s,
                              size_t *elements_at)
{
    const unsigned char *u = (const unsigned char *)data;
    if (bytes < LENGTH_AT + 2 || memcmp(data, magic, MAGIC_BYTES) != 0)
        return ipu__fail(IPU_INVALID,
                         "cannot read %s: expected an array saved by numpy (.npy), found something else",
                         name);
    int major = u[MAGIC_BYTES], minor = u[MAGIC_BYTES + 1];
    if (major < 1 || major > 3 || minor != 0)
        return ipu__fail(IPU_UNSUPPORTED,
                         "cannot read %s: it is in version %d.%d of the format: expected 1.0 to 3.0", name,
                         major, minor);
    size_t at = LENGTH_AT + (major == 1 ? 2 : 4), length = u[LENGTH_AT] | (size_t)u[LENGTH_AT + 1] << 8;
    if (major > 1 && bytes >= at) length |= (size_t)u[LENGTH_AT + 2] << 16 | (size_t)u[LENGTH_AT + 3] << 24;
    if (bytes < at || length > bytes - at)
        return ipu__fail(IPU_INVALID,
                         "cannot read %s: its header says it has %zu bytes, but the file ends before", name,
                         length);
    *s           = (scanner){data + at, data + at, data + at + length, name};
    *elements_at = at + length;
    return IPU_OK;
}

static void swap_bytes(void *data, size_t n, size_t size)
{
    if (size == 2)
        for (uint16_t *p = data, *end = p + n; p < end; p++) *p = __builtin_bswap16(*p);
    if (size == 4)
        for (uint32_t *p = data, *end = p + n; p < end; p++) *p = __builtin_bswap32(*p);
    if (size == 8)
        for (uint64_t *p = data, *end = p + n; p < end; p++) *p = __builtin_bswap64(*p);
}

/* A byte other than 0 and 1 is not a valid C bool. */
static void make_bools(uint8_t *data, size_t n)
{
    for (size_t i = 0; i < n; i++) data[i] = data[i] != 0;
}

/* Reorders elements from Fortran order in `from` to C order in `to`. */
static void reorder(const char *from, const ipu_shape *shape, size_t size, char *to, size_t n)
{
    int64_t index[IPU_MAX_RANK] = {0}, stride[IPU_MAX_RANK], at = 0;
    for (int d = 0; d < shape->rank; d++) stride[d] = d ? stride[d - 1] * shape->dim[d - 1] : 1;
    for (size_t i = 0; i < n; i++) {
        memcpy(to + i * size, from + (size_t)at * size, size);
        for (int d = shape->rank - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < shape->dim[d]) break;
            at -= stride[d] * shape->dim[d];
            index[d] = 0;
        }
    }
}

/* Checks type and shape against the number of bytes. */
static ipu_status check_elements(const header *h, size_t bytes, const char *name, ipu_array *out,
                                 bool *swapped)
{
    size_t expected;
    out->shape = h->shape;
    IPU_TRY(find_type(h->descr, name, &out->type, swapped));
    if (ipu__array_size(out->type, &h->shape, &expected) == IPU_OK && expected == bytes) return IPU_OK;
    char text[256];
    ipu_shape_text(&h->shape, text, sizeof text);
    return ipu__fail(IPU_INVALID, "cannot read %s: its header promises %s%s, but %zu bytes follow", name,
                     ipu_type_name(out->type), text, bytes);
}

static ipu_status make_array(char *buffer, size_t bytes, size_t elements_at, const header *h,
                             const char *name, ipu_array *out)
{
    bool   swapped;
    size_t expected = bytes - elements_at;
    *out            = (ipu_array){.data = buffer};
    IPU_TRY(check_elements(h, expected, name, out, &swapped));
    size_t size = ipu_type_size(out->type), n = expected / size;
    if (h->fortran && h->shape.rank > 1) {
        if (!(out->data = ipu__alloc(expected))) return ipu__fail_memory();
        reorder(buffer + elements_at, &h->shape, size, out->data, n);
        ipu__free(buffer);
    } else {
        memmove(buffer, buffer + elements_at, expected);
    }
    if (swapped) swap_bytes(out->data, n, size);
    if (out->type == IPU_BOOL) make_bools(out->data, n);
    return IPU_OK;
}

ipu_status ipu__npy_take(char *buffer, size_t bytes, const char *name, ipu_array *out)
{
    scanner    s;
    header     h;
    size_t     elements_at = 0;
    ipu_status status      = find_header(buffer, bytes, name, &s, &elements_at);
    if (status == IPU_OK) status = scan_header(&s, &h);
    if (status == IPU_OK) status = make_array(buffer, bytes, elements_at, &h, name, out);
    if (status == IPU_OK) return IPU_OK;
    ipu__free(buffer);
    *out = (ipu_array){0};
    return status;
}

ipu_status ipu__npy_view(const void *data, size_t bytes, const char *name, ipu_array *out, bool *is_plain)
{
    scanner s;
    header  h;
    size_t  elements_at = 0;
    bool    swapped     = false;
    *out                = (ipu_array){0};
    *is_plain           = false;
    IPU_TRY(find_header(data, bytes, name, &s, &elements_at));
    IPU_TRY(scan_header(&s, &h));
    IPU_TRY(check_elements(&h, bytes - elements_at, name, out, &swapped));
    const char *at = (const char *)data + elements_at;
    *is_plain      = !swapped && out->type != IPU_BOOL && !(h.fortran && h.shape.rank > 1)
             && (uintptr_t)at % ipu_type_size(out->type) == 0;
    if (*is_plain) out->data = (void *)at;
    return IPU_OK;
}

ipu_status ipu_array_read_npy(const char *path, ipu_array *out)
{
    char  *buffer;
    size_t bytes;
    *out = (ipu_array){0};
    IPU_TRY(ipu__file_read(path, PTRDIFF_MAX, &buffer, &bytes));
    return ipu__npy_take(buffer, bytes, path, out);
}

/* ---- writing ---- */

ipu_status ipu__npy_header(const ipu_array *a, char out[IPU__NPY_HEADER_BYTES], size_t *bytes)
{
    size_t ignored;
    if (!a->data)
        return ipu__fail(IPU_INVALID, "cannot write an array without elements in memory: it is empty");
    IPU_TRY(ipu__array_size(a->type, &a->shape, &ignored));
    const npy_type *t = types;
    while (t->type != a->type) t++;
    int n = LENGTH_AT + 2;
    n += sprintf(out + n, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (", t->bytes == 1 ? '|' : '<',
                 t->kind, t->bytes);
    for (int d = 0; d < a->shape.rank; d++)
        n += sprintf(out + n, "%s%lld%s", d ? " " : "", (long long)a->shape.dim[d],
                     d + 1 < a->shape.rank || d == 0 ? "," : "");
    n += sprintf(out + n, "), }");
    while (n % ALIGN != ALIGN - 1) out[n++] = ' ';
    out[n++] = '\n';
    memcpy(out, magic, MAGIC_BYTES);
    out[MAGIC_BYTES]     = 1;
    out[MAGIC_BYTES + 1] = 0;
    out[LENGTH_AT]       = (char)((n - LENGTH_AT - 2) & 255);
    out[LENGTH_AT + 1]   = (char)((n - LENGTH_AT - 2) >> 8);
    *bytes               = (size_t)n;
    return IPU_OK;
}

ipu_status ipu_array_write_npy(const char *path, const ipu_array *a)
{
    char   head[IPU__NPY_HEADER_BYTES];
    size_t bytes;
    IPU_TRY(ipu__npy_header(a, head, &bytes));
    const ipu__file_piece pieces[] = {{head, bytes}, {a->data, ipu_array_bytes(a)}};
    return ipu__file_write_pieces(path, pieces, 2);
}

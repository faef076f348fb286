/* IDX files. Sizes claimed by a header are checked against the file before memory is allocated, and
 * compressed data are inflated directly into their final block. */
#include "data/idx.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"

/* The format: yann.lecun.com/exdb/mnist. Two zeros, the type, the rank, then each dimension in 4 bytes, most
 * significant first, then the elements. */
enum { UBYTE = 8, MAX_RANK = 4, MAX_HEADER = 4 + 4 * MAX_RANK };

static const struct {
    int         code;
    const char *name;
} types[] = {{0x09, "int8"}, {0x0b, "int16"}, {0x0c, "int32"}, {0x0d, "float"}, {0x0e, "double"}};

static ipu_status check_magic(const uint8_t *head, const char *name)
{
    if (head[0] || head[1] || head[3] < 1 || head[3] > MAX_RANK)
        return ipu__fail(IPU_INVALID,
                         "cannot read %s: expected an IDX file (bytes 0, 0, type, 1 to %d dimensions), found "
                         "bytes %d, %d, %d, %d",
                         name, MAX_RANK, head[0], head[1], head[2], head[3]);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].code == head[2])
            return ipu__fail(
                IPU_UNSUPPORTED,
                "cannot read %s: its elements are %s: expected bytes (type 8), as MNIST has them; "
                "save them as .npy for anything else",
                name, types[i].name);
    if (head[2] != UBYTE)
        return ipu__fail(IPU_INVALID, "cannot read %s: type %d of its elements is none of IDX's", name,
                         head[2]);
    return IPU_OK;
}

/* Requires a complete header; stores the size of the elements in *bytes. */
static ipu_status scan_header(const uint8_t *head, const char *name, ipu_shape *shape, size_t *bytes)
{
    IPU_TRY(check_magic(head, name));
    *shape = (ipu_shape){.rank = head[3]};
    *bytes = 1;
    for (int d = 0; d < shape->rank; d++) {
        const uint8_t *at = head + 4 + 4 * d;
        shape->dim[d]     = (int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
        if (__builtin_mul_overflow(*bytes, (size_t)shape->dim[d], bytes) || *bytes > PTRDIFF_MAX)
            return ipu__fail(IPU_INVALID, "cannot read %s: it promises more elements than can be addressed",
                             name);
    }
    return IPU_OK;
}

static ipu_status fail_size(const char *name, const ipu_shape *shape, const char *found)
{
    char text[256];
    ipu_shape_text(shape, text, sizeof text);
    return ipu__fail(IPU_INVALID, "cannot read %s: its header promises %s bytes, but %s; get the file again",
                     name, text, found);
}

static ipu_status fail_short(const char *name)
{
    return ipu__fail(IPU_INVALID, "cannot read %s: it ends within the header; get the file again", name);
}

/* ---- plain ---- */

static ipu_status read_plain(const uint8_t *data, size_t bytes, const char *name, ipu__idx *out)
{
    size_t head = bytes > 3 ? 4 + 4 * (size_t)data[3] : 4, n;
    if (bytes < 4) return fail_short(name);
    IPU_TRY(check_magic(data, name));
    if (bytes < head) return fail_short(name);
    IPU_TRY(scan_header(data, name, &out->shape, &n));
    if (bytes - head != n)
        return fail_size(name, &out->shape, bytes - head < n ? "fewer follow" : "more follow");
    out->elements = data + head;
    return IPU_OK;
}

/* ---- compressed ---- */

typedef struct inflater {
    z_stream    z;
    size_t      left; /* of the input, not yet given to zlib */
    const char *name;
    bool        ended;
} inflater;

static void *zlib_alloc(void *user, unsigned n, unsigned size)
{
    (void)user;
    return ipu__alloc((size_t)n * size);
}

static void zlib_free(void *user, void *ptr)
{
    (void)user;
    ipu__free(ptr);
}

static ipu_status fail_inflate(const inflater *f, int code)
{
    if (code == Z_MEM_ERROR) return ipu__fail_memory();
    return ipu__fail(IPU_INVALID, "cannot read %s: its compressed data are damaged (%s); get the file again",
                     f->name,
                     f->z.msg              ? f->z.msg
                     : code == Z_BUF_ERROR ? "they end too early"
                                           : zError(code));
}

static unsigned at_most(size_t n) { return n < (1u << 30) ? (unsigned)n : 1u << 30; }

/* A file may be several consecutive streams, according to gzip's manual. */
static int next_stream(inflater *f)
{
    if (f->z.avail_in || f->left) return inflateReset(&f->z);
    f->ended = true;
    return Z_OK;
}

/* Up to `bytes`; fewer at the end of the data. */
static ipu_status inflate_some(inflater *f, uint8_t *to, size_t bytes, size_t *got)
{
    *got = 0;
    while (*got < bytes && !f->ended) {
        if (f->z.avail_in == 0) {
            f->z.avail_in = at_most(f->left);
            f->left -= f->z.avail_in;
        }
        unsigned room  = at_most(bytes - *got);
        f->z.next_out  = to + *got;
        f->z.avail_out = room;
        int code       = inflate(&f->z, Z_NO_FLUSH);
        *got += room - f->z.avail_out;
        if (code == Z_STREAM_END) code = next_stream(f);
        if (code != Z_OK) return fail_inflate(f, code);
    }
    return IPU_OK;
}

/* Deflate expands by at most a factor of 1032 (zlib, "Technical Details"): claims beyond that are false. */
static ipu_status inflate_elements(inflater *f, size_t compressed, size_t n, ipu__idx *out)
{
    size_t  got;
    uint8_t more;
    if (n / 1032 > compressed) return fail_size(f->name, &out->shape, "the compressed data cannot hold them");
    uint8_t *to = ipu__alloc(n);
    if (!to) return ipu__fail_memory();
    out->block    = (ipu__bytes){.data = to, .bytes = n, .owned = to};
    out->elements = to;
    IPU_TRY(inflate_some(f, to, n, &got));
    if (got < n) return fail_size(f->name, &out->shape, "fewer follow");
    IPU_TRY(inflate_some(f, &more, 1, &got)); /* zlib verifies the checksum when it reaches the end */
    return got ? fail_size(f->name, &out->shape, "more follow") : IPU_OK;
}

static ipu_status inflate_all(inflater *f, size_t compressed, ipu__idx *out)
{
    uint8_t head[MAX_HEADER];
    size_t  got, n;
    IPU_TRY(inflate_some(f, head, 4, &got));
    if (got < 4) return fail_short(f->name);
    IPU_TRY(check_magic(head, f->name));
    IPU_TRY(inflate_some(f, head + 4, 4 * (size_t)head[3], &got));
    if (got < 4 * (size_t)head[3]) return fail_short(f->name);
    IPU_TRY(scan_header(head, f->name, &out->shape, &n));
    return inflate_elements(f, compressed, n, out);
}

static ipu_status read_compressed(const uint8_t *data, size_t bytes, const char *name, ipu__idx *out)
{
    enum { GZIP_ONLY = 16 };
    inflater f    = {.z    = {.next_in = (uint8_t *)data, .zalloc = zlib_alloc, .zfree = zlib_free},
                     .left = bytes,
                     .name = name};
    int      code = inflateInit2(&f.z, MAX_WBITS + GZIP_ONLY);
    if (code != Z_OK) return fail_inflate(&f, code);
    ipu_status status = inflate_all(&f, bytes, out);
    inflateEnd(&f.z);
    return status;
}

/* ---- both ---- */

ipu_status ipu__idx_read(const void *data, size_t bytes, const char *name, ipu__idx *out)
{
    const uint8_t *at            = data;
    bool           is_compressed = bytes >= 2 && at[0] == 0x1f && at[1] == 0x8b;
    *out                         = (ipu__idx){0};
    ipu_status status            = is_compressed ? read_compressed(at, bytes, name, out)
                                                 : read_plain(at, bytes, name, out);
    if (status != IPU_OK) ipu__idx_close(out);
    return status;
}

ipu_status ipu__idx_open(const char *path, ipu__idx *out)
{
    ipu__bytes file;
    *out = (ipu__idx){0};
    IPU_TRY(ipu__bytes_map(path, &file));
    ipu_status status = ipu__idx_read(file.data, file.bytes, path, out);
    if (status == IPU_OK && !out->block.data)
        out->block = file;
    else
        ipu__bytes_free(&file);
    return status;
}

void ipu__idx_close(ipu__idx *x)
{
    ipu__bytes_free(&x->block);
    *x = (ipu__idx){0};
}

size_t ipu__idx_header(const int64_t *dims, int rank, uint8_t out[IPU__IDX_HEADER_BYTES])
{
    uint8_t *at = out;
    *at++       = 0;
    *at++       = 0;
    *at++       = UBYTE;
    *at++       = (uint8_t)rank;
    for (int d = 0; d < rank; d++)
        for (int shift = 24; shift >= 0; shift -= 8) *at++ = (uint8_t)(dims[d] >> shift);
    return (size_t)(at - out);
}

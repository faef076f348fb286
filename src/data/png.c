/* PNG pictures through libpng. It longjmps out of its functions on errors, so everything it works on is in one
 * record, and nothing that changes is in the frame it jumps to. Its memory comes from base/alloc.h. */
#include "data/png.h"

#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/host/file.h"
#include "base/host/regular.h"
#include "data/array.h"
#include "ipu/dataset.h"

enum { MAX_PIXELS = 1 << 28, MAX_CHUNK = 8 << 20 };

typedef struct picture {
    png_structp png;
    png_infop   info;
    const char *name;
    char        error[128]; /* libpng's */
    bool        no_memory;
    ipu_status  status; /* ours */
    /* For reading: */
    const uint8_t *data;
    size_t         bytes, at;
    int64_t        width, height;
    int            n_channels; /* including alpha */
    uint8_t       *pixels;
    /* For writing: */
    const ipu_array *from;
    IPU__ARRAY(uint8_t) to;
} picture;

static void on_error(png_structp png, const char *text)
{
    picture *p = png_get_error_ptr(png);
    strncpy(p->error, text, sizeof p->error - 1);
    png_longjmp(png, 1);
}

/* Issues that libpng corrects itself, such as a wrong colour profile. */
static void on_warning(png_structp png, const char *text) { (void)png, (void)text; }

static void *on_malloc(png_structp png, png_alloc_size_t bytes)
{
    void *at = ipu__alloc(bytes);
    if (!at) ((picture *)png_get_mem_ptr(png))->no_memory = true;
    return at;
}

static void on_free(png_structp png, void *at)
{
    (void)png;
    ipu__free(at);
}

static ipu_status fail_picture(const picture *p, const char *verb)
{
    if (p->status != IPU_OK) return p->status;
    if (p->no_memory) return ipu__fail_memory();
    return ipu__fail(IPU_INVALID, "cannot %s %s: %s", verb, p->name, p->error);
}

/* ---- reading ---- */

static void on_read(png_structp png, uint8_t *to, size_t n)
{
    picture *p = png_get_io_ptr(png);
    if (n > p->bytes - p->at) png_error(png, "the file ends too early");
    memcpy(to, p->data + p->at, n);
    p->at += n;
}

static void refuse(picture *p, ipu_status status)
{
    p->status = status;
    png_longjmp(p->png, 1);
}

/* Deflate expands by at most a factor of 1032 (zlib, "Technical Details"), so small files cannot be large
 * pictures. */
static void check_size(picture *p)
{
    p->width  = png_get_image_width(p->png, p->info);
    p->height = png_get_image_height(p->png, p->info);
    if (p->width > MAX_PIXELS / p->height)
        refuse(p, ipu__fail(IPU_UNSUPPORTED,
                            "cannot read %s: it has %lld x %lld pixels: expected at most %d in all", p->name,
                            (long long)p->width, (long long)p->height, MAX_PIXELS));
    if (png_get_rowbytes(p->png, p->info) * (size_t)p->height / 1032 > p->bytes)
        refuse(p, ipu__fail(IPU_INVALID,
                            "cannot read %s: %zu bytes cannot hold the %lld x %lld pixels it promises",
                            p->name, p->bytes, (long long)p->width, (long long)p->height));
}

static void read_rows(picture *p)
{
    png_set_expand(p->png);   /* palettes to colours, few bits to bytes, a transparent colour to alpha */
    png_set_scale_16(p->png); /* 16 bits to 8, rounded */
    int    n_passes = png_set_interlace_handling(p->png);
    size_t row;
    png_read_update_info(p->png, p->info);
    p->n_channels = png_get_channels(p->png, p->info);
    row           = png_get_rowbytes(p->png, p->info);
    p->pixels     = ipu__alloc(row * (size_t)p->height);
    if (!p->pixels) refuse(p, ipu__fail_memory());
    for (int pass = 0; pass < n_passes; pass++)
        for (int64_t y = 0; y < p->height; y++) png_read_row(p->png, p->pixels + row * (size_t)y, NULL);
    png_read_end(p->png, NULL);
}

static ipu_status read_guarded(picture *p)
{
    if (setjmp(png_jmpbuf(p->png))) return fail_picture(p, "read");
    png_set_read_fn(p->png, p, on_read);
    png_set_user_limits(p->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(p->png, MAX_CHUNK);
    png_read_info(p->png, p->info);
    check_size(p);
    read_rows(p);
    return IPU_OK;
}

/* Blends transparent parts over white. In place: writing stays behind reading. */
static void drop_alpha(picture *p)
{
    const int n  = p->n_channels - 1;
    uint8_t  *to = p->pixels;
    for (const uint8_t *from = p->pixels, *end = from + p->width * p->height * p->n_channels; from < end;
         from += n + 1)
        for (int c = 0; c < n; c++)
            *to++ = (uint8_t)((from[c] * from[n] + 255 * (255 - from[n]) + 127) / 255);
    p->n_channels = n;
}

/* libpng allocates memory for a chunk before checking that the file contains all of it, and only warns of
 * large ones. */
static bool has_whole_chunks(const uint8_t *data, size_t bytes)
{
    enum { SIGNATURE = 8, AROUND = 12 }; /* length, name and checksum. PNG specification, 5.3 */
    for (size_t at = SIGNATURE, n; bytes >= AROUND && at <= bytes - AROUND; at += AROUND + n) {
        n = png_get_uint_32(data + at);
        if (n > bytes - AROUND - at) return false;
        if (memcmp(data + at + 4, "IEND", 4) == 0) return true;
    }
    return false;
}

ipu_status ipu__png_decode(const void *data, size_t bytes, const char *name, ipu_array *out)
{
    picture p = {.name = name, .data = data, .bytes = bytes};
    *out      = (ipu_array){0};
    if (bytes < 8 || png_sig_cmp(data, 0, 8) != 0)
        return ipu__fail(IPU_INVALID, "cannot read %s: expected a PNG picture, found something else", name);
    if (!has_whole_chunks(data, bytes))
        return ipu__fail(IPU_INVALID, "cannot read %s: the file ends too early", name);
    p.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &p, on_error, on_warning, &p, on_malloc, on_free);
    if (p.png) p.info = png_create_info_struct(p.png);
    ipu_status status = p.info ? read_guarded(&p) : ipu__fail_memory();
    png_destroy_read_struct(&p.png, &p.info, NULL);
    if (status != IPU_OK) {
        ipu__free(p.pixels);
        return status;
    }
    if (p.n_channels % 2 == 0) drop_alpha(&p);
    *out = (ipu_array){IPU_UINT8, IPU_SHAPE(p.height, p.width, p.n_channels), p.pixels};
    return IPU_OK;
}

ipu_status ipu_png_read(const char *path, ipu_array *out)
{
    char  *data;
    size_t bytes;
    *out = (ipu_array){0};
    IPU_TRY(ipu__file_read(path, (size_t)1 << 31, &data, &bytes));
    ipu_status status = ipu__png_decode(data, bytes, path, out);
    ipu__free(data);
    return status;
}

/* Signature, then the chunk IHDR: length, name, width, height, depth, colour type. PNG specification, 5.2, 11.2.2. */
ipu_status ipu__png_measure(const char *path, ipu__png_size *out)
{
    enum { NAME_AT = 12, WIDTH_AT = 16, HEIGHT_AT = 20, COLOUR_AT = 25, BYTES = 26 };
    uint8_t head[BYTES];
    int     fd;
    IPU_TRY(ipu__regular_open(path, &fd));
    ssize_t n = read(fd, head, sizeof head);
    close(fd);
    if (n < 0) return ipu__fail(IPU_IO, "cannot read %s: %s", path, strerror(errno));
    if (n < BYTES || png_sig_cmp(head, 0, 8) != 0 || memcmp(head + NAME_AT, "IHDR", 4) != 0)
        return ipu__fail(IPU_INVALID, "cannot read %s: expected a PNG picture, found something else", path);
    out->width      = png_get_uint_32(head + WIDTH_AT);
    out->height     = png_get_uint_32(head + HEIGHT_AT);
    out->n_channels = head[COLOUR_AT] & PNG_COLOR_MASK_COLOR ? 3 : 1;
    return IPU_OK;
}

/* ---- writing ---- */

static void on_write(png_structp png, uint8_t *from, size_t n)
{
    picture *p = png_get_io_ptr(png);
    if (!ipu__reserve(&p->to, n)) refuse(p, ipu__fail_memory());
    memcpy(p->to.at + p->to.n, from, n);
    p->to.n += n;
}

static void on_flush(png_structp png) { (void)png; }

static ipu_status write_guarded(picture *p)
{
    if (setjmp(png_jmpbuf(p->png))) return fail_picture(p, "write");
    const ipu_shape *shape = &p->from->shape;
    png_set_write_fn(p->png, p, on_write, on_flush);
    png_set_user_limits(p->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(p->png, p->info, (png_uint_32)shape->dim[1], (png_uint_32)shape->dim[0], 8,
                 shape->dim[2] == 3 ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(p->png, p->info);
    for (int64_t y = 0; y < shape->dim[0]; y++)
        png_write_row(p->png, (const uint8_t *)p->from->data + y * shape->dim[1] * shape->dim[2]);
    png_write_end(p->png, NULL);
    return IPU_OK;
}

static ipu_status check_writable(const ipu_array *a)
{
    const ipu_shape *s = &a->shape;
    bool is_picture    = a->data && a->type == IPU_UINT8 && s->rank == 3 && s->dim[0] > 0 && s->dim[1] > 0
                   && (s->dim[2] == 1 || s->dim[2] == 3);
    if (is_picture && s->dim[1] <= MAX_PIXELS / s->dim[0]) return IPU_OK;
    char text[256];
    ipu_shape_text(s, text, sizeof text);
    return ipu__fail(
        IPU_INVALID,
        "cannot write an array %s%s as a picture: expected uint8[height,width,1 or 3] of at most %d "
        "pixels",
        a->data ? ipu_type_name(a->type) : "without elements ", text, MAX_PIXELS);
}

ipu_status ipu_png_write(const char *path, const ipu_array *a)
{
    picture p = {.name = path, .from = a};
    IPU_TRY(check_writable(a));
    p.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &p, on_error, on_warning, &p, on_malloc,
                                      on_free);
    if (p.png) p.info = png_create_info_struct(p.png);
    ipu_status status = p.info ? write_guarded(&p) : ipu__fail_memory();
    png_destroy_write_struct(&p.png, &p.info);
    if (status == IPU_OK) status = ipu__file_write(path, p.to.at, p.to.n);
    ipu__array_fini(&p.to);
    return status;
}

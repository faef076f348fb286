/* PNG pictures: reading back what was written; every depth, colour type and interlacing; damage and
 * inconsistencies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <png.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "data/png.h"
#include "ipu/dataset.h"

static char path[] = "/tmp/ipu-png-test-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void refused(ipu_status status, ipu_status expected, const char *word)
{
    if (status != expected || !strstr(ipu_message(), word)) print_error("%d: %s\n", status, ipu_message());
    assert_int_equal(status, expected);
    assert_non_null(strstr(ipu_message(), word));
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (int64_t channels = 1; channels <= 3; channels += 2) {
        ipu_array a, b;
        assert_int_equal(ipu_array_create(IPU_UINT8, IPU_SHAPE(37, 21, channels), &a), IPU_OK);
        for (int i = 0; i < 37 * 21 * channels; i++) ((uint8_t *)a.data)[i] = (uint8_t)(i * i);
        assert_int_equal(ipu_png_write(path, &a), IPU_OK);
        assert_int_equal(ipu_png_read(path, &b), IPU_OK);
        assert_true(ipu_array_is_close(&a, &b, 0, 0, NULL));
        ipu__png_size size;
        assert_int_equal(ipu__png_measure(path, &size), IPU_OK);
        assert_true(size.height == 37 && size.width == 21 && size.n_channels == channels);
        ipu_array_free(&a);
        ipu_array_free(&b);
    }
}

/* ---- every format ---- */

enum { WIDTH = 19, HEIGHT = 11 };

typedef struct format {
    int colour, depth, interlace;
} format;

/* Sample c of a pixel, at its depth. */
static int sample(int x, int y, int c, int depth) { return (x * 37 + y * 101 + c * 59) % (1 << depth); }

static int n_samples(int colour)
{
    return colour == PNG_COLOR_TYPE_RGB        ? 3
         : colour == PNG_COLOR_TYPE_RGB_ALPHA  ? 4
         : colour == PNG_COLOR_TYPE_GRAY_ALPHA ? 2
                                               : 1;
}

/* Packs samples of `depth` bits, starting at the highest. */
static void fill_row(const format *f, int y, uint8_t *row)
{
    int bit = 0;
    memset(row, 0, WIDTH * 8);
    for (int x = 0; x < WIDTH; x++)
        for (int c = 0; c < n_samples(f->colour); c++) {
            int v = sample(x, y, c, f->depth);
            for (int k = f->depth - 1; k >= 0; k--, bit++)
                row[bit / 8] |= (uint8_t)((v >> k & 1) << (7 - bit % 8));
        }
}

static png_color palette[256];

static void write_format(const format *f)
{
    uint8_t     rows[HEIGHT][WIDTH * 8];
    uint8_t    *pointers[HEIGHT];
    FILE       *file = fopen(path, "wb");
    png_structp png  = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop   info = png_create_info_struct(png);
    assert_non_null(file);
    if (setjmp(png_jmpbuf(png))) fail();
    for (int y = 0; y < HEIGHT; y++) fill_row(f, y, pointers[y] = rows[y]);
    for (int i = 0; i < 256; i++) palette[i] = (png_color){(uint8_t)i, (uint8_t)(i * 7), (uint8_t)(255 - i)};
    png_init_io(png, file);
    png_set_IHDR(png, info, WIDTH, HEIGHT, f->depth, f->colour, f->interlace, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (f->colour == PNG_COLOR_TYPE_PALETTE) {
        png_set_PLTE(png, info, palette, 1 << f->depth);
        png_set_tRNS(png, info, (uint8_t[]){0}, 1, NULL); /* colour 0 is transparent */
    }
    png_write_info(png, info);
    png_write_image(png, pointers);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    fclose(file);
}

static int over_white(int v, int alpha) { return (v * alpha + 255 * (255 - alpha) + 127) / 255; }

static int expected(const format *f, int x, int y, int c)
{
    int n = n_samples(f->colour), v = sample(x, y, n > 1 ? c : 0, f->depth), most = (1 << f->depth) - 1;
    if (f->colour == PNG_COLOR_TYPE_PALETTE) {
        const png_color *p = &palette[v];
        return v == 0 ? 255 : c == 0 ? p->red : c == 1 ? p->green : p->blue;
    }
    v = (v * 255 + most / 2) / most;
    if (n % 2) return v;
    return over_white(v, (sample(x, y, n - 1, f->depth) * 255 + most / 2) / most);
}

static void check_format(const format *f)
{
    ipu_array a;
    int       channels = f->colour & PNG_COLOR_MASK_COLOR ? 3 : 1;
    write_format(f);
    assert_int_equal(ipu_png_read(path, &a), IPU_OK);
    assert_int_equal(a.shape.rank, 3);
    assert_true(a.shape.dim[0] == HEIGHT && a.shape.dim[1] == WIDTH && a.shape.dim[2] == channels);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int c = 0; c < channels; c++) {
                int found  = ((uint8_t *)a.data)[(y * WIDTH + x) * channels + c],
                    wanted = expected(f, x, y, c);
                if (found != wanted)
                    print_error("colour %d depth %d at %d %d %d: %d, not %d\n", f->colour, f->depth, x, y, c,
                                found, wanted);
                assert_int_equal(found, wanted);
            }
    ipu_array_free(&a);
}

static void every_format_is_read(void **state)
{
    (void)state;
    const format formats[] = {{PNG_COLOR_TYPE_GRAY, 1, 0},        {PNG_COLOR_TYPE_GRAY, 2, 0},
                              {PNG_COLOR_TYPE_GRAY, 4, 0},        {PNG_COLOR_TYPE_GRAY, 8, 0},
                              {PNG_COLOR_TYPE_GRAY, 16, 0},       {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 0},
                              {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 0}, {PNG_COLOR_TYPE_RGB, 8, 0},
                              {PNG_COLOR_TYPE_RGB, 16, 0},        {PNG_COLOR_TYPE_RGB_ALPHA, 8, 0},
                              {PNG_COLOR_TYPE_RGB_ALPHA, 16, 0},  {PNG_COLOR_TYPE_PALETTE, 1, 0},
                              {PNG_COLOR_TYPE_PALETTE, 2, 0},     {PNG_COLOR_TYPE_PALETTE, 4, 0},
                              {PNG_COLOR_TYPE_PALETTE, 8, 0}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (int interlace = 0; interlace < 2; interlace++)
            check_format(&(format){formats[i].colour, formats[i].depth,
                                   interlace ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE});
}

/* ---- what is wrong ---- */

static void damage_is_an_error(void **state)
{
    (void)state;
    char     *data;
    size_t    bytes;
    ipu_array a;
    write_format(&(format){PNG_COLOR_TYPE_RGB_ALPHA, 8, PNG_INTERLACE_ADAM7});
    assert_int_equal(ipu__file_read(path, 1 << 20, &data, &bytes), IPU_OK);
    for (size_t n = 0; n < bytes; n++) {
        char *shorter = ipu__alloc(n); /* of exactly that size, for sanitizers */
        memcpy(shorter, data, n);
        assert_int_equal(ipu__png_decode(shorter, n, "short", &a), IPU_INVALID);
        assert_non_null(strstr(ipu_message(), "short"));
        assert_null(a.data);
        ipu__free(shorter);
    }
    for (size_t i = 0; i < bytes; i++) {
        data[i] ^= 0x10;
        assert_int_not_equal(ipu__png_decode(data, bytes, "damaged", &a),
                             IPU_OK); /* all chunks have checksums */
        data[i] ^= 0x10;
    }
    ipu__free(data);
}

static void set_size(uint8_t *file, uint32_t width, uint32_t height)
{
    png_save_uint_32(file + 16, width);
    png_save_uint_32(file + 20, height);
    png_save_uint_32(file + 29, (uint32_t)crc32(0, file + 12, 17));
}

static void large_pictures_are_refused_before_memory_is_taken(void **state)
{
    (void)state;
    char     *data;
    size_t    bytes;
    ipu_array a;
    write_format(&(format){PNG_COLOR_TYPE_GRAY, 8, PNG_INTERLACE_NONE});
    assert_int_equal(ipu__file_read(path, 1 << 20, &data, &bytes), IPU_OK);
    set_size((uint8_t *)data, 1 << 20, 1 << 10);
    refused(ipu__png_decode(data, bytes, "f", &a), IPU_UNSUPPORTED, "1048576 x 1024 pixels");
    set_size((uint8_t *)data, 1 << 14, 1 << 14);
    refused(ipu__png_decode(data, bytes, "f", &a), IPU_INVALID, "cannot hold");
    set_size((uint8_t *)data, 0, 1);
    assert_int_equal(ipu__png_decode(data, bytes, "f", &a), IPU_INVALID);
    set_size((uint8_t *)data, WIDTH, HEIGHT);
    png_save_uint_32((uint8_t *)data + 33, 1 << 30); /* the length of the chunk after IHDR */
    refused(ipu__png_decode(data, bytes, "f", &a), IPU_INVALID, "ends too early");
    ipu__free(data);
}

static void other_files_and_arrays_are_named(void **state)
{
    (void)state;
    ipu_array     a;
    ipu__png_size size;
    refused(ipu_png_read("/tmp/no such picture", &a), IPU_IO, "no such picture");
    refused(ipu__png_measure("/tmp/no such picture", &size), IPU_IO, "no such picture");
    assert_int_equal(ipu__file_write(path, "GIF89a, which is another format", 31), IPU_OK);
    refused(ipu_png_read(path, &a), IPU_INVALID, "expected a PNG picture");
    refused(ipu__png_measure(path, &size), IPU_INVALID, "expected a PNG picture");
    uint8_t pixel = 0;
    refused(ipu_png_write(path, &(ipu_array){0}), IPU_INVALID, "without elements");
    refused(ipu_png_write(path, &(ipu_array){IPU_UINT8, {2, {1, 1}}, &pixel}), IPU_INVALID, "uint8[1,1]");
    refused(ipu_png_write(path, &(ipu_array){IPU_INT8, {3, {1, 1, 1}}, &pixel}), IPU_INVALID, "int8[1,1,1]");
    refused(ipu_png_write(path, &(ipu_array){IPU_UINT8, {3, {1, 1, 2}}, &pixel}), IPU_INVALID, "[1,1,2]");
    refused(ipu_png_write("/proc/none/x.png", &(ipu_array){IPU_UINT8, {3, {1, 1, 1}}, &pixel}), IPU_IO,
            "x.png");
}

/* ---- memory that runs out ---- */

static long n_allocs, refuse_at, n_live;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        n_live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (++n_allocs == refuse_at) return NULL;
    void *p = realloc(ptr, new_bytes);
    n_live += p && !ptr;
    return p;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    write_format(&(format){PNG_COLOR_TYPE_PALETTE, 4, PNG_INTERLACE_ADAM7});
    ipu__alloc_set(failing_alloc, NULL);
    ipu_status status = IPU_OUT_OF_MEMORY;
    for (refuse_at = 1; status != IPU_OK && refuse_at < 200; refuse_at++) {
        ipu_array a;
        n_allocs = 0;
        status   = ipu_png_read(path, &a);
        if (status == IPU_OK) status = ipu_png_write(path, &a);
        assert_true(status == IPU_OK || status == IPU_OUT_OF_MEMORY);
        ipu_array_free(&a);
        assert_int_equal(n_live, 0);
    }
    ipu__alloc_set(NULL, NULL);
    assert_int_equal(status, IPU_OK);
    assert_in_range(refuse_at, 8, 199);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(every_format_is_read),
        cmocka_unit_test(damage_is_an_error),
        cmocka_unit_test(large_pictures_are_refused_before_memory_is_taken),
        cmocka_unit_test(other_files_and_arrays_are_named),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}

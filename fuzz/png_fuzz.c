/* Pictures from anyone: reading gives bytes in three dimensions or an error, and what was read is a digit or none.
 * The mutator mends the checksums of chunks, so that what is behind them is reached. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "data/png.h"
#include "ipu/dataset.h"
#include "words.h"

static void stop(const char *why)
{
    fprintf(stderr, "%s: %s\n", why, ipu_message());
    abort();
}

static void make_digit(const ipu_array *picture)
{
    ipu_array  digit;
    ipu_status status = ipu_picture_digit(picture, &digit);
    if (status != IPU_OK && status != IPU_INVALID) stop("a picture is refused in an odd way");
    if (status != IPU_OK) return;
    if (ipu_array_n_elements(&digit) != 28 * 28) stop("a digit of another size");
    ipu_array_free(&digit);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes)
{
    ipu_array a;
    if (ipu__png_decode(data, bytes, "fuzz", &a) != IPU_OK) {
        if (!*ipu_message()) stop("an error without a message");
        return 0;
    }
    if (a.type != IPU_UINT8 || a.shape.rank != 3 || (a.shape.dim[2] != 1 && a.shape.dim[2] != 3))
        stop("no picture");
    if (ipu_array_bytes(&a) / 1032 > 4 * bytes)
        stop("more than the file can hold"); /* a palette makes 3 of 1 */
    make_digit(&a);
    ipu_array_free(&a);
    return 0;
}

static uint32_t number_at(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Chunks: length, name, data, and the checksum of the last two. */
static void mend_checksums(unsigned char *data, size_t bytes)
{
    enum { SIGNATURE = 8, AROUND = 12 };
    for (size_t at = SIGNATURE; bytes >= AROUND && at <= bytes - AROUND;) {
        size_t n = number_at(data + at);
        if (n > bytes - AROUND - at) return;
        uint32_t sum = (uint32_t)crc32(0, data + at + 4, (unsigned)n + 4);
        for (int k = 0; k < 4; k++) data[at + 8 + n + (size_t)k] = (unsigned char)(sum >> (24 - 8 * k));
        at += AROUND + n;
    }
}

static const char *const words[] = {"IHDR", "PLTE", "IDAT", "IEND", "tRNS",
                                    "gAMA", "iCCP", "zTXt", "bKGD", "sBIT"};

size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t bytes, size_t max_bytes, unsigned seed)
{
    bytes = mutate_words(data, bytes, max_bytes, seed, words, sizeof words / sizeof *words);
    if (seed % 8) mend_checksums(data, bytes);
    return bytes;
}

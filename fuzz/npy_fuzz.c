/* Arrays and archives of arrays from anyone: reading gives arrays or an error; an array that was read is written to
 * bytes from which the same is read. Inputs that begin as zip archives do are taken for .npz, others for .npy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/npy.h"
#include "data/npz.h"
#include "words.h"

static void stop(const char *why)
{
    fprintf(stderr, "%s: %s\n", why, ipu_message());
    abort();
}

static void round_trip(const ipu_array *a)
{
    char      head[IPU__NPY_HEADER_BYTES];
    size_t    n, bytes = ipu_array_bytes(a);
    ipu_array again;
    if (ipu__npy_header(a, head, &n) != IPU_OK) stop("what was read has no header");
    char *file = ipu__alloc(n + bytes);
    if (!file) return;
    memcpy(file, head, n);
    memcpy(file + n, a->data, bytes);
    if (ipu__npy_take(file, n + bytes, "written", &again) != IPU_OK) stop("what was written is not read");
    if (again.type != a->type || again.shape.rank != a->shape.rank || ipu_array_bytes(&again) != bytes
        || memcmp(again.data, a->data, bytes) != 0)
        stop("read differently the second time");
    ipu_array_free(&again);
}

static ipu_status read_archive(const unsigned char *data, size_t bytes)
{
    ipu_npz z;
    IPU_TRY(ipu__npz_read_bytes(data, bytes, "fuzz", &z));
    for (size_t i = 0; i < z.n; i++) round_trip(&z.arrays[i].array);
    ipu_npz_free(&z);
    return IPU_OK;
}

static ipu_status read_array(const unsigned char *data, size_t bytes)
{
    ipu_array a;
    char     *copy = ipu__alloc(bytes);
    if (!copy) return IPU_OK;
    memcpy(copy, data, bytes);
    IPU_TRY(ipu__npy_take(copy, bytes, "fuzz", &a));
    round_trip(&a);
    ipu_array_free(&a);
    return IPU_OK;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes)
{
    bool       is_archive = bytes >= 2 && memcmp(data, "PK", 2) == 0;
    ipu_status status     = is_archive ? read_archive(data, bytes) : read_array(data, bytes);
    if (status != IPU_OK && !*ipu_message()) stop("an error without a message");
    return 0;
}

static const char *const words[] = {"'descr'",
                                    "'fortran_order'",
                                    "'shape'",
                                    "True",
                                    "False",
                                    "'<f4'",
                                    "'>f8'",
                                    "'|b1'",
                                    "'<V2'",
                                    "'|O'",
                                    "(",
                                    ")",
                                    ",",
                                    ":",
                                    "{",
                                    "}",
                                    "0",
                                    "1",
                                    "2",
                                    "(2, 3)",
                                    "(1,)",
                                    "()",
                                    "L",
                                    "[",
                                    "'",
                                    "\"",
                                    " ",
                                    "\n",
                                    "9223372036854775807",
                                    "4294967296"};

/* Makes the length that a header of version 1 says it has right again, so that more of them are scanned. */
static void mend_length(unsigned char *data, size_t bytes)
{
    size_t end = 0;
    for (size_t i = 10; i < bytes && i < 600; i++)
        if (data[i] == '\n') end = i + 1;
    if (!end) return;
    data[8] = (unsigned char)((end - 10) & 255);
    data[9] = (unsigned char)((end - 10) >> 8);
}

size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t bytes, size_t max_bytes, unsigned seed)
{
    bytes = mutate_words(data, bytes, max_bytes, seed, words, sizeof words / sizeof *words);
    if (bytes > 10 && data[0] == 0x93 && data[6] == 1 && seed % 4) mend_length(data, bytes);
    return bytes;
}

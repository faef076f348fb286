/* IDX files from anyone, compressed or not: reading gives all the bytes that are promised, no more than the file can
 * hold, or an error. Inputs that begin with 'z' are compressed here first, so that more than headers is reached. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "data/idx.h"

static void stop(const char *why)
{
    fprintf(stderr, "%s: %s\n", why, ipu_message());
    abort();
}

/* The same header, made anew, leads to the same elements. */
static void round_trip(const ipu__idx *x, size_t n)
{
    uint8_t  head[IPU__IDX_HEADER_BYTES];
    ipu__idx again;
    if (x->shape.rank > 3) return;
    size_t   bytes = ipu__idx_header(x->shape.dim, x->shape.rank, head);
    uint8_t *file  = ipu__alloc(bytes + n);
    if (!file) return;
    memcpy(file, head, bytes);
    memcpy(file + bytes, x->elements, n);
    if (ipu__idx_read(file, bytes + n, "written", &again) != IPU_OK) stop("what was written is not read");
    if (memcmp(again.elements, x->elements, n) != 0) stop("read differently the second time");
    ipu__idx_close(&again);
    ipu__free(file);
}

static ipu_status read_file(const void *data, size_t bytes)
{
    ipu__idx x;
    size_t   n = 1;
    IPU_TRY(ipu__idx_read(data, bytes, "fuzz", &x));
    for (int d = 0; d < x.shape.rank; d++) n *= (size_t)x.shape.dim[d];
    if (n / 1032 > bytes) stop("more than the file can hold");
    round_trip(&x, n);
    ipu__idx_close(&x);
    return IPU_OK;
}

static ipu_status read_compressed(const uint8_t *data, size_t bytes)
{
    z_stream z = {.next_in = (uint8_t *)data, .avail_in = (unsigned)bytes};
    if (deflateInit2(&z, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) return IPU_OK;
    z.avail_out       = (unsigned)deflateBound(&z, bytes);
    size_t   room     = z.avail_out;
    uint8_t *packed   = ipu__alloc(room);
    z.next_out        = packed;
    int        code   = packed ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
    ipu_status status = code == Z_STREAM_END ? read_file(packed, room - z.avail_out) : IPU_OK;
    deflateEnd(&z);
    ipu__free(packed);
    return status;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes)
{
    bool       compress = bytes > 0 && data[0] == 'z';
    ipu_status status   = compress ? read_compressed(data + 1, bytes - 1) : read_file(data, bytes);
    if (status != IPU_OK && !*ipu_message()) stop("an error without a message");
    return 0;
}

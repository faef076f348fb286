/* Records: length, its checksum, data, their checksum; all little-endian. */
#include "summary/record.h"

/* Four bits at a time: the polynomial 0x1EDC6F41, reflected. */
static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                   0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                   0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};

uint32_t ipu__crc32c(const void *data, size_t bytes)
{
    const unsigned char *p   = data;
    uint32_t             crc = 0xFFFFFFFF;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= p[i];
        crc = table[crc & 15] ^ (crc >> 4);
        crc = table[crc & 15] ^ (crc >> 4);
    }
    return ~crc;
}

static void put(unsigned char *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(value >> (8 * i));
}

/* The format masks checksums, since checksums of data that contain checksums are weak: rotated, plus a
 * constant. */
static uint32_t checksum(const void *data, size_t bytes)
{
    uint32_t crc = ipu__crc32c(data, bytes);
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

void ipu__record_frame(unsigned char *record, size_t bytes)
{
    put(record, bytes, 8);
    put(record + 8, checksum(record, 8), 4);
    put(record + IPU__RECORD_HEAD + bytes, checksum(record + IPU__RECORD_HEAD, bytes), 4);
}

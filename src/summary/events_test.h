/* For tests: splits an event file into records, checking that each is complete and has correct checksums; shares no
 * code with the library. */
#ifndef IPU_SUMMARY_EVENTS_TEST_H
#define IPU_SUMMARY_EVENTS_TEST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct test_events {
    unsigned char *file;
    size_t         n;
    struct {
        const unsigned char *data;
        size_t               bytes;
    } at[4096];
} test_events;

/* Bit by bit. */
static inline uint32_t test_events_masked(const unsigned char *p, size_t n)
{
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < 8 * n; i++)
        crc = (crc >> 1) ^ (((crc ^ (p[i / 8] >> i % 8)) & 1) ? 0x82F63B78 : 0);
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

static inline void test_events_read(const char *path, test_events *out)
{
    size_t    size = 0, at = 0;
    const int most = 1 << 24;
    FILE     *f    = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    memset(out, 0, sizeof *out);
    out->file = malloc((size_t)most);
    size      = fread(out->file, 1, (size_t)most, f);
    fclose(f);
    while (at < size) {
        uint64_t length;
        uint32_t before, after;
        if (size - at < 16) fail_msg("%s: half a record at %zu", path, at);
        memcpy(&length, out->file + at, 8);
        memcpy(&before, out->file + at + 8, 4);
        assert_int_equal(before, test_events_masked(out->file + at, 8));
        if (length > size - at - 16) fail_msg("%s: half a record at %zu", path, at);
        memcpy(&after, out->file + at + 12 + length, 4);
        assert_int_equal(after, test_events_masked(out->file + at + 12, length));
        assert_true(out->n < 4096);
        out->at[out->n].data    = out->file + at + 12;
        out->at[out->n++].bytes = length;
        at += 16 + length;
    }
}

static inline void test_events_free(test_events *e) { free(e->file); }

#endif

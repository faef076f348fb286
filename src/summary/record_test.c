/* CRC-32C against the examples of RFC 3720, and a record against one derived from TensorFlow's
 * documentation of the format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "events_test.h"
#include "summary/record.h"

/* Appendix B.4. */
static void test_checksums(void **state)
{
    (void)state;
    unsigned char bytes[32] = {0};
    assert_int_equal(ipu__crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(ipu__crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (unsigned char i = 0; i < 32; i++) bytes[i] = i;
    assert_int_equal(ipu__crc32c(bytes, sizeof bytes), 0x46dd794e);
    for (unsigned char i = 0; i < 32; i++) bytes[i] = 31 - i;
    assert_int_equal(ipu__crc32c(bytes, sizeof bytes), 0x113fdb5c);
    const unsigned char scsi[48] = {
        0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, 0x28, [40] = 0x02};
    assert_int_equal(ipu__crc32c(scsi, sizeof scsi), 0xd9963a56);
    assert_int_equal(ipu__crc32c("", 0), 0);
}

static void test_frame(void **state)
{
    (void)state;
    unsigned char record[IPU__RECORD_HEAD + 300 + IPU__RECORD_TAIL + 1] = {0};
    for (int i = 0; i < 300; i++) record[IPU__RECORD_HEAD + i] = (unsigned char)(i * 7);
    ipu__record_frame(record, 300);
    const unsigned char length[8] = {44, 1};
    assert_memory_equal(record, length, sizeof length);
    uint32_t a = test_events_masked(length, 8), b = test_events_masked(record + IPU__RECORD_HEAD, 300);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(record[8 + i], (unsigned char)(a >> 8 * i));
        assert_int_equal(record[IPU__RECORD_HEAD + 300 + i], (unsigned char)(b >> 8 * i));
    }
    assert_int_equal(record[sizeof record - 1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_checksums), cmocka_unit_test(test_frame)};
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}

/* TFRecord, the framing of event files: each record carries its length and checksums, so that truncation is
 * detected. */
#ifndef IPU_SUMMARY_RECORD_H
#define IPU_SUMMARY_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum { IPU__RECORD_HEAD = 12, IPU__RECORD_TAIL = 4 };

/* CRC-32C (Castagnoli), as in iSCSI (RFC 3720). */
uint32_t ipu__crc32c(const void *data, size_t bytes);

/* Fills in what precedes and follows the `bytes` at record + IPU__RECORD_HEAD. */
void ipu__record_frame(unsigned char *record, size_t bytes);

#endif

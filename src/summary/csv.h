/* Tables as CSV files, of which the first column is a whole number that grows: a row at a time, read by others while they grow. */
#ifndef IPU_SUMMARY_CSV_H
#define IPU_SUMMARY_CSV_H

#include "summary/append.h"

typedef struct ipu__csv { /* all zero: not open */
    ipu__appended file;
    const char   *header; /* without its newline */
} ipu__csv;

/* Makes the file, with its header, if there is none. `header` is borrowed. To be closed in either case. Statuses: those of
 * ipu__append_open, BUSY (another process has it open), INVALID (the file begins with something else). */
ipu_status ipu__csv_open(const char *path, const char *header, ipu__csv *out);
void       ipu__csv_close(ipu__csv *c);

bool ipu__csv_is_empty(const ipu__csv *c); /* it has no rows */

/* The first column, then numbers with a comma before each (nan: an empty cell), then `text`, NULL: none. Statuses: IO,
 * OUT_OF_MEMORY. */
ipu_status ipu__csv_add(ipu__csv *c, int64_t key, const double *numbers, size_t n, const char *text);
/* Removes rows after the one with `key`, and what was not written to its end. Statuses: IO. */
ipu_status ipu__csv_cut(ipu__csv *c, int64_t key);
/* Begins a new file; this one is renamed to NAME.before, or NAME.before.2, ... Statuses: as ipu__csv_open. */
ipu_status ipu__csv_restart(ipu__csv *c);

#endif

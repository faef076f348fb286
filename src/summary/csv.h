/* Tables as CSV files, whose first column is an ascending integer: written row by row, and readable while
 * they grow. */
#ifndef IPU_SUMMARY_CSV_H
#define IPU_SUMMARY_CSV_H

#include "summary/append.h"

typedef struct ipu__csv { /* all zero: not open */
    ipu__appended file;
    const char   *header; /* without its newline */
} ipu__csv;

/* Creates the file, with its header, if needed. `header` is borrowed. Close it in any case. Statuses: those of
 * ipu__append_open, BUSY (open in another process), INVALID (the file begins with something else). */
ipu_status ipu__csv_open(const char *path, const char *header, ipu__csv *out);
void       ipu__csv_close(ipu__csv *c);

bool ipu__csv_is_empty(const ipu__csv *c); /* whether there are no rows */

/* The first column, then numbers preceded by commas (nan gives an empty cell), then `text`, if not NULL. Statuses:
 * IO, OUT_OF_MEMORY. */
ipu_status ipu__csv_add(ipu__csv *c, int64_t key, const double *numbers, size_t n, const char *text);
/* Removes rows after the one with `key`, and any incomplete one. Statuses: IO. */
ipu_status ipu__csv_cut(ipu__csv *c, int64_t key);
/* Starts a new file; the existing one is renamed to NAME.before, or NAME.before.2, ... Statuses: as for
 * ipu__csv_open. */
ipu_status ipu__csv_restart(ipu__csv *c);

#endif

/* Text of other processes and of files, made fit for terminals, tables and JSON: valid UTF-8 without controls, and without
 * what turns the direction of text; each of these reads `?`. */
#ifndef HARMLESS_H
#define HARMLESS_H

#include <stdbool.h>
#include <stddef.h>

/* What does not fit is cut; the rest of `out` is zeros. */
void harmless_copy(char *out, size_t size, const char *text);

/* Borrowed: until the fourth next call of the thread. At most 8191 bytes. */
const char *harmless(const char *text);

/* The same in place, for text of several lines: ends of lines and tabs stay. */
void harmless_lines(char *text);

#endif

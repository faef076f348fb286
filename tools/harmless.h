/* Makes text from other processes and files safe for terminals, tables and JSON: valid UTF-8, with controls,
 * including those of text direction, replaced by `?`. */
#ifndef HARMLESS_H
#define HARMLESS_H

#include <stdbool.h>
#include <stddef.h>

/* Truncates to fit; the rest of `out` is zeroed. */
void harmless_copy(char *out, size_t size, const char *text);

/* Borrowed, and valid until the thread's fourth call after this one. At most 8191 bytes. */
const char *harmless(const char *text);

/* Likewise in place for multi-line text: newlines and tabs stay. */
void harmless_lines(char *text);

#endif

/* Tables in boxes of + - and |, as gc-monitor draws them: centred text in columns of given width. */
#ifndef TOOLS_TABLE_H
#define TOOLS_TABLE_H

#include <stdio.h>

/* +----+--------+ */
void table_rule(FILE *out, const int *widths, int n);

/* | 0 | text |: centred, with an odd blank to the right; text that is too long loses its beginning:
 * "...5.10". Control characters become question marks. */
void table_row(FILE *out, const int *widths, const char *const *cells, int n);

/* The width of the output: COLUMNS, or the terminal's; 0 if it is no terminal. */
int table_columns(void);

#endif

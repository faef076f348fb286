/* Tables in boxes of + - and |, as gc-monitor draws them: text in the middle of columns of given width. */
#ifndef TOOLS_TABLE_H
#define TOOLS_TABLE_H

#include <stdio.h>

/* +----+--------+ */
void table_rule(FILE *out, const int *widths, int n);

/* | 0  |  text  |: centred, an odd blank to the right; what is too long loses its beginning: "...5.10".
 * Control characters become question marks. */
void table_row(FILE *out, const int *widths, const char *const *cells, int n);

/* How wide the output may be: COLUMNS, or the terminal; 0: it is no terminal. */
int table_columns(void);

#endif

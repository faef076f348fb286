/* The terminal, by ncurses: begun and ended, styles that also do without colours, text that never leaves its place, and
 * what is drawn of block characters, or of ASCII where the locale has none. */
#ifndef TOOLS_LIVE_SCREEN_H
#define TOOLS_LIVE_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

typedef enum live_style {
    LIVE_PLAIN,
    LIVE_BOLD,
    LIVE_DIM,
    LIVE_TITLE,   /* of the screen */
    LIVE_HEADING, /* of a table */
    LIVE_SELECTED,
    LIVE_MARKED, /* what is selected in the table that has no keys now */
    LIVE_GOOD,
    LIVE_BUSY,
    LIVE_WARNING,
    LIVE_BAD,
} live_style;

/* False: *problem says why and what to do. */
bool live_screen_begin(char *problem, size_t size);
/* The terminal as it was. */
void live_screen_end(void);

/* Can text be placed on the terminal that TERM names? False: *problem. */
bool live_terminal_check(char *problem, size_t size);
/* "the terminal ... WHY: what to do"; false. */
bool live_terminal_fail(char *problem, size_t size, const char *why);

bool live_screen_is_wide(void); /* Unicode can be shown */

/* Text in `width` columns from x on: cut with an ellipsis, or filled up with blanks. */
void live_put(int y, int x, int width, live_style style, const char *text);
/* The same, to the right of its place. */
void live_put_right(int y, int x, int width, live_style style, const char *text);

/* A bar for a share of 0 to 1; below 0: nothing is known. */
void live_put_bar(int y, int x, int width, live_style style, double share);
/* The last values, the newest at the right; below 0: a blank. */
void live_put_spark(int y, int x, int width, live_style style, const float *shares, int n);

/* How wide text is on the screen. */
int live_width(const char *text);

/* Signs: arrows of sorting, and a dash. */
const char *live_sign_sorted(bool reverse);
const char *live_sign_dash(void);

#endif

/* The terminal, by ncurses: begin and end, styles that also work without colours, text that never leaves its
 * place, and bars and sparklines of block characters, or of ASCII if the locale has none. */
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
    LIVE_MARKED, /* the selection in the table without focus */
    LIVE_GOOD,
    LIVE_BUSY,
    LIVE_WARNING,
    LIVE_BAD,
} live_style;

/* Returns false with the reason and the remedy in *problem. */
bool live_screen_begin(char *problem, size_t size);
/* Restores the terminal. */
void live_screen_end(void);

/* Whether text can be positioned on the terminal that TERM names; if not, *problem says why. */
bool live_terminal_check(char *problem, size_t size);
/* Sets *problem to "the terminal ... WHY: what to do"; returns false. */
bool live_terminal_fail(char *problem, size_t size, const char *why);

bool live_screen_is_wide(void); /* Unicode can be shown */

/* Text in `width` columns from x on: truncated with an ellipsis, or padded with blanks. */
void live_put(int y, int x, int width, live_style style, const char *text);
/* Likewise, right-aligned. */
void live_put_right(int y, int x, int width, live_style style, const char *text);

/* A bar for a share of 0 to 1; below 0: unknown. */
void live_put_bar(int y, int x, int width, live_style style, double share);
/* The most recent values, newest at the right; below 0: a blank. */
void live_put_spark(int y, int x, int width, live_style style, const float *shares, int n);

/* The width of a text on the screen. */
int live_width(const char *text);

/* Symbols: arrows for sorting, and a dash. */
const char *live_sign_sorted(bool reverse);
const char *live_sign_dash(void);

#endif

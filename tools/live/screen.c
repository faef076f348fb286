/* The terminal. Text is measured by wcwidth; characters it cannot show become question marks. */
#include "live/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

static SCREEN *screen;
static bool    wide, colours;

/* ---- begin and end ---- */

static void choose_colours(void)
{
    const char *no = getenv("NO_COLOR");
    colours        = !(no && *no) && has_colors() && start_color() == OK && use_default_colors() == OK;
    if (!colours) return;
    init_pair(LIVE_TITLE, COLOR_CYAN, -1);
    init_pair(LIVE_HEADING, COLOR_BLACK, COLOR_GREEN);
    init_pair(LIVE_GOOD, COLOR_GREEN, -1);
    init_pair(LIVE_BUSY, COLOR_CYAN, -1);
    init_pair(LIVE_WARNING, COLOR_YELLOW, -1);
    init_pair(LIVE_BAD, COLOR_RED, -1);
    init_pair(LIVE_SELECTED, COLOR_BLACK, COLOR_CYAN);
}

bool live_screen_begin(char *problem, size_t size)
{
    setlocale(LC_CTYPE, "");
    wide = !strcmp(nl_langinfo(CODESET), "UTF-8");
    if (!live_terminal_check(problem, size)) return false;
    screen = newterm(NULL, stdout, stdin);
    if (!screen) return live_terminal_fail(problem, size, "cannot be used");
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(50);
    curs_set(0);
    choose_colours();
    return true;
}

void live_screen_end(void)
{
    if (!screen) return;
    endwin();
    delscreen(screen);
    screen = NULL;
}

bool live_screen_is_wide(void) { return wide; }

/* ---- styles ---- */

static attr_t attributes_of(live_style style)
{
    static const attr_t with_colours[] = {
        [LIVE_PLAIN] = A_NORMAL,   [LIVE_BOLD] = A_BOLD,       [LIVE_DIM] = A_DIM,     [LIVE_TITLE] = A_BOLD,
        [LIVE_HEADING] = A_NORMAL, [LIVE_SELECTED] = A_NORMAL, [LIVE_MARKED] = A_BOLD, [LIVE_GOOD] = A_NORMAL,
        [LIVE_BUSY] = A_NORMAL,    [LIVE_WARNING] = A_BOLD,    [LIVE_BAD] = A_BOLD};
    static const attr_t without[] = {[LIVE_PLAIN]    = A_NORMAL,
                                     [LIVE_BOLD]     = A_BOLD,
                                     [LIVE_DIM]      = A_NORMAL,
                                     [LIVE_TITLE]    = A_BOLD,
                                     [LIVE_HEADING]  = A_REVERSE,
                                     [LIVE_SELECTED] = A_REVERSE,
                                     [LIVE_MARKED]   = A_BOLD,
                                     [LIVE_GOOD]     = A_NORMAL,
                                     [LIVE_BUSY]     = A_NORMAL,
                                     [LIVE_WARNING]  = A_BOLD,
                                     [LIVE_BAD]      = A_BOLD | A_UNDERLINE};
    return colours ? with_colours[style] : without[style];
}

static void set_style(live_style style)
{
    bool paired = colours
               && (style == LIVE_TITLE || style == LIVE_HEADING || style >= LIVE_GOOD
                   || style == LIVE_SELECTED);
    attr_set(attributes_of(style), (short)(paired ? style : 0), NULL);
}

/* ---- text ---- */

/* Returns the next character of a text and advances it; *columns is the character's width. */
static wchar_t next(const char **text, mbstate_t *state, int *columns)
{
    wchar_t c;
    size_t  n = mbrtowc(&c, *text, MB_CUR_MAX, state);
    if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
        memset(state, 0, sizeof *state);
        c = L'?';
        n = 1;
    }
    *text += n;
    *columns = wcwidth(c);
    if (*columns >= 0) return c;
    *columns = 1;
    return L'?';
}

int live_width(const char *text)
{
    mbstate_t state = {0};
    int       n     = 0, columns;
    while (*text) {
        next(&text, &state, &columns);
        n += columns;
    }
    return n;
}

/* Adds as much as fits; returns the width of what was added. */
static int put_some(const char *text, int width)
{
    mbstate_t state = {0};
    int       used  = 0, columns;
    while (*text) {
        wchar_t c[2] = {next(&text, &state, &columns), 0};
        if (used + columns > width) break;
        addwstr(c);
        used += columns;
    }
    return used;
}

static void put_at(int y, int x, int width, live_style style, const char *text, bool right)
{
    int total = live_width(text);
    if (width <= 0 || y < 0 || y >= LINES || x < 0 || x >= COLS) return;
    if (x + width > COLS) width = COLS - x;
    set_style(style);
    move(y, x);
    if (right && total < width) printw("%*s", width - total, "");
    int used = right && total < width ? width - total : 0;
    if (total <= width)
        used += put_some(text, width);
    else if (width >= 4) {
        used = put_some(text, wide ? width - 1 : width - 2);
        used += put_some(wide ? "\xE2\x80\xA6" : "..", width - used);
    } else
        used = put_some(text, width);
    if (used < width) printw("%*s", width - used, "");
    attr_set(A_NORMAL, 0, NULL);
}

void live_put(int y, int x, int width, live_style style, const char *text)
{
    put_at(y, x, width, style, text, false);
}

void live_put_right(int y, int x, int width, live_style style, const char *text)
{
    put_at(y, x, width, style, text, true);
}

/* ---- pictures ---- */

static const char *const eighths_across[] = {" ",      "\u258F", "\u258E", "\u258D", "\u258C",
                                             "\u258B", "\u258A", "\u2589", "\u2588"};
static const char *const eighths_up[]     = {"\u2581", "\u2582", "\u2583", "\u2584",
                                             "\u2585", "\u2586", "\u2587", "\u2588"};
static const char *const ascii_up[]       = {"_", ".", ":", "-", "=", "+", "*", "#"};

enum { PIECE = 4, MOST_CELLS = 256 };

void live_put_bar(int y, int x, int width, live_style style, double share)
{
    char text[MOST_CELLS * PIECE] = "";
    int  cells                    = width < MOST_CELLS ? width : MOST_CELLS - 1;
    int  steps = share <= 0 ? 0 : (int)lround((share < 1 ? share : 1) * cells * (wide ? 8 : 1));
    if (share > 0 && steps == 0) steps = 1; /* round a little up to something */
    for (int i = 0; i < cells; i++) {
        int part = wide ? steps - 8 * i : 8 * (steps - i);
        strcat(text, part <= 0 ? (share < 0 ? " "
                                  : wide    ? "\u00B7"
                                            : ".")
                     : !wide   ? "#"
                               : eighths_across[part > 8 ? 8 : part]);
    }
    live_put(y, x, width, style, text);
}

void live_put_spark(int y, int x, int width, live_style style, const float *shares, int n)
{
    char text[MOST_CELLS * PIECE] = "";
    int  cells                    = width < MOST_CELLS ? width : MOST_CELLS - 1;
    for (int i = n - cells; i < n; i++) {
        float share = i < 0 ? -1 : shares[i];
        int   level = share < 0 ? 0 : share < 1 ? (int)(share * 8) : 7;
        strcat(text, share < 0 ? " " : wide ? eighths_up[level] : ascii_up[level]);
    }
    live_put(y, x, width, style, text);
}

const char *live_sign_sorted(bool reverse)
{
    if (!wide) return reverse ? "v" : "^";
    return reverse ? "\u25BC" : "\u25B2";
}

const char *live_sign_dash(void) { return wide ? "\u2013" : "-"; }

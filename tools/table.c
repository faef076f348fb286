/* Tables in boxes of + - and |. Widths are in characters: each UTF-8 character counts as one. */
#include "table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "harmless.h"

enum { MOST_COLUMNS = 1000 };

static void repeat(FILE *out, char c, int n)
{
    for (int i = 0; i < n; i++) fputc(c, out);
}

void table_rule(FILE *out, const int *widths, int n)
{
    fputc('+', out);
    for (int i = 0; i < n; i++) {
        repeat(out, '-', widths[i]);
        fputc('+', out);
    }
    fputc('\n', out);
}

/* Whether it is the first byte of a character. */
static int begins(char c) { return ((unsigned char)c & 0xC0) != 0x80; }

static int characters(const char *text)
{
    int n = 0;
    for (; *text; text++) n += begins(*text);
    return n;
}

static const char *skip(const char *text, int n)
{
    while (*text && (n > 0 || !begins(*text))) n -= begins(*text++);
    return text;
}

static void put_cell(FILE *out, const char *text, int width)
{
    int n    = characters(text);
    int left = n < width ? (width - n) / 2 : 0;
    repeat(out, ' ', left);
    if (n > width) {
        fputs("...", out);
        text = skip(text, n - width + 3);
    }
    fputs(harmless(text), out);
    repeat(out, ' ', width - n - left);
}

void table_row(FILE *out, const int *widths, const char *const *cells, int n)
{
    fputc('|', out);
    for (int i = 0; i < n; i++) {
        put_cell(out, cells[i], widths[i]);
        fputc('|', out);
    }
    fputc('\n', out);
}

int table_columns(void)
{
    struct winsize size;
    const char    *text = getenv("COLUMNS");
    char          *end;
    long           n = text ? strtol(text, &end, 10) : 0;
    if (!text || end == text || *end || n < 1)
        n = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
    return n < MOST_COLUMNS ? (int)n : MOST_COLUMNS;
}

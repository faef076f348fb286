/* Command lines: built word by word, and printed in shell syntax. */
#include "words.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(words *w)
{
    if (w->n + 2 <= w->room) return true;
    size_t room = w->room ? 2 * w->room : 64;
    char **more = realloc(w->at, room * sizeof *more);
    if (!more) return false;
    w->at   = more;
    w->room = room;
    return true;
}

/* Appends `text`, taking ownership; NULL means that it could not be made. */
static void take(words *w, char *text)
{
    if (!text || !make_room(w)) {
        w->failed = true;
        free(text);
        return;
    }
    w->at[w->n++] = text;
    w->at[w->n]   = NULL;
}

void words_add(words *w, const char *text) { take(w, strdup(text)); }

void words_add_two(words *w, const char *a, const char *b)
{
    words_add(w, a);
    words_add(w, b);
}

void words_add_format(words *w, const char *format, ...)
{
    va_list args;
    char   *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    take(w, text);
}

void words_free(words *w)
{
    for (size_t i = 0; i < w->n; i++) free(w->at[i]);
    free(w->at);
    *w = (words){0};
}

static void print_word(const char *word, FILE *out)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:=,@%+";
    if (*word && !word[strspn(word, plain)]) {
        fputs(word, out);
        return;
    }
    putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", out);
        else
            putc(*word, out);
    putc('\'', out);
}

void words_print(const words *w, FILE *out)
{
    for (size_t i = 0; i < w->n; i++) {
        if (i) putc(' ', out);
        print_word(w->at[i], out);
    }
    putc('\n', out);
}

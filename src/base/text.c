/* A growing string that remembers failure until it is taken. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

void ipu__text_add_bytes(ipu__text *text, const char *bytes, size_t n)
{
    if (text->failed) return;
    if (!ipu__reserve(text, n + 1)) {
        text->failed = true;
        return;
    }
    memcpy(text->at + text->n, bytes, n);
    text->n += n;
    text->at[text->n] = 0;
}

void ipu__text_add(ipu__text *text, const char *format, ...)
{
    char    small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof small) {
        ipu__text_add_bytes(text, small, (size_t)n);
    } else if (n > 0 && !text->failed) {
        if (ipu__reserve(text, (size_t)n + 1)) {
            vsnprintf(text->at + text->n, (size_t)n + 1, format, again);
            text->n += (size_t)n;
        } else {
            text->failed = true;
        }
    }
    va_end(again);
}

void ipu__text_add_quoted(ipu__text *text, const char *string)
{
    ipu__text_add_bytes(text, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)string; *s; s++) {
        if (*s == '"' || *s == '\\')
            ipu__text_add(text, "\\%c", *s);
        else if (*s == '\n')
            ipu__text_add_bytes(text, "\\n", 2);
        else if (*s == '\t')
            ipu__text_add_bytes(text, "\\t", 2);
        else if (*s < 32 || *s == 127)
            ipu__text_add(text, "\\x%02x", *s);
        else
            ipu__text_add_bytes(text, (const char *)s, 1);
    }
    ipu__text_add_bytes(text, "\"", 1);
}

char *ipu__text_take(ipu__text *text)
{
    ipu__text_add_bytes(text, "", 0);
    char *done = text->failed ? NULL : text->at;
    if (!done) ipu__free(text->at);
    *text = (ipu__text){0};
    return done;
}

void ipu__text_fini(ipu__text *text)
{
    ipu__free(text->at);
    *text = (ipu__text){0};
}

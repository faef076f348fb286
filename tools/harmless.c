/* Making text safe to print on a terminal. */
#include "harmless.h"

#include <stdint.h>
#include <string.h>

/* Decodes the character at `text` and returns its length in bytes; 0 if it is not UTF-8. */
static int decode(const unsigned char *text, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = *text < 0x80 ? 1 : *text >> 5 == 6 ? 2 : *text >> 4 == 14 ? 3 : *text >> 3 == 30 ? 4 : 0;
    *out  = n <= 1 ? *text : *text & (0xFFu >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((text[i] & 0xC0) != 0x80) return 0;
        *out = *out << 6 | (text[i] & 0x3F);
    }
    return n && *out >= least[n] && *out <= 0x10FFFF && *out >> 11 != 0x1B ? n : 0;
}

/* Controls, including those of text direction: a name has no business doing either to a screen. */
static bool does_harm(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x200E && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E)
        || (c >= 0x2066 && c <= 0x2069);
}

void harmless_copy(char *out, size_t size, const char *text)
{
    const unsigned char *at   = (const unsigned char *)text;
    size_t               used = 0;
    while (*at) {
        uint32_t c;
        int      n    = decode(at, &c);
        bool     keep = n > 0 && !does_harm(c);
        size_t   room = keep ? (size_t)n : 1;
        if (used + room >= size) break;
        if (keep)
            memcpy(out + used, at, room);
        else
            out[used] = '?';
        used += room;
        at += n > 0 ? n : 1;
    }
    memset(out + used, 0, size - used);
}

const char *harmless(const char *text)
{
    enum { N_KEPT = 4, MOST_BYTES = 8192 };
    static _Thread_local char     kept[N_KEPT][MOST_BYTES];
    static _Thread_local unsigned next;
    char                         *out = kept[next++ % N_KEPT];
    harmless_copy(out, MOST_BYTES, text);
    return out;
}

void harmless_lines(char *text)
{
    char *out = text;
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        uint32_t c;
        int      n     = decode(at, &c);
        int      bytes = n > 0 ? n : 1;
        bool     keep  = n > 0 && (!does_harm(c) || c == '\n' || c == '\t');
        if (keep)
            memmove(out, at, (size_t)bytes);
        else
            *out = '?';
        out += keep ? bytes : 1;
        at += bytes;
    }
    *out = 0;
}

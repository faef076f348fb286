/* UTF-8 according to RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
#include "summary/utf8.h"

#include <stdint.h>

#include "base/text.h"

/* The length in bytes of the character at `text`; 0 if it is invalid. */
static int length_of(const unsigned char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int      n = *text < 0x80 ? 1 : *text >> 5 == 6 ? 2 : *text >> 4 == 14 ? 3 : *text >> 3 == 30 ? 4 : 0;
    uint32_t c = n <= 1 ? *text : *text & (0xFFu >> (n + 1));
    for (int i = 1; i < n; i++) {
        if ((text[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (text[i] & 0x3F);
    }
    return n && c >= least[n] && c <= 0x10FFFF && c >> 11 != 0x1B ? n : 0;
}

char *ipu__utf8_copy(const char *text)
{
    static const char    unknown[] = "\xEF\xBF\xBD";
    const unsigned char *at        = (const unsigned char *)text;
    ipu__text            copy      = {0};
    ipu__text_add(&copy, "%s", "");
    while (*at) {
        int n = length_of(at);
        ipu__text_add_bytes(&copy, n ? (const char *)at : unknown, n ? (size_t)n : sizeof unknown - 1);
        at += n ? n : 1;
    }
    return ipu__text_take(&copy);
}

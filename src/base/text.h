/* Text under construction.
 *
 *     ipu__text t = {0};
 *     ipu__text_add(&t, "%d tiles", n);
 *     char *done = ipu__text_take(&t);        NULL if any allocation failed
 */
#ifndef IPU_BASE_TEXT_H
#define IPU_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ipu__text { /* all zero: empty */
    char  *at;             /* NULL or 0-terminated */
    size_t n, capacity;
    bool   failed;
} ipu__text;

void ipu__text_add(ipu__text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ipu__text_add_bytes(ipu__text *text, const char *bytes, size_t n);
/* Adds it in double quotes, with C escapes where needed. */
void ipu__text_add_quoted(ipu__text *text, const char *string);
/* Owned: ipu__free. Leaves `text` empty. NULL on allocation failure. */
char *ipu__text_take(ipu__text *text);
void  ipu__text_fini(ipu__text *text);

#endif

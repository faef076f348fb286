/* Reference-counted text, for several requests that send the same text at once. */
#ifndef TOOLS_WEB_TEXT_H
#define TOOLS_WEB_TEXT_H

#include <stdatomic.h>
#include <stddef.h>

typedef struct web_text {
    atomic_int users;
    size_t     size;
    char      *bytes;
} web_text;

/* Takes ownership of `bytes`, allocated by malloc, even on failure. NULL if out of memory, or `bytes` is
 * NULL. */
web_text *web_text_create(char *bytes, size_t size);
/* NULL is allowed. */
web_text *web_text_use(web_text *text);
void      web_text_release(web_text *text);

#endif

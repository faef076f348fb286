/* Text that several requests send at once: made once, counted, let go by the last. */
#ifndef TOOLS_WEB_TEXT_H
#define TOOLS_WEB_TEXT_H

#include <stdatomic.h>
#include <stddef.h>

typedef struct web_text {
    atomic_int users;
    size_t     size;
    char      *bytes;
} web_text;

/* Takes `bytes`, which came from malloc, even if it fails. NULL: out of memory, or `bytes` is NULL. */
web_text *web_text_create(char *bytes, size_t size);
/* NULL: nothing. */
web_text *web_text_use(web_text *text);
void      web_text_release(web_text *text);

#endif

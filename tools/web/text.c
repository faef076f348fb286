/* Reference-counted text. */
#include "web/text.h"

#include <stdlib.h>

web_text *web_text_create(char *bytes, size_t size)
{
    web_text *t = bytes ? malloc(sizeof *t) : NULL;
    if (!t) {
        free(bytes);
        return NULL;
    }
    atomic_init(&t->users, 1);
    t->size  = size;
    t->bytes = bytes;
    return t;
}

web_text *web_text_use(web_text *t)
{
    if (t) atomic_fetch_add(&t->users, 1);
    return t;
}

void web_text_release(web_text *t)
{
    if (!t || atomic_fetch_sub(&t->users, 1) != 1) return;
    free(t->bytes);
    free(t);
}

/* The token that a request must bring where others can reach the monitor's page. */
#ifndef TOOLS_WEB_TOKEN_H
#define TOOLS_WEB_TOKEN_H

#include <stdbool.h>

#include "command.h"

enum { WEB_TOKEN_LEAST = 16, WEB_TOKEN_MOST = 256 };

typedef struct web_token {
    char text[WEB_TOKEN_MOST + 1]; /* "": none is needed */
    bool made;                     /* here, so that nobody knows it yet */
} web_token;

/* The first line of `file`, which nobody but its owner may read; or if `file` is NULL what IPU_MONITOR_TOKEN holds; or if
 * there is none and one is `needed`, 192 random bits. What is wrong is reported. */
tool_exit web_token_get(const char *file, bool needed, web_token *out);

/* In a time that does not tell how much of it is right. NULL: is none. */
bool web_token_is(const web_token *token, const char *given);

/* As it stands in a URL. */
void web_token_escape(const web_token *token, char out[3 * WEB_TOKEN_MOST + 1]);

#endif

/* The token that requests must carry when others can reach the monitor's page. */
#ifndef TOOLS_WEB_TOKEN_H
#define TOOLS_WEB_TOKEN_H

#include <stdbool.h>

#include "command.h"

enum { WEB_TOKEN_LEAST = 16, WEB_TOKEN_MOST = 256 };

typedef struct web_token {
    char text[WEB_TOKEN_MOST + 1]; /* "" if none is needed */
    bool made;                     /* generated here, so the user has to be told */
} web_token;

/* The first line of `file`, which must be readable by its owner only; with `file` NULL the value of
 * IPU_MONITOR_TOKEN; if that is unset and a token is `needed`, 192 random bits. Reports errors. */
tool_exit web_token_get(const char *file, bool needed, web_token *out);

/* In constant time, so that timing does not reveal how much is right. `given` may be NULL, which never
 * matches. */
bool web_token_is(const web_token *token, const char *given);

/* Encoded for a URL. */
void web_token_escape(const web_token *token, char out[3 * WEB_TOKEN_MOST + 1]);

#endif

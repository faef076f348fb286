/* Where the monitor's page listens: "127.0.0.1:8091", "[::1]:0", "localhost:8091". */
#ifndef TOOLS_WEB_ADDRESS_H
#define TOOLS_WEB_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command.h"

enum { WEB_HOST = 256 };

typedef struct web_address {
    char     host[WEB_HOST]; /* as given, without brackets */
    uint16_t port;           /* after listening, never 0 */
    bool     loopback;       /* unreachable from outside this host */
    bool     any;            /* all addresses of the host */
    int      socket;
} web_address;

/* Binds and listens; reports errors. Owned: close(socket). */
tool_exit web_address_listen(const char *text, web_address *out);

/* "http://127.0.0.1:8091/" in `out`, for people; 0.0.0.0 is replaced by the host's name. */
void web_address_url(const web_address *a, char *out, size_t size);

/* Whether a request with this Host header was meant for a loopback address: a foreign page whose name was
 * made to resolve to this host (DNS rebinding) sends another. NULL if the header is missing. */
bool web_address_is_host(const web_address *a, const char *header);

#endif

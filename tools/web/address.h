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
    uint16_t port;           /* once it listens: never 0 */
    bool     loopback;       /* nobody outside this host can reach it */
    bool     any;            /* every address of the host */
    int      socket;
} web_address;

/* Binds and listens; what is wrong is reported. Owned: close(socket). */
tool_exit web_address_listen(const char *text, web_address *out);

/* "http://127.0.0.1:8091/" in `out`, for people: of 0.0.0.0, with the host's name. */
void web_address_url(const web_address *a, char *out, size_t size);

/* Whether a request with this Host header was meant for an address of the loopback: a page from elsewhere whose
 * name was made to lead here has another. NULL: none came. */
bool web_address_is_host(const web_address *a, const char *header);

#endif

/* Addresses to listen at: parsed, bound, printed as a URL, compared with Host headers. */
#include "web/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "output.h"

enum {
    BACKLOG    = 4096,       /* a full backlog makes clients wait for seconds */
    SEND_BYTES = 128 * 1024, /* of kernel memory each: the default gives megabytes to those who do not read */
    SILENCE_SECONDS = 5,
};

/* ---- host and port ---- */

static bool read_port(const char *text, uint16_t *out)
{
    char         *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value > UINT16_MAX) return false;
    *out = (uint16_t)value;
    return true;
}

/* Splits "HOST:PORT" or "[HOST]:PORT"; IPv6 addresses contain colons, so they need the brackets. */
static bool split(const char *text, char host[WEB_HOST], const char **port)
{
    const char *begin = text, *end;
    if (*text == '[') {
        begin = text + 1;
        end   = strchr(begin, ']');
        if (!end || end[1] != ':') return false;
        *port = end + 2;
    } else {
        end = strchr(text, ':');
        if (!end || strchr(end + 1, ':')) return false;
        *port = end + 1;
    }
    if (end == begin || end - begin >= WEB_HOST) return false;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = 0;
    return true;
}

/* ---- kinds of addresses ---- */

typedef union socket_address {
    struct sockaddr     any;
    struct sockaddr_in6 six;
    struct sockaddr_in  four;
} socket_address;

static void classify_four(web_address *a, struct in_addr four)
{
    a->loopback = ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
    a->any      = four.s_addr == htonl(INADDR_ANY);
}

/* IPv4 addresses may come mapped into IPv6. */
static void classify(web_address *a, const socket_address *s)
{
    struct in_addr inside;
    a->port = ntohs(s->any.sa_family == AF_INET ? s->four.sin_port : s->six.sin6_port);
    if (s->any.sa_family == AF_INET) {
        classify_four(a, s->four.sin_addr);
    } else if (IN6_IS_ADDR_V4MAPPED(&s->six.sin6_addr)) {
        memcpy(&inside, s->six.sin6_addr.s6_addr + 12, sizeof inside);
        classify_four(a, inside);
    } else {
        a->loopback = IN6_IS_ADDR_LOOPBACK(&s->six.sin6_addr);
        a->any      = IN6_IS_ADDR_UNSPECIFIED(&s->six.sin6_addr);
    }
}

/* ---- listening ---- */

static int open_socket(const struct addrinfo *info)
{
    int on = 1, bytes = SEND_BYTES, silence = SILENCE_SECONDS;
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol);
    if (fd < 0) return -1;
    /* A monitor that was just stopped leaves connections in TIME_WAIT. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    /* Clients that have not sent anything wait in the kernel and take up no connection of ours. */
    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silence, sizeof silence);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static tool_exit refuse(const char *text)
{
    if (errno == EADDRINUSE)
        return tool_fail(
            "cannot listen on %s: something else does; stop it, or take another port (0: any that is free)",
            text);
    return tool_fail("cannot listen on %s: %s", text, strerror(errno));
}

tool_exit web_address_listen(const char *text, web_address *out)
{
    const char     *port;
    uint16_t        number;
    struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    *out                   = (web_address){.socket = -1};
    if (!split(text, out->host, &port) || !read_port(port, &number))
        return tool_usage(
            "monitor", "option --listen: expected HOST:PORT, as 127.0.0.1:8091 or [::1]:8091, found \"%s\"",
            text);
    struct addrinfo *found = NULL;
    int              error = getaddrinfo(out->host, port, &wanted, &found);
    if (error != 0)
        return tool_fail("cannot listen on %s: %s; expected an address of this host", text,
                         error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
    for (const struct addrinfo *i = found; i && out->socket < 0; i = i->ai_next) out->socket = open_socket(i);
    int why = errno;
    freeaddrinfo(found);
    errno = why;
    if (out->socket < 0) return refuse(text);
    socket_address s    = {.six = {0}};
    socklen_t      size = sizeof s;
    if (getsockname(out->socket, &s.any, &size) != 0) {
        tool_exit code = refuse(text);
        close(out->socket);
        return code;
    }
    classify(out, &s);
    return TOOL_OK;
}

void web_address_url(const web_address *a, char *out, size_t size)
{
    char host[WEB_HOST];
    snprintf(host, sizeof host, "%s", a->host);
    if (a->any && gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "%s", a->host);
    host[sizeof host - 1] = 0;
    snprintf(out, size, strchr(host, ':') ? "http://[%s]:%u/" : "http://%s:%u/", host, (unsigned)a->port);
}

/* Any port will do: the other end of an ssh tunnel has its own. */
bool web_address_is_host(const web_address *a, const char *header)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    char                     given[WEB_HOST + 3];
    uint16_t                 port;
    if (!header) return false;
    const char *bracket = strrchr(header, ']');
    const char *colon   = strrchr(bracket ? bracket : header, ':');
    size_t      length  = colon ? (size_t)(colon - header) : strlen(header);
    if (colon && !read_port(colon + 1, &port)) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && !strncasecmp(names[i], header, length)) return true;
    snprintf(given, sizeof given, strchr(a->host, ':') ? "[%s]" : "%s", a->host);
    return strlen(given) == length && !strncasecmp(given, header, length);
}

/* libmicrohttpd hands out the path, names and values as strings that end at the first NUL. They point into
 * the received bytes, so the bytes between them show whether anything was hidden behind a NUL. */
#include "web/request.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

enum { OK = 0, BAD = MHD_HTTP_BAD_REQUEST };

/* ---- path and query ---- */

static unsigned judge_target(const char *target)
{
    size_t n = strlen(target);
    if (n > WEB_TARGET_MOST) return MHD_HTTP_URI_TOO_LONG;
    if (*target != '/') return BAD;
    for (const unsigned char *c = (const unsigned char *)target; *c; c++) {
        if (*c <= ' ' || *c >= 0x7f) return BAD;
        if (*c == '%' && (!isxdigit(c[1]) || !isxdigit(c[2]) || (c[1] == '0' && c[2] == '0'))) return BAD;
    }
    return OK;
}

void web_request_begin(web_request *r, const char *target)
{
    *r = (web_request){.target      = target,
                       .target_end  = target ? target + strlen(target) : NULL,
                       .target_flaw = target ? judge_target(target) : BAD};
}

/* ---- headers ---- */

/* If one of these occurs twice, a proxy may believe one and we the other. */
static const char *const single[] = {
    MHD_HTTP_HEADER_HOST,
    MHD_HTTP_HEADER_CONTENT_LENGTH,
    MHD_HTTP_HEADER_TRANSFER_ENCODING,
    MHD_HTTP_HEADER_AUTHORIZATION,
    MHD_HTTP_HEADER_ORIGIN,
    "Sec-Fetch-Site",
    "Sec-Fetch-Mode",
};
enum { SINGLE = sizeof single / sizeof *single, LENGTH = 1, ENCODING = 2 };

typedef struct head {
    const char *at, *end; /* how far it has been checked, and its end */
    int         n;
    int         seen[SINGLE];
    unsigned    status;
    const char *why;
} head;

static enum MHD_Result refuse(head *h, unsigned status, const char *why)
{
    if (h->status == OK) {
        h->status = status;
        h->why    = why;
    }
    return MHD_NO;
}

/* Skips to `next`, over blanks and at most `marks` separator bytes, which libmicrohttpd left or overwrote
 * with NULs. */
static bool skip(head *h, const char *next, int marks)
{
    if (next < h->at || next > h->end) return false;
    for (; h->at < next; h->at++) {
        if (*h->at == ' ' || *h->at == '\t') continue;
        if ((*h->at && !strchr(":\r\n", *h->at)) || marks-- == 0) return false;
    }
    return true;
}

static bool is_name(const char *name, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && (!name[i] || !strchr("!#$%&'*+-.^_`|~", name[i])))
            return false;
    return n > 0;
}

static bool is_value(const char *value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)value[i] < ' ' && value[i] != '\t') || value[i] == 0x7f) return false;
    return true;
}

static enum MHD_Result judge_header(void *cls, enum MHD_ValueKind kind, const char *name, size_t n_name,
                                    const char *value, size_t n_value)
{
    head *h = cls;
    (void)kind;
    if (++h->n > WEB_HEADERS_MOST)
        return refuse(h, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "expected at most 100 headers");
    if (!is_name(name, n_name)) return refuse(h, BAD, "expected a header's name and a colon, without blanks");
    if (!value || !skip(h, name, 2)) return refuse(h, BAD, "a header is folded or has NUL bytes");
    h->at = name + n_name;
    if (!skip(h, value, 1)) return refuse(h, BAD, "a header has NUL bytes");
    h->at = value + n_value;
    if (!is_value(value, n_value)) return refuse(h, BAD, "a header has control characters");
    for (int i = 0; i < SINGLE; i++)
        if (strlen(single[i]) == n_name && !strncasecmp(single[i], name, n_name) && h->seen[i]++)
            return refuse(
                h, BAD,
                "expected one of each of Host, Content-Length, Transfer-Encoding, Authorization, Origin and Sec-Fetch-*");
    return MHD_YES;
}

/* "GET /path HTTP/1.1", with single blanks in between. */
static bool is_request_line(const web_request *r, const char *method, const char *version)
{
    size_t n = strlen(method);
    return is_name(method, n) && r->target == method + n + 1 && version == r->target_end + 1;
}

static void judge_head(head *h, const web_request *r, struct MHD_Connection *connection, const char *method,
                       const char *version)
{
    if (!is_request_line(r, method, version)) {
        refuse(h, BAD, "expected METHOD PATH HTTP/1.1 with one blank between, without NUL bytes");
        return;
    }
    h->at = version + strlen(version);
    MHD_get_connection_values_n(connection, MHD_HEADER_KIND, judge_header, h);
    if (h->status == OK && !skip(h, h->end, 4)) refuse(h, BAD, "a header has NUL bytes");
    if (h->seen[LENGTH] && h->seen[ENCODING])
        refuse(h, BAD, "expected Content-Length or Transfer-Encoding, not both");
}

unsigned web_request_flaw(const web_request *r, struct MHD_Connection *connection, const char *method,
                          const char *version, const char **why)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
                                                                   MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    head                            h    = {.end = method + (info ? info->header_size : 0)};
    if (r->target_flaw == MHD_HTTP_URI_TOO_LONG)
        refuse(&h, r->target_flaw, "expected a path of at most 8192 characters");
    else if (r->target_flaw)
        refuse(&h, r->target_flaw,
               "expected a path of printable ASCII that begins with /; a % takes two hex digits, not 00");
    else
        judge_head(&h, r, connection, method, version);
    *why = h.why;
    return h.status;
}

/* Requests and answers, on libmicrohttpd with one thread. The order of checks on a request: is it of a kind
 * we serve, is it for the right host, is it authorised, what does it want. */
#include "web/server.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "output.h"
#include "web/connections.h"
#include "monitor/watch_users.h"
#include "web/files.h"

enum {
    CONNECTIONS      = 256,
    CONNECTION_BYTES = 32 * 1024, /* memory for each: must hold a request's head */
    SILENCE_SECONDS  = 30,
    COOKIE_BYTES     = 32,
};

struct web_server {
    web_server_options options;
    web_connections   *connections;
    struct MHD_Daemon *daemon;
    char               cookie[COOKIE_BYTES]; /* the cookie's name: cookies belong to a host, not to a port */
};

typedef struct MHD_Connection connection;
typedef struct MHD_Response   response;

/* ---- answers ---- */

/* The page loads nothing from elsewhere, runs no text as code, and cannot be framed. */
static const char *const every_answer[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
    {NULL, NULL},
};

/* Queues an answer and releases it. NULL if out of memory, which closes the connection. */
static enum MHD_Result answer(connection *c, unsigned code, const char *type, response *r)
{
    if (!r) return MHD_NO;
    bool made = MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES;
    for (size_t i = 0; every_answer[i][0]; i++)
        made = MHD_add_response_header(r, every_answer[i][0], every_answer[i][1]) == MHD_YES && made;
    enum MHD_Result result = made ? MHD_queue_response(c, code, r) : MHD_NO;
    MHD_destroy_response(r);
    return result;
}

static const char plain[] = "text/plain; charset=utf-8";
static const char json[]  = "application/json";

static response *line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static response *line(const char *format, ...)
{
    va_list list;
    char   *text;
    va_start(list, format);
    int n = vasprintf(&text, format, list);
    va_end(list);
    return n < 0 ? NULL : MHD_create_response_from_buffer((size_t)n, text, MHD_RESPMEM_MUST_FREE);
}

static response *with_header(response *r, const char *name, const char *value)
{
    if (!r || MHD_add_response_header(r, name, value) == MHD_YES) return r;
    MHD_destroy_response(r);
    return NULL;
}

static void release_text(void *text) { web_text_release(text); }

/* Takes ownership of the text, which may be NULL. */
static enum MHD_Result answer_text(connection *c, const char *type, web_text *text)
{
    if (!text) return answer(c, MHD_HTTP_SERVICE_UNAVAILABLE, plain, line("nothing was looked at yet\n"));
    response *r = MHD_create_response_from_buffer_with_free_callback_cls(text->size, text->bytes,
                                                                         release_text, text);
    if (!r) web_text_release(text);
    return answer(c, MHD_HTTP_OK, type, r);
}

/* ---- resources ---- */

typedef struct request {
    web_server *server;
    connection *connection;
    bool        allowed; /* to see everything */
    bool        head;    /* HEAD request: headers only */
} request;

static enum MHD_Result get_sample(const request *q)
{
    return answer_text(q->connection, json, web_feed_sample(q->server->options.feed));
}

static enum MHD_Result get_history(const request *q)
{
    return answer_text(q->connection, json, web_feed_history(q->server->options.feed));
}

static enum MHD_Result get_metrics(const request *q)
{
    const char  *accept = MHD_lookup_connection_value(q->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    metrics_form form   = metrics_negotiate(accept);
    return answer_text(q->connection, metrics_content_type(form),
                       web_feed_metrics(q->server->options.feed, form));
}

static enum MHD_Result get_events(const request *q)
{
    static const char type[] = "text/event-stream";
    if (q->head) return answer(q->connection, MHD_HTTP_OK, type, line("%s", ""));
    response *r = web_stream_open(q->server->options.streams, q->connection);
    if (!r)
        return answer(q->connection, MHD_HTTP_SERVICE_UNAVAILABLE, plain,
                      with_header(line("%d pages are open already: close one\n", WEB_STREAMS),
                                  MHD_HTTP_HEADER_RETRY_AFTER, "10"));
    web_connection_enter(q->server->connections, q->connection, WEB_STREAMING);
    /* A buffering proxy would hold events back. */
    return answer(q->connection, MHD_HTTP_OK, type, with_header(r, "X-Accel-Buffering", "no"));
}

/* Unauthorised clients learn only whether all is well. */
static enum MHD_Result get_health(const request *q)
{
    char why[WATCH_PROBLEM];
    if (web_feed_is_healthy(q->server->options.feed, why, sizeof why))
        return answer(q->connection, MHD_HTTP_OK, plain, line("ok\n"));
    return answer(q->connection, MHD_HTTP_SERVICE_UNAVAILABLE, plain,
                  line("%s\n", q->allowed ? why : "not ok"));
}

static const struct {
    const char *path;
    bool        open; /* needs no token */
    enum MHD_Result (*get)(const request *q);
} routes[] = {
    {"/api/sample", false, get_sample}, {"/api/history", false, get_history},
    {"/metrics", false, get_metrics},   {"/events", false, get_events},
    {"/healthz", true, get_health},
};

static enum MHD_Result get_file(connection *c, const char *path)
{
    for (const web_file *f = web_files; f->path; f++)
        if (!strcmp(f->path, path))
            return answer(c, MHD_HTTP_OK, f->type,
                          MHD_create_response_from_buffer(f->size, (void *)f->bytes, MHD_RESPMEM_PERSISTENT));
    return answer(c, MHD_HTTP_NOT_FOUND, plain,
                  line("there is /, /events, /api/sample, /api/history, /metrics and /healthz\n"));
}

/* ---- authorisation ---- */

static bool has_bearer(const web_server *s, connection *c)
{
    static const char scheme[] = "Bearer ";
    const char       *given = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (!given || strncasecmp(given, scheme, sizeof scheme - 1) != 0) return false;
    given += sizeof scheme - 1;
    return web_token_is(s->options.token, given + strspn(given, " "));
}

static bool is_allowed(const web_server *s, connection *c)
{
    return !*s->options.token->text || has_bearer(s, c)
        || web_token_is(s->options.token, MHD_lookup_connection_value(c, MHD_COOKIE_KIND, s->cookie));
}

/* "/?token=...", from the printed address: moves the token into a cookie and out of sight. */
static enum MHD_Result let_in(const web_server *s, connection *c)
{
    char cookie[COOKIE_BYTES + WEB_TOKEN_MOST + 64];
    snprintf(cookie, sizeof cookie, "%s=%s; Path=/; HttpOnly; SameSite=Strict", s->cookie,
             s->options.token->text);
    response *r = with_header(line("see /\n"), MHD_HTTP_HEADER_SET_COOKIE, cookie);
    return answer(c, MHD_HTTP_SEE_OTHER, plain, with_header(r, MHD_HTTP_HEADER_LOCATION, "./"));
}

static enum MHD_Result refuse_stranger(connection *c)
{
    return answer(
        c, MHD_HTTP_UNAUTHORIZED, plain,
        with_header(line("This monitor needs its token: open the address that it printed (.../?token=...), "
                         "or send \"Authorization: Bearer TOKEN\".\nIf you just came from there, reload.\n"),
                    MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer"));
}

/* Whether this is the origin of our own pages. A proxy in front of us may speak TLS. */
static bool is_own_origin(const char *origin, const char *host)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; host && i < sizeof schemes / sizeof *schemes; i++) {
        size_t n = strlen(schemes[i]);
        if (!strncasecmp(origin, schemes[i], n) && !strcasecmp(origin + n, host)) return true;
    }
    return false;
}

/* A page of another site open in the user's browser cannot read our answers, but could request them over and
 * over; browsers reveal that. A link that leads here is no such thing, and has no Origin. */
static bool is_foreign_page(connection *c)
{
    const char *origin = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);
    const char *host   = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (origin && !is_own_origin(origin, host)) return true;
    const char *site = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Sec-Fetch-Site");
    const char *mode = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Sec-Fetch-Mode");
    return site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0
        && !(mode && !strcmp(mode, "navigate"));
}

static bool is_host(const web_server *s, connection *c)
{
    return web_address_is_host(s->options.address,
                               MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST));
}

static enum MHD_Result serve(web_server *s, connection *c, const char *path, bool head)
{
    bool needs_token = *s->options.token->text;
    if (!needs_token && !is_host(s, c))
        return answer(
            c, MHD_HTTP_FORBIDDEN, plain,
            line("expected a Host header that names this host's loopback: localhost, 127.0.0.1 or [::1]\n"));
    if (is_foreign_page(c))
        return answer(c, MHD_HTTP_FORBIDDEN, plain, line("pages of other sites may not ask\n"));
    const char *given = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token");
    if (needs_token && !strcmp(path, "/") && web_token_is(s->options.token, given)) return let_in(s, c);
    request q = {s, c, is_allowed(s, c), head};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (!strcmp(routes[i].path, path) && (routes[i].open || q.allowed)) return routes[i].get(&q);
    return q.allowed ? get_file(c, path) : refuse_stranger(c);
}

/* ---- callbacks of libmicrohttpd ---- */

static bool has_body(connection *c)
{
    const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return (length && strcmp(length, "0") != 0)
        || MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

/* The record belongs to the connection: libmicrohttpd does not report the end of every request that it
 * refuses itself. */
static void *begin_request(void *cls, const char *target, connection *c)
{
    web_request *q = web_connection_request(c);
    (void)cls;
    if (q) web_request_begin(q, target);
    return q;
}

static enum MHD_Result begin(web_server *s, connection *c, const web_request *q, const char *method,
                             const char *version)
{
    const char *why;
    unsigned    flaw = web_request_flaw(q, c, method, version, &why);
    web_connection_enter(s->connections, c, WEB_ANSWERING);
    if (flaw)
        return answer(c, flaw, plain, with_header(line("%s\n", why), MHD_HTTP_HEADER_CONNECTION, "close"));
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer(c, MHD_HTTP_METHOD_NOT_ALLOWED, plain,
                      with_header(line("the monitor only reads: GET or HEAD\n"), MHD_HTTP_HEADER_ALLOW,
                                  "GET, HEAD"));
    if (has_body(c))
        return answer(c, MHD_HTTP_BAD_REQUEST, plain, line("expected a request without a body\n"));
    return MHD_YES;
}

/* Called when the head of a request has arrived, and again when it is complete. A refusal closes the
 * connection if a body would follow. */
static enum MHD_Result handle(void *cls, connection *c, const char *path, const char *method,
                              const char *version, const char *body, size_t *body_bytes, void **context)
{
    web_request *q = *context;
    (void)body;
    *body_bytes = 0;
    if (!q) return MHD_NO; /* out of memory */
    if (q->has_head) return serve(cls, c, path, !strcmp(method, MHD_HTTP_METHOD_HEAD));
    q->has_head = true;
    return begin(cls, c, q, method, version);
}

static void complete(void *cls, connection *c, void **context, enum MHD_RequestTerminationCode code)
{
    web_server *s = cls;
    (void)code;
    *context = NULL;
    web_connection_enter(s->connections, c, WEB_RESTING);
}

/* Clients are told of their errors in the answer; nothing is logged here. */
static void be_silent(void *cls, const char *format, va_list list) { (void)cls, (void)format, (void)list; }

static struct MHD_Daemon *start_daemon(web_server *s)
{
    struct MHD_OptionItem options[] = {
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)be_silent, NULL},
        {MHD_OPTION_LISTEN_SOCKET, s->options.address->socket, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, NULL},
        {MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_SECONDS, NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)begin_request, NULL},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)complete, s},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)web_connections_notify, s->connections},
        {MHD_OPTION_END, 0, NULL},
    };
    return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0,
                            NULL, NULL, handle, s, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}

tool_exit web_server_start(const web_server_options *options, web_server **out)
{
    sigset_t    all, before;
    web_server *s = calloc(1, sizeof *s);
    if (s) {
        s->options     = *options;
        s->connections = web_connections_create();
        snprintf(s->cookie, sizeof s->cookie, "ipu_monitor_%u", (unsigned)options->address->port);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        s->daemon = s->connections ? start_daemon(s) : NULL;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    *out = s;
    if (s && s->daemon) return TOOL_OK;
    close(options->address->socket);
    web_server_stop(s);
    *out = NULL;
    return tool_fail("cannot start the server: out of memory, threads or files");
}

void web_server_sweep(web_server *s) { web_connections_sweep(s->connections); }

void web_server_stop(web_server *s)
{
    if (!s) return;
    if (s->daemon) MHD_stop_daemon(s->daemon);
    web_connections_destroy(s->connections);
    free(s);
}

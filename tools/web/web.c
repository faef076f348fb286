/* `ipu monitor --web`: one loop that looks and publishes; the server has a thread of its own. */
#include "web/web.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "output.h"
#include "clock.h"
#include "web/server.h"

typedef struct site {
    web_address  address;
    web_token    token;
    web_feed    *feed;
    web_streams *streams;
    web_server  *server;
    watch       *watch;
} site;

static void look(site *s)
{
    int64_t began = tool_clock();
    watch_look(s->watch);
    double seconds = (double)(tool_clock() - began) / 1e9;
    if (!web_feed_publish(s->feed, s->watch, seconds)) tool_fail("out of memory: this look is not shown");
    web_streams_wake(s->streams);
}

/* Waits for the next look, tending clients every second. Returns the signal that came, or 0. */
static int wait_for_look(site *s)
{
    for (;;) {
        int           due    = watch_due_ms(s->watch);
        struct pollfd signal = {.fd = watch_signal_fd(), .events = POLLIN};
        if (due <= 0) return 0;
        poll(&signal, 1, due < 1000 ? due : 1000);
        int got = watch_take_signal(s->watch);
        if (got) return got;
        web_server_sweep(s->server);
        web_streams_wake(s->streams);
    }
}

/* Gives streams a moment to end by themselves. */
static void close_streams(site *s)
{
    for (int i = 0; i < 100 && !web_streams_close(s->streams); i++) usleep(10000);
}

static tool_exit announce(const site *s)
{
    char url[WEB_HOST + 32], token[3 * WEB_TOKEN_MOST + 1];
    web_address_url(&s->address, url, sizeof url);
    web_token_escape(&s->token, token);
    if (s->token.made)
        printf("listening on %s?token=%s\n", url, token);
    else
        printf("listening on %s%s\n", url, *s->token.text ? " (with the token)" : "");
    return tool_finish(TOOL_OK);
}

/* The first look comes before the announcement, so that clients find something. */
static tool_exit serve(site *s, int64_t count)
{
    int signal = 0;
    look(s);
    tool_exit code = announce(s);
    for (int64_t looks = 1; code == TOOL_OK && looks != count; looks++) {
        signal = wait_for_look(s);
        if (signal) break;
        look(s);
    }
    close_streams(s);
    return signal ? (tool_exit)(128 + signal) : code;
}

static tool_exit start(site *s)
{
    s->feed    = web_feed_create(watch_interval(s->watch));
    s->streams = s->feed ? web_streams_create(s->feed) : NULL;
    if (s->streams)
        return web_server_start(&(web_server_options){&s->address, &s->token, s->feed, s->streams},
                                &s->server);
    close(s->address.socket);
    return tool_fail("out of memory");
}

tool_exit web_run(watch *w, const web_options *options)
{
    site      s    = {.watch = w};
    tool_exit code = web_address_listen(options->listen ? options->listen : WEB_LISTEN, &s.address);
    if (code != TOOL_OK) return code;
    code = web_token_get(options->token_file, !s.address.loopback, &s.token);
    if (code == TOOL_OK) {
        code = start(&s);
        if (code == TOOL_OK) code = serve(&s, options->count);
    } else {
        close(s.address.socket);
    }
    web_server_stop(s.server);
    web_streams_destroy(s.streams);
    web_feed_destroy(s.feed);
    return code;
}

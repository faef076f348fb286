/* The whole state of a running live view: what it shows, what it asks, its last message. */
#ifndef TOOLS_LIVE_STATE_H
#define TOOLS_LIVE_STATE_H

#include "live/kill.h"
#include "live/page.h"
#include "live/view.h"

enum { LIVE_MESSAGE = 512 };

typedef enum live_mode { LIVE_SHOW, LIVE_ASK_FILTER, LIVE_ASK_KILL, LIVE_READ } live_mode;

typedef struct live {
    watch    *w;
    live_view view;
    live_mode mode;
    live_page page; /* the page being read */
    live_kill kill; /* the process being asked about */
    bool      paused;
    char      host[WATCH_TEXT];
    char      message[LIVE_MESSAGE]; /* "" if none */
    int64_t   message_until_ns;      /* monotonic */
    bool      over;
    tool_exit code;
} live;

enum { LIVE_LEAST_LINES = 8, LIVE_LEAST_COLUMNS = 40 };

void live_draw(live *l);

/* Shows a message in the last line for a while. */
void live_say(live *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

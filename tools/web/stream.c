/* Event streams over libmicrohttpd. A stream with nothing to send is suspended; otherwise the server would
 * poll it in a loop. */
#include "web/stream.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"

static const int64_t beat_every = 15 * TOOL_SECOND;
static const int64_t most_stuck = 20 * TOOL_SECOND; /* without accepting a block */
static const int64_t most_slow  = 60 * TOOL_SECOND; /* for one event, history included */

enum { BLOCK = 8192 };

typedef struct web_stream web_stream;
struct web_stream {
    web_stream            *before, *after;
    web_streams           *all;
    struct MHD_Connection *connection;
    int                    socket;
    bool                   suspended, has_history;
    int64_t                look;        /* the last one sent */
    web_text              *text;        /* being sent, or NULL */
    size_t                 sent;        /* bytes of it */
    int64_t                began, took; /* when that text began; when its last block was taken */
};

struct web_streams {
    pthread_mutex_t lock;
    web_feed       *feed;
    web_stream      ring;
    int             n;
    bool            closing;
};

web_streams *web_streams_create(web_feed *feed)
{
    web_streams *all = calloc(1, sizeof *all);
    if (!all) return NULL;
    pthread_mutex_init(&all->lock, NULL);
    all->feed        = feed;
    all->ring.before = all->ring.after = &all->ring;
    return all;
}

void web_streams_destroy(web_streams *all)
{
    if (!all) return;
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* ---- one stream, in the server's thread ---- */

/* The next text to send; NULL if there is none yet, or memory ran out (the next look will do). */
static web_text *next_text(web_stream *s, int64_t now)
{
    if (!s->has_history) {
        web_text *history = web_feed_history_event(s->all->feed);
        s->has_history    = history != NULL;
        return history;
    }
    web_text *event = web_feed_event(s->all->feed, &s->look);
    if (event || now - s->began < beat_every) return event;
    char *beat = strdup(": still here\n\n");
    return web_text_create(beat, beat ? strlen(beat) : 0);
}

static ssize_t send_block(web_stream *s, char *out, size_t most)
{
    int64_t now = tool_clock();
    if (s->all->closing) return MHD_CONTENT_READER_END_OF_STREAM;
    if (!s->text) {
        s->text = next_text(s, now);
        s->sent = 0;
        if (!s->text) {
            s->suspended = true;
            MHD_suspend_connection(s->connection);
            return 0;
        }
        s->began = now;
    }
    size_t left = s->text->size - s->sent;
    size_t n    = left < most ? left : most;
    memcpy(out, s->text->bytes + s->sent, n);
    s->sent += n;
    s->took = now;
    if (s->sent == s->text->size) {
        web_text_release(s->text);
        s->text = NULL;
    }
    return (ssize_t)n;
}

static ssize_t read_stream(void *cls, uint64_t position, char *out, size_t most)
{
    web_stream *s = cls;
    (void)position;
    pthread_mutex_lock(&s->all->lock);
    ssize_t n = send_block(s, out, most);
    pthread_mutex_unlock(&s->all->lock);
    return n;
}

static void end_stream(void *cls)
{
    web_stream  *s   = cls;
    web_streams *all = s->all;
    pthread_mutex_lock(&all->lock);
    s->before->after = s->after;
    s->after->before = s->before;
    all->n--;
    pthread_mutex_unlock(&all->lock);
    web_text_release(s->text);
    free(s);
}

static web_stream *begin_stream(web_streams *all, struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
                                                                   MHD_CONNECTION_INFO_CONNECTION_FD);
    web_stream                     *s    = info ? calloc(1, sizeof *s) : NULL;
    if (!s) return NULL;
    s->all        = all;
    s->connection = connection;
    s->socket     = info->connect_fd;
    s->began = s->took = tool_clock();
    pthread_mutex_lock(&all->lock);
    bool room = all->n < WEB_STREAMS && !all->closing;
    if (room) {
        all->n++;
        s->before        = all->ring.before;
        s->after         = &all->ring;
        s->before->after = all->ring.before = s;
    }
    pthread_mutex_unlock(&all->lock);
    if (room) return s;
    free(s);
    return NULL;
}

struct MHD_Response *web_stream_open(web_streams *all, struct MHD_Connection *connection)
{
    web_stream *s = begin_stream(all, connection);
    if (!s) return NULL;
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_stream, s,
                                                               end_stream);
    if (!r) end_stream(s);
    return r;
}

/* ---- all streams, called by the publisher ---- */

static void wake(web_stream *s)
{
    if (!s->suspended) return;
    s->suspended = false;
    s->took      = tool_clock();
    MHD_resume_connection(s->connection);
}

void web_streams_wake(web_streams *all)
{
    int64_t now = tool_clock();
    pthread_mutex_lock(&all->lock);
    int64_t newest = web_feed_number(all->feed);
    for (web_stream *s = all->ring.after; s != &all->ring; s = s->after) {
        if (s->suspended && (s->look < newest || now - s->began >= beat_every))
            wake(s);
        else if (!s->suspended && s->text && (now - s->took > most_stuck || now - s->began > most_slow))
            shutdown(s->socket, SHUT_RDWR);
    }
    pthread_mutex_unlock(&all->lock);
}

bool web_streams_close(web_streams *all)
{
    pthread_mutex_lock(&all->lock);
    all->closing = true;
    for (web_stream *s = all->ring.after; s != &all->ring; s = s->after) wake(s);
    bool ended = all->n == 0;
    pthread_mutex_unlock(&all->lock);
    return ended;
}

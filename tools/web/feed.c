/* The feed. Looks are recorded and texts are built under the lock: a few milliseconds for hundreds of
 * IPUs. */
#include "web/feed.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipu/version.h"
#include "clock.h"

/* Utilisation of all IPUs of a sample at the last looks: `values` has n_looks for each. */
typedef struct history {
    int64_t *times;
    float   *values;
    int      n_looks, n_ipus;
} history;

struct web_feed {
    pthread_mutex_t lock;
    double          interval;
    json_t         *sample; /* NULL before the first look is published */
    history         history;
    metrics_monitor self;
    int64_t         published;
    web_text       *sample_text, *sample_event, *history_text, *history_event; /* NULL until requested */
};

web_feed *web_feed_create(double interval)
{
    web_feed *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    pthread_mutex_init(&f->lock, NULL);
    f->interval     = interval;
    f->self.version = ipu_version();
    f->published    = tool_clock();
    return f;
}

static void forget(web_feed *f)
{
    web_text **texts[] = {&f->sample_text, &f->sample_event, &f->history_text, &f->history_event};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        web_text_release(*texts[i]);
        *texts[i] = NULL;
    }
    json_decref(f->sample);
    free(f->history.times);
    free(f->history.values);
}

void web_feed_destroy(web_feed *f)
{
    if (!f) return;
    forget(f);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* ---- publishing ---- */

static bool remember(const watch *w, history *out)
{
    const watch_histories *from = watch_histories_of(w);
    int                    n    = watch_sample_of(w)->n_ipus;
    *out                        = (history){.times  = malloc(WATCH_HISTORY * sizeof *out->times),
                                            .values = malloc((size_t)(n ? n : 1) * WATCH_HISTORY * sizeof *out->values),
                                            .n_ipus = n};
    if (!out->times || !out->values) {
        free(out->times);
        free(out->values);
        return false;
    }
    out->n_looks = watch_histories_times(from, WATCH_HISTORY, out->times);
    for (int i = 0; i < n; i++)
        watch_histories_get(from, i, out->n_looks, out->values + (size_t)i * (size_t)out->n_looks);
    return true;
}

bool web_feed_publish(web_feed *f, const watch *w, double seconds)
{
    history h;
    json_t *sample = watch_json(w);
    if (!sample || !remember(w, &h)) {
        json_decref(sample);
        return false;
    }
    pthread_mutex_lock(&f->lock);
    forget(f);
    f->sample            = sample;
    f->history           = h;
    f->self.look_seconds = seconds;
    f->self.looks++;
    if (watch_problem(w)) f->self.failures++;
    f->published = tool_clock();
    pthread_mutex_unlock(&f->lock);
    return true;
}

/* ---- texts, with the lock held ---- */

static web_text *as_event(const char *head, const web_text *data)
{
    size_t n    = data ? strlen(head) + data->size + 2 : 0;
    char  *text = data ? malloc(n + 1) : NULL;
    if (!text) return NULL;
    memcpy(mempcpy(mempcpy(text, head, strlen(head)), data->bytes, data->size), "\n\n", 3);
    return web_text_create(text, n);
}

static web_text *sample_text(web_feed *f)
{
    if (!f->sample_text && f->sample) {
        char *text     = json_dumps(f->sample, JSON_COMPACT);
        f->sample_text = web_text_create(text, text ? strlen(text) : 0);
    }
    return f->sample_text;
}

static web_text *sample_event(web_feed *f)
{
    char head[64];
    snprintf(head, sizeof head, "id: %lld\nevent: sample\ndata: ", (long long)f->self.looks);
    if (!f->sample_event) f->sample_event = as_event(head, sample_text(f));
    return f->sample_event;
}

static void put_key(FILE *out, const json_t *ipu, const char *key)
{
    fprintf(out, "\"%s\":", key);
    json_dumpf(json_object_get(ipu, key), out, JSON_ENCODE_ANY | JSON_COMPACT);
    fputc(',', out);
}

static void put_ipu(FILE *out, const history *h, int i, const json_t *ipu)
{
    static const char *const keys[] = {"owner", "partition", "gcd", "index"};
    fputs(i ? ",{" : "{", out);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) put_key(out, ipu, keys[k]);
    fputs("\"utilisation\":[", out);
    for (int k = 0; k < h->n_looks; k++) {
        double value = h->values[(size_t)i * (size_t)h->n_looks + (size_t)k];
        if (k) fputc(',', out);
        if (value < 0)
            fputs("null", out);
        else
            fprintf(out, "%.3g", value);
    }
    fputs("]}", out);
}

static void put_history(FILE *out, const web_feed *f)
{
    char    host[256] = "";
    json_t *name, *ipus = json_object_get(f->sample, "ipus");
    gethostname(host, sizeof host - 1);
    name = json_string(host);
    fprintf(out, "{\"host\":");
    if (!name || json_dumpf(name, out, JSON_ENCODE_ANY) != 0) fputs("null", out);
    fprintf(out, ",\"version\":\"%s\",\"interval\":%g,\"looks\":[", f->self.version, f->interval);
    json_decref(name);
    for (int i = 0; i < f->history.n_looks; i++)
        fprintf(out, "%s%.3f", i ? "," : "", (double)f->history.times[i] / 1e9);
    fputs("],\"ipus\":[", out);
    for (int i = 0; i < f->history.n_ipus; i++) put_ipu(out, &f->history, i, json_array_get(ipus, (size_t)i));
    fputs("]}", out);
}

static web_text *history_text(web_feed *f)
{
    char  *text = NULL;
    size_t size = 0;
    if (f->history_text || !f->sample) return f->history_text;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    put_history(out, f);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return f->history_text = web_text_create(text, size);
}

static web_text *history_event(web_feed *f)
{
    if (!f->history_event)
        f->history_event = as_event("retry: 2000\nevent: history\ndata: ", history_text(f));
    return f->history_event;
}

/* ---- for the server ---- */

static web_text *take(web_feed *f, web_text *(*text)(web_feed *f))
{
    pthread_mutex_lock(&f->lock);
    web_text *t = web_text_use(text(f));
    pthread_mutex_unlock(&f->lock);
    return t;
}

web_text *web_feed_sample(web_feed *f) { return take(f, sample_text); }
web_text *web_feed_history(web_feed *f) { return take(f, history_text); }
web_text *web_feed_history_event(web_feed *f) { return take(f, history_event); }

web_text *web_feed_event(web_feed *f, int64_t *look)
{
    web_text *t = NULL;
    pthread_mutex_lock(&f->lock);
    if (f->self.looks > *look) t = web_text_use(sample_event(f));
    if (t) *look = f->self.looks;
    pthread_mutex_unlock(&f->lock);
    return t;
}

int64_t web_feed_number(web_feed *f)
{
    pthread_mutex_lock(&f->lock);
    int64_t n = f->self.looks;
    pthread_mutex_unlock(&f->lock);
    return n;
}

web_text *web_feed_metrics(web_feed *f, metrics_form form)
{
    char  *text = NULL;
    size_t size = 0;
    pthread_mutex_lock(&f->lock);
    int64_t began = tool_clock();
    if (f->sample) text = metrics_write(f->sample, &f->self, form, &size);
    f->self.scrapes++;
    f->self.scrape_seconds += (double)(tool_clock() - began) / 1e9;
    pthread_mutex_unlock(&f->lock);
    return web_text_create(text, size);
}

bool web_feed_is_healthy(web_feed *f, char *why, size_t size)
{
    pthread_mutex_lock(&f->lock);
    double      seconds = (double)(tool_clock() - f->published) / 1e9;
    const char *problem = json_string_value(json_object_get(f->sample, "problem"));
    bool        late    = seconds > 3 * f->interval + 10;
    if (!f->sample)
        snprintf(why, size, "nothing was looked at yet");
    else if (problem)
        snprintf(why, size, "%s", problem);
    else if (late)
        snprintf(why, size, "the last look was %.0f seconds ago; one is expected every %g", seconds,
                 f->interval);
    bool healthy = f->sample && !problem && !late;
    pthread_mutex_unlock(&f->lock);
    return healthy;
}

/* The feed: the monitor's newest look and its history, as texts for the page and for programs.
 *
 * One thread looks and publishes; the server's thread takes texts. Each text is built once per look, on first
 * request, and belongs to the taker until web_text_release.
 */
#ifndef TOOLS_WEB_FEED_H
#define TOOLS_WEB_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "monitor/metrics.h"
#include "monitor/watch.h"
#include "web/text.h"

typedef struct web_feed web_feed;

/* `interval` is seconds between looks. NULL if out of memory. */
web_feed *web_feed_create(double interval);
void      web_feed_destroy(web_feed *feed);

/* Publishes a look, which took `seconds`. Returns false if out of memory; the previous look then stays. */
bool web_feed_publish(web_feed *feed, const watch *w, double seconds);

/* Looks published so far. */
int64_t web_feed_number(web_feed *feed);

/* These return NULL if out of memory, or before the first look is published. */
web_text *web_feed_sample(web_feed *feed);  /* JSON: watch_json */
web_text *web_feed_history(web_feed *feed); /* JSON: docs/tools.md */
web_text *web_feed_metrics(web_feed *feed, metrics_form form);

/* The same as events of a stream. The newest look is returned only if it is newer than number *look, which is
 * then updated. */
web_text *web_feed_event(web_feed *feed, int64_t *look);
web_text *web_feed_history_event(web_feed *feed);

/* Whether IPUs can be read and looks go on; if not, `why` says why not. */
bool web_feed_is_healthy(web_feed *feed, char *why, size_t size);

#endif

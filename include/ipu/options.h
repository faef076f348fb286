/* Options: key and value, both text, as Poplar has them.
 *
 *     ipu_options *o;
 *     IPU_TRY(ipu_options_create(&o));
 *     IPU_TRY(ipu_options_set(o, "threads", "2"));
 *
 * Keys of our own: see src/engine/options.inc, which `ipu help options` prints. Keys of Poplar's
 * engine that have no meaning here are accepted and noted in the log; any other key is an error.
 * POPLAR_ENGINE_OPTIONS and IPU_ENGINE_OPTIONS (JSON objects) override what a program sets;
 * IPU_CHECK=1 sets "check", and IPU_ENGINE=null "engine".
 */
#ifndef IPU_OPTIONS_H
#define IPU_OPTIONS_H

#include "ipu/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_options ipu_options;

/* The defaults. Owned: ipu_options_destroy. */
ipu_status ipu_options_create(ipu_options **out);
void       ipu_options_destroy(ipu_options *options);

/* Statuses: NOT_FOUND (no such key; the message names the nearest), INVALID (a value that the key does not take). */
ipu_status ipu_options_set(ipu_options *options, const char *key, const char *value);

/* Every key of a JSON object, e.g. {"threads": "2"}. Nothing is set if one is wrong. */
ipu_status ipu_options_set_json(ipu_options *options, const char *json);

/* The value set, or the default; NULL for an unknown key. What the environment overrides is not shown: it is
 * read when the options are used. Borrowed until the next set. */
const char *ipu_options_get(const ipu_options *options, const char *key);

/* The i-th key, its default, and what it does; NULL past the last. Borrowed: static. */
const char *ipu_options_key_at(int i, const char **value, const char **help);

#ifdef __cplusplus
}
#endif
#endif

/* Options: pairs of key and value, both text, as in Poplar.
 *
 *     ipu_options *o;
 *     IPU_TRY(ipu_options_create(&o));
 *     IPU_TRY(ipu_options_set(o, "threads", "2"));
 *
 * `ipu help options` prints our own keys, which are in src/engine/options.inc. Keys of Poplar's engine that
 * have no meaning here are accepted and logged; any other key is an error. POPLAR_ENGINE_OPTIONS and
 * IPU_ENGINE_OPTIONS (JSON objects) override what a program sets; IPU_CHECK=1 sets "check", and
 * IPU_ENGINE=null "engine".
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

/* Statuses: NOT_FOUND (no such key; the message suggests the nearest), INVALID (the key does not accept that
 * value). */
ipu_status ipu_options_set(ipu_options *options, const char *key, const char *value);

/* Sets every key of a JSON object, e.g. {"threads": "2"}, or none if any is wrong. */
ipu_status ipu_options_set_json(ipu_options *options, const char *json);

/* The value set, or the default; NULL for an unknown key. Does not show overrides by the environment, which
 * is read when options are used. Borrowed until the next set. */
const char *ipu_options_get(const ipu_options *options, const char *key);

/* The i-th key, its default, and what it does; NULL past the last. Static. */
const char *ipu_options_key_at(int i, const char **value, const char **help);

#ifdef __cplusplus
}
#endif
#endif

/* Compiled executables in a folder, so that the next process need not compile them: <hash>.ipuexe. What is to be known
 * before their keys are can be beside them: <hash>.ipunote.
 *
 * The key is a hash of all that the executable depends on: the model, options that matter to the compiler, CPU
 * features, version of the library. The name of a file is a hash of the key and of the library's build id. Files of
 * other versions and builds have other names and are never looked at; those not used for long are removed when the
 * folder passes IPU_CACHE_LIMIT bytes (1 GiB). Any number of processes may use one folder: a file has its name only when
 * it is whole, and is checked before use. Whatever goes wrong is told in the log and costs a compilation, nothing else.
 */
#ifndef IPU_SESSION_CACHE_H
#define IPU_SESSION_CACHE_H

#include <limits.h>
#include <stdbool.h>

#include "base/hash.h"
#include "base/text.h"
#include "ipu/engine.h"
#include "ipu/options.h"

/* `asked`, or what the environment says if that is NULL. NULL: none, there is no cache. Borrowed. */
const char *ipu__cache_folder(const char *asked);

/* What belongs in every key: version, CPU features, options (NULL: the defaults) and the variables that override them. */
void ipu__cache_add_options(ipu__text *key, const ipu_options *options);

/* Owned: ipu_executable_release. Statuses: NOT_FOUND (compile it; the message is not for users), INVALID (the options),
 * OUT_OF_MEMORY. */
ipu_status ipu__cache_load(const char *folder, const ipu__hash128 *key, const ipu_options *options,
                           ipu_executable **out);

/* Makes the folder, for the user alone, if it is not there. */
void ipu__cache_store(const char *folder, const ipu__hash128 *key, const ipu_executable *exe);

/* A few bytes under a key; who reads them knows how many. False: they are not there, or, as the log says, not to be
 * trusted. */
bool ipu__cache_load_note(const char *folder, const ipu__hash128 *key, void *out, size_t bytes);
void ipu__cache_store_note(const char *folder, const ipu__hash128 *key, const void *data, size_t bytes);

/* Where an executable is kept. False: the path is too long. */
bool ipu__cache_path(const char *folder, const ipu__hash128 *key, char out[PATH_MAX]);

#endif

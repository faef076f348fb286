/* What a session compiled, kept in the cache of executables (session/cache.h), and found again before anything is imported.
 *
 * An executable's key is a hash of all it depends on: the file with its external data, the options, kinds, types and shapes
 * of the inputs, and values of the compile-time ones. Which these are only importing tells; so a note says it, under a key
 * without them. No note: none is.
 */
#ifndef IPU_ONNX_SESSION_CACHE_H
#define IPU_ONNX_SESSION_CACHE_H

#include "onnx/file.h"
#include "session/session.h"

typedef struct ipu__session_cache {
    const char  *folder;  /* borrowed; NULL: there is no cache */
    ipu__hash128 outside; /* external data */
    ipu__hash128 about;   /* all but compile-time inputs */
} ipu__session_cache;

/* For inputs of these shapes, none of them fixed. */
ipu_status ipu__session_cache_open(ipu_onnx *file, const ipu_onnx_options *options, const ipu_target *target,
                                   const ipu__arguments *shapes, ipu__session_cache *out);

/* Sets those of `fixed` that are known to be compile-time inputs; stores which are. */
void ipu__session_cache_fixed(const ipu__session_cache *c, bool *fixed, size_t n_in);
void ipu__session_cache_store_fixed(const ipu__session_cache *c, const ipu__compiled *made, const bool *fixed,
                                    size_t n_in);

/* Says where `out`, whose arguments are known, is in the cache. */
ipu_status ipu__session_cache_key(const ipu__session_cache *c, ipu__compiled *out);
/* The same of what was compiled just now: in no cache if what lies beside the model is not what it was before. */
void ipu__session_cache_made(ipu__session_cache *c, ipu_onnx *file, ipu__compiled *out);

#endif

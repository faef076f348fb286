/* What a session compiled, kept in the cache of executables (engine/cache.h), and found again before anything is imported.
 *
 * An executable's key is a hash of all it depends on: the file with its external data, the options, kinds, types and shapes
 * of the inputs, and values of the compile-time ones. Which these are only importing tells; so a note says it, under a key
 * without them. No note: none is.
 */
#ifndef IPU_ONNX_SESSION_CACHE_H
#define IPU_ONNX_SESSION_CACHE_H

#include "base/hash.h"
#include "ipu/cost.h"
#include "onnx/file.h"

typedef struct ipu__session_cache {
    const char  *folder;  /* borrowed; NULL: there is no cache */
    ipu__hash128 outside; /* external data */
    ipu__hash128 about;   /* all but compile-time inputs */
    ipu__hash128 key;     /* of the executable that was loaded or stored last */
} ipu__session_cache;

/* For inputs of these shapes. */
ipu_status ipu__session_cache_open(ipu_onnx *file, const ipu_onnx_options *options, const ipu_target *target,
                                   const ipu_onnx_value *in, ipu__session_cache *out);

/* Sets those of `fixed` that are known to be compile-time inputs. */
void ipu__session_cache_fixed(const ipu__session_cache *c, bool *fixed, size_t n_in);

/* Owned: ipu_executable_release. Statuses: NOT_FOUND (import and compile), those of ipu__cache_load. */
ipu_status ipu__session_cache_load(ipu__session_cache *c, const ipu_onnx_options *options,
                                   const ipu_onnx_value *in, const bool *fixed, size_t n_in,
                                   ipu_executable **out);
void       ipu__session_cache_store(ipu__session_cache *c, ipu_onnx *file, const ipu_onnx_value *in,
                                    const bool *fixed, size_t n_in, const ipu_executable *exe);

/* What a run would take, of the executable with the key. `chip` is not kept. */
bool ipu__session_cache_load_cost(const ipu__session_cache *c, ipu_cost_summary *out);
void ipu__session_cache_store_cost(const ipu__session_cache *c, const ipu_cost_summary *cost);

#endif

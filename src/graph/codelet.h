/* Codelets from source, in three files: codelet.c loads modules and registers them with graphs,
 * codelet_compile.c runs the compiler, codelet_cache.c stores its results. Public half: ipu/codelet.h.
 */
#ifndef IPU_GRAPH_CODELET_H
#define IPU_GRAPH_CODELET_H

#include <limits.h>
#include <stdbool.h>
#include <time.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/status.h"
#include "base/hash.h"
#include "ipu/codelet.h"

#define IPU__MODULE_LIMIT ((size_t)256 << 20) /* bytes of a source, and of the module made from it */

enum {
    /* Names of files created in a folder have at most 100 bytes. */
    IPU__FOLDER_BYTES = PATH_MAX - 100,
};

typedef IPU__ARRAY(char *) ipu__words;

typedef struct ipu__codelet_source {
    const char *name; /* for messages: the path as given, or the name */
    const char *path; /* NULL if only in memory */
    const char *text;
    size_t      bytes;
    const char *flags; /* NULL if none */
} ipu__codelet_source;

/* A compiled module as bytes. */
typedef struct ipu__codelet_object {
    char        *data; /* owned; NULL if none */
    size_t       bytes;
    ipu__hash128 hash;
} ipu__codelet_object;

/* ---- codelet_compile.c ---- */

/* One source, one compiler, one set of flags. */
typedef struct ipu__codelet_job {
    const ipu__codelet_source *source;
    ipu__arena                 arena;      /* owns the words below */
    ipu__words                 command;    /* the compiler, its own arguments, the flags */
    size_t                     n_compiler; /* words from IPU_CC */
    ipu__words                 inputs;     /* after a run: the files it read, except our own */
    struct timespec            began;      /* start of the run: later changes have a later ctime */
} ipu__codelet_job;

/* Finds the compiler and checks the flags. Even after failure, call ipu__codelet_job_fini. */
ipu_status ipu__codelet_job_init(ipu__codelet_job *job, const ipu__codelet_source *source);
void       ipu__codelet_job_fini(ipu__codelet_job *job);
/* A hash of everything the result depends on, except the files included by the source. */
ipu_status ipu__codelet_job_key(const ipu__codelet_job *job, ipu__hash128 *out);
/* Compiles in `folder`, which is empty, private to us and given as an absolute path. */
ipu_status ipu__codelet_job_run(ipu__codelet_job *job, const char *folder, ipu__codelet_object *out);

/* The CPU features available to this process for which compilers have flags. */
uint64_t ipu__codelet_cpu(void);
/* The name of the lowest of `features`. */
const char *ipu__codelet_cpu_name(uint64_t features);

/* ---- codelet_cache.c ---- */

/* Our folder: on disk, or private to the process if there is no usable one. */
ipu_status ipu__codelet_folder(char out[IPU__FOLDER_BYTES]);
/* Creates, and removes, a subfolder for one compilation. */
ipu_status ipu__codelet_work_begin(const char *folder, char out[IPU__FOLDER_BYTES]);
void       ipu__codelet_work_end(const char *work);

/* The cache's entry for `key`, provided that no file it was made from has changed. */
ipu_status ipu__codelet_cache_find(const char *folder, const ipu__hash128 *key, bool *found,
                                   ipu__hash128 *object);
/* The object with that hash; found means present and intact. */
ipu_status ipu__codelet_cache_read(const char *folder, const ipu__hash128 *hash, bool *found,
                                   ipu__codelet_object *out);
/* Its file, existing or not. */
void       ipu__codelet_cache_path(const char *folder, const ipu__hash128 *hash, char out[PATH_MAX]);
ipu_status ipu__codelet_cache_write(const char *folder, const ipu__codelet_object *object);
/* Record that `key` gives `object`. Failures are only logged: it will then be compiled again next time. */
void ipu__codelet_cache_note(const char *folder, const ipu__hash128 *key, const ipu__codelet_job *job,
                             const ipu__codelet_object *object);
/* Deletes the least recently used entries until at most this much is left. 0, 0 deletes everything. */
void ipu__codelet_cache_trim(const char *folder, uint64_t most_bytes, size_t most_files);

#endif

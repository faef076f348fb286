/* Codelets from source, in three files: codelet.c loads modules and makes them known to graphs,
 * codelet_compile.c runs the compiler, codelet_cache.c keeps what was compiled. Public half: ipu/codelet.h.
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

#define IPU__MODULE_LIMIT ((size_t)256 << 20) /* bytes of a source, and of what is made of it */

enum {
    /* What is made in a folder has names of at most 100 bytes. */
    IPU__FOLDER_BYTES = PATH_MAX - 100,
};

typedef IPU_ARRAY(char *) ipu__words;

typedef struct ipu__codelet_source {
    const char *name; /* for people: the path as given, or the name */
    const char *path; /* NULL: in memory only */
    const char *text;
    size_t      bytes;
    const char *flags; /* NULL: none */
} ipu__codelet_source;

/* A compiled module, as bytes. */
typedef struct ipu__codelet_object {
    char        *data; /* owned; NULL: none */
    size_t       bytes;
    ipu__hash128 hash;
} ipu__codelet_object;

/* ---- codelet_compile.c ---- */

/* One source, one compiler, one set of flags. */
typedef struct ipu__codelet_job {
    const ipu__codelet_source *source;
    ipu__arena                 arena;      /* the words below */
    ipu__words                 command;    /* the compiler, its own words, the flags */
    size_t                     n_compiler; /* words that IPU_CC gave */
    ipu__words                 inputs;     /* after a run: the files it read, but for our own */
    struct timespec            began;      /* the run: a file changed later has a later time of change */
} ipu__codelet_job;

/* Finds the compiler and checks the flags. On failure, too, ipu__codelet_job_fini. */
ipu_status ipu__codelet_job_init(ipu__codelet_job *job, const ipu__codelet_source *source);
void       ipu__codelet_job_fini(ipu__codelet_job *job);
/* A hash of all that the result depends on, but for the files that the source includes. */
ipu_status ipu__codelet_job_key(const ipu__codelet_job *job, ipu__hash128 *out);
/* Compiles, in `folder`: empty, ours alone, its path absolute. */
ipu_status ipu__codelet_job_run(ipu__codelet_job *job, const char *folder, ipu__codelet_object *out);

/* The CPU features this process sees that compilers have flags for. */
uint64_t ipu__codelet_cpu(void);
/* The name of the lowest of `features`. */
const char *ipu__codelet_cpu_name(uint64_t features);

/* ---- codelet_cache.c ---- */

/* Our folder: on disk, or private to the process if no other can be used. */
ipu_status ipu__codelet_folder(char out[IPU__FOLDER_BYTES]);
/* A new folder in it, for one compilation; and its end. */
ipu_status ipu__codelet_work_begin(const char *folder, char out[IPU__FOLDER_BYTES]);
void       ipu__codelet_work_end(const char *work);

/* What the cache has for `key`, if no file it was made from has changed. */
ipu_status ipu__codelet_cache_find(const char *folder, const ipu__hash128 *key, bool *found,
                                   ipu__hash128 *object);
/* The object of that hash; found: it is there and whole. */
ipu_status ipu__codelet_cache_read(const char *folder, const ipu__hash128 *hash, bool *found,
                                   ipu__codelet_object *out);
/* Its file, there or not. */
void       ipu__codelet_cache_path(const char *folder, const ipu__hash128 *hash, char out[PATH_MAX]);
ipu_status ipu__codelet_cache_write(const char *folder, const ipu__codelet_object *object);
/* Note that `key` gives `object`. Failures are logged, no more: then it is compiled again next time. */
void ipu__codelet_cache_note(const char *folder, const ipu__hash128 *key, const ipu__codelet_job *job,
                             const ipu__codelet_object *object);
/* Deletes what was used least recently, until at most so much is left. 0, 0: all. */
void ipu__codelet_cache_trim(const char *folder, uint64_t most_bytes, size_t most_files);

#endif

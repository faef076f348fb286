/* Reading and writing whole files. */
#ifndef IPU_BASE_HOST_FILE_H
#define IPU_BASE_HOST_FILE_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

/* The contents, followed by a 0 byte that *bytes does not count. Refuses anything larger than `limit`, and
 * anything but regular files and pipes. Owned: ipu__free. Statuses: IO (errno is ENOENT if there is no file),
 * OUT_OF_MEMORY. */
ipu_status ipu__file_read(const char *path, size_t limit, char **out, size_t *bytes);

/* The same. Sets `*is_ours` if it is a regular file that belongs to the effective user and is not writable
 * by others. */
ipu_status ipu__file_read_owned(const char *path, size_t limit, char **out, size_t *bytes, bool *is_ours);

/* Replaces `path` atomically: a temporary file beside it, fsync, rename. On failure the old contents stay. */
ipu_status ipu__file_write(const char *path, const void *data, size_t bytes);

typedef struct ipu__file_piece {
    const void *data;
    size_t      bytes;
} ipu__file_piece;

/* The same, from several consecutive pieces. */
ipu_status ipu__file_write_pieces(const char *path, const ipu__file_piece *pieces, size_t n);

/* The same, for callers that write to the file themselves: `fd`, which is also readable, is a temporary file
 * whose contents others do not see until the commit. Temporary files are called ".ipu-<process>-<number>.tmp"
 * and are locked (flock) while being written. */
typedef struct ipu__new_file {
    int  fd;
    int  folder;         /* the folder it is in */
    char path[PATH_MAX]; /* after following links: the link stays, the file it points to is replaced */
    char name[NAME_MAX + 1], temporary[64];
    bool hasty; /* set before beginning: a crash of the machine may lose the file or its contents */
} ipu__new_file;

/* Does not follow another user's link in a folder that everybody may write to: such a link is an IO error. */
ipu_status ipu__file_begin(const char *path, ipu__new_file *f);
/* Appends, resuming interrupted writes. Returns false with errno. */
bool ipu__file_append(ipu__new_file *f, const void *data, size_t bytes);
/* Ends the write, whether it succeeds or not. */
ipu_status ipu__file_commit(ipu__new_file *f);
void       ipu__file_abandon(ipu__new_file *f);
/* Also ends the write, but never replaces an existing file: returns false with errno EEXIST. */
bool ipu__file_commit_new(ipu__new_file *f);

/* For callers that open `path` themselves. Returns false if the path contains a link that must not be
 * followed. */
bool ipu__file_links_are_trusted(const char *path);

/* The system's text for errno, with advice for errors that need it. Borrowed: `text`. */
enum { IPU__FILE_REASON = 256 };
const char *ipu__file_reason(int error, char text[IPU__FILE_REASON]);

/* Wrap writes of this thread that might exceed the file size limit (ulimit -f): they then fail with EFBIG, and the
 * SIGXFSZ that would kill the process is discarded. Preserves errno. The functions above do this themselves. */
typedef struct ipu__size_guard {
    sigset_t old;
    bool     was_pending;
} ipu__size_guard;
ipu__size_guard ipu__size_guard_begin(void);
void            ipu__size_guard_end(const ipu__size_guard *guard);

/* Whether `name`, without folders, is that of a temporary file, and if so, who writes it. */
bool ipu__file_is_temporary(const char *name, pid_t *writer);

/* Makes new names survive a crash. Statuses: IO; it is not an error if the file system cannot do it. */
ipu_status ipu__file_sync_folder(const char *path);

#endif

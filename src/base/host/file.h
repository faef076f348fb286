/* Whole files. */
#ifndef IPU_BASE_HOST_FILE_H
#define IPU_BASE_HOST_FILE_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/status.h"

/* The contents, with a 0 after the last byte that *bytes does not count. Refuses what is larger
 * than `limit` and what is no regular file or pipe. Owned: ipu__free. Statuses: IO (errno is ENOENT if there is
 * no file), OUT_OF_MEMORY. */
ipu_status ipu__file_read(const char *path, size_t limit, char **out, size_t *bytes);

/* The same. `*is_ours`: a regular file of the effective user's, which no other may write to. */
ipu_status ipu__file_read_owned(const char *path, size_t limit, char **out, size_t *bytes, bool *is_ours);

/* Replaces `path` at one stroke: a temporary file beside it, fsync, rename. On any failure
 * the old contents stay. */
ipu_status ipu__file_write(const char *path, const void *data, size_t bytes);

typedef struct ipu__file_piece {
    const void *data;
    size_t      bytes;
} ipu__file_piece;

/* The same, of pieces one after the other. */
ipu_status ipu__file_write_pieces(const char *path, const ipu__file_piece *pieces, size_t n);

/* The same for those who write to the file themselves: `fd`, open for reading too, is the temporary one, of
 * which others see nothing until the commit. Temporary files are called ".ipu-<process>-<number>.tmp", and locked
 * (flock) while they are written. */
typedef struct ipu__new_file {
    int  fd;
    int  folder;         /* that it is in */
    char path[PATH_MAX]; /* links followed: the link stays, the file it names is replaced */
    char name[NAME_MAX + 1], temporary[64];
    bool hasty; /* set by who begins it: it may be lost, or lose its contents, when the machine crashes */
} ipu__new_file;

/* A link that another user has put in a folder which all may write to is not followed: IO says so. */
ipu_status ipu__file_begin(const char *path, ipu__new_file *f);
/* At its end, however often write is interrupted. False: errno. */
bool ipu__file_append(ipu__new_file *f, const void *data, size_t bytes);
/* Ends it in either case. */
ipu_status ipu__file_commit(ipu__new_file *f);
void       ipu__file_abandon(ipu__new_file *f);
/* Ends it, too, but never replaces a file: false, with errno EEXIST, if there is one. */
bool ipu__file_commit_new(ipu__new_file *f);

/* For those who open `path` themselves. False: there is a link on the way that is not to be followed. */
bool ipu__file_links_are_trusted(const char *path);

/* The system's words for errno, and what to do about those that need it. Borrowed: `text`. */
enum { IPU__FILE_REASON = 256 };
const char *ipu__file_reason(int error, char text[IPU__FILE_REASON]);

/* Around writes of this thread that may go beyond the limit to the size of files (ulimit -f): they fail with EFBIG, and
 * SIGXFSZ, which would end the process, is taken back. errno stays. The functions above do it themselves. */
typedef struct ipu__size_guard {
    sigset_t old;
    bool     was_pending;
} ipu__size_guard;
ipu__size_guard ipu__size_guard_begin(void);
void            ipu__size_guard_end(const ipu__size_guard *guard);

/* Whether `name`, without folders, is that of a temporary file, and whose. */
bool ipu__file_is_temporary(const char *name, pid_t *writer);

/* So that a new name, too, survives a crash. Statuses: IO; a file system that cannot do it is no error. */
ipu_status ipu__file_sync_folder(const char *path);

#endif

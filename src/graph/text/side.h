/* Side files: the bytes of large constants, beside a text that names them by hash.
 *
 * A file consists of the 8 characters "IPUSIDE1", the number of entries, and for each entry its hash (16
 * bytes), length and bytes. Numbers are 64-bit little-endian. The hash (128-bit FNV-1a) guards against
 * mix-ups and damage, not against forgery.
 */
#ifndef IPU_GRAPH_TEXT_SIDE_H
#define IPU_GRAPH_TEXT_SIDE_H

#include <stdint.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"

typedef struct ipu__side_writer { /* all zero: empty */
    ipu__text entries;
    uint64_t  n;
} ipu__side_writer;

/* Allocation failure is remembered and reported by ipu__side_write. */
ipu__hash128 ipu__side_add(ipu__side_writer *side, const void *data, size_t bytes);
ipu_status   ipu__side_write(ipu__side_writer *side, const char *path);
void         ipu__side_writer_fini(ipu__side_writer *side);

typedef struct ipu__side_entry {
    ipu__hash128 hash;
    const void  *data;
    size_t       bytes;
} ipu__side_entry;

typedef struct ipu__side { /* all zero for no file */
    char  *contents;
    size_t n_bytes;
    IPU__ARRAY(ipu__side_entry) entries;
    size_t next; /* where to look first: texts refer to entries in the order of the file */
} ipu__side;

/* Reads the file and checks every entry. Statuses: IO (no such file, or it is damaged), OUT_OF_MEMORY. */
ipu_status ipu__side_read(ipu__side *side, const char *path);
/* The entry whose hash is written as `text`; NULL if none. */
const ipu__side_entry *ipu__side_find(ipu__side *side, const char *text);
void                   ipu__side_fini(ipu__side *side);

#endif

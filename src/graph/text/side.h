/* Side files: the bytes of large constants, beside a text that names them by hash.
 *
 * A file is the 8 characters "IPUSIDE1", the number of entries, and per entry its hash (16 bytes), its
 * length and its bytes. Numbers are 64 bits, little-endian. The hash (FNV-1a, 128 bits) guards
 * against the wrong file and against damage, not against forgery.
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

/* Memory running out is noted and reported by ipu__side_write. */
ipu__hash128 ipu__side_add(ipu__side_writer *side, const void *data, size_t bytes);
ipu_status   ipu__side_write(ipu__side_writer *side, const char *path);
void         ipu__side_writer_fini(ipu__side_writer *side);

typedef struct ipu__side_entry {
    ipu__hash128 hash;
    const void  *data;
    size_t       bytes;
} ipu__side_entry;

typedef struct ipu__side { /* all zero: no file */
    char  *contents;
    size_t n_bytes;
    IPU_ARRAY(ipu__side_entry) entries;
    size_t next; /* where to look first: texts name entries in the order of the file */
} ipu__side;

/* Reads the file and checks every entry. Statuses: IO (no such file, or it is damaged), OUT_OF_MEMORY. */
ipu_status ipu__side_read(ipu__side *side, const char *path);
/* The entry of the hash written as `text`; NULL: none. */
const ipu__side_entry *ipu__side_find(ipu__side *side, const char *text);
void                   ipu__side_fini(ipu__side *side);

#endif

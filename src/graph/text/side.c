/* Writing and reading side files. A file is verified completely when it is read, so that what is found in
 * it later is what was written. */
#include "graph/text/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/host/file.h"
#include "base/host/regular.h"

static const char magic[8] = {'I', 'P', 'U', 'S', 'I', 'D', 'E', '1'};

enum { HEADER_BYTES = 16, ENTRY_BYTES = 24 };

#define LARGEST_FILE ((size_t)1 << 40)

static void add_number(ipu__text *text, uint64_t number)
{
    char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (char)(number >> (8 * i));
    ipu__text_add_bytes(text, bytes, sizeof bytes);
}

static uint64_t get_number(const char *at)
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) number |= (uint64_t)(unsigned char)at[i] << (8 * i);
    return number;
}

ipu__hash128 ipu__side_add(ipu__side_writer *side, const void *data, size_t bytes)
{
    ipu__hash128 hash = ipu__hash_bytes(data, bytes);
    if (side->n == 0) { /* the header; its count is filled in when the file is written */
        ipu__text_add_bytes(&side->entries, magic, sizeof magic);
        add_number(&side->entries, 0);
    }
    side->n++;
    ipu__text_add_bytes(&side->entries, (const char *)hash.bytes, sizeof hash.bytes);
    add_number(&side->entries, bytes);
    ipu__text_add_bytes(&side->entries, data, bytes);
    return hash;
}

ipu_status ipu__side_write(ipu__side_writer *side, const char *path)
{
    if (side->n == 0) {
        ipu__text_add_bytes(&side->entries, magic, sizeof magic);
        add_number(&side->entries, 0);
    }
    if (side->entries.failed) return ipu__fail_memory();
    for (int i = 0; i < 8; i++) side->entries.at[sizeof magic + (size_t)i] = (char)(side->n >> (8 * i));
    return ipu__file_write(path, side->entries.at, side->entries.n);
}

void ipu__side_writer_fini(ipu__side_writer *side) { ipu__text_fini(&side->entries); }

static ipu_status damaged(const char *path, const char *why)
{
    return ipu__fail(IPU_IO, "%s: not a usable side file: %s; print the graph anew", path, why);
}

static ipu_status read_entry(ipu__side *side, size_t *at, const char *path)
{
    if (side->n_bytes - *at < ENTRY_BYTES) return damaged(path, "it ends within an entry's header");
    ipu__side_entry entry;
    memcpy(entry.hash.bytes, side->contents + *at, sizeof entry.hash.bytes);
    uint64_t bytes = get_number(side->contents + *at + sizeof entry.hash.bytes);
    *at += ENTRY_BYTES;
    if (bytes > side->n_bytes - *at) return damaged(path, "it ends within an entry's bytes");
    entry.data  = side->contents + *at;
    entry.bytes = (size_t)bytes;
    *at += entry.bytes;
    ipu__hash128 found = ipu__hash_bytes(entry.data, entry.bytes);
    if (memcmp(found.bytes, entry.hash.bytes, sizeof found.bytes) != 0)
        return damaged(path, "the bytes of an entry do not have the hash it gives");
    return ipu__push(&side->entries, entry) ? IPU_OK : ipu__fail_memory();
}

ipu_status ipu__side_read(ipu__side *side, const char *path)
{
    IPU_TRY(ipu__regular_read(path, LARGEST_FILE, &side->contents, &side->n_bytes));
    if (side->n_bytes < HEADER_BYTES) return damaged(path, "it is shorter than a header");
    if (memcmp(side->contents, magic, sizeof magic) != 0)
        return damaged(path, "it does not begin with IPUSIDE1");
    uint64_t n  = get_number(side->contents + sizeof magic);
    size_t   at = HEADER_BYTES;
    for (uint64_t i = 0; i < n; i++) IPU_TRY(read_entry(side, &at, path));
    if (at != side->n_bytes) return damaged(path, "something follows its last entry");
    return IPU_OK;
}

static bool read_hash(const char *text, ipu__hash128 *out)
{
    if (strlen(text) != IPU__HASH_TEXT - 1 || strspn(text, "0123456789abcdef") != IPU__HASH_TEXT - 1)
        return false;
    for (size_t i = 0; i < sizeof out->bytes; i++) {
        char byte[3]  = {text[2 * i], text[2 * i + 1], 0};
        out->bytes[i] = (unsigned char)strtoul(byte, NULL, 16);
    }
    return true;
}

const ipu__side_entry *ipu__side_find(ipu__side *side, const char *text)
{
    ipu__hash128 hash;
    if (!read_hash(text, &hash)) return NULL;
    for (size_t i = 0; i < side->entries.n; i++) {
        const ipu__side_entry *entry = &side->entries.at[side->next];
        side->next                   = (side->next + 1) % side->entries.n;
        if (memcmp(entry->hash.bytes, hash.bytes, sizeof hash.bytes) == 0) return entry;
    }
    return NULL;
}

void ipu__side_fini(ipu__side *side)
{
    ipu__array_fini(&side->entries);
    ipu__free(side->contents);
    *side = (ipu__side){0};
}

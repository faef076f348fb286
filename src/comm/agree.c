/* Whether all processes of a group were started alike: compares lists of named values with rank 0's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "comm/comm.h"
#include "ipu/version.h"

/* Names and values, each 0-terminated. */
static void describe(ipu__text *t, const ipu_comm_item *items, size_t n)
{
    const ipu_comm_item version = {"OpenIPU", ipu_version()};
    for (size_t i = 0; i <= n; i++) {
        const ipu_comm_item *item = i == 0 ? &version : &items[i - 1];
        ipu__text_add_bytes(t, item->name, strlen(item->name) + 1);
        ipu__text_add_bytes(t, item->value, strlen(item->value) + 1);
    }
}

/* The value of `name`; NULL if there is none. */
static const char *find(const char *list, size_t bytes, const char *name)
{
    for (const char *at = list; at < list + bytes;) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, name) == 0) return value;
        at = value + strlen(value) + 1;
    }
    return NULL;
}

/* The first name in `list` whose value in `other` differs; NULL if there is none. */
static const char *find_difference(const char *list, size_t bytes, const char *other, size_t other_bytes)
{
    for (const char *at = list; at < list + bytes;) {
        const char *value = at + strlen(at) + 1, *found = find(other, other_bytes, at);
        if (!found || strcmp(found, value) != 0) return at;
        at = value + strlen(value) + 1;
    }
    return NULL;
}

static void compare(int64_t rank, const ipu__text *mine, const ipu__text *first, char *message, size_t room)
{
    const char *name = find_difference(first->at, first->n, mine->at, mine->n);
    if (!name) name = find_difference(mine->at, mine->n, first->at, first->n);
    if (!name) return;
    const char *here = find(mine->at, mine->n, name), *there = find(first->at, first->n, name);
    snprintf(message, room, "rank %" PRId64 " was started with %.80s %.120s, rank 0 with %.120s", rank, name,
             here ? here : "left out", there ? there : "it left out");
}

/* Gives the list of rank 0 to all. */
static ipu_status share(ipu_comm *comm, const ipu__text *mine, ipu__text *first)
{
    int64_t bytes = (int64_t)mine->n;
    IPU_TRY(ipu_comm_broadcast(comm, 0, &bytes, sizeof bytes));
    char block[256];
    for (int64_t at = 0; at < bytes; at += (int64_t)sizeof block) {
        size_t n = (size_t)(bytes - at) < sizeof block ? (size_t)(bytes - at) : sizeof block;
        if (ipu_comm_rank(comm) == 0) memcpy(block, mine->at + at, n);
        IPU_TRY(ipu_comm_broadcast(comm, 0, block, n));
        ipu__text_add_bytes(first, block, n);
    }
    return IPU_OK;
}

/* Sends the message of the first rank that differs to all, so that each hears from the others before it
 * fails. */
static ipu_status conclude(ipu_comm *comm, char *message)
{
    size_t     n      = (size_t)ipu_comm_size(comm);
    char      *all    = ipu__alloc_zeroed(n * IPU__COMM_MESSAGE_BYTES);
    ipu_status status = all ? ipu_comm_gather(comm, 0, message, IPU__COMM_MESSAGE_BYTES, all)
                            : ipu__fail_memory();
    for (size_t r = 0; status == IPU_OK && ipu_comm_rank(comm) == 0 && r < n && !*message; r++)
        memcpy(message, all + r * IPU__COMM_MESSAGE_BYTES, IPU__COMM_MESSAGE_BYTES);
    ipu__free(all);
    if (status == IPU_OK) status = ipu_comm_broadcast(comm, 0, message, IPU__COMM_MESSAGE_BYTES);
    if (status != IPU_OK || !*message) return status;
    return ipu__fail(IPU_INVALID, "%s: start all processes with the same", message);
}

ipu_status ipu_comm_agree(ipu_comm *comm, const ipu_comm_item *items, size_t n)
{
    ipu__text mine = {0}, first = {0};
    char      message[IPU__COMM_MESSAGE_BYTES] = "";
    if (ipu_comm_size(comm) == 1) return IPU_OK;
    describe(&mine, items, n);
    ipu_status status = mine.failed ? ipu__fail_memory() : share(comm, &mine, &first);
    if (status == IPU_OK && first.failed) status = ipu__fail_memory();
    if (status == IPU_OK) compare(ipu_comm_rank(comm), &mine, &first, message, sizeof message);
    if (status == IPU_OK) status = conclude(comm, message);
    ipu__text_fini(&mine);
    ipu__text_fini(&first);
    return status;
}

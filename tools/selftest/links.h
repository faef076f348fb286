/* Which IPUs of a device are linked.
 *
 * As in the vendor's machines: IPUs form a ladder, two by two on a rung, each linked to the one before and
 * behind it on its rail. IPU-Links end at a domain of 64 IPUs, beyond which are gateways. A virtual link is a
 * copy from tile to tile and has neither lanes nor a generation. */
#ifndef TOOLS_SELFTEST_LINKS_H
#define TOOLS_SELFTEST_LINKS_H

#include <stddef.h>
#include <stdint.h>

enum { SELFTEST_LINK_DOMAIN = 64 };

typedef struct selftest_link {
    int64_t ipu[2]; /* the lower first */
} selftest_link;

/* Of IPUs 0 to n - 1, in the order of their lower one. Owned: free. NULL: out of memory. */
selftest_link *selftest_links(int64_t n_ipus, size_t *n);

#endif

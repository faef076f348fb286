/* Which IPUs of a device are linked.
 *
 * As in the vendor's machines, IPUs form a ladder: two on each rung, and each linked to its neighbours on its
 * rail. IPU-Links reach as far as a domain of 64 IPUs; beyond are gateways. A virtual link is a copy from
 * tile to tile, without lanes or a generation. */
#ifndef TOOLS_SELFTEST_LINKS_H
#define TOOLS_SELFTEST_LINKS_H

#include <stddef.h>
#include <stdint.h>

enum { SELFTEST_LINK_DOMAIN = 64 };

typedef struct selftest_link {
    int64_t ipu[2]; /* the lower one first */
} selftest_link;

/* The links of IPUs 0 to n - 1, ordered by their lower IPU. Owned: free. NULL if out of memory. */
selftest_link *selftest_links(int64_t n_ipus, size_t *n);

#endif

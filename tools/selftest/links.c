/* The ladder: rungs join 2i and 2i + 1, rails i and i + 2. */
#include "selftest/links.h"

#include <stdbool.h>
#include <stdlib.h>

static bool are_linked(int64_t a, int64_t b)
{
    bool same_domain = a / SELFTEST_LINK_DOMAIN == b / SELFTEST_LINK_DOMAIN;
    bool rung        = a % 2 == 0 && b == a + 1;
    return same_domain && (rung || b == a + 2);
}

selftest_link *selftest_links(int64_t n_ipus, size_t *n)
{
    selftest_link *out = malloc(2 * (size_t)n_ipus * sizeof *out);
    *n                 = 0;
    if (!out) return NULL;
    for (int64_t a = 0; a < n_ipus; a++)
        for (int64_t b = a + 1; b <= a + 2 && b < n_ipus; b++)
            if (are_linked(a, b)) out[(*n)++] = (selftest_link){{a, b}};
    return out;
}

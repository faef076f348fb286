/* Similar names, by edit distance. */
#include "nearest.h"

#include <limits.h>
#include <string.h>

static int smallest(int a, int b, int c)
{
    int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Edits (insert, delete, replace) between two names; overlong names count as wholly different. */
static int distance(const char *a, const char *b)
{
    int    row[NEAREST_BYTES];
    size_t length = strlen(b);
    if (length >= NEAREST_BYTES) return INT_MAX;
    int na = (int)strlen(a), nb = (int)length;
    for (int k = 0; k <= nb; k++) row[k] = k;
    for (int i = 1; i <= na; i++) {
        int corner = row[0];
        row[0]     = i;
        for (int k = 1; k <= nb; k++) {
            int above = row[k];
            row[k]    = smallest(above + 1, row[k - 1] + 1, corner + (a[i - 1] != b[k - 1]));
            corner    = above;
        }
    }
    return row[nb];
}

void nearest_consider(const char *name, const char *candidate, const char **nearest, int *edits)
{
    size_t n = strlen(name), shorter = strlen(candidate);
    int    d = n < NEAREST_BYTES ? distance(name, candidate) : INT_MAX;
    if (n && !strncmp(candidate, name, n)) d = 0;
    if (n > shorter && name[shorter] == '-' && !strncmp(candidate, name, shorter))
        d = 1; /* json-output, json */
    if (d >= *edits || d > 1 + (int)n / 3) return;
    *nearest = candidate;
    *edits   = d;
}

const char *nearest_of(const char *name, const char *const *names, int n)
{
    const char *nearest = NULL;
    int         edits   = INT_MAX;
    for (int i = 0; i < n; i++) nearest_consider(name, names[i], &nearest, &edits);
    return nearest;
}

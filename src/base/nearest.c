/* Edit distance, counting a swap of two neighbours as one edit. */
#include "base/nearest.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 63 };

static int least(int a, int b) { return a < b ? a : b; }

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

static int distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b);
    if (n > LONGEST || m > LONGEST) return strcasecmp(a, b) == 0 ? 0 : INT_MAX;
    int rows[3][LONGEST + 1];
    for (int j = 0; j <= m; j++) rows[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int same = lower(a[i - 1]) == lower(b[j - 1]);
            row[j]   = least(least(above[j], row[j - 1]) + 1, above[j - 1] + !same);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

ipu__nearest ipu__nearest_to(const char *wanted)
{
    return (ipu__nearest){.wanted = wanted, .distance = (int)strlen(wanted) / 3 + 2};
}

void ipu__nearest_try(ipu__nearest *nearest, const char *name)
{
    int d = distance(nearest->wanted, name);
    if (d >= nearest->distance) return;
    nearest->distance = d;
    nearest->best     = name;
}

const char *ipu__nearest_hint(ipu__nearest *nearest)
{
    if (nearest->best)
        snprintf(nearest->hint, sizeof nearest->hint, " (did you mean \"%s\"?)", nearest->best);
    return nearest->hint;
}

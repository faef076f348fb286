/* The nearest of some names to a mistyped one, for "did you mean".
 *
 *     ipu__nearest n = ipu__nearest_to("tehads");
 *     for (...) ipu__nearest_try(&n, name[i]);
 *     ipu__fail(..., "no key \"%s\"%s", "tehads", ipu__nearest_hint(&n));     ... (did you mean "threads"?)
 */
#ifndef IPU_BASE_NEAREST_H
#define IPU_BASE_NEAREST_H

typedef struct ipu__nearest {
    const char *wanted, *best;
    int         distance;
    char        hint[160];
} ipu__nearest;

ipu__nearest ipu__nearest_to(const char *wanted);
void         ipu__nearest_try(ipu__nearest *nearest, const char *name);
/* " (did you mean \"x\"?)", or "" if none is close. Stored in `nearest`. */
const char *ipu__nearest_hint(ipu__nearest *nearest);

#endif

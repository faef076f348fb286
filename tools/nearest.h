/* Finds the name that was probably meant. */
#ifndef TOOLS_NEAREST_H
#define TOOLS_NEAREST_H

enum { NEAREST_BYTES = 64 }; /* longer names match nothing */

/* Keeps `candidate` if it is nearer to `name` than the best so far, and near enough to be what was meant.
 * Initially *nearest is NULL and *edits INT_MAX. */
void nearest_consider(const char *name, const char *candidate, const char **nearest, int *edits);

/* The nearest of `n` names; NULL if none is near. */
const char *nearest_of(const char *name, const char *const *names, int n);

#endif

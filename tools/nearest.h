/* Names that are nearly right: what was meant. */
#ifndef TOOLS_NEAREST_H
#define TOOLS_NEAREST_H

enum { NEAREST_BYTES = 64 }; /* longer names are like no other */

/* Keeps `candidate` if it is nearer to `name` than what was kept, and near enough to be meant. At first *nearest is NULL
 * and *edits INT_MAX. */
void nearest_consider(const char *name, const char *candidate, const char **nearest, int *edits);

/* The nearest of `n` names; NULL: none is near. */
const char *nearest_of(const char *name, const char *const *names, int n);

#endif

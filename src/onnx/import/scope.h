/* Names of values in a graph and in those around it. */
#ifndef IPU_ONNX_IMPORT_SCOPE_H
#define IPU_ONNX_IMPORT_SCOPE_H

#include "onnx/import/import.h"

struct ipu__scope {
    ipu__map map; /* name to index in items */
    IPU__ARRAY(ipu__item) items;
    IPU__ARRAY(const char *) names; /* of the items; of the file */
    ipu__scope *parent;             /* NULL: that of a file or of a function */
};

void ipu__scope_fini(ipu__scope *s);
/* False: the name is taken in this graph; or memory, after which *out_of_memory is set. */
bool ipu__scope_add(ipu__scope *s, const char *name, ipu__item item, bool *out_of_memory);
/* Leaves the first `n` items. */
void ipu__scope_cut(ipu__scope *s, size_t n);
/* In this scope, then in those around it; NULL: none. Valid until something is added. */
ipu__item *ipu__scope_find(ipu__scope *s, const char *name);

#endif

/* Shared by the two halves of the printer: print.c writes the parts of a graph, print_program.c the steps
 * of programs. Models print their own section with the functions marked as general. */
#ifndef IPU_GRAPH_TEXT_PRINT_H
#define IPU_GRAPH_TEXT_PRINT_H

#include "base/text.h"
#include "graph/graph.h"
#include "graph/text/side.h"

enum {
    IPU__TEXT_IN_FULL = 64, /* constants of up to this many elements are printed even with a side file */
};

/* Size limit of a text, printed or parsed: the lexer counts in int. */
#define IPU__TEXT_BYTES ((size_t)1 << 30)

/* Which names are used more than once for one kind of object, and so are printed with their id. */
typedef struct ipu__labels {
    bool *shared; /* by id */
} ipu__labels;

typedef struct ipu__printer {
    ipu_graph        *g; /* the root; NULL if the text is not for a graph */
    const ipu__body  *bodies;
    size_t            n_bodies; /* programs to print */
    unsigned          flags;
    ipu__text         out;
    int               depth; /* indentation level */
    bool              with_side;
    ipu__side_writer  side;
    ipu__view_builder builder, spare;
    ipu__labels       variables, compute_sets, functions;
    ipu_status        status; /* the first failure */
} ipu__printer;

/* ---- print.c ---- */
void ipu__print_line(ipu__printer *p); /* a new line, indented */
/* Keep the first failure: ipu__print_fail(p, ipu__fail(...)). */
void ipu__print_fail(ipu__printer *p, ipu_status status);
/* "[4,8]", nothing for a scalar. */
void ipu__print_dims(ipu__printer *p, const ipu_shape *shape);
/* " = {1, 2}", or by hash if there is a side file and there are many values. */
void ipu__print_data(ipu__printer *p, ipu_type type, const void *data, int64_t n);
/* Calls `print`, writes the side file (if not NULL) and takes the text. */
ipu_status ipu__print_finish(ipu__printer *p, void (*print)(ipu__printer *p), const char *side_file,
                             char **out);
/* The functions below are for graphs only. */
void ipu__print_label(ipu__printer *p, const ipu__labels *labels, const char *name, uint32_t id);
void ipu__print_view(ipu__printer *p, uint32_t view);
/* " at "file":line", if locations were requested. */
void ipu__print_at(ipu__printer *p, uint32_t location);

/* ---- print_program.c ---- */
/* " {", the steps, and "}" on its own line. */
void ipu__print_block(ipu__printer *p, ipu__body body);

#endif

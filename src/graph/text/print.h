/* What the two halves of the printer share: print.c writes the parts of a graph, print_program.c the
 * steps of programs. Models print their own section with what is said here to be for all. */
#ifndef IPU_GRAPH_TEXT_PRINT_H
#define IPU_GRAPH_TEXT_PRINT_H

#include "base/text.h"
#include "graph/graph.h"
#include "graph/text/side.h"

enum {
    IPU__TEXT_IN_FULL = 64, /* elements of a constant that are printed even with a side file */
};

/* Bytes of a text, printed or parsed: the lexer counts in int. */
#define IPU__TEXT_BYTES ((size_t)1 << 30)

/* Which names of one kind of thing are used more than once, and so need their id beside them. */
typedef struct ipu__labels {
    bool *shared; /* by id */
} ipu__labels;

typedef struct ipu__printer {
    ipu_graph        *g; /* the root; NULL: the text is no graph's */
    const ipu__body  *bodies;
    size_t            n_bodies; /* programs to print */
    unsigned          flags;
    ipu__text         out;
    int               depth; /* of indentation */
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
/* " = {1, 2}", or by hash if there is a side file and the values are many. */
void ipu__print_data(ipu__printer *p, ipu_type type, const void *data, int64_t n);
/* Calls `print`, writes the side file (NULL: none) and takes the text. */
ipu_status ipu__print_finish(ipu__printer *p, void (*print)(ipu__printer *p), const char *side_file,
                             char **out);
/* Those below are for graphs. */
void ipu__print_label(ipu__printer *p, const ipu__labels *labels, const char *name, uint32_t id);
void ipu__print_view(ipu__printer *p, uint32_t view);
/* " at "file":line", if locations were asked for. */
void ipu__print_at(ipu__printer *p, uint32_t location);

/* ---- print_program.c ---- */
/* " {", the steps, and "}" on a line of its own. */
void ipu__print_block(ipu__printer *p, ipu__body body);

#endif

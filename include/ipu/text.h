/* The text form: graphs and programs as text, and back.
 *
 * Everything that can be built can be printed, and printed text parses to the same graph
 * (docs/text-format.md). Codelets are referred to by name: the text holds their signatures, and the parser is
 * given records with the bodies.
 *
 *     char *text;
 *     IPU_TRY(ipu_graph_print(g, &p, 1, 0, NULL, &text));
 *     puts(text);
 *     ipu_free(text);
 */
#ifndef IPU_TEXT_H
#define IPU_TEXT_H

#include "ipu/program.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    IPU_PRINT_LOCATIONS = 1, /* include the file and line of everything */
};

/* The graph and these programs (the first is program 0). For constants and initial values of over 64
 * elements, only a hash is printed, and the bytes go to `side_file` (if NULL, they are printed in full).
 * Owned: ipu_free. Statuses: the graph's own error, IO, OUT_OF_MEMORY. */
ipu_status ipu_graph_print(ipu_graph *g, const ipu_program *programs, size_t n, unsigned flags,
                           const char *side_file, char **out);

typedef struct ipu_parsed {
    ipu_graph   *graph;    /* Owned: ipu_graph_destroy */
    ipu_program *programs; /* Borrowed from the graph */
    size_t       n_programs;
} ipu_parsed;

/* Builds the graph that a text describes. `name` is what errors call the text (a file name). `codelets` are
 * the known bodies; a signature in the text must match that of the record of the same name. A codelet without
 * a record parses but does not compile. `side_file` may be NULL. Statuses: INVALID with line, column and what
 * was expected; IO; OUT_OF_MEMORY. */
ipu_status ipu_graph_parse(const char *text, size_t bytes, const char *name,
                           const ipu_codelet *const *codelets, size_t n_codelets, const char *side_file,
                           ipu_parsed *out);

#ifdef __cplusplus
}
#endif
#endif

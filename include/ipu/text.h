/* The text form: graphs and programs as text, and back.
 *
 * Everything that can be built can be printed, and what is printed parses to the same
 * graph (docs/text-format.md). Codelets go by name: the text holds their signatures,
 * the bodies are those of the records given to the parser.
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
    IPU_PRINT_LOCATIONS = 1, /* with the file and line of each thing */
};

/* The graph and these programs (the first is program 0). Constants and initial values of over 64
 * elements are written by hash, and their bytes to `side_file` (NULL: they are printed in
 * full). Owned: ipu_free. Statuses: the graph's own error, IO, OUT_OF_MEMORY. */
ipu_status ipu_graph_print(ipu_graph *g, const ipu_program *programs, size_t n, unsigned flags,
                           const char *side_file, char **out);

typedef struct ipu_parsed {
    ipu_graph   *graph;    /* Owned: ipu_graph_destroy */
    ipu_program *programs; /* Borrowed from the graph */
    size_t       n_programs;
} ipu_parsed;

/* Build the graph a text describes. `name` is what errors call the text (a file's name); `codelets`
 * are the bodies known, and a signature in the text must agree with that of the record of the same
 * name. A codelet without a record parses but does not compile. `side_file` NULL: none.
 * Statuses: INVALID with line, column and what was expected; IO; OUT_OF_MEMORY. */
ipu_status ipu_graph_parse(const char *text, size_t bytes, const char *name,
                           const ipu_codelet *const *codelets, size_t n_codelets, const char *side_file,
                           ipu_parsed *out);

#ifdef __cplusplus
}
#endif
#endif

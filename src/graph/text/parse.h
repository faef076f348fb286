/* Shared by the grammar (parse.y), the lexer (lex.l) and the builder (parse.c, parse_program.c); the
 * grammar of models also uses words, values and errors.
 *
 * The grammar calls the functions below as it recognises constructs; each builds its part of the graph with
 * public functions and returns false once it has recorded an error. Positions are positions in the text.
 */
#ifndef IPU_GRAPH_TEXT_PARSE_H
#define IPU_GRAPH_TEXT_PARSE_H

#include "base/map.h"
#include "base/nearest.h"
#include "graph/graph.h"
#include "graph/text/print.h"
#include "graph/text/side.h"
#include "ipu/text.h"

enum {
    IPU__MAX_FIELDS  = 128,  /* per codelet: each vertex has room for all of them */
    IPU__SHOWN       = 40,   /* characters of the offending text shown in an error */
    IPU__LEXER_BYTES = 1024, /* what flex allocates for a text in memory */
};

typedef struct ipu__position {
    int line, column;
} ipu__position;

/* Characters within the text, not 0-terminated. */
typedef struct ipu__slice {
    const char *at;
    size_t      n;
} ipu__slice;

/* `at "file":line`. If not given, the position in the text. */
typedef struct ipu__at {
    bool        given;
    const char *file;
    int         line;
} ipu__at;

typedef struct ipu__parser {
    const char               *name; /* of the text */
    const ipu_codelet *const *records;
    size_t                    n_records;
    ipu_graph                *g;
    ipu_status                status;
    ipu__arena                arena; /* strings and labels */
    ipu__side                 side;
    bool                      has_side;
    size_t                    side_left; /* bytes that may still be taken from the side file */
    ipu__map                  variables, compute_sets, functions;
    IPU__ARRAY(char) scratch; /* for turning a slice into a string */
    ipu__nearest nearest;     /* to the name that was not found */
    /* Lists being read, which do not nest. */
    ipu_shape         shape;
    ipu__view_builder pieces;
    ipu__piece        piece;
    bool              mixed; /* the pieces so far have more than one type */
    ipu_type          piece_type;
    int64_t           n_elements; /* of the pieces so far */
    int64_t           n_runs;     /* of them, as a set */
    int64_t           runs_used;  /* by programs so far: see parse_view.c */
    ipu_type          value_type;
    bool              takes_values; /* else values are an error */
    IPU__ARRAY(char) values;
    IPU__ARRAY(int64_t) ints;
    IPU__ARRAY(ipu_tensor) tensors;
    IPU__ARRAY(ipu_tile_interval) places;
    IPU__ARRAY(ipu_codelet_field) fields;
    IPU__ARRAY(ipu_attribute) attributes;
    ipu_compute_set          compute_set;
    ipu_vertex               vertex;
    const ipu_codelet_field *field;
    /* Lists that nest, as stacks. */
    IPU__ARRAY(ipu_program) blocks;
    IPU__ARRAY(ipu_switch_case) cases;
    IPU__ARRAY(ipu_program) programs;
    /* For the lexer. */
    ipu__position where; /* of what comes next */
    ipu__slice    token; /* the last one */
    size_t        lexer_used;
    _Alignas(16) char lexer_memory[IPU__LEXER_BYTES];
} ipu__parser;

/* ---- parse.c: errors and small things ---- */

/* Record "name:line:column: ..." and return false. Only the first error is kept. */
bool ipu__parse_fail(ipu__parser *p, ipu__position at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool ipu__parse_memory(ipu__parser *p);
/* Whether the graph is still fine after the builder calls of the statement at `at`. */
bool ipu__parse_built(ipu__parser *p, ipu__position at);
/* Set the location of the builder calls that follow. */
void ipu__parse_here(ipu__parser *p, ipu__position at, ipu__at where);
/* The string in the scratch buffer, valid until the next one. NULL on allocation failure, which is
 * recorded. */
const char *ipu__parse_string(ipu__parser *p, ipu__slice slice);
/* A string that lives as long as the parser. */
const char *ipu__parse_keep(ipu__parser *p, ipu__slice slice);
/* The id of a label in one of the three maps. */
bool ipu__parse_find(ipu__parser *p, ipu__position at, const ipu__map *map, const char *what,
                     ipu__slice label, uint32_t *out);
bool ipu__parse_label(ipu__parser *p, ipu__position at, ipu__map *map, const char *what, ipu__slice label,
                      uint32_t id);
/* The name of an object declared with this label; `name` NULL means the label says it. */
const char *ipu__parse_name_of(ipu__parser *p, ipu__slice label, const char *name);
/* " (did you mean ...?)", if something in `map` resembles `name`. */
const char *ipu__parse_hint(ipu__parser *p, const ipu__map *map, const char *name);

bool ipu__parse_int(ipu__parser *p, ipu__position at, ipu__slice text, int64_t *out);
bool ipu__parse_double(ipu__parser *p, ipu__position at, ipu__slice text, double *out);
bool ipu__parse_at(ipu__parser *p, ipu__position at, const char *file, int64_t line, ipu__at *out);
/* The string between quotes, unescaped, in the parser's arena. */
bool ipu__parse_quoted(ipu__parser *p, ipu__position at, ipu__slice quoted, const char **out);
bool ipu__parse_type(ipu__parser *p, ipu__position at, ipu__slice name, ipu_type *out);
bool ipu__parse_value(ipu__parser *p, ipu__position at, ipu__slice text);
/* Stores p->ints in p->shape. */
bool ipu__parse_dims(ipu__parser *p, ipu__position at);

/* What flex's actions and allocations call: nothing is freed piece by piece, nothing grows. */
void  ipu__parse_advance(ipu__parser *p, ipu__position *at, const char *text, size_t n);
void *ipu__parse_lexer_alloc(ipu__parser *p, size_t bytes);

/* Reads the side file (if not NULL) and calls `grammar` in the C locale with a copy of the text that ends
 * in the two 0 bytes required by flex (and counted in `bytes`). Restores the caller's location. */
typedef ipu_status (*ipu__grammar_fn)(ipu__parser *p, char *buffer, size_t bytes);
ipu_status ipu__parse_text(ipu__parser *p, const char *text, size_t bytes, const char *side_file,
                           ipu__grammar_fn grammar);
void       ipu__parser_fini(ipu__parser *p);

/* ---- parse_view.c ---- */

bool ipu__parse_loop(ipu__parser *p, ipu__position at, int64_t count, int64_t stride);
/* Adds the loops in p->piece, starting at element `start` of the variable with that label. */
bool ipu__parse_piece(ipu__parser *p, ipu__position at, ipu__slice label, int64_t start);
/* The pieces, with shape p->shape; `type` IPU_N_TYPES means that of the variables. */
bool ipu__parse_view(ipu__parser *p, ipu__position at, ipu_type type, ipu_tensor *out);
bool ipu__parse_whole(ipu__parser *p, ipu__position at, ipu__slice label, ipu_tensor *out);

/* ---- parse_graph.c: declarations ---- */

typedef struct ipu__declared { /* precedes the type */
    ipu__slice  label;
    const char *name; /* NULL means the label */
} ipu__declared;

/* -1 means the default. */
bool ipu__parse_graph(ipu__parser *p, ipu__position at, const char *target, int64_t ipus, int64_t tiles,
                      int64_t replication);
bool ipu__parse_place(ipu__parser *p, int64_t tile, int64_t begin, int64_t end);
bool ipu__parse_variable(ipu__parser *p, ipu__position at, ipu__declared d, ipu_type type, ipu__at where);
/* Values of this type follow; the caller keeps p->shape. */
void ipu__parse_expect_values(ipu__parser *p, ipu_type type);
bool ipu__parse_hash(ipu__parser *p, ipu__position at, const char *hash);
/* Checks that there are `n` of them. */
bool ipu__parse_check_values(ipu__parser *p, ipu__position at, int64_t n);
bool ipu__parse_constant(ipu__parser *p, ipu__position at, ipu__declared d, ipu_type type, ipu__at where);
bool ipu__parse_replication_index(ipu__parser *p, ipu__position at, ipu__declared d, ipu__at where);
bool ipu__parse_initial_value(ipu__parser *p, ipu__position at, ipu_tensor t, ipu__at where);
bool ipu__parse_field(ipu__parser *p, ipu__position at, ipu_field_direction direction, ipu_field_shape shape,
                      ipu_type type, const char *name);
/* With p->fields. */
bool ipu__parse_codelet(ipu__parser *p, ipu__position at, const char *name, bool multi, ipu__at where);
/* From its record only. */
bool ipu__parse_known_codelet(ipu__parser *p, ipu__position at, const char *name, ipu__at where);
bool ipu__parse_compute_set(ipu__parser *p, ipu__position at, ipu__declared d, ipu__at where);
/* Checks that a vertex may have this number of cycles. */
bool ipu__parse_cycles(ipu__parser *p, ipu__position at, int64_t cycles);
/* `tile` -1 means none, `cycles` 0 unspecified. */
bool ipu__parse_vertex(ipu__parser *p, ipu__position at, const char *codelet, int64_t tile, int64_t cycles,
                       ipu__at where);
/* The field to which the following is connected. */
bool ipu__parse_link(ipu__parser *p, ipu__position at, const char *field);
bool ipu__parse_connect(ipu__parser *p, ipu__position at, ipu_tensor t);
bool ipu__parse_connect_list(ipu__parser *p, ipu__position at);
/* Checks that the field needs no values. */
bool ipu__parse_no_state(ipu__parser *p, ipu__position at);
/* p->values; `is_list` if in braces. */
bool ipu__parse_state(ipu__parser *p, ipu__position at, bool is_list);

/* ---- parse_program.c ---- */

bool        ipu__parse_open(ipu__parser *p, ipu__position at, ipu__at where);
ipu_program ipu__parse_close(ipu__parser *p);
bool ipu__parse_function(ipu__parser *p, ipu__position at, ipu__declared d, ipu_program body, ipu__at where);
bool ipu__parse_find_stream(ipu__parser *p, ipu__position at, const char *handle, ipu_stream *out);
bool ipu__parse_find_remote(ipu__parser *p, ipu__position at, const char *handle, ipu_remote_buffer *out);
/* p->ints as an unnamed attribute. */
bool ipu__parse_ints(ipu__parser *p, ipu_attribute *out);
/* The innermost block. */
ipu_program ipu__parse_top(const ipu__parser *p);

#endif

/* Shared by the grammar of models (model.y), its lexer (model.l) and the builder (parse.c).
 *
 * Words, values, errors and side files are those of the graph's parser, which this one extends. The grammar
 * calls the functions below as it recognises statements; each builds its part of the model by the public
 * functions and returns false after recording an error.
 */
#ifndef IPU_MODEL_PARSE_H
#define IPU_MODEL_PARSE_H

#include "graph/text/parse.h"
#include "model/model.h"

/* The declaration of a value. */
typedef struct ipu__declared_value {
    ipu__declared what;
    ipu__position at;
} ipu__declared_value;

typedef struct ipu__model_parser {
    ipu__parser base; /* first member */
    ipu_model  *m;
    ipu__map    labels; /* of values, to ids */
    int         depth;  /* of blocks */
    /* Lists being read; all are complete before a block begins. */
    IPU__ARRAY(ipu__declared_value) declared;
    IPU__ARRAY(ipu_value) values;
    IPU__ARRAY(double) numbers;
    ipu_initial initial;
    int64_t     key;
    enum { IPU__INITIAL_NONE, IPU__INITIAL_DATA, IPU__INITIAL_DRAWN } initial_form;
} ipu__model_parser;

/* -1 means the default. */
bool ipu__parse_model(ipu__model_parser *p, ipu__position at, int64_t seed, int64_t keys);
bool ipu__parse_declare(ipu__model_parser *p, ipu__position at, ipu__declared d);
/* Adds to p->values; `none` means no slice. */
bool ipu__parse_use(ipu__model_parser *p, ipu__position at, ipu__slice label);
bool ipu__parse_ref(ipu__model_parser *p, ipu__position at, ipu__slice label, ipu_value *out);

/* Declares the values in p->declared, with p->base.shape. */
bool ipu__parse_input(ipu__model_parser *p, ipu__position at, ipu_type type, ipu__at where);
bool ipu__parse_initial(ipu__model_parser *p, ipu__position at, ipu__slice kind, int64_t key);
bool ipu__parse_kept(ipu__model_parser *p, ipu__position at, bool is_parameter, ipu_type type, ipu__at where);
bool ipu__parse_model_constant(ipu__model_parser *p, ipu__position at, ipu_type type, ipu__at where);

/* What follows belongs to this stage; `name` NULL: to none in particular. */
bool ipu__parse_stage(ipu__model_parser *p, ipu__position at, const char *name, bool is_backward);
/* p->declared = name(p->values) p->base.attributes; `recompute` 0: none. */
bool ipu__parse_op(ipu__model_parser *p, ipu__position at, const char *name, int64_t recompute,
                   ipu__at where);
bool ipu__parse_if(ipu__model_parser *p, ipu__position at, ipu_value condition, ipu__at where);
bool ipu__parse_else(ipu__model_parser *p, ipu__position at);
/* p->declared: the carried values inside, followed by the index if `has_index`; p->values: their initial
 * values. */
bool ipu__parse_for(ipu__model_parser *p, ipu__position at, int64_t most, bool has_index, ipu_value first,
                    ipu__at where);
/* Yields p->values; `go_on` null: always. */
bool ipu__parse_yield(ipu__model_parser *p, ipu__position at, ipu_value go_on);
/* p->declared are the results. */
bool ipu__parse_results(ipu__model_parser *p, ipu__position at);
bool ipu__parse_output(ipu__model_parser *p, ipu__position at, const char *name, ipu_value v, ipu__at where);
bool ipu__parse_update(ipu__model_parser *p, ipu__position at, ipu_value kept, ipu_value v);

#endif

/* A parsed chain, before the memory layout of operands is known. */
#ifndef IPU_OP_ELEMENTWISE_CHAIN_PARSE_H
#define IPU_OP_ELEMENTWISE_CHAIN_PARSE_H

#include "op/elementwise/chain.h"
#include "op/elementwise/elementwise.h"

/* Values: operand N is N, the result of instruction K is IPU__CHAIN_MAX_IN + K. */
typedef struct ipu__chain_step {
    int      element, n_in;
    int      in[IPU__MAX_ELEMENT_INPUTS];
    double   parameters[IPU__MAX_ELEMENT_PARAMETERS];
    ipu_type to;   /* of cast */
    ipu_type type; /* of the result, by ipu__chain_types */
} ipu__chain_step;

typedef struct ipu__chain_code {
    int             n_steps, n_out;
    ipu__chain_step step[IPU__CHAIN_MAX_STEPS];
    int             out[IPU__CHAIN_MAX_OUT]; /* indices of instructions */
    bool            is_used[IPU__CHAIN_MAX_IN];
} ipu__chain_code;

/* Statuses: INVALID, naming the problem and its place in the text. */
ipu_status ipu__chain_parse(const char *text, int n_in, ipu__chain_code *out);
/* Fills in types of results; *shape receives their common shape. */
ipu_status ipu__chain_types(ipu__chain_code *code, const ipu__kernel_value *in, ipu_shape *shape);

static inline ipu_type ipu__chain_type(const ipu__chain_code *code, const ipu__kernel_value *in, int value)
{
    return value < IPU__CHAIN_MAX_IN ? in[value].type : code->step[value - IPU__CHAIN_MAX_IN].type;
}

#endif

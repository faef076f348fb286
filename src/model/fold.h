/* What folding's two halves share: fold.c computes constants, fold_rules.c knows algebra. */
#ifndef IPU_MODEL_FOLD_H
#define IPU_MODEL_FOLD_H

#include "model/evaluate.h"
#include "model/pass.h"

enum { IPU__FOLD_RULES = 32 };

typedef struct ipu__folding {
    ipu_model        *m;
    ipu__renames      renames;
    ipu__evaluation   evaluation;
    const ipu_op_def *rule[IPU__FOLD_RULES]; /* the op of each rule of the table; NULL: there is none */
    bool              changed;
} ipu__folding;

void ipu__fold_find_rules(ipu__folding *f);
/* *same receives a value that equals the op's first output, 0 if none is known. May also make the op a simpler
 * one in place, and then notes a change. */
ipu_status ipu__fold_simplify(ipu__folding *f, ipu__model_op *op, uint32_t *same);

#endif

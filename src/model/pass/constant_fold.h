/* Shared by the two halves of folding: constant_fold.c computes constants, simplify.c applies the algebra in
 * ops' records. */
#ifndef IPU_MODEL_PASS_CONSTANT_FOLD_H
#define IPU_MODEL_PASS_CONSTANT_FOLD_H

#include "model/evaluate.h"
#include "model/pass/pass.h"

typedef struct ipu__folding {
    ipu_model      *m;
    ipu__renames    renames;
    ipu__evaluation evaluation;
    bool            changed;
} ipu__folding;

/* Whether the attribute has its default value: ops that differ in nothing else are equal. */
bool ipu__fold_is_default(const ipu__op_def *def, const ipu_attribute *attribute);
/* *same receives a value that equals the op's first output, or 0 if none is known. May also simplify the op
 * in place, and then records a change. */
ipu_status ipu__fold_simplify(ipu__folding *f, ipu__model_op *op, uint32_t *same);

#endif

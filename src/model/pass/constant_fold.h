/* What folding's two halves share: fold.c computes constants, simplify.c asks records for algebra. */
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

/* Whether the attribute says what is so anyway: ops that differ in nothing else are the same. */
bool ipu__fold_is_default(const ipu_op_def *def, const ipu_attribute *attribute);
/* *same receives a value that equals the op's first output, 0 if none is known. May also make the op a simpler
 * one in place, and then notes a change. */
ipu_status ipu__fold_simplify(ipu__folding *f, ipu__model_op *op, uint32_t *same);

#endif

/* What layers share: parameters and states by the name of their layer. Public half: ipu/nn.h. */
#ifndef IPU_MODEL_NN_H
#define IPU_MODEL_NN_H

#include "ipu/nn.h"
#include "model/model.h"

/* False after an error, which may be that there is no name or that the rank is too small. */
bool ipu__nn_begin(ipu_model *m, const char *caller, ipu_value x, const char *name, int least_rank);

/* The parameter "LAYER.WHAT", of the type of `like`. */
ipu_value ipu__nn_parameter(ipu_model *m, const char *layer, const char *what, ipu_value like,
                            ipu_shape shape, ipu_initial initial);
/* The state "LAYER.WHAT". */
ipu_value ipu__nn_state(ipu_model *m, const char *layer, const char *what, ipu_type type, ipu_shape shape,
                        double initial);

ipu_initial ipu__nn_uniform(double bound); /* -bound to bound */

#endif

/* What a module holds: how its network is built, and the weights that its executors share. */
#ifndef IPU_TRAIN_MODULE_H
#define IPU_TRAIN_MODULE_H

#include "base/array.h"
#include "base/status.h"
#include "ipu/executor.h"
#include "ipu/module.h"
#include "ipu/onnx.h"
#include "session/streams.h"
#include "session/weights.h"

struct ipu_module {
    ipu_status (*build)(ipu_module *module, const ipu__port *in, size_t n, bool training, ipu_model **out);
    ipu_forward_fn forward;
    void          *user;
    ipu_onnx      *file;
    char          *loss;
    uint32_t       seed;
    IPU__ARRAY(char *) input_names;
    ipu__weights weights;
    bool         is_compiled;    /* by an executor */
    IPU__ARRAY(ipu__port) ports; /* of the one that compiled last */
};

/* The network for one batch, not yet trained. Inputs are those of the model, in order. Owned: ipu_model_destroy. */
ipu_status ipu__module_build(ipu_module *module, const ipu__port *in, size_t n, bool training,
                             ipu_model **out);

/* The parameters and states of `m`, a network just built, become weights of the module: `numbers` receives the number
 * of each. INVALID: they differ from those that are there in type or shape. */
ipu_status ipu__module_register(ipu_module *module, ipu_model *m, ipu__numbers *numbers);

/* Name of input `i`, in `buffer` if it has none of its own. */
const char *ipu__module_input_name(const ipu_module *module, size_t i, char buffer[32]);

ipu_status ipu__module_create(ipu_module **out); /* one that builds nothing yet */

#endif

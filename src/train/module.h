/* What a module holds: how its network is built, and the weights that its executors share.
 *
 * Weights have a version, which grows whenever someone changes them. The newest are on the host or, after a run that
 * changed some, with `holder`; the host's copy says by its own version whether it is up to date.
 */
#ifndef IPU_TRAIN_MODULE_H
#define IPU_TRAIN_MODULE_H

#include "base/array.h"
#include "base/status.h"
#include "ipu/executor.h"
#include "ipu/module.h"
#include "ipu/onnx.h"

typedef struct ipu__port {
    ipu_type  type;
    ipu_shape shape; /* of one batch */
} ipu__port;

typedef struct ipu__weight {
    char     *name;
    ipu_array array;
    bool      is_lent;   /* the array is in the caller's memory */
    bool      is_set;    /* the array has a value: it was given, or fetched */
    bool      is_in_use; /* an executor has compiled it; else it was loaded and waits for one */
} ipu__weight;

struct ipu_module {
    ipu_status (*build)(ipu_module *module, const ipu__port *in, size_t n, bool training, ipu_model **out);
    ipu_forward_fn forward;
    void          *user;
    ipu_onnx      *file;
    char          *loss;
    uint32_t       seed;
    IPU_ARRAY(char *) input_names;
    IPU_ARRAY(ipu__weight) weights;
    int64_t                       version, host_version;
    struct ipu__executor_program *holder;      /* NULL: the host has the newest */
    bool                          is_compiled; /* by an executor */
    IPU_ARRAY(ipu__port) ports;                /* of the one that compiled last */
};

/* The network for one batch, not yet trained. Inputs are those of the model, in order. Owned: ipu_model_destroy. */
ipu_status ipu__module_build(ipu_module *module, const ipu__port *in, size_t n, bool training,
                             ipu_model **out);

/* The parameters and states of `m`, a network just built, become weights of the module: `numbers` receives the number
 * of each. INVALID: they differ from those that are there in type or shape. */
typedef IPU_ARRAY(size_t) ipu__numbers;
ipu_status ipu__module_register(ipu_module *module, ipu_model *m, ipu__numbers *numbers);

/* The host has the newest from now on. */
void ipu__module_changed(ipu_module *module);

/* Bring the host's copy up to date. */
ipu_status ipu__module_fetch(ipu_module *module);

/* Number of the weight of that name; SIZE_MAX: there is none. */
size_t ipu__module_find(const ipu_module *module, const char *name);

/* Name of input `i`, in `buffer` if it has none of its own. */
const char *ipu__module_input_name(const ipu_module *module, size_t i, char buffer[32]);

ipu_status ipu__module_create(ipu_module **out); /* one that builds nothing yet */

/* ---- of the executor, for the module ---- */

ipu_status ipu__executor_fetch(struct ipu__executor_program *p);

#endif

/* Modules and ONNX: networks from files, trained on with a loss put behind them; networks written to files. */
#include <string.h>

#include "base/text.h"
#include "ipu/nn.h"
#include "ipu/onnx.h"
#include "model/model.h"
#include "train/module.h"

/* ---- losses by name ---- */

static ipu_value nll(ipu_builder *b, ipu_value x, ipu_value t) { return ipu_nll_loss(b, x, t); }
static ipu_value cross_entropy(ipu_builder *b, ipu_value x, ipu_value t)
{
    return ipu_cross_entropy(b, x, t);
}
static ipu_value mse(ipu_builder *b, ipu_value x, ipu_value t)
{
    return ipu_mse_loss(b, x, t, IPU_LOSS_MEAN);
}
static ipu_value l1(ipu_builder *b, ipu_value x, ipu_value t) { return ipu_l1_loss(b, x, t, IPU_LOSS_MEAN); }
static ipu_value smooth_l1(ipu_builder *b, ipu_value x, ipu_value t)
{
    return ipu_smooth_l1_loss(b, x, t, 1, IPU_LOSS_MEAN);
}
static ipu_value bce(ipu_builder *b, ipu_value x, ipu_value t)
{
    return ipu_bce_loss(b, x, t, IPU_LOSS_MEAN);
}
static ipu_value bce_logits(ipu_builder *b, ipu_value x, ipu_value t)
{
    return ipu_bce_with_logits_loss(b, x, t, IPU_NO_VALUE, IPU_LOSS_MEAN);
}
static ipu_value kl(ipu_builder *b, ipu_value x, ipu_value t)
{
    return ipu_kl_div_loss(b, x, t, false, IPU_LOSS_BATCH_MEAN);
}

typedef struct named_loss {
    const char *name;
    ipu_value (*emit)(ipu_builder *b, ipu_value x, ipu_value target);
} named_loss;

static const named_loss losses[] = {
    {"cross_entropy", cross_entropy},
    {"nll", nll},
    {"mse", mse},
    {"l1", l1},
    {"smooth_l1", smooth_l1},
    {"bce", bce},
    {"bce_logits", bce_logits},
    {"kl", kl},
};
enum { N_LOSSES = sizeof losses / sizeof *losses };

static const named_loss *find_loss(const char *name)
{
    for (size_t i = 0; i < N_LOSSES; i++)
        if (strcmp(losses[i].name, name) == 0) return &losses[i];
    return NULL;
}

static ipu_status fail_loss(const char *name)
{
    ipu__text t = {0};
    for (size_t i = 0; i < N_LOSSES; i++) ipu__text_add(&t, "%s%s", i ? ", " : "", losses[i].name);
    ipu_status status = t.failed
                          ? ipu__fail_memory()
                          : ipu__fail(IPU_NOT_FOUND, "there is no loss \"%s\"; there are: %s", name, t.at);
    ipu__text_fini(&t);
    return status;
}

/* ---- from a file ---- */

static ipu_status import(ipu_module *module, const ipu__port *in, size_t n, ipu_model **out)
{
    ipu_onnx_value *values = ipu__alloc_zeroed((n + 1) * sizeof *values);
    if (!values) return ipu__fail_memory();
    for (size_t i = 0; i < n; i++)
        values[i] = (ipu_onnx_value){.kind  = IPU_ONNX_ARRAY,
                                     .array = {.type = in[i].type, .shape = in[i].shape}};
    /* As parameters also for inference: weights change between runs. */
    ipu_onnx_options options = {.inputs = values, .n_inputs = n, .training = true};
    ipu_status       status  = ipu_onnx_import(module->file, &options, out);
    ipu__free(values);
    return status;
}

static void add_loss(ipu_module *module, ipu_model *m, const ipu__port *target)
{
    ipu_builder *b      = ipu_model_builder(m);
    ipu_value    first  = ipu_model_output_at(m, 0, NULL);
    ipu_value    labels = ipu_model_input(m, target->type, target->shape, "labels");
    ipu_nn_loss(m, find_loss(module->loss)->emit(b, first, labels), "loss");
}

/* The one output that is a scalar is the loss: it is there already. */
static ipu_status mark_loss(ipu_model *m)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < m->outputs.n; i++)
        if (ipu_value_n_elements(ipu__model_handle(m, m->outputs.at[i].value)) == 1) at = i, n++;
    if (n != 1)
        return ipu__fail(
            IPU_INVALID,
            "the file has %zu outputs of one element: name a loss to be put behind its first output", n);
    return ipu__push(&m->losses, m->outputs.at[at].value) ? IPU_OK : ipu__fail_memory();
}

static ipu_status build_file(ipu_module *module, const ipu__port *in, size_t n, bool training,
                             ipu_model **out)
{
    size_t n_file = ipu_onnx_n_inputs(module->file);
    bool   adds   = module->loss && (training || n == n_file + 1);
    if (n != n_file + adds)
        return ipu__fail(IPU_INVALID, "expected %zu arrays, the inputs of the file%s; found %zu",
                         n_file + adds, adds ? " and what the loss compares with" : "", n);
    IPU_TRY(import(module, in, n_file, out));
    ipu_nn_set_training(*out, training);
    if (adds) add_loss(module, *out, &in[n - 1]);
    return training && !adds ? mark_loss(*out) : IPU_OK;
}

static ipu_status take_names(ipu_module *module)
{
    size_t n = ipu_onnx_n_inputs(module->file);
    if (!ipu__reserve(&module->input_names, n + 1)) return ipu__fail_memory();
    for (size_t i = 0; i <= n; i++) {
        ipu_onnx_port port = {.name = "labels"};
        if (i < n) ipu_onnx_input_at(module->file, i, &port);
        char *name = ipu__strdup(port.name);
        if (!name) return ipu__fail_memory();
        module->input_names.at[module->input_names.n++] = name;
    }
    return IPU_OK;
}

ipu_status ipu_module_from_onnx(const char *path, const char *loss, ipu_module **out)
{
    *out = NULL;
    if (loss && !find_loss(loss)) return fail_loss(loss);
    ipu_module *module;
    IPU_TRY(ipu__module_create(&module));
    module->build     = build_file;
    ipu_status status = ipu_onnx_open(path, &module->file);
    if (status == IPU_OK) status = take_names(module);
    if (status == IPU_OK && loss) {
        module->loss = ipu__strdup(loss);
        if (!module->loss) status = ipu__fail_memory();
    }
    if (status != IPU_OK) {
        ipu_module_destroy(module);
        return status;
    }
    *out = module;
    return IPU_OK;
}

/* Whether a sample of that input has `n` elements, all of its dimensions being told. */
static bool has_elements(const ipu_onnx_port *port, int64_t n)
{
    for (int d = 1; d < port->rank; d++) {
        int64_t extent = port->shape.dim[d];
        if (extent <= 0 || n % extent != 0) return false;
        n /= extent;
    }
    return port->rank > 1 && n == 1;
}

void ipu_module_fit_sample(const ipu_module *module, size_t i, ipu_shape *sample)
{
    ipu_onnx_port port;
    int64_t       n = 1;
    if (!module->file || i >= ipu_onnx_n_inputs(module->file)) return;
    ipu_onnx_input_at(module->file, i, &port);
    for (int d = 0; d < sample->rank; d++) n *= sample->dim[d];
    if (!has_elements(&port, n)) return;
    sample->rank = port.rank - 1;
    memcpy(sample->dim, port.shape.dim + 1, (size_t)sample->rank * sizeof *sample->dim);
}

/* ---- to a file ---- */

static ipu_status save_file(ipu_module *module, const ipu_module_write_options *o, const char *path)
{
    for (size_t i = 0; i < o->n_metadata; i++)
        IPU_TRY(ipu_onnx_set_metadata(module->file, o->metadata[2 * i], o->metadata[2 * i + 1]));
    for (size_t i = 0; i < module->weights.list.n; i++) {
        const ipu__weight *w = &module->weights.list.at[i];
        if (w->is_set) IPU_TRY(ipu_onnx_set_initializer(module->file, w->name, &w->array));
    }
    return ipu_onnx_save(module->file, path);
}

static bool is_used(const ipu_model *m, uint32_t id)
{
    for (size_t i = 0; i < m->outputs.n; i++)
        if (m->outputs.at[i].value == id) return true;
    for (size_t i = 0; i < m->ops.n; i++)
        for (uint32_t k = 0; k < m->ops.at[i].n_in; k++)
            if (m->ops.at[i].in[k] == id) return true;
    return false;
}

/* The network for inference; inputs at the end that it does not use are left out. */
static ipu_status build_inference(ipu_module *module, const ipu_module_write_options *o, ipu_model **out)
{
    int64_t    batch = o->batch ? o->batch : 1;
    size_t     n     = o->n_inputs ? o->n_inputs : module->ports.n;
    ipu__port *ports = ipu__alloc((n + 1) * sizeof *ports);
    if (!ports) return ipu__fail_memory();
    for (size_t i = 0; i < n; i++) {
        ports[i] = module->ports.at[i];
        if (ports[i].shape.rank > 0) ports[i].shape.dim[0] = batch;
    }
    ipu_status status = ipu__module_build(module, ports, n, false, out);
    size_t     used   = n;
    while (status == IPU_OK && used > 0 && !is_used(*out, (*out)->inputs.at[used - 1])) used--;
    if (status == IPU_OK && used < n) {
        ipu_model_destroy(*out);
        status = ipu__module_build(module, ports, used, false, out);
    }
    ipu__free(ports);
    return status;
}

/* The weights become what the model's begin with; borrowed from the module. */
static void set_initial(const ipu_module *module, ipu_model *m)
{
    for (int kind = 0; kind < 2; kind++) {
        size_t          n   = kind ? m->states.n : m->parameters.n;
        const uint32_t *ids = kind ? m->states.at : m->parameters.at;
        for (size_t i = 0; i < n; i++) {
            size_t k = ipu__weights_find(&module->weights, m->base.values.at[ids[i]].name);
            if (k != SIZE_MAX) m->values.at[ids[i]].data = module->weights.list.at[k].array.data;
        }
    }
}

ipu_status ipu_module_write_onnx(ipu_module *module, const ipu_module_write_options *options,
                                 const char *path)
{
    const ipu_module_write_options o = options ? *options : (ipu_module_write_options){0};
    if (!module->is_compiled)
        return ipu__fail(IPU_INVALID, "the module has not been compiled: an executor must run it first");
    if (o.batch < 0)
        return ipu__fail(IPU_INVALID, "expected a batch of 1 or more, found %lld", (long long)o.batch);
    if (o.n_inputs > module->ports.n)
        return ipu__fail(IPU_INVALID,
                         "expected at most the %zu inputs that the module was compiled with last, found %zu",
                         module->ports.n, o.n_inputs);
    IPU_TRY(ipu__weights_fetch(&module->weights));
    if (module->file) return save_file(module, &o, path);
    ipu_model *m      = NULL;
    ipu_status status = build_inference(module, &o, &m);
    if (status == IPU_OK) {
        set_initial(module, m);
        ipu_onnx_write_options how = {
            .graph_name = o.graph_name, .metadata = o.metadata, .n_metadata = o.n_metadata};
        status = ipu_onnx_write(m, &how, path);
    }
    ipu_model_destroy(m);
    return status;
}

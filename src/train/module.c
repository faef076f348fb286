/* Modules: networks built on demand, and their weights on the host. */
#include "train/module.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text.h"
#include "data/array.h"
#include "model/model.h"

/* ---- life ---- */

ipu_status ipu__module_create(ipu_module **out)
{
    *out = ipu__alloc_zeroed(sizeof **out);
    if (!*out) return ipu__fail_memory();
    (*out)->seed = 42;
    return IPU_OK;
}

/* As a builder's: errors of the network are kept in the model. */
static ipu_status build_forward(ipu_module *module, const ipu__port *in, size_t n, bool training,
                                ipu_model **out)
{
    ipu_value *values = ipu__alloc((n + 1) * sizeof *values);
    if (!values) return ipu__fail_memory();
    ipu_status status = ipu_model_create(out);
    if (status == IPU_OK) {
        ipu_nn_set_training(*out, training);
        for (size_t i = 0; i < n; i++) {
            char buffer[32];
            values[i] = ipu_model_input(*out, in[i].type, in[i].shape,
                                        ipu__module_input_name(module, i, buffer));
        }
        module->forward(*out, values, n, module->user);
    }
    ipu__free(values);
    return status;
}

ipu_status ipu_module_create(ipu_forward_fn forward, void *user, ipu_module **out)
{
    *out = NULL;
    if (!forward)
        return ipu__fail(IPU_INVALID, "ipu_module_create: expected a function that builds the network");
    IPU_TRY(ipu__module_create(out));
    (*out)->build   = build_forward;
    (*out)->forward = forward;
    (*out)->user    = user;
    return IPU_OK;
}

void ipu_module_destroy(ipu_module *module)
{
    if (!module) return;
    for (size_t i = 0; i < module->input_names.n; i++) ipu__free(module->input_names.at[i]);
    ipu__weights_fini(&module->weights);
    ipu__array_fini(&module->input_names);
    ipu__array_fini(&module->ports);
    ipu_onnx_close(module->file);
    ipu__free(module->loss);
    ipu__free(module);
}

void ipu_module_set_seed(ipu_module *module, uint32_t seed) { module->seed = seed; }

ipu_status ipu_module_name_inputs(ipu_module *module, const char *const *names, size_t n)
{
    if (module->file)
        return ipu__fail(IPU_INVALID, "inputs of a module from an ONNX file have the file's names");
    if (!ipu__reserve(&module->input_names, n)) return ipu__fail_memory();
    for (size_t i = 0; i < module->input_names.n; i++) ipu__free(module->input_names.at[i]);
    module->input_names.n = 0;
    for (size_t i = 0; i < n; i++) {
        char *copy = ipu__strdup(names[i]);
        if (!copy) return ipu__fail_memory();
        module->input_names.at[module->input_names.n++] = copy;
    }
    return IPU_OK;
}

const char *ipu__module_input_name(const ipu_module *module, size_t i, char buffer[32])
{
    if (i < module->input_names.n) return module->input_names.at[i];
    snprintf(buffer, 32, "input%zu", i);
    return buffer;
}

ipu_status ipu__module_build(ipu_module *module, const ipu__port *in, size_t n, bool training,
                             ipu_model **out)
{
    *out              = NULL;
    ipu_status status = module->build(module, in, n, training, out);
    if (status == IPU_OK) {
        ipu_model_set_seed(*out, module->seed);
        ipu_builder *b = ipu_model_builder(*out);
        if (ipu_builder_status(b) != IPU_OK)
            status = ipu__fail(ipu_builder_status(b), "%s", ipu_builder_message(b));
    }
    if (status != IPU_OK) {
        ipu_model_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* ---- weights ---- */

/* Whether an executor has compiled: else weights are what was loaded, if anything. */
static bool has_network(const ipu_module *module)
{
    for (size_t i = 0; i < module->weights.list.n; i++)
        if (module->weights.list.at[i].is_in_use) return true;
    return false;
}

static bool is_alike(const ipu_array *a, ipu_type type, const ipu_shape *shape)
{
    if (a->type != type || a->shape.rank != shape->rank) return false;
    return memcmp(a->shape.dim, shape->dim, (size_t)shape->rank * sizeof *shape->dim) == 0;
}

static void add_type(ipu__text *t, ipu_type type, const ipu_shape *shape)
{
    ipu__text_add(t, "%s[", ipu_type_name(type));
    for (int i = 0; i < shape->rank; i++) ipu__text_add(t, "%s%" PRId64, i ? "," : "", shape->dim[i]);
    ipu__text_add(t, "]");
}

/* "expected \"NAME\" as float[3], found float[4]" as this thread's message. */
static ipu_status fail_alike(const char *name, const ipu_array *expected, ipu_type type,
                             const ipu_shape *shape)
{
    ipu__text t = {0};
    ipu__text_add(&t, "weight \"%s\": expected ", name);
    add_type(&t, expected->type, &expected->shape);
    ipu__text_add(&t, ", found ");
    add_type(&t, type, shape);
    ipu_status status = t.failed ? ipu__fail_memory() : ipu__fail(IPU_INVALID, "%s", t.at);
    ipu__text_fini(&t);
    return status;
}

static ipu_status register_one(ipu_module *module, ipu_value v, ipu__numbers *numbers)
{
    const char *name  = ipu_value_name(v);
    ipu_shape   shape = ipu_value_shape(v);
    size_t      i     = ipu__weights_find(&module->weights, name);
    if (i == SIZE_MAX) {
        i = module->weights.list.n;
        IPU_TRY(ipu__weights_add(&module->weights, name, ipu_value_type(v), &shape));
    } else if (!is_alike(&module->weights.list.at[i].array, ipu_value_type(v), &shape)) {
        return fail_alike(name, &module->weights.list.at[i].array, ipu_value_type(v), &shape);
    }
    return ipu__push(numbers, i) ? IPU_OK : ipu__fail_memory();
}

/* What was loaded before the network was known, the first `n_loaded`, must be all of it and no more. */
static ipu_status check_loaded(const ipu_module *module, size_t n_loaded)
{
    ipu__text t = {0};
    size_t    n = 0;
    for (size_t i = 0; i < module->weights.list.n; i++) {
        const ipu__weight *w = &module->weights.list.at[i];
        if ((i >= n_loaded || !w->is_in_use) && n++ < 10)
            ipu__text_add(&t, "\n  \"%s\" %s", w->name,
                          i < n_loaded ? "is not of the network" : "is missing");
    }
    ipu_status status = IPU_OK;
    if (t.failed)
        status = ipu__fail_memory();
    else if (n > 0)
        status = ipu__fail(IPU_INVALID, "what was loaded are not the weights of the network:%s%s", t.at,
                           n > 10 ? "\n  ..." : "");
    ipu__text_fini(&t);
    return status;
}

/* The module as it was when it had `n` weights, none of which were in use if `was_new`. */
static void undo_register(ipu_module *module, size_t n, bool was_new)
{
    ipu__weights_cut(&module->weights, n);
    for (size_t i = 0; i < n && was_new; i++) module->weights.list.at[i].is_in_use = false;
}

static ipu_status register_all(ipu_module *module, ipu_model *m, ipu__numbers *numbers)
{
    for (size_t i = 0; i < m->parameters.n; i++)
        IPU_TRY(register_one(module, ipu__model_handle(m, m->parameters.at[i]), numbers));
    for (size_t i = 0; i < m->states.n; i++)
        if (m->states.at[i] != m->seed)
            IPU_TRY(register_one(module, ipu__model_handle(m, m->states.at[i]), numbers));
    for (size_t i = 0; i < numbers->n; i++) module->weights.list.at[numbers->at[i]].is_in_use = true;
    return IPU_OK;
}

ipu_status ipu__module_register(ipu_module *module, ipu_model *m, ipu__numbers *numbers)
{
    size_t     before = module->weights.list.n;
    bool       is_new = !has_network(module);
    ipu_status status = register_all(module, m, numbers);
    if (status == IPU_OK && is_new && before > 0) status = check_loaded(module, before);
    if (status == IPU_OK) return IPU_OK;
    undo_register(module, before, is_new);
    numbers->n = 0;
    return status;
}

size_t ipu_module_n_weights(const ipu_module *module) { return module->weights.list.n; }

ipu_status ipu_module_weight_at(ipu_module *module, size_t i, const char **name, const ipu_array **out)
{
    *out = NULL;
    if (i >= module->weights.list.n)
        return ipu__fail(IPU_INVALID, "there is no weight %zu: the module has %zu", i,
                         module->weights.list.n);
    IPU_TRY(ipu__weights_fetch(&module->weights));
    if (name) *name = module->weights.list.at[i].name;
    *out = &module->weights.list.at[i].array;
    return IPU_OK;
}

static ipu_status fail_name(const ipu_module *module, const char *name)
{
    ipu__nearest nearest = ipu__nearest_to(name);
    for (size_t i = 0; i < module->weights.list.n; i++)
        ipu__nearest_try(&nearest, module->weights.list.at[i].name);
    return ipu__fail(IPU_NOT_FOUND, "the module has no weight \"%s\"%s", name, ipu__nearest_hint(&nearest));
}

ipu_status ipu_module_weight(ipu_module *module, const char *name, const ipu_array **out)
{
    *out     = NULL;
    size_t i = ipu__weights_find(&module->weights, name);
    if (i == SIZE_MAX) return fail_name(module, name);
    return ipu_module_weight_at(module, i, NULL, out);
}

ipu_status ipu_module_set_weight(ipu_module *module, const char *name, const ipu_array *a)
{
    size_t i = ipu__weights_find(&module->weights, name);
    if (i == SIZE_MAX) return fail_name(module, name);
    if (!is_alike(&module->weights.list.at[i].array, a->type, &a->shape))
        return fail_alike(name, &module->weights.list.at[i].array, a->type, &a->shape);
    IPU_TRY(ipu__weights_fetch(&module->weights));
    ipu__weights_set(&module->weights, i, a);
    ipu__weights_changed(&module->weights);
    return IPU_OK;
}

ipu_status ipu_module_lend_weight(ipu_module *module, const char *name, const ipu_array *a)
{
    size_t i = ipu__weights_find(&module->weights, name);
    if (i == SIZE_MAX) return fail_name(module, name);
    ipu__weight *w = &module->weights.list.at[i];
    if (a && !is_alike(&w->array, a->type, &a->shape)) return fail_alike(name, &w->array, a->type, &a->shape);
    if (a && !a->data && ipu_array_n_elements(&w->array) > 0)
        return ipu__fail(IPU_INVALID, "weight \"%s\": expected memory to lend, found none", name);
    return ipu__weights_lend(&module->weights, i, a);
}

bool ipu_module_is_behind(const ipu_module *module) { return ipu__weights_is_behind(&module->weights); }

int64_t ipu_module_version(const ipu_module *module) { return module->weights.host_version; }

/* ---- files ---- */

ipu_status ipu_module_save(ipu_module *module, const char *path)
{
    if (module->weights.list.n == 0)
        return ipu__fail(IPU_INVALID, "the module has no weights yet: an executor must compile it first");
    IPU_TRY(ipu__weights_fetch(&module->weights));
    ipu_named_array *list = ipu__alloc(module->weights.list.n * sizeof *list);
    if (!list) return ipu__fail_memory();
    for (size_t i = 0; i < module->weights.list.n; i++)
        list[i] = (ipu_named_array){module->weights.list.at[i].name, module->weights.list.at[i].array};
    ipu_status status = ipu_npz_write(path, list, module->weights.list.n, false);
    ipu__free(list);
    return status;
}

/* Everything that is wrong with a file's arrays, at most so many of each kind. */
static ipu_status compare(const ipu_module *module, const char *path, const ipu_npz *z)
{
    ipu__text t = {0};
    size_t    n = 0;
    for (size_t i = 0; i < z->n; i++) {
        const ipu_array *a = &z->arrays[i].array;
        size_t           k = ipu__weights_find(&module->weights, z->arrays[i].name);
        if (k == SIZE_MAX && n++ < 10)
            ipu__text_add(&t, "\n  \"%s\" is not of the network", z->arrays[i].name);
        if (k == SIZE_MAX || is_alike(&module->weights.list.at[k].array, a->type, &a->shape) || n++ >= 10)
            continue;
        ipu__text_add(&t, "\n  \"%s\": expected ", z->arrays[i].name);
        add_type(&t, module->weights.list.at[k].array.type, &module->weights.list.at[k].array.shape);
        ipu__text_add(&t, ", found ");
        add_type(&t, a->type, &a->shape);
    }
    for (size_t k = 0; k < module->weights.list.n; k++) {
        bool is_there = false;
        for (size_t i = 0; i < z->n && !is_there; i++)
            is_there = strcmp(z->arrays[i].name, module->weights.list.at[k].name) == 0;
        if (!is_there && n++ < 10)
            ipu__text_add(&t, "\n  \"%s\" is missing", module->weights.list.at[k].name);
    }
    ipu_status status = IPU_OK;
    if (t.failed)
        status = ipu__fail_memory();
    else if (n > 0)
        status = ipu__fail(IPU_INVALID, "%s: these are not the weights of the network:%s%s", path, t.at,
                           n > 10 ? "\n  ..." : "");
    ipu__text_fini(&t);
    return status;
}

ipu_status ipu_module_load(ipu_module *module, const char *path)
{
    ipu_npz z;
    IPU_TRY(ipu_npz_read(path, &z));
    bool       is_known = has_network(module);
    ipu_status status   = is_known ? compare(module, path, &z) : IPU_OK;
    if (!is_known) { /* what was loaded before and never used */
        ipu__weights_cut(&module->weights, 0);
        for (size_t i = 0; status == IPU_OK && i < z.n; i++)
            status = ipu__weights_add(&module->weights, z.arrays[i].name, z.arrays[i].array.type,
                                      &z.arrays[i].array.shape);
    }
    for (size_t i = 0; status == IPU_OK && i < z.n; i++)
        ipu__weights_set(&module->weights, ipu__weights_find(&module->weights, z.arrays[i].name),
                         &z.arrays[i].array);
    if (status == IPU_OK) ipu__weights_changed(&module->weights);
    ipu_npz_free(&z);
    return status;
}

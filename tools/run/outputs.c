/* Outputs of `ipu run`: NAME=FILE.npy saves one array, FILE.npz all of them by name. */
#include "run/outputs.h"

#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "run/inputs.h"

static bool is_npz(const char *file)
{
    size_t n = strlen(file);
    return n >= 4 && !strcmp(file + n - 4, ".npz");
}

/* The index of the output meant; -1 for all, -2 after reporting that there is none. */
static int find_output(const onnx_file *f, const char *text, const char **file)
{
    *file = text;
    if (is_npz(text) && !strchr(text, '=')) return -1;
    int i = run_find_port(f->outputs, f->n_outputs, "output", text, file);
    return i < 0 ? -2 : i;
}

static bool is_output(const onnx_file *f, const char *name)
{
    for (size_t i = 0; i < f->n_outputs; i++)
        if (strcmp(f->outputs[i].name, name) == 0) return true;
    return false;
}

tool_exit run_outputs_add_anchors(onnx_file *f, const tool_arguments *args)
{
    const char    *name;
    size_t         most    = f->n_outputs + (size_t)args->n_given + 1;
    ipu_onnx_port *outputs = realloc(f->outputs, most * sizeof *outputs);
    if (outputs) f->outputs = outputs;
    f->anchors = calloc((size_t)args->n_given + 1, sizeof *f->anchors);
    if (!outputs || !f->anchors) return tool_fail("out of memory");
    for (int at = 0; (name = tool_next(args, RUN_ANCHOR, &at));) {
        if (is_output(f, name)) continue;
        f->anchors[f->n_anchors++] = name;
        f->outputs[f->n_outputs++] = (ipu_onnx_port){.name = name, .kind = IPU_ONNX_ARRAY, .rank = -1};
    }
    return TOOL_OK;
}

tool_exit run_outputs_check(const onnx_file *f, const tool_arguments *args)
{
    const char *text, *file;
    for (int at = 0; (text = tool_next(args, RUN_OUTPUT, &at));)
        if (find_output(f, text, &file) == -2) return TOOL_FAILED;
    return TOOL_OK;
}

/* ---- archives ---- */

typedef struct named_list {
    ipu_named_array *at; /* names are owned, arrays borrowed */
    size_t           n;
} named_list;

static size_t count_arrays(const ipu_onnx_value *v)
{
    size_t n = v->kind == IPU_ONNX_ARRAY;
    for (size_t i = 0; i < v->n_items; i++) n += count_arrays(&v->items[i]);
    return n;
}

/* Items of a sequence are named NAME.0, NAME.1 and so on. Returns false if out of memory. */
static bool add_arrays(const char *name, const ipu_onnx_value *v, named_list *to)
{
    if (v->kind == IPU_ONNX_ARRAY) {
        to->at[to->n] = (ipu_named_array){strdup(name), v->array};
        return to->at[to->n++].name != NULL;
    }
    for (size_t i = 0; i < v->n_items; i++) {
        char *item;
        if (asprintf(&item, "%s.%zu", name, i) < 0) return false;
        bool added = add_arrays(item, &v->items[i], to);
        free(item);
        if (!added) return false;
    }
    return true;
}

static tool_exit write_npz(const char *file, const onnx_file *f, size_t first, size_t n,
                           const ipu_onnx_value *out)
{
    size_t n_arrays = 0;
    for (size_t i = first; i < first + n; i++) n_arrays += count_arrays(&out[i]);
    named_list list = {calloc(n_arrays + 1, sizeof *list.at), 0};
    bool       ok   = list.at != NULL;
    for (size_t i = first; i < first + n && ok; i++) ok = add_arrays(f->outputs[i].name, &out[i], &list);
    tool_exit code = TOOL_OK;
    if (!ok)
        code = tool_fail("out of memory");
    else if (ipu_npz_write(file, list.at, list.n, false) != IPU_OK)
        code = tool_fail("%s", ipu_message());
    for (size_t i = 0; i < list.n; i++) free(list.at[i].name);
    free(list.at);
    return code;
}

static tool_exit write_one(const char *file, const onnx_file *f, size_t i, const ipu_onnx_value *out)
{
    if (is_npz(file)) return write_npz(file, f, i, 1, out);
    if (out[i].kind != IPU_ONNX_ARRAY)
        return tool_fail("output \"%s\" is %s, which %s cannot hold; an .npz can", f->outputs[i].name,
                         out[i].kind == IPU_ONNX_NONE ? "empty" : "a sequence", file);
    if (ipu_array_write_npy(file, &out[i].array) != IPU_OK) return tool_fail("%s", ipu_message());
    return TOOL_OK;
}

tool_exit run_outputs_write(const onnx_file *f, const tool_arguments *args, const ipu_onnx_value *out)
{
    const char *text, *file;
    for (int at = 0; (text = tool_next(args, RUN_OUTPUT, &at));) {
        int       i    = find_output(f, text, &file);
        tool_exit code = i < 0 ? write_npz(file, f, 0, f->n_outputs, out)
                               : write_one(file, f, (size_t)i, out);
        if (code != TOOL_OK) return code;
    }
    return TOOL_OK;
}

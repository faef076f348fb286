/* Inputs of `ipu run`: .npy, .npz and .pb files, or random numbers of a seed. */
#include "run/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "output.h"

/* ---- from files ---- */

int run_find_port(const ipu_onnx_port *ports, size_t n, const char *what, const char *text, const char **file)
{
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(ports[i].name);
        if (strncmp(text, ports[i].name, length) != 0 || text[length] != '=') continue;
        *file = text + length + 1;
        return (int)i;
    }
    if (n == 1 && !strchr(text, '=')) {
        *file = text;
        return 0;
    }
    char names[512] = "";
    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i ? ", " : "; there are: ", ports[i].name);
    }
    if (!strchr(text, '='))
        tool_fail("--%s %s: expected NAME=FILE%s", what, text, names);
    else
        tool_fail("--%s %s: no %s is called \"%.*s\"%s", what, text, what, (int)strcspn(text, "="), text,
                  n ? names : "; the model has none");
    return -1;
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* "x.npz:key", or "x.npz" whose key is the input's name. */
static ipu_status read_npz(const char *file, const char *name, ipu_array *out)
{
    const char *colon = strstr(file, ".npz:");
    if (!colon) return ipu_array_read_npz(file, name, out);
    char *path = strndup(file, (size_t)(colon - file) + 4);
    if (!path) return IPU_OUT_OF_MEMORY;
    ipu_status status = ipu_array_read_npz(path, colon + 5, out);
    free(path);
    return status;
}

static tool_exit read_value(const char *file, const ipu_onnx_port *port, ipu_onnx_value *out)
{
    ipu_status status;
    ipu_onnx_value_free(out);
    if (ends_in(file, ".pb")) {
        status = ipu_onnx_value_open(file, port, out);
    } else {
        bool is_npz = ends_in(file, ".npz") || strstr(file, ".npz:");
        status = is_npz ? read_npz(file, port->name, &out->array) : ipu_array_read_npy(file, &out->array);
        if (status == IPU_OK) out->kind = IPU_ONNX_ARRAY;
    }
    return status == IPU_OK ? TOOL_OK : tool_fail("%s", ipu_message());
}

static tool_exit read_files(run_inputs *in, const onnx_file *f, const tool_arguments *args)
{
    const char *text, *file;
    for (int at = 0; (text = tool_next(args, RUN_INPUT, &at));) {
        int i = run_find_port(f->inputs, f->n_inputs, "input", text, &file);
        if (i < 0) return TOOL_FAILED;
        tool_exit code = read_value(file, &f->inputs[i], &in->values[i]);
        if (code != TOOL_OK) return code;
        in->files[i] = file;
    }
    return TOOL_OK;
}

/* ---- random ---- */

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z          = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z          = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Floats from 0 to 1, integers from 0 to 9. */
static void fill_random(ipu_array *a, uint64_t *state)
{
    int64_t n = ipu_array_n_elements(a);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = next_random(state);
        double   unit = (double)(bits >> 11) / 9007199254740992.0;
        int      ten  = (int)(unit * 10);
        switch (a->type) {
        case IPU_BOOL: ((bool *)a->data)[i] = bits >> 63; break;
        case IPU_INT8: ((int8_t *)a->data)[i] = (int8_t)ten; break;
        case IPU_UINT8: ((uint8_t *)a->data)[i] = (uint8_t)ten; break;
        case IPU_INT16: ((int16_t *)a->data)[i] = (int16_t)ten; break;
        case IPU_UINT16: ((uint16_t *)a->data)[i] = (uint16_t)ten; break;
        case IPU_INT32: ((int32_t *)a->data)[i] = ten; break;
        case IPU_UINT32: ((uint32_t *)a->data)[i] = (uint32_t)ten; break;
        case IPU_INT64: ((int64_t *)a->data)[i] = ten; break;
        case IPU_UINT64: ((uint64_t *)a->data)[i] = (uint64_t)ten; break;
        case IPU_HALF: ((ipu_half *)a->data)[i] = ipu_half_from_float((float)unit); break;
        case IPU_BFLOAT16: ((ipu_bfloat16 *)a->data)[i] = ipu_bfloat16_from_float((float)unit); break;
        case IPU_FLOAT: ((float *)a->data)[i] = (float)unit; break;
        case IPU_DOUBLE: ((double *)a->data)[i] = unit; break;
        case IPU_N_TYPES: break;
        }
    }
}

/* The size of this symbol in an input read from a file; -1 if none has it. */
static int64_t dim_of_others(const run_inputs *in, const onnx_file *f, const char *symbol)
{
    for (size_t i = 0; symbol && *symbol && i < in->n; i++)
        for (int d = 0; in->files[i] && d < f->inputs[i].rank && d < in->values[i].array.shape.rank; d++)
            if (f->inputs[i].symbol[d] && !strcmp(f->inputs[i].symbol[d], symbol))
                return in->values[i].array.shape.dim[d];
    return -1;
}

/* From --shape, else from other inputs, else 1. The first dimension is for one batch and multiplied, unless
 * it came from another input, which has all batches. */
static ipu_shape choose_shape(const run_inputs *in, const onnx_file *f, const ipu_onnx_port *port,
                              int64_t batches)
{
    ipu_shape shape = port->shape;
    shape.rank      = port->rank;
    for (int d = 0; d < shape.rank; d++) {
        if (shape.dim[d] < 0) shape.dim[d] = onnx_file_dim(f, port, d);
        int64_t other = shape.dim[d] < 0 ? dim_of_others(in, f, port->symbol[d]) : -1;
        if (shape.dim[d] < 0) shape.dim[d] = other < 0 ? 1 : other;
        if (d == 0 && other < 0) shape.dim[d] *= batches;
    }
    return shape;
}

static tool_exit make_random(run_inputs *in, const onnx_file *f, size_t i, int64_t batches, uint64_t *state)
{
    const ipu_onnx_port *port = &f->inputs[i];
    ipu_onnx_value      *v    = &in->values[i];
    if (port->is_optional) return TOOL_OK; /* omitted */
    if (port->kind != IPU_ONNX_ARRAY || !port->has_type || port->rank < 0) {
        char text[512];
        onnx_port_text(port, text, sizeof text);
        return tool_fail(
            "input \"%s\" is %s, for which there are no random numbers: give it with --input %s=FILE",
            port->name, text, port->name);
    }
    if (ipu_array_create(port->type, choose_shape(in, f, port, batches), &v->array) != IPU_OK)
        return tool_fail("input \"%s\": %s", port->name, ipu_message());
    v->kind = IPU_ONNX_ARRAY;
    fill_random(&v->array, state);
    return TOOL_OK;
}

tool_exit run_inputs_make(run_inputs *in, const onnx_file *f, const tool_arguments *args, int64_t batches)
{
    int64_t seed = 0;
    *in          = (run_inputs){calloc(f->n_inputs + 1, sizeof *in->values),
                                calloc(f->n_inputs + 1, sizeof *in->files), f->n_inputs};
    if (!in->values || !in->files) return tool_fail("out of memory");
    if (args->values[RUN_SEED] && !tool_integer("seed", args->values[RUN_SEED], 0, INT64_MAX, &seed))
        return TOOL_USAGE;
    uint64_t  state = (uint64_t)seed;
    tool_exit code  = read_files(in, f, args);
    for (size_t i = 0; i < in->n && code == TOOL_OK; i++)
        if (!in->files[i]) code = make_random(in, f, i, batches, &state);
    return code;
}

void run_inputs_free(run_inputs *in)
{
    for (size_t i = 0; in->values && i < in->n; i++) ipu_onnx_value_free(&in->values[i]);
    free(in->values);
    free(in->files);
}

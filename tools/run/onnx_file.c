/* Opens ONNX files, with the dimensions given by --shape. */
#include "run/onnx_file.h"

#include <stdlib.h>
#include <string.h>

#include "output.h"

/* Whether `name` means dimension `d` of the port: its symbol, or "port.d". */
static bool names_dim(const char *name, size_t length, const ipu_onnx_port *port, int d)
{
    char place[512];
    snprintf(place, sizeof place, "%s.%d", port->name, d);
    return (port->symbol[d] && strlen(port->symbol[d]) == length && !strncmp(port->symbol[d], name, length))
        || (strlen(place) == length && !strncmp(place, name, length));
}

static bool names_some_dim(const onnx_file *f, const char *name, size_t length)
{
    for (size_t i = 0; i < f->n_inputs; i++)
        for (int d = 0; d < f->inputs[i].rank; d++)
            if (names_dim(name, length, &f->inputs[i], d)) return true;
    return false;
}

/* The number after the '=' of NAME=NUMBER, or -1. */
static int64_t number_of(const char *text)
{
    const char *sign = strrchr(text, '=');
    char       *end;
    if (!sign || sign == text || sign[1] < '0' || sign[1] > '9') return -1;
    long long value = strtoll(sign + 1, &end, 10);
    return *end || value == LLONG_MAX ? -1 : value;
}

int64_t onnx_file_dim(const onnx_file *f, const ipu_onnx_port *port, int d)
{
    for (size_t i = f->n_dims; i-- > 0;) /* the last one wins */
        if (names_dim(f->dims[i], (size_t)(strrchr(f->dims[i], '=') - f->dims[i]), port, d))
            return number_of(f->dims[i]);
    return -1;
}

static tool_exit refuse_dim(const onnx_file *f, const char *text)
{
    char names[512] = "";
    for (size_t i = 0; i < f->n_inputs; i++)
        for (int d = 0; d < f->inputs[i].rank; d++) {
            const char *symbol = f->inputs[i].symbol[d];
            size_t      n      = strlen(names);
            if (!symbol || !*symbol || strstr(names, symbol)) continue;
            snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "; there are: ", symbol);
        }
    return tool_fail("--shape %s: no input of %s has a dimension of that name%s", text, f->path, names);
}

static tool_exit read_dims(onnx_file *f, const char *command, const tool_arguments *args, int option)
{
    const char *text;
    for (int at = 0; (text = tool_next(args, option, &at));) {
        if (number_of(text) < 0)
            return tool_usage(command, "--shape: expected NAME=NUMBER, found \"%s\"", text);
        if (!names_some_dim(f, text, (size_t)(strrchr(text, '=') - text))) return refuse_dim(f, text);
        f->dims[f->n_dims++] = text;
    }
    return TOOL_OK;
}

tool_exit onnx_file_open(onnx_file *f, const char *command, const tool_arguments *args, int shape_option)
{
    *f = (onnx_file){.path = args->operands[0]};
    if (ipu_onnx_open(f->path, &f->onnx) != IPU_OK) return tool_fail("%s", ipu_message());
    f->n_inputs  = ipu_onnx_n_inputs(f->onnx);
    f->n_outputs = ipu_onnx_n_outputs(f->onnx);
    f->inputs    = calloc(f->n_inputs + 1, sizeof *f->inputs);
    f->outputs   = calloc(f->n_outputs + 1, sizeof *f->outputs);
    f->dims      = calloc((size_t)args->n_given + 1, sizeof *f->dims);
    if (!f->inputs || !f->outputs || !f->dims) return tool_fail("out of memory");
    for (size_t i = 0; i < f->n_inputs; i++) ipu_onnx_input_at(f->onnx, i, &f->inputs[i]);
    for (size_t i = 0; i < f->n_outputs; i++) ipu_onnx_output_at(f->onnx, i, &f->outputs[i]);
    return read_dims(f, command, args, shape_option);
}

void onnx_file_free(onnx_file *f)
{
    ipu_onnx_close(f->onnx);
    free(f->inputs);
    free(f->outputs);
    free(f->anchors);
    free(f->dims);
}

void onnx_port_text(const ipu_onnx_port *port, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s%s%s", port->is_optional ? "optional " : "",
                                port->kind == IPU_ONNX_SEQUENCE ? "sequence of " : "",
                                port->has_type ? ipu_type_name(port->type) : "unknown type");
    if (port->kind == IPU_ONNX_SEQUENCE || n >= size) return;
    if (port->rank < 0) {
        snprintf(out + n, size - n, " of any shape");
        return;
    }
    for (int d = 0; d < port->rank && n < size; d++) {
        const char *symbol = port->symbol[d] && *port->symbol[d] ? port->symbol[d] : "?";
        char        number[32];
        snprintf(number, sizeof number, "%lld", (long long)port->shape.dim[d]);
        n += (size_t)snprintf(out + n, size - n, "%s%s", d ? "," : "[",
                              port->shape.dim[d] < 0 ? symbol : number);
    }
    if (port->rank > 0 && n < size) snprintf(out + n, size - n, "]");
}

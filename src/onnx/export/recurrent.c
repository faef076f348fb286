/* Recurrent layers in ONNX: gates in its order, one direction, biases in one.
 *
 * ours            ONNX
 * LSTM i f g o    i o f c (our g)
 * GRU  r z n      z r h (our n), with the reset after the product: linear_before_reset
 */
#include <string.h>

#include "ipu/op.h"
#include "onnx/export/export.h"

typedef struct layer {
    ipu__wop   *o;
    ipu_type    type;
    int64_t     hidden;
    int         n_gates;
    const int  *order;
    const char *axis0; /* [0] */
} layer;

static const char *unsqueeze(layer *l, const char *name)
{
    return ipu__put(l->o->w, "Unsqueeze", IPU__NAMES(name, l->axis0), NULL)->output[0];
}

/* Rows of gates in ONNX's order. */
static const char *in_order(layer *l, const char *name)
{
    ipu__writer *w = l->o->w;
    const char  *parts[4];
    int64_t      sizes[4];
    if (l->n_gates == 1) return name;
    for (int i = 0; i < l->n_gates; i++) sizes[i] = l->hidden;
    Ipu__NodeProto *split = ipu__put(w, "Split",
                                     IPU__NAMES(name, ipu__put_list(w, sizes, (size_t)l->n_gates)), NULL);
    for (int i = 1; i < l->n_gates; i++) ipu__put_output(w, split, ipu__fresh(w, "Split_out"));
    ipu__put_int(w, split, "axis", 0);
    for (int i = 0; i < l->n_gates && ipu__writer_ok(w); i++) parts[i] = split->output[l->order[i]];
    if (!ipu__writer_ok(w)) return "";
    Ipu__NodeProto *joined = ipu__put(w, "Concat", parts, (size_t)l->n_gates, NULL);
    ipu__put_int(w, joined, "axis", 0);
    return joined->output[0];
}

static const char *zeros(layer *l, int64_t n)
{
    return ipu__put(l->o->w, "Expand",
                    IPU__NAMES(ipu__put_scalar(l->o->w, l->type, 0), ipu__put_list(l->o->w, &n, 1)), NULL)
        ->output[0];
}

/* Both biases of all gates side by side, "" if there are none. */
static const char *biases(layer *l, int first)
{
    const char *half[2];
    if (!l->o->op->in[first] && !l->o->op->in[first + 1]) return "";
    for (int i = 0; i < 2; i++)
        half[i] = l->o->op->in[first + i] ? in_order(l, ipu__take_as(l->o, first + i, l->type))
                                          : zeros(l, l->n_gates * l->hidden);
    Ipu__NodeProto *both = ipu__put(l->o->w, "Concat", half, 2, NULL);
    ipu__put_int(l->o->w, both, "axis", 0);
    return unsqueeze(l, both->output[0]);
}

static const char *start(layer *l, int i)
{
    return l->o->op->in[i] ? unsqueeze(l, ipu__take_as(l->o, i, l->type)) : "";
}

/* Outputs have a dimension for directions, of 1: y after that of time, the others first. */
static void squeeze_outputs(layer *l, int n_out, const char *const *wide)
{
    ipu__writer *w = l->o->w;
    for (int i = 0; i < n_out; i++) {
        int64_t axis = i == 0;
        if (ipu__gives(l->o, i))
            ipu__put(w, "Squeeze", IPU__NAMES(wide[i], ipu__put_list(w, &axis, 1)),
                     ipu__give_as(l->o, i, l->type));
    }
}

/* n_out: y, h_n and for LSTM c_n; what more there is only the gradient needs. */
static Ipu__NodeProto *put_layer(ipu__wop *o, const char *onnx_op, int n_gates, const int *order, int n_out)
{
    int64_t zero = 0;
    layer   l    = {.o       = o,
                    .type    = ipu__carrier(o->w, onnx_op, o->call.operand[0].type),
                    .hidden  = o->call.operand[2].shape.dim[1],
                    .n_gates = n_gates,
                    .order   = order};
    for (uint32_t i = (uint32_t)n_out; i < o->op->n_out; i++)
        if (ipu__gives(o, (int)i)) return NULL;
    if (l.type == IPU_N_TYPES || o->call.operand[0].shape.dim[0] == 0) return NULL;
    l.axis0          = ipu__put_list(o->w, &zero, 1);
    const char *in[] = {ipu__take_as(o, 0, l.type),
                        unsqueeze(&l, in_order(&l, ipu__take_as(o, 1, l.type))),
                        unsqueeze(&l, in_order(&l, ipu__take_as(o, 2, l.type))),
                        biases(&l, 3),
                        "",
                        start(&l, 5),
                        n_out > 2 ? start(&l, 6) : ""};
    const char *wide[3];
    for (int i = 0; i < n_out; i++) wide[i] = ipu__gives(o, i) ? ipu__fresh(o->w, o->out[i]) : "";
    Ipu__NodeProto *node = ipu__put(o->w, onnx_op, in, n_out > 2 ? 7 : 6, wide[0]);
    for (int i = 1; i < n_out; i++) ipu__put_output(o->w, node, wide[i]);
    ipu__put_int(o->w, node, "hidden_size", l.hidden);
    if (ipu__op_int(&o->call, "reverse")) ipu__put_text(o->w, node, "direction", "reverse");
    squeeze_outputs(&l, n_out, wide);
    return node;
}

bool ipu__write_lstm(ipu__wop *o) { return put_layer(o, "LSTM", 4, (const int[]){0, 3, 1, 2}, 3); }

bool ipu__write_gru(ipu__wop *o)
{
    Ipu__NodeProto *node = put_layer(o, "GRU", 3, (const int[]){1, 0, 2}, 2);
    if (node) ipu__put_int(o->w, node, "linear_before_reset", 1);
    return node;
}

bool ipu__write_rnn(ipu__wop *o)
{
    Ipu__NodeProto *node    = put_layer(o, "RNN", 1, NULL, 2);
    bool            is_relu = strcmp(ipu__op_text(&o->call, "activation"), "relu") == 0;
    if (node && is_relu) ipu__put_texts(o->w, node, "activations", "Relu");
    return node;
}

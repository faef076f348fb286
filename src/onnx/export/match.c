/* What was composed is found again: batch norm with statistics that are given is several ops in a model, and one
 * node in ONNX. */
#include <string.h>

#include "onnx/export/export.h"

/* The op that makes a value, if it is `name` and nothing else uses the value; NULL: no. */
static const ipu__model_op *made_by(const ipu__export_frame *frame, uint32_t id, const char *name)
{
    const ipu__model_value *v = &frame->m->values.at[id];
    if (id == 0 || v->kind != IPU__VALUE_OP || frame->uses[id] != 1) return NULL;
    const ipu__model_op *op = &frame->m->ops.at[v->of];
    return op->kind == IPU__MODEL_OP && strcmp(op->def->kernel.name, name) == 0 ? op : NULL;
}

static const ipu_shape *shape_of(const ipu__export_frame *frame, uint32_t id)
{
    return &frame->m->base.values.at[id].shape;
}

/* Value `id` is one number for each channel of x, made [C,1,...]: that number's vector [C]; 0: it is not. */
static uint32_t by_channel(const ipu__export_frame *frame, uint32_t id, const ipu_shape *x,
                           const ipu__model_op **via)
{
    const ipu_shape *shape = shape_of(frame, id);
    if (shape->rank != x->rank - 1 || shape->dim[0] != x->dim[1]) return 0;
    for (int d = 1; d < shape->rank; d++)
        if (shape->dim[d] != 1) return 0;
    *via = NULL;
    if (shape->rank == 1) return id;
    *via = made_by(frame, id, "reshape");
    if (!*via || shape_of(frame, (*via)->in[0])->rank != 1) return 0;
    return (*via)->in[0];
}

/* A constant that is one number. */
static bool is_number(const ipu__export_frame *frame, uint32_t id, double *out)
{
    const ipu__model_value   *v    = &frame->m->values.at[id];
    const ipu__builder_value *type = &frame->m->base.values.at[id];
    if (v->kind != IPU__VALUE_CONSTANT || ipu__op_n_elements(&type->shape) != 1) return false;
    if (type->type == IPU_FLOAT) *out = *(const float *)v->data;
    if (type->type == IPU_DOUBLE) *out = *(const double *)v->data;
    return type->type == IPU_FLOAT || (type->type == IPU_DOUBLE && *out == (float)*out);
}

/* rsqrt(var + epsilon) * weight */
static bool match_scale(const ipu__export_frame *frame, uint32_t id, ipu__batch_norm *n)
{
    const ipu__model_op *mul   = made_by(frame, id, "mul");
    const ipu__model_op *rsqrt = mul ? made_by(frame, mul->in[0], "rsqrt") : NULL;
    const ipu__model_op *add   = rsqrt ? made_by(frame, rsqrt->in[0], "add") : NULL;
    if (!add || !is_number(frame, add->in[1], &n->epsilon)) return false;
    n->weight             = mul->in[1];
    n->var                = add->in[0];
    n->part[n->n_parts++] = mul;
    n->part[n->n_parts++] = rsqrt;
    n->part[n->n_parts++] = add;
    return true;
}

/* (x - mean) * scale + bias */
bool ipu__match_batch_norm(const ipu__export_frame *frame, const ipu__model_op *op, ipu__batch_norm *n)
{
    const ipu__model_op *via[3];
    if (strcmp(op->def->kernel.name, "add") != 0) return false;
    const ipu__model_op *mul = made_by(frame, op->in[0], "mul");
    const ipu__model_op *sub = mul ? made_by(frame, mul->in[0], "sub") : NULL;
    if (!sub || shape_of(frame, sub->in[0])->rank < 2) return false;
    const ipu_shape *x = shape_of(frame, sub->in[0]);
    *n                 = (ipu__batch_norm){.x = sub->in[0], .part = {mul, sub}, .n_parts = 2};
    n->mean            = by_channel(frame, sub->in[1], x, &via[0]);
    uint32_t scale     = by_channel(frame, mul->in[1], x, &via[1]);
    n->bias            = by_channel(frame, op->in[1], x, &via[2]);
    if (!n->mean || !scale || !n->bias || !match_scale(frame, scale, n)) return false;
    for (int i = 0; i < 3; i++)
        if (via[i]) n->part[n->n_parts++] = via[i];
    for (int i = 0; i < n->n_parts; i++)
        if (n->part[i]->block != op->block) return false;
    const uint32_t vectors[] = {n->mean, n->var, n->weight, n->bias};
    for (int i = 0; i < 4; i++)
        if (shape_of(frame, vectors[i])->rank != 1 || shape_of(frame, vectors[i])->dim[0] != x->dim[1])
            return false;
    return true;
}

/* Epilogues that consist of a scale and shift per channel. */
#include "op/elementwise/epilogue_affine.h"

#include "op/elementwise/chain_parse.h"

static int first_of(const ipu__kernel_call *call) { return ipu__op_of(call->def)->n_in - IPU__EPILOGUE_IN; }

/* Whether a value of `shape` has one number for each channel of `out`, when it is broadcast to it. */
static bool is_by_channel(const ipu_shape *shape, const ipu_shape *out)
{
    int at = 1 - (out->rank - shape->rank); /* the channels' dimension */
    if (at < 0 || shape->rank > out->rank) return false;
    for (int i = 0; i < shape->rank; i++)
        if (shape->dim[i] != (i == at ? out->dim[1] : 1)) return false;
    return true;
}

/* One step that is given what came before as `value`, and something else, which may be on its left but of sub. */
static bool take(const ipu__kernel_call *call, const ipu__chain_step *s, int value, ipu__affine *a)
{
    const ipu_shape *out = &call->operand[call->n_operands - 1].shape;
    if (s->element == IPU__ELEMENT_relu) {
        bool first = !a->relu;
        a->relu    = true;
        return first && s->in[0] == value;
    }
    bool is_sub = s->element == IPU__ELEMENT_sub, is_mul = s->element == IPU__ELEMENT_mul;
    if ((!is_sub && !is_mul && s->element != IPU__ELEMENT_add) || a->relu || a->add) return false;
    int other = s->in[0] == value ? s->in[1] : s->in[0];
    if ((s->in[0] != value && (is_sub || s->in[1] != value)) || other < 1 || other > IPU__EPILOGUE_IN)
        return false;
    int              operand = first_of(call) + other - 1;
    const ipu_shape *shape   = &call->operand[operand].shape;
    if (s->element == IPU__ELEMENT_add && ipu__shape_equal(shape, out)) {
        a->add = operand;
        return true;
    }
    bool single = ipu__op_n_elements(shape) == 1;
    if ((!single && !is_by_channel(shape, out)) || a->n_steps == IPU__AFFINE_STEPS) return false;
    a->step[a->n_steps].kind     = is_sub ? IPU__AFFINE_SUB : is_mul ? IPU__AFFINE_MUL : IPU__AFFINE_ADD;
    a->step[a->n_steps].operand  = operand;
    a->step[a->n_steps++].single = single;
    return true;
}

bool ipu__affine_of(const ipu__kernel_call *call, ipu__affine *out)
{
    ipu__chain_code code;
    *out = (ipu__affine){0};
    if (!ipu__epilogue_has(call)) return true;
    if (call->operand[call->n_operands - 1].type != IPU_FLOAT
        || ipu__chain_parse(ipu__op_text(call, "epilogue"), 1 + IPU__EPILOGUE_IN, &code) != IPU_OK)
        return false;
    for (int i = 0; i < code.n_steps; i++) {
        int value = i == 0 ? 0 : IPU__CHAIN_MAX_IN + i - 1;
        if (!take(call, &code.step[i], value, out)) return false;
    }
    return code.n_out == 1 && code.out[0] == code.n_steps - 1;
}

bool ipu__affine_get(const ipu__affine *a, void *const *operand, const float *bias, int64_t begin, int64_t n,
                     float *scale, float *shift)
{
    bool has_scale = false;
    for (int64_t i = 0; i < n; i++) {
        scale[i] = 1;
        shift[i] = bias ? bias[begin + i] : 0;
    }
    for (int k = 0; k < a->n_steps; k++) {
        const float *by     = operand[a->step[k].operand];
        bool         single = a->step[k].single;
        has_scale |= a->step[k].kind == IPU__AFFINE_MUL;
        for (int64_t i = 0; i < n; i++) {
            float v = by[single ? 0 : begin + i];
            switch (a->step[k].kind) {
            case IPU__AFFINE_ADD: shift[i] += v; break;
            case IPU__AFFINE_SUB: shift[i] -= v; break;
            case IPU__AFFINE_MUL:
                shift[i] *= v;
                scale[i] *= v;
                break;
            }
        }
    }
    return has_scale;
}

ipu__kernel_layouts ipu__affine_layouts(const ipu__kernel_call *call, int operand, unsigned takes)
{
    const unsigned   plain = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    const ipu_shape *out   = &call->operand[call->n_operands - 1].shape;
    if (!ipu__shape_equal(&call->operand[operand].shape, out))
        return (ipu__kernel_layouts){plain, plain, false};
    return (ipu__kernel_layouts){takes | plain, takes | plain, true};
}

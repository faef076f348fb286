/* The meaning of elementwise ops: one element after another, floating types in double by the C library and
 * rounded once, integers in 64 bits.
 */
#include <math.h>
#include <string.h>

#include "op/elementwise/elementwise.h"

/* To float so that rounding again, to fewer bits, is like rounding once: what is cut off leaves a one. */
static float to_odd(double value)
{
    float    f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((double)f != value && value == value) {
        if (fabs((double)f) > fabs(value)) bits--;
        bits |= 1;
        memcpy(&f, &bits, sizeof f);
    }
    return f;
}

ipu_half     ipu__half_from_double(double value) { return ipu_half_from_float(to_odd(value)); }
ipu_bfloat16 ipu__bfloat16_from_double(double value) { return ipu_bfloat16_from_float(to_odd(value)); }

void ipu__integer_range(ipu_type type, double range[2])
{
    static const double ranges[IPU_N_TYPES][2] = {
        [IPU_INT8] = {INT8_MIN, INT8_MAX},        [IPU_UINT8] = {0, UINT8_MAX},
        [IPU_INT16] = {INT16_MIN, INT16_MAX},     [IPU_UINT16] = {0, UINT16_MAX},
        [IPU_INT32] = {INT32_MIN, INT32_MAX},     [IPU_UINT32] = {0, UINT32_MAX},
        [IPU_INT64] = {-0x1p63, 0x1p63 - 0x1p10}, [IPU_UINT64] = {0, 0x1p64 - 0x1p11},
    };
    range[0] = ranges[type][0];
    range[1] = ranges[type][1];
}

/* One element as the widest of its kind: double, int64, uint64 or bool. */
typedef union wide {
    double   f;
    int64_t  i;
    uint64_t u;
    uint8_t  b;
} wide;

static ipu__lane wide_lane(ipu_type type)
{
    ipu__lane lane = ipu__lane_of[type];
    return lane == IPU__LANE_F32 ? IPU__LANE_F64 : lane == IPU__LANE_I32 ? IPU__LANE_I64 : lane;
}

#define LOAD(T) (*(const T *)from)
static wide load(ipu_type type, const void *from)
{
    switch (type) {
    case IPU_BOOL: return (wide){.b = LOAD(uint8_t)};
    case IPU_INT8: return (wide){.i = LOAD(int8_t)};
    case IPU_UINT8: return (wide){.i = LOAD(uint8_t)};
    case IPU_INT16: return (wide){.i = LOAD(int16_t)};
    case IPU_UINT16: return (wide){.i = LOAD(uint16_t)};
    case IPU_INT32: return (wide){.i = LOAD(int32_t)};
    case IPU_UINT32: return (wide){.i = LOAD(uint32_t)};
    case IPU_INT64: return (wide){.i = LOAD(int64_t)};
    case IPU_UINT64: return (wide){.u = LOAD(uint64_t)};
    case IPU_HALF: return (wide){.f = ipu_half_to_float(LOAD(ipu_half))};
    case IPU_BFLOAT16: return (wide){.f = ipu_bfloat16_to_float(LOAD(ipu_bfloat16))};
    case IPU_FLOAT: return (wide){.f = LOAD(float)};
    default: return (wide){.f = LOAD(double)};
    }
}

#define STORE(T, value) (*(T *)to = (T)(value))
static void store(ipu_type type, void *to, wide v)
{
    switch (type) {
    case IPU_BOOL: STORE(uint8_t, v.b); break;
    case IPU_INT8: STORE(int8_t, v.i); break;
    case IPU_UINT8: STORE(uint8_t, v.i); break;
    case IPU_INT16: STORE(int16_t, v.i); break;
    case IPU_UINT16: STORE(uint16_t, v.i); break;
    case IPU_INT32: STORE(int32_t, v.i); break;
    case IPU_UINT32: STORE(uint32_t, v.i); break;
    case IPU_INT64: STORE(int64_t, v.i); break;
    case IPU_UINT64: STORE(uint64_t, v.u); break;
    case IPU_HALF: *(ipu_half *)to = ipu__half_from_double(v.f); break;
    case IPU_BFLOAT16: *(ipu_bfloat16 *)to = ipu__bfloat16_from_double(v.f); break;
    case IPU_FLOAT: STORE(float, v.f); break;
    default: STORE(double, v.f); break;
    }
}

int64_t ipu__element_source(const ipu_shape *out, const ipu_shape *in, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (int d = 1; d <= in->rank; d++) {
        int64_t n = in->dim[in->rank - d], of = out->dim[out->rank - d];
        if (n != 1) at += i % of * stride;
        i /= of;
        stride *= n;
    }
    return at;
}

/* Integers go to float in one step: through double, 64 bits would be rounded twice. */
static void cast_one(ipu_type from, const wide *v, ipu_type to, void *out)
{
    ipu__lane lane = wide_lane(from);
    double    range[2];
    wide      result = {0};
    ipu__integer_range(to, range);
    if (to == IPU_FLOAT && lane == IPU__LANE_I64)
        *(float *)out = (float)v->i;
    else if (to == IPU_FLOAT && lane == IPU__LANE_U64)
        *(float *)out = (float)v->u;
    else {
        ipu__converters()->convert[lane][wide_lane(to)]((const void *[]){v}, &result, 1, range);
        store(to, out, result);
    }
}

void ipu__element_one(int element, const ipu_type *types, int n_in, const double *parameters,
                      const void *const *in, ipu_type type, void *out)
{
    wide        v[IPU__MAX_ELEMENT_INPUTS] = {0}, result = {0};
    const void *at[IPU__MAX_ELEMENT_INPUTS] = {&v[0], &v[1], &v[2]};
    for (int i = 0; i < n_in; i++) v[i] = load(types[i], in[i]);
    if (element == IPU__ELEMENT_cast) {
        cast_one(types[0], &v[0], type, out);
        return;
    }
    ipu__element_block(wide_lane(types[n_in - 1]), element)(at, &result, 1, parameters);
    store(type, out, result);
}

void ipu__element_ref(const ipu__kernel_call *call, void *const *operand)
{
    int                      n_in = ipu__op_of(call->def)->n_in, element = ipu__element_of(call->def);
    const ipu__kernel_value *out       = &call->operand[n_in];
    int64_t                  n         = ipu__op_n_elements(&out->shape);
    size_t                   out_bytes = ipu_type_size(out->type);
    double                   parameters[IPU__MAX_ELEMENT_PARAMETERS];
    ipu__element_parameters(call, parameters);
    for (int64_t i = 0; i < n; i++) {
        const void *in[IPU__MAX_ELEMENT_INPUTS];
        ipu_type    types[IPU__MAX_ELEMENT_INPUTS] = {0};
        for (int k = 0; k < n_in; k++) {
            const ipu__kernel_value *x = &call->operand[k];
            types[k]                   = x->type;
            in[k]                      = (const char *)operand[k]
                  + (size_t)ipu__element_source(&out->shape, &x->shape, i) * ipu_type_size(x->type);
        }
        ipu__element_one(element, types, n_in, parameters, in, out->type,
                         (char *)operand[n_in] + (size_t)i * out_bytes);
    }
}

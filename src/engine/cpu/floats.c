/* Floating-point exceptions of kernels, after the fact: their inputs and outputs are scanned. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/cpu/cpu.h"

typedef struct found {
    int64_t n, infinities, nans;
} found;

/* Exponents of all ones; infinities have a zero fraction. */
#define COUNT(name, T, exponent, fraction)                   \
    static void count_##name(const void *data, found *f)     \
    {                                                        \
        const T *x = data;                                   \
        for (int64_t i = 0; i < f->n; i++) {                 \
            if ((x[i] & (exponent)) != (exponent)) continue; \
            f->nans += (x[i] & (fraction)) != 0;             \
            f->infinities += (x[i] & (fraction)) == 0;       \
        }                                                    \
    }
COUNT(half, uint16_t, 0x7C00, 0x03FF)
COUNT(bfloat16, uint16_t, 0x7F80, 0x007F)
COUNT(float, uint32_t, UINT32_C(0x7F800000), UINT32_C(0x007FFFFF))
COUNT(double, uint64_t, UINT64_C(0x7FF0000000000000), UINT64_C(0x000FFFFFFFFFFFFF))

static found count(const ipu__kernel_value *v, const void *data)
{
    found f = {.n = 1};
    for (int d = 0; d < v->shape.rank; d++) f.n *= v->shape.dim[d];
    if (f.n > 0 && v->type == IPU_HALF) count_half(data, &f);
    if (f.n > 0 && v->type == IPU_BFLOAT16) count_bfloat16(data, &f);
    if (f.n > 0 && v->type == IPU_FLOAT) count_float(data, &f);
    if (f.n > 0 && v->type == IPU_DOUBLE) count_double(data, &f);
    return f;
}

/* As in pads and fills: infinities that were asked for are fine. */
static bool has_infinite_attribute(const ipu__kernel_call *call)
{
    for (size_t i = 0; i < call->n_attributes; i++)
        if (call->attributes[i].kind == IPU_ATTRIBUTE_FLOAT && isinf(call->attributes[i].f)) return true;
    return false;
}

static ipu_status fail(const ipu__cpu *e, const ipu__instruction *i, int operand, int64_t replica,
                       const found *f)
{
    const ipu__kernel_def     *def            = e->kernels[i->a].call->def;
    const ipu__kernel_operand *what           = &def->operands[operand];
    char                       of_replica[48] = "", counts[96];
    if (e->replication > 1) snprintf(of_replica, sizeof of_replica, " of replica %lld", (long long)replica);
    if (f->nans > 0 && f->infinities > 0)
        snprintf(counts, sizeof counts, "%lld NaN and %lld infinities", (long long)f->nans,
                 (long long)f->infinities);
    else
        snprintf(counts, sizeof counts, "%lld %s", (long long)(f->nans > 0 ? f->nans : f->infinities),
                 f->nans > 0         ? "NaN"
                 : f->infinities > 1 ? "infinities"
                                     : "infinity");
    return ipu__engine_abort(e->engine, i,
                             "floating point exception in kernel \"%s\": its %s \"%s\"%s has %s among %lld "
                             "elements (option check.floats)",
                             def->name, what->access == IPU__ACCESS_READ ? "input" : "output", what->name,
                             of_replica, counts, (long long)f->n);
}

ipu_status ipu__floats_check_inputs(const ipu__cpu *e, const ipu__instruction *i, bool *has_inf)
{
    const ipu__kernel      *kernel = &e->kernels[i->a];
    const ipu__kernel_call *call   = kernel->call;
    *has_inf                       = has_infinite_attribute(call);
    for (int64_t r = 0; r < e->replication; r++)
        for (int k = 0; k < call->n_operands; k++) {
            if (call->def->operands[k].access == IPU__ACCESS_WRITE) continue;
            found f = count(&call->operand[k], kernel->operands[r * call->n_operands + k]);
            if (f.nans > 0) return fail(e, i, k, r, &f);
            *has_inf |= f.infinities > 0;
        }
    return IPU_OK;
}

ipu_status ipu__floats_check_outputs(const ipu__cpu *e, const ipu__instruction *i, bool has_inf)
{
    const ipu__kernel      *kernel = &e->kernels[i->a];
    const ipu__kernel_call *call   = kernel->call;
    for (int64_t r = 0; r < e->replication; r++)
        for (int k = 0; k < call->n_operands; k++) {
            if (call->def->operands[k].access == IPU__ACCESS_READ) continue;
            found f = count(&call->operand[k], kernel->operands[r * call->n_operands + k]);
            if (f.nans > 0 || (f.infinities > 0 && !has_inf)) return fail(e, i, k, r, &f);
        }
    return IPU_OK;
}

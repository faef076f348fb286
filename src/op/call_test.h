/* For tests of kernels: a call made from shapes and numbers, run by `ref` and by every implementation.
 *
 * Floating inputs are given as doubles and stored in the requested type; int32 inputs as they are.
 */
#ifndef IPU_OP_CALL_TEST_H
#define IPU_OP_CALL_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/impl.h"
#include "op/number.h"
#include "op/op.h"

typedef struct call_input {
    ipu_type      type; /* FLOAT: the type under test. DOUBLE: likewise, but float for half and bfloat16 */
    ipu_shape     shape;
    const double *values; /* NULL although there are elements: random, -2 to 2 or 0 to 9 */
} call_input;

typedef struct call_made {
    ipu__kernel_call call;
    void            *data[IPU__MAX_OPERANDS];
    size_t           bytes[IPU__MAX_OPERANDS];
} call_made;

static inline void call_store(ipu_type type, void *data, int64_t i, double value)
{
    int64_t whole = (int64_t)value;
    if (ipu__op_is_floating(type))
        ipu__number_store(type, data, i, value);
    else
        memcpy((char *)data + (size_t)i * ipu_type_size(type), &whole, ipu_type_size(type));
}

static inline double call_load(ipu_type type, const void *data, int64_t i)
{
    if (type == IPU_BOOL) return ((const uint8_t *)data)[i];
    return ipu__number_load(type, data, i);
}

static inline call_made call_make(const char *op, const ipu_attribute *attributes, size_t n_attributes,
                                  const call_input *in, size_t n_in, ipu_type type)
{
    const ipu__op_def *def  = ipu__op_find(op);
    call_made          made = {.call = {.attributes = attributes, .n_attributes = n_attributes}};
    uint32_t           seed = 1;
    assert_non_null(def);
    made.call.def        = &def->kernel;
    made.call.n_operands = def->n_in;
    for (size_t k = 0; k < (size_t)def->n_in; k++) {
        static const call_input none = {IPU_FLOAT, {1, {0}}, NULL};
        const call_input       *from = k < n_in ? &in[k] : &none;
        ipu_type                wide = type == IPU_DOUBLE ? IPU_DOUBLE : IPU_FLOAT;
        ipu_type own         = from->type == IPU_FLOAT ? type : from->type == IPU_DOUBLE ? wide : from->type;
        int64_t  n           = ipu__op_n_elements(&from->shape);
        made.call.operand[k] = (ipu__kernel_value){own, from->shape};
        made.bytes[k]        = (size_t)n * ipu_type_size(own);
        made.data[k]         = aligned_alloc(64, (made.bytes[k] + 64) / 64 * 64);
        assert_non_null(made.data[k]);
        for (int64_t i = 0; i < n; i++) {
            seed          = seed * 1664525u + 1013904223u;
            double random = ipu__op_is_floating(own) ? (double)(seed >> 8) * 0x1p-22 - 2
                          : own == IPU_BOOL          ? (double)(seed >> 31)
                                                     : (double)((seed >> 8) % 10);
            call_store(own, made.data[k], i, from->values ? from->values[i] : random);
        }
    }
    if (ipu__op_check_attributes(&made.call) != IPU_OK
        || def->infer(&made.call, made.call.operand + def->n_in) != IPU_OK)
        fail_msg("%s", ipu_message());
    made.call.n_operands = def->kernel.n_operands;
    for (int k = def->n_in; k < def->kernel.n_operands; k++) {
        const ipu__kernel_value *v = &made.call.operand[k];
        made.bytes[k]              = (size_t)ipu__op_n_elements(&v->shape) * ipu_type_size(v->type);
        made.data[k]               = aligned_alloc(64, (made.bytes[k] + 64) / 64 * 64);
        assert_non_null(made.data[k]);
        memset(made.data[k], 0xff, made.bytes[k]);
    }
    return made;
}

static inline void call_free(call_made *made)
{
    for (int k = 0; k < made->call.n_operands; k++) free(made->data[k]);
}

typedef struct call_part {
    const ipu__kernel_call *call;
    const ipu__cpu_impl    *impl;
    void *const            *operand;
    void                   *state, *scratch;
    int                     part, n_parts;
    ipu_status              status;
} call_part;

static inline void *call_run_part(void *data)
{
    call_part *p = data;
    p->status    = p->impl->run(p->call, p->state, p->operand, p->scratch, p->part, p->n_parts);
    return NULL;
}

/* Two parts run concurrently on threads; more run one after another, the last first. */
static inline void call_run(const ipu__kernel_call *call, const ipu__cpu_impl *impl, void *const *operand,
                            int n_parts)
{
    enum { MOST = 8 };
    size_t    bytes = impl->scratch_bytes ? impl->scratch_bytes(call, n_parts) : 0;
    void     *state = NULL;
    call_part parts[MOST];
    pthread_t thread;
    assert_in_range(n_parts, 1, MOST);
    if (impl->prepare) assert_int_equal(impl->prepare(call, n_parts, &state), IPU_OK);
    for (int i = 0; i < n_parts; i++) {
        parts[i] = (call_part){call, impl, operand, state, NULL, i, n_parts, IPU_OK};
        assert_non_null(parts[i].scratch = aligned_alloc(64, (bytes + 127) / 64 * 64));
        memset(parts[i].scratch, 0xff, bytes);
    }
    bool is_threaded = n_parts == 2;
    if (is_threaded) assert_int_equal(pthread_create(&thread, NULL, call_run_part, &parts[1]), 0);
    for (int i = is_threaded ? 0 : n_parts - 1; i >= 0; i--) call_run_part(&parts[i]);
    if (is_threaded) assert_int_equal(pthread_join(thread, NULL), 0);
    for (int i = 0; i < n_parts; i++) {
        assert_int_equal(parts[i].status, IPU_OK);
        free(parts[i].scratch);
    }
    if (impl->release) impl->release(state);
}

static inline double call_slack(ipu_type type)
{
    return type == IPU_BFLOAT16 ? 0x1p-7 : type == IPU_HALF ? 0x1p-9 : type == IPU_DOUBLE ? 1e-12 : 1e-5;
}

static inline void call_compare(const ipu__kernel_call *call, const char *what, int k, const void *found,
                                const void *expected, double size)
{
    ipu_type type = call->operand[k].type;
    for (int64_t i = 0; i < ipu__op_n_elements(&call->operand[k].shape); i++) {
        double a = call_load(type, expected, i), b = call_load(type, found, i);
        double slack = call_slack(type) * (fabs(a) > size ? fabs(a) : size);
        if (isnan(a) ? !isnan(b) : !(a == b || fabs(a - b) <= slack))
            fail_msg("%s, %s, %s: output %d element %lld is %.9g, expected %.9g", call->def->name, what,
                     ipu_type_name(type), k, (long long)i, b, a);
    }
}

/* Every implementation, in 1, 2 and 5 parts, is near `ref` (whose results are left in `made`), and the number
 * of parts makes no difference. `size` is the magnitude of the numbers that make up results. */
static inline void call_check_parts(call_made *made, double size, bool same_bits)
{
    static const int   parts[] = {1, 2, 5};
    ipu__kernel_call  *call    = &made->call;
    const ipu__op_def *op      = ipu__op_of(call->def);
    void              *found[3][IPU__MAX_OPERANDS];
    call->def->ref(call, made->data);
    ipu__cpu_impls all = ipu__cpu_impls_of(call->def);
    for (int i = 0; i < all.n; i++) {
        const ipu__cpu_impl *impl = &all.at[i];
        if (!impl->head.fits(call, ipu__cpu_machine_here(), 1)) continue;
        for (int p = 0; p < 3; p++)
            for (int k = 0; k < call->n_operands; k++) {
                found[p][k] = aligned_alloc(64, (made->bytes[k] + 64) / 64 * 64);
                assert_non_null(found[p][k]);
                memcpy(found[p][k], made->data[k], made->bytes[k]);
                if (call->def->operands[k].access == IPU__ACCESS_WRITE)
                    memset(found[p][k], 0xff, made->bytes[k]);
            }
        for (int p = 0; p < 3; p++) {
            call_run(call, impl, found[p], parts[p]);
            for (int k = op->n_in; k < call->n_operands; k++) {
                call_compare(call, impl->head.name, k, found[p][k], made->data[k], size);
                if (same_bits) assert_memory_equal(found[p][k], found[0][k], made->bytes[k]);
            }
            for (int k = 0; k < op->n_in; k++)
                assert_memory_equal(found[p][k], made->data[k], made->bytes[k]);
        }
        for (int p = 0; p < 3; p++)
            for (int k = 0; k < call->n_operands; k++) free(found[p][k]);
    }
}

static inline void call_check(call_made *made, double size) { call_check_parts(made, size, true); }

/* The first output of `ref` and of every implementation equals `expected`, in double and float. */
static inline void call_expect(const char *op, const ipu_attribute *attributes, size_t n_attributes,
                               const call_input *in, size_t n_in, int output, const double *expected)
{
    static const ipu_type types[] = {IPU_DOUBLE, IPU_FLOAT};
    for (int t = 0; t < 2; t++) {
        call_made made = call_make(op, attributes, n_attributes, in, n_in, types[t]);
        call_check(&made, 1);
        int      k    = ipu__op_of(made.call.def)->n_in + output;
        ipu_type type = made.call.operand[k].type;
        for (int64_t i = 0; i < ipu__op_n_elements(&made.call.operand[k].shape); i++) {
            double a = expected[i], b = call_load(type, made.data[k], i);
            if (isnan(a) ? !isnan(b) : !(a == b || fabs(a - b) <= 1e-6 * (fabs(a) > 1 ? fabs(a) : 1)))
                fail_msg("%s, %s: output %d element %lld is %.9g, expected %.9g", op, ipu_type_name(types[t]),
                         output, (long long)i, b, a);
        }
        call_free(&made);
    }
}

#define CALL_IN(...) \
    (const call_input[]){__VA_ARGS__}, sizeof((call_input[]){__VA_ARGS__}) / sizeof(call_input)
#define CALL_VALUES(...) ((const double[]){__VA_ARGS__})

#endif

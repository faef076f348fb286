/* Epilogues: every implementation of matmul and conv gives the bits of its own result followed by the chain,
 * in any number of parts; errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/host/cpu.h"
#include "op/conv/conv.h"
#include "op/matmul/matmul.h"
#include "op/product/xsmm.h"

enum { MOST = 1 << 17 }; /* elements of an operand here */

static ipu__kernel_call call_of(const ipu__op_def *op, const ipu_attribute *with, size_t n, ipu_type type,
                                ipu_shape first, ipu_shape second)
{
    ipu__kernel_call call = {
        .def = &op->kernel, .attributes = with, .n_attributes = n, .n_operands = op->kernel.n_operands};
    for (int i = 0; i < call.n_operands; i++) call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    call.operand[0] = (ipu__kernel_value){type, first};
    call.operand[1] = (ipu__kernel_value){type, second};
    return call;
}

static void fill(ipu_type type, void *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float value = (float)(i * 37 % 101 - 50) / 16;
        if (type == IPU_FLOAT)
            ((float *)to)[i] = value;
        else
            ((ipu_half *)to)[i] = ipu_half_from_float(value);
    }
}

static void *memory(void)
{
    void *p = aligned_alloc(64, MOST * sizeof(double));
    assert_non_null(p);
    memset(p, 0, MOST * sizeof(double));
    return p;
}

static void run(const ipu__kernel_call *call, const ipu__cpu_impl *impl, void *const *operand, int n_parts)
{
    void  *state   = NULL;
    size_t bytes   = impl->scratch_bytes ? impl->scratch_bytes(call, n_parts) : 0;
    void  *scratch = aligned_alloc(64, (bytes / 64 + 1) * 64);
    assert_non_null(scratch);
    if (impl->prepare) assert_int_equal(impl->prepare(call, n_parts, &state), IPU_OK);
    for (int i = 0; i < n_parts; i++)
        assert_int_equal(impl->run(call, state, operand, scratch, i, n_parts), IPU_OK);
    if (impl->release) impl->release(state);
    free(scratch);
}

/* `with` ends in the epilogue, which is left out first: one input e0 of shape `extra`. */
static int check_implementations(const ipu__op_def *op, const ipu_attribute *with, size_t n, ipu_type type,
                                 ipu_shape first, ipu_shape second, ipu_shape extra)
{
    ipu__kernel_call plain = call_of(op, with, n - 1, type, first, second), fused = plain;
    int              out = plain.n_operands - 1, e0 = out - IPU__EPILOGUE_IN, n_runs = 0;
    void            *operand[IPU__MAX_OPERANDS] = {0};
    fused.n_attributes                          = n;
    fused.operand[e0]                           = (ipu__kernel_value){type, extra};
    if (op->infer(&plain, &plain.operand[out]) != IPU_OK || op->infer(&fused, &fused.operand[out]) != IPU_OK)
        fail_msg("%s", ipu_message());
    for (int i = 0; i <= out; i++) {
        operand[i] = memory();
        assert_true(ipu__op_n_elements(&fused.operand[i].shape) <= MOST);
        if (i < out) fill(type, operand[i], ipu__op_n_elements(&fused.operand[i].shape));
    }
    void          *expected = memory(), *result = operand[out];
    size_t         bytes = (size_t)ipu__op_n_elements(&fused.operand[out].shape) * ipu_type_size(type);
    ipu__cpu_impls all   = ipu__cpu_impls_of(&op->kernel);
    for (int i = 0; i < all.n; i++)
        for (int parts = 1; parts <= 3; parts++) {
            const ipu__cpu_impl *impl = &all.at[i];
            if (!impl->head.fits(&fused, ipu__cpu_machine_here(), parts)) continue;
            operand[out] = expected;
            run(&plain, impl, operand, parts);
            ipu__epilogue_ref(&fused, operand);
            operand[out] = result;
            run(&fused, impl, operand, parts);
            assert_memory_equal(result, expected, bytes);
            n_runs++;
        }
    for (int i = 0; i <= out; i++) free(operand[i]);
    free(expected);
    return n_runs;
}

static void products_with_an_epilogue_give_the_bits_of_the_ops(void **unused)
{
    (void)unused;
    const ipu_attribute   with[]  = {IPU_INT_ATTRIBUTE("transpose_b", 1),
                                     IPU_TEXT_ATTRIBUTE("epilogue", "add a0 a1; relu t0; mul t1 t0; out t2")};
    static const ipu_type types[] = {IPU_FLOAT, IPU_HALF};
    for (int i = 0; i < 2; i++) {
        /* dot products, swapped, and neither; columns in more blocks than one; a batch */
        assert_true(check_implementations(&ipu__op_matmul, with, 2, types[i], IPU_SHAPE(2, 40),
                                          IPU_SHAPE(300, 40), IPU_SHAPE(300))
                    >= 3);
        assert_true(check_implementations(&ipu__op_matmul, with, 2, types[i], IPU_SHAPE(20, 40),
                                          IPU_SHAPE(300, 40), IPU_SHAPE(20, 1))
                    >= 3);
        assert_true(check_implementations(&ipu__op_matmul, with, 2, types[i], IPU_SHAPE(300, 9),
                                          IPU_SHAPE(40, 9), IPU_SCALAR)
                    >= 3);
        assert_true(check_implementations(&ipu__op_matmul, with + 1, 1, types[i], IPU_SHAPE(40, 300),
                                          IPU_SHAPE(300, 280), IPU_SHAPE(280))
                    >= 3);
        assert_true(check_implementations(&ipu__op_matmul, with + 1, 1, types[i], IPU_SHAPE(3, 5, 7),
                                          IPU_SHAPE(3, 7, 11), IPU_SHAPE(3, 1, 11))
                    >= 3);
    }
}

static void convolutions_with_an_epilogue_give_the_bits_of_the_ops(void **unused)
{
    (void)unused;
    const int64_t         one[]   = {1, 1};
    const ipu_attribute   with[]  = {IPU__INTS("padding", one, 2),
                                     IPU_TEXT_ATTRIBUTE("epilogue", "add a0 a1; relu t0; mul t1 t0; out t2")};
    const ipu_attribute   depth[] = {IPU_INT_ATTRIBUTE("groups", 4), with[1]};
    static const ipu_type types[] = {IPU_FLOAT, IPU_HALF};
    const int least = ipu__xsmm_works(ipu__cpu_features()) ? 3 : 0; /* runs; else only oneDNN is left */
    for (int i = 0; i < 2; i++) {
        /* an image at a time, several at once, depthwise */
        assert_true(check_implementations(&ipu__op_conv, with, 2, types[i], IPU_SHAPE(2, 3, 30, 30),
                                          IPU_SHAPE(9, 3, 3, 3), IPU_SHAPE(9, 1, 1))
                    >= least);
        assert_true(check_implementations(&ipu__op_conv, with, 2, types[i], IPU_SHAPE(7, 3, 5, 4),
                                          IPU_SHAPE(9, 3, 3, 3), IPU_SHAPE(7, 9, 5, 4))
                    >= least);
        assert_true(check_implementations(&ipu__op_conv, depth, 2, types[i], IPU_SHAPE(2, 4, 9, 9),
                                          IPU_SHAPE(8, 1, 3, 3), IPU_SHAPE(8, 7, 7))
                    >= least);
    }
}

static void refuse(const char *text, ipu_shape extra, const char *message)
{
    const ipu_attribute with = IPU_TEXT_ATTRIBUTE("epilogue", text);
    ipu__kernel_call  call = call_of(&ipu__op_matmul, &with, 1, IPU_FLOAT, IPU_SHAPE(2, 3), IPU_SHAPE(3, 4));
    ipu__kernel_value out;
    call.operand[2].shape = extra;
    assert_int_equal(ipu__op_matmul.infer(&call, &out), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), message));
}

static void epilogues_that_do_not_fit_are_refused(void **unused)
{
    (void)unused;
    refuse("", IPU_SHAPE(4), "matmul: \"e0\" is given without an epilogue that uses it");
    refuse("cast(to=half) a0; out t0", IPU_SHAPE(0),
           "must give one value float[2,4], found 1, the first half[2,4]");
    refuse("relu a0; out t0 t0", IPU_SHAPE(0), "found 2");
    refuse("add a0 a1; out t0", IPU_SHAPE(5, 2, 4), "must give one value float[2,4]");
    refuse("nothing a0; out t0", IPU_SHAPE(0), "nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_with_an_epilogue_give_the_bits_of_the_ops),
        cmocka_unit_test(convolutions_with_an_epilogue_give_the_bits_of_the_ops),
        cmocka_unit_test(epilogues_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

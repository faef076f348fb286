/* What tools and bindings are told about ops: all of them, with their operands, and the nearest to a wrong
 * name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/cpu/impl.h"
#include "op/op.h"

static size_t length(const char *const *list)
{
    size_t n = 0;
    while (list[n]) n++;
    return n;
}

static void test_every_op_is_described(void **state)
{
    (void)state;
    assert_true(ipu_n_ops() > 0);
    for (size_t i = 0; i < ipu_n_ops(); i++) {
        ipu_op_info        info, found;
        const ipu__op_def *op = ipu__ops[i];
        assert_int_equal(ipu_op_info_at(i, &info), IPU_OK);
        assert_ptr_equal(info.name, op->kernel.name);
        assert_int_equal(length(info.inputs), op->n_in);
        assert_int_equal(length(info.outputs), ipu__op_n_out(op));
        assert_int_equal(length(info.implementations), ipu__cpu_impls_of(&op->kernel).n);
        assert_true(*info.family && *info.summary);
        for (int k = 0; k < op->n_in; k++) {
            size_t n = strlen(op->kernel.operands[k].name);
            assert_memory_equal(info.inputs[k], op->kernel.operands[k].name, n);
            assert_string_equal(info.inputs[k] + n, op->kernel.operands[k].optional ? "?" : "");
        }
        assert_int_equal(ipu_op_info_find(info.name, &found), IPU_OK);
        assert_ptr_equal(found.inputs, info.inputs);
    }
    assert_null(ipu__ops[ipu_n_ops()]);
}

static void test_unknown_ops_are_refused_with_the_nearest(void **state)
{
    (void)state;
    ipu_op_info info;
    assert_int_equal(ipu_op_info_find("matmull", &info), IPU_NOT_FOUND);
    assert_non_null(strstr(ipu_message(), "did you mean \"matmul\"?"));
    assert_int_equal(ipu_op_info_find(NULL, &info), IPU_INVALID);
    assert_int_equal(ipu_op_info_at(ipu_n_ops(), &info), IPU_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_is_described),
        cmocka_unit_test(test_unknown_ops_are_refused_with_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

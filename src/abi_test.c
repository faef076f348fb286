/* What is told of structures: members in order, without holes that another member would fit in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"

enum { WORD = 8 };

static void structures_have_no_holes(void **state)
{
    (void)state;
    ipu_abi_member m, whole = {0};
    size_t         end = 0, n = 0;
    for (size_t i = 0; ipu_abi_member_at(i, &m); i++) {
        if (!*m.name) {
            if (n && end + WORD <= whole.bytes)
                fail_msg("%s ends at %zu of %zu", whole.structure, end, whole.bytes);
            whole = m;
            end   = 0;
            n++;
            continue;
        }
        assert_string_equal(m.structure, whole.structure);
        if (m.offset < end || m.offset >= end + WORD)
            fail_msg("%s.%s is at %zu, after what ends at %zu", m.structure, m.name, m.offset, end);
        end = m.offset + m.bytes;
        assert_true(end <= whole.bytes);
    }
    assert_true(n >= 18);
}

static void types_are_those_of_c(void **state)
{
    (void)state;
    static const struct {
        const char *structure, *name, *type;
        size_t      offset, bytes;
    } known[] = {
        {"ipu_shape", "", "", 0, sizeof(ipu_shape)},
        {"ipu_shape", "rank", "int", 0, sizeof(int)},
        {"ipu_shape", "dim", "int64*", offsetof(ipu_shape, dim), IPU_MAX_RANK * sizeof(int64_t)},
        {"ipu_array", "shape", "ipu_shape", offsetof(ipu_array, shape), sizeof(ipu_shape)},
        {"ipu_array", "data", "pointer", offsetof(ipu_array, data), sizeof(void *)},
        {"ipu_named_array", "name", "text", 0, sizeof(char *)},
        {"ipu_npz", "arrays", "ipu_named_array*", 0, sizeof(void *)},
        {"ipu_op_info", "inputs", "text*", offsetof(ipu_op_info, inputs), sizeof(void *)},
        {"ipu_executor_options", "reduction", "uint", offsetof(ipu_executor_options, reduction),
         sizeof(unsigned)},
        {"ipu_executor_options", "check_floats", "bool", offsetof(ipu_executor_options, check_floats), 1},
        {"ipu_nn_training", "groups", "ipu_nn_group*", offsetof(ipu_nn_training, groups), sizeof(void *)},
        {"ipu_nn_training", "n_groups", "size", offsetof(ipu_nn_training, n_groups), sizeof(size_t)},
        {"ipu_nn_group", "optimizer", "ipu_nn_optimizer", offsetof(ipu_nn_group, optimizer),
         sizeof(ipu_nn_optimizer)},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        ipu_abi_member m;
        size_t         i = 0;
        while (ipu_abi_member_at(i, &m)
               && (strcmp(m.structure, known[k].structure) != 0 || strcmp(m.name, known[k].name) != 0))
            i++;
        assert_true(ipu_abi_member_at(i, &m));
        assert_string_equal(m.type, known[k].type);
        assert_int_equal(m.offset, known[k].offset);
        assert_int_equal(m.bytes, known[k].bytes);
    }
}

static void constants_have_their_values(void **state)
{
    (void)state;
    ipu_abi_constant c;
    int              n_found = 0;
    for (size_t i = 0; ipu_abi_constant_at(i, &c); i++) {
        n_found += strcmp(c.name, "IPU_OUTPUT_FINAL") == 0 && c.value == IPU_OUTPUT_FINAL;
        n_found += strcmp(c.name, "IPU_DEVICE_ERROR") == 0 && c.value == IPU_DEVICE_ERROR;
        n_found += strcmp(c.name, "IPU_DOUBLE") == 0 && c.value == IPU_DOUBLE;
    }
    assert_int_equal(n_found, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structures_have_no_holes),
        cmocka_unit_test(types_are_those_of_c),
        cmocka_unit_test(constants_have_their_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

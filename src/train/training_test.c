/* How a network is trained: the lists have all members, and each of them but rates makes a difference. */
#include "train/training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/abi.h"
#include "ipu/schedule.h"

static void assert_members(const char *structure, const char *const *names, size_t n)
{
    ipu_abi_member m;
    size_t         found = 0;
    for (size_t i = 0; ipu_abi_member_at(i, &m); i++) {
        if (strcmp(m.structure, structure) != 0 || !*m.name) continue;
        assert_true(found < n);
        assert_string_equal(m.name, names[found++]);
    }
    assert_int_equal(found, n);
}
#define ASSERT_MEMBERS(structure, names) assert_members(structure, names, sizeof(names) / sizeof *(names))

static void the_lists_have_all_members(void **state)
{
    (void)state;
#define MEMBER(member) #member,
#define RATE(member) #member,
#define TEXT(member) #member,
#define KIND(member) #member,
#define OPTIMIZER(member) #member,
#define GROUPS(member) #member,
#define N_GROUPS(member) #member,
#define NUMBERS(member, n) #member, #n,
    static const char *const optimizer[] = {
#include "train/optimizer.inc"
    };
    static const char *const group[] = {
#include "train/group.inc"
    };
    static const char *const training[] = {
#include "train/training.inc"
    };
    static const char *const schedule[] = {
#include "train/schedule.inc"
    };
#undef MEMBER
#undef RATE
#undef TEXT
#undef KIND
#undef OPTIMIZER
#undef GROUPS
#undef N_GROUPS
#undef NUMBERS
    ASSERT_MEMBERS("ipu_nn_optimizer", optimizer);
    ASSERT_MEMBERS("ipu_nn_group", group);
    ASSERT_MEMBERS("ipu_nn_training", training);
    ASSERT_MEMBERS("ipu_schedule", schedule);
}

/* `at`, of a structure that lies within training `b`, which differs from `a` in nothing: each of its numbers in turn. */
static void assert_each_counts(const char *structure, void *at, const ipu_nn_training *a,
                               const ipu_nn_training *b)
{
    ipu_abi_member m;
    for (size_t i = 0; ipu_abi_member_at(i, &m); i++) {
        unsigned char *member = (unsigned char *)at + m.offset;
        bool is_number = !strcmp(m.type, "double") || !strcmp(m.type, "bool") || !strcmp(m.type, "uint")
                      || !strcmp(m.type, "int64");
        if (strcmp(m.structure, structure) != 0 || !is_number) continue;
        assert_true(ipu__training_equal(a, b));
        member[strcmp(m.type, "double") ? 0 : m.bytes - 1] ^= 1;
        if (ipu__training_equal(a, b) != (strcmp(m.name, "rate") == 0))
            fail_msg("%s.%s: it makes %s difference", structure, m.name, strcmp(m.name, "rate") ? "no" : "a");
        member[strcmp(m.type, "double") ? 0 : m.bytes - 1] ^= 1;
    }
}

static void each_member_but_rates_makes_a_difference(void **state)
{
    (void)state;
    ipu_nn_group    groups[2] = {{.parameters = "a.*"}, {.parameters = "a.*"}};
    ipu_nn_training a         = {.optimizer = {.momentum = 0.5}, .groups = &groups[0], .n_groups = 1};
    ipu_nn_training b         = a;
    b.groups                  = &groups[1];
    assert_each_counts("ipu_nn_training", &b, &a, &b);
    assert_each_counts("ipu_nn_optimizer", &b.optimizer, &a, &b);
    assert_each_counts("ipu_nn_group", &groups[1], &a, &b);
    assert_each_counts("ipu_nn_optimizer", &groups[1].optimizer, &a, &b);
    groups[1].parameters = "b.*";
    assert_false(ipu__training_equal(&a, &b));
    b.n_groups = 0;
    assert_false(ipu__training_equal(&a, &b));
    groups[1].parameters = NULL; /* no pattern is an empty one */
    groups[0].parameters = "";
    b.n_groups           = 1;
    assert_true(ipu__training_equal(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lists_have_all_members),
        cmocka_unit_test(each_member_but_rates_makes_a_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

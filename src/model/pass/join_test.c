/* Sums of adjacent pads become concatenations; others stay sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/expect_test.h"

static void sums_of_two_that_fill_all(void **unused)
{
    (void)unused;
    expect(IPU_PASS_FOLD,
           "  input a float[2,3];\n"
           "  input b float[2,4];\n"
           "  pb = pad(b) before=[0,3] after=[0,0];\n"
           "  pa = pad(a) before=[0,0] after=[0,4];\n"
           "  s = add(pb, pa);\n"
           "  output y = s;\n",
           "  input a float[2,3];\n"
           "  input b float[2,4];\n"
           "  pa = concat(a, b) axis=1;\n"
           "  output y = pa;\n");
}

/* Like gradients of slices, in any order; the first two leave zeros around them for the third. */
static void sums_of_three(void **unused)
{
    (void)unused;
    expect(IPU_PASS_FOLD,
           "  input q float[1,3];\n"
           "  input k float[2,3];\n"
           "  input v float[1,3];\n"
           "  pk = pad(k) before=[1,0] after=[2,0];\n"
           "  pv = pad(v) before=[3,0] after=[1,0];\n"
           "  pq = pad(q) before=[0,0] after=[4,0];\n"
           "  s = add(pk, pv);\n"
           "  t = add(s, pq);\n"
           "  output y = t;\n",
           "  input q float[1,3];\n"
           "  input k float[2,3];\n"
           "  input v float[1,3];\n"
           "  pv = concat(k, v) axis=0;\n"
           "  s = concat(q, pv) axis=0;\n"
           "  t = pad(s) before=[0,0] after=[1,0];\n"
           "  output y = t;\n");
}

static void expect_same(const char *text) { expect(IPU_PASS_FOLD, text, text); }

static void others_stay_sums(void **unused)
{
    (void)unused;
    expect_same("  input a float[2];\n" /* they overlap */
                "  input b float[2];\n"
                "  pa = pad(a) before=[0] after=[1];\n"
                "  pb = pad(b) before=[1] after=[0];\n"
                "  s = add(pa, pb);\n"
                "  output y = s;\n");
    expect_same("  input a float[1];\n" /* zeros between them */
                "  input b float[1];\n"
                "  pa = pad(a) before=[0] after=[2];\n"
                "  pb = pad(b) before=[2] after=[0];\n"
                "  s = add(pa, pb);\n"
                "  output y = s;\n");
    expect_same("  input a float[1];\n" /* not zeros */
                "  input b float[1];\n"
                "  pa = pad(a) before=[0] after=[1] value=1.0;\n"
                "  pb = pad(b) before=[1] after=[0];\n"
                "  s = add(pa, pb);\n"
                "  output y = s;\n");
    expect_same("  input a float[1];\n" /* used elsewhere */
                "  input b float[1];\n"
                "  pa = pad(a) before=[0] after=[1];\n"
                "  pb = pad(b) before=[1] after=[0];\n"
                "  s = add(pa, pb);\n"
                "  output y = s;\n"
                "  output z = pb;\n");
    expect_same("  input a float[1,1];\n" /* each in a corner */
                "  input b float[1,1];\n"
                "  pa = pad(a) before=[0,0] after=[1,1];\n"
                "  pb = pad(b) before=[1,1] after=[0,0];\n"
                "  s = add(pa, pb);\n"
                "  output y = s;\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_of_two_that_fill_all),
        cmocka_unit_test(sums_of_three),
        cmocka_unit_test(others_stay_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

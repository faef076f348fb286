/* A network larger than the chip causes one warning, and runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "ipu/log.h"
#include "ipu/op.h"
#include "model/fit.h"

static int  n_warnings;
static char warning[512];

static void note(void *user, ipu_log_level level, const char *module, const char *text)
{
    (void)user, (void)module;
    if (level != IPU_LOG_WARN || !strstr(text, "would not fit")) return;
    n_warnings++;
    snprintf(warning, sizeof warning, "%s", text);
}

/* y = x + w + s, w and s of `n` floats each. */
static void compile(int64_t n, const ipu_target *target)
{
    ipu_model      *m;
    ipu_executable *exe;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(n), "x");
    ipu_value    w = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(n), NULL, "w");
    ipu_value    s = ipu_model_state(m, IPU_FLOAT, IPU_SHAPE(n), NULL, "s");
    ipu_model_output(m, ipu_add(b, x, ipu_add(b, w, s)), "y");
    assert_int_equal(ipu__model_kept_bytes(m), 2 * n * 4);
    if (ipu_model_compile(m, target, NULL, &exe) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_executable_release(exe);
    ipu_model_destroy(m);
}

static void a_model_larger_than_the_chip_is_told_of_once(void **state)
{
    (void)state;
    ipu_target target;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_target_limit_tiles(&target, 2), IPU_OK);
    int64_t room = 2 * ipu_target_bytes_per_tile(&target);
    ipu_log_set(IPU_LOG_WARN, note, NULL);
    compile(room / 8, &target); /* fits exactly */
    assert_int_equal(n_warnings, 0);
    for (int i = 0; i < 2; i++) compile(room / 8 + 1, &target);
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(warning, "1 IPU of type gc200 has 1.3 MB"));
    ipu_log_set(IPU_LOG_OFF, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_model_larger_than_the_chip_is_told_of_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

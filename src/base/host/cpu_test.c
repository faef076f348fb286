/* CPU features against what the kernel says of the CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/host/cpu.h"

static void features_are_the_same_each_time(void **state)
{
    (void)state;
    unsigned first = ipu__cpu_features();
    assert_int_equal(ipu__cpu_features(), first);
#if defined(__aarch64__)
    assert_int_equal(first, IPU__CPU_NEON);
#endif
}

static void no_feature_but_those_of_the_list(void **state)
{
    (void)state;
    unsigned all = 0;
#define X(name, bit)                         \
    assert_int_equal(all & 1u << (bit), 0u); \
    all |= 1u << (bit);
    IPU__CPU_FEATURE_LIST(X)
#undef X
    assert_int_equal(ipu__cpu_features() & ~all, 0);
}

/* Whether the word is in the first "flags" line of /proc/cpuinfo. -1 if there is no such line. */
static int kernel_says(const char *word)
{
    char  line[8192];
    int   found = -1;
    FILE *file  = fopen("/proc/cpuinfo", "r");
    while (file && found < 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, "flags", 5) != 0) continue;
        found = 0;
        for (char *save, *w = strtok_r(line, " \t\n", &save); w; w = strtok_r(NULL, " \t\n", &save))
            if (strcmp(w, word) == 0) found = 1;
    }
    if (file) fclose(file);
    return found;
}

static void x86_features_agree_with_the_kernel(void **state)
{
    (void)state;
    static const struct {
        unsigned    feature;
        const char *word;
    } pairs[] = {
        {IPU__CPU_AVX2, "avx2"},
        {IPU__CPU_FMA, "fma"},
        {IPU__CPU_F16C, "f16c"},
        {IPU__CPU_AVX512F, "avx512f"},
        {IPU__CPU_AVX512BW, "avx512bw"},
        {IPU__CPU_AVX512VL, "avx512vl"},
        {IPU__CPU_AVX512_BF16, "avx512_bf16"},
    };
    if (kernel_says("fpu") != 1 || getenv("IPU_CPU")) skip(); /* not x86, no /proc, or incomplete */
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        int found = (ipu__cpu_features() & pairs[i].feature) != 0;
        if (found != kernel_says(pairs[i].word)) fail_msg("%s: found %d", pairs[i].word, found);
    }
}

static void levels_leave_less(void **state)
{
    (void)state;
    assert_int_equal(ipu__cpu_limit("generic"), 0);
    assert_int_equal(ipu__cpu_limit("avx2"), IPU__CPU_AVX2 | IPU__CPU_FMA | IPU__CPU_F16C);
    assert_int_equal(ipu__cpu_limit("avx512"), ~0u);
    assert_int_equal(ipu__cpu_limit("native"), ~0u);
    assert_int_equal(ipu__cpu_limit("no such level"), ~0u);
}

/* Under this process's IPU_CPU; scripts/test.sh runs tests with each value. */
static void features_are_within_the_level(void **state)
{
    (void)state;
    const char *level = getenv("IPU_CPU");
    if (!level) skip();
    assert_int_equal(ipu__cpu_features() & ~ipu__cpu_limit(level), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_the_same_each_time),
        cmocka_unit_test(no_feature_but_those_of_the_list),
        cmocka_unit_test(x86_features_agree_with_the_kernel),
        cmocka_unit_test(levels_leave_less),
        cmocka_unit_test(features_are_within_the_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

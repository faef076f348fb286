/* A separate folder for each test: state, home and configuration in it, and nothing from the environment. */
#ifndef IPU_DEVICE_SANDBOX_TEST_H
#define IPU_DEVICE_SANDBOX_TEST_H

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipu/device.h"

static char sandbox[64];

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static inline int leave_sandbox(void **state)
{
    (void)state;
    return nftw(sandbox, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int enter_sandbox(void **state)
{
    static const char *const unset[] = {"IPUOF_CONFIG_PATH",
                                        "IPUOF_VIPU_API_HOST",
                                        "IPUOF_VIPU_API_PARTITION_ID",
                                        "IPU_PARTITION",
                                        "IPU_DEVICE_ID",
                                        "IPU_ELASTIC",
                                        "GCDA_OPTIONS",
                                        "GCDA_SUPPRESS_UTILISATION_MEASUREMENT",
                                        "XDG_RUNTIME_DIR"};
    (void)state;
    char run[80];
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) unsetenv(unset[i]);
    strcpy(sandbox, "/tmp/ipu-device-XXXXXX");
    if (!mkdtemp(sandbox)) return -1;
    snprintf(run, sizeof run, "%s/run", sandbox);
    return setenv("HOME", sandbox, 1) || setenv("IPU_RUNTIME_DIR", run, 1);
}

/* Writes a file in the sandbox; returns its path, borrowed until the next call. */
static inline const char *put_file(const char *name, const char *text)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", sandbox, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fputs(text, f) >= 0, 1);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline void put_config(const char *name, const char *text)
{
    char folder[128], path[192];
    snprintf(folder, sizeof folder, "%s/.ipuof.conf.d", sandbox);
    mkdir(folder, 0755);
    snprintf(path, sizeof path, ".ipuof.conf.d/%s", name);
    put_file(path, text);
}

#define assert_status(call, expected)                                                                  \
    do {                                                                                               \
        ipu_status status_ = (call);                                                                   \
        if (status_ != (expected))                                                                     \
            fail_msg("%s: %s, not %s: %s", #call, ipu_status_text(status_), ipu_status_text(expected), \
                     ipu_message());                                                                   \
    } while (0)

#define assert_message(part)                                                                     \
    do {                                                                                         \
        if (!strstr(ipu_message(), part)) fail_msg("\"%s\" is not in: %s", part, ipu_message()); \
    } while (0)

#define SANDBOXED(test) cmocka_unit_test_setup_teardown(test, enter_sandbox, leave_sandbox)

#endif

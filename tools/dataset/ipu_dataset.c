/* `ipu dataset`: draw digits to train with, describe a dataset, show its pictures on one sheet. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "dataset/show.h"
#include "ipu/dataset.h"
#include "output.h"

static bool read_option(const tool_arguments *args, int option, int64_t least, int64_t most, int64_t *value)
{
    const char *text = args->values[option];
    return !text
        || tool_integer(tool_find_command("dataset")->options[option].name, text, least, most, value);
}

static tool_exit expect_output(const char *action, const char *what)
{
    return tool_usage("dataset", "%s needs --out %s", action, what);
}

/* ---- digits ---- */

/* Rewrites one line of the terminal. */
static bool show_progress(void *user, int64_t done, int64_t total)
{
    const bool *is_terminal = user;
    if (*is_terminal) {
        fprintf(stderr, "\rdrawing: %3d%%", (int)(100 * done / total));
        if (done == total) fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    return true;
}

/* The existing file that is in the way, or NULL. */
static const char *find_old(const char *folder, char *path, size_t size)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    for (int i = 0; i < 8; i++) {
        snprintf(path, size, "%s/%s%s", folder, names[i % 4], i < 4 ? "" : ".gz");
        if (access(path, F_OK) == 0) return path;
    }
    return NULL;
}

static tool_exit draw_digits(const tool_arguments *args)
{
    const char *folder = args->values[DATASET_OUT];
    char        old[4096];
    int64_t     n_train = 60000, n_test = 10000, seed = 0;
    bool        is_terminal = isatty(STDERR_FILENO) && !args->values[DATASET_JSON];
    if (!folder) return expect_output("digits", "DIR");
    if (!read_option(args, DATASET_COUNT, 1, INT32_MAX, &n_train)) return TOOL_USAGE;
    if (args->values[DATASET_COUNT]) n_test = n_train < 6 ? 1 : n_train / 6;
    if (!read_option(args, DATASET_TEST_COUNT, 1, INT32_MAX, &n_test)) return TOOL_USAGE;
    if (!read_option(args, DATASET_SEED, 0, UINT32_MAX, &seed)) return TOOL_USAGE;
    if (!args->values[DATASET_FORCE] && find_old(folder, old, sizeof old))
        return tool_fail("there is a dataset already: %s; --force replaces it", old);
    const ipu_digits_options options = {.n_train = n_train, .n_test = n_test, .seed = (uint32_t)seed};
    if (ipu_digits_write(folder, &options, show_progress, &is_terminal) != IPU_OK)
        return tool_fail("%s", ipu_message());
    if (args->values[DATASET_JSON])
        return tool_print_json(stdout, json_pack("{s:o, s:I, s:I, s:I}", "folder", tool_json_text(folder),
                                                 "train", (json_int_t)n_train, "test", (json_int_t)n_test,
                                                 "seed", (json_int_t)seed));
    printf("%s: %" PRId64 " digits to train and %" PRId64 " to test with (seed %" PRId64 ")\n", folder,
           n_train, n_test, seed);
    return TOOL_OK;
}

/* ---- draw ---- */

static tool_exit draw_one(const tool_arguments *args)
{
    const char *path  = args->values[DATASET_OUT];
    int64_t     index = 0, seed = 0, size = 200;
    int         label;
    ipu_array   picture;
    if (!path) return expect_output("draw", "FILE.png");
    if (!tool_integer("NUMBER", args->operands[1], 0, INT64_MAX, &index)) return TOOL_USAGE;
    if (!read_option(args, DATASET_SEED, 0, UINT32_MAX, &seed)) return TOOL_USAGE;
    if (!read_option(args, DATASET_SIZE, 28, 4096, &size)) return TOOL_USAGE;
    ipu_status status = ipu_digits_picture((uint32_t)seed, index, size, &label, &picture);
    if (status == IPU_OK) status = ipu_png_write(path, &picture);
    ipu_array_free(&picture);
    if (status != IPU_OK) return tool_fail("%s", ipu_message());
    if (args->values[DATASET_JSON])
        return tool_print_json(stdout, json_pack("{s:o, s:i}", "file", tool_json_text(path), "digit", label));
    printf("%s: a %d\n", path, label);
    return TOOL_OK;
}

/* ---- show, sheet ---- */

static tool_exit show(const tool_arguments *args)
{
    return dataset_show(args->operands[1], args->values[DATASET_JSON]);
}

static tool_exit sheet(const tool_arguments *args)
{
    const char      *path  = args->values[DATASET_OUT];
    int64_t          count = 300;
    ipu_dataset_part part  = args->values[DATASET_TEST] ? IPU_TEST : IPU_TRAIN;
    if (!path) return expect_output("sheet", "FILE.png");
    if (!read_option(args, DATASET_COUNT, 1, 100000, &count)) return TOOL_USAGE;
    return dataset_sheet(args->operands[1], part, count, path);
}

/* ---- the command ---- */

typedef struct action {
    const char *name, *operand; /* NULL if it takes none */
    bool        options[N_OPTIONS_dataset];
    tool_exit (*run)(const tool_arguments *args);
} action;

static const action actions[] = {
    {"digits",
     NULL,
     {[DATASET_OUT]        = true,
      [DATASET_COUNT]      = true,
      [DATASET_TEST_COUNT] = true,
      [DATASET_SEED]       = true,
      [DATASET_FORCE]      = true,
      [DATASET_JSON]       = true},
     draw_digits},
    {"show", "PATH", {[DATASET_JSON] = true}, show},
    {"sheet", "PATH", {[DATASET_OUT] = true, [DATASET_COUNT] = true, [DATASET_TEST] = true}, sheet},
    {"draw",
     "NUMBER",
     {[DATASET_OUT] = true, [DATASET_SEED] = true, [DATASET_SIZE] = true, [DATASET_JSON] = true},
     draw_one},
};

tool_exit run_dataset(const tool_arguments *args)
{
    const tool_option *options = tool_find_command("dataset")->options;
    tool_must_finish();
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        const action *a = &actions[i];
        int           n = a->operand ? 2 : 1;
        if (strcmp(a->name, args->operands[0]) != 0) continue;
        if (args->n_operands < n) return tool_usage("dataset", "expected %s %s", a->name, a->operand);
        if (args->n_operands > n) return tool_usage("dataset", "unexpected \"%s\"", args->operands[n]);
        for (int o = 0; o < N_OPTIONS_dataset; o++)
            if (args->values[o] && !a->options[o])
                return tool_usage("dataset", "option --%s does not go with %s", options[o].name, a->name);
        return a->run(args);
    }
    return tool_usage("dataset", "expected digits, show, sheet or draw, found \"%s\"", args->operands[0]);
}

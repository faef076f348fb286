/* For tests of passes: a model as text, and what passes must make of it. */
#ifndef IPU_MODEL_EXPECT_TEST_H
#define IPU_MODEL_EXPECT_TEST_H

#include <string.h>

#include "engine/engine.h"
#include "ipu/text.h"
#include "model/model.h"

static inline ipu_model *parsed(const char *inside)
{
    ipu__text  text = {0};
    ipu_model *m;
    ipu__text_add(&text, "model {\n%s}\n", inside);
    if (ipu_model_parse(text.at, text.n, "before", NULL, &m) != IPU_OK) fail_msg("%s", ipu_message());
    ipu__text_fini(&text);
    return m;
}

/* The printed model after the passes for that engine; `inside` is what stands between its braces. Owned:
 * ipu_free. */
static inline char *optimised_text_for(const ipu__engine_def *engine, unsigned passes, const char *inside)
{
    ipu_model *m = parsed(inside);
    char      *printed;
    if (ipu__model_optimise_for(m, passes, engine) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu__model_verify(m) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_model_print(m, 0, NULL, &printed) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_model_destroy(m);
    return printed;
}

static inline char *optimised_text(unsigned passes, const char *inside)
{
    return optimised_text_for(&ipu__cpu_engine, passes, inside);
}

/* The result must be `after`, between the braces. */
static inline void expect(unsigned passes, const char *inside, const char *after)
{
    ipu__text text    = {0};
    char     *printed = optimised_text(passes, inside);
    ipu__text_add(&text, "model {\n%s}\n", after);
    assert_string_equal(printed, text.at);
    ipu__text_fini(&text);
    ipu_free(printed);
}

/* The result must contain `part`, or must not. */
static inline void expect_part(unsigned passes, const char *inside, const char *part, bool is_there)
{
    char *printed = optimised_text(passes, inside);
    if ((strstr(printed, part) != NULL) != is_there)
        fail_msg("\"%s\" %s in\n%s", part, is_there ? "is not" : "is", printed);
    ipu_free(printed);
}

#endif

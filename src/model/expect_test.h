/* For tests of passes: a model as text, and what it must be after some of them. */
#ifndef IPU_MODEL_EXPECT_TEST_H
#define IPU_MODEL_EXPECT_TEST_H

#include "ipu/text.h"
#include "model/model.h"

/* `inside` is what stands between the braces of the model. */
static void expect(unsigned passes, const char *inside, const char *after)
{
    ipu__text  text = {0};
    ipu_model *m;
    char      *printed;
    ipu__text_add(&text, "model {\n%s}\n", inside);
    if (ipu_model_parse(text.at, text.n, "before", NULL, &m) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_model_optimise(m, passes) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu__model_verify(m) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_model_print(m, 0, NULL, &printed) != IPU_OK) fail_msg("%s", ipu_message());
    text.n = 0;
    ipu__text_add(&text, "model {\n%s}\n", after);
    assert_string_equal(printed, text.at);
    ipu__text_fini(&text);
    ipu_free(printed);
    ipu_model_destroy(m);
}

#endif

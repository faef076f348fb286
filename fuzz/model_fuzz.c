/* Models as text from anyone: parsing gives a model or an error; a model prints to a text that parses to one that
 * prints the same, and so it does after the passes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipu/model.h"
#include "ipu/text.h"
#include "words.h"

static void stop(const char *why, const char *a, const char *b)
{
    fprintf(stderr, "%s: %s\n--- first\n%s\n--- second\n%s\n", why, ipu_message(), a, b);
    abort();
}

static void round_trip(ipu_model *m, unsigned flags)
{
    char      *text, *again;
    ipu_model *second;
    if (ipu_model_print(m, flags, NULL, &text) != IPU_OK) return;
    if (ipu_model_parse(text, strlen(text), "printed", NULL, &second) != IPU_OK)
        stop("what was printed does not parse", text, "");
    if (ipu_model_print(second, flags, NULL, &again) != IPU_OK)
        stop("what was printed and parsed does not print", text, "");
    if (strcmp(text, again) != 0) stop("printed differently the second time", text, again);
    ipu_model_destroy(second);
    ipu_free(text);
    ipu_free(again);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes)
{
    ipu_model *m;
    if (ipu_model_parse((const char *)data, bytes, "fuzz", NULL, &m) != IPU_OK) {
        if (!*ipu_message()) stop("an error without a message", "", "");
        return 0;
    }
    round_trip(m, 0);
    round_trip(m, IPU_PRINT_LOCATIONS);
    if (ipu_model_optimise(m, IPU_PASS_ALL) != IPU_OK) stop("the passes fail", "", "");
    round_trip(m, 0);
    ipu_model_destroy(m);
    return 0;
}

static const char *const words[] = {"0",
                                    "1",
                                    "-1",
                                    "3",
                                    "0.5",
                                    "1000000007",
                                    "inf",
                                    "none",
                                    "x",
                                    "y",
                                    "x~1",
                                    "\"f\"",
                                    "{",
                                    "}",
                                    "(",
                                    ")",
                                    "[",
                                    "]",
                                    ",",
                                    ";",
                                    "=",
                                    "->",
                                    " at \"f\":1 ",
                                    "float",
                                    "half",
                                    "int32",
                                    "bool",
                                    "double",
                                    "[2,3]",
                                    "[3,2]",
                                    "[0]",
                                    "[1]",
                                    "input v float[2,3];",
                                    "input q bool;",
                                    "parameter p float[3];",
                                    "state s int32 = {1};",
                                    "= uniform(0.0, 1.0)",
                                    "= normal(0.0, 1.0) key 3",
                                    "= fill(0.5)",
                                    "constant k float[2] = {1, 2};",
                                    "a = add(x, y);",
                                    "b = mul(x, x);",
                                    "c = relu(x);",
                                    "d = neg(x);",
                                    "e = transpose(x) perm=[1,0];",
                                    "g = reshape(x) shape=[6];",
                                    "h = matmul(x, y) transpose_b=1;",
                                    "i = reduce_sum(x) axes=[0] keep_dims=1;",
                                    "j = cast(x) to=half;",
                                    "l = where(q, x, y);",
                                    "n = slice(x) begin=[0] end=[1] axes=[0];",
                                    "o = concat(x, y) axis=0;",
                                    "r = fill() value=1 shape=[2];",
                                    "axis=1",
                                    "recompute 2",
                                    "if q {",
                                    "} else {",
                                    "yield x;",
                                    "yield x while q;",
                                    "loop 3 (c = x) index i {",
                                    "} -> z;",
                                    "output o = x;",
                                    "stage \"f\";",
                                    "stage none;",
                                    "backward",
                                    "update p = x;"};

size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t bytes, size_t max_bytes, unsigned seed)
{
    return mutate_words(data, bytes, max_bytes, seed, words, sizeof words / sizeof *words);
}

/* Texts from anyone: parsing gives a graph or an error, and a graph prints to a text that parses to one that
 * prints the same. Codelets with bodies are known by name, as in a real program. Texts are mutated word by
 * word as well as byte by byte, so that more of them get past the grammar. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipu/graph.h"
#include "ipu/text.h"
#include "words.h"

#define KNOWN(F) F(IN, float, x) F(OUT_VECTOR, float, y) F(STATE, int, n) F(STATE_VECTOR, ipu_half, table)
IPU_VERTEX(Known, KNOWN)
{
    (void)v;
    return true;
}

static void stop(const char *why, const char *a, const char *b)
{
    fprintf(stderr, "%s: %s\n--- first\n%s\n--- second\n%s\n", why, ipu_message(), a, b);
    abort();
}

static void round_trip(const ipu_parsed *first, unsigned flags)
{
    static const ipu_codelet *const known[] = {&Known};
    char                           *text, *again;
    ipu_parsed                      second;
    if (ipu_graph_print(first->graph, first->programs, first->n_programs, flags, NULL, &text) != IPU_OK)
        return;
    if (ipu_graph_parse(text, strlen(text), "printed", known, 1, NULL, &second) != IPU_OK)
        stop("what was printed does not parse", text, "");
    if (ipu_graph_print(second.graph, second.programs, second.n_programs, flags, NULL, &again) != IPU_OK)
        stop("what was printed and parsed does not print", text, "");
    if (strcmp(text, again) != 0) stop("printed differently the second time", text, again);
    ipu_graph_destroy(second.graph);
    ipu_free(text);
    ipu_free(again);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes)
{
    static const ipu_codelet *const known[] = {&Known};
    ipu_parsed                      parsed;
    if (ipu_graph_parse((const char *)data, bytes, "fuzz", known, 1, NULL, &parsed) != IPU_OK) {
        if (!*ipu_message()) stop("an error without a message", "", "");
        return 0;
    }
    round_trip(&parsed, 0);
    round_trip(&parsed, IPU_PRINT_LOCATIONS);
    ipu_graph_destroy(parsed.graph);
    return 0;
}

static const char *const words[] = {"0",
                                    "1",
                                    "-1",
                                    "2",
                                    "8",
                                    "64",
                                    "4294967296",
                                    "140737488355328",
                                    "9223372036854775807",
                                    "0.5",
                                    "inf",
                                    "nan:0x7fc00001",
                                    "true",
                                    "x",
                                    "y",
                                    "~1",
                                    "x~2",
                                    "\"h\"",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    "{}",
                                    ",",
                                    ";",
                                    ":",
                                    "->",
                                    "..",
                                    "*",
                                    "=",
                                    " at \"f\":1 ",
                                    "var v float[4];",
                                    "var w int32;",
                                    "const k half[2] = {1, 2};",
                                    "on 0",
                                    "on { 0: 0..1 }",
                                    "as uint32",
                                    "{x[0:2]}[2]",
                                    "{x[0: 2*0, 2*1]}[4]",
                                    "{}[0] as float",
                                    "copy x -> y;",
                                    "write_undef x;",
                                    "repeat 2 {",
                                    "if b {",
                                    "else {",
                                    "switch n {",
                                    "case 1 {",
                                    "default {",
                                    "while_true {",
                                    "parallel {",
                                    "body {",
                                    "sequence {",
                                    "function f {",
                                    "program {",
                                    "compute_set c {",
                                    "vertex Known {",
                                    "codelet Known;",
                                    "execute c;",
                                    "call f;",
                                    "kernel fill (x) { value = 1 };",
                                    "sync global;",
                                    "float",
                                    "bool",
                                    "half",
                                    "uint32",
                                    "double",
                                    "int64",
                                    "multi",
                                    "vectors",
                                    "state",
                                    "print x;",
                                    "error \"e\" x;"};

size_t LLVMFuzzerCustomMutator(unsigned char *data, size_t bytes, size_t max_bytes, unsigned seed)
{
    return mutate_words(data, bytes, max_bytes, seed, words, sizeof words / sizeof *words);
}

/* Names and single values as text, and back: what the printer and the parser must agree on. */
#ifndef IPU_GRAPH_TEXT_LITERAL_H
#define IPU_GRAPH_TEXT_LITERAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "ipu/type.h"

/* A word of the text form that can stand for itself: letters, digits, _ . / and no digit, . or / in
 * front; not one of the words that are values (inf, nan, true, false). */
bool ipu__is_word(const char *name);
/* As a word if it is one, else quoted. */
void ipu__name_print(ipu__text *out, const char *name);

/* Floats as the shortest decimal that reads back to the same bits. */
void ipu__literal_print(ipu__text *out, ipu_type type, const void *value);
/* The same, but never mistaken for an integer: 1 is 1.0. */
void ipu__float_print(ipu__text *out, double value);

/* Reads the value of `n` characters at `text`, which are followed by something that is no part of
 * a number. Returns NULL, or what would have been right: "an int8, from -128 to 127". */
const char *ipu__literal_parse(ipu_type type, const char *text, size_t n, void *out);

#endif

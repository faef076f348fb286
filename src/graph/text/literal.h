/* Names and single values as text, and back: where printer and parser must agree. */
#ifndef IPU_GRAPH_TEXT_LITERAL_H
#define IPU_GRAPH_TEXT_LITERAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "ipu/type.h"

/* Whether a name can stand unquoted in the text form: letters, digits, _ . / without a digit, . or / in
 * front, and not one of the words that are values (inf, nan, true, false). */
bool ipu__is_word(const char *name);
/* As a word if possible, else quoted. */
void ipu__name_print(ipu__text *out, const char *name);

/* Floats as the shortest decimal that reads back to the same bits. */
void ipu__literal_print(ipu__text *out, ipu_type type, const void *value);
/* The same, but never like an integer: 1 is printed as 1.0. */
void ipu__float_print(ipu__text *out, double value);

/* Reads the value of `n` characters at `text`, followed by something that cannot belong to a number.
 * Returns NULL, or what was expected: "an int8, from -128 to 127". */
const char *ipu__literal_parse(ipu_type type, const char *text, size_t n, void *out);

#endif

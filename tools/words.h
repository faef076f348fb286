/* A growing command line: the arguments of a program to start.
 *
 *     words w = {0};
 *     words_add_two(&w, "docker", "run");
 *     if (!w.failed) execvp(w.at[0], w.at);
 *     words_free(&w);
 */
#ifndef TOOLS_WORDS_H
#define TOOLS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct words {
    char **at; /* array and words owned; NULL-terminated */
    size_t n, room;
    bool   failed; /* out of memory: words are missing */
} words;

/* Adds copies of the text. */
void words_add(words *w, const char *text);
void words_add_two(words *w, const char *a, const char *b);
void words_add_format(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void words_free(words *w);

/* Prints the words on one line (unless they contain newlines), quoted so that a shell reads the same
 * words. */
void words_print(const words *w, FILE *out);

#endif

/* Progress of training: one line that is rewritten on a terminal, plain lines elsewhere. */
#ifndef TOOLS_TRAIN_PROGRESS_H
#define TOOLS_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct progress {
    FILE  *out;
    bool   live;  /* `out` is a terminal that can rewrite its line */
    bool   drawn; /* there is a line for the next one to replace */
    double shown; /* time of the last output, in seconds; 0 if never */
    int    compiled;
    char   what[64]; /* of the state last drawn */
} progress;

typedef struct progress_state {
    const char *what; /* "epoch 2/5", "evaluating" */
    int64_t     done, total;
    double      loss, accuracy;    /* NaN if unknown */
    double      images_per_second; /* 0 if unknown */
    double      seconds_left;      /* below 0 if unknown */
} progress_state;

/* Monotonic time in seconds. */
double progress_now(void);

void progress_open(progress *p, FILE *out);
/* Shows the state, at a rate suited to the eye (a terminal) or a log; on a terminal immediately if `what`
 * changes. */
void progress_show(progress *p, const progress_state *s);
/* "Graph compilation: 20/100": progress of a compilation (ipu_progress_fn's `done` and `total`). */
void progress_compiling(progress *p, int done, int total);
/* Prints a line that stays. */
void progress_line(progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Erases the line that would be replaced. */
void progress_clear(progress *p);

/* "0:07", "12:05", "3:04:05" */
void progress_clock(double seconds, char *out, size_t size);

#endif

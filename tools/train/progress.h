/* How far a training has come: one line that is rewritten on a terminal, plain lines elsewhere. */
#ifndef TOOLS_TRAIN_PROGRESS_H
#define TOOLS_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct progress {
    FILE  *out;
    bool   live;  /* `out` is a terminal that can rewrite its line */
    bool   drawn; /* there is a line that the next one replaces */
    double shown; /* when something was written last, in seconds; 0: never */
    int    compiled;
    char   what[64]; /* of the state that was drawn last */
} progress;

typedef struct progress_state {
    const char *what; /* "epoch 2/5", "evaluating" */
    int64_t     done, total;
    double      loss, accuracy;    /* NaN: not known */
    double      images_per_second; /* 0: not known */
    double      seconds_left;      /* below 0: not known */
} progress_state;

/* Seconds since some moment, never going back. */
double progress_now(void);

void progress_open(progress *p, FILE *out);
/* Shows it, but no more often than the eye (a terminal) or a log can follow; on a terminal at once if `what` changes. */
void progress_show(progress *p, const progress_state *s);
/* "Graph compilation: 20/100": as a compilation proceeds (ipu_progress_fn's `done` and `total`). */
void progress_compiling(progress *p, int done, int total);
/* A line that stays. */
void progress_line(progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes away what would be replaced. */
void progress_clear(progress *p);

/* "0:07", "12:05", "3:04:05" */
void progress_clock(double seconds, char *out, size_t size);

#endif

/* Curves as a picture: a self-contained SVG file. */
#ifndef TOOLS_PLOT_H
#define TOOLS_PLOT_H

#include <stddef.h>

#include "command.h"

typedef struct plot_line {
    const char   *name;
    const double *x, *y; /* non-finite points are left out */
    size_t        n;
    bool          points; /* with a mark at each point */
    bool          faint;  /* drawn thin and behind the others, for secondary curves */
} plot_line;

typedef struct plot {
    const char      *title, *x_label, *y_label;
    const plot_line *lines;
    size_t           n;
} plot;

/* Replaces the file atomically. The y axis starts at 0 if all values are positive. */
tool_exit plot_write(const plot *p, const char *path);

#endif

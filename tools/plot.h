/* Curves as a picture: an SVG file that needs nothing else. */
#ifndef TOOLS_PLOT_H
#define TOOLS_PLOT_H

#include <stddef.h>

#include "command.h"

typedef struct plot_line {
    const char   *name;
    const double *x, *y; /* points that are not finite are left out */
    size_t        n;
    bool          points; /* with a mark at each point */
    bool          faint;  /* drawn thin, behind the others: what one need not look at */
} plot_line;

typedef struct plot {
    const char      *title, *x_label, *y_label;
    const plot_line *lines;
    size_t           n;
} plot;

/* Replaces the file at one stroke. The y axis begins at 0 if all is above it. */
tool_exit plot_write(const plot *p, const char *path);

#endif

/* Line charts in SVG. Colours are classes of a style sheet in the file, which has one set each for light and
 * dark backgrounds (prefers-color-scheme); they remain distinct to the red-green colour-blind. */
#include "plot.h"

#include <math.h>
#include <stdio.h>

#include "output.h"

enum { WIDTH = 800, HEIGHT = 480, LEFT = 76, RIGHT = 24, TOP = 56, BOTTOM = 60, N_COLOURS = 4, TICKS = 6 };

/* Okabe and Ito's palette (blue, vermilion, green, purple), lightened on dark. */
static const char style[] =
    "svg{background:#fff;font-family:system-ui,sans-serif;font-size:13px}"
    "text{fill:#333}.title{font-size:17px;font-weight:600;fill:#111}"
    ".grid{stroke:#e4e4e4}.axis{stroke:#888}.line{fill:none;stroke-width:2;stroke-linejoin:round}"
    ".faint{stroke-width:1;opacity:.45}"
    ".s0{stroke:#0072b2}.s1{stroke:#d55e00}.s2{stroke:#009e73}.s3{stroke:#a8548a}"
    ".f0{fill:#0072b2}.f1{fill:#d55e00}.f2{fill:#009e73}.f3{fill:#a8548a}"
    "@media(prefers-color-scheme:dark){svg{background:#16181d}text{fill:#c8ccd4}.title{fill:#f2f4f8}"
    ".grid{stroke:#2c3038}.axis{stroke:#7a808c}"
    ".s0{stroke:#56b4e9}.s1{stroke:#ff9a4d}.s2{stroke:#3fd1a4}.s3{stroke:#e39acb}"
    ".f0{fill:#56b4e9}.f1{fill:#ff9a4d}.f2{fill:#3fd1a4}.f3{fill:#e39acb}}";

typedef struct axis {
    double least, most, step; /* ticks at multiples of `step` */
    double from, to;          /* where least and most are drawn */
} axis;

static double place(const axis *a, double value)
{
    return a->from + (value - a->least) / (a->most - a->least) * (a->to - a->from);
}

/* 1, 2 or 5 times a power of ten, so that there are about TICKS of them. */
static double nice_step(double range)
{
    double rough = range / TICKS, power = pow(10, floor(log10(rough))), lead = rough / power;
    if (lead <= 1) return power;
    if (lead <= 2) return 2 * power;
    return lead <= 5 ? 5 * power : 10 * power;
}

static axis make_axis(double least, double most, bool from_zero, double from, double to)
{
    if (from_zero && least > 0) least = 0;
    if (!(most > least)) most = least + (least == 0 ? 1 : fabs(least));
    double step = nice_step(most - least);
    return (axis){floor(least / step) * step, ceil(most / step - 1e-9) * step, step, from, to};
}

static bool shown(const plot_line *l, size_t i) { return isfinite(l->x[i]) && isfinite(l->y[i]); }

static void find_axes(const plot *p, axis *x, axis *y)
{
    double x_least = INFINITY, x_most = -INFINITY, y_least = INFINITY, y_most = -INFINITY;
    for (size_t k = 0; k < p->n; k++)
        for (size_t i = 0; i < p->lines[k].n; i++) {
            if (!shown(&p->lines[k], i)) continue;
            x_least = fmin(x_least, p->lines[k].x[i]);
            x_most  = fmax(x_most, p->lines[k].x[i]);
            y_least = fmin(y_least, p->lines[k].y[i]);
            y_most  = fmax(y_most, p->lines[k].y[i]);
        }
    if (x_least > x_most) x_least = y_least = 0, x_most = y_most = 1;
    *x      = make_axis(x_least, x_most, true, LEFT, WIDTH - RIGHT);
    *y      = make_axis(y_least, y_most, true, HEIGHT - BOTTOM, TOP);
    x->most = fmax(x_most, x->least + x->step); /* the curve ends at the frame, whether or not on a tick */
}

static void put_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '<')
            fputs("&lt;", out);
        else if (c == '&')
            fputs("&amp;", out);
        else
            fputc(c < ' ' || c > '~' ? '?' : c, out);
    }
}

static void put_label(FILE *out, double x, double y, const char *attributes, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"%s%s>", x, y, *attributes ? " " : "", attributes);
    put_text(out, text);
    fputs("</text>\n", out);
}

/* The tick nearest to zero is exactly zero. */
static double tick(const axis *a, int i) { return (round(a->least / a->step) + i) * a->step; }

static void put_grid(FILE *out, const axis *x, const axis *y)
{
    char text[32];
    for (int i = 0; tick(y, i) <= y->most + y->step * 1e-6; i++) {
        double at = place(y, tick(y, i));
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", x->from, at, x->to);
        snprintf(text, sizeof text, "%.6g", tick(y, i));
        put_label(out, x->from - 8, at + 4, "text-anchor=\"end\"", text);
    }
    for (int i = 0; tick(x, i) <= x->most + x->step * 1e-6; i++) {
        double at = place(x, tick(x, i));
        fprintf(out, "<path class=\"axis\" d=\"M%.1f %.1fv5\"/>\n", at, y->from);
        snprintf(text, sizeof text, "%.6g", tick(x, i));
        put_label(out, at, y->from + 20, "text-anchor=\"middle\"", text);
    }
    fprintf(out, "<path class=\"axis\" fill=\"none\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", x->from, y->to, y->from,
            x->to);
}

static void put_line(FILE *out, const plot_line *l, size_t k, const axis *x, const axis *y)
{
    bool begun = false;
    for (size_t i = 0; i < l->n; i++) {
        if (!shown(l, i)) continue;
        if (!begun)
            fprintf(out, "<path class=\"line s%zu%s\" d=\"M", k % N_COLOURS, l->faint ? " faint" : "");
        fprintf(out, "%s%.1f %.1f", begun ? "L" : "", place(x, l->x[i]), place(y, l->y[i]));
        begun = true;
    }
    if (begun) fputs("\"/>\n", out);
    for (size_t i = 0; l->points && i < l->n; i++)
        if (shown(l, i))
            fprintf(out, "<circle class=\"f%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", k % N_COLOURS,
                    place(x, l->x[i]), place(y, l->y[i]));
}

static void put_legend(FILE *out, const plot *p)
{
    enum { ROW = 20, INSET = 180 };
    for (size_t k = 0; k < p->n; k++) {
        double at = TOP + 16 + ROW * (double)k;
        fprintf(out, "<path class=\"line s%zu\" d=\"M%d %.1fh26\"/>\n", k % N_COLOURS, WIDTH - RIGHT - INSET,
                at);
        put_label(out, WIDTH - RIGHT - INSET + 34, at + 4, "", p->lines[k].name);
    }
}

tool_exit plot_write(const plot *p, const char *path)
{
    axis        x, y;
    tool_output out;
    tool_exit   code = tool_open(&out, path);
    if (code != TOOL_OK) return code;
    find_axes(p, &x, &y);
    fprintf(out.file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "role=\"img\">\n<title>",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_text(out.file, p->title);
    fprintf(out.file, "</title>\n<style>%s</style>\n", style);
    put_label(out.file, LEFT, 32, "class=\"title\"", p->title);
    put_grid(out.file, &x, &y);
    for (size_t k = 0; k < p->n; k++)
        if (p->lines[k].faint) put_line(out.file, &p->lines[k], k, &x, &y);
    for (size_t k = 0; k < p->n; k++)
        if (!p->lines[k].faint) put_line(out.file, &p->lines[k], k, &x, &y);
    put_legend(out.file, p);
    put_label(out.file, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 16, "text-anchor=\"middle\"", p->x_label);
    fprintf(out.file, "<g transform=\"translate(20 %.1f) rotate(-90)\">\n", (TOP + HEIGHT - BOTTOM) / 2.0);
    put_label(out.file, 0, 0, "text-anchor=\"middle\"", p->y_label);
    fputs("</g>\n</svg>\n", out.file);
    return tool_close(&out, TOOL_OK);
}

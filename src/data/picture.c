/* Converts pictures of digits to what networks trained on MNIST expect. In order: to grey, separating ink
 * from paper, removing specks, thickening thin lines, scaling the figure into its box and placing it by its
 * centre of mass. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/array.h"
#include "ipu/dataset.h"

/* MNIST's frame; its figures have their centre of mass in pixel 14 (see digits_draw.c). */
enum { SIZE = 28, BOX = 20, MIDDLE = 14 };

enum {
    WORK_SIDE  = 512, /* larger pictures are first reduced */
    LEAST_SPAN = 24,  /* grey levels between paper and ink: below that it is a blank sheet */
    LEAST_INK  = 26,  /* of 255: anything less is paper */
    SPECK_PART = 25,  /* a piece with less than 1/25 of the ink of the largest is a speck */
    THIN_PERCENT =
        8, /* lines thinner than this part of the figure's longer side become LINE_PERCENT: MNIST's have
                         * 2.5 pixels of 20 on average */
    LINE_PERCENT = 11,
};

typedef struct sheet {
    uint8_t *at;
    int      width, height;
} sheet;

static bool make_sheet(int width, int height, sheet *out)
{
    *out = (sheet){ipu__alloc_zeroed((size_t)width * (size_t)height), width, height};
    return out->at;
}

static void free_sheet(sheet *s)
{
    ipu__free(s->at);
    *s = (sheet){0};
}

/* ---- grey ---- */

static ipu_status check_picture(const ipu_array *a, int *n_channels)
{
    const ipu_shape *s = &a->shape;
    *n_channels        = s->rank == 3 ? (int)s->dim[2] : 1;
    if (a->data && a->type == IPU_UINT8 && (s->rank == 2 || s->rank == 3) && s->dim[0] > 0 && s->dim[1] > 0
        && s->dim[0] <= INT16_MAX * 4 && s->dim[1] <= INT16_MAX * 4 && (*n_channels == 1 || *n_channels == 3))
        return IPU_OK;
    char text[256];
    ipu_shape_text(s, text, sizeof text);
    return ipu__fail(IPU_INVALID,
                     "a picture that is %s%s: expected uint8[height,width] or uint8[height,width,1 or 3]",
                     a->data ? ipu_type_name(a->type) : "empty ", text);
}

/* The weights of red, green and blue are those of ITU-R BT.601. */
static int grey_at(const uint8_t *p, int n_channels)
{
    return n_channels == 1 ? *p : (299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000;
}

/* Each pixel is the mean of `step` x `step` ones. */
static ipu_status make_grey(const ipu_array *a, int n_channels, sheet *out)
{
    const int      width = (int)a->shape.dim[1], height = (int)a->shape.dim[0];
    const int      longer = width > height ? width : height, step = (longer + WORK_SIDE - 1) / WORK_SIDE;
    const uint8_t *from = a->data;
    if (!make_sheet((width + step - 1) / step, (height + step - 1) / step, out)) return ipu__fail_memory();
    for (int y = 0; y < out->height; y++)
        for (int x = 0; x < out->width; x++) {
            int64_t sum = 0, n = 0;
            for (int v = y * step; v < (y + 1) * step && v < height; v++)
                for (int u = x * step; u < (x + 1) * step && u < width; u++, n++)
                    sum += grey_at(from + ((int64_t)v * width + u) * n_channels, n_channels);
            out->at[y * out->width + x] = (uint8_t)((sum + n / 2) / (n ? n : 1));
        }
    return IPU_OK;
}

/* ---- ink and paper ---- */

typedef struct paper {
    int  level; /* the median of the border */
    int  noise; /* maximum deviation of nine tenths of the border */
    int  span;  /* from paper to the level farthest from it */
    bool is_light;
} paper;

static void count_border(const sheet *s, int counts[256])
{
    memset(counts, 0, 256 * sizeof *counts);
    for (int y = 0; y < s->height; y++)
        for (int x = 0; x < s->width; x++)
            if (y == 0 || x == 0 || y == s->height - 1 || x == s->width - 1)
                counts[s->at[y * s->width + x]]++;
}

static paper find_paper(const sheet *s)
{
    int counts[256], n = 0, seen = 0, least = 255, most = 0;
    count_border(s, counts);
    for (int i = 0; i < 256; i++) n += counts[i];
    paper p = {0};
    while ((seen += counts[p.level]) * 2 < n) p.level++;
    seen = counts[p.level];
    while (seen * 10 < n * 9) {
        p.noise++;
        if (p.level - p.noise >= 0) seen += counts[p.level - p.noise];
        if (p.level + p.noise <= 255) seen += counts[p.level + p.noise];
    }
    for (int i = 0; i < s->width * s->height; i++) {
        if (s->at[i] < least) least = s->at[i];
        if (s->at[i] > most) most = s->at[i];
    }
    p.is_light = p.level - least > most - p.level;
    p.span     = p.is_light ? p.level - least : most - p.level;
    return p;
}

/* Grey becomes ink, 0 to 255. */
static void keep_ink(sheet *s, const paper *p)
{
    int least = 2 * p->noise * 255 / p->span;
    if (least < LEAST_INK) least = LEAST_INK;
    if (least > 128) least = 128;
    for (int i = 0; i < s->width * s->height; i++) {
        int ink  = (p->is_light ? p->level - s->at[i] : s->at[i] - p->level) * 255 / p->span;
        s->at[i] = (uint8_t)(ink < least ? 0 : ink);
    }
}

/* ---- pieces ---- */

/* Connected pieces of ink, numbered from 1. */
typedef struct pieces {
    int32_t *of;    /* by pixel; 0 is paper */
    int32_t *stack; /* pixels still to visit */
    int64_t *ink;   /* by piece */
    int      n;
} pieces;

static void fill_piece(const sheet *s, pieces *p, int at)
{
    int n          = 0;
    p->ink[++p->n] = 0;
    p->of[at]      = p->n;
    p->stack[n++]  = at;
    while (n) {
        int i = p->stack[--n], x = i % s->width, y = i / s->width;
        p->ink[p->n] += s->at[i];
        for (int v = y - 1; v <= y + 1; v++)
            for (int u = x - 1; u <= x + 1; u++) {
                int k = v * s->width + u;
                if (u < 0 || v < 0 || u >= s->width || v >= s->height || !s->at[k] || p->of[k]) continue;
                p->of[k]      = p->n;
                p->stack[n++] = k;
            }
    }
}

static ipu_status remove_specks(sheet *s)
{
    size_t  n    = (size_t)s->width * (size_t)s->height;
    int64_t most = 0;
    pieces  p    = {.of    = ipu__alloc_zeroed(n * sizeof *p.of),
                    .stack = ipu__alloc(n * sizeof *p.stack),
                    .ink   = ipu__alloc((n + 1) * sizeof *p.ink)};
    bool    made = p.of && p.stack && p.ink;
    for (size_t i = 0; made && i < n; i++)
        if (s->at[i] && !p.of[i]) fill_piece(s, &p, (int)i);
    for (int k = 1; made && k <= p.n; k++)
        if (p.ink[k] > most) most = p.ink[k];
    for (size_t i = 0; made && i < n; i++)
        if (p.of[i] && p.ink[p.of[i]] < most / SPECK_PART) s->at[i] = 0;
    ipu__free(p.of);
    ipu__free(p.stack);
    ipu__free(p.ink);
    return made ? IPU_OK : ipu__fail_memory();
}

/* ---- the figure ---- */

/* Keeps only the figure, with a `margin` of paper around it. */
static ipu_status cut_out(sheet *s, int margin)
{
    int   left = s->width, right = 0, top = s->height, bottom = 0;
    sheet out;
    for (int y = 0; y < s->height; y++)
        for (int x = 0; x < s->width; x++) {
            if (!s->at[y * s->width + x]) continue;
            if (x < left) left = x;
            if (x >= right) right = x + 1;
            if (y < top) top = y;
            bottom = y + 1;
        }
    if (!make_sheet(right - left + 2 * margin, bottom - top + 2 * margin, &out)) return ipu__fail_memory();
    for (int y = top; y < bottom; y++)
        memcpy(out.at + (y - top + margin) * out.width + margin, s->at + y * s->width + left,
               (size_t)(right - left));
    free_sheet(s);
    *s = out;
    return IPU_OK;
}

static bool is_inked(const sheet *s, int x, int y)
{
    return x >= 0 && y >= 0 && x < s->width && y < s->height && s->at[y * s->width + x] > 127;
}

/* Line width: twice the area divided by the outline, at least 1. The outline is counted in pixel sides, which
 * overestimates slanted lines by 4/pi, averaged over all directions. */
static double line_width(const sheet *s)
{
    int64_t area = 0, sides = 0;
    for (int y = 0; y <= s->height; y++)
        for (int x = 0; x <= s->width; x++) {
            bool here = is_inked(s, x, y);
            area += here;
            sides += here != is_inked(s, x - 1, y);
            sides += here != is_inked(s, x, y - 1);
        }
    return sides ? 2 * (double)area / ((double)sides * 0.7854) : 1;
}

/* Each pixel becomes the maximum of itself and its neighbours: alternately four and eight of them, which
 * grows an octagon. */
static ipu_status thicken(sheet *s, int times)
{
    for (int turn = 0; turn < times; turn++) {
        sheet out;
        if (!make_sheet(s->width, s->height, &out)) return ipu__fail_memory();
        for (int y = 1; y + 1 < s->height; y++)
            for (int x = 1; x + 1 < s->width; x++) {
                const uint8_t *p         = s->at + y * s->width + x;
                uint8_t        most      = p[0];
                const int      around[8] = {
                         -1, 1, -s->width, s->width, -s->width - 1, -s->width + 1, s->width - 1, s->width + 1};
                for (int k = 0; k < (turn % 2 ? 8 : 4); k++)
                    if (p[around[k]] > most) most = p[around[k]];
                out.at[y * s->width + x] = most;
            }
        free_sheet(s);
        *s = out;
    }
    return IPU_OK;
}

static ipu_status mend_thin_lines(sheet *s)
{
    int    longer = s->width > s->height ? s->width : s->height;
    double width  = line_width(s);
    if (longer <= BOX || width * 100 >= (double)longer * THIN_PERCENT) return IPU_OK;
    int times = (int)(((double)longer * LINE_PERCENT / 100 - width) / 2 + 0.5);
    if (times < 1) return IPU_OK;
    IPU_TRY(cut_out(s, times + 1));
    IPU_TRY(thicken(s, times));
    return cut_out(s, 0);
}

/* How much of [from, from + length) lies in pixel k. */
static double share(double from, double length, int k)
{
    double low = from > k ? from : k, high = from + length < k + 1 ? from + length : k + 1;
    return high > low ? high - low : 0;
}

/* The mean of the source over a pixel's square, `scale` source pixels wide. */
static double mean_at(const sheet *s, double x, double y, double scale)
{
    double sum = 0;
    for (int v = (int)y; v < s->height && v < y + scale; v++)
        for (int u = (int)x; u < s->width && u < x + scale; u++)
            sum += s->at[v * s->width + u] * share(x, scale, u) * share(y, scale, v);
    return sum / (scale * scale);
}

typedef struct figure {
    double at[BOX][BOX];
    double most, mass, x, y; /* the centre of mass */
} figure;

static void scale_figure(const sheet *s, figure *f)
{
    int    longer = s->width > s->height ? s->width : s->height;
    double scale  = (double)longer / BOX;
    *f            = (figure){0};
    for (int y = 0; y < BOX; y++)
        for (int x = 0; x < BOX; x++) {
            double v    = mean_at(s, x * scale, y * scale, scale);
            f->at[y][x] = v;
            f->mass += v;
            f->x += v * x;
            f->y += v * y;
            if (v > f->most) f->most = v;
        }
    f->x /= f->mass;
    f->y /= f->mass;
}

static void place_figure(const figure *f, uint8_t *out)
{
    int right = MIDDLE - (int)(f->x + 0.5), down = MIDDLE - (int)(f->y + 0.5);
    for (int y = 0; y < BOX; y++)
        for (int x = 0; x < BOX; x++) {
            int u = x + right, v = y + down;
            if (u >= 0 && v >= 0 && u < SIZE && v < SIZE)
                out[v * SIZE + u] = (uint8_t)(f->at[y][x] * 255 / f->most + 0.5);
        }
}

/* ---- all of it ---- */

static ipu_status find_figure(sheet *s, const paper *p, figure *out)
{
    keep_ink(s, p);
    IPU_TRY(remove_specks(s));
    IPU_TRY(cut_out(s, 0));
    IPU_TRY(mend_thin_lines(s));
    scale_figure(s, out);
    return IPU_OK;
}

static ipu_status make_digit(const ipu_array *picture, sheet *s, int n_channels, uint8_t *out)
{
    figure f;
    IPU_TRY(make_grey(picture, n_channels, s));
    paper p = find_paper(s);
    if (p.span < LEAST_SPAN)
        return ipu__fail(
            IPU_INVALID,
            "the picture is blank: its border has the grey %d, and nothing differs from it by more than "
            "%d of 255: expected a digit",
            p.level, p.span);
    if (s->width == SIZE && s->height == SIZE) {
        for (int i = 0; i < SIZE * SIZE; i++) out[i] = p.is_light ? (uint8_t)(255 - s->at[i]) : s->at[i];
        return IPU_OK;
    }
    IPU_TRY(find_figure(s, &p, &f));
    place_figure(&f, out);
    return IPU_OK;
}

ipu_status ipu_picture_digit(const ipu_array *picture, ipu_array *out)
{
    int   n_channels;
    sheet s = {0};
    *out    = (ipu_array){0};
    IPU_TRY(check_picture(picture, &n_channels));
    IPU_TRY(ipu_array_create(IPU_UINT8, IPU_SHAPE(SIZE, SIZE), out));
    ipu_status status = make_digit(picture, &s, n_channels, out->data);
    free_sheet(&s);
    if (status != IPU_OK) ipu_array_free(out);
    return status;
}

/* Synthetic handwriting: a shape from strokes.c, varied in every way that hands vary, drawn with a round
 * pen. Uses only operations with the same bits everywhere: sums, products, square roots and rounding of
 * floats. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "base/status.h"
#include "data/array.h"
#include "data/digits.h"
#include "data/strokes.h"
#include "ipu/dataset.h"

/* As in MNIST: figures are scaled to 20 x 20 and placed in 28 x 28. */
enum { SIZE = 28, BOX = 20, MIDDLE = 14 };

/* ---- random numbers: a function of seed, sample and the number drawn before ---- */

typedef struct dice {
    uint32_t key[2], counter[4], bits[4];
    int      left;
} dice;

/* 0 to below 1. */
static float uniform(dice *d)
{
    if (d->left == 0) {
        ipu__philox(d->key, d->counter, d->bits);
        d->counter[2]++;
        d->left = 4;
    }
    return (float)(d->bits[--d->left] >> 8) * 0x1p-24f;
}

static float between(dice *d, float least, float most) { return least + (most - least) * uniform(d); }

/* Mean 0 and variance 1, similar to a normal distribution but never beyond 3: the sum of three uniform
 * numbers. */
static float spread(dice *d) { return 2 * (uniform(d) + uniform(d) + uniform(d)) - 3; }

/* A factor around 1, about as likely to be x as 1/x. */
static float factor(dice *d, float sigma)
{
    float x = sigma * spread(d);
    return 1 + x * (1 + x * (0.5f + x * (1.0f / 6)));
}

/* One wave per unit, from -1 to 1: a sine approximated by parabolas. */
static float wave(float t)
{
    t -= (float)(int)t;
    if (t < 0) t += 1;
    t = 2 * t - 1;
    return 4 * t * (t < 0 ? -1 - t : t - 1) * -1;
}

/* ---- the course of the pen ---- */

typedef struct spot {
    float x, y;
} spot;

enum { MAX_SPOTS = 24, PIECES = 6, MAX_LINE = (MAX_SPOTS + 2) * PIECES };

typedef struct course {
    spot  at[MAX_LINE];
    float radius[MAX_LINE]; /* of the pen at that point */
    bool  down[MAX_LINE];   /* whether the pen was down on the way there */
    int   n;
} course;

static void add_spot(course *c, spot p, bool down)
{
    if (c->n == MAX_LINE) return;
    c->at[c->n]     = p;
    c->down[c->n++] = down;
}

/* A smooth line through the spots (Catmull-Rom). */
static void add_curve(course *c, const spot *p, int n)
{
    for (int i = 0; i + 1 < n; i++) {
        spot a = p[i], b = p[i + 1];
        spot before = i ? p[i - 1] : (spot){2 * a.x - b.x, 2 * a.y - b.y};
        spot after  = i + 2 < n ? p[i + 2] : (spot){2 * b.x - a.x, 2 * b.y - a.y};
        for (int k = 1; k <= PIECES; k++) {
            float t = (float)k / PIECES, t2 = t * t, t3 = t2 * t;
            float wa = 0.5f * (-t3 + 2 * t2 - t), wb = 0.5f * (3 * t3 - 5 * t2 + 2);
            float wc = 0.5f * (-3 * t3 + 4 * t2 + t), wd = 0.5f * (t3 - t2);
            add_spot(c,
                     (spot){wa * before.x + wb * a.x + wc * b.x + wd * after.x,
                            wa * before.y + wb * a.y + wc * b.y + wd * after.y},
                     true);
        }
    }
}

/* The shape's spots, somewhere between its two forms, each slightly off, by about as much as the one
 * before. */
static void follow_shape(dice *d, const ipu__shape *shape, course *c)
{
    const ipu__pen *from = shape->from, *to = shape->to ? shape->to : from;
    spot            run[MAX_SPOTS];
    spot            off   = {0, 0};
    float           blend = between(d, -0.15f, 1.15f), sloppy = between(d, 1.2f, 4.2f);
    int             n = 0;
    c->n              = 0;
    for (;; from++, to++) {
        if (from->x != IPU__PEN_SIGN) {
            off      = (spot){0.6f * off.x + sloppy * spread(d), 0.6f * off.y + sloppy * spread(d)};
            run[n].x = (float)from->x + blend * (float)(to->x - from->x) + off.x;
            run[n].y = (float)from->y + blend * (float)(to->y - from->y) + off.y;
            if (n == 0) add_spot(c, run[0], false);
            n++;
            continue;
        }
        add_curve(c, run, n);
        if (from->y == IPU__PEN_END) return;
        if (from->y == IPU__PEN_TURN) run[0] = run[n - 1];
        n = from->y == IPU__PEN_TURN;
    }
}

/* As if the paper were warped: two long waves in each direction. */
static void bend(dice *d, course *c)
{
    float strength = between(d, 0.5f, 4.5f);
    for (int k = 0; k < 2; k++) {
        float fx = between(d, -0.011f, 0.011f), fy = between(d, -0.011f, 0.011f);
        float px = uniform(d), py = uniform(d), ax = strength * spread(d), ay = strength * spread(d);
        for (int i = 0; i < c->n; i++) {
            float t = fx * c->at[i].x + fy * c->at[i].y + 8;
            c->at[i].x += ax * wave(t + px);
            c->at[i].y += ay * wave(t + py);
        }
    }
}

/* Which half is the larger one in each direction, and how much wider the figure is at the top than at the
 * bottom. */
static void weigh(dice *d, course *c)
{
    float gx = 0.15f * spread(d), gy = 0.22f * spread(d), taper = 0.15f * spread(d);
    for (int i = 0; i < c->n; i++) {
        float x = c->at[i].x / 100, y = c->at[i].y / 100;
        x += gx * x * (1 - x);
        y += gy * y * (1 - y);
        x        = 0.5f + (x - 0.5f) * (1 + taper * (1 - 2 * y));
        c->at[i] = (spot){100 * x, 100 * y};
    }
}

/* Width, slant and rotation of the whole figure. */
static void tilt(dice *d, course *c)
{
    float wide = factor(d, 0.20f), slant = 0.12f + 0.26f * spread(d), turn = 0.10f * spread(d);
    float cosine = 1 - turn * turn / 2, sine = turn * (1 - turn * turn / 6);
    for (int i = 0; i < c->n; i++) {
        float x = wide * (c->at[i].x - 50), y = c->at[i].y - 50;
        x -= slant * y;
        c->at[i] = (spot){cosine * x - sine * y, sine * x + cosine * y};
    }
}

/* The pen's pressure varies, and the hand trembles. */
static void press(dice *d, course *c, float width)
{
    float pressure = between(d, 0, 0.25f), rhythm = between(d, 0.01f, 0.06f), phase = uniform(d), tremble = 0;
    for (int i = 0; i < c->n; i++) {
        tremble      = 0.7f * tremble + 0.05f * spread(d);
        c->radius[i] = width / 2 * (1 + pressure * wave(rhythm * (float)i + phase) + tremble);
    }
}

/* Extent of the drawing if the course is scaled by `scale`. */
static void find_ends(const course *c, float scale, spot *least, spot *most)
{
    *least = (spot){FLT_MAX, FLT_MAX};
    *most  = (spot){-FLT_MAX, -FLT_MAX};
    for (int i = 0; i < c->n; i++) {
        float x = scale * c->at[i].x, y = scale * c->at[i].y, r = c->radius[i];
        least->x = fminf(least->x, x - r), least->y = fminf(least->y, y - r);
        most->x = fmaxf(most->x, x + r), most->y = fmaxf(most->y, y + r);
    }
}

/* Fits the longer side into the box, including the pen's width: guesses a scale and improves it twice. */
static void fit(course *c, float size, float width)
{
    spot  least, most;
    float box = size * BOX / SIZE, scale = box / 100;
    for (int turn = 0; turn < 3; turn++) {
        find_ends(c, scale, &least, &most);
        float side = fmaxf(most.x - least.x, most.y - least.y);
        scale *= (box - width) / fmaxf(side - width, 1);
    }
    find_ends(c, scale, &least, &most);
    for (int i = 0; i < c->n; i++) {
        c->at[i].x = size / 2 + scale * c->at[i].x - (least.x + most.x) / 2;
        c->at[i].y = size / 2 + scale * c->at[i].y - (least.y + most.y) / 2;
    }
}

/* ---- the pen ---- */

static int clamp(int x, int least, int most) { return x < least ? least : x > most ? most : x; }

/* How much of each pixel is covered by the pen on its way from spot i - 1 to i. */
static void draw_stroke(const course *c, int i, float softness, int size, float *canvas)
{
    spot  a = c->at[i - 1], b = c->at[i];
    float radius = c->radius[i - 1], more = c->radius[i] - radius, reach = radius + fmaxf(more, 0) + softness;
    int   x0 = clamp((int)(fminf(a.x, b.x) - reach), 0, size),
        x1   = clamp((int)(fmaxf(a.x, b.x) + reach) + 1, 0, size);
    int y0   = clamp((int)(fminf(a.y, b.y) - reach), 0, size),
        y1   = clamp((int)(fmaxf(a.y, b.y) + reach) + 1, 0, size);
    float ux = b.x - a.x, uy = b.y - a.y, length = ux * ux + uy * uy;
    float per_length = length > 0 ? 1 / length : 0, per_softness = 1 / softness;
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++) {
            float vx = (float)x + 0.5f - a.x, vy = (float)y + 0.5f - a.y;
            float t = fminf(fmaxf((vx * ux + vy * uy) * per_length, 0), 1);
            vx -= t * ux, vy -= t * uy;
            float  cover = (radius + t * more - sqrtf(vx * vx + vy * vy)) * per_softness + 0.5f;
            float *to    = &canvas[y * size + x];
            *to          = fmaxf(*to, fminf(cover, 1));
        }
}

static void draw(const course *c, float softness, int size, float *canvas)
{
    memset(canvas, 0, (size_t)size * (size_t)size * sizeof *canvas);
    for (int i = 1; i < c->n; i++)
        if (c->down[i]) draw_stroke(c, i, softness, size, canvas);
}

static const ipu__shape *pick_shape(dice *d, int digit)
{
    const ipu__shape *picked = ipu__shapes;
    float             at     = uniform(d);
    for (int i = 0; i < ipu__n_shapes && at >= 0; i++) {
        if (ipu__shapes[i].digit != digit) continue;
        picked = &ipu__shapes[i];
        at -= picked->weight;
    }
    return picked;
}

int ipu__digits_render(uint32_t seed, int64_t i, int size, float *canvas)
{
    dice   d = {.key = {seed, 0x64696769}, .counter = {(uint32_t)i, (uint32_t)((uint64_t)i >> 32)}};
    course c;
    int    digit = (int)(10 * uniform(&d));
    follow_shape(&d, pick_shape(&d, digit), &c);
    bend(&d, &c);
    weigh(&d, &c);
    tilt(&d, &c);
    float unit = (float)size / SIZE, width = 2.4f * factor(&d, 0.30f) * unit;
    if (uniform(&d) < 0.08f) width *= between(&d, 1, digit == 1 ? 1.8f : 1.3f); /* a blunt one */
    press(&d, &c, width);
    fit(&c, (float)size, width);
    draw(&c, between(&d, 0.9f, 1.5f) * fminf(unit, 2), size, canvas); /* large ones have sharp edges */
    return digit;
}

/* ---- MNIST's form ---- */

/* Distance of the centre of mass, in whole pixels, from the middle of pixel 14, where MNIST has it (on
 * average at 14.00, 13.99 counted in pixels from 0, over the first 5000 of its training set). */
static void find_centre(const float *canvas, int *right, int *down)
{
    float mass = 0, sx = 0, sy = 0;
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++) {
            float v = canvas[y * SIZE + x];
            mass += v;
            sx += v * (float)x;
            sy += v * (float)y;
        }
    *right = (int)floorf(sx / mass - MIDDLE + 0.5f);
    *down  = (int)floorf(sy / mass - MIDDLE + 0.5f);
}

void ipu_digits_draw(uint32_t seed, int64_t i, int *label, uint8_t pixels[28 * 28])
{
    float canvas[SIZE * SIZE];
    int   right, down;
    *label = ipu__digits_render(seed, i, SIZE, canvas);
    find_centre(canvas, &right, &down);
    for (int y = 0; y < SIZE; y++)
        for (int x = 0; x < SIZE; x++) {
            int  fx = x + right, fy = y + down;
            bool inside          = fx >= 0 && fx < SIZE && fy >= 0 && fy < SIZE;
            pixels[y * SIZE + x] = inside ? (uint8_t)lroundf(canvas[fy * SIZE + fx] * 255) : 0;
        }
}

ipu_status ipu_digits_picture(uint32_t seed, int64_t i, int64_t size, int *label, ipu_array *out)
{
    enum { MOST = 4096, PAPER = 244, INK = 40 };
    *out = (ipu_array){0};
    if (size < SIZE || size > MOST)
        return ipu__fail(IPU_INVALID, "a digit of %lld x %lld pixels: expected %d to %d", (long long)size,
                         (long long)size, SIZE, MOST);
    float *canvas = ipu__alloc((size_t)(size * size) * sizeof *canvas);
    if (!canvas) return ipu__fail_memory();
    ipu_status status = ipu__array_create_unset(IPU_UINT8, &IPU_SHAPE(size, size, 1), out);
    if (status == IPU_OK) {
        int digit = ipu__digits_render(seed, i, (int)size, canvas);
        if (label) *label = digit;
        uint8_t *to = out->data;
        for (int64_t p = 0; p < size * size; p++) to[p] = (uint8_t)(PAPER - (PAPER - INK) * canvas[p]);
    }
    ipu__free(canvas);
    return status;
}

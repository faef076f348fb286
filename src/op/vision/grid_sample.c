/* grid_sample and its two gradients, and affine_grid.
 *
 * A sample is a sum over taps along each axis, with weights that are functions of the grid's numbers:
 * gradients need these weights and their slopes.
 */
#include "op/vision/grid_sample.h"

#include <math.h>
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/elementwise.h"
#include "ipu/op/matmul.h"
#include "ipu/op/shape.h"
#include "op/vector/floats.h"
#include "op/number.h"
#include "op/vision/resize.h"

enum { X, GRID, OUT };                             /* grid_sample */
enum { INPUT_DY, INPUT_GRID, INPUT_OUT };          /* grid_sample_input_grad */
enum { PLACE_DY, PLACE_X, PLACE_GRID, PLACE_OUT }; /* grid_sample_grid_grad */

/* ---- one place ---- */

static double cubic_weight(double distance, double *slope)
{
    const double a = -0.75;
    double       d = fabs(distance), sign = distance < 0 ? -1 : 1;
    if (d < 1) {
        *slope = sign * ((3 * (a + 2) * d - 2 * (a + 3)) * d);
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    }
    *slope = sign * ((3 * a * d - 10 * a) * d + 8 * a);
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/* p limited to 0 .. last; *slope becomes 0 where it is limited. NaN becomes 0. */
static double clip(double p, double last, double *slope)
{
    if (p > 0 && p < last) return p;
    *slope = 0;
    return p >= last ? last : 0;
}

static double reflect(const ipu__grid *g, double size, double p, double *slope)
{
    double low = g->align_corners ? 0 : -0.5, span = g->align_corners ? size - 1 : size;
    if (!(span > 0)) {
        *slope = 0;
        return 0;
    }
    double q = p - low, flips, rest;
    if (q < 0) {
        q      = -q;
        *slope = -*slope;
    }
    flips = floor(q / span);
    rest  = fmod(q, span);
    if (fmod(flips, 2) != 0) {
        rest   = span - rest;
        *slope = -*slope;
    }
    return rest + low;
}

static double pad(const ipu__grid *g, double size, double p, double *slope)
{
    if (g->padding == IPU_GRID_REFLECTION) p = reflect(g, size, p, slope);
    if (g->padding != IPU_GRID_ZEROS) return clip(p, size - 1, slope);
    /* Farther away there is nothing either, and it can be a whole number. */
    if (p > -4 && p < size + 4) return p;
    *slope = 0;
    return p >= size + 4 ? size + 4 : -4;
}

static int64_t bounded(double p, int64_t size) { return p >= 0 && p < (double)size ? (int64_t)p : -1; }

ipu__grid_place ipu__grid_at(const ipu__grid *g, int axis, double number)
{
    ipu__grid_place at    = {0};
    double          size  = (double)g->in[axis];
    double          slope = g->align_corners ? (size - 1) / 2 : size / 2;
    double          p     = g->align_corners ? (number + 1) / 2 * (size - 1) : ((number + 1) * size - 1) / 2;
    if (g->mode != IPU_GRID_BICUBIC)
        p = pad(g, size, p, &slope);
    else if (!(p > -1e12 && p < 1e12))
        p = -1e12; /* NaN too */
    double low = floor(p);
    if (g->mode == IPU_GRID_NEAREST) {
        at.n         = 1;
        at.index[0]  = bounded(rint(p), g->in[axis]);
        at.weight[0] = 1;
        return at;
    }
    at.n = g->mode == IPU_GRID_BICUBIC ? 4 : 2;
    for (int k = 0; k < at.n; k++) {
        double tap = low + k - (at.n == 4), none = 0, ds;
        if (at.n == 2) {
            at.weight[k] = k == 0 ? 1 - (p - low) : p - low;
            at.slope[k]  = k == 0 ? -slope : slope;
            at.index[k]  = bounded(tap, g->in[axis]);
        } else {
            at.weight[k] = cubic_weight(p - tap, &ds);
            at.slope[k]  = ds * slope;
            at.index[k]  = bounded(pad(g, size, tap, &none), g->in[axis]);
        }
    }
    return at;
}

/* ---- shapes ---- */

static const char *const modes[]    = {"bilinear", "nearest", "bicubic", NULL};
static const char *const paddings[] = {"zeros", "border", "reflection", NULL};

static ipu_status find_word(const ipu__kernel_call *call, const char *name, const char *const *words,
                            int *out)
{
    const char *text = ipu__op_text(call, name);
    for (int i = 0; i < 3; i++)
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return IPU_OK;
        }
    return ipu__fail(IPU_INVALID, "%s: %s = \"%s\": expected %s, %s or %s", call->def->name, name, text,
                     words[0], words[1], words[2]);
}

ipu_status ipu__grid_read(const ipu__kernel_call *call, ipu__grid *out)
{
    int mode, padding;
    IPU_TRY(find_word(call, "mode", modes, &mode));
    IPU_TRY(find_word(call, "padding", paddings, &padding));
    *out = (ipu__grid){.mode          = (ipu_grid_mode)mode,
                       .padding       = (ipu_grid_padding)padding,
                       .align_corners = ipu__op_int(call, "align_corners") != 0};
    return IPU_OK;
}

static ipu_status check_grid(const ipu__kernel_call *call, int image, int grid)
{
    ipu__grid        g;
    const ipu_shape *x = &call->operand[image].shape, *s = &call->operand[grid].shape;
    IPU_TRY(ipu__grid_read(call, &g));
    IPU_TRY(ipu__op_want_floating(call, image));
    IPU_TRY(ipu__op_want_same_type(call, image, grid));
    IPU_TRY(ipu__op_want_rank(call, image, 4, 4));
    IPU_TRY(ipu__op_want_rank(call, grid, 4, 4));
    if (s->dim[0] == x->dim[0] && s->dim[3] == 2) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"grid\" %s: expected [%lld, out height, out width, 2] for %s",
                     call->def->name, ipu__shape_str(s), (long long)x->dim[0], ipu__shape_str(x));
}

/* Of an image of height `in[0]` and width `in[1]`, which has elements if it is read at all. */
static ipu_status check_extent(const ipu__kernel_call *call, const int64_t *in)
{
    if (in[0] > 0 && in[1] > 0 && in[0] < INT32_MAX && in[1] < INT32_MAX / in[0]) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: images of %lld x %lld elements: expected 1 to 2^31", call->def->name,
                     (long long)in[0], (long long)in[1]);
}

static ipu_status sample_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x = &call->operand[X].shape, *grid = &call->operand[GRID].shape;
    IPU_TRY(check_grid(call, X, GRID));
    IPU_TRY(check_extent(call, x->dim + 2));
    *out = (ipu__kernel_value){call->operand[X].type,
                               IPU_SHAPE(x->dim[0], x->dim[1], grid->dim[1], grid->dim[2])};
    return IPU_OK;
}

static ipu_status input_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *dy = &call->operand[INPUT_DY].shape, *grid = &call->operand[INPUT_GRID].shape;
    size_t           n;
    const int64_t   *size = ipu__op_ints(call, "size", &n);
    IPU_TRY(check_grid(call, INPUT_DY, INPUT_GRID));
    IPU_TRY(
        ipu__op_want_shape(call, INPUT_DY, &IPU_SHAPE(dy->dim[0], dy->dim[1], grid->dim[1], grid->dim[2])));
    if (n != 2) return ipu__fail(IPU_INVALID, "%s: size has %zu numbers: expected 2", call->def->name, n);
    IPU_TRY(check_extent(call, size));
    *out = (ipu__kernel_value){call->operand[INPUT_DY].type,
                               IPU_SHAPE(dy->dim[0], dy->dim[1], size[0], size[1])};
    return IPU_OK;
}

static ipu_status place_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x = &call->operand[PLACE_X].shape, *grid = &call->operand[PLACE_GRID].shape;
    IPU_TRY(check_grid(call, PLACE_X, PLACE_GRID));
    IPU_TRY(check_extent(call, x->dim + 2));
    IPU_TRY(ipu__op_want_same_type(call, PLACE_X, PLACE_DY));
    IPU_TRY(ipu__op_want_shape(call, PLACE_DY, &IPU_SHAPE(x->dim[0], x->dim[1], grid->dim[1], grid->dim[2])));
    *out = call->operand[PLACE_GRID];
    return IPU_OK;
}

static ipu__grid get_grid(const ipu__kernel_call *call, int image, int grid)
{
    ipu__grid        g = {0};
    const ipu_shape *x = &call->operand[image].shape, *s = &call->operand[grid].shape;
    ipu__grid_read(call, &g); /* infer has seen it */
    g.n        = x->dim[0];
    g.channels = x->dim[1];
    g.in[0]    = x->dim[2];
    g.in[1]    = x->dim[3];
    g.out      = s->dim[1] * s->dim[2];
    return g;
}

/* Along both axes, of place `i` of all images: 0 is y, 1 is x. */
static void get_place(const ipu__grid *g, ipu_type type, const void *grid, int64_t i, ipu__grid_place at[2])
{
    for (int axis = 0; axis < 2; axis++)
        at[axis] = ipu__grid_at(g, axis, ipu__number_load(type, grid, 2 * i + 1 - axis));
}

/* ---- references ---- */

/* The sum over taps of image plane `x`, with weights or slopes along each axis. */
static double read_place(const ipu__grid *g, ipu_type type, const void *x, int64_t plane,
                         const ipu__grid_place *y_at, const double *y_weight, const ipu__grid_place *x_at,
                         const double *x_weight)
{
    double sum = 0;
    for (int i = 0; i < y_at->n; i++)
        for (int j = 0; j < x_at->n; j++)
            if (y_at->index[i] >= 0 && x_at->index[j] >= 0)
                sum += y_weight[i] * x_weight[j]
                     * ipu__number_load(type, x,
                                        (plane * g->in[0] + y_at->index[i]) * g->in[1] + x_at->index[j]);
    return sum;
}

static void sample_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__grid       g    = get_grid(call, X, GRID);
    ipu_type        type = call->operand[X].type;
    ipu__grid_place at[2];
    for (int64_t i = 0; i < g.n * g.channels * g.out; i++) {
        int64_t plane = i / g.out;
        get_place(&g, type, operand[GRID], plane / g.channels * g.out + i % g.out, at);
        ipu__number_store(type, operand[OUT], i,
                          read_place(&g, type, operand[X], plane, &at[0], at[0].weight, &at[1],
                                     at[1].weight));
    }
}

static double weight_of(const ipu__grid_place *at, int64_t index)
{
    double sum = 0;
    for (int k = 0; k < at->n; k++) sum += at->index[k] == index ? at->weight[k] : 0;
    return sum;
}

static void input_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__grid       g    = get_grid(call, INPUT_OUT, INPUT_GRID);
    ipu_type        type = call->operand[INPUT_OUT].type;
    int64_t         size = g.in[0] * g.in[1];
    ipu__grid_place at[2];
    for (int64_t i = 0; i < g.n * g.channels * size; i++) {
        int64_t plane = i / size;
        double  sum   = 0;
        for (int64_t o = 0; o < g.out; o++) {
            get_place(&g, type, operand[INPUT_GRID], plane / g.channels * g.out + o, at);
            sum += weight_of(&at[0], i % size / g.in[1]) * weight_of(&at[1], i % g.in[1])
                 * ipu__number_load(type, operand[INPUT_DY], plane * g.out + o);
        }
        ipu__number_store(type, operand[INPUT_OUT], i, sum);
    }
}

/* Each element looks at all places of the grid. */
static double input_ref_work(const ipu__kernel_call *call)
{
    ipu__grid g = get_grid(call, INPUT_OUT, INPUT_GRID);
    return 40 * (double)ipu__op_n_elements(&call->operand[INPUT_OUT].shape) * (double)g.out;
}

/* Places [begin, end) of all images. */
static void place_grads(const ipu__kernel_call *call, void *const *operand, ipu_interval places)
{
    ipu__grid       g    = get_grid(call, PLACE_X, PLACE_GRID);
    ipu_type        type = call->operand[PLACE_OUT].type;
    ipu__grid_place at[2];
    for (int64_t i = places.begin; i < places.end; i++) {
        double  sum[2] = {0, 0};
        int64_t image  = i / g.out;
        get_place(&g, type, operand[PLACE_GRID], i, at);
        for (int64_t c = 0; c < g.channels; c++) {
            int64_t     plane = image * g.channels + c;
            double      dy    = ipu__number_load(type, operand[PLACE_DY], plane * g.out + i % g.out);
            const void *x     = operand[PLACE_X];
            sum[0] += dy * read_place(&g, type, x, plane, &at[0], at[0].weight, &at[1], at[1].slope);
            sum[1] += dy * read_place(&g, type, x, plane, &at[0], at[0].slope, &at[1], at[1].weight);
        }
        for (int k = 0; k < 2; k++) ipu__number_store(type, operand[PLACE_OUT], 2 * i + k, sum[k]);
    }
}

static void place_ref(const ipu__kernel_call *call, void *const *operand)
{
    place_grads(call, operand, (ipu_interval){0, ipu__op_n_elements(&call->operand[PLACE_GRID].shape) / 2});
}

static ipu_status place_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                            int part, int n_parts)
{
    (void)state, (void)scratch;
    int64_t n = ipu__op_n_elements(&call->operand[PLACE_GRID].shape) / 2;
    place_grads(call, operand, ipu__op_part(n, 16, part, n_parts));
    return IPU_OK;
}

/* ---- plane by plane, with the taps of an image looked up once ---- */

static int64_t n_taps(const ipu__grid *g)
{
    return g->mode == IPU_GRID_BICUBIC ? 16 : g->mode == IPU_GRID_BILINEAR ? 4 : 1;
}

static bool fits_planes(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts;
    bool      is_grad = call->def == &ipu__op_grid_sample_input_grad.kernel;
    ipu__grid g       = get_grid(call, is_grad ? INPUT_OUT : X, GRID);
    return call->operand[0].type != IPU_DOUBLE && g.out < 1 << 26;
}

/* Taps; and a plane of either side as floats. */
static size_t planes_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    bool      is_grad = call->def == &ipu__op_grid_sample_input_grad.kernel;
    ipu__grid g       = get_grid(call, is_grad ? INPUT_OUT : X, GRID);
    return (size_t)(n_taps(&g) * g.out * 2 + g.in[0] * g.in[1] + g.out) * sizeof(float);
}

/* Taps beyond the edge weigh nothing and read the first element. */
static void fill_table(const ipu__grid *g, ipu_type type, const void *grid, int64_t image,
                       ipu__resize_table *t)
{
    ipu__grid_place at[2];
    for (int64_t o = 0; o < g->out; o++) {
        get_place(g, type, grid, image * g->out + o, at);
        for (int i = 0; i < at[0].n; i++)
            for (int j = 0; j < at[1].n; j++) {
                int64_t to    = (i * at[1].n + j) * g->out + o;
                bool    in    = at[0].index[i] >= 0 && at[1].index[j] >= 0;
                t->index[to]  = in ? (int32_t)(at[0].index[i] * g->in[1] + at[1].index[j]) : 0;
                t->weight[to] = in ? (float)(at[0].weight[i] * at[1].weight[j]) : 0;
            }
    }
}

static ipu__resize_table get_table(const ipu__grid *g, void *scratch)
{
    ipu__resize_table t = {.from = g->in[0] * g->in[1], .to = g->out, .taps = n_taps(g), .index = scratch};
    t.weight            = (float *)(t.index + t.taps * t.to);
    return t;
}

static ipu_status sample_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                             int part, int n_parts)
{
    (void)state;
    ipu__grid         g      = get_grid(call, X, GRID);
    ipu_type          type   = call->operand[X].type;
    ipu__resize_table t      = get_table(&g, scratch);
    float            *floats = t.weight + t.taps * t.to;
    int64_t           image  = -1;
    ipu_interval      mine   = ipu__op_part(g.n * g.channels, 1, part, n_parts);
    if (g.out == 0) return IPU_OK;
    for (int64_t plane = mine.begin; plane < mine.end; plane++) {
        if (plane / g.channels != image) fill_table(&g, type, operand[GRID], plane / g.channels, &t);
        image          = plane / g.channels;
        const float *x = ipu__floats_get(type, operand[X], plane * t.from, t.from, floats);
        float       *y = type == IPU_FLOAT ? (float *)operand[OUT] + plane * g.out : floats + t.from;
        IPU__SIMD_PICK(ipu__resize_loops_of).row(&t, x, y);
        if (type != IPU_FLOAT) ipu__floats_store(type, y, operand[OUT], plane * g.out, g.out);
    }
    return IPU_OK;
}

static ipu_status input_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                            int part, int n_parts)
{
    (void)state;
    ipu__grid         g      = get_grid(call, INPUT_OUT, INPUT_GRID);
    ipu_type          type   = call->operand[INPUT_OUT].type;
    ipu__resize_table t      = get_table(&g, scratch);
    float            *floats = t.weight + t.taps * t.to;
    int64_t           image  = -1;
    ipu_interval      mine   = ipu__op_part(g.n * g.channels, 1, part, n_parts);
    for (int64_t plane = mine.begin; plane < mine.end; plane++) {
        if (plane / g.channels != image) fill_table(&g, type, operand[INPUT_GRID], plane / g.channels, &t);
        image           = plane / g.channels;
        const float *dy = ipu__floats_get(type, operand[INPUT_DY], plane * g.out, g.out, floats + t.from);
        float       *dx = type == IPU_FLOAT ? (float *)operand[INPUT_OUT] + plane * t.from : floats;
        memset(dx, 0, (size_t)t.from * sizeof *dx);
        for (int64_t k = 0; k < t.taps; k++)
            for (int64_t o = 0; o < g.out; o++) {
                int64_t tap = k * g.out + o;
                dx[t.index[tap]] += t.weight[tap] * dy[o];
            }
        if (type != IPU_FLOAT) ipu__floats_store(type, dx, operand[INPUT_OUT], plane * t.from, t.from);
    }
    return IPU_OK;
}

/* ---- gradients ---- */

enum { MOST_ATTRIBUTES = 4 };

static size_t keep(const ipu__kernel_call *call, ipu_attribute *list)
{
    size_t n = 0;
    for (size_t i = 0; i < call->n_attributes && n < MOST_ATTRIBUTES - 1; i++)
        if (strcmp(call->attributes[i].name, "size") != 0) list[n++] = call->attributes[i];
    return n;
}

static void sample_grad(ipu__gradient *g)
{
    ipu_attribute list[MOST_ATTRIBUTES];
    size_t        n = keep(g->call, list);
    if (g->wanted[GRID])
        g->d_in[GRID] = ipu__emit1(g->b, "grid_sample_grid_grad", list, n,
                                   IPU__IN(g->d_out[0], g->in[X], g->in[GRID]));
    if (!g->wanted[X]) return;
    list[n++]  = IPU__INTS("size", g->call->operand[X].shape.dim + 2, 2);
    g->d_in[X] = ipu__emit1(g->b, "grid_sample_input_grad", list, n, IPU__IN(g->d_out[0], g->in[GRID]));
}

/* ---- prices and records ---- */

static double places_of(const ipu__kernel_call *call)
{
    bool      is_input = call->def == &ipu__op_grid_sample_input_grad.kernel;
    bool      is_place = call->def == &ipu__op_grid_sample_grid_grad.kernel;
    ipu__grid g        = is_input ? get_grid(call, INPUT_OUT, INPUT_GRID)
                       : is_place ? get_grid(call, PLACE_X, PLACE_GRID)
                                  : get_grid(call, X, GRID);
    return (double)g.n * (double)g.channels * (double)g.out * (double)n_taps(&g);
}

static double work(const ipu__kernel_call *call) { return 4 * places_of(call); }

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__op_loop loop = {60, 1, 6};
    double       n    = places_of(call);
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_count(n), 1, target, out));
    if (out->n_tiles > 0)
        out->bytes_received = out->bytes_sent = ipu__op_count(n / (double)out->n_tiles
                                                              * (double)ipu_type_size(call->operand[0].type));
    out->basis = "our estimate: 6 cycles for each element read at a computed place, all of them exchanged";
    return IPU_OK;
}

static const ipu__kernel_operand sample_operands[] = {IPU__INPUT("x"), IPU__INPUT("grid"), IPU__OUTPUT("y")};
static const ipu__kernel_operand input_operands[]  = {IPU__INPUT("d_y"), IPU__INPUT("grid"),
                                                      IPU__OUTPUT("d_x")};
static const ipu__kernel_operand place_operands[]  = {IPU__INPUT("d_y"), IPU__INPUT("x"), IPU__INPUT("grid"),
                                                      IPU__OUTPUT("d_grid")};

/* clang-format off */
#define ATTRIBUTES                                                                                  \
    {.name = "mode", .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = "bilinear",                      \
     .meaning = "bilinear, nearest or bicubic"},                                                    \
    {.name = "padding", .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = "zeros",                      \
     .meaning = "zeros, border or reflection: what there is beyond the edge"},                      \
    {.name = "align_corners", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: -1 and 1 are centres, not edges"}
/* clang-format on */
static const ipu_op_attribute attributes[]       = {ATTRIBUTES};
static const ipu_op_attribute input_attributes[] = {
    ATTRIBUTES,
    {.name = "size", .kind = IPU_ATTRIBUTE_INTS, .required = true, .meaning = "height and width of d_x"}};

static const char *const sample_samples[] = {"float[2,3,4,5], float[2,3,2,2]{-1.3,1.3}",
                                             "float[1,2,4,5], float[1,3,4,2]{-1.3,1.3}; mode=nearest",
                                             "float[1,2,4,5], float[1,3,4,2]{-1.3,1.3}; mode=bicubic",
                                             "float[1,2,4,5], float[1,3,4,2]{-1.3,1.3}; padding=border",
                                             "float[1,2,4,5], float[1,3,4,2]{-3.3,3.3}; padding=reflection",
                                             ("float[1,2,4,5], float[1,3,4,2]{-3.3,3.3}; padding=reflection "
                                              "align_corners=1"),
                                             ("float[1,2,4,5], float[1,3,4,2]{-1.3,1.3}; mode=bicubic "
                                              "padding=reflection align_corners=1"),
                                             ("float[1,1,4,5], float[1,2,3,2]{-1.3,1.3}; mode=bicubic "
                                              "padding=border"),
                                             ("float[1,1,1,1], float[1,2,2,2]{-1.3,1.3}; padding=reflection "
                                              "align_corners=1"),
                                             "float[2,3,4,5], float[2,0,2,2]",
                                             "float[0,3,4,5], float[0,3,2,2]",
                                             "float[2,4,40,40], float[2,50,50,2]{-1.1,1.1}",
                                             NULL};
static const char *const input_samples[]  = {
     "float[2,3,3,2], float[2,3,2,2]{-1.3,1.3}; size=[4,5]",
     "float[1,2,3,4], float[1,3,4,2]{-1.3,1.3}; size=[4,5] mode=nearest",
     ("float[1,2,3,4], float[1,3,4,2]{-1.3,1.3}; size=[4,5] mode=bicubic "
      "padding=border"),
     ("float[1,2,3,4], float[1,3,4,2]{-1.3,1.3}; size=[4,5] "
      "padding=reflection"),
     "float[1,2,0,4], float[1,0,4,2]; size=[4,5]",
     "float[2,4,24,24], float[2,24,24,2]{-1.1,1.1}; size=[20,20]",
     NULL};
static const char *const place_samples[] = {"float[2,3,3,2], float[2,3,4,5], float[2,3,2,2]{-1.3,1.3}",
                                            ("float[1,2,3,4], float[1,2,4,5], float[1,3,4,2]{-1.3,1.3}; "
                                             "mode=bicubic align_corners=1"),
                                            ("float[1,2,3,4], float[1,2,4,5], float[1,3,4,2]{-1.3,1.3}; "
                                             "mode=nearest"),
                                            "float[1,0,3,4], float[1,0,4,5], float[1,3,4,2]",
                                            "float[2,4,30,30], float[2,4,40,40], float[2,30,30,2]{-1.1,1.1}",
                                            NULL};

#define PLANES(run_)                                                                    \
    {                                                                                   \
        {                                                                               \
            .head = {"planes", fits_planes}, .scratch_bytes = planes_bytes, .run = run_ \
        }                                                                               \
    }
static const ipu__cpu_impl sample_implementations[] = PLANES(sample_run);
static const ipu__cpu_impl input_implementations[]  = PLANES(input_run);
static const ipu__cpu_impl place_implementations[]  = {
     {.head = {"places", ipu__op_fits_always}, .run = place_run}};

#define sample_ref_work NULL
#define place_ref_work NULL
#define RECORD(op, prefix, attributes_, ...)                                                                      \
    const ipu__op_def ipu__op_##op = {.kernel       = {.name            = #op,                                    \
                                                       .operands        = prefix##_operands,                      \
                                                       .n_operands      = IPU__COUNT(prefix##_operands),          \
                                                       .check           = ipu__op_check,                          \
                                                       .rows            = ipu__op_rows,                           \
                                                       .ref             = prefix##_ref,                           \
                                                       .work            = work,                                   \
                                                       .ref_work        = prefix##_ref_work,                      \
                                                       .plan            = plan,                                   \
                                                       .implementations = IPU__ON_CPU(prefix##_implementations)}, \
                                      .n_in         = IPU__COUNT(prefix##_operands) - 1,                          \
                                      .family       = "vision",                                                   \
                                      .attributes   = attributes_,                                                \
                                      .n_attributes = IPU__COUNT(attributes_),                                    \
                                      .infer        = prefix##_infer,                                             \
                                      .samples      = prefix##_samples,                                           \
                                      __VA_ARGS__}
RECORD(grid_sample, sample, attributes, .grad = sample_grad, .compose = ipu__grid_sample_compose,
       .flags   = IPU__OP_GRAD_ONCE | IPU__OP_SHORT_IN_HALF,
       .batch   = IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0}, {IPU__AXIS_0}),
       .summary = "images read at the places of a grid");
RECORD(grid_sample_input_grad, input, input_attributes,
       .batch   = IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0}, {IPU__AXIS_0}),
       .summary = "the gradient of grid_sample: elements added up where they were read");
RECORD(grid_sample_grid_grad, place, attributes,
       .batch   = IPU__BATCH({IPU__AXIS_0, IPU__AXIS_0, IPU__AXIS_0}, {IPU__AXIS_0}),
       .summary = "the gradient of grid_sample by the grid: slopes of the images");

/* ---- the functions of ipu/op/vision.h ---- */

ipu_value ipu_grid_sample(ipu_builder *b, ipu_value x, ipu_value grid, ipu_grid_sample_options o)
{
    return ipu__emit1(
        b, "grid_sample",
        IPU__WITH(IPU_TEXT_ATTRIBUTE("mode", (unsigned)o.mode < 3 ? modes[o.mode] : "?"),
                  IPU_TEXT_ATTRIBUTE("padding", (unsigned)o.padding < 3 ? paddings[o.padding] : "?"),
                  IPU_INT_ATTRIBUTE("align_corners", o.align_corners)),
        IPU__IN(x, grid));
}

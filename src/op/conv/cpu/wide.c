/* Convolutions of 16-bit types as convolutions of floats, some images at a time.
 *
 * A part gets images; or channels of the result for weight gradients, which are sums over images, and if
 * there are fewer images than parts. It converts a few images, runs an implementation for floats on them, and
 * converts the results: all of that stays in the second-level cache. Blocked operands (IPU__LAYOUT_BLOCKED),
 * in which images and sixteens of channels are contiguous too, keep their layout. An affine epilogue is
 * applied to floats and rounded once; others work on the rounded result, as everywhere.
 */
#include "op/conv/cpu/wide.h"

#include <string.h>

#include "base/alloc.h"
#include "op/conv/cpu/onednn.h"
#include "op/elementwise/epilogue_affine.h"
#include "op/product/xsmm.h"

enum {
    ROOM       = 1 << 20, /* bytes of floats of the images at a time; */
    LANES_ROOM = 4 << 20, /* or of sixteen, which implementations need that have images in lanes */
    LANES      = IPU__LAYOUT_WIDTH,
    LEAST_USES = 128, /* of a weight, by a part */
    MOST_WITH  = 12   /* attributes */
};

/* What one part does at a time. */
typedef struct wide {
    ipu__conv            c;       /* of the call */
    ipu_interval         image;   /* all of its images */
    ipu_interval         channel; /* of the result; all but for gradients of weights */
    int64_t              at_once; /* images; a divisor of their number */
    int64_t              x, y, w; /* floats at a time */
    bool                 inside;  /* the epilogue is done by `impl` */
    int                  add;     /* operand of the shape of the result that it adds; 0: none */
    ipu__kernel_call     call;    /* of floats, for so many images and channels */
    ipu_attribute        with[MOST_WITH];
    const ipu__cpu_impl *impl;     /* NULL: nothing to do, or none fits */
    size_t               scratch;  /* bytes that it needs */
    void                *prepared; /* of impl */
} wide;

typedef struct state {
    ipu__epilogue epilogue;
    int           n_parts;
    wide          parts[];
} state;

static int64_t length(ipu_interval i) { return i.end - i.begin; }

static int64_t up_to_line(int64_t floats) { return (floats + LANES - 1) / LANES * LANES; }

/* ---- what fits ---- */

static const int x_operand[] = {IPU__CONV_X, IPU__CONV_INPUT_GRAD_OUT, IPU__CONV_WEIGHT_GRAD_X};
static const int y_operand[] = {IPU__CONV_OUT, IPU__CONV_INPUT_GRAD_DY, IPU__CONV_WEIGHT_GRAD_DY};

/* The first for floats; NULL where that works on 16-bit types itself, or is oneDNN in plain layouts. */
static const ipu__cpu_impl *find_impl(const ipu__kernel_call *floats, const ipu__kernel_call *call,
                                      const void *machine, int n_parts)
{
    const ipu__cpu_impl *impl = ipu__cpu_find_impl(floats, machine, 1);
    if (!impl || impl->head.fits == ipu__conv_onednn_fits || impl->head.fits(call, machine, n_parts))
        return NULL;
    return impl;
}

/* The greatest divisor of `n` with which the images have room, or sixteen. */
static int64_t choose_at_once(int64_t n, int64_t image_bytes)
{
    int64_t most = image_bytes < ROOM ? ROOM / image_bytes : 1;
    if (most < LANES && n % LANES == 0 && LANES * image_bytes <= LANES_ROOM) return LANES;
    while (most > 1 && n % most != 0) most--;
    return most < n ? most : n;
}

static bool is_extra(const ipu__conv *c, int operand)
{
    return c->kind == IPU__CONV_FORWARD && operand > IPU__CONV_BIAS && operand < IPU__CONV_OUT;
}

/* The dimension of an operand of the epilogue that has channels; -1: none. */
static int channels_of(const ipu__kernel_call *call, int operand)
{
    const ipu_shape *shape = &call->operand[operand].shape, *out = &call->operand[IPU__CONV_OUT].shape;
    int              at = 1 - (out->rank - shape->rank);
    return at >= 0 && shape->dim[at] == out->dim[1] ? at : -1;
}

/* Operands as floats, and whether the epilogue is for them. */
static void describe_floats(wide *p, const ipu__kernel_call *from)
{
    ipu__affine affine;
    p->call = *from;
    for (int i = 0; i < from->n_operands; i++)
        if (ipu__kernel_has(from, i)) p->call.operand[i].type = IPU_FLOAT;
    p->inside = p->c.kind == IPU__CONV_FORWARD && ipu__affine_of(&p->call, &affine);
    for (int i = IPU__CONV_BIAS; i < IPU__CONV_OUT && p->inside; i++)
        p->inside = !ipu__kernel_has(from, i) || from->operand[i].type == from->operand[0].type;
    p->add = p->inside ? affine.add : 0;
}

/* The call for `at_once` images and the channels. */
static bool describe_call(wide *p, const ipu__kernel_call *from)
{
    int n = 0, y = y_operand[p->c.kind];
    for (size_t i = 0; i < from->n_attributes; i++) {
        if (strcmp(from->attributes[i].name, "epilogue") == 0 && !p->inside) continue;
        if (n == MOST_WITH) return false;
        p->with[n++] = from->attributes[i];
    }
    p->call.n_attributes = (size_t)n;
    for (int i = 0; i < from->n_operands; i++) {
        ipu_shape *shape = &p->call.operand[i].shape;
        if (!is_extra(&p->c, i) || !ipu__kernel_has(from, i)) continue;
        int channels = channels_of(from, i);
        if (!p->inside) *shape = IPU_SHAPE(0);
        if (!p->inside) p->call.layout[i] = IPU__LAYOUT_PLAIN;
        if (p->inside && channels >= 0) shape->dim[channels] = length(p->channel);
        if (p->inside && i == p->add) shape->dim[0] = p->at_once;
    }
    p->call.operand[x_operand[p->c.kind]].shape.dim[0] = p->at_once;
    p->call.operand[y].shape.dim[0]                    = p->at_once;
    if (p->c.kind == IPU__CONV_INPUT_GRAD) return true;
    int w = p->c.kind == IPU__CONV_FORWARD ? (int)IPU__CONV_W : (int)IPU__CONV_WEIGHT_GRAD_OUT;
    p->call.operand[y].shape.dim[1] = length(p->channel);
    p->call.operand[w].shape.dim[0] = length(p->channel);
    if (p->c.kind == IPU__CONV_FORWARD && ipu__kernel_has(from, IPU__CONV_BIAS))
        p->call.operand[IPU__CONV_BIAS].shape.dim[0] = length(p->channel);
    return true;
}

/* Shares of a part; false: it cannot be done so. `impl` stays NULL where there is nothing to do. */
static bool describe(wide *p, const ipu__kernel_call *call, const void *machine, int part, int n_parts)
{
    ipu__conv c = ipu__conv_get(call);
    *p          = (wide){.c = c, .image = {0, c.n}, .channel = {0, c.groups * c.out}};
    if (c.kind == IPU__CONV_WEIGHT_GRAD || (c.kind == IPU__CONV_FORWARD && c.n < n_parts)) {
        if (c.groups != 1 && n_parts > 1) return false;
        p->channel = ipu__op_part(c.groups * c.out, c.out % LANES == 0 ? LANES : 1, part, n_parts);
    } else {
        p->image = ipu__op_part(c.n, c.n % LANES == 0 && c.n >= LANES * n_parts ? LANES : 1, part, n_parts);
    }
    if (length(p->image) <= 0 || length(p->channel) <= 0) return true;
    int64_t x = c.groups * c.in * ipu__conv_volume(c.x), y = length(p->channel) * ipu__conv_volume(c.y);
    describe_floats(p, call);
    p->at_once = choose_at_once(length(p->image), (x + (p->add ? 2 : 1) * y) * (int64_t)sizeof(float));
    p->x       = p->at_once * x;
    p->y       = p->at_once * y;
    p->w       = length(p->channel) * c.in * ipu__conv_volume(c.k);
    if (!describe_call(p, call)) return false;
    p->call.attributes     = p->with;
    ipu__kernel_call plain = p->call;
    memset(plain.layout, 0, sizeof plain.layout);
    p->impl = find_impl(&plain, call, machine, n_parts);
    return p->impl != NULL;
}

/* The implementation's, of plain operands and blocks. */
static ipu__kernel_layouts layouts_of(const wide *p, int operand)
{
    const unsigned plain      = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN),
                   both       = plain | IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED);
    ipu__kernel_layouts found = {plain, plain, false};
    if (!p->impl || !p->impl->layouts) return found;
    ipu__kernel_call call = p->call;
    memset(call.layout, 0, sizeof call.layout);
    found = p->impl->layouts(&call, 1, operand);
    found.takes &= both;
    found.native &= both;
    return found;
}

static bool likes_blocks(const wide *p)
{
    return layouts_of(p, x_operand[p->c.kind]).takes & IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED);
}

bool ipu__conv_wide_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    ipu_type  type = call->operand[0].type;
    ipu__conv c    = ipu__conv_get(call);
    if ((type != IPU_HALF && type != IPU_BFLOAT16) || c.n < 1 || c.groups < 1 || c.in < 1 || c.out < 1)
        return false;
    if (ipu__conv_volume(c.y) < 1 || ipu__conv_volume(c.x) < 1) return false;
    /* Every part has an image, or channels; a weight that is used little is not worth converting. */
    bool few = c.n < n_parts;
    if (few && (c.kind != IPU__CONV_FORWARD || c.out < LANES * n_parts || c.out % LANES != 0)) return false;
    if (c.n * ipu__conv_volume(c.y) < LEAST_USES * (few ? 1 : n_parts)) return false;
    bool any = false;
    for (int i = 0; i < n_parts; i++) {
        wide p;
        if (!describe(&p, call, machine, i, n_parts)) return false;
        /* Plain ones of a single tap are products, which convert as they go. */
        if (p.impl && ipu__conv_volume(c.k) <= 1 && !likes_blocks(&p)) return false;
        any |= p.impl != NULL;
    }
    return any;
}

ipu__kernel_layouts ipu__conv_wide_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    const unsigned plain = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN), blocked = IPU__LAYOUT_BIT(IPU__LAYOUT_BLOCKED);
    ipu__kernel_layouts found = {plain, plain, false};
    ipu__conv           c     = ipu__conv_get(call);
    bool                is_y  = operand == y_operand[c.kind];
    wide                p;
    if (!describe(&p, call, ipu__cpu_machine_here(), 0, n_parts) || !p.impl) return found;
    if (operand == x_operand[c.kind] || (is_y && c.kind != IPU__CONV_FORWARD)) return layouts_of(&p, operand);
    if (!is_y && !is_extra(&c, operand)) return found;
    if (p.inside) return layouts_of(&p, operand);
    ipu__kernel_layouts of_y = layouts_of(&p, IPU__CONV_OUT);
    found = ipu__epilogue_layouts(call, operand, ipu__epilogue_is_flat(call) ? of_y.takes & blocked : 0);
    if (is_y) found.native = of_y.native & found.takes;
    return found;
}

/* ---- at load ---- */

static int64_t n_floats(const wide *p)
{
    int64_t sums = p->c.kind == IPU__CONV_WEIGHT_GRAD ? up_to_line(p->w) : 0;
    int64_t n    = up_to_line(p->x) + up_to_line(p->y) + up_to_line(p->w) + sums;
    for (int i = IPU__CONV_BIAS; i < IPU__CONV_OUT && p->c.kind == IPU__CONV_FORWARD; i++)
        n += up_to_line(ipu__op_n_elements(&p->call.operand[i].shape));
    return n;
}

size_t ipu__conv_wide_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    size_t most = 0, more = call->def->n_operands > IPU__CONV_OUT ? ipu__epilogue_scratch_bytes(call) : 0;
    for (int i = 0; i < n_parts; i++) {
        wide p;
        if (!describe(&p, call, ipu__cpu_machine_here(), i, n_parts) || !p.impl) continue;
        size_t bytes = p.impl->scratch_bytes ? p.impl->scratch_bytes(&p.call, 1) : 0;
        if (bytes == SIZE_MAX) return SIZE_MAX;
        bytes += (size_t)n_floats(&p) * sizeof(float);
        if (bytes > most) most = bytes;
    }
    return more == SIZE_MAX ? more : most + more; /* not at the same time, but both are aligned so */
}

ipu_status ipu__conv_wide_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    *out     = NULL;
    if (!s) return ipu__fail_memory();
    s->n_parts        = n_parts;
    ipu_status status = IPU_OK;
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        wide *p = &s->parts[i];
        if (!describe(p, call, ipu__cpu_machine_here(), i, n_parts))
            status = ipu__fail(IPU_UNSUPPORTED, "%s: nothing for floats fits", call->def->name);
        else if (p->impl && p->impl->prepare)
            status = p->impl->prepare(&p->call, 1, &p->prepared);
        if (status == IPU_OK && p->impl && p->c.kind == IPU__CONV_FORWARD && !p->inside && !s->epilogue.chain)
            status = ipu__epilogue_init(&s->epilogue, call);
        if (status != IPU_OK) p->impl = NULL; /* nothing to release */
    }
    if (status == IPU_OK)
        *out = s;
    else
        ipu__conv_wide_release(s);
    return status;
}

void ipu__conv_wide_release(void *prepared)
{
    state *s = prepared;
    if (!s) return;
    for (int i = 0; i < s->n_parts; i++) {
        wide *p = &s->parts[i];
        if (p->impl && p->impl->release && p->prepared) p->impl->release(p->prepared);
    }
    ipu__epilogue_fini(&s->epilogue);
    ipu__free(s);
}

/* ---- running ---- */

typedef struct job {
    const wide *p;
    ipu_type    type;
    float      *x, *y, *w, *sums;
    float      *more[IPU__CONV_OUT]; /* bias, and operands of the epilogue */
    void       *rest;                /* scratch of the implementation */
} job;

static job place(const wide *p, ipu_type type, void *scratch)
{
    job j  = {.p = p, .type = type, .x = scratch};
    j.y    = j.x + up_to_line(p->x);
    j.w    = j.y + up_to_line(p->y);
    j.sums = j.w + up_to_line(p->w);
    j.rest = j.sums + (p->c.kind == IPU__CONV_WEIGHT_GRAD ? up_to_line(p->w) : 0);
    for (int i = IPU__CONV_BIAS; i < IPU__CONV_OUT && p->c.kind == IPU__CONV_FORWARD; i++) {
        j.more[i] = j.rest;
        j.rest    = j.more[i] + up_to_line(ipu__op_n_elements(&p->call.operand[i].shape));
    }
    return j;
}

/* Element `i` of a 16-bit operand. */
static void *at(void *operand, int64_t i) { return (uint16_t *)operand + i; }

static ipu_status run_floats(const job *j, void *const *operand)
{
    const wide *p = j->p;
    return p->impl->run(&p->call, p->prepared, operand, j->rest, 0, 1);
}

/* The part's channels of images from `image` on, of an operand that is like y. */
static void get_channels(const job *j, void *from, int64_t image, float *to)
{
    const wide *p    = j->p;
    int64_t     area = ipu__conv_volume(p->c.y), all = p->c.groups * p->c.out * area,
            n = length(p->channel) * area;
    ipu__rows_to_floats(j->type, at(from, image * all + p->channel.begin * area), all, to, n, p->at_once, n);
}

static void put_channels(const job *j, void *to, int64_t image)
{
    const wide *p    = j->p;
    int64_t     area = ipu__conv_volume(p->c.y), all = p->c.groups * p->c.out * area,
            n = length(p->channel) * area;
    ipu__rows_from_floats(j->type, j->y, n, at(to, image * all + p->channel.begin * area), all, p->at_once,
                          n);
}

static ipu_status run_input_grad(const job *j, void *const *operand)
{
    const wide *p     = j->p;
    int64_t     step  = p->x / p->at_once;
    void       *use[] = {j->y, j->w, j->x};
    for (int64_t i = p->image.begin; i < p->image.end; i += p->at_once) {
        get_channels(j, operand[IPU__CONV_INPUT_GRAD_DY], i, j->y);
        IPU_TRY(run_floats(j, use));
        ipu__from_floats(j->type, j->x, at(operand[IPU__CONV_INPUT_GRAD_OUT], i * step), p->x);
    }
    return IPU_OK;
}

/* What is the same for all images: bias, and numbers for channels. */
static void get_more(const job *j, void *const *operand, void **use)
{
    const wide *p = j->p;
    for (int i = IPU__CONV_BIAS; i < IPU__CONV_OUT; i++) {
        int64_t n     = ipu__op_n_elements(&p->call.operand[i].shape);
        bool    whole = i != IPU__CONV_BIAS && channels_of(&p->call, i) < 0;
        if (n == 0) continue;
        use[i] = j->more[i];
        if (i != p->add) ipu__to_floats(j->type, at(operand[i], whole ? 0 : p->channel.begin), j->more[i], n);
    }
}

static ipu_status run_forward(const job *j, void *const *operand)
{
    const wide *p                      = j->p;
    int64_t     step                   = p->x / p->at_once;
    void       *use[IPU__MAX_OPERANDS] = {[IPU__CONV_X] = j->x, [IPU__CONV_W] = j->w, [IPU__CONV_OUT] = j->y};
    get_more(j, operand, use);
    for (int64_t i = p->image.begin; i < p->image.end; i += p->at_once) {
        ipu__to_floats(j->type, at(operand[IPU__CONV_X], i * step), j->x, p->x);
        if (p->add) get_channels(j, operand[p->add], i, j->more[p->add]);
        IPU_TRY(run_floats(j, use));
        put_channels(j, operand[IPU__CONV_OUT], i);
    }
    return IPU_OK;
}

static ipu_status run_weights(const job *j, void *const *operand)
{
    const wide *p     = j->p;
    void       *use[] = {j->x, j->y, j->w};
    int64_t     step  = p->x / p->at_once;
    memset(j->sums, 0, (size_t)p->w * sizeof *j->sums);
    for (int64_t i = p->image.begin; i < p->image.end; i += p->at_once) {
        ipu__to_floats(j->type, at(operand[IPU__CONV_WEIGHT_GRAD_X], i * step), j->x, p->x);
        get_channels(j, operand[IPU__CONV_WEIGHT_GRAD_DY], i, j->y);
        IPU_TRY(run_floats(j, use));
        for (int64_t k = 0; k < p->w; k++) j->sums[k] += j->w[k];
    }
    int64_t begin = p->channel.begin * (p->w / length(p->channel));
    ipu__from_floats(j->type, j->sums, at(operand[IPU__CONV_WEIGHT_GRAD_OUT], begin), p->w);
    return IPU_OK;
}

ipu_status ipu__conv_wide_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                              void *scratch, int part, int n_parts)
{
    const state *s = prepared;
    const wide  *p = &s->parts[part];
    (void)n_parts;
    if (!p->impl) return IPU_OK;
    job     j           = place(p, call->operand[0].type, scratch);
    int64_t per_channel = p->c.in * ipu__conv_volume(p->c.k);
    if (p->c.kind == IPU__CONV_WEIGHT_GRAD) return run_weights(&j, operand);
    ipu__to_floats(j.type, at(operand[IPU__CONV_W], p->channel.begin * per_channel), j.w, p->w);
    if (p->c.kind == IPU__CONV_INPUT_GRAD) return run_input_grad(&j, operand);
    IPU_TRY(run_forward(&j, operand));
    if (p->inside) return IPU_OK;
    int64_t n = p->y / p->at_once, step = p->c.groups * p->c.out * ipu__conv_volume(p->c.y);
    int64_t first = p->image.begin * step + p->channel.begin * ipu__conv_volume(p->c.y);
    ipu__epilogue_run(&s->epilogue, operand, first, n, step, length(p->image), scratch);
    return IPU_OK;
}

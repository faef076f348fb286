/* Convolutions of 16-bit types as convolutions of floats, some images at a time.
 *
 * A part has images, or for gradients of weights, which are sums over images, channels of the result. It converts a few
 * images, lets an implementation for floats work on them alone, and converts what comes out: all of it stays in
 * the second-level cache. The epilogue then works on the rounded result, as it does everywhere; relu comes before
 * rounding, which is the same but for the sign of zeros.
 */
#include "op/conv_wide.h"

#include <string.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "op/conv_onednn.h"
#include "op/xsmm.h"

enum {
    ROOM       = 1 << 20, /* bytes of floats of the images at a time; */
    LANES_ROOM = 4 << 20, /* or of sixteen, which implementations need that have images in lanes */
    LANES      = IPU__LAYOUT_WIDTH,
    LEAST_USES = 128, /* of a weight, by a part */
    MOST_WITH  = 12   /* attributes */
};

/* What one part does at a time. */
typedef struct wide {
    ipu__conv              c;       /* of the call */
    ipu_interval           image;   /* all of its images */
    ipu_interval           channel; /* of the result; all but for gradients of weights */
    int64_t                at_once; /* images; a divisor of their number */
    int64_t                x, y, w; /* floats at a time */
    ipu_kernel_call        call;    /* of floats, for so many images and channels */
    ipu_attribute          with[MOST_WITH];
    const ipu_kernel_impl *impl;     /* NULL: nothing to do, or none fits */
    size_t                 scratch;  /* bytes that it needs */
    void                  *prepared; /* of impl */
} wide;

typedef struct state {
    ipu__epilogue epilogue;
    int           n_parts;
    wide          parts[];
} state;

static int64_t length(ipu_interval i) { return i.end - i.begin; }

static int64_t up_to_line(int64_t floats) { return (floats + LANES - 1) / LANES * LANES; }

/* ---- what fits ---- */

/* The first for floats; NULL where that works on 16-bit types itself, or is oneDNN in plain layouts. */
static const ipu_kernel_impl *find_impl(const ipu_kernel_call *floats, const ipu_kernel_call *call,
                                        unsigned cpu_features, int n_parts)
{
    const ipu_kernel_def *def = call->def;
    for (int i = 0; i < def->n_implementations; i++) {
        const ipu_kernel_impl *impl = &def->implementations[i];
        if (!impl->fits(floats, cpu_features, 1)) continue;
        bool is_other = impl->fits == ipu__conv_onednn_fits || impl->fits(call, cpu_features, n_parts);
        return is_other ? NULL : impl;
    }
    return NULL;
}

/* The greatest divisor of `n` with which the images have room, or sixteen. */
static int64_t choose_at_once(int64_t n, int64_t image_bytes)
{
    int64_t most = image_bytes < ROOM ? ROOM / image_bytes : 1;
    if (most < LANES && n % LANES == 0 && LANES * image_bytes <= LANES_ROOM) return LANES;
    while (most > 1 && n % most != 0) most--;
    return most < n ? most : n;
}

static bool is_relu(const ipu_kernel_call *call)
{
    return call->def->n_operands > IPU__CONV_OUT && ipu__epilogue_kind_of(call) == IPU__EPILOGUE_RELU;
}

/* The call for `at_once` images and the channels. */
static bool describe_call(wide *p, const ipu_kernel_call *from)
{
    static const int x[] = {IPU__CONV_X, IPU__CONV_INPUT_GRAD_OUT, IPU__CONV_WEIGHT_GRAD_X};
    static const int y[] = {IPU__CONV_OUT, IPU__CONV_INPUT_GRAD_DY, IPU__CONV_WEIGHT_GRAD_DY};
    int              n   = 0;
    p->call              = *from;
    for (size_t i = 0; i < from->n_attributes; i++) {
        if (strcmp(from->attributes[i].name, "epilogue") == 0 && !is_relu(from)) continue;
        if (n == MOST_WITH) return false;
        p->with[n++] = from->attributes[i];
    }
    p->call.n_attributes = (size_t)n;
    for (int i = 0; i < from->n_operands; i++) {
        if (ipu__kernel_has(from, i)) p->call.operand[i].type = IPU_FLOAT;
        bool is_extra = p->c.kind == IPU__CONV_FORWARD && i > IPU__CONV_BIAS && i < IPU__CONV_OUT;
        if (is_extra) p->call.operand[i].shape = IPU_SHAPE(0);
    }
    p->call.operand[x[p->c.kind]].shape.dim[0] = p->at_once;
    p->call.operand[y[p->c.kind]].shape.dim[0] = p->at_once;
    if (p->c.kind == IPU__CONV_WEIGHT_GRAD) {
        p->call.operand[IPU__CONV_WEIGHT_GRAD_DY].shape.dim[1]  = length(p->channel);
        p->call.operand[IPU__CONV_WEIGHT_GRAD_OUT].shape.dim[0] = length(p->channel);
    }
    return true;
}

/* Shares of a part; false: it cannot be done so. `impl` stays NULL where there is nothing to do. */
static bool describe(wide *p, const ipu_kernel_call *call, unsigned cpu_features, int part, int n_parts)
{
    ipu__conv c = ipu__conv_get(call);
    *p          = (wide){.c = c, .image = {0, c.n}, .channel = {0, c.groups * c.out}};
    if (c.kind == IPU__CONV_WEIGHT_GRAD) {
        if (c.groups != 1 && n_parts > 1) return false;
        p->channel = ipu__op_part(c.groups * c.out, c.out % LANES == 0 ? LANES : 1, part, n_parts);
    } else {
        p->image = ipu__op_part(c.n, c.n % LANES == 0 && c.n >= LANES * n_parts ? LANES : 1, part, n_parts);
    }
    if (length(p->image) <= 0 || length(p->channel) <= 0) return true;
    int64_t x = c.groups * c.in * ipu__conv_volume(c.x), y = length(p->channel) * ipu__conv_volume(c.y);
    p->at_once = choose_at_once(length(p->image), (x + y) * (int64_t)sizeof(float));
    p->x       = p->at_once * x;
    p->y       = p->at_once * y;
    p->w       = length(p->channel) * c.in * ipu__conv_volume(c.k);
    if (!describe_call(p, call)) return false;
    p->call.attributes = p->with;
    p->impl            = find_impl(&p->call, call, cpu_features, n_parts);
    return p->impl != NULL;
}

bool ipu__conv_wide_fits(const ipu_kernel_call *call, unsigned cpu_features, int n_parts)
{
    ipu_type  type = call->operand[0].type;
    ipu__conv c    = ipu__conv_get(call);
    if ((type != IPU_HALF && type != IPU_BFLOAT16) || c.n < 1 || c.groups < 1 || c.in < 1 || c.out < 1)
        return false;
    if (ipu__conv_volume(c.y) < 1 || ipu__conv_volume(c.x) < 1) return false;
    /* Every part has an image; a weight that is used little, or at one place only, is not worth converting. */
    if (c.n < n_parts || c.n * ipu__conv_volume(c.y) < LEAST_USES * n_parts || ipu__conv_volume(c.k) <= 1)
        return false;
    bool any = false;
    for (int i = 0; i < n_parts; i++) {
        wide p;
        if (!describe(&p, call, cpu_features, i, n_parts)) return false;
        any |= p.impl != NULL;
    }
    return any;
}

/* ---- at load ---- */

static int64_t n_floats(const wide *p)
{
    int64_t sums = p->c.kind == IPU__CONV_WEIGHT_GRAD ? up_to_line(p->w) : 0;
    return up_to_line(p->x) + up_to_line(p->y) + up_to_line(p->w) + sums + up_to_line(p->c.groups * p->c.out);
}

size_t ipu__conv_wide_scratch_bytes(const ipu_kernel_call *call, int n_parts)
{
    size_t most = 0, more = call->def->n_operands > IPU__CONV_OUT ? ipu__epilogue_scratch_bytes(call) : 0;
    for (int i = 0; i < n_parts; i++) {
        wide p;
        if (!describe(&p, call, ipu__cpu_features(), i, n_parts) || !p.impl) continue;
        size_t bytes = p.impl->scratch_bytes ? p.impl->scratch_bytes(&p.call, 1) : 0;
        if (bytes == SIZE_MAX) return SIZE_MAX;
        bytes += (size_t)n_floats(&p) * sizeof(float);
        if (bytes > most) most = bytes;
    }
    return more == SIZE_MAX ? more : most + more; /* not at the same time, but both are aligned so */
}

ipu_status ipu__conv_wide_prepare(const ipu_kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    *out     = NULL;
    if (!s) return ipu__fail_memory();
    s->n_parts        = n_parts;
    ipu_status status = IPU_OK;
    if (call->def->n_operands > IPU__CONV_OUT && !is_relu(call))
        status = ipu__epilogue_init(&s->epilogue, call);
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        wide *p = &s->parts[i];
        if (!describe(p, call, ipu__cpu_features(), i, n_parts))
            status = ipu__fail(IPU_UNSUPPORTED, "%s: nothing for floats fits", call->def->name);
        else if (p->impl && p->impl->prepare)
            status = p->impl->prepare(&p->call, 1, &p->prepared);
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
    float      *x, *y, *w, *sums, *bias;
    void       *rest; /* scratch of the implementation */
} job;

static job place(const wide *p, ipu_type type, void *scratch)
{
    job j  = {.p = p, .type = type, .x = scratch};
    j.y    = j.x + up_to_line(p->x);
    j.w    = j.y + up_to_line(p->y);
    j.bias = j.w + up_to_line(p->w);
    j.sums = j.bias + up_to_line(p->c.groups * p->c.out);
    j.rest = j.sums + (p->c.kind == IPU__CONV_WEIGHT_GRAD ? up_to_line(p->w) : 0);
    return j;
}

/* Element `i` of a 16-bit operand. */
static void *at(void *operand, int64_t i) { return (uint16_t *)operand + i; }

static ipu_status run_floats(const job *j, void *const *operand)
{
    const wide *p = j->p;
    return p->impl->run(&p->call, p->prepared, operand, j->rest, 0, 1);
}

/* conv and its input's gradient: `from` and `to` have images, of so many elements each. */
static ipu_status run_images(const job *j, void *from, float *from_floats, void *to, float *to_floats,
                             void *const *operand)
{
    const wide *p = j->p;
    int64_t     n = p->at_once, from_step = (from_floats == j->x ? p->x : p->y) / n,
            to_step = (to_floats == j->x ? p->x : p->y) / n;
    for (int64_t i = p->image.begin; i < p->image.end; i += n) {
        ipu__to_floats(j->type, at(from, i * from_step), from_floats, n * from_step);
        IPU_TRY(run_floats(j, operand));
        ipu__from_floats(j->type, to_floats, at(to, i * to_step), n * to_step);
    }
    return IPU_OK;
}

static void get_gradients(const job *j, void *dy, int64_t image)
{
    const wide *p    = j->p;
    int64_t     area = ipu__conv_volume(p->c.y), all = p->c.groups * p->c.out * area,
            n = length(p->channel) * area;
    for (int64_t i = 0; i < p->at_once; i++)
        ipu__to_floats(j->type, at(dy, (image + i) * all + p->channel.begin * area), j->y + i * n, n);
}

static ipu_status run_weights(const job *j, void *const *operand)
{
    const wide *p     = j->p;
    void       *use[] = {j->x, j->y, j->w};
    int64_t     step  = p->x / p->at_once;
    memset(j->sums, 0, (size_t)p->w * sizeof *j->sums);
    for (int64_t i = p->image.begin; i < p->image.end; i += p->at_once) {
        ipu__to_floats(j->type, at(operand[IPU__CONV_WEIGHT_GRAD_X], i * step), j->x, p->x);
        get_gradients(j, operand[IPU__CONV_WEIGHT_GRAD_DY], i);
        IPU_TRY(run_floats(j, use));
        for (int64_t k = 0; k < p->w; k++) j->sums[k] += j->w[k];
    }
    int64_t begin = p->channel.begin * (p->w / length(p->channel));
    ipu__from_floats(j->type, j->sums, at(operand[IPU__CONV_WEIGHT_GRAD_OUT], begin), p->w);
    return IPU_OK;
}

ipu_status ipu__conv_wide_run(const ipu_kernel_call *call, void *prepared, void *const *operand,
                              void *scratch, int part, int n_parts)
{
    const state *s                      = prepared;
    const wide  *p                      = &s->parts[part];
    void        *use[IPU__MAX_OPERANDS] = {NULL};
    (void)n_parts;
    if (!p->impl) return IPU_OK;
    job j = place(p, call->operand[0].type, scratch);
    if (p->c.kind == IPU__CONV_WEIGHT_GRAD) return run_weights(&j, operand);
    ipu__to_floats(j.type, operand[IPU__CONV_W], j.w, p->w);
    if (p->c.kind == IPU__CONV_INPUT_GRAD) {
        use[IPU__CONV_INPUT_GRAD_DY]  = j.y;
        use[IPU__CONV_INPUT_GRAD_W]   = j.w;
        use[IPU__CONV_INPUT_GRAD_OUT] = j.x;
        return run_images(&j, operand[IPU__CONV_INPUT_GRAD_DY], j.y, operand[IPU__CONV_INPUT_GRAD_OUT], j.x,
                          use);
    }
    bool has_bias = ipu__kernel_has(call, IPU__CONV_BIAS);
    if (has_bias) ipu__to_floats(j.type, operand[IPU__CONV_BIAS], j.bias, p->c.groups * p->c.out);
    use[IPU__CONV_X]    = j.x;
    use[IPU__CONV_W]    = j.w;
    use[IPU__CONV_BIAS] = has_bias ? j.bias : NULL;
    use[IPU__CONV_OUT]  = j.y;
    IPU_TRY(run_images(&j, operand[IPU__CONV_X], j.x, operand[IPU__CONV_OUT], j.y, use));
    int64_t step = p->y / p->at_once, n = length(p->image) * step;
    ipu__epilogue_run(&s->epilogue, operand, p->image.begin * step, n, n, 1, scratch);
    return IPU_OK;
}

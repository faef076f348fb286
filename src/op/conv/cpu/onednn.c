/* Convolutions of floats by oneDNN in plain layouts, for CPUs without libxsmm kernels.
 *
 * Parts get whole images and a primitive each, created at load with one OpenMP thread; weight gradients,
 * which sum over images, are computed by the first part alone.
 */
#include "op/conv/cpu/onednn.h"

#include "base/alloc.h"
#include "op/product/dnnl.h"

enum { X, W, Y, BIAS, SCRATCH, N_MEMORIES };

typedef struct part {
    ipu_interval     image;
    dnnl_primitive_t primitive; /* NULL: nothing to do */
    dnnl_stream_t    stream;
    dnnl_memory_t    memory[N_MEMORIES]; /* NULL: not used */
} part;

typedef struct state {
    dnnl_engine_t engine;
    ipu__conv     c;
    ipu__epilogue epilogue; /* empty but for conv */
    size_t        scratch_bytes;
    int           n_parts;
    part          parts[];
} state;

static const char *const names[] = {"conv", "conv_input_grad", "conv_weight_grad"};

bool ipu__conv_onednn_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)machine, (void)n_parts; /* oneDNN finds out for itself what the CPU can do */
    ipu__conv c = ipu__conv_get(call);
    for (int d = 0; d < 3; d++)
        if (c.pad[d] < 0 || c.pad_end[d] < 0) return false;
    return call->operand[0].type == IPU_FLOAT && c.n > 0 && c.groups > 0 && c.in > 0 && c.out > 0
        && ipu__conv_volume(c.y) > 0 && ipu__conv_volume(c.x) > 0 && ipu__conv_volume(c.k) > 0;
}

/* ---- at load ---- */

static ipu_interval images_of(const ipu__conv *c, int index, int n_parts)
{
    if (c->kind == IPU__CONV_WEIGHT_GRAD) return (ipu_interval){0, index == 0 ? c->n : 0};
    return ipu__op_part(c->n, 1, index, n_parts);
}

typedef struct descs {
    dnnl_memory_desc_t md[N_MEMORIES];
    dnnl_dims_t        stride, dilation, pad, pad_end;
} descs;

/* Row-major, of `lead` dimensions and then the convolved ones. */
static dnnl_status_t describe_plain(dnnl_memory_desc_t *md, const int64_t *lead, int n, const int64_t *dims,
                                    int rank)
{
    dnnl_dims_t all, strides;
    int64_t     step = 1;
    for (int i = 0; i < n; i++) all[i] = lead[i];
    for (int i = 0; i < rank; i++) all[n + i] = dims[3 - rank + i];
    for (int i = n + rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= all[i];
    }
    return dnnl_memory_desc_init_by_strides(md, n + rank, all, dnnl_f32, strides);
}

static ipu_status describe(const ipu__conv *c, int64_t n, descs *d)
{
    const char   *op  = names[c->kind];
    const int64_t x[] = {n, c->groups * c->in}, y[] = {n, c->groups * c->out};
    const int64_t w[] = {c->groups, c->out, c->in}, channels[] = {c->groups * c->out};
    int           ungroup = c->groups == 1;
    for (int i = 0; i < c->rank; i++) {
        int at         = 3 - c->rank + i;
        d->stride[i]   = c->stride[at];
        d->dilation[i] = c->dilation[at] - 1;
        d->pad[i]      = c->pad[at];
        /* What remains after the last step: oneDNN wants exact sums. */
        d->pad_end[i] = (c->y[at] - 1) * c->stride[at] + (c->k[at] - 1) * c->dilation[at] + 1 - c->x[at]
                      - c->pad[at];
    }
    IPU__TRY_DNNL(describe_plain(&d->md[X], x, 2, c->x, c->rank), op, "describe x");
    IPU__TRY_DNNL(describe_plain(&d->md[Y], y, 2, c->y, c->rank), op, "describe y");
    IPU__TRY_DNNL(describe_plain(&d->md[W], w + ungroup, 3 - ungroup, c->k, c->rank), op, "describe w");
    IPU__TRY_DNNL(describe_plain(&d->md[BIAS], channels, 1, c->x, 0), op, "describe the bias");
    return IPU_OK;
}

static ipu_status make_desc(const ipu__conv *c, descs *d, bool has_bias, dnnl_engine_t engine,
                            dnnl_primitive_desc_t *out)
{
    const dnnl_alg_kind_t   direct = dnnl_convolution_direct;
    dnnl_convolution_desc_t forward, backward;
    dnnl_primitive_desc_t   hint = NULL;
    dnnl_primitive_attr_t   attributes;
    const char             *op = names[c->kind];
    IPU__TRY_DNNL(dnnl_dilated_convolution_forward_desc_init(
                      &forward, dnnl_forward_training, direct, &d->md[X], &d->md[W],
                      has_bias ? &d->md[BIAS] : NULL, &d->md[Y], d->stride, d->dilation, d->pad, d->pad_end),
                  op, "describe it");
    dnnl_status_t status = dnnl_success;
    if (c->kind == IPU__CONV_INPUT_GRAD)
        status = dnnl_dilated_convolution_backward_data_desc_init(
            &backward, direct, &d->md[X], &d->md[W], &d->md[Y], d->stride, d->dilation, d->pad, d->pad_end);
    if (c->kind == IPU__CONV_WEIGHT_GRAD)
        status = dnnl_dilated_convolution_backward_weights_desc_init(&backward, direct, &d->md[X], &d->md[W],
                                                                     NULL, &d->md[Y], d->stride, d->dilation,
                                                                     d->pad, d->pad_end);
    if (status != dnnl_success) return ipu__fail_dnnl(status, op, "describe it");
    IPU__TRY_DNNL(dnnl_primitive_attr_create(&attributes), op, "make attributes");
    status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&hint, &forward, attributes, engine, NULL);
    if (status == dnnl_success && c->kind != IPU__CONV_FORWARD) {
        status = dnnl_primitive_desc_create(out, &backward, attributes, engine, hint);
        dnnl_primitive_desc_destroy(hint);
    } else {
        *out = hint;
    }
    dnnl_primitive_attr_destroy(attributes);
    return status == dnnl_success ? IPU_OK : ipu__fail_dnnl(status, op, "choose an implementation");
}

static ipu_status make_part(state *s, part *p, bool has_bias)
{
    descs                 d;
    dnnl_primitive_desc_t desc = NULL;
    const char           *op   = names[s->c.kind];
    IPU_TRY(describe(&s->c, p->image.end - p->image.begin, &d));
    IPU_TRY(make_desc(&s->c, &d, has_bias, s->engine, &desc));
    d.md[SCRATCH]        = *dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    size_t        bytes  = dnnl_memory_desc_get_size(&d.md[SCRATCH]);
    dnnl_status_t status = dnnl_primitive_create(&p->primitive, desc);
    dnnl_primitive_desc_destroy(desc);
    if (status != dnnl_success) return ipu__fail_dnnl(status, op, "make a primitive");
    if (bytes > s->scratch_bytes) s->scratch_bytes = bytes;
    IPU__TRY_DNNL(dnnl_stream_create(&p->stream, s->engine, dnnl_stream_default_flags), op, "make a stream");
    for (int i = 0; i < N_MEMORIES; i++)
        if (i != BIAS || has_bias)
            IPU__TRY_DNNL(dnnl_memory_create(&p->memory[i], &d.md[i], s->engine, DNNL_MEMORY_NONE), op,
                          "make a memory object");
    return IPU_OK;
}

static ipu_status make_parts(const ipu__kernel_call *call, state *s)
{
    bool is_forward = s->c.kind == IPU__CONV_FORWARD,
         has_bias   = is_forward && ipu__kernel_has(call, IPU__CONV_BIAS);
    IPU__TRY_DNNL(dnnl_engine_create(&s->engine, dnnl_cpu, 0), names[s->c.kind], "make an engine");
    if (is_forward) IPU_TRY(ipu__epilogue_init(&s->epilogue, call));
    for (int i = 0; i < s->n_parts; i++) {
        part *p  = &s->parts[i];
        p->image = images_of(&s->c, i, s->n_parts);
        if (p->image.begin < p->image.end) IPU_TRY(make_part(s, p, has_bias));
    }
    return IPU_OK;
}

ipu_status ipu__conv_onednn_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->parts);
    *out     = NULL;
    if (!s) return ipu__fail_memory();
    s->n_parts         = n_parts;
    s->c               = ipu__conv_get(call);
    int        threads = ipu__dnnl_enter();
    ipu_status status  = make_parts(call, s);
    ipu__dnnl_leave(threads);
    if (status == IPU_OK)
        *out = s;
    else
        ipu__conv_onednn_release(s);
    return status;
}

void ipu__conv_onednn_release(void *prepared)
{
    state *s = prepared;
    if (!s) return;
    for (int i = 0; i < s->n_parts; i++) {
        part *p = &s->parts[i];
        if (p->primitive) dnnl_primitive_destroy(p->primitive);
        if (p->stream) dnnl_stream_destroy(p->stream);
        for (int k = 0; k < N_MEMORIES; k++)
            if (p->memory[k]) dnnl_memory_destroy(p->memory[k]);
    }
    if (s->engine) dnnl_engine_destroy(s->engine);
    ipu__epilogue_fini(&s->epilogue);
    ipu__free(s);
}

/* What oneDNN refuses for another reason than memory needs no scratch: `prepare` says why. */
size_t ipu__conv_onednn_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    void      *prepared;
    ipu_status status = ipu__conv_onednn_prepare(call, n_parts, &prepared);
    if (status != IPU_OK) return status == IPU_OUT_OF_MEMORY ? SIZE_MAX : 0;
    const state *s     = prepared;
    size_t       bytes = s->scratch_bytes,
           more        = s->epilogue.chain ? ipu__chain_scratch_bytes(s->epilogue.chain) : 0;
    ipu__conv_onednn_release(prepared);
    return more > bytes ? more : bytes; /* not at the same time */
}

/* ---- running ---- */

ipu_status ipu__conv_onednn_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                void *scratch, int index, int n_parts)
{
    const state     *s  = prepared;
    const part      *p  = &s->parts[index];
    const ipu__conv *c  = &s->c;
    const char      *op = names[c->kind];
    (void)call, (void)n_parts;
    if (!p->primitive) return IPU_OK;
    static const int operands[3][N_MEMORIES] = {
        {IPU__CONV_X, IPU__CONV_W, IPU__CONV_OUT, IPU__CONV_BIAS, 0},
        {IPU__CONV_INPUT_GRAD_OUT, IPU__CONV_INPUT_GRAD_W, IPU__CONV_INPUT_GRAD_DY, 0, 0},
        {IPU__CONV_WEIGHT_GRAD_X, IPU__CONV_WEIGHT_GRAD_OUT, IPU__CONV_WEIGHT_GRAD_DY, 0, 0}};
    static const int args[3][N_MEMORIES] = {
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS, DNNL_ARG_SCRATCHPAD},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_BIAS, DNNL_ARG_SCRATCHPAD},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST, DNNL_ARG_BIAS, DNNL_ARG_SCRATCHPAD}};
    int64_t         x_step = c->groups * c->in * ipu__conv_volume(c->x);
    int64_t         y_step = c->groups * c->out * ipu__conv_volume(c->y), n = p->image.end - p->image.begin;
    const int64_t   offset[N_MEMORIES] = {p->image.begin * x_step, 0, p->image.begin * y_step, 0, 0};
    dnnl_exec_arg_t list[N_MEMORIES];
    int             n_args = 0;
    for (int i = 0; i < N_MEMORIES; i++) {
        if (!p->memory[i]) continue;
        void *data = i == SCRATCH ? scratch : (float *)operand[operands[c->kind][i]] + offset[i];
        IPU__TRY_DNNL(dnnl_memory_set_data_handle(p->memory[i], data), op, "use an operand");
        list[n_args++] = (dnnl_exec_arg_t){args[c->kind][i], p->memory[i]};
    }
    IPU__TRY_DNNL(dnnl_primitive_execute(p->primitive, p->stream, n_args, list), op, "convolve");
    ipu__epilogue_run(&s->epilogue, operand, offset[Y], n * y_step, n * y_step, 1, scratch);
    return IPU_OK;
}

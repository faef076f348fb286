/* Convolutions as matrix products: each part's share, kernels and scratch, determined at load. */
#include "op/conv/cpu/gemm.h"

static const ipu__conv_way *const ways[] = {[IPU__CONV_FORWARD]     = &ipu__conv_forward_way,
                                            [IPU__CONV_INPUT_GRAD]  = &ipu__conv_input_grad_way,
                                            [IPU__CONV_WEIGHT_GRAD] = &ipu__conv_weight_grad_way};

bool ipu__conv_gemm_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)n_parts;
    ipu__conv c    = ipu__conv_get(call);
    ipu_type  type = call->operand[0].type;
    if (!ipu__xsmm_works(ipu__cpu_features_of(machine)) || type == IPU_DOUBLE) return false;
    return c.n > 0 && c.groups > 0 && c.in > 0 && c.out > 0 && ipu__conv_volume(c.y) > 0
        && ipu__conv_volume(c.x) > 0 && ipu__conv_volume(c.k) > 0;
}

size_t ipu__conv_gemm_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    ipu__conv    c = ipu__conv_get(call);
    ipu__columns s;
    int64_t      most = 0;
    if (ipu__columns_init(&s, &c, call->operand[0].type) != IPU_OK) return SIZE_MAX;
    for (int i = 0; i < n_parts; i++) {
        ipu__conv_part p = {.at_once = 0};
        ways[c.kind]->describe(&s, i, n_parts, &p);
        int64_t n = p.at_once > 0 ? ways[c.kind]->count_floats(&s, &p) : 0;
        if (n > most) most = n;
    }
    ipu__columns_fini(&s);
    size_t more = c.kind == IPU__CONV_FORWARD ? ipu__epilogue_scratch_bytes(call) : 0;
    return more == SIZE_MAX ? more : (size_t)most * sizeof(float) + more;
}

static ipu_status make_part(const ipu__kernel_call *call, const ipu__columns *s, const ipu__conv_way *way,
                            ipu__conv_part *p)
{
    if (p->at_once == 0) return IPU_OK;
    IPU_TRY(way->make_blocks(call, s, p, &p->blocks));
    bool has_last = p->last.m > 0 && p->last.n > 0 && p->last.k > 0;
    return has_last ? way->make_blocks(call, s, p, &p->last) : IPU_OK;
}

ipu_status ipu__conv_gemm_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    ipu__conv       c = ipu__conv_get(call);
    ipu__conv_gemm *s;
    IPU_TRY(ipu__conv_prepare(call, &c, call->operand[0].type, sizeof *s + (size_t)n_parts * sizeof *s->parts,
                              out));
    s                 = *out;
    ipu_status status = IPU_OK;
    for (int i = 0; i < n_parts && status == IPU_OK; i++) {
        ways[c.kind]->describe(&s->base.columns, i, n_parts, &s->parts[i]);
        status = make_part(call, &s->base.columns, ways[c.kind], &s->parts[i]);
    }
    if (status == IPU_OK) return IPU_OK;
    ipu__conv_release(s);
    *out = NULL;
    return status;
}

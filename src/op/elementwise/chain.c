/* Preparing and running chains: blocks of elements pass through all instructions while in cache.
 *
 * A block of an operand is read in place if it is contiguous and in the format of its lane, else loaded into
 * a register: a row of scratch. A result is written to its place unless that may hold something still to be
 * read.
 */
#include "op/elementwise/chain.h"

#include <string.h>

#include "base/alloc.h"
#include "op/elementwise/chain_parse.h"

enum { BLOCK = 1024, REGISTER_BYTES = BLOCK * 8, NONE = -1 };

typedef enum mode {
    UNUSED,
    SCALAR, /* one element, brought to a register once */
    PLAIN,  /* as many elements as the results */
    SPREAD  /* broadcast along some dimensions */
} mode;

typedef struct operand {
    mode          mode;
    size_t        bytes; /* of an element */
    int           reg;   /* NONE: read where it lies */
    ipu__block_fn widen; /* NULL: as it is */
    int64_t       stride[IPU_MAX_RANK];
} operand;

typedef struct step {
    int           n_in, in[IPU__MAX_ELEMENT_INPUTS]; /* values as in chain_parse.h */
    ipu__block_fn run, narrow, widen;
    double        parameters[IPU__MAX_ELEMENT_PARAMETERS];
    size_t        bytes; /* of an element of the result's type */
    int           reg;   /* NONE: computed where `out` lies */
    int           out;   /* written there at once; NONE: nowhere, or at the end of the block */
    bool          is_read;
    bool          is_rounding; /* it does nothing else: a cast of floats */
} step;

typedef struct late_store {
    int step, out;
} late_store;

struct ipu__chain {
    int        n_steps, n_late, n_registers, rank;
    int64_t    dim[IPU_MAX_RANK]; /* of the results, merged where no operand tells them apart */
    double     work;
    operand    operand[IPU__CHAIN_MAX_IN];
    late_store late[IPU__CHAIN_MAX_OUT];
    step       step[]; /* n_steps */
};

/* ---- where operands lie ---- */

static void set_strides(ipu__chain *chain, const ipu_shape *shape, const ipu__chain_code *code,
                        const ipu__kernel_value *in)
{
    chain->rank = shape->rank;
    memcpy(chain->dim, shape->dim, sizeof chain->dim);
    for (int i = 0; i < IPU__CHAIN_MAX_IN; i++) {
        if (!code->is_used[i]) continue;
        const ipu_shape *s      = &in[i].shape;
        int64_t          stride = 1;
        for (int d = 1; d <= shape->rank; d++) {
            int64_t n                                 = d <= s->rank ? s->dim[s->rank - d] : 1;
            chain->operand[i].stride[shape->rank - d] = n == 1 ? 0 : stride;
            stride *= n;
        }
    }
}

/* Whether dimension d and the next are one for all operands. */
static bool merges(const ipu__chain *chain, int d)
{
    for (int i = 0; i < IPU__CHAIN_MAX_IN; i++) {
        const operand *o = &chain->operand[i];
        if (o->mode == SPREAD && o->stride[d] != o->stride[d + 1] * chain->dim[d + 1]) return false;
    }
    return true;
}

static void drop_dimension(ipu__chain *chain, int d)
{
    for (int e = d; e + 1 < chain->rank; e++) {
        chain->dim[e] = chain->dim[e + 1];
        for (int i = 0; i < IPU__CHAIN_MAX_IN; i++)
            chain->operand[i].stride[e] = chain->operand[i].stride[e + 1];
    }
    chain->rank--;
}

static void merge_dimensions(ipu__chain *chain)
{
    for (int d = chain->rank - 1; d >= 0; d--)
        if (chain->dim[d] == 1) drop_dimension(chain, d);
    for (int d = chain->rank - 2; d >= 0; d--) {
        if (!merges(chain, d)) continue;
        chain->dim[d + 1] *= chain->dim[d];
        drop_dimension(chain, d);
    }
}

static void set_operands(ipu__chain *chain, const ipu__chain_code *code, const ipu__kernel_value *in,
                         const ipu_shape *shape)
{
    int64_t n = ipu__op_n_elements(shape);
    for (int i = 0; i < IPU__CHAIN_MAX_IN; i++) {
        operand *o = &chain->operand[i];
        o->reg     = NONE;
        if (!code->is_used[i]) continue;
        int64_t held = ipu__op_n_elements(&in[i].shape);
        o->mode      = held == n ? PLAIN : held == 1 ? SCALAR : SPREAD;
        o->bytes     = ipu_type_size(in[i].type);
        o->widen     = ipu__converters()->widen[in[i].type];
        if (o->mode != PLAIN || o->widen) o->reg = chain->n_registers++;
    }
    set_strides(chain, shape, code, in);
    merge_dimensions(chain);
}

/* ---- where results go ---- */

static int last_use(const ipu__chain_code *code, int value)
{
    int last = -1;
    for (int k = 0; k < code->n_steps; k++)
        for (int i = 0; i < code->step[k].n_in; i++)
            if (code->step[k].in[i] == value) last = k;
    return last;
}

/* The last instruction that reads an operand where it lies. */
static int last_direct_read(const ipu__chain *chain, const ipu__chain_code *code)
{
    int last = -1;
    for (int i = 0; i < IPU__CHAIN_MAX_IN; i++) {
        int use = chain->operand[i].mode != UNUSED && chain->operand[i].reg == NONE ? last_use(code, i) : -1;
        if (use > last) last = use;
    }
    return last;
}

static void set_outputs(ipu__chain *chain, const ipu__chain_code *code)
{
    int direct = last_direct_read(chain, code);
    for (int i = 0; i < code->n_out; i++) {
        step *s = &chain->step[code->out[i]];
        if (s->out == NONE && code->out[i] >= direct)
            s->out = i;
        else
            chain->late[chain->n_late++] = (late_store){code->out[i], i};
    }
}

static bool is_late(const ipu__chain *chain, int k)
{
    for (int i = 0; i < chain->n_late; i++)
        if (chain->late[i].step == k) return true;
    return false;
}

/* A register is free again after the last instruction that reads it. */
static void set_registers(ipu__chain *chain, const ipu__chain_code *code)
{
    int free_after[IPU__CHAIN_MAX_STEPS], first = chain->n_registers, n = 0;
    for (int k = 0; k < chain->n_steps; k++) {
        step *s    = &chain->step[k];
        int   last = is_late(chain, k) ? IPU__CHAIN_MAX_STEPS : last_use(code, IPU__CHAIN_MAX_IN + k);
        s->is_read = last >= 0;
        s->reg     = NONE;
        if (s->out != NONE && !s->narrow) continue;
        int r = 0;
        while (r < n && free_after[r] >= k) r++;
        if (r == n) n++;
        free_after[r] = last > k ? last : k;
        s->reg        = first + r;
    }
    chain->n_registers += n;
}

static void set_steps(ipu__chain *chain, const ipu__chain_code *code, const ipu__kernel_value *in)
{
    const ipu__convert_blocks *converters = ipu__converters();
    chain->n_steps                        = code->n_steps;
    for (int k = 0; k < code->n_steps; k++) {
        const ipu__chain_step *from = &code->step[k];
        step                  *s    = &chain->step[k];
        ipu_type               type = ipu__chain_type(code, in, from->in[from->n_in - 1]);
        ipu__lane              lane = ipu__lane_of[type];
        s->n_in                     = from->n_in;
        s->out                      = NONE;
        s->bytes                    = ipu_type_size(from->type);
        s->narrow                   = converters->narrow[from->type];
        s->widen                    = converters->widen[from->type];
        memcpy(s->in, from->in, sizeof s->in);
        memcpy(s->parameters, from->parameters, sizeof s->parameters);
        s->run = ipu__element_block(lane, from->element);
        if (from->element == IPU__ELEMENT_cast) {
            s->run = ipu__cast_block(type, from->to);
            ipu__integer_range(from->to, s->parameters);
            s->is_rounding = lane == IPU__LANE_F32 && ipu__lane_of[from->to] == IPU__LANE_F32;
        }
        chain->work += from->element < IPU__N_ELEMENTS ? ipu__element_operations(from->element) : 1;
    }
}

/* ---- masks ---- */

static int count_uses(const ipu__chain_code *code, int k)
{
    int n = 0;
    for (int i = 0; i < code->n_steps; i++)
        for (int j = 0; j < code->step[i].n_in; j++) n += code->step[i].in[j] == IPU__CHAIN_MAX_IN + k;
    for (int i = 0; i < code->n_out; i++) n += code->out[i] == k;
    return n;
}

static void drop_step(ipu__chain_code *code, int k)
{
    memmove(&code->step[k], &code->step[k + 1], (size_t)(--code->n_steps - k) * sizeof *code->step);
    for (int i = k; i < code->n_steps; i++)
        for (int j = 0; j < code->step[i].n_in; j++)
            code->step[i].in[j] -= code->step[i].in[j] > IPU__CHAIN_MAX_IN + k;
    for (int i = 0; i < code->n_out; i++) code->out[i] -= code->out[i] > k;
}

/* "greater x z; where t y z" in one loop, without a bool of each element in between. */
static void fuse_masks(ipu__chain_code *code, const ipu__kernel_value *in)
{
    for (int k = 0; k < code->n_steps; k++) {
        ipu__chain_step *s = &code->step[k];
        int              j = s->in[0] - IPU__CHAIN_MAX_IN;
        if (s->element != IPU__ELEMENT_where || j < 0 || code->step[j].element != IPU__ELEMENT_greater)
            continue;
        int x = code->step[j].in[0], z = code->step[j].in[1];
        if (z != s->in[2] || ipu__chain_type(code, in, x) != s->type || !ipu__op_is_floating(s->type)
            || count_uses(code, j) != 1)
            continue;
        s->element = IPU__ELEMENT_mask;
        s->in[0]   = x;
        drop_step(code, j);
        k--;
    }
}

static ipu_status make(ipu__chain_code *code, const ipu__kernel_value *in, ipu__chain **out)
{
    ipu_shape shape;
    *out = NULL;
    IPU_TRY(ipu__chain_types(code, in, &shape));
    fuse_masks(code, in);
    ipu__chain *chain = ipu__alloc_zeroed(sizeof *chain + (size_t)code->n_steps * sizeof(step));
    if (!chain) return ipu__fail_memory();
    set_operands(chain, code, in, &shape);
    set_steps(chain, code, in);
    set_outputs(chain, code);
    set_registers(chain, code);
    *out = chain;
    return IPU_OK;
}

ipu_status ipu__chain_create(const char *text, const ipu__kernel_value *in, int n_in, ipu__chain **out)
{
    ipu__chain_code code;
    *out = NULL;
    IPU_TRY(ipu__chain_parse(text, n_in, &code));
    return make(&code, in, out);
}

ipu_status ipu__chain_create_op(const ipu__kernel_call *call, ipu__chain **out)
{
    int             n_in = ipu__op_of(call->def)->n_in;
    ipu__chain_code code = {.n_steps = 1, .n_out = 1};
    code.step[0]         = (ipu__chain_step){.element = ipu__element_of(call->def), .n_in = n_in};
    ipu__element_parameters(call, code.step[0].parameters);
    for (int i = 0; i < n_in; i++) {
        code.step[0].in[i] = i;
        code.is_used[i]    = true;
    }
    if (code.step[0].element == IPU__ELEMENT_cast) code.step[0].to = call->operand[n_in].type;
    return make(&code, call->operand, out);
}

void ipu__chain_destroy(ipu__chain *chain) { ipu__free(chain); }

/* One register more: what passes through a narrower type. */
size_t ipu__chain_scratch_bytes(const ipu__chain *chain)
{
    return (size_t)(chain->n_registers + 1) * REGISTER_BYTES;
}

size_t ipu__chain_op_scratch_bytes(void) { return (size_t)(IPU__MAX_ELEMENT_INPUTS + 2) * REGISTER_BYTES; }

double ipu__chain_work(const ipu__chain *chain) { return chain->work; }

/* ---- operands to registers ---- */

/* Elements [begin, begin + n) of the results' order, run by run along the last dimension. */
static void gather(const ipu__chain *chain, const operand *o, const char *from, int64_t begin, int64_t n,
                   char *to)
{
    int64_t        index[IPU_MAX_RANK], offset = 0;
    int            last = chain->rank - 1;
    ipu__spread_fn copy = ipu__converters()->spread[o->bytes];
    for (int d = last; d >= 0; d--) {
        index[d] = begin % chain->dim[d];
        begin /= chain->dim[d];
        offset += index[d] * o->stride[d];
    }
    while (n > 0) {
        int64_t rest = chain->dim[last] - index[last], run = rest < n ? rest : n;
        copy(from + (size_t)offset * o->bytes, o->stride[last], run, to);
        to += (size_t)run * o->bytes;
        n -= run;
        offset -= index[last] * o->stride[last];
        index[last] = 0;
        for (int d = last - 1; d >= 0; d--) {
            offset += o->stride[d];
            if (++index[d] < chain->dim[d]) break;
            offset -= index[d] * o->stride[d];
            index[d] = 0;
        }
    }
}

static char *reg_at(void *scratch, int reg) { return (char *)scratch + (size_t)reg * REGISTER_BYTES; }
static char *spare(const ipu__chain *chain, void *scratch) { return reg_at(scratch, chain->n_registers); }

static void load_scalars(const ipu__chain *chain, const void *const *in, int64_t n, void *scratch)
{
    for (int i = 0; i < IPU__CHAIN_MAX_IN; i++) {
        const operand *o = &chain->operand[i];
        if (o->mode != SCALAR) continue;
        char *to = o->widen ? spare(chain, scratch) : reg_at(scratch, o->reg);
        ipu__converters()->spread[o->bytes](in[i], 0, n, to);
        if (o->widen) o->widen((const void *[]){to}, reg_at(scratch, o->reg), n, NULL);
    }
}

/* Where the block of an operand is, brought there if need be. */
static const void *load(const ipu__chain *chain, int i, const void *from, int64_t begin, int64_t n,
                        void *scratch)
{
    const operand *o = &chain->operand[i];
    if (o->mode == SCALAR) return reg_at(scratch, o->reg);
    const void *at = (const char *)from + (size_t)begin * o->bytes;
    if (o->mode == SPREAD) {
        char *to = o->widen ? spare(chain, scratch) : reg_at(scratch, o->reg);
        gather(chain, o, from, begin, n, to);
        at = to;
    }
    if (!o->widen) return at;
    o->widen((const void *[]){at}, reg_at(scratch, o->reg), n, NULL);
    return reg_at(scratch, o->reg);
}

/* ---- running ---- */

/* Round what step `s` left in its register to its type, on the way to its output if it has one. */
static void round_result(const ipu__chain *chain, const step *s, void *out, int64_t n, void *scratch)
{
    void *reg = reg_at(scratch, s->reg), *to = out ? out : spare(chain, scratch);
    s->narrow((const void *[]){reg}, to, n, NULL);
    if (s->is_read) s->widen((const void *[]){to}, reg, n, NULL);
}

static void run_block(const ipu__chain *chain, const void *const *in, void *const *out, int64_t begin,
                      int64_t n, void *scratch)
{
    const void *value[IPU__CHAIN_MAX_IN + IPU__CHAIN_MAX_STEPS];
    for (int i = 0; i < IPU__CHAIN_MAX_IN; i++)
        if (chain->operand[i].mode != UNUSED) value[i] = load(chain, i, in[i], begin, n, scratch);
    for (int k = 0; k < chain->n_steps; k++) {
        const step *s = &chain->step[k];
        const void *from[IPU__MAX_ELEMENT_INPUTS];
        for (int i = 0; i < s->n_in; i++) from[i] = value[s->in[i]];
        void *direct = s->out == NONE ? NULL : (char *)out[s->out] + (size_t)begin * s->bytes;
        void *to     = s->reg == NONE ? direct : reg_at(scratch, s->reg);
        if (s->is_rounding && s->narrow && direct && !s->is_read) {
            s->narrow(from, direct, n, NULL);
            continue;
        }
        s->run(from, to, n, s->parameters);
        if (s->narrow) round_result(chain, s, direct, n, scratch);
        value[IPU__CHAIN_MAX_IN + k] = to;
    }
    for (int i = 0; i < chain->n_late; i++) {
        const step *s    = &chain->step[chain->late[i].step];
        const void *from = value[IPU__CHAIN_MAX_IN + chain->late[i].step];
        char       *to   = (char *)out[chain->late[i].out] + (size_t)begin * s->bytes;
        if (s->narrow)
            s->narrow((const void *[]){from}, to, n, NULL);
        else
            memcpy(to, from, (size_t)n * s->bytes);
    }
}

void ipu__chain_run(const ipu__chain *chain, const void *const *in, void *const *out, int64_t begin,
                    int64_t end, void *scratch)
{
    if (begin >= end) return;
    load_scalars(chain, in, end - begin < BLOCK ? end - begin : BLOCK, scratch);
    for (int64_t i = begin; i < end; i += BLOCK)
        run_block(chain, in, out, i, end - i < BLOCK ? end - i : BLOCK, scratch);
}

/* dropout: elements set to 0 at random. Its gradient is dropout with the same key, of dy: the choice is made again
 * from the same bits. */
#include <string.h>

#include "ipu/random.h"
#include "op/builder.h"
#include "op/number.h"
#include "op/random.h"

enum { X, SEED, REPLICA, OUT };

static ipu_status dropout_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    double p = ipu__op_float(call, "p");
    IPU_TRY(ipu__op_want_floating(call, X));
    IPU_TRY(ipu__random_check(call, SEED, REPLICA));
    if (!(p >= 0 && p <= 1)) return ipu__fail(IPU_INVALID, "dropout: p = %g: expected 0 to 1", p);
    *out = call->operand[X];
    return IPU_OK;
}

static double scale_of(double p) { return p < 1 ? 1 / (1 - p) : 0; }

static void dropout_ref(const ipu_kernel_call *call, void *const *operand)
{
    ipu__random r     = ipu__random_get(call, operand, SEED, REPLICA);
    double      p     = ipu__op_float(call, "p");
    uint32_t    limit = ipu__random_limit(p);
    ipu_type    type  = call->operand[X].type;
    int64_t     n     = ipu__op_n_elements(&call->operand[X].shape);
    for (int64_t i = 0; i < n; i++) {
        bool   is_dropped = ipu__random_bits(&r, i) >> 8 < limit;
        double x          = ipu__number_load(type, operand[X], i);
        ipu__number_store(type, operand[OUT], i, is_dropped ? 0 : x * scale_of(p));
    }
}

static bool blocks_fit(const ipu_kernel_call *call, unsigned cpu_features, int n_parts)
{
    (void)cpu_features, (void)n_parts;
    return call->operand[X].type == IPU_FLOAT || call->operand[X].type == IPU_HALF;
}

static ipu_status blocks_run(const ipu_kernel_call *call, void *state, void *const *operand, void *scratch,
                             int part, int n_parts)
{
    (void)state, (void)scratch;
    const ipu__random_loops *loops   = &IPU__SIMD_PICK(ipu__random_loops_at);
    ipu__random              r       = ipu__random_get(call, operand, SEED, REPLICA);
    double                   p       = ipu__op_float(call, "p");
    bool                     is_half = call->operand[X].type == IPU_HALF;
    ipu_interval mine = ipu__op_part(ipu__op_n_elements(&call->operand[X].shape), IPU__RANDOM_BLOCK, part,
                                     n_parts);
    uint32_t     bits[IPU__RANDOM_BLOCK];
    float        from[IPU__RANDOM_BLOCK], to[IPU__RANDOM_BLOCK]; /* `out` may be x */
    for (int64_t i = mine.begin; i < mine.end; i += IPU__RANDOM_BLOCK) {
        int64_t n = mine.end - i < IPU__RANDOM_BLOCK ? mine.end - i : IPU__RANDOM_BLOCK;
        loops->bits(&r, i / IPU__RANDOM_BLOCK, n, bits);
        if (is_half) ipu_half_to_floats((const ipu_half *)operand[X] + i, from, (size_t)n);
        loops->drop(bits, ipu__random_limit(p), (float)scale_of(p),
                    is_half ? from : (const float *)operand[X] + i, to, n);
        if (is_half)
            ipu_half_from_floats(to, (ipu_half *)operand[OUT] + i, (size_t)n);
        else
            memcpy((float *)operand[OUT] + i, to, (size_t)n * sizeof *to);
    }
    return IPU_OK;
}

static double dropout_work(const ipu_kernel_call *call)
{
    return 20 * (double)ipu__op_n_elements(&call->operand[X].shape);
}

static ipu_status dropout_plan(const ipu_kernel_call *call, const ipu_target *target, ipu_kernel_plan *out)
{
    int64_t      step = call->operand[X].type == IPU_HALF ? 4 : 2;
    ipu__op_loop loop = {29, (double)step, 5};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[X].shape), step, target, out));
    out->basis = "our estimate: a multiplication (PopLibs binary operation) and the tile's own random masks";
    return IPU_OK;
}

static void dropout_grad(ipu__gradient *g)
{
    if (!g->wanted[X]) return;
    g->d_in[X] = ipu__emit1(g->b, "dropout", g->call->attributes, g->call->n_attributes,
                            IPU__IN(g->d_out[0], g->in[SEED], g->in[REPLICA]));
}

static const ipu_kernel_operand operands[]   = {IPU__INPUT("x"), IPU__INPUT("seed"), IPU__OPTIONAL("replica"),
                                                IPU__OUTPUT_OVER("out", X)};
static const ipu_kernel_impl    impls[]      = {{.name = "blocks", .fits = blocks_fit, .run = blocks_run}};
static const ipu_op_attribute   attributes[] = {
      {.name = "p", .kind = IPU_ATTRIBUTE_FLOAT, .otherwise = 0.5, .meaning = "probability of 0"},
      IPU__RANDOM_KEY,
};
static const char *const samples[]       = {"float[5,7], uint32[2]; p=0.3 key=4",
                                            "float[300], uint32[2], uint32[]; p=0.9",
                                            "float[6], uint32[2]; p=0",
                                            "float[6], uint32[2]; p=1",
                                            "float[0,3], uint32[2]",
                                            "float[31,40,10], uint32[2]; p=0.1",
                                            NULL};
const ipu_op_def         ipu__op_dropout = {
            .kernel       = {.name              = "dropout",
                             .operands          = operands,
                             .n_operands        = 4,
                             .check             = ipu__op_check,
                             .ref               = dropout_ref,
                             .work              = dropout_work,
                             .plan              = dropout_plan,
                             .implementations   = impls,
                             .n_implementations = 1},
            .n_in         = 3,
            .family       = "random",
            .summary      = "elements of x set to 0 at random, the others scaled up",
            .attributes   = attributes,
            .n_attributes = 2,
            .infer        = dropout_infer,
            .grad         = dropout_grad,
            .samples      = samples,
};

ipu_value ipu_dropout(ipu_builder *b, ipu_value x, ipu_value seed, double p)
{
    return ipu__emit1(b, "dropout",
                      IPU__WITH(IPU_FLOAT_ATTRIBUTE("p", p), IPU_INT_ATTRIBUTE("key", b->next_key)),
                      IPU__IN(x, seed));
}

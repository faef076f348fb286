/* cast_stochastic: float to half, rounding up or down at random; and lerp, a composition.
 *
 * Element i takes its bits from its word of the op's random numbers (random.h), whatever the parts and tiles.
 */
#include "engine/cpu/impl.h"
#include "ipu/op/elementwise.h"
#include "op/builder.h"
#include "op/random/random.h"

enum { X, SEED, REPLICA, OUT };

static ipu_status stochastic_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_type(call, X, IPU_FLOAT));
    IPU_TRY(ipu__random_check(call, SEED));
    *out = (ipu__kernel_value){IPU_HALF, call->operand[X].shape};
    return IPU_OK;
}

static void stochastic_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__random  r   = ipu__random_get(call, operand, SEED);
    const float *x   = operand[X];
    ipu_half    *out = operand[OUT];
    for (int64_t i = 0; i < ipu__op_n_elements(&call->operand[OUT].shape); i++)
        out[i] = ipu__random_half(x[i], ipu__random_word(&r, i));
}

static size_t stochastic_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)call, (void)n_parts;
    return IPU__RANDOM_BLOCK * sizeof(uint32_t);
}

static ipu_status stochastic_run(const ipu__kernel_call *call, void *state, void *const *operand,
                                 void *scratch, int part, int n_parts)
{
    (void)state;
    const ipu__random_loops *loops = &IPU__SIMD_PICK(ipu__random_loops_of);
    ipu__random              r     = ipu__random_get(call, operand, SEED);
    uint32_t                *words = scratch;
    ipu_interval mine = ipu__op_part(ipu__op_n_elements(&call->operand[OUT].shape), IPU__RANDOM_BLOCK, part,
                                     n_parts);
    for (int64_t i = mine.begin; i < mine.end; i += IPU__RANDOM_BLOCK) {
        int64_t n = mine.end - i < IPU__RANDOM_BLOCK ? mine.end - i : IPU__RANDOM_BLOCK;
        loops->bits(&r, i, words);
        loops->to_half(words, (const float *)operand[X] + i, (ipu_half *)operand[OUT] + i, n);
    }
    return IPU_OK;
}

static double stochastic_work(const ipu__kernel_call *call)
{
    return 20 * (double)ipu__op_n_elements(&call->operand[OUT].shape);
}

static ipu_status stochastic_plan(const ipu__kernel_call *call, const ipu_target *target,
                                  ipu__kernel_plan *out)
{
    ipu__op_loop loop = {38.5, 4, 2};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[OUT].shape), 4, target, out));
    out->basis = "PopLibs' estimate of a cast from float to half: the chip rounds at random at no cost";
    return IPU_OK;
}

static void stochastic_grad(ipu__gradient *g) { g->d_in[X] = ipu_cast(g->b, g->d_out[0], IPU_FLOAT); }

static const ipu__kernel_operand stochastic_operands[] = {IPU__INPUT("x"), IPU__INPUT("seed"),
                                                          IPU__OPTIONAL("replica"), IPU__OUTPUT("out")};

static const ipu_op_attribute stochastic_attributes[] = {
    {.name = "key", .kind = IPU_ATTRIBUTE_INT, .meaning = "which op of the program draws"}};

static const ipu__cpu_impl implementations[] = {{.head          = {"blocks", ipu__op_fits_always},
                                                 .scratch_bytes = stochastic_scratch_bytes,
                                                 .run           = stochastic_run}};

static const char *const stochastic_samples[] = {"float[3,5], uint32[2]",
                                                 "float[3], uint32[2], uint32[]; key=3",
                                                 "float[20011]{-1e-5,1e-5}, uint32[2]",
                                                 "float[20011]{-66000,66000}, uint32[2]; key=9", NULL};

const ipu__op_def ipu__op_cast_stochastic = {
    .kernel       = {.name            = "cast_stochastic",
                     .operands        = stochastic_operands,
                     .n_operands      = 4,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = stochastic_ref,
                     .work            = stochastic_work,
                     .plan            = stochastic_plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = 3,
    .family       = "elementwise",
    .attributes   = stochastic_attributes,
    .n_attributes = IPU__COUNT(stochastic_attributes),
    .summary      = "float to half, up or down at random so that the mean is right",
    .infer        = stochastic_infer,
    .grad         = stochastic_grad,
    .samples      = stochastic_samples,
};

ipu_value ipu_cast_stochastic(ipu_builder *b, ipu_value x, ipu_value seed)
{
    return ipu__emit1(b, "cast_stochastic", NULL, 0, IPU__IN(x, seed));
}

/* ---- lerp ---- */

static ipu_status lerp_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, 0));
    IPU_TRY(ipu__op_want_same_type(call, 0, 1));
    IPU_TRY(ipu__op_want_same_type(call, 0, 2));
    out->type = call->operand[0].type;
    return ipu__op_broadcast(call, 3, &out->shape);
}

static void lerp_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in, ipu_value *out)
{
    (void)call;
    out[0] = ipu_add(b, in[0], ipu_mul(b, in[2], ipu_sub(b, in[1], in[0])));
}

static const ipu__kernel_operand lerp_operands[] = {IPU__INPUT("x"), IPU__INPUT("y"), IPU__INPUT("weight"),
                                                    IPU__OUTPUT("out")};
static const char *const         lerp_samples[]  = {"float[3,5], float[3,5], float[]",
                                                    "float[3,5], float[5], float[3,1]", NULL};

const ipu__op_def ipu__op_lerp = {
    .kernel  = {.name = "lerp", .operands = lerp_operands, .n_operands = 4, .check = ipu__op_check},
    .n_in    = 3,
    .family  = "elementwise",
    .summary = "x + weight (y - x)",
    .infer   = lerp_infer,
    .compose = lerp_compose,
    .samples = lerp_samples,
};

ipu_value ipu_lerp(ipu_builder *b, ipu_value x, ipu_value y, ipu_value weight)
{
    return ipu__emit1(b, "lerp", NULL, 0, IPU__IN(x, y, weight));
}

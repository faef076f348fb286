/* cast_stochastic: float to half, up or down at random; lerp, which is made of other ops.
 *
 * Element i takes its bits from word i % 4 of Philox at counter i / 4, keyed by the seed: parts and
 * tiles do not change it.
 */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "ipu/elementwise.h"
#include "op/op.h"

enum { X, SEED, OUT };

static ipu_status stochastic_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    IPU_TRY(ipu__op_want_type(call, X, IPU_FLOAT));
    IPU_TRY(ipu__op_want_type(call, SEED, IPU_UINT32));
    IPU_TRY(ipu__op_want_shape(call, SEED, &IPU_SHAPE(2)));
    *out = (ipu_kernel_value){IPU_HALF, call->operand[X].shape};
    return IPU_OK;
}

/* Towards 0 after adding less than one unit of the half's last place. Magnitudes under 2^-14 have a unit of
 * 2^-24; infinities and NaN are rounded as ever, and so is what is over the largest half. */
static ipu_half round_at_random(float value, uint32_t random)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    float magnitude = fabsf(value);
    if (!(magnitude < 65504)) return ipu_half_from_float(value);
    if (magnitude < 0x1p-14f) {
        double units = (double)magnitude * 0x1p24, down = floor(units);
        double up = units - down > random * 0x1p-32 ? 1 : 0;
        return (ipu_half){(uint16_t)((bits >> 16 & 0x8000) | (uint32_t)(down + up))};
    }
    bits += random >> 19; /* 13 bits are cut off */
    memcpy(&value, &(uint32_t){bits & ~UINT32_C(0x1fff)}, sizeof value);
    return ipu_half_from_float(value);
}

static void stochastic_range(void *const *operand, ipu_interval range)
{
    const float    *x    = operand[X];
    const uint32_t *seed = operand[SEED];
    ipu_half       *out  = operand[OUT];
    uint32_t        random[4];
    for (int64_t i = range.begin; i < range.end; i++) {
        uint64_t group = (uint64_t)i / 4;
        if (i % 4 == 0 || i == range.begin)
            ipu__philox(seed, (const uint32_t[]){(uint32_t)group, (uint32_t)(group >> 32), 0, 0}, random);
        out[i] = round_at_random(x[i], random[i % 4]);
    }
}

static void stochastic_ref(const ipu_kernel_call *call, void *const *operand)
{
    stochastic_range(operand, (ipu_interval){0, ipu__op_n_elements(&call->operand[OUT].shape)});
}

static ipu_status stochastic_run(const ipu_kernel_call *call, void *state, void *const *operand,
                                 void *scratch, int part, int n_parts)
{
    (void)state, (void)scratch;
    int64_t n = ipu__op_n_elements(&call->operand[OUT].shape);
    stochastic_range(operand, ipu__op_part(n, ipu__op_line(IPU_HALF), part, n_parts));
    return IPU_OK;
}

static double stochastic_work(const ipu_kernel_call *call)
{
    return 20 * (double)ipu__op_n_elements(&call->operand[OUT].shape);
}

static ipu_status stochastic_plan(const ipu_kernel_call *call, const ipu_target *target, ipu_kernel_plan *out)
{
    ipu__op_loop loop = {38.5, 4, 2};
    IPU_TRY(ipu__op_plan_loop(&loop, ipu__op_n_elements(&call->operand[OUT].shape), 4, target, out));
    out->basis = "PopLibs' estimate of a cast from float to half: the chip rounds at random at no cost";
    return IPU_OK;
}

static void stochastic_grad(ipu__gradient *g) { g->d_in[X] = ipu_cast(g->b, g->d_out[0], IPU_FLOAT); }

static const ipu_kernel_operand stochastic_operands[] = {IPU__INPUT("x"), IPU__INPUT("seed"),
                                                         IPU__OUTPUT("out")};

static const ipu_kernel_impl implementations[] = {
    {.name = "philox", .fits = ipu__op_fits_always, .run = stochastic_run}};

static const char *const stochastic_samples[] = {"float[3,5], uint32[2]", "float[20011], uint32[2]", NULL};

const ipu_op_def ipu__op_cast_stochastic = {
    .kernel  = {.name              = "cast_stochastic",
                .operands          = stochastic_operands,
                .n_operands        = 3,
                .check             = ipu__op_check,
                .ref               = stochastic_ref,
                .work              = stochastic_work,
                .plan              = stochastic_plan,
                .implementations   = implementations,
                .n_implementations = 1},
    .n_in    = 2,
    .family  = "elementwise",
    .summary = "float to half, up or down at random so that the mean is right",
    .infer   = stochastic_infer,
    .grad    = stochastic_grad,
    .samples = stochastic_samples,
};

ipu_value ipu_cast_stochastic(ipu_builder *b, ipu_value x, ipu_value seed)
{
    return ipu__emit1(b, "cast_stochastic", NULL, 0, IPU__IN(x, seed));
}

/* ---- lerp ---- */

static ipu_status lerp_infer(const ipu_kernel_call *call, ipu_kernel_value *out)
{
    IPU_TRY(ipu__op_want_floating(call, 0));
    IPU_TRY(ipu__op_want_same_type(call, 0, 1));
    IPU_TRY(ipu__op_want_same_type(call, 0, 2));
    out->type = call->operand[0].type;
    return ipu__op_broadcast(call, 3, &out->shape);
}

static void lerp_compose(ipu_builder *b, const ipu_kernel_call *call, const ipu_value *in, ipu_value *out)
{
    (void)call;
    out[0] = ipu_add(b, in[0], ipu_mul(b, in[2], ipu_sub(b, in[1], in[0])));
}

static const ipu_kernel_operand lerp_operands[] = {IPU__INPUT("x"), IPU__INPUT("y"), IPU__INPUT("weight"),
                                                   IPU__OUTPUT("out")};
static const char *const        lerp_samples[]  = {"float[3,5], float[3,5], float[]",
                                                   "float[3,5], float[5], float[3,1]", NULL};

const ipu_op_def ipu__op_lerp = {
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

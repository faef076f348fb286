/* linear_sgd: gradients of a linear layer and a step of sgd on its weights, so that the gradient of the
 * weights is never stored. Equivalent to matmul, sgd, and matmul with the weights before the step, from which
 * fusion makes it (model/fuse/update.c).
 */
#include "op/matmul/linear_sgd.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "op/number.h"

enum {
    DY         = IPU__LINEAR_SGD_DY,
    X          = IPU__LINEAR_SGD_X,
    P          = IPU__LINEAR_SGD_PARAMETER,
    RATE       = IPU__LINEAR_SGD_RATE,
    MOMENTUM   = IPU__LINEAR_SGD_MOMENTUM,
    N_IN       = IPU__LINEAR_SGD_NEW_PARAMETER,
    DX         = IPU__LINEAR_SGD_DX,
    N_OPERANDS = IPU__LINEAR_SGD_OPERANDS
};

/* ---- the calls it stands for ---- */

static ipu__kernel_call product(const ipu__kernel_value *a, const ipu__kernel_value *b,
                                const ipu_attribute *attributes, size_t n_attributes, const ipu_shape *out)
{
    ipu__kernel_call call = {.def          = &ipu__op_matmul.kernel,
                             .attributes   = attributes,
                             .n_attributes = n_attributes,
                             .n_operands   = IPU__MATMUL_OUT + 1};
    for (int i = 0; i < IPU__MATMUL_OUT; i++) call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    call.operand[IPU__MATMUL_A]   = *a;
    call.operand[IPU__MATMUL_B]   = *b;
    call.operand[IPU__MATMUL_OUT] = (ipu__kernel_value){a->type, *out};
    return call;
}

ipu__kernel_call ipu__linear_sgd_gradient(const ipu__kernel_call *call)
{
    static const ipu_attribute transposed[] = {{.name = "transpose_a", .kind = IPU_ATTRIBUTE_INT, .i = 1}};
    return product(&call->operand[DY], &call->operand[X], transposed, 1, &call->operand[P].shape);
}

ipu__kernel_call ipu__linear_sgd_input_gradient(const ipu__kernel_call *call)
{
    return product(&call->operand[DY], &call->operand[P], NULL, 0, &call->operand[X].shape);
}

ipu__kernel_call ipu__linear_sgd_update(const ipu__kernel_call *call)
{
    ipu__kernel_call out = {.def          = &ipu__op_sgd.kernel,
                            .attributes   = call->attributes,
                            .n_attributes = call->n_attributes,
                            .n_operands   = ipu__op_sgd.kernel.n_operands};
    out.operand[0]       = call->operand[P];
    out.operand[1]       = (ipu__kernel_value){call->operand[DY].type, call->operand[P].shape};
    for (int i = 2; i < out.n_operands; i++) out.operand[i] = call->operand[RATE + i - 2];
    return out;
}

void ipu__linear_sgd_set_step(const ipu__kernel_call *call, void *const *operand, ipu__optimizer *o)
{
    enum { STEP = IPU__LINEAR_SGD_STEP };
    o->rate  = ipu__number_load(call->operand[RATE].type, operand[RATE], 0);
    o->first = ipu__kernel_has(call, STEP)
            && ipu__number_load(call->operand[STEP].type, operand[STEP], 0) == 1;
}

/* ---- the record ---- */

static ipu_status linear_sgd_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    ipu__kernel_call  gradient = ipu__linear_sgd_gradient(call), update = ipu__linear_sgd_update(call);
    ipu__kernel_value found = {0};
    for (int i = DY; i <= P; i++) {
        IPU_TRY(ipu__op_want_type(call, i, IPU_FLOAT));
        IPU_TRY(ipu__op_want_rank(call, i, 2, 2));
    }
    IPU_TRY(ipu__op_matmul.infer(&gradient, &found));
    IPU_TRY(ipu__op_want_shape(call, P, &found.shape));
    IPU_TRY(ipu__op_sgd.infer(&update, out));
    out[DX - N_IN] = ipu__op_int(call, "input_gradient") ? call->operand[X]
                                                         : (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    return IPU_OK;
}

/* The sum over `n` products, `x_step` and `y_step` apart. */
static double dot(const float *x, int64_t x_step, const float *y, int64_t y_step, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i * x_step] * y[i * y_step];
    return sum;
}

/* dx first: weights may be updated where they are. */
static void linear_sgd_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu__kernel_call update = ipu__linear_sgd_update(call);
    ipu__optimizer   o      = ipu__optimizer_get(&update);
    bool             has = ipu__kernel_has(call, MOMENTUM), relu = ipu__op_int(call, "relu") != 0;
    int64_t          batch = call->operand[DY].shape.dim[0], m = call->operand[P].shape.dim[0],
            n       = call->operand[P].shape.dim[1];
    const float *dy = operand[DY], *x = operand[X], *w = operand[P], *momentum = operand[MOMENTUM];
    float *new_w = operand[N_IN], *new_momentum = operand[IPU__LINEAR_SGD_NEW_MOMENTUM], *dx = operand[DX];
    ipu__linear_sgd_set_step(call, operand, &o);
    for (int64_t i = 0; ipu__kernel_has(call, DX) && i < batch * n; i++)
        dx[i] = relu && !(x[i] > 0) ? 0 : (float)dot(dy + i / n * m, 1, w + i % n, n, m);
    for (int64_t i = 0; i < m * n; i++) {
        double p = (double)w[i], s = has ? (double)momentum[i] : 0;
        ipu__sgd_one(&o, &p, (double)(float)dot(dy + i / n, m, x + i % n, n, batch), &s);
        new_w[i] = (float)p;
        if (has) new_momentum[i] = (float)s;
    }
}

/* dx is of the weights before the step. */
static void linear_sgd_compose(ipu_builder *b, const ipu__kernel_call *call, const ipu_value *in,
                               ipu_value *out)
{
    enum { MOST = 8 };
    ipu_attribute with[MOST];
    size_t        n = 0;
    for (size_t i = 0; i < call->n_attributes && n < MOST; i++)
        if (strcmp(call->attributes[i].name, "input_gradient") != 0
            && strcmp(call->attributes[i].name, "relu") != 0)
            with[n++] = call->attributes[i];
    ipu_value dw = ipu__emit1(b, "matmul", IPU__WITH(IPU_INT_ATTRIBUTE("transpose_a", 1)),
                              IPU__IN(in[DY], in[X]));
    if (ipu__op_int(call, "input_gradient")) {
        ipu_value dx = ipu__emit1(b, "matmul", NULL, 0, IPU__IN(in[DY], in[P]));
        if (ipu__op_int(call, "relu")) {
            ipu_value zero     = ipu_scalar_like(b, dx, 0);
            ipu_value is_above = ipu__emit1(b, "greater", NULL, 0, IPU__IN(in[X], zero));
            dx                 = ipu__emit1(b, "where", NULL, 0, IPU__IN(is_above, dx, zero));
        }
        out[DX - N_IN] = dx;
    }
    const ipu_value of_sgd[] = {in[P], dw, in[RATE], in[IPU__LINEAR_SGD_STEP], in[MOMENTUM]};
    ipu_emit(b, "sgd", with, n, of_sgd, IPU__COUNT(of_sgd), out, 2);
}

static double linear_sgd_work(const ipu__kernel_call *call)
{
    ipu__kernel_call gradient = ipu__linear_sgd_gradient(call), update = ipu__linear_sgd_update(call);
    double           one = ipu__op_matmul.kernel.work(&gradient);
    return one + (ipu__kernel_has(call, DX) ? one : 0) + ipu__op_sgd.kernel.work(&update);
}

static ipu_status add_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    ipu__kernel_plan more;
    IPU_TRY(call->def->plan(call, target, &more));
    ipu__op_add_plan(&more, out);
    return IPU_OK;
}

static ipu_status linear_sgd_plan(const ipu__kernel_call *call, const ipu_target *target,
                                  ipu__kernel_plan *out)
{
    ipu__kernel_call gradient = ipu__linear_sgd_gradient(call), update = ipu__linear_sgd_update(call),
                     input = ipu__linear_sgd_input_gradient(call);
    *out                   = (ipu__kernel_plan){0};
    if (ipu__kernel_has(call, DX)) IPU_TRY(add_plan(&input, target, out));
    IPU_TRY(add_plan(&gradient, target, out));
    IPU_TRY(add_plan(&update, target, out));
    out->basis = "matmul, and sgd, one after the other";
    return IPU_OK;
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("dy"),
                                               IPU__INPUT("x"),
                                               IPU__INPUT("parameter"),
                                               IPU__INPUT("rate"),
                                               IPU__OPTIONAL("step"),
                                               IPU__OPTIONAL("momentum"),
                                               IPU__OUTPUT_OVER("new_parameter", P),
                                               IPU__OUTPUT_OVER("new_momentum", MOMENTUM),
                                               IPU__OUTPUT("dx")};

static const ipu__cpu_impl implementations[] = {
    {
        .head          = {"tiles", ipu__linear_sgd_fits},
        .layouts       = ipu__linear_sgd_layouts,
        .scratch_bytes = ipu__linear_sgd_scratch_bytes,
        .prepare       = ipu__linear_sgd_prepare,
        .release       = ipu__free,
        .run           = ipu__linear_sgd_run,
    },
};

static const ipu_op_attribute attributes[] = {
    IPU__SGD_ATTRIBUTES,
    {.name = "input_gradient", .kind = IPU_ATTRIBUTE_INT, .meaning = "1: dx is wanted"},
    {.name    = "relu",
     .kind    = IPU_ATTRIBUTE_INT,
     .meaning = "1: x came from a relu, and dx is the gradient of what went into it: 0 where x is"},
};

static const char *const samples[] = {
    "float[16,50], float[16,70], float[50,70], float[]{0.1,1}, none, float[50,70]; momentum=0.9 input_gradient=1",
    "float[16,10], float[16,100], float[10,100], float[]{0.1,1}, none, float[10,100]; momentum=0.9",
    "float[6,20], float[6,9], float[20,9], float[]{0.1,1}; weight_decay=0.1 input_gradient=1",
    "float[6,20], float[6,9], float[20,9], float[]{0.1,1}, none, float[20,9]; momentum=0.9 weight_decay=0.5 decoupled=1",
    "float[5,3], float[5,64], float[3,64], float[]{0.1,1}, float[]{2,3}, float[3,64]; momentum=0.9 dampening=0.5",
    "float[9,7], float[9,48], float[7,48], float[]{0.1,1}, int32[]{1,1}, float[7,48]; momentum=0.9 nesterov=1",
    "float[9,2], float[9,5], float[2,5], float[]{0.1,1}, none, float[2,5]; momentum=0.9 input_gradient=1",
    "float[70,13], float[70,333], float[13,333], float[]{0.1,1}, none, float[13,333]; momentum=0.5 input_gradient=1",
    "float[4,6], float[4,130], float[6,130], float[]{0.1,1}, none, float[6,130]; momentum=0 input_gradient=1",
    "float[8,6], float[8,40], float[6,40], float[]{0.1,1}, none, float[6,40]; momentum=0.9 input_gradient=1 relu=1",
    "float[0,4], float[0,5], float[4,5], float[]{0.1,1}, none, float[4,5]; momentum=0.9 input_gradient=1",
    "float[16,300], float[16,210], float[300,210], float[]{0.1,1}, none, float[300,210]; momentum=0.9 input_gradient=1",
    NULL,
};

const ipu__op_def ipu__op_linear_sgd = {
    .kernel       = {.name            = "linear_sgd",
                     .operands        = operands,
                     .n_operands      = N_OPERANDS,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = linear_sgd_ref,
                     .work            = linear_sgd_work,
                     .plan            = linear_sgd_plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = N_IN,
    .family       = "optimizer",
    .summary      = "gradients of a linear layer and a step of gradient descent on its weights",
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = linear_sgd_infer,
    .compose      = linear_sgd_compose,
    .samples      = samples,
};

/* dynamic_slice and dynamic_update_slice: a slice whose start is known only when the program runs.
 *
 * Each occurs in the gradient of the other. The start is clamped to the valid range, as in XLA: loops rely on
 * it.
 */
#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/gather.h"
#include "ipu/op/shape.h"
#include "op/index/gather.h"

/* The whole is [outer, extent, inner], the slice [outer, size, inner]. */
typedef struct window {
    int64_t outer, extent, inner, size, start;
    size_t  unit;
} window;

static window get_window(const ipu__kernel_call *call, int whole, int64_t size, int start,
                         const void *start_at)
{
    const ipu_shape *s    = &call->operand[whole].shape;
    int              axis = 0;
    ipu__op_axis(call, "axis", s->rank, &axis); /* infer has seen it */
    window w = {1, s->dim[axis], 1, size, 0, ipu_type_size(call->operand[whole].type)};
    for (int d = 0; d < axis; d++) w.outer *= s->dim[d];
    for (int d = axis + 1; d < s->rank; d++) w.inner *= s->dim[d];
    if (start_at) w.start = ipu__index_load(call->operand[start].type, start_at, 0);
    if (w.start > w.extent - size) w.start = w.extent - size;
    if (w.start < 0) w.start = 0;
    return w;
}

static ipu_status check_start(const ipu__kernel_call *call, int start)
{
    IPU_TRY(ipu__op_want_integer(call, start));
    if (ipu__op_n_elements(&call->operand[start].shape) == 1) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"start\" must have one element, found %s", call->def->name,
                     ipu__shape_str(&call->operand[start].shape));
}

static ipu_value zeros_of(ipu_builder *b, const ipu__kernel_value *like)
{
    return ipu_expand(b, ipu_constant_value(b, like->type, IPU_SCALAR, 0), like->shape);
}

static ipu_status plan_copy(int64_t n, ipu_type type, const ipu_target *target, ipu__kernel_plan *out)
{
    double bytes = (double)ipu_type_size(type), per_vector = 8 / bytes;
    double workers = (double)ipu_target_n_workers(target);
    *out           = (ipu__kernel_plan){
                  .basis = "PopLibs' dynamic slice: 25 + 6 * (39 + 24 + 2 per vector of 64 bits)"};
    if (n == 0) return IPU_OK;
    int64_t per_tile = ipu__op_ceil_div(n, ipu_target_n_tiles(target));
    double  vectors  = (double)(int64_t)((double)ipu__op_ceil_div(per_tile, (int64_t)workers) / per_vector);
    out->cycles      = ipu__op_count(25 + workers * (39 + 24 + 2 * vectors));
    out->n_tiles     = ipu__op_ceil_div(n, per_tile);
    return IPU_OK;
}

/* ---- dynamic_slice ---- */

enum { X, START, OUT };

static ipu_status dynamic_slice_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int64_t size = ipu__op_int(call, "size");
    int     axis;
    IPU_TRY(check_start(call, START));
    IPU_TRY(ipu__op_axis(call, "axis", call->operand[X].shape.rank, &axis));
    *out = call->operand[X];
    if (size < 0 || size > out->shape.dim[axis])
        return ipu__fail(IPU_INVALID, "dynamic_slice: size = %lld: expected 0 to %lld, dimension %d of %s",
                         (long long)size, (long long)out->shape.dim[axis], axis, ipu__shape_str(&out->shape));
    out->shape.dim[axis] = size;
    return IPU_OK;
}

static void take(const window *w, void *const *operand, ipu_interval outer)
{
    size_t run = (size_t)(w->size * w->inner) * w->unit, pitch = (size_t)(w->extent * w->inner) * w->unit;
    size_t at = (size_t)(w->start * w->inner) * w->unit;
    for (int64_t o = outer.begin; o < outer.end && run > 0; o++)
        memcpy((char *)operand[OUT] + (size_t)o * run, (const char *)operand[X] + (size_t)o * pitch + at,
               run);
}

static void dynamic_slice_ref(const ipu__kernel_call *call, void *const *operand)
{
    window w = get_window(call, X, ipu__op_int(call, "size"), START, operand[START]);
    take(&w, operand, (ipu_interval){0, w.outer});
}

static ipu_status dynamic_slice_run(const ipu__kernel_call *call, void *state, void *const *operand,
                                    void *scratch, int part, int n_parts)
{
    (void)state, (void)scratch;
    window w = get_window(call, X, ipu__op_int(call, "size"), START, operand[START]);
    take(&w, operand, ipu__op_part(w.outer, 1, part, n_parts));
    return IPU_OK;
}

static double dynamic_slice_work(const ipu__kernel_call *call)
{
    return (double)ipu__op_n_elements(&call->operand[OUT].shape);
}

static ipu_status dynamic_slice_plan(const ipu__kernel_call *call, const ipu_target *target,
                                     ipu__kernel_plan *out)
{
    return plan_copy(ipu__op_n_elements(&call->operand[OUT].shape), call->operand[X].type, target, out);
}

static void dynamic_slice_grad(ipu__gradient *g)
{
    if (!g->wanted[X]) return;
    g->d_in[X] = ipu_dynamic_update_slice(g->b, zeros_of(g->b, &g->call->operand[X]), g->d_out[0],
                                          g->in[START], (int)ipu__op_int(g->call, "axis"));
}

static const ipu__kernel_operand slice_operands[] = {IPU__INPUT("x"), IPU__INPUT("start"),
                                                     IPU__OUTPUT("out")};

static const ipu__cpu_impl slice_impls[] = {
    {.head = {"rows", ipu__op_fits_always}, .run = dynamic_slice_run}};

static const ipu_op_attribute slice_attributes[] = {
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .meaning = "the dimension that is cut"},
    {.name = "size", .kind = IPU_ATTRIBUTE_INT, .required = true, .meaning = "elements taken of it"},
};

static const char *const slice_samples[] = {"float[5,4], int64[1]{-3,9}; axis=1 size=1",
                                            "float[5,4], int32[]{0,4}; size=2",
                                            "float[3,0,2], int32[]; axis=-1 size=1",
                                            "float[300,20,40], int32[]{5,5}; axis=1 size=10", NULL};

const ipu__op_def ipu__op_dynamic_slice = {
    .kernel       = {.name            = "dynamic_slice",
                     .operands        = slice_operands,
                     .n_operands      = 3,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = dynamic_slice_ref,
                     .work            = dynamic_slice_work,
                     .plan            = dynamic_slice_plan,
                     .implementations = IPU__ON_CPU(slice_impls)},
    .n_in         = 2,
    .family       = "gather",
    .summary      = "a part of x from a start that is a value",
    .flags        = IPU__OP_EXACT_IN_HALF,
    .attributes   = slice_attributes,
    .n_attributes = 2,
    .infer        = dynamic_slice_infer,
    .grad         = dynamic_slice_grad,
    .samples      = slice_samples,
};

ipu_value ipu_dynamic_slice(ipu_builder *b, ipu_value x, ipu_value start, int64_t size, int axis)
{
    return ipu__emit1(b, "dynamic_slice",
                      IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis), IPU_INT_ATTRIBUTE("size", size)),
                      IPU__IN(x, start));
}

/* ---- dynamic_update_slice ---- */

enum { U_X, U_Y, U_START, U_OUT };

static ipu_status dynamic_update_slice_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int       axis;
    ipu_shape want = call->operand[U_X].shape;
    IPU_TRY(ipu__op_want_same_type(call, U_X, U_Y));
    IPU_TRY(check_start(call, U_START));
    IPU_TRY(ipu__op_axis(call, "axis", want.rank, &axis));
    const ipu_shape *y = &call->operand[U_Y].shape;
    if (y->rank == want.rank && y->dim[axis] <= want.dim[axis]) want.dim[axis] = y->dim[axis];
    IPU_TRY(ipu__op_want_shape(call, U_Y, &want));
    *out = call->operand[U_X];
    return IPU_OK;
}

static window update_window(const ipu__kernel_call *call, const void *start)
{
    const ipu_shape *y    = &call->operand[U_Y].shape;
    int              axis = 0;
    ipu__op_axis(call, "axis", y->rank, &axis);
    return get_window(call, U_X, y->dim[axis], U_START, start);
}

/* In place only the slice is written. */
static void put(const window *w, void *const *operand, ipu_interval outer)
{
    size_t run = (size_t)(w->size * w->inner) * w->unit, pitch = (size_t)(w->extent * w->inner) * w->unit;
    size_t at = (size_t)(w->start * w->inner) * w->unit;
    for (int64_t o = outer.begin; o < outer.end && pitch > 0; o++) {
        char *to = (char *)operand[U_OUT] + (size_t)o * pitch;
        if (operand[U_OUT] != operand[U_X]) {
            const char *x = (const char *)operand[U_X] + (size_t)o * pitch;
            memcpy(to, x, at);
            memcpy(to + at + run, x + at + run, pitch - at - run);
        }
        if (run > 0) memcpy(to + at, (const char *)operand[U_Y] + (size_t)o * run, run);
    }
}

static void dynamic_update_slice_ref(const ipu__kernel_call *call, void *const *operand)
{
    window w = update_window(call, operand[U_START]);
    put(&w, operand, (ipu_interval){0, w.outer});
}

static ipu_status dynamic_update_slice_run(const ipu__kernel_call *call, void *state, void *const *operand,
                                           void *scratch, int part, int n_parts)
{
    (void)state, (void)scratch;
    window w = update_window(call, operand[U_START]);
    put(&w, operand, ipu__op_part(w.outer, 1, part, n_parts));
    return IPU_OK;
}

static double dynamic_update_slice_work(const ipu__kernel_call *call)
{
    return (double)ipu__op_n_elements(&call->operand[U_X].shape);
}

static ipu_status dynamic_update_slice_plan(const ipu__kernel_call *call, const ipu_target *target,
                                            ipu__kernel_plan *out)
{
    return plan_copy(ipu__op_n_elements(&call->operand[U_Y].shape), call->operand[U_X].type, target, out);
}

static void dynamic_update_slice_grad(ipu__gradient *g)
{
    int axis = 0;
    ipu__op_axis(g->call, "axis", g->call->operand[U_X].shape.rank, &axis);
    const ipu__kernel_value *y = &g->call->operand[U_Y];
    if (g->wanted[U_X])
        g->d_in[U_X] = ipu_dynamic_update_slice(g->b, g->d_out[0], zeros_of(g->b, y), g->in[U_START], axis);
    if (g->wanted[U_Y])
        g->d_in[U_Y] = ipu_dynamic_slice(g->b, g->d_out[0], g->in[U_START], y->shape.dim[axis], axis);
}

static const ipu__kernel_operand update_operands[] = {IPU__INPUT("x"), IPU__INPUT("y"), IPU__INPUT("start"),
                                                      IPU__OUTPUT_OVER("out", U_X)};

static const ipu__cpu_impl update_impls[] = {
    {.head = {"rows", ipu__op_fits_always}, .run = dynamic_update_slice_run}};

static const ipu_op_attribute update_attributes[] = {
    {.name = "axis", .kind = IPU_ATTRIBUTE_INT, .meaning = "the dimension along which y goes"},
};

static const char *const update_samples[] = {"float[5,4], float[5,1], int64[1]{-3,9}; axis=1",
                                             "float[5,4], float[2,4], int32[]{0,4}",
                                             "float[3,2], float[3,0], int32[]; axis=-1",
                                             "float[300,20,40], float[300,10,40], int32[]{5,5}; axis=1",
                                             NULL};

const ipu__op_def ipu__op_dynamic_update_slice = {
    .kernel       = {.name            = "dynamic_update_slice",
                     .operands        = update_operands,
                     .n_operands      = 4,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = dynamic_update_slice_ref,
                     .work            = dynamic_update_slice_work,
                     .plan            = dynamic_update_slice_plan,
                     .implementations = IPU__ON_CPU(update_impls)},
    .n_in         = 3,
    .family       = "gather",
    .summary      = "x with y put in its place from a start that is a value",
    .flags        = IPU__OP_EXACT_IN_HALF,
    .attributes   = update_attributes,
    .n_attributes = 1,
    .infer        = dynamic_update_slice_infer,
    .grad         = dynamic_update_slice_grad,
    .samples      = update_samples,
};

ipu_value ipu_dynamic_update_slice(ipu_builder *b, ipu_value x, ipu_value y, ipu_value start, int axis)
{
    return ipu__emit1(b, "dynamic_update_slice", IPU__WITH(IPU_INT_ATTRIBUTE("axis", axis)),
                      IPU__IN(x, y, start));
}

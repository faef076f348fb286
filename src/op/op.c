/* The list of ops, their attributes, and helpers for `infer` functions.
 *
 * requires: shapes checked by the graph or the builder.
 */
#include "op/op.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "graph/graph.h"

const ipu__op_def *const ipu__ops[] = {
#define OP(name) &ipu__op_##name,
#include "op/ops.inc"
#undef OP
    NULL};

const ipu__op_def *ipu__op_find(const char *name)
{
    const ipu__kernel_def *kernel = ipu__kernel_find(name);
    return kernel ? ipu__op_of(kernel) : NULL;
}

/* ---- attributes ---- */

static const ipu_op_attribute *declared(const ipu__op_def *op, const char *name)
{
    for (size_t i = 0; name && i < op->n_attributes; i++)
        if (strcmp(op->attributes[i].name, name) == 0) return &op->attributes[i];
    return NULL;
}

static ipu_status fail_unknown(const ipu__op_def *op, const char *name)
{
    const char *own = op->kernel.name;
    if (op->n_attributes == 0)
        return ipu__fail(IPU_INVALID, "%s: unknown attribute \"%s\": it takes none", own, name ? name : "");
    ipu__text list = {0};
    for (size_t i = 0; i < op->n_attributes; i++)
        ipu__text_add(&list, "%s\"%s\"", i ? ", " : "", op->attributes[i].name);
    ipu_status status = list.failed ? ipu__fail_memory()
                                    : ipu__fail(IPU_INVALID, "%s: unknown attribute \"%s\": it takes %s", own,
                                                name ? name : "", list.at);
    ipu__text_fini(&list);
    return status;
}

/* An int will do where a float is wanted. */
static bool kind_fits(ipu_attribute_kind want, ipu_attribute_kind found)
{
    return want == found || (want == IPU_ATTRIBUTE_FLOAT && found == IPU_ATTRIBUTE_INT);
}

ipu_status ipu__op_check_attributes(const ipu__kernel_call *call)
{
    const ipu__op_def *op = ipu__op_of(call->def);
    for (size_t i = 0; i < call->n_attributes; i++) {
        const ipu_attribute    *a    = &call->attributes[i];
        const ipu_op_attribute *want = declared(op, a->name);
        if (!want) return fail_unknown(op, a->name);
        if (ipu__attribute_find(call, a->name) != a)
            return ipu__fail(IPU_INVALID, "%s: attribute \"%s\" is given twice", op->kernel.name, a->name);
        if (!kind_fits(want->kind, a->kind))
            return ipu__fail(IPU_INVALID, "%s: attribute \"%s\" must be %s, found %s", op->kernel.name,
                             a->name, ipu__attribute_kind_text(want->kind),
                             ipu__attribute_kind_text(a->kind));
        if (a->kind == IPU_ATTRIBUTE_TEXT && !a->text)
            return ipu__fail(IPU_INVALID, "%s: attribute \"%s\" has no text", op->kernel.name, a->name);
    }
    for (size_t i = 0; i < op->n_attributes; i++)
        if (op->attributes[i].required && !ipu__attribute_find(call, op->attributes[i].name))
            return ipu__fail(IPU_INVALID, "%s: attribute \"%s\" is missing: %s", op->kernel.name,
                             op->attributes[i].name, op->attributes[i].meaning);
    return IPU_OK;
}

static double otherwise(const ipu__kernel_call *call, const char *name)
{
    const ipu_op_attribute *a = declared(ipu__op_of(call->def), name);
    IPU__ASSERT(a);
    return a ? a->otherwise : 0;
}

int64_t ipu__op_int(const ipu__kernel_call *call, const char *name)
{
    const ipu_attribute *a = ipu__attribute_find(call, name);
    return a ? a->i : (int64_t)otherwise(call, name);
}

double ipu__op_float(const ipu__kernel_call *call, const char *name)
{
    const ipu_attribute *a = ipu__attribute_find(call, name);
    if (!a) return otherwise(call, name);
    return a->kind == IPU_ATTRIBUTE_INT ? (double)a->i : a->f;
}

const char *ipu__op_text(const ipu__kernel_call *call, const char *name)
{
    const ipu_attribute *a = ipu__attribute_find(call, name);
    if (a) return a->text;
    const ipu_op_attribute *want = declared(ipu__op_of(call->def), name);
    IPU__ASSERT(want);
    return want ? want->text_otherwise : NULL;
}

const int64_t *ipu__op_ints(const ipu__kernel_call *call, const char *name, size_t *n)
{
    const ipu_attribute *a = ipu__attribute_find(call, name);
    *n                     = a ? a->n_ints : 0;
    return a ? a->ints : NULL;
}

/* ---- checking a call ---- */

static const char *operand_name(const ipu__kernel_call *call, int i) { return call->def->operands[i].name; }

static ipu_status check_operands(const ipu__kernel_call *call)
{
    const ipu__kernel_def *def = call->def;
    if (call->n_operands != def->n_operands) {
        ipu__text names = {0};
        for (int i = 0; i < def->n_operands; i++)
            ipu__text_add(&names, "%s%s", i ? ", " : "", def->operands[i].name);
        ipu_status status = names.failed
                              ? ipu__fail_memory()
                              : ipu__fail(IPU_INVALID, "%s: expected %d operand%s (%s), found %d", def->name,
                                          def->n_operands, def->n_operands == 1 ? "" : "s", names.at,
                                          call->n_operands);
        ipu__text_fini(&names);
        return status;
    }
    return IPU_OK;
}

ipu_status ipu__op_check(const ipu__kernel_call *call)
{
    const ipu__op_def *op = ipu__op_of(call->def);
    IPU_TRY(check_operands(call));
    if (!op->kernel.ref)
        return ipu__fail(IPU_INVALID, "%s is not a kernel: emit it with a builder (ipu/builder.h)",
                         op->kernel.name);
    IPU_TRY(ipu__op_check_attributes(call));
    ipu__kernel_value want[IPU__MAX_OPERANDS];
    /* Where inputs do not tell an output's type, infer takes what it is given there. */
    memcpy(want, call->operand + op->n_in, (size_t)ipu__op_n_out(op) * sizeof *want);
    IPU_TRY(op->infer(call, want));
    for (int i = 0; i < ipu__op_n_out(op); i++) {
        const ipu__kernel_value *found = &call->operand[op->n_in + i];
        if (found->type == want[i].type && ipu__shape_equal(&found->shape, &want[i].shape)) continue;
        return ipu__fail(IPU_INVALID, "%s: output \"%s\" must be %s%s, found %s%s", op->kernel.name,
                         operand_name(call, op->n_in + i), ipu_type_name(want[i].type),
                         ipu__shape_str(&want[i].shape), ipu_type_name(found->type),
                         ipu__shape_str(&found->shape));
    }
    return IPU_OK;
}

/* ---- what `infer` functions share ---- */

bool ipu__op_is_floating(ipu_type type)
{
    return type == IPU_HALF || type == IPU_BFLOAT16 || type == IPU_FLOAT || type == IPU_DOUBLE;
}

bool ipu__op_is_integer(ipu_type type) { return type != IPU_BOOL && !ipu__op_is_floating(type); }

static ipu_status fail_type(const ipu__kernel_call *call, int i, const char *want)
{
    return ipu__fail(IPU_INVALID, "%s: \"%s\" must be %s, found %s%s", call->def->name, operand_name(call, i),
                     want, ipu_type_name(call->operand[i].type), ipu__shape_str(&call->operand[i].shape));
}

ipu_status ipu__op_want_floating(const ipu__kernel_call *call, int i)
{
    return ipu__op_is_floating(call->operand[i].type) ? IPU_OK
                                                      : fail_type(call, i, "half, bfloat16, float or double");
}

ipu_status ipu__op_want_integer(const ipu__kernel_call *call, int i)
{
    ipu_type type = call->operand[i].type;
    bool     ok   = type == IPU_INT32 || type == IPU_INT64 || type == IPU_UINT32;
    return ok ? IPU_OK : fail_type(call, i, "int32, int64 or uint32");
}

ipu_status ipu__op_want_type(const ipu__kernel_call *call, int i, ipu_type type)
{
    return call->operand[i].type == type ? IPU_OK : fail_type(call, i, ipu_type_name(type));
}

ipu_status ipu__op_want_same_type(const ipu__kernel_call *call, int a, int b)
{
    const ipu__kernel_value *x = &call->operand[a], *y = &call->operand[b];
    if (x->type == y->type) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"%s\" and \"%s\" must have one type, found %s%s and %s%s: cast one",
                     call->def->name, operand_name(call, a), operand_name(call, b), ipu_type_name(x->type),
                     ipu__shape_str(&x->shape), ipu_type_name(y->type), ipu__shape_str(&y->shape));
}

ipu_status ipu__op_want_rank(const ipu__kernel_call *call, int i, int least, int most)
{
    int rank = call->operand[i].shape.rank;
    if (rank >= least && rank <= most) return IPU_OK;
    if (least == most)
        return ipu__fail(IPU_INVALID, "%s: \"%s\" must have rank %d, found %s%s", call->def->name,
                         operand_name(call, i), least, ipu_type_name(call->operand[i].type),
                         ipu__shape_str(&call->operand[i].shape));
    return ipu__fail(IPU_INVALID, "%s: \"%s\" must have rank %d to %d, found %s%s", call->def->name,
                     operand_name(call, i), least, most, ipu_type_name(call->operand[i].type),
                     ipu__shape_str(&call->operand[i].shape));
}

ipu_status ipu__op_want_shape(const ipu__kernel_call *call, int i, const ipu_shape *shape)
{
    if (ipu__shape_equal(&call->operand[i].shape, shape)) return IPU_OK;
    return ipu__fail(IPU_INVALID, "%s: \"%s\" must have shape %s, found %s%s", call->def->name,
                     operand_name(call, i), ipu__shape_str(shape), ipu_type_name(call->operand[i].type),
                     ipu__shape_str(&call->operand[i].shape));
}

static ipu_status fix_axis(const ipu__kernel_call *call, const char *name, int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return ipu__fail(IPU_INVALID, "%s: %s = %lld is out of range for rank %d: expected %d to %d",
                         call->def->name, name, (long long)axis, rank, -rank, rank - 1);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return IPU_OK;
}

ipu_status ipu__op_axis(const ipu__kernel_call *call, const char *name, int rank, int *axis)
{
    return fix_axis(call, name, ipu__op_int(call, name), rank, axis);
}

ipu_status ipu__op_axes(const ipu__kernel_call *call, const char *name, int rank, bool mask[IPU_MAX_RANK])
{
    size_t         n;
    const int64_t *axes = ipu__op_ints(call, name, &n);
    for (int i = 0; i < IPU_MAX_RANK; i++) mask[i] = n == 0 && i < rank;
    for (size_t i = 0; i < n; i++) {
        int axis = 0;
        IPU_TRY(fix_axis(call, name, axes[i], rank, &axis));
        if (mask[axis])
            return ipu__fail(IPU_INVALID, "%s: %s names dimension %d twice", call->def->name, name, axis);
        mask[axis] = true;
    }
    return IPU_OK;
}

static ipu_status fail_broadcast(const ipu__kernel_call *call, int i, const ipu_shape *others)
{
    return ipu__fail(IPU_INVALID,
                     "%s: \"%s\" %s%s does not broadcast with %s: dimensions, counted from the last, must be "
                     "equal or 1",
                     call->def->name, operand_name(call, i), ipu_type_name(call->operand[i].type),
                     ipu__shape_str(&call->operand[i].shape), ipu__shape_str(others));
}

ipu_status ipu__op_broadcast(const ipu__kernel_call *call, int n, ipu_shape *out)
{
    ipu_shape sofar = IPU_SCALAR;
    for (int i = 0; i < n; i++) {
        if (call->def->operands[i].optional && !ipu__kernel_has(call, i)) continue;
        const ipu_shape *s      = &call->operand[i].shape;
        ipu_shape        result = {.rank = s->rank > sofar.rank ? s->rank : sofar.rank};
        for (int d = 1; d <= result.rank; d++) { /* from the last */
            int64_t a = d <= sofar.rank ? sofar.dim[sofar.rank - d] : 1;
            int64_t b = d <= s->rank ? s->dim[s->rank - d] : 1;
            if (a != b && a != 1 && b != 1) return fail_broadcast(call, i, &sofar);
            result.dim[result.rank - d] = a == 1 ? b : a;
        }
        sofar = result;
    }
    *out = sofar;
    return IPU_OK;
}

ipu_status ipu__op_made(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    bool is_step = call->n_operands == call->def->n_operands;
    if (is_step && !ipu__attribute_find(call, "shape") && !ipu__attribute_find(call, "type")) return IPU_OK;
    size_t         n;
    const int64_t *dims = ipu__op_ints(call, "shape", &n);
    const char    *type = ipu__op_text(call, "type");
    if (n > IPU_MAX_RANK)
        return ipu__fail(IPU_INVALID, "%s: shape has %zu dimensions: expected at most %d", call->def->name, n,
                         IPU_MAX_RANK);
    *out = (ipu__kernel_value){ipu_type_find(type), {.rank = (int)n}};
    if (out->type == IPU_N_TYPES)
        return ipu__fail(IPU_INVALID, "%s: there is no type \"%s\"", call->def->name, type);
    for (size_t i = 0; i < n; i++) out->shape.dim[i] = dims[i];
    return IPU_OK;
}

bool ipu__shape_equal(const ipu_shape *a, const ipu_shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

/* ---- for kernels ---- */

int64_t ipu__op_n_elements(const ipu_shape *shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape->rank; i++) n *= shape->dim[i];
    return n;
}

bool ipu__op_fits_always(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)call, (void)machine, (void)n_parts;
    return true;
}

ipu_interval ipu__op_part(int64_t n, int64_t grain, int part, int n_parts)
{
    int64_t grains = ipu__op_ceil_div(n, grain);
    int64_t begin = grains * part / n_parts * grain, end = grains * (part + 1) / n_parts * grain;
    return (ipu_interval){begin < n ? begin : n, end < n ? end : n};
}

int64_t ipu__op_line(ipu_type type) { return 64 / (int64_t)ipu_type_size(type); }

ipu_status ipu__op_constant(const ipu_target *target, const char *name, double *out)
{
    ipu_constant constant;
    IPU_TRY(ipu_target_constant(target, name, &constant));
    *out = constant.value;
    return IPU_OK;
}

double ipu__op_loop_cycles(const ipu__op_loop *loop, double n, double launch_cycles, double n_workers)
{
    double loops = ceil(ceil(n / n_workers) / loop->step);
    /* Workers take turns: a cycle of each is n_workers cycles of the tile. */
    return launch_cycles + n_workers * (loop->start + loops * loop->loop_cycles);
}

void ipu__op_add_plan(const ipu__kernel_plan *more, ipu__kernel_plan *out)
{
    out->cycles += more->cycles;
    out->bytes_received += more->bytes_received;
    out->bytes_sent += more->bytes_sent;
    out->tile_bytes += more->tile_bytes;
    if (more->n_tiles > out->n_tiles) out->n_tiles = more->n_tiles;
}

ipu_status ipu__op_plan_loop(const ipu__op_loop *loop, int64_t n, int64_t grain, const ipu_target *target,
                             ipu__kernel_plan *out)
{
    *out = (ipu__kernel_plan){0};
    if (n == 0) return IPU_OK;
    double launch_cycles;
    IPU_TRY(ipu__op_constant(target, "compute_set_launch_cycles", &launch_cycles));
    int64_t per_tile = ipu__op_ceil_div(ipu__op_ceil_div(n, grain), ipu_target_n_tiles(target)) * grain;
    if (per_tile > n) per_tile = n;
    double cycles = ipu__op_loop_cycles(loop, (double)per_tile, launch_cycles,
                                        (double)ipu_target_n_workers(target));
    out->n_tiles  = ipu__op_ceil_div(n, per_tile);
    out->cycles   = ipu__op_count(cycles);
    return IPU_OK;
}

int64_t ipu__op_count(double value) { return value < 0x1p63 ? (int64_t)value : INT64_MAX; }

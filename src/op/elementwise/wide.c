/* Kernels of 16-bit types by an implementation for floats, some images at a time.
 *
 * The op's record (`batch`, op.h) says which operands have images, are shared by all or are sums over them.
 * Some images are converted, the implementation runs on them, and its results are converted back: all of that
 * stays in the second-level cache. It may get sixteen images in lanes: operands it accepts in that layout are
 * passed in it, converted if necessary. If an op has other implementations for 16-bit types, only
 * implementations that do so are used. Parts get images; if there are only sixteen, parts get stretches of
 * the output, if the implementation says which.
 */
#include "op/elementwise/wide.h"

#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "op/elementwise/epilogue.h"
#include "op/vector/lanes.h"
#include "op/product/xsmm.h"

enum {
    ROOM      = 1 << 20, /* bytes of floats of the images at a time, all operands */
    MOST_SUMS = 1 << 16, /* floats of all sums over images, where there are others */
    COLUMNS   = 128      /* elements of each of sixteen rows that are converted before they are turned */
};

typedef enum role { NONE, SAME, IMAGES, SUM } role; /* NONE: absent */

typedef struct wide {
    const ipu__cpu_impl *impl; /* NULL: it cannot be done so */
    ipu__kernel_call     call; /* of floats, for the images at a time */
    role                 role[IPU__MAX_OPERANDS];
    bool                 is_held[IPU__MAX_OPERANDS]; /* in scratch, as 4 bytes an element */
    bool                 is_output[IPU__MAX_OPERANDS];
    int64_t              n_each[IPU__MAX_OPERANDS]; /* elements: of the images at a time, or all */
    ptrdiff_t            place[IPU__MAX_OPERANDS]; /* in scratch, or of a sum in the sums of a part: floats */
    int64_t              at_once, n_groups;        /* images at a time, and how often */
    int                  n_inner;                  /* parts of one group */
    int64_t              n_floats, n_sums;
} wide;

typedef struct state {
    wide       w;
    int        n_parts, n_states;
    atomic_int n_left; /* parts that have not finished */
    float     *sums;   /* of each part, or, if parts have one group, of all */
    void      *states[];
} state;

static bool is_narrow(ipu_type type) { return type == IPU_HALF || type == IPU_BFLOAT16; }

static int64_t line_up(int64_t n) { return (n + IPU__LANES - 1) / IPU__LANES * IPU__LANES; }

/* ---- what fits ---- */

/* From the record's list. False: it has none, or one with something else than images, what they share, and sums. */
static bool find_roles(const ipu__kernel_call *call, wide *w)
{
    const ipu__op_def *op  = ipu__op_of(call->def);
    int                own = op->n_in - (op->flags & IPU__OP_EPILOGUE ? IPU__EPILOGUE_IN : 0);
    if (!op->batch || op->fold) return false;
    for (int i = 0; i < call->n_operands; i++) {
        static const role roles[] = {[IPU__SHARED] = SAME, [IPU__AXIS_0] = IMAGES, [IPU__SUMMED] = SUM};
        ipu__op_along     along   = ipu__op_along_of(op, i);
        if (i >= own && i < op->n_in) { /* of an epilogue */
            if (ipu__kernel_has(call, i)) return false;
            continue;
        }
        if (along != IPU__SHARED && along != IPU__AXIS_0 && along != IPU__SUMMED) return false;
        if (ipu__kernel_has(call, i)) w->role[i] = roles[along];
    }
    return true;
}

/* The number of images; 0: operands do not agree. */
static int64_t count_images(const ipu__kernel_call *call, const wide *w)
{
    int64_t n = -1;
    for (int i = 0; i < call->n_operands; i++) {
        const ipu_shape *shape = &call->operand[i].shape;
        if (w->role[i] != IMAGES) continue;
        if (shape->rank < 2 || (n >= 0 && shape->dim[0] != n)) return 0;
        n = shape->dim[0];
    }
    return n > 0 ? n : 0;
}

/* The call for so many images, as floats. */
static bool describe_call(const ipu__kernel_call *call, int64_t at_once, int64_t n_images, wide *w)
{
    w->call = *call;
    memset(w->call.layout, 0, sizeof w->call.layout);
    for (int i = 0; i < call->n_operands; i++) {
        ipu__kernel_value *value = &w->call.operand[i];
        w->is_held[i]            = is_narrow(value->type);
        w->is_output[i]          = i >= ipu__op_of(call->def)->n_in;
        if (w->role[i] == NONE) continue;
        if (w->is_held[i]) value->type = IPU_FLOAT;
        if (w->role[i] == SUM && value->type != IPU_FLOAT) return false;
        if (w->role[i] == IMAGES && ipu_type_size(value->type) != sizeof(float)) return false;
        if (w->role[i] == IMAGES) value->shape.dim[0] = at_once;
        w->n_each[i] = ipu__op_n_elements(&value->shape);
        if (w->n_each[i] < 1) return false;
    }
    w->at_once  = at_once;
    w->n_groups = n_images / at_once;
    return true;
}

/* Images of the implementation can lie in lanes. */
static bool takes_lanes(const wide *w, int operand)
{
    const unsigned lanes = IPU__LAYOUT_BIT(IPU__LAYOUT_LANES);
    return w->at_once == IPU__LANES && w->impl->layouts
        && (w->impl->layouts(&w->call, w->n_inner, operand).takes & lanes);
}

static bool writes_images(const wide *w)
{
    for (int i = 0; i < w->call.n_operands; i++)
        if (w->role[i] == IMAGES && w->is_output[i]) return true;
    return false;
}

/* `needs_lanes`: only one that has them. */
static bool find_impl(wide *w, const void *machine, int n_inner, bool needs_lanes)
{
    w->n_inner = n_inner;
    w->impl    = ipu__cpu_find_impl(&w->call, machine, n_inner);
    if (!w->impl || ((needs_lanes || n_inner > 1) && !takes_lanes(w, 0))) return false;
    return n_inner == 1 || w->impl->writes || !writes_images(w);
}

/* The implementation has lanes wherever it can; what lies otherwise in `call` is turned. Blocks are handed on. */
static bool find_layouts(wide *w, const ipu__kernel_call *call)
{
    uint8_t layout[IPU__MAX_OPERANDS] = {IPU__LAYOUT_PLAIN};
    for (int i = 0; i < call->n_operands; i++) {
        if (w->role[i] != IMAGES) continue;
        layout[i] = takes_lanes(w, i) ? (uint8_t)IPU__LAYOUT_LANES : call->layout[i];
        w->is_held[i] |= layout[i] != call->layout[i];
        /* Which stretch a part writes is known in lanes. */
        if (w->n_inner > 1 && w->is_output[i] && w->is_held[i] && layout[i] != IPU__LAYOUT_LANES)
            return false;
    }
    memcpy(w->call.layout, layout, sizeof layout);
    return true;
}

/* Places in scratch of what is converted, and of sums; `others`: it could be done otherwise. */
static bool find_places(wide *w, bool others)
{
    int64_t images = 0;
    w->n_sums      = 0;
    w->n_floats    = (int64_t)IPU__LANES * COLUMNS;
    for (int i = 0; i < w->call.n_operands; i++) {
        if (w->role[i] == NONE || (w->role[i] != SUM && !w->is_held[i])) continue;
        w->place[i] = w->n_floats;
        w->n_floats += line_up(w->n_each[i]);
        if (w->role[i] != SUM) {
            images += w->n_each[i];
            continue;
        }
        w->place[i] = w->n_sums;
        w->n_sums += line_up(w->n_each[i]);
    }
    w->n_floats += w->n_sums;
    return (w->at_once == 1 || images <= ROOM / (int64_t)sizeof(float))
        && (!others || w->n_sums <= MOST_SUMS);
}

/* Whether another implementation of the op is for its 16-bit type. */
static bool has_others(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    ipu__cpu_impls all = ipu__cpu_impls_of(call->def);
    for (int i = 0; i < all.n; i++) {
        const ipu__cpu_impl *impl = &all.at[i];
        if (impl->head.fits != ipu__wide_fits && impl->head.fits(call, machine, n_parts)) return true;
    }
    return false;
}

typedef struct way {
    int64_t at_once, n_images;
    int     n_inner;
    bool    needs_lanes;
} way;

static bool try_way(const ipu__kernel_call *call, const void *machine, way how, wide *out)
{
    return describe_call(call, how.at_once, how.n_images, out)
        && find_impl(out, machine, how.n_inner, how.needs_lanes) && find_layouts(out, call)
        && find_places(out, how.needs_lanes);
}

static bool describe(const ipu__kernel_call *call, const void *machine, int n_parts, wide *out)
{
    *out = (wide){0};
    if (!is_narrow(call->operand[0].type) || !find_roles(call, out) || out->role[0] != IMAGES) return false;
    bool has_epilogue = ipu__op_of(call->def)->flags & IPU__OP_EPILOGUE;
    if (has_epilogue && ipu__epilogue_has(call) && ipu__epilogue_kind_of(call) != IPU__EPILOGUE_RELU)
        return false;
    int64_t n = count_images(call, out), share = n % n_parts == 0 ? n / n_parts : 1;
    if (n == 0) return false;
    bool others = has_others(call, machine, n_parts);
    if (n % IPU__LANES == 0 && n >= IPU__LANES * (int64_t)n_parts
        && try_way(call, machine, (way){IPU__LANES, n, 1, others}, out))
        return true;
    if (n == IPU__LANES && n_parts > 1 && try_way(call, machine, (way){n, n, n_parts, others}, out))
        return true;
    for (int64_t k = share < IPU__LANES ? share : IPU__LANES; k > 0 && !others; k--)
        if (share % k == 0 && try_way(call, machine, (way){k, n, 1, false}, out)) return true;
    return false;
}

bool ipu__wide_fits(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    wide w;
    return describe(call, machine, n_parts, &w);
}

ipu__kernel_layouts ipu__wide_layouts(const ipu__kernel_call *call, int n_parts, int operand)
{
    const unsigned      plain = IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
    ipu__kernel_layouts found = {plain, plain, false};
    wide                w;
    if (!describe(call, ipu__cpu_machine_here(), n_parts, &w) || w.role[operand] != IMAGES
        || !w.impl->layouts)
        return found;
    memset(w.call.layout, 0, sizeof w.call.layout);
    ipu__memory_layout other = takes_lanes(&w, operand) ? IPU__LAYOUT_LANES : IPU__LAYOUT_BLOCKED;
    found                    = w.impl->layouts(&w.call, w.n_inner, operand);
    found.takes &= plain | IPU__LAYOUT_BIT(other);
    found.native &= plain | IPU__LAYOUT_BIT(other);
    return found;
}

/* ---- at load ---- */

size_t ipu__wide_scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    wide w;
    if (!describe(call, ipu__cpu_machine_here(), n_parts, &w)) return 0;
    size_t own = w.impl->scratch_bytes ? w.impl->scratch_bytes(&w.call, w.n_inner) : 0;
    return own == SIZE_MAX ? own : own + (size_t)w.n_floats * sizeof(float);
}

void ipu__wide_release(void *prepared)
{
    state *s = prepared;
    if (!s) return;
    for (int i = 0; i < s->n_states; i++)
        if (s->states[i] && s->w.impl && s->w.impl->release) s->w.impl->release(s->states[i]);
    ipu__free(s->sums);
    ipu__free(s);
}

ipu_status ipu__wide_prepare(const ipu__kernel_call *call, int n_parts, void **out)
{
    state *s = ipu__alloc_zeroed(sizeof *s + (size_t)n_parts * sizeof *s->states);
    *out     = NULL;
    if (!s) return ipu__fail_memory();
    s->n_parts        = n_parts;
    ipu_status status = IPU_OK;
    atomic_init(&s->n_left, n_parts);
    if (!describe(call, ipu__cpu_machine_here(), n_parts, &s->w))
        status = ipu__fail(IPU_UNSUPPORTED, "%s: nothing for floats fits", call->def->name);
    int n = status != IPU_OK ? 0 : s->w.n_inner == 1 ? n_parts : 1;
    if (n > 0) {
        s->sums = ipu__alloc((size_t)(n * s->w.n_sums + 1) * sizeof *s->sums);
        if (!s->sums) status = ipu__fail_memory();
    }
    for (; status == IPU_OK && s->n_states < n; s->n_states++)
        if (s->w.impl->prepare) {
            status = s->w.impl->prepare(&s->w.call, s->w.n_inner, &s->states[s->n_states]);
            if (status != IPU_OK) break;
        }
    if (status == IPU_OK)
        *out = s;
    else
        ipu__wide_release(s);
    return status;
}

/* ---- running ---- */

typedef struct job {
    const state            *s;
    const wide             *w;
    const ipu__kernel_call *call; /* that of 16-bit types */
    void *const            *operand;
    float                  *scratch, *sums; /* sums: of this part */
    int                     part;           /* of a group */
} job;

static char *element(const job *j, int i, int64_t at)
{
    return (char *)j->operand[i] + at * (int64_t)ipu_type_size(j->call->operand[i].type);
}

/* Whether it lies otherwise than the implementation wants it: in rows that are to be lanes. */
static bool is_turned(const job *j, int i) { return j->call->layout[i] != j->w->call.layout[i]; }

/* As which its elements are converted: other types of 4 bytes are moved as floats are. */
static ipu_type type_of(const job *j, int i)
{
    ipu_type type = j->call->operand[i].type;
    return is_narrow(type) ? type : IPU_FLOAT;
}

static void load(const job *j, int i, int64_t group)
{
    ipu_type type = type_of(j, i);
    int64_t  n = j->w->n_each[i], row = n / IPU__LANES;
    float   *to = j->scratch + j->w->place[i];
    if (!is_turned(j, i)) {
        ipu__to_floats(type, element(j, i, group * n), to, n);
        return;
    }
    for (int64_t at = 0; at < row; at += COLUMNS) {
        int64_t m = row - at < COLUMNS ? row - at : COLUMNS;
        ipu__rows_to_floats(type, element(j, i, group * n + at), row, j->scratch, COLUMNS, IPU__LANES, m);
        IPU__SIMD_PICK(ipu__lane_turns_at).turn(j->scratch, COLUMNS, m, to + at * IPU__LANES);
    }
}

static void store(const job *j, int i, int64_t group)
{
    ipu_type     type = type_of(j, i);
    int64_t      n = j->w->n_each[i], row = n / IPU__LANES;
    const float *from  = j->scratch + j->w->place[i];
    ipu_interval wrote = {0, n};
    if (j->w->n_inner > 1) wrote = j->w->impl->writes(&j->w->call, i, j->part, j->w->n_inner);
    if (!is_turned(j, i)) {
        ipu__from_floats(type, from + wrote.begin, element(j, i, group * n + wrote.begin),
                         wrote.end - wrote.begin);
        return;
    }
    int64_t end = wrote.end / IPU__LANES;
    for (int64_t at = wrote.begin / IPU__LANES; at < end; at += COLUMNS) {
        int64_t m = end - at < COLUMNS ? end - at : COLUMNS;
        IPU__SIMD_PICK(ipu__lane_turns_at).turn_back(from + at * IPU__LANES, m, j->scratch, COLUMNS);
        ipu__rows_from_floats(type, j->scratch, COLUMNS, element(j, i, group * n + at), row, IPU__LANES, m);
    }
}

static void add_sums(const job *j, int i, bool is_first)
{
    int64_t      n    = j->w->n_each[i];
    const float *from = j->scratch + j->w->n_floats - j->w->n_sums + j->w->place[i];
    float       *to   = j->sums + j->w->place[i];
    if (is_first)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        for (int64_t k = 0; k < n; k++) to[k] += from[k];
}

/* Where the implementation finds an operand. */
static void *place_of(const job *j, int i, int64_t group)
{
    const wide *w = j->w;
    if (w->role[i] == SUM)
        return w->n_inner > 1 ? j->sums + w->place[i] : j->scratch + w->n_floats - w->n_sums + w->place[i];
    if (w->role[i] != NONE && w->is_held[i]) return j->scratch + w->place[i];
    return w->role[i] == IMAGES ? element(j, i, group * w->n_each[i]) : j->operand[i];
}

static ipu_status run_group(const job *j, void *inner, int64_t group, bool is_first)
{
    const wide *w = j->w;
    void       *use[IPU__MAX_OPERANDS];
    for (int i = 0; i < w->call.n_operands; i++) {
        use[i] = place_of(j, i, group);
        if (w->role[i] == IMAGES && w->is_held[i] && !w->is_output[i]) load(j, i, group);
    }
    IPU_TRY(w->impl->run(&w->call, inner, use, j->scratch + w->n_floats, j->part, w->n_inner));
    for (int i = 0; i < w->call.n_operands; i++) {
        if (w->role[i] == IMAGES && w->is_held[i] && w->is_output[i]) store(j, i, group);
        if (w->role[i] == SUM && w->n_inner == 1) add_sums(j, i, is_first);
    }
    return IPU_OK;
}

/* The sums of all parts to their places. */
static void finish_sums(const job *j)
{
    const wide *w = j->w;
    for (int i = 0; i < w->call.n_operands; i++) {
        if (w->role[i] != SUM) continue;
        float *sums = j->s->sums + w->place[i];
        for (int p = 1; p < j->s->n_states; p++)
            for (int64_t k = 0; k < w->n_each[i]; k++) sums[k] += sums[p * w->n_sums + k];
        ipu__from_floats(j->call->operand[i].type, sums, j->operand[i], w->n_each[i]);
    }
}

ipu_status ipu__wide_run(const ipu__kernel_call *call, void *prepared, void *const *operand, void *scratch,
                         int part, int n_parts)
{
    state       *s      = prepared;
    const wide  *w      = &s->w;
    bool         alone  = w->n_inner == 1;
    ipu_interval groups = alone ? ipu__op_part(w->n_groups, 1, part, n_parts) : (ipu_interval){0, 1};
    job          j      = {.s       = s,
                           .w       = w,
                           .call    = call,
                           .operand = operand,
                           .scratch = scratch,
                           .sums    = s->sums + (alone ? part : 0) * w->n_sums,
                           .part    = alone ? 0 : part};
    ipu_status   status = IPU_OK;
    for (int i = 0; i < call->n_operands; i++)
        if (w->role[i] == SAME && w->is_held[i])
            ipu__to_floats(call->operand[i].type, operand[i], j.scratch + w->place[i], w->n_each[i]);
    if (groups.begin >= groups.end) memset(j.sums, 0, (size_t)w->n_sums * sizeof *j.sums);
    for (int64_t g = groups.begin; g < groups.end && status == IPU_OK; g++)
        status = run_group(&j, s->states[alone ? part : 0], g, g == groups.begin);
    if (w->n_sums == 0 || atomic_fetch_sub_explicit(&s->n_left, 1, memory_order_acq_rel) != 1) return status;
    atomic_store_explicit(&s->n_left, n_parts, memory_order_relaxed);
    finish_sums(&j);
    return status;
}

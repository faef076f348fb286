/* Generic checks of ops: records, implementations against `ref`, prices, memory. */
#include "op_check.h"

#include <math.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "eager.h"
#include "engine/cpu/impl.h"

int finding(const sample *s, const char *what, const char *format, ...)
{
    char    text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ipu_type type = IPU_N_TYPES;
    for (int i = 0; i < s->op->n_in && type == IPU_N_TYPES; i++)
        if (s->present[i]) type = s->call.operand[i].type;
    fprintf(stderr, "%s (%s)%s%s, %s: %s\n", s->op->kernel.name, s->text ? s->text : "",
            type == IPU_N_TYPES ? "" : " in ", type == IPU_N_TYPES ? "" : ipu_type_name(type), what, text);
    return 1;
}

/* ---- records ---- */

static int wrong(const ipu__op_def *op, bool is_right, const char *what)
{
    if (is_right) return 0;
    fprintf(stderr, "%s: its record: %s\n", op->kernel.name ? op->kernel.name : "?", what);
    return 1;
}

static bool is_filled(const char *text) { return text && *text; }

static int check_operand_table(const ipu__op_def *op)
{
    const ipu__kernel_def *def = &op->kernel;
    int                    bad = 0;
    bad += wrong(op, op->n_in >= 0 && ipu__op_n_out(op) >= 1, "outputs are missing");
    bad += wrong(op, def->n_operands <= IPU__MAX_OPERANDS, "too many operands");
    for (int i = 0; i < def->n_operands; i++) {
        const ipu__kernel_operand *o = &def->operands[i];
        bad += wrong(op, is_filled(o->name), "an operand has no name");
        bad += wrong(op,
                     o->shares == IPU__SHARES_NONE || o->shares == IPU__SHARES_ANY
                         || (o->shares >= 0 && o->shares < def->n_operands && o->shares != i),
                     "an operand shares memory with one there is not");
        bad += wrong(op, (o->access == IPU__ACCESS_READ) == (i < op->n_in),
                     "inputs are read, outputs written");
        bad += wrong(op, !o->optional || i < op->n_in, "an output is optional");
    }
    return bad;
}

static int check_kernel_members(const ipu__op_def *op)
{
    const ipu__kernel_def *def = &op->kernel;
    int                    bad = 0;
    bad += wrong(op, def->ref || op->view || op->compose, "there is no ref, view or composition");
    bad += wrong(op, !op->view || ipu__op_n_out(op) == 1, "a view has one output");
    bad += wrong(op, def->check == ipu__op_check, "check is not ipu__op_check");
    if (!def->ref) return bad + wrong(op, ipu__cpu_impls_of(def).n == 0, "implementations without a ref");
    bad += wrong(op, def->work && def->plan, "a kernel needs work and plan");
    ipu__cpu_impls all = ipu__cpu_impls_of(def);
    for (int i = 0; i < all.n; i++) {
        const ipu__cpu_impl *impl = &all.at[i];
        bad += wrong(op, is_filled(impl->head.name) && impl->head.fits && impl->run,
                     "an implementation lacks a member");
        bad += wrong(op, !impl->prepare == !impl->release, "prepare and release go together");
    }
    return bad;
}

int check_record(const ipu__op_def *op)
{
    int bad = 0;
    bad += wrong(op, is_filled(op->kernel.name), "name");
    bad += wrong(op, is_filled(op->family) && is_filled(op->summary), "family and summary");
    bad += wrong(op, op->infer != NULL, "infer");
    bad += wrong(op, op->samples && op->samples[0], "samples");
    bad += wrong(op, op->n_attributes == 0 || op->attributes, "attributes");
    for (size_t i = 0; i < op->n_attributes; i++) {
        const ipu_op_attribute *a = &op->attributes[i];
        bad += wrong(op, is_filled(a->name) && is_filled(a->meaning), "an attribute without name or meaning");
        for (size_t j = 0; j < i; j++)
            bad += wrong(op, strcmp(op->attributes[j].name, a->name) != 0, "an attribute is declared twice");
    }
    bad += wrong(op, !(op->flags & IPU__OP_ELEMENTWISE) || op->kernel.ref, "elementwise needs a kernel");
    bad += wrong(op, !(op->flags & IPU__OP_NO_GRADIENT) || !op->grad, "NO_GRADIENT, yet there is one");
    return bad + check_operand_table(op) + check_kernel_members(op);
}

/* ---- comparing ---- */

static double epsilon_of(ipu_type type)
{
    switch (type) {
    case IPU_HALF: return 0x1p-11;
    case IPU_BFLOAT16: return 0x1p-8;
    case IPU_FLOAT: return 0x1p-24;
    case IPU_DOUBLE: return 0x1p-53;
    default: return 0;
    }
}

/* How far results may be apart: `share` of the element, and `rest`. */
typedef struct tolerance {
    double share, rest;
} tolerance;

/* Two roundings to the type; sums in float whose order differs: errors of a walk over the operations that
 * each element takes, against the largest result, which stands for the terms. */
static tolerance tolerance_of(const ipu__kernel_call *call, ipu_type type, double largest)
{
    double epsilon = epsilon_of(type), sum_epsilon = type == IPU_DOUBLE ? epsilon : 0x1p-24, n = 1, n_out = 1;
    if (epsilon == 0) return (tolerance){0, 0};
    const ipu__op_def *op = ipu__op_of(call->def);
    if (call->def->work) n = call->def->work(call);
    for (int i = op->n_in; i < call->n_operands; i++)
        n_out += (double)ipu__op_n_elements(&call->operand[i].shape);
    double steps = 4 + 2 * sqrt(n / n_out);
    /* The smallest half is 2^-24: below 2^-14 its steps no longer shrink. */
    double tiny = type == IPU_HALF ? 0x1p-24 : 0;
    return (tolerance){4 * epsilon, steps * sum_epsilon * largest + tiny};
}

static double largest_of(ipu_type type, const void *data, int64_t n)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = fabs(element_get(type, data, i));
        if (isfinite(x) && x > largest) largest = x;
    }
    return largest;
}

static bool is_near(double expected, double found, double limit)
{
    if (isnan(expected) || isnan(found)) return isnan(expected) && isnan(found);
    if (isinf(expected) || isinf(found)) return expected == found;
    return fabs(expected - found) <= limit;
}

/* How far each element of output `k` moves if inputs change in their last bit: of numbers that nearly cancel, whatever
 * is computed is as inexact as that. NULL: memory. */
static double *find_condition(const sample *s, int k)
{
    enum { TRIALS = 6, SLACK = 64 };
    int64_t     n      = sample_n_elements(s, k);
    operands    exact  = operands_make(s, 1);
    double     *out    = calloc((size_t)n + 1, sizeof *out);
    test_random random = {5};
    s->op->kernel.ref(&s->call, exact.pointer);
    for (int t = 0; t < TRIALS && out; t++) {
        operands near = operands_make(s, 1);
        for (int i = 0; i < s->op->n_in; i++) {
            ipu_type type = s->call.operand[i].type;
            for (int64_t j = 0; j < sample_n_elements(s, i) && epsilon_of(type) > 0; j++) {
                double by = random_chance(&random, 50) ? 1 + 2 * epsilon_of(type) : 1 - 2 * epsilon_of(type);
                element_set(type, near.pointer[i], j, by * element_get(type, near.pointer[i], j));
            }
        }
        s->op->kernel.ref(&s->call, near.pointer);
        for (int64_t j = 0; j < n; j++) {
            ipu_type type = s->call.operand[k].type;
            double by = fabs(element_get(type, near.pointer[k], j) - element_get(type, exact.pointer[k], j));
            if (!(by * SLACK <= out[j])) out[j] = by * SLACK;
        }
        operands_free(&near);
    }
    operands_free(&exact);
    return out;
}

/* A long recurrence can make anything of the last bit: how far it moved a few times says little then. */
static bool is_chaotic(const sample *s, int k, const double *condition, double largest)
{
    const double many   = 64; /* operations for an element */
    bool         is_sum = s->op->kernel.work(&s->call) > many * (double)sample_n_elements(s, k);
    double       most   = largest_of(IPU_DOUBLE, condition, sample_n_elements(s, k));
    ipu_type     type   = s->call.operand[k].type;
    return is_sum && (type == IPU_FLOAT || type == IPU_DOUBLE) && most > largest;
}

/* Numbers that grew out of range on their way: what is left depends on the order. Single elements that are infinite
 * say nothing where few operations make one: 1 / 0. */
static bool is_beyond(const sample *s, ipu_type type, const void *data, int64_t n)
{
    const double few        = 16;
    double       n_out      = 0;
    int64_t      n_infinite = 0;
    for (int i = s->op->n_in; i < s->call.n_operands; i++) n_out += (double)sample_n_elements(s, i);
    for (int64_t i = 0; i < n; i++) n_infinite += !isfinite(element_get(type, data, i));
    bool is_sum = s->op->kernel.work(&s->call) > few * n_out;
    return largest_of(type, data, n) > 0x1p100 || (n_infinite > 0 && (is_sum || 8 * n_infinite > n));
}

/* One output against what was expected, which may be of another type. `scale`: more slack for that. */
static int compare(const sample *s, const char *what, int i, const void *expected, ipu_type expected_type,
                   const void *found, double scale)
{
    ipu_type type = s->call.operand[i].type;
    int64_t  n = sample_n_elements(s, i), n_wrong = 0;
    int      bad = 0;
    if (type == expected_type && n > 0 && memcmp(expected, found, (size_t)n * ipu_type_size(type)) == 0)
        return 0;
    double    largest   = largest_of(expected_type, expected, n);
    tolerance t         = tolerance_of(&s->call, type, largest);
    double   *condition = NULL;
    if (s->conditioned) {
        if (is_beyond(s, expected_type, expected, n)) return 0;
        t = tolerance_of(&s->call, type, fmax(largest, 0x1p-5)); /* what is left when terms cancel */
        t.rest *= 64;
    }
    for (int64_t j = 0; j < n; j++) {
        double x = element_get(expected_type, expected, j), y = element_get(type, found, j);
        double limit = scale * (t.share * fabs(x) + t.rest);
        if (is_near(x, y, limit)) continue;
        if (type == IPU_HALF && fabs(x) > 65000 && fabs(y) > 65000) continue; /* at the edge of its range */
        if (s->conditioned && !condition) {
            condition = find_condition(s, i);
            if (condition && is_chaotic(s, i, condition, largest)) break;
        }
        if (condition && is_near(x, y, limit += condition[j])) continue;
        if (n_wrong++ < 2)
            bad += finding(s, what, "output \"%s\" element %lld: %.9g, expected %.9g within %.3g",
                           s->op->kernel.operands[i].name, (long long)j, y, x, limit);
    }
    free(condition);
    if (n_wrong > 2) finding(s, what, "and %lld more", (long long)n_wrong - 2);
    return bad;
}

static int compare_outputs(const sample *s, const char *what, const operands *expected, const operands *found)
{
    int bad = 0;
    for (int i = 0; i < found->n; i++) {
        ptrdiff_t where;
        if (!guarded_ok(&found->at[i], &where))
            bad += finding(s, what, "byte %td of operand \"%s\" of %zu was written", where,
                           s->op->kernel.operands[i].name, found->at[i].bytes);
        if (i >= s->op->n_in)
            bad += compare(s, what, i, expected->pointer[i], s->call.operand[i].type, found->pointer[i], 1);
        else if (memcmp(guarded_data(&expected->at[i]), guarded_data(&found->at[i]), found->at[i].bytes) != 0)
            bad += finding(s, what, "input \"%s\" was changed", s->op->kernel.operands[i].name);
    }
    return bad;
}

/* ---- implementations ---- */

static int run_parts(const sample *s, const ipu__cpu_impl *impl, void *const *pointer, int n_parts,
                     bool backwards, const char *what)
{
    void  *state = NULL;
    int    bad   = 0;
    size_t bytes = impl->scratch_bytes ? impl->scratch_bytes(&s->call, n_parts) : 0;
    if (bytes > (size_t)1 << 30) return finding(s, what, "%zu bytes of scratch", bytes);
    if (impl->prepare && impl->prepare(&s->call, n_parts, &state) != IPU_OK)
        return finding(s, what, "prepare: %s", ipu_message());
    for (int k = 0; k < n_parts && bad == 0; k++) {
        int       part    = backwards ? n_parts - 1 - k : k;
        guarded   scratch = guarded_make(bytes);
        ptrdiff_t where;
        if (impl->run(&s->call, state, pointer, guarded_data(&scratch), part, n_parts) != IPU_OK)
            bad += finding(s, what, "part %d of %d: %s", part, n_parts, ipu_message());
        if (!guarded_ok(&scratch, &where))
            bad += finding(s, what, "part %d of %d wrote byte %td of a scratch of %zu", part, n_parts, where,
                           bytes);
        guarded_free(&scratch);
    }
    if (impl->release) impl->release(state);
    return bad;
}

static int check_implementation(const sample *s, const ipu__cpu_impl *impl, const operands *expected,
                                int n_parts)
{
    char     what[96];
    operands forth = operands_make(s, 1), back = operands_make(s, 1);
    snprintf(what, sizeof what, "%s in %d part%s", impl->head.name, n_parts, n_parts == 1 ? "" : "s");
    int bad = run_parts(s, impl, forth.pointer, n_parts, false, what)
            + run_parts(s, impl, back.pointer, n_parts, true, what);
    bad += compare_outputs(s, what, expected, &forth);
    for (int i = s->op->n_in; i < forth.n; i++)
        if (memcmp(guarded_data(&forth.at[i]), guarded_data(&back.at[i]), forth.at[i].bytes) != 0)
            bad += finding(s, what, "other bits when the parts run in another order");
    operands_free(&forth);
    operands_free(&back);
    return bad;
}

/* ---- layouts ---- */

/* Element `i` of the plain order in a layout. */
static int64_t place_in(ipu__memory_layout layout, const ipu_shape *shape, int64_t i)
{
    enum { W = IPU__LAYOUT_WIDTH };
    int64_t rest = 1, outer = layout == IPU__LAYOUT_LANES ? 1 : shape->dim[0];
    int64_t turned = layout == IPU__LAYOUT_LANES ? shape->dim[0] : shape->dim[1];
    for (int k = layout == IPU__LAYOUT_LANES ? 1 : 2; k < shape->rank; k++) rest *= shape->dim[k];
    int64_t n = i / rest / turned % outer, c = i / rest % turned, r = i % rest;
    return ((n * (turned / W) + c / W) * rest + r) * W + c % W;
}

static void turn(const sample *s, int k, void *data, bool back)
{
    ipu__memory_layout layout = (ipu__memory_layout)s->call.layout[k];
    size_t             size   = ipu_type_size(s->call.operand[k].type);
    int64_t            n      = sample_n_elements(s, k);
    if (layout == IPU__LAYOUT_PLAIN || n == 0) return;
    char *copy = malloc((size_t)n * size), *at = data;
    if (!copy) abort();
    memcpy(copy, data, (size_t)n * size);
    for (int64_t i = 0; i < n; i++) {
        int64_t to = place_in(layout, &s->call.operand[k].shape, i);
        memcpy(at + (size_t)(back ? i : to) * size, copy + (size_t)(back ? to : i) * size, size);
    }
    free(copy);
}

/* ---- sharing ---- */

static bool may_share(const sample *s, int out, int in)
{
    const ipu__kernel_operand *o = s->op->kernel.operands;
    const ipu__kernel_value   *v = s->call.operand;
    bool allowed = o[out].shares == in || o[in].shares == out || o[out].shares == IPU__SHARES_ANY;
    return allowed && s->call.layout[out] == s->call.layout[in] && v[out].type == v[in].type
        && ipu__shape_equal(&v[out].shape, &v[in].shape);
}

/* `impl` NULL: by `ref`, which is an implementation too where no other fits. */
static int check_sharing(const sample *s, const ipu__cpu_impl *impl, const operands *expected, int n_parts)
{
    int bad = 0;
    for (int out = s->op->n_in; out < s->call.n_operands; out++)
        for (int in = 0; in < s->op->n_in; in++) {
            if (!may_share(s, out, in)) continue;
            char     what[192];
            operands o     = operands_make(s, 1);
            o.pointer[out] = o.pointer[in];
            snprintf(what, sizeof what, "%s with \"%s\" in the place of \"%s\", both %s",
                     impl ? impl->head.name : "ref", s->op->kernel.operands[out].name,
                     s->op->kernel.operands[in].name,
                     ipu__layout_name((ipu__memory_layout)s->call.layout[in]));
            for (int k = 0; k < o.n; k++)
                if (k != out) turn(s, k, o.pointer[k], false);
            if (impl)
                bad += run_parts(s, impl, o.pointer, n_parts, false, what);
            else
                s->op->kernel.ref(&s->call, o.pointer);
            for (int k = 0; k < o.n; k++)
                if (k != in) turn(s, k, o.pointer[k], true);
            for (int i = s->op->n_in; i < s->call.n_operands; i++)
                bad += compare(s, what, i, expected->pointer[i], s->call.operand[i].type, o.pointer[i], 1);
            operands_free(&o);
        }
    return bad;
}

/* ---- every choice of layouts ---- */

/* The next choice of layouts, like a number whose digits are layouts; false: that was the last. Tied operands have
 * one digit, that of the first of them. */
static bool next_layouts(sample *s, const ipu__cpu_impl *impl, int n_parts)
{
    int tied = -1;
    for (int k = 0; k < s->call.n_operands; k++) {
        ipu__kernel_call plain = s->call;
        memset(plain.layout, 0, sizeof plain.layout);
        ipu__kernel_layouts offered = impl->layouts(&plain, n_parts, k);
        if (!ipu__kernel_has(&s->call, k) || (offered.tied && tied >= 0)) continue;
        if (offered.tied) tied = k;
        for (int l = s->call.layout[k] + 1; l < IPU__N_LAYOUTS; l++) {
            if (!(offered.takes & IPU__LAYOUT_BIT(l))
                || !ipu__layout_fits((ipu__memory_layout)l, &s->call.operand[k].shape))
                continue;
            s->call.layout[k] = (uint8_t)l;
            return true;
        }
        s->call.layout[k] = IPU__LAYOUT_PLAIN;
    }
    return false;
}

/* Tied operands follow the first; false: one of them cannot. */
static bool follow(sample *s, const ipu__cpu_impl *impl, int n_parts)
{
    ipu__kernel_call plain = s->call;
    memset(plain.layout, 0, sizeof plain.layout);
    int first = -1;
    for (int k = 0; k < s->call.n_operands; k++) {
        ipu__kernel_layouts offered = impl->layouts(&plain, n_parts, k);
        if (!offered.tied || !ipu__kernel_has(&s->call, k)) continue;
        if (first < 0) first = k;
        s->call.layout[k] = s->call.layout[first];
        unsigned takes    = offered.takes | IPU__LAYOUT_BIT(IPU__LAYOUT_PLAIN);
        if (!(takes & IPU__LAYOUT_BIT(s->call.layout[k]))
            || !ipu__layout_fits((ipu__memory_layout)s->call.layout[k], &s->call.operand[k].shape))
            return false;
    }
    return true;
}

static int check_layout(const sample *s, const ipu__cpu_impl *impl, const operands *expected, int n_parts)
{
    char     what[256];
    operands o = operands_make(s, 1);
    int      n = snprintf(what, sizeof what, "%s in %d parts, layouts", impl->head.name, n_parts);
    for (int k = 0; k < o.n; k++) {
        turn(s, k, o.pointer[k], false);
        if (ipu__kernel_has(&s->call, k) && n < (int)sizeof what - 16)
            n += snprintf(what + n, sizeof what - (size_t)n, " %s",
                          ipu__layout_name((ipu__memory_layout)s->call.layout[k]));
    }
    int bad = run_parts(s, impl, o.pointer, n_parts, false, what);
    for (int k = 0; k < o.n; k++) turn(s, k, o.pointer[k], true);
    bad += compare_outputs(s, what, expected, &o);
    operands_free(&o);
    return bad;
}

/* In every choice of layouts that it offers. */
static int check_layouts(const sample *s, const ipu__cpu_impl *impl, const operands *expected, int n_parts,
                         bool sharing)
{
    enum { MOST = 81 };
    sample with = *s;
    int    bad = 0, n = 0;
    if (!impl->layouts) return 0;
    while (bad == 0 && n < MOST && next_layouts(&with, impl, n_parts)) {
        sample tied = with;
        if (!follow(&tied, impl, n_parts)) continue;
        bad += check_layout(&tied, impl, expected, n_parts);
        if (sharing) bad += check_sharing(&tied, impl, expected, n_parts);
        n++;
    }
    return bad;
}

/* ---- rows ---- */

/* Rows that the op says are independent (graph/kernel.h) give one by one what they give together. */
static int check_rows(const sample *s, const operands *expected)
{
    ipu__kernel_call one  = s->call;
    uint32_t         rows = ipu__kernel_rows(&s->call);
    int64_t          n    = 0;
    int              bad  = 0;
    for (int k = 0; k < s->call.n_operands; k++) {
        if (!(rows & (uint32_t)1 << k)) continue;
        if (n > 0 && n != s->call.operand[k].shape.dim[0]) bad += finding(s, "rows", "differ in number");
        n                           = s->call.operand[k].shape.dim[0];
        one.operand[k].shape.dim[0] = 1;
    }
    if (n < 2 || bad || one.def->check(&one) != IPU_OK) return bad;
    operands o = operands_make(s, 1);
    for (int64_t row = 0; row < n; row++) {
        void *pointer[IPU__MAX_OPERANDS];
        for (int k = 0; k < o.n; k++) {
            size_t bytes = rows & (uint32_t)1 << k ? o.at[k].bytes / (size_t)n : 0;
            pointer[k]   = (char *)o.pointer[k] + (size_t)row * bytes;
        }
        one.def->ref(&one, pointer);
    }
    bad += compare_outputs(s, "row by row", expected, &o);
    operands_free(&o);
    return bad;
}

/* `ref` in the sample's type against `ref` in double, on the same numbers. */
static int check_precision(const sample *s, const operands *expected)
{
    sample wide;
    char   error[SAMPLE_ERROR];
    int    bad = 0;
    if (!sample_parse(&wide, s->op, s->text, error)) return 0;
    if (!sample_retype(&wide, IPU_FLOAT, IPU_DOUBLE) || sample_infer(&wide) != IPU_OK) return 0;
    operands o = operands_convert(&wide, s, expected);
    s->op->kernel.ref(&wide.call, o.pointer);
    for (int i = s->op->n_in; i < o.n; i++)
        bad += compare(s, "ref against ref in double", i, o.pointer[i], wide.call.operand[i].type,
                       expected->pointer[i], 4);
    operands_free(&o);
    return bad;
}

static bool is_large(const sample *s)
{
    int64_t n = 0;
    for (int i = 0; i < s->call.n_operands; i++) n += sample_n_elements(s, i);
    return n > 50000;
}

/* What `ref` makes of the sample, if it keeps to its operands. */
static int check_ref(const sample *s, operands *expected)
{
    operands before = operands_make(s, 1);
    int      bad    = 0;
    *expected       = operands_make(s, 1);
    s->op->kernel.ref(&s->call, expected->pointer);
    for (int i = 0; i < expected->n; i++) {
        const char *name = s->op->kernel.operands[i].name;
        ptrdiff_t   where;
        if (!guarded_ok(&expected->at[i], &where))
            bad += finding(s, "ref", "byte %td of operand \"%s\" of %zu was written", where, name,
                           expected->at[i].bytes);
        if (i < s->op->n_in && memcmp(before.pointer[i], expected->pointer[i], before.at[i].bytes) != 0)
            bad += finding(s, "ref", "input \"%s\" was changed", name);
    }
    operands_free(&before);
    return bad;
}

static int check_all(const sample *s, const operands *expected, int n_parts, bool sharing)
{
    const ipu__kernel_def *def = &s->op->kernel;
    int                    bad = 0;
    ipu__cpu_impls         all = ipu__cpu_impls_of(def);
    for (int i = 0; i < all.n; i++) {
        const ipu__cpu_impl *impl = &all.at[i];
        if (!impl->head.fits(&s->call, ipu__cpu_machine_here(), n_parts)) continue;
        bad += check_implementation(s, impl, expected, n_parts);
        bad += check_layouts(s, impl, expected, n_parts, sharing);
        if (sharing) bad += check_sharing(s, impl, expected, n_parts);
    }
    return bad;
}

int check_implementations(const sample *s)
{
    operands expected;
    if (!s->op->kernel.ref) return 0;
    int bad = check_ref(s, &expected);
    bad += check_precision(s, &expected) + check_sharing(s, NULL, &expected, 1) + check_rows(s, &expected);
    for (int n_parts = 1; n_parts <= (is_large(s) ? 2 : 3); n_parts++)
        bad += check_all(s, &expected, n_parts, n_parts == 2);
    operands_free(&expected);
    return bad;
}

int check_parts(const sample *s, int n_parts)
{
    operands expected;
    if (!s->op->kernel.ref) return 0;
    int bad = check_ref(s, &expected);
    bad += check_sharing(s, NULL, &expected, 1) + check_rows(s, &expected);
    bad += check_all(s, &expected, n_parts, true);
    operands_free(&expected);
    return bad;
}

/* ---- compositions ---- */

int check_composition(const sample *s)
{
    if (!s->op->compose || !s->op->kernel.ref) return 0;
    /* Every op of a composition rounds: in short types, differences of what was rounded say nothing. */
    for (int i = 0; i < s->op->n_in; i++)
        if (s->call.operand[i].type == IPU_HALF || s->call.operand[i].type == IPU_BFLOAT16) return 0;
    ipu_builder *b = eager_create(false);
    operands     o = operands_make(s, 1);
    ipu_value    in[IPU__MAX_OPERANDS], out[IPU__MAX_OPERANDS] = {{0}};
    int          bad = 0;
    s->op->kernel.ref(&s->call, o.pointer);
    for (int i = 0; i < s->op->n_in; i++)
        in[i] = s->present[i]
                  ? ipu_constant_data(b, s->call.operand[i].type, s->call.operand[i].shape, o.pointer[i])
                  : IPU_NO_VALUE;
    s->op->compose(b, &s->call, in, out);
    if (ipu_builder_status(b) != IPU_OK) bad += finding(s, "composition", "%s", ipu_builder_message(b));
    for (int i = s->op->n_in; i < o.n && bad == 0; i++) {
        ipu_value v     = out[i - s->op->n_in];
        ipu_shape shape = ipu_value_shape(v);
        if (!v.id) continue; /* an output that only the kernel's own gradient uses */
        if (ipu_value_type(v) != s->call.operand[i].type
            || !ipu__shape_equal(&shape, &s->call.operand[i].shape))
            bad += finding(s, "composition", "gives %s", ipu__value_str(v));
        else
            bad += compare(s, "composition", i, o.pointer[i], s->call.operand[i].type, eager_data(v), 16);
    }
    operands_free(&o);
    eager_destroy(b);
    return bad;
}

/* ---- prices ---- */

static bool scale_dimension(const sample *s, int64_t dimension, int64_t factor, sample *out)
{
    char error[SAMPLE_ERROR];
    if (!sample_parse(out, s->op, s->text, error)) return false;
    for (int i = 0; i < s->op->n_in; i++)
        for (int d = 0; d < out->call.operand[i].shape.rank; d++)
            if (out->present[i] && out->call.operand[i].shape.dim[d] == dimension)
                out->call.operand[i].shape.dim[d] *= factor;
    for (size_t a = 0; a < out->call.n_attributes; a++)
        if (strcmp(out->attributes[a].name, "shape") == 0)
            for (size_t k = 0; k < out->attributes[a].n_ints; k++)
                if (out->ints[a][k] == dimension) out->ints[a][k] *= factor;
    return sample_infer(out) == IPU_OK;
}

/* Of the outputs, the first decides: a chain has up to four, and those it does without have shape [0]. */
static bool is_empty(const sample *s)
{
    for (int i = 0; i <= s->op->n_in && i < s->call.n_operands; i++)
        if ((i == s->op->n_in || s->present[i]) && sample_n_elements(s, i) == 0) return true;
    return false;
}

static int check_plan(const sample *s, const char *chip, ipu__kernel_plan *plan)
{
    ipu_target target;
    *plan = (ipu__kernel_plan){0};
    if (ipu_target_find(chip, 0, &target) != IPU_OK || s->op->kernel.plan(&s->call, &target, plan) != IPU_OK)
        return finding(s, "plan", "on %s: %s", chip, ipu_message());
    if (!(s->op->kernel.work(&s->call) >= 0)) return finding(s, "work", "is negative or no number");
    if (is_empty(s)) return 0;
    int bad = 0;
    if (!plan->basis || strlen(plan->basis) < 12)
        bad += finding(s, "plan", "does not say where it comes from");
    if (plan->cycles <= 0) bad += finding(s, "plan", "%lld cycles on %s", (long long)plan->cycles, chip);
    if (plan->n_tiles < 1 || plan->n_tiles > ipu_target_n_tiles(&target))
        bad += finding(s, "plan", "%lld tiles on %s", (long long)plan->n_tiles, chip);
    if (plan->bytes_received < 0 || plan->bytes_sent < 0 || plan->tile_bytes < 0)
        bad += finding(s, "plan", "a negative number of bytes on %s", chip);
    return bad;
}

int check_price(const sample *s)
{
    ipu__kernel_plan plan;
    return check_plan(s, "gc200", &plan);
}

/* A dimension that the op lets grow, 256 times over: 1 if its price does not grow, -1 if none does. */
static int check_growth(const sample *s, int64_t dimension)
{
    static sample    large;
    ipu__kernel_plan before, after;
    int64_t          factors[] = {16, 4096, 1 << 16};
    if (check_plan(s, "gc200", &before)) return 1;
    ipu__kernel_plan first = before;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        if (!scale_dimension(s, dimension, factors[i], &large)) return i == 0 ? -1 : 0;
        if (check_plan(&large, "gc200", &after)) return 1;
        if (after.cycles < before.cycles)
            return finding(s, "plan", "%lld cycles, but %lld with %lld times the %lld",
                           (long long)before.cycles, (long long)after.cycles, (long long)factors[i],
                           (long long)dimension);
        before = after;
    }
    if (after.cycles <= first.cycles)
        return finding(s, "plan", "%lld cycles whatever the size", (long long)first.cycles);
    return 0;
}

int check_cost(const ipu__op_def *op)
{
    static sample s;
    char          error[SAMPLE_ERROR];
    const char   *chip, *summary;
    int           bad = 0, grown = 0;
    if (!op->kernel.ref) return 0;
    for (size_t i = 0; op->samples[i]; i++) {
        ipu__kernel_plan plan;
        if (!sample_parse(&s, op, op->samples[i], error) || sample_infer(&s) != IPU_OK) continue;
        for (int c = 0; ipu_target_chip_at(c, &chip, &summary) && !bad; c++)
            bad += check_plan(&s, chip, &plan);
        if (is_empty(&s) || grown || bad) continue;
        for (int side = 0; side < 2; side++) { /* ops that make something have nothing to grow but that */
            ipu_shape shape = s.call.operand[side ? op->n_in : 0].shape;
            for (int d = 0; d < shape.rank && !grown; d++) {
                int result = shape.dim[d] > 1 ? check_growth(&s, shape.dim[d]) : -1;
                grown      = result >= 0;
                bad += result > 0;
            }
        }
    }
    if (!bad && !grown) {
        sample nothing = {.op = op};
        bad += finding(&nothing, "plan",
                       "no sample has a first dimension that may grow, so nothing is proved");
    }
    return bad;
}

/* ---- memory ---- */

typedef struct heap {
    int until_failure, live;
} heap;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    heap *h = user;
    (void)old_bytes;
    if (new_bytes == 0) {
        h->live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (h->until_failure-- == 0) return NULL;
    h->live += ptr == NULL;
    return realloc(ptr, new_bytes);
}

static int check_prepare(const sample *s, const ipu__cpu_impl *impl)
{
    for (int failures = 0; failures < 100; failures++) {
        heap  h     = {.until_failure = failures};
        void *state = NULL;
        omp_set_num_threads(3);
        ipu__alloc_set(failing_alloc, &h);
        ipu_status status = impl->prepare(&s->call, 2, &state);
        if (status == IPU_OK) impl->release(state);
        ipu__alloc_set(NULL, NULL);
        int threads = omp_get_max_threads();
        omp_set_num_threads(1);
        if (threads != 3) return finding(s, impl->head.name, "prepare: the caller's OpenMP setting is lost");
        if (h.live != 0)
            return finding(s, impl->head.name, "prepare: %d blocks left when memory ran out", h.live);
        if (status == IPU_OK) return 0;
        if (status != IPU_OUT_OF_MEMORY)
            return finding(s, impl->head.name, "prepare: status %d when memory ran out", status);
    }
    return finding(s, impl->head.name, "prepare: over 100 allocations");
}

int check_memory(const sample *s)
{
    int            bad = 0;
    ipu__cpu_impls all = ipu__cpu_impls_of(&s->op->kernel);
    for (int i = 0; i < all.n; i++) {
        const ipu__cpu_impl *impl = &all.at[i];
        if (impl->prepare && impl->head.fits(&s->call, ipu__cpu_machine_here(), 2))
            bad += check_prepare(s, impl);
    }
    return bad;
}

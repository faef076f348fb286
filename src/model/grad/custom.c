/* User-defined gradients: groups of identity ops, at the first of which the user's function is called.
 *
 * All uses of the group's outputs come after its last op, and everything they depend on comes before its
 * first: when the backward pass reaches the first op, the gradients of all outputs are complete and none of
 * an x has been used.
 */
#include "model/grad/gradient.h"

#include <string.h>

#include "ipu/op/shape.h"

/* ---- making ---- */

static bool check(ipu_model *m, const ipu_value *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!ipu__builder_has(&m->base, "ipu_model_custom_gradient", values[i])) return false;
        if (ipu__model_sees(m, values[i].id)) continue;
        ipu__builder_fail(
            &m->base, IPU_INVALID,
            "ipu_model_custom_gradient: %s was made in a branch or loop that has ended: yield it from there",
            ipu__value_str(values[i]));
        return false;
    }
    return true;
}

static bool note(ipu_model *m, const ipu_value *x, size_t n, ipu_value first, size_t n_y,
                 ipu_custom_gradient_fn fn, void *user)
{
    ipu__custom made = {
        .first = first.id, .n_out = (uint32_t)n_y, .n_in = (uint32_t)n, .fn = fn, .user = user};
    made.in = ipu__arena_alloc(&m->base.arena, (n + 1) * sizeof *made.in);
    if (!made.in) return false;
    for (size_t i = 0; i < n; i++) made.in[i] = x[i].id;
    return ipu__push(&m->customs, made);
}

void ipu_model_custom_gradient(ipu_model *m, const ipu_value *x, size_t n, const ipu_value *y, size_t n_y,
                               ipu_custom_gradient_fn fn, void *user, ipu_value *out)
{
    ipu_builder *b = &m->base;
    for (size_t i = 0; i < n_y; i++) out[i] = (ipu_value){b, 0};
    if (b->status != IPU_OK || n_y == 0) return;
    if (m->block != 0) {
        ipu__builder_fail(b, IPU_INVALID,
                          "ipu_model_custom_gradient: expected to be outside of branches and loops");
        return;
    }
    if (!fn) {
        ipu__builder_fail(b, IPU_INVALID, "ipu_model_custom_gradient: expected a function, found none");
        return;
    }
    if (!check(m, x, n) || !check(m, y, n_y)) return;
    for (size_t i = 0; i < n_y; i++) out[i] = ipu_identity(b, y[i]);
    if (b->status == IPU_OK && !note(m, x, n, out[0], n_y, fn, user))
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "out of memory");
}

/* ---- the pass ---- */

const ipu__custom *ipu__diff_custom(const ipu_model *m, const ipu__model_op *op)
{
    size_t begin = 0, end = m->customs.n; /* ordered by `first` */
    while (begin < end) {
        size_t middle = (begin + end) / 2;
        if (op->first_out >= m->customs.at[middle].first + m->customs.at[middle].n_out)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin < m->customs.n && op->first_out >= m->customs.at[begin].first ? &m->customs.at[begin] : NULL;
}

bool ipu__diff_custom_is_active(const ipu__diff *p, const ipu__custom *c)
{
    for (uint32_t i = 0; i < c->n_in; i++)
        if (p->values.at[c->in[i]].is_active) return true;
    return false;
}

static bool has_gradient(const ipu__diff *p, const ipu__custom *c)
{
    for (uint32_t i = 0; i < c->n_out; i++)
        if (p->values.at[c->first + i].d) return true;
    return false;
}

static bool fits(ipu__diff *p, ipu_value x, ipu_value d_x)
{
    ipu_shape want = ipu_value_shape(x), found = ipu_value_shape(d_x);
    if (!ipu__diff_ok(p)) return false;
    if (ipu_value_type(x) == ipu_value_type(d_x) && ipu__shape_equal(&want, &found)) return true;
    ipu__builder_fail(
        &p->m->base, IPU_INVALID,
        "ipu_model_custom_gradient: the function gives %s as the gradient of %s: expected that type "
        "and shape",
        ipu__value_str(d_x), ipu__value_str(x));
    return false;
}

void ipu__diff_step_custom(ipu__diff *p, const ipu__model_op *op, const ipu__custom *of)
{
    ipu__custom c = *of; /* a copy: they move when the function creates others */
    if (op->first_out != c.first || !has_gradient(p, &c) || !ipu__diff_custom_is_active(p, &c)) return;
    ipu_value *d_y = ipu__diff_new_values(p, (size_t)c.n_out + c.n_in);
    if (!d_y) return;
    ipu_value *d_x = d_y + c.n_out;
    for (uint32_t i = 0; i < c.n_out; i++) d_y[i] = ipu__diff_of(p, c.first + i);
    c.fn(p->m, d_y, c.n_out, d_x, c.n_in, c.user);
    for (uint32_t i = 0; i < c.n_in && ipu__diff_ok(p) && ipu__diff_cover(p); i++)
        if (ipu__has(d_x[i]) && p->values.at[c.in[i]].is_active
            && fits(p, ipu__model_handle(p->m, c.in[i]), d_x[i]))
            ipu__diff_add(p, c.in[i], d_x[i]);
    ipu__free(d_y);
}

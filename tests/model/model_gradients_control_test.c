/* Gradients through branches and loops, run by the engine, against finite differences; and every allocation of
 * building and differentiating such a model made to fail, one after another.
 */
#include <stdatomic.h>

#include "base/alloc.h"
#include "support/derive.h"

static ipu_model *new_model(void)
{
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    return m;
}

static ipu_value input(ipu_model *m, ipu_shape shape, const char *name)
{
    return ipu_model_input(m, IPU_DOUBLE, shape, name);
}

static ipu_value total(ipu_builder *b, ipu_value x) { return ipu_reduce_sum(b, x, NULL, 0, false); }

static double run_and_read(ipu_engine *e, const char *name)
{
    double value;
    derive_run(e);
    derive_read(e, name, &value, sizeof value);
    return value;
}

/* ---- branches ---- */

/* x > 0 (first element): y = sum(tanh(x w)), else sum(x x) with w unused. */
static ipu_value branching(ipu_model *m, ipu_value x, ipu_value w)
{
    ipu_builder *b    = ipu_model_builder(m);
    ipu_value    zero = ipu_constant_value(b, IPU_DOUBLE, IPU_SHAPE(1), 0), r;
    ipu_model_if(m, ipu_greater(b, ipu_slice(b, x, 0, 1, 0), zero));
    ipu_value y = total(b, ipu_tanh(b, ipu_mul(b, x, w)));
    ipu_model_yield(m, &y, 1);
    ipu_model_else(m);
    y = total(b, ipu_mul(b, x, x));
    ipu_model_yield(m, &y, 1);
    ipu_model_end(m, &r, 1);
    return ipu_mul(b, r, total(b, x));
}

static void compare_at(ipu_model *m, ipu_value y, const ipu_value *x, const double *first,
                       const double *second)
{
    ipu_value d[2];
    ipu_model_gradients(m, y, x, 2, NULL, d);
    ipu_model_output(m, y, "y");
    ipu_model_output(m, d[0], "d_x");
    ipu_model_output(m, d[1], "d_w");
    ipu_engine *e = derive_start(m);
    derive_write(e, "w", second, 24);
    derive_compare(e, "x", first, 3, 1e-6);
    derive_compare(e, "w", second, 3, 1e-6);
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

static void a_branch_passes_gradients_to_what_it_uses(void **state)
{
    (void)state;
    for (int side = -1; side < 2; side += 2) {
        ipu_model *m     = new_model();
        ipu_value  in[2] = {input(m, IPU_SHAPE(3), "x"), input(m, IPU_SHAPE(3), "w")};
        compare_at(m, branching(m, in[0], in[1]), in, (double[]){side * 0.7, 0.3, -0.2},
                   (double[]){0.4, -0.6, 0.9});
    }
}

static void second_derivatives_pass_branches(void **state)
{
    (void)state;
    for (int side = -1; side < 2; side += 2) {
        ipu_model *m     = new_model();
        ipu_value  in[2] = {input(m, IPU_SHAPE(3), "x"), input(m, IPU_SHAPE(3), "w")}, d[2];
        ipu_model_gradients(m, branching(m, in[0], in[1]), in, 2, NULL, d);
        ipu_builder *b = ipu_model_builder(m);
        ipu_value    y = ipu_add(b, total(b, ipu_mul(b, d[0], d[0])), total(b, ipu_mul(b, d[1], in[1])));
        compare_at(m, y, in, (double[]){side * 0.7, 0.3, -0.2}, (double[]){0.4, -0.6, 0.9});
    }
}

/* ---- loops ---- */

/* h = tanh(h w + x) four times, adding h into a sum on the way; `limit`: stop when the sum passes it. */
static ipu_value looping(ipu_model *m, ipu_value x, ipu_value w, double limit)
{
    ipu_builder *b = ipu_model_builder(m);
    ipu_value zero = ipu_constant_value(b, IPU_DOUBLE, IPU_SCALAR, 0), inside[2], after[2], go_on = {NULL, 0};
    ipu_model_loop(m, 4, IPU_NO_VALUE, (ipu_value[]){x, zero}, 2, inside, NULL);
    ipu_value h   = ipu_tanh(b, ipu_add(b, ipu_mul(b, inside[0], w), x));
    ipu_value sum = ipu_add(b, inside[1], total(b, ipu_mul(b, h, h)));
    if (limit > 0) go_on = ipu_less(b, sum, ipu_constant_value(b, IPU_DOUBLE, IPU_SCALAR, limit));
    ipu_model_yield_while(m, go_on, (ipu_value[]){h, sum}, 2);
    ipu_model_end(m, after, 2);
    return ipu_mul(b, after[1], total(b, after[0]));
}

static const double loop_x[3] = {0.7, 0.3, -0.2}, loop_w[3] = {0.4, -0.6, 0.9};

static void a_loop_passes_gradients_through_all_turns(void **state)
{
    (void)state;
    ipu_model *m     = new_model();
    ipu_value  in[2] = {input(m, IPU_SHAPE(3), "x"), input(m, IPU_SHAPE(3), "w")};
    compare_at(m, looping(m, in[0], in[1], 0), in, loop_x, loop_w);
}

static void a_loop_that_ends_early_passes_the_turns_it_did(void **state)
{
    (void)state;
    for (int k = 1; k < 8; k++) {
        ipu_model *m     = new_model();
        ipu_value  in[2] = {input(m, IPU_SHAPE(3), "x"), input(m, IPU_SHAPE(3), "w")};
        compare_at(m, looping(m, in[0], in[1], 0.5 * k), in, loop_x, loop_w);
    }
}

static void second_derivatives_pass_loops(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        ipu_model   *m     = new_model();
        ipu_builder *b     = ipu_model_builder(m);
        ipu_value    in[2] = {input(m, IPU_SHAPE(3), "x"), input(m, IPU_SHAPE(3), "w")}, d[2];
        ipu_model_gradients(m, looping(m, in[0], in[1], k), in, 2, NULL, d);
        ipu_value y = ipu_add(b, total(b, ipu_mul(b, d[0], d[0])), total(b, ipu_mul(b, d[1], in[1])));
        compare_at(m, y, in, loop_x, loop_w);
    }
}

static void gradients_of_one_loop_can_be_taken_twice(void **state)
{
    (void)state;
    ipu_model   *m     = new_model();
    ipu_builder *b     = ipu_model_builder(m);
    ipu_value    in[2] = {input(m, IPU_SHAPE(3), "x"), input(m, IPU_SHAPE(3), "w")}, d[2];
    ipu_value    y     = looping(m, in[0], in[1], 1);
    ipu_model_gradients(m, y, in, 2, NULL, d);
    ipu_model_output(m, d[0], "before");
    compare_at(m, ipu_mul(b, y, y), in, loop_x, loop_w);
}

/* A loop in a loop, a branch in that. */
static void loops_and_branches_nest(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        ipu_model   *m     = new_model();
        ipu_builder *b     = ipu_model_builder(m);
        ipu_value    in[2] = {input(m, IPU_SHAPE(3), "x"), input(m, IPU_SHAPE(3), "w")};
        ipu_value    outer, inner, index, r, after;
        ipu_model_loop(m, 3, IPU_NO_VALUE, in, 1, &outer, &index);
        ipu_model_loop(m, 2, IPU_NO_VALUE, &outer, 1, &inner, NULL);
        ipu_model_if(m, ipu_less(b, index, ipu_constant_value(b, IPU_INT32, IPU_SCALAR, k)));
        ipu_value h = ipu_tanh(b, ipu_mul(b, inner, in[1]));
        ipu_model_yield(m, &h, 1);
        ipu_model_else(m);
        h = ipu_sigmoid(b, ipu_add(b, inner, in[0]));
        ipu_model_yield(m, &h, 1);
        ipu_model_end(m, &r, 1);
        ipu_model_yield(m, &r, 1);
        ipu_model_end(m, &r, 1);
        r = ipu_mul(b, r, in[1]);
        ipu_model_yield(m, &r, 1);
        ipu_model_end(m, &after, 1);
        compare_at(m, total(b, ipu_mul(b, after, after)), in, loop_x, loop_w);
    }
}

static void a_loop_without_turns_passes_gradients_by(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = input(m, IPU_SCALAR, "x"), never = ipu_model_input(m, IPU_BOOL, IPU_SCALAR, "p"), in,
              out[2], d;
    ipu_model_loop(m, 0, IPU_NO_VALUE, &x, 1, &in, NULL);
    in = ipu_mul(b, in, in);
    ipu_model_yield(m, &in, 1);
    ipu_model_end(m, &out[0], 1);
    ipu_model_loop(m, 2, never, &out[0], 1, &in, NULL);
    in = ipu_mul(b, in, in);
    ipu_model_yield(m, &in, 1);
    ipu_model_end(m, &out[1], 1);
    ipu_model_gradients(m, out[1], &x, 1, NULL, &d);
    ipu_model_output(m, d, "d");
    ipu_engine *e = derive_start(m);
    derive_write(e, "x", &(double){3}, 8);
    derive_write(e, "p", &(uint8_t){0}, 1);
    assert_true(run_and_read(e, "d") == 1);
    derive_write(e, "p", &(uint8_t){1}, 1);
    assert_true(run_and_read(e, "d") == 4 * 27);
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

/* ---- random models ---- */

typedef struct maker {
    ipu_model *m;
    unsigned   seed;
    ipu_value  kept[16];
    size_t     n_kept;
} maker;

static ipu_value make_block(maker *k, ipu_value *pool, unsigned n, int depth);

/* One number against another: a branch or loop that depends on values. */
static ipu_value decide(maker *k, ipu_value x)
{
    ipu_builder *b = ipu_model_builder(k->m);
    return ipu_greater(b, total(b, x), ipu_constant_value(b, IPU_DOUBLE, IPU_SCALAR, -0.37));
}

static ipu_value make_if(maker *k, ipu_value *pool, unsigned n, int depth)
{
    ipu_value r;
    ipu_model_if(k->m, decide(k, pool[n - 1]));
    r = make_block(k, pool, n, depth);
    ipu_model_yield(k->m, &r, 1);
    ipu_model_else(k->m);
    r = make_block(k, pool, n, depth);
    ipu_model_yield(k->m, &r, 1);
    ipu_model_end(k->m, &r, 1);
    return r;
}

static ipu_value make_loop(maker *k, ipu_value *pool, unsigned n, int depth)
{
    ipu_builder *b = ipu_model_builder(k->m);
    ipu_value    inside[2], after[2], next[2], carried[2] = {pool[n - 1], pool[derive_draw(&k->seed, n)]};
    ipu_value    first = derive_draw(&k->seed, 3) ? IPU_NO_VALUE : decide(k, pool[derive_draw(&k->seed, n)]);
    ipu_model_loop(k->m, 1 + derive_draw(&k->seed, 3), first, carried, 2, inside, NULL);
    pool[n]         = inside[0];
    pool[n + 1]     = inside[1];
    next[0]         = make_block(k, pool, n + 2, depth);
    next[1]         = derive_draw(&k->seed, 2) ? inside[0] : ipu_tanh(b, ipu_add(b, inside[1], next[0]));
    ipu_value go_on = derive_draw(&k->seed, 2) ? IPU_NO_VALUE : decide(k, next[0]);
    ipu_model_yield_while(k->m, go_on, next, 2);
    ipu_model_end(k->m, after, 2);
    return ipu_add(b, after[0], after[1]);
}

/* A few ops on what is in the pool; what they give is gone after the block, but for the result. */
static ipu_value make_block(maker *k, ipu_value *pool, unsigned n, int depth)
{
    ipu_builder *b = ipu_model_builder(k->m);
    for (int i = 0; i < 3; i++, n++) {
        unsigned what = depth > 0 ? derive_draw(&k->seed, 3) : 0;
        if (what == 0)
            pool[n] = derive_random_op(b, &k->seed, pool[n - 1], pool[derive_draw(&k->seed, n)]);
        else
            pool[n] = (what == 1 ? make_if : make_loop)(k, pool, n, depth - 1);
        if (depth == 2 && derive_draw(&k->seed, 2)) k->kept[k->n_kept++] = pool[n];
    }
    return pool[n - 1];
}

static void random_models_agree_with_finite_differences(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        maker        k = {.m = new_model(), .seed = 977 * i};
        ipu_builder *b = ipu_model_builder(k.m);
        ipu_value    pool[64], x[2], d[2];
        x[0] = pool[0] = input(k.m, IPU_SHAPE(2, 2), "p");
        x[1] = pool[1]               = input(k.m, IPU_SHAPE(2, 2), "q");
        ipu_value            r       = make_block(&k, pool, 2, 2);
        ipu_value            y       = ipu_add(b, total(b, r), total(b, ipu_mul(b, x[0], x[1])));
        ipu_gradient_options options = {.checkpoints = k.kept, .n_checkpoints = i % 2 ? k.n_kept : 0};
        if (i % 3 == 0) { /* second derivatives */
            ipu_model_gradients(k.m, y, x, 2, &options, d);
            y = ipu_add(b, total(b, ipu_mul(b, d[0], d[0])), total(b, ipu_mul(b, d[1], x[0])));
            options.n_checkpoints = 0;
        }
        derive_check(k.m, y, x, 2, &options, i);
        ipu_model_destroy(k.m);
    }
}

/* ---- memory that runs out ---- */

static struct {
    atomic_long n, live;
    long        refuse;
} heap;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        atomic_fetch_sub(&heap.live, ptr != NULL);
        free(ptr);
        return NULL;
    }
    if (atomic_fetch_add(&heap.n, 1) + 1 == heap.refuse) return NULL;
    void *p = realloc(ptr, new_bytes);
    if (p && !ptr) atomic_fetch_add(&heap.live, 1);
    return p;
}

/* A branch in a loop, differentiated twice, with a checkpoint. */
static ipu_status build_all(void)
{
    ipu_model *m;
    ipu_status status = ipu_model_create(&m);
    if (status != IPU_OK) return status;
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_DOUBLE, IPU_SHAPE(3), "x");
    ipu_value    p = ipu_model_input(m, IPU_BOOL, IPU_SCALAR, "p");
    ipu_value    h = ipu_tanh(b, x), kept = ipu_exp(b, h), inside, r, d;
    ipu_model_loop(m, 3, IPU_NO_VALUE, &kept, 1, &inside, NULL);
    ipu_model_if(m, p);
    ipu_value y = ipu_mul(b, inside, h);
    ipu_model_yield(m, &y, 1);
    ipu_model_else(m);
    y = ipu_tanh(b, inside);
    ipu_model_yield(m, &y, 1);
    ipu_model_end(m, &r, 1);
    ipu_model_yield_while(m, p, &r, 1);
    ipu_model_end(m, &r, 1);
    ipu_gradient_options options = {.checkpoints = &kept, .n_checkpoints = 1};
    ipu_model_gradients(m, ipu_reduce_sum(b, r, NULL, 0, false), &x, 1, &options, &d);
    ipu_model_gradients(m, ipu_reduce_sum(b, d, NULL, 0, false), &x, 1, NULL, &d);
    ipu_model_output(m, d, "d");
    status = ipu_builder_status(b);
    if (status == IPU_OK) status = ipu__model_verify(m);
    ipu_model_destroy(m);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    heap.refuse = 0;
    ipu__alloc_set(failing_alloc, NULL);
    ipu_status status = build_all();
    long       n = heap.n, n_kept = 0;
    if (status != IPU_OK) fail_msg("%s", ipu_message());
    for (long i = 1; i <= n; i++) {
        heap.n      = 0;
        heap.refuse = i;
        status      = build_all();
        n_kept += status == IPU_OK; /* without a place for a source line, that is left out */
        if (status != IPU_OUT_OF_MEMORY && status != IPU_OK)
            fail_msg("allocation %ld of %ld: status %d", i, n, (int)status);
        if (heap.live != 0) fail_msg("allocation %ld of %ld: %ld blocks leak", i, n, (long)heap.live);
    }
    ipu__alloc_set(NULL, NULL);
    assert_true(n_kept < n / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_branch_passes_gradients_to_what_it_uses),
        cmocka_unit_test(second_derivatives_pass_branches),
        cmocka_unit_test(a_loop_passes_gradients_through_all_turns),
        cmocka_unit_test(a_loop_that_ends_early_passes_the_turns_it_did),
        cmocka_unit_test(second_derivatives_pass_loops),
        cmocka_unit_test(gradients_of_one_loop_can_be_taken_twice),
        cmocka_unit_test(loops_and_branches_nest),
        cmocka_unit_test(a_loop_without_turns_passes_gradients_by),
        cmocka_unit_test(random_models_agree_with_finite_differences),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

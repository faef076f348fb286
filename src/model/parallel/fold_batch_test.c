/* Folding replicas into one batch, as a pass: the number of ops and the kept values stay the same, halves are
 * summed in float; what is refused. Numbers are compared in tests/model/fold_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/ipu.h"
#include "model/parallel/fold_batch.h"

static ipu_model *make(void)
{
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    return m;
}

/* States whose names say so are sums. */
static ipu_model *fold(ipu_model *m, char reason[IPU__FOLD_REASON])
{
    ipu_model *folded;
    if (ipu_builder_status(ipu_model_builder(m)) != IPU_OK)
        fail_msg("%s", ipu_builder_message(ipu_model_builder(m)));
    uint8_t  *is_sum = ipu__alloc_zeroed(m->values.n);
    uint32_t *ids    = ipu__alloc_zeroed(m->values.n * sizeof *ids);
    for (size_t i = 0; i < m->states.n; i++)
        is_sum[m->states.at[i]] = strstr(m->base.values.at[m->states.at[i]].name, ".sum") != NULL;
    assert_int_equal(ipu__model_fold_batch(m, 4, is_sum, &folded, ids, reason), IPU_OK);
    if (folded && ipu__model_verify(folded) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(folded == NULL, reason[0] != 0);
    for (size_t i = 0; folded && i < m->values.n; i++) { /* kept values are unchanged, and only they */
        bool is_kept = m->values.at[i].kind == IPU__VALUE_PARAMETER
                    || m->values.at[i].kind == IPU__VALUE_STATE;
        assert_int_equal(ids[i] != 0, is_kept);
        if (!is_kept) continue;
        assert_int_equal(folded->values.at[ids[i]].kind, m->values.at[i].kind);
        assert_string_equal(folded->base.values.at[ids[i]].name, m->base.values.at[i].name);
    }
    ipu__free(is_sum);
    ipu__free(ids);
    return folded;
}

/* x [2,3] by w [3,5]: the mean over all, and the gradient of that by w added to a state. */
static ipu_model *linear(ipu_type type)
{
    ipu_model   *m = make();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, type, IPU_SHAPE(2, 3), "x"), dw;
    ipu_value    w = ipu_model_parameter(m, type, IPU_SHAPE(3, 5), NULL, "w");
    ipu_model_set_initial(m, w, (ipu_initial){IPU_INITIAL_UNIFORM, -1, 1});
    ipu_value sum  = ipu_model_state(m, IPU_FLOAT, IPU_SHAPE(3, 5), NULL, "w.sum");
    ipu_value loss = ipu_reduce_mean(b, ipu_square(b, ipu_matmul(b, x, w)), NULL, 0, false);
    ipu_model_output(m, loss, "loss");
    ipu_model_gradients(m, loss, &w, 1, NULL, &dw);
    if (type != IPU_FLOAT) dw = ipu_cast(b, dw, IPU_FLOAT);
    ipu_model_update(m, sum, ipu_add(b, sum, dw));
    return m;
}

static const ipu__model_op *find_last(const ipu_model *m, const ipu__op_def *def)
{
    const ipu__model_op *found = NULL;
    for (size_t i = 0; i < m->ops.n; i++)
        if (m->ops.at[i].def == def) found = &m->ops.at[i];
    assert_non_null(found);
    return found;
}

static void each_op_is_one_for_all_replicas(void **state)
{
    (void)state;
    char             reason[IPU__FOLD_REASON];
    ipu_model       *m = linear(IPU_FLOAT), *folded = fold(m, reason);
    const ipu_shape *in, *loss;
    assert_string_equal(reason, "");
    in   = &folded->base.values.at[folded->inputs.at[0]].shape;
    loss = &folded->base.values.at[folded->outputs.at[0].value].shape;
    assert_true(ipu__shape_equal(in, &IPU_SHAPE(8, 3)));
    assert_true(ipu__shape_equal(loss, &IPU_SHAPE(4)));                /* one per replica */
    const ipu__model_op *product = find_last(folded, &ipu__op_matmul); /* of the gradient */
    assert_true(ipu__shape_equal(&folded->base.values.at[product->first_out].shape, &IPU_SHAPE(3, 5)));
    size_t n = 0;
    for (size_t i = 0; i < folded->ops.n; i++) n += folded->ops.at[i].def == &ipu__op_matmul;
    assert_int_equal(n, 2);
    ipu_model_destroy(folded);
    ipu_model_destroy(m);
}

static void kept_values_begin_as_they_did(void **state)
{
    (void)state;
    char       reason[IPU__FOLD_REASON];
    ipu_model *m = linear(IPU_FLOAT), *folded;
    ipu_model_set_seed(m, 77);
    folded                    = fold(m, reason);
    const ipu__model_value *a = &m->values.at[m->parameters.at[0]],
                           *b = &folded->values.at[folded->parameters.at[0]];
    assert_int_equal(folded->seed_value, 77);
    assert_int_equal(a->key, b->key);
    assert_memory_equal(&a->initial, &b->initial, sizeof a->initial);
    assert_string_equal(folded->base.values.at[folded->states.at[0]].name, "w.sum");
    ipu_model_destroy(folded);
    ipu_model_destroy(m);
}

static void halves_add_up_in_float(void **state)
{
    (void)state;
    char                 reason[IPU__FOLD_REASON];
    ipu_model           *m = linear(IPU_HALF), *folded = fold(m, reason);
    const ipu__model_op *product = find_last(folded, &ipu__op_matmul);
    assert_int_equal(folded->base.values.at[product->first_out].type, IPU_FLOAT);
    assert_int_equal(folded->base.values.at[folded->outputs.at[0].value].type, IPU_HALF);
    ipu_model_destroy(folded);
    ipu_model_destroy(m);
}

static void what_needs_more_than_sums_is_refused(void **state)
{
    (void)state;
    char         reason[IPU__FOLD_REASON];
    ipu_model   *m   = linear(IPU_FLOAT);
    ipu_builder *b   = ipu_model_builder(m);
    ipu_value    sum = {b, m->states.at[0]};
    ipu_model_output(m, ipu_square(b, sum), "square");
    assert_null(fold(m, reason));
    assert_string_equal(reason, "more than the sum of \"w.sum\" is used");
    ipu_model_destroy(m);

    m               = linear(IPU_FLOAT);
    b               = ipu_model_builder(m);
    ipu_value count = ipu_model_state(m, IPU_FLOAT, IPU_SCALAR, NULL, "count"), x = {b, m->inputs.at[0]};
    ipu_model_update(m, count, ipu_add(b, count, ipu_reduce_sum(b, x, NULL, 0, false)));
    assert_null(fold(m, reason));
    assert_string_equal(reason, "each replica changes \"count\" by what is in its own batch");
    ipu_model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_op_is_one_for_all_replicas),
        cmocka_unit_test(kept_values_begin_as_they_did),
        cmocka_unit_test(halves_add_up_in_float),
        cmocka_unit_test(what_needs_more_than_sums_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

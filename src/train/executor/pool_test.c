/* Pools of executors: one goes on where the other was, and those used longest ago go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/status.h"
#include "ipu/ipu.h"

#define OK(call)                                                                     \
    do {                                                                             \
        if ((call) != IPU_OK) fail_msg("%s:%d: %s", #call, __LINE__, ipu_message()); \
    } while (0)

enum { N = 4 };

/* y = total + x, total += x: as captured for one kind of call. */
static void adding(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_value total = ipu_model_state(m, IPU_FLOAT, IPU_SHAPE(1), (float[]){0}, "total");
    ipu_value y     = ipu_add(ipu_model_builder(m), total, in[0]);
    (void)n, (void)user;
    ipu_model_output(m, y, "y");
    ipu_model_update(m, total, y);
}

static ipu_module   *modules[N];
static ipu_executor *all[N];

static ipu_array one(void)
{
    static float value = 1;
    return (ipu_array){IPU_FLOAT, IPU_SHAPE(1), &value};
}

static int begin(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        ipu_array in = one();
        OK(ipu_module_create(adding, NULL, &modules[i]));
        OK(ipu_inference_model(modules[i], NULL, &all[i]));
        OK(ipu_executor_compile(all[i], &in, 1));
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int i = 0; i < N; i++) {
        ipu_executor_destroy(all[i]);
        ipu_module_destroy(modules[i]);
    }
    return 0;
}

static void run(ipu_executor_pool *pool, int i, float expected)
{
    ipu_array in = one();
    OK(ipu_executor_pool_use(pool, all[i]));
    OK(ipu_executor_run(all[i], &in, 1));
    assert_true(*(const float *)ipu_executor_output(all[i], "y")->data == expected);
}

static void whichever_runs_goes_on(void **state)
{
    (void)state;
    ipu_executor_pool *pool;
    const int          order[] = {0, 0, 1, 2, 1, 0, 0, 2};
    OK(ipu_executor_pool_create(N, &pool));
    for (int i = 0; i < 8; i++) run(pool, order[i], (float)(i + 1));
    assert_int_equal(ipu_executor_pool_n(pool), 3);
    assert_null(ipu_executor_pool_take_excess(pool));
    ipu_executor_pool_destroy(pool);
}

static void those_used_longest_ago_go(void **state)
{
    (void)state;
    ipu_executor_pool *pool;
    OK(ipu_executor_pool_create(2, &pool));
    run(pool, 0, 1);
    run(pool, 1, 2);
    run(pool, 0, 3);
    assert_null(ipu_executor_pool_take_excess(pool));
    run(pool, 2, 4);
    assert_ptr_equal(ipu_executor_pool_take_excess(pool), all[1]);
    assert_null(ipu_executor_pool_take_excess(pool));
    run(pool, 3, 5);
    run(pool, 1, 6); /* it may come back; meanwhile two are in excess */
    assert_int_equal(ipu_executor_pool_n(pool), 2);
    const ipu_executor *last  = ipu_executor_pool_take_excess(pool),
                       *first = ipu_executor_pool_take_excess(pool);
    assert_true(last == all[2] && first == all[0]);
    run(pool, 2, 7);
    ipu_executor_pool_destroy(pool); /* with one that nobody has taken */
}

static void mistakes_are_told(void **state)
{
    (void)state;
    ipu_executor_pool *pool;
    ipu_module        *module;
    ipu_executor      *x;
    assert_int_equal(ipu_executor_pool_create(0, &pool), IPU_INVALID);
    assert_null(pool);
    OK(ipu_executor_pool_create(1, &pool));
    OK(ipu_module_create(adding, NULL, &module));
    OK(ipu_inference_model(module, &(ipu_executor_options){.attach = IPU_ATTACH_ON_DEMAND}, &x));
    assert_int_equal(ipu_executor_pool_use(pool, x), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "compile it before"));
    run(pool, 0, 1);
    ipu_array in = one();
    OK(ipu_executor_compile(x, &in, 1));
    assert_int_equal(ipu_executor_pool_use(pool, x), IPU_INVALID); /* it has nowhere to go on */
    assert_int_equal(ipu_executor_pool_n(pool), 1);
    run(pool, 0, 2);
    ipu_executor_pool_destroy(pool);
    ipu_executor_pool_destroy(NULL);
    ipu_executor_destroy(x);
    ipu_module_destroy(module);
}

static int calls_left;

static void *limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes && calls_left-- <= 0) return NULL;
    if (new_bytes) return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

static void refused_memory_leaves_the_pool(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    ipu_executor_pool *pool;
    ipu_status         status = IPU_OUT_OF_MEMORY;
    calls_left                = MANY;
    OK(ipu_executor_pool_create(2, &pool));
    run(pool, 0, 1);
    ipu__alloc_set(limited, NULL);
    for (int allowed = 0; status != IPU_OK; allowed++) {
        calls_left = allowed;
        status     = ipu_executor_pool_use(pool, all[1]);
        calls_left = MANY;
        assert_in_range(allowed, 0, 1000);
        if (status != IPU_OK) assert_int_equal(status, IPU_OUT_OF_MEMORY);
        assert_int_equal(ipu_executor_pool_n(pool), status == IPU_OK ? 2 : 1);
    }
    ipu__alloc_set(NULL, NULL);
    run(pool, 1, 2);
    ipu_executor_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whichever_runs_goes_on, begin, end),
        cmocka_unit_test_setup_teardown(those_used_longest_ago_go, begin, end),
        cmocka_unit_test_setup_teardown(mistakes_are_told, begin, end),
        cmocka_unit_test_setup_teardown(refused_memory_leaves_the_pool, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* ONNX sessions and executors of one process on one device: each attaches and detaches for itself, and the last to detach lets go
 * of it. */
#include "device/sandbox_test.h"

#include "ipu/ipu.h"
#include "onnx/run_test.h"

static size_t n_attached(void)
{
    ipu_device_list *list;
    assert_status(ipu_device_list_create(0, &list), IPU_OK);
    size_t n = ipu_device_list_active(list)->n_processes;
    ipu_device_list_destroy(list);
    return n;
}

/* ---- an executor ---- */

static void doubling(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    (void)n, (void)user;
    ipu_model_output(m, ipu_add(ipu_model_builder(m), in[0], in[0]), "double");
}

typedef struct other {
    ipu_module   *module;
    ipu_executor *x;
} other;

static other begin_other(int device_id, bool alone)
{
    other                      o       = {0};
    const ipu_executor_options options = {.device_id = device_id, .device_alone = alone};
    assert_status(ipu_module_create(doubling, NULL, &o.module), IPU_OK);
    assert_status(ipu_inference_model(o.module, &options, &o.x), IPU_OK);
    return o;
}

static void end_other(other *o)
{
    ipu_executor_destroy(o->x);
    ipu_module_destroy(o->module);
}

static ipu_status try_other(other *o)
{
    float two[2] = {1, 2};
    return ipu_executor_run(o->x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(2), two}, 1);
}

static void run_other(other *o)
{
    assert_status(try_other(o), IPU_OK);
    assert_true(((float *)ipu_executor_output(o->x, "double")->data)[1] == 4);
}

static ipu_device *device_of_other(const other *o) { return ipu_engine_device(ipu_executor_engine(o->x)); }

/* ---- a session ---- */

typedef struct user {
    ipu_onnx         *file;
    ipu_onnx_session *s;
} user;

static user begin(ipu_onnx_options options)
{
    user u;
    u.s = session_of(model(13, graph("in x float[N]; out y; y = Neg(x)", NULL), none), &u.file, &options);
    return u;
}

static void end(user *u)
{
    ipu_onnx_session_destroy(u->s);
    ipu_onnx_close(u->file);
}

static ipu_status try_run(user *u, int64_t n, ipu_onnx_value *out)
{
    static const float numbers[4] = {1, 2, 3, 4};
    ipu_onnx_value     in         = value(IPU_FLOAT, IPU_SHAPE(n), numbers);
    return ipu_onnx_session_run(u->s, &in, 1, out, 1);
}

static void run(user *u, int64_t n)
{
    ipu_onnx_value out;
    assert_status(try_run(u, n, &out), IPU_OK);
    assert_int_equal(ipu_array_n_elements(&out.array), n);
    for (int64_t i = 0; i < n; i++) assert_true(ipu_array_value(&out.array, i) == (double)(-1 - i));
    ipu_onnx_value_free(&out);
    assert_true(ipu_onnx_session_is_attached(u->s));
}

static void refuse(user *u, ipu_status status)
{
    ipu_onnx_value out;
    assert_status(try_run(u, 4, &out), status);
    assert_int_equal(out.kind, IPU_ONNX_NONE);
}

static ipu_device *device_of(const user *u) { return ipu_engine_device(ipu_onnx_session_engine(u->s)); }

/* ---- tests ---- */

/* `u` and `o` ask for one device. */
static void expect_turns(user *u, other *o)
{
    assert_status(ipu_onnx_session_attach(u->s), IPU_INVALID);
    assert_message("nothing has been run");
    assert_status(ipu_onnx_session_detach(u->s), IPU_INVALID);
    assert_message("the session is not attached to a device");
    run(u, 4);
    run_other(o);
    assert_ptr_equal(device_of(u), device_of_other(o));
    assert_int_equal(n_attached(), 1);
    for (int turn = 0; turn < 2; turn++) {
        assert_status(ipu_onnx_session_detach(u->s), IPU_OK);
        assert_false(ipu_onnx_session_is_attached(u->s));
        assert_status(ipu_onnx_session_detach(u->s), IPU_INVALID); /* once each */
        assert_true(ipu_executor_is_attached(o->x));
        run_other(o);
        assert_int_equal(n_attached(), 1);
        assert_status(ipu_executor_detach(o->x), IPU_OK);
        assert_int_equal(n_attached(), 0);
        assert_status(ipu_onnx_session_attach(u->s), IPU_OK);
        assert_status(ipu_onnx_session_attach(u->s), IPU_OK); /* counts once */
        assert_true(ipu_onnx_session_is_attached(u->s));
        assert_false(ipu_executor_is_attached(o->x));
        run_other(o);
        assert_status(ipu_executor_detach(o->x), IPU_OK);
        assert_true(ipu_onnx_session_is_attached(u->s));
        run(u, 4);
        assert_status(ipu_onnx_session_detach(u->s), IPU_OK);
        assert_int_equal(n_attached(), 0);
        run(u, turn ? 2 : 4); /* attaches as well, what is compiled now too */
        run_other(o);
    }
    end_other(o); /* which is attached */
    assert_true(ipu_onnx_session_is_attached(u->s));
    assert_int_equal(n_attached(), 1);
    run(u, 2);
    end(u);
    assert_int_equal(n_attached(), 0);
}

static void a_session_and_an_executor_share_the_device_of_an_id(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 2}");
    user  u = begin((ipu_onnx_options){.device_id = 2});
    other o = begin_other(2, false);
    run(&u, 4);
    assert_int_equal(ipu_device_id(device_of(&u)), 1);
    end(&u);
    u = begin((ipu_onnx_options){.device_id = 2});
    expect_turns(&u, &o);
}

static void they_share_any_device(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 1}"); /* hard: there is no other */
    user  u = begin((ipu_onnx_options){0});
    other o = begin_other(0, false);
    expect_turns(&u, &o);
}

static void so_do_runs_of_several_batches(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 1}");
    user  u = begin((ipu_onnx_options){.device_id = 1, .batches = 2});
    other o = begin_other(1, false);
    expect_turns(&u, &o);
}

static void two_models_share_a_device(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 2}");
    user u = begin((ipu_onnx_options){.device_id = 1}), v = begin((ipu_onnx_options){.device_id = 1}),
         w = begin((ipu_onnx_options){.device_id = 2});
    run(&u, 4);
    run(&v, 4);
    run(&w, 4);
    assert_ptr_equal(device_of(&u), device_of(&v));
    assert_ptr_not_equal(device_of(&u), device_of(&w));
    assert_int_equal(n_attached(), 2);
    assert_status(ipu_onnx_session_detach(u.s), IPU_OK);
    assert_true(ipu_onnx_session_is_attached(v.s) && ipu_onnx_session_is_attached(w.s));
    run(&v, 4);
    assert_status(ipu_onnx_session_detach(v.s), IPU_OK);
    assert_int_equal(n_attached(), 1);
    run(&u, 4);
    assert_int_equal(n_attached(), 2);
    end(&v);
    end(&u);
    assert_int_equal(n_attached(), 1);
    end(&w);
    assert_int_equal(n_attached(), 0);
}

static void one_that_is_to_be_alone_finds_a_device_busy(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 1}");
    user  u = begin((ipu_onnx_options){.device_id = 1, .device_alone = true});
    other o = begin_other(1, false);
    run_other(&o);
    refuse(&u, IPU_BUSY);
    assert_false(ipu_onnx_session_is_attached(u.s));
    assert_status(ipu_onnx_session_attach(u.s), IPU_BUSY);
    assert_status(ipu_executor_detach(o.x), IPU_OK);
    assert_status(ipu_onnx_session_attach(u.s), IPU_OK); /* makes the engine that there could not be */
    assert_status(try_other(&o), IPU_BUSY);
    run(&u, 4);
    run(&u, 2); /* another engine, which is not alone with the first */
    assert_status(ipu_onnx_session_detach(u.s), IPU_OK);
    run_other(&o);
    end_other(&o);
    end(&u);
    assert_int_equal(n_attached(), 0);
}

static void a_device_that_is_none_is_told(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 2}");
    user u = begin((ipu_onnx_options){.device_id = 9});
    refuse(&u, IPU_NOT_FOUND);
    assert_message("device 8");
    assert_false(ipu_onnx_session_is_attached(u.s));
    end(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SANDBOXED(a_session_and_an_executor_share_the_device_of_an_id),
        SANDBOXED(they_share_any_device),
        SANDBOXED(so_do_runs_of_several_batches),
        SANDBOXED(two_models_share_a_device),
        SANDBOXED(one_that_is_to_be_alone_finds_a_device_busy),
        SANDBOXED(a_device_that_is_none_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}

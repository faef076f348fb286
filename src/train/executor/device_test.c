/* Executors of one process on one device: each attaches and detaches for itself, and the last to detach lets go of it. */
#include "device/sandbox_test.h"

#include "ipu/ipu.h"

static void adding(ipu_model *m, const ipu_value *in, size_t n, void *user)
{
    ipu_builder *b     = ipu_model_builder(m);
    ipu_value    total = ipu_model_state(m, IPU_FLOAT, IPU_SHAPE(2), NULL, "total");
    (void)n, (void)user;
    ipu_model_update(m, total, ipu_add(b, total, in[0]));
    ipu_model_output(m, total, "before");
}

static size_t n_attached(void)
{
    ipu_device_list *list;
    assert_status(ipu_device_list_create(0, &list), IPU_OK);
    size_t n = ipu_device_list_active(list)->n_processes;
    ipu_device_list_destroy(list);
    return n;
}

typedef struct user {
    ipu_module   *module;
    ipu_executor *x;
    int           n_runs;
} user;

static user begin(int device_id, ipu_attach_when attach)
{
    user                       u = {0};
    const ipu_executor_options o = {.device_id = device_id, .attach = attach, .most_executables = 2};
    assert_status(ipu_module_create(adding, NULL, &u.module), IPU_OK);
    assert_status(ipu_inference_model(u.module, &o, &u.x), IPU_OK);
    return u;
}

static void end(user *u)
{
    ipu_executor_destroy(u->x);
    ipu_module_destroy(u->module);
}

static ipu_status try_run(user *u)
{
    float one[2] = {1, 1};
    return ipu_executor_run(u->x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(2), one}, 1);
}

/* It has what its runs before made of its state. */
static void run(user *u)
{
    assert_status(try_run(u), IPU_OK);
    assert_true(*(float *)ipu_executor_output(u->x, "before")->data == (float)u->n_runs++);
}

static ipu_device *device_of(const user *u) { return ipu_engine_device(ipu_executor_engine(u->x)); }

/* Executors `u` and `v` of one device take turns in detaching. */
static void expect_turns(user *u, user *v)
{
    assert_status(ipu_executor_detach(u->x), IPU_INVALID); /* not compiled */
    run(u);
    run(v);
    assert_ptr_equal(device_of(u), device_of(v));
    for (int turn = 0; turn < 3; turn++) {
        user *a = turn % 2 ? v : u, *b = turn % 2 ? u : v;
        assert_int_equal(n_attached(), 1);
        assert_status(ipu_executor_detach(a->x), IPU_OK);
        assert_false(ipu_executor_is_attached(a->x));
        assert_true(ipu_executor_is_attached(b->x));
        assert_int_equal(n_attached(), 1);
        assert_status(ipu_executor_detach(a->x), IPU_INVALID); /* once each */
        assert_true(ipu_executor_is_attached(b->x));
        run(b);
        assert_status(ipu_executor_detach(b->x), IPU_OK);
        assert_int_equal(n_attached(), 0);
        assert_status(ipu_executor_attach(a->x), IPU_OK);
        assert_true(ipu_executor_is_attached(a->x));
        assert_status(ipu_executor_attach(a->x), IPU_OK); /* counts once */
        assert_false(ipu_executor_is_attached(b->x));
        run(b); /* attaches as well */
        run(a);
        assert_true(ipu_executor_is_attached(a->x) && ipu_executor_is_attached(b->x));
    }
    end(u); /* which is attached */
    assert_true(ipu_executor_is_attached(v->x));
    assert_int_equal(n_attached(), 1);
    run(v);
    assert_status(ipu_executor_detach(v->x), IPU_OK);
    assert_int_equal(n_attached(), 0);
    end(v);
}

static void two_executors_share_the_device_of_an_id(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 2}");
    user u = begin(2, IPU_ATTACH_ALWAYS), v = begin(2, IPU_ATTACH_ON_DEMAND);
    run(&u);
    assert_int_equal(ipu_device_id(device_of(&u)), 1);
    assert_status(ipu_executor_detach(u.x), IPU_OK);
    run(&v); /* while the other is away: it is the same device all the same */
    run(&u);
    assert_status(ipu_executor_detach(u.x), IPU_OK);
    assert_status(ipu_executor_detach(v.x), IPU_OK);
    user w = begin(2, IPU_ATTACH_ALWAYS), y = begin(2, IPU_ATTACH_ALWAYS);
    expect_turns(&w, &y);
    end(&u);
    end(&v);
}

static void executors_of_any_device_share_one(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 1}"); /* hard: there is no other */
    user u = begin(0, IPU_ATTACH_ALWAYS), v = begin(0, IPU_ATTACH_ALWAYS), w = begin(0, IPU_ATTACH_ON_DEMAND);
    run(&u);
    assert_status(ipu_executor_detach(u.x), IPU_OK);
    run(&v);
    run(&w);
    run(&u);
    assert_ptr_equal(device_of(&u), device_of(&w));
    assert_ptr_equal(device_of(&u), device_of(&v));
    end(&v);
    end(&w);
    assert_status(ipu_executor_detach(u.x), IPU_OK);
    assert_int_equal(n_attached(), 0);
    end(&u);
}

static void other_ids_are_other_devices(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 2}");
    user u = begin(1, IPU_ATTACH_ALWAYS), v = begin(2, IPU_ATTACH_ALWAYS), any = begin(0, IPU_ATTACH_ALWAYS);
    run(&u);
    run(&v);
    assert_ptr_not_equal(device_of(&u), device_of(&v));
    assert_int_equal(n_attached(), 2);
    run(&any); /* on one of them */
    assert_int_equal(n_attached(), 2);
    assert_status(ipu_executor_detach(v.x), IPU_OK);
    assert_status(ipu_executor_detach(u.x), IPU_OK);
    assert_int_equal(n_attached(), 1);
    assert_true(ipu_executor_is_attached(any.x));
    end(&u);
    end(&v);
    end(&any);
    assert_int_equal(n_attached(), 0);
}

/* PopTorch's rule: the second one waits until the first has detached. */
static void one_that_is_to_be_alone_finds_a_device_busy(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 2}");
    user shared = begin(1, IPU_ATTACH_ALWAYS), alone = begin(1, IPU_ATTACH_ALWAYS);
    ipu_executor_destroy(alone.x);
    const ipu_executor_options o = {.device_id = 1, .device_alone = true, .most_executables = 2};
    assert_status(ipu_inference_model(alone.module, &o, &alone.x), IPU_OK);
    run(&shared);
    assert_status(try_run(&alone), IPU_BUSY);
    assert_status(ipu_executor_detach(shared.x), IPU_OK);
    run(&alone);
    assert_status(try_run(&shared), IPU_BUSY);
    assert_status(ipu_executor_detach(alone.x), IPU_OK);
    run(&shared);
    end(&shared);
    run(&alone);
    float one = 1; /* another shape is another engine, which is not alone with the first */
    assert_status(ipu_executor_run(alone.x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(1), &one}, 1), IPU_OK);
    assert_int_equal(ipu_executor_n_compiled(alone.x), 2);
    end(&alone);
    assert_int_equal(n_attached(), 0);
}

/* An id is the device that a process has, however it came by it. */
static void an_id_is_found_that_was_attached_as_any(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 2}");
    user any = begin(0, IPU_ATTACH_ALWAYS), u = begin(1, IPU_ATTACH_ALWAYS);
    run(&any);
    assert_int_equal(ipu_device_id(device_of(&any)), 0);
    expect_turns(&u, &any);
}

/* A process that has device 0 until the pipe's end that it returns is closed. */
static int hold_elsewhere(pid_t *child)
{
    int  ready[2], go[2];
    char c = 0;
    assert_int_equal(pipe(ready) | pipe(go), 0);
    *child = fork();
    if (*child == 0) {
        ipu_device *d;
        close(go[1]);
        bool ok = ipu_device_open(0, &d) == IPU_OK && ipu_device_attach(d, 0) == IPU_OK;
        if (write(ready[1], ok ? "y" : "n", 1) != 1) _exit(1);
        _exit(read(go[0], &c, 1) != 0);
    }
    close(ready[1]);
    close(go[0]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(c, 'y');
    close(ready[0]);
    return go[1];
}

static void what_could_not_attach_holds_nothing(void **state)
{
    (void)state;
    int   status;
    pid_t child;
    put_config("p.conf", "{\"ipus\": 1}");
    int  go = hold_elsewhere(&child);
    user u = begin(1, IPU_ATTACH_ALWAYS), v = begin(1, IPU_ATTACH_ON_DEMAND), w = begin(1, IPU_ATTACH_ALWAYS);
    assert_status(try_run(&u), IPU_BUSY);
    assert_status(try_run(&v), IPU_BUSY);
    assert_status(try_run(&w), IPU_BUSY); /* never to run again */
    assert_false(ipu_executor_is_attached(u.x) || ipu_executor_is_attached(v.x));
    close(go);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    run(&v);
    run(&u);
    assert_status(ipu_executor_detach(u.x), IPU_OK);
    assert_true(ipu_executor_is_attached(v.x));
    assert_status(ipu_executor_detach(v.x), IPU_OK);
    assert_int_equal(n_attached(), 0);
    end(&u);
    end(&v);
    end(&w);
}

static void who_has_compiled_is_attached(void **state)
{
    (void)state;
    put_config("p.conf", "{\"ipus\": 1}");
    user  u      = begin(0, IPU_ATTACH_ALWAYS);
    float one[2] = {1, 1};
    assert_status(ipu_executor_compile(u.x, &(ipu_array){IPU_FLOAT, IPU_SHAPE(2), one}, 1), IPU_OK);
    assert_true(ipu_executor_is_attached(u.x));
    assert_status(ipu_device_detach(device_of(&u)), IPU_OK); /* not by the executor */
    assert_false(ipu_executor_is_attached(u.x));
    run(&u);
    assert_true(ipu_executor_is_attached(u.x));
    assert_status(ipu_executor_detach(u.x), IPU_OK);
    assert_int_equal(n_attached(), 0);
    end(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SANDBOXED(two_executors_share_the_device_of_an_id),
        SANDBOXED(executors_of_any_device_share_one),
        SANDBOXED(other_ids_are_other_devices),
        SANDBOXED(one_that_is_to_be_alone_finds_a_device_busy),
        SANDBOXED(an_id_is_found_that_was_attached_as_any),
        SANDBOXED(what_could_not_attach_holds_nothing),
        SANDBOXED(who_has_compiled_is_attached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

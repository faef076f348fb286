/* Weights and their versions: the newest reach whoever is behind, and nothing else is copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "session/weights.h"

enum { N = 2 }; /* weights "a" and "b", of one element */

static const char *const names[N] = {"a", "b"};

typedef struct device {
    ipu__weights_user user;
    float             copy[N];
    int               n_read, n_written;
    bool              fails;
} device;

static ipu_status read_one(void *owner, ipu__weight *w)
{
    device *d = owner;
    if (d->fails) return ipu__fail(IPU_IO, "on purpose");
    d->n_read++;
    *(float *)w->array.data = d->copy[*w->name - 'a'];
    return IPU_OK;
}

static ipu_status write_one(void *owner, const ipu__weight *w)
{
    device *d = owner;
    d->n_written++;
    d->copy[*w->name - 'a'] = *(const float *)w->array.data;
    return IPU_OK;
}

/* Of which it has the first `n`. */
static void begin(device *d, size_t n, float a, float b)
{
    *d = (device){.user = {.owner = d, .read = read_one, .write = write_one}, .copy = {a, b}};
    for (size_t i = 0; i < n; i++) assert_true(ipu__push(&d->user.numbers, i));
}

static void end(device *d) { ipu__array_fini(&d->user.numbers); }

static ipu__weights table(void)
{
    ipu__weights w     = {0};
    ipu_shape    shape = IPU_SHAPE(1);
    for (int i = 0; i < N; i++) assert_int_equal(ipu__weights_add(&w, names[i], IPU_FLOAT, &shape), IPU_OK);
    return w;
}

static float host(const ipu__weights *w, size_t i) { return *(const float *)w->list.at[i].array.data; }

static void set(ipu__weights *w, size_t i, float value)
{
    assert_int_equal(ipu__weights_fetch(w), IPU_OK);
    ipu__weights_set(w, i, &(ipu_array){IPU_FLOAT, IPU_SHAPE(1), &value});
    ipu__weights_changed(w);
}

static void sync(ipu__weights *w, device *d) { assert_int_equal(ipu__weights_sync(w, &d->user), IPU_OK); }

static void change(ipu__weights *w, device *d, float a, float b)
{
    d->copy[0] = a;
    d->copy[1] = b;
    ipu__weights_has_newest(w, &d->user);
}

static void expect(device *d, float a, float b, int n_read, int n_written)
{
    assert_true(d->copy[0] == a && d->copy[1] == b);
    assert_int_equal(d->n_read, n_read);
    assert_int_equal(d->n_written, n_written);
    d->n_read = d->n_written = 0;
}

static void weights_are_found_by_name(void **state)
{
    (void)state;
    ipu__weights w = table();
    assert_int_equal(ipu__weights_find(&w, "b"), 1);
    assert_int_equal(ipu__weights_find(&w, "c"), SIZE_MAX);
    ipu__weights_cut(&w, 1);
    assert_int_equal(ipu__weights_find(&w, "b"), SIZE_MAX);
    assert_int_equal(ipu__weights_find(&w, "a"), 0);
    ipu__weights_fini(&w);
}

static void the_newest_go_to_who_is_behind(void **state)
{
    (void)state;
    ipu__weights w = table();
    device       d, e;
    begin(&d, N, 1, 2);
    begin(&e, N, 8, 9);
    sync(&w, &d); /* what it began with: nobody has given values */
    expect(&d, 1, 2, 0, 0);
    sync(&w, &e);
    expect(&d, 1, 2, 2, 0);
    expect(&e, 1, 2, 0, 2);
    for (int again = 0; again < 2; again++) {
        sync(&w, &d);
        sync(&w, &e);
        assert_int_equal(ipu__weights_fetch(&w), IPU_OK);
    }
    expect(&d, 1, 2, 0, 0);
    expect(&e, 1, 2, 0, 0);
    change(&w, &e, 3, 4);
    change(&w, &e, 5, 6);
    assert_int_equal(ipu__weights_fetch(&w), IPU_OK);
    assert_true(host(&w, 0) == 5 && host(&w, 1) == 6);
    sync(&w, &d);
    expect(&e, 5, 6, 2, 0); /* once for both */
    expect(&d, 5, 6, 0, 2);
    set(&w, 1, 7);
    sync(&w, &d);
    sync(&w, &e);
    expect(&d, 5, 7, 0, 2);
    expect(&e, 5, 7, 0, 2);
    end(&d);
    end(&e);
    ipu__weights_fini(&w);
}

static void a_value_of_the_hosts_goes_before_what_a_device_begins_with(void **state)
{
    (void)state;
    ipu__weights w = table();
    device       d;
    begin(&d, N, 1, 2);
    set(&w, 0, 5);
    sync(&w, &d);
    expect(&d, 5, 2, 0, 1);
    assert_int_equal(ipu__weights_fetch(&w), IPU_OK);
    assert_true(host(&w, 0) == 5 && host(&w, 1) == 2);
    end(&d);
    ipu__weights_fini(&w);
}

static void users_have_some_of_them(void **state)
{
    (void)state;
    ipu__weights w = table();
    device       d, e;
    begin(&d, 1, 1, 0);
    begin(&e, N, 8, 9);
    sync(&w, &d);
    sync(&w, &e); /* "b" is its own */
    expect(&d, 1, 0, 1, 0);
    expect(&e, 1, 9, 0, 1);
    sync(&w, &d);
    expect(&e, 1, 9, 2, 0); /* "b" as well: it is nowhere else */
    change(&w, &d, 2, 0);
    sync(&w, &e);
    expect(&d, 2, 0, 1, 1);
    expect(&e, 2, 9, 0, 2);
    end(&d);
    end(&e);
    ipu__weights_fini(&w);
}

static void who_leaves_is_fetched_from(void **state)
{
    (void)state;
    ipu__weights w = table();
    device       d, e;
    begin(&d, N, 1, 2);
    begin(&e, N, 8, 9);
    sync(&w, &d);
    sync(&w, &e);
    change(&w, &d, 3, 4);
    expect(&d, 3, 4, 2, 0);
    assert_int_equal(ipu__weights_leave(&w, &e.user), IPU_OK); /* which has none */
    expect(&e, 1, 2, 0, 2);
    assert_ptr_equal(w.holder, &d.user);
    assert_int_equal(ipu__weights_leave(&w, &d.user), IPU_OK);
    expect(&d, 3, 4, 2, 0);
    assert_null(w.holder);
    assert_true(host(&w, 0) == 3 && host(&w, 1) == 4);
    sync(&w, &e);
    change(&w, &e, 5, 6);
    e.fails = true;
    assert_int_equal(ipu__weights_leave(&w, &e.user), IPU_IO);
    assert_null(w.holder); /* it is gone in any case */
    assert_int_equal(ipu__weights_fetch(&w), IPU_OK);
    end(&d);
    end(&e);
    ipu__weights_fini(&w);
}

static void what_is_lent_is_the_lenders_memory(void **state)
{
    (void)state;
    ipu__weights w    = table();
    float        mine = 5;
    ipu_array    a    = {IPU_FLOAT, IPU_SHAPE(1), &mine};
    device       d, e;
    begin(&d, N, 1, 2);
    begin(&e, N, 8, 9);
    assert_int_equal(ipu__weights_lend(&w, 0, &a), IPU_OK);
    sync(&w, &d);
    sync(&w, &e);
    expect(&d, 5, 2, 2, 1);
    change(&w, &d, 6, 7);
    assert_int_equal(ipu__weights_fetch(&w), IPU_OK);
    assert_true(mine == 6);
    mine = 9; /* no version tells */
    sync(&w, &e);
    e.n_written = 0;
    mine        = 10;
    assert_int_equal(ipu__weights_give(&w, &d.user), IPU_OK);
    assert_true(d.copy[0] == 10);
    sync(&w, &e); /* has to look */
    assert_true(e.copy[0] == 10);
    assert_int_equal(ipu__weights_lend(&w, 0, NULL), IPU_OK);
    mine = 11;
    assert_true(host(&w, 0) == 10);
    assert_int_equal(ipu__weights_lend(&w, 0, NULL), IPU_OK); /* nothing is lent */
    assert_true(host(&w, 0) == 10);
    end(&d);
    end(&e);
    ipu__weights_fini(&w);
}

static void taking_and_giving_ask_no_version(void **state)
{
    (void)state;
    ipu__weights w = table();
    device       d;
    begin(&d, N, 1, 2);
    sync(&w, &d);
    assert_int_equal(ipu__weights_take(&w, &d.user), IPU_OK);
    assert_true(host(&w, 0) == 1 && host(&w, 1) == 2);
    d.copy[0] = 5;
    assert_int_equal(ipu__weights_take(&w, &d.user), IPU_OK);
    assert_true(host(&w, 0) == 5);
    d.copy[0] = 6;
    assert_int_equal(ipu__weights_give(&w, &d.user), IPU_OK);
    assert_true(d.copy[0] == 5);
    set(&w, 1, 7); /* which the device has not seen: it is not lost */
    assert_int_equal(ipu__weights_take(&w, &d.user), IPU_OK);
    assert_true(host(&w, 0) == 5 && host(&w, 1) == 7 && d.copy[1] == 7);
    end(&d);
    ipu__weights_fini(&w);
}

static void no_two_tables_have_the_same_version(void **state)
{
    (void)state;
    ipu__weights v = table(), w = table();
    device       d, e;
    begin(&d, N, 1, 2);
    begin(&e, N, 3, 4);
    for (int i = 0; i < 3; i++) {
        change(&v, &d, 5, 6);
        change(&w, &e, 7, 8);
        assert_true(ipu__weights_is_behind(&v) && ipu__weights_is_behind(&w));
        assert_int_not_equal(v.version, w.version);
        assert_int_equal(ipu__weights_fetch(&v), IPU_OK);
        assert_int_equal(ipu__weights_fetch(&w), IPU_OK);
        assert_false(ipu__weights_is_behind(&v));
        assert_int_not_equal(v.host_version, w.host_version);
    }
    end(&d);
    end(&e);
    ipu__weights_fini(&v);
    ipu__weights_fini(&w);
}

static void what_has_no_elements_need_not_be_given(void **state)
{
    (void)state;
    ipu__weights w     = {0};
    ipu_shape    empty = IPU_SHAPE(0);
    device       d;
    begin(&d, 1, 0, 0);
    assert_int_equal(ipu__weights_add(&w, "a", IPU_FLOAT, &empty), IPU_OK);
    sync(&w, &d);
    assert_false(ipu__weights_is_behind(&w)); /* the device has nothing that the host has not */
    expect(&d, 0, 0, 0, 0);
    end(&d);
    ipu__weights_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_found_by_name),
        cmocka_unit_test(the_newest_go_to_who_is_behind),
        cmocka_unit_test(a_value_of_the_hosts_goes_before_what_a_device_begins_with),
        cmocka_unit_test(users_have_some_of_them),
        cmocka_unit_test(who_leaves_is_fetched_from),
        cmocka_unit_test(what_is_lent_is_the_lenders_memory),
        cmocka_unit_test(taking_and_giving_ask_no_version),
        cmocka_unit_test(no_two_tables_have_the_same_version),
        cmocka_unit_test(what_has_no_elements_need_not_be_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

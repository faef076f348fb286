/* Executables of sessions: which one is found, which one goes, and what the cache has to do with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "ipu/ipu.h"
#include "session/session.h"

static char box[] = "/tmp/ipu-session-test-XXXXXX";
static char folder[64];

static int make_box(void **state)
{
    (void)state;
    return mkdtemp(box) ? 0 : -1;
}

static int remove_box(void **state)
{
    (void)state;
    return rmdir(box);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/cache", box);
    return unsetenv("IPU_CACHE_LIMIT");
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'/*", box);
    return system(command);
}

/* ---- an owner whose executables say the number that they are for ---- */

typedef struct owner {
    ipu__session s;
    int          n_compiled, n_priced, n_refused; /* n_refused: to be refused yet */
    bool         is_secret;                       /* what it compiles is not for the cache */
    int          gone[8], n_gone;
} owner;

typedef struct mine {
    ipu__compiled base;
    int           number;
} mine;

/* y = number, `n` times. */
static ipu_status lower(int number, int64_t n, ipu_graph **g, ipu_program *p)
{
    ipu_target target;
    float     *values = calloc((size_t)n, sizeof *values);
    for (int64_t i = 0; i < n; i++) values[i] = (float)number;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, g), IPU_OK);
    ipu_tensor y = ipu_graph_add_variable(*g, IPU_FLOAT, IPU_SHAPE(n), "y");
    ipu_tensor k = ipu_graph_add_constant(*g, IPU_FLOAT, IPU_SHAPE(n), values, "k");
    ipu_graph_set_tile_mapping(*g, y, 0);
    ipu_graph_set_tile_mapping(*g, k, 0);
    ipu_graph_add_host_read(*g, "y", y);
    *p = ipu_program_sequence(*g);
    ipu_program_add_copy(*p, k, y);
    free(values);
    return ipu_graph_status(*g);
}

static ipu_status compile(void *user, ipu__compiled *c)
{
    owner      *o = user;
    ipu_graph  *g;
    ipu_program p;
    o->n_compiled++;
    ipu_status status = lower(((mine *)c)->number, c->arguments.list.at[0].shape.dim[0], &g, &p);
    if (status == IPU_OK) status = ipu_executable_compile(g, &p, 1, NULL, &c->exe);
    ipu_graph_destroy(g);
    if (o->is_secret) c->folder = NULL;
    return status;
}

static ipu_status accept(void *user, ipu__compiled *c)
{
    owner *o = user;
    (void)c;
    return o->n_refused-- > 0 ? IPU_INVALID : IPU_OK;
}

static ipu_status price(void *user, ipu__compiled *c, ipu_cost **out)
{
    owner      *o = user;
    ipu_graph  *g;
    ipu_program p;
    o->n_priced++;
    ipu_status status = lower(((mine *)c)->number, c->arguments.list.at[0].shape.dim[0], &g, &p);
    if (status == IPU_OK) status = ipu_cost_estimate(g, &p, 1, NULL, out);
    ipu_graph_destroy(g);
    return status;
}

static void destroy(void *user, ipu__compiled *c)
{
    owner *o                                           = user;
    o->gone[o->n_gone < 8 ? o->n_gone++ : (fail(), 0)] = ((mine *)c)->number;
    ipu__compiled_fini(c);
    free(c);
}

static const ipu__session_def def = {compile, accept, price, destroy};

static void begin(owner *o, size_t most) { *o = (owner){.s = {.def = &def, .user = o, .most = most}}; }

static ipu__arguments vector(int64_t n)
{
    ipu__arguments a    = {0};
    ipu__argument  only = {.kind = 1, .type = IPU_FLOAT, .shape = IPU_SHAPE(n)};
    assert_true(ipu__push(&a.list, only));
    return a;
}

/* Not kept yet. */
static mine *made(owner *o, int number, int64_t n, const char *cache)
{
    mine          *c = calloc(1, sizeof *c);
    ipu__arguments a = vector(n);
    c->number        = number;
    c->base.folder   = cache;
    c->base.key      = ipu__hash_bytes(&number, sizeof number);
    assert_int_equal(ipu__arguments_copy(&a, &c->base.arguments), IPU_OK);
    ipu__arguments_fini(&a);
    assert_int_equal(ipu__session_compile(&o->s, &c->base), IPU_OK);
    return c;
}

static void keep(owner *o, mine *c) { assert_int_equal(ipu__session_keep(&o->s, &c->base), IPU_OK); }

/* The number of what is found for vectors of `n`; -1: nothing is. */
static int found(owner *o, int64_t n)
{
    ipu__arguments asked = vector(n);
    mine          *c     = (mine *)ipu__session_find(&o->s, &asked);
    ipu__arguments_fini(&asked);
    return c ? c->number : -1;
}

static void assert_gives(mine *c, float expected)
{
    float y[1000];
    if (!c->base.engine) assert_int_equal(ipu_engine_create(c->base.exe, NULL, &c->base.engine), IPU_OK);
    assert_int_equal(ipu_engine_run(c->base.engine, 0), IPU_OK);
    size_t bytes = (size_t)c->base.arguments.list.at[0].shape.dim[0] * sizeof *y;
    assert_true(bytes <= sizeof y);
    assert_int_equal(ipu_engine_read(c->base.engine, "y", y, bytes), IPU_OK);
    assert_true(y[0] == expected);
}

/* ---- arguments ---- */

static void arguments_fit_by_all_that_was_compiled_for(void **state)
{
    (void)state;
    const int64_t  two = 2, also_two = 2, three = 3;
    ipu__argument  k = {.kind = 1, .type = IPU_INT64, .value = &two, .is_fixed = true};
    ipu__arguments a = vector(4), of, b = vector(4);
    float          other[4] = {1};
    assert_true(ipu__push(&a.list, k));
    a.list.at[0].value = other;
    assert_int_equal(ipu__arguments_copy(&a, &of), IPU_OK);
    assert_ptr_not_equal(of.list.at[1].value, &two);
    assert_null(of.list.at[0].value); /* it is not fixed */
    k.is_fixed = false;
    k.value    = &also_two;
    assert_false(ipu__arguments_fit(&of, &b)); /* fewer */
    assert_false(ipu__arguments_fit(&b, &of)); /* more */
    assert_true(ipu__push(&b.list, k));
    assert_true(ipu__arguments_fit(&of, &b));
    b.list.at[0].value = other; /* the value of what is not fixed */
    assert_true(ipu__arguments_fit(&of, &b));
    b.list.at[1].value = &three;
    assert_false(ipu__arguments_fit(&of, &b));
    b.list.at[1].value = NULL; /* not known */
    assert_false(ipu__arguments_fit(&of, &b));
    b.list.at[1].value        = &also_two;
    b.list.at[0].shape.dim[0] = 5;
    assert_false(ipu__arguments_fit(&of, &b));
    b.list.at[0].shape.dim[0] = 4;
    b.list.at[0].type         = IPU_INT32;
    assert_false(ipu__arguments_fit(&of, &b));
    b.list.at[0].type = IPU_FLOAT;
    b.list.at[0].kind = 2;
    assert_false(ipu__arguments_fit(&of, &b));
    b.list.at[0].kind    = 1;
    b.list.at[0].n_items = 1;
    assert_false(ipu__arguments_fit(&of, &b));
    ipu__arguments_fini(&a);
    ipu__arguments_fini(&b);
    ipu__arguments_fini(&of);
}

static ipu__hash128 key_of(const ipu__arguments *a)
{
    ipu__text t = {0};
    ipu__arguments_add_key(a, &t);
    assert_false(t.failed);
    ipu__hash128 hash = ipu__hash_bytes(t.at, t.n);
    ipu__text_fini(&t);
    return hash;
}

static void keys_have_shapes_types_and_fixed_values(void **state)
{
    (void)state;
    float          values[4] = {1, 2, 3, 4}, others[4] = {1, 2, 3, 5};
    ipu__hash128   keys[7];
    ipu__arguments a   = vector(4);
    a.list.at[0].value = values;
    keys[0]            = key_of(&a);
    a.list.at[0].value = others;
    keys[1]            = key_of(&a);
    assert_memory_equal(&keys[0], &keys[1], sizeof keys[0]); /* nothing is fixed */
    a.list.at[0].is_fixed     = true;
    keys[1]                   = key_of(&a);
    a.list.at[0].value        = values;
    keys[2]                   = key_of(&a);
    a.list.at[0].type         = IPU_INT32;
    keys[3]                   = key_of(&a);
    a.list.at[0].shape.dim[0] = 3;
    keys[4]                   = key_of(&a);
    a.list.at[0].kind         = 2;
    keys[5]                   = key_of(&a);
    a.list.at[0].n_items      = 1;
    keys[6]                   = key_of(&a);
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < i; k++) assert_memory_not_equal(&keys[i], &keys[k], sizeof keys[0]);
    ipu__arguments_fini(&a);
}

/* ---- keeping ---- */

static void the_one_used_longest_ago_goes(void **state)
{
    (void)state;
    owner o;
    begin(&o, 3);
    for (int i = 1; i <= 3; i++) keep(&o, made(&o, i, i, NULL));
    assert_int_equal(o.n_gone, 0);
    assert_int_equal(found(&o, 1), 1);
    assert_int_equal(found(&o, 7), -1);
    keep(&o, made(&o, 4, 4, NULL)); /* 2 has been waiting since it was made */
    assert_int_equal(o.n_gone, 1);
    assert_int_equal(o.gone[0], 2);
    assert_int_equal(found(&o, 2), -1);
    keep(&o, made(&o, 5, 5, NULL));
    assert_int_equal(o.gone[1], 3);
    assert_int_equal(found(&o, 1), 1);
    assert_gives((mine *)o.s.last, 1);
    ipu__session_fini(&o.s);
    assert_int_equal(o.n_gone, 5);
}

static void memory_of_the_others_is_bounded(void **state)
{
    (void)state;
    owner o;
    begin(&o, 8);
    mine   *c = made(&o, 1, 1000, NULL);
    int64_t bytes, unshared;
    ipu_executable_memory(c->base.exe, &bytes, &unshared);
    assert_true(bytes >= 4000);
    o.s.most_bytes = 2 * bytes;
    keep(&o, c);
    for (int i = 2; i <= 3; i++) keep(&o, made(&o, i, 1000, NULL));
    assert_int_equal(o.n_gone, 0);
    keep(&o, made(&o, 4, 1000, NULL));
    assert_int_equal(o.n_gone, 1);
    assert_int_equal(o.gone[0], 1);
    o.s.most_bytes = 1; /* the one that runs is kept in any case */
    keep(&o, made(&o, 5, 1000, NULL));
    assert_int_equal(o.n_gone, 4);
    assert_int_equal(o.s.compiled.n, 1);
    assert_int_equal(found(&o, 1000), 5);
    ipu__session_fini(&o.s);
}

/* ---- the cache ---- */

static void what_is_in_the_cache_is_not_compiled(void **state)
{
    (void)state;
    owner first, second;
    begin(&first, 1);
    begin(&second, 1);
    mine *c = made(&first, 1, 4, folder), *again = made(&second, 1, 4, folder);
    assert_false(c->base.was_cached);
    assert_true(again->base.was_cached);
    assert_int_equal(first.n_compiled, 1);
    assert_int_equal(second.n_compiled, 0);
    assert_gives(again, 1);
    keep(&first, c);
    keep(&second, again);
    ipu__session_fini(&first.s);
    ipu__session_fini(&second.s);
}

static void what_is_not_accepted_is_made_anew(void **state)
{
    (void)state;
    owner o;
    begin(&o, 1);
    destroy(&o, &made(&o, 1, 4, folder)->base);
    o.n_refused = 1;
    mine *c     = made(&o, 1, 4, folder);
    assert_false(c->base.was_cached);
    assert_int_equal(o.n_compiled, 2);
    assert_gives(c, 1);
    keep(&o, c);
    ipu__session_fini(&o.s);
}

static void compiling_may_keep_it_out_of_the_cache(void **state)
{
    (void)state;
    owner o;
    begin(&o, 1);
    o.is_secret = true;
    destroy(&o, &made(&o, 1, 4, folder)->base);
    mine *c = made(&o, 1, 4, folder);
    assert_int_equal(o.n_compiled, 2);
    keep(&o, c);
    ipu__session_fini(&o.s);
}

static void it_is_priced_once(void **state)
{
    (void)state;
    owner first, second;
    begin(&first, 1);
    begin(&second, 1);
    mine *c = made(&first, 1, 4, folder), *again = made(&second, 1, 4, folder);
    for (int i = 0; i < 2; i++) assert_int_equal(ipu__session_price(&first.s, &c->base), IPU_OK);
    assert_int_equal(ipu__session_price(&second.s, &again->base), IPU_OK);
    assert_int_equal(first.n_priced, 1);
    assert_int_equal(second.n_priced, 0);
    assert_true(c->base.cost.cycles.total > 0);
    assert_null(c->base.cost.chip); /* else the cache would have an address */
    assert_int_equal(again->base.cost.cycles.total, c->base.cost.cycles.total);
    mine *uncached = made(&first, 1, 4, NULL);
    for (int i = 0; i < 2; i++) assert_int_equal(ipu__session_price(&first.s, &uncached->base), IPU_OK);
    assert_int_equal(first.n_priced, 2);
    destroy(&first, &uncached->base);
    destroy(&first, &c->base);
    destroy(&second, &again->base);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(arguments_fit_by_all_that_was_compiled_for),
        TEST(keys_have_shapes_types_and_fixed_values),
        TEST(the_one_used_longest_ago_goes),
        TEST(memory_of_the_others_is_bounded),
        TEST(what_is_in_the_cache_is_not_compiled),
        TEST(what_is_not_accepted_is_made_anew),
        TEST(compiling_may_keep_it_out_of_the_cache),
        TEST(it_is_priced_once),
    };
    return cmocka_run_group_tests(tests, make_box, remove_box);
}

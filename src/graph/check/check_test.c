/* What a check covers: everything reachable from the given programs, once, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ipu/engine.h"

#define NOTHING(F) F(IN, float, x)
IPU_VERTEX(Nothing, NOTHING)
{
    return *v->x >= 0 || true;
}

typedef struct bench {
    ipu_graph      *g;
    ipu_compute_set wrong; /* its vertex is on no tile */
    ipu_tensor      flag;
} bench;

static bench start(void)
{
    bench      b;
    ipu_target target;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &b.g), IPU_OK);
    ipu_graph_add_codelet(b.g, &Nothing);
    ipu_tensor x = ipu_graph_add_constant_value(b.g, IPU_FLOAT, IPU_SCALAR, 1, "x");
    b.wrong      = ipu_graph_add_compute_set(b.g, "wrong");
    b.flag       = ipu_graph_add_variable(b.g, IPU_BOOL, IPU_SCALAR, "flag");
    ipu_graph_set_tile_mapping(b.g, x, 0);
    ipu_graph_set_tile_mapping(b.g, b.flag, 0);
    ipu_vertex_connect(ipu_graph_add_vertex(b.g, b.wrong, "Nothing"), "x", x);
    return b;
}

static int n_problems(const bench *b, const ipu_program *programs, size_t n)
{
    int lines = 1;
    if (ipu_graph_check(b->g, programs, n) == IPU_OK) return 0;
    for (const char *s = ipu_message(); *s; s++) lines += *s == '\n';
    return lines;
}

static void what_no_program_reaches_is_not_looked_at(void **state)
{
    (void)state;
    bench       b    = start();
    ipu_program p[2] = {ipu_program_sequence(b.g), ipu_program_sequence(b.g)};
    ipu_program_add_execute(p[1], b.wrong);
    assert_int_equal(n_problems(&b, p, 1), 0);
    assert_int_equal(n_problems(&b, p, 2), 1);
    assert_int_equal(n_problems(&b, p, 1), 0);
    ipu_graph_destroy(b.g);
}

/* For each kind of step that has a body, one way to nest it in a program. */
static void nest(const bench *b, int way, ipu_program p, ipu_program body)
{
    ipu_program none = {b->g, 0}, empty = ipu_program_sequence(b->g);
    switch (way) {
    case 0: ipu_program_add(p, body); break;
    case 1: ipu_program_add_repeat(p, 0, body); break;
    case 2: ipu_program_add_if(p, b->flag, body, none); break;
    case 3: ipu_program_add_if(p, b->flag, none, body); break;
    case 4: ipu_program_add_while_true(p, body, b->flag, empty); break;
    case 5: ipu_program_add_while_false(p, empty, b->flag, body); break;
    case 6: ipu_program_add_switch(p, b->flag, &(ipu_switch_case){3, body}, 1, none); break;
    case 7: ipu_program_add_switch(p, b->flag, NULL, 0, body); break;
    default: ipu_program_add_call(p, ipu_graph_add_function(b->g, body, "f")); break;
    }
}

static void every_body_is_looked_at(void **state)
{
    (void)state;
    for (int way = 0; way < 9; way++) {
        bench       b = start();
        ipu_program p = ipu_program_sequence(b.g), body = ipu_program_sequence(b.g);
        ipu_program_add_execute(body, b.wrong);
        nest(&b, way, p, body);
        assert_int_equal(ipu_graph_status(b.g), IPU_OK);
        assert_int_equal(n_problems(&b, &p, 1), 1);
        assert_non_null(strstr(ipu_message(), "\"wrong\""));
        ipu_graph_destroy(b.g);
    }
}

static void a_problem_is_told_once_however_often_it_is_met(void **state)
{
    (void)state;
    bench       b = start();
    ipu_program p = ipu_program_sequence(b.g);
    ipu_program_add_execute(p, b.wrong);
    ipu_program_add_execute(p, b.wrong);
    ipu_program_add_repeat(p, 5, p);
    ipu_program both[] = {p, p};
    assert_int_equal(n_problems(&b, both, 2), 1);
    ipu_graph_destroy(b.g);
}

static void what_the_host_reaches_must_be_mapped(void **state)
{
    (void)state;
    bench       b = start();
    ipu_program p = ipu_program_sequence(b.g);
    ipu_tensor  x = ipu_graph_add_variable(b.g, IPU_FLOAT, IPU_SHAPE(4), "nowhere");
    ipu_graph_add_host_read(b.g, "result", x);
    assert_int_equal(n_problems(&b, &p, 1), 1);
    assert_non_null(strstr(ipu_message(), "\"nowhere\""));
    assert_non_null(strstr(ipu_message(), "[0, 4)"));
    ipu_graph_destroy(b.g);
}

static void programs_must_be_there(void **state)
{
    (void)state;
    bench       b    = start();
    ipu_program null = {b.g, 0};
    assert_int_equal(ipu_graph_check(b.g, NULL, 0), IPU_INVALID);
    assert_int_equal(ipu_graph_check(b.g, &null, 1), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "program 0"));
    ipu_graph_destroy(b.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_program_reaches_is_not_looked_at),
        cmocka_unit_test(every_body_is_looked_at),
        cmocka_unit_test(a_problem_is_told_once_however_often_it_is_met),
        cmocka_unit_test(what_the_host_reaches_must_be_mapped),
        cmocka_unit_test(programs_must_be_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Profiles: contents of the text, structure of the JSON, and measured times beside their steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "ipu/ipu.h"

static const char source[] = "graph target tiny ipus 1 tiles 4 replication 1 {\n"
                             "  codelet Touch { in vector float x }\n"
                             "  var x float[10] on 0;\n"
                             "  var big float[5000] on 2;\n"
                             "  host_write \"big\" big;\n"
                             "  host_write \"x\" x;\n"
                             "  compute_set touch {\n"
                             "    vertex Touch on 1 { x = x }\n"
                             "  }\n"
                             "  program {\n"
                             "    repeat 3 { execute touch; }\n"
                             "    sync internal;\n"
                             "  }\n"
                             "}\n";

static ipu_cost *estimate(void)
{
    ipu_parsed parsed;
    ipu_cost  *cost;
    assert_int_equal(ipu_graph_parse(source, sizeof source - 1, "touch.ipu", NULL, 0, NULL, &parsed), IPU_OK);
    assert_int_equal(ipu_cost_estimate(parsed.graph, parsed.programs, parsed.n_programs, NULL, &cost),
                     IPU_OK);
    ipu_graph_destroy(parsed.graph);
    return cost;
}

static void assert_says(const char *text, const char *expected)
{
    if (!strstr(text, expected)) print_error("expected \"%s\" in:\n%s\n", expected, text);
    assert_non_null(strstr(text, expected));
}

static void the_text_opens_with_what_is_modelled_and_what_is_not(void **unused)
{
    (void)unused;
    ipu_cost *cost = estimate();
    char     *text;
    assert_int_equal(ipu_cost_print(cost, 0, &text), IPU_OK);
    assert_ptr_equal(strstr(text, "An estimate by a model of the chip, not a measurement.\nModelled:\n"),
                     text);
    assert_true(strstr(text, "\nNot modelled:\n") < strstr(text, "\nTarget\n"));
    assert_says(text, "\nNot modelled on this chip:\n");
    assert_says(text, "host_bytes_per_second");
    assert_says(text, "cycles of codelet \"Touch\"");
    ipu_free(text);
    ipu_cost_destroy(cost);
}

static void the_text_has_totals_memory_and_steps_with_names_and_lines(void **unused)
{
    (void)unused;
    ipu_cost *cost = estimate();
    char     *text;
    assert_int_equal(ipu_cost_print(cost, IPU_PROFILE_STEPS, &text), IPU_OK);
    /* one iteration: compute 11 + 6 x (29 + 5), exchange 10, sync 600 */
    assert_says(text, "total                3075 cycles, 3.075 us");
    assert_says(text, "compute              645 cycles");
    assert_says(text, "exchange             30 cycles");
    assert_says(text, "sync                 2400 cycles");
    assert_says(text, "tile 2: 5024 bytes over; largest: \"big\" 20000, stacks 1312, code 96");
    assert_says(text, "execute touch  touch.ipu:11");
    assert_says(text, "repeat 3 times");
    ipu_free(text);
    assert_int_equal(ipu_cost_print(cost, 0, &text), IPU_OK);
    assert_null(strstr(text, "execute touch"));
    ipu_free(text);
    ipu_cost_destroy(cost);
}

static json_t *as_json(const ipu_cost *cost, unsigned flags)
{
    char        *text;
    json_error_t error;
    assert_int_equal(ipu_cost_json(cost, flags, &text), IPU_OK);
    json_t *o = json_loads(text, 0, &error);
    ipu_free(text);
    assert_non_null(o);
    return o;
}

static json_int_t integer(const json_t *o, const char *key)
{
    assert_true(json_is_integer(json_object_get(o, key)));
    return json_integer_value(json_object_get(o, key));
}

static void the_json_has_the_same_numbers(void **unused)
{
    (void)unused;
    ipu_cost *cost = estimate();
    json_t   *o = as_json(cost, 0), *memory = json_object_get(o, "memory"),
           *steps = json_object_get(o, "steps");
    assert_int_equal(integer(o, "version"), 1);
    assert_true(json_is_true(json_object_get(o, "is_estimate")));
    assert_int_equal(integer(json_object_get(json_object_get(o, "execution"), "cycles"), "total"), 3075);
    assert_int_equal(integer(memory, "n_overfull"), 1);
    assert_null(json_object_get(memory, "tiles"));
    const json_t *overfull = json_array_get(json_object_get(memory, "overfull"), 0);
    assert_int_equal(integer(overfull, "over"), 5024);
    assert_int_equal(json_array_size(json_object_get(overfull, "tenants")), 3);
    assert_int_equal(json_array_size(steps), 3);
    const json_t *execute = json_array_get(steps, 1);
    assert_string_equal(json_string_value(json_object_get(execute, "kind")), "execute");
    assert_string_equal(json_string_value(json_object_get(execute, "name")), "touch");
    assert_string_equal(json_string_value(json_object_get(execute, "where")), "touch.ipu:11");
    assert_int_equal(integer(execute, "count"), 3);
    assert_int_equal(integer(json_object_get(execute, "cycles"), "total"), 825);
    assert_int_equal(integer(json_object_get(execute, "exchange"), "received"), 40);
    assert_true(json_is_null(json_object_get(execute, "measured")));
    json_decref(o);
    o = as_json(cost, IPU_PROFILE_TILES);
    assert_int_equal(json_array_size(json_object_get(json_object_get(o, "memory"), "tiles")), 4);
    json_decref(o);
    ipu_cost_destroy(cost);
}

static void every_constant_has_unit_source_and_certainty(void **unused)
{
    (void)unused;
    ipu_cost *cost = estimate();
    json_t   *o = as_json(cost, 0), *constants = json_object_get(json_object_get(o, "model"), "constants");
    static const char *const keys[] = {"name", "unit", "source", "certainty"};
    assert_in_range(json_array_size(constants), 20, 100);
    for (size_t i = 0; i < json_array_size(constants); i++)
        for (size_t k = 0; k < 4; k++)
            assert_true(json_string_length(json_object_get(json_array_get(constants, i), keys[k])) > 0);
    json_decref(o);
    ipu_cost_destroy(cost);
}

static void names_that_are_no_utf8_still_make_json(void **unused)
{
    (void)unused;
    ipu_target target;
    ipu_graph *g;
    ipu_cost  *cost;
    assert_int_equal(ipu_target_find("tiny", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(4), "a\xff"),
               y = ipu_graph_clone(g, x, "y");
    ipu_graph_set_tile_mapping(g, x, 0);
    ipu_graph_set_tile_mapping(g, y, 1);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_copy(p, x, y);
    assert_int_equal(ipu_cost_estimate(g, &p, 1, NULL, &cost), IPU_OK);
    json_t       *o    = as_json(cost, 0);
    const json_t *name = json_object_get(json_array_get(json_object_get(o, "steps"), 0), "name");
    assert_string_equal(json_string_value(name), "\"a?\" -> \"y\"");
    json_decref(o);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

static void measured_times_stand_beside_their_steps(void **unused)
{
    (void)unused;
    ipu_cost     *cost    = estimate();
    ipu_cost_step execute = {0}, sync = {0};
    char         *text;
    assert_true(ipu_cost_step_at(cost, 1, &execute) && ipu_cost_step_at(cost, 2, &sync));
    assert_true(execute.program != sync.program); /* the loop's body is a separate sequence */
    ipu_step_time times[] = {{execute.program, execute.step, 30, 0.00006, "execute", "touch",
                              -1}, /* the name of the compute set */
                             {99, 7, 1, 1, "kernel", "conv", 0}};
    assert_int_equal(ipu_cost_set_times(cost, times, 2), IPU_OK);
    assert_true(ipu_cost_step_at(cost, 1, &execute) && ipu_cost_step_at(cost, 2, &sync));
    assert_int_equal(execute.host_runs, 30);
    assert_true(execute.host_seconds == 0.00006);
    assert_int_equal(sync.host_runs, 0);
    assert_int_equal(ipu_cost_print(cost, IPU_PROFILE_STEPS, &text), IPU_OK);
    assert_says(text, "     2.000   execute touch");
    ipu_free(text);
    json_t *o = as_json(cost, 0);
    assert_int_equal(
        integer(json_object_get(json_array_get(json_object_get(o, "steps"), 1), "measured"), "runs"), 30);
    json_decref(o);
    assert_int_equal(ipu_cost_set_times(cost, NULL, 0), IPU_OK);
    assert_true(ipu_cost_step_at(cost, 1, &execute));
    assert_int_equal(execute.host_runs, 0);
    ipu_cost_destroy(cost);
}

/* A single different name means that all places refer to something else. */
static void measured_times_of_another_program_are_listed_apart(void **unused)
{
    (void)unused;
    ipu_cost     *cost    = estimate();
    ipu_cost_step execute = {0};
    ipu_step_time found;
    char         *text;
    assert_true(ipu_cost_step_at(cost, 1, &execute));
    ipu_step_time times[] = {{execute.program, execute.step, 30, 0.00006, "kernel", "conv_max_pool", 0},
                             {99, 7, 2, 0.00002, "copy", "", -1}};
    assert_int_equal(ipu_cost_set_times(cost, times, 2), IPU_OK);
    assert_true(ipu_cost_step_at(cost, 1, &execute));
    assert_int_equal(execute.host_runs, 0);
    assert_true(ipu_cost_host_step_at(cost, 1, &found));
    assert_string_equal(found.kind, "copy");
    assert_false(ipu_cost_host_step_at(cost, 2, &found) || ipu_cost_host_step_at(cost, -1, &found));
    assert_int_equal(ipu_cost_print(cost, IPU_PROFILE_STEPS, &text), IPU_OK);
    assert_says(text, "        30      2.000  75.0% kernel conv_max_pool\n");
    assert_says(text, "         2     10.000  25.0% copy\n");
    ipu_free(text);
    json_t *o = as_json(cost, 0), *listed = json_object_get(o, "host_steps");
    assert_int_equal(json_array_size(listed), 2);
    assert_int_equal(integer(json_array_get(listed, 0), "runs"), 30);
    json_decref(o);
    assert_int_equal(ipu_cost_set_times(cost, NULL, 0), IPU_OK);
    assert_false(ipu_cost_host_step_at(cost, 0, &found));
    ipu_cost_destroy(cost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_opens_with_what_is_modelled_and_what_is_not),
        cmocka_unit_test(the_text_has_totals_memory_and_steps_with_names_and_lines),
        cmocka_unit_test(the_json_has_the_same_numbers),
        cmocka_unit_test(every_constant_has_unit_source_and_certainty),
        cmocka_unit_test(names_that_are_no_utf8_still_make_json),
        cmocka_unit_test(measured_times_stand_beside_their_steps),
        cmocka_unit_test(measured_times_of_another_program_are_listed_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

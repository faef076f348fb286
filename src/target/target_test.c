/* Targets: every constant has its source, the numbers agree with each other, and errors list what exists. */
#include "ipu/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

static ipu_target find(const char *name, int64_t n_ipus)
{
    ipu_target t = {0};
    assert_int_equal(ipu_target_find(name, n_ipus, &t), IPU_OK);
    return t;
}

static double number(const ipu_target *t, const char *name)
{
    ipu_constant c;
    if (ipu_target_constant(t, name, &c) != IPU_OK) fail_msg("%s", ipu_message());
    return c.value;
}

static bool has(const ipu_target *t, const char *name)
{
    ipu_constant c;
    return ipu_target_constant(t, name, &c) == IPU_OK;
}

#define assert_near(found, expected, relative)                                                     \
    do {                                                                                           \
        double f_ = (found), e_ = (expected);                                                      \
        if (!(fabs(f_ - e_) <= (relative)*fabs(e_))) fail_msg("%s is %g, not %g", #found, f_, e_); \
    } while (0)

#define assert_message(part)                                                                 \
    do {                                                                                     \
        if (!strstr(ipu_message(), part)) fail_msg("no \"%s\" in: %s", part, ipu_message()); \
    } while (0)

static bool blank(const char *text) { return !text || !text[strspn(text, " ;,:")]; }

static void every_constant_has_unit_and_source(void **state)
{
    (void)state;
    const char *chip, *summary;
    int         n_chips = 0;
    for (; ipu_target_chip_at(n_chips, &chip, &summary); n_chips++) {
        assert_false(blank(summary));
        ipu_target   t = find(chip, 1);
        ipu_constant c;
        int          n = 0;
        for (; ipu_target_constant_at(&t, n, &c); n++) {
            if (blank(c.name) || blank(c.unit) || blank(c.source) || strlen(c.source) < 6)
                fail_msg("%s: constant %d (%s) lacks a unit or source", chip, n, c.name);
            if (!isfinite(c.value) || c.value <= 0) fail_msg("%s.%s is %g", chip, c.name, c.value);
            if (!strcmp(ipu_certainty_text(c.certainty), "unknown")) fail_msg("%s.%s", chip, c.name);
        }
        assert_in_range(n, 30, 200);
    }
    assert_int_equal(n_chips, 6);
}

static void what_is_defined_is_only_ours(void **state)
{
    (void)state;
    const char *chip, *summary;
    for (int i = 0; ipu_target_chip_at(i, &chip, &summary); i++) {
        ipu_target   t    = find(chip, 1);
        bool         ours = !strncmp(summary, "for tests", 9);
        ipu_constant c;
        for (int k = 0; ipu_target_constant_at(&t, k, &c); k++)
            if ((c.certainty == IPU_CERTAIN_DEFINED) != ours) fail_msg("%s.%s", chip, c.name);
    }
}

static void constants_from_memory_say_so(void **state)
{
    (void)state;
    ipu_constant c;
    ipu_target   bow = find("bow", 1), gc200 = find("gc200", 1);
    assert_int_equal(ipu_target_constant(&bow, "bytes_per_tile", &c), IPU_OK);
    assert_int_equal(c.certainty, IPU_CERTAIN_HIGH);
    assert_int_equal(ipu_target_constant(&gc200, "bytes_per_tile", &c), IPU_OK);
    assert_int_equal(c.certainty, IPU_CERTAIN_READ);
    assert_int_equal(ipu_target_constant(&gc200, "streaming_bytes_per_second", &c), IPU_OK);
    assert_int_equal(c.certainty, IPU_CERTAIN_LOW);
}

static void names_within_a_chip_differ(void **state)
{
    (void)state;
    ipu_target   t = find("c600", 1);
    ipu_constant a, b;
    for (int i = 0; ipu_target_constant_at(&t, i, &a); i++)
        for (int k = 0; k < i && ipu_target_constant_at(&t, k, &b); k++)
            assert_string_not_equal(a.name, b.name);
}

static void chips_have_their_published_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t     tiles, kib;
        double      clock;
    } expected[] = {
        {"gc2", 1216, 256, 1.6e9},  {"gc200", 1472, 624, 1.33e9}, {"c600", 1472, 624, 1.5e9},
        {"bow", 1472, 624, 1.85e9}, {"tiny", 4, 16, 1e9},         {"small", 64, 64, 1e9},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        ipu_target t = find(expected[i].name, 0);
        assert_string_equal(ipu_target_chip_name(&t), expected[i].name);
        assert_int_equal(t.n_ipus, 1);
        assert_int_equal(ipu_target_n_tiles(&t), expected[i].tiles);
        assert_int_equal(ipu_target_bytes_per_tile(&t), expected[i].kib * 1024);
        assert_int_equal(ipu_target_n_workers(&t), 6);
        assert_true(ipu_target_clock_hz(&t) == expected[i].clock);
        if (has(&t, "bytes_per_ipu"))
            assert_true(number(&t, "bytes_per_ipu") == (double)(expected[i].tiles * expected[i].kib * 1024));
    }
}

/* tiles x clock x FLOP/cycle gives the published peak, within 1%. */
static void peaks_follow_from_tiles_clock_and_width(void **state)
{
    (void)state;
    static const struct {
        const char *chip;
        double      half_half, half_float, float_;
    } tflops[] = {{"gc2", 124.5, 124.5, 31.1},
                  {"gc200", 250, 125, 62.4},
                  {"c600", 280, 140, 70},
                  {"bow", 350, 174, 87}};
    for (size_t i = 0; i < sizeof tflops / sizeof *tflops; i++) {
        ipu_target t    = find(tflops[i].chip, 1);
        double     tera = (double)ipu_target_n_tiles(&t) * ipu_target_clock_hz(&t) / 1e12;
        assert_near(number(&t, "peak_half_half"), tflops[i].half_half * 1e12, 1e-9);
        assert_near(number(&t, "peak_half_float"), tflops[i].half_float * 1e12, 1e-9);
        assert_near(number(&t, "peak_float"), tflops[i].float_ * 1e12, 1e-9);
        assert_near(tera * number(&t, "flops_half_half"), tflops[i].half_half, 0.01);
        assert_near(tera * number(&t, "flops_half_float"), tflops[i].half_float, 0.01);
        assert_near(tera * number(&t, "flops_float"), tflops[i].float_, 0.01);
    }
    ipu_target c600 = find("c600", 1);
    assert_near(1472 * 1.5e9 * number(&c600, "flops_quarter_half"), 560e12, 0.01);
}

/* FLOP/cycle = AMP units x inputs / cycles x 2, for every chip and pair of types. */
static void peaks_follow_from_the_amp_units(void **state)
{
    (void)state;
    const char *chip, *summary;
    for (int i = 0; ipu_target_chip_at(i, &chip, &summary); i++) {
        ipu_target t      = find(chip, 1);
        double     half   = 2 * number(&t, "amp_inputs_half") / number(&t, "amp_cycles_half");
        double     single = 2 * number(&t, "amp_inputs_float") / number(&t, "amp_cycles_float");
        assert_near(number(&t, "amp_units_half_half") * half, number(&t, "flops_half_half"), 0);
        assert_near(number(&t, "amp_units_half_float") * half, number(&t, "flops_half_float"), 0);
        assert_near(number(&t, "amp_units_float_float") * single, number(&t, "flops_float"), 0);
        assert_near(number(&t, "amp_inputs_half"),
                    number(&t, "amp_pipeline_depth") * number(&t, "vector_width_half"), 0);
    }
}

static void memory_regions_fill_the_tile(void **state)
{
    (void)state;
    static const char *const mk2[] = {"gc200", "c600", "bow"};
    for (int i = 0; i < 3; i++) {
        ipu_target t = find(mk2[i], 1);
        double exec = number(&t, "memory_executable_bytes"), inter = number(&t, "memory_interleaved_bytes");
        assert_true(exec == 208 * 1024 && inter == 416 * 1024);
        assert_true(exec + inter == (double)ipu_target_bytes_per_tile(&t));
        assert_true(number(&t, "memory_base_address") == 0x4C000);
        assert_true(fmod(exec, number(&t, "memory_element_bytes")) == 0);
    }
    ipu_target gc2 = find("gc2", 1);
    assert_false(has(&gc2, "memory_executable_bytes"));
}

static void bandwidths_follow_from_their_parts(void **state)
{
    (void)state;
    static const char *const names[] = {"gc2", "gc200", "bow"};
    for (int i = 0; i < 3; i++) {
        ipu_target t    = find(names[i], 1);
        double     rate = (double)ipu_target_n_tiles(&t) * ipu_target_clock_hz(&t);
        assert_near(rate * number(&t, "exchange_receive_bytes_per_cycle"),
                    number(&t, "exchange_bytes_per_second"), 0.03);
        assert_near(rate * 24, number(&t, "memory_bytes_per_second"), 0.05);
        assert_near(number(&t, "ipu_links") * number(&t, "ipu_link_bytes_per_second"),
                    number(&t, "ipu_links_bytes_per_second"), 0);
    }
    ipu_target c600 = find("c600", 1);
    assert_near(number(&c600, "ipu_links") * number(&c600, "ipu_link_bytes_per_second"), 64e9, 0);
}

static void systems_are_whole_machines_of_known_chips(void **state)
{
    (void)state;
    ipu_system s;
    int        n = 0;
    for (; ipu_target_system_at(n, &s); n++) {
        if (blank(s.links) || blank(s.source)) fail_msg("%s lacks links or source", s.name);
        ipu_target chip = find(s.chip, 1), t = find(s.name, 0);
        assert_ptr_equal(t.chip, chip.chip);
        assert_int_equal(t.n_ipus, s.n_ipus);
        assert_int_equal(s.n_ipus % s.n_machines, 0);
        assert_int_equal(s.n_ipus & (s.n_ipus - 1), 0);
        if (s.n_ipus >= 4) assert_int_equal(s.n_ipus, 4 * s.n_machines);
    }
    assert_int_equal(n, 12);
    assert_false(ipu_target_system_at(-1, &s));
}

static void names_are_found_in_any_case_and_by_alias(void **state)
{
    (void)state;
    static const struct {
        const char *name, *chip;
        int64_t     n_ipus;
    } expected[] = {
        {"GC200", "gc200", 1},      {"ipu1", "gc2", 1},       {"ipu2", "gc200", 1}, {"IPU21", "c600", 1},
        {"Bow", "bow", 1},          {"POD16", "gc200", 16},   {"pod4", "gc200", 4}, {"M2000", "gc200", 4},
        {"Bow-Pod16", "bow", 16},   {"bow-2000", "bow", 4},   {"C2", "gc2", 2},     {"c600-card", "c600", 1},
        {"bow-pod256", "bow", 256}, {"pod256", "gc200", 256},
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        ipu_target t = find(expected[i].name, 0);
        assert_string_equal(ipu_target_chip_name(&t), expected[i].chip);
        assert_int_equal(t.n_ipus, expected[i].n_ipus);
    }
}

static void several_ipus_have_their_tiles_together(void **state)
{
    (void)state;
    ipu_target four = find("gc200", 4), half = find("pod16", 8), most = find("bow", 256);
    assert_int_equal(ipu_target_n_tiles(&four), 4 * 1472);
    assert_int_equal(ipu_target_n_tiles(&half), 8 * 1472);
    assert_int_equal(ipu_target_n_tiles(&most), 256 * 1472);
}

static void unknown_names_list_what_there_is(void **state)
{
    (void)state;
    ipu_target t = find("tiny", 1);
    assert_int_equal(ipu_target_find("gc300", 1, &t), IPU_NOT_FOUND);
    assert_message("gc300");
    assert_message("gc200");
    assert_message("pod64");
    assert_int_equal(ipu_target_find("", 1, &t), IPU_NOT_FOUND);
    assert_int_equal(ipu_target_find(NULL, 1, &t), IPU_NOT_FOUND);
    assert_string_equal(ipu_target_chip_name(&t), "tiny"); /* a failed call changes nothing */

    ipu_constant c = {.name = "untouched"};
    assert_int_equal(ipu_target_constant(&t, "tile", &c), IPU_NOT_FOUND);
    assert_message("\"tile\"");
    assert_message("bytes_per_tile");
    assert_string_equal(c.name, "untouched");
}

static void a_number_no_one_published_is_not_found(void **state)
{
    (void)state;
    ipu_target   gc2 = find("gc2", 1), c600 = find("c600", 1), gc200 = find("gc200", 1);
    ipu_constant c;
    assert_int_equal(ipu_target_constant(&gc2, "streaming_bytes_per_machine", &c), IPU_NOT_FOUND);
    assert_int_equal(ipu_target_constant(&gc200, "peak_quarter_half", &c), IPU_NOT_FOUND);
    assert_int_equal(ipu_target_constant(&c600, "memory_bytes_per_second", &c), IPU_NOT_FOUND);
    assert_message("c600");
}

/* All names of the largest chip fit in the message. */
static void the_list_of_constants_is_whole(void **state)
{
    (void)state;
    const char *chip, *summary;
    for (int i = 0; ipu_target_chip_at(i, &chip, &summary); i++) {
        ipu_target   t = find(chip, 1);
        ipu_constant c, last = {0};
        for (int k = 0; ipu_target_constant_at(&t, k, &c); k++) last = c;
        assert_int_equal(ipu_target_constant(&t, "none", &c), IPU_NOT_FOUND);
        size_t n = strlen(ipu_message()), m = strlen(last.name);
        assert_true(n > m);
        assert_string_equal(ipu_message() + n - m, last.name);
    }
}

static void wrong_numbers_of_ipus_are_refused(void **state)
{
    (void)state;
    static const int64_t wrong[] = {-1, 3, 6, 100, 512, INT64_MIN, INT64_MAX};
    ipu_target           t;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(ipu_target_find("gc200", wrong[i], &t), IPU_INVALID);
        assert_message("power of two");
    }
    assert_int_equal(ipu_target_find("pod16", 32, &t), IPU_INVALID);
    assert_message("it has 16");
    assert_int_equal(ipu_target_find("pod16", 12, &t), IPU_INVALID);
    for (int64_t n = 1; n <= 256; n *= 2) assert_int_equal(find("small", n).n_ipus, n);
}

static void tiles_can_be_limited_up_to_those_there_are(void **state)
{
    (void)state;
    static const int64_t wrong[] = {0, -1, 1473, INT64_MAX};
    ipu_target           t       = find("gc200", 2);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(ipu_target_limit_tiles(&t, wrong[i]), IPU_INVALID);
        assert_message("1 to 1472");
        assert_int_equal(t.tiles_per_ipu, 1472);
    }
    assert_int_equal(ipu_target_limit_tiles(&t, 10), IPU_OK);
    assert_int_equal(ipu_target_n_tiles(&t), 20);
    assert_int_equal(ipu_target_limit_tiles(&t, 1472), IPU_OK); /* the limit can be lifted again */
    assert_int_equal(ipu_target_n_tiles(&t), 2944);
}

static void a_target_that_was_never_found_has_nothing(void **state)
{
    (void)state;
    ipu_target   t = {0};
    ipu_constant c;
    assert_string_equal(ipu_target_chip_name(&t), "");
    assert_int_equal(ipu_target_n_tiles(&t), 0);
    assert_int_equal(ipu_target_bytes_per_tile(&t), 0);
    assert_int_equal(ipu_target_n_workers(&t), 0);
    assert_true(ipu_target_clock_hz(&t) == 0);
    assert_false(ipu_target_constant_at(&t, 0, &c));
    assert_int_equal(ipu_target_constant(&t, "tiles", &c), IPU_INVALID);
    assert_int_equal(ipu_target_limit_tiles(&t, 1), IPU_INVALID);
}

static void counting_stops_past_the_last(void **state)
{
    (void)state;
    const char  *name, *summary;
    ipu_target   t = find("tiny", 1);
    ipu_constant c;
    assert_false(ipu_target_chip_at(-1, &name, &summary));
    assert_false(ipu_target_chip_at(1000, &name, &summary));
    assert_false(ipu_target_constant_at(&t, -1, &c));
    assert_false(ipu_target_constant_at(&t, 100000, &c));
}

static void certainties_have_texts(void **state)
{
    (void)state;
    assert_string_equal(ipu_certainty_text(IPU_CERTAIN_READ), "read");
    assert_string_equal(ipu_certainty_text(IPU_CERTAIN_LOW), "memory, low");
    assert_string_equal(ipu_certainty_text(IPU_CERTAIN_DEFINED), "defined");
    assert_string_equal(ipu_certainty_text((ipu_certainty)99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_constant_has_unit_and_source),
        cmocka_unit_test(what_is_defined_is_only_ours),
        cmocka_unit_test(constants_from_memory_say_so),
        cmocka_unit_test(names_within_a_chip_differ),
        cmocka_unit_test(chips_have_their_published_sizes),
        cmocka_unit_test(peaks_follow_from_tiles_clock_and_width),
        cmocka_unit_test(peaks_follow_from_the_amp_units),
        cmocka_unit_test(memory_regions_fill_the_tile),
        cmocka_unit_test(bandwidths_follow_from_their_parts),
        cmocka_unit_test(systems_are_whole_machines_of_known_chips),
        cmocka_unit_test(names_are_found_in_any_case_and_by_alias),
        cmocka_unit_test(several_ipus_have_their_tiles_together),
        cmocka_unit_test(unknown_names_list_what_there_is),
        cmocka_unit_test(a_number_no_one_published_is_not_found),
        cmocka_unit_test(the_list_of_constants_is_whole),
        cmocka_unit_test(wrong_numbers_of_ipus_are_refused),
        cmocka_unit_test(tiles_can_be_limited_up_to_those_there_are),
        cmocka_unit_test(a_target_that_was_never_found_has_nothing),
        cmocka_unit_test(counting_stops_past_the_last),
        cmocka_unit_test(certainties_have_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Codelets from source: they run, mistakes are reported, signals and failed allocations do no harm. */
#include "graph/codelet_bench.h"

/* ---- what works ---- */

static void a_source_in_memory_runs(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    ipu_graph_add_codelet_source(g, "twice.c", ONE("Twice", "2 * x"), NULL);
    assert_true(ipu_graph_has_codelet(g, "Twice"));
    assert_float_equal(compute(g, "Twice", 21), 42, 0);
}

static void a_file_runs_with_flags(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    put("scale.c", ONE("Scale", "FACTOR * x"));
    ipu_graph_add_codelet_file(g, in_box("scale.c"), "-DFACTOR=5  -O0 ");
    assert_float_equal(compute(g, "Scale", 3), 15, 0);
}

static void bodies_can_use_libm_and_halves(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    ipu_graph_add_codelet_source(
        g, NULL,
        "#include <math.h>\n" ONE("Round", "ipu_half_to_float(ipu_half_from_float(sqrtf(x))) + "
                                           "ipu_bfloat16_to_float(ipu_bfloat16_from_float(1))"),
        NULL);
    assert_float_equal(compute(g, "Round", 2), 1.4140625f + 1, 0); /* sqrt(2) as a half */
}

static void a_module_tells_its_codelets_and_fields(void **state)
{
    (void)state;
    const ipu_codelet_module *m, *again;
    const char *source = HEAD "#define A(F) F(STATE, int32_t, n) F(IN_VECTORS, ipu_half, rows)\n"
                              "#define B(F)\n"
                              "IPU_MULTI_VERTEX(A_, A) { return v->n == (int)worker && n_workers; }\n"
                              "IPU_VERTEX(B_, B) { (void)v; return true; }\n";
    assert_int_equal(ipu_codelet_load_source("ab", source, NULL, &m), IPU_OK);
    assert_int_equal(m->n_codelets, 2);
    assert_string_equal(m->codelets[0]->name, "A_");
    assert_true(m->codelets[0]->multi);
    assert_int_equal(m->codelets[0]->n_fields, 2);
    assert_string_equal(m->codelets[0]->fields()[1].name, "rows");
    assert_int_equal(m->codelets[0]->fields()[1].form, IPU_FIELD_IN_VECTORS);
    assert_int_equal(m->codelets[0]->fields()[1].type, IPU_HALF);
    assert_string_equal(m->codelets[1]->name, "B_");
    assert_int_equal(m->codelets[1]->n_fields, 0);
    assert_int_equal(ipu_codelet_load_source("ab", source, NULL, &again), IPU_OK);
    assert_ptr_equal(again, m);
}

static void a_compiled_file_is_loaded_as_it_is(void **state)
{
    (void)state;
    put("plus.c", ONE("Plus", "x + 1"));
    assert_int_equal(ipu_codelet_compile(in_box("plus.c"), NULL, in_box("plus.so")), IPU_OK);
    assert_int_equal(ipu_codelet_compile(in_box("plus.so"), NULL, in_box("again.so")), IPU_INVALID);
    setenv("IPU_CC", "/nonexistent/cc", 1);
    ipu_graph *g = new_graph();
    ipu_graph_add_codelet_file(g, in_box("plus.so"), NULL);
    assert_float_equal(compute(g, "Plus", 1), 2, 0);
    g = new_graph();
    ipu_graph_add_codelet_file(g, in_box("plus.so"), "-O2");
    assert_fails(g, IPU_INVALID, "plus.so is compiled already: expected no flags, found \"-O2\"");
    assert_int_equal(truncate(in_box("plus.so"), 1000), 0);
    g = new_graph();
    ipu_graph_add_codelet_file(g, in_box("plus.so"), NULL);
    assert_fails(g, IPU_INVALID, "plus.so: expected C source or what ipu_codelet_compile wrote");
}

/* ---- what is refused ---- */

static void a_compile_error_has_both_lines_and_the_compilers_words(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    char       here[64];
    snprintf(here, sizeof here, "codelet_test.c:%d: ", __LINE__ + 1);
    ipu_graph_add_codelet_source(g, "wrong.c", HEAD "\nint f(void) { return mystery; }\n", NULL);
    assert_non_null(strstr(ipu_graph_message(g), here));
    assert_null(strstr(ipu_graph_message(g), box)); /* none of our paths */
    assert_fails(g, IPU_INVALID,
                 "ipu_graph_add_codelet_source: wrong.c does not compile: ", " ended with status 1:\n",
                 "wrong.c:3:", "mystery");
}

static void a_long_compile_error_is_cut_at_a_line(void **state)
{
    (void)state;
    char source[40000] = HEAD;
    for (int i = 0; i < 1000; i++) sprintf(source + strlen(source), "int a%d = mystery%d;\n", i, i);
    ipu_graph *g = new_graph();
    ipu_graph_add_codelet_source(g, "long.c", source, "-fno-diagnostics-show-caret");
    assert_in_range(strlen(ipu_graph_message(g)), 6000, 9000);
    assert_fails(g, IPU_INVALID, "mystery1", " bytes in all; the rest is left out)");
}

static void missing_things_are_named(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    ipu_graph_add_codelet_file(g, in_box("none.c"), NULL);
    assert_fails(g, IPU_IO, "none.c: No such file");
    g = new_graph();
    ipu_graph_add_codelet_file(g, NULL, NULL);
    assert_fails(g, IPU_INVALID, "expected the path of a C file");
    g = new_graph();
    ipu_graph_add_codelet_source(g, "x", NULL, NULL);
    assert_fails(g, IPU_INVALID, "the source is NULL");
    g = new_graph();
    ipu_graph_add_codelet_source(g, "plain.c", "int f(void);\n", NULL);
    assert_fails(g, IPU_INVALID,
                 "plain.c is no module of codelets: expected a source that includes ipu/codelet.h");
    g = new_graph();
    ipu_graph_add_codelet_source(g, "empty.c", HEAD, NULL);
    assert_fails(g, IPU_INVALID, "empty.c defines no codelets");
    g = new_graph();
    ipu_graph_add_codelet_source(g, "undefined.c", ONE("Undefined", "nowhere(x)"), "-Dnowhere=ipu_nowhere");
    assert_fails(g, IPU_INVALID, "undefined.c does not compile", "ipu_nowhere");
}

static void a_missing_compiler_is_named(void **state)
{
    (void)state;
    setenv("IPU_CC", "/nonexistent/cc -m64", 1);
    ipu_graph *g = new_graph();
    ipu_graph_add_codelet_source(g, "x.c", ONE("X", "x"), NULL);
    assert_fails(g, IPU_UNSUPPORTED, "no C compiler: IPU_CC is \"/nonexistent/cc -m64\"");
    unsetenv("IPU_CC");
    char        path[4096];
    const char *old = getenv("PATH");
    snprintf(path, sizeof path, "%s", old ? old : "/usr/bin:/bin");
    setenv("PATH", box, 1);
    g = new_graph();
    ipu_graph_add_codelet_source(g, "x.c", ONE("X", "x"), NULL);
    setenv("PATH", path, 1);
    assert_fails(g, IPU_UNSUPPORTED, "none of cc, gcc and clang is on PATH: install one");
}

static void a_compiler_that_dies_or_makes_nothing_is_told(void **state)
{
    (void)state;
    put_script("killed", "#!/bin/sh\necho 'half a word' >&2\nkill -9 $$\n");
    put_script("idle", "#!/bin/sh\nexit 0\n");
    setenv("IPU_CC", in_box("killed"), 1);
    ipu_graph *g = new_graph();
    ipu_graph_add_codelet_source(g, "x.c", ONE("X", "x"), NULL);
    assert_fails(g, IPU_INVALID, "was stopped by signal 9:\nhalf a word");
    setenv("IPU_CC", in_box("idle"), 1);
    g = new_graph();
    ipu_graph_add_codelet_source(g, "x.c", ONE("X", "x"), NULL);
    assert_fails(g, IPU_INVALID, "made no file");
}

static void one_name_for_two_bodies_is_an_error(void **state)
{
    (void)state;
    ipu_graph *g = new_graph();
    char       first[64];
    snprintf(first, sizeof first, "codelet_test.c:%d: rename", __LINE__ + 1);
    ipu_graph_add_codelet_source(g, "a.c", ONE("Same", "x"), NULL);
    ipu_graph_add_codelet_source(g, "a.c", ONE("Same", "x"), NULL);
    assert_int_equal(ipu_graph_status(g), IPU_OK);
    ipu_graph_add_codelet_source(g, "b.c", ONE("Same", "x + 1"), NULL);
    assert_non_null(strstr(ipu_graph_message(g), first));
    assert_fails(g, IPU_INVALID, "b.c: there is another codelet called \"Same\", from ");
}

static void a_failed_graph_compiles_nothing(void **state)
{
    (void)state;
    count_runs();
    ipu_graph *g = new_graph();
    ipu_graph_add_codelet_file(g, in_box("none.c"), NULL);
    ipu_graph_add_codelet_source(g, "x.c", ONE("X", "x"), NULL);
    assert_int_equal(runs(), 0);
    assert_fails(g, IPU_IO, "none.c");
}

static void hostile_flags_do_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *flags, *message;
    } cases[] = {
        {"-o pwned; touch pwned", "flag \"-o\""},
        {"-opwned", "flag \"-opwned\""},
        {"; touch pwned", "flag \";\": expected options"},
        {"$(touch pwned)", "flag \"$(touch\": expected options"},
        {"`touch pwned`", "expected options"},
        {"@pwned", "flag \"@pwned\": expected options"},
        {"-MF pwned", "flag \"-MF\""},
        {"-save-temps", "flag \"-save-temps\""},
        {"-x c++", "flag \"-x\""},
        {"-E", "flag \"-E\""},
        {"-", "flag \"-\""},
        {"other.c", "flag \"other.c\": expected options"},
        {"-I", "flag \"-I\": expected a word after it"},
        {"-DX=$(touch${IFS}pwned);`touch${IFS}pwned`", NULL}, /* passed to the compiler as text */
    };
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(box), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ipu_codelet_module *m;
        ipu_status                status = ipu_codelet_load_source("x.c", ONE("X", "x"), cases[i].flags, &m);
        assert_int_equal(status, cases[i].message ? IPU_INVALID : IPU_OK);
        if (cases[i].message && !strstr(ipu_message(), cases[i].message))
            fail_msg("\"%s\": expected \"%s\" in \"%s\"", cases[i].flags, cases[i].message, ipu_message());
        assert_int_not_equal(access("pwned", F_OK), 0);
    }
    assert_int_equal(chdir(here), 0);
}

/* Records written by hand, listed as IPU_VERTEX would. */
static void wrong_records_are_refused(void **state)
{
    (void)state;
#define RECORD(fields, record)                                                                          \
    HEAD "static bool f(void *v, unsigned w, unsigned n) { (void)v; return w < n; }\n"                  \
         "static const ipu_codelet_field *fields(void) { static const ipu_codelet_field l[] = {" fields \
         "}; return l; }\n"                                                                             \
         "static const ipu_codelet r = {" record "};\nIPU_CODELET_LISTED_(r)\n"
    static const struct {
        const char *source, *message;
    } cases[] = {
        {RECORD("{0}", "\"\", f, fields, 0, 8, false"), "has no name"},
        {RECORD("{0}", "\"R\", NULL, fields, 0, 8, false"), "has no body"},
        {RECORD("{0}", "\"R\", f, fields, 1000, 8, false"), "more than 128 fields"},
        {RECORD("{0}", "\"R\", f, NULL, 1, 8, false"), "its fields are missing"},
        {RECORD("{0}", "\"R\", f, fields, 1, 1 << 30, false"), "larger than 1 MiB"},
        {RECORD("{NULL, IPU_FIELD_IN, IPU_FLOAT, 0}", "\"R\", f, fields, 1, 8, false"),
         "a field has no name"},
        {RECORD("{\"x\", 99, IPU_FLOAT, 0}", "\"R\", f, fields, 1, 8, false"), "a form that there is not"},
        {RECORD("{\"x\", IPU_FIELD_IN, 99, 0}", "\"R\", f, fields, 1, 8, false"), "a type that there is not"},
        {RECORD("{\"x\", IPU_FIELD_IN, IPU_FLOAT, 8}", "\"R\", f, fields, 1, 8, false"), "lies outside"},
        {RECORD("{\"x\", IPU_FIELD_IN_VECTOR, IPU_FLOAT, 0}", "\"R\", f, fields, 1, 8, false"),
         "lies outside"},
        {RECORD("{\"x\", IPU_FIELD_STATE, IPU_DOUBLE, 4}", "\"R\", f, fields, 1, 16, false"), "lies outside"},
        {RECORD("{\"x\", IPU_FIELD_IN, IPU_FLOAT, 0}, {\"x\", IPU_FIELD_IN, IPU_FLOAT, 8}",
                "\"R\", f, fields, 2, 16, false"),
         "two fields have one name"},
        {ONE("R",
             "x") "static const ipu_codelet other = {\"R\", R_call, R_fields, 2, 16, false};\nIPU_CODELET_LISTED_(other)\n",
         "two codelets are called \"R\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ipu_codelet_module *m;
        assert_int_equal(ipu_codelet_load_source("r.c", cases[i].source, "-O0", &m), IPU_INVALID);
        if (!strstr(ipu_message(), cases[i].message))
            fail_msg("expected \"%s\" in \"%s\"", cases[i].message, ipu_message());
        assert_null(m);
    }
}

static void modules_for_others_are_refused(void **state)
{
    (void)state;
    const ipu_codelet_module *m;
    const char               *cpu = "-UIPU_CODELET_MODULE -DIPU_CODELET_MODULE=0x4000000000000000ULL";
    assert_int_equal(ipu_codelet_load_source("x.c", ONE("X", "x"), cpu, &m), IPU_UNSUPPORTED);
    assert_non_null(strstr(ipu_message(), "compiled for a CPU with features this version does not know"));
    assert_int_equal(ipu_codelet_load_source("old.c",
                                             "#include <stdint.h>\n__attribute__((visibility(\"default\"))) "
                                             "uint32_t ipu_this_module[32] = {77};\n",
                                             NULL, &m),
                     IPU_UNSUPPORTED);
    assert_non_null(strstr(ipu_message(), "expected a module for version 1 of codelets, found 77"));
}

/* ---- signals, children, memory ---- */

static void on_alarm(int signal) { (void)signal; }

static void signals_do_not_disturb_and_no_child_is_left(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    const ipu_codelet_module *m;
    ipu_status                status = ipu_codelet_load_source("alarm.c", ONE("Alarm", "x"), NULL, &m);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    signal(SIGALRM, SIG_IGN); /* one may still be on its way */
    assert_int_equal(status, IPU_OK);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* ECHILD: none, not even a zombie */
    signal(SIGCHLD, SIG_IGN);
    status            = ipu_codelet_load_source("alarm.c", ONE("Ignored", "x"), NULL, &m);
    ipu_status failed = ipu_codelet_load_source("alarm.c", "wrong", NULL,
                                                &(const ipu_codelet_module *){NULL});
    signal(SIGCHLD, SIG_DFL);
    assert_int_equal(status, IPU_OK);
    assert_int_equal(failed, IPU_INVALID);
}

typedef struct budget {
    int left; /* allocations that succeed */
    int live;
} budget;

static void *limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    budget *b = user;
    (void)old_bytes;
    if (new_bytes == 0) {
        b->live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (b->left-- <= 0) return NULL;
    void *result = realloc(ptr, new_bytes);
    b->live += result && !ptr;
    return result;
}

/* Adds the source with allocation 1, 2, ... failing until none does; returns how many failed. */
static int count_failures(const char *source, bool forget)
{
    for (int n = 0; n < 2000; n++) {
        budget     b = {.left = 1 << 30};
        ipu_status status;
        if (forget) ipu_codelet_clear_cache();
        ipu__alloc_set(limited, &b);
        ipu_graph *g = new_graph();
        b.left       = n;
        ipu_graph_add_codelet_source(g, "memory.c", source, "-I /tmp");
        b.left = 1 << 30;
        status = ipu_graph_status(g);
        ipu_graph_destroy(g);
        ipu__alloc_set(NULL, NULL);
        assert_int_equal(b.live, 0);
        if (status == IPU_OK) return n;
        assert_int_equal(status, IPU_OUT_OF_MEMORY);
    }
    fail_msg("never enough memory");
    return 0;
}

static void refused_memory_is_an_error_and_no_leak(void **state)
{
    (void)state;
    const char               *source = ONE("Memory", "x");
    const ipu_codelet_module *m;
    char                      text[512];
    /* A fast compiler: it hands out what was compiled before. */
    assert_int_equal(ipu_codelet_load_source("memory.c", source, NULL, &m), IPU_OK);
    put("memory.c", source);
    assert_int_equal(ipu_codelet_compile(in_box("memory.c"), NULL, in_box("memory.so")), IPU_OK);
    snprintf(text, sizeof text,
             "#!/bin/sh\nwhile [ \"$1\" != -MF ]; do shift; done; echo 'module: /dev/null' > \"$2\"\n"
             "while [ \"$1\" != -o ]; do shift; done; cp '%s' \"$2\"\n",
             in_box("memory.so"));
    put_script("quick-cc", text);
    setenv("IPU_CC", in_box("quick-cc"), 1);
    assert_in_range(count_failures(source, true), 15, 500);
    unsetenv("IPU_CC");
    assert_int_equal(ipu_codelet_load_source("memory.c", source, "-I /tmp", &m), IPU_OK);
    assert_in_range(count_failures(source, false), 10, 500);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_source_in_memory_runs),
        TEST(a_file_runs_with_flags),
        TEST(bodies_can_use_libm_and_halves),
        TEST(a_module_tells_its_codelets_and_fields),
        TEST(a_compiled_file_is_loaded_as_it_is),
        TEST(a_compile_error_has_both_lines_and_the_compilers_words),
        TEST(a_long_compile_error_is_cut_at_a_line),
        TEST(missing_things_are_named),
        TEST(a_missing_compiler_is_named),
        TEST(a_compiler_that_dies_or_makes_nothing_is_told),
        TEST(one_name_for_two_bodies_is_an_error),
        TEST(a_failed_graph_compiles_nothing),
        TEST(hostile_flags_do_nothing),
        TEST(wrong_records_are_refused),
        TEST(modules_for_others_are_refused),
        TEST(signals_do_not_disturb_and_no_child_is_left),
        TEST(refused_memory_is_an_error_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

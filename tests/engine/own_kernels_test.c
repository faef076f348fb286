/* Graph, cost and engine without the op library: this program's own list of kernels stands for the one of src/kernels.c, so that no op is
 * linked. The layers below op then depend on the record (graph/kernel.h) and on nothing else.
 */
#include "support/machine.h"

#include "engine/cpu/impl.h"
#include "engine/engine.h"
#include "op/op.h"

/* ---- kernels ---- */

static ipu_status check(const ipu__kernel_call *call)
{
    if (call->operand[0].type == IPU_FLOAT && call->operand[1].type == IPU_FLOAT
        && memcmp(&call->operand[0].shape, &call->operand[1].shape, sizeof(ipu_shape)) == 0)
        return IPU_OK;
    return ipu__fail(IPU_INVALID, "twice: expected floats of one shape");
}

static void ref(const ipu__kernel_call *call, void *const *operand)
{
    const float *x = operand[0];
    float       *y = operand[1];
    for (int64_t i = 0; i < call->operand[0].shape.dim[0]; i++) y[i] = 2 * x[i];
}

static double work(const ipu__kernel_call *call) { return (double)call->operand[0].shape.dim[0]; }

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    (void)target;
    *out = (ipu__kernel_plan){
        .n_tiles = 1, .cycles = 100 + 6 * call->operand[0].shape.dim[0], .basis = "a test's"};
    return IPU_OK;
}

/* Implementations of the CPU engine, and of an engine that is not there: what that one's `fits` is told, an int, says which
 * of the two it takes. */
static int n_asked, n_run;

static bool fits_here(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)call, (void)n_parts;
    return machine == ipu__cpu_machine_here();
}

static ipu_status run_here(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    (void)state, (void)scratch, (void)n_parts;
    if (part == 0) ref(call, operand);
    n_run++;
    return IPU_OK;
}

static bool fits_first(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)call, (void)n_parts;
    n_asked++;
    return *(const int *)machine == 1;
}

static bool fits_second(const ipu__kernel_call *call, const void *machine, int n_parts)
{
    (void)call, (void)n_parts;
    n_asked++;
    return *(const int *)machine == 2;
}

typedef struct elsewhere_impl {
    ipu__kernel_impl head;
    int              more[3];
} elsewhere_impl;

static const ipu__cpu_impl  here[]      = {{.head = {"here", fits_here}, .run = run_here}};
static const elsewhere_impl elsewhere[] = {{.head = {"first", fits_first}},
                                           {.head = {"second", fits_second}}};
#define ELSEWHERE                                                                            \
    {                                                                                        \
        .engine = "elsewhere", .first = &elsewhere->head, .bytes = sizeof *elsewhere, .n = 2 \
    }

static const ipu__kernel_operand operands[] = {
    {.name = "x", .access = IPU__ACCESS_READ, .shares = IPU__SHARES_NONE},
    {.name = "y", .access = IPU__ACCESS_WRITE, .shares = IPU__SHARES_NONE},
};
#define TWICE(text, list)                                                                                \
    {                                                                                                    \
        .name = (text), .operands = operands, .n_operands = 2, .check = check, .ref = ref, .work = work, \
        .plan = plan, .implementations = (list)                                                          \
    }
static const ipu__kernel_impls both[]  = {ELSEWHERE, IPU__CPU_IMPLS(here), {.engine = NULL}};
static const ipu__kernel_impls other[] = {ELSEWHERE, {.engine = NULL}};
static const ipu__kernel_def   twice = TWICE("twice", NULL), twice_on_both = TWICE("twice_on_both", both),
                             twice_elsewhere = TWICE("twice_elsewhere", other);

const ipu__kernel_def *const ipu__kernels[] = {&twice, &twice_on_both, &twice_elsewhere, NULL};

/* ---- programs ---- */

static ipu_program make_program(ipu_graph **g, const char *first, const char *second)
{
    *g            = machine_graph(1);
    ipu_tensor x  = machine_variable(*g, IPU_FLOAT, IPU_SHAPE(4), "x"),
               y  = machine_variable(*g, IPU_FLOAT, IPU_SHAPE(4), "y");
    ipu_program p = ipu_program_sequence(*g);
    ipu_program_add_kernel(p, first, NULL, 0, (ipu_tensor[]){x, y}, 2);
    ipu_program_add_kernel(p, second, NULL, 0, (ipu_tensor[]){y, x}, 2);
    return p;
}

static void it_runs(void **state)
{
    (void)state;
    ipu_graph      *g;
    ipu_program     p = make_program(&g, "twice", "twice");
    ipu_executable *exe;
    assert_ok(ipu_executable_compile(g, &p, 1, NULL, &exe));
    for (int i = 0; ipu__engines[i]; i++) {
        ipu_engine *e;
        float       x[4];
        bool        computes = ipu__engines[i] != &ipu__null_engine;
        assert_ok(ipu__engine_create(ipu__engines[i], exe, NULL, NULL, &e));
        assert_ok(ipu_engine_write(e, "x", (float[]){1, 2, 3, 4}, 16));
        assert_ok(ipu_engine_run(e, 0));
        assert_ok(ipu_engine_read(e, "x", x, 16));
        for (int k = 0; k < 4; k++) assert_true(x[k] == (computes ? 4.0f * (float)(k + 1) : 0));
        ipu_engine_destroy(e);
    }
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
}

static const char *chosen(const ipu_engine *e, size_t i)
{
    ipu_engine_kernel found;
    assert_true(ipu_engine_kernel_at(e, i, &found));
    return found.implementation;
}

/* An engine takes its own implementations; where there are only those of another, it runs `ref`. */
static void those_of_another_engine_are_not_chosen(void **state)
{
    (void)state;
    ipu_graph      *g;
    ipu_program     p = make_program(&g, "twice_on_both", "twice_elsewhere");
    ipu_executable *exe;
    ipu_engine     *e;
    float           x[4];
    n_asked = n_run = 0;
    assert_ok(ipu_executable_compile(g, &p, 1, NULL, &exe));
    assert_ok(ipu__engine_create(&ipu__cpu_engine, exe, NULL, NULL, &e));
    assert_string_equal(chosen(e, 0), "here");
    assert_string_equal(chosen(e, 1), "reference");
    assert_ok(ipu_engine_write(e, "x", (float[]){1, 2, 3, 4}, 16));
    assert_ok(ipu_engine_run(e, 0));
    assert_ok(ipu_engine_read(e, "x", x, 16));
    for (int k = 0; k < 4; k++) assert_true(x[k] == 4.0f * (float)(k + 1));
    assert_int_equal(n_run, 1);
    assert_int_equal(n_asked, 0);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_graph_destroy(g);
}

static void an_engine_finds_its_own(void **state)
{
    (void)state;
    const ipu__kernel_call call = {.def = &twice_on_both}, far = {.def = &twice_elsewhere},
                           none = {.def = &twice};
    assert_ptr_equal(ipu__kernel_find_impl(&call, "elsewhere", &(int){1}, 1), &elsewhere[0].head);
    assert_ptr_equal(ipu__kernel_find_impl(&call, "elsewhere", &(int){2}, 1), &elsewhere[1].head);
    assert_null(ipu__kernel_find_impl(&call, "elsewhere", &(int){3}, 1));
    assert_null(ipu__kernel_find_impl(&call, "nowhere", &(int){1}, 1));
    assert_null(ipu__kernel_find_impl(&none, "elsewhere", &(int){1}, 1));
    assert_ptr_equal(ipu__cpu_find_impl(&call, ipu__cpu_machine_here(), 1), &here[0]);
    assert_null(ipu__cpu_find_impl(&far, ipu__cpu_machine_here(), 1));
    assert_int_equal(ipu__cpu_impls_of(&twice_on_both).n, 1);
    assert_int_equal(ipu__cpu_impls_of(&twice_elsewhere).n, 0);
}

static void it_is_priced(void **state)
{
    (void)state;
    ipu_graph  *g;
    ipu_program p = make_program(&g, "twice", "twice");
    ipu_cost   *cost;
    char       *json;
    assert_ok(ipu_cost_estimate(g, &p, 1, NULL, &cost));
    assert_ok(ipu_cost_json(cost, 0, &json));
    assert_non_null(strstr(json, "a test's"));
    ipu_free(json);
    ipu_cost_destroy(cost);
    ipu_graph_destroy(g);
}

static void other_names_are_unknown(void **state)
{
    (void)state;
    ipu_graph      *g = machine_graph(1);
    ipu_tensor      x = machine_variable(g, IPU_FLOAT, IPU_SHAPE(4), "x");
    ipu_program     p = ipu_program_sequence(g);
    ipu_executable *exe;
    ipu_program_add_kernel(p, "twise", NULL, 0, (ipu_tensor[]){x, x}, 2);
    assert_status(ipu_executable_compile(g, &p, 1, NULL, &exe), IPU_NOT_FOUND);
    assert_says("no kernel \"twise\" (did you mean \"twice\"?)");
    ipu_graph_destroy(g);
}

/* Not there unless something else asks for it: a weak reference takes nothing out of an archive. */
extern const ipu__op_def ipu__op_matmul __attribute__((weak));

static void no_op_is_linked(void **state)
{
    (void)state;
    assert_null(&ipu__op_matmul);
    assert_ptr_equal(ipu__kernel_find("twice"), &twice);
    assert_null(ipu__kernel_find("matmul"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_runs),
        cmocka_unit_test(those_of_another_engine_are_not_chosen),
        cmocka_unit_test(an_engine_finds_its_own),
        cmocka_unit_test(it_is_priced),
        cmocka_unit_test(other_names_are_unknown),
        cmocka_unit_test(no_op_is_linked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

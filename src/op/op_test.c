/* Every kernel of kernels.inc: its record is complete, each implementation does what `ref` says on
 * guarded buffers in any number of parts, and its price is positive and grows.
 *
 * A kernel takes part by having cases in the table below; one without fails.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "op/op.h"

/* ---- cases ---- */

typedef struct test_case {
    const char   *kernel;
    ipu_attribute attributes[2]; /* up to the first without a name */
    ipu_shape     shape[3];
} test_case;

#define VALUE(v)                                                 \
    {                                                            \
        {                                                        \
            .name = "value", .kind = IPU_ATTRIBUTE_INT, .i = (v) \
        }                                                        \
    }
#define FLAGS(a, b)                                                    \
    {                                                                  \
        {.name = "transpose_a", .kind = IPU_ATTRIBUTE_INT, .i = (a)},  \
        {                                                              \
            .name = "transpose_b", .kind = IPU_ATTRIBUTE_INT, .i = (b) \
        }                                                              \
    }
#define PRODUCT(m, k, n)          \
    {                             \
        {2, {m, k}}, {2, {k, n}}, \
        {                         \
            2, { m, n }           \
        }                         \
    }
#define PRODUCTS(b, m, k, n)            \
    {                                   \
        {3, {b, m, k}}, {3, {b, k, n}}, \
        {                               \
            3, { b, m, n }              \
        }                               \
    }
#define SAME(...)                                     \
    {                                                 \
        {__VA_ARGS__}, {__VA_ARGS__}, { __VA_ARGS__ } \
    }

static const test_case cases[] = {
    {"fill", VALUE(1), {{0, {0}}}},
    {"fill", VALUE(0), {{1, {0}}}},
    {"fill", VALUE(1), {{1, {1}}}},
    {"fill", VALUE(1), {{3, {3, 5, 7}}}},
    {"fill", VALUE(0), {{2, {64, 65}}}},
    {"fill", VALUE(1), {{2, {129, 1001}}}},
    {"add", {{0}}, SAME(0, {0})},
    {"add", {{0}}, SAME(1, {0})},
    {"add", {{0}}, SAME(1, {1})},
    {"add", {{0}}, SAME(3, {3, 5, 7})},
    {"add", {{0}}, SAME(1, {255})},
    {"add", {{0}}, SAME(1, {256})},
    {"add", {{0}}, SAME(1, {257})},
    {"add", {{0}}, SAME(2, {129, 1001})},
    {"matmul", {{0}}, PRODUCT(1, 1, 1)},
    {"matmul", {{0}}, PRODUCT(0, 3, 4)},
    {"matmul", {{0}}, PRODUCT(3, 4, 0)},
    {"matmul", {{0}}, PRODUCT(3, 0, 4)}, /* a sum of nothing: zeros */
    {"matmul", {{0}}, PRODUCT(3, 5, 7)},
    {"matmul", {{0}}, PRODUCT(1, 300, 1)},
    {"matmul", {{0}}, PRODUCT(9, 33, 257)}, /* one more than a block both ways */
    {"matmul", {{0}}, PRODUCT(64, 784, 128)},
    {"matmul", FLAGS(0, 0), PRODUCT(17, 16, 15)},
    {"matmul", FLAGS(1, 0), {{2, {5, 11}}, {2, {5, 270}}, {2, {11, 270}}}},
    {"matmul", FLAGS(0, 1), {{2, {11, 5}}, {2, {270, 5}}, {2, {11, 270}}}},
    {"matmul", FLAGS(1, 1), {{2, {5, 11}}, {2, {7, 5}}, {2, {11, 7}}}},
    {"matmul", FLAGS(1, 1), {{2, {100, 65}}, {2, {130, 100}}, {2, {65, 130}}}},
    {"matmul", {{0}}, PRODUCTS(0, 2, 3, 4)},
    {"matmul", {{0}}, PRODUCTS(2, 0, 3, 4)},
    {"matmul", {{0}}, PRODUCTS(1, 2, 3, 4)},
    {"matmul", {{0}}, PRODUCTS(2, 9, 6, 5)},  /* fewer matrices than parts: rows of each */
    {"matmul", {{0}}, PRODUCTS(13, 4, 6, 5)}, /* more: whole matrices */
    {"matmul", FLAGS(1, 1), {{3, {2, 6, 9}}, {3, {2, 5, 6}}, {3, {2, 9, 5}}}},
    {"matmul", FLAGS(1, 1), {{3, {8, 6, 9}}, {3, {8, 5, 6}}, {3, {8, 9, 5}}}},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static ipu_kernel_call make_call(const test_case *c, ipu_type type)
{
    ipu_kernel_call call = {.def = ipu__kernel_find(c->kernel), .attributes = c->attributes};
    assert_non_null(call.def);
    while (call.n_attributes < 2 && c->attributes[call.n_attributes].name) call.n_attributes++;
    call.n_operands = call.def->n_operands;
    for (int i = 0; i < call.n_operands; i++) call.operand[i] = (ipu_kernel_value){type, c->shape[i]};
    return call;
}

/* Types a kernel takes, said once more here so that losing one is noticed. */
static bool takes(const char *kernel, ipu_type type)
{
    if (strcmp(kernel, "fill") == 0) return true;
    if (strcmp(kernel, "add") == 0) return type != IPU_BOOL;
    return type == IPU_FLOAT || type == IPU_HALF || type == IPU_DOUBLE || type == IPU_INT32;
}

/* ---- guarded buffers ---- */

enum { RED = 64, RED_BYTE = 0xa5, OLD_BYTE = 0xff }; /* OLD: NaN in every floating type */

typedef struct buffer {
    unsigned char *memory;
    size_t         bytes, total;
} buffer;

static buffer make_buffer(size_t bytes)
{
    buffer b = {.bytes = bytes, .total = RED + (bytes + RED - 1) / RED * RED + RED};
    b.memory = aligned_alloc(RED, b.total);
    assert_non_null(b.memory);
    memset(b.memory, RED_BYTE, b.total);
    memset(b.memory + RED, OLD_BYTE, bytes);
    return b;
}

static void *data(const buffer *b) { return b->memory + RED; }

static void check_guards(const buffer *b, const char *what)
{
    for (size_t i = 0; i < b->total; i++)
        if ((i < RED || i >= RED + b->bytes) && b->memory[i] != RED_BYTE)
            fail_msg("%s: byte %td of a buffer of %zu was written", what, (ptrdiff_t)i - RED, b->bytes);
}

static uint64_t random_bits(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z          = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Floating types: between -2 and 2; others: any bits. */
static void fill_random(const buffer *b, ipu_type type, uint64_t *seed)
{
    size_t size = ipu_type_size(type);
    for (size_t i = 0; i < b->bytes / size; i++) {
        uint64_t bits  = random_bits(seed);
        double   value = (double)(bits >> 40) * 0x1p-22 - 2;
        float    f     = (float)value;
        void    *at    = (char *)data(b) + i * size;
        if (type == IPU_DOUBLE)
            memcpy(at, &value, size);
        else if (type == IPU_FLOAT)
            memcpy(at, &f, size);
        else if (type == IPU_HALF)
            *(ipu_half *)at = ipu_half_from_float(f);
        else if (type == IPU_BFLOAT16)
            *(ipu_bfloat16 *)at = ipu_bfloat16_from_float(f);
        else
            memcpy(at, &bits, size);
    }
}

typedef struct buffers {
    buffer at[3];
    void  *pointer[3];
    int    n;
} buffers;

static buffers make_buffers(const ipu_kernel_call *call, uint64_t seed)
{
    buffers b = {.n = call->n_operands};
    for (int i = 0; i < b.n; i++) {
        const ipu_kernel_value *v = &call->operand[i];
        b.at[i]      = make_buffer((size_t)ipu__op_n_elements(&v->shape) * ipu_type_size(v->type));
        b.pointer[i] = data(&b.at[i]);
        if (call->def->operands[i].access != IPU_ACCESS_WRITE) fill_random(&b.at[i], v->type, &seed);
    }
    return b;
}

static void free_buffers(buffers *b)
{
    for (int i = 0; i < b->n; i++) free(b->at[i].memory);
}

/* ---- running ---- */

static void run_all_parts(const ipu_kernel_call *call, const ipu_kernel_impl *impl, void *const *operand,
                          int n_parts)
{
    void  *state         = NULL;
    size_t scratch_bytes = impl->scratch_bytes ? impl->scratch_bytes(call, n_parts) : 0;
    assert_true(scratch_bytes < (size_t)1 << 30);
    if (impl->prepare) assert_int_equal(impl->prepare(call, n_parts, &state), IPU_OK);
    for (int part = n_parts - 1; part >= 0; part--) {
        buffer scratch = make_buffer(scratch_bytes);
        assert_int_equal(impl->run(call, state, operand, data(&scratch), part, n_parts), IPU_OK);
        check_guards(&scratch, impl->name);
        free(scratch.memory);
    }
    if (impl->release) impl->release(state);
}

/* How far a float product may be from `ref`: k roundings of the sum of the magnitudes. */
static void check_near_product(const ipu_kernel_call *call, const buffers *expected, const buffers *found)
{
    buffers      sizes = make_buffers(call, 0);
    const float *x = data(&expected->at[2]), *y = data(&found->at[2]), *size = data(&sizes.at[2]);
    size_t       n = expected->at[2].bytes / sizeof *x, n_a = expected->at[0].bytes / sizeof *x;
    for (int operand = 0; operand < 2; operand++) {
        const float *from = data(&expected->at[operand]);
        float       *to   = data(&sizes.at[operand]);
        for (size_t i = 0; i < sizes.at[operand].bytes / sizeof *to; i++) to[i] = fabsf(from[i]);
    }
    call->def->ref(call, sizes.pointer);
    const ipu_shape *out   = &call->operand[2].shape;
    size_t           rows  = (size_t)(ipu__op_n_elements(out) / out->dim[out->rank - 1]);
    double           slack = (double)n_a / (double)rows * 0x1p-24;
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)x[i] - (double)y[i]) <= slack * (double)size[i]))
            fail_msg("element %zu: %.9g, expected %.9g within %.3g", i, (double)y[i], (double)x[i],
                     slack * (double)size[i]);
    free_buffers(&sizes);
}

static void check_same(const ipu_kernel_call *call, const char *what, const buffers *expected,
                       const buffers *found)
{
    for (int i = 0; i < expected->n; i++) {
        check_guards(&found->at[i], what);
        bool is_near = call->def->operands[i].access != IPU_ACCESS_READ && strcmp(what, "onednn") == 0;
        if (is_near)
            check_near_product(call, expected, found);
        else
            assert_memory_equal(data(&found->at[i]), data(&expected->at[i]), expected->at[i].bytes);
    }
}

static int check_implementations(const test_case *c, ipu_type type)
{
    static const int parts[]  = {1, 2, 3, 7};
    ipu_kernel_call  call     = make_call(c, type);
    buffers          expected = make_buffers(&call, 1);
    int              n_runs   = 0;
    call.def->ref(&call, expected.pointer);
    for (int i = 0; i < expected.n; i++) check_guards(&expected.at[i], "ref");
    for (int i = 0; i < call.def->n_implementations; i++)
        for (size_t j = 0; j < sizeof parts / sizeof *parts; j++) {
            const ipu_kernel_impl *impl = &call.def->implementations[i];
            if (!impl->fits(&call, ipu__cpu_features(), parts[j])) continue;
            buffers found = make_buffers(&call, 1);
            run_all_parts(&call, impl, found.pointer, parts[j]);
            check_same(&call, impl->name, &expected, &found);
            free_buffers(&found);
            n_runs++;
        }
    free_buffers(&expected);
    return n_runs;
}

/* ---- tests ---- */

static void records_are_complete(void **unused)
{
    (void)unused;
    for (const ipu_kernel_def *const *p = ipu__kernels; *p; p++) {
        const ipu_kernel_def *def = *p;
        assert_true(def->name && *def->name && def->check && def->ref && def->work && def->plan);
        assert_true(def->n_operands >= 1 && def->n_operands <= IPU__MAX_OPERANDS);
        bool writes = false, has_case = false;
        for (int i = 0; i < def->n_operands; i++) {
            const ipu_kernel_operand *operand = &def->operands[i];
            assert_true(operand->name && *operand->name);
            assert_in_range(operand->shares + 1, 0, def->n_operands);
            assert_int_not_equal(operand->shares, i);
            writes |= operand->access != IPU_ACCESS_READ;
        }
        assert_true(writes);
        assert_true(def->n_implementations >= 1);
        for (int i = 0; i < def->n_implementations; i++) {
            const ipu_kernel_impl *impl = &def->implementations[i];
            assert_true(impl->name && impl->fits && impl->run);
            assert_int_equal(impl->prepare != NULL, impl->release != NULL);
        }
        for (size_t i = 0; i < N_CASES; i++) has_case |= strcmp(cases[i].kernel, def->name) == 0;
        if (!has_case) fail_msg("%s has no case here", def->name);
    }
}

static void implementations_do_what_ref_says(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < N_CASES; i++)
        for (int type = 0; type < IPU_N_TYPES; type++) {
            ipu_kernel_call call   = make_call(&cases[i], (ipu_type)type);
            ipu_status      status = call.def->check(&call);
            if (!takes(cases[i].kernel, (ipu_type)type)) {
                assert_int_equal(status, IPU_INVALID);
                assert_non_null(strstr(ipu_message(), ipu_type_name((ipu_type)type)));
                continue;
            }
            if (status != IPU_OK) fail_msg("case %zu: %s", i, ipu_message());
            assert_true(check_implementations(&cases[i], (ipu_type)type) >= 4);
        }
}

static void onednn_does_the_products_of_floats(void **unused)
{
    (void)unused;
    const test_case product = {"matmul", {{0}}, PRODUCT(64, 784, 128)},
                    nothing = {"matmul", {{0}}, PRODUCT(3, 0, 4)};
    ipu_kernel_call call    = make_call(&product, IPU_FLOAT);
    assert_string_equal(call.def->implementations[0].name, "onednn");
    assert_true(call.def->implementations[0].fits(&call, 0, 2));
    call = make_call(&product, IPU_DOUBLE);
    assert_false(call.def->implementations[0].fits(&call, 0, 2));
    call = make_call(&nothing, IPU_FLOAT);
    assert_false(call.def->implementations[0].fits(&call, 0, 2));
}

static void add_may_write_over_either_operand(void **unused)
{
    (void)unused;
    const test_case c = {"add", {{0}}, SAME(1, {777})};
    for (int type = IPU_INT8; type < IPU_N_TYPES; type++)
        for (int over = 0; over < 2; over++) {
            ipu_kernel_call call     = make_call(&c, (ipu_type)type);
            buffers         expected = make_buffers(&call, 5), found = make_buffers(&call, 5);
            assert_true(call.def->operands[over].shares == 2);
            call.def->ref(&call, expected.pointer);
            found.pointer[2] = found.pointer[over];
            run_all_parts(&call, &call.def->implementations[0], found.pointer, 3);
            assert_memory_equal(found.pointer[over], expected.pointer[2], expected.at[2].bytes);
            check_guards(&found.at[over], "add");
            free_buffers(&expected);
            free_buffers(&found);
        }
}

static void parts_cover_everything_once(void **unused)
{
    (void)unused;
    static const int64_t sizes[] = {0, 1, 15, 16, 17, 1000, 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int n_parts = 1; n_parts < 9; n_parts++) {
            int64_t end = 0;
            for (int part = 0; part < n_parts; part++) {
                ipu_interval range = ipu__op_part(sizes[i], 16, part, n_parts);
                assert_int_equal(range.begin, end);
                assert_true(range.end >= range.begin);
                assert_true(range.end % 16 == 0 || range.end == sizes[i]);
                end = range.end;
            }
            assert_int_equal(end, sizes[i]);
        }
}

static void work_counts_operations(void **unused)
{
    (void)unused;
    const test_case add = {"add", {{0}}, SAME(2, {30, 40})}, fill = {"fill", VALUE(1), {{1, {50}}}};
    const test_case product = {"matmul", FLAGS(1, 0), {{3, {2, 5, 3}}, {3, {2, 5, 7}}, {3, {2, 3, 7}}}};
    ipu_kernel_call call    = make_call(&add, IPU_FLOAT);
    assert_true(call.def->work(&call) == 1200);
    call = make_call(&fill, IPU_FLOAT);
    assert_true(call.def->work(&call) == 50);
    call = make_call(&product, IPU_FLOAT);
    assert_true(call.def->work(&call) == 2 * 2 * 3 * 5 * 7);
}

/* ---- prices ---- */

static ipu_kernel_plan plan_of(const test_case *c, ipu_type type, const ipu_target *target)
{
    ipu_kernel_call call = make_call(c, type);
    ipu_kernel_plan plan = {.cycles = -1};
    assert_int_equal(call.def->check(&call), IPU_OK);
    assert_int_equal(call.def->plan(&call, target, &plan), IPU_OK);
    assert_true(plan.basis && strlen(plan.basis) > 20);
    return plan;
}

static ipu_target find_target(const char *name)
{
    ipu_target target;
    assert_int_equal(ipu_target_find(name, 0, &target), IPU_OK);
    return target;
}

static void check_price_grows(const char *kernel, ipu_type type, const ipu_target *target)
{
    int64_t before = 0;
    for (int64_t n = 32; n <= 8192; n *= 4) {
        test_case c = {"", VALUE(1), SAME(2, {n, n})};
        c.kernel    = kernel;
        if (strcmp(kernel, "fill") != 0) c.attributes[0].name = NULL;
        ipu_kernel_plan plan = plan_of(&c, type, target);
        assert_true(plan.cycles >= before && plan.cycles > 0);
        assert_in_range(plan.n_tiles, 1, ipu_target_n_tiles(target));
        assert_true(plan.bytes_received >= 0 && plan.bytes_sent >= 0 && plan.tile_bytes >= 0);
        if (n == 8192) assert_true(plan.cycles > 4 * before);
        before = plan.cycles;
    }
}

static void prices_are_positive_and_grow_on_every_chip(void **unused)
{
    (void)unused;
    const char *chip, *summary;
    for (int i = 0; ipu_target_chip_at(i, &chip, &summary); i++) {
        ipu_target target = find_target(chip);
        for (const ipu_kernel_def *const *def = ipu__kernels; *def; def++)
            for (int type = 0; type < IPU_N_TYPES; type++)
                if (takes((*def)->name, (ipu_type)type))
                    check_price_grows((*def)->name, (ipu_type)type, &target);
    }
}

static void nothing_costs_nothing_and_too_much_does_not_overflow(void **unused)
{
    (void)unused;
    ipu_target      target  = find_target("gc200");
    const test_case nothing = {"matmul", {{0}}, PRODUCT(0, 3, 4)}, none = {"add", {{0}}, SAME(1, {0})};
    const test_case huge = {"matmul", {{0}}, PRODUCT(1 << 23, 1 << 23, 1 << 23)};
    assert_int_equal(plan_of(&nothing, IPU_FLOAT, &target).cycles, 0);
    assert_int_equal(plan_of(&none, IPU_FLOAT, &target).n_tiles, 0);
    assert_true(plan_of(&huge, IPU_FLOAT, &target).cycles > INT64_C(1) << 50);
    assert_true(plan_of(&huge, IPU_DOUBLE, &target).cycles > INT64_C(1) << 50);
}

static void prices_of_add_are_those_of_poplibs(void **unused)
{
    (void)unused;
    ipu_target      target = find_target("gc200");
    const test_case c      = {"add", {{0}}, SAME(1, {1200})};
    assert_int_equal(ipu_target_limit_tiles(&target, 1), IPU_OK);
    assert_int_equal(plan_of(&c, IPU_FLOAT, &target).cycles, 1985);
    assert_int_equal(plan_of(&c, IPU_HALF, &target).cycles, 1067);
    assert_int_equal(plan_of(&c, IPU_INT32, &target).cycles, 11 + 6 * (26 + 200 * 7));
}

static void a_tensor_is_dealt_evenly_to_tiles(void **unused)
{
    (void)unused;
    ipu_target      target = find_target("gc200");
    const test_case c = {"add", {{0}}, SAME(1, {1472 * 100})}, few = {"add", {{0}}, SAME(1, {5})};
    ipu_kernel_plan plan = plan_of(&c, IPU_FLOAT, &target);
    assert_int_equal(plan.n_tiles, 1472);
    assert_int_equal(plan.cycles, 11 + 6 * (29 + 9 * 3)); /* 100 on a tile, 17 for a worker: 9 pairs */
    assert_int_equal(plan_of(&few, IPU_FLOAT, &target).n_tiles, 3);
}

/* ---- memory ---- */

typedef struct heap {
    int until_failure, live;
} heap;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    heap *h = user;
    (void)old_bytes;
    if (new_bytes == 0) {
        h->live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (h->until_failure-- == 0) return NULL;
    h->live += ptr == NULL;
    return realloc(ptr, new_bytes);
}

static void prepare_survives_failed_allocations(void **unused)
{
    (void)unused;
    const test_case product  = {"matmul", {{0}}, PRODUCT(16, 8, 4)};
    int             failures = 0;
    for (bool done = false; !done; failures += !done) {
        ipu_kernel_call        call  = make_call(&product, IPU_FLOAT);
        const ipu_kernel_impl *impl  = &call.def->implementations[0];
        heap                   h     = {.until_failure = failures};
        void                  *state = NULL;
        ipu__alloc_set(failing_alloc, &h);
        ipu_status status = impl->prepare(&call, 2, &state);
        if (status == IPU_OK) impl->release(state);
        ipu__alloc_set(NULL, NULL);
        assert_int_equal(h.live, 0);
        done = status == IPU_OK;
        if (!done) assert_int_equal(status, IPU_OUT_OF_MEMORY);
    }
    assert_true(failures >= 1);
}

static void the_callers_openmp_setting_is_kept(void **unused)
{
    (void)unused;
    const test_case product = {"matmul", {{0}}, PRODUCT(16, 8, 4)};
    ipu_kernel_call call    = make_call(&product, IPU_FLOAT);
    void           *state   = NULL;
    omp_set_num_threads(3);
    (void)call.def->implementations[0].scratch_bytes(&call, 2);
    assert_int_equal(omp_get_max_threads(), 3);
    assert_int_equal(call.def->implementations[0].prepare(&call, 2, &state), IPU_OK);
    assert_int_equal(omp_get_max_threads(), 3);
    call.def->implementations[0].release(state);
    omp_set_num_threads(1);
}

int main(void)
{
    omp_set_num_threads(1); /* as the engine's threads do */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_complete),
        cmocka_unit_test(implementations_do_what_ref_says),
        cmocka_unit_test(onednn_does_the_products_of_floats),
        cmocka_unit_test(add_may_write_over_either_operand),
        cmocka_unit_test(parts_cover_everything_once),
        cmocka_unit_test(work_counts_operations),
        cmocka_unit_test(prices_are_positive_and_grow_on_every_chip),
        cmocka_unit_test(nothing_costs_nothing_and_too_much_does_not_overflow),
        cmocka_unit_test(prices_of_add_are_those_of_poplibs),
        cmocka_unit_test(a_tensor_is_dealt_evenly_to_tiles),
        cmocka_unit_test(prepare_survives_failed_allocations),
        cmocka_unit_test(the_callers_openmp_setting_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

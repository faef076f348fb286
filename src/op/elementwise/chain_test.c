/* Chains: the same bits as their ops one by one, whatever the layout of operands and results; invalid
 * texts. */
#include "op/elementwise/chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/elementwise/chain_parse.h"

static uint64_t state = 1;

static uint64_t random_bits(void)
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    z          = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z          = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int64_t below(int64_t n) { return (int64_t)(random_bits() % (uint64_t)n); }

typedef struct value {
    ipu__kernel_value is;
    void             *data;
    size_t            bytes;
} value;

static value make_value(ipu_type type, ipu_shape shape)
{
    value v = {{type, shape}, NULL, (size_t)ipu__op_n_elements(&shape) * ipu_type_size(type)};
    v.data  = aligned_alloc(64, (v.bytes + 128) / 64 * 64);
    assert_non_null(v.data);
    memset(v.data, 0xa5, (v.bytes + 128) / 64 * 64);
    return v;
}

/* Small numbers of any type, so that nothing overflows and integers are not all alike. */
static void fill_value(const value *v)
{
    int64_t n = ipu__op_n_elements(&v->is.shape);
    for (int64_t i = 0; i < n; i++) {
        double number = (double)(int64_t)below(4001) / 1000 - 2;
        double range[2];
        ipu__integer_range(v->is.type, range);
        if (v->is.type == IPU_BOOL || range[1] > 0) number = (double)below(7);
        if (v->is.type == IPU_BOOL) number = (double)below(2);
        ipu__element_one(IPU__ELEMENT_cast, (const ipu_type[]){IPU_DOUBLE}, 1, NULL,
                         (const void *[]){&number}, v->is.type,
                         (char *)v->data + (size_t)i * ipu_type_size(v->is.type));
    }
}

static void check_end(const value *v)
{
    const unsigned char *end = (const unsigned char *)v->data + v->bytes;
    for (int i = 0; i < 32; i++) assert_int_equal(end[i], 0xa5);
}

/* ---- a random chain ---- */

typedef struct random_chain {
    char  text[4096];
    int   n_in, n_steps, n_out, out[IPU__CHAIN_MAX_OUT];
    value operand[IPU__CHAIN_MAX_IN];
    value result[IPU__CHAIN_MAX_STEPS]; /* of the ops one by one */
} random_chain;

/* A shape that broadcasts to `all`. */
static ipu_shape random_shape(const ipu_shape *all)
{
    int       drop = below(3) ? 0 : (int)below(all->rank + 1);
    ipu_shape s    = {.rank = all->rank - drop};
    for (int d = 0; d < s.rank; d++) s.dim[d] = below(4) ? all->dim[d + drop] : 1;
    return s;
}

static const value *value_of(const random_chain *c, int v)
{
    return v < IPU__CHAIN_MAX_IN ? &c->operand[v] : &c->result[v - IPU__CHAIN_MAX_IN];
}

static int pick(const random_chain *c)
{
    int at = (int)below(c->n_in + 2 * c->n_steps);
    return at < c->n_in ? at : IPU__CHAIN_MAX_IN + (at - c->n_in) / 2;
}

/* The op by its own kernel, in parts. */
static void run_op(ipu__kernel_call *call, const int *in, random_chain *c)
{
    static _Alignas(64) char scratch[1 << 16];
    const ipu__op_def       *op = ipu__op_of(call->def);
    void                    *kernel, *operand[4];
    for (int i = 0; i < op->n_in; i++) operand[i] = value_of(c, in[i])->data;
    value *result     = &c->result[c->n_steps];
    *result           = make_value(call->operand[op->n_in].type, call->operand[op->n_in].shape);
    operand[op->n_in] = result->data;
    call->n_operands  = op->n_in + 1;
    assert_int_equal(ipu__cpu_impls_of(&op->kernel).at->prepare(call, 3, &kernel), IPU_OK);
    for (int part = 0; part < 3; part++)
        ipu__cpu_impls_of(&op->kernel).at->run(call, kernel, operand, scratch, part, 3);
    ipu__cpu_impls_of(&op->kernel).at->release(kernel);
    check_end(result);
    c->n_steps++;
}

static void write_step(random_chain *c, const ipu__kernel_call *call, const int *in)
{
    char *at = c->text + strlen(c->text), *end = c->text + sizeof c->text;
    at += snprintf(at, (size_t)(end - at), "%s", call->def->name);
    if (call->n_attributes && call->attributes->kind == IPU_ATTRIBUTE_TEXT)
        at += snprintf(at, (size_t)(end - at), "(%s=%s)", call->attributes->name, call->attributes->text);
    else if (call->n_attributes)
        at += snprintf(at, (size_t)(end - at), "( %s = %g )", call->attributes->name, call->attributes->f);
    for (int i = 0; i < ipu__op_of(call->def)->n_in; i++) {
        bool is_operand = in[i] < IPU__CHAIN_MAX_IN;
        at += snprintf(at, (size_t)(end - at), " %c%d", is_operand ? 'a' : 't',
                       is_operand ? in[i] : in[i] - IPU__CHAIN_MAX_IN);
    }
    snprintf(at, (size_t)(end - at), "; ");
}

/* One more op on values at hand, if it takes them. */
static void add_step(random_chain *c)
{
    int                in[IPU__MAX_ELEMENT_INPUTS];
    const ipu__op_def *op        = ipu__op_of(ipu__element_kernel((int)below(IPU__N_ELEMENTS)));
    ipu_attribute      attribute = IPU_TEXT_ATTRIBUTE("to", ipu_type_name((ipu_type)below(IPU_N_TYPES)));
    ipu__kernel_call   call      = {.def = &op->kernel, .n_operands = op->n_in, .attributes = &attribute};
    call.n_attributes            = op->n_attributes > 0;
    if (call.n_attributes && op->attributes[0].kind == IPU_ATTRIBUTE_FLOAT)
        attribute = IPU_FLOAT_ATTRIBUTE(op->attributes[0].name, 0.25 * (double)(1 + below(8)));
    for (int i = 0; i < op->n_in; i++) {
        in[i]           = pick(c);
        call.operand[i] = value_of(c, in[i])->is;
    }
    if (op->infer(&call, &call.operand[op->n_in]) != IPU_OK) return;
    write_step(c, &call, in);
    run_op(&call, in, c);
}

static void make_chain(random_chain *c)
{
    static const ipu_shape shapes[] = {{0, {0}},       {1, {3}},         {1, {2500}},        {2, {7, 300}},
                                       {3, {3, 1, 5}}, {3, {2, 40, 13}}, {4, {2, 3, 4, 50}}, {2, {0, 4}}};
    const ipu_type common = (ipu_type[]){IPU_FLOAT, IPU_HALF, IPU_BFLOAT16, IPU_INT32, IPU_BOOL}[below(5)];
    ipu_shape      all    = shapes[below(IPU__COUNT(shapes))];
    *c                    = (random_chain){.n_in = 1 + (int)below(5)};
    for (int i = 0; i < c->n_in; i++) {
        ipu_type type = below(4) ? common : (ipu_type)below(IPU_N_TYPES);
        c->operand[i] = make_value(type, i == 0 ? all : random_shape(&all));
        fill_value(&c->operand[i]);
    }
    int wanted = 1 + (int)below(20);
    for (int tries = 0; c->n_steps < wanted && tries < 2000; tries++) add_step(c);
    assert_true(c->n_steps > 0);
    c->n_out = 1 + (int)below(c->n_steps < IPU__CHAIN_MAX_OUT ? c->n_steps : IPU__CHAIN_MAX_OUT);
    strcat(c->text, "out");
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = (int)below(c->n_steps);
        snprintf(c->text + strlen(c->text), 8, " t%d", c->out[i]);
    }
}

static void free_chain(random_chain *c)
{
    for (int i = 0; i < c->n_in; i++) free(c->operand[i].data);
    for (int i = 0; i < c->n_steps; i++) free(c->result[i].data);
}

/* What the chain gives against the results one by one, which may not be spread yet. */
static void check_results(const random_chain *c, const value *found)
{
    for (int i = 0; i < c->n_out; i++) {
        const value *one  = &c->result[c->out[i]];
        size_t       size = ipu_type_size(one->is.type);
        int64_t      n    = ipu__op_n_elements(&found[i].is.shape);
        assert_int_equal(one->is.type, found[i].is.type);
        for (int64_t k = 0; k < n; k++) {
            int64_t from = ipu__element_source(&found[i].is.shape, &one->is.shape, k);
            if (memcmp((char *)found[i].data + (size_t)k * size, (char *)one->data + (size_t)from * size,
                       size)
                != 0)
                fail_msg("result %d, element %lld of: %s", i, (long long)k, c->text);
        }
        check_end(&found[i]);
    }
}

/* In ranges of odd lengths. `over` >= 0: the first result is written over that operand. */
static void run_chain(const random_chain *c, int over)
{
    ipu__kernel_value in[IPU__CHAIN_MAX_IN], out[IPU__CHAIN_MAX_OUT];
    const void       *from[IPU__CHAIN_MAX_IN] = {0};
    void             *to[IPU__CHAIN_MAX_OUT];
    value             found[IPU__CHAIN_MAX_OUT];
    int               n_out;
    ipu__chain       *chain;
    for (int i = 0; i < c->n_in; i++) in[i] = c->operand[i].is, from[i] = c->operand[i].data;
    assert_int_equal(ipu__chain_infer(c->text, in, c->n_in, out, &n_out), IPU_OK);
    assert_int_equal(n_out, c->n_out);
    for (int i = 0; i < n_out; i++) found[i] = make_value(out[i].type, out[i].shape), to[i] = found[i].data;
    if (over >= 0) {
        memcpy(found[0].data, c->operand[over].data, found[0].bytes);
        from[over] = found[0].data;
    }
    if (ipu__chain_create(c->text, in, c->n_in, &chain) != IPU_OK) fail_msg("%s", ipu_message());
    size_t bytes   = ipu__chain_scratch_bytes(chain);
    char  *scratch = aligned_alloc(64, bytes + 64);
    memset(scratch, 0xa5, bytes + 64);
    int64_t n = ipu__op_n_elements(&out[0].shape), step = 1 + below(3000);
    for (int64_t i = 0; i < n; i += step)
        ipu__chain_run(chain, from, to, i, i + step < n ? i + step : n, scratch);
    for (size_t i = 0; i < 64; i++) assert_int_equal((unsigned char)scratch[bytes + i], 0xa5);
    check_results(c, found);
    for (int i = 0; i < n_out; i++) free(found[i].data);
    free(scratch);
    ipu__chain_destroy(chain);
}

static void a_chain_gives_the_bits_of_its_ops_one_by_one(void **unused)
{
    (void)unused;
    static random_chain c;
    int                 in_place = 0;
    for (int round = 0; round < 400; round++) {
        make_chain(&c);
        run_chain(&c, -1);
        /* the first result over each operand whose memory it could have */
        const value *first = &c.result[c.out[0]];
        for (int i = 0; i < c.n_in; i++)
            if (first->is.type == c.operand[i].is.type
                && c.operand[i].bytes
                       == c.operand[0].bytes / ipu_type_size(c.operand[0].is.type)
                              * ipu_type_size(first->is.type)) {
                run_chain(&c, i);
                in_place++;
            }
        free_chain(&c);
    }
    assert_true(in_place > 100);
}

/* ---- the op ---- */

static void the_op_agrees_with_its_reference(void **unused)
{
    (void)unused;
    static float        a[3000], b[3000], by_ref[2][3000], by_run[2][3000];
    const ipu_attribute program = IPU_TEXT_ATTRIBUTE("program", "mul a0 a1; add t0 a2; abs t1; out t2 t0");
    ipu__kernel_call    call    = {.def = &ipu__op_chain.kernel, .attributes = &program, .n_attributes = 1};
    float               c = 0.25f, none = 0;
    void               *kernel, *ref[16], *run[16];
    for (int i = 0; i < 3000; i++) a[i] = (float)i * 0.01f - 15, b[i] = (float)(i % 7);
    for (int i = 0; i < 16; i++) {
        call.operand[i] = (ipu__kernel_value){IPU_FLOAT, i < 2    ? IPU_SHAPE(3000)
                                                         : i == 2 ? IPU_SCALAR
                                                                  : IPU_SHAPE(0)};
        ref[i] = run[i] = &none;
    }
    ref[0] = run[0] = a, ref[1] = run[1] = b, ref[2] = run[2] = &c;
    call.n_operands = 12;
    assert_int_equal(ipu__op_chain.infer(&call, &call.operand[12]), IPU_OK);
    call.n_operands = 16;
    assert_int_equal(call.def->check(&call), IPU_OK);
    for (int i = 0; i < 2; i++) ref[12 + i] = by_ref[i], run[12 + i] = by_run[i];
    call.def->ref(&call, ref);
    const ipu__cpu_impl *impl    = ipu__cpu_impls_of(call.def).at;
    void                *scratch = aligned_alloc(64, impl->scratch_bytes(&call, 2));
    assert_int_equal(impl->prepare(&call, 2, &kernel), IPU_OK);
    for (int part = 0; part < 2; part++) impl->run(&call, kernel, run, scratch, part, 2);
    impl->release(kernel);
    free(scratch);
    assert_memory_equal(by_ref, by_run, sizeof by_ref);
    assert_true(by_run[0][0] == 0.25f && by_run[1][1] == -14.99f);
}

static void cycles_grow_with_elements_and_instructions(void **unused)
{
    (void)unused;
    const ipu__kernel_value in[] = {{IPU_FLOAT, IPU_SHAPE(4096)}, {IPU_FLOAT, IPU_SHAPE(4096)}};
    ipu_target              target;
    double                  one, two, more;
    const char             *basis;
    assert_int_equal(ipu_target_find("gc200", 0, &target), IPU_OK);
    assert_int_equal(ipu__chain_cycles("add a0 a1; out t0", in, 2, 1200, &target, &one, &basis), IPU_OK);
    assert_int_equal(ipu__chain_cycles("add a0 a1; relu t0; out t1", in, 2, 1200, &target, &two, &basis),
                     IPU_OK);
    assert_int_equal(ipu__chain_cycles("add a0 a1; out t0", in, 2, 2400, &target, &more, &basis), IPU_OK);
    assert_true(one == 1985); /* an addition alone is what PopLibs says */
    assert_true(two > one && two < 2 * one + 200 && more > one);
}

/* ---- bad texts ---- */

static void refuse(const char *text, const char *message)
{
    const ipu__kernel_value in[] = {
        {IPU_FLOAT, IPU_SHAPE(3, 4)}, {IPU_HALF, IPU_SHAPE(4)}, {IPU_FLOAT, IPU_SHAPE(5)}};
    ipu__kernel_value out[IPU__CHAIN_MAX_OUT];
    ipu__chain       *chain;
    int               n_out;
    assert_int_equal(ipu__chain_infer(text, in, 3, out, &n_out), IPU_INVALID);
    assert_string_equal(ipu_message(), message);
    assert_int_equal(ipu__chain_create(text, in, 3, &chain), IPU_INVALID);
    assert_null(chain);
}

static void texts_that_are_no_chains_are_refused(void **unused)
{
    (void)unused;
    refuse("", "chain: expected an op or \"out\" at character 1, found \"\"");
    refuse("relu a0", "chain: expected ; at character 8, found \"\"");
    refuse("relu a0;", "chain: expected an op or \"out\" at character 9, found \"\"");
    refuse("relu a0; out", "chain: expected a result (t0) at character 13, found \"\"");
    refuse("relu a0; out a0", "chain: expected a result (t0) at character 14, found \"a0\"");
    refuse("relu a3; out t0", "chain: a3 at character 6: there are only 3 operands before it");
    refuse("relu t0; out t0", "chain: t0 at character 6: there are only 0 results before it");
    refuse("relu a0; out t1", "chain: t1 at character 14: there are only 1 results before it");
    refuse("relu a99999999999999999999; out t0",
           "chain: a9999 at character 6: there are only 3 operands before it");
    refuse("rely a0; out t0", "chain: \"rely\" at character 1 is not an elementwise op");
    refuse("matmul a0 a0; out t0", "chain: \"matmul\" at character 1 is not an elementwise op");
    refuse("add a0; out t0",
           "chain: expected an operand (a0) or a result (t0) at character 7, found \"; out t0\"");
    refuse("relu(alpha=1) a0; out t0",
           "chain: expected an attribute of the op at character 6, found \"alpha=1) a0; out\"");
    refuse("elu(alpha 1) a0; out t0", "chain: expected = at character 11, found \"1) a0; out t0\"");
    refuse("elu(alpha=x) a0; out t0", "chain: expected a number at character 11, found \"x) a0; out t0\"");
    refuse("elu(alpha=1, alpha=2) a0; out t0",
           "chain: expected each attribute once at character 13, found \" alpha=2) a0; ou\"");
    refuse("elu(alpha=1 a0; out t0", "chain: expected , or ) at character 13, found \"a0; out t0\"");
    refuse("cast(to=quarter) a0; out t0",
           "chain: expected a type at character 9, found \"quarter) a0; out\"");
    refuse("cast a0; out t0", "chain: cast at instruction 0 lacks attribute \"to\"");
    refuse("relu a0; out t0 t0 t0 t0 t0", "chain: more than 4 results");
    refuse("add a0 a1; out t0",
           "chain: instruction 0: add: \"x\" and \"y\" must have one type, found float[3,4] and "
           "half[3,4]: cast one");
    refuse("add a0 a2; out t0", "chain: operand a2 [5] does not broadcast with [3,4]");
    refuse("logical_not a0; out t0",
           "chain: instruction 0: logical_not: \"x\" must be bool, found float[3,4]");
}

static void chains_that_are_too_long_are_refused(void **unused)
{
    (void)unused;
    char text[2048] = "relu a0; ";
    for (int i = 0; i < IPU__CHAIN_MAX_STEPS; i++) strcat(text, "relu t0; ");
    strcat(text, "out t0");
    refuse(text, "chain: more than 64 instructions");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_gives_the_bits_of_its_ops_one_by_one),
        cmocka_unit_test(the_op_agrees_with_its_reference),
        cmocka_unit_test(cycles_grow_with_elements_and_instructions),
        cmocka_unit_test(texts_that_are_no_chains_are_refused),
        cmocka_unit_test(chains_that_are_too_long_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Models written as ONNX: names, values, branches, loops, what is refused; files saved as they were read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ipu/ipu.h"
#include "ipu/nn.h"
#include "onnx/file.h"

static ipu_model *new_model(void)
{
    ipu_model *m;
    assert_int_equal(ipu_model_create(&m), IPU_OK);
    return m;
}

static void want_ok(ipu_status status)
{
    if (status != IPU_OK) fail_msg("%s", ipu_message());
}

static ipu_onnx *written(ipu_model *m, const ipu_onnx_write_options *options)
{
    void     *data;
    size_t    bytes;
    ipu_onnx *file;
    want_ok(ipu_onnx_write_memory(m, options, &data, &bytes));
    want_ok(ipu_onnx_read(data, bytes, NULL, &file));
    ipu_free(data);
    return file;
}

static void want_refused(ipu_model *m, const ipu_onnx_write_options *options, ipu_status status,
                         const char *words)
{
    void  *data;
    size_t bytes;
    assert_int_equal(ipu_onnx_write_memory(m, options, &data, &bytes), status);
    if (!strstr(ipu_message(), words)) fail_msg("expected \"%s\" in \"%s\"", words, ipu_message());
    assert_null(data);
}

/* ---- running both ---- */

static float value_at(size_t input, int64_t i)
{
    return (float)((i * 7 + (int64_t)input * 3) % 11) / 8 - 0.5F;
}

static ipu_engine *engine_of(ipu_model *m)
{
    ipu_target      target;
    ipu_executable *exe;
    ipu_engine     *e;
    want_ok(ipu_target_find("gc200", 1, &target));
    want_ok(ipu_model_compile(m, &target, NULL, &exe));
    want_ok(ipu_engine_create(exe, NULL, &e));
    ipu_executable_release(exe);
    return e;
}

static void fill(ipu_array *a, size_t input)
{
    for (int64_t i = 0; i < ipu_array_n_elements(a); i++) switch (a->type) {
        case IPU_FLOAT: ((float *)a->data)[i] = value_at(input, i); break;
        case IPU_INT32: ((int32_t *)a->data)[i] = (int32_t)(i % 3); break;
        case IPU_BOOL: ((bool *)a->data)[i] = true; break;
        default: fail_msg("no such input in these tests");
        }
}

static ipu_array input_for(ipu_value v, size_t i)
{
    ipu_array a;
    want_ok(ipu_array_create(ipu_value_type(v), ipu_value_shape(v), &a));
    fill(&a, i);
    return a;
}

/* What the file gives for `in` is what the engine of the model gives. */
static void want_same_results(ipu_model *m, ipu_engine *e, ipu_onnx *file, ipu_onnx_value *in)
{
    ipu_onnx_session *s;
    ipu_onnx_value    out[8] = {{0}};
    size_t            n_out  = ipu_model_n_outputs(m);
    want_ok(ipu_onnx_session_create(file, NULL, &s));
    assert_int_equal(ipu_onnx_n_outputs(file), n_out);
    want_ok(ipu_onnx_session_run(s, in, ipu_model_n_inputs(m), out, n_out));
    want_ok(ipu_engine_run(e, 0));
    for (size_t i = 0; i < n_out; i++) {
        const char   *name;
        ipu_value     v = ipu_model_output_at(m, i, &name);
        ipu_array     own;
        ipu_onnx_port port;
        ipu_onnx_output_at(file, i, &port);
        assert_string_equal(port.name, name);
        want_ok(ipu_array_create(ipu_value_type(v), ipu_value_shape(v), &own));
        want_ok(ipu_engine_read(e, name, own.data, ipu_array_bytes(&own)));
        assert_int_equal(out[i].array.type, own.type);
        assert_int_equal(ipu_array_n_elements(&out[i].array), ipu_array_n_elements(&own));
        for (int64_t k = 0; k < ipu_array_n_elements(&own); k++) {
            double a = ipu_array_value(&own, k), b = ipu_array_value(&out[i].array, k);
            if (fabs(a - b) > 1e-5 * (1 + fabs(a)))
                fail_msg("%s[%lld]: %g became %g", name, (long long)k, a, b);
        }
        ipu_array_free(&own);
        ipu_onnx_value_free(&out[i]);
    }
    ipu_onnx_session_destroy(s);
}

static void want_same(ipu_model *m, const ipu_onnx_write_options *options)
{
    ipu_onnx      *file  = written(m, options);
    ipu_engine    *e     = engine_of(m);
    ipu_onnx_value in[8] = {{0}};
    for (size_t i = 0; i < ipu_model_n_inputs(m); i++) {
        ipu_value v = ipu_model_input_at(m, i);
        in[i]       = (ipu_onnx_value){.kind = IPU_ONNX_ARRAY, .array = input_for(v, i)};
        want_ok(ipu_engine_write(e, ipu_value_name(v), in[i].array.data, ipu_array_bytes(&in[i].array)));
    }
    want_same_results(m, e, file, in);
    for (size_t i = 0; i < 8; i++) ipu_onnx_value_free(&in[i]);
    ipu_engine_destroy(e);
    ipu_onnx_close(file);
}

/* ---- models ---- */

/* Parameters with random initial values, a layer of each kind, a loss. */
static ipu_model *network(bool training)
{
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_nn_set_training(m, training);
    ipu_value x      = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4, 2, 6, 6), "images");
    ipu_value labels = ipu_model_input(m, IPU_INT32, IPU_SHAPE(4), "labels");
    ipu_value y      = ipu_nn_batch_norm(m, ipu_nn_conv(m, x, 6, 3, "conv"), "norm");
    y                = ipu_max_pool2d(b, ipu_nn_group_norm(m, ipu_relu(b, y), 3, "groups"), 2);
    y                = ipu_gelu(b, ipu_nn_linear(m, ipu_nn_dropout(m, ipu_flatten(b, y, 1), 0.5), 8, "wide"));
    y                = ipu_nn_linear(m, ipu_nn_layer_norm(m, y, 1, "layer"), 3, "out");
    ipu_model_output(m, ipu_softmax(b, y, 1), "probabilities");
    ipu_value loss = ipu_cross_entropy(b, y, labels);
    ipu_model_output(m, loss, "loss");
    if (training) ipu_nn_train(m, loss, (ipu_nn_optimizer){.kind = IPU_NN_ADAM, .rate = 0.1});
    want_ok(ipu_builder_status(b));
    return m;
}

static void a_network_gives_the_same_results_in_every_opset(void **state)
{
    (void)state;
    ipu_model *m = network(false);
    for (int64_t opset = 13; opset <= 17; opset++) want_same(m, &(ipu_onnx_write_options){.opset = opset});
    want_same(m, NULL);
    ipu_model_destroy(m);
}

static size_t count_nodes(const ipu_onnx *file, const char *op)
{
    ipu_onnx_op_count count;
    for (size_t i = 0; ipu_onnx_op_count_at(file, i, &count); i++)
        if (strcmp(count.name, op) == 0) return count.n;
    return 0;
}

static void norms_of_given_statistics_are_one_node(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_nn_set_training(m, false);
    ipu_value flat  = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4, 3), "flat");
    ipu_value image = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(2, 5, 2, 3), "image");
    ipu_model_output(m, ipu_nn_batch_norm(m, flat, "a"), "y");
    ipu_model_output(m, ipu_nn_batch_norm(m, ipu_relu(b, image), "b"), "z");
    want_same(m, NULL);
    ipu_onnx *file = written(m, NULL);
    assert_int_equal(count_nodes(file, "BatchNormalization"), 2);
    assert_int_equal(count_nodes(file, "Sub"), 0);
    ipu_onnx_close(file);
    ipu_model_destroy(m);
}

/* The same ops, but one of the results between is asked for. */
static void a_norm_of_which_parts_are_used_stays_apart(void **state)
{
    (void)state;
    ipu_model   *m       = new_model();
    ipu_builder *b       = ipu_model_builder(m);
    ipu_value    x       = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(2, 3), "x"), v[4];
    float        start[] = {1, 2, 3};
    for (int i = 0; i < 4; i++) {
        char name[] = {(char)('a' + i), 0};
        v[i]        = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(3), start, name);
    }
    ipu_value scale = ipu_mul(b, ipu_rsqrt(b, ipu_add(b, v[0], ipu_scalar_like(b, x, 0.1))), v[1]);
    ipu_value away  = ipu_sub(b, x, v[2]);
    ipu_model_output(m, ipu_add(b, ipu_mul(b, away, scale), v[3]), "y");
    ipu_model_output(m, away, "z");
    want_same(m, NULL);
    ipu_onnx *file = written(m, NULL);
    assert_int_equal(count_nodes(file, "BatchNormalization"), 0);
    ipu_onnx_close(file);
    ipu_model_destroy(m);
}

static void a_model_that_was_fused_can_be_written(void **state)
{
    (void)state;
    ipu_model *m = network(false);
    want_ok(ipu_model_optimise(m, IPU_PASS_ALL));
    want_same(m, NULL);
    ipu_model_destroy(m);
}

static void inputs_outputs_and_parameters_keep_their_names(void **state)
{
    (void)state;
    ipu_model    *m    = network(true);
    ipu_onnx     *file = written(m, NULL);
    ipu_onnx_port port;
    assert_int_equal(ipu_onnx_n_inputs(file), 2);
    ipu_onnx_input_at(file, 0, &port);
    assert_string_equal(port.name, "images");
    assert_int_equal(port.type, IPU_FLOAT);
    assert_int_equal(port.shape.dim[3], 6);
    ipu_onnx_output_at(file, 1, &port);
    assert_string_equal(port.name, "loss");
    ipu_array a;
    want_ok(ipu_array_create(IPU_FLOAT, IPU_SHAPE(6, 2, 3, 3), &a));
    want_ok(ipu_onnx_set_initializer(file, "conv.weight", &a));
    /* momenta and what random ops draw from are no part of what outputs need */
    const Ipu__GraphProto *g = file->proto->graph;
    for (size_t i = 0; i < g->n_initializer; i++) {
        assert_null(strstr(g->initializer[i]->name, "seed"));
        assert_null(strstr(g->initializer[i]->name, "adam"));
    }
    ipu_array_free(&a);
    ipu_onnx_close(file);
    ipu_model_destroy(m);
}

/* A step of training changes every parameter; the file has what the engine has. */
static void trained_values_come_from_the_engine(void **state)
{
    (void)state;
    ipu_model  *m     = network(true);
    ipu_engine *e     = engine_of(m);
    ipu_value   first = ipu_model_parameter_at(m, 0);
    ipu_array   x = input_for(ipu_model_input_at(m, 0), 0), labels = input_for(ipu_model_input_at(m, 1), 1);
    float       before[6 * 2 * 9], after[6 * 2 * 9];
    assert_int_equal(ipu_value_n_elements(first), 6 * 2 * 9);
    want_ok(ipu_engine_read(e, ipu_value_name(first), before, sizeof before));
    want_ok(ipu_engine_write(e, "images", x.data, ipu_array_bytes(&x)));
    want_ok(ipu_engine_write(e, "labels", labels.data, ipu_array_bytes(&labels)));
    want_ok(ipu_engine_run(e, 0));
    want_ok(ipu_engine_read(e, ipu_value_name(first), after, sizeof after));
    ipu_onnx *drawn = written(m, NULL), *trained = written(m, &(ipu_onnx_write_options){.engine = e});
    for (int k = 0; k < 2; k++) {
        const Ipu__GraphProto *g     = (k ? trained : drawn)->proto->graph;
        bool                   found = false;
        for (size_t i = 0; i < g->n_initializer; i++) {
            if (strcmp(g->initializer[i]->name, ipu_value_name(first)) != 0) continue;
            found = true;
            assert_memory_equal(g->initializer[i]->raw_data.data, k ? after : before, sizeof before);
        }
        assert_true(found);
    }
    assert_memory_not_equal(before, after, sizeof before);
    ipu_onnx_close(drawn);
    ipu_onnx_close(trained);
    ipu_array_free(&x);
    ipu_array_free(&labels);
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
}

static void what_the_options_say_is_in_the_file(void **state)
{
    (void)state;
    static const char *const metadata[] = {"author", "someone", "licence", "MIT"};
    ipu_model               *m          = network(false);
    ipu_onnx                *file       = written(m, &(ipu_onnx_write_options){.opset            = 15,
                                                                               .graph_name       = "small",
                                                                               .doc              = "a network",
                                                                               .domain           = "org.test",
                                                                               .producer         = "the test",
                                                                               .producer_version = "3",
                                                                               .model_version    = 7,
                                                                               .metadata         = metadata,
                                                                               .n_metadata       = 2});
    ipu_onnx_info            info;
    const char              *key, *value;
    ipu_onnx_get_info(file, &info);
    assert_int_equal(info.opset, 15);
    assert_int_equal(info.ir_version, 8);
    assert_int_equal(info.model_version, 7);
    assert_string_equal(info.graph_name, "small");
    assert_string_equal(info.doc, "a network");
    assert_string_equal(info.domain, "org.test");
    assert_string_equal(info.producer, "the test");
    assert_string_equal(info.producer_version, "3");
    assert_int_equal(info.n_metadata, 2);
    ipu_onnx_metadata_at(file, 1, &key, &value);
    assert_string_equal(key, "licence");
    assert_string_equal(value, "MIT");
    ipu_onnx_close(file);
    ipu_model_destroy(m);
}

/* Outputs that no op makes, one value under two names, names that are taken. */
static void outputs_may_be_anything(void **state)
{
    (void)state;
    ipu_model   *m     = new_model();
    ipu_builder *b     = ipu_model_builder(m);
    ipu_value    x     = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(3), "x");
    float        one[] = {1, 2, 3};
    ipu_value    w     = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(3), one, "w");
    ipu_value    y     = ipu_named(b, ipu_add(b, ipu_named(b, ipu_neg(b, x), "same"), w), "same");
    ipu_model_output(m, x, "input again");
    ipu_model_output(m, w, "weight");
    ipu_model_output(m, ipu_constant_value(b, IPU_FLOAT, IPU_SHAPE(2), 4), "constant");
    ipu_model_output(m, y, "first");
    ipu_model_output(m, y, "second");
    ipu_model_output(m, ipu_square(b, y), "same");
    want_same(m, NULL);
    ipu_model_destroy(m);
}

/* ---- branches and loops ---- */

static ipu_model *branching(void)
{
    ipu_model   *m         = new_model();
    ipu_builder *b         = ipu_model_builder(m);
    ipu_value    condition = ipu_model_input(m, IPU_BOOL, IPU_SCALAR, "condition");
    ipu_value    x         = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(2, 3), "x"), two[2], out[2];
    float        weights[] = {1, -2, 3};
    ipu_value    w         = ipu_model_parameter(m, IPU_FLOAT, IPU_SHAPE(3), weights, "w");
    ipu_model_if(m, condition);
    two[0] = ipu_gelu(b, ipu_mul(b, x, w));
    two[1] = x;
    ipu_model_yield(m, two, 2);
    ipu_model_else(m);
    two[0] = ipu_neg(b, x);
    two[1] = w.id ? ipu_add(b, x, w) : x;
    ipu_model_yield(m, two, 2);
    ipu_model_end(m, out, 2);
    ipu_model_output(m, ipu_add(b, out[0], out[1]), "y");
    ipu_model_output(m, out[1], "z");
    want_ok(ipu_builder_status(b));
    return m;
}

static void branches_become_graphs(void **state)
{
    (void)state;
    ipu_model *m = branching();
    want_same(m, NULL);
    want_same(m, &(ipu_onnx_write_options){.opset = 13});
    ipu_model_destroy(m);
}

/* x doubles while its sum is small, with the turn added each time. */
static ipu_model *looping(bool with_end)
{
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(2), "x"), index, inside[2], next[2], after[2];
    ipu_value    carried[] = {x, ipu_relu(b, x)};
    ipu_model_loop(m, 5, IPU_NO_VALUE, carried, 2, inside, &index);
    next[0]         = ipu_add(b, ipu_add(b, inside[0], inside[0]), ipu_cast(b, index, IPU_FLOAT));
    next[1]         = ipu_add(b, inside[1], x);
    ipu_value sum   = ipu_reduce_sum(b, next[0], NULL, 0, false);
    ipu_value go_on = ipu_less(b, sum, ipu_scalar_like(b, sum, 9));
    ipu_model_yield_while(m, with_end ? go_on : IPU_NO_VALUE, next, 2);
    ipu_model_end(m, after, 2);
    ipu_model_output(m, after[0], "y");
    ipu_model_output(m, ipu_neg(b, after[1]), "z");
    want_ok(ipu_builder_status(b));
    return m;
}

static void loops_become_graphs(void **state)
{
    (void)state;
    for (int with_end = 0; with_end < 2; with_end++) {
        ipu_model *m = looping(with_end);
        want_same(m, NULL);
        ipu_model_destroy(m);
    }
}

/* ---- what is refused ---- */

static void all_ops_that_cannot_be_said_are_in_one_message(void **state)
{
    (void)state;
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_INT32, IPU_SHAPE(3), "x");
    ipu_value    y = ipu_bitwise_and(b, ipu_bitwise_not(b, x), ipu_bitwise_not(b, ipu_add(b, x, x)));
    ipu_model_output(m, ipu_shift_left(b, y, x), "y");
    want_refused(m, NULL, IPU_UNSUPPORTED,
                 "3 ops cannot be said in opset 17 of ONNX: bitwise_not, bitwise_and, shift_left");
    want_refused(m, &(ipu_onnx_write_options){.opset = 12}, IPU_UNSUPPORTED, "opset 12: expected 13 to 17");
    want_refused(m, &(ipu_onnx_write_options){.opset = 18}, IPU_UNSUPPORTED, "opset 18: expected 13 to 17");
    ipu_model_destroy(m);
}

static void the_error_of_a_builder_is_said_again(void **state)
{
    (void)state;
    ipu_model *m = new_model();
    ipu_value  x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(3), "x");
    ipu_matmul(ipu_model_builder(m), x, ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(4), "y"));
    want_refused(m, NULL, IPU_INVALID, "matmul");
    ipu_model_destroy(m);
}

static void an_engine_of_another_model_is_an_error(void **state)
{
    (void)state;
    ipu_model  *m = network(false), *other = looping(false);
    ipu_engine *e = engine_of(other);
    want_refused(m, &(ipu_onnx_write_options){.engine = e}, IPU_NOT_FOUND, "conv.weight");
    ipu_engine_destroy(e);
    ipu_model_destroy(m);
    ipu_model_destroy(other);
}

/* ---- files ---- */

static char folder[200];

static const char *in_folder(const char *name)
{
    static char path[4][300];
    static int  next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static int make_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/onnx_write_XXXXXX", base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int drop_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"a.onnx", "a.onnx.data", "b.onnx", "b.onnx.data", "c.onnx"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_folder(names[i]));
    return rmdir(folder);
}

static ipu_model *wide(void)
{
    ipu_model   *m = new_model();
    ipu_builder *b = ipu_model_builder(m);
    ipu_value    x = ipu_model_input(m, IPU_FLOAT, IPU_SHAPE(2, 40), "x");
    ipu_model_output(m, ipu_relu(b, ipu_nn_linear(m, ipu_nn_linear(m, x, 50, "a"), 3, "b")), "y");
    return m;
}

static void want_same_file(ipu_model *m, const char *path)
{
    ipu_onnx      *file;
    ipu_engine    *e  = engine_of(m);
    ipu_onnx_value in = {.kind = IPU_ONNX_ARRAY, .array = input_for(ipu_model_input_at(m, 0), 0)};
    want_ok(ipu_engine_write(e, "x", in.array.data, ipu_array_bytes(&in.array)));
    want_ok(ipu_onnx_open(path, &file));
    want_same_results(m, e, file, &in);
    ipu_onnx_value_free(&in);
    ipu_onnx_close(file);
    ipu_engine_destroy(e);
}

static void data_lie_beside_the_file_if_asked_for(void **state)
{
    (void)state;
    ipu_model *m = wide();
    want_ok(ipu_onnx_write(m, NULL, in_folder("c.onnx")));
    assert_int_equal(access(in_folder("c.onnx.data"), F_OK), -1);
    want_same_file(m, in_folder("c.onnx"));
    want_ok(ipu_onnx_write(m, &(ipu_onnx_write_options){.external = true}, in_folder("a.onnx")));
    assert_int_equal(access(in_folder("a.onnx.data"), F_OK), 0);
    want_same_file(m, in_folder("a.onnx"));
    /* read, saved elsewhere: the data are inside */
    ipu_onnx *file;
    want_ok(ipu_onnx_open(in_folder("a.onnx"), &file));
    want_ok(ipu_onnx_save(file, in_folder("b.onnx")));
    ipu_onnx_close(file);
    unlink(in_folder("a.onnx.data"));
    want_same_file(m, in_folder("b.onnx"));
    ipu_model_destroy(m);
    assert_int_equal(ipu_onnx_open("/nowhere/x.onnx", &file), IPU_IO);
}

static void a_folder_that_is_not_there_is_an_io_error(void **state)
{
    (void)state;
    ipu_model *m = wide();
    assert_int_equal(ipu_onnx_write(m, NULL, in_folder("none/a.onnx")), IPU_IO);
    assert_int_equal(ipu_onnx_write(m, &(ipu_onnx_write_options){.external = true}, in_folder("none/a.onnx")),
                     IPU_IO);
    ipu_model_destroy(m);
}

/* Trained by import, values put back: the rest of the file is as it was. */
static void new_values_go_into_a_file_that_was_read(void **state)
{
    (void)state;
    static const char *const metadata[] = {"kept", "yes"};
    ipu_model               *m          = wide();
    ipu_onnx                *file       = written(m,
                                                  &(ipu_onnx_write_options){.metadata = metadata, .n_metadata = 1, .opset = 14}),
             *again;
    ipu_array bias, wrong;
    want_ok(ipu_array_create(IPU_FLOAT, IPU_SHAPE(3), &bias));
    want_ok(ipu_array_create(IPU_FLOAT, IPU_SHAPE(4), &wrong));
    for (int i = 0; i < 3; i++) ((float *)bias.data)[i] = (float)i + 1;
    want_ok(ipu_onnx_set_initializer(file, "b.bias", &bias));
    want_ok(ipu_onnx_set_initializer(file, "b.bias", &bias));
    assert_int_equal(ipu_onnx_set_initializer(file, "b.bias", &wrong), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "is float[3]; it cannot take float[4]"));
    assert_int_equal(ipu_onnx_set_initializer(file, "b.weights", &bias), IPU_NOT_FOUND);
    want_ok(ipu_onnx_set_metadata(file, "mean", "0.5"));
    want_ok(ipu_onnx_set_metadata(file, "mean", "0.25"));
    want_ok(ipu_onnx_save(file, in_folder("b.onnx")));
    want_ok(ipu_onnx_open(in_folder("b.onnx"), &again));
    ipu_onnx_info info;
    const char   *key, *value;
    ipu_onnx_get_info(again, &info);
    assert_int_equal(info.opset, 14);
    assert_int_equal(info.n_metadata, 2);
    ipu_onnx_metadata_at(again, 0, &key, &value);
    assert_string_equal(key, "kept");
    assert_string_equal(value, "yes");
    ipu_onnx_metadata_at(again, 1, &key, &value);
    assert_string_equal(key, "mean");
    assert_string_equal(value, "0.25");
    const Ipu__GraphProto *g     = again->proto->graph;
    bool                   found = false;
    for (size_t i = 0; i < g->n_initializer; i++) {
        if (strcmp(g->initializer[i]->name, "b.bias") != 0) continue;
        found = true;
        assert_memory_equal(g->initializer[i]->raw_data.data, bias.data, 3 * sizeof(float));
    }
    assert_true(found);
    ipu_array_free(&bias);
    ipu_array_free(&wrong);
    ipu_onnx_close(again);
    ipu_onnx_close(file);
    ipu_model_destroy(m);
}

/* ---- memory ---- */

static struct {
    long left; /* allocations until one fails; -1: none does */
} budget;

static void *counting(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        free(ptr);
        return NULL;
    }
    if (budget.left == 0) return NULL;
    if (budget.left > 0) budget.left--;
    return realloc(ptr, new_bytes);
}

static void memory_that_runs_out_is_an_error_wherever_it_does(void **state)
{
    (void)state;
    budget.left = -1;
    ipu__alloc_set(counting, NULL);
    ipu_model *m = branching();
    for (long n = 0; n < 100000; n += 1 + n / 40) {
        void  *data;
        size_t bytes;
        budget.left       = n;
        ipu_status status = ipu_onnx_write_memory(m, NULL, &data, &bytes);
        budget.left       = -1;
        if (status == IPU_OK) {
            ipu_free(data);
            break;
        }
        assert_int_equal(status, IPU_OUT_OF_MEMORY);
    }
    ipu_model_destroy(m);
    ipu__alloc_set(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_gives_the_same_results_in_every_opset),
        cmocka_unit_test(norms_of_given_statistics_are_one_node),
        cmocka_unit_test(a_norm_of_which_parts_are_used_stays_apart),
        cmocka_unit_test(a_model_that_was_fused_can_be_written),
        cmocka_unit_test(inputs_outputs_and_parameters_keep_their_names),
        cmocka_unit_test(trained_values_come_from_the_engine),
        cmocka_unit_test(what_the_options_say_is_in_the_file),
        cmocka_unit_test(outputs_may_be_anything),
        cmocka_unit_test(branches_become_graphs),
        cmocka_unit_test(loops_become_graphs),
        cmocka_unit_test(all_ops_that_cannot_be_said_are_in_one_message),
        cmocka_unit_test(the_error_of_a_builder_is_said_again),
        cmocka_unit_test(an_engine_of_another_model_is_an_error),
        cmocka_unit_test(data_lie_beside_the_file_if_asked_for),
        cmocka_unit_test(a_folder_that_is_not_there_is_an_io_error),
        cmocka_unit_test(new_values_go_into_a_file_that_was_read),
        cmocka_unit_test(memory_that_runs_out_is_an_error_wherever_it_does),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}

/* Files: what can be asked of them, and what is no ONNX model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ipu/onnx.h"
#include "onnx/make_test.h"

static void expect_refused(bytes b, ipu_status status, const char *because)
{
    ipu_onnx  *file  = (ipu_onnx *)&pool;
    ipu_status found = ipu_onnx_read(b.at, b.n, NULL, &file);
    assert_null(file);
    if (found != status || !strstr(ipu_message(), because))
        fail_msg("expected %d and \"%s\", found %d: %s", status, because, found, ipu_message());
}

static ipu_onnx *open_bytes(bytes b)
{
    ipu_onnx *file;
    if (ipu_onnx_read(b.at, b.n, NULL, &file) != IPU_OK) fail_msg("%s", ipu_message());
    return file;
}

static void a_file_tells_what_it_holds(void **state)
{
    (void)state;
    const bytes body[] = {graph("out t; t = Neg(x); u = Neg(t)", NULL)};
    bytes       extra = JOIN(text(2, "maker"), text(3, "1.2"), text(4, "org"), number(5, 7), text(6, "words"),
                             block(14, join(text(1, "key"), text(2, "value"))), block(14, text(1, "bare")),
                             function("my", "F", 13, "in a; out b; b = Exp(a)"));
    ipu_onnx   *f     = open_bytes(
              model(13,
                    graph("in x float[2,N,?]; in w float[3]; in s seq(int64); in o opt(float[2]);"
                                "const w float[3] 1 2 3; const k int64[2,2] 1 2 3 4; out y double; out z;"
                                "y = Neg(x); z = If(x) then_branch=@0; q = my:F(x); r = Strange(x)",
                          body),
                    extra));
    ipu_onnx_info info;
    ipu_onnx_get_info(f, &info);
    assert_int_equal(info.ir_version, 8);
    assert_int_equal(info.opset, 13);
    assert_string_equal(info.producer, "maker");
    assert_string_equal(info.producer_version, "1.2");
    assert_string_equal(info.domain, "org");
    assert_string_equal(info.graph_name, "g");
    assert_string_equal(info.doc, "words");
    assert_int_equal(info.model_version, 7);
    assert_int_equal(info.n_nodes, 7);
    assert_int_equal(info.n_initializers, 2);
    assert_int_equal(info.n_parameters, 7);
    assert_int_equal(info.parameter_bytes, 3 * 4 + 4 * 8);
    const char *key, *value;
    assert_int_equal(info.n_metadata, 2);
    ipu_onnx_metadata_at(f, 0, &key, &value);
    assert_string_equal(key, "key");
    assert_string_equal(value, "value");
    ipu_onnx_metadata_at(f, 1, &key, &value);
    assert_string_equal(value, "");
    ipu_onnx_close(f);
}

static void ports_tell_types_and_dimensions(void **state)
{
    (void)state;
    ipu_onnx *f = open_bytes(
        model(13,
              graph("in x float[2,N,-5]; in w float[3]; in s seq(int64); in o opt(float[2]);"
                    "in u half; in t string[1]; in v; const w float[3] 1 2 3; out y double[]",
                    NULL),
              none));
    ipu_onnx_port p;
    assert_int_equal(ipu_onnx_n_inputs(f), 6); /* w has a value */
    ipu_onnx_input_at(f, 0, &p);
    assert_string_equal(p.name, "x");
    assert_true(p.kind == IPU_ONNX_ARRAY && p.has_type && p.type == IPU_FLOAT && p.rank == 3
                && !p.is_optional);
    assert_true(p.shape.dim[0] == 2 && p.shape.dim[1] == -1 && p.shape.dim[2] == -1);
    assert_string_equal(p.symbol[1], "N");
    assert_string_equal(p.symbol[2], "");
    ipu_onnx_input_at(f, 1, &p);
    assert_true(p.kind == IPU_ONNX_SEQUENCE && p.type == IPU_INT64 && p.rank == -1);
    ipu_onnx_input_at(f, 2, &p);
    assert_true(p.kind == IPU_ONNX_ARRAY && p.is_optional);
    ipu_onnx_input_at(f, 3, &p);
    assert_true(p.type == IPU_HALF && p.rank == -1);
    ipu_onnx_input_at(f, 4, &p);
    assert_true(p.kind == IPU_ONNX_ARRAY && !p.has_type);
    ipu_onnx_input_at(f, 5, &p);
    assert_true(p.kind == IPU_ONNX_NONE && !p.has_type);
    assert_int_equal(ipu_onnx_n_outputs(f), 1);
    ipu_onnx_output_at(f, 0, &p);
    assert_true(p.type == IPU_DOUBLE && p.rank == 0);
    ipu_onnx_close(f);
}

static void ops_are_counted_in_graphs_within_and_in_functions(void **state)
{
    (void)state;
    const bytes       body[] = {graph("out t; t = Neg(x); u = ai.onnx:Neg(t)", NULL)};
    bytes             extra  = function("my", "F", 13, "in a; out b; b = Exp(a); c = Neg(b)");
    ipu_onnx         *f      = open_bytes(model(13,
                                                graph("in x float; y = Neg(x); z = If(x) then_branch=@0; "
                                                                   "q = my:F(x); r = my:G(x); s = Strange(x)",
                                                      body),
                                                extra));
    ipu_onnx_op_count op;
    size_t            n = 0, known = 0;
    while (ipu_onnx_op_count_at(f, n, &op)) {
        if (strcmp(op.name, "Neg") == 0) assert_int_equal(op.n, 4);
        known += op.is_known;
        n++;
    }
    assert_int_equal(n, 6);
    assert_int_equal(known, 4);
    ipu_onnx_close(f);
}

static void what_is_no_model_is_refused(void **state)
{
    (void)state;
    bytes g = graph("in x float; out y; y = Neg(x)", NULL);
    expect_refused(none, IPU_INVALID, "not an ONNX model");
    expect_refused(number(1, 8), IPU_INVALID, "no graph");
    expect_refused(block(7, g), IPU_INVALID, "no IR version");
    expect_refused(JOIN(number(1, 99), block(7, g)), IPU_UNSUPPORTED, "IR version 99");
    expect_refused(JOIN(number(1, -1), block(7, g)), IPU_UNSUPPORTED, "IR version -1");
    expect_refused(JOIN(number(1, 8), block(7, g)), IPU_INVALID, "operator sets");
    expect_refused(raw("\x89PNG\r\n\x1a\n and so on", 18), IPU_INVALID, "protobuf");
    /* Well formed, but a graph of the wrong kind of field. */
    expect_refused(JOIN(number(1, 8), number(7, 3)), IPU_INVALID, "");
    bytes twice = join(function("my", "F", 13, "in a; out a"), function("my", "F", 13, "in a; out a"));
    expect_refused(model(13, g, twice), IPU_UNSUPPORTED, "defined twice");
    ipu_onnx_close(open_bytes(JOIN(number(1, 2), block(7, g)))); /* the first versions had no operator sets */
}

static void a_file_cut_anywhere_gives_an_error_or_a_model(void **state)
{
    (void)state;
    const bytes body[] = {graph("out t; t = Neg(x)", NULL)};
    bytes       all    = model(13,
                               graph("in x float[2]; const k int64[2] 1 2; "
                                              "out y; y = If(x) then_branch=@0 a=0.5",
                                     body),
                               function("my", "F", 13, "in a; out b; b = Exp(a)"));
    for (size_t n = 0; n < all.n; n++) {
        unsigned char *own = ipu__alloc(n + 1);
        ipu_onnx      *file;
        memcpy(own, all.at, n);
        if (ipu_onnx_read(own, n, NULL, &file) != IPU_OK) assert_true(strlen(ipu_message()) > 0);
        ipu_onnx_close(file);
        ipu__free(own);
    }
}

static void paths_are_read_and_missing_ones_named(void **state)
{
    (void)state;
    char  path[] = "/tmp/ipu-onnx-file-test-XXXXXX";
    int   fd     = mkstemp(path);
    bytes b      = model(13, graph("in x float; out y; y = Neg(x)", NULL), none);
    assert_int_equal(write(fd, b.at, b.n), (ssize_t)b.n);
    close(fd);
    ipu_onnx *file;
    assert_int_equal(ipu_onnx_open(path, &file), IPU_OK);
    ipu_onnx_close(file);
    unlink(path);
    assert_int_equal(ipu_onnx_open(path, &file), IPU_IO);
    assert_null(file);
    assert_non_null(strstr(ipu_message(), path));
    assert_int_equal(ipu_onnx_open("/tmp", &file), IPU_IO);
}

static void many_different_ops_are_counted_quickly(void **state)
{
    (void)state;
    size_t         n = 20000, at = 0;
    unsigned char *data = ipu__arena_alloc(&pool, n * 20);
    for (size_t i = 0; i < n; i++) at += (size_t)snprintf((char *)data + at, 20, "\x0a\x0a\x22\x08%08zu", i);
    ipu_onnx     *f = open_bytes(model(13, (bytes){data, at}, none));
    ipu_onnx_info info;
    ipu_onnx_get_info(f, &info);
    assert_int_equal(info.n_nodes, n);
    ipu_onnx_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_tells_what_it_holds),
        cmocka_unit_test(ports_tell_types_and_dimensions),
        cmocka_unit_test(ops_are_counted_in_graphs_within_and_in_functions),
        cmocka_unit_test(what_is_no_model_is_refused),
        cmocka_unit_test(a_file_cut_anywhere_gives_an_error_or_a_model),
        cmocka_unit_test(paths_are_read_and_missing_ones_named),
        cmocka_unit_test(many_different_ops_are_counted_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}

/* Small files that ask for much: numbers at the ends of their range, work and memory without end. Each gives a model or
 * an error, and a test that takes a minute is killed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/sanitized.h"
#include "ipu/cost.h"
#include "model/model.h"
#include "onnx/run_test.h"

/* What is in `file` is imported, and where `compiles` compiled. Either may fail, but with a sentence. */
static void import_file(bytes file, bool compiles)
{
    ipu_onnx  *opened;
    ipu_model *m      = NULL;
    ipu_status status = ipu_onnx_read(file.at, file.n, NULL, &opened);
    if (status == IPU_OK) {
        ipu_onnx_info info;
        ipu_onnx_get_info(opened, &info);
        ipu_executable *exe = NULL;
        ipu_target      target;
        assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
        status = ipu_onnx_import(opened, NULL, &m);
        if (status == IPU_OK && compiles) status = ipu_model_compile(m, &target, NULL, &exe);
        ipu_executable_release(exe);
        ipu_model_destroy(m);
        ipu_onnx_close(opened);
    }
    if (status != IPU_OK) assert_true(*ipu_message());
}

static void import_small(bytes file) { import_file(file, false); }

/* ---- numbers ---- */

/* Each `#` is replaced by numbers at the ends of their range. */
static const char *const with_numbers[] = {
    "in x float[1,4,2,2]; out y; y = DepthToSpace(x) blocksize=#",
    "in x float[1,0,70368744177664,1]; out y; y = DepthToSpace(x) blocksize=#",
    "in x float[1,1,8,8]; out y; y = SpaceToDepth(x) blocksize=#",
    "in x float[1,70368744177664,0,0]; out y; y = SpaceToDepth(x) blocksize=#",
    "in x float[2,4]; out y; y = Flatten(x) axis=#",
    "in x float[2,4]; out y; y = Transpose(x) perm=[#,0]",
    "in x float[2,4]; out y; y = Concat(x, x) axis=#",
    "in x float[2,4]; const k int64[1] #; out y; y = Reshape(x, k)",
    "in x float[2,4]; const k int64[1] #; out y; y = Unsqueeze(x, k)",
    "in x float[2,4]; const k int64[1] #; out y; y = Squeeze(x, k)",
    "in x float[2,4]; const k int64[1] #; out y; y = Expand(x, k)",
    "in x float[2,4]; const k int64[2] 1 #; out y; y = Tile(x, k)",
    "in x float[2,4]; const k int64[1] #; out y; y = ConstantOfShape(k)",
    "in x float[2,4]; const a int64[1] #; const b int64[1] 3; out y; y = Slice(x, a, b)",
    "in x float[2,4]; const a int64[1] 0; const b int64[1] #; out y; y = Slice(x, a, b)",
    "in x float[2,4]; const a int64[1] 1; const b int64[1] 0; const c int64[1] #; out y; y = Slice(x, b, a, b, c)",
    "in x float[2,4]; const k int64[2] # 1; out y; y z = Split(x, k) axis=1",
    "in x float[2,4]; const k int64[4] 0 # 0 1; out y; y = Pad(x, k)",
    "in x float[2,4]; const k int64[4] 0 0 # 0; out y; y = Pad(x, k) mode='edge'",
    "in x float[2,4]; const k int64[4] 0 # 0 #; out y; y = Pad(x, k) mode='reflect'",
    "in x float[2,4]; const k int64[4] 0 # 0 #; out y; y = Pad(x, k) mode='wrap'",
    "in x float[2,4]; const k int64[1] #; out y; y i = TopK(x, k)",
    "in x float[2,4]; const k int64[] #; out y; y = Trilu(x, k)",
    "in x float[2,4]; out y; y = EyeLike(x) k=#",
    "in x int64[2,4]; const k int64[] #; const v float[2] 0 1; out y; y = OneHot(x, k, v)",
    "in x float[2,4]; const a int64[] 0; const b int64[] #; const c int64[] 1; out y; y = Range(a, b, c)",
    "in x float[2,4]; const a int64[] 0; const b int64[] 9; const c int64[] #; out y; y = Range(a, b, c)",
    "in x float[2,4]; const k int64[] #; out y; s = SplitToSequence(x, k); y = SequenceAt(s, k)",
    "in x float[2,4]; const k int64[] #; out y; s = SequenceConstruct(x, x); y = SequenceAt(s, k)",
    ("in x float[2,4]; const k int64[] #; out y; s = SequenceConstruct(x, x); t = SequenceErase(s, k); y = "
     "SequenceLength(t)"),
    ("in x float[2,4]; const k int64[] #; out y; s = SequenceConstruct(x); t = SequenceInsert(s, x, k); y = "
     "SequenceLength(t)"),
    "in x float[1,4,5]; out y; y = MaxPool(x) kernel_shape=[#]",
    "in x float[1,4,5]; out y; y = MaxPool(x) kernel_shape=[2] strides=[#] auto_pad='SAME_UPPER'",
    "in x float[1,4,5]; out y; y = AveragePool(x) kernel_shape=[2] pads=[#,#] ceil_mode=1",
    "in x float[1,4,5]; out y; y = LpPool(x) kernel_shape=[2] dilations=[#] p=#",
    ("in x float[1,1,2]; in i int64[1,1,2]; const k int64[3] 1 1 #; out y; y = MaxUnpool(x, i, k) kernel_shape=[2] "
     "strides=[2]"),
    "in x float[1,4,5]; in w float[4,4,3]; out y; y = Conv(x, w) group=#",
    "in x float[1,4,5]; in w float[4,4,3]; out y; y = Conv(x, w) dilations=[#] pads=[1,1]",
    "in x float[1,4,5]; in w float[4,4,3]; out y; y = ConvTranspose(x, w) output_padding=[#] strides=[#]",
    "in x float[1,4,5]; in w float[4,4,3]; out y; y = ConvTranspose(x, w) output_shape=[#] group=#",
    "in x float[1,4,5]; in s float[4]; out y; y = GroupNormalization(x, s, s) num_groups=#",
    "in x float[1,4,5]; out y; y = LRN(x) size=#",
    ("in x float[1,4,5,5]; in r float[1,4]; in i int64[1]; out y; y = RoiAlign(x, r, i) output_height=# "
     "sampling_ratio=#"),
    "in x float[1,4,5,5]; const k int64[4] 1 4 # 2; out y; y = Resize(x, -, -, k)",
    "in x float[1,4,5,5]; const k float[4] 1 1 # 1; out y; y = Resize(x, -, k)",
    "in x float[1,16,1]; const k int64[] #; out y; y = DFT(x, k) axis=1",
    "in x float[1,16,1]; const k int64[] #; const l int64[] 4; out y; y = STFT(x, k, -, l)",
    "in x float[1,16,1]; const k int64[] 2; const l int64[] #; out y; y = STFT(x, k, -, l)",
    "const k int64[] #; out y; y = HannWindow(k)",
    ("const a int64[] 4; const b int64[] #; const c float[] 9; const d float[] 1; out y; y = MelWeightMatrix(a, b, b, "
     "d, c)"),
    "out y; y = RandomNormal() shape=[#,2]",
    "out y; y = RandomUniform() dtype=# shape=[2]",
    "in x float[2,4]; out y; y = Multinomial(x) sample_size=#",
    "in x float[2,4]; in i int64[2,1]; out y; y = GatherND(x, i) batch_dims=#",
    "in x float[2,4]; in i int64[2,1]; out y; y = Gather(x, i) axis=#",
    "in x float[1,4,2]; in s int64[1]; out y; y = ReverseSequence(x, s) time_axis=# batch_axis=#",
    "in x float[2,4]; out y; y = Shape(x) start=# end=#",
    "in x float[2,4]; const k int64[] #; out y; y = CumSum(x, k)",
    "in x float[2,4]; in t int64[2]; out y; y = NegativeLogLikelihoodLoss(x, t) ignore_index=#",
    ("in x int64[8]; out y; y = TfIdfVectorizer(x) mode='TF' min_gram_length=# max_gram_length=# max_skip_count=# "
     "pool_int64s=[1,2] ngram_counts=[0,#] ngram_indexes=[0,#]"),
    "in x float[1,3,4]; in w float[1,8,4]; in r float[1,8,2]; out y; y h c = LSTM(x, w, r) hidden_size=#",
    ("in x float[1,3,4]; in b float[1,2,4]; in s float[1,1,2]; const k int64[1] #; out y; y = "
     "NonMaxSuppression(b, s, k)"),
    "in x float[2,4]; out y; y = ArgMax(x) axis=#",
    "in x float[2,4]; const k int64[1] #; out y; y = ReduceSum(x, k)",
    "in x float[2,4]; out y; y = Softmax(x) axis=#",
    "in x int64[2]; const k int64[2] # 0; out y; y = Div(k, k)",
    "in x int64[2]; const a int64[] -9223372036854775808; const k int64[] #; out y; t = Div(a, k); y = Mod(a, k)",
    "in x uint64[2]; const k uint64[1] #; out y; y = BitShift(x, k) direction='LEFT'",
    "const k int64[2] 4 #; out y; y = BlackmanWindow(k)",
    ("const f float[1,12,4] 0; in x float[1,12,4]; const a int64[2] 3 #; const b int64[2] 2 2; out y; y = "
     "Col2Im(x, a, b)"),
};

static const char *with_number(const char *source, const char *number_text, char *out, size_t size)
{
    size_t n = 0;
    for (; *source && n + 1 < size; source++) {
        if (*source == '#')
            n += (size_t)snprintf(out + n, size - n, "%s", number_text);
        else
            out[n++] = *source;
    }
    out[n] = 0;
    return out;
}

static void numbers_at_the_ends_of_their_range_are_refused_or_taken(void **state)
{
    static const char *const numbers[] = {"-9223372036854775808",
                                          "-4294967296",
                                          "-2",
                                          "-1",
                                          "0",
                                          "1",
                                          "32769",
                                          "65536",
                                          "2147483647",
                                          "4294967296",
                                          "4611686018427387904",
                                          "9223372036854775807"};
    (void)state;
    for (size_t i = 0; i < sizeof with_numbers / sizeof *with_numbers; i++)
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            for (int version = 13; version <= 18; version += 5) {
                char source[800];
                with_number(with_numbers[i], numbers[k], source, sizeof source);
                import_small(model(version, graph(source, NULL), none));
                ipu__arena_fini(&pool);
            }
}

/* Each op on a tensor without elements whose other dimensions cannot be multiplied. */
static const char *const on_nothing[] = {
    "y = Flatten(x) axis=1",
    "y = Flatten(x) axis=3",
    "y = Transpose(x)",
    "y = Identity(x)",
    "y = Size(x)",
    "y = Shape(x)",
    "y = Concat(x, x) axis=1",
    "y = Concat(x, x) axis=2",
    "y = Relu(x)",
    "y = Add(x, x)",
    "y = MatMul(x, x)",
    "y = Softmax(x) axis=1",
    "y = LogSoftmax(x) axis=2",
    "y = ReduceSum(x)",
    "y = ReduceMax(x) axes=[0]",
    "y = ReduceMean(x) axes=[1]",
    "y = ArgMax(x) axis=1",
    "y = CumSum(x, k)",
    "y = TopK(x, k)",
    "y = Gather(x, k) axis=1",
    "y = GatherElements(x, k)",
    "y = Unsqueeze(x, k)",
    "y = Expand(x, k)",
    "y = Reshape(x, k)",
    "y = Split(x) axis=1",
    "y = NonZero(x)",
    "y = Unique(x)",
    "y = OneHot(x, k, x)",
    "y = Where(x, x, x)",
    "y = Cast(x) to=11",
    "y = Einsum(x) equation='abc->cb'",
    "y = MaxPool(x) kernel_shape=[2]",
    "y = AveragePool(x) kernel_shape=[2]",
    "y = GlobalMaxPool(x)",
    "y = LRN(x) size=3",
    "y = InstanceNormalization(x, x, x)",
    "y = LayerNormalization(x, k) axis=1",
    "y = LpNormalization(x) axis=1",
    "y = MeanVarianceNormalization(x)",
    "y = Conv(x, x)",
    "y = ConvTranspose(x, x)",
    "y = Trilu(x)",
    "y = Det(x)",
    "y = DFT(x) axis=1",
    "y = ReverseSequence(x, k)",
    "y = Hardmax(x) axis=1",
    "y = SplitToSequence(x) axis=1",
    "y = RNN(x, x, x)",
    "y = LSTM(x, x, x)",
    "y = QuantizeLinear(x, x)",
    "y = DequantizeLinear(x, x)",
    "y = BatchNormalization(x, x, x, x, x)",
    "y = ScatterElements(x, k, x)",
    "y = ScatterND(x, k, x)",
    "y = GatherND(x, k)",
    "y = Compress(x, k)",
    "y = EyeLike(x)",
    "y = Pad(x, k)",
    "y = Tile(x, k)",
    "y = Slice(x, k, k)",
    "y = Resize(x, -, -, k)",
    "y = Multinomial(x)",
    "y = RandomNormalLike(x)",
    "y = DepthToSpace(x) blocksize=2",
    "y = Gemm(x, x)",
    "y = Dropout(x)",
    "y = SoftmaxCrossEntropyLoss(x, k)",
    "y = NegativeLogLikelihoodLoss(x, k)",
};

static void tensors_without_elements_are_taken_or_refused(void **state)
{
    static const char *const shapes[] = {"0,4611686018427387904,4", "70368744177664,70368744177664,0",
                                         "70368744177664,0,70368744177664", "4611686018427387904,0",
                                         "0,70368744177664,70368744177664,3"};
    (void)state;
    for (size_t i = 0; i < sizeof on_nothing / sizeof *on_nothing; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
            for (int version = 12; version <= 18; version += 5) {
                char source[400];
                snprintf(source, sizeof source, "in x float[%s]; const k int64[1] 1; out y; %s", shapes[k],
                         on_nothing[i]);
                import_file(model(version, graph(source, NULL), none), true);
                ipu__arena_fini(&pool);
            }
}

static void blocks_whose_square_cannot_be_counted_are_refused(void **state)
{
    (void)state;
    const ipu_onnx_value x[] = {FLOATS(IPU_SHAPE(1, 1, 1, 1), 1)};
    expect_error(
        model(13, graph("in x float[1,1,1,1]; out y; y = DepthToSpace(x) blocksize=4294967296", NULL), none),
        x, 1, IPU_INVALID, "blocksize is 4294967296; expected 1 to 32768");
    expect_error(model(13, graph("in x float[1,1,1,1]; out y; y = SpaceToDepth(x) blocksize=0", NULL), none),
                 x, 1, IPU_INVALID, "blocksize is 0; expected 1 to 32768");
    import_small(
        model(13, graph("in x float[1,70368744177664,0,0]; out y; y = SpaceToDepth(x) blocksize=32768", NULL),
              none));
    if (!strstr(ipu_message(), "node 1 (SpaceToDepth)")) fail_msg("%s", ipu_message());
    expect_error(
        model(13, graph("in x float[1,1,1,1]; out y; y = Transpose(x) perm=[4294967296,1,2,3]", NULL), none),
        x, 1, IPU_INVALID, "perm has 4294967296; expected 0 to 3");
}

/* ---- work ---- */

static ipu_model *imported(bytes file)
{
    ipu_onnx  *opened;
    ipu_model *m;
    if (ipu_onnx_read(file.at, file.n, NULL, &opened) != IPU_OK) fail_msg("%s", ipu_message());
    if (ipu_onnx_import(opened, NULL, &m) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_onnx_close(opened);
    return m;
}

static size_t count_ops(const ipu_model *m, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < m->ops.n; i++)
        n += !m->ops.at[i].dead && m->ops.at[i].kind == IPU__MODEL_OP
          && strcmp(m->ops.at[i].def->kernel.name, name) == 0;
    return n;
}

static size_t count_constants(const ipu_model *m)
{
    size_t n = 0;
    for (size_t i = 1; i < m->values.n; i++) n += m->values.at[i].kind == IPU__VALUE_CONSTANT;
    return n;
}

#define RANGE "const a int64[] 0; const b int64[] 1048576; const s int64[] 1; r = Range(a, b, s); "

static void what_takes_long_is_left_to_the_run(void **state)
{
    (void)state;
    const bytes sorted = graph(RANGE "const k int64[1] 1048576; out y; v y = TopK(r, k)", NULL);
    ipu_model  *m      = imported(model(17, sorted, none));
    assert_int_equal(ipu_model_optimise(m, IPU_PASS_ALL), IPU_OK);
    assert_int_equal(count_ops(m, "topk"), 1);
    ipu_model_destroy(m);
    const char *decides = "in x float[2]; " RANGE "const k int64[1] 1048576; const axis int64[1] 0; out y; "
                          "v i = TopK(r, k); m = ReduceMin(i) keepdims=0; t = Unsqueeze(m, axis); "
                          "y = Reshape(x, t)";
    const ipu_onnx_value x = FLOATS(IPU_SHAPE(2), 1, 2);
    expect_error(model(17, graph(decides, NULL), none), &x, 1, IPU_UNSUPPORTED,
                 "input 1, \"t\", decides a shape and takes too much to compute before the model runs");
}

static void all_that_is_folded_has_one_budget(void **state)
{
    (void)state;
    enum { N = 60 };
    char   source[N * 40 + 200];
    size_t n = (size_t)snprintf(source, sizeof source, RANGE "out y; x0 = Cast(r) to=11; ");
    for (int i = 0; i < N; i++)
        n += (size_t)snprintf(source + n, sizeof source - n, "x%d = Sqrt(x%d); ", i + 1, i);
    snprintf(source + n, sizeof source - n, "y = Identity(x%d)", N);
    ipu_model *m = imported(model(17, graph(source, NULL), none));
    assert_int_equal(ipu_model_optimise(m, IPU_PASS_FOLD), IPU_OK);
    size_t left = count_ops(m, "sqrt"); /* 256 MiB, and four times the range, are 36 times 8 MiB at most */
    if (left < N - 36 || left == N) fail_msg("%zu of %d ops are left", left, N);
    ipu_model_destroy(m);
}

static void values_that_many_ops_make_are_known(void **state)
{
    (void)state;
    enum { N = 5000 };
    char  *source = ipu__arena_alloc(&pool, N * 40 + 300);
    size_t n      = (size_t)sprintf(source, "in x float[1]; const one int64[1] 1; const k int64[1] 0; out y; "
                                                 "x0 = Add(k, one); ");
    for (int i = 0; i < N; i++)
        n += (size_t)sprintf(source + n, "x%d = %s(x%d, one); ", i + 1, i % 2 ? "Sub" : "Add", i);
    sprintf(source + n, "y = Reshape(x, x%d)", N);
    const ipu_onnx_value x = FLOATS(IPU_SHAPE(1), 3);
    EXPECT(model(17, graph(source, NULL), none), VALUES(x), IPU_SHAPE(1), 3);
}

static void margins_of_very_many_rows_are_refused(void **state)
{
    (void)state;
    ipu_target  target;
    ipu_cost   *cost;
    const char *edge = "in x float[2,3,4,4]; out y; y = Pad(x) mode='edge' pads=[0,0,3,1,0,0,3037000500,2]";
    ipu_model  *m    = imported(model(6, graph(edge, NULL), none));
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_model_cost(m, &target, NULL, &cost), IPU_UNSUPPORTED);
    assert_non_null(strstr(ipu_message(), "too irregularly"));
    ipu_model_destroy(m);
}

static void large_values_of_one_element_are_priced_at_once(void **state)
{
    (void)state;
    ipu_target       target;
    ipu_cost        *cost;
    ipu_cost_summary s;
    const char *source = "in x float[1]; const k int64[1] 1099511627776; out y; e = Expand(x, k); y = Sin(e)";
    ipu_model  *m      = imported(model(13, graph(source, NULL), none));
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    if (ipu_model_cost(m, &target, NULL, &cost) != IPU_OK) fail_msg("%s", ipu_message());
    ipu_cost_get_summary(cost, &s);
    assert_true(s.operations >= 0x1p40);
    ipu_cost_destroy(cost);
    ipu_model_destroy(m);
}

/* Each tile of the sum is sent to very many others. */
static void copies_of_very_many_flows_are_not_priced(void **state)
{
    (void)state;
    enum { N = 36 };
    char       source[2000];
    ipu_target target;
    ipu_cost  *cost;
    size_t     n = (size_t)snprintf(source, sizeof source,
                                    "const o float[1] 1; const s int64[1] 2; out e%d; e0 = Expand(o, s); ", N);
    for (int i = 0; i < N; i++)
        n += (size_t)snprintf(source + n, sizeof source - n, "e%d = Concat(e%d, e%d) axis=0; ", i + 1, i, i);
    ipu_model *m = imported(model(13, graph(source, NULL), none));
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_model_cost(m, &target, NULL, &cost), IPU_UNSUPPORTED);
    assert_non_null(strstr(ipu_message(), "which is too much to estimate"));
    ipu_model_destroy(m);
}

static void regions_far_beyond_an_image_take_samples_within_it(void **state)
{
    (void)state;
    const char *source = "in x float[1,1,2,2]; const r float[2,4] 0 0 1000000 1000000 -1e30 -1e30 1e30 1e30; "
                         "const b int64[2] 0 0; out y; y = RoiAlign(x, r, b) output_height=1 output_width=1 "
                         "coordinate_transformation_mode='output_half_pixel'";
    const ipu_onnx_value x = FLOATS(IPU_SHAPE(1, 1, 2, 2), 4, 4, 4, 4);
    /* Samples are at 0.5, 1.5, 2.5, ...: two of a million along each axis are within [-1, 2]. */
    EXPECT(model(16, graph(source, NULL), none), VALUES(x), IPU_SHAPE(2, 1, 1, 1), 4 * 2 * 2e-12, 0);
}

/* ---- many ---- */

static void outputs_of_one_name_get_names_of_their_own(void **state)
{
    (void)state;
    enum { N = 3000 };
    bytes ports = none, port = block(12, text(1, "y"));
    for (int i = 0; i < N; i++) ports = join(ports, port);
    ipu_model  *m = imported(model(13, join(graph("in x float[1]; y = Relu(x)", NULL), ports), none));
    const char *name;
    assert_int_equal(ipu_model_n_outputs(m), N);
    ipu_model_output_at(m, 0, &name);
    assert_string_equal(name, "y");
    ipu_model_output_at(m, 1, &name);
    assert_string_equal(name, "y (output)");
    ipu_model_output_at(m, N - 1, &name);
    assert_string_equal(name, "y (output) 2998");
    ipu_model_destroy(m);
}

static void operator_sets_and_attributes_without_number_are_refused(void **state)
{
    (void)state;
    bytes g = graph("in x float[1]; out y; y = Relu(x)", NULL), sets = none, attributes = none;
    for (int i = 0; i < 1000; i++) {
        char name[20];
        snprintf(name, sizeof name, "d%d", i);
        sets       = join(sets, block(8, opset(name, 1)));
        attributes = join(attributes, block(5, attribute(name, "1", NULL)));
    }
    expect_error(model(13, g, sets), NULL, 0, IPU_INVALID, "1001 operator sets; expected at most 1000");
    bytes relu = JOIN(text(1, "x"), text(2, "y"), text(4, "Relu"), attributes);
    bytes few  = join(block(1, relu), block(12, text(1, "y")));
    import_small(model(13, join(few, g), none));
    relu = join(relu, block(5, attribute("a", "1", NULL)));
    few  = join(block(1, relu), block(12, text(1, "y")));
    expect_error(model(13, few, none), NULL, 0, IPU_INVALID, "1001 attributes of a node");
}

static void many_inputs_may_decide_shapes(void **state)
{
    (void)state;
    enum { N = 1000 };
    static const int64_t  three[] = {3};
    static ipu_onnx_value in[N + 1], y;
    size_t                size   = N * 80, n;
    char                 *source = ipu__arena_alloc(&pool, size);
    in[0]                        = FLOATS(IPU_SHAPE(1), 5);
    n                            = (size_t)snprintf(source, size, "in x float[1]; ");
    for (int i = 0; i < N; i++) {
        in[i + 1] = value(IPU_INT64, IPU_SHAPE(1), three);
        n += (size_t)snprintf(source + n, size - n, "in s%d int64[1]; ", i);
    }
    for (int i = 0; i < N; i++) n += (size_t)snprintf(source + n, size - n, "y%d = Expand(x, s%d); ", i, i);
    snprintf(source + n, size - n, "out y%d", N - 1);
    run_file(model(13, graph(source, NULL), none), in, N + 1, &y, 1);
    ASSERT_ARRAY(&y, IPU_SHAPE(3), 5, 5, 5);
    ipu_onnx_value_free(&y);
}

/* ---- memory ---- */

static bytes sparse_sum(int64_t extent)
{
    bytes values  = tensor_of_numbers("sp", "float[1]", "7");
    bytes indices = tensor_of_numbers("", "int64[1]", "5");
    bytes sparse  = JOIN(block(1, values), block(2, indices), number(3, extent));
    bytes g       = join(graph("out y; y = ReduceSum(sp) keepdims=0", NULL), block(15, sparse));
    return model(17, g, none);
}

static void sparse_tensors_of_few_values_stay_small(void **state)
{
    (void)state;
    expect_error(sparse_sum(268435456), NULL, 0, IPU_INVALID,
                 "of shape [268435456] would take 1073741824 bytes, of which the file holds 12");
    bytes          large = sparse_sum(1000000);
    ipu_onnx      *opened;
    ipu_model     *m;
    ipu_onnx_value y;
    assert_int_equal(ipu_onnx_read(large.at, large.n, NULL, &opened), IPU_OK);
    assert_int_equal(ipu_onnx_import(opened, &(ipu_onnx_options){.most_bytes = 100000}, &m), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "more than the 100000 that are allowed"));
    ipu_onnx_close(opened);
    run_file(large, NULL, 0, &y, 1);
    ASSERT_ARRAY(&y, (ipu_shape){0}, 7);
    ipu_onnx_value_free(&y);
}

/* As `ipu show` does to plan memory: what is only claimed takes none. */
static void tensors_of_terabytes_are_refused_before_they_take_memory(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "in x float[10000000000000]; out y; y = Relu(x)",
        "in x float[2,10000000000000]; out y; y = Transpose(x) perm=[1,0]",
        "in x float[1,2]; const k int64[2] 10000000000000 2; out y; y = Expand(x, k)",
        "in x float[2,2]; const k int64[4] 1099511627776 0 0 0; out y; y = Pad(x, k)",
    };
    enum { MOST = 1500000 }; /* KiB */
    ipu_target target;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        ipu_executable *exe = NULL;
        ipu_model      *m   = imported(model(13, graph(sources[i], NULL), none));
        assert_int_equal(ipu_model_compile(m, &target, NULL, &exe), IPU_UNSUPPORTED);
        assert_non_null(strstr(ipu_message(), "too much to run on a host"));
        assert_null(exe);
        ipu_model_destroy(m);
    }
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    if (!IPU__SANITIZED) assert_true(used.ru_maxrss < MOST);
}

static void constants_of_a_few_numbers_have_one_budget(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "const a int64[] 0; const b int64[] 67108864; const s int64[] 1; out y; y = Range(a, b, s)",
        "const a int64[] 0; const b int64[] 9000000; const s int64[] 1; out y; x = Range(a, b, s); y = Range(a, b, s)",
        "const k int64[2] 10000 10000; out y; x = ConstantOfShape(k); y = EyeLike(x)",
        "const k int64[] 16777216; out y; x = HannWindow(k); z = HannWindow(k); y = HannWindow(k)",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        expect_error(model(17, graph(refused[i], NULL), none), NULL, 0, IPU_INVALID,
                     "bytes of which the file holds none: with those before it more than the 134217728");
    bytes      file = model(17, graph(refused[1], NULL), none);
    ipu_onnx  *opened;
    ipu_model *m;
    assert_int_equal(ipu_onnx_read(file.at, file.n, NULL, &opened), IPU_OK);
    assert_int_equal(ipu_onnx_import(opened, &(ipu_onnx_options){.most_bytes = 144000000}, &m), IPU_OK);
    ipu_onnx_close(opened);
    ipu_model_destroy(m);
}

static void variables_have_a_limit_that_can_be_set(void **state)
{
    (void)state;
    ipu_onnx            *opened;
    const ipu_onnx_value x     = FLOATS(IPU_SHAPE(1), 3);
    bytes                large = model(13,
                                       graph("in x float[1]; const k int64[1] 100000; out y; e = Expand(x, k); "
                                                            "y = Sin(e)",
                                             NULL),
                                       none);
    ipu_onnx_session    *s     = session_of(large, &opened, &(ipu_onnx_options){.most_bytes = 300000});
    ipu_onnx_value       y     = {0};
    assert_int_equal(ipu_onnx_session_run(s, &x, 1, &y, 1), IPU_OUT_OF_MEMORY);
    assert_non_null(strstr(ipu_message(), "more than the 300000 that are allowed"));
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(opened);
    s = session_of(large, &opened, &(ipu_onnx_options){.most_bytes = 3000000});
    assert_int_equal(ipu_onnx_session_run(s, &x, 1, &y, 1), IPU_OK);
    ipu_onnx_value_free(&y);
    ipu_onnx_session_destroy(s);
    ipu_onnx_close(opened);
}

/* A loop that is unrolled, as it decides a shape, makes the tensors in its body once. */
static void tensors_of_a_body_are_made_once(void **state)
{
    (void)state;
    const bytes body[] = {
        graph("in i int64[]; in go bool[]; in s int64[1]; const one int64[1] 1; out go; out t; "
              "t = Add(s, one)",
              NULL)};
    ipu_model *m = imported(model(13,
                                  graph("in x float[1]; const n int64[] 500; const k int64[1] 0; out y; "
                                        "s = Loop(n, -, k) body=@0; t = Expand(x, s); y = Sin(t)",
                                        body),
                                  none));
    size_t     n = count_constants(m);
    if (n > 1010) fail_msg("%zu constants", n); /* each turn makes its number and whether it goes on */
    ipu_model_destroy(m);
}

int main(void)
{
    /* Of CPU time: what never ends must fail, and a machine that is busy must not. */
    const rlim_t most = IPU__SANITIZED ? 900 : 120;
    setrlimit(RLIMIT_CPU, &(struct rlimit){most, most});
    const struct CMUnitTest tests[] = {
        /* The first: what others have taken would count. */
        cmocka_unit_test(tensors_of_terabytes_are_refused_before_they_take_memory),
        cmocka_unit_test(numbers_at_the_ends_of_their_range_are_refused_or_taken),
        cmocka_unit_test(tensors_without_elements_are_taken_or_refused),
        cmocka_unit_test(blocks_whose_square_cannot_be_counted_are_refused),
        cmocka_unit_test(what_takes_long_is_left_to_the_run),
        cmocka_unit_test(all_that_is_folded_has_one_budget),
        cmocka_unit_test(values_that_many_ops_make_are_known),
        cmocka_unit_test(margins_of_very_many_rows_are_refused),
        cmocka_unit_test(large_values_of_one_element_are_priced_at_once),
        cmocka_unit_test(copies_of_very_many_flows_are_not_priced),
        cmocka_unit_test(regions_far_beyond_an_image_take_samples_within_it),
        cmocka_unit_test(outputs_of_one_name_get_names_of_their_own),
        cmocka_unit_test(operator_sets_and_attributes_without_number_are_refused),
        cmocka_unit_test(many_inputs_may_decide_shapes),
        cmocka_unit_test(sparse_tensors_of_few_values_stay_small),
        cmocka_unit_test(constants_of_a_few_numbers_have_one_budget),
        cmocka_unit_test(variables_have_a_limit_that_can_be_set),
        cmocka_unit_test(tensors_of_a_body_are_made_once),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}

/* Files of a few bytes whose numbers are at the ends of their range: each gives a model or an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "onnx/run_test.h"

/* Imported, which may fail, but with a sentence. */
static void import_small(bytes file)
{
    ipu_onnx  *opened;
    ipu_model *m      = NULL;
    ipu_status status = ipu_onnx_read(file.at, file.n, NULL, &opened);
    if (status == IPU_OK) {
        ipu_onnx_info info;
        ipu_onnx_get_info(opened, &info);
        status = ipu_onnx_import(opened, NULL, &m);
        ipu_model_destroy(m);
        ipu_onnx_close(opened);
    }
    if (status != IPU_OK) assert_true(*ipu_message());
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_at_the_ends_of_their_range_are_refused_or_taken),
        cmocka_unit_test(blocks_whose_square_cannot_be_counted_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, free_pool);
}

/* Windows: lists of one number for each dimension, and padding worked out from auto_pad. */
#include "onnx/import/window.h"

#include <string.h>

/* List `name` into out[0..count), or `otherwise` everywhere. False: an error. */
static bool read_list(ipu__node *n, const char *name, int count, int64_t least, int64_t otherwise,
                      int64_t *out)
{
    size_t         n_given;
    const int64_t *given = ipu__attr_ints(n, name, &n_given);
    if (n_given && n_given != (size_t)count) {
        ipu__node_fail(n, IPU_INVALID, "%s has %zu numbers; expected %d", name, n_given, count);
        return false;
    }
    for (int i = 0; i < count; i++) {
        out[i] = n_given ? given[i] : otherwise;
        if (out[i] < least || out[i] > INT32_MAX) {
            ipu__node_fail(n, IPU_INVALID, "%s has %lld; expected %lld or more", name, (long long)out[i],
                           (long long)least);
            return false;
        }
    }
    return true;
}

static bool read_auto_pad(ipu__node *n, ipu__auto_pad *out)
{
    static const char *const names[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};
    const char              *text    = ipu__attr_text(n, "auto_pad", "NOTSET");
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0 || (i == 0 && !*text)) {
            *out = (ipu__auto_pad)i;
            return true;
        }
    ipu__node_fail(n, IPU_INVALID, "auto_pad is \"%.40s\"; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER",
                   text);
    return false;
}

static bool read_kernel(ipu__node *n, const int64_t *kernel, ipu__window *out)
{
    bool is_given = ipu__attr(n, "kernel_shape") != NULL;
    if (is_given && !read_list(n, "kernel_shape", out->rank, 1, 1, out->kernel)) return false;
    if (!is_given && !kernel) ipu__node_fail(n, IPU_INVALID, "kernel_shape is missing");
    for (int i = 0; kernel && i < out->rank; i++) {
        if (is_given && out->kernel[i] != kernel[i])
            ipu__node_fail(n, IPU_INVALID, "kernel_shape[%d] is %lld, but the weight has %lld", i,
                           (long long)out->kernel[i], (long long)kernel[i]);
        out->kernel[i] = kernel[i];
    }
    return ipu__import_ok(n->im);
}

bool ipu__window_read(ipu__node *n, ipu_value x, const int64_t *kernel, ipu__window *out)
{
    *out = (ipu__window){.rank = ipu_value_rank(x) - 2};
    if (!ipu__import_ok(n->im)) return false;
    if (out->rank < 1 || out->rank > IPU__WINDOW_DIMS) {
        ipu__node_fail(n, IPU_UNSUPPORTED,
                       "its input has %d dimensions; [N,C] and one to three more are supported",
                       out->rank + 2);
        return false;
    }
    for (int i = 0; i < out->rank; i++) /* so that products with what the lists hold do not overflow */
        if (ipu_value_dim(x, 2 + i) > INT32_MAX)
            ipu__node_fail(n, IPU_UNSUPPORTED, "an extent of %lld", (long long)ipu_value_dim(x, 2 + i));
    int64_t pads[2 * IPU__WINDOW_DIMS] = {0};
    if (!read_kernel(n, kernel, out) || !read_list(n, "strides", out->rank, 1, 1, out->stride)
        || !read_list(n, "dilations", out->rank, 1, 1, out->dilation)
        || !read_list(n, "pads", 2 * out->rank, 0, 0, pads) || !read_auto_pad(n, &out->auto_pad))
        return false;
    for (int i = 0; i < out->rank; i++) {
        bool is_given = out->auto_pad == IPU__PAD_GIVEN;
        out->begin[i] = is_given ? pads[i] : 0;
        out->end[i]   = is_given ? pads[out->rank + i] : 0;
    }
    return ipu__import_ok(n->im);
}

bool ipu__window_of(ipu__node *n, ipu_value x, const int64_t *kernel, ipu__window *out)
{
    if (!ipu__window_read(n, x, kernel, out)) return false;
    if (out->auto_pad < IPU__PAD_UPPER) return true;
    for (int i = 0; i < out->rank; i++) {
        int64_t in = ipu_value_dim(x, 2 + i), stride = out->stride[i];
        int64_t window = (out->kernel[i] - 1) * out->dilation[i] + 1;
        int64_t total  = ((in + stride - 1) / stride - 1) * stride + window - in;
        if (total < 0) total = 0;
        out->begin[i] = out->auto_pad == IPU__PAD_UPPER ? total / 2 : total - total / 2;
        out->end[i]   = total - out->begin[i];
    }
    return true;
}

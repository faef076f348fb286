/* Ops of ONNX whose outputs have extents that depend on data, and n-grams. */
#include "ipu/op.h"
#include "onnx/import/import.h"

void ipu__onnx_NonZero(ipu__node *n)
{
    ipu_value count, at = ipu_nonzero(n->b, ipu__in_needed(n, 0), &count);
    if (ipu__import_ok(n->im)) ipu__give_counted(n, 0, at, count, 1);
}

void ipu__onnx_Compress(ipu__node *n)
{
    ipu_value x = ipu__in_needed(n, 0), condition = ipu__in_needed(n, 1), count, y;
    int       axis = 0;
    if (ipu__attr(n, "axis")) {
        axis = ipu__axis(n, "axis", 0, ipu_value_rank(x));
        y    = ipu_compress(n->b, x, condition, axis, &count);
    } else
        y = ipu_compress_flat(n->b, x, condition, &count);
    if (ipu__import_ok(n->im)) ipu__give_counted(n, 0, y, count, axis);
}

void ipu__onnx_Unique(ipu__node *n)
{
    ipu_value   x         = ipu__in_needed(n, 0);
    bool        is_sorted = ipu__attr_int(n, "sorted", 1) != 0;
    int         axis      = 0;
    ipu_uniques u;
    if (ipu__attr(n, "axis")) {
        axis = ipu__axis(n, "axis", 0, ipu_value_rank(x));
        u    = ipu_unique_slices(n->b, x, axis, is_sorted);
    } else
        u = ipu_unique(n->b, x, is_sorted);
    if (!ipu__import_ok(n->im)) return;
    ipu__give_counted(n, 0, u.values, u.count, axis);
    if (ipu__wants(n, 1)) ipu__give_counted(n, 1, u.indices, u.count, 0);
    ipu__give(n, 2, u.inverse);
    if (ipu__wants(n, 3)) ipu__give_counted(n, 3, u.counts, u.count, 0);
}

/* ---- boxes ---- */

/* The most boxes there can be, if the number for each image and class is known; 0: all. */
static int64_t box_bound(ipu__node *n, ipu_value scores, ipu_value most, bool *is_none)
{
    const int64_t *known = most.id && ipu_value_type(most) == IPU_INT64 ? ipu__known(n, most) : NULL;
    *is_none             = most.id == 0 || (known && *known <= 0);
    if (!known || *is_none || ipu_value_rank(scores) != 3 || *known >= ipu_value_dim(scores, 2)) return 0;
    return ipu_value_dim(scores, 0) * ipu_value_dim(scores, 1) * *known;
}

void ipu__onnx_NonMaxSuppression(ipu__node *n)
{
    ipu_value boxes = ipu__in_needed(n, 0), scores = ipu__in_needed(n, 1), most = ipu__in(n, 2);
    ipu_non_max_suppression_options o = {.center_point_box = ipu__attr_int(n, "center_point_box", 0) != 0};
    bool                            is_none;
    ipu_value                       count;
    o.bound = box_bound(n, scores, most, &is_none);
    if (is_none) {
        ipu__give(n, 0, ipu_constant_value(n->b, IPU_INT64, IPU_SHAPE(0, 3), 0));
        return;
    }
    ipu_value y = ipu_non_max_suppression(n->b, boxes, scores, most, ipu__in(n, 3), ipu__in(n, 4), o, &count);
    if (ipu__import_ok(n->im)) ipu__give_counted(n, 0, y, count, 0);
}

/* ---- n-grams ---- */

void ipu__onnx_TfIdfVectorizer(ipu__node *n)
{
    size_t             n_weights, n_strings;
    const float       *weights = ipu__attr_floats(n, "weights", &n_weights);
    ipu_tf_idf_options o       = {.mode            = ipu__attr_text(n, "mode", ""),
                                  .min_gram_length = ipu__attr_int(n, "min_gram_length", 0),
                                  .max_gram_length = ipu__attr_int(n, "max_gram_length", 0),
                                  .max_skip_count  = ipu__attr_int(n, "max_skip_count", 0)};
    o.pool                     = ipu__attr_ints(n, "pool_int64s", &o.n_pool);
    o.ngram_counts             = ipu__attr_ints(n, "ngram_counts", &o.n_ngram_counts);
    o.ngram_indexes            = ipu__attr_ints(n, "ngram_indexes", &o.n_ngram_indexes);
    ipu__attr_texts(n, "pool_strings", &n_strings, 0);
    if (n_strings) ipu__node_fail(n, IPU_UNSUPPORTED, "n-grams of strings are not supported");
    if (!ipu__import_ok(n->im)) return;
    ipu_value w = weights ? ipu_constant_data(n->b, IPU_FLOAT, IPU_SHAPE((int64_t)n_weights), weights)
                          : IPU_NO_VALUE;
    ipu__give(n, 0, ipu_tf_idf(n->b, ipu__in_needed(n, 0), w, o));
}

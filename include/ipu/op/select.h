/* Elements picked by their values: how many there are is known only when they are.
 *
 *     ipu_value count, at = ipu_nonzero(b, x, &count);
 *
 * Outputs have the largest shape there can be. `count`, an int64 scalar, says how many places along the
 * dimension that depends on the data are used; the rest is 0.
 */
#ifndef IPU_OP_SELECT_H
#define IPU_OP_SELECT_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Indices of elements that are not 0, in order: [rank, elements] int64, `count` columns. */
ipu_value ipu_nonzero(ipu_builder *b, ipu_value x, ipu_value *count);

/* Slices of `axis` whose `condition` (bool, [n], n at most the extent) is true: n of them, `count` in use. */
ipu_value ipu_compress(ipu_builder *b, ipu_value x, ipu_value condition, int axis, ipu_value *count);
/* Elements of x, as a vector. */
ipu_value ipu_compress_flat(ipu_builder *b, ipu_value x, ipu_value condition, ipu_value *count);

typedef struct ipu_uniques {
    ipu_value values;  /* `count` different ones */
    ipu_value indices; /* int64: where each is first */
    ipu_value inverse; /* int64: which of them each element (slice) of x is; all in use */
    ipu_value counts;  /* int64: how often each is there */
    ipu_value count;
} ipu_uniques;

/* Different elements of x as a vector, or different slices of `axis`: in ascending order (slices: by their
 * first element that differs), or in the order they are found. NaNs are equal, and the largest. */
ipu_uniques ipu_unique(ipu_builder *b, ipu_value x, bool sorted);
ipu_uniques ipu_unique_slices(ipu_builder *b, ipu_value x, int axis, bool sorted);

typedef struct ipu_tf_idf_options {
    const char    *mode;                             /* "TF", "IDF" or "TFIDF" */
    int64_t        min_gram_length, max_gram_length; /* 0: 1 */
    int64_t        max_skip_count;
    const int64_t *pool; /* n-grams, the shorter ones first */
    size_t         n_pool;
    const int64_t *ngram_counts; /* where in the pool those of length 1, 2, ... begin */
    size_t         n_ngram_counts;
    const int64_t *ngram_indexes; /* by n-gram: which element of the output counts it */
    size_t         n_ngram_indexes;
} ipu_tf_idf_options;

/* How often n-grams of a pool are in x ([c] or [n, c], int32 or int64), as ONNX's TfIdfVectorizer: float
 * [1 + the largest index] or [n, 1 + the largest index]. `weights` (float, one for each n-gram, may be null)
 * multiply counts (TFIDF) or stand in for them (IDF). */
ipu_value ipu_tf_idf(ipu_builder *b, ipu_value x, ipu_value weights, ipu_tf_idf_options options);

#ifdef __cplusplus
}
#endif

#ifndef IPU_NO_LOCATIONS
IPU_LEFT(ipu_uniques, ipu_uniques)
#define ipu_nonzero(...) IPU_AT(ipu_nonzero(__VA_ARGS__))
#define ipu_compress(...) IPU_AT(ipu_compress(__VA_ARGS__))
#define ipu_compress_flat(...) IPU_AT(ipu_compress_flat(__VA_ARGS__))
#define ipu_unique(...) ipu_uniques_left((IPU_ENTER, ipu_unique(__VA_ARGS__)))
#define ipu_unique_slices(...) ipu_uniques_left((IPU_ENTER, ipu_unique_slices(__VA_ARGS__)))
#define ipu_tf_idf(...) IPU_AT(ipu_tf_idf(__VA_ARGS__))
#endif
#endif

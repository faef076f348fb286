/* Selecting elements by value: how many there are is known only at run time.
 *
 *     ipu_value count, at = ipu_nonzero(b, x, &count);
 *
 * Outputs have the largest possible shape. `count`, an int64 scalar, says how much of the data-dependent
 * dimension is in use; the rest is 0.
 */
#ifndef IPU_OP_SELECT_H
#define IPU_OP_SELECT_H

#include "ipu/builder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Indices of nonzero elements, in order: [rank, elements] int64, `count` columns. */
ipu_value ipu_nonzero(ipu_builder *b, ipu_value x, ipu_value *count);

/* Slices along `axis` whose `condition` (bool, [n], n at most the extent) is true: n of them, `count` in use. */
ipu_value ipu_compress(ipu_builder *b, ipu_value x, ipu_value condition, int axis, ipu_value *count);
/* Of x as a vector. */
ipu_value ipu_compress_flat(ipu_builder *b, ipu_value x, ipu_value condition, ipu_value *count);

typedef struct ipu_uniques {
    ipu_value values;  /* `count` distinct ones */
    ipu_value indices; /* int64: position of the first occurrence of each */
    ipu_value inverse; /* int64: index into values of each element (slice) of x; all in use */
    ipu_value counts;  /* int64: number of occurrences of each */
    ipu_value count;
} ipu_uniques;

/* Distinct elements of x as a vector, or distinct slices along `axis`: in ascending order (slices
 * lexicographically), or in order of occurrence. NaNs are equal to one another and larger than anything else. */
ipu_uniques ipu_unique(ipu_builder *b, ipu_value x, bool sorted);
ipu_uniques ipu_unique_slices(ipu_builder *b, ipu_value x, int axis, bool sorted);

typedef struct ipu_tf_idf_options {
    const char    *mode;                             /* "TF", "IDF" or "TFIDF" */
    int64_t        min_gram_length, max_gram_length; /* 0 means 1 */
    int64_t        max_skip_count;
    const int64_t *pool; /* n-grams, shorter ones first */
    size_t         n_pool;
    const int64_t *ngram_counts; /* where n-grams of length 1, 2, ... start in the pool */
    size_t         n_ngram_counts;
    const int64_t *ngram_indexes; /* per n-gram: the output element that counts it */
    size_t         n_ngram_indexes;
} ipu_tf_idf_options;

/* Counts occurrences of a pool's n-grams in x ([c] or [n, c], int32 or int64), like ONNX's TfIdfVectorizer:
 * float [1 + the largest index] or [n, 1 + the largest index]. `weights` (float, one per n-gram, may be null)
 * multiply counts (TFIDF) or replace them (IDF). */
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

/* Samples: the uses of an op that its record lists as text (grammar in op/op.h), made into calls with
 * guarded buffers and random values.
 */
#ifndef IPU_TESTS_SAMPLE_H
#define IPU_TESTS_SAMPLE_H

#include "op/op.h"
#include "random.h"

enum { SAMPLE_MAX_ATTRIBUTES = 24, SAMPLE_MAX_INTS = 32, SAMPLE_ERROR = 256 };

typedef struct sample {
    const ipu__op_def *op;
    const char        *text;
    ipu__kernel_call   call; /* inputs; outputs after sample_infer */
    bool               present[IPU__MAX_OPERANDS];
    double             low[IPU__MAX_OPERANDS], high[IPU__MAX_OPERANDS];
    bool conditioned; /* results may be as far apart as those of inputs that differ in the last bit */
    ipu_attribute attributes[SAMPLE_MAX_ATTRIBUTES];
    int64_t       ints[SAMPLE_MAX_ATTRIBUTES][SAMPLE_MAX_INTS];
    char          words[2048]; /* names and texts of attributes */
    size_t        n_words;
} sample;

/* False: not a sample; `error` says why. A sample refers to itself and must not be moved. */
bool sample_parse(sample *s, const ipu__op_def *op, const char *text, char error[SAMPLE_ERROR]);

/* Inputs of type `from` become `to`. False: there are none. */
bool sample_retype(sample *s, ipu_type from, ipu_type to);

/* Types and shapes of the outputs. Statuses: what `infer` says. */
ipu_status sample_infer(sample *s);

/* ---- elements as numbers ---- */

double element_get(ipu_type type, const void *data, int64_t i);
/* Rounded to the type; integers are cut to whole numbers. */
void element_set(ipu_type type, void *data, int64_t i, double value);

/* ---- guarded buffers: one for each operand ---- */

typedef struct guarded {
    unsigned char *memory;
    size_t         bytes, total;
} guarded;

/* AddressSanitizer stops at what is read or written outside. To be set before any is made. */
extern bool guarded_from_reads;

guarded guarded_make(size_t bytes);
void   *guarded_data(const guarded *g);
/* -1, or the first byte outside (relative to the data) that was written. */
bool guarded_ok(const guarded *g, ptrdiff_t *where);
void guarded_free(guarded *g);

typedef struct operands {
    guarded at[IPU__MAX_OPERANDS];
    void   *pointer[IPU__MAX_OPERANDS];
    int     n;
} operands;

/* Outputs hold NaNs; inputs are random within the sample's bounds. */
operands operands_make(const sample *s, uint64_t seed);
/* Inputs are the numbers of `from`, converted. */
operands operands_convert(const sample *s, const sample *from_sample, const operands *from);
void     operands_free(operands *o);

int64_t sample_n_elements(const sample *s, int operand);

#endif

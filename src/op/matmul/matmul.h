/* matmul in pieces: shared by its implementations and its price. */
#ifndef IPU_OP_MATMUL_MATMUL_H
#define IPU_OP_MATMUL_MATMUL_H

#include "engine/cpu/impl.h"
#include "op/elementwise/epilogue.h"

/* Inputs of the epilogue lie between. */
enum { IPU__MATMUL_A, IPU__MATMUL_B, IPU__MATMUL_OUT = 2 + IPU__EPILOGUE_IN };

/* out[i,m,n] = sum over k of a[i,m,k] * b[i,k,n]; strides are in elements, for the operands' layout. */
typedef struct ipu__matmul {
    int64_t batch, m, n, k;
    int64_t a_m, a_k; /* strides of a */
    int64_t b_k, b_n;
    bool    transpose_a, transpose_b;
    /* The batch by dimensions, and the strides of each in a and b: 0 where they are broadcast. */
    int     rank;
    int64_t dim[IPU_MAX_RANK], a_step[IPU_MAX_RANK], b_step[IPU_MAX_RANK];
} ipu__matmul;

/* The call must have passed `check`. A batch that shares b without transposing a is one tall matrix. */
ipu__matmul ipu__matmul_get(const ipu__kernel_call *call);

/* The offset of matrix `i` of the batch in a and b, in elements. */
void ipu__matmul_at(const ipu__matmul *mm, int64_t i, int64_t *a, int64_t *b);

/* The work of one part: batches [batch.begin, batch.end), in each of them rows [row.begin, row.end) and
 * columns [column.begin, column.end). Work is split by batches if there are enough of them, otherwise by
 * rows, or by columns if there are many columns and few rows, so that each operand is read by as few parts as
 * possible. */
typedef struct ipu__matmul_part {
    ipu_interval batch, row, column;
} ipu__matmul_part;

ipu__matmul_part ipu__matmul_part_get(const ipu__matmul *mm, int part, int n_parts);

/* Applies the epilogue to rows and columns of matrix `i`. */
static inline void ipu__matmul_finish(const ipu__matmul *mm, const ipu__epilogue *e, void *const *operand,
                                      int64_t i, int64_t row, int64_t rows, int64_t column, int64_t columns,
                                      void *scratch)
{
    ipu__epilogue_run(e, operand, (i * mm->m + row) * mm->n + column, columns, mm->n, rows, scratch);
}

/* ---- plain.c: any type, summed in the order of `ref` ---- */

ipu_status ipu__matmul_plain_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void       ipu__matmul_plain_release(void *prepared);
size_t     ipu__matmul_plain_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status ipu__matmul_plain_run(const ipu__kernel_call *call, void *state, void *const *operand,
                                 void *scratch, int part, int n_parts);

/* ---- xsmm.c: float, half, bfloat16 ---- */

bool                ipu__matmul_xsmm_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
ipu__kernel_layouts ipu__matmul_xsmm_layouts(const ipu__kernel_call *call, int n_parts, int operand);
size_t              ipu__matmul_xsmm_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status          ipu__matmul_xsmm_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void                ipu__matmul_xsmm_release(void *prepared);
ipu_status          ipu__matmul_xsmm_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                         void *scratch, int index, int n_parts);

/* ---- matmul_onednn.c: float ---- */

bool       ipu__matmul_onednn_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
size_t     ipu__matmul_onednn_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status ipu__matmul_onednn_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void       ipu__matmul_onednn_release(void *prepared);
ipu_status ipu__matmul_onednn_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                  void *scratch, int index, int n_parts);

/* ---- plan.c ---- */

ipu_status ipu__matmul_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out);

/* How an AMP unit handles a pair of types. */
typedef enum ipu__amp_path {
    IPU__AMP_COMMON, /* half in, float partials; or half partials on 16 units */
    IPU__AMP_NARROW, /* half partials on 8 units */
    IPU__AMP_FLOAT,
} ipu__amp_path;

typedef struct ipu__amp {
    ipu__amp_path path;
    double        units, inputs; /* output channels per pass, input channels per group */
    double        load_cycles;   /* to load the weights of a pass */
    double        n_workers;
    bool          half_partials;
} ipu__amp;

/* For `type` (half or float); half_partials: for half. */
ipu_status ipu__amp_get(ipu_type type, bool half_partials, const ipu_target *target, ipu__amp *out);
/* The alternative way to use it, with 8 units, for few channels. Returns false if there is none. */
bool ipu__amp_narrow(const ipu__amp *amp, ipu__amp *out);

/* The type of partial sums of half products on the chip: affects prices but not results (which are summed in
   float).
*/
#define IPU__PARTIALS_ATTRIBUTE                                                                    \
    {                                                                                              \
        .name = "partials", .kind = IPU_ATTRIBUTE_TEXT, .text_otherwise = "float",                 \
        .meaning = "\"half\": sums of products of half are priced as half; the result is the same" \
    }
ipu_status ipu__partials_check(const ipu__kernel_call *call);
/* Whether partials are half, which only products of half can have. */
bool ipu__partials_are_half(const ipu__kernel_call *call);

/* PopLibs' 1x1 vertex: `groups` products of `positions` x (in_groups * inputs) x (out_groups * units). */
double ipu__amp_1x1_cycles(const ipu__amp *amp, double groups, double positions, double in_groups,
                           double out_groups);

#endif

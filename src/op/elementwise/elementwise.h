/* Elementwise ops as seen by chains: the list of them, the types they accept, their block functions.
 *
 * Values are computed in lanes: half, bfloat16 and float as float; integers up to 32 bits as int32; uint32
 * and int64 as int64. A result is then rounded, or wrapped, to its type. So there is one block function
 * per lane, not per type.
 */
#ifndef IPU_OP_ELEMENTWISE_ELEMENTWISE_H
#define IPU_OP_ELEMENTWISE_ELEMENTWISE_H

#include "base/simd.h"
#include "engine/cpu/impl.h"
#include "op/op.h"

enum {
#define UNARY(name, ...) IPU__ELEMENT_##name,
#include "op/elementwise/unary.inc"
#undef UNARY
#define BINARY(name, ...) IPU__ELEMENT_##name,
#include "op/elementwise/binary.inc"
#undef BINARY
    IPU__ELEMENT_where,
    IPU__ELEMENT_cast,
    IPU__N_ELEMENTS,
    IPU__ELEMENT_mask = IPU__N_ELEMENTS, /* in chains only: x > z ? y : z, which is the gradient of relu */
    IPU__N_BLOCKS
};

typedef enum ipu__lane {
    IPU__LANE_F32,
    IPU__LANE_F64,
    IPU__LANE_I32,
    IPU__LANE_I64,
    IPU__LANE_U64,
    IPU__LANE_B8,
    IPU__N_LANES
} ipu__lane;

enum { IPU__MAX_ELEMENT_INPUTS = 3, IPU__MAX_ELEMENT_PARAMETERS = 2 };

/* n elements. `out` may be one of `in`, element by element. */
typedef void (*ipu__block_fn)(const void *const *in, void *out, int64_t n, const double *parameters);

/* By lane (of the last input) and element. float_simd.c, int_simd.c */
typedef struct ipu__float_blocks {
    const ipu__block_fn *f32, *f64;
} ipu__float_blocks;
typedef struct ipu__int_blocks {
    const ipu__block_fn *i32, *i64, *u64, *b8;
} ipu__int_blocks;
/* convert_simd.c */
/* Copies n elements as they lie (stride 1), or repeats the first (stride 0). */
typedef void (*ipu__spread_fn)(const void *from, int64_t stride, int64_t n, void *to);
typedef struct ipu__convert_blocks {
    ipu__block_fn convert[IPU__N_LANES][IPU__N_LANES]; /* from, to; parameters: range, if to integers */
    ipu__block_fn f64_to_odd_f32; /* rounds to odd, so that rounding again does not round twice */
    ipu__block_fn widen[IPU_N_TYPES],
        narrow[IPU_N_TYPES];                     /* to its lane and back; NULL if the type is the lane */
    ipu__spread_fn spread[sizeof(uint64_t) + 1]; /* by element size in bytes */
} ipu__convert_blocks;

IPU__SIMD_DECLARE(extern const ipu__float_blocks, ipu__float_blocks)
IPU__SIMD_DECLARE(extern const ipu__int_blocks, ipu__int_blocks)
IPU__SIMD_DECLARE(extern const ipu__convert_blocks, ipu__convert_blocks)

/* For this CPU. */
ipu__block_fn              ipu__element_block(ipu__lane lane, int element);
const ipu__convert_blocks *ipu__converters(void);
/* From the lane of one type to that of another; parameters: ipu__integer_range of `to`. */
ipu__block_fn ipu__cast_block(ipu_type from, ipu_type to);

extern const ipu__lane ipu__lane_of[IPU_N_TYPES];
size_t                 ipu__lane_bytes(ipu__lane lane);

/* The element of a kernel, or IPU__N_ELEMENTS if it is not an elementwise op. */
int                    ipu__element_of(const ipu__kernel_def *kernel);
const ipu__kernel_def *ipu__element_kernel(int element);

/* The `infer` of all of them. */
ipu_status ipu__element_infer(const ipu__kernel_call *call, ipu__kernel_value *out);
/* Numeric attributes, in the record's order. */
void ipu__element_parameters(const ipu__kernel_call *call, double parameters[IPU__MAX_ELEMENT_PARAMETERS]);

/* Members of records. `ref` computes floating types in double and integers in 64 bits. */
void       ipu__element_ref(const ipu__kernel_call *call, void *const *operand);
double     ipu__element_work(const ipu__kernel_call *call);
ipu_status ipu__element_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out);
extern const ipu__cpu_impl ipu__element_impl[1];
/* `layouts` of elementwise kernels: any layout, the same for all operands of more than one element that have
 * the shape of output `out`; elements in the same order are computed in that order. */
ipu__kernel_layouts ipu__op_layouts_alike(const ipu__kernel_call *call, int out, int operand);

/* A single element, with inputs and output in their types' formats. `parameters` is not used for cast. */
void ipu__element_one(int element, const ipu_type *types, int n_in, const double *parameters,
                      const void *const *in, ipu_type type, void *out);
/* The index of the source of element `i` of `out` in an input that is broadcast to it. */
int64_t ipu__element_source(const ipu_shape *out, const ipu_shape *in, int64_t i);

/* grad.c */
void ipu__element_grad(ipu__gradient *g);

/* ---- plan.c ---- */

/* A worker's cycles: `start`, then `cycles` per `elements`. */
typedef struct ipu__element_cost {
    ipu__op_loop loop;
    const char  *basis;
} ipu__element_cost;
ipu__element_cost ipu__element_cost_of(int element, ipu_type type);
/* Elementary operations per element on a host, for splitting work. */
double ipu__element_operations(int element);

/* ---- conversions of single values, for references ---- */

/* To the nearest, ties to even, in one step. */
ipu_half     ipu__half_from_double(double value);
ipu_bfloat16 ipu__bfloat16_from_double(double value);

/* The minimum and maximum of an integer type as doubles, rounded towards 0 for 64-bit types. */
void ipu__integer_range(ipu_type type, double range[2]);

#endif

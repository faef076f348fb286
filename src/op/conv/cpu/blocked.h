/* Convolutions with sixteen channels side by side in a vector, in the layout [n][c / 16][h][w][16].
 *
 * A tile of outputs, up to fourteen pixels of 32 channels, stays in registers over all its taps and input
 * channels. In each run, weights are packed in order of use into scratch that stays in the second-level
 * cache; padding, if any, is copied around the rows that a block of outputs reads. Images with few channels
 * (stems) are read as they are, a number at a time.
 */
#ifndef IPU_OP_CONV_CPU_BLOCKED_H
#define IPU_OP_CONV_CPU_BLOCKED_H

#include "base/simd.h"
#include "engine/cpu/impl.h"
#include "op/conv/conv.h"

enum {
    IPU__BLOCK      = 16, /* channels per vector */
    IPU__TILE_WIDE  = 14, /* pixels */
    IPU__TILE_DEEP  = 2,  /* vectors of result channels */
    IPU__TILE_STEPS = 4   /* ways in which pixels read: see ipu__tile_step */
};

/* Pixels of a tile and what they read. Tap t of the first pixel is at x[tap[t]], that of the next `step`
 * numbers on; with vectors of channels there are 16 numbers at each. */
typedef struct ipu__tile {
    const int64_t *tap;
    int64_t        n_taps;
    const float   *w;               /* [tap][channel of x][16 or 32 channels of the result] */
    const float   *scale;           /* NULL: 1 */
    const float   *shift;           /* per channel */
    const float   *add;             /* NULL: none; as y */
    bool           relu, stream;    /* stream: bypass the caches; `fence` must follow */
    int64_t        y_step, y_block; /* floats to the next pixel, and to the next 16 channels */
} ipu__tile;

typedef void (*ipu__tile_fn)(const ipu__tile *t, const float *x, float *y);

/* Selects the function: vectors, one or two pixels apart, or numbers. */
static inline int ipu__tile_step(bool vectors, int64_t stride) { return (vectors ? 0 : 2) + (stride == 2); }

/* NULL if a level has no instructions for it. */
typedef struct ipu__blocked_loops {
    ipu__tile_fn tile[IPU__TILE_STEPS][IPU__TILE_DEEP][IPU__TILE_WIDE]; /* indices less 1: vectors, pixels */
    /* 16 rows of weights, `step` apart, of `n` channels with `n_taps` taps each: row r of a channel and a tap goes to
     * to[tap_at[tap] + channel * to_step + r]. */
    void (*pack)(const float *w, int64_t step, int64_t n, int64_t n_taps, const int64_t *tap_at,
                 int64_t to_step, float *to);
    /* Makes stores that bypassed the caches visible to other threads. */
    void (*fence)(void);
} ipu__blocked_loops;

IPU__SIMD_DECLARE(extern const ipu__blocked_loops, ipu__blocked_loops_at)

/* Part of the weight gradient, summed over pixels of some rows: vectors of d_y times numbers of x. */
enum { IPU__WEIGHTS_WIDE = 9 };

typedef struct ipu__weights_tile {
    const int64_t *tap;            /* of x, if it is read a number at a time; else sixteen of a vector */
    int64_t        rows, columns;  /* of d_y */
    int64_t        x_step, x_row;  /* floats to the next pixel and row of x */
    int64_t        y_row, y_block; /* likewise of d_y, to the next row and 16 channels */
    int64_t sum_step, sum_block;   /* floats to the next tap or channel of x, and to 16 channels of d_y */
} ipu__weights_tile;

typedef void (*ipu__weights_fn)(const ipu__weights_tile *t, const float *x, const float *dy, float *sums);

typedef struct ipu__weights_loops {
    ipu__weights_fn vectors[IPU__TILE_DEEP];                 /* 16 channels of x */
    ipu__weights_fn taps[IPU__TILE_DEEP][IPU__WEIGHTS_WIDE]; /* indices less 1: vectors of d_y, taps */
} ipu__weights_loops;

IPU__SIMD_DECLARE(extern const ipu__weights_loops, ipu__weights_loops_at)

/* Implements conv and conv_input_grad. */
bool                ipu__conv_blocked_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
ipu__kernel_layouts ipu__conv_blocked_layouts(const ipu__kernel_call *call, int n_parts, int operand);
size_t              ipu__conv_blocked_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status          ipu__conv_blocked_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void                ipu__conv_blocked_release(void *prepared);
ipu_status          ipu__conv_blocked_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                          void *scratch, int part, int n_parts);

/* Implements conv_weight_grad. */
bool ipu__conv_blocked_weights_fits(const ipu__kernel_call *call, const void *machine, int n_parts);
ipu__kernel_layouts ipu__conv_blocked_weights_layouts(const ipu__kernel_call *call, int n_parts, int operand);
size_t              ipu__conv_blocked_weights_scratch_bytes(const ipu__kernel_call *call, int n_parts);
ipu_status          ipu__conv_blocked_weights_prepare(const ipu__kernel_call *call, int n_parts, void **out);
void                ipu__conv_blocked_weights_release(void *prepared);
ipu_status ipu__conv_blocked_weights_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                         void *scratch, int part, int n_parts);

#endif

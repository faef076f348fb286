/* Epilogues: a chain (chain.h) that a kernel runs on its own result, a block at a time while it is in cache.
 *
 * A record that supports it has inputs e0 to e3, the attribute "epilogue" and the flag IPU__OP_EPILOGUE. In
 * the chain a0 is the result, a1 is e0 and so on; it gives one value of the result's shape and type, which
 * replaces it.
 */
#ifndef IPU_OP_ELEMENTWISE_EPILOGUE_H
#define IPU_OP_ELEMENTWISE_EPILOGUE_H

#include "engine/cpu/impl.h"
#include "op/elementwise/chain.h"

enum { IPU__EPILOGUE_IN = 4 };

#define IPU__EPILOGUE_INPUTS \
    IPU__OPTIONAL("e0"), IPU__OPTIONAL("e1"), IPU__OPTIONAL("e2"), IPU__OPTIONAL("e3")
#define IPU__EPILOGUE_ATTRIBUTE                                                     \
    {                                                                               \
        .name = "epilogue", .kind = IPU_ATTRIBUTE_TEXT,                             \
        .meaning = "a chain on the result a0 and e0.. as a1..: \"relu a0; out t0\"" \
    }

/* Empty (chain NULL) if the call has none. */
typedef struct ipu__epilogue {
    ipu__chain *chain;
    int         first, out; /* operands: e0, and the result */
} ipu__epilogue;

bool ipu__epilogue_has(const ipu__kernel_call *call);

/* For `infer`: *out is the result before the epilogue. */
ipu_status ipu__epilogue_infer(const ipu__kernel_call *call, ipu__kernel_value *out);

/* For `ref`: applied to the result, the last operand. */
void ipu__epilogue_ref(const ipu__kernel_call *call, void *const *operand);

/* For `prepare`, `release`, `scratch_bytes` (SIZE_MAX: out of memory) and `run`. */
ipu_status ipu__epilogue_init(ipu__epilogue *e, const ipu__kernel_call *call);
void       ipu__epilogue_fini(ipu__epilogue *e);
size_t     ipu__epilogue_scratch_bytes(const ipu__kernel_call *call);

/* `n_rows` rows of `n` elements, `step` apart, the first at element `begin` of the result. */
void ipu__epilogue_run(const ipu__epilogue *e, void *const *operand, int64_t begin, int64_t n, int64_t step,
                       int64_t n_rows, void *scratch);

/* The most common epilogues, which implementations apply in registers. */
typedef enum ipu__epilogue_kind {
    IPU__EPILOGUE_NONE,
    IPU__EPILOGUE_RELU,
    IPU__EPILOGUE_ADD,      /* adds e0, which has the shape of the result */
    IPU__EPILOGUE_ADD_RELU, /* relu of that */
    IPU__EPILOGUE_OTHER
} ipu__epilogue_kind;

ipu__epilogue_kind ipu__epilogue_kind_of(const ipu__kernel_call *call);

/* Whether it can run on a result of any layout: its operands are single elements, or have the result's shape
 * and then its layout. Element numbers given to ipu__epilogue_run are then in memory order. */
bool ipu__epilogue_is_flat(const ipu__kernel_call *call);
/* `layouts` of e0..: those of the result, tied, if they have its shape. */
ipu__kernel_layouts ipu__epilogue_layouts(const ipu__kernel_call *call, int operand, unsigned takes);

/* For `plan`: the cycles it adds on the fullest tile. */
ipu_status ipu__epilogue_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out);

#endif

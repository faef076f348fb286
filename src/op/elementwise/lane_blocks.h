/* The block functions of one lane, from unary.inc and binary.inc, and the table of them, blocks_LANE.
 *
 * The file that includes this, once for each lane, defines T; LANE; WORK_FLOAT, WORK_WIDE, WORK_ANGLE: the
 * types each form is computed in, and UNARY_ANGLE: how; IF_x(...): its arguments if lines of types x apply to
 * this lane; and the words used in values.
 */
#define UNARY_FLOAT(name, ...) IPU__BLOCK_UNARY(__VA_ARGS__)
#define UNARY_WIDE(name, ...) IPU__BLOCK_UNARY(__VA_ARGS__)

#define IN_LANE2(name, lane) name##_##lane
#define IN_LANE1(name, lane) IN_LANE2(name, lane)
#define IN_LANE(name) IN_LANE1(name, LANE)

#define GIVES_FLOATING T
#define GIVES_NUMBER T
#define GIVES_INTEGER T
#define GIVES_SHIFT T
#define GIVES_BOOL T
#define GIVES_LOGICAL T
#define GIVES_TEST uint8_t
#define GIVES_COMPARE uint8_t

#define UNARY(name, arity, types, form, value, ...) \
    IF_##types(UNARY_##form(name, IN_LANE(name##_block), T, WORK_##form, GIVES_##types, value))
#define BINARY(name, types, form, value, ...) \
    IF_##types(IPU__BLOCK_BINARY(IN_LANE(name##_block), T, WORK_##form, GIVES_##types, value))
#include "op/elementwise/unary.inc"
#include "op/elementwise/binary.inc"
#undef UNARY
#undef BINARY
IPU__BLOCK_WHERE(IN_LANE(where_block), T)
IPU__BLOCK_MASK(IN_LANE(mask_block), T)

#define UNARY(name, arity, types, ...) IF_##types([IPU__ELEMENT_##name] = IN_LANE(name##_block), )
#define BINARY(name, types, ...) IF_##types([IPU__ELEMENT_##name] = IN_LANE(name##_block), )
static const ipu__block_fn IN_LANE(blocks)[IPU__N_BLOCKS] = {
#include "op/elementwise/unary.inc"
#include "op/elementwise/binary.inc"
    [IPU__ELEMENT_where] = IN_LANE(where_block),
    [IPU__ELEMENT_mask]  = IN_LANE(mask_block),
};
#undef UNARY
#undef BINARY

#undef GIVES_FLOATING
#undef GIVES_NUMBER
#undef GIVES_INTEGER
#undef GIVES_SHIFT
#undef GIVES_BOOL
#undef GIVES_LOGICAL
#undef GIVES_TEST
#undef GIVES_COMPARE
#undef UNARY_FLOAT
#undef UNARY_WIDE
#undef IN_LANE2
#undef IN_LANE1
#undef IN_LANE

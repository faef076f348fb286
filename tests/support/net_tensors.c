/* Layers of random networks that rearrange, select and sort. */
#include <string.h>

#include "net.h"

static bool make_reshape(net *n)
{
    ipu_value x     = net_pick(n, 1, 5);
    int64_t   count = ipu_value_n_elements(x);
    ipu_shape shape = {.rank = 2, .dim = {-1, 1}};
    for (int64_t d = 2; d <= 6; d++)
        if (count % d == 0 && net_chance(n, 50)) shape.dim[1] = d;
    net_add(n, ipu_reshape(n->b, x, shape), "v%u.reshape(%s)", x.id, net_list(shape.dim, 2));
    return true;
}

static bool make_flatten(net *n)
{
    ipu_value x    = net_pick(n, 2, 5);
    int       axis = net_int(n, 0, ipu_value_rank(x) - 1);
    net_add(n, ipu_flatten(n->b, x, axis), "torch.flatten(v%u, %d)", x.id, axis);
    return true;
}

static bool make_unsqueeze(net *n)
{
    ipu_value x    = net_pick(n, 0, 4);
    int       axis = net_int(n, 0, ipu_value_rank(x));
    ipu_value y    = net_use(n, net_add(n, ipu_unsqueeze(n->b, x, axis), "v%u.unsqueeze(%d)", x.id, axis));
    if (net_chance(n, 50))
        net_add(n, ipu_squeeze(n->b, ipu_exp(n->b, ipu_tanh(n->b, y)), axis),
                "torch.tanh(v%u).exp().squeeze(%d)", y.id, axis);
    else
        net_add(n, ipu_tanh(n->b, y), "torch.tanh(v%u)", y.id);
    return true;
}

static bool make_transpose(net *n)
{
    ipu_value x    = net_pick(n, 2, 5);
    int       rank = ipu_value_rank(x), perm[IPU_MAX_RANK];
    int64_t   wide[IPU_MAX_RANK];
    for (int d = 0; d < rank; d++) perm[d] = d;
    random_shuffle(&n->r, perm, rank);
    for (int d = 0; d < rank; d++) wide[d] = perm[d];
    net_add(n, ipu_transpose(n->b, x, perm, rank), "v%u.permute(%s)", x.id, net_list(wide, rank));
    return true;
}

static bool make_swap(net *n)
{
    ipu_value x    = net_pick(n, 2, 5);
    int       rank = ipu_value_rank(x), a = net_int(n, -rank, rank - 1), b = net_int(n, 0, rank - 1);
    net_add(n, ipu_swap_axes(n->b, x, a, b), "v%u.transpose(%d, %d)", x.id, a, b);
    return true;
}

static bool make_reverse(net *n)
{
    ipu_value x    = net_pick(n, 1, 4);
    int       axis = net_int(n, 0, ipu_value_rank(x) - 1);
    net_add(n, ipu_reverse(n->b, x, axis), "torch.flip(v%u, [%d])", x.id, axis);
    return true;
}

static bool make_expand(net *n)
{
    ipu_shape from = net_shape(n, 1, 3, 3), to = {.rank = from.rank + 1, .dim = {net_int(n, 1, 3)}};
    for (int d = 0; d < from.rank; d++) {
        to.dim[d + 1] = from.dim[d];
        if (net_chance(n, 40)) from.dim[d] = 1;
    }
    ipu_value x = net_param(n, from, -2, 2);
    net_add(n, ipu_expand(n->b, x, to), "v%u.expand(%s)", x.id, net_list(to.dim, to.rank));
    return true;
}

static bool make_tile(net *n)
{
    ipu_value x = net_pick(n, 1, 3);
    int64_t   repeats[IPU_MAX_RANK];
    int       rank = ipu_value_rank(x);
    for (int d = 0; d < rank; d++) repeats[d] = net_int(n, 1, 2);
    if (net_chance(n, 50)) {
        net_add(n, ipu_tile(n->b, x, repeats, rank), "torch.tile(v%u, %s)", x.id, net_list(repeats, rank));
    } else {
        int axis = net_int(n, 0, rank - 1);
        net_add(n, ipu_repeat(n->b, x, 2, axis), "torch.repeat_interleave(v%u, 2, %d)", x.id, axis);
    }
    return true;
}

static bool make_slice(net *n)
{
    ipu_value x     = net_pick(n, 1, 5);
    int       axis  = net_int(n, 0, ipu_value_rank(x) - 1);
    int64_t   count = ipu_value_dim(x, axis), begin = net_int(n, 0, (int)count - 1);
    int64_t   end = net_int(n, (int)begin + 1, (int)count), step = net_int(n, 1, 2);
    if (net_chance(n, 25)) {
        net_add(n, ipu_index(n->b, x, begin, axis), "v%u.select(%d, %lld)", x.id, axis, (long long)begin);
    } else if (step == 1) {
        net_add(n, ipu_slice(n->b, x, begin, end, axis), "v%u.narrow(%d, %lld, %lld)", x.id, axis,
                (long long)begin, (long long)(end - begin));
    } else {
        net_add(n, ipu_slice_step(n->b, x, begin, end, step, axis),
                "torch.index_select(v%u, %d, torch.arange(%lld, %lld, 2))", x.id, axis, (long long)begin,
                (long long)end);
    }
    return true;
}

static bool make_split(net *n)
{
    ipu_value x     = net_pick(n, 1, 4), out[2];
    int       axis  = net_int(n, 0, ipu_value_rank(x) - 1);
    int64_t   count = ipu_value_dim(x, axis), sizes[2] = {1, count - 1};
    if (count < 2) return false;
    ipu_split(n->b, x, sizes, 2, axis, out);
    net_add(n, out[0], "torch.split(v%u, %s, %d)[0]", x.id, net_list(sizes, 2), axis);
    net_add(n, out[1], "torch.split(v%u, %s, %d)[1]", x.id, net_list(sizes, 2), axis);
    return true;
}

static bool make_concat(net *n)
{
    ipu_value x     = net_pick(n, 1, 4);
    int       axis  = net_int(n, 0, ipu_value_rank(x) - 1);
    ipu_shape shape = ipu_value_shape(x);
    if (net_chance(n, 50)) {
        ipu_value y = net_param(n, shape, -2, 2);
        net_add(n, ipu_stack(n->b, (ipu_value[]){x, y}, 2, axis), "torch.stack([v%u, v%u], %d)", x.id, y.id,
                axis);
        return true;
    }
    shape.dim[axis] = net_int(n, 1, 3);
    ipu_value y     = net_param(n, shape, -2, 2);
    net_add(n, ipu_concat(n->b, (ipu_value[]){x, y, x}, 3, axis), "torch.cat([v%u, v%u, v%u], %d)", x.id,
            y.id, x.id, axis);
    return true;
}

static bool make_pad_constant(net *n)
{
    ipu_value x    = net_pick(n, 1, 4);
    int       rank = ipu_value_rank(x);
    int64_t   before[IPU_MAX_RANK], after[IPU_MAX_RANK], torch_order[2 * IPU_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        before[d]                           = net_int(n, 0, 2);
        after[d]                            = net_int(n, ipu_value_dim(x, d) > 1 ? -1 : 0, 2);
        torch_order[2 * (rank - 1 - d)]     = before[d];
        torch_order[2 * (rank - 1 - d) + 1] = after[d];
    }
    net_add(n, ipu_pad(n->b, x, before, after, IPU_PAD_CONSTANT, 0.5), "F.pad(v%u, %s, value=0.5)", x.id,
            net_list(torch_order, 2 * rank));
    return true;
}

/* PyTorch pads the last dimensions only in these modes. */
static bool make_pad(net *n)
{
    static const ipu_pad_mode modes[] = {IPU_PAD_REFLECT, IPU_PAD_EDGE, IPU_PAD_WRAP};
    static const char *const  texts[] = {"reflect", "replicate", "circular"};
    int                       k       = net_int(n, 0, 2);
    ipu_shape s        = {4, {net_int(n, 1, 2), net_int(n, 1, 2), net_int(n, 3, 5), net_int(n, 3, 5)}};
    ipu_value x        = net_param(n, s, -2, 2);
    int64_t   before[] = {0, 0, net_int(n, 0, 2), net_int(n, 0, 2)},
            after[]    = {0, 0, net_int(n, 0, 2), net_int(n, 0, 2)};
    int64_t order[]    = {before[3], after[3], before[2], after[2]};
    net_add(n, ipu_pad(n->b, x, before, after, modes[k], 0), "F.pad(v%u, %s, mode='%s')", x.id,
            net_list(order, 4), texts[k]);
    return true;
}

/* ---- sorting, running sums ---- */

static bool make_sort(net *n)
{
    ipu_value x = net_param(n, net_shape(n, 1, 3, 5), -2, 2),
              indices; /* no two alike, so that the order is one */
    int  axis = net_int(n, 0, ipu_value_rank(x) - 1);
    bool down = net_chance(n, 50);
    if (net_chance(n, 50)) {
        int64_t k = net_int(n, 1, (int)ipu_value_dim(x, axis));
        net_add(n, ipu_topk(n->b, x, k, axis, down, &indices), "torch.topk(v%u, %lld, %d, %s)[0]", x.id,
                (long long)k, axis, down ? "True" : "False");
        net_add(n, indices, "torch.topk(v%u, %lld, %d, %s)[1]", x.id, (long long)k, axis,
                down ? "True" : "False");
    } else {
        net_add(n, ipu_sort(n->b, x, axis, down, &indices), "torch.sort(v%u, %d, %s)[0]", x.id, axis,
                down ? "True" : "False");
        net_add(n, indices, "torch.sort(v%u, %d, %s)[1]", x.id, axis, down ? "True" : "False");
    }
    return true;
}

static bool make_cumulative(net *n)
{
    ipu_value x    = net_pick(n, 1, 4);
    int       axis = net_int(n, 0, ipu_value_rank(x) - 1);
    if (net_chance(n, 50)) {
        net_add(n, ipu_cumsum(n->b, x, axis), "torch.cumsum(v%u, %d)", x.id, axis);
    } else {
        ipu_value y = net_use(n, net_add(n, ipu_tanh(n->b, x), "torch.tanh(v%u)", x.id));
        net_add(n, ipu_cumprod(n->b, y, axis), "torch.cumprod(v%u, %d)", y.id, axis);
    }
    return true;
}

const net_layer net_tensor_layers[] = {
    {"shape", make_reshape}, {"shape", make_flatten}, {"shape", make_unsqueeze}, {"shape", make_transpose},
    {"shape", make_swap},    {"shape", make_reverse}, {"shape", make_expand},    {"shape", make_tile},
    {"shape", make_slice},   {"shape", make_split},   {"shape", make_concat},    {"shape", make_pad_constant},
    {"shape", make_pad},     {"sort", make_sort},     {"sort", make_cumulative}, {NULL, NULL},
};

/* Layers of random networks: pooling, normalisation, recurrent layers, attention, embeddings. */
#include <string.h>

#include "net.h"

static bool make_block(net *n)
{
    ipu_value x = net_pick(n, 2, 3);
    int64_t   k = ipu_value_dim(x, -1);
    ipu_value w = net_param(n, IPU_SHAPE(k, k), -0.5, 0.5), bias = net_param(n, IPU_SHAPE(k), -1, 1);
    ipu_value y = ipu_add(n->b, x, ipu_gelu(n->b, ipu_linear(n->b, x, w, bias)));
    net_add(n, y, "v%u + F.gelu(F.linear(v%u, v%u, v%u))", x.id, x.id, w.id, bias.id);
    return true;
}

const net_layer net_deep_layers[] = {
    {"matmul", make_block},
    {NULL, NULL},
};

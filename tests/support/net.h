/* Random networks: built twice from one seed, by a model and at once (eager.h), and told to PyTorch as text.
 *
 * A layer (net_layers.c) takes values of the pool, emits ops through the builder, and says with net_add what
 * that is in Python, where values are called v1, v2, ... by their ids.
 */
#ifndef IPU_TESTS_NET_H
#define IPU_TESTS_NET_H

#include <stdio.h>

#include "ipu/model.h"
#include "ipu/op.h"
#include "random.h"

enum { NET_MAX_VALUES = 256, NET_MAX_INPUTS = 128, NET_MAX_ELEMENTS = 1500 };

typedef struct net_input {
    ipu_value v;
    ipu_type  type;
    ipu_shape shape;
    void     *data;
    bool      is_wanted; /* its gradient is */
    ipu_value gradient;  /* null: the loss does not depend on it */
    char      name[16];
} net_input;

typedef struct net_value {
    ipu_value v;
    bool      is_used;
} net_value;

typedef struct net {
    ipu_builder *b;
    ipu_model   *m;    /* NULL: computed at once */
    ipu_type     type; /* of all that is not integer */
    test_random  r;
    net_value    pool[NET_MAX_VALUES];
    int          n_pool;
    net_input    inputs[NET_MAX_INPUTS];
    int          n_inputs;
    ipu_value    outputs[NET_MAX_VALUES]; /* what nothing uses, then the loss */
    int          n_outputs;
    FILE        *code;
    char        *text; /* Python, after net_close */
    size_t       text_bytes;
} net;

typedef struct net_layer {
    const char *family;
    /* False: nothing in the pool suits it. */
    bool (*make)(net *n);
} net_layer;

/* `make` NULL at the end. */
extern const net_layer net_math_layers[], net_tensor_layers[], net_deep_layers[];

/* `with_model` false: computed at once. `family` NULL: all; types but float go with "elementwise" only.
 * Errors are the builder's. */
void net_build(net *n, uint64_t seed, bool with_model, const char *family, ipu_type type);
void net_close(net *n);

/* ---- for layers ---- */

/* A new input with values in [low, high]; floating ones take part in the gradient. */
ipu_value net_param(net *n, ipu_shape shape, double low, double high);
/* Integers low <= i <= high, or constants: no gradient. */
ipu_value net_constant(net *n, ipu_type type, ipu_shape shape, double low, double high);
/* A value of the pool, or a new input, of that rank and not too large. */
ipu_value net_pick(net *n, int least_rank, int most_rank);
/* A new value: vN = `format`, in Python. */
ipu_value net_add(net *n, ipu_value v, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same value: something uses it. */
ipu_value net_use(net *n, ipu_value v);
/* "[1,2]" */
const char *net_list(const int64_t *values, int n);
int         net_int(net *n, int least, int most);
bool        net_chance(net *n, int percent);
ipu_shape   net_shape(net *n, int least_rank, int most_rank, int64_t most);

#endif

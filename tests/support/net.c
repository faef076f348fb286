/* Random networks: the pool of values, inputs, the loss and its gradients. */
#include "net.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "eager.h"
#include "sample.h"

int  net_int(net *n, int least, int most) { return (int)random_in(&n->r, least, most); }
bool net_chance(net *n, int percent) { return random_chance(&n->r, percent); }

const char *net_list(const int64_t *values, int n)
{
    static char buffers[8][256];
    static int  next;
    char       *out = buffers[next++ % 8];
    int         at  = snprintf(out, sizeof *buffers, "[");
    for (int i = 0; i < n && at < (int)sizeof *buffers - 24; i++)
        at += snprintf(out + at, sizeof *buffers - (size_t)at, "%s%lld", i ? "," : "", (long long)values[i]);
    snprintf(out + at, sizeof *buffers - (size_t)at, "]");
    return out;
}

ipu_shape net_shape(net *n, int least_rank, int most_rank, int64_t most)
{
    ipu_shape shape = {.rank = net_int(n, least_rank, most_rank)};
    for (int d = 0; d < shape.rank; d++) shape.dim[d] = random_in(&n->r, 1, most);
    return shape;
}

/* ---- inputs ---- */

static void *random_data(net *n, ipu_type type, int64_t count, double low, double high)
{
    char  *data  = malloc((size_t)count * ipu_type_size(type) + 1);
    double whole = ipu__op_is_floating(type) ? 0 : 1;
    if (!data) abort();
    for (int64_t i = 0; i < count; i++) {
        double unit = (double)(random_bits(&n->r) >> 11) * 0x1p-53;
        element_set(type, data, i, low + unit * (high - low + whole));
    }
    return data;
}

static ipu_value add_input(net *n, ipu_type type, ipu_shape shape, double low, double high, bool is_wanted)
{
    if (n->n_inputs == NET_MAX_INPUTS) abort();
    net_input *in = &n->inputs[n->n_inputs];
    *in           = (net_input){.type = type, .shape = shape, .is_wanted = is_wanted};
    in->data      = random_data(n, type, ipu__op_n_elements(&shape), low, high);
    snprintf(in->name, sizeof in->name, "x%d", n->n_inputs++);
    in->v = n->m ? ipu_model_input(n->m, type, shape, in->name)
                 : ipu_constant_data(n->b, type, shape, in->data);
    return in->v;
}

ipu_value net_param(net *n, ipu_shape shape, double low, double high)
{
    return add_input(n, n->type, shape, low, high, true);
}

ipu_value net_constant(net *n, ipu_type type, ipu_shape shape, double low, double high)
{
    return add_input(n, type, shape, low, high, false);
}

/* ---- the pool ---- */

ipu_value net_use(net *n, ipu_value v)
{
    for (int i = 0; i < n->n_pool; i++)
        if (n->pool[i].v.id == v.id) n->pool[i].is_used = true;
    return v;
}

ipu_value net_pick(net *n, int least_rank, int most_rank)
{
    int found[NET_MAX_VALUES], n_found = 0;
    for (int i = 0; i < n->n_pool; i++) {
        ipu_value v    = n->pool[i].v;
        int       rank = ipu_value_rank(v);
        if (rank < least_rank || rank > most_rank || ipu_value_n_elements(v) > NET_MAX_ELEMENTS) continue;
        if (ipu_value_type(v) == n->type) found[n_found++] = i;
    }
    /* The newest twice as likely, so that networks grow deep. */
    if (n_found > 0 && net_chance(n, 85)) {
        int at = net_chance(n, 50) ? found[n_found - 1] : found[net_int(n, 0, n_found - 1)];
        return net_use(n, n->pool[at].v);
    }
    return net_param(n, net_shape(n, least_rank, most_rank, 5), -2, 2);
}

ipu_value net_add(net *n, ipu_value v, const char *format, ...)
{
    va_list args;
    if (!v.id || n->n_pool == NET_MAX_VALUES) return v;
    n->pool[n->n_pool++] = (net_value){.v = v};
    fprintf(n->code, "v%u = ", v.id);
    va_start(args, format);
    vfprintf(n->code, format, args);
    va_end(args);
    fprintf(n->code, "\n");
    return v;
}

/* ---- the whole ---- */

static bool has_result(const net *n)
{
    for (int i = 0; i < n->n_pool; i++)
        if (!n->pool[i].is_used && ipu_value_type(n->pool[i].v) == n->type) return true;
    return false;
}

/* Every value that nothing uses, weighted, summed. */
static void add_loss(net *n)
{
    ipu_value loss = IPU_NO_VALUE;
    if (!has_result(n)) {
        ipu_value x = net_pick(n, 0, IPU_MAX_RANK);
        net_add(n, ipu_tanh(n->b, x), "torch.tanh(v%u)", x.id);
    }
    for (int i = 0, n_pool = n->n_pool; i < n_pool; i++) {
        ipu_value v = n->pool[i].v;
        if (n->pool[i].is_used) continue;
        n->outputs[n->n_outputs++] = v;
        if (ipu_value_type(v) != n->type) continue;
        ipu_value weight = net_constant(n, n->type, ipu_value_shape(v), -1, 1);
        ipu_value part   = ipu_reduce_sum(n->b, ipu_mul(n->b, v, weight), NULL, 0, false);
        net_add(n, part, "(v%u * v%u).sum()", v.id, weight.id);
        if (!loss.id) {
            loss = part;
            continue;
        }
        ipu_value before = loss;
        loss             = net_add(n, ipu_add(n->b, loss, part), "v%u + v%u", before.id, part.id);
    }
    n->outputs[n->n_outputs++] = loss;
}

static void add_gradients(net *n)
{
    ipu_value x[NET_MAX_INPUTS], d_x[NET_MAX_INPUTS] = {{0}}, loss = n->outputs[n->n_outputs - 1];
    size_t    n_x = 0;
    if (ipu_builder_status(n->b) != IPU_OK || !loss.id) return;
    for (int i = 0; i < n->n_inputs; i++)
        if (n->inputs[i].is_wanted) x[n_x++] = n->inputs[i].v;
    if (n->m) {
        ipu_model_gradients(n->m, loss, x, n_x, &(ipu_gradient_options){.allow_unused = true}, d_x);
    } else {
        ipu_value one = ipu_scalar_like(n->b, loss, 1);
        eager_gradients(n->b, &loss, &one, 1, x, n_x, d_x);
    }
    n_x = 0;
    for (int i = 0; i < n->n_inputs; i++)
        if (n->inputs[i].is_wanted) n->inputs[i].gradient = d_x[n_x++];
}

static void name_outputs(net *n)
{
    char name[16];
    for (int i = 0; i < n->n_outputs; i++) {
        snprintf(name, sizeof name, "o%d", i);
        ipu_model_output(n->m, n->outputs[i], name);
    }
    for (int i = 0; i < n->n_inputs; i++) {
        if (!n->inputs[i].gradient.id) continue;
        snprintf(name, sizeof name, "g%d", i);
        ipu_model_output(n->m, n->inputs[i].gradient, name);
    }
}

static const net_layer *layer_at(net *n)
{
    static const net_layer *const tables[] = {net_math_layers, net_tensor_layers, net_deep_layers};
    const net_layer              *table    = tables[net_int(n, 0, 2)];
    int                           n_layers = 0;
    while (table[n_layers].make) n_layers++;
    return &table[net_int(n, 0, n_layers - 1)];
}

void net_build(net *n, uint64_t seed, bool with_model, const char *family, ipu_type type)
{
    *n      = (net){.type = type, .r = {seed}};
    n->code = open_memstream(&n->text, &n->text_bytes);
    if (!n->code) abort();
    if (with_model && ipu_model_create(&n->m) != IPU_OK) abort();
    n->b = with_model ? ipu_model_builder(n->m) : eager_create(false);
    if (!n->b) abort();
    int most = net_int(n, 2, 8);
    for (int k = 0, tries = 0; k < most && tries < 2000; tries++) {
        const net_layer *layer = layer_at(n);
        if (family && strcmp(family, layer->family) != 0) continue;
        if (n->n_inputs > NET_MAX_INPUTS - 40 || n->n_pool > NET_MAX_VALUES - 80) break;
        k += layer->make(n);
    }
    add_loss(n);
    add_gradients(n);
    if (n->m && ipu_builder_status(n->b) == IPU_OK) name_outputs(n);
    fclose(n->code);
}

void net_close(net *n)
{
    for (int i = 0; i < n->n_inputs; i++) free(n->inputs[i].data);
    free(n->text);
    if (n->m)
        ipu_model_destroy(n->m);
    else
        eager_destroy(n->b);
}

/* What stays between runs: weights, which belong to the module, and states of the optimizer and of random ops.
 *
 * Parameters are the same in all replicas; states of the network (running means) and seeds differ, and are kept for
 * each: under NAME for replica 0, NAME@r for the others. Sums of gradients are zero between runs and are not kept.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/array.h"
#include "op/op.h"
#include "train/executor/executor.h"

#define SEED_STEP 0x9e3779b9u /* between the seeds of replicas: odd, so that none repeat */

/* ---- what there is ---- */

ipu__executor_kept *ipu__executor_kept_of(const ipu__executor_program *p, const char *name)
{
    for (size_t i = 0; i < p->kept.n; i++)
        if (strcmp(p->kept.at[i].name, name) == 0) return &p->kept.at[i];
    return NULL;
}

static ipu_status list_one(ipu__executor_program *p, const ipu_model *m, uint32_t id, bool is_parameter,
                           ipu__executor_kept kept)
{
    const ipu__builder_value *v          = &m->base.values.at[id];
    bool                      is_updated = m->values.at[id].update != 0;
    bool                      is_random  = m->seed != 0 && id == m->seed; /* another one in each replica */
    kept.type                            = v->type;
    kept.rate                            = m->values.at[id].rate;
    kept.name                            = ipu__strdup(v->name);
    if (!kept.name) return ipu__fail_memory();
    kept.is_seed   = is_random || (m->rounding_seed != 0 && id == m->rounding_seed);
    kept.is_weight = !kept.is_seed && !kept.is_transient
                  && ipu__weights_find(&p->x->module->weights, v->name) != SIZE_MAX;
    kept.differs = ipu__executor_n_replicas(p) > 1 && !is_parameter && (is_random || kept.is_weight)
                && is_updated;
    kept.is_changed = is_updated || (is_parameter && p->x->training);
    p->updates_weights |= kept.is_weight && is_updated;
    if (ipu__push(&p->kept, kept)) return IPU_OK;
    ipu__free(kept.name);
    return ipu__fail_memory();
}

static ipu_status list_net(ipu__executor_program *p, const ipu__parallel_models *models)
{
    const ipu_model *m = models->net;
    for (size_t i = 0; i < m->parameters.n + m->states.n; i++) {
        bool               is_parameter = i < m->parameters.n;
        uint32_t           id   = is_parameter ? m->parameters.at[i] : m->states.at[i - m->parameters.n];
        ipu__executor_kept kept = {.shape        = m->base.values.at[id].shape,
                                   .is_transient = ipu__ties_is_transient(&models->ties, id)};
        IPU_TRY(list_one(p, m, id, is_parameter, kept));
    }
    return IPU_OK;
}

/* What it does not share with the network: states of the optimizer, whole or of one part. */
static ipu_status list_step(ipu__executor_program *p, const ipu__parallel_models *models)
{
    const ipu_model *m = models->step;
    for (size_t i = 0; i < m->states.n; i++) {
        uint32_t            id   = m->states.at[i];
        ipu__executor_kept  kept = {.shape = m->base.values.at[id].shape};
        ipu__parallel_place place;
        if (ipu__ties_has_step(&models->ties, id)) continue;
        if (ipu__parallel_find_place(&p->over, models, id, &place)) {
            kept.shape       = place.whole;
            kept.n_part      = place.n_part;
            kept.is_divided  = place.is_divided;
            kept.is_off_chip = place.is_off_chip;
        }
        IPU_TRY(list_one(p, m, id, false, kept));
    }
    return IPU_OK;
}

ipu_status ipu__executor_list_kept(ipu__executor_program *p, const ipu__parallel_models *models)
{
    p->updates_weights = p->x->training;
    IPU_TRY(list_net(p, models));
    return models->step ? list_step(p, models) : IPU_OK;
}

void ipu__executor_state_fini(ipu__executor_program *p)
{
    for (size_t i = 0; i < p->kept.n; i++) ipu__free(p->kept.at[i].name);
    ipu__array_fini(&p->kept);
    ipu__array_fini(&p->weights.numbers);
}

/* ---- weights of the module ---- */

static bool has_engine(const ipu_executor *x) { return x->p && x->p->base.engine; }

ipu_status ipu_executor_copy_weights_to_host(ipu_executor *x)
{
    if (!has_engine(x)) return ipu__fail(IPU_INVALID, "Model has not been compiled or has been destroyed.");
    return ipu__weights_take(&x->module->weights, &x->p->weights);
}

ipu_status ipu_executor_copy_weights_to_device(ipu_executor *x)
{
    if (!has_engine(x)) return ipu__fail(IPU_INVALID, "Model has not been compiled or has been destroyed.");
    return ipu__weights_give(&x->module->weights, &x->p->weights);
}

/* ---- what begins with a run's options ---- */

ipu_status ipu__executor_write_rates(ipu__executor_program *p)
{
    for (size_t i = 0; p->x->training && i < p->kept.n; i++) {
        const ipu__executor_kept *kept = &p->kept.at[i];
        if (kept->rate == 0 || kept->rate > p->x->how.n_groups + 1) continue;
        float rate = (float)p->x->rates[kept->rate - 1];
        IPU_TRY(ipu_engine_write(p->base.engine, kept->name, &rate, sizeof rate));
    }
    return IPU_OK;
}

static ipu_status write_seed(ipu__executor_program *p, const ipu__executor_kept *kept, uint32_t seed,
                             uint32_t step)
{
    for (int64_t r = 0; r < p->x->options.replicas; r++) {
        uint32_t number = (uint32_t)(ipu__executor_first_replica(p) + r);
        uint32_t own[2] = {seed + (kept->differs ? SEED_STEP * number : 0), step};
        IPU_TRY(ipu_engine_write_replica(p->base.engine, kept->name, r, own, sizeof own));
    }
    return IPU_OK;
}

ipu_status ipu__executor_begin_seed(ipu__executor_program *p)
{
    for (size_t i = 0; i < p->kept.n; i++)
        if (p->kept.at[i].is_seed) IPU_TRY(write_seed(p, &p->kept.at[i], p->x->options.seed, 0));
    return IPU_OK;
}

ipu_status ipu_executor_set_seed(ipu_executor *x, uint32_t seed)
{
    x->options.seed = seed;
    return has_engine(x) ? ipu__executor_begin_seed(x->p) : IPU_OK;
}

ipu_status ipu__executor_clear_sums(ipu__executor_program *p)
{
    for (size_t i = 0; i < p->kept.n; i++) {
        const ipu__executor_kept *kept = &p->kept.at[i];
        ipu_array                 zeros;
        if (!kept->is_transient) continue;
        IPU_TRY(ipu_array_create(kept->type, kept->shape, &zeros));
        size_t     bytes  = ipu_array_bytes(&zeros);
        ipu_status status = bytes ? ipu_engine_write(p->base.engine, kept->name, zeros.data, bytes) : IPU_OK;
        ipu_array_free(&zeros);
        IPU_TRY(status);
    }
    return IPU_OK;
}

/* ---- all of it ---- */

/* Of how many replicas a value is kept, those of other processes too. */
static int64_t n_copies(const ipu__executor_program *p, const ipu__executor_kept *kept)
{
    if (kept->is_transient) return 0;
    return kept->differs ? ipu__executor_n_replicas(p) : 1;
}

static char *name_for(const char *name, int64_t replica)
{
    ipu__text t = {0};
    ipu__text_add(&t, "%s", name);
    if (replica > 0) ipu__text_add(&t, "@%" PRId64, replica);
    return ipu__text_take(&t);
}

static ipu_status get_one(ipu__executor_program *p, const ipu__executor_kept *kept, int64_t replica,
                          ipu_named_array *out)
{
    out->name = name_for(kept->name, replica);
    if (!out->name) return ipu__fail_memory();
    IPU_TRY(ipu_array_create(kept->type, kept->shape, &out->array));
    size_t bytes = ipu_array_bytes(&out->array);
    if (kept->differs) replica -= ipu__executor_first_replica(p);
    if (replica < 0 || replica >= p->x->options.replicas) return IPU_OK; /* of another process */
    return bytes ? ipu__executor_read_kept(p, kept, replica, out->array.data, bytes) : IPU_OK;
}

ipu_status ipu_executor_get_state(ipu_executor *x, ipu_npz *out)
{
    *out = (ipu_npz){0};
    if (!has_engine(x)) return ipu__fail(IPU_INVALID, "Model has not been compiled or has been destroyed.");
    IPU_TRY(ipu__weights_sync(&x->module->weights, &x->p->weights));
    size_t most = x->p->kept.n * (size_t)ipu__executor_n_replicas(x->p);
    out->arrays = ipu__alloc_zeroed((most + 1) * sizeof *out->arrays);
    if (!out->arrays) return ipu__fail_memory();
    ipu_status status = IPU_OK;
    for (size_t i = 0; status == IPU_OK && i < x->p->kept.n; i++) {
        size_t first = out->n;
        for (int64_t r = 0; status == IPU_OK && r < n_copies(x->p, &x->p->kept.at[i]); r++)
            status = get_one(x->p, &x->p->kept.at[i], r, &out->arrays[out->n++]);
        if (status == IPU_OK && x->p->kept.at[i].differs)
            status = ipu__executor_gather(x->p, &out->arrays[first], out->n - first);
    }
    if (status != IPU_OK) ipu_npz_free(out);
    return status;
}

static const ipu_array *find_array(const ipu_npz *z, const char *name)
{
    for (size_t i = 0; i < z->n; i++)
        if (strcmp(z->arrays[i].name, name) == 0) return &z->arrays[i].array;
    return NULL;
}

/* Adds what is wrong with one array; returns the number of mistakes, 0 or 1. */
static size_t compare_one(const ipu__executor_kept *kept, int64_t replica, const ipu_npz *z, ipu__text *t)
{
    char            *name  = name_for(kept->name, replica);
    const ipu_array *found = name ? find_array(z, name) : NULL;
    ipu_array        like  = {.type = kept->type, .shape = kept->shape};
    if (!name) t->failed = true;
    bool ok = found && found->type == like.type && found->shape.rank == like.shape.rank
           && memcmp(found->shape.dim, like.shape.dim, (size_t)like.shape.rank * sizeof *like.shape.dim) == 0;
    if (!ok)
        ipu__text_add(t, "\n  \"%s\" %s", name ? name : "",
                      found ? "is of another type or shape" : "is missing");
    ipu__free(name);
    return !ok;
}

static ipu_status compare(const ipu__executor_program *p, const ipu_npz *z)
{
    ipu__text t = {0};
    size_t    n = 0, n_expected = 0;
    for (size_t i = 0; i < p->kept.n; i++) {
        int64_t replicas = n_copies(p, &p->kept.at[i]);
        n_expected += (size_t)replicas;
        for (int64_t r = 0; r < replicas && n < 10; r++) n += compare_one(&p->kept.at[i], r, z, &t);
    }
    ipu_status status = IPU_OK;
    if (t.failed)
        status = ipu__fail_memory();
    else if (n > 0)
        status = ipu__fail(IPU_INVALID, "the state is not of this model and optimizer:%s", t.at);
    else if (z->n != n_expected)
        status = ipu__fail(IPU_INVALID,
                           "the state is not of this model and optimizer: expected %zu arrays, found %zu",
                           n_expected, z->n);
    ipu__text_fini(&t);
    return status;
}

static ipu_status set_one(ipu__executor_program *p, const ipu__executor_kept *kept, const ipu_npz *z)
{
    int64_t n     = n_copies(p, kept) > 1 ? p->x->options.replicas : n_copies(p, kept);
    int64_t first = kept->differs ? ipu__executor_first_replica(p) : 0;
    for (int64_t r = 0; r < n; r++) {
        char *name = name_for(kept->name, first + r);
        if (!name) return ipu__fail_memory();
        const ipu_array *a     = find_array(z, name);
        size_t           bytes = ipu_array_bytes(a);
        ipu__free(name);
        if (bytes == 0) continue;
        IPU_TRY(ipu__executor_write_kept(p, kept, kept->differs ? r : -1, a->data, bytes));
    }
    return IPU_OK;
}

/* The rates of a state are those it goes on with, until others are set. */
static void take_rates(ipu_executor *x, const ipu_npz *z)
{
    for (size_t i = 0; x->training && i <= x->how.n_groups; i++) {
        char name[IPU__NN_RATE_NAME];
        ipu__nn_rate_name(i, name);
        const ipu_array *a = find_array(z, name);
        if (!a || a->type != IPU_FLOAT || ipu_array_n_elements(a) != 1) continue;
        float rate = *(const float *)a->data;
        if ((float)x->rates[i] != rate) x->rates[i] = (double)rate;
    }
}

static ipu_status set_state(ipu__executor_program *p, const ipu_npz *z)
{
    IPU_TRY(compare(p, z));
    for (size_t i = 0; i < p->kept.n; i++) IPU_TRY(set_one(p, &p->kept.at[i], z));
    ipu__weights_has_newest(&p->x->module->weights, &p->weights);
    return IPU_OK;
}

static ipu_status copy_state(const ipu_npz *from, ipu_npz *to)
{
    *to        = (ipu_npz){0};
    to->arrays = ipu__alloc_zeroed((from->n + 1) * sizeof *to->arrays);
    if (!to->arrays) return ipu__fail_memory();
    for (size_t i = 0; i < from->n; i++) {
        const ipu_array *a    = &from->arrays[i].array;
        ipu_named_array *copy = &to->arrays[to->n++];
        copy->name            = ipu__strdup(from->arrays[i].name);
        ipu_status status     = copy->name ? ipu_array_create(a->type, a->shape, &copy->array)
                                           : ipu__fail_memory();
        if (status != IPU_OK) {
            ipu_npz_free(to);
            return status;
        }
        if (ipu_array_bytes(a)) memcpy(copy->array.data, a->data, ipu_array_bytes(a));
    }
    return IPU_OK;
}

ipu_status ipu_executor_set_state(ipu_executor *x, const ipu_npz *state)
{
    ipu_npz copy;
    if (has_engine(x)) {
        IPU_TRY(set_state(x->p, state));
    } else {
        IPU_TRY(copy_state(state, &copy));
        ipu_npz_free(&x->pending);
        x->pending = copy;
    }
    take_rates(x, state);
    return IPU_OK;
}

ipu_status ipu__executor_set_pending(ipu__executor_program *p)
{
    if (p->x->pending.n == 0) return IPU_OK;
    IPU_TRY(set_state(p, &p->x->pending));
    IPU_TRY(ipu__executor_write_rates(p)); /* may have been set since */
    ipu_npz_free(&p->x->pending);
    return IPU_OK;
}

/* ---- some of it ---- */

/* What an array of that name is of, NAME or NAME@r; NULL: of nothing there is. */
static ipu__executor_kept *part_named(const ipu__executor_program *p, const char *name, int64_t *replica)
{
    ipu__executor_kept *whole = ipu__executor_kept_of(p, name);
    const char         *at    = strrchr(name, '@');
    char               *end;
    *replica = 0;
    if (whole || !at) return whole;
    *replica = strtoll(at + 1, &end, 10);
    if (*end || *replica <= 0) return NULL;
    for (size_t i = 0; i < p->kept.n; i++) {
        ipu__executor_kept *kept   = &p->kept.at[i];
        size_t              length = strlen(kept->name);
        if (length == (size_t)(at - name) && memcmp(kept->name, name, length) == 0
            && *replica < n_copies(p, kept))
            return kept;
    }
    return NULL;
}

/* INVALID: the state has no such array. */
static ipu_status find_part(const ipu__executor_program *p, const ipu_named_array *a,
                            ipu__executor_kept **out, int64_t *replica)
{
    *out = part_named(p, a->name, replica);
    if (!*out || n_copies(p, *out) == 0)
        return ipu__fail(IPU_INVALID, "the state of this model and optimizer has no array \"%.100s\"",
                         a->name);
    if ((*out)->type != a->array.type || !ipu__shape_equal(&(*out)->shape, &a->array.shape))
        return ipu__fail(IPU_INVALID,
                         "state \"%.100s\" is of another type or shape than the model's: expected %s "
                         "of %" PRId64 " elements and rank %d, found %s of %" PRId64 " and rank %d",
                         a->name, ipu_type_name((*out)->type), ipu__op_n_elements(&(*out)->shape),
                         (*out)->shape.rank, ipu_type_name(a->array.type),
                         ipu__op_n_elements(&a->array.shape), a->array.shape.rank);
    return IPU_OK;
}

static ipu_status write_part(ipu__executor_program *p, const ipu_named_array *a)
{
    ipu__executor_kept *kept;
    int64_t             replica;
    IPU_TRY(find_part(p, a, &kept, &replica));
    size_t bytes = ipu_array_bytes(&a->array);
    if (kept->is_weight) ipu__weights_has_newest(&p->x->module->weights, &p->weights);
    if (bytes == 0) return IPU_OK;
    if (!kept->differs) return ipu__executor_write_kept(p, kept, -1, a->array.data, bytes);
    replica -= ipu__executor_first_replica(p);
    if (replica < 0 || replica >= p->x->options.replicas) return IPU_OK; /* of another process */
    return ipu__executor_write_kept(p, kept, replica, a->array.data, bytes);
}

ipu_status ipu_executor_update_state(ipu_executor *x, const ipu_npz *some)
{
    ipu__executor_kept *kept;
    int64_t             replica;
    if (!has_engine(x)) return ipu__fail(IPU_INVALID, "Model has not been compiled or has been destroyed.");
    for (size_t i = 0; i < some->n; i++) IPU_TRY(find_part(x->p, &some->arrays[i], &kept, &replica));
    IPU_TRY(ipu__weights_sync(&x->module->weights, &x->p->weights));
    for (size_t i = 0; i < some->n; i++) IPU_TRY(write_part(x->p, &some->arrays[i]));
    take_rates(x, some);
    return IPU_OK;
}

ipu_status ipu__executor_carry_state(ipu__executor_program *p, const ipu_npz *state)
{
    for (size_t i = 0; i < p->kept.n; i++) {
        const ipu__executor_kept *kept   = &p->kept.at[i];
        ipu__text                 unused = {0};
        size_t                    wrong  = 0;
        for (int64_t r = 0; r < n_copies(p, kept); r++) wrong += compare_one(kept, r, state, &unused);
        ipu__text_fini(&unused);
        if (wrong == 0 && !kept->is_weight && kept->rate == 0) IPU_TRY(set_one(p, kept, state));
    }
    return IPU_OK;
}

static ipu_status hand_over_one(ipu__executor_program *from, const ipu__executor_kept *have,
                                ipu__executor_program *to, const ipu__executor_kept *kept)
{
    ipu_array  a;
    ipu_status status   = ipu_array_create(kept->type, kept->shape, &a);
    size_t     bytes    = status == IPU_OK ? ipu_array_bytes(&a) : 0;
    int64_t    n_copied = bytes == 0 ? 0 : kept->differs ? to->x->options.replicas : 1;
    for (int64_t r = 0; r < n_copied && status == IPU_OK; r++) {
        status = ipu__executor_read_kept(from, have, r, a.data, bytes);
        if (status == IPU_OK)
            status = ipu__executor_write_kept(to, kept, kept->differs ? r : -1, a.data, bytes);
    }
    ipu_array_free(&a);
    return status;
}

static bool is_handed(const ipu__executor_kept *kept, ipu__handed_weights which)
{
    if (!kept->is_weight) return true;
    return which == IPU__HANDED_CHANGED ? kept->is_changed
                                        : which == IPU__HANDED_OF_REPLICAS && kept->differs;
}

ipu_status ipu__executor_hand_over(ipu__executor_program *from, ipu__executor_program *to,
                                   ipu__handed_weights which)
{
    for (size_t i = 0; i < to->kept.n; i++) {
        const ipu__executor_kept *kept = &to->kept.at[i], *have = ipu__executor_kept_of(from, kept->name);
        if (kept->is_transient || kept->rate != 0 || !have || have->type != kept->type
            || have->differs != kept->differs || !ipu__shape_equal(&have->shape, &kept->shape))
            continue;
        if (is_handed(kept, which)) IPU_TRY(hand_over_one(from, have, to, kept));
    }
    return IPU_OK;
}

ipu_status ipu_executor_take_over(ipu_executor *x, ipu_executor *from)
{
    if (x == from || !has_engine(from)) return IPU_OK;
    if (!has_engine(x))
        return ipu__fail(IPU_INVALID, "there is nothing yet that could go on: attach the executor before");
    if (x->options.replicas != from->options.replicas)
        return ipu__fail(IPU_INVALID,
                         "expected to go on from an executor of %" PRId64 " replicas, found one of %" PRId64,
                         x->options.replicas, from->options.replicas);
    ipu__weights       *weights = &x->module->weights, *theirs = &from->module->weights;
    ipu__handed_weights which = IPU__HANDED_NONE;
    if (theirs->holder == &from->p->weights && ipu__weights_is_behind(theirs)) which = IPU__HANDED_CHANGED;
    if (weights == theirs && from->p->weights.version == weights->version) which = IPU__HANDED_OF_REPLICAS;
    IPU_TRY(ipu__weights_sync(weights, &x->p->weights));
    IPU_TRY(ipu__executor_hand_over(from->p, x->p, which));
    if (which == IPU__HANDED_CHANGED) ipu__weights_has_newest(weights, &x->p->weights);
    return IPU_OK;
}

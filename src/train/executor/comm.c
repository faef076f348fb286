/* An executor as one of several processes that train together, each with its own replicas.
 *
 * Replicas are numbered over all of them, rank by rank, so that what a replica draws and keeps does not depend on how many
 * processes there are.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "ipu/comm.h"
#include "train/executor/executor.h"

int64_t ipu__executor_n_replicas(const ipu__executor_program *p)
{
    return p->x->options.replicas * ipu_comm_size(p->x->options.comm);
}

int64_t ipu__executor_first_replica(const ipu__executor_program *p)
{
    return p->x->options.replicas * ipu_comm_rank(p->x->options.comm);
}

/* Weights that nobody has given a value are as the engine drew them: alike if the seeds are, and alike after this in any
 * case. */
static ipu_status share_weight(ipu__executor_program *p, const ipu__executor_kept *kept)
{
    ipu_array a;
    IPU_TRY(ipu_array_create(kept->type, kept->shape, &a));
    size_t     bytes  = ipu_array_bytes(&a);
    ipu_status status = bytes ? ipu_engine_read(p->base.engine, kept->name, a.data, bytes) : IPU_OK;
    if (status == IPU_OK) status = ipu_comm_broadcast(p->x->options.comm, 0, a.data, bytes);
    if (status == IPU_OK && bytes) status = ipu_engine_write(p->base.engine, kept->name, a.data, bytes);
    ipu_array_free(&a);
    return status;
}

ipu_status ipu__executor_note_program(ipu__executor_program *p, const ipu__parallel_models *models)
{
    memset(p->hashes, 0, sizeof p->hashes);
    if (!p->x->training || ipu_comm_size(p->x->options.comm) == 1) return IPU_OK;
    IPU_TRY(ipu__model_hash_program(models->net, &p->hashes[0]));
    return models->step ? ipu__model_hash_program(models->step, &p->hashes[1]) : IPU_OK;
}

/* Before anything is exchanged whose size depends on it. */
static ipu_status agree(ipu__executor_program *p)
{
    enum { MORE = 7, MOST = IPU__MOST_AGREED + MORE };
    ipu__agreed   agreed;
    ipu_comm_item items[MOST];
    char          values[MORE][IPU__HASH_TEXT > 32 ? IPU__HASH_TEXT : 32];
    size_t        n = 0;
    ipu__executor_options_agreed(&p->x->options, &agreed);
    const struct {
        const char *name;
        int64_t     value;
    } numbers[]              = {{"groups of parameters", p->x->training ? (int64_t)p->x->how.n_groups : 0},
                                {"replicas folded into one", p->streams.n_folded},
                                {"parameters and states", (int64_t)p->kept.n}};
    const ipu__hash128 rates = ipu__hash_bytes(p->x->rates, (p->x->how.n_groups + 1) * sizeof *p->x->rates);
    const struct {
        const char         *name;
        const ipu__hash128 *hash;
    } hashes[] = {{"a network (or batch size, or optimizer) of hash", &p->hashes[0]},
                  {"an optimizer of hash", &p->hashes[1]},
                  {"learning rates of groups, of hash", &rates}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++, n++) {
        snprintf(values[n], sizeof values[n], "%" PRId64, numbers[i].value);
        items[n] = (ipu_comm_item){numbers[i].name, values[n]};
    }
    snprintf(values[n], sizeof values[n], "%.9g", p->x->rates[0]);
    items[n] = (ipu_comm_item){"learning rate", values[n]};
    n++;
    for (size_t i = 0; i < sizeof hashes / sizeof *hashes; i++, n++) {
        ipu__hash_print(hashes[i].hash, values[n]);
        items[n] = (ipu_comm_item){hashes[i].name, values[n]};
    }
    memmove(items + agreed.n, items, n * sizeof *items); /* options first: they say most */
    memcpy(items, agreed.items, agreed.n * sizeof *items);
    return ipu_comm_agree(p->x->options.comm, items, agreed.n + n);
}

ipu_status ipu__executor_join(ipu__executor_program *p)
{
    if (!p->x->training || ipu_comm_size(p->x->options.comm) == 1) return IPU_OK;
    IPU_TRY(agree(p));
    IPU_TRY(ipu_engine_join(p->base.engine, p->x->options.comm));
    for (size_t i = 0; i < p->kept.n; i++)
        if (p->kept.at[i].is_weight) IPU_TRY(share_weight(p, &p->kept.at[i]));
    return IPU_OK;
}

ipu_status ipu__executor_gather(ipu__executor_program *p, ipu_named_array *arrays, size_t n)
{
    size_t bytes = n > 0 ? ipu_array_bytes(&arrays[0].array) : 0, own = (size_t)p->x->options.replicas;
    if (ipu_comm_size(p->x->options.comm) == 1 || bytes == 0) return IPU_OK;
    char      *all    = ipu__alloc(bytes * n);
    char      *mine   = ipu__alloc(bytes * own);
    ipu_status status = all && mine ? IPU_OK : ipu__fail_memory();
    for (size_t r = 0; status == IPU_OK && r < own; r++)
        memcpy(mine + r * bytes, arrays[(size_t)ipu__executor_first_replica(p) + r].array.data, bytes);
    if (status == IPU_OK) status = ipu_comm_gather(p->x->options.comm, 0, mine, bytes * own, all);
    if (status == IPU_OK) status = ipu_comm_broadcast(p->x->options.comm, 0, all, bytes * n);
    for (size_t r = 0; status == IPU_OK && r < n; r++) memcpy(arrays[r].array.data, all + r * bytes, bytes);
    ipu__free(all);
    ipu__free(mine);
    return status;
}

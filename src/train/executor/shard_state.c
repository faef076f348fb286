/* States of the optimizer as the host sees them: whole arrays, wherever their parts are.
 *
 * A state of a parameter that is divided among replicas is divided alike (model/parallel/shard.c); one in streaming memory
 * is row 0 of a remote buffer of its name. State files are the same for all of these.
 */
#include <string.h>

#include "data/array.h"
#include "op/op.h"
#include "train/executor/executor.h"

static ipu_status read_from(ipu__executor_program *p, const ipu__executor_kept *kept, int64_t replica,
                            void *data, size_t bytes)
{
    return kept->is_off_chip ? ipu_engine_read_remote(p->base.engine, kept->name, replica, 0, data, bytes)
                             : ipu_engine_read_replica(p->base.engine, kept->name, replica, data, bytes);
}

static ipu_status write_to(ipu__executor_program *p, const ipu__executor_kept *kept, int64_t replica,
                           const void *data, size_t bytes)
{
    return kept->is_off_chip ? ipu_engine_write_remote(p->base.engine, kept->name, replica, 0, data, bytes)
                             : ipu_engine_write_replica(p->base.engine, kept->name, replica, data, bytes);
}

/* What of the `bytes` of a whole array replica `r` has, whose part has `part` bytes. */
static size_t bytes_of(size_t bytes, size_t part, int64_t r, size_t *begin)
{
    *begin = (size_t)r * part < bytes ? (size_t)r * part : bytes;
    return bytes - *begin < part ? bytes - *begin : part;
}

static ipu_status move_parts(ipu__executor_program *p, const ipu__executor_kept *kept, void *data,
                             size_t bytes, bool writes)
{
    size_t     part   = (size_t)kept->n_part * ipu_type_size(kept->type);
    char      *own    = ipu__alloc_zeroed(part);
    ipu_status status = IPU_OK;
    if (!own) return ipu__fail_memory();
    for (int64_t r = 0; status == IPU_OK && r < ipu__executor_n_graphs(p); r++) {
        size_t begin, n = bytes_of(bytes, part, r, &begin);
        if (writes) {
            memcpy(own, (const char *)data + begin, n);
            memset(own + n, 0, part - n);
            status = write_to(p, kept, r, own, part);
        } else {
            status = read_from(p, kept, r, own, part);
            if (status == IPU_OK) memcpy((char *)data + begin, own, n);
        }
    }
    ipu__free(own);
    return status;
}

ipu_status ipu__executor_read_kept(ipu__executor_program *p, const ipu__executor_kept *kept, int64_t replica,
                                   void *data, size_t bytes)
{
    return kept->is_divided ? move_parts(p, kept, data, bytes, false)
                            : read_from(p, kept, replica, data, bytes);
}

ipu_status ipu__executor_write_kept(ipu__executor_program *p, const ipu__executor_kept *kept, int64_t replica,
                                    const void *data, size_t bytes)
{
    if (kept->is_divided) return move_parts(p, kept, (void *)(uintptr_t)data, bytes, true);
    int64_t first = replica < 0 ? 0 : replica, last = replica < 0 ? ipu__executor_n_graphs(p) - 1 : replica;
    for (int64_t r = first; r <= last; r++) IPU_TRY(write_to(p, kept, r, data, bytes));
    return IPU_OK;
}

/* Lists of devices: the partitions that are configured, and who is attached to their IPUs. */
#include "device/list.h"

#include "base/alloc.h"
#include "base/status.h"

static ipu_status fill(ipu_device_list *list)
{
    static const ipu__partition_spec standard;
    list->partitions = ipu__arena_alloc(&list->arena, sizeof *list->partitions);
    if (!list->partitions) return ipu__fail_memory();
    list->n = 1;
    IPU_TRY(ipu__partition_build(&list->arena, &standard, &list->partitions[0]));
    list->partitions[0].active = true;
    return IPU_OK;
}

ipu_status ipu_device_list_create(unsigned flags, ipu_device_list **out)
{
    *out = NULL;
    if (flags & ~(unsigned)IPU_ALL_PARTITIONS)
        return ipu__fail(IPU_INVALID, "device list: expected flags 0 or IPU_ALL_PARTITIONS, found 0x%x",
                         flags);
    ipu_device_list *list = ipu__alloc_zeroed(sizeof *list);
    if (!list) return ipu__fail_memory();
    ipu_status status = fill(list);
    if (status != IPU_OK) {
        ipu_device_list_destroy(list);
        return status;
    }
    *out = list;
    return IPU_OK;
}

void ipu_device_list_destroy(ipu_device_list *list)
{
    if (!list) return;
    ipu__arena_fini(&list->arena);
    ipu__free(list);
}

const ipu_partition *ipu_device_list_at(const ipu_device_list *list, size_t i)
{
    return i < list->n ? &list->partitions[i] : NULL;
}

const ipu_partition *ipu_device_list_active(const ipu_device_list *list)
{
    return &list->partitions[list->active];
}

/* Lists of devices: a snapshot. Public half: ipu/device.h. */
#ifndef IPU_DEVICE_LIST_H
#define IPU_DEVICE_LIST_H

#include "device/partition.h"

struct ipu_device_list {
    ipu__arena     arena; /* owns everything it shows */
    ipu_partition *partitions;
    size_t         n, active;
};

#endif

/* Information about IPUs in the form of gcipuinfo: every attribute of every device as text.
 *
 *     ipu_info *info;
 *     IPU_TRY(ipu_info_create(IPU_INFO_ACTIVE_PARTITION, &info));
 *     for (int i = 0; i < ipu_info_n_devices(info); i++)
 *         printf("%d: %s\n", i, ipu_info_get(info, i, IPU_INFO_CLOCK));
 *     ipu_info_destroy(info);
 *
 * Values are strings with units: "1330MHz", "99.96%", "true". A missing sensor reads "N/A", and virtual IPUs
 * have no sensors. Keys are those of gc-info; docs/devices.md says where each value comes from.
 */
#ifndef IPU_IPUINFO_H
#define IPU_IPUINFO_H

#include "ipu/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ipu_info ipu_info;

typedef enum ipu_info_discovery {
    IPU_INFO_ACTIVE_PARTITION,
    IPU_INFO_ALL_PARTITIONS,
} ipu_info_discovery;

/* Keys with names for use in programs. */
#define IPU_INFO_CLOCK "clock"
#define IPU_INFO_IPU_POWER "ipu power"
#define IPU_INFO_UTILISATION "ipu utilisation"
#define IPU_INFO_ERROR_STATE "ipu error state"
#define IPU_INFO_USER_PID "user process id"

/* A snapshot. Owned: ipu_info_destroy. Statuses: those of ipu_device_list_create. */
ipu_status ipu_info_create(ipu_info_discovery discovery, ipu_info **out);
void       ipu_info_destroy(ipu_info *info);

/* Refresh. Invalidates strings returned before. On failure nothing changes. */
ipu_status ipu_info_update(ipu_info *info);

/* Number of single IPUs in all partitions discovered. Device i is the i-th of them. */
int ipu_info_n_devices(const ipu_info *info);

/* The value; "N/A" for a missing value, an unknown key or an unknown device. Borrowed until the next update. */
const char *ipu_info_get(const ipu_info *info, int device, const char *key);

/* The i-th attribute of a device: id, target, then the others ordered by key. Returns false past the last. An
 * idle device has no "user ..." and no "process start time". Borrowed until the next update. */
bool ipu_info_at(const ipu_info *info, int device, int i, const char **key, const char **value);

/* The same for any device of the active partition by id, including groups, whose attributes are those that
 * all of their IPUs share. */
bool ipu_info_device_at(const ipu_info *info, int id, int i, const char **key, const char **value);

/* Whether a program can use it. If not, *why says what is wrong and what to do; if so, who uses it or "idle".
 * Borrowed until the next update. An unknown device is not healthy. */
bool ipu_info_is_healthy(const ipu_info *info, int device, const char **why);

/* Attribute i of the last error that any program got from one of the user's devices, busy ones included:
 * "event record path", "timestamp", "severity", "command line", "pid", "attached ipus", "attached ipu hosts",
 * "partition", "description". Returns false past the last, so at once if there was no error. Borrowed until
 * the next update. */
bool ipu_info_event_at(const ipu_info *info, int i, const char **key, const char **value);

#ifdef __cplusplus
}
#endif
#endif

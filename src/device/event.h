/* The last error on any of the user's devices: a single record, in the runtime folder. */
#ifndef IPU_DEVICE_EVENT_H
#define IPU_DEVICE_EVENT_H

#include "device/device.h"

/* Records that a call about `device` failed with `status` and this thread's message; returns `status` with
 * that message. What cannot be written is skipped. Not under the state's lock. */
ipu_status ipu__event_failed(const ipu_device *device, ipu_status status);

/* Keys as in ipu_info_event_at. */
typedef struct ipu__event {
    const char *key, *value;
} ipu__event;

/* In `arena`; *n is 0 if nothing has failed yet. Statuses: OUT_OF_MEMORY. */
ipu_status ipu__event_read(ipu__arena *arena, ipu__event **out, size_t *n);

#endif

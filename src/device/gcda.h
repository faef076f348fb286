/* GCDA_OPTIONS: what the vendor's device access takes from the environment, as far as it has a meaning
 * here. */
#ifndef IPU_DEVICE_GCDA_H
#define IPU_DEVICE_GCDA_H

#include "device/state.h"

typedef struct ipu__gcda {
    bool    measures;                 /* utilisation */
    char    errors[IPU__ERROR_BYTES]; /* to simulate, "" for none: "IPUSOFTERR,..." */
    int64_t trigger;                  /* the run of a device, from 1, that they happen in */
    bool    rearms;                   /* when the device is reset */
} ipu__gcda;

/* Statuses: INVALID (the message names the variable, the key and the fix), OUT_OF_MEMORY. */
ipu_status ipu__gcda_read(ipu__gcda *out);

#endif

/* GCDA_OPTIONS: settings of the vendor's device access in the environment, as far as they are meaningful
 * here. */
#ifndef IPU_DEVICE_GCDA_H
#define IPU_DEVICE_GCDA_H

#include "device/state.h"

typedef struct ipu__gcda {
    bool    measures;                 /* measure utilisation */
    char    errors[IPU__ERROR_BYTES]; /* to simulate; "" for none: "IPUSOFTERR,..." */
    int64_t trigger;                  /* the device run, from 1, in which they occur */
    bool    rearms;                   /* repeat after the device is reset */
} ipu__gcda;

/* Statuses: INVALID (the message names the variable, the key and the fix), OUT_OF_MEMORY. */
ipu_status ipu__gcda_read(ipu__gcda *out);

#endif

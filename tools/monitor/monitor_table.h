/* The tables of gc-monitor: partition, IPUs, attached processes. */
#ifndef TOOLS_MONITOR_MONITOR_TABLE_H
#define TOOLS_MONITOR_MONITOR_TABLE_H

#include <stdio.h>

#include "ipu/device.h"

typedef struct monitor_view {
    const char *name;    /* of the partition, as shown */
    bool        cards;   /* also the table of IPUs */
    int         raise;   /* offset added to ids */
    int         columns; /* of the terminal; 0 if none */
    int64_t     now_ns;  /* since 1970 */
} monitor_view;

enum { MONITOR_TIME = 16 };

void monitor_print(FILE *out, const ipu_partition *p, const monitor_view *view);

/* Elapsed time: "13s", "4m1s", "2h5m", "3d4h". */
void monitor_time(int64_t since_ns, int64_t now_ns, char out[MONITOR_TIME]);

#endif

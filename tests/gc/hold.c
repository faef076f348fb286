/* Attaches and stays so until its standard input ends: hold ID (a device), or hold +N (any of N IPUs).
 * Says "attached" when it is. */
#include <stdio.h>
#include <stdlib.h>

#include "ipu/device.h"

int main(int argc, char **argv)
{
    ipu_device *device = NULL;
    if (argc != 2) return 2;
    ipu_status status = *argv[1] == '+' ? ipu_device_open_any(atoll(argv[1] + 1), &device)
                                        : ipu_device_open(atoi(argv[1]), &device);
    if (status == IPU_OK) status = ipu_device_attach(device, 0);
    if (status == IPU_OK)
        puts("attached");
    else
        fprintf(stderr, "hold: %s\n", ipu_message());
    fflush(stdout);
    while (status == IPU_OK && getchar() != EOF) {}
    ipu_device_close(device);
    return status != IPU_OK;
}

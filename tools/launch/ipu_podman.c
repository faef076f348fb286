/* `ipu podman`, gc-podman: start a container that has the caller's virtual IPUs. */
#include <stddef.h>

#include "launch/container.h"

tool_exit run_podman(const tool_arguments *args)
{
    static const container_program podman = {"podman", "podman", true};
    return container_run(&podman, args, PODMAN_DEVICE, args->values[PODMAN_ECHO] != NULL);
}

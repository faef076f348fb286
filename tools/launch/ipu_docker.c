/* `ipu docker`, gc-docker: start a container that has the caller's virtual IPUs. */
#include <stddef.h>

#include "launch/container.h"

tool_exit run_docker(const tool_arguments *args)
{
    static const container_program docker = {"docker", "docker.io", false};
    return container_run(&docker, args, DOCKER_DEVICE, args->values[DOCKER_ECHO] != NULL);
}

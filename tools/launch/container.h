/* Containers with the caller's virtual IPUs: what `ipu docker` and `ipu podman` share.
 *
 * A virtual IPU is state in a folder of the user's, and a configuration. A container has it when it has
 * both, and processes of the same user in it:
 *
 *     docker run --user UID:GID --env ... --mount (the state) --mount (the configuration) ARGUMENTS
 *
 * docs/containers.md says what is given, and why nothing else is.
 */
#ifndef TOOLS_LAUNCH_CONTAINER_H
#define TOOLS_LAUNCH_CONTAINER_H

#include <stdbool.h>

#include "command.h"

typedef struct container_program {
    const char *name;       /* "docker": of the command too */
    const char *package;    /* Debian's that has it */
    bool        maps_users; /* who is not root is so inside, unless told to keep their number */
} container_program;

/* Becomes `program run ...` with the operands behind what devices need; with `echo`, prints that line
 * instead. `device_option`: the number of --device-id. Returns only if it could not, or printed. */
tool_exit container_run(const container_program *program, const tool_arguments *args, int device_option,
                        bool echo);

#endif

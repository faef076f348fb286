/* Containers with the caller's virtual IPUs: shared by `ipu docker` and `ipu podman`.
 *
 * A virtual IPU consists of state in one of the user's folders and a configuration. A container has it if it
 * has both, and runs as the same user:
 *
 *     docker run --user UID:GID --env ... --mount (the state) --mount (the configuration) ARGUMENTS
 *
 * docs/containers.md explains what is passed on, and why nothing else is.
 */
#ifndef TOOLS_LAUNCH_CONTAINER_H
#define TOOLS_LAUNCH_CONTAINER_H

#include <stdbool.h>

#include "command.h"

typedef struct container_program {
    const char *name;       /* "docker", which is also the command's name */
    const char *package;    /* the Debian package it comes in */
    bool        maps_users; /* maps non-root users to root inside, unless told to keep their id */
} container_program;

/* Replaces this process by `program run ...`, with the operands after what devices need; with `echo`, prints
 * that line instead. `device_option` is the number of --device-id. Returns only on failure or after
 * printing. */
tool_exit container_run(const container_program *program, const tool_arguments *args, int device_option,
                        bool echo);

#endif

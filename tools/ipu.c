/* `ipu`: one binary, a command per row of commands.inc. This file dispatches to them. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "command.h"
#include "ipu/version.h"
#include "output.h"

tool_exit run_ipu(const tool_arguments *args)
{
    if (args->values[IPU_SHOW_VERSION]) {
        printf("ipu %s\n", ipu_version());
        return TOOL_OK;
    }
    if (args->n_operands == 0) return tool_usage(NULL, "expected a command");
    const tool_command *command = tool_find_command(args->operands[0]);
    if (!command || command == &tool_commands[0]) return tool_unknown_command(args->operands[0]);
    return tool_run(command, args->n_operands, args->operands);
}

/* Fills in standard descriptors that are closed, so that none of our files gets one and receives what is
 * printed. Using them stays an error: standard input is opened write-only, the others read-only. */
static void occupy_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv)
{
    occupy_standard();
    tool_mind_reader();
    signal(SIGXFSZ, SIG_IGN); /* makes exceeding ulimit -f a write error */
    tool_show_warnings();
    const tool_link    *link    = argc > 0 ? tool_find_link(argv[0]) : NULL;
    const tool_command *command = link ? tool_find_command(link->command) : &tool_commands[0];
    if (link) tool_called_as(link->name);
    return tool_end(tool_finish(tool_run(command, argc, argv)));
}

/* `ipu help`: the commands, their man pages, completion, engines and their options. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "ipu/engine.h"
#include "ipu/options.h"
#include "output.h"

enum { WIDTH = 90 };

static void print_engine_options(void)
{
    const char *key, *value, *help;
    puts("Options of an engine, for ipu_options_set and IPU_ENGINE_OPTIONS:");
    for (int i = 0; (key = ipu_options_key_at(i, &value, &help)); i++) {
        printf("\n  %s (default: %s)\n      ", key, value && *value ? value : "none");
        tool_print_wrapped(stdout, help, 6, 6, WIDTH);
    }
}

static void print_engines(void)
{
    const char *name, *summary;
    puts("Engines, for the option \"engine\" and IPU_ENGINE; the first is the default:\n");
    for (int i = 0; (name = ipu_engine_at(i, &summary)); i++) {
        printf("  %-8s  ", name);
        tool_print_wrapped(stdout, summary, 12, 12, WIDTH);
    }
}

tool_exit run_help(const tool_arguments *args)
{
    const char *topic = args->n_operands ? args->operands[0] : "ipu";
    if (args->values[HELP_COMPLETION]) {
        if (args->n_operands || args->values[HELP_MAN])
            return tool_usage("help", "--completion stands alone: it completes all commands");
        tool_print_completion();
        return TOOL_OK;
    }
    if (!strcmp(topic, "options") && !args->values[HELP_MAN]) {
        print_engine_options();
        return TOOL_OK;
    }
    if (!strcmp(topic, "engine") && !args->values[HELP_MAN]) {
        print_engines();
        return TOOL_OK;
    }
    const tool_command *command = tool_find_command(topic);
    if (!command) return tool_unknown_command(topic);
    if (args->values[HELP_MAN])
        tool_print_man(command);
    else
        tool_print_help(command);
    return TOOL_OK;
}

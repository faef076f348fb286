/* Completion for bash, from the rows of commands.inc. Uses bash builtins only. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "ipu/builder.h"
#include "ipu/target.h"

static void put_commands(void)
{
    for (int i = 1; i < tool_n_commands; i++) printf("%s%s", i > 1 ? " " : "", tool_commands[i].name);
}

static void put_targets(void)
{
    const char *name, *summary;
    ipu_system  system;
    for (int i = 0; ipu_target_chip_at(i, &name, &summary); i++) printf("%s%s", i ? " " : "", name);
    for (int i = 0; ipu_target_system_at(i, &system); i++) printf(" %s", system.name);
}

static void put_ops(void)
{
    ipu_op_info op;
    for (size_t i = 0; ipu_op_info_at(i, &op) == IPU_OK; i++) printf("%s%s", i ? " " : "", op.name);
}

/* The words an operand can be; if there are none, files. */
static void put_operands(const tool_command *c)
{
    if (c->completes == TOOL_COMMANDS) put_commands();
    if (c->completes == TOOL_TARGETS) put_targets();
    if (c->completes == TOOL_OPS) put_ops();
    if (c->completes == TOOL_ACTIONS) fputs("create list remove", stdout);
    if (c->completes == TOOL_DATASETS) fputs("digits show sheet draw", stdout);
    if (c->completes == TOOL_NOTHING) putchar(' '); /* a word list, but an empty one */
}

static void put_options(const tool_command *c)
{
    for (int i = 0; i < c->n_options; i++) printf("%s--%s", i ? " " : "", c->options[i].name);
}

/* Devices and partitions come and go, so they are looked up at completion time. Their names contain nothing
 * that compgen, which expands its words, would act on (device/partition.h). */
static void put_questions(void)
{
    puts("_ipu_ask()\n"
         "{\n"
         "    local tool=ipu\n"
         "    [[ ${COMP_WORDS[0]##*/} != ipu ]] || tool=${COMP_WORDS[0]}\n"
         "    \"$tool\" \"$@\" 2> /dev/null\n"
         "}\n"
         "_ipu_devices()\n"
         "{\n"
         "    _ipu_ask info -l | awk '/^Partition:/ { of = /\\[active\\]$/ }\n"
         "        of && match($0, /^-[+]- Id: \\[[0-9]+/) { print substr($0, RSTART + 9, RLENGTH - 9) }'\n"
         "}\n"
         "_ipu_partitions() { _ipu_ask partition list | awk 'NR > 1 { print $1 }'; }");
}

static const char *offer(const tool_option *o)
{
    static const char devices[] = "mapfile -t COMPREPLY < <(compgen -W \"$(_ipu_devices)\" -- \"$word\")";
    static const char partitions[] =
        "mapfile -t COMPREPLY < <(compgen -W \"$(_ipu_partitions)\" -- \"$word\")";
    const char *argument = o->argument;
    if (!strcmp(o->name, "device-id") || !strcmp(o->name, "device0") || !strcmp(o->name, "device1"))
        return devices;
    if (!strcmp(o->name, "vipu-partition")) return partitions;
    if (!strcmp(o->name, "target")) return "mapfile -t COMPREPLY < <(compgen -W \"$targets\" -- \"$word\")";
    if (!strcmp(argument, "FILE")) return "mapfile -t COMPREPLY < <(compgen -f -- \"$word\")";
    if (!strcmp(argument, "DIR")) return "mapfile -t COMPREPLY < <(compgen -d -- \"$word\")";
    return "COMPREPLY=()";
}

/* After an option that takes an argument: its list of values if it has one, else nothing. */
static void put_arguments(const tool_command *c)
{
    for (int i = 0; i < c->n_options; i++) {
        const tool_option *o = &c->options[i];
        if (!o->argument) continue;
        fputs("        ", stdout);
        if (o->letter) printf("%s:-%c|", c->name, o->letter);
        printf("%s:--%s) %s; return ;;\n", c->name, o->name, offer(o));
    }
}

void tool_print_completion(void)
{
    puts("# Completion of `ipu` for bash, written by `ipu help --completion`.");
    put_questions();
    puts("_ipu()\n"
         "{\n"
         "    local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
         "    local command=ipu options operands targets i");
    fputs("    targets=\"", stdout);
    put_targets();
    puts("\"\n"
         "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "        if [[ ${COMP_WORDS[i]} != -* ]]; then command=${COMP_WORDS[i]}; break; fi\n"
         "    done\n"
         "    case ${COMP_WORDS[0]##*/} in");
    for (int i = 0; i < tool_n_links; i++)
        printf("        %s) command=%s ;;\n", tool_links[i].name, tool_links[i].command);
    puts("    esac\n"
         "    case $command:$before in");
    for (int i = 0; i < tool_n_commands; i++) put_arguments(&tool_commands[i]);
    puts("    esac\n"
         "    case $command in");
    for (int i = 0; i < tool_n_commands; i++) {
        printf("        %s) options=\"", tool_commands[i].name);
        put_options(&tool_commands[i]);
        fputs("\" operands=\"", stdout);
        put_operands(&tool_commands[i]);
        fputs("\"", stdout);
        if (tool_commands[i].completes == TOOL_DATASETS)
            fputs("; [[ $before == \"$command\" ]] || operands=", stdout);
        if (tool_commands[i].completes == TOOL_ACTIONS) /* followed by a name: a new one, or one to remove */
            fputs("; [[ $before == \"$command\" ]] || operands=' '\n"
                  "            [[ $before != remove ]] || operands=\"$(_ipu_partitions) \"",
                  stdout);
        puts(" ;;");
    }
    puts("        *) return ;;\n"
         "    esac\n"
         "    if [[ $word == -* ]]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
         "    elif [[ $operands ]]; then\n"
         "        mapfile -t COMPREPLY < <(compgen -W \"$operands\" -- \"$word\")\n"
         "    else\n"
         "        mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
         "    fi\n"
         "}");
    fputs("complete -o filenames -F _ipu ipu", stdout);
    for (int i = 0; i < tool_n_links; i++) printf(" %s", tool_links[i].name);
    putchar('\n');
}

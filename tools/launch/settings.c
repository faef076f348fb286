/* Options of `poprun`: read, checked, and saved as JSON. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "launch/poprun.h"

/* ---- hosts ---- */

static bool add_host(poprun *p, const char *name, size_t n)
{
    if (n == 0 || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:@") < n) {
        tool_usage("poprun", "--host: expected names of hosts, with commas between, found \"%.*s\"", (int)n,
                   name);
        return false;
    }
    if (p->n_hosts == POPRUN_MOST_HOSTS) {
        tool_usage("poprun", "--host: more than %d hosts", (int)POPRUN_MOST_HOSTS);
        return false;
    }
    char *own = strndup(name, n);
    if (own)
        p->hosts[p->n_hosts++] = own;
    else
        tool_fail("out of memory");
    return own != NULL;
}

/* Numbers are padded to the width of the first. Returns false if it is not a range. */
static bool add_range(poprun *p, const char *prefix, int n_prefix, const char *range, size_t n,
                      const char *suffix, int n_suffix)
{
    char *end;
    int   width = (int)strspn(range, "0123456789");
    long  first = strtol(range, &end, 10), last = first;
    if (width == 0 || width > 9) return false;
    if (end < range + n && *end == '-') {
        if (!isdigit((unsigned char)end[1])) return false;
        last = strtol(end + 1, &end, 10);
    }
    if (end != range + n || last < first || last - first >= POPRUN_MOST_HOSTS) return false;
    for (long i = first; i <= last; i++) {
        char name[300];
        int  length = snprintf(name, sizeof name, "%.*s%0*ld%.*s", n_prefix, prefix,
                              range[0] == '0' ? width : 1, i, n_suffix, suffix);
        if (length >= (int)sizeof name || !add_host(p, name, (size_t)length)) return false;
    }
    return true;
}

/* prefix[1-3,7]suffix, of `n` characters. */
static bool add_ranges(poprun *p, const char *text, size_t n, const char *open)
{
    const char *close = memchr(open, ']', n - (size_t)(open - text));
    const char *at    = open + 1;
    bool        ok    = close && !memchr(close, '[', n - (size_t)(close - text));
    while (ok && at <= close) {
        size_t part = strcspn(at, ",]");
        ok = add_range(p, text, (int)(open - text), at, part, close + 1, (int)(text + n - close - 1));
        at += part + 1;
    }
    if (!ok)
        tool_usage("poprun", "--host: expected ranges such as node[0-2,4], found \"%.*s\"", (int)n, text);
    return ok;
}

bool poprun_add_hosts(poprun *p, const char *list)
{
    while (*list) {
        size_t n    = 0;
        bool   open = false;
        for (; list[n] && (open || list[n] != ','); n++) open = list[n] == '[' || (open && list[n] != ']');
        const char *bracket = memchr(list, '[', n);
        if (!(bracket ? add_ranges(p, list, n, bracket) : add_host(p, list, n))) return false;
        list += n;
        if (*list == ',' && !*++list) return add_host(p, "", 0);
    }
    return true;
}

/* mpirun's format: each line starts with a host; the rest of the line and comments are ignored. */
static bool read_hostfile(poprun *p, const char *path)
{
    FILE  *f    = fopen(path, "r");
    char  *line = NULL;
    size_t room = 0;
    bool   ok   = f != NULL;
    if (!f) tool_fail("--hostfile: cannot read %s: %s", path, strerror(errno));
    while (ok && getline(&line, &room, f) >= 0) {
        const char *at = line + strspn(line, " \t");
        size_t      n  = strcspn(at, " \t\r\n#");
        if (n > 0) ok = add_host(p, at, n);
    }
    free(line);
    if (f) fclose(f);
    if (ok && p->n_hosts == 0) {
        tool_fail("--hostfile: %s names no host", path);
        ok = false;
    }
    return ok;
}

static bool read_hosts(poprun *p)
{
    const char *list = p->values[POPRUN_HOST], *file = p->values[POPRUN_HOSTFILE];
    if (list && file) {
        tool_usage("poprun", "--host and --hostfile: expected one of them");
        return false;
    }
    if (file) return read_hostfile(p, file);
    return poprun_add_hosts(p, list && *list ? list : "localhost");
}

/* ---- numbers ---- */

static bool read_integer(const poprun *p, int option, const char *name, int64_t least, int64_t *out)
{
    return !p->values[option] || tool_integer(name, p->values[option], least, 1 << 16, out);
}

static bool read_flag(const poprun *p, int option, const char *name, bool *out)
{
    const char *text = p->values[option];
    if (!text) return true;
    *out = !strcasecmp(text, "yes") || !strcmp(text, "1") || !strcasecmp(text, "true");
    if (*out || !strcasecmp(text, "no") || !strcmp(text, "0") || !strcasecmp(text, "false")) return true;
    tool_usage("poprun", "--%s: expected yes, no, 1 or 0, found \"%s\"", name, text);
    return false;
}

static bool read_flags(poprun *p)
{
    bool reset = false;
    p->remove  = true;
    p->reset   = -1;
    if (!read_flag(p, POPRUN_UPDATE, "update-partition", &p->update)
        || !read_flag(p, POPRUN_REMOVE, "remove-partition", &p->remove)
        || !read_flag(p, POPRUN_OFFLINE, "offline-mode", &p->offline)
        || !read_flag(p, POPRUN_TOPOLOGY, "print-topology", &p->print_topology)
        || !read_flag(p, POPRUN_NUMA, "numa-aware", &p->numa_aware)
        || !read_flag(p, POPRUN_RESET, "reset-partition", &reset))
        return false;
    if (p->values[POPRUN_RESET]) p->reset = reset;
    return true;
}

static bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

static tool_exit check_counts(const poprun *p)
{
    if (!is_power_of_two(p->n_replicas) || !is_power_of_two(p->ipus_per_replica))
        return tool_usage(
            "poprun", "--num-replicas %lld, --ipus-per-replica %lld: expected powers of two: 1, 2, 4, ...",
            (long long)p->n_replicas, (long long)p->ipus_per_replica);
    if (p->n_replicas % p->n_instances != 0)
        return tool_usage("poprun",
                          "--num-replicas %lld do not divide evenly over --num-instances %lld: make one a "
                          "multiple of the other",
                          (long long)p->n_replicas, (long long)p->n_instances);
    if (p->n_instances % p->n_hosts != 0)
        return tool_usage(
            "poprun", "--num-instances %lld do not divide evenly over %lld hosts: as many on each are needed",
            (long long)p->n_instances, (long long)p->n_hosts);
    if (p->only_output >= p->n_instances)
        return tool_usage("poprun", "--only-output-from-instance %lld: there are instances 0 to %lld",
                          (long long)p->only_output, (long long)p->n_instances - 1);
    return TOOL_OK;
}

/* ---- configurations ---- */

static const tool_command *command(void) { return tool_find_command("poprun"); }

/* Excludes the options about configurations themselves. */
static bool is_kept(int option)
{
    return option != POPRUN_IMPORT && option != POPRUN_EXPORT && option != POPRUN_OVERWRITE
        && option != POPRUN_VERSION && option != POPRUN_VERSION_FORMAT;
}

static tool_exit import_config(poprun *p, const char *path)
{
    json_error_t wrong;
    const char  *key;
    json_t      *value;
    p->config = json_load_file(path, 0, &wrong);
    if (!json_is_object(p->config))
        return tool_fail("--import-config %s: line %d: %s", path, wrong.line,
                         p->config ? "expected an object of options" : wrong.text);
    json_object_foreach(p->config, key, value)
    {
        int found = -1;
        for (int i = 0; i < command()->n_options - 1; i++)
            if (!strcmp(command()->options[i].name, key) && is_kept(i)) found = i;
        if (found < 0 || !json_is_string(value))
            return tool_fail("--import-config %s: \"%s\": expected the name of an option, with a text", path,
                             key);
        if (!p->values[found]) p->values[found] = json_string_value(value);
    }
    return TOOL_OK;
}

static tool_exit export_config(const poprun *p, const char *path)
{
    json_t   *all  = json_object();
    tool_exit code = TOOL_OK;
    for (int i = 0; all && i < command()->n_options - 1; i++)
        if (p->values[i] && is_kept(i))
            json_object_set_new(all, command()->options[i].name, json_string(p->values[i]));
    if (!p->values[POPRUN_OVERWRITE] && access(path, F_OK) == 0)
        code = tool_fail("--export-config: %s is there already: remove it, or give --overwrite-config", path);
    else if (!all || json_dump_file(all, path, JSON_INDENT(2)) != 0)
        code = tool_fail("--export-config: cannot write %s: %s", path, strerror(errno));
    json_decref(all);
    return code;
}

/* ---- all options ---- */

/* Options that mean nothing on this host are accepted, with a note. */
static void note_unused(const poprun *p)
{
    static const struct {
        int         option;
        const char *why;
    } unused[] = {
        {POPRUN_ILDS, "all virtual IPUs are in one IPU-Link domain"},
        {POPRUN_SERVER, "partitions are those of this user: `ipu partition list`"},
        {POPRUN_PORT, "there is no V-IPU server to ask"},
        {POPRUN_TIMEOUT, "there is no V-IPU server to wait for"},
        {POPRUN_ALLOCATION, "partitions are not taken from allocations"},
        {POPRUN_CLUSTER, "it is deprecated, and partitions are not taken from clusters"},
        {POPRUN_SYNC, "virtual IPUs wait for one another in one way"},
    };
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        if (p->values[unused[i].option])
            poprun_log(p, 'I', "--%s %s: not used: %s", command()->options[unused[i].option].name,
                       p->values[unused[i].option], unused[i].why);
}

tool_exit poprun_read(poprun *p, const tool_arguments *args)
{
    tool_exit code = TOOL_OK;
    *p             = (poprun){.n_replicas = 1, .ipus_per_replica = 1, .n_instances = 1, .only_output = -1};
    memcpy(p->values, args->values, sizeof p->values);
    for (int i = 0; i < args->n_given; i++) p->verbosity += args->given[i].option == POPRUN_VERBOSE;
    p->program   = args->operands;
    p->n_program = args->n_operands;
    if (p->values[POPRUN_IMPORT]) code = import_config(p, p->values[POPRUN_IMPORT]);
    if (code != TOOL_OK) return code;
    if (!read_integer(p, POPRUN_REPLICAS, "num-replicas", 1, &p->n_replicas)
        || !read_integer(p, POPRUN_IPUS, "ipus-per-replica", 1, &p->ipus_per_replica)
        || !read_integer(p, POPRUN_INSTANCES, "num-instances", 1, &p->n_instances)
        || !read_integer(p, POPRUN_ONLY, "only-output-from-instance", 0, &p->only_output) || !read_flags(p)
        || !read_hosts(p))
        return TOOL_USAGE;
    code = check_counts(p);
    if (code == TOOL_OK && p->values[POPRUN_EXPORT]) code = export_config(p, p->values[POPRUN_EXPORT]);
    if (code == TOOL_OK && p->n_program == 0 && !p->values[POPRUN_EXPORT] && !p->print_topology)
        code = tool_usage("poprun", "expected a program to run");
    if (code == TOOL_OK) note_unused(p);
    return code;
}

void poprun_free(poprun *p)
{
    for (int64_t i = 0; i < p->n_hosts; i++) free(p->hosts[i]);
    json_decref(p->config);
}

/* `ipu target`: lists chips and systems, or prints one in detail, with units, certainty and sources. */
#include "ipu/target.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "output.h"

enum { MAX_IPUS = 256, VALUE_BYTES = 64 };

/* ---- the list ---- */

static void print_list(void)
{
    const char *name, *summary;
    ipu_system  s;
    puts("Chips:");
    for (int i = 0; ipu_target_chip_at(i, &name, &summary); i++) {
        ipu_target t;
        char       memory[VALUE_BYTES], clock[VALUE_BYTES];
        if (ipu_target_find(name, 1, &t) != IPU_OK) continue;
        tool_format((double)ipu_target_bytes_per_tile(&t), "B", memory, sizeof memory);
        tool_format(ipu_target_clock_hz(&t), "Hz", clock, sizeof clock);
        printf("  %-11s %5lld tiles x %-8s %-9s  %s\n", name, (long long)ipu_target_n_tiles(&t), memory,
               clock, summary);
    }
    puts("\nSystems:");
    for (int i = 0; ipu_target_system_at(i, &s); i++)
        printf("  %-11s %3lld x %-6s %3lld machine%s\n", s.name, (long long)s.n_ipus, s.chip,
               (long long)s.n_machines, s.n_machines == 1 ? "" : "s");
    puts("\n`ipu target NAME` shows all that is known of one, with sources.");
}

static json_t *json_chip(const char *name, const char *summary)
{
    ipu_target t;
    if (ipu_target_find(name, 1, &t) != IPU_OK) return NULL;
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "name", name, "summary", summary, "tiles",
                     (json_int_t)ipu_target_n_tiles(&t), "bytes_per_tile",
                     (json_int_t)ipu_target_bytes_per_tile(&t), "workers",
                     (json_int_t)ipu_target_n_workers(&t), "clock_hz",
                     tool_json_number(ipu_target_clock_hz(&t)));
}

static json_t *json_system(const ipu_system *s)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:s}", "name", s->name, "chip", s->chip, "ipus",
                     (json_int_t)s->n_ipus, "machines", (json_int_t)s->n_machines, "links", s->links,
                     "source", s->source);
}

static json_t *json_list(void)
{
    json_t     *chips = json_array(), *systems = json_array();
    const char *name, *summary;
    ipu_system  s;
    bool        failed = !chips || !systems;
    for (int i = 0; ipu_target_chip_at(i, &name, &summary); i++)
        failed |= json_array_append_new(chips, json_chip(name, summary)) != 0;
    for (int i = 0; ipu_target_system_at(i, &s); i++)
        failed |= json_array_append_new(systems, json_system(&s)) != 0;
    if (!failed) return json_pack("{s:o, s:o}", "chips", chips, "systems", systems);
    json_decref(chips);
    json_decref(systems);
    return NULL;
}

/* ---- one target ---- */

/* Looks up a system by name; returns false if the name is a chip's. */
static bool find_system(const char *name, ipu_system *out)
{
    for (int i = 0; ipu_target_system_at(i, out); i++)
        if (!strcasecmp(out->name, name)) return true;
    return false;
}

static const char *chip_summary(const ipu_target *t)
{
    const char *name, *summary;
    for (int i = 0; ipu_target_chip_at(i, &name, &summary); i++)
        if (!strcmp(name, ipu_target_chip_name(t))) return summary;
    return "";
}

static void print_constants(const ipu_target *t)
{
    ipu_constant c;
    char         value[VALUE_BYTES];
    int          names = 0, values = 0;
    for (int i = 0; ipu_target_constant_at(t, i, &c); i++) {
        tool_format(c.value, c.unit, value, sizeof value);
        if ((int)strlen(c.name) > names) names = (int)strlen(c.name);
        if ((int)strlen(value) > values) values = (int)strlen(value);
    }
    printf("%-*s  %-*s  %-14s  %s\n", names, "CONSTANT", values, "VALUE", "CERTAINTY", "SOURCE");
    for (int i = 0; ipu_target_constant_at(t, i, &c); i++) {
        tool_format(c.value, c.unit, value, sizeof value);
        printf("%-*s  %-*s  %-14s  %s\n", names, c.name, values, value, ipu_certainty_text(c.certainty),
               c.source);
    }
}

static void print_target(const char *name, const ipu_target *t)
{
    ipu_system s;
    char       tile[VALUE_BYTES], all[VALUE_BYTES];
    double     bytes = (double)ipu_target_bytes_per_tile(t);
    tool_format(bytes, "B", tile, sizeof tile);
    tool_format(bytes * (double)ipu_target_n_tiles(t), "B", all, sizeof all);
    printf("%s: %s\n", ipu_target_chip_name(t), chip_summary(t));
    printf("%lld IPU%s, %lld tiles of %s: %s in all; %lld workers a tile\n", (long long)t->n_ipus,
           t->n_ipus == 1 ? "" : "s", (long long)ipu_target_n_tiles(t), tile, all,
           (long long)ipu_target_n_workers(t));
    if (find_system(name, &s))
        printf("system %s: %lld IPUs in %lld machine%s; %s\n    source: %s\n", s.name, (long long)s.n_ipus,
               (long long)s.n_machines, s.n_machines == 1 ? "" : "s", s.links, s.source);
    putchar('\n');
    print_constants(t);
}

static json_t *json_constants(const ipu_target *t)
{
    json_t      *list = json_array();
    ipu_constant c;
    bool         failed = !list;
    for (int i = 0; ipu_target_constant_at(t, i, &c); i++)
        failed |= json_array_append_new(list,
                                        json_pack("{s:s, s:o, s:s, s:s, s:s}", "name", c.name, "value",
                                                  tool_json_number(c.value), "unit", c.unit, "certainty",
                                                  ipu_certainty_text(c.certainty), "source", c.source))
               != 0;
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static json_t *json_target(const char *name, const ipu_target *t)
{
    ipu_system s;
    json_t    *system = find_system(name, &s) ? json_system(&s) : json_null();
    return json_pack("{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:o, s:o}", "chip", ipu_target_chip_name(t),
                     "summary", chip_summary(t), "system", system, "ipus", (json_int_t)t->n_ipus, "tiles",
                     (json_int_t)ipu_target_n_tiles(t), "bytes_per_tile",
                     (json_int_t)ipu_target_bytes_per_tile(t), "workers", (json_int_t)ipu_target_n_workers(t),
                     "clock_hz", tool_json_number(ipu_target_clock_hz(t)), "constants", json_constants(t));
}

tool_exit run_target(const tool_arguments *args)
{
    const char *ipus = args->values[TARGET_IPUS];
    bool        json = args->values[TARGET_JSON];
    int64_t     n    = 0;
    if (args->n_operands == 0) {
        if (ipus) return tool_usage("target", "--ipus needs the name of a chip or system");
        if (json) return tool_print_json(stdout, json_list());
        print_list();
        return TOOL_OK;
    }
    ipu_target t;
    if (ipus && !tool_integer("ipus", ipus, 1, MAX_IPUS, &n)) return TOOL_USAGE;
    if (ipu_target_find(args->operands[0], n, &t) != IPU_OK) return tool_fail("%s", ipu_message());
    if (json) return tool_print_json(stdout, json_target(args->operands[0], &t));
    print_target(args->operands[0], &t);
    return TOOL_OK;
}

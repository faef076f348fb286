/* Targets: finding chips and systems by name, and their constants.
 *
 * All of it is static data, expanded from chips.inc and systems.inc: nothing is allocated.
 */
#include "ipu/target.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/status.h"

enum { MAX_IPUS = 256, NAMES_BYTES = 4096 };

/* ---- tables ---- */

/* The number of every row of chips.inc. CHIP takes one too: it ends the chip before. A constant given twice
 * for a chip does not compile. */
enum {
#define CHIP(id, summary) BEFORE_##id,
#define CONSTANT(chip, name, value, unit, certainty, source) ROW_##chip##_##name,
#define ALIAS(alias, id)
#include "target/chips.inc"
#undef CHIP
#undef CONSTANT
    N_ROWS
};

static const ipu_constant rows[N_ROWS + 1] = {
#define CHIP(id, summary) {NULL, 0, NULL, NULL, IPU_CERTAIN_READ},
#define CONSTANT(chip, name, value, unit, certainty, source) \
    {#name, value, unit, source, IPU_CERTAIN_##certainty},
#include "target/chips.inc"
#undef CHIP
#undef CONSTANT
#undef ALIAS
};

struct ipu_chip {
    const char         *name, *summary;
    const ipu_constant *constants; /* the last one's name is NULL */
    /* Rows required for every chip: without one it does not compile. */
    const ipu_constant *tiles, *bytes_per_tile, *workers, *clock_hz;
};

static const ipu_chip chips[] = {
#define CHIP(id, text)                                   \
    {.name           = #id,                              \
     .summary        = text,                             \
     .constants      = &rows[BEFORE_##id + 1],           \
     .tiles          = &rows[ROW_##id##_tiles],          \
     .bytes_per_tile = &rows[ROW_##id##_bytes_per_tile], \
     .workers        = &rows[ROW_##id##_workers],        \
     .clock_hz       = &rows[ROW_##id##_clock_hz]},
#define CONSTANT(chip, name, value, unit, certainty, source)
#define ALIAS(alias, id)
#include "target/chips.inc"
#undef CHIP
#undef CONSTANT
#undef ALIAS
};

static const ipu_system systems[] = {
#define SYSTEM(name, chip, n_ipus, n_machines, links, source) {name, chip, n_ipus, n_machines, links, source},
#include "target/systems.inc"
#undef SYSTEM
};

/* Other names of chips, with their own. */
static const char *const aliases[][2] = {
#define CHIP(id, summary)
#define CONSTANT(chip, name, value, unit, certainty, source)
#define ALIAS(alias, id) {alias, #id},
#include "target/chips.inc"
#undef CHIP
#undef CONSTANT
#undef ALIAS
};

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

/* ---- lookup ---- */

static const char *resolve_alias(const char *name)
{
    for (int i = 0; i < COUNT(aliases); i++)
        if (!strcasecmp(name, aliases[i][0])) return aliases[i][1];
    return name;
}

static const ipu_chip *find_chip(const char *name)
{
    for (int i = 0; i < COUNT(chips); i++)
        if (!strcasecmp(name, chips[i].name)) return &chips[i];
    return NULL;
}

static const ipu_system *find_system(const char *name)
{
    for (int i = 0; i < COUNT(systems); i++)
        if (!strcasecmp(name, systems[i].name)) return &systems[i];
    return NULL;
}

/* Appends a name to a list in a buffer of NAMES_BYTES; what does not fit is dropped. */
static void list_name(char *list, const char *name)
{
    size_t n = strlen(list);
    snprintf(list + n, NAMES_BYTES - n, "%s%s", n ? ", " : "", name);
}

static ipu_status fail_no_target(const char *name)
{
    char chip_names[NAMES_BYTES] = "", system_names[NAMES_BYTES] = "";
    for (int i = 0; i < COUNT(chips); i++) list_name(chip_names, chips[i].name);
    for (int i = 0; i < COUNT(systems); i++) list_name(system_names, systems[i].name);
    return ipu__fail(IPU_NOT_FOUND, "no target \"%s\": expected a chip (%s) or a system (%s)", name,
                     chip_names, system_names);
}

ipu_status ipu_target_find(const char *name, int64_t n_ipus, ipu_target *out)
{
    const char       *found  = resolve_alias(name ? name : "");
    const ipu_chip   *chip   = find_chip(found);
    const ipu_system *system = chip ? NULL : find_system(found);
    if (system) chip = find_chip(system->chip);
    if (!chip) return fail_no_target(name ? name : "");

    if (n_ipus == 0) n_ipus = system ? system->n_ipus : 1;
    if (n_ipus < 1 || n_ipus > MAX_IPUS || (n_ipus & (n_ipus - 1)))
        return ipu__fail(IPU_INVALID, "target %s: %lld IPUs: expected 1 or a power of two up to %d", found,
                         (long long)n_ipus, MAX_IPUS);
    if (system && n_ipus > system->n_ipus)
        return ipu__fail(IPU_INVALID, "target %s: %lld IPUs: it has %lld; name a larger one, or the chip, %s",
                         found, (long long)n_ipus, (long long)system->n_ipus, system->chip);
    *out = (ipu_target){chip, n_ipus, (int64_t)chip->tiles->value};
    return IPU_OK;
}

ipu_status ipu_target_limit_tiles(ipu_target *target, int64_t tiles_per_ipu)
{
    if (!target->chip) return ipu__fail(IPU_INVALID, "no target: set it with ipu_target_find first");
    int64_t n = (int64_t)target->chip->tiles->value;
    if (tiles_per_ipu < 1 || tiles_per_ipu > n)
        return ipu__fail(IPU_INVALID, "target %s: %lld tiles per IPU: expected 1 to %lld, all the chip has",
                         target->chip->name, (long long)tiles_per_ipu, (long long)n);
    target->tiles_per_ipu = tiles_per_ipu;
    return IPU_OK;
}

/* ---- queries (on a target that was never found: nothing) ---- */

const char *ipu_target_chip_name(const ipu_target *target) { return target->chip ? target->chip->name : ""; }

int64_t ipu_target_n_tiles(const ipu_target *target)
{
    return target->chip ? target->n_ipus * target->tiles_per_ipu : 0;
}

int64_t ipu_target_bytes_per_tile(const ipu_target *target)
{
    return target->chip ? (int64_t)target->chip->bytes_per_tile->value : 0;
}

int64_t ipu_target_n_workers(const ipu_target *target)
{
    return target->chip ? (int64_t)target->chip->workers->value : 0;
}

double ipu_target_clock_hz(const ipu_target *target)
{
    return target->chip ? target->chip->clock_hz->value : 0;
}

ipu_status ipu_target_constant(const ipu_target *target, const char *name, ipu_constant *out)
{
    if (!target->chip) return ipu__fail(IPU_INVALID, "no target: set it with ipu_target_find first");
    for (const ipu_constant *c = target->chip->constants; c->name; c++)
        if (!strcmp(c->name, name)) {
            *out = *c;
            return IPU_OK;
        }
    char names[NAMES_BYTES] = "";
    for (const ipu_constant *c = target->chip->constants; c->name; c++) list_name(names, c->name);
    return ipu__fail(IPU_NOT_FOUND, "chip %s has no constant \"%s\": there are %s", target->chip->name, name,
                     names);
}

bool ipu_target_constant_at(const ipu_target *target, int i, ipu_constant *out)
{
    if (!target->chip || i < 0) return false;
    const ipu_constant *c = target->chip->constants;
    while (i > 0 && c->name) i--, c++;
    if (!c->name) return false;
    *out = *c;
    return true;
}

bool ipu_target_chip_at(int i, const char **name, const char **summary)
{
    if (i < 0 || i >= COUNT(chips)) return false;
    *name    = chips[i].name;
    *summary = chips[i].summary;
    return true;
}

bool ipu_target_system_at(int i, ipu_system *out)
{
    if (i < 0 || i >= COUNT(systems)) return false;
    *out = systems[i];
    return true;
}

const char *ipu_certainty_text(ipu_certainty certainty)
{
    static const char *const texts[] = {
        [IPU_CERTAIN_READ] = "read",         [IPU_CERTAIN_DERIVED] = "derived",
        [IPU_CERTAIN_HIGH] = "memory, high", [IPU_CERTAIN_MEDIUM] = "memory, medium",
        [IPU_CERTAIN_LOW] = "memory, low",   [IPU_CERTAIN_DEFINED] = "defined",
    };
    return (unsigned)certainty < sizeof texts / sizeof *texts ? texts[certainty] : "unknown";
}

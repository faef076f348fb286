/* Partitions, in the arena of their list: machines of the kind in which the chip is sold, numbered as in
 * captured output of the tools. */
#include "device/partition.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "ipu/target.h"
#include "ipu/version.h"

/* What the tools call a chip and its machine. Test chips are in machines of four. */
static const struct {
    const char *chip, *arch, *type, *target;
    int         n_ipus; /* per machine */
} kinds[] = {
    {"gc2", "ipu1", "C2", "PCIe", 2},
    {"gc200", "ipu2", "M2000", "Fabric", 4},
    {"bow", "ipu2", "Bow", "Fabric", 4},
    {"c600", "ipu21", "C600", "PCIe", 1},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds, TEST_MACHINE_IPUS = 4, BOARD_IPUS = 2 };

/* N_KINDS for a test chip. */
static int kind_of(const char *chip)
{
    int i = 0;
    while (i < N_KINDS && strcmp(kinds[i].chip, chip) != 0) i++;
    return i;
}

static int ipus_per_machine(const char *chip, int64_t n_ipus)
{
    int kind = kind_of(chip), n = kind < N_KINDS ? kinds[kind].n_ipus : TEST_MACHINE_IPUS;
    return n_ipus < n ? (int)n_ipus : n;
}

char *ipu__arena_format(ipu__arena *arena, const char *format, ...)
{
    char    text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return n < 0 ? NULL : ipu__arena_strdup(arena, text);
}

ipu_status ipu__partition_check_name(const char *name)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t            n         = strlen(name);
    if (n == 0 || n >= IPU__PARTITION_BYTES || strspn(name, allowed) != n || *name == '.' || *name == '-')
        return ipu__fail(IPU_INVALID,
                         "partition name \"%.80s\": expected 1 to %d letters, digits, '.', '_' or '-', not "
                         "beginning with '.' or '-'",
                         name, IPU__PARTITION_BYTES - 1);
    return IPU_OK;
}

ipu_status ipu__partition_machines(const char *target, int64_t n_ipus, size_t *out)
{
    ipu_target t;
    IPU_TRY(ipu_target_find(target, n_ipus, &t));
    *out = (size_t)(t.n_ipus / ipus_per_machine(ipu_target_chip_name(&t), t.n_ipus));
    return IPU_OK;
}

/* ---- machines ---- */

typedef struct build {
    ipu__arena    *arena;
    ipu_partition *p;
    bool           ok; /* no allocation has failed so far */
} build;

static void *take(build *b, size_t n, size_t bytes)
{
    void *at = ipu__arena_alloc(b->arena, n * bytes);
    if (at) memset(at, 0, n * bytes);
    b->ok = b->ok && at;
    return at;
}

static const char *copy(build *b, const char *text, const char *otherwise)
{
    char *own = ipu__arena_strdup(b->arena, text ? text : otherwise);
    b->ok     = b->ok && own;
    return own;
}

/* "0000.0002.0000001": in captures, the board with the higher numbers has 0002 and the other 0001. Ours
 * begin with 0000. */
static const char *serial(build *b, size_t machine, int board, int n_boards)
{
    char text[48];
    snprintf(text, sizeof text, "0000.%04d.%07zu", n_boards - board, machine + 1);
    return copy(b, text, NULL);
}

static void fill_machine(build *b, size_t i, const ipu_machine *given, int n_ipus)
{
    static const ipu_machine none;
    const ipu_machine       *g    = given ? given : &none;
    ipu_machine             *m    = &b->p->machines[i];
    int                      kind = kind_of(b->p->chip);
    m->host                       = copy(b, g->host, "localhost");
    m->type                       = copy(b, g->type, kind < N_KINDS ? kinds[kind].type : "test");
    m->software                   = copy(b, g->software, "");
    m->server                     = copy(b, g->server, ipu_version());
    m->firmware                   = copy(b, g->firmware, IPU__NOT_AVAILABLE);
    m->n_ipus                     = n_ipus;
    int n_boards                  = (n_ipus + BOARD_IPUS - 1) / BOARD_IPUS;
    for (int k = 0; k < n_boards; k++)
        m->board[k] = g->board[k] ? copy(b, g->board[k], NULL) : serial(b, i, k, n_boards);
}

/* ---- IPUs and devices ---- */

static void fill_singles(build *b, int n_ipus)
{
    ipu_partition *p = b->p;
    for (size_t i = 0; i < p->n_ipus; i++) {
        const ipu_machine *m      = &p->machines[i / (size_t)n_ipus];
        int                within = (int)(i % (size_t)n_ipus);
        p->singles[i]             = (ipu_single){.index   = (int)i,
                                                 .machine = m,
                                                 .number  = n_ipus - 1 - within,
                                                 .board   = m->board[within / BOARD_IPUS],
                                                 .error   = IPU__NO_ERRORS};
    }
}

static void fill_devices(ipu_partition *p)
{
    int         kind   = kind_of(p->chip);
    const char *single = kind < N_KINDS ? kinds[kind].target : "Fabric";
    size_t      n      = 0;
    for (size_t size = p->reconfigurable ? 1 : p->n_ipus; size <= p->n_ipus; size *= 2)
        for (size_t first = 0; first < p->n_ipus; first += size, n++)
            p->devices[n] = (ipu_device_info){.id     = (int)n,
                                              .target = size == 1 ? single : "Multi IPU",
                                              .first  = (int)first,
                                              .n_ipus = (int)size};
}

static ipu_status fill(build *b, const ipu__partition_spec *spec, const ipu_target *target)
{
    ipu_partition *p      = b->p;
    int            kind   = kind_of(p->chip);
    int            n_ipus = ipus_per_machine(p->chip, target->n_ipus);
    p->name               = copy(b, spec->name, "default");
    p->file               = copy(b, spec->file, "");
    p->routing            = copy(b, spec->routing, "DNC");
    p->sync_type          = copy(b, spec->sync_type, "c2-compatible");
    p->arch               = kind < N_KINDS ? kinds[kind].arch : p->chip;
    p->n_ipus             = (size_t)target->n_ipus;
    p->n_machines         = p->n_ipus / (size_t)n_ipus;
    p->n_devices          = p->reconfigurable ? 2 * p->n_ipus - 1 : 1;
    p->machines           = take(b, p->n_machines, sizeof *p->machines);
    p->singles            = take(b, p->n_ipus, sizeof *p->singles);
    p->devices            = take(b, p->n_devices, sizeof *p->devices);
    if (!b->ok) return ipu__fail_memory();
    if (spec->machines && spec->n_machines != p->n_machines)
        return ipu__fail(IPU_INVALID, "expected %zu machines, found %zu", p->n_machines, spec->n_machines);
    for (size_t i = 0; i < p->n_machines; i++)
        fill_machine(b, i, spec->machines ? &spec->machines[i] : NULL, n_ipus);
    if (!b->ok) return ipu__fail_memory();
    fill_singles(b, n_ipus);
    fill_devices(p);
    return IPU_OK;
}

ipu_status ipu__partition_build(ipu__arena *arena, const ipu__partition_spec *spec, ipu_partition *out)
{
    ipu_target target;
    IPU_TRY(ipu_target_find(spec->target ? spec->target : "m2000", spec->n_ipus, &target));
    *out    = (ipu_partition){.gcd            = spec->gcd,
                              .elastic        = !spec->hard,
                              .reconfigurable = !spec->fixed,
                              .chip           = ipu_target_chip_name(&target),
                              .clock_hz       = ipu_target_clock_hz(&target),
                              .tiles_per_ipu  = target.tiles_per_ipu,
                              .n_replicas     = spec->n_replicas ? spec->n_replicas : 1};
    build b = {arena, out, true};
    return fill(&b, spec, &target);
}

ipu_status ipu_partition_find_device(const ipu_partition *partition, int id, const ipu_device_info **out)
{
    if (id >= 0 && (size_t)id < partition->n_devices) {
        *out = &partition->devices[id];
        return IPU_OK;
    }
    *out = NULL;
    if (partition->n_devices == 1)
        return ipu__fail(IPU_NOT_FOUND, "partition %s has no device %d: its only one is device 0",
                         partition->name, id);
    return ipu__fail(IPU_NOT_FOUND, "partition %s has no device %d: its %zu IPUs make devices 0 to %zu",
                     partition->name, id, partition->n_ipus, partition->n_devices - 1);
}

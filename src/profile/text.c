/* A cost as text: what is modelled, target, graph, memory, execution, steps. */
#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "ipu/profile.h"

typedef struct printer {
    const ipu_cost  *cost;
    ipu_cost_summary s;
    ipu__text        out;
} printer;

/* ---- what the numbers are ---- */

static void print_notes(printer *p, const char *title, ipu_cost_notes kind)
{
    const char *note = ipu_cost_note_at(p->cost, kind, 0);
    if (!note) return;
    ipu__text_add(&p->out, "%s\n", title);
    for (int64_t i = 0; (note = ipu_cost_note_at(p->cost, kind, i)); i++)
        ipu__text_add(&p->out, "  %s\n", note);
}

static void print_opening(printer *p)
{
    ipu__text_add(&p->out, "An estimate by a model of the chip, not a measurement.\n");
    print_notes(p, "Modelled:", IPU_COST_MODELLED);
    print_notes(p, "Not modelled:", IPU_COST_NOT_MODELLED);
    print_notes(p, "Not modelled on this chip:", IPU_COST_UNKNOWN_ON_CHIP);
    print_notes(p,
                "Priced by default, for want of an estimate (ipu_vertex_set_cycles):", IPU_COST_BY_DEFAULT);
}

static void print_target(printer *p)
{
    const ipu_cost_summary *s = &p->s;
    ipu__text_add(&p->out, "\nTarget\n  chip                 %s, %lld IPU%s, %lld replica%s\n", s->chip,
                  (long long)s->n_ipus, s->n_ipus == 1 ? "" : "s", (long long)s->replication,
                  s->replication == 1 ? "" : "s");
    ipu__text_add(&p->out, "  tiles of a replica   %lld, of %lld bytes\n  clock                %.4g GHz\n",
                  (long long)s->n_tiles, (long long)s->bytes_per_tile, s->clock_hz / 1e9);
    ipu__text_add(&p->out,
                  "\nGraph (one replica)\n  variables            %lld\n  compute sets         %lld\n",
                  (long long)s->n_variables, (long long)s->n_compute_sets);
    ipu__text_add(&p->out,
                  "  vertices             %lld\n  edges                %lld\n  programs             %lld\n",
                  (long long)s->n_vertices, (long long)s->n_edges, (long long)s->n_programs);
    ipu__text_add(&p->out, "  steps                %lld\n", (long long)s->n_steps);
}

/* ---- memory ---- */

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static void print_categories(printer *p)
{
    const ipu_cost_summary *s = &p->s;
    ipu__text_add(&p->out, "  %-28s %14s %12s %12s %12s\n", "by category", "all tiles", "least", "mean",
                  "most");
    for (int c = 0; c < IPU_N_MEMORY_CATEGORIES; c++) {
        int64_t       least = INT64_MAX, most = 0;
        ipu_cost_tile tile;
        for (int64_t t = 0; ipu_cost_tile_at(p->cost, t, &tile); t++) {
            if (tile.bytes[c] < least) least = tile.bytes[c];
            if (tile.bytes[c] > most) most = tile.bytes[c];
        }
        ipu__text_add(&p->out, "  %-28s %14lld %12lld %12.1f %12lld\n",
                      ipu_memory_category_text((ipu_memory_category)c), (long long)s->memory[c],
                      (long long)least, (double)s->memory[c] / (double)s->n_tiles, (long long)most);
    }
    ipu__text_add(&p->out, "  %-28s %14lld %12lld %12.1f %12lld\n", "together", (long long)s->memory_total,
                  (long long)s->memory_least, (double)s->memory_total / (double)s->n_tiles,
                  (long long)s->memory_most);
}

static void print_overfull(printer *p)
{
    ipu_cost_overfull o;
    ipu__text_add(&p->out, "  over-full tiles      %lld\n", (long long)p->s.n_overfull);
    for (int64_t i = 0; ipu_cost_overfull_at(p->cost, i, &o); i++) {
        ipu__text_add(&p->out, "    tile %lld: %lld bytes over", (long long)o.tile, (long long)o.over);
        if (o.peak_step >= 0) ipu__text_add(&p->out, " at step %lld", (long long)o.peak_step);
        for (int k = 0; k < o.n_tenants; k++)
            ipu__text_add(&p->out, "%s%s %lld", k ? ", " : "; largest: ", o.tenant[k],
                          (long long)o.tenant_bytes[k]);
        ipu__text_add(&p->out, "\n");
    }
    if (p->s.n_overfull > IPU_COST_MAX_OVERFULL)
        ipu__text_add(&p->out, "    and %lld more\n", (long long)p->s.n_overfull - IPU_COST_MAX_OVERFULL);
}

static void print_memory(printer *p)
{
    const ipu_cost_summary *s = &p->s;
    ipu_cost_tile           fullest;
    ipu__text_add(&p->out, "\nMemory (bytes; each tile when it is fullest)\n");
    print_categories(p);
    if (ipu_cost_tile_at(p->cost, s->fullest_tile, &fullest)) {
        ipu__text_add(&p->out, "  fullest tile         %lld: %lld of %lld bytes (%.1f%%)",
                      (long long)s->fullest_tile, (long long)fullest.total, (long long)s->bytes_per_tile,
                      percent(fullest.total, s->bytes_per_tile));
        if (fullest.peak_step >= 0) ipu__text_add(&p->out, " at step %lld", (long long)fullest.peak_step);
        ipu__text_add(&p->out, "\n");
    }
    print_overfull(p);
}

/* ---- execution ---- */

static void print_cycles(printer *p, const char *name, int64_t cycles)
{
    ipu__text_add(&p->out, "  %-20s %lld cycles (%.1f%%)\n", name, (long long)cycles,
                  percent(cycles, p->s.cycles.total));
}

static void print_execution(printer *p)
{
    const ipu_cost_summary *s = &p->s;
    ipu_cost_cycles         c;
    ipu__text_add(&p->out, "\nExecution (each program once; bodies of while loops %lld time%s)\n",
                  (long long)s->while_count, s->while_count == 1 ? "" : "s");
    ipu__text_add(&p->out, "  total                %lld cycles, %.6g us\n", (long long)s->cycles.total,
                  s->seconds * 1e6);
    print_cycles(p, "compute", s->cycles.compute);
    print_cycles(p, "exchange", s->cycles.exchange);
    print_cycles(p, "sync", s->cycles.sync);
    print_cycles(p, "host", s->cycles.host);
    ipu__text_add(&p->out, "  tile balance         %.1f%%\n", 100 * s->balance);
    for (int64_t i = 0; s->n_programs > 1 && ipu_cost_program_at(p->cost, i, &c); i++)
        ipu__text_add(&p->out, "  program %-12lld %lld cycles\n", (long long)i, (long long)c.total);
}

/* With just one, there is nothing to add to the above. */
static void print_ipus(printer *p)
{
    ipu_cost_ipu ipu;
    if (!ipu_cost_ipu_at(p->cost, 1, &ipu)) return;
    ipu__text_add(&p->out, "\nIPUs (of one replica)\n  %5s %14s %8s %14s %12s %12s\n", "IPU", "computes",
                  "share", "bytes", "fullest tile", "its bytes");
    for (int64_t i = 0; ipu_cost_ipu_at(p->cost, i, &ipu); i++)
        ipu__text_add(&p->out, "  %5lld %14lld %7.1f%% %14lld %12lld %12lld\n", (long long)i,
                      (long long)ipu.cycles, 100 * ipu.share, (long long)ipu.memory_total,
                      (long long)ipu.fullest_tile, (long long)ipu.memory_most);
}

static void print_step(printer *p, int64_t i, const ipu_cost_step *s)
{
    ipu__text_add(&p->out, "  %5lld %10lld %12lld %10lld %10lld %8lld %8lld %7lld %5.1f%% %10lld ",
                  (long long)i, (long long)s->count, (long long)s->cycles.total, (long long)s->cycles.compute,
                  (long long)s->cycles.exchange, (long long)s->cycles.sync, (long long)s->cycles.host,
                  (long long)s->active_tiles, 100 * s->balance, (long long)s->tile_bytes);
    if (s->host_runs > 0)
        ipu__text_add(&p->out, "%10.3f ", 1e6 * s->host_seconds / (double)s->host_runs);
    else
        ipu__text_add(&p->out, "%10s ", "-");
    ipu__text_add(&p->out, "%*s%s%s%s  %s%s%s\n", 2 * s->depth, "", s->kind, *s->name ? " " : "", s->name,
                  s->where, *s->note ? "  # " : "", s->note);
}

static void print_steps(printer *p)
{
    ipu_cost_step s;
    const char   *part = "";
    ipu__text_add(
        &p->out,
        "\nSteps (cycles of one execution; bytes of the fullest tile; measured host time of one run)\n");
    ipu__text_add(&p->out, "  %5s %10s %12s %10s %10s %8s %8s %7s %6s %10s %10s step\n", "", "count",
                  "cycles", "compute", "exchange", "sync", "host", "tiles", "balance", "bytes", "host us");
    for (int64_t i = 0; ipu_cost_step_at(p->cost, i, &s); i++) {
        if (s.part != part) ipu__text_add(&p->out, "  %s\n", s.part);
        part = s.part;
        print_step(p, i, &s);
    }
}

/* Nothing if the program that ran is the one that was priced. */
static void print_host_steps(printer *p)
{
    ipu_step_time t;
    double        sum = 0;
    if (!ipu_cost_host_step_at(p->cost, 0, &t)) return;
    for (int64_t i = 0; ipu_cost_host_step_at(p->cost, i, &t); i++) sum += t.seconds;
    ipu__text_add(&p->out,
                  "\nSteps that the host ran: not those above, as what pays on its CPU is fused "
                  "(measured time of one run)\n  %10s %10s %6s step\n",
                  "runs", "host us", "share");
    for (int64_t i = 0; ipu_cost_host_step_at(p->cost, i, &t); i++) {
        double each = t.runs > 0 ? 1e6 * t.seconds / (double)t.runs : 0;
        ipu__text_add(&p->out, "  %10lld %10.3f %5.1f%% %s%s%s\n", (long long)t.runs, each,
                      sum > 0 ? 100 * t.seconds / sum : 0, t.kind, *t.name ? " " : "", t.name);
    }
}

ipu_status ipu_cost_print(const ipu_cost *cost, unsigned flags, char **out)
{
    printer p = {.cost = cost};
    ipu_cost_get_summary(cost, &p.s);
    print_opening(&p);
    print_target(&p);
    print_memory(&p);
    print_execution(&p);
    print_ipus(&p);
    if (flags & IPU_PROFILE_STEPS) print_steps(&p);
    if (flags & IPU_PROFILE_STEPS) print_host_steps(&p);
    *out = ipu__text_take(&p.out);
    return *out ? IPU_OK : ipu__fail_memory();
}

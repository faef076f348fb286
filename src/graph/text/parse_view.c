/* Views from text. Every piece is checked against its variable before it is built: later code relies on
 * pieces that lie within their variables, and on sizes that cannot overflow. */
#include "graph/text/parse.h"

#define MOST_ELEMENTS ((int64_t)1 << 47)

/* Views written by a step are compared run by run unless they are regular. A few words of text can select
 * billions of scattered elements, so there is a limit for one view and for all programs. */
enum { MOST_RUNS = 1 << 22 };
#define MOST_RUNS_OF_PROGRAMS ((int64_t)1 << 26)

bool ipu__parse_loop(ipu__parser *p, ipu__position at, int64_t count, int64_t stride)
{
    if (count < 1)
        return ipu__parse_fail(p, at, "expected a count of at least 1, found %lld", (long long)count);
    if (p->piece.n_loops == IPU__MAX_LOOPS)
        return ipu__parse_fail(p, at, "expected at most %d loops in a piece", IPU__MAX_LOOPS);
    p->piece.loop[p->piece.n_loops++] = (ipu__loop){count, stride};
    return true;
}

/* The lowest and highest element of p->piece, and their number. Returns false if too large. */
static bool piece_extent(const ipu__piece *piece, int64_t *low, int64_t *high, int64_t *n)
{
    *low = *high = piece->start;
    *n           = 1;
    for (int k = 0; k < piece->n_loops; k++) {
        int64_t reach, *end;
        if (__builtin_mul_overflow(piece->loop[k].count - 1, piece->loop[k].stride, &reach)) return false;
        end = reach < 0 ? low : high;
        if (__builtin_add_overflow(*end, reach, end)) return false;
        if (__builtin_mul_overflow(*n, piece->loop[k].count, n) || *n > MOST_ELEMENTS) return false;
    }
    return true;
}

/* The number of runs of neighbours in the set of the piece's elements: loops are sorted by stride, and
 * joined if each continues where the one inside it ends. */
static int64_t count_runs(const ipu__piece *piece)
{
    ipu__loop loop[IPU__MAX_LOOPS];
    int       n_loops = 0;
    for (int k = 0; k < piece->n_loops; k++) {
        ipu__loop next = piece->loop[k];
        if (next.stride < 0) next.stride = -next.stride;
        if (next.stride == 0 || next.count == 1) continue;
        int at = n_loops++;
        for (; at > 0 && loop[at - 1].stride > next.stride; at--) loop[at] = loop[at - 1];
        loop[at] = next;
    }
    int64_t n = 1, joined = 1;
    for (int k = 0; k < n_loops; k++) {
        if (loop[k].stride == joined)
            joined *= loop[k].count;
        else
            n *= loop[k].count;
    }
    return n;
}

bool ipu__parse_piece(ipu__parser *p, ipu__position at, ipu__slice label, int64_t start)
{
    int64_t low, high, n;
    if (!ipu__parse_find(p, at, &p->variables, "variable", label, &p->piece.var)) return false;
    const ipu__variable *v = ipu__graph_variable(p->g, p->piece.var);
    p->piece.start         = start;
    if (!piece_extent(&p->piece, &low, &high, &n))
        return ipu__parse_fail(p, at, "the piece has more than 2^47 elements");
    if (low < 0 || high >= v->n_elements)
        return ipu__parse_fail(p, at,
                               "the piece covers elements %lld to %lld of %s: it has elements 0 to %lld",
                               (long long)low, (long long)high, ipu__variable_str(p->g, p->piece.var),
                               (long long)v->n_elements - 1);
    for (int k = 0; k < p->piece.n_loops; k++) /* its stride is meaningless, and may be out of bounds */
        if (p->piece.loop[k].count == 1) p->piece.loop[k].stride = 0;
    p->mixed      = p->pieces.n_pieces > 0 && (p->mixed || v->type != p->piece_type);
    p->piece_type = v->type;
    p->n_elements += n;
    p->n_runs += count_runs(&p->piece);
    if (p->n_elements > MOST_ELEMENTS) return ipu__parse_fail(p, at, "the view has more than 2^47 elements");
    ipu__view_add(&p->pieces, &p->piece);
    return !p->pieces.failed || ipu__parse_memory(p);
}

/* Whether every piece's elements have the size of `type`. */
static bool same_bytes(const ipu__parser *p, ipu_type type)
{
    const int64_t *words = p->pieces.words.at;
    for (size_t at = 0; at < p->pieces.words.n; at += 3 + 2 * (size_t)words[at + 1])
        if (ipu_type_size(ipu__graph_variable(p->g, (uint32_t)words[at])->type) != ipu_type_size(type))
            return false;
    return true;
}

static bool charge_runs(ipu__parser *p, ipu__position at)
{
    int64_t n = p->n_runs;
    p->n_runs = 0;
    if (p->blocks.n == 0) return true;
    p->runs_used += n;
    return (n <= MOST_RUNS && p->runs_used <= MOST_RUNS_OF_PROGRAMS)
        || ipu__parse_fail(p, at, "the %s more than %lld scattered runs of elements: too many for a text",
                           n > MOST_RUNS ? "view has" : "views of the programs have",
                           (long long)(n > MOST_RUNS ? MOST_RUNS : MOST_RUNS_OF_PROGRAMS));
}

bool ipu__parse_view(ipu__parser *p, ipu__position at, ipu_type type, ipu_tensor *out)
{
    int64_t n = 0;
    ipu__shape_count(&p->shape, &n);
    if (n != p->n_elements)
        return ipu__parse_fail(p, at, "the view has %lld elements, but its shape is %s",
                               (long long)p->n_elements, ipu__shape_str(&p->shape));
    if (type == IPU_N_TYPES && p->mixed)
        return ipu__parse_fail(p, at, "the view has pieces of several types: expected 'as' and a type");
    if (type == IPU_N_TYPES) type = p->piece_type;
    if (!same_bytes(p, type))
        return ipu__parse_fail(p, at, "a piece cannot be taken as %s: its elements have another size",
                               ipu_type_name(type));
    if (!charge_runs(p, at)) return false;
    uint32_t id   = ipu__view_commit(&p->pieces, &p->g->views, type, &p->shape);
    *out          = (ipu_tensor){p->g, id};
    p->n_elements = 0;
    p->mixed      = false;
    return id || ipu__parse_memory(p);
}

bool ipu__parse_whole(ipu__parser *p, ipu__position at, ipu__slice label, ipu_tensor *out)
{
    uint32_t id;
    if (!ipu__parse_find(p, at, &p->variables, "variable", label, &id)) return false;
    *out = (ipu_tensor){p->g, ipu__graph_variable(p->g, id)->view};
    return true;
}

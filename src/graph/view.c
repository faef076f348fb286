/* The view algebra: loop nests, their packed form, and selection by an affine nest.
 * Relies on every piece lying within its variable; leaves pieces normalised. */
#include "graph/view.h"

#include <string.h>

#include "base/status.h"

/* ---- nests ---- */

/* Copies only the loops in use: pieces are large and mostly empty. */
static void copy_piece(ipu__piece *to, const ipu__piece *from)
{
    to->var     = from->var;
    to->n_loops = from->n_loops;
    to->start   = from->start;
    memcpy(to->loop, from->loop, (size_t)from->n_loops * sizeof *to->loop);
}

int64_t ipu__piece_count(const ipu__piece *piece)
{
    int64_t n = 1;
    for (int k = 0; k < piece->n_loops; k++) n *= piece->loop[k].count;
    return n;
}

void ipu__nest_normalise(ipu__piece *p)
{
    int n = 0;
    for (int k = 0; k < p->n_loops; k++) {
        ipu__loop loop = p->loop[k];
        if (loop.count == 1) continue;
        if (n > 0 && p->loop[n - 1].stride == loop.stride * loop.count) loop.count *= p->loop[--n].count;
        p->loop[n++] = loop;
    }
    p->n_loops = n;
}

bool ipu__nest_align(ipu__piece *a, ipu__piece *b)
{
    ipu__loop la[IPU__MAX_LOOPS], lb[IPU__MAX_LOOPS]; /* innermost first */
    int       n = 0, ia = a->n_loops, ib = b->n_loops;
    ipu__loop ca = {1, 0}, cb = {1, 0};
    for (;;) {
        if (ca.count == 1 && ia > 0) ca = a->loop[--ia];
        if (cb.count == 1 && ib > 0) cb = b->loop[--ib];
        if (ca.count == 1 && cb.count == 1) break;
        int64_t c = ca.count < cb.count ? ca.count : cb.count;
        if (c == 1 || ca.count % c != 0 || cb.count % c != 0 || n == IPU__MAX_LOOPS) return false;
        la[n]   = (ipu__loop){c, ca.stride};
        lb[n++] = (ipu__loop){c, cb.stride};
        ca      = (ipu__loop){ca.count / c, ca.stride * c};
        cb      = (ipu__loop){cb.count / c, cb.stride * c};
    }
    a->n_loops = b->n_loops = n;
    for (int k = 0; k < n; k++) {
        a->loop[k] = la[n - 1 - k];
        b->loop[k] = lb[n - 1 - k];
    }
    return true;
}

/* ---- the packed form ----
 * word 0: type (4 bits), rank (4), WIDE, COMPACT, number of pieces (22 bits; all ones: in the next
 * word); dimensions; pieces. A piece: var * 32 + n_loops, start, (count, stride) per loop. Numbers are one
 * word, or two if WIDE. COMPACT: one ascending run of all elements, stored as var, start. */

enum { WIDE = 1 << 8, COMPACT = 1 << 9, PIECES_SHIFT = 10, MANY_PIECES = (1 << 22) - 1 };

static int64_t get_number(const uint32_t *words, uint32_t *at, bool wide)
{
    if (!wide) return (int32_t)words[(*at)++];
    uint64_t low = words[*at], high = words[*at + 1];
    *at += 2;
    return (int64_t)(low | high << 32);
}

static void put_number(uint32_t *words, size_t *at, bool wide, int64_t value)
{
    words[(*at)++] = (uint32_t)value;
    if (wide) words[(*at)++] = (uint32_t)((uint64_t)value >> 32);
}

void ipu__view_load(const ipu__view_pool *pool, uint32_t id, ipu__view *out)
{
    /* Written in place without clearing: this runs several times per vertex and field. */
    const uint32_t *words = pool->words.at;
    uint32_t        head = words[id], at = id + 1;
    int64_t         n_elements = 1;
    out->type                  = head & 15;
    out->wide                  = head & WIDE;
    out->compact               = head & COMPACT;
    out->shape.rank            = (int)(head >> 4 & 15);
    out->n_pieces              = head >> PIECES_SHIFT;
    if (out->n_pieces == MANY_PIECES) out->n_pieces = words[at++];
    for (int d = 0; d < out->shape.rank; d++) {
        out->shape.dim[d] = get_number(words, &at, out->wide);
        n_elements *= out->shape.dim[d];
    }
    out->n_elements = n_elements;
    out->at         = at;
}

ipu__pieces ipu__view_pieces(const ipu__view_pool *pool, const ipu__view *view)
{
    return (ipu__pieces){pool, view->at, view->n_pieces, view->wide, view->compact, view->n_elements};
}

static void get_piece(const uint32_t *words, uint32_t *at, bool wide, ipu__piece *out)
{
    uint32_t head = words[(*at)++];
    out->var      = head >> 5;
    out->n_loops  = (int)(head & 31);
    out->start    = get_number(words, at, wide);
    for (int k = 0; k < out->n_loops; k++) {
        out->loop[k].count  = get_number(words, at, wide);
        out->loop[k].stride = get_number(words, at, wide);
    }
}

bool ipu__pieces_next(ipu__pieces *pieces, ipu__piece *out)
{
    if (pieces->left == 0) return false;
    pieces->left--;
    const uint32_t *words = pieces->pool->words.at;
    if (!pieces->compact) {
        get_piece(words, &pieces->at, pieces->wide, out);
        return true;
    }
    out->var     = words[pieces->at++];
    out->start   = get_number(words, &pieces->at, pieces->wide);
    out->n_loops = pieces->n_elements > 1;
    out->loop[0] = (ipu__loop){pieces->n_elements, 1};
    return true;
}

/* ---- runs ---- */

ipu__runs ipu__view_runs(const ipu__view_pool *pool, uint32_t id)
{
    ipu__view view = ipu__view_get(pool, id);
    return (ipu__runs){.pieces = ipu__view_pieces(pool, &view)};
}

bool ipu__runs_next(ipu__runs *runs, ipu__run *out)
{
    ipu__piece *p = &runs->piece;
    if (!runs->in_piece) {
        if (!ipu__pieces_next(&runs->pieces, p)) return false;
        memset(runs->index, 0, sizeof runs->index);
        runs->in_piece = true;
    }
    int inner = p->n_loops - 1;
    *out      = (ipu__run){p->var, p->start, 1, 1};
    if (inner >= 0) {
        out->count  = p->loop[inner].count;
        out->stride = p->loop[inner].stride;
    }
    int k = inner - 1; /* step the odometer of the outer loops, keeping p->start up to date */
    for (; k >= 0; k--) {
        p->start += p->loop[k].stride;
        if (++runs->index[k] < p->loop[k].count) break;
        p->start -= p->loop[k].count * p->loop[k].stride;
        runs->index[k] = 0;
    }
    if (k < 0) runs->in_piece = false;
    return true;
}

bool ipu__view_contiguous(const ipu__view_pool *pool, uint32_t id, ipu__run *out)
{
    /* Read directly from the words: called several times per vertex and field. */
    const uint32_t *words = pool->words.at;
    uint32_t        head = words[id], at = id + 1;
    out->var    = 0;
    out->start  = 0;
    out->count  = 0;
    out->stride = 1;
    if (!(head & COMPACT)) return head >> PIECES_SHIFT == 0; /* no element at all */
    bool    wide  = head & WIDE;
    int64_t count = 1;
    for (uint32_t d = head >> 4 & 15; d > 0; d--) count *= get_number(words, &at, wide);
    out->var   = words[at++];
    out->start = get_number(words, &at, wide);
    out->count = count;
    return true;
}

/* ---- building ---- */

enum { PIECE_WORDS = 3 }; /* var, n_loops, start */

static bool same_loops(const ipu__loop *a, const ipu__loop *b, int n)
{
    return n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Extend `last` by `next` if both together are a single nest. */
static bool join(ipu__piece *last, const ipu__piece *next)
{
    if (last->var != next->var) return false;
    if (last->n_loops <= 1 && next->n_loops <= 1) { /* two runs, or elements, with a common stride */
        int64_t a = last->n_loops ? last->loop[0].count : 1, b = next->n_loops ? next->loop[0].count : 1;
        int64_t stride = a > 1 ? last->loop[0].stride
                       : b > 1 ? next->loop[0].stride
                               : next->start - last->start;
        bool in_line = (b == 1 || next->loop[0].stride == stride) && next->start == last->start + a * stride;
        if (in_line) {
            last->n_loops = 1;
            last->loop[0] = (ipu__loop){a + b, stride};
            return true;
        }
    }
    if (last->n_loops == next->n_loops + 1 && same_loops(last->loop + 1, next->loop, next->n_loops)
        && next->start == last->start + last->loop[0].count * last->loop[0].stride) {
        last->loop[0].count++; /* one more iteration of the outer loop */
        return true;
    }
    if (last->n_loops != next->n_loops || last->n_loops == IPU__MAX_LOOPS
        || !same_loops(last->loop, next->loop, next->n_loops))
        return false;
    memmove(last->loop + 1, last->loop, (size_t)last->n_loops * sizeof *last->loop);
    last->loop[0] = (ipu__loop){2, next->start - last->start};
    last->n_loops++;
    ipu__nest_normalise(last);
    return true;
}

static void unpack_last(const ipu__view_builder *b, ipu__piece *out)
{
    const int64_t *w = b->words.at + b->last;
    out->var         = (uint32_t)w[0];
    out->n_loops     = (int)w[1];
    out->start       = w[2];
    memcpy(out->loop, w + PIECE_WORDS, (size_t)out->n_loops * sizeof *out->loop);
}

/* Counts one more piece, or a longer last one, in a view that already has some. */
static void count_piece(ipu__view_builder *b)
{
    b->n_added++;
    if ((b->most_added && b->n_added > b->most_added) || b->n_pieces >= IPU__VIEW_PIECES)
        b->failed = b->is_irregular = true;
}

void ipu__view_add(ipu__view_builder *b, const ipu__piece *piece)
{
    ipu__piece p;
    if (b->n_pieces > 0) count_piece(b);
    copy_piece(&p, piece);
    ipu__nest_normalise(&p);
    if (b->n_pieces > 0 && !b->failed) {
        ipu__piece last;
        unpack_last(b, &last);
        if (join(&last, &p)) {
            p = last;
            b->n_pieces--;
            b->words.n = b->last;
        }
    }
    size_t n = PIECE_WORDS + 2 * (size_t)p.n_loops;
    if (b->failed || !ipu__reserve(&b->words, n)) {
        b->failed = true;
        return;
    }
    b->last    = b->words.n;
    int64_t *w = b->words.at + b->last;
    w[0]       = p.var;
    w[1]       = p.n_loops;
    w[2]       = p.start;
    memcpy(w + PIECE_WORDS, p.loop, (size_t)p.n_loops * sizeof *p.loop);
    b->words.n += n;
    b->n_pieces++;
}

void ipu__view_add_range(ipu__view_builder *b, const ipu__piece *piece, int64_t begin, int64_t end)
{
    if (begin >= end) return;
    if (piece->n_loops == 0) {
        ipu__view_add(b, piece);
        return;
    }
    int64_t    stride = piece->loop[0].stride, inner = ipu__piece_count(piece) / piece->loop[0].count;
    int64_t    first = begin / inner, last = end / inner; /* iterations; the last is incomplete */
    ipu__piece round;
    round.var     = piece->var;
    round.n_loops = piece->n_loops - 1;
    memcpy(round.loop, piece->loop + 1, (size_t)round.n_loops * sizeof *round.loop);
    if (begin % inner != 0) {
        round.start = piece->start + first * stride;
        ipu__view_add_range(b, &round, begin % inner, first == last ? end % inner : inner);
        if (first == last) return;
        first++;
    }
    if (first < last) {
        ipu__piece rounds;
        copy_piece(&rounds, piece);
        rounds.start += first * stride;
        rounds.loop[0].count = last - first;
        ipu__view_add(b, &rounds);
    }
    round.start = piece->start + last * stride;
    ipu__view_add_range(b, &round, 0, end % inner);
}

static bool fits_32(int64_t value) { return value == (int32_t)value; }

static bool is_narrow(const ipu__view_builder *b, const ipu_shape *shape)
{
    for (int d = 0; d < shape->rank; d++)
        if (!fits_32(shape->dim[d])) return false;
    for (size_t i = 0; i < b->words.n;) {
        size_t n = PIECE_WORDS + 2 * (size_t)b->words.at[i + 1];
        for (size_t k = 2; k < n; k++)
            if (!fits_32(b->words.at[i + k])) return false;
        i += n;
    }
    return true;
}

static void put_piece(uint32_t *words, size_t *at, bool wide, const int64_t *w)
{
    words[(*at)++] = (uint32_t)w[0] * 32 + (uint32_t)w[1];
    for (int64_t k = 2; k < PIECE_WORDS + 2 * w[1]; k++) put_number(words, at, wide, w[k]);
}

static void put_view(uint32_t *words, size_t *at, const ipu__view_builder *b, ipu_type type,
                     const ipu_shape *shape, bool wide)
{
    const int64_t *w       = b->words.at;
    bool           compact = b->n_pieces == 1 && (w[1] == 0 || (w[1] == 1 && w[4] == 1));
    bool           many    = b->n_pieces >= MANY_PIECES;
    words[(*at)++]         = (uint32_t)type | (uint32_t)shape->rank << 4 | (wide ? WIDE : 0u)
                   | (compact ? COMPACT : 0u) | (many ? (uint32_t)MANY_PIECES : b->n_pieces) << PIECES_SHIFT;
    if (many) words[(*at)++] = b->n_pieces;
    for (int d = 0; d < shape->rank; d++) put_number(words, at, wide, shape->dim[d]);
    if (compact) {
        words[(*at)++] = (uint32_t)w[0];
        put_number(words, at, wide, w[2]);
        return;
    }
    for (size_t i = 0; i < b->words.n; i += PIECE_WORDS + 2 * (size_t)w[i + 1])
        put_piece(words, at, wide, w + i);
}

uint32_t ipu__view_commit(ipu__view_builder *b, ipu__view_pool *pool, ipu_type type, const ipu_shape *shape)
{
    bool   wide = !is_narrow(b, shape);
    size_t need = 2 + 2 * (2 * (size_t)shape->rank + 2 * b->words.n);
    bool   ok = !b->failed && pool->words.n + need < IPU__VIEW_LIMIT && ipu__reserve(&pool->words, need + 1);
    uint32_t id = 0;
    if (ok) {
        if (pool->words.n == 0) pool->words.at[pool->words.n++] = 0; /* so that no view has id 0 */
        id = (uint32_t)pool->words.n;
        put_view(pool->words.at, &pool->words.n, b, type, shape, wide);
    }
    b->words.n  = 0;
    b->n_pieces = 0;
    b->failed   = false;
    return id;
}

void ipu__view_builder_fini(ipu__view_builder *b) { ipu__array_fini(&b->words); }

void ipu__view_add_view(ipu__view_builder *b, const ipu__view_pool *pool, uint32_t id)
{
    ipu__view   view   = ipu__view_get(pool, id);
    ipu__pieces pieces = ipu__view_pieces(pool, &view);
    for (ipu__piece piece; !b->failed && ipu__pieces_next(&pieces, &piece);) ipu__view_add(b, &piece);
}

/* ---- selection ---- */

typedef struct selection {
    ipu__view_builder      *b;
    const ipu__view_pool   *pool;
    const ipu__piece_index *index;
    ipu__view               view;
    ipu__piece              only; /* the only piece, if there is just one */
} selection;

void ipu__piece_index_fini(ipu__piece_index *index)
{
    ipu__free(index->entry);
    *index = (ipu__piece_index){0};
}

static bool build_index(ipu__piece_index *index, const ipu__view_pool *pool, uint32_t id,
                        const ipu__view *view)
{
    if (index->view == id) return true;
    index->view = 0;
    if (index->capacity < view->n_pieces) {
        void *grown = ipu__realloc(index->entry, index->capacity * sizeof *index->entry,
                                   view->n_pieces * sizeof *index->entry);
        if (!grown) return false;
        index->entry    = grown;
        index->capacity = view->n_pieces;
    }
    ipu__pieces pieces = ipu__view_pieces(pool, view);
    int64_t     first  = 0;
    index->n           = view->n_pieces;
    for (size_t i = 0; i < index->n; i++) {
        ipu__piece piece;
        index->entry[i].first = first;
        index->entry[i].at    = pieces.at;
        ipu__pieces_next(&pieces, &piece);
        first += ipu__piece_count(&piece);
    }
    index->view = id;
    return true;
}

/* The piece that contains flat element `f`, and the flat index of its first element. */
static int64_t piece_at(const selection *s, int64_t f, ipu__piece *out)
{
    if (s->view.n_pieces == 1) {
        copy_piece(out, &s->only);
        return 0;
    }
    size_t low = 0, high = s->index->n;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (s->index->entry[middle].first <= f)
            low = middle;
        else
            high = middle;
    }
    uint32_t at = s->index->entry[low].at;
    get_piece(s->pool->words.at, &at, s->view.wide, out);
    return s->index->entry[low].first;
}

static void add_flat_range(const selection *s, int64_t begin, int64_t end)
{
    while (begin < end && !s->b->failed) {
        ipu__piece piece;
        int64_t    first = piece_at(s, begin, &piece), past = first + ipu__piece_count(&piece);
        if (past > end) past = end;
        ipu__view_add_range(s->b, &piece, begin - first, past - first);
        begin = past;
    }
}

/* Digits of a piece's flat order: digit k counts to count[k] in steps of `unit[k]` flat elements. */
typedef struct digits {
    int     n;
    int64_t unit[IPU__MAX_LOOPS], low[IPU__MAX_LOOPS], high[IPU__MAX_LOOPS];
} digits;

/* The digit that a step of `stride` changes without touching lower ones; -1 if none. */
static int digit_of(const digits *d, const ipu__piece *piece, int64_t stride)
{
    int64_t size = stride < 0 ? -stride : stride;
    for (int k = 0; k < d->n; k++)
        if (d->unit[k] <= size)
            return size % d->unit[k] == 0 && size / d->unit[k] < piece->loop[k].count ? k : -1;
    return -1;
}

static bool add_loop(ipu__piece *out, int64_t count, int64_t stride)
{
    if (out->n_loops == IPU__MAX_LOOPS) return false;
    out->loop[out->n_loops++] = (ipu__loop){count, stride};
    return true;
}

/* Turns a loop over flat elements into loops over the variable, split where it carries into the next digit. */
static bool compose_loop(const ipu__piece *piece, digits *d, ipu__loop loop, ipu__piece *out)
{
    if (loop.stride == 0) return add_loop(out, loop.count, 0);
    int k = digit_of(d, piece, loop.stride);
    if (k < 0) return false;
    int64_t size = loop.stride < 0 ? -loop.stride : loop.stride, whole = d->unit[k] * piece->loop[k].count;
    if ((loop.count - 1) * size >= whole) {
        if (whole % size != 0 || loop.count % (whole / size) != 0) return false;
        int64_t   inside = whole / size;
        ipu__loop carry  = {loop.count / inside, loop.stride * inside};
        if (!compose_loop(piece, d, carry, out)) return false;
        loop.count = inside;
    }
    int64_t step = loop.stride / d->unit[k], reach = step * (loop.count - 1);
    *(reach < 0 ? &d->low[k] : &d->high[k]) += reach;
    return add_loop(out, loop.count, step * piece->loop[k].stride);
}

/* The nest over the flat order of `piece`, as a nest over its variable. Returns false if that needs more
 * than one. */
static bool compose(const ipu__piece *piece, const ipu__piece *nest, ipu__piece *out)
{
    digits  d;
    int64_t unit = 1, start = nest->start;
    d.n = piece->n_loops;
    for (int k = d.n - 1; k >= 0; k--) {
        d.unit[k] = unit;
        unit *= piece->loop[k].count;
    }
    out->var     = piece->var;
    out->start   = piece->start;
    out->n_loops = 0;
    for (int k = 0; k < d.n; k++) {
        d.low[k] = d.high[k] = start / d.unit[k];
        start %= d.unit[k];
        out->start += d.low[k] * piece->loop[k].stride;
    }
    for (int k = 0; k < nest->n_loops; k++)
        if (!compose_loop(piece, &d, nest->loop[k], out)) return false;
    for (int k = 0; k < d.n; k++) /* no digit may carry or borrow, whatever the combination of loops */
        if (d.low[k] < 0 || d.high[k] >= piece->loop[k].count) return false;
    return true;
}

/* The lowest and highest flat index that a nest selects. */
static void reach_of(const ipu__piece *nest, int64_t *low, int64_t *high)
{
    *low = *high = nest->start;
    for (int k = 0; k < nest->n_loops; k++) {
        int64_t reach = (nest->loop[k].count - 1) * nest->loop[k].stride;
        *(reach < 0 ? low : high) += reach;
    }
}

/* Adds the nest if everything it selects is in one piece, and forms one nest there. */
static bool add_as_one(const selection *s, const ipu__piece *nest, int64_t low, int64_t high)
{
    ipu__piece piece, composed, within;
    int64_t    first = piece_at(s, low, &piece);
    if (high >= first + ipu__piece_count(&piece)) return false;
    copy_piece(&within, nest);
    within.start -= first;
    if (!compose(&piece, &within, &composed)) return false;
    ipu__view_add(s->b, &composed);
    return true;
}

/* How many iterations of a nest's outermost loop select from the same piece as the first; 1 if that one
 * needs several. */
static int64_t rounds_in_piece(const selection *s, const ipu__piece *nest, const ipu__piece *round)
{
    ipu__piece piece;
    int64_t    low, high, stride = nest->loop[0].stride, n = nest->loop[0].count;
    reach_of(round, &low, &high);
    int64_t first = piece_at(s, low, &piece), past = first + ipu__piece_count(&piece);
    if (high >= past) return 1;
    int64_t room = stride > 0 ? (past - 1 - high) / stride : stride < 0 ? (low - first) / -stride : n;
    return room + 1 < n ? room + 1 : n;
}

static void select_nest(const selection *s, const ipu__piece *nest)
{
    if (nest->n_loops == 1 && nest->loop[0].stride == 1) {
        add_flat_range(s, nest->start, nest->start + nest->loop[0].count);
        return;
    }
    int64_t low, high;
    reach_of(nest, &low, &high);
    if (add_as_one(s, nest, low, high) || nest->n_loops == 0) return;
    ipu__piece rest, some; /* iterations of the outermost loop, as many at once as one piece holds */
    rest.var     = nest->var;
    rest.n_loops = nest->n_loops - 1;
    memcpy(rest.loop, nest->loop + 1, (size_t)rest.n_loops * sizeof *rest.loop);
    copy_piece(&some, nest);
    while (some.loop[0].count > 0 && !s->b->failed) {
        int64_t left       = some.loop[0].count;
        rest.start         = some.start;
        some.loop[0].count = rounds_in_piece(s, &some, &rest);
        if (some.loop[0].count > 1) reach_of(&some, &low, &high);
        if (some.loop[0].count == 1 || !add_as_one(s, &some, low, high)) {
            select_nest(s, &rest);
            some.loop[0].count = 1;
        }
        some.start += some.loop[0].count * some.loop[0].stride;
        some.loop[0].count = left - some.loop[0].count;
    }
}

bool ipu__view_select(ipu__view_builder *b, const ipu__view_pool *pool, ipu__piece_index *index, uint32_t id,
                      const ipu__piece *nest)
{
    selection s;
    if (ipu__piece_count(nest) == 0) return true;
    s.b     = b;
    s.pool  = pool;
    s.index = index;
    s.view  = ipu__view_get(pool, id);
    if (s.view.n_pieces == 1) {
        ipu__pieces pieces = ipu__view_pieces(pool, &s.view);
        ipu__pieces_next(&pieces, &s.only);
    } else if (!build_index(index, pool, id, &s.view)) {
        b->failed = true;
        return false;
    }
    ipu__piece normal;
    copy_piece(&normal, nest);
    ipu__nest_normalise(&normal);
    select_nest(&s, &normal);
    return !b->failed;
}

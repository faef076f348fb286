/* Running Winograd's convolution: transforms, products, and inverse transforms. */
#include <string.h>

#include "op/conv/cpu/winograd.h"

enum { WIDTH = IPU__WINO_WIDTH, TILE = IPU__WINO_TILE };

/* Channels of images, of which sixteen are taken at a time. */
typedef struct images {
    float  *data;
    bool    is_blocked;
    int64_t channels, rows, columns;
} images;

typedef struct job {
    const ipu__wino               *w;
    const ipu__wino_part          *p;
    const ipu__wino_loops         *loops;
    const ipu__wino_strided_loops *strided; /* NULL: strides are 1 */
    ipu__wino_room                 room;
    images                         x, y;
    const float                   *scale, *shift, *add; /* of conv: NULL: none */
    float                         *weights;             /* of the call: w or its gradient */
    float                         *scratch;
    void *const                   *operand;
} job;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t length(ipu_interval i) { return i.end - i.begin; }

/* ---- images ---- */

/* Element of row `row` where sixteen channels from `channel` on begin. */
static int64_t at(const images *m, int64_t image, int64_t channel, int64_t row)
{
    int64_t plane = image * m->channels + channel;
    return m->is_blocked ? (plane * m->rows + row * WIDTH) * m->columns
                         : (plane * m->rows + row) * m->columns;
}

/* Rows [begin, end) as [row][column][16], in `turned` if they are not so already. */
static const float *take_rows(const images *m, int64_t image, int64_t channel, int64_t begin, int64_t end,
                              float *turned)
{
    const float *from = m->data + at(m, image, channel, begin);
    if (m->is_blocked) return from;
    ipu__transpose_floats(from, m->rows * m->columns, turned, WIDTH, WIDTH, (end - begin) * m->columns);
    return turned;
}

/* Rows of tiles that are of one image, from `row` on. */
typedef struct strip {
    int64_t image, first, n;
} strip;

static strip strip_at(const job *j, int64_t row, int64_t end)
{
    int64_t n = j->w->s.tiles[0], first = row % n;
    return (strip){row / n, first, least(end - row, n - first)};
}

/* Values at points of rows [begin, end) of tiles of 4 x 4, for `n` channels from `channel` on. */
static void transform_tiles(const job *j, const images *m, int64_t begin, int64_t end, int64_t channel,
                            int64_t n, ipu__wino_row r, float *to)
{
    int64_t width = r.n_tiles * r.tile_step;
    for (int64_t row = begin; row < end; row++) {
        strip   t     = strip_at(j, row, row + 1);
        int64_t first = t.first * TILE, last = least(first + TILE, m->rows);
        r.n_rows = last - first;
        for (int64_t c = 0; c < n; c += WIDTH) {
            const float *from = take_rows(m, t.image, channel + c, first, last, j->scratch + j->room.turned);
            j->loops->gradient(&r, from, to + (row - begin) * width + c);
        }
    }
}

/* So of tiles of x. */
static void transform_x(const job *j, int64_t begin, int64_t end, float *to)
{
    const ipu__wino_shape *s     = &j->w->s;
    const ipu_interval    *in    = &j->p->in;
    ipu__wino_row          r     = {.n_columns  = s->x[1],
                                    .column     = -s->pad[1],
                                    .n_tiles    = s->tiles[1],
                                    .point_step = j->room.input_step,
                                    .tile_step  = ipu__wino_pitch(s, length(*in)),
                                    .slot_step  = length(*in)};
    int64_t                width = r.n_tiles * r.tile_step;
    int64_t                step  = j->strided ? 2 * TILE : TILE;
    if (s->is_spread) {
        transform_tiles(j, &j->x, begin, end, in->begin, length(*in), r, to);
        return;
    }
    for (int64_t row = begin; row < end;) {
        strip   t     = strip_at(j, row, end);
        int64_t first = t.first * step - s->pad[0], last = first + t.n * step + 2;
        first    = first < 0 ? 0 : least(first, s->x[0]);
        last     = last < first ? first : least(last, s->x[0]);
        r.n_rows = last - first;
        for (int64_t c = in->begin; c < in->end; c += WIDTH) {
            const float *x = take_rows(&j->x, t.image, c, first, last, j->scratch + j->room.turned);
            for (int64_t i = 0; i < t.n; i++) {
                float *points = to + (row - begin + i) * width + c - in->begin;
                r.row         = (t.first + i) * step - s->pad[0] - first;
                (j->strided ? j->strided->input : j->loops->input)(&r, x, points);
            }
        }
        row += t.n;
    }
}

static void transform_dy(const job *j, int64_t begin, int64_t end, int64_t channel, int64_t n, float *to)
{
    const ipu__wino_row r = {.n_columns  = j->y.columns,
                             .n_tiles    = j->w->s.tiles[1],
                             .point_step = j->room.output_step,
                             .tile_step  = j->p->block};
    transform_tiles(j, &j->y, begin, end, channel, n, r, to);
}

/* ---- results ---- */

/* Elements [begin, begin + n) of each of `n_planes`, or of all in memory order. */
static void finish(const job *j, int64_t begin, int64_t n, int64_t n_planes)
{
    int64_t plane = n_planes > 1 ? j->y.rows * j->y.columns : n;
    if (j->w->epilogue.chain)
        ipu__epilogue_run(&j->w->epilogue, j->operand, begin, n, plane, n_planes, j->scratch + j->room.n);
}

static void store_row(const job *j, const ipu__wino_row *r, const strip *t, int64_t channel,
                      const float *from)
{
    int64_t       to = at(&j->y, t->image, channel, t->first * TILE), n = r->n_rows * r->n_columns;
    int64_t       own    = channel - j->p->out.begin;
    float        *turned = j->scratch + j->room.turned, *more = turned + TILE * r->n_columns * WIDTH;
    ipu__wino_end end       = {.scale = j->scale ? j->scale + own : NULL,
                               .shift = j->shift ? j->shift + own : NULL,
                               .add   = j->add ? j->add + to : NULL,
                               .relu  = j->w->affine.relu};
    void (*output)(const ipu__wino_row *, const ipu__wino_end *, const float *,
                   float *) = j->strided ? j->strided->output : j->loops->output;
    if (j->y.is_blocked) {
        output(r, &end, from, j->y.data + to);
        finish(j, to, n * WIDTH, 1);
        return;
    }
    int64_t plane = j->y.rows * j->y.columns;
    if (j->add) {
        ipu__transpose_floats(j->add + to, plane, more, WIDTH, WIDTH, n);
        end.add = more;
    }
    output(r, &end, from, turned);
    ipu__transpose_floats(turned, WIDTH, j->y.data + to, plane, n, WIDTH);
    finish(j, to, n, WIDTH);
}

/* Whole images, whose tiles overlap. */
static void spread_images(const job *j, int64_t begin, int64_t end, int64_t channel, int64_t n,
                          const float *from)
{
    const ipu__wino_shape *s     = &j->w->s;
    ipu__wino_row          r     = {.n_rows     = s->y[0],
                                    .n_columns  = s->y[1],
                                    .column     = -s->pad[1],
                                    .n_tiles    = s->tiles[1],
                                    .point_step = j->room.output_step,
                                    .tile_step  = j->p->block};
    int64_t                plane = s->y[0] * s->y[1];
    for (int64_t row = begin; row < end; row += s->tiles[0])
        for (int64_t c = 0; c < n; c += WIDTH) {
            float *to = j->y.data + at(&j->y, row / s->tiles[0], channel + c, 0);
            float *y  = j->y.is_blocked ? to : j->scratch + j->room.turned;
            memset(y, 0, (size_t)(plane * WIDTH) * sizeof *y);
            for (int64_t i = 0; i < s->tiles[0]; i++) {
                r.row = i * TILE - s->pad[0];
                j->loops->spread(&r, from + (row - begin + i) * r.n_tiles * r.tile_step + c, y);
            }
            if (!j->y.is_blocked) ipu__transpose_floats(y, WIDTH, to, plane, plane, WIDTH);
        }
}

/* Rows [begin, end) of tiles of y, of `n` channels from `channel` on. */
static void transform_back(const job *j, int64_t begin, int64_t end, int64_t channel, int64_t n,
                           const float *from)
{
    const ipu__wino_shape *s     = &j->w->s;
    ipu__wino_row          r     = {.n_columns  = s->y[1],
                                    .n_tiles    = s->tiles[1],
                                    .point_step = j->room.output_step,
                                    .tile_step  = j->p->block};
    int64_t                width = r.n_tiles * r.tile_step;
    for (int64_t row = begin; row < end; row++) {
        strip t  = strip_at(j, row, row + 1);
        r.n_rows = least(TILE, s->y[0] - t.first * TILE);
        for (int64_t c = 0; c < n; c += WIDTH)
            store_row(j, &r, &t, channel + c, from + (row - begin) * width + c);
    }
}

/* ---- weights ---- */

/* To values at points, of `n` channels of the result from `channel` on and `depth` of x from `first` on. */
static void transform_weights(const job *j, int64_t channel, int64_t n, int64_t first, float *to)
{
    int64_t in = j->w->s.in, end = first + j->p->depth;
    float  *taps = j->scratch + j->room.small;
    for (int64_t o = 0; o < n; o += WIDTH)
        for (int64_t i = first; i < end; i += WIDTH) {
            const float *w = j->weights + ((channel + o) * in + i) * 9;
            ipu__transpose_floats(w, in * 9, taps, WIDTH, WIDTH, 9 * WIDTH);
            for (int64_t k = 0; k < WIDTH; k++) {
                const float *from   = taps + k * 9 * WIDTH;
                float       *points = to + (i - first + k) * j->p->block + o;
                if (j->strided)
                    j->strided->weights(from, points, j->room.weights_step, in * j->p->block);
                else
                    j->loops->weights(from, WIDTH, points, j->room.weights_step);
            }
        }
}

/* So for gradients of inputs, for which they lie as [in][out], and are taken backwards but in the transpose
 * of conv. */
static void transform_swapped(const job *j, int64_t channel, int64_t n, int64_t first, float *to)
{
    int64_t      out = j->w->s.out, end = first + j->p->depth;
    float       *taps = j->scratch + j->room.small;
    const float *from = j->w->s.is_spread ? taps : taps + 8 * WIDTH;
    int64_t      step = j->w->s.is_spread ? WIDTH : -WIDTH;
    for (int64_t i = first; i < end; i++)
        for (int64_t o = 0; o < n; o += WIDTH) {
            int64_t at_w = (i * out + channel + o) * 9;
            /* Whole tiles are fast: seven columns are of the channel after, but for the last one. */
            bool is_last = at_w + 9 * WIDTH == j->w->s.in * out * 9;
            ipu__transpose_floats(j->weights + at_w, 9, taps, WIDTH, WIDTH, is_last ? 9 : WIDTH);
            j->loops->weights(from, step, to + (i - first) * j->p->block + o, j->room.weights_step);
        }
}

static void take_weights(const job *j, int64_t channel, int64_t n, int64_t first, float *to)
{
    if (j->w->s.kind == IPU__CONV_INPUT_GRAD)
        transform_swapped(j, channel, n, first, to);
    else
        transform_weights(j, channel, n, first, to);
}

/* Sums at points to gradients. */
static void store_gradients(const job *j, int64_t channel, int64_t n, const float *from)
{
    const ipu__wino_shape *s    = &j->w->s;
    const ipu_interval    *in   = &j->p->in;
    float                 *taps = j->scratch + j->room.small;
    for (int64_t o = 0; o < n; o += WIDTH)
        for (int64_t i = in->begin; i < in->end; i += WIDTH) {
            for (int64_t k = 0; k < WIDTH; k++)
                j->loops->weight_grad(from + (i - in->begin + k) * j->p->block + o, j->room.weights_step,
                                      taps + k * 9 * WIDTH);
            ipu__transpose_floats(taps, WIDTH, j->weights + ((channel + o) * s->in + i) * 9, s->in * 9,
                                  9 * WIDTH, WIDTH);
        }
}

/* ---- products ---- */

typedef struct product {
    const float *a, *b;
    float       *c;
    int64_t      a_step, b_step, c_step;
} product;

static void multiply(const job *j, const product *m, int64_t rows, int64_t channels, bool add)
{
    const ipu__wino_part *p = j->p;
    ipu__xsmm_fn          f = p->product[rows != p->rows_at_once][channels != p->block][add];
    const ipu__xsmm_fn   *g = p->strided[rows != p->rows_at_once][channels != p->block];
    for (int i = 0; i < ipu__wino_n_points(&j->w->s); i++) {
        if (j->strided) f = g[ipu__wino_strided_halvings(i)];
        f(m->b + i * m->b_step, m->a + i * m->a_step, m->c + i * m->c_step);
    }
}

/* One block of channels of rows [begin, end), of as many channels of x as there are weights. */
static void multiply_block(const job *j, int64_t begin, int64_t end, int64_t n, const float *x,
                           const float *weights, bool add)
{
    const ipu__wino_room *r   = &j->room;
    float                *out = j->scratch + r->output;
    const product         m   = {x, weights, out, r->input_step, r->weights_step, r->output_step};
    multiply(j, &m, end - begin, n, add);
}

static void store_block(const job *j, int64_t begin, int64_t end, int64_t channel, int64_t n)
{
    const float *out = j->scratch + j->room.output;
    if (j->w->s.is_spread)
        spread_images(j, begin, end, channel, n, out);
    else
        transform_back(j, begin, end, channel, n, out);
}

/* Images are transformed once, weights block by block, of which there are several in depth only if all rows
 * are done at once. */
static void run_kept(const job *j)
{
    const ipu__wino_part *p       = j->p;
    int64_t               width   = j->w->s.tiles[1] * ipu__wino_pitch(&j->w->s, j->w->s.in);
    float                *weights = j->scratch + j->room.weights;
    for (int64_t row = p->row.begin; row < p->row.end; row += p->rows_at_once)
        transform_x(j, row, least(row + p->rows_at_once, p->row.end),
                    j->scratch + (row - p->row.begin) * width);
    for (int64_t c = p->out.begin; c < p->out.end; c += p->block) {
        int64_t n = least(p->out.end - c, p->block);
        for (int64_t k = 0; k < j->w->s.in; k += p->depth) {
            take_weights(j, c, n, k, weights);
            for (int64_t row = p->row.begin; row < p->row.end; row += p->rows_at_once) {
                int64_t end = least(row + p->rows_at_once, p->row.end);
                multiply_block(j, row, end, n, j->scratch + (row - p->row.begin) * width + k, weights, k > 0);
                if (k + p->depth == j->w->s.in) store_block(j, row, end, c, n);
            }
        }
    }
}

/* Weights are transformed once, images a few rows at a time. */
static void run_rows(const job *j)
{
    const ipu__wino_part *p       = j->p;
    int64_t               step    = ipu__wino_n_points(&j->w->s) * j->room.weights_step;
    float                *weights = j->scratch + j->room.weights;
    for (int64_t c = p->out.begin, i = 0; c < p->out.end; c += p->block, i++)
        take_weights(j, c, least(p->out.end - c, p->block), 0, weights + i * step);
    for (int64_t row = p->row.begin; row < p->row.end; row += p->rows_at_once) {
        int64_t end = least(row + p->rows_at_once, p->row.end);
        transform_x(j, row, end, j->scratch);
        for (int64_t c = p->out.begin, i = 0; c < p->out.end; c += p->block, i++) {
            int64_t n = least(p->out.end - c, p->block);
            multiply_block(j, row, end, n, j->scratch, weights + i * step, false);
            store_block(j, row, end, c, n);
        }
    }
}

static void run_weight_grad(const job *j)
{
    const ipu__wino_part *p    = j->p;
    const ipu__wino_room *r    = &j->room;
    float                *sums = j->scratch + r->weights, *dy = j->scratch + r->output;
    int64_t               pitch = ipu__wino_pitch(&j->w->s, length(p->in));
    for (int64_t c = p->out.begin; c < p->out.end; c += p->block) {
        int64_t n = least(p->out.end - c, p->block);
        for (int64_t row = p->row.begin; row < p->row.end; row += p->rows_at_once) {
            int64_t end  = least(row + p->rows_at_once, p->row.end);
            int64_t at_x = p->is_kept ? (row - p->row.begin) * j->w->s.tiles[1] * pitch : 0;
            product m    = {j->scratch + at_x, dy, sums, r->input_step, r->output_step, r->weights_step};
            if (c == p->out.begin || !p->is_kept) transform_x(j, row, end, j->scratch + at_x);
            transform_dy(j, row, end, c, n, dy);
            multiply(j, &m, end - row, n, row > p->row.begin);
        }
        store_gradients(j, c, n, sums);
    }
}

static void take_affine(job *j, const float *bias)
{
    const ipu__affine *a     = &j->w->affine;
    int64_t            n     = length(j->p->out);
    float             *scale = j->scratch + j->room.affine, *shift = scale + n;
    if (a->add) j->add = j->operand[a->add];
    if (!bias && a->n_steps == 0) return;
    if (ipu__affine_get(a, j->operand, bias, j->p->out.begin, n, scale, shift)) j->scale = scale;
    j->shift = shift;
}

ipu_status ipu__conv_winograd_run(const ipu__kernel_call *call, void *prepared, void *const *operand,
                                  void *scratch, int part, int n_parts)
{
    const ipu__wino       *w = prepared;
    const ipu__wino_shape *s = &w->s;
    const ipu__wino_part  *p = &w->parts[part];
    (void)n_parts;
    if (p->block == 0) return IPU_OK;
    bool is_forward = s->kind == IPU__CONV_FORWARD, is_weights = s->kind == IPU__CONV_WEIGHT_GRAD;
    int  y = is_forward ? IPU__CONV_OUT : is_weights ? IPU__CONV_WEIGHT_GRAD_DY : IPU__CONV_INPUT_GRAD_OUT;
    job  j = {.w       = w,
              .p       = p,
              .loops   = &IPU__SIMD_PICK(ipu__wino_loops_at),
              .strided = s->is_strided ? &IPU__SIMD_PICK(ipu__wino_strided_loops_at) : NULL,
              .room    = ipu__wino_make_room(s, p),
              .x       = {operand[0], call->layout[0] == IPU__LAYOUT_BLOCKED, s->in, s->x[0], s->x[1]},
              .y       = {operand[y], call->layout[y] == IPU__LAYOUT_BLOCKED, s->out, s->y[0], s->y[1]},
              .weights = operand[is_weights ? IPU__CONV_WEIGHT_GRAD_OUT : 1],
              .scratch = scratch,
              .operand = operand};
    if (is_forward) take_affine(&j, ipu__kernel_has(call, IPU__CONV_BIAS) ? operand[IPU__CONV_BIAS] : NULL);
    if (is_weights)
        run_weight_grad(&j);
    else if (p->is_kept)
        run_kept(&j);
    else
        run_rows(&j);
    return IPU_OK;
}

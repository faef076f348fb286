/* non_max_suppression: boxes in the order of their scores, without those that overlap a better one. */
#include <math.h>
#include <string.h>

#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/vision.h"
#include "op/op.h"

enum { BOXES, SCORES, MOST, IOU, SCORE, SELECTED, COUNT };

typedef struct search {
    int64_t      images, classes, boxes, bound, most;
    float        iou, score;
    bool         has_score, is_centre;
    const float *box, *scores; /* of one image; of one class */
} search;

static int64_t bound_of(const ipu__kernel_call *call)
{
    const ipu_shape *s     = &call->operand[SCORES].shape;
    int64_t          bound = ipu__op_int(call, "bound"), all = ipu__op_n_elements(s);
    return bound == 0 || bound > all ? all : bound;
}

static search get_search(const ipu__kernel_call *call, void *const *operand)
{
    const ipu_shape *s = &call->operand[SCORES].shape;
    search           q = {.images    = s->dim[0],
                          .classes   = s->dim[1],
                          .boxes     = s->dim[2],
                          .bound     = bound_of(call),
                          .has_score = ipu__kernel_has(call, SCORE),
                          .is_centre = ipu__op_int(call, "center_point_box") != 0};
    if (ipu__kernel_has(call, MOST)) q.most = *(const int64_t *)operand[MOST];
    if (ipu__kernel_has(call, IOU)) q.iou = *(const float *)operand[IOU];
    if (q.has_score) q.score = *(const float *)operand[SCORE];
    return q;
}

static ipu_status want_number(const ipu__kernel_call *call, int i, ipu_type type)
{
    if (!ipu__kernel_has(call, i)) return IPU_OK;
    IPU_TRY(ipu__op_want_type(call, i, type));
    if (call->operand[i].shape.rank == 0) return IPU_OK;
    return ipu__op_want_shape(call, i, &IPU_SHAPE(1));
}

static ipu_status infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *boxes = &call->operand[BOXES].shape, *scores = &call->operand[SCORES].shape;
    int64_t          bound = ipu__op_int(call, "bound");
    IPU_TRY(ipu__op_want_type(call, BOXES, IPU_FLOAT));
    IPU_TRY(ipu__op_want_type(call, SCORES, IPU_FLOAT));
    IPU_TRY(ipu__op_want_rank(call, BOXES, 3, 3));
    IPU_TRY(ipu__op_want_rank(call, SCORES, 3, 3));
    IPU_TRY(want_number(call, MOST, IPU_INT64));
    IPU_TRY(want_number(call, IOU, IPU_FLOAT));
    IPU_TRY(want_number(call, SCORE, IPU_FLOAT));
    if (boxes->dim[2] != 4 || boxes->dim[0] != scores->dim[0] || boxes->dim[1] != scores->dim[2])
        return ipu__fail(IPU_INVALID,
                         "non_max_suppression: boxes %s, scores %s: expected [n, boxes, 4] and "
                         "[n, classes, boxes]",
                         ipu__shape_str(boxes), ipu__shape_str(scores));
    if (bound < 0)
        return ipu__fail(IPU_INVALID, "non_max_suppression: bound = %lld: expected 0 or more",
                         (long long)bound);
    out[0] = (ipu__kernel_value){IPU_INT64, IPU_SHAPE(bound_of(call), 3)};
    out[1] = (ipu__kernel_value){IPU_INT64, IPU_SCALAR};
    return IPU_OK;
}

/* ---- boxes ---- */

typedef struct corners {
    float low[2], high[2];
} corners;

static corners get_corners(const search *q, int64_t box)
{
    const float *b = q->box + 4 * box;
    corners      c;
    for (int d = 0; d < 2; d++) {
        float p   = q->is_centre ? b[d] - b[2 + d] / 2 : b[d],
              r   = q->is_centre ? b[d] + b[2 + d] / 2 : b[2 + d];
        c.low[d]  = p < r ? p : r;
        c.high[d] = p < r ? r : p;
    }
    return c;
}

static bool overlaps(const search *q, int64_t a, int64_t b)
{
    corners x = get_corners(q, a), y = get_corners(q, b);
    float   common = 1;
    for (int d = 0; d < 2; d++) {
        float side = fminf(x.high[d], y.high[d]) - fmaxf(x.low[d], y.low[d]);
        common *= side > 0 ? side : 0;
    }
    float all = (x.high[0] - x.low[0]) * (x.high[1] - x.low[1])
              + (y.high[0] - y.low[0]) * (y.high[1] - y.low[1]) - common;
    return all > 0 && common / all > q->iou;
}

/* Whether a comes before b: by its score, then by its number. */
static bool is_before(const search *q, int64_t a, int64_t b)
{
    return q->scores[a] > q->scores[b] || (q->scores[a] == q->scores[b] && a < b);
}

/* NaN is no score. */
static bool is_candidate(const search *q, int64_t box)
{
    return q->has_score ? q->scores[box] > q->score : !isnan(q->scores[box]);
}

/* Takes `box`, unless it overlaps one of those taken for this image and class, from `first` on. False:
 * enough. */
static bool take(const search *q, int64_t *selected, int64_t *n, int64_t first, int64_t image, int64_t class,
                 int64_t box)
{
    for (int64_t i = first; i < *n; i++)
        if (overlaps(q, selected[3 * i + 2], box)) return true;
    selected[3 * *n]     = image;
    selected[3 * *n + 1] = class;
    selected[3 * *n + 2] = box;
    ++*n;
    return *n < q->bound && *n - first < q->most;
}

static void point_at(search *q, void *const *operand, int64_t image, int64_t class)
{
    q->box    = (const float *)operand[BOXES] + image * q->boxes * 4;
    q->scores = (const float *)operand[SCORES] + (image * q->classes + class) * q->boxes;
}

/* The best box that comes after `last` (-1: of all); -1: none. */
static int64_t next_box(const search *q, int64_t last)
{
    int64_t best = -1;
    for (int64_t i = 0; i < q->boxes; i++)
        if (is_candidate(q, i) && (last < 0 || is_before(q, last, i)) && (best < 0 || is_before(q, i, best)))
            best = i;
    return best;
}

static void non_max_ref(const ipu__kernel_call *call, void *const *operand)
{
    search   q        = get_search(call, operand);
    int64_t *selected = operand[SELECTED], n = 0;
    memset(selected, 0, (size_t)q.bound * 3 * sizeof *selected);
    for (int64_t i = 0; i < q.images * q.classes && q.most > 0; i++) {
        int64_t first = n, box;
        point_at(&q, operand, i / q.classes, i % q.classes);
        if (n < q.bound)
            box = next_box(&q, -1);
        else
            break;
        while (box >= 0 && take(&q, selected, &n, first, i / q.classes, i % q.classes, box))
            box = next_box(&q, box);
    }
    *(int64_t *)operand[COUNT] = n;
}

/* Each search for the next box looks at all of them. */
static double ref_work(const ipu__kernel_call *call)
{
    double boxes = (double)call->operand[SCORES].shape.dim[2];
    return 8 * (double)ipu__op_n_elements(&call->operand[SCORES].shape) * boxes;
}

/* ---- with a heap of candidates ---- */

static size_t scratch_bytes(const ipu__kernel_call *call, int n_parts)
{
    (void)n_parts;
    return (size_t)call->operand[SCORES].shape.dim[2] * sizeof(int64_t);
}

/* The box at `i` goes down to where it belongs: the best is at 0. */
static void sink(const search *q, int64_t *heap, int64_t n, int64_t i)
{
    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && is_before(q, heap[child + 1], heap[child])) child++;
        if (!is_before(q, heap[child], heap[i])) return;
        int64_t box = heap[i];
        heap[i]     = heap[child];
        heap[child] = box;
        i           = child;
    }
}

/* One part does it all: where the boxes of a class go depends on those before. */
static ipu_status run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                      int part, int n_parts)
{
    (void)state, (void)n_parts;
    search   q        = get_search(call, operand);
    int64_t *selected = operand[SELECTED], *heap = scratch, n = 0;
    if (part > 0) return IPU_OK;
    memset(selected, 0, (size_t)q.bound * 3 * sizeof *selected);
    for (int64_t i = 0; i < q.images * q.classes && q.most > 0 && n < q.bound; i++) {
        int64_t first = n, left = 0;
        point_at(&q, operand, i / q.classes, i % q.classes);
        for (int64_t box = 0; box < q.boxes; box++)
            if (is_candidate(&q, box)) heap[left++] = box;
        for (int64_t k = left / 2; k-- > 0;) sink(&q, heap, left, k);
        while (left > 0 && take(&q, selected, &n, first, i / q.classes, i % q.classes, heap[0])) {
            heap[0] = heap[--left];
            sink(&q, heap, left, 0);
        }
    }
    *(int64_t *)operand[COUNT] = n;
    return IPU_OK;
}

/* ---- price and record ---- */

static double work(const ipu__kernel_call *call)
{
    double boxes = (double)call->operand[SCORES].shape.dim[2];
    return 40 * (double)ipu__op_n_elements(&call->operand[SCORES].shape) * (boxes > 1 ? log2(boxes) : 1);
}

static ipu_status plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    int64_t n = ipu__op_n_elements(&call->operand[SCORES].shape), boxes = call->operand[SCORES].shape.dim[2];
    double  rounds    = (double)bound_of(call) / (double)(n > 0 ? n / boxes : 1);
    ipu__op_loop loop = {60, 1, 30 * (rounds > 1 ? rounds : 1)};
    IPU_TRY(ipu__op_plan_loop(&loop, n, 1, target, out));
    if (n > 0) out->bytes_received = out->bytes_sent = ipu__op_count(24 * (rounds > 1 ? rounds : 1));
    out->basis =
        "our estimate: for every box that is given, 30 cycles for each box and 24 bytes to all tiles";
    return IPU_OK;
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("boxes"),
                                               IPU__INPUT("scores"),
                                               IPU__OPTIONAL("most"),
                                               IPU__OPTIONAL("iou_threshold"),
                                               IPU__OPTIONAL("score_threshold"),
                                               IPU__OUTPUT("selected"),
                                               IPU__OUTPUT("count")};

static const ipu_op_attribute attributes[] = {
    {.name = "bound", .kind = IPU_ATTRIBUTE_INT, .meaning = "most boxes that are given; 0: all there are"},
    {.name    = "center_point_box",
     .kind    = IPU_ATTRIBUTE_INT,
     .meaning = "1: boxes are x, y (of the centre), width, height; 0: two corners y1, x1, y2, x2"}};

static const ipu__cpu_impl implementations[] = {
    {.head = {"heap", ipu__op_fits_always}, .scratch_bytes = scratch_bytes, .run = run}};

static const char *const samples[] = {
    "float[1,6,4], float[1,1,6], int64[]{3,3}, float[]{0.3,0.5}, float[]{-1,0}",
    "float[2,9,4], float[2,3,9], int64[1]{4,4}, float[1]{0.1,0.2}; bound=7",
    "float[2,9,4]{0.5,2}, float[2,3,9], int64[1]{40,40}; center_point_box=1",
    "float[1,6,4], float[1,1,6]",
    "float[1,0,4], float[1,2,0], int64[]",
    "float[0,3,4], float[0,2,3], int64[]{3,3}",
    "float[2,300,4], float[2,4,300], int64[]{50,50}, float[]{0.3,0.5}; bound=300",
    NULL};

const ipu__op_def ipu__op_non_max_suppression = {
    .kernel       = {.name            = "non_max_suppression",
                     .operands        = operands,
                     .n_operands      = 7,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .ref             = non_max_ref,
                     .work            = work,
                     .ref_work        = ref_work,
                     .plan            = plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = 5,
    .family       = "vision",
    .summary      = "boxes in the order of their scores, without those that overlap one before",
    .flags        = IPU__OP_NO_GRADIENT | IPU__OP_SHORT_IN_HALF,
    .attributes   = attributes,
    .n_attributes = 2,
    .infer        = infer,
    .samples      = samples,
};

ipu_value ipu_non_max_suppression(ipu_builder *b, ipu_value boxes, ipu_value scores, ipu_value most,
                                  ipu_value iou, ipu_value score, ipu_non_max_suppression_options options,
                                  ipu_value *count)
{
    ipu_value in[] = {boxes, scores, most, iou, score}, out[2];
    ipu_emit(b, "non_max_suppression",
             IPU__WITH(IPU_INT_ATTRIBUTE("bound", options.bound),
                       IPU_INT_ATTRIBUTE("center_point_box", options.center_point_box)),
             in, 5, out, 2);
    *count = out[1];
    return out[0];
}

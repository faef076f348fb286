/* ctc_decode: the most likely label sequences for outputs over time, by beam search over prefixes.
 *
 * Prefixes form a tree. Each one in the beam has two log probabilities: of all ways that end in a blank, and
 * of those that end in its last label; a repeated label counts as new only after a blank. A prefix that
 * leaves the beam and comes back is the same node, so ways to it are never counted in two places. All in
 * double.
 */
#include <math.h>

#include "base/alloc.h"
#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "ipu/op/loss.h"
#include "op/index/gather.h"
#include "op/number.h"
#include "op/op.h"

enum { LOG_PROBS, LENGTHS, SCORES, PATH_LENGTHS, PATHS };

typedef struct node {
    int32_t parent, label; /* -1: the empty prefix */
    int32_t first_child, next_sibling;
    int32_t at; /* in the beam; -1: not */
} node;

typedef struct prefix {
    double  total, blank, label; /* log probabilities: of all, of ways that end so */
    int32_t node, added;         /* added: the label that it is `node` with; -1: `node` itself */
    int64_t order;               /* of equal ones the earlier is better */
} prefix;

typedef struct decoder {
    const ipu__kernel_call *call;
    void *const            *operand;
    int64_t                 steps, n, classes, width, top, blank;
    int64_t                 i, n_beam, n_next, n_nodes, order;
    double                 *row; /* log probabilities of a step */
    prefix                 *beam, *next;
    node                   *nodes;
    int64_t                *seen; /* by class: for which prefix it is in the beam */
} decoder;

static decoder decoder_of(const ipu__kernel_call *call, void *const *operand)
{
    const int64_t *x = call->operand[LOG_PROBS].shape.dim;
    return (decoder){.call    = call,
                     .operand = operand,
                     .steps   = x[0],
                     .n       = x[1],
                     .classes = x[2],
                     .width   = ipu__op_int(call, "beam_width"),
                     .top     = ipu__op_int(call, "top_paths"),
                     .blank   = ipu__op_int(call, "blank")};
}

/* ---- memory ---- */

static double n_nodes(const decoder *d) { return 1 + (double)d->width * (double)d->steps; }

static double bytes_of(const decoder *d)
{
    return (double)d->classes * (sizeof *d->row + sizeof *d->seen) + 2 * (double)d->width * sizeof(prefix)
         + n_nodes(d) * sizeof(node);
}

static void divide(decoder *d, void *memory)
{
    d->row   = memory;
    d->seen  = (int64_t *)(d->row + d->classes);
    d->beam  = (prefix *)(d->seen + d->classes);
    d->next  = d->beam + d->width;
    d->nodes = (node *)(d->next + d->width);
}

/* ---- candidates: a heap with the worst on top ---- */

static bool is_worse(const prefix *a, const prefix *b)
{
    return a->total < b->total || (a->total == b->total && a->order > b->order);
}

static void sink(prefix *heap, int64_t n, int64_t at)
{
    prefix moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_worse(&heap[child + 1], &heap[child])) child++;
        if (!is_worse(&heap[child], &moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void offer(decoder *d, prefix p)
{
    p.order = d->order++;
    if (d->n_next == d->width) {
        if (!is_worse(&d->next[0], &p)) return;
        d->next[0] = p;
        sink(d->next, d->n_next, 0);
        return;
    }
    int64_t at = d->n_next++;
    for (; at > 0 && is_worse(&p, &d->next[(at - 1) / 2]); at = (at - 1) / 2)
        d->next[at] = d->next[(at - 1) / 2];
    d->next[at] = p;
}

/* The best comes first. */
static void sort(prefix *heap, int64_t n)
{
    while (n > 1) {
        prefix worst = heap[0];
        heap[0]      = heap[--n];
        heap[n]      = worst;
        sink(heap, n, 0);
    }
}

/* ---- a step ---- */

static double log_add(double a, double b)
{
    double most = a > b ? a : b, least = a > b ? b : a;
    return least == -HUGE_VAL ? most : most + log1p(exp(least - most));
}

/* Ways to `p` with `label` behind it. */
static double ways_to(const decoder *d, const prefix *p, int32_t label)
{
    return d->row[label] + (d->nodes[p->node].label == label ? p->blank : p->total);
}

static void offer_same(decoder *d, const prefix *p)
{
    const node *own = &d->nodes[p->node];
    prefix next = {.blank = p->total + d->row[d->blank], .label = -HUGE_VAL, .node = p->node, .added = -1};
    if (own->label >= 0) {
        int32_t before = d->nodes[own->parent].at;
        next.label     = p->label + d->row[own->label];
        if (before >= 0) next.label = log_add(next.label, ways_to(d, &d->beam[before], own->label));
    }
    next.total = log_add(next.blank, next.label);
    offer(d, next);
}

/* Those that are in the beam themselves have been offered. */
static void offer_longer(decoder *d, const prefix *p, int64_t number)
{
    for (int32_t child = d->nodes[p->node].first_child; child >= 0; child = d->nodes[child].next_sibling)
        if (d->nodes[child].at >= 0) d->seen[d->nodes[child].label] = number;
    for (int32_t label = 0; label < d->classes; label++) {
        if (label == d->blank || d->seen[label] == number) continue;
        double ways = ways_to(d, p, label);
        if (ways == -HUGE_VAL) continue;
        offer(d, (prefix){ways, -HUGE_VAL, ways, p->node, label, 0});
    }
}

static int32_t child_of(decoder *d, int32_t parent, int32_t label)
{
    int32_t child = d->nodes[parent].first_child;
    while (child >= 0 && d->nodes[child].label != label) child = d->nodes[child].next_sibling;
    if (child >= 0) return child;
    child                        = (int32_t)d->n_nodes++;
    d->nodes[child]              = (node){parent, label, -1, d->nodes[parent].first_child, -1};
    d->nodes[parent].first_child = child;
    return child;
}

static void step(decoder *d, int64_t t)
{
    ipu_type type = d->call->operand[LOG_PROBS].type;
    for (int64_t k = 0; k < d->classes; k++) {
        d->row[k]  = ipu__number_load(type, d->operand[LOG_PROBS], (t * d->n + d->i) * d->classes + k);
        d->seen[k] = -1;
    }
    d->n_next = d->order = 0;
    for (int64_t k = 0; k < d->n_beam; k++) offer_same(d, &d->beam[k]);
    for (int64_t k = 0; k < d->n_beam; k++) offer_longer(d, &d->beam[k], k);
    sort(d->next, d->n_next);
    for (int64_t k = 0; k < d->n_beam; k++) d->nodes[d->beam[k].node].at = -1;
    for (int64_t k = 0; k < d->n_next; k++) {
        prefix *p = &d->next[k];
        if (p->added >= 0) p->node = child_of(d, p->node, p->added);
        d->nodes[p->node].at = (int32_t)k;
    }
    prefix *swapped = d->beam;
    d->beam         = d->next;
    d->next         = swapped;
    d->n_beam       = d->n_next;
}

/* ---- a sequence ---- */

/* Path `k` of the sequence; what is behind it is blank. */
static void give_path(const decoder *d, int64_t k)
{
    int64_t  at = d->i * d->top + k, n = 0;
    int32_t *path   = (int32_t *)d->operand[PATHS] + at * d->steps;
    bool     exists = k < d->n_beam;
    int32_t  last   = exists ? d->beam[k].node : 0;
    for (int32_t i = last; d->nodes[i].label >= 0; i = d->nodes[i].parent) n++;
    ((int32_t *)d->operand[PATH_LENGTHS])[at] = (int32_t)n;
    ipu__number_store(d->call->operand[SCORES].type, d->operand[SCORES], at,
                      exists ? d->beam[k].total : -HUGE_VAL);
    for (int64_t i = n; i < d->steps; i++) path[i] = (int32_t)d->blank;
    for (int32_t i = last; n > 0; i = d->nodes[i].parent) path[--n] = d->nodes[i].label;
}

static ipu_status length_of(const decoder *d, int64_t i, int64_t *out)
{
    *out = ipu__index_load(d->call->operand[LENGTHS].type, d->operand[LENGTHS], i);
    if (*out >= 0 && *out <= d->steps) return IPU_OK;
    return ipu__fail(IPU_ABORTED, "ctc_decode: length %lld is %lld: expected 0 to %lld", (long long)i,
                     (long long)*out, (long long)d->steps);
}

static ipu_status decode(decoder *d, int64_t i)
{
    int64_t n;
    IPU_TRY(length_of(d, i, &n));
    d->i       = i;
    d->n_nodes = d->n_beam = 1;
    d->nodes[0]            = (node){-1, -1, -1, -1, 0};
    d->beam[0]             = (prefix){.label = -HUGE_VAL, .added = -1};
    for (int64_t t = 0; t < n; t++) step(d, t);
    for (int64_t k = 0; k < d->top; k++) give_path(d, k);
    return IPU_OK;
}

/* ---- the op ---- */

static ipu_status decode_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    const ipu_shape *x = &call->operand[LOG_PROBS].shape;
    IPU_TRY(ipu__op_want_floating(call, LOG_PROBS));
    IPU_TRY(ipu__op_want_rank(call, LOG_PROBS, 3, 3));
    if (call->operand[LENGTHS].type != IPU_INT64) IPU_TRY(ipu__op_want_type(call, LENGTHS, IPU_INT32));
    IPU_TRY(ipu__op_want_shape(call, LENGTHS, &IPU_SHAPE(x->dim[1])));
    decoder d = decoder_of(call, NULL);
    if (d.blank < 0 || d.blank >= d.classes)
        return ipu__fail(IPU_INVALID, "ctc_decode: blank = %lld: expected a class, 0 to %lld",
                         (long long)d.blank, (long long)d.classes - 1);
    if (d.top < 1 || d.width < d.top)
        return ipu__fail(IPU_INVALID,
                         "ctc_decode: beam_width = %lld and top_paths = %lld: expected 1 path or more, and a "
                         "beam that holds them",
                         (long long)d.width, (long long)d.top);
    if (n_nodes(&d) >= 0x1p31 || d.classes >= INT32_MAX)
        return ipu__fail(IPU_INVALID,
                         "ctc_decode: beam_width = %lld over %lld steps are too many prefixes to number",
                         (long long)d.width, (long long)d.steps);
    out[0] = (ipu__kernel_value){call->operand[LOG_PROBS].type, IPU_SHAPE(d.n, d.top)};
    out[1] = (ipu__kernel_value){IPU_INT32, IPU_SHAPE(d.n, d.top)};
    out[2] = (ipu__kernel_value){IPU_INT32, IPU_SHAPE(d.n, d.top, d.steps)};
    return IPU_OK;
}

static ipu_status decode_examine(const ipu__kernel_call *call, void *const *operand)
{
    decoder d = decoder_of(call, operand);
    int64_t length;
    for (int64_t i = 0; i < d.n; i++) IPU_TRY(length_of(&d, i, &length));
    return IPU_OK;
}

static size_t decode_scratch(const ipu__kernel_call *call, int n_parts)
{
    decoder d = decoder_of(call, NULL);
    (void)n_parts;
    return bytes_of(&d) < 0x1p46 ? (size_t)bytes_of(&d) : SIZE_MAX;
}

static ipu_status decode_part(const ipu__kernel_call *call, void *const *operand, void *memory,
                              ipu_interval mine)
{
    decoder    d      = decoder_of(call, operand);
    ipu_status status = IPU_OK;
    divide(&d, memory);
    for (int64_t i = mine.begin; i < mine.end && status == IPU_OK; i++) status = decode(&d, i);
    return status;
}

static ipu_status decode_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                             int part, int n_parts)
{
    (void)state;
    return decode_part(call, operand, scratch,
                       ipu__op_part(call->operand[LOG_PROBS].shape.dim[1], 1, part, n_parts));
}

/* NaN where there is no memory for it; implementations have theirs. */
static void decode_ref(const ipu__kernel_call *call, void *const *operand)
{
    size_t  bytes  = decode_scratch(call, 1);
    int64_t n      = call->operand[LOG_PROBS].shape.dim[1];
    void   *memory = bytes < SIZE_MAX ? ipu__alloc(bytes) : NULL;
    for (int64_t i = 0; i < ipu__op_n_elements(&call->operand[SCORES].shape); i++)
        ipu__number_store(call->operand[SCORES].type, operand[SCORES], i, (double)NAN);
    if (memory) (void)decode_part(call, operand, memory, (ipu_interval){0, n});
    ipu__free(memory);
}

static double decode_work(const ipu__kernel_call *call)
{
    decoder d = decoder_of(call, NULL);
    return (double)d.n * (double)d.steps * (double)d.width * (60 + 4 * (double)d.classes);
}

static ipu_status decode_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    decoder      d    = decoder_of(call, NULL);
    ipu__op_loop loop = {40, 1, d.n > 0 ? decode_work(call) / (double)d.n + 1 : 0};
    IPU_TRY(ipu__op_plan_loop(&loop, d.n, 1, target, out));
    if (d.n > 0) out->tile_bytes = ipu__op_count(bytes_of(&d));
    out->basis = "our estimate: a sequence on a worker, 4 cycles for a candidate, 60 for a prefix";
    return IPU_OK;
}

static const ipu__kernel_operand operands[] = {IPU__INPUT("log_probs"), IPU__INPUT("lengths"),
                                               IPU__OUTPUT("scores"), IPU__OUTPUT("path_lengths"),
                                               IPU__OUTPUT("paths")};

static const ipu__cpu_impl implementations[] = {
    {.head = {"sequences", ipu__op_fits_always}, .scratch_bytes = decode_scratch, .run = decode_run}};

static const ipu_op_attribute attributes[] = {
    {.name = "blank", .kind = IPU_ATTRIBUTE_INT, .meaning = "class that stands for none"},
    {.name      = "beam_width",
     .kind      = IPU_ATTRIBUTE_INT,
     .otherwise = 100,
     .meaning   = "prefixes that are kept after each step"},
    {.name = "top_paths", .kind = IPU_ATTRIBUTE_INT, .otherwise = 1, .meaning = "paths that are given"},
};

static const char *const samples[] = {"float[6,2,4]{-3,0}, int32[2]{4,6}",
                                      "float[9,3,5]{-3,0}, int64[3]{0,9}; blank=4 beam_width=7 top_paths=3",
                                      "float[2,1,3]{-3,0}, int32[1]{2,2}; beam_width=20 top_paths=20",
                                      "float[5,0,3], int32[0]; beam_width=2",
                                      "float[0,2,3], int32[2]{0,0}",
                                      "float[30,40,20]{-4,0}, int32[40]{20,30}; beam_width=10 top_paths=2",
                                      NULL};

const ipu__op_def ipu__op_ctc_decode = {
    .kernel       = {.name            = "ctc_decode",
                     .operands        = operands,
                     .n_operands      = IPU__COUNT(operands),
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .examine         = decode_examine,
                     .ref             = decode_ref,
                     .work            = decode_work,
                     .plan            = decode_plan,
                     .implementations = IPU__ON_CPU(implementations)},
    .n_in         = 2,
    .family       = "loss",
    .summary      = "the label sequences that outputs over time most likely spell",
    .flags        = IPU__OP_SHORT_IN_HALF,
    .attributes   = attributes,
    .n_attributes = IPU__COUNT(attributes),
    .infer        = decode_infer,
    .batch        = IPU__BATCH({IPU__AXIS_1, IPU__AXIS_0}, {IPU__AXIS_0, IPU__AXIS_0, IPU__AXIS_0}),
    .samples      = samples,
};

ipu_ctc_decoded ipu_ctc_decode(ipu_builder *b, ipu_value log_probs, ipu_value lengths,
                               ipu_ctc_decode_options options)
{
    ipu_value out[3];
    ipu_emit(b, "ctc_decode",
             IPU__WITH(IPU_INT_ATTRIBUTE("blank", options.blank),
                       IPU_INT_ATTRIBUTE("beam_width", options.beam_width ? options.beam_width : 100),
                       IPU_INT_ATTRIBUTE("top_paths", options.top_paths ? options.top_paths : 1)),
             IPU__IN(log_probs, lengths), out, 3);
    return (ipu_ctc_decoded){out[0], out[1], out[2]};
}

/* host_call, host_show: host functions called during a run.
 *
 * Neither is folded, merged or split: a function may do anything. It is called by part 0.
 */
#include "op/host.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/cpu/impl.h"
#include "graph/graph.h"
#include "op/builder.h"

enum { IN = IPU_HOST_MOST_INPUTS, OUT = IPU_HOST_MOST_OUTPUTS };

static ipu_array array_of(const ipu__kernel_call *call, void *const *operand, int i)
{
    return (ipu_array){call->operand[i].type, call->operand[i].shape, operand[i]};
}

static double host_work(const ipu__kernel_call *call)
{
    (void)call;
    return 1; /* on tiles there is none, and it is not split */
}

/* To the host and back at the rate of its link, which all tiles share. */
static ipu_status host_plan(const ipu__kernel_call *call, const ipu_target *target, ipu__kernel_plan *out)
{
    int64_t bytes = 0;
    for (int i = 0; i < call->n_operands; i++)
        bytes += ipu__op_n_elements(&call->operand[i].shape) * (int64_t)ipu_type_size(call->operand[i].type);
    ipu__op_loop loop = {26, 8, 6};
    IPU_TRY(ipu__op_plan_loop(&loop, bytes, 8, target, out));
    out->basis =
        "our estimate: a copy of what goes to the host and comes back; the host's part is not modelled";
    return IPU_OK;
}

/* ---- host_call ---- */

/* Those that were given, or all up to the last that is there. */
static int n_inputs(const ipu__kernel_call *call)
{
    int n = (int)ipu__op_int(call, "inputs");
    for (int i = 0; i < IN && ipu__op_int(call, "inputs") == 0; i++)
        if (ipu__kernel_has(call, i)) n = i + 1;
    return n;
}

static ipu_status read_type(const char **text, ipu_type *out)
{
    char   word[16];
    size_t n = strcspn(*text, " ");
    snprintf(word, sizeof word, "%.*s", (int)n, *text);
    *out = ipu_type_find(word);
    *text += n;
    *text += strspn(*text, " ");
    return *out < IPU_N_TYPES ? IPU_OK
                              : ipu__fail(IPU_INVALID, "host_call: there is no type \"%s\" of outputs", word);
}

/* "rank, dimensions", one after the other. */
static ipu_status read_shape(const int64_t **at, size_t *n, ipu_shape *out)
{
    if (*n == 0 || **at < 0 || **at > IPU_MAX_RANK || (size_t) * *at >= *n)
        return ipu__fail(IPU_INVALID,
                         "host_call: expected \"shapes\" to hold, for each type of \"types\", a rank of 0 to "
                         "%d and as many dimensions",
                         IPU_MAX_RANK);
    *out = (ipu_shape){.rank = (int)**at};
    memcpy(out->dim, *at + 1, (size_t)out->rank * sizeof *out->dim);
    *at += out->rank + 1;
    *n -= (size_t)out->rank + 1;
    return IPU_OK;
}

/* What the attributes say, or what the inputs are. */
static ipu_status outputs(const ipu__kernel_call *call, ipu__kernel_value *out, int *n_out)
{
    size_t         n;
    const int64_t *shapes = ipu__op_ints(call, "shapes", &n);
    const char    *types  = ipu__op_text(call, "types");
    *n_out                = 0;
    for (int i = 0; i < OUT; i++) out[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    if (!*types) {
        *n_out = n_inputs(call) < OUT ? n_inputs(call) : OUT;
        memcpy(out, call->operand, (size_t)*n_out * sizeof *out);
        return IPU_OK;
    }
    for (types += strspn(types, " "); *types; ++*n_out) {
        if (*n_out == OUT)
            return ipu__fail(IPU_INVALID, "host_call: \"types\" has more than %d outputs", OUT);
        IPU_TRY(read_type(&types, &out[*n_out].type));
        IPU_TRY(read_shape(&shapes, &n, &out[*n_out].shape));
    }
    return n == 0 ? IPU_OK : ipu__fail(IPU_INVALID, "host_call: \"shapes\" has more shapes than \"types\"");
}

static ipu_status call_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    int n_out, n_in = n_inputs(call);
    if (n_in < 0 || n_in > IN)
        return ipu__fail(IPU_INVALID, "host_call: inputs = %d: expected 0 to %d", n_in, IN);
    return outputs(call, out, &n_out);
}

static ipu_status call_function(const ipu__kernel_call *call, void *const *operand)
{
    ipu_array         in[IN], out[OUT];
    ipu__kernel_value made[OUT];
    int               n_in = n_inputs(call), n_out = 0;
    IPU_TRY(outputs(call, made, &n_out));
    for (int i = 0; i < n_in; i++) in[i] = array_of(call, operand, i);
    for (int i = 0; i < n_out; i++) out[i] = array_of(call, operand, IN + i);
    return ipu__host_run(ipu__op_text(call, "function"), in, (size_t)n_in, out, (size_t)n_out);
}

/* Of checking mode. What fails leaves zeros. */
static void call_ref(const ipu__kernel_call *call, void *const *operand)
{
    if (call_function(call, operand) == IPU_OK) return;
    for (int i = IN; i < IN + OUT; i++) {
        ipu_array a = array_of(call, operand, i);
        if (ipu_array_bytes(&a) > 0) memset(a.data, 0, ipu_array_bytes(&a));
    }
}

static ipu_status call_prepare(const ipu__kernel_call *call, int n_parts, void **state)
{
    (void)n_parts, (void)state;
    return ipu__host_find(ipu__op_text(call, "function"));
}

static ipu_status call_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    (void)state, (void)scratch, (void)n_parts;
    return part == 0 ? call_function(call, operand) : IPU_OK;
}

static ipu_status call_examine(const ipu__kernel_call *call, void *const *operand)
{
    (void)operand;
    return ipu__host_find(ipu__op_text(call, "function"));
}

static void release(void *state) { (void)state; }

static const ipu__cpu_impl call_implementations[] = {
    {.head = {"host", ipu__op_fits_always}, .prepare = call_prepare, .release = release, .run = call_run},
};

static const ipu__kernel_operand call_operands[] = {
    IPU__OPTIONAL("x0"),  IPU__OPTIONAL("x1"),  IPU__OPTIONAL("x2"),  IPU__OPTIONAL("x3"),
    IPU__OPTIONAL("x4"),  IPU__OPTIONAL("x5"),  IPU__OPTIONAL("x6"),  IPU__OPTIONAL("x7"),
    IPU__OPTIONAL("x8"),  IPU__OPTIONAL("x9"),  IPU__OPTIONAL("x10"), IPU__OPTIONAL("x11"),
    IPU__OPTIONAL("x12"), IPU__OPTIONAL("x13"), IPU__OPTIONAL("x14"), IPU__OPTIONAL("x15"),
    IPU__OUTPUT("y0"),    IPU__OUTPUT("y1"),    IPU__OUTPUT("y2"),    IPU__OUTPUT("y3"),
    IPU__OUTPUT("y4"),    IPU__OUTPUT("y5"),    IPU__OUTPUT("y6"),    IPU__OUTPUT("y7")};

static const ipu_op_attribute call_attributes[] = {
    {.name     = "function",
     .kind     = IPU_ATTRIBUTE_TEXT,
     .required = true,
     .meaning  = "the name it is registered by"},
    {.name    = "inputs",
     .kind    = IPU_ATTRIBUTE_INT,
     .meaning = "how many inputs it is given; 0: all up to the last that is there"},
    {.name           = "types",
     .kind           = IPU_ATTRIBUTE_TEXT,
     .text_otherwise = "",
     .meaning        = "types of the outputs, with blanks between; none: outputs are like the inputs"},
    {.name = "shapes", .kind = IPU_ATTRIBUTE_INTS, .meaning = "of each output its rank, then its dimensions"},
};

static const char *const call_samples[] = {
    "float[3,5]; function=copy",
    "float[7], int32[4]; function=copy inputs=2",
    "int32[2,3], int32[]; function=copy types='int32 int64' shapes=[2,3,2,0]",
    "float[0], float[9]; function=copy inputs=2 types='float float' shapes=[1,2,1,9]",
    "; function=copy types='float' shapes=[1,3]",
    "float[300,100]; function=copy",
    NULL};

const ipu__op_def ipu__op_host_call = {
    .kernel       = {.name            = "host_call",
                     .operands        = call_operands,
                     .n_operands      = IN + OUT,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .examine         = call_examine,
                     .ref             = call_ref,
                     .work            = host_work,
                     .plan            = host_plan,
                     .implementations = IPU__ON_CPU(call_implementations)},
    .n_in         = IN,
    .family       = "host",
    .summary      = "what a function of the host makes of the inputs",
    .flags        = IPU__OP_IMPURE | IPU__OP_SHORT_IN_HALF,
    .attributes   = call_attributes,
    .n_attributes = IPU__COUNT(call_attributes),
    .infer        = call_infer,
    .samples      = call_samples,
};

/* ---- host_show ---- */

enum { X, Y };

static ipu_status show_infer(const ipu__kernel_call *call, ipu__kernel_value *out)
{
    *out = call->operand[X];
    return IPU_OK;
}

static ipu_status show(const ipu__kernel_call *call, void *const *operand)
{
    ipu_array   x        = array_of(call, operand, X);
    const char *function = ipu__op_text(call, "function");
    if (*function) IPU_TRY(ipu__host_run(function, &x, 1, NULL, 0));
    if (operand[X] != operand[Y]) memcpy(operand[Y], operand[X], ipu_array_bytes(&x));
    return IPU_OK;
}

static void show_ref(const ipu__kernel_call *call, void *const *operand)
{
    ipu_array x = array_of(call, operand, X);
    if (show(call, operand) != IPU_OK && operand[X] != operand[Y])
        memcpy(operand[Y], operand[X], ipu_array_bytes(&x));
}

static ipu_status show_prepare(const ipu__kernel_call *call, int n_parts, void **state)
{
    const char *function = ipu__op_text(call, "function");
    (void)n_parts, (void)state;
    return *function ? ipu__host_find(function) : IPU_OK;
}

static ipu_status show_examine(const ipu__kernel_call *call, void *const *operand)
{
    (void)operand;
    return show_prepare(call, 1, NULL);
}

static ipu_status show_run(const ipu__kernel_call *call, void *state, void *const *operand, void *scratch,
                           int part, int n_parts)
{
    (void)state, (void)scratch, (void)n_parts;
    return part == 0 ? show(call, operand) : IPU_OK;
}

static void show_grad(ipu__gradient *g)
{
    const char *function = ipu__op_text(g->call, "gradient_function");
    g->d_in[X]           = ipu_host_show(g->b, g->d_out[0], function, NULL);
}

static const ipu__kernel_operand show_operands[] = {IPU__INPUT("x"), IPU__OUTPUT_OVER("y", X)};

static const ipu__cpu_impl show_implementations[] = {
    {.head = {"host", ipu__op_fits_always}, .prepare = show_prepare, .release = release, .run = show_run},
};

static const ipu_op_attribute show_attributes[] = {
    {.name           = "function",
     .kind           = IPU_ATTRIBUTE_TEXT,
     .text_otherwise = "",
     .meaning        = "the name of what it is shown to; none: nothing"},
    {.name           = "gradient_function",
     .kind           = IPU_ATTRIBUTE_TEXT,
     .text_otherwise = "",
     .meaning        = "so too for its gradient"},
};

static const char *const show_samples[] = {"float[3,5]; function=copy gradient_function=copy", "float[40]",
                                           "int32[4]; function=copy", "float[0,3]; function=copy", NULL};

const ipu__op_def ipu__op_host_show = {
    .kernel       = {.name            = "host_show",
                     .operands        = show_operands,
                     .n_operands      = 2,
                     .check           = ipu__op_check,
                     .rows            = ipu__op_rows,
                     .examine         = show_examine,
                     .ref             = show_ref,
                     .work            = host_work,
                     .plan            = host_plan,
                     .implementations = IPU__ON_CPU(show_implementations)},
    .n_in         = 1,
    .family       = "host",
    .summary      = "the same values, shown to a function of the host",
    .flags        = IPU__OP_IMPURE | IPU__OP_EXACT_IN_HALF,
    .attributes   = show_attributes,
    .n_attributes = IPU__COUNT(show_attributes),
    .infer        = show_infer,
    .grad         = show_grad,
    .samples      = show_samples,
};

/* ---- functions ---- */

static void fail_call(ipu_builder *b, ipu_value *out, size_t n_out, const char *what, size_t n)
{
    ipu__builder_fail(b, IPU_INVALID,
                      "ipu_host_call: expected 0 to %d inputs and 1 to %d outputs, found %zu %s", IN, OUT, n,
                      what);
    for (size_t i = 0; i < n_out; i++) out[i] = (ipu_value){b, 0};
}

void ipu_host_call(ipu_builder *b, const char *function, const ipu_value *in, size_t n_in,
                   const ipu_array *like, ipu_value *out, size_t n_out)
{
    int64_t   shapes[OUT * (1 + IPU_MAX_RANK)];
    size_t    n     = 0;
    ipu__text types = {0};
    if (n_in > IN) {
        fail_call(b, out, n_out, "inputs", n_in);
        return;
    }
    if (n_out == 0 || n_out > OUT) {
        fail_call(b, out, n_out, "outputs", n_out);
        return;
    }
    for (size_t i = 0; i < n_out; i++) {
        ipu__text_add(&types, "%s%s", i ? " " : "", ipu_type_name(like[i].type));
        shapes[n++] = like[i].shape.rank;
        for (int d = 0; d < like[i].shape.rank && d < IPU_MAX_RANK; d++) shapes[n++] = like[i].shape.dim[d];
    }
    if (types.failed) {
        ipu__builder_fail(b, IPU_OUT_OF_MEMORY, "out of memory");
        for (size_t i = 0; i < n_out; i++) out[i] = (ipu_value){b, 0};
    } else
        ipu_emit(b, "host_call",
                 IPU__WITH(IPU_TEXT_ATTRIBUTE("function", function ? function : ""),
                           IPU_INT_ATTRIBUTE("inputs", (int64_t)n_in), IPU_TEXT_ATTRIBUTE("types", types.at),
                           IPU__INTS("shapes", shapes, n)),
                 in, n_in, out, n_out);
    ipu__text_fini(&types);
}

ipu_value ipu_host_show(ipu_builder *b, ipu_value x, const char *function, const char *gradient_function)
{
    return ipu__emit1(
        b, "host_show",
        IPU__WITH(IPU_TEXT_ATTRIBUTE("function", function ? function : ""),
                  IPU_TEXT_ATTRIBUTE("gradient_function", gradient_function ? gradient_function : "")),
        IPU__IN(x));
}

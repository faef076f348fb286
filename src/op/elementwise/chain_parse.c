/* Parses chains and infers their types and shapes. Texts may come from files and are not trusted.
 *
 * requires: operand types and shapes checked by the graph or the builder.
 */
#include "op/elementwise/chain_parse.h"

#include <ctype.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

typedef struct reader {
    const char      *text, *at;
    int              n_in;
    ipu__chain_code *code;
} reader;

typedef struct word {
    const char *at;
    int         n;
} word;

static void skip(reader *r)
{
    while (*r->at == ' ') r->at++;
}

static ipu_status fail_at(const reader *r, const char *expected)
{
    return ipu__fail(IPU_INVALID, "chain: expected %s at character %td, found \"%.16s\"", expected,
                     r->at - r->text + 1, r->at);
}

static bool take(reader *r, char c)
{
    skip(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

static word take_word(reader *r)
{
    skip(r);
    word w = {r->at, 0};
    while (isalnum((unsigned char)*r->at) || *r->at == '_') r->at++;
    w.n = (int)(r->at - w.at);
    return w;
}

static bool is(word w, const char *name)
{
    return strlen(name) == (size_t)w.n && memcmp(name, w.at, (size_t)w.n) == 0;
}

/* aN or tK; `operands`: whether aN will do. */
static ipu_status read_value(reader *r, bool operands, int *out)
{
    skip(r);
    char kind = *r->at;
    int  most = kind == 'a' ? r->n_in : r->code->n_steps, number = 0;
    if ((kind != 't' && !(kind == 'a' && operands)) || !isdigit((unsigned char)r->at[1]))
        return fail_at(r, operands ? "an operand (a0) or a result (t0)" : "a result (t0)");
    const char *digit = r->at + 1;
    for (; isdigit((unsigned char)*digit) && number < 1000; digit++) number = 10 * number + (*digit - '0');
    if (number >= most)
        return ipu__fail(IPU_INVALID, "chain: %c%d at character %td: there are only %d %s before it", kind,
                         number, r->at - r->text + 1, most, kind == 'a' ? "operands" : "results");
    r->at = digit;
    if (kind == 'a') r->code->is_used[number] = true;
    *out = kind == 'a' ? number : IPU__CHAIN_MAX_IN + number;
    return IPU_OK;
}

static ipu_status read_number(reader *r, double *out)
{
    char    *end;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* the caller's might read 0,5 */
    if (!c) return ipu__fail_memory();
    skip(r);
    *out = strtod_l(r->at, &end, c);
    freelocale(c);
    if (end == r->at || isspace((unsigned char)*r->at)) return fail_at(r, "a number");
    r->at = end;
    return IPU_OK;
}

static ipu_status read_type(reader *r, ipu_type *out)
{
    const char *at = r->at;
    word        w  = take_word(r);
    for (int t = 0; t < IPU_N_TYPES; t++)
        if (is(w, ipu_type_name((ipu_type)t))) {
            *out = (ipu_type)t;
            return IPU_OK;
        }
    r->at = at;
    return fail_at(r, "a type");
}

static ipu_status read_attribute(reader *r, const ipu__op_def *op, ipu__chain_step *step, unsigned *given)
{
    const char *at   = r->at;
    word        name = take_word(r);
    size_t      i    = 0;
    while (i < op->n_attributes && !is(name, op->attributes[i].name)) i++;
    if (i == op->n_attributes || *given & 1u << i) {
        r->at = at;
        return fail_at(r, i == op->n_attributes ? "an attribute of the op" : "each attribute once");
    }
    *given |= 1u << i;
    if (!take(r, '=')) return fail_at(r, "=");
    return op->attributes[i].kind == IPU_ATTRIBUTE_TEXT ? read_type(r, &step->to)
                                                        : read_number(r, &step->parameters[i]);
}

static ipu_status read_attributes(reader *r, const ipu__op_def *op, ipu__chain_step *step)
{
    unsigned given = 0;
    for (size_t i = 0; i < op->n_attributes; i++)
        if (op->attributes[i].kind == IPU_ATTRIBUTE_FLOAT) step->parameters[i] = op->attributes[i].otherwise;
    if (take(r, '(')) {
        do IPU_TRY(read_attribute(r, op, step, &given));
        while (take(r, ','));
        if (!take(r, ')')) return fail_at(r, ", or )");
    }
    for (size_t i = 0; i < op->n_attributes; i++)
        if (op->attributes[i].required && !(given & 1u << i))
            return ipu__fail(IPU_INVALID, "chain: %s at instruction %d lacks attribute \"%s\"",
                             op->kernel.name, r->code->n_steps, op->attributes[i].name);
    return IPU_OK;
}

static const ipu__op_def *element_op(word name)
{
    char text[32];
    if (name.n == 0 || name.n >= (int)sizeof text) return NULL;
    memcpy(text, name.at, (size_t)name.n);
    text[name.n]          = '\0';
    const ipu__op_def *op = ipu__op_find(text);
    return op && ipu__element_of(&op->kernel) < IPU__N_ELEMENTS ? op : NULL;
}

static ipu_status read_step(reader *r, word name)
{
    ipu__chain_code   *code = r->code;
    const ipu__op_def *op   = element_op(name);
    if (!op)
        return ipu__fail(IPU_INVALID, "chain: \"%.*s\" at character %td is not an elementwise op",
                         name.n < 32 ? name.n : 32, name.at, name.at - r->text + 1);
    if (code->n_steps == IPU__CHAIN_MAX_STEPS)
        return ipu__fail(IPU_INVALID, "chain: more than %d instructions", IPU__CHAIN_MAX_STEPS);
    ipu__chain_step *step = &code->step[code->n_steps];
    *step                 = (ipu__chain_step){.element = ipu__element_of(&op->kernel), .n_in = op->n_in};
    IPU_TRY(read_attributes(r, op, step));
    for (int i = 0; i < op->n_in; i++) IPU_TRY(read_value(r, true, &step->in[i]));
    if (!take(r, ';')) return fail_at(r, ";");
    code->n_steps++;
    return IPU_OK;
}

static ipu_status read_out(reader *r)
{
    do {
        int value = 0;
        if (r->code->n_out == IPU__CHAIN_MAX_OUT)
            return ipu__fail(IPU_INVALID, "chain: more than %d results", IPU__CHAIN_MAX_OUT);
        IPU_TRY(read_value(r, false, &value));
        r->code->out[r->code->n_out++] = value - IPU__CHAIN_MAX_IN;
        skip(r);
    } while (*r->at);
    return IPU_OK;
}

ipu_status ipu__chain_parse(const char *text, int n_in, ipu__chain_code *out)
{
    *out     = (ipu__chain_code){0};
    reader r = {text, text, n_in < IPU__CHAIN_MAX_IN ? n_in : IPU__CHAIN_MAX_IN, out};
    for (;;) {
        word name = take_word(&r);
        if (is(name, "out")) return read_out(&r);
        if (name.n == 0) return fail_at(&r, "an op or \"out\"");
        IPU_TRY(read_step(&r, name));
    }
}

/* ---- types and shapes ---- */

static ipu_status broadcast(ipu_shape *shape, const ipu_shape *in, int operand)
{
    ipu_shape result = {.rank = in->rank > shape->rank ? in->rank : shape->rank};
    for (int d = 1; d <= result.rank; d++) {
        int64_t a = d <= shape->rank ? shape->dim[shape->rank - d] : 1;
        int64_t b = d <= in->rank ? in->dim[in->rank - d] : 1;
        if (a != b && a != 1 && b != 1)
            return ipu__fail(IPU_INVALID, "chain: operand a%d %s does not broadcast with %s", operand,
                             ipu__shape_str(in), ipu__shape_str(shape));
        result.dim[result.rank - d] = a == 1 ? b : a;
    }
    *shape = result;
    return IPU_OK;
}

ipu_status ipu__chain_types(ipu__chain_code *code, const ipu__kernel_value *in, ipu_shape *shape)
{
    *shape = IPU_SCALAR;
    for (int i = 0; i < IPU__CHAIN_MAX_IN; i++)
        if (code->is_used[i]) IPU_TRY(broadcast(shape, &in[i].shape, i));
    for (int k = 0; k < code->n_steps; k++) {
        ipu__chain_step  *step = &code->step[k];
        ipu_attribute     to   = IPU_TEXT_ATTRIBUTE("to", ipu_type_name(step->to));
        ipu__kernel_call  call = {.def = ipu__element_kernel(step->element), .n_operands = step->n_in};
        ipu__kernel_value out;
        if (step->element == IPU__ELEMENT_cast) {
            call.attributes   = &to;
            call.n_attributes = 1;
        }
        for (int i = 0; i < step->n_in; i++)
            call.operand[i] = (ipu__kernel_value){ipu__chain_type(code, in, step->in[i]), *shape};
        if (ipu__element_infer(&call, &out) != IPU_OK)
            return ipu__fail(IPU_INVALID, "chain: instruction %d: %s", k, ipu_message());
        step->type = out.type;
    }
    return IPU_OK;
}

ipu_status ipu__chain_infer(const char *text, const ipu__kernel_value *in, int n_in,
                            ipu__kernel_value out[IPU__CHAIN_MAX_OUT], int *n_out)
{
    ipu__chain_code code;
    ipu_shape       shape;
    IPU_TRY(ipu__chain_parse(text, n_in, &code));
    IPU_TRY(ipu__chain_types(&code, in, &shape));
    for (int i = 0; i < code.n_out; i++) out[i] = (ipu__kernel_value){code.step[code.out[i]].type, shape};
    *n_out = code.n_out;
    return IPU_OK;
}

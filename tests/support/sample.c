/* Parsing of samples, guarded buffers, random values.
 *
 * requires: records whose operand tables are right; tests check that first.
 */
#include "sample.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "graph/graph.h"

/* ---- parsing ---- */

typedef struct reader {
    const char *at;
    char       *error;
} reader;

static bool fail(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(r->error, SAMPLE_ERROR, format, args);
    va_end(args);
    if (n >= 0 && n < SAMPLE_ERROR) snprintf(r->error + n, SAMPLE_ERROR - (size_t)n, " at \"%s\"", r->at);
    return false;
}

static void skip_blanks(reader *r)
{
    while (*r->at == ' ' || *r->at == '\n') r->at++;
}

static bool take(reader *r, char c)
{
    skip_blanks(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

static bool read_number(reader *r, double *out)
{
    char *end;
    *out = strtod(r->at, &end);
    if (end == r->at) return fail(r, "expected a number");
    r->at = end;
    return true;
}

static bool read_word(reader *r, char *out, size_t size)
{
    size_t n = 0;
    skip_blanks(r);
    while ((isalnum((unsigned char)r->at[n]) || strchr("_./+-", r->at[n])) && r->at[n]) n++;
    if (n == 0 || n >= size) return fail(r, "expected a word");
    memcpy(out, r->at, n);
    out[n] = 0;
    r->at += n;
    return true;
}

static bool read_ints(reader *r, int64_t *out, size_t *n, size_t most)
{
    *n = 0;
    if (take(r, ']')) return true;
    do {
        char *end;
        skip_blanks(r);
        if (*n == most) return fail(r, "a list of more than %zu", most);
        out[(*n)++] = strtoll(r->at, &end, 10);
        if (end == r->at) return fail(r, "expected an int");
        r->at = end;
    } while (take(r, ','));
    return take(r, ']') || fail(r, "expected ]");
}

static bool read_input(reader *r, sample *s, int i)
{
    char   word[32];
    size_t n = 0;
    if (!read_word(r, word, sizeof word)) return false;
    if (strcmp(word, "none") == 0) {
        s->call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
        return true;
    }
    ipu__kernel_value v = {ipu_type_find(word), IPU_SCALAR};
    if (v.type == IPU_N_TYPES) return fail(r, "there is no type \"%s\"", word);
    if (take(r, '[') && !read_ints(r, v.shape.dim, &n, IPU_MAX_RANK)) return false;
    v.shape.rank       = (int)n;
    s->call.operand[i] = v;
    s->present[i]      = true;
    bool floating      = ipu__op_is_floating(v.type);
    s->low[i]          = floating ? -2 : 0;
    s->high[i]         = floating ? 2 : v.type == IPU_BOOL ? 1 : 9;
    if (!take(r, '{')) return true;
    return read_number(r, &s->low[i]) && (take(r, ',') || fail(r, "expected ,"))
        && read_number(r, &s->high[i]) && (take(r, '}') || fail(r, "expected }"));
}

static const char *keep(sample *s, const char *text, size_t n)
{
    if (s->n_words + n + 1 > sizeof s->words) return NULL;
    char *own = s->words + s->n_words;
    memcpy(own, text, n);
    own[n] = 0;
    s->n_words += n + 1;
    return own;
}

static ipu_attribute_kind declared_kind(const ipu__op_def *op, const char *name)
{
    for (size_t i = 0; i < op->n_attributes; i++)
        if (strcmp(op->attributes[i].name, name) == 0) return op->attributes[i].kind;
    return IPU_ATTRIBUTE_INT;
}

static bool read_text(reader *r, sample *s, ipu_attribute *a)
{
    char   quote = *r->at == '"' || *r->at == '\'' ? *r->at++ : 0;
    size_t n     = quote ? strcspn(r->at, (char[]){quote, 0}) : strcspn(r->at, " \n");
    a->kind      = IPU_ATTRIBUTE_TEXT;
    a->text      = keep(s, r->at, n);
    r->at += n;
    if (quote && !take(r, quote)) return fail(r, "expected %c", quote);
    return a->text != NULL || fail(r, "too much text");
}

/* An int where it looks like one, whatever is declared: floats may be given so. */
static bool read_attribute_number(reader *r, ipu_attribute *a)
{
    char *end_int, *end_float;
    a->i = strtoll(r->at, &end_int, 10);
    a->f = strtod(r->at, &end_float);
    if (end_float == r->at) return fail(r, "expected a value");
    a->kind = end_int == end_float ? IPU_ATTRIBUTE_INT : IPU_ATTRIBUTE_FLOAT;
    r->at   = end_float;
    return true;
}

static bool read_attribute(reader *r, sample *s)
{
    size_t         k = s->call.n_attributes;
    ipu_attribute *a = &s->attributes[k];
    char           name[64];
    if (k == SAMPLE_MAX_ATTRIBUTES) return fail(r, "too many attributes");
    if (!read_word(r, name, sizeof name)) return false;
    a->name = keep(s, name, strlen(name));
    if (!a->name || !take(r, '=')) return fail(r, "expected =");
    skip_blanks(r);
    s->call.n_attributes++;
    if (declared_kind(s->op, name) == IPU_ATTRIBUTE_TEXT || *r->at == '"' || *r->at == '\'')
        return read_text(r, s, a);
    if (*r->at != '[') return read_attribute_number(r, a);
    r->at++;
    a->kind = IPU_ATTRIBUTE_INTS;
    a->ints = s->ints[k];
    return read_ints(r, s->ints[k], &a->n_ints, SAMPLE_MAX_INTS);
}

bool sample_parse(sample *s, const ipu__op_def *op, const char *text, char error[SAMPLE_ERROR])
{
    reader r = {.at = text};
    int    n = 0;
    r.error  = error;
    *s       = (sample){.op = op, .text = text, .call = {.def = &op->kernel, .n_operands = op->n_in}};
    s->call.attributes = s->attributes;
    for (int i = 0; i < op->n_in; i++) s->call.operand[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    skip_blanks(&r);
    if (*r.at && *r.at != ';') do {
            if (n == op->n_in) return fail(&r, "%s has only %d inputs", op->kernel.name, op->n_in);
            if (!read_input(&r, s, n++)) return false;
        } while (take(&r, ','));
    if (take(&r, ';'))
        for (skip_blanks(&r); *r.at; skip_blanks(&r))
            if (!read_attribute(&r, s)) return false;
    skip_blanks(&r);
    if (*r.at) return fail(&r, "expected , or ;");
    for (int i = 0; i < op->n_in; i++)
        if (!s->present[i] && !op->kernel.operands[i].optional)
            return fail(&r, "input \"%s\" is missing", op->kernel.operands[i].name);
    return true;
}

bool sample_retype(sample *s, ipu_type from, ipu_type to)
{
    bool any = false;
    for (int i = 0; i < s->op->n_in; i++)
        if (s->present[i] && s->call.operand[i].type == from) {
            s->call.operand[i].type = to;
            any                     = true;
        }
    return any;
}

ipu_status sample_infer(sample *s)
{
    ipu__kernel_value *out = s->call.operand + s->op->n_in;
    s->call.n_operands     = s->op->n_in;
    for (int i = 0; i < ipu__op_n_out(s->op); i++) out[i] = (ipu__kernel_value){IPU_FLOAT, IPU_SHAPE(0)};
    IPU_TRY(ipu__op_check_attributes(&s->call));
    IPU_TRY(s->op->infer(&s->call, out));
    s->call.n_operands = s->op->kernel.n_operands;
    return IPU_OK;
}

int64_t sample_n_elements(const sample *s, int operand)
{
    return ipu__op_n_elements(&s->call.operand[operand].shape);
}

/* ---- elements ---- */

double element_get(ipu_type type, const void *data, int64_t i)
{
    switch (type) {
    case IPU_HALF: return (double)ipu_half_to_float(((const ipu_half *)data)[i]);
    case IPU_BFLOAT16: return (double)ipu_bfloat16_to_float(((const ipu_bfloat16 *)data)[i]);
#define NUMBER(TYPE, ctype) \
    case IPU_##TYPE: return (double)((const ctype *)data)[i];
        NUMBER(BOOL, uint8_t)
        NUMBER(INT8, int8_t)
        NUMBER(UINT8, uint8_t)
        NUMBER(INT16, int16_t)
        NUMBER(UINT16, uint16_t)
        NUMBER(INT32, int32_t)
        NUMBER(UINT32, uint32_t)
        NUMBER(INT64, int64_t)
        NUMBER(UINT64, uint64_t)
        NUMBER(FLOAT, float)
        NUMBER(DOUBLE, double)
#undef NUMBER
    case IPU_N_TYPES: break;
    }
    return NAN;
}

void element_set(ipu_type type, void *data, int64_t i, double value)
{
    if (!ipu__op_is_floating(type)) value = floor(value);
    ipu__value_from_double(type, value, (char *)data + (size_t)i * ipu_type_size(type));
}

/* ---- buffers ---- */

enum { RED = 64, RED_BYTE = 0xa5, OLD_BYTE = 0xff }; /* OLD: NaN in every floating type */

bool guarded_from_reads;

static void set_red(const guarded *g, bool red)
{
#if defined(__SANITIZE_ADDRESS__)
    if (!guarded_from_reads) return;
    void (*const set)(void const volatile *, size_t) = red ? __asan_poison_memory_region
                                                           : __asan_unpoison_memory_region;
    set(g->memory, RED);
    set(g->memory + RED + g->bytes, g->total - RED - g->bytes);
#else
    (void)g, (void)red;
#endif
}

guarded guarded_make(size_t bytes)
{
    guarded g = {.bytes = bytes, .total = RED + (bytes + RED - 1) / RED * RED + RED};
    g.memory  = aligned_alloc(RED, g.total);
    if (!g.memory) abort();
    memset(g.memory, RED_BYTE, g.total);
    memset(g.memory + RED, OLD_BYTE, bytes);
    set_red(&g, true);
    return g;
}

void *guarded_data(const guarded *g) { return g->memory + RED; }

bool guarded_ok(const guarded *g, ptrdiff_t *where)
{
    bool ok = true;
    set_red(g, false);
    for (size_t i = 0; i < g->total && ok; i++) {
        if (i == RED) i += g->bytes;
        ok     = g->memory[i] == RED_BYTE;
        *where = (ptrdiff_t)i - RED;
    }
    set_red(g, true);
    return ok;
}

void guarded_free(guarded *g)
{
    set_red(g, false);
    free(g->memory);
    g->memory = NULL;
}

static operands make_buffers(const sample *s)
{
    operands o = {.n = s->call.n_operands};
    for (int i = 0; i < o.n; i++) {
        size_t bytes = (size_t)sample_n_elements(s, i) * ipu_type_size(s->call.operand[i].type);
        o.at[i]      = guarded_make(bytes);
        o.pointer[i] = guarded_data(&o.at[i]);
    }
    return o;
}

operands operands_make(const sample *s, uint64_t seed)
{
    operands    o      = make_buffers(s);
    test_random random = {seed};
    for (int i = 0; i < s->op->n_in; i++) {
        ipu_type type     = s->call.operand[i].type;
        bool     floating = ipu__op_is_floating(type);
        double   low = s->low[i], span = s->high[i] - low + (floating ? 0 : 1);
        for (int64_t j = 0; j < sample_n_elements(s, i); j++) {
            double unit = (double)(random_bits(&random) >> 11) * 0x1p-53;
            element_set(type, o.pointer[i], j, low + unit * span);
        }
    }
    return o;
}

operands operands_convert(const sample *s, const sample *from_sample, const operands *from)
{
    operands o = make_buffers(s);
    for (int i = 0; i < s->op->n_in; i++)
        for (int64_t j = 0; j < sample_n_elements(s, i); j++)
            element_set(s->call.operand[i].type, o.pointer[i], j,
                        element_get(from_sample->call.operand[i].type, from->pointer[i], j));
    return o;
}

void operands_free(operands *o)
{
    for (int i = 0; i < o->n; i++) guarded_free(&o->at[i]);
}

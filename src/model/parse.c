/* Models from text: everything is added by the public builders, so that their checks apply to texts too. */
#include "model/parse.h"

#include <string.h>

#include "model.tab.h"
#include "model.yy.h"

/* ---- errors and labels ---- */

/* Whether the model is still valid after the builder calls of the statement at `at`. */
static bool built(ipu__model_parser *p, ipu__position at)
{
    ipu_status status = p->m->base.status;
    if (status == IPU_OK) return true;
    if (p->base.status != IPU_OK) return false;
    if (status == IPU_OUT_OF_MEMORY) return ipu__parse_memory(&p->base);
    const char *message = ipu_builder_message(&p->m->base);
    size_t      n       = strlen(p->base.name);
    if (strncmp(message, p->base.name, n) == 0 && message[n] == ':') /* it already names the position */
        p->base.status = ipu__fail(status, "%s", message);
    else
        p->base.status = ipu__fail(status, "%s:%d:%d: %s", p->base.name, at.line, at.column, message);
    return false;
}

bool ipu__parse_declare(ipu__model_parser *p, ipu__position at, ipu__declared d)
{
    return ipu__push(&p->declared, (ipu__declared_value){d, at}) || ipu__parse_memory(&p->base);
}

bool ipu__parse_ref(ipu__model_parser *p, ipu__position at, ipu__slice label, ipu_value *out)
{
    *out = (ipu_value){&p->m->base, 0};
    return ipu__parse_find(&p->base, at, &p->labels, "value", label, &out->id);
}

bool ipu__parse_use(ipu__model_parser *p, ipu__position at, ipu__slice label)
{
    ipu_value v = IPU_NO_VALUE;
    if (label.at && !ipu__parse_ref(p, at, label, &v)) return false;
    return ipu__push(&p->values, v) || ipu__parse_memory(&p->base);
}

static bool label(ipu__model_parser *p, size_t i, ipu_value v)
{
    const ipu__declared_value *d = &p->declared.at[i];
    return ipu__parse_label(&p->base, d->at, &p->labels, "value", d->what.label, v.id);
}

static const char *name_of(ipu__model_parser *p, size_t i)
{
    const ipu__declared *d = &p->declared.at[i].what;
    return ipu__parse_name_of(&p->base, d->label, d->name);
}

/* Makes declaration `i` this value, which is new if there were only `n_before` of them; an old one keeps its
 * name. */
static bool declare(ipu__model_parser *p, size_t i, ipu_value v, size_t n_before)
{
    const char *name = name_of(p, i);
    if (!name) return false;
    if (*name && v.id >= n_before) ipu_named(&p->m->base, v, name);
    return built(p, p->declared.at[i].at) && label(p, i, v);
}

/* ---- inputs, kept values and constants ---- */

bool ipu__parse_model(ipu__model_parser *p, ipu__position at, int64_t seed, int64_t keys)
{
    if (p->m) return ipu__parse_fail(&p->base, at, "expected one model in a text, found another");
    if (seed > UINT32_MAX || seed < -1 || keys > UINT32_MAX || keys < -1)
        return ipu__parse_fail(&p->base, at, "expected a seed and a number of keys from 0 to 2^32 - 1");
    if (ipu_model_create(&p->m) != IPU_OK) return ipu__parse_memory(&p->base);
    if (seed >= 0) p->m->seed_value = (uint32_t)seed;
    if (keys >= 0) p->m->base.next_key = (uint32_t)keys;
    return true;
}

bool ipu__parse_input(ipu__model_parser *p, ipu__position at, ipu_type type, ipu__at where)
{
    const char *name = name_of(p, 0);
    if (!name) return false;
    ipu__parse_here(&p->base, at, where);
    ipu_value v = ipu_model_input(p->m, type, p->base.shape, name);
    return built(p, at) && label(p, 0, v);
}

bool ipu__parse_initial(ipu__model_parser *p, ipu__position at, ipu__slice kind, int64_t key)
{
    static const struct {
        const char      *word;
        ipu_initial_kind kind;
        size_t           n;
    } kinds[]        = {{"fill", IPU_INITIAL_CONSTANT, 1},
                        {"uniform", IPU_INITIAL_UNIFORM, 2},
                        {"normal", IPU_INITIAL_NORMAL, 2}};
    const char *word = ipu__parse_string(&p->base, kind);
    size_t      n    = p->numbers.n;
    p->numbers.n     = 0;
    if (!word) return false;
    if (key > UINT32_MAX || key < -1)
        return ipu__parse_fail(&p->base, at, "expected a key from 0 to 2^32 - 1");
    for (size_t i = 0; i < IPU__COUNT(kinds); i++) {
        if (strcmp(kinds[i].word, word) != 0) continue;
        if (n != kinds[i].n)
            return ipu__parse_fail(&p->base, at, "%s: expected %zu numbers, found %zu", word, kinds[i].n, n);
        p->initial      = (ipu_initial){kinds[i].kind, p->numbers.at[0], n > 1 ? p->numbers.at[1] : 0};
        p->initial_form = IPU__INITIAL_DRAWN;
        p->key          = key;
        return true;
    }
    return ipu__parse_fail(&p->base, at,
                           "expected fill(a), uniform(low, high) or normal(mean, std), found '%s'", word);
}

static const void *data(const ipu__model_parser *p) { return p->base.values.n ? p->base.values.at : ""; }

/* The state that random ops draw from is recognised by its name. */
static void find_seed(ipu__model_parser *p, ipu_value v)
{
    ipu_shape shape = ipu_value_shape(v);
    if (strcmp(ipu_value_name(v), "seed") == 0 && ipu_value_type(v) == IPU_UINT32 && shape.rank == 1
        && shape.dim[0] == 2)
        p->m->seed = v.id;
}

static void set_initial(ipu__model_parser *p, ipu_value v)
{
    ipu_model *m = p->m;
    ipu_model_set_initial(m, v, p->initial);
    if (m->base.status != IPU_OK || p->key < 0) return;
    m->values.at[v.id].key = (uint32_t)p->key;
    m->n_keys--; /* the one that ipu_model_set_initial took */
    if (m->n_keys <= p->key) m->n_keys = (uint32_t)p->key + 1;
}

bool ipu__parse_kept(ipu__model_parser *p, ipu__position at, bool is_parameter, ipu_type type, ipu__at where)
{
    const char *name  = name_of(p, 0);
    const void *start = NULL;
    int64_t     n     = 0;
    if (!name) return false;
    if (p->initial_form == IPU__INITIAL_DATA) {
        ipu__shape_count(&p->base.shape, &n);
        if (!ipu__parse_check_values(&p->base, at, n)) return false;
        start = data(p);
    }
    ipu__parse_here(&p->base, at, where);
    ipu_value v = is_parameter ? ipu_model_parameter(p->m, type, p->base.shape, start, name)
                               : ipu_model_state(p->m, type, p->base.shape, start, name);
    if (!built(p, at)) return false;
    if (p->initial_form == IPU__INITIAL_DRAWN) set_initial(p, v);
    if (!is_parameter) find_seed(p, v);
    return built(p, at) && label(p, 0, v);
}

bool ipu__parse_model_constant(ipu__model_parser *p, ipu__position at, ipu_type type, ipu__at where)
{
    int64_t n = 0;
    ipu__shape_count(&p->base.shape, &n);
    if (!ipu__parse_check_values(&p->base, at, n)) return false;
    ipu__parse_here(&p->base, at, where);
    size_t    before = p->m->values.n;
    ipu_value v      = ipu_constant_data(&p->m->base, type, p->base.shape, data(p));
    return built(p, at) && declare(p, 0, v, before);
}

/* ---- ops ---- */

bool ipu__parse_op(ipu__model_parser *p, ipu__position at, const char *name, int64_t recompute, ipu__at where)
{
    ipu_value    out[IPU__MAX_OPERANDS];
    ipu_builder *b      = &p->m->base;
    size_t       before = p->m->values.n, n = p->declared.n;
    if (n > IPU__MAX_OPERANDS) return ipu__parse_fail(&p->base, at, "no op has %zu outputs", n);
    if (recompute < 0 || recompute > UINT32_MAX)
        return ipu__parse_fail(&p->base, at, "expected a number from 0 to 2^32 - 1 after recompute");
    ipu__parse_here(&p->base, at, where);
    p->m->recompute = (uint32_t)recompute;
    ipu_emit(b, name, p->base.attributes.at, p->base.attributes.n, p->values.at, p->values.n, out, n);
    p->m->recompute = 0;
    if (!built(p, at)) return false;
    for (size_t i = 0; i < n; i++)
        if (!declare(p, i, out[i], before)) return false;
    return true;
}

bool ipu__parse_stage(ipu__model_parser *p, ipu__position at, const char *name, bool is_backward)
{
    ipu__parse_here(&p->base, at, (ipu__at){0});
    if (p->m->block != 0)
        return ipu__parse_fail(&p->base, at, "expected stages outside of branches and loops only");
    if (name)
        ipu_model_stage(p->m, name);
    else
        ipu__model_any_stage(p->m);
    p->m->stage.is_backward = is_backward;
    return built(p, at);
}

/* ---- branches and loops ---- */

static bool open_block(ipu__model_parser *p, ipu__position at, ipu__at where)
{
    ipu__parse_here(&p->base, at, where);
    return ++p->depth <= IPU__MAX_DEPTH
        || ipu__parse_fail(&p->base, at, "expected at most %d blocks within blocks", IPU__MAX_DEPTH);
}

bool ipu__parse_if(ipu__model_parser *p, ipu__position at, ipu_value condition, ipu__at where)
{
    if (!open_block(p, at, where)) return false;
    ipu_model_if(p->m, condition);
    return built(p, at);
}

bool ipu__parse_else(ipu__model_parser *p, ipu__position at)
{
    ipu__parse_here(&p->base, at, (ipu__at){0});
    ipu_model_else(p->m);
    return built(p, at);
}

bool ipu__parse_for(ipu__model_parser *p, ipu__position at, int64_t most, bool has_index, ipu_value first,
                    ipu__at where)
{
    size_t     n = p->values.n, before = p->m->values.n;
    ipu_value  index;
    ipu_value *inside = ipu__arena_alloc(&p->base.arena, (n + 1) * sizeof *inside);
    if (!inside) return ipu__parse_memory(&p->base);
    if (!open_block(p, at, where)) return false;
    ipu_model_loop(p->m, most, first, p->values.at, n, inside, &index);
    if (!built(p, at)) return false;
    if (has_index) inside[n] = index;
    for (size_t i = 0; i < n + has_index; i++)
        if (!declare(p, i, inside[i], before)) return false;
    return true;
}

bool ipu__parse_yield(ipu__model_parser *p, ipu__position at, ipu_value go_on)
{
    ipu__parse_here(&p->base, at, (ipu__at){0});
    if (go_on.id)
        ipu_model_yield_while(p->m, go_on, p->values.at, p->values.n);
    else
        ipu_model_yield(p->m, p->values.at, p->values.n);
    return built(p, at);
}

bool ipu__parse_results(ipu__model_parser *p, ipu__position at)
{
    size_t     n = p->declared.n, before = p->m->values.n;
    ipu_value *out = ipu__arena_alloc(&p->base.arena, (n + 1) * sizeof *out);
    if (!out) return ipu__parse_memory(&p->base);
    p->depth--;
    ipu__parse_here(&p->base, at, (ipu__at){0});
    ipu_model_end(p->m, out, n);
    if (!built(p, at)) return false;
    for (size_t i = 0; i < n; i++)
        if (!declare(p, i, out[i], before)) return false;
    return true;
}

/* ---- outputs ---- */

bool ipu__parse_output(ipu__model_parser *p, ipu__position at, const char *name, ipu_value v, ipu__at where)
{
    ipu__parse_here(&p->base, at, where);
    ipu_model_output(p->m, v, name);
    return built(p, at);
}

bool ipu__parse_update(ipu__model_parser *p, ipu__position at, ipu_value kept, ipu_value v)
{
    ipu__parse_here(&p->base, at, (ipu__at){0});
    ipu_model_update(p->m, kept, v);
    return built(p, at);
}

/* ---- the driver ---- */

static ipu_status run_grammar(ipu__parser *base, char *buffer, size_t bytes)
{
    ipu__model_parser *p = (ipu__model_parser *)base;
    yyscan_t           scanner;
    if (ipu__model_grammar_lex_init_extra(p, &scanner) != 0) return ipu__fail_memory();
    if (!ipu__model_grammar__scan_buffer(buffer, bytes, scanner)) return ipu__fail_memory();
    int result = ipu__model_grammar_parse(p, scanner);
    ipu__model_grammar_lex_destroy(scanner);
    if (result == 0 && !p->m)
        ipu__parse_fail(base, base->where, "expected a model, found the end of the text");
    if (result != 0 && base->status == IPU_OK) ipu__parse_memory(base);
    return base->status;
}

ipu_status ipu_model_parse(const char *text, size_t bytes, const char *name, const char *side_file,
                           ipu_model **out)
{
    *out                     = NULL;
    ipu__model_parser p      = {.base = {.name = name}};
    ipu_status        status = ipu__parse_text(&p.base, text, bytes, side_file, run_grammar);
    if (status == IPU_OK)
        *out = p.m;
    else
        ipu_model_destroy(p.m);
    ipu__map_fini(&p.labels);
    ipu__array_fini(&p.declared);
    ipu__array_fini(&p.values);
    ipu__array_fini(&p.numbers);
    ipu__parser_fini(&p.base);
    return status;
}

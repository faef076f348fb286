/* Text to graphs: the driver, errors, names and numbers. The grammar is in parse.y; what it builds is in
 * parse_view.c, parse_graph.c and parse_program.c. Texts are not trusted: whatever they contain, the result
 * is a graph or an error, in time and memory proportional to their length. */
#include "graph/text/parse.h"

#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/text/literal.h"

#include "parse.tab.h"

#include "lex.yy.h"

/* ---- errors ---- */

bool ipu__parse_fail(ipu__parser *p, ipu__position at, const char *format, ...)
{
    if (p->status != IPU_OK) return false;
    char    text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    p->status = ipu__fail(IPU_INVALID, "%s:%d:%d: %s", p->name, at.line, at.column, text);
    return false;
}

bool ipu__parse_memory(ipu__parser *p)
{
    if (p->status == IPU_OK) p->status = ipu__fail_memory();
    return false;
}

bool ipu__parse_built(ipu__parser *p, ipu__position at)
{
    ipu_status status = ipu_graph_status(p->g);
    if (status == IPU_OK) return true;
    if (p->status != IPU_OK) return false;
    const char *message = ipu_graph_message(p->g);
    size_t      n       = strlen(p->name);
    if (status == IPU_OUT_OF_MEMORY) return ipu__parse_memory(p);
    if (strncmp(message, p->name, n) == 0 && message[n] == ':') /* it contains the location already */
        p->status = ipu__fail(status, "%s", message);
    else
        p->status = ipu__fail(status, "%s:%d:%d: %s", p->name, at.line, at.column, message);
    return false;
}

void ipu__parse_here(ipu__parser *p, ipu__position at, ipu__at where)
{
    if (where.given)
        ipu_here(*where.file ? where.file : NULL, where.line);
    else
        ipu_here(p->name, at.line);
}

/* ---- strings and names ---- */

const char *ipu__parse_string(ipu__parser *p, ipu__slice slice)
{
    p->scratch.n = 0;
    if (!ipu__reserve(&p->scratch, slice.n + 1)) {
        ipu__parse_memory(p);
        return NULL;
    }
    memcpy(p->scratch.at, slice.at, slice.n);
    p->scratch.at[slice.n] = 0;
    return p->scratch.at;
}

const char *ipu__parse_keep(ipu__parser *p, ipu__slice slice)
{
    char *kept = ipu__arena_alloc(&p->arena, slice.n + 1);
    if (!kept) {
        ipu__parse_memory(p);
        return NULL;
    }
    memcpy(kept, slice.at, slice.n);
    kept[slice.n] = 0;
    return kept;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* The character that an escape stands for, and its length in the text; 0 if there is no such escape. */
static size_t unescape(const char *at, const char *end, char *out)
{
    static const char letters[][2] = {{'n', '\n'}, {'t', '\t'}, {'"', '"'}, {'\\', '\\'}};
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        if (at[1] != letters[i][0]) continue;
        *out = letters[i][1];
        return 2;
    }
    if (at[1] != 'x' || end - at < 4 || hex_digit(at[2]) < 0 || hex_digit(at[3]) < 0) return 0;
    *out = (char)(hex_digit(at[2]) * 16 + hex_digit(at[3]));
    return 4;
}

bool ipu__parse_quoted(ipu__parser *p, ipu__position at, ipu__slice quoted, const char **out)
{
    const char *from = quoted.at + 1, *end = quoted.at + quoted.n - 1;
    char       *to = ipu__arena_alloc(&p->arena, quoted.n);
    if (!to) return ipu__parse_memory(p);
    *out = to;
    while (from < end) {
        size_t n = 1;
        char   c = *from;
        if (c == '\\') n = unescape(from, end, &c);
        if (n == 0)
            return ipu__parse_fail(
                p, at, "expected an escape \\\" \\\\ \\n \\t \\x1f in the string, found '\\%c'", from[1]);
        if (c == 0) return ipu__parse_fail(p, at, "expected a string without a 0 byte in it");
        *to++ = c;
        from += n;
    }
    *to = 0;
    return true;
}

const char *ipu__parse_hint(ipu__parser *p, const ipu__map *map, const char *name)
{
    p->nearest = ipu__nearest_to(name);
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].key) ipu__nearest_try(&p->nearest, map->slots[i].key);
    return ipu__nearest_hint(&p->nearest);
}

bool ipu__parse_find(ipu__parser *p, ipu__position at, const ipu__map *map, const char *what,
                     ipu__slice label, uint32_t *out)
{
    const char *name = ipu__parse_string(p, label);
    if (!name) return false;
    if (ipu__map_find(map, name, out)) return true;
    return ipu__parse_fail(p, at, "no %s '%.200s' is declared above%s", what, name,
                           ipu__parse_hint(p, map, name));
}

bool ipu__parse_label(ipu__parser *p, ipu__position at, ipu__map *map, const char *what, ipu__slice label,
                      uint32_t id)
{
    const char *name = ipu__parse_keep(p, label);
    uint32_t    other;
    if (!name) return false;
    if (ipu__map_find(map, name, &other))
        return ipu__parse_fail(p, at, "there is a %s '%.200s' already: call this one '%.200s~%u'", what, name,
                               name, id);
    return ipu__map_set(map, name, id) || ipu__parse_memory(p);
}

const char *ipu__parse_name_of(ipu__parser *p, ipu__slice label, const char *name)
{
    if (name) return name;
    const char *tilde = memchr(label.at, '~', label.n);
    if (tilde) label.n = (size_t)(tilde - label.at);
    return ipu__parse_string(p, label);
}

/* ---- numbers ---- */

/* Returns true if nothing in particular was expected, so the text is right. */
static bool as_expected(ipu__parser *p, ipu__position at, const char *expected, ipu__slice found)
{
    int n = (int)(found.n < IPU__SHOWN ? found.n : IPU__SHOWN);
    return !expected || ipu__parse_fail(p, at, "expected %s, found '%.*s'", expected, n, found.at);
}

bool ipu__parse_int(ipu__parser *p, ipu__position at, ipu__slice text, int64_t *out)
{
    return as_expected(p, at, ipu__literal_parse(IPU_INT64, text.at, text.n, out), text);
}

bool ipu__parse_double(ipu__parser *p, ipu__position at, ipu__slice text, double *out)
{
    return as_expected(p, at, ipu__literal_parse(IPU_DOUBLE, text.at, text.n, out), text);
}

bool ipu__parse_value(ipu__parser *p, ipu__position at, ipu__slice text)
{
    if (!p->takes_values) return ipu__parse_no_state(p, at);
    size_t bytes = ipu_type_size(p->value_type);
    if (!ipu__reserve(&p->values, bytes)) return ipu__parse_memory(p);
    const char *expected = ipu__literal_parse(p->value_type, text.at, text.n, p->values.at + p->values.n);
    p->values.n += bytes;
    return as_expected(p, at, expected, text);
}

bool ipu__parse_at(ipu__parser *p, ipu__position at, const char *file, int64_t line, ipu__at *out)
{
    if (line < 0 || line > INT_MAX)
        return ipu__parse_fail(p, at, "expected a line number, found %lld", (long long)line);
    *out = (ipu__at){true, file, (int)line};
    return true;
}

bool ipu__parse_type(ipu__parser *p, ipu__position at, ipu__slice name, ipu_type *out)
{
    const char *text = ipu__parse_string(p, name);
    if (!text) return false;
    *out = ipu_type_find(text);
    if (*out != IPU_N_TYPES) return true;
#define X(constant, type, ctype) " " type
    return ipu__parse_fail(p, at, "expected a type, found '%.40s'; the types are" IPU_TYPE_LIST(X), text);
#undef X
}

bool ipu__parse_dims(ipu__parser *p, ipu__position at)
{
    if (p->ints.n > IPU_MAX_RANK)
        return ipu__parse_fail(p, at, "expected at most %d dimensions, found %zu", IPU_MAX_RANK, p->ints.n);
    p->shape = (ipu_shape){.rank = (int)p->ints.n};
    memcpy(p->shape.dim, p->ints.at, p->ints.n * sizeof *p->ints.at);
    int64_t n;
    if (ipu__shape_count(&p->shape, &n)) return true;
    return ipu__parse_fail(p, at,
                           "expected a shape of at most 2^47 elements and no negative dimension, found %s",
                           ipu__shape_str(&p->shape));
}

/* ---- the lexer ---- */

void ipu__parse_advance(ipu__parser *p, ipu__position *at, const char *text, size_t n)
{
    *at      = p->where;
    p->token = (ipu__slice){text, n};
    for (size_t i = 0; i < n; i++) {
        p->where.column++;
        if (text[i] == '\n') p->where = (ipu__position){p->where.line + 1, 1};
    }
}

void *ipu__parse_lexer_alloc(ipu__parser *p, size_t bytes)
{
    size_t size = (bytes + 15) / 16 * 16;
    if (size > sizeof p->lexer_memory - p->lexer_used) return NULL;
    p->lexer_used += size;
    return p->lexer_memory + p->lexer_used - size;
}

/* ---- the driver ---- */

void ipu__parser_fini(ipu__parser *p)
{
    ipu__arena_fini(&p->arena);
    ipu__side_fini(&p->side);
    ipu__map_fini(&p->variables);
    ipu__map_fini(&p->compute_sets);
    ipu__map_fini(&p->functions);
    ipu__view_builder_fini(&p->pieces);
    ipu__array_fini(&p->scratch);
    ipu__array_fini(&p->values);
    ipu__array_fini(&p->ints);
    ipu__array_fini(&p->tensors);
    ipu__array_fini(&p->places);
    ipu__array_fini(&p->fields);
    ipu__array_fini(&p->attributes);
    ipu__array_fini(&p->blocks);
    ipu__array_fini(&p->cases);
    ipu__array_fini(&p->programs);
}

/* flex requires two 0 bytes after the text. */
static ipu_status parse_copy(ipu__parser *p, const char *text, size_t bytes, ipu__grammar_fn grammar)
{
    char *buffer = ipu__alloc(bytes + 2);
    if (!buffer) return ipu__fail_memory();
    if (bytes) memcpy(buffer, text, bytes);
    buffer[bytes] = buffer[bytes + 1] = 0;
    /* Decimal points in numbers must not depend on the program's locale. */
    ipu_status status = IPU_OUT_OF_MEMORY;
    locale_t   c      = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c) {
        locale_t before = uselocale(c);
        status          = grammar(p, buffer, bytes + 2);
        uselocale(before);
        freelocale(c);
    } else {
        ipu__fail_memory();
    }
    ipu__free(buffer);
    return status;
}

ipu_status ipu__parse_text(ipu__parser *p, const char *text, size_t bytes, const char *side_file,
                           ipu__grammar_fn grammar)
{
    if (bytes > IPU__TEXT_BYTES) return ipu__fail(IPU_INVALID, "%s: the text is larger than 1 GiB", p->name);
    ipu__location before = ipu__here();
    ipu_status    status = IPU_OK;
    p->where             = (ipu__position){1, 1};
    if (side_file) {
        status       = ipu__side_read(&p->side, side_file);
        p->has_side  = true;
        p->side_left = p->side.n_bytes;
    }
    if (status == IPU_OK) status = parse_copy(p, text, bytes, grammar);
    ipu_here(before.file, before.line);
    return status;
}

/* ---- graphs ---- */

static ipu_status run_grammar(ipu__parser *p, char *buffer, size_t bytes)
{
    yyscan_t scanner;
    if (ipu__grammar_lex_init_extra(p, &scanner) != 0) return ipu__fail_memory();
    if (!ipu__grammar__scan_buffer(buffer, bytes, scanner)) return ipu__fail_memory();
    int result = ipu__grammar_parse(p, scanner);
    ipu__grammar_lex_destroy(scanner);
    if (result == 0 && !p->g) ipu__parse_fail(p, p->where, "expected a graph, found the end of the text");
    if (result != 0 && p->status == IPU_OK) ipu__parse_memory(p);
    return p->status;
}

static ipu_status hand_over(ipu__parser *p, ipu_parsed *out)
{
    ipu_program *programs = NULL;
    if (p->programs.n) {
        programs = ipu__arena_copy(&p->g->arena, p->programs.at, p->programs.n * sizeof *programs);
        if (!programs) return ipu__fail_memory();
    }
    *out = (ipu_parsed){p->g, programs, p->programs.n};
    return IPU_OK;
}

ipu_status ipu_graph_parse(const char *text, size_t bytes, const char *name,
                           const ipu_codelet *const *codelets, size_t n_codelets, const char *side_file,
                           ipu_parsed *out)
{
    *out               = (ipu_parsed){0};
    ipu__parser p      = {.name = name, .records = codelets, .n_records = n_codelets};
    ipu_status  status = ipu__parse_text(&p, text, bytes, side_file, run_grammar);
    if (status == IPU_OK) status = hand_over(&p, out);
    if (status != IPU_OK) ipu_graph_destroy(p.g);
    ipu__parser_fini(&p);
    return status;
}

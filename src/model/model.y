/* The grammar of models in the text form (docs/text-format.md). Actions build the model as they go, through
 * parse.h; keywords but `none` and `while` are also words, so that values may be called `index` or `state`.
 * requires: bison 3.8. */
%require "3.8"
%define api.pure full
%define api.prefix {ipu__model_grammar_}
%define api.token.prefix {T_}
%define api.value.type union
%define api.location.type {ipu__position}
%define parse.error custom
%define lr.type ielr
%define lr.default-reduction consistent
%locations
%parse-param {ipu__model_parser *p} {void *scanner}
%lex-param {ipu__model_parser *p} {void *scanner}

%code requires {
#include "model/parse.h"
}

%code {
#include "base/alloc.h"
#include "base/text.h"

int ipu__model_grammar_lex(IPU__MODEL_GRAMMAR_STYPE *value, ipu__position *at, ipu__model_parser *p, void *scanner);
static void ipu__model_grammar_error(const ipu__position *at, ipu__model_parser *p, void *scanner, const char *message);

#define YYMALLOC ipu__alloc
#define YYFREE ipu__free
/* Blocks nest IPU__MAX_DEPTH deep, each a handful of symbols; all lists are left-recursive. */
#define YYMAXDEPTH 10000
#define YYLLOC_DEFAULT(current, rhs, n) ((current) = (n) ? YYRHSLOC(rhs, 1) : YYRHSLOC(rhs, 0))

#define BASE (&p->base)
#define TRY(call)                \
    do {                         \
        if (!(call)) YYABORT;    \
    } while (0)
#define PUSH(list, ...)                                                       \
    do {                                                                      \
        if (!ipu__push(&(list), __VA_ARGS__)) TRY(ipu__parse_memory(BASE));   \
    } while (0)
#define NO_LABEL ((ipu__slice){NULL, 0})
}

%token END 0 "the end of the text"
%token <ipu__slice> IDENT "a name" LABEL "a label" INT "an integer" FLOAT "a number" BOOL "true or false"
%token <const char *> STRING "a string"
%token ARROW "'->'"
%token <ipu__slice>
    MODEL "model" SEED "seed" KEYS "keys" KEY "key" INPUT "input" PARAMETER "parameter" STATE "state"
    CONSTANT "constant" HASH "hash" NONE "none" RECOMPUTE "recompute" IF "if" ELSE "else" LOOP "loop"
    INDEX "index" WHILE "while" YIELD "yield" OUTPUT "output" UPDATE "update" STAGE "stage"
    BACKWARD "backward" AT "at"

%type <ipu__slice> word reserved ref number
%type <const char *> name
%type <ipu__declared> declared
%type <int64_t> int seed keys key
%type <ipu_type> type
%type <ipu__at> at
%type <bool> kept index backward
%type <ipu_value> value first go_on
%type <ipu_attribute> attribute_value

%%

text: sections;
sections: %empty | sections model;

model: MODEL seed keys '{' { TRY(ipu__parse_model(p, @1, $2, $3)); } statements '}';

seed: %empty { $$ = -1; } | SEED int { $$ = $2; };
keys: %empty { $$ = -1; } | KEYS int { $$ = $2; };

statements: %empty | statements statement;

statement: INPUT one type dims at ';' { TRY(ipu__parse_input(p, @1, $3, $5)); }
    | kept one type dims { ipu__parse_expect_values(BASE, $3); } initial at ';'
        { TRY(ipu__parse_kept(p, @1, $1, $3, $7)); }
    | CONSTANT one type dims '=' { ipu__parse_expect_values(BASE, $3); } data at ';'
        { TRY(ipu__parse_model_constant(p, @1, $3, $8)); }
    | declared_list '=' name '(' inputs ')' attributes at ';' { TRY(ipu__parse_op(p, @1, $3, 0, $8)); }
    | declared_list '=' name '(' inputs ')' attributes RECOMPUTE int at ';'
        { TRY(ipu__parse_op(p, @1, $3, $9, $10)); }
    | IF value at '{' { TRY(ipu__parse_if(p, @1, $2, $3)); } block '}' ELSE '{' { TRY(ipu__parse_else(p, @8)); }
        block '}' results ';' { TRY(ipu__parse_results(p, @1)); }
    | LOOP int '(' carried ')' index first at '{' { TRY(ipu__parse_for(p, @1, $2, $6, $7, $8)); }
        block '}' results ';' { TRY(ipu__parse_results(p, @1)); }
    | OUTPUT name '=' value at ';' { TRY(ipu__parse_output(p, @1, $2, $4, $5)); }
    | UPDATE value '=' value ';' { TRY(ipu__parse_update(p, @1, $2, $4)); }
    | STAGE STRING backward ';' { TRY(ipu__parse_stage(p, @1, $2, $3)); }
    | STAGE NONE ';' { TRY(ipu__parse_stage(p, @1, NULL, false)); };

backward: %empty { $$ = false; } | BACKWARD { $$ = true; };

/* ---- what goes in, stays and is constant ---- */

kept: PARAMETER { $$ = true; } | STATE { $$ = false; };

initial: %empty { p->initial_form = IPU__INITIAL_NONE; }
    | '=' data { p->initial_form = IPU__INITIAL_DATA; }
    | '=' IDENT '(' numbers ')' key { TRY(ipu__parse_initial(p, @2, $2, $6)); };
key: %empty { $$ = -1; } | KEY int { $$ = $2; };
numbers: double_ | numbers ',' double_;
double_: number { double d; TRY(ipu__parse_double(BASE, @1, $1, &d)); PUSH(p->numbers, d); };

dims: %empty { BASE->shape = (ipu_shape){0}; } | '[' ints ']' { TRY(ipu__parse_dims(BASE, @1)); };

data: '{' '}' | '{' data_values '}' | HASH STRING { TRY(ipu__parse_hash(BASE, @2, $2)); };
data_values: data_value | data_values ',' data_value;
data_value: number { TRY(ipu__parse_value(BASE, @1, $1)); };
number: INT | FLOAT | BOOL;

/* ---- ops ---- */

inputs: %empty { p->values.n = 0; } | input_list;
input_list: first_input | input_list ',' input;
first_input: { p->values.n = 0; } input;
input: ref { TRY(ipu__parse_use(p, @1, $1)); } | NONE { TRY(ipu__parse_use(p, @1, NO_LABEL)); };

attributes: %empty { BASE->attributes.n = 0; } | attributes attribute;
attribute: name '=' attribute_value { $3.name = $1; PUSH(BASE->attributes, $3); };
attribute_value: int { $$ = IPU_INT_ATTRIBUTE(NULL, $1); }
    | FLOAT { $$ = IPU_FLOAT_ATTRIBUTE(NULL, 0); TRY(ipu__parse_double(BASE, @1, $1, &$$.f)); }
    | name { $$ = IPU_TEXT_ATTRIBUTE(NULL, $1); }
    | '[' ']' { $$ = (ipu_attribute){.kind = IPU_ATTRIBUTE_INTS}; }
    | '[' ints ']' { TRY(ipu__parse_ints(BASE, &$$)); };

/* ---- blocks ---- */

block: statements yield;

yield: YIELD yields go_on ';' { TRY(ipu__parse_yield(p, @1, $3)); };
yields: %empty { p->values.n = 0; } | yield_list;
yield_list: value { p->values.n = 0; PUSH(p->values, $1); } | yield_list ',' value { PUSH(p->values, $3); };
go_on: %empty { $$ = IPU_NO_VALUE; } | WHILE value { $$ = $2; };

results: %empty { p->declared.n = 0; } | ARROW declared_list;

carried: %empty { p->declared.n = 0; p->values.n = 0; } | carried_list;
carried_list: first_carried | carried_list ',' carry;
first_carried: { p->declared.n = 0; p->values.n = 0; } carry;
carry: declared '=' value { TRY(ipu__parse_declare(p, @1, $1)); PUSH(p->values, $3); };
index: %empty { $$ = false; } | INDEX declared { TRY(ipu__parse_declare(p, @2, $2)); $$ = true; };
first: %empty { $$ = IPU_NO_VALUE; } | IF value { $$ = $2; };

/* ---- small things ---- */

one: declared { p->declared.n = 0; TRY(ipu__parse_declare(p, @1, $1)); };
declared_list: one | declared_list ',' declared { TRY(ipu__parse_declare(p, @3, $3)); };
declared: ref { $$ = (ipu__declared){$1, NULL}; } | LABEL STRING { $$ = (ipu__declared){$1, $2}; };

value: ref { TRY(ipu__parse_ref(p, @1, $1, &$$)); };

at: %empty { $$ = (ipu__at){0}; } | AT STRING ':' int { TRY(ipu__parse_at(BASE, @4, $2, $4, &$$)); };

int: INT { TRY(ipu__parse_int(BASE, @1, $1, &$$)); };
ints: int { BASE->ints.n = 0; PUSH(BASE->ints, $1); } | ints ',' int { PUSH(BASE->ints, $3); };

type: IDENT { TRY(ipu__parse_type(BASE, @1, $1, &$$)); };
name: word { TRY($$ = ipu__parse_keep(BASE, $1)); } | reserved { TRY($$ = ipu__parse_keep(BASE, $1)); } | STRING;
reserved: NONE | WHILE;
ref: word | LABEL;

word: IDENT | MODEL | SEED | KEYS | KEY | INPUT | PARAMETER | STATE | CONSTANT | HASH | RECOMPUTE | IF | ELSE
    | LOOP | INDEX | YIELD | OUTPUT | UPDATE | STAGE | BACKWARD | AT;

%%

static bool is_word(yysymbol_kind_t kind) { return kind >= YYSYMBOL_MODEL && kind <= YYSYMBOL_AT; }

/* "expected 'a', 'b' or a name": where any word will do, the keywords are not listed. */
static void add_expected(ipu__text *out, const yysymbol_kind_t *expected, int n)
{
    bool any_word = false;
    int  left     = 0;
    for (int i = 0; i < n; i++) any_word |= expected[i] == YYSYMBOL_IDENT;
    for (int i = 0; i < n; i++) left += !(any_word && is_word(expected[i]));
    for (int i = 0, k = 0; i < n; i++) {
        if (any_word && is_word(expected[i])) continue;
        const char *quote = is_word(expected[i]) ? "'" : "";
        const char *comma = k == 0 ? "" : k + 1 < left ? ", " : " or ";
        ipu__text_add(out, "%s%s%s%s", comma, quote, yysymbol_name(expected[i]), quote);
        k++;
    }
}

static int yyreport_syntax_error(const yypcontext_t *context, ipu__model_parser *p, void *scanner)
{
    (void)scanner;
    enum { MOST = YYNTOKENS };
    yysymbol_kind_t expected[MOST];
    int             n    = yypcontext_expected_tokens(context, expected, MOST);
    ipu__slice      word = p->base.token;
    ipu__text       text = {0};
    add_expected(&text, expected, n > 0 ? n : 0);
    if (text.failed)
        ipu__parse_memory(BASE);
    else if (yypcontext_token(context) == YYSYMBOL_YYEOF)
        ipu__parse_fail(BASE, *yypcontext_location(context), "expected %s, found the end of the text", text.at);
    else
        ipu__parse_fail(BASE, *yypcontext_location(context), "expected %s, found '%.*s'", text.at,
                        (int)(word.n < IPU__SHOWN ? word.n : IPU__SHOWN), word.at);
    ipu__text_fini(&text);
    return 0;
}

/* Called when the parser's own stack cannot grow. */
static void ipu__model_grammar_error(const ipu__position *at, ipu__model_parser *p, void *scanner,
                                     const char *message)
{
    (void)at, (void)scanner, (void)message;
    ipu__parse_memory(BASE);
}

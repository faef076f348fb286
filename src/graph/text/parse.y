/* The grammar of the text form (docs/text-format.md). Actions build the graph as they go, through parse.h;
 * keywords are also words, so that objects may be called `in` or `copy`.
 * requires: bison 3.8. */
%require "3.8"
%define api.pure full
%define api.prefix {ipu__grammar_}
%define api.token.prefix {T_}
%define api.value.type union
%define api.location.type {ipu__position}
%define parse.error custom
%define lr.type ielr
%define lr.default-reduction consistent
%locations
%parse-param {ipu__parser *p} {void *scanner}
%lex-param {ipu__parser *p} {void *scanner}

%code requires {
#include "graph/text/parse.h"
}

%code {
#include "base/alloc.h"
#include "base/text.h"

int ipu__grammar_lex(IPU__GRAMMAR_STYPE *value, ipu__position *at, ipu__parser *p, void *scanner);
static void ipu__grammar_error(const ipu__position *at, ipu__parser *p, void *scanner, const char *message);

#define YYMALLOC ipu__alloc
#define YYFREE ipu__free
/* Blocks nest IPU__MAX_DEPTH deep, each a handful of symbols; all lists are left-recursive. */
#define YYMAXDEPTH 10000
#define YYLLOC_DEFAULT(current, rhs, n) ((current) = (n) ? YYRHSLOC(rhs, 1) : YYRHSLOC(rhs, 0))

#define TRY(call)                \
    do {                         \
        if (!(call)) YYABORT;    \
    } while (0)
#define HERE(at, where) ipu__parse_here(p, at, where)
#define BUILT(at) TRY(ipu__parse_built(p, at))
#define PUSH(list, ...)                                                        \
    do {                                                                       \
        if (!ipu__push(&p->list, __VA_ARGS__)) TRY(ipu__parse_memory(p));      \
    } while (0)
#define TOP ipu__parse_top(p)
#define NO_TENSOR ((ipu_tensor){p->g, 0})
#define NO_PROGRAM ((ipu_program){p->g, 0})
}

%token END 0 "the end of the text"
%token <ipu__slice> IDENT "a name" LABEL "a label" INT "an integer" FLOAT "a number" BOOL "true or false"
%token <const char *> STRING "a string"
%token ARROW "'->'" DOTS "'..'"
%token <ipu__slice>
    GRAPH "graph" TARGET "target" IPUS "ipus" TILES "tiles" REPLICATION "replication"
    CODELET "codelet" MULTI "multi" IN "in" OUT "out" INOUT "inout" STATE "state"
    VECTOR "vector" POINTER "pointer" VECTORS "vectors"
    VAR "var" CONST "const" REPLICATION_INDEX "replication_index" INIT "init" HASH "hash"
    STREAM "stream" REPLICATE "replicate" BROADCAST "broadcast" REMOTE "remote" ROWS "rows"
    HOST_WRITE "host_write" HOST_READ "host_read"
    COMPUTE_SET "compute_set" VERTEX "vertex" ON "on" CYCLES "cycles" AT "at" AS "as"
    FUNCTION "function" PROGRAM "program" START "start"
    EXECUTE "execute" KERNEL "kernel" COPY "copy" READ "read" WRITE "write"
    REMOTE_READ "remote_read" REMOTE_WRITE "remote_write"
    REPEAT "repeat" WHILE_TRUE "while_true" WHILE_FALSE "while_false" IF "if" ELSE "else"
    SWITCH "switch" CASE "case" DEFAULT "default" PARALLEL "parallel" BODY "body" SEQUENCE "sequence" CALL "call"
    SYNC "sync" INTERNAL "internal" EXTERNAL "external" GLOBAL "global"
    PRINT "print" ABORT_IF "abort_if" ERROR "error" WRITE_UNDEF "write_undef"
    ALL_REDUCE "all_reduce" ALL_REDUCE_WAIT "all_reduce_wait"
    CROSS_REPLICA_COPY "cross_replica_copy"

%type <ipu__slice> word ref number
%type <const char *> name
%type <ipu__declared> declared
%type <int64_t> int ipus tiles replication tile cycles
%type <ipu_type> type as
%type <ipu__at> at
%type <ipu_field_direction> direction
%type <ipu_field_shape> form
%type <ipu_stream_mode> mode
%type <ipu_sync_type> sync
%type <ipu__interval> window
%type <ipu_tensor> view rows
%type <ipu_program> block else default
%type <ipu_attribute> attribute_value

%%

text: sections;

/* One kind of section so far; models will be another. */
sections: %empty | sections section;

section: graph;

graph: GRAPH TARGET name ipus tiles replication '{'
         { TRY(ipu__parse_graph(p, @1, $3, $4, $5, $6)); }
       declarations '}';

ipus: %empty { $$ = -1; } | IPUS int { $$ = $2; };
tiles: %empty { $$ = -1; } | TILES int { $$ = $2; };
replication: %empty { $$ = -1; } | REPLICATION int { $$ = $2; };

declarations: %empty | declarations declaration;

declaration: codelet | variable | handle | compute_set
    | FUNCTION declared at block { TRY(ipu__parse_function(p, @1, $2, $4, $3)); }
    | START at block { HERE(@1, $2); ipu_graph_add_start(p->g, $3); BUILT(@1); }
    | PROGRAM at '{' { TRY(ipu__parse_open(p, @1, $2)); } steps '}' { PUSH(programs, ipu__parse_close(p)); };

/* ---- codelets ---- */

codelet: CODELET name at '{' fields '}' { TRY(ipu__parse_codelet(p, @1, $2, false, $3)); }
    | CODELET name MULTI at '{' fields '}' { TRY(ipu__parse_codelet(p, @1, $2, true, $4)); }
    | CODELET name at ';' { TRY(ipu__parse_known_codelet(p, @1, $2, $3)); };

fields: %empty | field_list;
field_list: field | field_list ',' field;
field: direction form type name { TRY(ipu__parse_field(p, @1, $1, $2, $3, $4)); };

direction: IN { $$ = IPU_DIRECTION_IN; } | OUT { $$ = IPU_DIRECTION_OUT; }
    | INOUT { $$ = IPU_DIRECTION_INOUT; } | STATE { $$ = IPU_DIRECTION_STATE; };

form: %empty { $$ = IPU_FIELD_SHAPE_SCALAR; } | VECTOR { $$ = IPU_FIELD_SHAPE_VECTOR; }
    | POINTER { $$ = IPU_FIELD_SHAPE_POINTER; } | VECTORS { $$ = IPU_FIELD_SHAPE_VECTORS; };

/* ---- variables, constants, initial values ---- */

variable: VAR declared type dims on at ';' { TRY(ipu__parse_variable(p, @1, $2, $3, $6)); }
    | CONST declared type dims '=' { ipu__parse_expect_values(p, $3); } data on at ';'
        { TRY(ipu__parse_constant(p, @1, $2, $3, $9)); }
    | REPLICATION_INDEX declared on at ';' { TRY(ipu__parse_replication_index(p, @1, $2, $4)); }
    | INIT view '=' { ipu__parse_expect_values(p, ipu_tensor_type($2)); } data at ';'
        { TRY(ipu__parse_initial_value(p, @1, $2, $6)); };

declared: ref { $$ = (ipu__declared){$1, NULL}; } | ref STRING { $$ = (ipu__declared){$1, $2}; };

dims: %empty { p->shape = (ipu_shape){0}; } | extents;
extents: '[' ints ']' { TRY(ipu__parse_dims(p, @1)); };

on: %empty { p->places.n = 0; }
    | ON int { p->places.n = 0; TRY(ipu__parse_place(p, $2, -1, -1)); }
    | ON '{' { p->places.n = 0; } places '}';
places: place | places ',' place;
place: int ':' int DOTS int { TRY(ipu__parse_place(p, $1, $3, $5)); };

data: '{' '}' | '{' values '}' | HASH STRING { TRY(ipu__parse_hash(p, @2, $2)); };
values: value | values ',' value;
value: number { TRY(ipu__parse_value(p, @1, $1)); };
number: INT | FLOAT | BOOL;

/* ---- streams, remote buffers, host handles ---- */

handle: STREAM IN STRING type int mode at ';'
        { HERE(@1, $7); ipu_graph_add_host_to_device(p->g, $3, $4, $5, $6); BUILT(@1); }
    | STREAM OUT STRING type int at ';'
        { HERE(@1, $6); ipu_graph_add_device_to_host(p->g, $3, $4, $5); BUILT(@1); }
    | REMOTE STRING type int ROWS int at ';'
        { HERE(@1, $7); ipu_graph_add_remote_buffer(p->g, $2, $3, $4, $6); BUILT(@1); }
    | HOST_WRITE STRING view at ';' { HERE(@1, $4); ipu_graph_add_host_write(p->g, $2, $3); BUILT(@1); }
    | HOST_READ STRING view at ';' { HERE(@1, $4); ipu_graph_add_host_read(p->g, $2, $3); BUILT(@1); };

mode: %empty { $$ = IPU_STREAM_REPLICATE; } | REPLICATE { $$ = IPU_STREAM_REPLICATE; }
    | BROADCAST { $$ = IPU_STREAM_BROADCAST; };

/* ---- compute sets ---- */

compute_set: COMPUTE_SET declared at '{' { TRY(ipu__parse_compute_set(p, @1, $2, $3)); } vertices '}';

vertices: %empty | vertices vertex;
vertex: VERTEX name tile cycles at '{' { TRY(ipu__parse_vertex(p, @1, $2, $3, $4, $5)); } links '}'
        { BUILT(@1); };
tile: %empty { $$ = -1; } | ON int { $$ = $2; };
cycles: %empty { $$ = 0; } | CYCLES int { TRY(ipu__parse_cycles(p, @2, $2)); $$ = $2; };

links: %empty | link_list;
link_list: link | link_list ',' link;
link: name '=' { TRY(ipu__parse_link(p, @1, $1)); } link_value;
link_value: view { TRY(ipu__parse_connect(p, @1, $1)); }
    | '[' views ']' { TRY(ipu__parse_connect_list(p, @1)); }
    | value { TRY(ipu__parse_state(p, @1, false)); }
    | '{' '}' { TRY(ipu__parse_state(p, @1, true)); }
    | '{' values '}' { TRY(ipu__parse_state(p, @1, true)); };

/* ---- views ---- */

views: %empty { p->tensors.n = 0; } | view_list;
view_list: view { p->tensors.n = 0; PUSH(tensors, $1); } | view_list ',' view { PUSH(tensors, $3); };

view: ref { TRY(ipu__parse_whole(p, @1, $1, &$$)); }
    | '{' '}' extents AS type { TRY(ipu__parse_view(p, @1, $5, &$$)); }
    | '{' pieces '}' dims as { TRY(ipu__parse_view(p, @1, $5, &$$)); };

as: %empty { $$ = IPU_N_TYPES; } | AS type { $$ = $2; };

pieces: piece | pieces ',' piece;
piece: ref '[' int ']' { p->piece.n_loops = 0; TRY(ipu__parse_piece(p, @1, $1, $3)); }
    | ref '[' int ':' int ']'
        { p->piece.n_loops = 0; TRY(ipu__parse_loop(p, @5, $5, 1)); TRY(ipu__parse_piece(p, @1, $1, $3)); }
    | ref '[' int ':' loops ']' { TRY(ipu__parse_piece(p, @1, $1, $3)); };
loops: int '*' int { p->piece.n_loops = 0; TRY(ipu__parse_loop(p, @1, $1, $3)); }
    | loops ',' int '*' int { TRY(ipu__parse_loop(p, @3, $3, $5)); };

/* ---- programs ---- */

block: '{' { TRY(ipu__parse_open(p, @1, (ipu__at){0})); } steps '}' { $$ = ipu__parse_close(p); };

steps: %empty | steps step { BUILT(@2); };

step: SEQUENCE at block { HERE(@1, $2); ipu_program_add(TOP, $3); }
    | EXECUTE ref at ';'
        { uint32_t id; TRY(ipu__parse_find(p, @2, &p->compute_sets, "compute set", $2, &id));
          HERE(@1, $3); ipu_program_add_execute(TOP, (ipu_compute_set){p->g, id}); }
    | KERNEL name '(' views ')' attributes window at ';'
        { HERE(@1, $8);
          ipu__program_add_kernel_on(TOP, $2, p->attributes.at, p->attributes.n, p->tensors.at, p->tensors.n,
                                     $7.begin, $7.end); }
    | COPY view ARROW view at ';' { HERE(@1, $5); ipu_program_add_copy(TOP, $2, $4); }
    | READ STRING ARROW view at ';'
        { ipu_stream s; TRY(ipu__parse_find_stream(p, @2, $2, &s));
          HERE(@1, $5); ipu_program_add_read(TOP, s, $4); }
    | WRITE view ARROW STRING at ';'
        { ipu_stream s; TRY(ipu__parse_find_stream(p, @4, $4, &s));
          HERE(@1, $5); ipu_program_add_write(TOP, $2, s); }
    | REMOTE_READ STRING rows ARROW view at ';'
        { ipu_remote_buffer r; TRY(ipu__parse_find_remote(p, @2, $2, &r));
          HERE(@1, $6); ipu_program_add_remote_read(TOP, r, $3, $5); }
    | REMOTE_WRITE view ARROW STRING rows at ';'
        { ipu_remote_buffer r; TRY(ipu__parse_find_remote(p, @4, $4, &r));
          HERE(@1, $6); ipu_program_add_remote_write(TOP, $2, r, $5); }
    | REPEAT int at block { HERE(@1, $3); ipu_program_add_repeat(TOP, $2, $4); }
    | WHILE_TRUE at block view block { HERE(@1, $2); ipu_program_add_while_true(TOP, $3, $4, $5); }
    | WHILE_FALSE at block view block { HERE(@1, $2); ipu_program_add_while_false(TOP, $3, $4, $5); }
    | IF view at block else { HERE(@1, $3); ipu_program_add_if(TOP, $2, $4, $5); }
    | SWITCH view at '{' <size_t>{ $$ = p->cases.n; } cases default '}'
        { size_t n = p->cases.n - $5;
          HERE(@1, $3);
          ipu_program_add_switch(TOP, $2, n ? p->cases.at + $5 : NULL, n, $7);
          p->cases.n = $5; }
    | PARALLEL at '{' <size_t>{ $$ = p->programs.n; } bodies '}'
        { size_t n = p->programs.n - $4;
          HERE(@1, $2);
          ipu_program_add_parallel(TOP, n ? p->programs.at + $4 : NULL, n);
          p->programs.n = $4; }
    | CALL ref at ';'
        { uint32_t id; TRY(ipu__parse_find(p, @2, &p->functions, "function", $2, &id));
          HERE(@1, $3); ipu_program_add_call(TOP, (ipu_function){p->g, id}); }
    | SYNC sync at ';' { HERE(@1, $3); ipu_program_add_sync(TOP, $2); }
    | PRINT STRING view at ';' { HERE(@1, $4); ipu_program_add_print(TOP, $2, $3); }
    | PRINT view at ';' { HERE(@1, $3); ipu_program_add_print(TOP, NULL, $2); }
    | ABORT_IF view STRING at ';' { HERE(@1, $4); ipu_program_add_abort_if(TOP, $2, $3); }
    | ERROR STRING at ';' { HERE(@1, $3); ipu_program_add_error(TOP, $2, NO_TENSOR); }
    | ERROR STRING view at ';' { HERE(@1, $4); ipu_program_add_error(TOP, $2, $3); }
    | WRITE_UNDEF view at ';' { HERE(@1, $3); ipu_program_add_write_undef(TOP, $2); }
    | ALL_REDUCE view at ';' { HERE(@1, $3); ipu_program_add_all_reduce(TOP, $2); }
    | ALL_REDUCE_WAIT at ';' { HERE(@1, $2); ipu_program_add_all_reduce_wait(TOP); }
    | CROSS_REPLICA_COPY view ARROW view '{' ints '}' at ';'
        { HERE(@1, $8); ipu_program_add_cross_replica_copy(TOP, $2, $4, p->ints.at, p->ints.n); };

rows: %empty { $$ = NO_TENSOR; } | ROWS view { $$ = $2; };
else: %empty { $$ = NO_PROGRAM; } | ELSE block { $$ = $2; };
default: %empty { $$ = NO_PROGRAM; } | DEFAULT block { $$ = $2; };
cases: %empty | cases CASE int block { PUSH(cases, (ipu_switch_case){$3, $4}); };
bodies: %empty | bodies BODY block { PUSH(programs, $3); };
sync: INTERNAL { $$ = IPU_SYNC_INTERNAL; }
    | EXTERNAL { $$ = IPU_SYNC_EXTERNAL; }
    | GLOBAL { $$ = IPU_SYNC_GLOBAL; };

window: %empty { $$ = (ipu__interval){.end = p->g->n_tiles}; }
    | ON int DOTS int { $$ = (ipu__interval){.begin = $2, .end = $4}; };

attributes: %empty { p->attributes.n = 0; } | '{' { p->attributes.n = 0; } attribute_list '}';
attribute_list: attribute | attribute_list ',' attribute;
attribute: name '=' attribute_value { $3.name = $1; PUSH(attributes, $3); };
attribute_value: int { $$ = IPU_INT_ATTRIBUTE(NULL, $1); }
    | FLOAT { $$ = IPU_FLOAT_ATTRIBUTE(NULL, 0); TRY(ipu__parse_double(p, @1, $1, &$$.f)); }
    | STRING { $$ = IPU_TEXT_ATTRIBUTE(NULL, $1); }
    | '{' '}' { $$ = (ipu_attribute){.kind = IPU_ATTRIBUTE_INTS}; }
    | '{' ints '}' { TRY(ipu__parse_ints(p, &$$)); };

/* ---- small things ---- */

at: %empty { $$ = (ipu__at){0}; } | AT STRING ':' int { TRY(ipu__parse_at(p, @4, $2, $4, &$$)); };

int: INT { TRY(ipu__parse_int(p, @1, $1, &$$)); };
ints: int { p->ints.n = 0; PUSH(ints, $1); } | ints ',' int { PUSH(ints, $3); };

type: IDENT { TRY(ipu__parse_type(p, @1, $1, &$$)); };
name: word { TRY($$ = ipu__parse_keep(p, $1)); } | STRING;
ref: word | LABEL;

word: IDENT | GRAPH | TARGET | IPUS | TILES | REPLICATION | CODELET | MULTI | IN | OUT | INOUT | STATE
    | VECTOR | POINTER | VECTORS | VAR | CONST | REPLICATION_INDEX | INIT | HASH | STREAM | REPLICATE
    | BROADCAST | REMOTE | ROWS | HOST_WRITE | HOST_READ | COMPUTE_SET | VERTEX | ON | CYCLES | AT | AS
    | FUNCTION | PROGRAM | START | EXECUTE | KERNEL | COPY | READ | WRITE | REMOTE_READ | REMOTE_WRITE | REPEAT | WHILE_TRUE
    | WHILE_FALSE | IF | ELSE | SWITCH | CASE | DEFAULT | PARALLEL | BODY | SEQUENCE | CALL | SYNC | INTERNAL | EXTERNAL
    | GLOBAL | PRINT | ABORT_IF | ERROR | WRITE_UNDEF | ALL_REDUCE | ALL_REDUCE_WAIT | CROSS_REPLICA_COPY;

%%

static bool is_word(yysymbol_kind_t kind)
{
    return kind >= YYSYMBOL_GRAPH && kind <= YYSYMBOL_CROSS_REPLICA_COPY;
}

/* "expected 'a', 'b' or a name": keywords are not listed where any word will do. */
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

static int yyreport_syntax_error(const yypcontext_t *context, ipu__parser *p, void *scanner)
{
    (void)scanner;
    enum { MOST = YYNTOKENS };
    yysymbol_kind_t expected[MOST];
    int             n    = yypcontext_expected_tokens(context, expected, MOST);
    ipu__text       text = {0};
    add_expected(&text, expected, n > 0 ? n : 0);
    if (text.failed)
        ipu__parse_memory(p);
    else if (yypcontext_token(context) == YYSYMBOL_YYEOF)
        ipu__parse_fail(p, *yypcontext_location(context), "expected %s, found the end of the text", text.at);
    else
        ipu__parse_fail(p, *yypcontext_location(context), "expected %s, found '%.*s'", text.at,
                        (int)(p->token.n < IPU__SHOWN ? p->token.n : IPU__SHOWN), p->token.at);
    ipu__text_fini(&text);
    return 0;
}

/* Called when the parser's own stack cannot grow. */
static void ipu__grammar_error(const ipu__position *at, ipu__parser *p, void *scanner, const char *message)
{
    (void)at, (void)scanner, (void)message;
    ipu__parse_memory(p);
}

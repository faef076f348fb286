/* einsum against loops over all indices, and rejected equations. */
#include "op/graph_test.h"

#include "ipu/ipu.h"

enum { MOST = 3, N = 128 };

/* Terms "ij", extents by letter: the sum of products, one index after another. */
typedef struct naive {
    int           n;
    const char   *in[MOST], *out;
    const double *x[MOST];
    int64_t       extent[N], index[N];
} naive;

static int64_t place(const naive *s, const char *term)
{
    int64_t at = 0;
    for (const char *p = term; *p; p++) at = at * s->extent[(int)*p] + s->index[(int)*p];
    return at;
}

static void visit(naive *s, int letter, double *out)
{
    while (letter < N && s->extent[letter] < 0) letter++;
    if (letter == N) {
        double p = 1;
        for (int i = 0; i < s->n; i++) p *= s->x[i][place(s, s->in[i])];
        out[place(s, s->out)] += p;
        return;
    }
    for (s->index[letter] = 0; s->index[letter] < s->extent[letter]; s->index[letter]++)
        visit(s, letter + 1, out);
}

static void check(const char *equation, int n, const char *a, const char *c, const char *d, const char *out)
{
    static double data[MOST][256];
    double        expected[256] = {0};
    naive         s             = {.n = n, .in = {a, c, d}, .out = out, .x = {data[0], data[1], data[2]}};
    graph_bench   t             = graph_start();
    ipu_value     v[MOST];
    int64_t       n_out = 1;
    for (int l = 0; l < N; l++) s.extent[l] = -1;
    for (int i = 0; i < n; i++) {
        ipu_shape shape = {.rank = 0};
        for (const char *p = s.in[i]; *p; p++)
            shape.dim[shape.rank++] = s.extent[(int)*p] = 2 + *p % 3; /* a: 3, b: 4, c: 2 ... */
        for (int k = 0; k < 256; k++) data[i][k] = (k * 7 + i * 3) % 11 - 5;
        v[i] = graph_floats(&t, shape, data[i]);
    }
    for (const char *p = out; *p; p++) n_out *= s.extent[(int)*p];
    visit(&s, 0, expected);
    graph_expect(&t, ipu_einsum(t.b, equation, v, (size_t)n), expected, n_out);
}

static void sums_are_those_of_loops(void **unused)
{
    (void)unused;
    check("ab,bc->ac", 2, "ab", "bc", "", "ac");
    check("ab , bc", 2, "ab", "bc", "", "ac");
    check("ba,ca->bc", 2, "ba", "ca", "", "bc");
    check("ab,cb->ca", 2, "ab", "cb", "", "ca");
    check("ba,bc->ac", 2, "ba", "bc", "", "ac");
    check("bac,bad->bcd", 2, "bac", "bad", "", "bcd");
    check("abc,dcb->da", 2, "abc", "dcb", "", "da");
    check("aab->ba", 1, "aab", "", "", "ba");
    check("aa", 1, "aa", "", "", "");
    check("aaa->a", 1, "aaa", "", "", "a");
    check("abb,b->a", 2, "abb", "b", "", "a");
    check("ba->ab", 1, "ba", "", "", "ab");
    check("ba", 1, "ba", "", "", "ab");
    check("a,b,c->cab", 3, "a", "b", "c", "cab");
    check("ab,bc,cd->ad", 3, "ab", "bc", "cd", "ad");
    check("ab,ab,ab->", 3, "ab", "ab", "ab", "");
    check("ab,c->a", 2, "ab", "c", "", "a");
    check("...a,...a->...", 2, "cba", "cba", "", "cb");
    check("a...,a->...", 2, "abc", "a", "", "bc");
    check("...ab,...bc", 2, "dab", "dbc", "", "dac");
    check("Ba", 1, "Ba", "", "", "Ba");
}

static void an_equation_that_cannot_be_is_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *equation, *words;
    } cases[] = {{"ij,jk->ik", "must be equal, or 1"}, {"ij", "more operands than terms"},
                 {"ijk,kj", "as many letters"},        {"i.j,kj", "expected letters"},
                 {"ij,ij->k", "in no operand"},        {"ij,ij->ii", "twice in the output"},
                 {"ii,kl", "of one operand"},          {"......ij,kj", "expected letters"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const double zeros[6];
        graph_bench         t = graph_start();
        ipu_value v[] = {graph_floats(&t, IPU_SHAPE(2, 3), zeros), graph_floats(&t, IPU_SHAPE(2, 3), zeros)};
        graph_refused(&t, ipu_einsum(t.b, cases[i].equation, v, 2), cases[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_loops),
        cmocka_unit_test(an_equation_that_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

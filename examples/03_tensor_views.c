/* 03: tensors are views.
 *
 * Teaches that a tensor is an ordered selection of elements of variables: slicing, reshaping,
 * transposing, repeating and joining make new selections of the same elements, cost nothing
 * when the program runs, and may be read, written and mapped like any other tensor.
 *
 * Expect: expected/03_tensor_views.expected. The matrix m is 0..11 in three rows of four.
 */
#include <string.h>

#include "example.h"

enum { ROWS = 3, COLUMNS = 4, MOST = ROWS * COLUMNS };

typedef struct line {
    const char *what;
    ipu_tensor  view;
    int32_t     expected[MOST];
} line;

/* What the view is, its shape, whether it is one run of neighbours or repeats elements, its values. */
static void print_line(const line *l, const int32_t *value, size_t n)
{
    char        shape[32];
    ipu_shape   s    = ipu_tensor_shape(l->view);
    const char *kind = ipu_tensor_is_contiguous(l->view)    ? "a run"
                     : ipu_tensor_contains_aliases(l->view) ? "repeats"
                                                            : "";
    ipu_shape_text(&s, shape, sizeof shape);
    printf("%-20s %-8s %-8s", l->what, shape, kind);
    for (size_t i = 0; i < n; i++) printf(" %d", value[i]);
    puts(n == 0 ? " -" : "");
}

/* Copy every view to a variable of its own that the host can read, and compare. */
static void run(ipu_graph *g, const line *lines, int n_lines)
{
    ipu_program p = ipu_program_sequence(g);
    for (int i = 0; i < n_lines; i++) {
        ipu_tensor out = ipu_graph_clone(g, lines[i].view, lines[i].what);
        ipu_program_add_copy(p, lines[i].view, out);
        ipu_graph_add_host_read(g, lines[i].what, out);
    }
    ipu_engine *e = example_engine(g, p);
    CHECK(ipu_engine_run(e, 0));
    for (int i = 0; i < n_lines; i++) {
        int32_t value[MOST];
        size_t  n = (size_t)ipu_tensor_n_elements(lines[i].view);
        CHECK(ipu_engine_read(e, lines[i].what, value, n * sizeof *value));
        print_line(&lines[i], value, n);
        EXPECT(memcmp(value, lines[i].expected, n * sizeof *value) == 0);
    }
    ipu_engine_destroy(e);
}

/* A view of views: which elements of which variable, in which order. */
static void print_regions(const char *what, ipu_tensor t)
{
    ipu_region *region;
    size_t      n;
    CHECK(ipu_tensor_var_regions(t, &region, &n));
    printf("%-21s = %d run%s of m:", what, (int)n, n == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++) printf(" [%d:%d)", (int)region[i].begin, (int)region[i].end);
    putchar('\n');
    ipu_free(region);
}

int main(void)
{
    ipu_target target;
    ipu_graph *g;
    CHECK(ipu_target_find("gc200", 1, &target));
    CHECK(ipu_graph_create(&target, 1, &g));

    int32_t values[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = i;
    ipu_tensor m = ipu_graph_add_variable(g, IPU_INT32, IPU_SHAPE(ROWS, COLUMNS), "m");
    ipu_graph_set_initial_value(g, m, values);
    ipu_graph_map_linearly_by(g, m, 1, COLUMNS); /* a row on each of three tiles */

    ipu_tensor top    = ipu_tensor_index(m, 0);
    ipu_tensor bottom = ipu_tensor_index(m, 2);
    ipu_tensor middle = ipu_tensor_slice_all(m, (int64_t[]){1, 1}, (int64_t[]){3, 3});
    ipu_tensor ends   = ipu_tensor_subsample(ipu_tensor_subsample(m, 2, 0), 3, 1);
    ipu_tensor pairs  = ipu_tensor_reshape(m, IPU_SHAPE(ROWS, 2, -1));
    ipu_tensor rows   = ipu_tensor_broadcast(ipu_tensor_slice(m, 0, 1, 0), 3, 0);

    const line lines[] = {
        {"m", m, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
        {"top row", top, {0, 1, 2, 3}},
        {"column 2", ipu_tensor_slice(m, 2, 3, 1), {2, 6, 10}},
        {"element (2,3)", ipu_tensor_at(m, (int64_t[]){2, 3}, 2), {11}},
        {"middle of rows 1, 2", middle, {5, 6, 9, 10}},
        {"corners", ends, {0, 3, 8, 11}},
        {"flat", ipu_tensor_flatten(m), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
        {"transposed", ipu_tensor_transpose(m), {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}},
        {"mirrored", ipu_tensor_reverse(m, 1), {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8}},
        {"in pairs", pairs, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
        {"pairs, rolled", ipu_tensor_roll(pairs, 1, 0), {0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}},
        {"top row three times", rows, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}},
        {"top row, each twice", ipu_tensor_upsample(top, 2, 0), {0, 0, 1, 1, 2, 2, 3, 3}},
        {"bottom, then top", ipu_tensor_concat2(bottom, top, 0), {8, 9, 10, 11, 0, 1, 2, 3}},
        {"nothing", ipu_tensor_slice(m, 1, 1, 0), {0}},
    };
    run(g, lines, sizeof lines / sizeof lines[0]);

    putchar('\n');
    print_regions("the middle", middle);
    print_regions("the middle transposed", ipu_tensor_transpose(middle));
    print_regions("rows 1 and 2", ipu_tensor_slice(m, 1, 3, 0));

    ipu_graph_destroy(g);
    return 0;
}

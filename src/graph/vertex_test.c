/* Vertices: the image of their state, their links, and their order in a compute set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"

/* clang-format off */
#define MIXED(F)                     \
    F(STATE, int8_t, small)          \
    F(IN, float, x)                  \
    F(STATE, double, wide)           \
    F(STATE_VECTOR, uint16_t, table) \
    F(OUT_VECTORS, float, rows)      \
    F(STATE, bool, truth)            \
    F(STATE, ipu_half, half)
/* clang-format on */
IPU_VERTEX(Mixed, MIXED)
{
    return v->truth;
}

typedef struct bench {
    ipu_graph      *g;
    ipu_compute_set cs;
    ipu_tensor      x;
} bench;

static bench start(void)
{
    bench      b;
    ipu_target target;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &b.g), IPU_OK);
    ipu_graph_add_codelet(b.g, &Mixed);
    b.cs = ipu_graph_add_compute_set(b.g, "cs");
    b.x  = ipu_graph_add_variable(b.g, IPU_FLOAT, IPU_SHAPE(3, 4), "x");
    return b;
}

static void a_codelet_record_tells_the_struct_of_its_body(void **state)
{
    (void)state;
    const ipu_codelet_field *f = Mixed.fields();
    assert_string_equal(Mixed.name, "Mixed");
    assert_int_equal(Mixed.n_fields, 7);
    assert_int_equal(Mixed.bytes, sizeof(struct Mixed));
    assert_false(Mixed.multi);
    assert_string_equal(f[3].name, "table");
    assert_int_equal(f[3].form, IPU_FIELD_STATE_VECTOR);
    assert_int_equal(f[3].type, IPU_UINT16);
    assert_int_equal(f[3].offset, offsetof(struct Mixed, table));
    assert_int_equal(f[6].type, IPU_HALF);
}

static void codelets_are_known_by_name(void **state)
{
    (void)state;
    bench b = start();
    assert_true(ipu_graph_has_codelet(b.g, "Mixed"));
    assert_false(ipu_graph_has_codelet(b.g, "mixed"));
    ipu_graph_add_codelet(b.g, &Mixed);
    assert_int_equal(ipu_graph_status(b.g), IPU_OK);
    ipu_graph_destroy(b.g);
}

static void state_is_converted_and_copied_to_the_image(void **state)
{
    (void)state;
    bench      b       = start();
    ipu_vertex v       = ipu_graph_add_vertex(b.g, b.cs, "Mixed");
    uint16_t   table[] = {500, 600, 700};
    ipu_vertex_set(v, "small", -7);
    ipu_vertex_set(v, "wide", 0.1);
    ipu_vertex_set(v, "truth", 1);
    ipu_vertex_set(v, "half", 2.5);
    ipu_vertex_set_data(v, "table", table, 3);
    table[0] = 0;
    assert_int_equal(ipu_graph_status(b.g), IPU_OK);
    const ipu__vertex  *internal = &b.g->vertices.at[v.id];
    const struct Mixed *image    = b.g->states.at[internal->state];
    assert_int_equal(image->small, -7);
    assert_true(image->wide == 0.1);
    assert_true(image->truth);
    assert_int_equal(image->half.bits, ipu_half_from_float(2.5f).bits);
    assert_int_equal(image->table.size, 3);
    assert_int_equal(image->table.data[0], 500);
    assert_int_equal(image->table.data[2], 700);
    ipu_graph_destroy(b.g);
}

static void vertices_keep_their_order_in_each_compute_set(void **state)
{
    (void)state;
    bench           b     = start();
    ipu_compute_set other = ipu_graph_add_compute_set(b.g, "other");
    uint32_t        ids[6];
    for (int i = 0; i < 6; i++) ids[i] = ipu_graph_add_vertex(b.g, i % 2 ? other : b.cs, "Mixed").id;
    assert_int_equal(ipu_graph_n_vertices(b.g), 6);
    assert_int_equal(ipu_graph_n_compute_sets(b.g), 2);
    for (int set = 0; set < 2; set++) {
        const ipu__compute_set *cs = &b.g->compute_sets.at[set ? other.id : b.cs.id];
        uint32_t                at = cs->first;
        assert_int_equal(cs->n_vertices, 3);
        for (int i = set; i < 6; i += 2, at = b.g->vertices.at[at].next) assert_int_equal(at, ids[i]);
        assert_int_equal(at, 0);
        assert_int_equal(cs->last, ids[4 + set]);
    }
    ipu_graph_destroy(b.g);
}

/* The views of the list field "rows" (field 4). */
static const uint32_t *rows_of(const bench *b, ipu_vertex v)
{
    uint32_t link = b->g->links.at[b->g->vertices.at[v.id].links + 4];
    assert_true(link & IPU__LIST);
    return &b->g->lists.at[link & ~IPU__LIST];
}

static void a_matrix_is_connected_as_one_run_for_each_row(void **state)
{
    (void)state;
    bench      b = start();
    ipu_vertex v = ipu_graph_add_vertex(b.g, b.cs, "Mixed"), w = ipu_graph_add_vertex(b.g, b.cs, "Mixed");
    ipu_tensor list[3];
    ipu_vertex_connect(v, "rows", b.x);
    for (int64_t r = 0; r < 3; r++) list[r] = ipu_tensor_index(b.x, 2 - r);
    ipu_vertex_connect_list(w, "rows", list, 3);
    assert_int_equal(ipu_graph_status(b.g), IPU_OK);
    assert_int_equal(rows_of(&b, v)[0], 3);
    assert_int_equal(rows_of(&b, w)[0], 3);
    for (int64_t r = 0; r < 3; r++) {
        ipu_tensor row = {b.g, rows_of(&b, v)[1 + r]}, same = {b.g, rows_of(&b, w)[3 - r]};
        assert_true(ipu_tensor_equal(ipu_tensor_flatten(row), ipu_tensor_index(b.x, r)));
        assert_true(ipu_tensor_equal(ipu_tensor_flatten(same), ipu_tensor_index(b.x, r)));
    }
    ipu_graph_destroy(b.g);
}

static void a_window_places_vertices_on_tiles_of_the_root(void **state)
{
    (void)state;
    bench      b      = start();
    ipu_graph *window = ipu_graph_add_virtual(b.g, (int64_t[]){40, 7}, 2);
    ipu_vertex v = ipu_graph_add_vertex(window, b.cs, "Mixed"), w = ipu_graph_add_vertex(b.g, b.cs, "Mixed");
    ipu_graph_set_vertex_tile(window, v, 1);
    assert_int_equal(b.g->vertices.at[v.id].tile, 7);
    assert_int_equal(b.g->vertices.at[w.id].tile, IPU__NO_TILE);
    ipu_graph_destroy(b.g);
}

static void a_vertex_can_be_given_all_its_fields_at_once(void **state)
{
    (void)state;
    bench      b      = start();
    ipu_tensor list[] = {ipu_tensor_index(b.x, 0), ipu_tensor_index(b.x, 1)};
    int64_t    before = (int64_t)b.g->views.words.n;
    ipu_vertex v      = ipu_graph_add_vertex_with(
             b.g, b.cs, "Mixed", 5,
             IPU_FIELDS(IPU_VALUE("small", -7), IPU_TO_LIST("rows", list, 2),
                        IPU_TO("x", ipu_tensor_at(b.x, (int64_t[]){2, 3}, 2))));
    assert_int_equal(ipu_graph_status(b.g), IPU_OK);
    assert_true((int64_t)b.g->views.words.n > before);
    const ipu__vertex  *made  = &b.g->vertices.at[v.id];
    const struct Mixed *image = b.g->states.at[made->state];
    assert_int_equal(made->tile, 5);
    assert_int_equal(image->small, -7);
    assert_int_equal(b.g->links.at[made->links + 0], 1);
    assert_int_equal(ipu__view_get(&b.g->views, b.g->links.at[made->links + 1]).n_elements, 1);
    assert_int_equal(b.g->lists.at[b.g->links.at[made->links + 4] & ~IPU__LIST], 2);

    ipu_vertex wrong = ipu_graph_add_vertex_with(b.g, b.cs, "Mixed", 5, IPU_FIELDS(IPU_VALUE("smal", 1)));
    assert_int_equal(wrong.id, 0);
    assert_non_null(strstr(ipu_graph_message(b.g), "(did you mean \"small\"?)"));
    ipu_graph_destroy(b.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vertex_can_be_given_all_its_fields_at_once),
        cmocka_unit_test(a_codelet_record_tells_the_struct_of_its_body),
        cmocka_unit_test(codelets_are_known_by_name),
        cmocka_unit_test(state_is_converted_and_copied_to_the_image),
        cmocka_unit_test(vertices_keep_their_order_in_each_compute_set),
        cmocka_unit_test(a_matrix_is_connected_as_one_run_for_each_row),
        cmocka_unit_test(a_window_places_vertices_on_tiles_of_the_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

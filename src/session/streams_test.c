/* Batches of a run: how arrays divide into them, how many are given, and, through a graph that sends back what it gets,
 * where each goes: to replicas, folded or not, in groups, converted or lent, and back by the output mode. */
#include "session/streams.h"

#include <math.h>
#include <stdint.h>

#include "base/alloc.h"
#include "engine/engine.h"
#include "../../tests/support/machine.h"

/* ---- counts and shapes ---- */

static void batches_are_counted(void **state)
{
    (void)state;
    const struct {
        ipu__batches batches;
        int64_t      in, out;
    } rows[] = {
        {{1, 1, 1, IPU_OUTPUT_ALL, 0, false}, 1, 1},   {{6, 4, 1, IPU_OUTPUT_ALL, 0, false}, 24, 24},
        {{6, 4, 2, IPU_OUTPUT_ALL, 0, false}, 12, 24}, {{6, 4, 4, IPU_OUTPUT_EVERY_N, 3, false}, 6, 8},
        {{6, 4, 4, IPU_OUTPUT_FINAL, 0, false}, 6, 4}, {{6, 4, 1, IPU_OUTPUT_SUM, 0, false}, 24, 4},
        {{6, 4, 1, IPU_OUTPUT_MEAN, 0, false}, 24, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(ipu__batches_in(&rows[i].batches), rows[i].in);
        assert_int_equal(ipu__batches_out(&rows[i].batches), rows[i].out);
    }
}

static void arrays_divide_into_batches(void **state)
{
    (void)state;
    const ipu__batches two = {2, 2, 2, IPU_OUTPUT_ALL, 0, false}, one = {1, 2, 2, IPU_OUTPUT_ALL, 0, false};
    ipu_array          a = {.type = IPU_INT64, .shape = IPU_SHAPE(6, 5)};
    ipu__port          port;
    assert_int_equal(ipu__batches_port(&two, &a, "x", &port), IPU_OK);
    assert_int_equal(port.type, IPU_INT32);
    assert_true(port.shape.rank == 2 && port.shape.dim[0] == 3 && port.shape.dim[1] == 5);
    a.shape.dim[0] = 7;
    assert_int_equal(ipu__batches_port(&two, &a, "x", &port), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "\"x\" holds 7 samples"));
    assert_int_equal(ipu__batches_port(&one, &a, "x", &port), IPU_OK);
    a = (ipu_array){.type = IPU_DOUBLE, .shape = IPU_SCALAR};
    assert_int_equal(ipu__batches_port(&one, &a, "x", &port), IPU_OK);
    assert_true(port.type == IPU_FLOAT && port.shape.rank == 0);
    assert_int_equal(ipu__batches_port(&two, &a, "x", &port), IPU_INVALID); /* one for several */
}

static void expect_groups(ipu_grouping kind, int64_t size, const int64_t expected[4])
{
    int64_t found[4];
    assert_int_equal(ipu_replica_groups(kind, size, 4, found), IPU_OK);
    assert_memory_equal(found, expected, sizeof found);
}

static void replicas_are_put_into_groups(void **state)
{
    (void)state;
    int64_t unused[4];
    expect_groups(IPU_GROUPING_ALL, 0, (int64_t[]){0, 0, 0, 0});
    expect_groups(IPU_GROUPING_CONSECUTIVE, 2, (int64_t[]){0, 0, 1, 1});
    expect_groups(IPU_GROUPING_ORTHOGONAL, 2, (int64_t[]){0, 1, 0, 1});
    expect_groups(IPU_GROUPING_ORTHOGONAL, 1, (int64_t[]){0, 1, 2, 3});
    expect_groups(IPU_GROUPING_ORTHOGONAL, 4, (int64_t[]){0, 0, 0, 0});
    expect_groups(IPU_GROUPING_NONE, 0, (int64_t[]){0, 1, 2, 3});
    assert_int_equal(ipu_replica_groups(IPU_GROUPING_CONSECUTIVE, 3, 4, unused), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "divides the 4 replicas, found 3"));
    assert_int_equal(ipu_replica_groups(IPU_GROUPING_ORTHOGONAL, 0, 4, unused), IPU_INVALID);
    assert_int_equal(ipu_replica_groups((ipu_grouping)4, 1, 4, unused), IPU_INVALID);
}

/* ---- a graph that sends back what it gets ---- */

enum { WIDTH = 3 }; /* elements of a batch, which is no multiple of an alignment */

typedef struct echo {
    ipu__streams s;
    ipu_engine  *e;
} echo;

static bool sums_are_floats(ipu_type type) { return type == IPU_HALF || type == IPU_BFLOAT16; }

/* Reads "in:x", writes "out:y" where that is wanted; the host reads the last batch as "y", and "sum:y", which it writes itself. */
static ipu_engine *start(const ipu__streams *s, ipu_type type)
{
    int64_t         n    = s->n_folded * WIDTH;
    ipu_output_mode mode = s->batches.mode;
    ipu_graph      *g    = machine_graph(s->batches.replicas / s->n_folded);
    ipu_tensor      x    = machine_variable(g, type, IPU_SHAPE(n), "y");
    ipu_stream      in   = ipu_graph_add_host_to_device(g, "in:x", type, n, IPU_STREAM_REPLICATE);
    ipu_stream      out  = ipu_graph_add_device_to_host(g, "out:y", type, n);
    ipu_program     main = ipu_program_sequence(g), body = ipu_program_sequence(g);
    machine_variable(g, sums_are_floats(type) ? IPU_FLOAT : type, IPU_SHAPE(n), "sum:y");
    ipu_program_add_read(body, in, x);
    if (mode == IPU_OUTPUT_ALL || mode == IPU_OUTPUT_EVERY_N) ipu_program_add_write(body, x, out);
    ipu_program_add_repeat(main, s->batches.each, body);
    return machine_start(main);
}

/* On a device that has batches of type `type`, for arrays of type `given`. */
static void open_typed(echo *o, ipu__batches batches, int64_t n_folded, ipu_type type, ipu_type given)
{
    const ipu__port port = {type, IPU_SHAPE(WIDTH)};
    *o                   = (echo){.s = {.batches = batches, .n_folded = n_folded}};
    assert_ok(ipu__streams_add_input(&o->s, "x", &port, given, false));
    assert_ok(ipu__streams_add_output(&o->s, "y", &port, ipu__strdup("sum:y")));
    o->e = start(&o->s, type);
    assert_ok(ipu__streams_connect(&o->s, o->e));
}

/* For arrays like `a`. */
static void open_echo(echo *o, ipu__batches batches, int64_t n_folded, const ipu_array *a)
{
    ipu__port port;
    assert_ok(ipu__batches_port(&batches, a, "x", &port));
    assert_true(port.shape.rank == 1 && port.shape.dim[0] == WIDTH);
    open_typed(o, batches, n_folded, port.type, a->type);
}

static void run(echo *o, const ipu_array *in)
{
    assert_ok(ipu__streams_begin(&o->s, in));
    assert_ok(ipu_engine_run(o->e, 0));
    assert_ok(ipu__streams_read(&o->s));
}

static void close_echo(echo *o)
{
    ipu__streams_fini(&o->s);
    ipu_engine_destroy(o->e);
}

/* ---- arrays ---- */

static void put(const ipu_array *a, int64_t i, int value)
{
    switch (a->type) {
    case IPU_INT32: ((int32_t *)a->data)[i] = value; break;
    case IPU_INT64: ((int64_t *)a->data)[i] = value; break;
    case IPU_FLOAT: ((float *)a->data)[i] = (float)value; break;
    case IPU_DOUBLE: ((double *)a->data)[i] = value; break;
    case IPU_HALF: ((ipu_half *)a->data)[i] = ipu_half_from_float((float)value); break;
    case IPU_BFLOAT16: ((ipu_bfloat16 *)a->data)[i] = ipu_bfloat16_from_float((float)value); break;
    default: fail_msg("no numbers of type %s", ipu_type_name(a->type));
    }
}

/* `first`, `first` + 1, ... */
static ipu_array count_from(ipu_type type, int64_t n, int first)
{
    ipu_array a;
    assert_ok(ipu_array_create(type, IPU_SHAPE(n), &a));
    for (int64_t i = 0; i < n; i++) put(&a, i, first + (int)i);
    return a;
}

static void assert_counts_from(const ipu_array *a, int64_t n, int first)
{
    assert_int_equal(ipu_array_n_elements(a), n);
    for (int64_t i = 0; i < n; i++)
        if (ipu_array_value(a, i) != first + (double)i)
            fail_msg("element %d: %g, expected %d", (int)i, ipu_array_value(a, i), first + (int)i);
}

/* ---- which batch goes where ---- */

/* The batch of the input that becomes batch `given` of the output. */
static int64_t batch_of(const ipu__batches *b, int64_t given)
{
    int64_t out = given; /* of all that there are */
    if (b->mode == IPU_OUTPUT_EVERY_N) out = (given + 1) * b->period - 1;
    if (b->mode == IPU_OUTPUT_FINAL) out = (b->each - 1) * b->replicas + given;
    return out / b->replicas * (b->replicas / b->group_size) + out % b->replicas / b->group_size;
}

static void assert_batches_arrive(ipu__batches b, int64_t n_folded, ipu_type type)
{
    echo      o;
    ipu_array in = count_from(type, ipu__batches_in(&b) * WIDTH, 1);
    open_echo(&o, b, n_folded, &in);
    for (int k = 0; k < 2; k++) { /* each run from the beginning of its array */
        run(&o, &in);
        const ipu_array *out = &o.s.outputs.at[0].array;
        assert_int_equal(ipu_array_n_elements(out), ipu__batches_out(&b) * WIDTH);
        for (int64_t i = 0; i < ipu_array_n_elements(out); i++) {
            int64_t from = batch_of(&b, i / WIDTH) * WIDTH + i % WIDTH;
            if (ipu_array_value(out, i) != (double)from + 1)
                fail_msg("%s, element %d: %g, expected %d", ipu_type_name(type), (int)i,
                         ipu_array_value(out, i), (int)from + 1);
        }
        memset(out->data, 0, ipu_array_bytes(out));
    }
    close_echo(&o);
    ipu_array_free(&in);
}

static void batches_go_to_replicas_in_turn_and_come_back(void **state)
{
    (void)state;
    static const struct {
        ipu__batches batches;
        int64_t      n_folded;
    } rows[] = {
        {{3, 1, 1, IPU_OUTPUT_ALL, 0, false}, 1},     {{3, 2, 1, IPU_OUTPUT_ALL, 0, false}, 1},
        {{3, 2, 1, IPU_OUTPUT_ALL, 0, false}, 2},     {{2, 4, 2, IPU_OUTPUT_ALL, 0, false}, 1},
        {{2, 4, 2, IPU_OUTPUT_ALL, 0, false}, 4},     {{2, 4, 4, IPU_OUTPUT_ALL, 0, false}, 1},
        {{2, 4, 4, IPU_OUTPUT_ALL, 0, false}, 4},     {{6, 1, 1, IPU_OUTPUT_EVERY_N, 3, false}, 1},
        {{4, 2, 1, IPU_OUTPUT_EVERY_N, 4, false}, 1}, {{4, 2, 1, IPU_OUTPUT_EVERY_N, 4, false}, 2},
        {{3, 2, 1, IPU_OUTPUT_EVERY_N, 2, false}, 2}, {{4, 2, 2, IPU_OUTPUT_EVERY_N, 4, false}, 2},
        {{3, 2, 1, IPU_OUTPUT_FINAL, 0, false}, 1},   {{3, 2, 1, IPU_OUTPUT_FINAL, 0, false}, 2},
        {{4, 4, 2, IPU_OUTPUT_FINAL, 0, false}, 1},   {{4, 4, 2, IPU_OUTPUT_FINAL, 0, false}, 4},
    };
    static const ipu_type types[] = {IPU_INT32, IPU_INT64, IPU_FLOAT, IPU_DOUBLE, IPU_HALF, IPU_BFLOAT16};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            assert_batches_arrive(rows[i].batches, rows[i].n_folded, types[k]);
}

/* ---- types ---- */

static bool is_lent(const echo *o, int64_t replica)
{
    uint32_t id;
    assert_true(ipu__map_find(&o->e->exe->stream_names, "in:x", &id));
    const ipu__connection *c = &o->e->connections[id * o->e->replication + replica];
    assert_true(!c->lend != !c->fn);
    return c->lend != NULL;
}

static void what_has_the_type_of_the_device_is_lent(void **state)
{
    (void)state;
    const ipu__batches pair = {2, 2, 1, IPU_OUTPUT_ALL, 0, false};
    /* The same streams, given one after another what they have to convert and what they can lend. */
    static const struct {
        ipu_type type;
        bool     lent;
    } runs[] = {{IPU_DOUBLE, false}, {IPU_FLOAT, true},     {IPU_FLOAT, true},
                {IPU_DOUBLE, false}, {IPU_BFLOAT16, false}, {IPU_FLOAT, true}};
    for (int64_t n_folded = 1; n_folded <= 2; n_folded++) {
        echo      o;
        ipu_array in = count_from(runs[0].type, 4 * WIDTH, 0);
        open_echo(&o, pair, n_folded, &in);
        ipu_array_free(&in);
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            in = count_from(runs[i].type, 4 * WIDTH, 10 * (int)i);
            run(&o, &in);
            for (int64_t r = 0; r < 2 / n_folded; r++) assert_int_equal(is_lent(&o, r), runs[i].lent);
            assert_counts_from(&o.s.outputs.at[0].array, 4 * WIDTH, 10 * (int)i);
            ipu_array_free(&in);
        }
        close_echo(&o);
    }
}

/* The same batch for several replicas, next to each other in what the device reads. */
static void groups_of_replicas_are_not_lent_to(void **state)
{
    (void)state;
    const ipu__batches group = {2, 2, 2, IPU_OUTPUT_ALL, 0, false};
    ipu_array          in    = count_from(IPU_FLOAT, 2 * WIDTH, 1);
    for (int64_t n_folded = 1; n_folded <= 2; n_folded++) {
        echo o;
        open_echo(&o, group, n_folded, &in);
        assert_false(is_lent(&o, 0));
        close_echo(&o);
    }
    ipu_array_free(&in);
}

static void conversions_round_and_keep_signs(void **state)
{
    (void)state;
    const ipu__batches one       = {1, 1, 1, IPU_OUTPUT_ALL, 0, false};
    int64_t            ints[]    = {-1, INT32_MIN, INT32_MAX};
    double             doubles[] = {0.1, -1e300, 1e-300};
    ipu_array          a         = {.type = IPU_INT64, .shape = IPU_SHAPE(WIDTH), .data = ints};
    echo               o;
    open_echo(&o, one, 1, &a);
    run(&o, &a);
    assert_memory_equal(o.s.outputs.at[0].array.data, ((int32_t[]){-1, INT32_MIN, INT32_MAX}),
                        WIDTH * sizeof(int32_t));
    close_echo(&o);
    a = (ipu_array){.type = IPU_DOUBLE, .shape = IPU_SHAPE(WIDTH), .data = doubles};
    open_echo(&o, one, 1, &a);
    run(&o, &a);
    assert_memory_equal(o.s.outputs.at[0].array.data, ((float[]){0.1f, -INFINITY, 0}), WIDTH * sizeof(float));
    close_echo(&o);
}

/* ---- sums and means ---- */

static void assert_read(ipu_type type, ipu_output_mode mode, int64_t n_folded, const double expected[2])
{
    const ipu__batches b  = {3, 2, 1, mode, 0, false};
    ipu_array          in = count_from(type, 6 * WIDTH, 0);
    ipu_array          sum;
    echo               o;
    open_typed(&o, b, n_folded, type, type);
    assert_ok(ipu_array_create(sums_are_floats(type) ? IPU_FLOAT : type, IPU_SHAPE(n_folded * WIDTH), &sum));
    run(&o, &in);
    for (int64_t r = 0; r < 2 / n_folded; r++) { /* 7 for replica 0, 11 for replica 1 */
        for (int64_t i = 0; i < n_folded * WIDTH; i++) put(&sum, i, r + i / WIDTH == 0 ? 7 : 11);
        assert_ok(ipu_engine_write_replica(o.e, "sum:y", r, sum.data, ipu_array_bytes(&sum)));
    }
    assert_ok(ipu__streams_read(&o.s));
    const ipu_array *out = &o.s.outputs.at[0].array;
    assert_int_equal(out->type, type);
    assert_int_equal(ipu_array_n_elements(out), 2 * WIDTH);
    for (int64_t i = 0; i < 2 * WIDTH; i++)
        if (ipu_array_value(out, i) != expected[i / WIDTH])
            fail_msg("%s, element %d: %.9g, expected %.9g", ipu_type_name(type), (int)i,
                     ipu_array_value(out, i), expected[i / WIDTH]);
    ipu_array_free(&sum);
    ipu_array_free(&in);
    close_echo(&o);
}

static void sums_are_read_and_means_divided(void **state)
{
    (void)state;
    const float third[] = {7.0f / 3, 11.0f / 3};
    for (int64_t n_folded = 1; n_folded <= 2; n_folded++) {
        assert_read(IPU_INT32, IPU_OUTPUT_SUM, n_folded, (double[]){7, 11});
        assert_read(IPU_FLOAT, IPU_OUTPUT_SUM, n_folded, (double[]){7, 11});
        assert_read(IPU_INT32, IPU_OUTPUT_MEAN, n_folded, (double[]){2, 3});
        assert_read(IPU_FLOAT, IPU_OUTPUT_MEAN, n_folded, (double[]){(double)third[0], (double)third[1]});
        assert_read(IPU_HALF, IPU_OUTPUT_MEAN, n_folded,
                    (double[]){(double)ipu_half_to_float(ipu_half_from_float(third[0])),
                               (double)ipu_half_to_float(ipu_half_from_float(third[1]))});
        assert_read(IPU_BFLOAT16, IPU_OUTPUT_MEAN, n_folded,
                    (double[]){(double)ipu_bfloat16_to_float(ipu_bfloat16_from_float(third[0])),
                               (double)ipu_bfloat16_to_float(ipu_bfloat16_from_float(third[1]))});
    }
}

/* ---- memory of outputs ---- */

static void outputs_go_where_the_caller_says(void **state)
{
    (void)state;
    static const ipu_output_mode modes[] = {IPU_OUTPUT_ALL, IPU_OUTPUT_EVERY_N, IPU_OUTPUT_FINAL};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        const ipu__batches b    = {1, 2, 1, modes[i], 1, false};
        ipu_array          in   = count_from(IPU_INT32, 2 * WIDTH, 5);
        ipu_array          here = count_from(IPU_INT32, 2 * WIDTH, 100);
        echo               o;
        open_echo(&o, b, 1, &in);
        ipu_array *out = &o.s.outputs.at[0].array;
        void      *own = out->data;
        run(&o, &in);
        assert_counts_from(out, 2 * WIDTH, 5);
        memset(own, 0, ipu_array_bytes(out));
        out->data = here.data;
        run(&o, &in);
        assert_counts_from(&here, 2 * WIDTH, 5);
        out->data = own;
        assert_true(ipu_array_value(out, 0) == 0);
        out->data = here.data; /* which is not theirs to free */
        close_echo(&o);
        ipu_array_free(&in);
        ipu_array_free(&here);
    }
}

static void what_is_given_away_is_made_anew(void **state)
{
    (void)state;
    const ipu__batches b = {2, 1, 1, IPU_OUTPUT_ALL, 0, false};
    ipu_array first = count_from(IPU_INT32, 2 * WIDTH, 1), second = count_from(IPU_INT32, 2 * WIDTH, 50);
    ipu_array given[2];
    echo      o;
    open_echo(&o, b, 1, &first);
    run(&o, &first);
    ipu__streams_give(&o.s, 0, &given[0]);
    run(&o, &second);
    ipu__streams_give(&o.s, 0, &given[1]);
    close_echo(&o);
    assert_counts_from(&given[0], 2 * WIDTH, 1);
    assert_counts_from(&given[1], 2 * WIDTH, 50);
    for (int i = 0; i < 2; i++) ipu_array_free(&given[i]);
    ipu_array_free(&first);
    ipu_array_free(&second);
}

/* A scalar has no dimension that batches could lie along. */
static void outputs_of_several_batches_have_room_for_them(void **state)
{
    (void)state;
    const struct {
        ipu__batches batches;
        ipu_shape    port, expected;
    } rows[] = {{{3, 2, 1, IPU_OUTPUT_ALL, 0, false}, IPU_SHAPE(4, 5), IPU_SHAPE(24, 5)},
                {{3, 2, 1, IPU_OUTPUT_SUM, 0, false}, IPU_SHAPE(4, 5), IPU_SHAPE(8, 5)},
                {{3, 2, 1, IPU_OUTPUT_ALL, 0, false}, IPU_SCALAR, IPU_SHAPE(6)},
                {{3, 1, 1, IPU_OUTPUT_FINAL, 0, false}, IPU_SCALAR, IPU_SCALAR},
                {{3, 1, 1, IPU_OUTPUT_ALL, 0, false}, IPU_SHAPE(0, 5), IPU_SHAPE(0, 5)}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ipu__streams s = {.batches = rows[i].batches, .n_folded = 1};
        assert_ok(ipu__streams_add_output(&s, "y", &(ipu__port){IPU_FLOAT, rows[i].port}, ipu__strdup("")));
        const ipu_shape *found = &s.outputs.at[0].array.shape;
        assert_int_equal(found->rank, rows[i].expected.rank);
        for (int d = 0; d < found->rank; d++) assert_int_equal(found->dim[d], rows[i].expected.dim[d]);
        ipu__streams_fini(&s);
    }
}

/* ---- times ---- */

static void assert_noted(const ipu_executor_time *times, int64_t n)
{
    assert_non_null(times);
    for (int64_t i = 0; i < n; i++) assert_true(times[i].begin > 0 && times[i].end >= times[i].begin);
}

static void times_of_all_batches_are_noted(void **state)
{
    (void)state;
    static const ipu__batches all[]   = {{3, 2, 1, IPU_OUTPUT_ALL, 0, false},
                                         {4, 2, 1, IPU_OUTPUT_EVERY_N, 4, false},
                                         {3, 4, 2, IPU_OUTPUT_FINAL, 0, false}};
    static const ipu_type     types[] = {IPU_FLOAT, IPU_DOUBLE};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int64_t n_folded = 1; n_folded <= all[i].replicas; n_folded += all[i].replicas - 1)
            for (int k = 0; k < 2; k++) {
                echo      o;
                ipu_array in = count_from(types[k], ipu__batches_in(&all[i]) * WIDTH, 0);
                open_echo(&o, all[i], n_folded, &in);
                run(&o, &in);
                assert_null(o.s.inputs.at[0].times);
                o.s.keeps_times = true;
                run(&o, &in);
                assert_noted(o.s.inputs.at[0].times, ipu__batches_in(&all[i]));
                assert_noted(o.s.outputs.at[0].times, ipu__batches_out(&all[i]));
                o.s.keeps_times = false;
                run(&o, &in);
                assert_null(o.s.outputs.at[0].times);
                close_echo(&o);
                ipu_array_free(&in);
            }
}

/* ---- what fails ---- */

static void an_array_without_data_is_refused(void **state)
{
    (void)state;
    const ipu__batches b    = {1, 1, 1, IPU_OUTPUT_ALL, 0, false};
    ipu_array          in   = count_from(IPU_INT32, WIDTH, 1);
    ipu_array          none = in;
    echo               o;
    none.data = NULL;
    open_echo(&o, b, 1, &in);
    assert_status(ipu__streams_begin(&o.s, &none), IPU_INVALID);
    assert_says("input \"x\": the array has no data");
    run(&o, &in);
    assert_counts_from(&o.s.outputs.at[0].array, WIDTH, 1);
    close_echo(&o);
    ipu_array_free(&in);
}

static void an_engine_without_the_stream_is_not_connected_to(void **state)
{
    (void)state;
    const ipu__batches b    = {1, 1, 1, IPU_OUTPUT_ALL, 0, false};
    const ipu__port    port = {IPU_INT32, IPU_SHAPE(WIDTH)};
    ipu_array          in   = count_from(IPU_INT32, WIDTH, 1);
    echo               o;
    open_echo(&o, b, 1, &in);
    assert_ok(ipu__streams_add_input(&o.s, "z", &port, IPU_INT32, false));
    assert_status(ipu__streams_connect(&o.s, o.e), IPU_NOT_FOUND);
    assert_says("there is no stream \"in:z\"");
    assert_null(o.s.engine);
    close_echo(&o);
    ipu_array_free(&in);
}

static struct {
    long n, refuse, live;
} heap;

static void *failing_alloc(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes == 0) {
        heap.live -= ptr != NULL;
        free(ptr);
        return NULL;
    }
    if (++heap.n == heap.refuse) return NULL;
    void *p = realloc(ptr, new_bytes);
    if (p && !ptr) heap.live++;
    return p;
}

static ipu_status add_both(ipu__streams *s)
{
    const ipu__port port = {IPU_FLOAT, IPU_SHAPE(WIDTH)};
    IPU_TRY(ipu__streams_add_input(s, "x", &port, IPU_FLOAT, false));
    return ipu__streams_add_output(s, "y", &port, ipu__strdup("sum:y"));
}

static void memory_that_is_refused_is_told_and_none_is_lost(void **state)
{
    (void)state;
    ipu_status status = IPU_OUT_OF_MEMORY;
    ipu__alloc_set(failing_alloc, NULL);
    for (heap.refuse = 1; status != IPU_OK; heap.refuse++) {
        ipu__streams s = {.batches = {2, 1, 1, IPU_OUTPUT_ALL, 0, false}, .n_folded = 1};
        heap.n         = 0;
        status         = add_both(&s);
        assert_true(status == IPU_OK || status == IPU_OUT_OF_MEMORY);
        ipu__streams_fini(&s);
        assert_int_equal(heap.live, 0);
    }
    ipu__alloc_set(NULL, NULL);
    assert_true(heap.refuse > 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_counted),
        cmocka_unit_test(arrays_divide_into_batches),
        cmocka_unit_test(replicas_are_put_into_groups),
        cmocka_unit_test(batches_go_to_replicas_in_turn_and_come_back),
        cmocka_unit_test(what_has_the_type_of_the_device_is_lent),
        cmocka_unit_test(groups_of_replicas_are_not_lent_to),
        cmocka_unit_test(conversions_round_and_keep_signs),
        cmocka_unit_test(sums_are_read_and_means_divided),
        cmocka_unit_test(outputs_go_where_the_caller_says),
        cmocka_unit_test(what_is_given_away_is_made_anew),
        cmocka_unit_test(outputs_of_several_batches_have_room_for_them),
        cmocka_unit_test(times_of_all_batches_are_noted),
        cmocka_unit_test(an_array_without_data_is_refused),
        cmocka_unit_test(an_engine_without_the_stream_is_not_connected_to),
        cmocka_unit_test(memory_that_is_refused_is_told_and_none_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

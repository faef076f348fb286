/* Executables as files: a restored one runs as before, and anything altered is refused. Random programs are
 * put through files in tests/engine/random_programs_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/file/image.h"
#include "engine/file/validate.h"
#include "ipu/ipu.h"

enum { N = 4 };

#define SCALE(F) F(IN_VECTOR, float, x) F(OUT_VECTOR, float, y) F(STATE, float, k)
IPU_VERTEX(Scale, SCALE)
{
    for (size_t i = 0; i < v->y.size; i++) v->y.data[i] = v->k * v->x.data[i];
    return true;
}

static bool other_body(void *vertex, unsigned worker, unsigned n_workers)
{
    (void)vertex, (void)worker, (void)n_workers;
    return true;
}

static const ipu_codelet *const known[] = {&Scale};

static char box[64];

static const char *in_box(const char *name)
{
    static char path[2][256];
    static int  next;
    char       *out = path[next++ % 2];
    snprintf(out, sizeof path[0], "%s/%s", box, name);
    return out;
}

static int set_up(void **state)
{
    (void)state;
    snprintf(box, sizeof box, "/tmp/ipu-save-test-XXXXXX");
    if (!mkdtemp(box)) return -1;
    return setenv("IPU_CACHE_DIR", in_box("cache"), 1);
}

static int tear_down(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", box);
    return system(command);
}

static const char source[] =
    "#include <ipu/codelet.h>\n"
    "#define SCALE(F) F(IN_VECTOR, float, x) F(OUT_VECTOR, float, y) F(STATE, float, k)\n"
    "IPU_VERTEX(Scale, SCALE)\n"
    "{\n"
    "    for (size_t i = 0; i < v->y.size; i++) v->y.data[i] = 10 * v->k * v->x.data[i];\n"
    "    return true;\n"
    "}\n";

/* y = k * x, by a vertex whose input is gathered; then y += y by a kernel. */
static ipu_executable *compile(bool from_source)
{
    ipu_target      target;
    ipu_graph      *g;
    ipu_executable *exe;
    assert_int_equal(ipu_target_find("gc200", 1, &target), IPU_OK);
    assert_int_equal(ipu_graph_create(&target, 1, &g), IPU_OK);
    if (from_source)
        ipu_graph_add_codelet_source(g, "scale.c", source, NULL);
    else
        ipu_graph_add_codelet(g, &Scale);
    ipu_tensor x = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), "x"),
               y = ipu_graph_add_variable(g, IPU_FLOAT, IPU_SHAPE(N), "y");
    ipu_graph_set_tile_mapping(g, x, 0);
    ipu_graph_set_tile_mapping(g, y, 0);
    ipu_graph_add_host_write(g, "x", x);
    ipu_graph_add_host_read(g, "y", y);
    ipu_compute_set cs = ipu_graph_add_compute_set(g, "scale");
    ipu_vertex      v  = ipu_graph_add_vertex(g, cs, "Scale");
    ipu_graph_set_vertex_tile(g, v, 0);
    ipu_vertex_connect(v, "x", ipu_tensor_reverse(x, 0));
    ipu_vertex_connect(v, "y", y);
    ipu_vertex_set(v, "k", 3);
    ipu_program p = ipu_program_sequence(g);
    ipu_program_add_execute(p, cs);
    ipu_program_add_kernel(p, "add", NULL, 0, (ipu_tensor[]){y, y, y}, 3);
    assert_string_equal(ipu_graph_message(g), "");
    assert_int_equal(ipu_executable_compile(g, &p, 1, NULL, &exe), IPU_OK);
    ipu_graph_destroy(g);
    return exe;
}

static void *serialise(bool from_source, size_t *bytes)
{
    void           *data;
    ipu_executable *exe = compile(from_source);
    assert_int_equal(ipu_executable_serialise(exe, &data, bytes), IPU_OK);
    ipu_executable_release(exe);
    return data;
}

/* Runs and releases. */
static void check_result(ipu_executable *exe, float factor)
{
    ipu_engine *e;
    float       x[N] = {1, 2, 3, 4}, y[N];
    assert_int_equal(ipu_engine_create(exe, NULL, &e), IPU_OK);
    ipu_executable_release(exe);
    assert_int_equal(ipu_engine_write(e, "x", x, sizeof x), IPU_OK);
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_read(e, "y", y, sizeof y), IPU_OK);
    for (int i = 0; i < N; i++) assert_true(y[i] == factor * x[N - 1 - i]);
    ipu_engine_destroy(e);
}

static void seal(void *data, size_t bytes)
{
    ipu__hash128 hash = ipu__hash_bulk(data, bytes - sizeof hash);
    memcpy((char *)data + bytes - sizeof hash, hash.bytes, sizeof hash.bytes);
}

static void check_refused(const void *data, size_t bytes, const char *why)
{
    ipu_executable *exe = (void *)1;
    assert_int_equal(ipu_executable_deserialise(data, bytes, known, 1, NULL, &exe), IPU_INVALID);
    assert_null(exe);
    if (!strstr(ipu_message(), why)) fail_msg("expected \"%s\" in \"%s\"", why, ipu_message());
}

static void what_was_saved_runs(void **state)
{
    (void)state;
    ipu_executable *exe = compile(false), *loaded;
    assert_int_equal(ipu_executable_save(exe, in_box("a.ipuexe")), IPU_OK);
    check_result(exe, 6);
    assert_int_equal(ipu_executable_load(in_box("a.ipuexe"), known, 1, NULL, &loaded), IPU_OK);
    size_t bytes, again;
    void  *first = serialise(false, &bytes), *second;
    assert_int_equal(ipu_executable_serialise(loaded, &second, &again), IPU_OK);
    assert_int_equal(bytes, again);
    assert_memory_equal(first, second, bytes);
    ipu_free(first);
    ipu_free(second);
    check_result(loaded, 6);
}

static void cut_off_anywhere_is_refused(void **state)
{
    (void)state;
    size_t bytes;
    char  *data = serialise(false, &bytes);
    for (size_t n = 0; n < bytes; n++) {
        char *cut = malloc(n + !n); /* so that sanitizers detect reads beyond the end */
        assert_non_null(cut);
        memcpy(cut, data, n);
        check_refused(cut, n, n < sizeof(ipu__file_header) ? "shorter than a header" : "cut off");
        free(cut);
    }
    ipu_free(data);
}

static void every_flipped_byte_is_refused(void **state)
{
    (void)state;
    size_t bytes;
    char  *data = serialise(false, &bytes);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (char)(data[i] ^ 0x41);
        check_refused(data, bytes, "");
        data[i] = (char)(data[i] ^ 0x41);
    }
    ipu_free(data);
}

/* With a corrected hash: either an error or something valid as a whole; sanitizers watch. */
static void forged_bytes_do_no_harm(void **state)
{
    (void)state;
    static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
    size_t                     bytes, passed = 0;
    unsigned char             *data = serialise(false, &bytes);
    ipu_options               *options;
    assert_int_equal(ipu_options_create(&options), IPU_OK);
    assert_int_equal(ipu_options_set(options, "threads", "1"), IPU_OK);
    for (size_t i = 0; i + sizeof(ipu__hash128) < bytes; i++)
        for (size_t k = 0; k < sizeof values; k++) {
            unsigned char   before = data[i];
            ipu_executable *exe;
            data[i] = values[k];
            seal(data, bytes);
            if (ipu_executable_deserialise(data, bytes, known, 1, NULL, &exe) == IPU_OK) {
                ipu_engine *e;
                passed++;
                if (ipu_engine_create(exe, options, &e) == IPU_OK) {
                    (void)ipu_engine_run(e, 0);
                    ipu_engine_destroy(e);
                }
                ipu_executable_release(exe);
            }
            data[i] = before;
        }
    assert_true(passed > 0 && passed < (bytes - 16) * sizeof values);
    ipu_options_destroy(options);
    ipu_free(data);
}

static void other_formats_are_refused(void **state)
{
    (void)state;
    size_t            bytes;
    char             *data = serialise(false, &bytes);
    ipu__file_header *h = (void *)data, right = *h;
    char              why[64];
    snprintf(why, sizeof why, "found format %d (OpenIPU", IPU__FILE_FORMAT + 1);
    h->format++;
    check_refused(data, bytes, why);
    *h       = right;
    h->order = __builtin_bswap32(h->order);
    check_refused(data, bytes, "machines of another kind");
    *h               = right;
    h->pointer_bytes = 4;
    check_refused(data, bytes, "machines of another kind");
    *h = right;
    memcpy(h->magic, "\177ELF", 4);
    check_refused(data, bytes, "found something else");
    ipu_free(data);
    assert_int_equal(ipu_executable_load(in_box("none"), known, 1, NULL, &(ipu_executable *){0}), IPU_IO);
}

static void codelets_must_be_there_and_the_same(void **state)
{
    (void)state;
    size_t          bytes;
    void           *data = serialise(false, &bytes);
    ipu_executable *exe;
    assert_int_equal(ipu_executable_deserialise(data, bytes, NULL, 0, NULL, &exe), IPU_NOT_FOUND);
    assert_non_null(strstr(ipu_message(), "codelet \"Scale\", which is not among the 0 given"));
    ipu_codelet other                = Scale;
    other.n_fields                   = 2;
    const ipu_codelet *const fewer[] = {&other};
    assert_int_equal(ipu_executable_deserialise(data, bytes, fewer, 1, NULL, &exe), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "\"Scale\" is not the one"));
    other       = Scale;
    other.multi = true;
    assert_int_equal(ipu_executable_deserialise(data, bytes, fewer, 1, NULL, &exe), IPU_INVALID);
    other         = Scale;
    other.compute = other_body; /* a different body is fine */
    assert_int_equal(ipu_executable_deserialise(data, bytes, fewer, 1, NULL, &exe), IPU_OK);
    ipu_executable_release(exe);
    ipu_free(data);
}

static void source_travels_if_trusted(void **state)
{
    (void)state;
    ipu_executable *exe = compile(true), *loaded;
    ipu_options    *trust;
    size_t          bytes;
    void           *data = serialise(true, &bytes);
    assert_int_equal(ipu_options_create(&trust), IPU_OK);
    assert_int_equal(ipu_options_set(trust, "load.trust", "true"), IPU_OK);
    assert_int_equal(ipu_executable_save(exe, in_box("own")), IPU_OK);
    ipu_executable_release(exe);
    assert_int_equal(chmod(in_box("own"), 0644), 0);
    assert_int_equal(ipu_executable_load(in_box("own"), NULL, 0, NULL, &loaded), IPU_OK);
    check_result(loaded, 60);
    check_refused(data, bytes, "brings source code (\"scale.c\")"); /* from memory: of unknown ownership */
    assert_int_equal(ipu_executable_deserialise(data, bytes, NULL, 0, trust, &loaded), IPU_OK);
    check_result(loaded, 60);
    assert_int_equal(chmod(in_box("own"), 0664), 0);
    assert_int_equal(ipu_executable_load(in_box("own"), NULL, 0, NULL, &loaded), IPU_INVALID);
    assert_non_null(strstr(ipu_message(), "only you may write to"));
    assert_int_equal(chmod(in_box("own"), 0644), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(in_box("own"), 12345, 12345), 0);
        assert_int_equal(ipu_executable_load(in_box("own"), NULL, 0, NULL, &loaded), IPU_INVALID);
        assert_non_null(strstr(ipu_message(), "load.trust"));
        assert_int_equal(ipu_executable_load(in_box("own"), NULL, 0, trust, &loaded), IPU_OK);
        check_result(loaded, 60);
    }
    ipu_options_destroy(trust);
    ipu_free(data);
}

static int load_often(const char *path)
{
    for (int i = 0; i < 20; i++) {
        ipu_executable *exe;
        if (ipu_executable_load(path, known, 1, NULL, &exe) != IPU_OK) return 1;
        ipu_executable_release(exe);
    }
    return 0;
}

static void a_file_may_be_replaced_while_it_is_read(void **state)
{
    (void)state;
    enum { N_READERS = 16 };
    char            path[256];
    pid_t           readers[N_READERS];
    ipu_executable *exe = compile(false);
    snprintf(path, sizeof path, "%s", in_box("shared"));
    assert_int_equal(ipu_executable_save(exe, path), IPU_OK);
    for (int i = 0; i < N_READERS; i++) {
        readers[i] = fork();
        if (readers[i] == 0) _exit(load_often(path));
    }
    for (int i = 0; i < 20; i++) assert_int_equal(ipu_executable_save(exe, path), IPU_OK);
    for (int i = 0; i < N_READERS; i++) {
        int status = -1;
        assert_int_equal(waitpid(readers[i], &status, 0), readers[i]);
        assert_int_equal(status, 0);
    }
    ipu_executable_release(exe);
}

/* Each of these could be in a hostile file; the compiler's own output passes before and after. */
static void contradictions_are_found(void **state)
{
    (void)state;
    ipu_executable *exe = compile(false);
    assert_int_equal(ipu__executable_validate(exe), IPU_OK);
#define WRONG(member, value)                                          \
    do {                                                              \
        __typeof__(member) before = (member);                         \
        (member)                  = (value);                          \
        assert_int_equal(ipu__executable_validate(exe), IPU_INVALID); \
        (member) = before;                                            \
        assert_int_equal(ipu__executable_validate(exe), IPU_OK);      \
    } while (0)
    WRONG(exe->replication, 0);
    WRONG(exe->n_workers, 0);
    WRONG(exe->n_ipus, 0);
    WRONG(exe->chip, UINT32_MAX);
    WRONG(exe->tile_bytes, -2);
    WRONG(exe->variable_bytes, 8);
    WRONG(exe->gather_bytes, 8);
    WRONG(exe->n_counters, 1000);
    WRONG(exe->n_functions, 1);
    WRONG(exe->strings.at[exe->strings.n - 1], 'x');
    WRONG(exe->codelets.at[0].name, UINT32_MAX);
    WRONG(exe->codelets.at[0].bytes, 8);
    WRONG(exe->fields.at[0], 1);
    WRONG(exe->signatures.at[0].form, IPU_N_FIELD_FORMS);
    WRONG(exe->groups.at[0].codelet, 1);
    WRONG(exe->groups.at[0].n, 2);
    WRONG(exe->groups.at[0].records, exe->records.n);
    WRONG(exe->vertices.at[0].location, UINT32_MAX);
    WRONG(exe->vertices.at[0].number, 1);
    WRONG(exe->vertex_moves.at[0].end, UINT32_MAX);
    WRONG(*(uint64_t *)(void *)exe->records.at, ipu__place_make(IPU__SPACE_VARIABLE, 1 << 20));
    WRONG(*(uint64_t *)(void *)(exe->records.at + 8), UINT64_MAX);
    WRONG(exe->moves.at.at[0].to, ipu__place_make(IPU__SPACE_SPANS, 0));
    WRONG(exe->moves.at.at[0].to, ipu__place_make(IPU__SPACE_CONSTANT, 0));
    WRONG(exe->moves.at.at[0].unit, 0);
    WRONG(exe->moves.at.at[0].n_loops, UINT32_MAX);
    WRONG(exe->moves.loops.at[0].count, INT64_MAX);
    WRONG(exe->moves.loops.at[0].from, INT64_MIN);
    WRONG(exe->batches.at[0].n, UINT32_MAX);
    WRONG(exe->tensors.at[0].shape.rank, IPU_MAX_RANK + 1);
    WRONG(exe->tensors.at[0].bytes, 8);
    WRONG(exe->handles.at[0].is_write, !exe->handles.at[0].is_write);
    WRONG(exe->handles.at[0].tensor, UINT32_MAX);
    WRONG(exe->kernels.at[0].place[0], ipu__place_make(IPU__SPACE_VARIABLE, 4));
    WRONG(exe->kernels.at[0].call.operand[0].type, IPU_N_TYPES);
    WRONG(exe->kernels.at[0].gather, UINT32_MAX);
    WRONG(exe->code.at[0].op, IPU__CODE_RETURN);
    WRONG(exe->code.at[0].op, IPU__CODE_CALL);
    WRONG(exe->code.at[0].op, (ipu__opcode)99);
    WRONG(exe->code.at[0].a, UINT32_MAX);
    WRONG(exe->code.at[exe->code.n - 1].op, IPU__CODE_EXECUTE);
    WRONG(exe->programs.at[0].begin, 1);
    WRONG(exe->programs.at[0].n_streams, 1);
    WRONG(exe->programs.at[0].cycles, -2);
#undef WRONG
    ipu_executable_release(exe);
}

static void what_is_for_checking_stays_in_memory(void **state)
{
    (void)state;
    size_t bytes;
    void  *data;
    setenv("IPU_CHECK", "1", 1);
    ipu_executable *exe = compile(false);
    unsetenv("IPU_CHECK");
    assert_int_equal(ipu_executable_serialise(exe, &data, &bytes), IPU_UNSUPPORTED);
    assert_non_null(strstr(ipu_message(), "\"check\""));
    assert_int_equal(ipu_executable_save(exe, in_box("checked")), IPU_UNSUPPORTED);
    assert_int_not_equal(access(in_box("checked"), F_OK), 0);
    ipu_executable_release(exe);
}

static void a_loaded_executable_can_still_be_measured(void **state)
{
    (void)state;
    size_t         bytes, n;
    void          *data;
    ipu_engine    *e;
    ipu_step_time *times;
    setenv("IPU_ENGINE_OPTIONS", "{\"profile\": true}", 1);
    ipu_executable *exe = compile(false), *loaded;
    assert_int_equal(ipu_executable_serialise(exe, &data, &bytes), IPU_OK);
    assert_int_equal(ipu_executable_deserialise(data, bytes, known, 1, NULL, &loaded), IPU_OK);
    assert_int_equal(ipu_engine_create(loaded, NULL, &e), IPU_OK);
    unsetenv("IPU_ENGINE_OPTIONS");
    assert_int_equal(ipu_engine_run(e, 0), IPU_OK);
    assert_int_equal(ipu_engine_step_times(e, &times, &n), IPU_OK);
    assert_int_equal(n, 2);
    assert_int_equal(times[0].runs, 1);
    assert_int_equal(times[1].step, 1);
    ipu_free(times);
    ipu_free(data);
    ipu_engine_destroy(e);
    ipu_executable_release(exe);
    ipu_executable_release(loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_saved_runs),
        cmocka_unit_test(cut_off_anywhere_is_refused),
        cmocka_unit_test(every_flipped_byte_is_refused),
        cmocka_unit_test(forged_bytes_do_no_harm),
        cmocka_unit_test(other_formats_are_refused),
        cmocka_unit_test(codelets_must_be_there_and_the_same),
        cmocka_unit_test(source_travels_if_trusted),
        cmocka_unit_test(a_file_may_be_replaced_while_it_is_read),
        cmocka_unit_test(contradictions_are_found),
        cmocka_unit_test(what_is_for_checking_stays_in_memory),
        cmocka_unit_test(a_loaded_executable_can_still_be_measured),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

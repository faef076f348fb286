/* Sessions with a cache: what another process compiled is found again, and nothing else is taken for it. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "engine/executable.h"
#include "ipu/ipu.h"
#include "onnx/run_test.h"

static char box[] = "/tmp/ipu-session-cache-test-XXXXXX";
static char folder[64], warnings[4096];
static int  n_warnings;

static void note_warning(void *user, ipu_log_level level, const char *module, const char *text_of)
{
    (void)user, (void)level, (void)module;
    n_warnings++;
    snprintf(warnings, sizeof warnings, "%s", text_of);
}

static int make_box(void **state)
{
    (void)state;
    return mkdtemp(box) ? 0 : -1;
}

static int remove_box(void **state)
{
    free_pool(state);
    return rmdir(box);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/cache", box);
    ipu_log_set(IPU_LOG_WARN, note_warning, NULL);
    warnings[0] = 0;
    n_warnings  = 0;
    return unsetenv("IPU_CACHE_LIMIT") + unsetenv("IPU_CACHE_DIR") + unsetenv("POPTORCH_CACHE_DIR");
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'/*", box);
    return system(command);
}

/* Calls `f` with the path of each entry that ends so; how many there are. */
static int for_each(const char *ending, void (*f)(const char *path))
{
    int  n   = 0;
    DIR *dir = opendir(folder);
    if (!dir) return 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (!strstr(e->d_name, ending)) continue;
        n++;
        if (f) f(path);
    }
    closedir(dir);
    return n;
}

/* ---- a process is played by a file and a session of its own ---- */

typedef struct process {
    ipu_onnx         *file;
    ipu_onnx_session *s;
} process;

static process start(bytes b, const ipu_onnx_options *options)
{
    process          p;
    ipu_onnx_options own = options ? *options : (ipu_onnx_options){0};
    if (!own.cache_folder) own.cache_folder = folder;
    if (ipu_onnx_read(b.at, b.n, box, &p.file) != IPU_OK) fail_msg("%s", ipu_message());
    assert_int_equal(ipu_onnx_session_create(p.file, &own, &p.s), IPU_OK);
    return p;
}

static void end(process *p)
{
    ipu_onnx_session_destroy(p->s);
    ipu_onnx_close(p->file);
}

/* Runs once, with one output; whether nothing was compiled. */
static bool run_once(bytes b, const ipu_onnx_options *options, const ipu_onnx_value *in, size_t n_in,
                     ipu_onnx_value *out)
{
    process p = start(b, options);
    if (ipu_onnx_session_run(p.s, in, n_in, out, 1) != IPU_OK) fail_msg("%s", ipu_message());
    bool was_cached = ipu_onnx_session_was_cached(p.s);
    end(&p);
    return was_cached;
}

#define EXPECT_RUN(was, file, options, in, shape, ...)              \
    do {                                                            \
        ipu_onnx_value only_;                                       \
        assert_int_equal(run_once(file, options, in, &only_), was); \
        ASSERT_ARRAY(&only_, shape, __VA_ARGS__);                   \
        ipu_onnx_value_free(&only_);                                \
    } while (0)
enum { MISS = false, HIT = true };

static bytes doubling(void)
{
    return model(13, graph("in x float[N]; const k float[] 2; out y; y = Mul(x, k)", NULL), none);
}

#define THREE FLOATS(IPU_SHAPE(3), 1, 2, 3)
#define FOUR FLOATS(IPU_SHAPE(4), 1, 2, 3, 4)
#define SIX FLOATS(IPU_SHAPE(6), 1, 2, 3, 4, 5, 6)
#define SHAPE2(a, b) value(IPU_INT64, IPU_SHAPE(2), (const int64_t[]){a, b})

static bytes reshaping(void)
{
    return model(13, graph("in x float[6]; in s int64[2]; out y; t = Reshape(x, s); y = Relu(t)", NULL),
                 none);
}

/* ---- what is found ---- */

static void what_one_process_compiled_another_finds(void **state)
{
    (void)state;
    EXPECT_RUN(MISS, doubling(), NULL, VALUES(THREE), IPU_SHAPE(3), 2, 4, 6);
    EXPECT_RUN(HIT, doubling(), NULL, VALUES(FLOATS(IPU_SHAPE(3), 3, 2, 5)), IPU_SHAPE(3), 6, 4, 10);
    assert_int_equal(for_each(".ipuexe", NULL), 1);
    assert_int_equal(for_each(".ipunote", NULL), 0); /* it has no compile-time inputs */
    EXPECT_RUN(MISS, doubling(), NULL, VALUES(FOUR), IPU_SHAPE(4), 2, 4, 6, 8);
    EXPECT_RUN(HIT, doubling(), NULL, VALUES(FOUR), IPU_SHAPE(4), 2, 4, 6, 8);
    EXPECT_RUN(HIT, doubling(), NULL, VALUES(THREE), IPU_SHAPE(3), 2, 4, 6);
    assert_int_equal(n_warnings, 0);
}

static void the_folder_is_that_of_the_options_or_of_the_environment(void **state)
{
    (void)state;
    const ipu_onnx_options nowhere = {.cache_folder = ""};
    process                p       = start(doubling(), &nowhere);
    ipu_onnx_session      *s;
    ipu_onnx_value         y;
    setenv("IPU_CACHE_DIR", folder, 1);
    for (int i = 0; i < 3; i++) {
        if (i > 0) assert_int_equal(ipu_onnx_session_create(p.file, NULL, &s), IPU_OK);
        assert_int_equal(ipu_onnx_session_run(i ? s : p.s, VALUES(THREE), &y, 1), IPU_OK);
        assert_int_equal(ipu_onnx_session_was_cached(i ? s : p.s), i == 2);
        assert_int_equal(for_each(".ipuexe", NULL), i > 0);
        ipu_onnx_value_free(&y);
        if (i > 0) ipu_onnx_session_destroy(s);
    }
    end(&p);
}

static void compile_time_inputs_are_known_by_a_note(void **state)
{
    (void)state;
    EXPECT_RUN(MISS, reshaping(), NULL, VALUES(SIX, SHAPE2(2, 3)), IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    assert_int_equal(for_each(".ipunote", NULL), 1);
    EXPECT_RUN(HIT, reshaping(), NULL, VALUES(SIX, SHAPE2(2, 3)), IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    EXPECT_RUN(MISS, reshaping(), NULL, VALUES(SIX, SHAPE2(3, -1)), IPU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
    EXPECT_RUN(HIT, reshaping(), NULL, VALUES(SIX, SHAPE2(3, -1)), IPU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6);
    EXPECT_RUN(HIT, reshaping(), NULL, VALUES(SIX, SHAPE2(2, 3)), IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    assert_int_equal(for_each(".ipuexe", NULL), 2);
    assert_int_equal(for_each(".ipunote", NULL), 1);
    assert_int_equal(n_warnings, 0);
}

/* The numbers up to a limit, as many as there are. */
static bytes counting(void)
{
    const bytes body[] = {
        graph("in i int64[]; in go bool[]; in a float[]; out more; out b; out b; b = Add(a, one);"
              "more = Less(b, limit)",
              NULL)};
    return model(13,
                 graph("in limit float[]; const z float[] 0; const one float[] 1; const n int64[] 50;"
                       "const yes bool[] 1; out y; last, y = Loop(n, yes, z) body=@0",
                       body),
                 none);
}

static void counts_come_from_the_cache(void **state)
{
    (void)state;
    EXPECT_RUN(MISS, counting(), NULL, VALUES(FLOATS((ipu_shape){0}, 3)), IPU_SHAPE(3), 1, 2, 3);
    EXPECT_RUN(HIT, counting(), NULL, VALUES(FLOATS((ipu_shape){0}, 5)), IPU_SHAPE(5), 1, 2, 3, 4, 5);
}

static void sequences_and_optionals_come_from_the_cache(void **state)
{
    (void)state;
    bytes          b     = model(17,
                                 graph("in s seq(float); in o opt(float[1]); out t;"
                                                    "t = SequenceInsert(s, k, p); const k float[1] 9; const p int64[] 1;"
                                                    "e = OptionalHasElement(o)",
                                       NULL),
                                 none);
    ipu_onnx_value two[] = {FLOATS(IPU_SHAPE(1), 1), FLOATS(IPU_SHAPE(2), 2, 3)}, out;
    ipu_onnx_value s     = {.kind = IPU_ONNX_SEQUENCE, .items = two, .n_items = 2};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_once(b, NULL, VALUES(s), &out), i);
        assert_int_equal(out.kind, IPU_ONNX_SEQUENCE);
        assert_int_equal(out.n_items, 3);
        ASSERT_ARRAY(&out.items[0], IPU_SHAPE(1), 1);
        ASSERT_ARRAY(&out.items[1], IPU_SHAPE(1), 9);
        ASSERT_ARRAY(&out.items[2], IPU_SHAPE(2), 2, 3);
        ipu_onnx_value_free(&out);
    }
    s.n_items = 1;
    assert_false(run_once(b, NULL, VALUES(s, FLOATS(IPU_SHAPE(1), 5)), &out));
    assert_int_equal(out.n_items, 2);
    ipu_onnx_value_free(&out);
}

static void the_model_and_its_price_are_there_when_asked_for(void **state)
{
    (void)state;
    ipu_cost_summary cost[3] = {0};
    for (int i = 0; i < 3; i++) { /* compiled, and priced by importing, and by what was noted then */
        process        p = start(reshaping(), NULL);
        ipu_onnx_value y;
        assert_int_equal(ipu_onnx_session_cost(p.s, &cost[i]), IPU_INVALID);
        assert_null(ipu_onnx_session_model(p.s));
        assert_int_equal(ipu_onnx_session_run(p.s, VALUES(SIX, SHAPE2(2, 3)), &y, 1), IPU_OK);
        ipu_onnx_value_free(&y);
        assert_int_equal(ipu_onnx_session_was_cached(p.s), i > 0);
        if (i > 0) assert_int_equal(ipu_onnx_session_cost(p.s, &cost[i]), IPU_OK);
        assert_int_equal(for_each(".ipunote", NULL), 1 + (i > 0));
        ipu_model *m = ipu_onnx_session_model(p.s);
        assert_non_null(m);
        assert_int_equal(ipu_model_n_inputs(m), 1);
        assert_ptr_equal(ipu_onnx_session_model(p.s), m);
        if (i == 0) assert_int_equal(ipu_onnx_session_cost(p.s, &cost[0]), IPU_OK);
        end(&p);
        if (i == 0) assert_int_equal(for_each(".ipunote", NULL), 2);
    }
    assert_string_equal(cost[2].chip, cost[0].chip);
    assert_true(cost[0].cycles.total > 0);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(cost[i].cycles.total, cost[0].cycles.total);
        assert_int_equal(cost[i].memory_most, cost[0].memory_most);
    }
}

/* ---- what is something else ---- */

static void other_files_and_options_are_misses(void **state)
{
    (void)state;
    ipu_options *engine;
    ipu_target   bow;
    assert_int_equal(ipu_options_create(&engine), IPU_OK);
    assert_int_equal(ipu_options_set(engine, "profile", "true"), IPU_OK);
    assert_int_equal(ipu_target_find("bow", 1, &bow), IPU_OK);
    const char *const dims[] = {"M=7"}, *const outputs[] = {"x", "y"};
    const ipu_onnx_options options[] = {
        {0},
        {.training = true},
        {.most_bytes = 1 << 20},
        {.target = &bow},
        {.options = engine},
        {.dims = dims, .n_dims = 1},
        {.outputs = outputs, .n_outputs = 1},
        {.outputs = outputs + 1, .n_outputs = 1},
    };
    enum { N = sizeof options / sizeof *options };
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < N; i++)
            EXPECT_RUN(again, doubling(), &options[i], VALUES(THREE), IPU_SHAPE(3), 2, 4, 6);
    setenv("IPU_ENGINE_OPTIONS", "{\"memory.share\": \"false\"}", 1);
    EXPECT_RUN(MISS, doubling(), NULL, VALUES(THREE), IPU_SHAPE(3), 2, 4, 6);
    unsetenv("IPU_ENGINE_OPTIONS");
    EXPECT_RUN(MISS, model(13, graph("in x float[N]; const k float[] 3; out y; y = Mul(x, k)", NULL), none),
               NULL, VALUES(THREE), IPU_SHAPE(3), 3, 6, 9);
    const ipu_onnx_value wide = value(IPU_DOUBLE, IPU_SHAPE(3), (const double[]){1, 2, 3});
    EXPECT_RUN(MISS, doubling(), &(ipu_onnx_options){.wide = true}, VALUES(wide), IPU_SHAPE(3), 2, 4, 6);
    ipu_options_destroy(engine);
}

static void the_list_of_options_has_all_members(void **state)
{
    (void)state;
    static const char *const names[] = {
#define NUMBER(member, uses) #member,
#define TEXTS(member, uses) #member,
#define ENGINE(member, uses) #member,
#define TARGET(member, uses) #member,
#define OTHER(member, uses) #member,
#include "onnx/options.inc"
#undef NUMBER
#undef TEXTS
#undef ENGINE
#undef TARGET
#undef OTHER
    };
    ipu_abi_member m;
    size_t         n = 0;
    for (size_t i = 0; ipu_abi_member_at(i, &m); i++) {
        if (strcmp(m.structure, "ipu_onnx_options") != 0 || !*m.name) continue;
        assert_true(n < sizeof names / sizeof *names);
        assert_string_equal(m.name, names[n++]);
    }
    assert_int_equal(n, sizeof names / sizeof *names);
}

static void initializers_that_were_set_are_misses(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        process         p     = start(doubling(), NULL);
        const float     three = 3;
        const ipu_array k     = {IPU_FLOAT, (ipu_shape){0}, (void *)(uintptr_t)&three};
        ipu_onnx_value  y;
        if (i % 2) assert_int_equal(ipu_onnx_set_initializer(p.file, "k", &k), IPU_OK);
        assert_int_equal(ipu_onnx_session_run(p.s, VALUES(THREE), &y, 1), IPU_OK);
        assert_int_equal(ipu_onnx_session_was_cached(p.s), i >= 2);
        ASSERT_ARRAY(&y, IPU_SHAPE(3), i % 2 ? 3 : 2, i % 2 ? 6 : 4, i % 2 ? 9 : 6);
        ipu_onnx_value_free(&y);
        if (i == 0) assert_int_equal(ipu_onnx_set_initializer(p.file, "k", &k), IPU_OK);
        if (i == 0) assert_int_equal(ipu_onnx_session_run(p.s, VALUES(FOUR), &y, 1), IPU_OK);
        if (i == 0) ASSERT_ARRAY(&y, IPU_SHAPE(4), 3, 6, 9, 12); /* and it has a key of its own */
        if (i == 0) ipu_onnx_value_free(&y);
        end(&p);
    }
    EXPECT_RUN(MISS, doubling(), NULL, VALUES(FOUR), IPU_SHAPE(4), 2, 4, 6, 8);
}

static bytes entry(const char *key, const char *word) { return block(13, join(text(1, key), text(2, word))); }

static void write_weights(float a, float b)
{
    const float weights[2] = {a, b};
    char        path[100];
    snprintf(path, sizeof path, "%s/w.bin", box);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(weights, sizeof weights, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

static void changed_external_data_are_a_miss(void **state)
{
    (void)state;
    bytes w = JOIN(tensor_dims("float[2]"), number(2, 1), text(8, "w"), number(14, 1),
                   entry("location", "w.bin"));
    bytes b = model(13, join(graph("in x float[2]; out y; y = Mul(x, w)", NULL), block(5, w)), none);
    write_weights(2, 3);
    EXPECT_RUN(MISS, b, NULL, VALUES(FLOATS(IPU_SHAPE(2), 1, 1)), IPU_SHAPE(2), 2, 3);
    EXPECT_RUN(HIT, b, NULL, VALUES(FLOATS(IPU_SHAPE(2), 1, 2)), IPU_SHAPE(2), 2, 6);
    write_weights(2, 4);
    EXPECT_RUN(MISS, b, NULL, VALUES(FLOATS(IPU_SHAPE(2), 1, 2)), IPU_SHAPE(2), 2, 8);
    write_weights(2, 3);
    EXPECT_RUN(HIT, b, NULL, VALUES(FLOATS(IPU_SHAPE(2), 1, 2)), IPU_SHAPE(2), 2, 6);
}

static void checking_mode_passes_the_cache_by(void **state)
{
    (void)state;
    setenv("IPU_CHECK", "1", 1);
    for (int i = 0; i < 2; i++)
        EXPECT_RUN(MISS, reshaping(), NULL, VALUES(SIX, SHAPE2(2, 3)), IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    unsetenv("IPU_CHECK");
    assert_int_equal(for_each("ipu", NULL), 0);
}

/* ---- damage ---- */

static void damage(const char *path)
{
    struct stat st;
    char        byte;
    FILE       *f = fopen(path, "r+b");
    assert_true(f && stat(path, &st) == 0);
    assert_int_equal(fseek(f, (long)st.st_size / 2, SEEK_SET), 0);
    assert_int_equal(fread(&byte, 1, 1, f), 1);
    assert_int_equal(fseek(f, (long)st.st_size / 2, SEEK_SET), 0);
    assert_int_not_equal(fputc(byte ^ 1, f), EOF);
    assert_int_equal(fclose(f), 0);
}

static void what_is_damaged_is_made_anew(void **state)
{
    (void)state;
    static const char *const endings[] = {".ipuexe", ".ipunote"};
    EXPECT_RUN(MISS, reshaping(), NULL, VALUES(SIX, SHAPE2(2, 3)), IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    for (int i = 0; i < 2; i++) {
        n_warnings = 0;
        assert_int_equal(for_each(endings[i], damage), 1);
        EXPECT_RUN(MISS, reshaping(), NULL, VALUES(SIX, SHAPE2(2, 3)), IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
        assert_int_equal(n_warnings, 1);
        assert_non_null(strstr(warnings, "in the cache is made anew"));
        EXPECT_RUN(HIT, reshaping(), NULL, VALUES(SIX, SHAPE2(2, 3)), IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    }
}

static size_t  forged;
static int32_t forgery;
static bool    is_past_the_note;

/* Number `forged` of its note is `forgery`. */
static void forge(const char *path)
{
    ipu_executable *exe;
    assert_int_equal(ipu_executable_load(path, NULL, 0, NULL, &exe), IPU_OK);
    is_past_the_note = forged >= exe->note.n;
    if (!is_past_the_note) exe->note.at[forged] = forgery;
    if (is_past_the_note) exe->note.n--; /* cut off */
    assert_int_equal(ipu_executable_save(exe, path), IPU_OK);
    assert_int_equal(chmod(path, 0600), 0);
    ipu_executable_release(exe);
}

static void drop(const char *path) { assert_int_equal(unlink(path), 0); }

/* The one number that says something else, and no nonsense, is "there is no count": then the whole buffer comes. */
static void a_note_that_is_none_of_a_session_is_made_anew(void **state)
{
    (void)state;
    static const int32_t numbers[] = {-2, -1, 3, 1000, INT32_MAX, INT32_MIN};
    is_past_the_note               = false;
    for (forged = 0; !is_past_the_note; forged++)
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            ipu_onnx_value out;
            for_each(".ipuexe", drop);
            EXPECT_RUN(MISS, counting(), NULL, VALUES(FLOATS((ipu_shape){0}, 3)), IPU_SHAPE(3), 1, 2, 3);
            forgery = numbers[i];
            assert_int_equal(for_each(".ipuexe", forge), 1);
            n_warnings      = 0;
            bool was_cached = run_once(counting(), NULL, VALUES(FLOATS((ipu_shape){0}, 3)), &out);
            if (was_cached) assert_int_equal(forgery, -1);
            assert_int_equal(n_warnings, !was_cached);
            assert_int_equal(out.array.shape.dim[0], was_cached ? 50 : 3);
            ipu_onnx_value_free(&out);
        }
    assert_in_range(forged, 5, 10);
}

/* ---- many processes, little memory ---- */

static int use(int seed)
{
    static const int64_t rows[] = {1, 2, 3, 6};
    for (int i = 0; i < 12; i++) {
        int64_t        r = rows[(i * 7 + seed) % 4];
        ipu_onnx_value y;
        run_once(reshaping(), NULL, VALUES(SIX, SHAPE2(r, -1)), &y);
        if (n_warnings) fprintf(stderr, "%s\n", warnings);
        if (y.array.shape.dim[0] != r || ((float *)y.array.data)[5] != 6 || n_warnings) return 1;
        ipu_onnx_value_free(&y);
    }
    return 0;
}

static void processes_share_a_folder(void **state)
{
    (void)state;
    enum { PROCESSES = 4 };
    pid_t pid[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) _exit(use(i));
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(for_each(".ipuexe", NULL), 4);
    EXPECT_RUN(HIT, reshaping(), NULL, VALUES(SIX, SHAPE2(6, -1)), IPU_SHAPE(6, 1), 1, 2, 3, 4, 5, 6);
}

static int calls_left;

static void *limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    (void)user, (void)old_bytes;
    if (new_bytes && calls_left-- <= 0) return NULL;
    if (new_bytes) return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

static void refused_memory_is_reported_or_costs_a_compilation(void **state)
{
    (void)state;
    ipu_status status = IPU_OUT_OF_MEMORY;
    EXPECT_RUN(MISS, reshaping(), NULL, VALUES(SIX, SHAPE2(2, 3)), IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    for (int allowed = 0; status != IPU_OK; allowed++) {
        assert_in_range(allowed, 0, 3000);
        calls_left = 100000;
        ipu__alloc_set(limited, NULL);
        process        p = start(reshaping(), NULL);
        ipu_onnx_value y;
        calls_left = allowed;
        status     = ipu_onnx_session_run(p.s, VALUES(SIX, SHAPE2(2, 3)), &y, 1);
        calls_left = 100000;
        if (status != IPU_OK) assert_int_equal(status, IPU_OUT_OF_MEMORY);
        if (status == IPU_OK) ASSERT_ARRAY(&y, IPU_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
        ipu_onnx_value_free(&y);
        end(&p);
        ipu__alloc_set(NULL, NULL);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(processes_share_a_folder),
        TEST(what_one_process_compiled_another_finds),
        TEST(the_folder_is_that_of_the_options_or_of_the_environment),
        TEST(compile_time_inputs_are_known_by_a_note),
        TEST(counts_come_from_the_cache),
        TEST(sequences_and_optionals_come_from_the_cache),
        TEST(the_model_and_its_price_are_there_when_asked_for),
        TEST(other_files_and_options_are_misses),
        TEST(the_list_of_options_has_all_members),
        TEST(initializers_that_were_set_are_misses),
        TEST(changed_external_data_are_a_miss),
        TEST(checking_mode_passes_the_cache_by),
        TEST(what_is_damaged_is_made_anew),
        TEST(a_note_that_is_none_of_a_session_is_made_anew),
        TEST(refused_memory_is_reported_or_costs_a_compilation),
    };
    return cmocka_run_group_tests(tests, make_box, remove_box);
}

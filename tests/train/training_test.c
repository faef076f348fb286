/* The six workloads in training.
 *
 *     training_test                     they learn, and do so bit for bit alike
 *     training_test FOLDER [NAME...]    50 steps each, written for tests/torch/train.py
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "networks.h"
#include "random.h"

enum { N_STEPS = 50, N_BATCHES = 4 };

/* How a workload is trained here: small batches, so that PyTorch follows in seconds. */
typedef struct course {
    const char *name;
    int64_t     batch;
    double      rate;
} course;

static const course courses[N_WORKLOADS] = {
    {"seed-cnn", 16, 0.01}, {"mnist-cnn", 8, 0.01}, {"mlp", 16, 0.01},
    {"lstm", 8, 0.1},       {"resnet18", 2, 0.002}, {"bert-mini", 2, 0.005},
};

typedef struct session {
    const network *net;
    const course  *course;
    ipu_model     *m;
    ipu_engine    *e;
    float         *x; /* N_BATCHES of them */
    int32_t       *labels;
    size_t         x_bytes, label_bytes; /* of one batch */
    float          losses[N_STEPS];
} session;

static const network *find_network(const char *name)
{
    for (size_t i = 0; i < N_NETWORKS; i++)
        if (strcmp(networks[i].name, name) == 0) return &networks[i];
    return NULL;
}

static bool make_data(session *s)
{
    int64_t     n  = s->course->batch;
    test_random r  = {99};
    s->label_bytes = (size_t)n * sizeof *s->labels;
    for (int d = 0; d < s->net->input.rank; d++) n *= s->net->input.dim[d];
    s->x_bytes = (size_t)n * sizeof *s->x;
    s->x       = malloc(N_BATCHES * s->x_bytes);
    s->labels  = malloc(N_BATCHES * s->label_bytes);
    if (!s->x || !s->labels) return false;
    for (int64_t i = 0; i < N_BATCHES * n; i++)
        s->x[i] = (float)((double)(random_bits(&r) >> 40) * 0x1p-22 - 2);
    for (int64_t i = 0; i < N_BATCHES * s->course->batch; i++)
        s->labels[i] = (int32_t)random_in(&r, 0, s->net->n_classes - 1);
    return true;
}

static ipu_status make_engine(session *s, const char *threads)
{
    ipu_target      target;
    ipu_executable *exe     = NULL;
    ipu_options    *options = NULL;
    ipu_status      status  = ipu_target_find("gc200", 1, &target);
    if (status == IPU_OK) status = ipu_model_compile(s->m, &target, NULL, &exe);
    if (status == IPU_OK) status = ipu_options_create(&options);
    if (status == IPU_OK) status = ipu_options_set(options, "threads", threads);
    if (status == IPU_OK) status = ipu_engine_create(exe, options, &s->e);
    ipu_executable_release(exe);
    ipu_options_destroy(options);
    return status;
}

static bool open_session(session *s, const course *c, const char *threads)
{
    *s = (session){.net = find_network(c->name), .course = c};
    if (!s->net || !make_data(s) || ipu_model_create(&s->m) != IPU_OK) return false;
    ipu_model_set_seed(s->m, 7);
    network_build(s->m, s->net, c->batch, true, c->rate);
    return make_engine(s, threads) == IPU_OK;
}

static void close_session(session *s)
{
    ipu_engine_destroy(s->e);
    ipu_model_destroy(s->m);
    free(s->x);
    free(s->labels);
}

static bool train(session *s, int n_steps)
{
    for (int i = 0; i < n_steps; i++) {
        const char *x = (const char *)s->x + (size_t)(i % N_BATCHES) * s->x_bytes;
        const char *t = (const char *)s->labels + (size_t)(i % N_BATCHES) * s->label_bytes;
        if (ipu_engine_write(s->e, "x", x, s->x_bytes) != IPU_OK
            || ipu_engine_write(s->e, "labels", t, s->label_bytes) != IPU_OK
            || ipu_engine_run(s->e, 0) != IPU_OK
            || ipu_engine_read(s->e, "loss", &s->losses[i], sizeof *s->losses) != IPU_OK)
            return false;
    }
    return true;
}

/* ---- tests ---- */

static void workloads_learn_what_they_are_shown(void **unused)
{
    (void)unused;
    for (int i = 0; i < 4; i++) {
        session s;
        if (!open_session(&s, &courses[i], "2") || !train(&s, N_STEPS))
            fail_msg("%s: %s", courses[i].name, ipu_message());
        double first = 0, last = 0;
        for (int k = 0; k < N_BATCHES; k++) {
            first += (double)s.losses[k];
            last += (double)s.losses[N_STEPS - 1 - k];
        }
        if (!(last < 0.9 * first))
            fail_msg("%s: loss %.4f, then %.4f", courses[i].name, first / N_BATCHES, last / N_BATCHES);
        close_session(&s);
    }
}

static void the_same_seed_gives_the_same_bits(void **unused)
{
    (void)unused;
    for (int i = 0; i < N_WORKLOADS; i++) {
        session a, b;
        bool    ok = open_session(&a, &courses[i], "2") && open_session(&b, &courses[i], "2");
        if (!ok || !train(&a, 3) || !train(&b, 3)) fail_msg("%s: %s", courses[i].name, ipu_message());
        assert_memory_equal(a.losses, b.losses, 3 * sizeof *a.losses);
        close_session(&a);
        close_session(&b);
    }
}

static void one_thread_and_two_train_alike(void **unused)
{
    (void)unused;
    for (int i = 0; i < N_WORKLOADS; i++) {
        session a, b;
        bool    ok = open_session(&a, &courses[i], "1") && open_session(&b, &courses[i], "2");
        if (!ok || !train(&a, 3) || !train(&b, 3)) fail_msg("%s: %s", courses[i].name, ipu_message());
        for (int k = 0; k < 3; k++)
            if (!(fabsf(a.losses[k] - b.losses[k]) <= 1e-4f * fabsf(a.losses[k])))
                fail_msg("%s, step %d: %.7g and %.7g", courses[i].name, k, (double)a.losses[k],
                         (double)b.losses[k]);
        close_session(&a);
        close_session(&b);
    }
}

/* ---- for PyTorch ---- */

static json_t *place(FILE *data, const char *name, ipu_shape shape, const void *values, size_t bytes)
{
    json_t *dims = json_array();
    for (int d = 0; d < shape.rank; d++) json_array_append_new(dims, json_integer(shape.dim[d]));
    json_t *out = json_pack("{s:s, s:o, s:I}", "name", name, "shape", dims, "at", (json_int_t)ftell(data));
    fwrite(values, 1, bytes, data);
    return out;
}

static bool add_parameters(session *s, json_t *list, FILE *data)
{
    bool ok = true;
    for (size_t i = 0; i < ipu_model_n_parameters(s->m) && ok; i++) {
        ipu_value   v      = ipu_model_parameter_at(s->m, i);
        const char *name   = ipu_value_name(v);
        size_t      bytes  = (size_t)ipu_value_n_elements(v) * sizeof(float);
        void       *values = malloc(bytes + 1);
        ok                 = values && ipu_engine_read(s->e, name, values, bytes) == IPU_OK;
        if (ok) json_array_append_new(list, place(data, name, ipu_value_shape(v), values, bytes));
        free(values);
    }
    return ok;
}

static bool write_course(const course *c, json_t *all, FILE *data)
{
    session   s;
    json_t   *parameters = json_array(), *losses = json_array();
    bool      ok = open_session(&s, c, "2") && add_parameters(&s, parameters, data) && train(&s, N_STEPS);
    ipu_shape x  = {.rank = s.net->input.rank + 2, .dim = {N_BATCHES, c->batch}};
    memcpy(x.dim + 2, s.net->input.dim, (size_t)s.net->input.rank * sizeof *x.dim);
    for (int i = 0; i < N_STEPS; i++) json_array_append_new(losses, json_real((double)s.losses[i]));
    if (!ok) fprintf(stderr, "%s: %s\n", c->name, ipu_message());
    if (ok) {
        json_t *x_place = place(data, "x", x, s.x, N_BATCHES * s.x_bytes);
        json_t *t_place = place(data, "labels", IPU_SHAPE(N_BATCHES, c->batch), s.labels,
                                N_BATCHES * s.label_bytes);
        json_array_append_new(all, json_pack("{s:s, s:f, s:o, s:o, s:o, s:o}", "name", c->name, "rate",
                                             c->rate, "parameters", parameters, "x", x_place, "labels",
                                             t_place, "losses", losses));
    }
    close_session(&s);
    return ok;
}

static int write_courses(const char *folder, char *const *names, int n_names)
{
    char path[2][4096];
    snprintf(path[0], sizeof *path, "%s/training.json", folder);
    snprintf(path[1], sizeof *path, "%s/training.bin", folder);
    FILE   *data = fopen(path[1], "wb");
    json_t *all  = json_array();
    bool    ok   = data != NULL;
    for (int i = 0; i < N_WORKLOADS && ok; i++) {
        bool wanted = n_names == 0;
        for (int k = 0; k < n_names; k++) wanted |= strcmp(names[k], courses[i].name) == 0;
        if (wanted) ok = write_course(&courses[i], all, data);
    }
    if (data) ok = !fclose(data) && ok;
    ok = ok && json_dump_file(all, path[0], JSON_COMPACT) == 0;
    json_decref(all);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc > 1) return write_courses(argv[1], argv + 2, argc - 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workloads_learn_what_they_are_shown),
        cmocka_unit_test(the_same_seed_gives_the_same_bits),
        cmocka_unit_test(one_thread_and_two_train_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

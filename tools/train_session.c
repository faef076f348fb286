/* A training's data, network and executors, opened and closed. */
#include "train_session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "ipu/onnx.h"
#include "output.h"
#include "picture.h"

static tool_exit failed(void) { return tool_fail("%s", ipu_message()); }

/* ---- digests: FNV-1a, which tells files apart that nobody forged ---- */

static uint64_t digest(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3;
    return hash;
}

static const uint64_t digest_begin = 0xcbf29ce484222325;

/* The same of eight bytes at a time. */
static uint64_t digest_fast(uint64_t hash, const void *data, size_t bytes)
{
    const char *p = data;
    size_t      n = bytes / sizeof hash;
    for (size_t i = 0; i < n; i++) {
        uint64_t word;
        memcpy(&word, p + i * sizeof word, sizeof word);
        hash = (hash ^ word) * 0x100000001b3;
    }
    return digest(hash, p + n * sizeof hash, bytes % sizeof hash);
}

typedef uint64_t (*digest_fn)(uint64_t hash, const void *data, size_t bytes);

/* The number of samples, and `most` of them, or all if there are fewer. False: one cannot be read, which was reported. */
static bool digest_samples(const ipu_dataset *d, int64_t most, digest_fn add, uint64_t *hash)
{
    int64_t   n           = ipu_dataset_n_samples(d);
    ipu_array fields[2]   = {0};
    void     *pointers[2] = {NULL, NULL};
    bool      ok          = true;
    *hash                 = digest(*hash, &n, sizeof n);
    for (size_t i = 0; i < 2 && ok; i++) {
        const ipu_field *f = ipu_dataset_field_at(d, i);
        ok                 = ipu_array_create(f->type, f->shape, &fields[i]) == IPU_OK;
        pointers[i]        = fields[i].data;
    }
    if (most > n) most = n;
    for (int64_t k = 0; ok && k < most; k++) {
        ok = ipu_dataset_get(d, k * (n / most) + k * (n % most) / most, pointers) == IPU_OK;
        for (size_t i = 0; i < 2 && ok; i++) *hash = add(*hash, fields[i].data, ipu_array_bytes(&fields[i]));
    }
    for (size_t i = 0; i < 2; i++) ipu_array_free(&fields[i]);
    if (!ok) failed();
    return ok;
}

static bool digest_dataset(const ipu_dataset *d, uint64_t *hash)
{
    enum { SAMPLES = 64 };
    return digest_samples(d, SAMPLES, digest, hash);
}

/* All of what takes no more than seconds to read; of larger data, samples that lie evenly. */
static bool digest_contents(const ipu_dataset *d, uint64_t *hash)
{
    const int64_t    most_bytes = (int64_t)4 << 30;
    const ipu_shape *shape      = &ipu_dataset_field_at(d, 0)->shape;
    int64_t          bytes      = sizeof(float) + sizeof(int32_t);
    for (int i = 0; i < shape->rank; i++) bytes *= shape->dim[i] > 0 ? shape->dim[i] : 1;
    return digest_samples(d, most_bytes / bytes, digest_fast, hash);
}

static tool_exit make_options_json(train_session *s)
{
    uint64_t data = digest_begin, file                        = digest_begin;
    char     data_text[TRAIN_DIGEST], file_text[TRAIN_DIGEST] = "";
    if (!digest_dataset(s->train, &data) || !digest_dataset(s->test, &data)) return TOOL_FAILED;
    snprintf(data_text, sizeof data_text, "%016" PRIx64, data);
    if (s->settings.from_file) {
        size_t bytes;
        char  *content = tool_read(s->settings.model, &bytes);
        if (!content) return TOOL_FAILED;
        snprintf(file_text, sizeof file_text, "%016" PRIx64, digest(file, content, bytes));
        free(content);
    }
    s->options_json = train_settings_json(&s->settings, data_text, file_text);
    return s->options_json ? TOOL_OK : tool_fail("out of memory");
}

/* With what is no option of the result, but has all meet as often. */
static tool_exit compare_ranks(train_session *s)
{
    const train_settings *a        = &s->settings;
    uint64_t              contents = digest_begin;
    char                  text[TRAIN_DIGEST];
    if (s->group.size == 1) return TOOL_OK;
    if (!digest_contents(s->train, &contents)) return TOOL_FAILED;
    snprintf(text, sizeof text, "%016" PRIx64, contents);
    json_t   *all  = json_copy(s->options_json);
    json_t   *more = json_pack("{s:I, s:I, s:s, s:I, s:b, s:b, s:b}", "training samples",
                               (json_int_t)ipu_dataset_n_samples(s->train), "test samples",
                               (json_int_t)ipu_dataset_n_samples(s->test), "contents of the training data",
                               text, "checkpoint-every", (json_int_t)a->checkpoint_every, "checkpoint-dir",
                               a->checkpoint_dir != NULL, "resume", (int)a->resume, "keep", (int)a->keep);
    tool_exit code = all && more && json_object_update(more, all) == 0 ? train_group_compare(&s->group, more)
                                                                       : tool_fail("out of memory");
    json_decref(all);
    json_decref(more);
    return code;
}

/* ---- opening ---- */

/* A classifier needs pictures and whole numbers to go with them. */
static tool_exit check_dataset(const train_session *s, const ipu_dataset *d)
{
    if (ipu_dataset_n_fields(d) == 2 && ipu_dataset_field_at(d, 0)->type == IPU_FLOAT
        && ipu_dataset_field_at(d, 1)->shape.rank == 0)
        return TOOL_OK;
    return tool_fail("%s: expected images and labels", s->settings.data);
}

static tool_exit open_data(train_session *s)
{
    const ipu_dataset_options options = {
        .mean = s->settings.mean, .std = s->settings.std, .raw = s->settings.raw};
    if (ipu_dataset_open(s->settings.data, IPU_TRAIN, &options, &s->train) != IPU_OK
        || ipu_dataset_open(s->settings.data, IPU_TEST, &options, &s->test) != IPU_OK)
        return failed();
    s->images      = ipu_dataset_field_at(s->train, 0)->shape;
    tool_exit code = check_dataset(s, s->train);
    return code == TOOL_OK ? check_dataset(s, s->test) : code;
}

/* Pictures in the shape of the file's first input, if that has as many elements. */
static tool_exit fit_images(train_session *s)
{
    ipu_onnx     *file;
    ipu_onnx_port port;
    int64_t       wanted = 1, has = 1;
    if (!s->settings.from_file) return TOOL_OK;
    if (ipu_onnx_open(s->settings.model, &file) != IPU_OK) return failed();
    if (ipu_onnx_n_inputs(file) > 0) {
        ipu_onnx_input_at(file, 0, &port);
        for (int d = 1; d < port.rank; d++) wanted *= port.shape.dim[d] < 0 ? 0 : port.shape.dim[d];
        for (int d = 0; d < s->images.rank; d++) has *= s->images.dim[d];
        if (port.rank > 1 && wanted == has) {
            s->images = (ipu_shape){.rank = port.rank - 1};
            memcpy(s->images.dim, port.shape.dim + 1, (size_t)(port.rank - 1) * sizeof *s->images.dim);
        }
    }
    ipu_onnx_close(file);
    return TOOL_OK;
}

ipu_status train_session_module(const train_session *s, ipu_module **out)
{
    const train_settings *a = &s->settings;
    if (a->from_file) {
        IPU_TRY(ipu_module_from_onnx(a->model, a->loss, out));
    } else {
        IPU_TRY(ipu_module_named(a->model, out));
    }
    ipu_module_set_seed(*out, (uint32_t)a->seed);
    return IPU_OK;
}

ipu_status train_session_trainer(const train_session *s, ipu_module *module, const ipu_options *engine,
                                 ipu_executor **out)
{
    const train_settings *a       = &s->settings;
    ipu_executor_options  options = s->options;
    const ipu_nn_training how     = {.optimizer         = {.kind         = a->optimizer,
                                                           .rate         = a->rate,
                                                           .momentum     = a->momentum,
                                                           .weight_decay = a->weight_decay},
                                     .loss_scale        = a->loss_scale,
                                     .loss_scale_period = a->loss_scale_period};
    options.engine                = engine;
    if (module != s->module) options.comm = NULL; /* a profile is this process's own */
    return ipu_training_model(module, &options, &how, out);
}

static tool_exit open_network(train_session *s)
{
    const train_settings *a = &s->settings;
    char                  threads[32];
    snprintf(threads, sizeof threads, "%lld", (long long)a->threads);
    if (ipu_options_create(&s->engine) != IPU_OK
        || (a->threads >= 0 && ipu_options_set(s->engine, "threads", threads) != IPU_OK))
        return failed();
    s->options                     = (ipu_executor_options){.device_iterations     = a->device_iterations,
                                                            .gradient_accumulation = a->gradient_accumulation,
                                                            .output_mode           = IPU_OUTPUT_ALL,
                                                            .seed                  = (uint32_t)a->seed,
                                                            .target                = a->target,
                                                            .engine                = s->engine};
    s->options.comm                = s->group.comm;
    s->options.precision           = a->precision;
    s->options.stochastic_rounding = a->stochastic_rounding;
    s->options.half_partials       = a->half_partials;
    train_ipus_apply(&a->ipus, &s->options);
    /* What is tested is the network as it would be used: rounded to the nearest. */
    const ipu_executor_options testing = {
        .target = a->target, .engine = s->engine, .precision = a->precision};
    const ipu_loader_options order = {
        .batch_size = a->batch_size, .shuffle = true, .seed = (uint64_t)a->seed};
    const ipu_loader_options all = {.batch_size = a->batch_size, .keep_last = true};
    if (train_session_module(s, &s->module) != IPU_OK
        || train_session_trainer(s, s->module, s->engine, &s->trainer) != IPU_OK
        || ipu_inference_model(s->module, &testing, &s->tester) != IPU_OK
        || ipu_loader_create(s->train, &s->options, &order, &s->loader) != IPU_OK
        || ipu_loader_create(s->test, &testing, &all, &s->test_loader) != IPU_OK)
        return failed();
    s->n_runs = ipu_loader_n_batches(s->loader);
    return TOOL_OK;
}

/* What would fail in the end fails at once. */
static tool_exit prepare_places(const train_settings *a)
{
    tool_exit code = TOOL_OK;
    if (a->save) code = folder_make_for(a->save);
    if (a->plot && code == TOOL_OK) code = folder_make_for(a->plot);
    if (a->profile && code == TOOL_OK) code = folder_make(a->profile);
    return code;
}

tool_exit train_session_open(train_session *s, const tool_arguments *args)
{
    *s             = (train_session){.resumed_from = -1, .last_saved = -1};
    tool_exit code = train_group_open(&s->group);
    if (code == TOOL_OK) code = train_group_read_settings(&s->group, &s->settings, args);
    if (code != TOOL_OK) return code;
    train_record_open(&s->record);
    s->silence = train_group_is_first(&s->group) ? NULL : fopen("/dev/null", "w");
    progress_open(&s->progress, s->silence ? s->silence : s->settings.json ? stderr : stdout);
    if (s->group.size > 1) s->progress.live = false; /* a launcher passes it on, with that of others */
    code = open_data(s);
    if (code == TOOL_OK) code = fit_images(s);
    if (code == TOOL_OK && (s->settings.checkpoint_dir || s->group.size > 1)) code = make_options_json(s);
    if (code == TOOL_OK) code = compare_ranks(s);
    if (code == TOOL_OK) code = open_network(s);
    if (code == TOOL_OK && train_group_is_first(&s->group)) code = prepare_places(&s->settings);
    if (code == TOOL_OK && s->settings.checkpoint_dir) code = train_session_resume(s);
    return code;
}

void train_session_close(train_session *s, tool_exit code)
{
    ipu_checkpoint_store_close(s->store);
    ipu_loader_destroy(s->loader);
    ipu_loader_destroy(s->test_loader);
    ipu_executor_destroy(s->trainer);
    ipu_executor_destroy(s->tester);
    ipu_module_destroy(s->module);
    ipu_options_destroy(s->engine);
    ipu_dataset_destroy(s->train);
    ipu_dataset_destroy(s->test);
    ipu_array_free(&s->rest);
    train_record_free(&s->record);
    json_decref(s->options_json);
    if (s->silence) fclose(s->silence);
    train_group_close(&s->group, code);
}

void train_session_batch(const train_session *s, const ipu_batch *batch, ipu_array out[2])
{
    for (size_t i = 0; i < 2; i++) out[i] = batch->arrays[i];
    out[0].shape.rank = s->images.rank + 1;
    memcpy(out[0].shape.dim + 1, s->images.dim, (size_t)s->images.rank * sizeof *s->images.dim);
}

/* ---- compiling ---- */

/* Arrays without data, of `n` samples. */
static void describe(const train_session *s, int64_t n, ipu_array out[2])
{
    out[0] = (ipu_array){.type = IPU_FLOAT, .shape = {.rank = s->images.rank + 1, .dim = {n}}};
    out[1] = (ipu_array){.type = ipu_dataset_field_at(s->train, 1)->type, .shape = IPU_SHAPE(n)};
    memcpy(out[0].shape.dim + 1, s->images.dim, (size_t)s->images.rank * sizeof *s->images.dim);
}

tool_exit train_session_compile(train_session *s, bool (*stop)(void))
{
    ipu_array arrays[2];
    describe(s, ipu_loader_combined_batch_size(s->loader), arrays);
    ipu_status status = ipu_executor_compile(s->trainer, arrays, 2);
    describe(s, ipu_loader_combined_batch_size(s->test_loader), arrays);
    if (status == IPU_OK && train_group_is_first(&s->group))
        status = ipu_executor_compile(s->tester, arrays, 1);
    if (status == IPU_OK || (status == IPU_INTERRUPTED && stop())) return TOOL_OK;
    progress_clear(&s->progress);
    return failed();
}

/* ---- the result ---- */

tool_exit train_session_write_onnx(train_session *s, const char *path)
{
    char mean[32], std[32];
    snprintf(mean, sizeof mean, "%.15g", s->settings.mean);
    snprintf(std, sizeof std, "%.15g", s->settings.std);
    const char *const metadata[] = {
        PICTURE_RAW, s->settings.raw ? "true" : "false", PICTURE_MEAN, mean, PICTURE_STD, std};
    const ipu_module_write_options options = {.metadata = metadata, .n_metadata = s->settings.raw ? 1 : 3};
    return ipu_module_write_onnx(s->module, &options, path) == IPU_OK ? TOOL_OK : failed();
}

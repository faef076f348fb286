/* What decides the result of a training, as a JSON object: kept in checkpoints, compared with those of before and of other
 * processes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/trainer/trainer.h"

/* ---- digests: FNV-1a, which tells data apart that nobody forged ---- */

enum { DIGEST_TEXT = 17 };

static const uint64_t digest_begin = 0xcbf29ce484222325;

static uint64_t digest(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3;
    return hash;
}

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

/* The number of samples, and `most` of them, or all if there are fewer; of an iterable dataset the number only. */
static ipu_status digest_samples(const ipu_dataset *d, int64_t most, digest_fn add, uint64_t *hash)
{
    int64_t    n                        = ipu_dataset_n_samples(d);
    size_t     n_fields                 = ipu_dataset_n_fields(d);
    ipu_array  fields[IPU_MAX_FIELDS]   = {0};
    void      *pointers[IPU_MAX_FIELDS] = {NULL};
    ipu_status status                   = IPU_OK;
    *hash                               = digest(*hash, &n, sizeof n);
    if (ipu_dataset_is_iterable(d)) return IPU_OK;
    for (size_t i = 0; i < n_fields && status == IPU_OK; i++) {
        const ipu_field *f = ipu_dataset_field_at(d, i);
        status             = ipu_array_create(f->type, f->shape, &fields[i]);
        pointers[i]        = fields[i].data;
    }
    if (most > n) most = n;
    for (int64_t k = 0; status == IPU_OK && k < most; k++) {
        status = ipu_dataset_get(d, k * (n / most) + k * (n % most) / most, pointers);
        for (size_t i = 0; i < n_fields && status == IPU_OK; i++)
            *hash = add(*hash, fields[i].data, ipu_array_bytes(&fields[i]));
    }
    for (size_t i = 0; i < n_fields; i++) ipu_array_free(&fields[i]);
    return status;
}

static ipu_status digest_dataset(const ipu_dataset *d, uint64_t *hash)
{
    enum { SAMPLES = 64 };
    return digest_samples(d, SAMPLES, digest, hash);
}

/* All of what takes no more than seconds to read; of larger data, samples that lie evenly. */
static ipu_status digest_contents(const ipu_dataset *d, uint64_t *hash)
{
    const int64_t most_bytes = (int64_t)4 << 30;
    int64_t       bytes      = 0;
    for (size_t i = 0; i < ipu_dataset_n_fields(d); i++) {
        const ipu_field *f = ipu_dataset_field_at(d, i);
        bytes += (int64_t)ipu_array_bytes(&(ipu_array){.type = f->type, .shape = f->shape});
    }
    return digest_samples(d, most_bytes / (bytes > 0 ? bytes : 1), digest_fast, hash);
}

/* ---- making ---- */

static int64_t or_one(int64_t n) { return n ? n : 1; }

/* All but the rate, which a schedule may have instead. */
static json_t *make_optimizer(const ipu_nn_training *how)
{
    const ipu_nn_optimizer *p = &how->optimizer;
    return json_pack(
        "{s:i, s:f, s:f, s:f, s:b, s:b, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:b, s:b, s:i, s:I}", "kind",
        (int)p->kind, "weight-decay", p->weight_decay, "momentum", p->momentum, "dampening", p->dampening,
        "nesterov", (int)p->nesterov, "centered", (int)p->centered, "amsgrad", (int)p->amsgrad, "beta1",
        p->beta1, "beta2", p->beta2, "epsilon", p->epsilon, "alpha", p->alpha, "rate-decay", p->rate_decay,
        "max-weight-norm", p->max_weight_norm, "no-bias-correction", (int)p->no_bias_correction, "tensorflow",
        (int)p->tensorflow, "maximize", (int)p->maximize, "decay", (int)p->decay, "groups",
        (json_int_t)how->n_groups);
}

static json_t *make_own(const ipu_trainer *t)
{
    const ipu_trainer_options  *o        = &t->options;
    const ipu_executor_options *x        = &o->executor;
    const ipu_nn_optimizer     *p        = &o->training.optimizer;
    double                      rate     = o->schedule.rate != 0 ? o->schedule.rate : p->rate;
    int64_t                     replicas = or_one(x->replicas) * t->n_ranks;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:f, s:f, s:f, s:i, s:i}", "epochs",
                     (json_int_t)o->n_epochs, "batch-size", (json_int_t)o->loader.batch_size,
                     "device-iterations", (json_int_t)or_one(x->device_iterations), "gradient-accumulation",
                     (json_int_t)or_one(x->gradient_accumulation), "replicas", (json_int_t)replicas, "seed",
                     (json_int_t)o->loader.seed, "shuffle", (int)o->loader.shuffle, "optimizer",
                     make_optimizer(&o->training), "rate", rate, "max-gradient-norm",
                     o->training.max_gradient_norm, "max-gradient", o->training.max_gradient, "schedule",
                     (int)o->schedule.kind, "precision", (int)x->precision);
}

static ipu_status add_digest(ipu_trainer *t)
{
    const ipu_trainer_options *o    = &t->options;
    uint64_t                   data = digest_begin;
    char                       text[DIGEST_TEXT];
    IPU_TRY(digest_dataset(o->data, &data));
    if (o->test) IPU_TRY(digest_dataset(o->test, &data));
    snprintf(text, sizeof text, "%016" PRIx64, data);
    if (json_object_set_new(t->settings, "data digest", json_string(text)) != 0) return ipu__fail_memory();
    return IPU_OK;
}

/* With what is no option of the result, but has all meet as often. */
ipu_status ipu__trainer_settings_agree(ipu_trainer *t)
{
    const ipu_trainer_options *o        = &t->options;
    uint64_t                   contents = digest_begin;
    char                       text[DIGEST_TEXT];
    if (t->n_ranks == 1) return IPU_OK;
    IPU_TRY(digest_contents(o->data, &contents));
    snprintf(text, sizeof text, "%016" PRIx64, contents);
    json_t    *more   = json_pack("{s:I, s:I, s:s, s:I, s:b, s:b, s:b}", "training samples",
                                  (json_int_t)ipu_dataset_n_samples(o->data), "test samples",
                                  (json_int_t)(o->test ? ipu_dataset_n_samples(o->test) : 0),
                                  "contents of the training data", text, "checkpoint-every",
                                  (json_int_t)o->checkpoint_every, "checkpoint-dir", o->checkpoint_folder != NULL,
                                  "resume", o->begin == IPU_TRAINER_RESUME, "keep", (int)o->keep_diverged);
    ipu_status status = more && json_object_update(more, t->settings) == 0 ? ipu__trainer_compare(t, more)
                                                                           : ipu__fail_memory();
    json_decref(more);
    return status;
}

ipu_status ipu__trainer_settings_make(ipu_trainer *t)
{
    json_error_t wrong;
    const char  *given = t->options.settings;
    if (!t->options.checkpoint_folder && !t->options.log_folder && t->n_ranks == 1) return IPU_OK;
    t->settings = given ? json_loads(given, 0, &wrong) : make_own(t);
    if (given && !json_is_object(t->settings))
        return ipu__fail(IPU_INVALID, "the settings of a trainer: expected a JSON object, found %.80s%s%s",
                         given, t->settings ? "" : ": ", t->settings ? "" : wrong.text);
    if (!t->settings) return ipu__fail_memory();
    return add_digest(t);
}

/* ---- comparing ---- */

/* How long a training goes on may change, unless a rate depends on it. */
static bool epochs_may_differ(const ipu_trainer_options *o)
{
    bool follows = o->schedule.kind == IPU_SCHEDULE_LINEAR || o->schedule.kind == IPU_SCHEDULE_COSINE;
    return !o->rate && (!follows || o->schedule.n_steps > 0);
}

static bool may_differ(const ipu_trainer_options *o, const char *key)
{
    for (size_t i = 0; i < o->n_may_differ; i++)
        if (!strcmp(o->may_differ[i], key)) return true;
    return !strcmp(key, "epochs") && epochs_may_differ(o);
}

static ipu_status refuse(const ipu_trainer *t, const char *key, const json_t *then, const json_t *now)
{
    const ipu_trainer_words *w       = &t->options.words;
    char                    *before  = json_dumps(then, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    char                    *after   = json_dumps(now, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    char                     why[96] = "";
    if (!strcmp(key, "epochs")) snprintf(why, sizeof why, " (with %.60s it may differ)", w->constant);
    ipu__fail(IPU_INVALID,
              "%s: \"%s\" is %s in the checkpoint, and %s now%s: go on with the same, or use another %s",
              w->resume, key, before ? before : "not there", after ? after : "not there", why, w->folder);
    free(before);
    free(after);
    return IPU_INVALID;
}

ipu_status ipu__trainer_settings_compare(const ipu_trainer *t, const json_t *then)
{
    const char *key;
    json_t     *value;
    json_object_foreach(t->settings, key, value)
    {
        const json_t *before = json_object_get(then, key);
        if (may_differ(&t->options, key) || (before && json_equal(before, value))) continue;
        return refuse(t, key, before, value);
    }
    json_object_foreach((json_t *)(uintptr_t)then, key, value) /* what is as usual is left out */
        if (!json_object_get(t->settings, key)) return refuse(t, key, value, NULL);
    return IPU_OK;
}

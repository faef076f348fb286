/* What decides the result of a training, as a JSON object: kept in checkpoints, compared with those of before and of other
 * processes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/options.h"
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

/* JSON has no number that is not finite. */
static json_t *real(double value)
{
    if (isfinite(value)) return json_real(value);
    return json_string(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

static json_t *whole(int64_t value) { return json_integer((json_int_t)value); }
static json_t *flag(bool value) { return json_boolean(value); }

#define VALUE(x) _Generic((x), bool : flag, double : real, default : whole)(x)

/* Members as they are called on a command line: "max-gradient-norm". */
static bool put(json_t *to, const char *before, const char *member, json_t *value)
{
    char key[64];
    snprintf(key, sizeof key, "%s%s", before, member);
    for (char *c = key; *c; c++)
        if (*c == '_') *c = '-';
    return json_object_set_new(to, key, value) == 0;
}

/* The rate of the first optimizer is told by itself, as a schedule may have it instead. */
static json_t *make_optimizer(const ipu_nn_optimizer *p, bool with_rate)
{
    json_t *to = json_object();
    bool    ok = to != NULL;
#define MEMBER(member) ok = ok && put(to, "", #member, VALUE(p->member));
#define RATE(member) \
    if (with_rate) MEMBER(member)
#include "train/optimizer.inc"
#undef MEMBER
#undef RATE
    if (ok) return to;
    json_decref(to);
    return NULL;
}

/* Takes out of `all` what `usual` has too: a member that comes to be later is not missed where it is as usual. */
static json_t *leave_out(json_t *all, json_t *usual)
{
    const char *key;
    json_t     *value;
    void       *next;
    json_object_foreach_safe(all, next, key, value)
    {
        if (json_equal(value, json_object_get(usual, key))) json_object_del(all, key);
    }
    json_decref(usual);
    return all;
}

static json_t *make_group(const ipu_nn_group *g)
{
    const ipu_nn_optimizer usual = {0};
    json_t                *to    = json_object();
    bool                   ok    = to != NULL;
#define MEMBER(member) \
    if (g->member) ok = ok && put(to, "", #member, VALUE(g->member));
#define TEXT(member) ok = ok && put(to, "", #member, json_string(g->member ? g->member : ""));
#define OPTIMIZER(member) \
    ok = ok               \
      && put(to, "", #member, leave_out(make_optimizer(&g->member, true), make_optimizer(&usual, true)));
#include "train/group.inc"
#undef MEMBER
#undef TEXT
#undef OPTIMIZER
    if (ok) return to;
    json_decref(to);
    return NULL;
}

static json_t *make_groups(const ipu_nn_training *how)
{
    json_t *to = json_array();
    for (size_t i = 0; to && i < how->n_groups; i++)
        if (json_array_append_new(to, make_group(&how->groups[i])) != 0) {
            json_decref(to);
            to = NULL;
        }
    return to;
}

static bool add_training(json_t *to, const ipu_nn_training *how)
{
    bool ok = true;
#define OPTIMIZER(member) ok = ok && put(to, "", #member, make_optimizer(&how->member, false));
#define GROUPS(member) ok = ok && put(to, "", #member, make_groups(how));
#define N_GROUPS(member) ok = ok && put(json_object_get(to, "optimizer"), "", "groups", VALUE(how->member));
#define MEMBER(member) ok = ok && put(to, "", #member, VALUE(how->member));
#include "train/training.inc"
#undef OPTIMIZER
#undef GROUPS
#undef N_GROUPS
#undef MEMBER
    return ok;
}

static json_t *make_numbers(const double *numbers, size_t n)
{
    json_t *to = json_array();
    for (size_t i = 0; to && i < n; i++)
        if (json_array_append_new(to, real(numbers[i])) != 0) {
            json_decref(to);
            to = NULL;
        }
    return to;
}

static bool add_schedule(json_t *to, const ipu_schedule *s, double rate)
{
    bool ok = true;
#define KIND(member) ok = ok && put(to, "", "schedule", VALUE(s->member));
#define RATE(member) ok = ok && put(to, "", #member, VALUE(s->member != 0 ? s->member : rate));
#define MEMBER(member) ok = ok && put(to, "schedule-", #member, VALUE(s->member));
#define NUMBERS(member, n) ok = ok && put(to, "schedule-", #member, make_numbers(s->member, s->n));
#include "train/schedule.inc"
#undef KIND
#undef RATE
#undef MEMBER
#undef NUMBERS
    return ok;
}

/* What of settled options says RESULT. */
static bool add_executor(json_t *to, const ipu_executor_options *x)
{
    enum { NEITHER = 0, PROGRAM = 0, AGREED = 0, RESULT = 1 };
    bool ok = true;
#define NUMBER(member, uses) \
    if ((uses)&RESULT) ok = ok && put(to, "", #member, VALUE(x->member));
#define TEXT(member, uses)
#define LIST(member, uses)
#define ENGINE(member, uses)
#define COMM(member, uses)
#include "train/executor/options.inc"
#undef NUMBER
#undef TEXT
#undef LIST
#undef ENGINE
#undef COMM
    return ok;
}

static ipu_status make_own(const ipu_trainer_options *o, int64_t n_ranks, json_t **out)
{
    ipu_nn_training      how = o->training;
    ipu_executor_options x   = o->executor;
    *out                     = NULL;
    if (!x.target) x.target = "gc200"; /* any chip: numbers do not depend on it */
    IPU_TRY(ipu__executor_options_settle(&x, &x));
    x.replicas *= n_ranks;
    if (how.loss_scale == 1 && how.loss_scale_period == 0) how.loss_scale = 0; /* the same */
    json_t *to = json_pack("{s:I, s:I, s:I, s:b}", "epochs", (json_int_t)o->n_epochs, "batch-size",
                           (json_int_t)o->loader.batch_size, "seed", (json_int_t)o->loader.seed, "shuffle",
                           (int)o->loader.shuffle);
    if (to && add_executor(to, &x) && add_training(to, &how)
        && add_schedule(to, &o->schedule, how.optimizer.rate)) {
        *out = to;
        return IPU_OK;
    }
    json_decref(to);
    return ipu__fail_memory();
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
    json_t    *more   = json_pack("{s:I, s:I, s:s, s:I, s:I, s:b, s:b, s:b}", "training samples",
                                  (json_int_t)ipu_dataset_n_samples(o->data), "test samples",
                                  (json_int_t)(o->test ? ipu_dataset_n_samples(o->test) : 0),
                                  "contents of the training data", text, "checkpoint-every",
                                  (json_int_t)o->checkpoint_every, "patience", (json_int_t)o->patience,
                                  "checkpoint-dir", o->checkpoint_folder != NULL, "resume",
                                  o->begin == IPU_TRAINER_RESUME, "keep", (int)o->keep_diverged);
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
    if (!given) IPU_TRY(make_own(&t->options, t->n_ranks, &t->settings));
    if (given) t->settings = json_loads(given, 0, &wrong);
    if (given && !json_is_object(t->settings))
        return ipu__fail(IPU_INVALID, "the settings of a trainer: expected a JSON object, found %.80s%s%s",
                         given, t->settings ? "" : ": ", t->settings ? "" : wrong.text);
    return add_digest(t);
}

/* ---- comparing ---- */

/* How long a training goes on may change, unless a rate depends on it. */
static bool epochs_may_differ(const ipu_trainer_options *o)
{
    ipu_schedule_kind kind    = o->schedule.kind;
    bool              follows = kind == IPU_SCHEDULE_LINEAR || kind == IPU_SCHEDULE_COSINE
                || kind == IPU_SCHEDULE_MILESTONES;
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

/* `then` as it would have been written now: what the checkpoint knows nothing of was as usual, but groups, of which an older one
 * has only the number. Settings of the caller's own are as they are. */
static ipu_status complete(const ipu_trainer *t, const json_t *then, json_t **out)
{
    const ipu_trainer_options usual = {.executor = {.target = t->options.executor.target}};
    bool                      ok    = true;
    *out                            = json_object();
    if (!*out) return ipu__fail_memory();
    if (!json_is_object(then)) return IPU_OK;
    if (!t->options.settings) {
        json_decref(*out);
        IPU_TRY(make_own(&usual, 1, out));
        ok = json_object_set(*out, "groups", json_object_get(t->settings, "groups")) == 0;
    }
    return ok && json_object_update_recursive(*out, (json_t *)(uintptr_t)then) == 0 ? IPU_OK
                                                                                    : ipu__fail_memory();
}

static ipu_status compare(const ipu_trainer *t, json_t *then)
{
    const char *key;
    json_t     *value;
    json_object_foreach(t->settings, key, value)
    {
        const json_t *before = json_object_get(then, key);
        if (may_differ(&t->options, key) || (before && json_equal(before, value))) continue;
        return refuse(t, key, before, value);
    }
    json_object_foreach(then, key, value) /* what is as usual is left out */
        if (!json_object_get(t->settings, key)) return refuse(t, key, value, NULL);
    return IPU_OK;
}

ipu_status ipu__trainer_settings_compare(const ipu_trainer *t, const json_t *then)
{
    json_t    *all;
    ipu_status status = complete(t, then, &all);
    if (status == IPU_OK) status = compare(t, all);
    json_decref(all);
    return status;
}

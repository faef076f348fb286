/* The story of a training: losses by run and by epoch, in bounded space, and as JSON. */
#include "train/trainer/record.h"

#include <math.h>

#include "base/alloc.h"

void ipu__trainer_record_init(ipu__trainer_record *r) { *r = (ipu__trainer_record){.per_point = 1}; }

void ipu__trainer_record_fini(ipu__trainer_record *r)
{
    ipu__free(r->epochs);
    r->epochs   = NULL;
    r->n_epochs = 0;
}

/* ---- as it goes ---- */

static void halve_points(ipu__trainer_record *r)
{
    for (int i = 0; i < IPU__TRAINER_POINTS / 2; i++)
        r->points[i] = (r->points[2 * i] + r->points[2 * i + 1]) / 2;
    r->n_points = IPU__TRAINER_POINTS / 2;
    r->per_point *= 2;
}

static void add_point(ipu__trainer_record *r, double loss)
{
    r->pending += loss;
    if (++r->n_pending < r->per_point) return;
    if (r->n_points == IPU__TRAINER_POINTS) halve_points(r);
    if (r->n_pending < r->per_point) return;
    r->points[r->n_points++] = r->pending / (double)r->n_pending;
    r->pending               = 0;
    r->n_pending             = 0;
}

void ipu__trainer_record_run(ipu__trainer_record *r, int64_t n_samples, double loss, double right,
                             double seconds)
{
    r->runs++;
    r->seconds += seconds;
    r->n_samples += (double)n_samples;
    r->running.loss += loss * (double)n_samples;
    r->running.accuracy += right;
    r->running.n_samples += (double)n_samples;
    r->running.seconds += seconds;
    add_point(r, loss);
}

double ipu__trainer_record_loss(const ipu__trainer_record *r)
{
    return r->running.loss / r->running.n_samples;
}

double ipu__trainer_record_accuracy(const ipu__trainer_record *r)
{
    return r->running.accuracy / r->running.n_samples;
}

ipu_status ipu__trainer_record_epoch(ipu__trainer_record *r)
{
    size_t             n     = (size_t)r->n_epochs;
    ipu_trainer_epoch *grown = ipu__realloc(r->epochs, n * sizeof *grown, (n + 1) * sizeof *grown);
    if (!grown) return ipu__fail_memory();
    r->epochs                = grown;
    r->epochs[r->n_epochs++] = (ipu_trainer_epoch){
        ipu__trainer_record_loss(r), ipu__trainer_record_accuracy(r), NAN, NAN, r->running.seconds,
        r->running.n_samples};
    r->running = (ipu_trainer_epoch){0};
    return IPU_OK;
}

/* ---- JSON: what is not a number is null ---- */

static json_t *real_or_null(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static double number_or_nan(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static json_t *epoch_json(const ipu_trainer_epoch *e)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "loss", real_or_null(e->loss), "accuracy",
                     real_or_null(e->accuracy), "test_loss", real_or_null(e->test_loss), "test_accuracy",
                     real_or_null(e->test_accuracy), "seconds", real_or_null(e->seconds), "samples",
                     real_or_null(e->n_samples));
}

static ipu_trainer_epoch epoch_parse(const json_t *json)
{
    return (ipu_trainer_epoch){number_or_nan(json, "loss"),      number_or_nan(json, "accuracy"),
                               number_or_nan(json, "test_loss"), number_or_nan(json, "test_accuracy"),
                               number_or_nan(json, "seconds"),   number_or_nan(json, "samples")};
}

json_t *ipu__trainer_record_json(const ipu__trainer_record *r)
{
    json_t *epochs = json_array(), *points = json_array();
    bool    ok = epochs && points;
    for (int64_t i = 0; ok && i < r->n_epochs; i++)
        ok = json_array_append_new(epochs, epoch_json(&r->epochs[i])) == 0;
    for (int64_t i = 0; ok && i < r->n_points; i++)
        ok = json_array_append_new(points, real_or_null(r->points[i])) == 0;
    json_t *all = json_pack("{s:o, s:o, s:I, s:f, s:f, s:o, s:I, s:I, s:o}", "epochs", epochs, "running",
                            epoch_json(&r->running), "runs", (json_int_t)r->runs, "seconds", r->seconds,
                            "samples", r->n_samples, "points", points, "per_point", (json_int_t)r->per_point,
                            "n_pending", (json_int_t)r->n_pending, "pending", real_or_null(r->pending));
    if (ok) return all;
    json_decref(all);
    return NULL;
}

bool ipu__trainer_record_parse(ipu__trainer_record *r, const json_t *json)
{
    const json_t *epochs = json_object_get(json, "epochs"), *points = json_object_get(json, "points");
    ipu__trainer_record_fini(r);
    ipu__trainer_record_init(r);
    r->n_epochs  = (int64_t)json_array_size(epochs);
    r->n_points  = (int64_t)json_array_size(points);
    r->epochs    = ipu__alloc_zeroed((size_t)(r->n_epochs + 1) * sizeof *r->epochs);
    r->running   = epoch_parse(json_object_get(json, "running"));
    r->runs      = json_integer_value(json_object_get(json, "runs"));
    r->seconds   = number_or_nan(json, "seconds");
    r->n_samples = number_or_nan(json, "samples");
    r->per_point = json_integer_value(json_object_get(json, "per_point"));
    r->n_pending = json_integer_value(json_object_get(json, "n_pending"));
    r->pending   = number_or_nan(json, "pending");
    if (!r->epochs || r->n_points > IPU__TRAINER_POINTS || r->per_point < 1 || r->runs < 0) {
        ipu__trainer_record_fini(r);
        return false;
    }
    for (int64_t i = 0; i < r->n_epochs; i++) r->epochs[i] = epoch_parse(json_array_get(epochs, (size_t)i));
    for (int64_t i = 0; i < r->n_points; i++) {
        const json_t *value = json_array_get(points, (size_t)i);
        r->points[i]        = json_is_number(value) ? json_number_value(value) : NAN;
    }
    return true;
}

/* Options of `ipu train`: read, checked, and converted to JSON. */
#include "train/settings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ipu/device.h"
#include "run/onnx_file.h"
#include "output.h"
#include "run/picture.h"

static const char *const schedules[] = {
    [TRAIN_CONSTANT] = "constant",
    [TRAIN_COSINE]   = "cosine",
    [TRAIN_STEP]     = "step",
};
enum { N_SCHEDULES = sizeof schedules / sizeof *schedules };

static const char *const precisions[] = {
    [IPU_PRECISION_FLOAT] = "32",
    [IPU_PRECISION_MIXED] = "16",
    [IPU_PRECISION_HALF]  = "16-true",
};
enum { N_PRECISIONS = sizeof precisions / sizeof *precisions };

/* Mean and standard deviation of MNIST's pixels, as examples of PyTorch have them. */
static const double usual_mean = 0.1307, usual_std = 0.3081;

/* ---- reading ---- */

static bool read_integer(const tool_arguments *args, int option, const char *name, int64_t least,
                         int64_t most, int64_t *out)
{
    return !args->values[option] || tool_integer(name, args->values[option], least, most, out);
}

static bool read_number(const tool_arguments *args, int option, const char *name, double least, double most,
                        double *out)
{
    return !args->values[option] || tool_number(name, args->values[option], least, most, out);
}

static tool_exit refuse_momentum(const char *name)
{
    const ipu_nn_optimizer_info *info;
    char                         list[128] = "";
    for (int kind = 0; (info = ipu_nn_optimizer_kind_info((ipu_nn_optimizer_kind)kind)); kind++) {
        size_t used = strlen(list);
        if (info->momentum >= 0)
            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", info->name);
    }
    return tool_usage("train", "--momentum: %s has none to choose; those that have: %s", name, list);
}

static tool_exit read_optimizer(train_settings *s, const tool_arguments *args)
{
    const char *name = args->values[TRAIN_OPTIMIZER] ? args->values[TRAIN_OPTIMIZER] : "sgd";
    if (ipu_nn_optimizer_kind_find(name, &s->optimizer) != IPU_OK)
        return tool_usage("train", "%s", ipu_message());
    const ipu_nn_optimizer_info *info = ipu_nn_optimizer_kind_info(s->optimizer);
    s->rate                           = info->rate;
    s->momentum                       = info->momentum < 0 ? 0 : info->momentum;
    if (args->values[TRAIN_MOMENTUM] && info->momentum < 0) return refuse_momentum(name);
    return read_number(args, TRAIN_RATE, "lr", 0, 1e6, &s->rate)
                && read_number(args, TRAIN_MOMENTUM, "momentum", 0, 1, &s->momentum)
                && read_number(args, TRAIN_DECAY, "weight-decay", 0, 1e6, &s->weight_decay)
             ? TOOL_OK
             : TOOL_USAGE;
}

static tool_exit read_schedule(train_settings *s, const tool_arguments *args)
{
    const char *name = args->values[TRAIN_SCHEDULE];
    s->schedule      = TRAIN_COSINE;
    for (int i = 0; name && i < N_SCHEDULES; i++)
        if (!strcmp(schedules[i], name)) {
            s->schedule = (train_schedule)i;
            return TOOL_OK;
        }
    return name ? tool_usage("train", "no schedule \"%s\"; there are: constant, cosine, step", name)
                : TOOL_OK;
}

static tool_exit read_counts(train_settings *s, const tool_arguments *args)
{
    s->epochs            = 5;
    s->batch_size        = 16;
    s->threads           = -1;
    s->device_iterations = s->gradient_accumulation = 1;
    return read_integer(args, TRAIN_EPOCHS, "epochs", 1, 1000000, &s->epochs)
                && read_integer(args, TRAIN_PATIENCE, "patience", 1, 1000000, &s->patience)
                && read_integer(args, TRAIN_BATCH, "batch-size", 1, 1 << 20, &s->batch_size)
                && read_integer(args, TRAIN_ITERATIONS, "device-iterations", 1, 1 << 20,
                                &s->device_iterations)
                && read_integer(args, TRAIN_ACCUMULATION, "gradient-accumulation", 1, 1 << 20,
                                &s->gradient_accumulation)
                && read_integer(args, TRAIN_SEED, "seed", 0, UINT32_MAX, &s->seed)
                && read_integer(args, TRAIN_THREADS, "threads", 0, 1024, &s->threads)
                && read_integer(args, TRAIN_EVERY, "checkpoint-every", 1, INT64_MAX, &s->checkpoint_every)
                && read_integer(args, TRAIN_LOG_EVERY, "log-every", 1, INT64_MAX, &s->log_every)
             ? TOOL_OK
             : TOOL_USAGE;
}

static tool_exit read_precision(train_settings *s, const tool_arguments *args)
{
    const char *name = args->values[TRAIN_PRECISION], *partials = args->values[TRAIN_PARTIALS];
    const char *scale = args->values[TRAIN_LOSS_SCALE];
    int         found = name ? -1 : IPU_PRECISION_FLOAT;
    for (int i = 0; name && i < N_PRECISIONS; i++)
        if (!strcmp(precisions[i], name)) found = i;
    if (found < 0) return tool_usage("train", "no precision \"%s\"; there are: 32, 16, 16-true", name);
    if (partials && strcmp(partials, "half") != 0 && strcmp(partials, "float") != 0)
        return tool_usage("train", "--partials: expected half or float, found \"%s\"", partials);
    s->precision           = (ipu_precision)found;
    s->half_partials       = partials && !strcmp(partials, "half");
    s->stochastic_rounding = args->values[TRAIN_STOCHASTIC] != NULL;
    if (s->precision == IPU_PRECISION_FLOAT && (s->half_partials || s->stochastic_rounding))
        return tool_usage("train",
                          "--stochastic-rounding and --partials half are for --precision 16 and 16-true");
    s->loss_scale = 1;
    if (scale && !strcmp(scale, "auto")) {
        s->loss_scale        = 0;
        s->loss_scale_period = IPU_NN_LOSS_SCALE_PERIOD;
        return TOOL_OK;
    }
    return read_number(args, TRAIN_LOSS_SCALE, "loss-scale", 1e-6, 1e9, &s->loss_scale) ? TOOL_OK
                                                                                        : TOOL_USAGE;
}

/* The file is read several times, and a read blocked on a pipe could not be stopped by one signal. */
static tool_exit check_model(const train_settings *s)
{
    struct stat st;
    if (stat(s->model, &st) != 0 || S_ISREG(st.st_mode)) return TOOL_OK;
    return tool_fail("cannot read %s: expected a regular file, found %s", s->model,
                     S_ISDIR(st.st_mode)    ? "a directory"
                     : S_ISFIFO(st.st_mode) ? "a pipe; write it to a file first"
                                            : "something else");
}

/* A model trained earlier is given the pixel scaling it was trained with. */
static tool_exit read_pixels(train_settings *s, const tool_arguments *args)
{
    const char *const *v = args->values;
    s->mean              = usual_mean;
    s->std               = usual_std;
    if (v[TRAIN_RAW] && (v[TRAIN_MEAN] || v[TRAIN_STD]))
        return tool_usage("train", "--raw takes pixels as they are: without --mean and --std");
    if (s->from_file) {
        ipu_onnx *file;
        tool_exit wrong = check_model(s);
        if (wrong != TOOL_OK) return wrong;
        if (ipu_onnx_open(s->model, &file) != IPU_OK) return tool_fail("%s", ipu_message());
        tool_exit code = picture_metadata(file, s->model, &s->raw, &s->mean, &s->std);
        ipu_onnx_close(file);
        if (code != TOOL_OK) return code;
    }
    if (v[TRAIN_MEAN] || v[TRAIN_STD]) s->raw = false;
    if (v[TRAIN_RAW]) s->raw = true;
    return read_number(args, TRAIN_MEAN, "mean", -1e6, 1e6, &s->mean)
                && read_number(args, TRAIN_STD, "std", 1e-6, 1e6, &s->std)
             ? TOOL_OK
             : TOOL_USAGE;
}

/* Checks options that need a folder, as they were given. */
static tool_exit check_folders(const train_settings *s, const char *checkpoint_every, const char *log_every)
{
    if (!s->checkpoint_dir && (s->resume || checkpoint_every || (s->restart && !s->log)))
        return tool_usage("train", "--resume, --restart and --checkpoint-every need --checkpoint-dir");
    if (!s->log && (log_every || s->log_weights))
        return tool_usage("train", "--log-every and --log-weights need --log");
    if (s->resume && s->restart)
        return tool_usage("train", "--resume goes on and --restart begins anew: expected one of them");
    return TOOL_OK;
}

static tool_exit read_names(train_settings *s, const tool_arguments *args)
{
    const char *const *v = args->values;
    s->model             = v[TRAIN_MODEL] ? v[TRAIN_MODEL] : "seed-cnn";
    s->loss              = v[TRAIN_LOSS];
    s->data              = v[TRAIN_DATA];
    s->target            = v[TRAIN_TARGET] ? v[TRAIN_TARGET] : ipu_device_chip();
    s->checkpoint_dir    = v[TRAIN_CHECKPOINTS];
    s->save              = v[TRAIN_SAVE];
    s->profile           = v[TRAIN_PROFILE];
    s->plot              = v[TRAIN_PLOT];
    s->log               = v[TRAIN_LOG];
    s->log_weights       = v[TRAIN_LOG_WEIGHTS] != NULL;
    s->resume            = v[TRAIN_RESUME] != NULL;
    s->restart           = v[TRAIN_RESTART] != NULL;
    s->keep              = v[TRAIN_KEEP] != NULL;
    s->json              = v[TRAIN_JSON] != NULL;
    size_t n             = strlen(s->model);
    s->from_file         = strchr(s->model, '/') || (n > 5 && !strcmp(s->model + n - 5, ".onnx"));
    if (!s->data) return tool_usage("train", "expected --data DIR");
    if (s->loss && !s->from_file)
        return tool_usage("train", "--loss is for MODEL.onnx: %s has its own", s->model);
    return check_folders(s, v[TRAIN_EVERY], v[TRAIN_LOG_EVERY]);
}

tool_exit train_settings_read(train_settings *s, const tool_arguments *args, int64_t n_processes)
{
    *s             = (train_settings){0};
    tool_exit code = read_names(s, args);
    if (code == TOOL_OK) code = read_counts(s, args);
    if (code == TOOL_OK) code = train_ipus_read(&s->ipus, args, n_processes, s->gradient_accumulation);
    if (code == TOOL_OK) code = read_optimizer(s, args);
    if (code == TOOL_OK) code = read_schedule(s, args);
    if (code == TOOL_OK) code = read_precision(s, args);
    if (code == TOOL_OK) code = read_pixels(s, args);
    return code;
}

/* ---- learning rate ---- */

ipu_schedule train_settings_schedule(const train_settings *s)
{
    static const double       milestones[] = {0.5, 0.75};
    static const ipu_schedule all[]        = {
               [TRAIN_CONSTANT] = {.kind = IPU_SCHEDULE_CONSTANT},
               [TRAIN_COSINE]   = {.kind = IPU_SCHEDULE_COSINE},
               [TRAIN_STEP]     = {.kind         = IPU_SCHEDULE_MILESTONES,
                                   .gamma        = 0.1,
                                   .milestones   = milestones,
                                   .n_milestones = sizeof milestones / sizeof *milestones},
    };
    return all[s->schedule];
}

/* ---- JSON ---- */

/* Only non-default values, so that checkpoints from before an option existed match its default. */
static bool add_bits(const train_settings *s, json_t *out)
{
    return (s->precision == IPU_PRECISION_FLOAT
            || json_object_set_new(out, "precision", json_string(precisions[s->precision])) == 0)
        && (!s->stochastic_rounding || json_object_set_new(out, "stochastic-rounding", json_true()) == 0)
        && (s->loss_scale == 1 || json_object_set_new(out, "loss-scale", json_real(s->loss_scale)) == 0)
        && (s->loss_scale_period == 0
            || json_object_set_new(out, "loss-scale-period", json_integer((json_int_t)s->loss_scale_period))
                   == 0);
}

char *train_settings_text(const train_settings *s, const char *file)
{
    json_t *rest = json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:s}", "batch-size",
                             (json_int_t)s->batch_size, "device-iterations", (json_int_t)s->device_iterations,
                             "gradient-accumulation", (json_int_t)s->gradient_accumulation, "replicas",
                             (json_int_t)s->ipus.replicas, "seed", (json_int_t)s->seed, "optimizer",
                             ipu_nn_optimizer_kind_name(s->optimizer), "lr", s->rate, "momentum", s->momentum,
                             "weight-decay", s->weight_decay, "schedule", schedules[s->schedule]);
    json_t *all  = json_pack("{s:o, s:s, s:s, s:o, s:I, s:b, s:f, s:f}", "model", tool_json_text(s->model),
                             "model file", file, "loss", s->loss ? s->loss : "its own", "data",
                             tool_json_text(s->data), "epochs", (json_int_t)s->epochs, "raw", (int)s->raw,
                             "mean", s->mean, "std", s->std);
    bool    ok   = rest && all && json_object_update(all, rest) == 0 && add_bits(s, all)
           && train_ipus_settings(&s->ipus, all);
    char *text = ok ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(rest);
    json_decref(all);
    return text;
}

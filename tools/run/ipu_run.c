/* `ipu run`: runs an ONNX model on this host, and reports its time here and its estimated time on the
 * chip. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "folder.h"
#include "graph/kernels.h"
#include "output.h"
#include "run/ipus.h"
#include "run/outputs.h"
#include "run/report.h"
#include "run/test.h"

typedef struct job {
    const tool_arguments *args;
    onnx_file             file;
    run_ipus              ipus;
    ipu_target            target;
    ipu_options          *options;
    ipu_onnx_session     *session;
    run_inputs            in;
    ipu_onnx_value       *out;
    ipu_cost             *profile; /* NULL if not wanted */
} job;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tool_exit failed(void) { return tool_fail("%s", ipu_message()); }

/* ---- running ---- */

static void free_outputs(job *j)
{
    for (size_t i = 0; j->out && i < j->file.n_outputs; i++) ipu_onnx_value_free(&j->out[i]);
}

static tool_exit run_once(job *j, double *seconds)
{
    double before = now();
    free_outputs(j);
    if (ipu_onnx_session_run(j->session, j->in.values, j->in.n, j->out, j->file.n_outputs) != IPU_OK)
        return failed();
    *seconds = now() - before;
    return TOOL_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The first run, which compiles, and `n` more. */
static tool_exit run_all(job *j, int64_t n, run_result *r)
{
    double *seconds = calloc((size_t)n, sizeof *seconds);
    if (!seconds) return tool_fail("out of memory");
    tool_exit code = run_once(j, &r->first);
    for (int64_t i = 0; i < n && code == TOOL_OK; i++) code = run_once(j, &seconds[i]);
    qsort(seconds, (size_t)n, sizeof *seconds, by_size);
    r->n_timed = n;
    r->median  = n % 2 ? seconds[n / 2] : (seconds[n / 2 - 1] + seconds[n / 2]) / 2;
    r->least   = seconds[0];
    free(seconds);
    return code;
}

/* ---- costs and profiles ---- */

/* The cost of the model that ran. A profile has all of its steps, with their measured times. */
static tool_exit price(job *j, ipu_cost_summary *out)
{
    const char *folder = j->args->values[RUN_PROFILE];
    if (!folder) return ipu_onnx_session_cost(j->session, out) == IPU_OK ? TOOL_OK : failed();
    if (ipu_onnx_session_price(j->session, &j->profile) != IPU_OK) return failed();
    ipu_cost_get_summary(j->profile, out);
    return folder_write_profile(folder, j->profile, ipu_onnx_session_engine(j->session));
}

/* ---- the command ---- */

static tool_exit make_session(job *j)
{
    const char *const *values = j->args->values;
    int64_t            threads, most_bytes = 0;
    if (values[RUN_MEMORY] && !tool_integer("max-memory", values[RUN_MEMORY], 1, INT64_MAX, &most_bytes))
        return TOOL_USAGE;
    if (values[RUN_THREADS] && !tool_integer("threads", values[RUN_THREADS], 0, 1024, &threads))
        return TOOL_USAGE;
    tool_exit code = run_ipus_read(&j->ipus, j->args);
    if (code == TOOL_OK) code = run_ipus_target(&j->ipus, j->args, &j->target);
    if (code != TOOL_OK) return code;
    if (ipu_options_create(&j->options) != IPU_OK
        || (values[RUN_THREADS] && ipu_options_set(j->options, "threads", values[RUN_THREADS]) != IPU_OK)
        || (values[RUN_PROFILE] && ipu_options_set(j->options, "profile", "true") != IPU_OK))
        return failed();
    const ipu_onnx_options options = {.dims          = j->file.dims,
                                      .n_dims        = j->file.n_dims,
                                      .options       = j->options,
                                      .target        = &j->target,
                                      .most_bytes    = most_bytes,
                                      .stages        = j->ipus.stages,
                                      .replicas      = j->ipus.replicas,
                                      .batches       = j->ipus.batches,
                                      .output_mode   = j->ipus.mode,
                                      .output_period = j->ipus.period,
                                      .outputs       = j->file.anchors,
                                      .n_outputs     = j->file.n_anchors};
    return ipu_onnx_session_create(j->file.onnx, &options, &j->session) == IPU_OK ? TOOL_OK : failed();
}

static tool_exit run_model(job *j)
{
    int64_t   n    = 1;
    tool_exit code = run_outputs_check(&j->file, j->args);
    if (j->args->values[RUN_REPEAT] && !tool_integer("repeat", j->args->values[RUN_REPEAT], 1, 1000000, &n))
        return TOOL_USAGE;
    if (code == TOOL_OK) code = run_inputs_make(&j->in, &j->file, j->args, run_ipus_batches(&j->ipus));
    if (code != TOOL_OK) return code;
    run_result r = {.file = &j->file, .in = &j->in, .out = j->out, .ipus = &j->ipus};
    code         = run_all(j, n, &r);
    if (code == TOOL_OK) code = price(j, &r.cost);
    if (code != TOOL_OK) return code;
    ipu_engine_counters counters;
    ipu_engine_get_counters(ipu_onnx_session_engine(j->session), &counters);
    r.threads    = counters.threads;
    r.was_cached = ipu_onnx_session_was_cached(j->session);
    code         = run_outputs_write(&j->file, j->args, j->out);
    if (code != TOOL_OK) return code;
    r.engine = j->args->values[RUN_KERNELS] ? ipu_onnx_session_engine(j->session) : NULL;
    if (j->args->values[RUN_JSON]) return tool_print_json(stdout, run_json(&r));
    run_print(&r);
    if (r.engine) kernels_print(stdout, r.engine);
    return TOOL_OK;
}

static tool_exit start(job *j)
{
    tool_exit code = onnx_file_open(&j->file, "run", j->args, RUN_SHAPE);
    if (code == TOOL_OK) code = run_outputs_add_anchors(&j->file, j->args);
    if (code == TOOL_OK) code = make_session(j);
    if (code != TOOL_OK) return code;
    j->out = calloc(j->file.n_outputs + 1, sizeof *j->out);
    if (!j->out) return tool_fail("out of memory");
    return j->args->values[RUN_TEST] ? run_test(j->args, &j->file, j->session) : run_model(j);
}

tool_exit run_run(const tool_arguments *args)
{
    const char *const *v = args->values;
    if (v[RUN_TEST]
        && (v[RUN_INPUT] || v[RUN_OUTPUT] || v[RUN_ANCHOR] || v[RUN_SEED] || v[RUN_REPEAT] || v[RUN_PROFILE]
            || v[RUN_KERNELS]))
        return tool_usage(
            "run", "--test has inputs and outputs of its own: without --input, --output, --anchor, --seed, "
                   "--repeat, --profile and --kernels");
    if (!v[RUN_TEST] && (v[RUN_RTOL] || v[RUN_ATOL]))
        return tool_usage("run", "--rtol and --atol are for --test");
    if (v[RUN_OUTPUT] || v[RUN_PROFILE]) tool_must_finish();
    job       j    = {.args = args};
    tool_exit code = start(&j);
    free_outputs(&j);
    free(j.out);
    ipu_cost_destroy(j.profile);
    run_inputs_free(&j.in);
    ipu_onnx_session_destroy(j.session);
    ipu_options_destroy(j.options);
    onnx_file_free(&j.file);
    return code;
}

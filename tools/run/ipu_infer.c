/* `ipu infer`: classifies pictures with a network. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "run/picture.h"
#include "ipu/scores.h"

typedef struct job {
    const tool_arguments *args;
    onnx_file             file;
    picture_form          form;
    int64_t               top;
    ipu_options          *options;
    ipu_onnx_session     *session;
    ipu_onnx_value        in, *out;
    json_t               *results; /* NULL if text is printed */
} job;

typedef struct guess {
    int64_t class;
    double confidence;
} guess;

static tool_exit failed(void) { return tool_fail("%s", ipu_message()); }

/* Most probable first; ties by number. */
static int by_confidence(const void *a, const void *b)
{
    const guess *x = a, *y = b;
    if (x->confidence != y->confidence) return x->confidence < y->confidence ? 1 : -1;
    return x->class < y->class ? -1 : 1;
}

/* ---- results ---- */

static void print_result(const job *j, const char *path, const guess *guesses, int64_t n)
{
    printf("Inference result of %s is: %lld  confidence %.4f\n", path, (long long)guesses[0].class,
           guesses[0].confidence);
    for (int64_t i = 0; j->args->values[INFER_TOP] && i < n && i < j->top; i++)
        printf("  %-6lld %.6f\n", (long long)guesses[i].class, guesses[i].confidence);
}

static tool_exit keep_result(job *j, const char *path, const guess *guesses, int64_t n)
{
    json_t *top = json_array();
    bool    ok  = top != NULL;
    for (int64_t i = 0; ok && i < n && i < j->top; i++)
        ok = json_array_append_new(top, json_pack("{s:I, s:f}", "class", (json_int_t)guesses[i].class,
                                                  "confidence", guesses[i].confidence))
          == 0;
    ok = ok
      && json_array_append_new(j->results, json_pack("{s:o, s:I, s:f, s:O}", "image", tool_json_text(path),
                                                     "result", (json_int_t)guesses[0].class, "confidence",
                                                     guesses[0].confidence, "top", top))
             == 0;
    json_decref(top);
    return ok ? TOOL_OK : tool_fail("out of memory");
}

static tool_exit check_numbers(const job *j, const char *path, const guess *guesses, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (isnan(guesses[i].confidence))
            return tool_fail(
                "%s: the network %s gives no numbers for it (nan): its training diverged, or its "
                "weights are damaged; train it again, with a lower --lr",
                path, j->file.path);
    return TOOL_OK;
}

static tool_exit tell(job *j, const char *path, guess *guesses, int64_t n)
{
    qsort(guesses, (size_t)n, sizeof *guesses, by_confidence);
    if (j->results) return keep_result(j, path, guesses, n);
    print_result(j, path, guesses, n);
    return TOOL_OK;
}

/* Reports the first row of the first output. */
static tool_exit report(job *j, const char *path)
{
    const ipu_array *a = &j->out[0].array;
    char             text[128];
    if (j->out[0].kind != IPU_ONNX_ARRAY || !ipu_scores_fit(a, j->form.n)) {
        ipu_shape_text(&a->shape, text, sizeof text);
        return tool_fail("%s: output \"%s\" is %s%s: expected [%lld, classes] of a floating type",
                         j->file.path, j->file.outputs[0].name, ipu_type_name(a->type), text,
                         (long long)j->form.n);
    }
    int64_t n             = a->shape.dim[1];
    double *probabilities = calloc((size_t)n, sizeof *probabilities);
    guess  *guesses       = calloc((size_t)n, sizeof *guesses);
    if (!probabilities || !guesses) {
        free(probabilities);
        free(guesses);
        return tool_fail("out of memory");
    }
    ipu_scores_probabilities(a, 0, n, probabilities);
    for (int64_t i = 0; i < n; i++) guesses[i] = (guess){i, probabilities[i]};
    tool_exit code = check_numbers(j, path, guesses, n);
    if (code == TOOL_OK) code = tell(j, path, guesses, n);
    free(probabilities);
    free(guesses);
    return code;
}

/* ---- running ---- */

static tool_exit infer(job *j, const char *path)
{
    tool_exit code = picture_read(&j->form, path, j->in.array.data);
    if (code != TOOL_OK) return code;
    for (size_t i = 0; i < j->file.n_outputs; i++) ipu_onnx_value_free(&j->out[i]);
    if (ipu_onnx_session_run(j->session, &j->in, 1, j->out, j->file.n_outputs) != IPU_OK) return failed();
    return report(j, path);
}

static tool_exit read_options(job *j)
{
    const char *const *v = j->args->values;
    int64_t            threads;
    j->top = 1;
    if (v[INFER_RAW] && (v[INFER_MEAN] || v[INFER_STD]))
        return tool_usage("infer", "--raw takes pixels as they are: without --mean and --std");
    if ((v[INFER_TOP] && !tool_integer("top", v[INFER_TOP], 1, INT64_MAX, &j->top))
        || (v[INFER_THREADS] && !tool_integer("threads", v[INFER_THREADS], 0, 1024, &threads))
        || (v[INFER_MEAN] && !tool_number("mean", v[INFER_MEAN], -1e6, 1e6, &j->form.mean))
        || (v[INFER_STD] && !tool_number("std", v[INFER_STD], 1e-6, 1e6, &j->form.std)))
        return TOOL_USAGE;
    if (v[INFER_RAW]) j->form.raw = true;
    if (v[INFER_MEAN] || v[INFER_STD]) j->form.raw = false;
    if (v[INFER_RESIZE]) j->form.digit = false;
    return TOOL_OK;
}

static tool_exit start(job *j)
{
    const char *threads = j->args->values[INFER_THREADS];
    tool_exit   code    = onnx_file_open(&j->file, "infer", j->args, -1);
    if (code == TOOL_OK && j->file.n_outputs == 0) code = tool_fail("%s has no output", j->file.path);
    if (code == TOOL_OK) code = picture_form_find(&j->file, &j->form);
    if (code == TOOL_OK) code = read_options(j);
    if (code != TOOL_OK) return code;
    j->in.kind = IPU_ONNX_ARRAY;
    j->out     = calloc(j->file.n_outputs + 1, sizeof *j->out);
    if (j->args->values[INFER_JSON]) j->results = json_array();
    if (!j->out || (j->args->values[INFER_JSON] && !j->results)) return tool_fail("out of memory");
    if (ipu_array_create(IPU_FLOAT, j->form.shape, &j->in.array) != IPU_OK
        || ipu_options_create(&j->options) != IPU_OK
        || (threads && ipu_options_set(j->options, "threads", threads) != IPU_OK)
        || ipu_onnx_session_create(j->file.onnx, &(ipu_onnx_options){.options = j->options}, &j->session)
               != IPU_OK)
        return failed();
    return TOOL_OK;
}

static void finish(job *j)
{
    for (size_t i = 0; j->out && i < j->file.n_outputs; i++) ipu_onnx_value_free(&j->out[i]);
    free(j->out);
    ipu_array_free(&j->in.array);
    ipu_onnx_session_destroy(j->session);
    ipu_options_destroy(j->options);
    onnx_file_free(&j->file);
    json_decref(j->results);
}

/* A picture that cannot be read does not stop the others. */
tool_exit run_infer(const tool_arguments *args)
{
    job       j    = {.args = args};
    tool_exit code = start(&j);
    if (code == TOOL_OK) {
        for (int i = 1; i < args->n_operands; i++)
            if (infer(&j, args->operands[i]) != TOOL_OK) code = TOOL_FAILED;
        if (j.results
            && tool_print_json(stdout, json_pack("{s:o, s:O}", "model", tool_json_text(j.file.path),
                                                 "results", j.results))
                   != TOOL_OK)
            code = TOOL_FAILED;
    }
    finish(&j);
    return code;
}

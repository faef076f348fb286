/* A dataset's contents, in words and numbers. */
#include "dataset/show.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harmless.h"
#include "output.h"

typedef struct summary {
    const char  *part;
    ipu_dataset *set;
    int64_t     *per_class; /* NULL without labels */
    double       mean, std;
} summary;

static int64_t field_elements(const ipu_field *f)
{
    int64_t n = 1;
    for (int d = 0; d < f->shape.rank; d++) n *= f->shape.dim[d];
    return n;
}

/* Reads all samples. */
static ipu_status count(summary *s, float *pixels)
{
    const int64_t n        = ipu_dataset_n_samples(s->set),
                  n_pixels = field_elements(ipu_dataset_field_at(s->set, 0));
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t label;
        IPU_TRY(ipu_dataset_get(s->set, i, (void *[]){pixels, &label}));
        s->per_class[label]++;
        double of_one = 0, squares_of_one = 0;
        for (int64_t p = 0; p < n_pixels; p++) {
            of_one += (double)pixels[p];
            squares_of_one += (double)pixels[p] * (double)pixels[p];
        }
        sum += of_one;
        squares += squares_of_one;
    }
    double all = (double)(n * n_pixels);
    s->mean    = sum / all;
    s->std     = sqrt(fmax(squares / all - s->mean * s->mean, 0));
    return IPU_OK;
}

static tool_exit summarise(const char *path, ipu_dataset_part part, summary *s)
{
    *s = (summary){.part = part == IPU_TEST ? "test" : "training"};
    if (ipu_dataset_open(path, part, NULL, &s->set) != IPU_OK) return tool_fail("%s", ipu_message());
    float *pixels  = calloc((size_t)field_elements(ipu_dataset_field_at(s->set, 0)) + 1, sizeof *pixels);
    s->per_class   = calloc((size_t)ipu_dataset_n_classes(s->set) + 1, sizeof *s->per_class);
    tool_exit code = TOOL_OK;
    if (!pixels || !s->per_class)
        code = tool_fail("out of memory");
    else if (count(s, pixels) != IPU_OK)
        code = tool_fail("%s", ipu_message());
    free(pixels);
    return code;
}

static void forget(summary *s)
{
    ipu_dataset_destroy(s->set);
    free(s->per_class);
}

/* ---- for people ---- */

static void print_fields(const ipu_dataset *set)
{
    char shape[256];
    for (size_t i = 0; i < ipu_dataset_n_fields(set); i++) {
        const ipu_field *f = ipu_dataset_field_at(set, i);
        ipu_shape_text(&f->shape, shape, sizeof shape);
        printf("%s%s %s%s", i ? ", " : "", harmless(f->name), ipu_type_name(f->type),
               f->shape.rank ? shape : "");
    }
    putchar('\n');
}

static void print_summary(const summary *s)
{
    enum { MOST = 40 };
    int64_t n_classes = ipu_dataset_n_classes(s->set);
    printf("%-9s %" PRId64 " samples, mean %.4f, deviation %.4f\n", s->part, ipu_dataset_n_samples(s->set),
           s->mean, s->std);
    for (int64_t c = 0; c < n_classes && c < MOST; c++)
        printf("  class %-3" PRId64 " %8" PRId64 "\n", c, s->per_class[c]);
    if (n_classes > MOST) printf("  and %" PRId64 " further classes\n", n_classes - MOST);
}

/* ---- for programs ---- */

static json_t *describe_fields(const ipu_dataset *set)
{
    json_t *list   = json_array();
    bool    failed = !list;
    for (size_t i = 0; i < ipu_dataset_n_fields(set); i++) {
        const ipu_field *f     = ipu_dataset_field_at(set, i);
        json_t          *shape = json_array();
        for (int d = 0; d < f->shape.rank; d++)
            failed |= json_array_append_new(shape, json_integer(f->shape.dim[d])) != 0;
        failed |= json_array_append_new(list, json_pack("{s:o, s:s, s:o}", "name", tool_json_text(f->name),
                                                        "type", ipu_type_name(f->type), "shape", shape))
               != 0;
    }
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static json_t *describe_part(const summary *s)
{
    json_t *list   = json_array();
    bool    failed = !list;
    for (int64_t c = 0; c < ipu_dataset_n_classes(s->set); c++)
        failed |= json_array_append_new(list, json_integer(s->per_class[c])) != 0;
    if (!failed)
        return json_pack("{s:I, s:o, s:o, s:o}", "samples", (json_int_t)ipu_dataset_n_samples(s->set), "mean",
                         tool_json_finite(s->mean), "std", tool_json_finite(s->std), "per_class", list);
    json_decref(list);
    return NULL;
}

tool_exit dataset_show(const char *path, bool json)
{
    summary   parts[2] = {0};
    tool_exit code     = summarise(path, IPU_TRAIN, &parts[0]);
    if (code == TOOL_OK) code = summarise(path, IPU_TEST, &parts[1]);
    if (code == TOOL_OK && json) {
        code = tool_print_json(stdout, json_pack("{s:o, s:s, s:o, s:I, s:o, s:o}", "path",
                                                 tool_json_text(path), "kind", ipu_dataset_kind(parts[0].set),
                                                 "fields", describe_fields(parts[0].set), "classes",
                                                 (json_int_t)ipu_dataset_n_classes(parts[0].set), "train",
                                                 describe_part(&parts[0]), "test", describe_part(&parts[1])));
    } else if (code == TOOL_OK) {
        printf("%s: %s\nfields    ", path, ipu_dataset_kind(parts[0].set));
        print_fields(parts[0].set);
        print_summary(&parts[0]);
        print_summary(&parts[1]);
    }
    forget(&parts[0]);
    forget(&parts[1]);
    return code;
}

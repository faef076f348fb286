/* `ipu ops`: the op library: all ops by family, or one of them in detail. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "ipu/builder.h"
#include "output.h"

enum { WIDTH = 100 };

static const char *const kind_names[] = {[IPU_ATTRIBUTE_INT]   = "int",
                                         [IPU_ATTRIBUTE_FLOAT] = "float",
                                         [IPU_ATTRIBUTE_TEXT]  = "text",
                                         [IPU_ATTRIBUTE_INTS]  = "ints"};

static const char *gradient_of(const ipu_op_info *op) { return op->has_gradient ? "yes" : "no"; }

static const char *form_of(const ipu_op_info *op)
{
    return op->is_composite ? "composition of other ops" : op->is_view ? "view: nothing moves" : "kernel";
}

/* ---- the list ---- */

static bool is_of_family(const ipu_op_info *op, const char *family)
{
    return !family || strcmp(op->family, family) == 0;
}

static void add_names(char *out, size_t size, const char *const *names)
{
    for (size_t i = 0; names[i]; i++) {
        size_t n = strlen(out);
        snprintf(out + n, size - n, "%s%s", i ? ", " : "", names[i]);
    }
}

static void print_row(const ipu_op_info *op)
{
    char inputs[1024] = "", outputs[1024] = "", line[2080];
    add_names(inputs, sizeof inputs, op->inputs);
    add_names(outputs, sizeof outputs, op->outputs);
    snprintf(line, sizeof line, "%s -> %s", inputs, outputs);
    printf("  %-22s %-34.34s %s\n", op->name, line, op->summary);
}

/* Families in the order of their first op; ops of a family need not be adjacent. */
static tool_exit print_list(const char *only)
{
    ipu_op_info first, op;
    size_t      n = ipu_n_ops(), n_listed = 0;
    for (size_t i = 0; i < n; i++) {
        bool seen = false;
        ipu_op_info_at(i, &first);
        for (size_t k = 0; k < i && !seen; k++)
            seen = ipu_op_info_at(k, &op) == IPU_OK && strcmp(op.family, first.family) == 0;
        if (seen || !is_of_family(&first, only)) continue;
        printf("%s%s\n", n_listed ? "\n" : "", first.family);
        for (size_t k = i; k < n; k++) {
            ipu_op_info_at(k, &op);
            if (strcmp(op.family, first.family) != 0) continue;
            print_row(&op);
            n_listed++;
        }
    }
    if (n_listed == 0) return tool_fail("no family \"%s\"; `ipu ops` lists them", only);
    printf("\n%zu ops. `ipu ops NAME` shows one in detail.\n", n_listed);
    return TOOL_OK;
}

/* ---- one op ---- */

static void print_names(const char *title, const char *const *names, const char *last)
{
    printf("%-16s", title);
    for (size_t i = 0; names[i]; i++) printf("%s%s", i ? ", " : "", names[i]);
    printf("%s%s\n", names[0] && *last ? ", " : "", last);
}

static void print_attribute(const ipu_op_attribute *a)
{
    char otherwise[128] = "";
    if (a->required)
        snprintf(otherwise, sizeof otherwise, "required");
    else if (a->kind == IPU_ATTRIBUTE_TEXT && a->text_otherwise)
        snprintf(otherwise, sizeof otherwise, "= \"%s\"", a->text_otherwise);
    else if (a->kind == IPU_ATTRIBUTE_INT || a->kind == IPU_ATTRIBUTE_FLOAT)
        snprintf(otherwise, sizeof otherwise, "= %g", a->otherwise);
    int n = printf("  %-14s %-6s %-10s ", a->name, kind_names[a->kind], otherwise);
    tool_print_wrapped(stdout, a->meaning ? a->meaning : "", n, 35, WIDTH);
}

static void print_op(const ipu_op_info *op)
{
    printf("%s (%s): %s\n\n", op->name, op->family, op->summary);
    print_names("inputs", op->inputs, op->inputs[0] ? "" : "none");
    print_names("outputs", op->outputs, "");
    printf("%-16s%s\n", "form", form_of(op));
    printf("%-16s%s\n", "gradient", gradient_of(op));
    if (!op->is_composite && !op->is_view)
        print_names("implementations", op->implementations, "the reference");
    if (op->n_attributes) puts("\nAttributes:");
    for (size_t i = 0; i < op->n_attributes; i++) print_attribute(&op->attributes[i]);
    if (op->samples[0]) puts("\nSamples:");
    for (size_t i = 0; op->samples[i]; i++) printf("  %s\n", op->samples[i]);
}

/* ---- JSON ---- */

static json_t *json_names(const char *const *names)
{
    json_t *list   = json_array();
    bool    failed = !list;
    for (size_t i = 0; names[i]; i++) failed |= json_array_append_new(list, json_string(names[i])) != 0;
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static json_t *json_otherwise(const ipu_op_attribute *a)
{
    if (a->required || a->kind == IPU_ATTRIBUTE_INTS) return json_null();
    if (a->kind == IPU_ATTRIBUTE_TEXT)
        return a->text_otherwise ? json_string(a->text_otherwise) : json_null();
    /* JSON has no such numbers. */
    if (isnan(a->otherwise)) return json_string("nan");
    if (isinf(a->otherwise)) return json_string(a->otherwise > 0 ? "inf" : "-inf");
    return tool_json_number(a->otherwise);
}

static json_t *json_attributes(const ipu_op_info *op)
{
    json_t *list   = json_array();
    bool    failed = !list;
    for (size_t i = 0; i < op->n_attributes; i++) {
        const ipu_op_attribute *a = &op->attributes[i];
        failed |= json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:o, s:s}", "name", a->name, "kind",
                                                        kind_names[a->kind], "required", (int)a->required,
                                                        "default", json_otherwise(a), "meaning",
                                                        a->meaning ? a->meaning : ""))
               != 0;
    }
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static json_t *json_op(const ipu_op_info *op)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:b, s:b, s:b, s:o, s:o}", "name", op->name, "family",
                     op->family, "summary", op->summary, "inputs", json_names(op->inputs), "outputs",
                     json_names(op->outputs), "attributes", json_attributes(op), "gradient",
                     (int)op->has_gradient, "composite", (int)op->is_composite, "view", (int)op->is_view,
                     "implementations", json_names(op->implementations), "samples", json_names(op->samples));
}

static json_t *json_list(const char *family)
{
    json_t     *list   = json_array();
    bool        failed = !list;
    ipu_op_info op;
    for (size_t i = 0; i < ipu_n_ops(); i++)
        if (ipu_op_info_at(i, &op) == IPU_OK && is_of_family(&op, family))
            failed |= json_array_append_new(list, json_op(&op)) != 0;
    if (!failed) return json_pack("{s:o}", "ops", list);
    json_decref(list);
    return NULL;
}

tool_exit run_ops(const tool_arguments *args)
{
    const char *family = args->values[OPS_FAMILY];
    bool        json   = args->values[OPS_JSON];
    if (args->n_operands == 0) return json ? tool_print_json(stdout, json_list(family)) : print_list(family);
    if (family) return tool_usage("ops", "--family lists several ops: give it or NAME");
    ipu_op_info op;
    if (ipu_op_info_find(args->operands[0], &op) != IPU_OK) return tool_fail("%s", ipu_message());
    if (json) return tool_print_json(stdout, json_op(&op));
    print_op(&op);
    return TOOL_OK;
}

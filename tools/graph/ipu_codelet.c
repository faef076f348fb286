/* `ipu codelet`: compiles C source to a module of codelets, lists it, and optionally writes it to a file. */
#include "ipu/codelet.h"

#include <stdio.h>

#include "command.h"
#include "output.h"

static const char *const forms[] = {
#define X(form, text, direction, shape) [IPU_FIELD_##form] = text,
    IPU_FIELD_FORM_LIST(X)
#undef X
};

static void print_list(const ipu_codelet_module *m)
{
    for (uint32_t i = 0; i < m->n_codelets; i++) {
        const ipu_codelet *c = m->codelets[i];
        printf("%s%s, %u bytes\n", c->name, c->multi ? " multi" : "", c->bytes);
        for (uint32_t k = 0; k < c->n_fields; k++) {
            const ipu_codelet_field *f = &c->fields()[k];
            printf("  %-14s %-9s %s\n", forms[f->form], ipu_type_name(f->type), f->name);
        }
    }
}

static json_t *json_fields(const ipu_codelet *c)
{
    json_t *fields = json_array();
    for (uint32_t k = 0; k < c->n_fields; k++) {
        const ipu_codelet_field *f = &c->fields()[k];
        json_array_append_new(fields,
                              json_pack("{s:s, s:s, s:s, s:I}", "name", f->name, "form", forms[f->form],
                                        "type", ipu_type_name(f->type), "offset", (json_int_t)f->offset));
    }
    return fields;
}

static json_t *json_list(const ipu_codelet_module *m)
{
    json_t *codelets = json_array();
    for (uint32_t i = 0; i < m->n_codelets; i++) {
        const ipu_codelet *c = m->codelets[i];
        json_array_append_new(codelets, json_pack("{s:s, s:b, s:I, s:o}", "name", c->name, "multi", c->multi,
                                                  "bytes", (json_int_t)c->bytes, "fields", json_fields(c)));
    }
    return json_pack("{s:o}", "codelets", codelets);
}

/* Loads the compiled file before writing it, so that an unloadable one is never written. */
static tool_exit compile(const tool_arguments *args)
{
    const char *const        *values = args->values;
    const char               *path = args->operands[0], *flags = values[CODELET_FLAGS];
    const ipu_codelet_module *m;
    if (ipu_codelet_load_file(path, flags, &m) != IPU_OK) return tool_fail("%s", ipu_message());
    if (values[CODELET_OUTPUT] && ipu_codelet_compile(path, flags, values[CODELET_OUTPUT]) != IPU_OK)
        return tool_fail("%s", ipu_message());
    if (values[CODELET_JSON]) return tool_print_json(stdout, json_list(m));
    if (values[CODELET_LIST] || !values[CODELET_OUTPUT]) print_list(m);
    return TOOL_OK;
}

tool_exit run_codelet(const tool_arguments *args)
{
    if (args->n_operands == 0 && !args->values[CODELET_CLEAR])
        return tool_usage("codelet", "expected FILE.c or --clear-cache");
    if (args->values[CODELET_CLEAR] && ipu_codelet_clear_cache() != IPU_OK)
        return tool_fail("%s", ipu_message());
    return args->n_operands ? compile(args) : TOOL_OK;
}

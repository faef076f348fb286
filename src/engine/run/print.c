/* Tensors as text: for PrintTensor, and for the value in an error.
 *
 *     x: 1.5000000        x: [1 2 3]        x: [
 *                                            [1 2]
 *                                            [3 4]
 *                                           ]
 */
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "engine/run/run.h"

static void add_element(ipu__text *text, ipu_type type, const char *at)
{
#define ELEMENT(TYPE, ctype, format, expression) \
    case IPU_##TYPE: {                           \
        ctype x;                                 \
        memcpy(&x, at, sizeof x);                \
        ipu__text_add(text, format, expression); \
        return;                                  \
    }
    switch (type) {
        ELEMENT(BOOL, uint8_t, "%d", x != 0)
        ELEMENT(INT8, int8_t, "%d", x)
        ELEMENT(UINT8, uint8_t, "%d", x)
        ELEMENT(INT16, int16_t, "%d", x)
        ELEMENT(UINT16, uint16_t, "%d", x)
        ELEMENT(INT32, int32_t, "%d", x)
        ELEMENT(UINT32, uint32_t, "%u", x)
        ELEMENT(INT64, int64_t, "%lld", (long long)x)
        ELEMENT(UINT64, uint64_t, "%llu", (unsigned long long)x)
        ELEMENT(HALF, ipu_half, "%.7f", (double)ipu_half_to_float(x))
        ELEMENT(BFLOAT16, ipu_bfloat16, "%.7f", (double)ipu_bfloat16_to_float(x))
        ELEMENT(FLOAT, float, "%.7f", (double)x)
        ELEMENT(DOUBLE, double, "%.7f", x)
    case IPU_N_TYPES: return;
    }
#undef ELEMENT
}

/* Dimension `dim` and everything inside it; advances `*at`. */
static void add_dimension(ipu__text *text, const ipu__exe_tensor *tensor, int dim, const char **at)
{
    if (dim == tensor->shape.rank) {
        add_element(text, tensor->type, *at);
        *at += ipu_type_size(tensor->type);
        return;
    }
    bool    by_line = dim == 0 && tensor->shape.rank > 1;
    int64_t n       = tensor->shape.dim[dim];
    ipu__text_add(text, "[");
    for (int64_t i = 0; i < n && !text->failed; i++) {
        ipu__text_add(text, "%s", by_line ? "\n " : i ? " " : "");
        add_dimension(text, tensor, dim + 1, at);
    }
    ipu__text_add(text, by_line && n > 0 ? "\n]" : "]");
}

static ipu_status add_tensor(ipu__runner *l, ipu__text *text, uint32_t index, int64_t replica)
{
    ipu_engine            *e      = l->e;
    const ipu__exe_tensor *tensor = &e->exe->tensors.at[index];
    const char            *at     = tensor->direct ? ipu__engine_map(e, replica, tensor->place) : NULL;
    if (!at) IPU_TRY(e->def->read(l, tensor, replica, l->staging));
    if (!at) at = l->staging;
    add_dimension(text, tensor, 0, &at);
    return ipu__or_memory(!text->failed);
}

ipu_status ipu__engine_print(ipu__runner *l, const ipu__instruction *i)
{
    ipu_engine           *e     = l->e;
    const ipu__exe_print *print = &e->exe->prints.at[i->a];
    if (!ipu__log_wants(IPU_LOG_PRINT, "program")) return IPU_OK;
    for (int64_t r = 0; r < e->replication; r++) {
        ipu__text text = {0};
        ipu__text_add(&text, "%s", ipu__exe_text(e->exe, print->text));
        if (e->replication > 1) ipu__text_add(&text, " (replica %lld)", (long long)r);
        ipu__text_add(&text, ": ");
        ipu_status status = add_tensor(l, &text, print->tensor, r);
        if (status == IPU_OK) ipu__log_text(IPU_LOG_PRINT, "program", text.at);
        ipu__text_fini(&text);
        if (status != IPU_OK) return status;
    }
    return IPU_OK;
}

ipu_status ipu__engine_error(ipu__runner *l, const ipu__instruction *i)
{
    ipu_engine           *e     = l->e;
    const ipu__exe_print *print = &e->exe->prints.at[i->a];
    const char           *what  = ipu__exe_text(e->exe, print->text);
    if (print->tensor == IPU__NONE) return ipu__engine_abort(e, i, "%s", what);
    ipu__text  text   = {0};
    ipu_status status = add_tensor(l, &text, print->tensor, 0);
    if (status == IPU_OK) status = ipu__engine_abort(e, i, "%s: %s", what, text.at);
    ipu__text_fini(&text);
    return status;
}

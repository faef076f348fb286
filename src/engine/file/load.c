/* Executables from bytes and files: reading, checking as a whole, and linking to codelets and kernels.
 *
 * Nothing is used before it is checked: the format here, the contents by validate.c. Source is compiled
 * last, after everything else has passed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/host/file.h"
#include "engine/file/image.h"
#include "engine/options.h"
#include "engine/file/validate.h"
#include "graph/graph.h"
#include "ipu/version.h"

#define LARGEST_FILE ((size_t)1 << 40)

enum { MOST_ATTRIBUTES = 1024 };

typedef struct reader {
    const char *at;
    size_t      left;
} reader;

static ipu_status damaged(const char *why)
{
    return ipu__fail(IPU_INVALID, "no usable executable: %s: save it again", why);
}

/* NULL if there are fewer bytes left. */
static const char *take(reader *r, size_t bytes)
{
    if (bytes > r->left) return NULL;
    const char *at = r->at;
    r->at += bytes;
    r->left -= bytes;
    return at;
}

static bool get(reader *r, void *out, size_t bytes)
{
    const char *at = take(r, bytes);
    if (at && bytes > 0) memcpy(out, at, bytes);
    return at != NULL;
}

/* ---- the form ---- */

static ipu_status check_header(const ipu__file_header *h, size_t bytes)
{
    if (memcmp(h->magic, IPU__FILE_MAGIC, sizeof h->magic) != 0)
        return damaged("expected a file of ipu_executable_save, found something else");
    if (h->order != IPU__FILE_ORDER || h->pointer_bytes != sizeof(void *))
        return ipu__fail(IPU_INVALID,
                         "the executable is for machines of another kind (byte order 0x%08x, pointers of %u "
                         "bytes): compile the graph on this one",
                         h->order, h->pointer_bytes);
    if (h->format != IPU__FILE_FORMAT)
        return ipu__fail(IPU_INVALID,
                         "expected an executable of format %d (OpenIPU %s), found format %u (OpenIPU %.15s): "
                         "compile the graph again",
                         IPU__FILE_FORMAT, ipu_version(), h->format, h->version);
    if (h->bytes > bytes) return damaged("it is cut off");
    if (h->bytes < bytes) return damaged("something follows its end");
    if (h->n_sections != ipu__exe_n_sections + 3) return damaged("the number of its sections is wrong");
    return IPU_OK;
}

/* Header and hash; leaves the reader at the table. */
static ipu_status open_image(const void *data, size_t bytes, reader *out)
{
    ipu__file_header header;
    ipu__hash128     hash;
    *out = (reader){data, bytes};
    if (!get(out, &header, sizeof header)) return damaged("it is shorter than a header");
    IPU_TRY(check_header(&header, bytes));
    if (out->left < sizeof hash) return damaged("it is cut off");
    out->left -= sizeof hash;
    hash = ipu__hash_bulk(data, bytes - sizeof hash);
    if (memcmp(hash.bytes, out->at + out->left, sizeof hash.bytes) != 0)
        return damaged("its contents do not have the hash it gives");
    return IPU_OK;
}

/* The next table entry, which must be this section, and its contents. */
static ipu_status open_section(reader *table, reader *contents, const char *name, size_t element_bytes,
                               size_t *n, reader *out)
{
    ipu__file_entry entry;
    if (!get(table, &entry, sizeof entry)) return damaged("its table is cut off");
    if (strncmp(entry.name, name, sizeof entry.name) != 0 || entry.element_bytes != element_bytes)
        return ipu__fail(IPU_INVALID, "no usable executable: section \"%s\" is not where it should be", name);
    if (entry.n > contents->left / element_bytes)
        return ipu__fail(IPU_INVALID, "no usable executable: section \"%s\" ends behind the end", name);
    *n        = (size_t)entry.n;
    out->left = *n * element_bytes;
    out->at   = take(contents, out->left);
    return IPU_OK;
}

/* ---- arrays ---- */

static bool read_element(const ipu__exe_section *section, reader *r, char *to)
{
    for (size_t k = 0; k < section->n_members; k++) {
        const ipu__exe_member *member = &section->members[k];
        if (!get(r, to + member->offset, member->bytes)) return false;
        if (member->is_bool && *(unsigned char *)(to + member->offset) > 1) return false;
    }
    return true;
}

static ipu_status read_array(ipu_executable *exe, const ipu__exe_section *section, reader *r, size_t n)
{
    ipu__any_array array = {0};
    bool           plain = section->n_members == 1 && section->members[0].bytes == section->element_bytes;
    if (n > 0 && !ipu__array_grow(&array.at, &array.capacity, 0, n, section->element_bytes))
        return ipu__fail_memory();
    array.n = n;
    memcpy((char *)exe + section->array, &array, sizeof array);
    if (n > 0 && !plain) memset(array.at, 0, n * section->element_bytes);
    if (plain) return get(r, array.at, r->left) || n == 0 ? IPU_OK : damaged("a section is cut off");
    for (size_t i = 0; i < n; i++)
        if (!read_element(section, r, (char *)array.at + i * section->element_bytes))
            return ipu__fail(IPU_INVALID, "no usable executable: element %zu of \"%s\" is malformed", i,
                             section->name);
    return IPU_OK;
}

/* ---- kernels ---- */

static const char *read_string(reader *r, bool *ok)
{
    uint32_t    n  = 0;
    const char *at = NULL;
    *ok            = *ok && get(r, &n, sizeof n);
    if (*ok && n > 0) *ok = (at = take(r, n)) && at[n - 1] == 0 && strlen(at) == n - 1;
    return *ok ? at : NULL;
}

static uint32_t read_u32(reader *r, bool *ok)
{
    uint32_t number = 0;
    *ok             = *ok && get(r, &number, sizeof number);
    return number;
}

static ipu_status read_attribute(ipu_executable *exe, reader *r, ipu_attribute *out)
{
    bool        ok   = true;
    uint32_t    kind = read_u32(r, &ok);
    const char *name = read_string(r, &ok);
    uint64_t    n    = 0;
    *out             = (ipu_attribute){.kind = (ipu_attribute_kind)kind};
    ok               = ok && get(r, &out->i, sizeof out->i) && get(r, &out->f, sizeof out->f);
    const char *text = read_string(r, &ok);
    ok               = ok && get(r, &n, sizeof n) && n <= r->left / sizeof *out->ints;
    if (!ok || !name || kind > IPU_ATTRIBUTE_INTS || (kind != IPU_ATTRIBUTE_INTS && n > 0)
        || (text != NULL) != (kind == IPU_ATTRIBUTE_TEXT))
        return damaged("an attribute of a kernel is malformed");
    out->n_ints = (size_t)n;
    out->name   = ipu__arena_strdup(&exe->arena, name);
    if (text) out->text = ipu__arena_strdup(&exe->arena, text);
    const char *ints = take(r, (size_t)n * sizeof *out->ints);
    if (n > 0) out->ints = ipu__arena_copy(&exe->arena, ints, (size_t)n * sizeof *out->ints);
    return ipu__or_memory(out->name && (!text || out->text) && (n == 0 || out->ints));
}

static ipu_status read_attributes(ipu_executable *exe, reader *r, ipu__kernel_call *call)
{
    bool     ok = true;
    uint32_t n  = read_u32(r, &ok);
    if (!ok || n > MOST_ATTRIBUTES) return damaged("the attributes of a kernel are malformed");
    ipu_attribute *own = ipu__arena_alloc(&exe->arena, n * sizeof *own);
    if (!own) return ipu__fail_memory();
    call->attributes   = own;
    call->n_attributes = n;
    for (uint32_t i = 0; i < n; i++) IPU_TRY(read_attribute(exe, r, &own[i]));
    return IPU_OK;
}

static bool read_operand(reader *r, ipu__kernel_value *value, ipu__place *place, uint32_t *buffer)
{
    bool     ok   = true;
    uint32_t type = read_u32(r, &ok), rank = read_u32(r, &ok);
    if (!ok || type >= IPU_N_TYPES || rank > IPU_MAX_RANK) return false;
    value->type       = (ipu_type)type;
    value->shape.rank = (int)rank;
    return get(r, value->shape.dim, rank * sizeof *value->shape.dim) && get(r, place, sizeof *place)
        && get(r, buffer, sizeof *buffer);
}

static ipu_status read_kernel(ipu_executable *exe, reader *r)
{
    ipu__exe_kernel kernel = {0};
    bool            ok     = true;
    const char     *name   = read_string(r, &ok);
    if (!ok || !name) return damaged("the name of a kernel is malformed");
    kernel.call.def = ipu__kernel_find(name);
    if (!kernel.call.def)
        return ipu__fail(IPU_NOT_FOUND,
                         "the executable needs kernel \"%s\", which this version (%s) does not have", name,
                         ipu_version());
    IPU_TRY(read_attributes(exe, r, &kernel.call));
    uint32_t n             = read_u32(r, &ok);
    ok                     = ok && n <= IPU__MAX_OPERANDS;
    kernel.call.n_operands = ok ? (int)n : 0;
    for (uint32_t i = 0; ok && i < n; i++)
        ok = read_operand(r, &kernel.call.operand[i], &kernel.place[i], &kernel.buffer[i]);
    kernel.gather  = read_u32(r, &ok);
    kernel.scatter = read_u32(r, &ok);
    if (!ok) return damaged("the operands of a kernel are malformed");
    return ipu__or_memory(ipu__push(&exe->kernels, kernel));
}

static ipu_status read_kernels(ipu_executable *exe, reader *r)
{
    bool     ok = true;
    uint32_t n  = read_u32(r, &ok);
    if (!ok) return damaged("the kernels are cut off");
    for (uint32_t i = 0; i < n; i++) IPU_TRY(read_kernel(exe, r));
    return r->left == 0 ? IPU_OK : damaged("something follows the kernels");
}

/* ---- the whole ---- */

static ipu_status read_constants(ipu_executable *exe, const reader *r)
{
    exe->constants = ipu__alloc_pages(r->left);
    if (!exe->constants) return ipu__fail_memory();
    exe->constant_bytes = r->left;
    if (r->left > 0) memcpy(exe->constants, r->at, r->left);
    return IPU_OK;
}

static ipu_status read_image(ipu_executable *exe, const void *data, size_t bytes)
{
    reader contents, table, part;
    size_t n, table_bytes = (ipu__exe_n_sections + 3) * sizeof(ipu__file_entry);
    IPU_TRY(open_image(data, bytes, &contents));
    table.at   = take(&contents, table_bytes);
    table.left = table_bytes;
    if (!table.at) return damaged("its table is cut off");
    IPU_TRY(open_section(&table, &contents, ipu__exe_numbers.name, ipu__exe_file_bytes(&ipu__exe_numbers), &n,
                         &part));
    if (n != 1 || !read_element(&ipu__exe_numbers, &part, (char *)exe)) return damaged("it has no numbers");
    for (size_t i = 0; i < ipu__exe_n_sections; i++) {
        const ipu__exe_section *section = &ipu__exe_sections[i];
        IPU_TRY(open_section(&table, &contents, section->name, ipu__exe_file_bytes(section), &n, &part));
        IPU_TRY(read_array(exe, section, &part, n));
    }
    IPU_TRY(open_section(&table, &contents, "constants", 1, &n, &part));
    IPU_TRY(read_constants(exe, &part));
    IPU_TRY(open_section(&table, &contents, "kernels", 1, &n, &part));
    if (contents.left > 0) return damaged("something follows its sections");
    return read_kernels(exe, &part);
}

/* ---- codelets ---- */

static ipu_status differs(const char *codelet, const char *what, const char *name)
{
    return ipu__fail(IPU_INVALID,
                     "codelet \"%s\" is not the one the executable was compiled with: %s%s differs: compile "
                     "the graph again",
                     codelet, what, name);
}

static ipu_status check_signature(const ipu_executable *exe, const ipu__exe_codelet *own,
                                  const ipu_codelet *c)
{
    if (c->n_fields != own->n_signatures) return differs(c->name, "the number of fields", "");
    const ipu_codelet_field *fields = c->n_fields > 0 ? c->fields() : NULL;
    for (uint32_t i = 0; i < c->n_fields; i++) {
        const ipu__exe_signature *s = &exe->signatures.at[own->first_signature + i];
        if (strcmp(ipu__exe_text(exe, s->name), fields[i].name) != 0 || s->form != (uint32_t)fields[i].form
            || s->type != (uint32_t)fields[i].type || s->offset != fields[i].offset)
            return differs(c->name, "field ", fields[i].name);
    }
    if (c->bytes != own->bytes || c->multi != own->multi) return differs(c->name, "its struct or kind", "");
    return IPU_OK;
}

/* Where codelets are taken from. */
typedef struct origin {
    const ipu_codelet *const *codelets;
    size_t                    n;
    bool                      trusted;
} origin;

static ipu_status bind_codelet(ipu_executable *exe, ipu__exe_codelet *own, const origin *from)
{
    const char *name = ipu__exe_text(exe, own->name);
    for (size_t i = 0; i < from->n; i++) {
        const ipu_codelet *c = from->codelets[i];
        if (strcmp(c->name, name) != 0) continue;
        if (!c->compute) return ipu__fail(IPU_INVALID, "codelet \"%s\" has no body", name);
        own->compute = c->compute;
        return check_signature(exe, own, c);
    }
    return ipu__fail(
        IPU_NOT_FOUND,
        "the executable needs codelet \"%s\", which is not among the %zu given: add it to the list", name,
        from->n);
}

static ipu_status bind_source(ipu_executable *exe, uint32_t source)
{
    const ipu__exe_source    *s      = &exe->sources.at[source];
    const ipu_codelet_module *module = NULL;
    IPU_TRY(ipu_codelet_load_source(ipu__exe_text(exe, s->name), ipu__exe_text(exe, s->text),
                                    ipu__exe_text(exe, s->flags), &module));
    const origin from = {module->codelets, module->n_codelets, true};
    for (size_t i = 0; i < exe->codelets.n; i++)
        if (exe->codelets.at[i].source == source) IPU_TRY(bind_codelet(exe, &exe->codelets.at[i], &from));
    return IPU_OK;
}

static ipu_status bind_codelets(ipu_executable *exe, const origin *from)
{
    for (size_t i = 0; i < exe->codelets.n; i++)
        if (exe->codelets.at[i].source == IPU__NONE) IPU_TRY(bind_codelet(exe, &exe->codelets.at[i], from));
    if (exe->sources.n > 0 && !from->trusted)
        return ipu__fail(IPU_INVALID,
                         "the executable brings source code (\"%s\") that would be compiled and run, and it "
                         "does not come from a file that is yours and that only you may write to: set option "
                         "load.trust to true if you trust it",
                         ipu__exe_text(exe, exe->sources.at[0].name));
    for (size_t i = 0; i < exe->sources.n; i++) IPU_TRY(bind_source(exe, (uint32_t)i));
    return IPU_OK;
}

/* ---- the public functions ---- */

static ipu_status load(const void *data, size_t bytes, const origin *from, ipu_executable **out)
{
    ipu_executable *exe = ipu__alloc_zeroed(sizeof *exe);
    if (!exe) return ipu__fail_memory();
    atomic_init(&exe->references, 1);
    ipu_status status = read_image(exe, data, bytes);
    if (status == IPU_OK) status = ipu__executable_validate(exe);
    if (status == IPU_OK) status = bind_codelets(exe, from);
    if (status == IPU_OK) status = ipu__or_memory(ipu__exe_add_names(exe));
    if (status == IPU_OK)
        *out = exe;
    else
        ipu_executable_release(exe);
    return status;
}

ipu_status ipu_executable_deserialise(const void *data, size_t bytes, const ipu_codelet *const *codelets,
                                      size_t n, const ipu_options *options, ipu_executable **out)
{
    ipu__settings settings;
    *out = NULL;
    if (!data) return ipu__fail(IPU_INVALID, "%s: the data are NULL", __func__);
    IPU_TRY(ipu__options_settle(options, &settings));
    return load(data, bytes, &(origin){codelets, n, settings.trust}, out);
}

static ipu_status load_file(const char *path, const ipu_codelet *const *codelets, size_t n,
                            const ipu_options *options, bool must_be_ours, ipu_executable **out)
{
    ipu__settings settings;
    char         *data;
    size_t        bytes;
    bool          is_ours;
    IPU_TRY(ipu__options_settle(options, &settings));
    errno             = 0;
    ipu_status status = ipu__file_read_owned(path, LARGEST_FILE, &data, &bytes, &is_ours);
    if (status != IPU_OK) return must_be_ours && errno == ENOENT ? IPU_NOT_FOUND : status;
    if (must_be_ours && !is_ours)
        status = ipu__fail(IPU_INVALID, "it is another user's, or others may write to it");
    if (status == IPU_OK) status = load(data, bytes, &(origin){codelets, n, is_ours || settings.trust}, out);
    ipu__free(data);
    if (status != IPU_OK && status != IPU_OUT_OF_MEMORY) ipu__fail(status, "%s: %s", path, ipu_message());
    return status;
}

ipu_status ipu_executable_load(const char *path, const ipu_codelet *const *codelets, size_t n,
                               const ipu_options *options, ipu_executable **out)
{
    *out = NULL;
    if (!path || !*path) return ipu__fail(IPU_INVALID, "%s: expected a path, found none", __func__);
    return load_file(path, codelets, n, options, false, out);
}

ipu_status ipu__executable_load_own(const char *path, const ipu_options *options, ipu_executable **out)
{
    *out = NULL;
    return load_file(path, NULL, 0, options, true, out);
}

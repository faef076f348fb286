/* Executables to bytes and files. */
#include <stdio.h>
#include <string.h>

#include "base/host/cpu.h"
#include "base/host/file.h"
#include "base/text.h"
#include "engine/file/image.h"
#include "ipu/version.h"

static void add_bytes(ipu__text *out, const void *data, size_t bytes)
{
    if (bytes > 0) ipu__text_add_bytes(out, data, bytes);
}

static void add_u32(ipu__text *out, uint32_t number) { add_bytes(out, &number, sizeof number); }
static void add_u64(ipu__text *out, uint64_t number) { add_bytes(out, &number, sizeof number); }

/* ---- arrays ---- */

static void add_elements(ipu__text *out, const ipu__exe_section *section, const char *at, size_t n)
{
    if (section->n_members == 1 && section->members[0].bytes == section->element_bytes) {
        add_bytes(out, at, n * section->element_bytes);
        return;
    }
    for (size_t i = 0; i < n && !out->failed; i++, at += section->element_bytes)
        for (size_t k = 0; k < section->n_members; k++)
            add_bytes(out, at + section->members[k].offset, section->members[k].bytes);
}

static ipu__any_array array_of(const ipu_executable *exe, const ipu__exe_section *section)
{
    ipu__any_array array;
    memcpy(&array, (const char *)exe + section->array, sizeof array);
    return array;
}

/* ---- kernels ---- */

/* Preserves NULL. */
static void add_string(ipu__text *out, const char *text)
{
    uint32_t n = text ? (uint32_t)strlen(text) + 1 : 0;
    add_u32(out, n);
    add_bytes(out, text, n);
}

static void add_attribute(ipu__text *out, const ipu_attribute *a)
{
    bool is_list = a->kind == IPU_ATTRIBUTE_INTS;
    add_u32(out, a->kind);
    add_string(out, a->name);
    add_bytes(out, &a->i, sizeof a->i);
    add_bytes(out, &a->f, sizeof a->f);
    add_string(out, a->kind == IPU_ATTRIBUTE_TEXT ? a->text : NULL);
    add_u64(out, is_list ? a->n_ints : 0);
    if (is_list) add_bytes(out, a->ints, a->n_ints * sizeof *a->ints);
}

static void add_kernel(ipu__text *out, const ipu__exe_kernel *kernel)
{
    const ipu__kernel_call *call = &kernel->call;
    add_string(out, call->def->name);
    add_u32(out, (uint32_t)call->n_attributes);
    for (size_t i = 0; i < call->n_attributes; i++) add_attribute(out, &call->attributes[i]);
    add_u32(out, (uint32_t)call->n_operands);
    for (int i = 0; i < call->n_operands; i++) {
        const ipu__kernel_value *value = &call->operand[i];
        add_u32(out, value->type);
        add_u32(out, (uint32_t)value->shape.rank);
        add_bytes(out, value->shape.dim, (size_t)value->shape.rank * sizeof *value->shape.dim);
        add_u64(out, kernel->place[i]);
        add_u32(out, kernel->buffer[i]);
    }
    add_u32(out, kernel->gather);
    add_u32(out, kernel->scatter);
}

/* ---- the whole ---- */

static void add_entry(ipu__text *out, const char *name, size_t element_bytes, size_t n)
{
    ipu__file_entry entry = {.element_bytes = element_bytes, .n = n};
    snprintf(entry.name, sizeof entry.name, "%s", name);
    add_bytes(out, &entry, sizeof entry);
}

static void add_table(ipu__text *out, const ipu_executable *exe, size_t kernel_bytes)
{
    add_entry(out, ipu__exe_numbers.name, ipu__exe_file_bytes(&ipu__exe_numbers), 1);
    for (size_t i = 0; i < ipu__exe_n_sections; i++) {
        const ipu__exe_section *section = &ipu__exe_sections[i];
        add_entry(out, section->name, ipu__exe_file_bytes(section), array_of(exe, section).n);
    }
    add_entry(out, "constants", 1, exe->constant_bytes);
    add_entry(out, "kernels", 1, kernel_bytes);
}

static void add_header(ipu__text *out)
{
    ipu__file_header header = {.order         = IPU__FILE_ORDER,
                               .format        = IPU__FILE_FORMAT,
                               .pointer_bytes = sizeof(void *),
                               .n_sections    = (uint32_t)ipu__exe_n_sections + 3,
                               .cpu_features  = ipu__cpu_features()};
    memcpy(header.magic, IPU__FILE_MAGIC, sizeof header.magic);
    snprintf(header.version, sizeof header.version, "%s", ipu_version());
    add_bytes(out, &header, sizeof header);
}

static void add_contents(ipu__text *out, const ipu_executable *exe, const ipu__text *kernels)
{
    add_elements(out, &ipu__exe_numbers, (const char *)exe, 1);
    for (size_t i = 0; i < ipu__exe_n_sections; i++) {
        ipu__any_array array = array_of(exe, &ipu__exe_sections[i]);
        add_elements(out, &ipu__exe_sections[i], array.at, array.n);
    }
    add_bytes(out, exe->constants, exe->constant_bytes);
    add_bytes(out, kernels->at, kernels->n);
}

static ipu_status write_image(const ipu_executable *exe, ipu__text *out)
{
    ipu__text kernels = {0};
    if (exe->check)
        return ipu__fail(IPU_UNSUPPORTED, "an executable compiled with the option \"check\" cannot be saved: "
                                          "compile it again without the option, or without IPU_CHECK");
    add_u32(&kernels, (uint32_t)exe->kernels.n);
    for (size_t i = 0; i < exe->kernels.n; i++) add_kernel(&kernels, &exe->kernels.at[i]);
    add_header(out);
    add_table(out, exe, kernels.n);
    add_contents(out, exe, &kernels);
    bool ok = !kernels.failed && !out->failed;
    ipu__text_fini(&kernels);
    if (!ok) return ipu__fail_memory();
    uint64_t bytes = out->n + sizeof(ipu__hash128);
    memcpy(out->at + offsetof(ipu__file_header, bytes), &bytes, sizeof bytes);
    ipu__hash128 hash = ipu__hash_bulk(out->at, out->n);
    add_bytes(out, hash.bytes, sizeof hash.bytes);
    return ipu__or_memory(!out->failed);
}

ipu_status ipu_executable_serialise(const ipu_executable *exe, void **data, size_t *bytes)
{
    ipu__text  image  = {0};
    ipu_status status = write_image(exe, &image);
    *data             = NULL;
    *bytes            = image.n;
    if (status == IPU_OK)
        *data = ipu__text_take(&image);
    else
        ipu__text_fini(&image);
    return status;
}

ipu_status ipu_executable_save(const ipu_executable *exe, const char *path)
{
    ipu__text image = {0};
    if (!path || !*path) return ipu__fail(IPU_INVALID, "%s: expected a path, found none", __func__);
    ipu_status status = write_image(exe, &image);
    if (status == IPU_OK) status = ipu__file_write(path, image.at, image.n);
    ipu__text_fini(&image);
    return status;
}

/* Saving: packing, external data, files as they were read, and new values for their initializers and metadata.
 *
 * Data that are to be written elsewhere than they lie are put into the message for as long as it is packed;
 * `swaps` holds what was there before.
 */
#include "onnx/export/save.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/host/file.h"
#include "base/text.h"
#include "onnx/borrow.h"
#include "onnx/tensor.h"

/* What protobuf can hold in one message; tensors from LEAST_EXTERNAL bytes on go to a file beside it, where they
 * begin at multiples of ALIGN, so that it can be mapped. */
enum { LEAST_EXTERNAL = 1024, ALIGN = 4096 };
static const size_t most_bytes = INT32_MAX;

ipu_status ipu__onnx_pack(const Ipu__ModelProto *proto, void **out, size_t *bytes)
{
    *out   = NULL;
    *bytes = ipu__model_proto__get_packed_size(proto);
    if (*bytes > most_bytes)
        return ipu__fail(
            IPU_UNSUPPORTED,
            "the model takes %zu bytes; one message holds 2 GiB: write it to a file, with external data",
            *bytes);
    *out = ipu__alloc(*bytes);
    if (!*out) return ipu__fail_memory();
    ipu__model_proto__pack(proto, *out);
    return IPU_OK;
}

/* ---- data that are put elsewhere ---- */

typedef struct swap {
    Ipu__TensorProto *tensor, before;
    ipu_array         data; /* read from an external file */
} swap;

typedef struct saving {
    const char      *folder; /* of external data that the message refers to; NULL: none */
    ipu__arena       arena;
    ipu__tensor_list tensors;
    IPU__ARRAY(swap) swaps;
} saving;

/* The message without the tensor's data, which the caller puts in another way. */
static void clear_data(Ipu__TensorProto *t)
{
    t->n_float_data = t->n_int32_data = t->n_int64_data = t->n_double_data = t->n_uint64_data = 0;
    t->float_data                                                                             = NULL;
    t->int32_data                                                                             = NULL;
    t->int64_data                                                                             = NULL;
    t->double_data                                                                            = NULL;
    t->uint64_data                                                                            = NULL;
    t->n_external_data                                                                        = 0;
    t->external_data                                                                          = NULL;
    t->has_raw_data = t->has_data_location = false;
    t->data_location                       = IPU__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
    t->raw_data                            = (ProtobufCBinaryData){0};
}

static ipu_status swap_out(saving *s, Ipu__TensorProto *t)
{
    if (!ipu__push(&s->swaps, (swap){t, *t, {0}})) return ipu__fail_memory();
    clear_data(t);
    return IPU_OK;
}

static void restore(saving *s)
{
    for (size_t i = s->swaps.n; i-- > 0;) {
        *s->swaps.at[i].tensor = s->swaps.at[i].before;
        ipu_array_free(&s->swaps.at[i].data);
    }
    ipu__array_fini(&s->swaps);
    ipu__array_fini(&s->tensors);
    ipu__arena_fini(&s->arena);
}

/* Data that lie in the folder of the old file go into the message. */
static ipu_status bring_in(saving *s)
{
    for (size_t i = 0; i < s->tensors.n; i++) {
        Ipu__TensorProto *t = s->tensors.at[i];
        ipu_array         a;
        if (!ipu__tensor_is_external(t)) continue;
        IPU_TRY(ipu__tensor_array(t, s->folder, &a));
        ipu_status status = swap_out(s, t);
        if (status != IPU_OK) {
            ipu_array_free(&a);
            return status;
        }
        s->swaps.at[s->swaps.n - 1].data = a;
        t->has_raw_data                  = true;
        t->raw_data                      = (ProtobufCBinaryData){ipu_array_bytes(&a), a.data};
    }
    return IPU_OK;
}

/* ---- external data ---- */

static Ipu__StringStringEntryProto *entry(saving *s, const char *key, const char *value)
{
    Ipu__StringStringEntryProto *e = ipu__arena_alloc(&s->arena, sizeof *e);
    if (!e) return NULL;
    ipu__string_string_entry_proto__init(e);
    e->key   = ipu__arena_strdup(&s->arena, key);
    e->value = ipu__arena_strdup(&s->arena, value);
    return e->key && e->value ? e : NULL;
}

static ipu_status refer(saving *s, Ipu__TensorProto *t, const char *location, size_t at, size_t bytes)
{
    char offset[32], length[32];
    snprintf(offset, sizeof offset, "%zu", at);
    snprintf(length, sizeof length, "%zu", bytes);
    IPU_TRY(swap_out(s, t));
    Ipu__StringStringEntryProto **list = ipu__arena_alloc(&s->arena, 3 * sizeof *list);
    if (!list) return ipu__fail_memory();
    list[0] = entry(s, "location", location);
    list[1] = entry(s, "offset", offset);
    list[2] = entry(s, "length", length);
    if (!list[0] || !list[1] || !list[2]) return ipu__fail_memory();
    t->external_data     = list;
    t->n_external_data   = 3;
    t->has_data_location = true;
    t->data_location     = IPU__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    return IPU_OK;
}

/* Only raw data: what lists hold is small, or of a file that some other tool wrote so. */
static ipu_status put_outside(saving *s, const char *path)
{
    static const char zeros[ALIGN];
    IPU__ARRAY(ipu__file_piece) pieces = {0};
    size_t     at                      = 0;
    ipu_status status                  = IPU_OK;
    ipu__text  file                    = {0};
    ipu__text_add(&file, "%s.data", path);
    const char *location = !file.at ? "" : strrchr(file.at, '/') ? strrchr(file.at, '/') + 1 : file.at;
    for (size_t i = 0; i < s->tensors.n && status == IPU_OK; i++) {
        Ipu__TensorProto   *t = s->tensors.at[i];
        ProtobufCBinaryData d = t->raw_data;
        if (!t->has_raw_data || d.len < LEAST_EXTERNAL) continue;
        size_t gap = (ALIGN - at % ALIGN) % ALIGN;
        status     = refer(s, t, location, at + gap, d.len);
        bool ok    = ipu__push(&pieces, (ipu__file_piece){zeros, gap})
               && ipu__push(&pieces, (ipu__file_piece){d.data, d.len});
        if (!ok) status = ipu__fail_memory();
        at += gap + d.len;
    }
    if (file.failed) status = ipu__fail_memory();
    if (status == IPU_OK && pieces.n > 0) status = ipu__file_write_pieces(file.at, pieces.at, pieces.n);
    ipu__array_fini(&pieces);
    ipu__text_fini(&file);
    return status;
}

static ipu_status save(saving *s, Ipu__ModelProto *proto, const char *path, bool external)
{
    void  *data;
    size_t bytes;
    if (!ipu__tensors_of(proto, &s->tensors)) return ipu__fail_memory();
    IPU_TRY(bring_in(s));
    if (external || ipu__model_proto__get_packed_size(proto) > most_bytes) IPU_TRY(put_outside(s, path));
    IPU_TRY(ipu__onnx_pack(proto, &data, &bytes));
    ipu_status status = ipu__file_write(path, data, bytes);
    ipu__free(data);
    return status;
}

static ipu_status save_from(Ipu__ModelProto *proto, const char *folder, const char *path, bool external)
{
    saving     s      = {.folder = folder};
    ipu_status status = save(&s, proto, path, external);
    restore(&s);
    return status;
}

ipu_status ipu__onnx_save(Ipu__ModelProto *proto, const char *path, bool external)
{
    return save_from(proto, NULL, path, external);
}

/* ---- files that were read ---- */

ipu_status ipu_onnx_save(ipu_onnx *file, const char *path)
{
    return save_from(file->proto, file->folder, path, false);
}

static Ipu__TensorProto *find_initializer(const ipu_onnx *file, const char *name)
{
    const Ipu__GraphProto *g = file->proto->graph;
    for (size_t i = 0; i < g->n_initializer; i++)
        if (strcmp(ipu__or_empty(g->initializer[i]->name), name) == 0) return g->initializer[i];
    return NULL;
}

/* The message owns what it holds: its lists go as protobuf-c would free them. */
static void free_data(const ipu_onnx *file, Ipu__TensorProto *t)
{
    if (ipu__onnx_is_borrowed(file, t)) t->raw_data.data = NULL;
    ipu__free(t->float_data);
    ipu__free(t->int32_data);
    ipu__free(t->int64_data);
    ipu__free(t->double_data);
    ipu__free(t->uint64_data);
    ipu__free(t->raw_data.data);
    for (size_t i = 0; i < t->n_external_data; i++)
        ipu__string_string_entry_proto__free_unpacked(t->external_data[i], &ipu__onnx_allocator);
    ipu__free(t->external_data);
    clear_data(t);
}

ipu_status ipu_onnx_set_initializer(ipu_onnx *file, const char *name, const ipu_array *a)
{
    Ipu__TensorProto *t = find_initializer(file, name);
    ipu_shape         shape;
    if (!t)
        return ipu__fail(IPU_NOT_FOUND, "%s: it has no initializer \"%s\" among its %zu", file->name, name,
                         file->proto->graph->n_initializer);
    IPU_TRY(ipu__tensor_shape(t, &shape));
    ipu_type type    = ipu__onnx_type(t->data_type);
    bool     is_same = type == a->type && shape.rank == a->shape.rank;
    for (int d = 0; is_same && d < shape.rank; d++) is_same = shape.dim[d] == a->shape.dim[d];
    char expected[200], found[200];
    if (!is_same)
        return ipu__fail(IPU_INVALID, "%s: initializer \"%s\" is %s%s; it cannot take %s%s", file->name, name,
                         ipu__onnx_type_name(t->data_type),
                         ipu__onnx_shape_text(&shape, expected, sizeof expected), ipu_type_name(a->type),
                         ipu__onnx_shape_text(&a->shape, found, sizeof found));
    size_t bytes = ipu_array_bytes(a);
    void  *own   = ipu__alloc(bytes);
    if (!own) return ipu__fail_memory();
    if (bytes) memcpy(own, a->data, bytes);
    free_data(file, t);
    t->has_raw_data = true;
    t->raw_data     = (ProtobufCBinaryData){bytes, own};
    file->has_hash  = false;
    return IPU_OK;
}

/* ---- metadata ---- */

/* A new entry at the end, of which the key is set; NULL: out of memory. */
static Ipu__StringStringEntryProto *add_entry(Ipu__ModelProto *proto, const char *key)
{
    size_t                        n     = proto->n_metadata_props;
    Ipu__StringStringEntryProto  *e     = ipu__alloc(sizeof *e);
    char                         *copy  = ipu__strdup(key);
    Ipu__StringStringEntryProto **grown = ipu__alloc((n + 1) * sizeof(Ipu__StringStringEntryProto *));
    if (!e || !copy || !grown) {
        ipu__free(e);
        ipu__free(copy);
        ipu__free(grown);
        return NULL;
    }
    if (n) memcpy(grown, proto->metadata_props, n * sizeof(Ipu__StringStringEntryProto *));
    ipu__string_string_entry_proto__init(e);
    e->key   = copy;
    grown[n] = e;
    ipu__free(proto->metadata_props);
    proto->metadata_props   = grown;
    proto->n_metadata_props = n + 1;
    return e;
}

ipu_status ipu_onnx_set_metadata(ipu_onnx *file, const char *key, const char *value)
{
    Ipu__ModelProto             *proto = file->proto;
    Ipu__StringStringEntryProto *e     = NULL;
    char                        *copy  = ipu__strdup(value);
    if (!copy) return ipu__fail_memory();
    for (size_t i = 0; i < proto->n_metadata_props && !e; i++)
        if (strcmp(ipu__or_empty(proto->metadata_props[i]->key), key) == 0) e = proto->metadata_props[i];
    if (!e) e = add_entry(proto, key);
    if (!e) {
        ipu__free(copy);
        return ipu__fail_memory();
    }
    if (e->value != protobuf_c_empty_string) ipu__free(e->value);
    e->value = copy;
    return IPU_OK;
}
